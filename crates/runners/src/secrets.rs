//! Passwords and tokens in calls of the runner `auth` and in options. Events and the job cache have many readers, so they show none.

use exec::Call;
use value::{Map, Value, map};

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// The fields that are no secrets.
const OPEN: [&str; 6] = ["username", "eauth", "name", "start", "expire", "token_expire"];

/// How the names of options end whose values are secrets.
const SECRET_ENDS: [&str; 19] = [
    "password",
    "passwords",
    "passphrase",
    "passwd",
    "_pass",
    ".pass",
    "bindpw",
    "secret",
    "secret_key",
    "api_key",
    "private_key",
    "_token",
    ".token",
    "credentials",
    "secrets",
    "secret_id",
    "account_key",
    "access_key",
    ".key",
];

/// Replaces the values of options that are secrets by their names, at any depth. Lists only at the top: below `publisher_acl` the
/// name is that of a user.
pub fn hide_options(options: &mut Map) {
    hide_named(options, |value| !matches!(value, Value::Map(_)));
}

fn hide_named(options: &mut Map, may_be_secret: impl Fn(&Value) -> bool) {
    let names: Vec<Value> = options.keys().cloned().collect();
    for name in names {
        let is_secret = name.as_str().is_some_and(is_secret);
        if let Some(value) = options.get_value_mut(&name) {
            match is_secret && may_be_secret(value) && !matches!(value, Value::Null | Value::Bool(_)) {
                true => *value = HIDDEN.into(),
                false => hide_within(value),
            }
        }
    }
}

fn hide_within(value: &mut Value) {
    match value {
        Value::Map(map) => hide_named(map, |value| !matches!(value, Value::Map(_) | Value::List(_))),
        Value::List(items) => items.iter_mut().for_each(hide_within),
        Value::Str(text) => {
            if let Some(shown) = without_login(text) {
                *text = shown;
            }
        }
        _ => {}
    }
}

/// Returns an address without the login in it: `https://fred:pw@git/x`.
fn without_login(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, host) = authority.rsplit_once('@')?;
    let user = login.split_once(':')?.0;
    Some(format!("{scheme}://{user}:{HIDDEN}@{host}{path}"))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["pass", "token"].contains(&name.as_str()) || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

fn concerns(fun: &str) -> bool {
    fun.starts_with("auth.")
}

/// Returns the arguments as events show them.
pub fn shown_args(fun: &str, call: &Call) -> Vec<Value> {
    let (mut args, mut kwargs) = (call.args.clone(), call.kwargs.clone());
    if concerns(fun) {
        args = args.iter().map(|_| HIDDEN.into()).collect();
        hide(&mut kwargs);
    }
    if !kwargs.is_empty() {
        args.push(kwargs.into());
    }
    args
}

/// Returns the name of the option that a call asks for, the last one of a path of names.
pub fn option(fun: &str, call: &Call) -> Option<String> {
    if fun != "config.get" {
        return None;
    }
    let path = call.kwargs.get("key").or_else(|| call.args.first())?.to_string();
    // Each call may name another delimiter.
    let name = path.rsplit(|character: char| !(character.is_alphanumeric() || "_.".contains(character))).next();
    Some(name.unwrap_or_default().to_owned())
}

/// Returns the result as events show it. `option` is the name of the option that it is the value of.
pub fn shown_return(fun: &str, option: Option<&str>, ret: &Value) -> Value {
    let mut shown = ret.clone();
    if let Some(name) = option {
        let mut options = map! {};
        options.insert(name, std::mem::take(&mut shown));
        hide_options(&mut options);
        return options.remove(name).unwrap_or_default();
    }
    if concerns(fun)
        && let Some(fields) = shown.as_map_mut()
    {
        hide(fields);
    }
    shown
}

