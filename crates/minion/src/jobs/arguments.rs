//! The arguments of a job, split for its function.

use exec::Call;
use value::{Map, Value};
use yaml::args::{parse_cli_arg, parse_kwarg};

/// Splits the `arg` list of a publication. Maps marked with `__kwarg__` hold keyword arguments, and each text of the form
/// `name=value` is one, too, with its value read as YAML. Every other text stays as it is.
///
/// What is not a keyword of the function is refused later, as in Salt: a text that looks like one never becomes a
/// positional argument.
pub fn split(arg: &[Value]) -> Call {
    let mut call = Call { args: Vec::with_capacity(arg.len()), kwargs: Map::new() };
    for item in arg {
        match item {
            Value::Map(map) if map.get("__kwarg__") == Some(&Value::Bool(true)) => {
                let named = map.iter().filter(|(key, _)| key.as_str() != Some("__kwarg__"));
                named.for_each(|(key, value)| drop(call.kwargs.insert(key.clone(), value.clone())));
            }
            // Salt removes the mark from a map that is marked as not being keywords.
            Value::Map(map) => {
                let mut plain = map.clone();
                plain.remove("__kwarg__");
                call.args.push(plain.into());
            }
            Value::Str(text) => match parse_kwarg(text) {
                Some((name, value)) => drop(call.kwargs.insert(name, parse_cli_arg(value))),
                None => call.args.push(item.clone()),
            },
            _ => call.args.push(item.clone()),
        }
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[track_caller]
    fn check(arg: Value, args: Value, kwargs: Map) {
        assert_eq!(split(arg.as_list().unwrap()), Call { args: args.into_list().unwrap(), kwargs }, "{arg}");
    }

    #[test]
    fn a_text_with_a_name_is_a_keyword_argument() {
        check(list!["id -un", "runas=nobody"], list!["id -un"], map! { "runas" => "nobody" });
        let typed = list!["a=5", "b=[1, x]", "c={d: 1}", "e=None", "f=", "g=True", "h=x=y", "i=k: v"];
        let read = map! {
            "a" => 5, "b" => list![1, "x"], "c" => map! { "d" => 1 }, "e" => (), "f" => "", "g" => true, "h" => "x=y",
            "i" => "k: v",
        };
        check(typed, list![], read);
    }

    #[test]
    fn every_other_text_stays_as_it_is() {
        let texts = list!["5", "[1]", "a==b", "2=3", "two words=1", "=x", "a=b\nc", "/a=b", "", "True", "{a: 1}"];
        check(texts.clone(), texts, map! {});
    }

    #[test]
    fn a_marked_map_holds_keyword_arguments() {
        let arg = list![1, map! { "__kwarg__" => true, "b" => "x=y" }, map! { "b" => 3 }];
        check(arg, list![1, map! { "b" => 3 }], map! { "b" => "x=y" });
        check(list![map! { "__kwarg__" => false, "b" => 2 }], list![map! { "b" => 2 }], map! {});
    }

    #[test]
    fn the_last_of_two_values_counts() {
        check(list!["a=1", map! { "__kwarg__" => true, "a" => 2 }, "a=3"], list![], map! { "a" => 3 });
    }
}
