//! Binds the arguments of a call to the parameters of a function, with Python's rules and messages.

use value::{Map, Value};

use crate::function::{Bound, Function};
use crate::{Error, Result};

/// The arguments of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// In order.
    pub args: Vec<Value>,
    /// By name.
    pub kwargs: Map,
}

/// Binds a call to a function. `published` holds the fields of the job under `__pub_…` names and goes to functions
/// that take any keyword.
///
/// # Errors
/// [`Error::Invocation`] for unknown keywords, [`Error::Arguments`] for too many or missing
/// arguments, with Python's messages.
pub fn bind<C>(function: &Function<C>, call: Call, published: &Map) -> Result<Bound> {
    // A minion checks the keywords itself before it calls a function, so the message is Salt's and not Python's.
    let unknown: Vec<String> = unknown_keywords(function, &call).map(|(key, value)| format!("{key}={value}")).collect();
    if !unknown.is_empty() {
        let text = format!("The following keyword arguments are not valid: {}", unknown.join(", "));
        return Err(Error::Invocation(text));
    }
    fit(function, call, published)
}

/// Like [`bind`], for a call by another function, a template or a state. There Python itself checks the keywords.
///
/// # Errors
/// [`Error::Arguments`] for keywords the function does not know and for too many or missing arguments.
pub fn bind_within<C>(function: &Function<C>, call: Call) -> Result<Bound> {
    if let Some((key, _)) = unknown_keywords(function, &call).next() {
        let text = format!("{}() got an unexpected keyword argument '{key}'", function.name);
        return Err(Error::Arguments(text));
    }
    fit(function, call, &Map::new())
}

fn fit<C>(function: &Function<C>, call: Call, published: &Map) -> Result<Bound> {
    let Call { mut args, mut kwargs } = call;
    let varargs = take_surplus(function, &mut args)?;
    let mut values = std::collections::VecDeque::with_capacity(function.params.len());
    let mut missing = Vec::new();
    let mut given = args.into_iter();
    for param in function.params {
        let named = kwargs.remove(param.name);
        // A position is used up by the parameter that it fills, even if the parameter was also given by name: this is
        // Python's error below.
        let placed = if param.keyword_only { None } else { given.next() };
        let value = match (placed, named) {
            (Some(_), Some(_)) => {
                let text = format!("{}() got multiple values for argument '{}'", function.name, param.name);
                return Err(Error::Arguments(text));
            }
            (Some(value), None) | (None, Some(value)) => Some(value),
            (None, None) => param.default.map(|make| make()),
        };
        match value {
            Some(value) => values.push_back(value),
            None => missing.push(param.name),
        }
    }
    if !missing.is_empty() {
        return Err(Error::Arguments(missing_text(function.name, &missing)));
    }
    if function.kwargs.is_some() {
        // After binding, so that a field of the job can never fill a parameter; and last, so that the caller cannot
        // forge one.
        kwargs.extend(published.clone());
    }
    Ok(Bound { values, varargs, kwargs })
}

/// Returns the keywords of a call that a function does not take, except those that begin with `__`.
fn unknown_keywords<'a, C>(function: &'a Function<C>, call: &'a Call) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let named = call.kwargs.iter().filter(|_| function.kwargs.is_none());
    named
        .filter(|(key, _)| !function.params.iter().any(|param| key.as_str() == Some(param.name)))
        // The engine adds keys such as `__env__` to the arguments of any state.
        .filter(|(key, _)| !key.as_str().is_some_and(|key| key.starts_with("__")))
}

fn take_surplus<C>(function: &Function<C>, args: &mut Vec<Value>) -> Result<Vec<Value>> {
    let by_place: Vec<_> = function.params.iter().filter(|param| !param.keyword_only).collect();
    let room = by_place.len();
    if args.len() <= room {
        return Ok(Vec::new());
    }
    if function.varargs.is_some() {
        return Ok(args.split_off(room));
    }
    let required = by_place.iter().filter(|param| param.default.is_none()).count();
    // The wording, down to the plural, is CPython's: users and their scripts know these messages.
    let takes = if required == room { format!("{room}") } else { format!("from {required} to {room}") };
    let plural = if room == 1 && required == room { "" } else { "s" };
    let verb = if args.len() == 1 { "was" } else { "were" };
    let text = format!("{}() takes {takes} positional argument{plural} but {} {verb} given", function.name, args.len());
    Err(Error::Arguments(text))
}

