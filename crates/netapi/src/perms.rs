//! What the entries of `external_auth` grant, as far as this program needs to know. The master decides about each command.

use targeting::acl::{Call, Form, call_allowed};
use value::{Map, Value};

use crate::sessions::Session;

/// Returns the permissions that a client shows: those under the name, those of `*`, and those of groups. Texts come first.
pub fn permissions(external_auth: &Map, session: &Session) -> Vec<Value> {
    let Some(entries) = external_auth.get(&session.backend).and_then(Value::as_map) else { return Vec::new() };
    let groups = session.groups.iter().map(|group| format!("{group}%"));
    let keys = [session.user.clone(), "*".to_owned()].into_iter().chain(groups);
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for entry in keys.filter_map(|key| entries.get(&key)?.as_list()).flatten() {
        match entry {
            Value::Str(text) => texts.push(text.clone()),
            other if !others.contains(other) => others.push(other.clone()),
            _ => {}
        }
    }
    texts.sort();
    texts.dedup();
    others.sort_by_key(value::python::repr);
    texts.into_iter().map(Value::from).chain(others).collect()
}

/// Returns whether a user may see the events of everybody: with `@events`, or with all functions on all minions.
pub fn sees_all_events(external_auth: &Map, session: &Session, permissive: bool) -> bool {
    has(external_auth, session, permissive, &["@events", ".*"])
}

/// Returns whether a user may read `/metrics`: with `@metrics`, or with all functions on all minions.
pub fn sees_metrics(external_auth: &Map, session: &Session, permissive: bool) -> bool {
    has(external_auth, session, permissive, &["@metrics", ".*"])
}

fn has(external_auth: &Map, session: &Session, permissive: bool, entries: &[&str]) -> bool {
    let Some(known) = external_auth.get(&session.backend).and_then(Value::as_map) else { return false };
    let granted = targeting::acl::entries_for(known, &session.user, &session.groups, permissive);
    granted.iter().filter_map(Value::as_str).any(|entry| entries.contains(&entry))
}

/// Returns whether a user may call the runner `auth.mk_token`, and so get a token over HTTP.
pub fn may_make_tokens(external_auth: &Map, session: &Session, permissive: bool) -> bool {
    may_call(external_auth, session, permissive, (Form::Runner, "auth.mk_token"))
}

/// Returns whether a user may call a runner or a wheel function with any arguments.
pub fn may_call(external_auth: &Map, session: &Session, permissive: bool, (form, function): (Form, &str)) -> bool {
    let Some(entries) = external_auth.get(&session.backend).and_then(Value::as_map) else { return false };
    let granted = targeting::acl::entries_for(entries, &session.user, &session.groups, permissive);
    let call = Call { form, function, arguments: &[], keywords: None };
    call_allowed(&granted, &call) == Ok(true)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use value::{list, map};

    use super::*;

    fn session(user: &str, groups: &[&str]) -> Session {
        Session {
            token: "t".into(),
            user: user.into(),
            backend: "auto".into(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            expire: SystemTime::UNIX_EPOCH,
        }
    }

    fn external_auth() -> Map {
        map! { "auto" => map! {
            "fred" => list![".*", "@wheel", "@runner", "@jobs", "@wheel"],
            "wilma" => list![map! { "min1" => list!["test.*"] }, map! { "@runner" => list!["jobs.list_jobs"] }, "test.ping"],
            "ann" => list!["@events"],
            "web%" => list!["test.version"],
            "*" => list!["test.ping"],
        } }
    }

    #[test]
    fn permissions_are_shown_sorted_and_once() {
        let granted = |user, groups: &[&str]| Value::List(permissions(&external_auth(), &session(user, groups)));
        assert_eq!(granted("fred", &[]), list![".*", "@jobs", "@runner", "@wheel", "test.ping"]);
        assert_eq!(granted("nobody", &["web"]), list!["test.ping", "test.version"]);
        let maps = list![map! { "@runner" => list!["jobs.list_jobs"] }, map! { "min1" => list!["test.*"] }];
        let mut expected = vec![Value::from("test.ping")];
        expected.extend(maps.into_list().unwrap());
        assert_eq!(granted("wilma", &[]), Value::List(expected));
        assert_eq!(permissions(&Map::new(), &session("fred", &[])), []);
    }

    #[test]
    fn few_users_see_all_events() {
        let sees = |user| sees_all_events(&external_auth(), &session(user, &[]), false);
        assert!(sees("fred") && sees("ann"));
        assert!(!sees("wilma") && !sees("nobody"));
        assert!(!sees_all_events(&Map::new(), &session("fred", &[]), false));
        let auth = map! { "auto" => map! { "prom" => list!["@metrics"], "ann" => list!["@events"] } };
        assert!(sees_metrics(&auth, &session("prom", &[]), false) && !sees_metrics(&auth, &session("ann", &[]), false));
    }

    #[test]
    fn tokens_are_made_for_users_of_the_runner() {
        let auth = map! { "auto" => map! {
            "fred" => list!["@runner"], "ann" => list!["@auth"], "bob" => list![map! { "@runner" => list!["auth.*"] }],
            "wilma" => list![".*", "@wheel", map! { "@runner" => list!["jobs.*"] }], "admins%" => list!["@runners"],
        } };
        let may = |user, groups: &[&str]| may_make_tokens(&auth, &session(user, groups), false);
        assert!(may("fred", &[]) && may("ann", &[]) && may("bob", &[]) && may("carl", &["admins"]));
        assert!(!may("wilma", &[]) && !may("carl", &[]));
        assert!(!may_make_tokens(&Map::new(), &session("fred", &[]), false));
    }
}
