//! The answer of `saltern.access`.

use config::Access;
use exec::{Error, Result};
use targeting::{Checker, expr_match};
use value::{Map, Value, map};

use super::warnings::{FunctionNames, warnings};
use super::{Call, LOCAL_USERS, User, explain};
use crate::context::failed;

/// Who is asked about, and what they want to call.
#[derive(Debug, Default)]
pub struct Question {
    /// `None` for the warnings alone.
    pub user: Option<User>,
    /// The backend, or [`LOCAL_USERS`]; `None` for all.
    pub eauth: Option<String>,
    /// `None` for the entries alone.
    pub call: Option<Call>,
}

/// Answers a question about the permissions of a master.
///
/// # Errors
/// When there is no such backend, or nobody can have the name.
pub fn report(access: &Access, question: &Question, known: &FunctionNames, checker: &Checker) -> Result<Map> {
    let parts = parts(access, question.eauth.as_deref())?;
    let mut answer = Map::new();
    if let Some(user) = &question.user {
        if !auth::is_name(&user.name) {
            return Err(Error::execution(format!("nobody can log in as {:?}", user.name)));
        }
        for (place, part) in &parts {
            let entries = match *place {
                LOCAL_USERS => normal(part),
                _ => auth::read_entries(part).0,
            };
            let mut explained = explain(&entries, user, question.call.as_ref(), access.permissive_acl, known, checker);
            if let Some(reason) = question.call.as_ref().and_then(|call| blacklisted(access, user, call)) {
                explained.update(map! { "granted" => false, "reason" => reason });
            }
            answer.insert(*place, explained);
        }
    }
    let mut found = Vec::new();
    for (place, part) in &parts {
        found.extend(warnings(place, part, known));
        if *place != LOCAL_USERS {
            let (_, oddities) = auth::read_entries(part);
            found.extend(oddities.into_iter().map(|oddity| format!("{place}: {oddity}")));
            found.extend(of_backend(access, place, part));
        }
    }
    if !found.is_empty() {
        answer.insert("warnings", found);
    }
    Ok(answer)
}

/// Returns the parts of the configuration that are asked about.
fn parts<'a>(access: &'a Access, eauth: Option<&str>) -> Result<Vec<(&'a str, &'a Map)>> {
    let mut parts = Vec::new();
    for (name, part) in &access.external_auth {
        let name = name.as_str().unwrap_or_default();
        let not_a_map = || failed(auth::Error::NotAMap(name.to_owned()));
        parts.push((name, part.as_map().ok_or_else(not_a_map)?));
    }
    if !access.publisher_acl.is_empty() {
        parts.push((LOCAL_USERS, &access.publisher_acl));
    }
    if let Some(eauth) = eauth {
        parts.retain(|(name, _)| *name == eauth);
        if parts.is_empty() {
            return Err(Error::execution(format!("{eauth} is neither in external_auth nor {LOCAL_USERS}")));
        }
    }
    Ok(parts)
}

/// Returns `publisher_acl` with a list for each user, as the master reads it.
fn normal(part: &Map) -> Map {
    let listed = |value: &Value| match value {
        Value::List(entries) => entries.clone(),
        Value::Null => Vec::new(),
        single => vec![single.clone()],
    };
    part.iter().map(|(user, entries)| (user.clone(), Value::List(listed(entries)))).collect()
}

/// Returns why nobody may call a function, or a user none.
fn blacklisted(access: &Access, user: &User, call: &Call) -> Option<String> {
    let hit = |list: &str, text: &str| {
        let entries = access.publisher_acl_blacklist.get(list).and_then(Value::as_list).unwrap_or_default();
        entries.iter().map(Value::to_string).find(|entry| expr_match(text, entry))
    };
    let by = |list: &str, entry: String| format!("publisher_acl_blacklist: '{entry}' in {list}");
    let user = hit("users", &user.name).map(|entry| by("users", entry));
    user.or_else(|| hit("modules", &call.function).map(|entry| by("modules", entry)))
}