fn hide(fields: &mut Map) {
    let names: Vec<Value> = fields.keys().cloned().collect();
    for name in names.into_iter().filter(|name| name.as_str().is_none_or(|name| !OPEN.contains(&name))) {
        fields.insert(name, HIDDEN);
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn options_that_are_secrets_are_hidden_at_any_depth() {
        let mut options = map! {
            "sharedsecret" => "s", "auth.ldap.bindpw" => "s", "mysql.pass" => "s", "GITFS_PASSWORD" => "s", "token_dir" => "/t",
            "token_expire" => 5, "cluster_secret" => "", "publisher_acl" => map! { "pass" => list!["test.*"] },
            "ext_pillar" => list![map! { "vault" => map! { "token" => "s", "url" => "u" } }], "gitfs_privkey" => "/k",
        };
        hide_options(&mut options);
        let hidden = map! {
            "sharedsecret" => HIDDEN, "auth.ldap.bindpw" => HIDDEN, "mysql.pass" => HIDDEN, "GITFS_PASSWORD" => HIDDEN,
            "token_dir" => "/t", "token_expire" => 5, "cluster_secret" => HIDDEN,
            "publisher_acl" => map! { "pass" => list!["test.*"] },
            "ext_pillar" => list![map! { "vault" => map! { "token" => HIDDEN, "url" => "u" } }], "gitfs_privkey" => "/k",
        };
        assert_eq!(options, hidden);
        let mut options = map! {
            "gitfs_passphrase" => "s", "s3.key" => "s", "mongo.password" => list!["s"], "vault" => map! { "secret_id" => "s" },
            "azurefs" => list![map! { "account_key" => "s" }],
            "gitfs_remotes" => list!["https://fred:s@git/x", "https://git/x", map! { "ssh://git@git/x" => list![] }],
        };
        hide_options(&mut options);
        let hidden = map! {
            "gitfs_passphrase" => HIDDEN, "s3.key" => HIDDEN, "mongo.password" => HIDDEN,
            "vault" => map! { "secret_id" => HIDDEN }, "azurefs" => list![map! { "account_key" => HIDDEN }],
            "gitfs_remotes" => list!["https://fred:(hidden)@git/x", "https://git/x", map! { "ssh://git@git/x" => list![] }],
        };
        assert_eq!(options, hidden);
    }

    #[test]
    fn only_the_runner_auth_has_secrets() {
        let call = Call { args: vec!["a".into()], kwargs: map! { "username" => "fred", "password" => "pw" } };
        let hidden = map! { "username" => "fred", "password" => HIDDEN };
        assert_eq!(Value::from(shown_args("auth.mk_token", &call)), list![HIDDEN, hidden]);
        assert_eq!(Value::from(shown_args("test.arg", &call)), list!["a", call.kwargs.clone()]);
        let made = map! { "name" => "fred", "expire" => 1.5, "token" => "abc" };
        let hidden = map! { "name" => "fred", "expire" => 1.5, "token" => HIDDEN };
        assert_eq!(shown_return("auth.mk_token", None, &made.clone().into()), hidden.into());
        assert_eq!(shown_return("test.arg", None, &made.clone().into()), made.into());
        assert_eq!(shown_return("auth.del_token", None, &true.into()), true.into());
    }

    #[test]
    fn the_value_of_an_option_that_is_a_secret_is_hidden() {
        let shown = |key: &str, value: Value| {
            let call = Call { args: vec![key.into()], kwargs: map! {} };
            shown_return("config.get", option("config.get", &call).as_deref(), &value)
        };
        assert_eq!(shown("sharedsecret", "s".into()), HIDDEN.into());
        assert_eq!(shown("cluster,password", "s".into()), HIDDEN.into());
        assert_eq!(
            shown("ext_pillar:vault", map! { "token" => "s", "url" => "u" }.into()),
            map! { "token" => HIDDEN, "url" => "u" }.into()
        );
        assert_eq!(shown("timeout", 5.into()), 5.into());
        let named = Call { args: vec![], kwargs: map! { "key" => "auth.ldap.bindpw" } };
        assert_eq!(shown_return("config.get", option("config.get", &named).as_deref(), &"s".into()), HIDDEN.into());
        assert_eq!(option("test.arg", &named), None);
    }
}
