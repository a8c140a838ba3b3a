//! Passwords and tokens in calls of the runner `auth`. Events and the job cache have many readers, so they show none.

use exec::Call;
use value::{Map, Value};

/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// The fields that are no secrets.
const OPEN: [&str; 6] = ["username", "eauth", "name", "start", "expire", "token_expire"];

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

/// Returns the result as events show it.
pub fn shown_return(fun: &str, ret: &Value) -> Value {
    let mut shown = ret.clone();
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
    fn only_the_runner_auth_has_secrets() {
        let call = Call { args: vec!["a".into()], kwargs: map! { "username" => "fred", "password" => "pw" } };
        let hidden = map! { "username" => "fred", "password" => HIDDEN };
        assert_eq!(Value::from(shown_args("auth.mk_token", &call)), list![HIDDEN, hidden]);
        assert_eq!(Value::from(shown_args("test.arg", &call)), list!["a", call.kwargs.clone()]);
        let made = map! { "name" => "fred", "expire" => 1.5, "token" => "abc" };
        let hidden = map! { "name" => "fred", "expire" => 1.5, "token" => HIDDEN };
        assert_eq!(shown_return("auth.mk_token", &made.clone().into()), hidden.into());
        assert_eq!(shown_return("test.arg", &made.clone().into()), made.into());
        assert_eq!(shown_return("auth.del_token", &true.into()), true.into());
    }
}