fn missing_text(name: &str, missing: &[&str]) -> String {
    let quoted: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
    let names = match quoted.as_slice() {
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [rest @ .., last] => format!("{}, and {last}", rest.join(", ")),
        [] => String::new(),
    };
    let plural = if missing.len() == 1 { "" } else { "s" };
    format!("{name}() missing {} required positional argument{plural}: {names}", missing.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Function, Param};
    use value::{list, map};

    const TWO: Function = Function {
        name: "two",
        doc: "",
        params: &[
            Param { name: "a", default: None, keyword_only: false },
            Param { name: "b", default: Some(|| Value::Int(7)), keyword_only: false },
        ],
        varargs: None,
        kwargs: None,
        out: None,
        body: Body::Plain(|_, _| Ok(Value::Null)),
    };

    fn call(args: Value, kwargs: Map) -> Call {
        Call { args: args.into_list().unwrap(), kwargs }
    }

    #[test]
    fn positions_names_and_defaults_fill_the_parameters() {
        let bound = bind(&TWO, call(list![1], map! {}), &map! {}).unwrap();
        assert_eq!(bound.values, [Value::Int(1), Value::Int(7)]);
        let bound = bind(&TWO, call(list![], map! { "b" => 2, "a" => 1 }), &map! {}).unwrap();
        assert_eq!(bound.values, [Value::Int(1), Value::Int(2)]);
    }

    #[test]
    fn none_for_a_text_means_its_default() {
        let mut bound = bind(&TWO, call(list![(), ()], map! {}), &map! {}).unwrap();
        assert!(bound.take::<String>("a").is_err());
        assert_eq!(bound.take_text("b", || "base".into()).unwrap(), "base");
    }

    #[test]
    fn what_does_not_fit_is_refused_in_pythons_words() {
        let text = |args, kwargs| bind(&TWO, call(args, kwargs), &map! {}).unwrap_err().to_string();
        assert_eq!(text(list![], map! {}), "two() missing 1 required positional argument: 'a'");
        assert_eq!(text(list![1, 2, 3], map! {}), "two() takes from 1 to 2 positional arguments but 3 were given");
        const ONE: Function =
            Function { params: &[Param { name: "b", default: Some(|| Value::Null), keyword_only: false }], ..TWO };
        let refused = bind(&ONE, call(list![1, 2], map! {}), &map! {}).unwrap_err().to_string();
        assert_eq!(refused, "two() takes from 0 to 1 positional arguments but 2 were given");
        assert_eq!(text(list![1], map! { "a" => 1 }), "two() got multiple values for argument 'a'");
        assert_eq!(text(list![1], map! { "c" => 1 }), "The following keyword arguments are not valid: c=1");
    }

    #[test]
    fn a_call_from_within_is_refused_as_a_call_in_python() {
        let refused = bind_within(&TWO, call(list![1], map! { "b" => 2, "c" => 1, "d" => 1 })).unwrap_err();
        assert!(matches!(&refused, Error::Arguments(text) if text == "two() got an unexpected keyword argument 'c'"));
        assert!(bind_within(&TWO, call(list![1], map! { "__env__" => "base" })).is_ok());
        assert!(bind_within(&TWO, call(list![], map! {})).is_err());
    }

    #[test]
    fn a_parameter_behind_the_surplus_is_given_by_name_alone() {
        const REST: Function = Function {
            params: &[Param { name: "b", default: Some(|| Value::Null), keyword_only: true }],
            varargs: Some("args"),
            ..TWO
        };
        let bound = bind(&REST, call(list![1, 2], map! { "b" => 3 }), &map! {}).unwrap();
        assert_eq!((bound.values.into(), bound.varargs), (vec![Value::Int(3)], vec![Value::Int(1), Value::Int(2)]));
    }
}