/// Returns warnings about a backend as a whole.
fn of_backend(access: &Access, name: &str, part: &Map) -> Vec<String> {
    let mut found = Vec::new();
    if name == "auto" {
        found.push("auto: everybody can log in as anybody, with any password".to_owned());
    }
    if !auth::BACKENDS.contains(&name) {
        found.push(failed(auth::Error::Backend(name.to_owned())).to_string());
    }
    if access.permissive_acl && part.contains_key("*") {
        found.push(format!("{name}: with permissive_acl, '*' is for everybody; a master of Salt then ignores it"));
    }
    // The backend 'rest' sets the option for all of them, so the operator may not know of it.
    if access.keep_acl_in_token && !access.external_auth.contains_key("rest") {
        found.push(format!(
            "{name}: keep_acl_in_token keeps nothing for this backend, so tokens have the entries of the configuration; those \
             of a master of Salt grant nothing"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use targeting::acl::{Form, entries_for};
    use targeting::{MinionData, TargetType};
    use value::list;

    use super::*;

    /// Two minions without data.
    struct Two;

    impl MinionData for Two {
        fn accepted(&self) -> Vec<String> {
            vec!["db1".to_owned(), "web1".to_owned()]
        }

        fn cached(&self) -> Vec<String> {
            Vec::new()
        }

        fn grains(&self, _id: &str) -> Option<Arc<Map>> {
            None
        }

        fn pillar(&self, _id: &str) -> Option<Arc<Map>> {
            None
        }
    }

    fn access() -> Access {
        let options = map! {
            "external_auth" => map! {
                "auto" => map! {
                    "fred" => list![
                        "test.ping$", map! { "web*" => list!["pkg.*"] }, "@jobs",
                        map! { "*" => list![map! { "cmd.run" => map! { "args" => list!["id"] } }] },
                        map! { "@wheel" => list![map! { "key.accept" => map! { "args" => list!["web.*"] } }] },
                    ],
                    "ops%" => list!["service.*"],
                    "*" => list!["test.version"],
                },
            },
            "publisher_acl" => map! { "fred" => list!["test.*"] },
            "publisher_acl_blacklist" => map! { "modules" => list!["test.rand_sleep"], "users" => list!["eve"] },
        };
        config::Master::from_options(options).unwrap().access
    }

    fn ask(
        user: &str,
        groups: &[&str],
        form: Option<Form>,
        function: &str,
        arguments: Vec<Value>,
        tgt: &str,
    ) -> String {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let target = (tgt.into(), TargetType::Glob);
        let question = Question {
            user: Some(User { name: user.to_owned(), groups }),
            eauth: Some("auto".to_owned()),
            call: Some(Call { form, function: function.to_owned(), arguments, target }),
        };
        let nodegroups = Map::new();
        let checker = Checker::new(&Two, &nodegroups, true);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known = FunctionNames {
            functions: names(&["test.ping"]),
            runners: names(&["jobs.active"]),
            wheel: names(&["key.accept", "key.list"]),
        };
        let answer = report(&access(), &question, &known, &checker).unwrap();
        let explained = answer.get("auto").and_then(Value::as_map).unwrap();
        let text = |name| explained.get(name).unwrap().to_string();
        format!("{}: {}", text("granted"), text("reason"))
    }

    #[test]
    fn the_entry_that_decides_is_named() {
        let one = |argument: &str| vec![argument.into()];
        for (function, arguments, tgt, expected) in [
            ("test.ping", vec![], "*", "True: granted by the entry 'test.ping$' of 'fred'"),
            ("pkg.install", vec![], "web*", "True: granted by the entry {'web*': ['pkg.*']} of 'fred'"),
            (
                "pkg.install",
                vec![],
                "*",
                "False: the entry {'web*': ['pkg.*']} of 'fred' does not cover all minions of the target; the entries of '*' \
                 are only for users without a key of their own (permissive_acl)",
            ),
            (
                "pkg.install",
                vec![],
                "mail*",
                "True: granted by the entry {'web*': ['pkg.*']} of 'fred'; the target means no accepted minion",
            ),
            ("saltutil.find_job", vec![], "*", "True: saltutil.find_job is free for everybody who has logged in"),
            ("test.rand_sleep", vec![], "*", "False: publisher_acl_blacklist: 'test.rand_sleep' in modules"),
        ] {
            assert_eq!(ask("fred", &[], None, function, arguments, tgt), expected);
        }
        assert!(
            ask("fred", &[], None, "cmd.run", one("id"), "*")
                .starts_with("True: granted by the entry {'*': [{'cmd.run'")
        );
        assert!(ask("fred", &[], None, "cmd.run", one("rm"), "*").contains("of 'fred' demands other arguments"));
        assert!(
            ask("fred", &[], None, "service.restart", vec![], "*")
                .starts_with("False: no entry grants service.restart")
        );
        let granted = "True: granted by the entry 'service.*' of 'ops%'";
        assert_eq!(ask("fred", &["ops"], None, "service.restart", vec![], "*"), granted);
        assert_eq!(
            ask("ann", &[], None, "test.version", vec![], "*"),
            "True: granted by the entry 'test.version' of '*'"
        );
        assert_eq!(
            ask("eve", &[], None, "test.version", vec![], "*"),
            "False: publisher_acl_blacklist: 'eve' in users"
        );
    }

    #[test]
    fn runners_and_wheel_functions_are_judged_as_such() {
        let (runner, wheel) = (Some(Form::Runner), Some(Form::Wheel));
        let ask = |form, function, arguments| ask("fred", &[], form, function, arguments, "*");
        assert_eq!(ask(runner, "jobs.active", vec![]), "True: granted by the entry '@jobs' of 'fred'");
        assert!(ask(runner, "test.ping", vec![]).starts_with("False: no entry grants test.ping"));
        assert!(ask(wheel, "key.accept", vec!["web1".into()]).starts_with("True"));
        assert!(ask(wheel, "key.accept", vec!["*".into()]).contains("of 'fred' demands other arguments"));
        assert!(ask(wheel, "key", vec![]).contains("module.function"));
    }

    #[test]
    fn a_call_without_a_client_may_be_one_of_the_master() {
        let ask = |function, arguments| ask("fred", &[], None, function, arguments, "*");
        let runner = "False: no entry grants jobs.active; as a runner function it is granted (client=runner)";
        assert!(ask("jobs.active", vec![]).starts_with(runner));
        assert!(ask("key.accept", vec!["web1".into()]).contains("; as a wheel function it is granted (client=wheel)"));
        for (function, arguments) in [
            ("key.accept", vec!["*".into()]),
            ("key.list", vec![]),
            ("jobs.actve", vec![]),
            ("service.restart", vec![]),
        ] {
            let said = ask(function, arguments);
            assert!(said.starts_with("False") && !said.contains("client="), "{said}");
        }
        assert!(!ask("test.ping", vec![]).contains("client="));
    }

    /// The backend 'rest' needs the option, so reading the options sets it.
    #[test]
    fn nobody_is_warned_of_an_option_that_they_have_not_set() {
        let options = map! {
            "external_auth" => map! { "rest" => map! { "^url" => "https://auth/" }, "file" => map! {} },
            "keep_acl_in_token" => true,
        };
        let access = config::Master::from_options(options).unwrap().access;
        let nodegroups = Map::new();
        let checker = Checker::new(&Two, &nodegroups, true);
        let answer = report(&access, &Question::default(), &FunctionNames::default(), &checker).unwrap();
        assert_eq!(answer.get("warnings"), None);
    }

    #[test]
    fn a_question_without_a_user_has_the_warnings() {
        let options = map! {
            "external_auth" => map! {
                "auto" => map! { "w" => "test.ping", "*" => list![] }, "ldap" => map! {}, "yubico" => map! {},
                "file" => map! { "x" => list![""] },
            },
            "permissive_acl" => true, "keep_acl_in_token" => true,
        };
        let access = config::Master::from_options(options).unwrap().access;
        let nodegroups = Map::new();
        let checker = Checker::new(&Two, &nodegroups, true);
        let answer = report(&access, &Question::default(), &FunctionNames::default(), &checker).unwrap();
        let found = answer.get("warnings").unwrap().to_string();
        for part in [
            "auto: the entries of 'w' are a text and not a list",
            "auto: everybody can log in as anybody",
            "auto: with permissive_acl, '*' is for everybody",
            "the backend 'yubico' is not supported",
            "file: an entry of 'x' grants nothing",
            "file: keep_acl_in_token keeps nothing",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("backend 'ldap'"), "{found}");
        assert_eq!(answer.len(), 1);
        for (eauth, user) in [("pam", "fred"), ("auto", "f*")] {
            let user = Some(User { name: user.to_owned(), groups: Vec::new() });
            let question = Question { eauth: Some(eauth.to_owned()), user, call: None };
            assert!(report(&access, &question, &FunctionNames::default(), &checker).is_err(), "{eauth}");
        }
    }

    /// The keys that are shown are those that the master takes.
    #[test]
    fn keys_are_those_of_the_master() {
        let part = map! {
            "fred" => list!["a"], "fr*" => list!["b"], "ann" => list!["c"], "ops%" => list!["d"], "%" => list!["e"],
            "*" => list!["f"], "empty" => list![],
        };
        for name in ["fred", "frank", "ann", "bob", "empty"] {
            for groups in [vec![], vec!["ops".to_owned()], vec![String::new()]] {
                for permissive in [false, true] {
                    let user = User { name: name.to_owned(), groups: groups.clone() };
                    let mut expected = entries_for(&part, name, &groups, permissive);
                    let keys = super::super::keys_of(&part, &user, permissive).0;
                    let mut found: Vec<Value> = keys.iter().flat_map(|(_, entries)| entries.to_vec()).collect();
                    for list in [&mut expected, &mut found] {
                        list.sort_by_key(Value::to_string);
                    }
                    assert_eq!(found, expected, "{name} {groups:?} {permissive}");
                }
            }
        }
    }
}
