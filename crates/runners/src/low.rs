//! Calls as they arrive over the network and from old programs.

use exec::Call;
use value::{Map, Value};

use crate::Function;

/// Entries of a request that are not arguments of the function.
const INTERNAL: [&str; 14] = [
    "arg",
    "client",
    "cmd",
    "eauth",
    "full_return",
    "fun",
    "key",
    "kwarg",
    "password",
    "print_event",
    "token",
    "user",
    "username",
    "ver",
];

/// Reads the arguments of a request (Salt's "low data").
///
/// `arg` holds arguments by place, where text such as `name=value` is one by name; `kwarg` holds those by name. Each
/// entry that is not part of the request itself is an argument by name, too, as old programs send them, if the function
/// takes one of that name.
pub fn call_from_low(function: &Function, low: &Map) -> Call {
    let mut call = Call::default();
    let (arg, kwarg) = match low.get("kwarg").and_then(Value::as_map) {
        // The form in which Salt's clients send a call: both inside of `kwarg`.
        Some(inner) if inner.len() == 2 && inner.contains_key("arg") && inner.contains_key("kwarg") => {
            (inner.get("arg"), inner.get("kwarg"))
        }
        _ => (low.get("arg"), low.get("kwarg")),
    };
    for item in arg.map(items).unwrap_or_default() {
        add(&mut call, item);
    }
    // A name the function does not take is dropped, not an error: requests carry entries that are meant for others.
    for (key, value) in low {
        let name = key.as_str().unwrap_or_default();
        let taken = function.kwargs.is_some() || function.params.iter().any(|param| param.name == name);
        if taken && !INTERNAL.contains(&name) && !name.starts_with("__") {
            call.kwargs.insert(key.clone(), value.clone());
        }
    }
    if let Some(Value::Map(named)) = kwarg {
        for (key, value) in named.iter().filter(|(key, _)| key.as_str() != Some("__kwarg__")) {
            call.kwargs.insert(key.clone(), value.clone());
        }
    }
    call
}

fn items(arg: &Value) -> Vec<Value> {
    match arg {
        Value::List(items) => items.clone(),
        Value::Null => Vec::new(),
        single => vec![single.clone()],
    }
}

fn add(call: &mut Call, item: Value) {
    match &item {
        Value::Str(text) => {
            // Salt's clients send `name=value` as text, as typed on the command line.
            let (by_place, by_name) = yaml::args::parse_input([text.as_str()], &[]);
            call.args.extend(by_place);
            call.kwargs.update(by_name);
        }
        Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
            let named = map.iter().filter(|(key, _)| key.as_str() != Some("__kwarg__"));
            call.kwargs.extend(named.map(|(key, value)| (key.clone(), value.clone())));
        }
        _ => call.args.push(item),
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::{Kind, TABLES};

    #[test]
    fn all_forms_of_a_request_are_read() {
        let accept = TABLES.find(Kind::Wheel, "key.accept").unwrap();
        let expected = Call { args: vec!["web1".into()], kwargs: map! { "include_rejected" => true } };
        for low in [
            map! { "fun" => "key.accept", "arg" => list!["web1", "include_rejected=True"], "key" => "secret" },
            map! { "fun" => "key.accept", "arg" => list!["web1"], "include_rejected" => true, "user" => "root" },
            map! { "fun" => "key.accept", "arg" => list!["web1"], "kwarg" => map! { "include_rejected" => true } },
            map! { "kwarg" => map! { "arg" => list!["web1"], "kwarg" => map! { "include_rejected" => true } } },
            map! { "arg" => list!["web1", map! { "__kwarg__" => true, "include_rejected" => true }] },
        ] {
            assert_eq!(call_from_low(accept, &low), expected, "{low:?}");
        }
        // `id` is not a parameter of `key.accept`.
        let old = call_from_low(accept, &map! { "fun" => "key.accept", "match" => "web1", "id" => "x" });
        assert_eq!(old.kwargs, map! { "match" => "web1" });
    }
}
