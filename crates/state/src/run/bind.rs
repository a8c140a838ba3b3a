//! Converts a low chunk to the arguments of its function.

use exec::{Bound, Function, Registry};
use value::{Map, Value};

use crate::keywords::{self, is_internal};
use crate::low::full_name;

/// Returns the errors of a chunk. Also moves `umask` to the number `__umask__`.
pub fn verify(low: &mut Map, states: &Registry) -> Vec<String> {
    let mut errors = Vec::new();
    for key in ["state", "fun", "name"] {
        if !low.contains_key(key) {
            errors.push(format!("Missing \"{key}\" data"));
        }
    }
    if let Some(name) = low.get("name").filter(|name| name.truthy() && name.as_str().is_none()) {
        let file = low.get("__sls__").map(|sls| format!("in SLS '{sls}' ")).unwrap_or_default();
        errors.push(format!("ID '{name}' {file}is not formed as a string, but is a {}", name.type_name()));
    }
    if let Some(umask) = low.remove("umask") {
        match octal(&umask) {
            Some(mask) => drop(low.insert("__umask__", mask)),
            None => errors.push(format!("Invalid umask: {umask}")),
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    let full = full_name(low);
    match states.find_permitted(&full) {
        Ok(function) => {
            let needed = function.params.iter().filter(|param| param.default.is_none() && !param.keyword_only);
            let missing = needed.filter(|param| !low.contains_key(param.name));
            missing.map(|param| format!("Missing parameter {} for state {full}", param.name)).collect()
        }
        Err(reason) => match low.get("__sls__") {
            Some(sls) => {
                vec![format!("State '{full}' was not found in SLS '{sls}'"), format!("Reason: {}", reason.0)]
            }
            None => vec![format!("Specified state '{full}' was not found")],
        },
    }
}

fn octal(umask: &Value) -> Option<i64> {
    let text = umask.to_string();
    // SLS files give the digits as text or as a number: Salt's YAML reads both 22 and 022 as the number 22. The digits
    // are always octal.
    let digits = text.trim();
    let digits = digits.strip_prefix("0o").or_else(|| digits.strip_prefix("0O")).unwrap_or(digits);
    i64::from_str_radix(digits, 8).ok().filter(|mask| (0..=0o777).contains(mask))
}

/// Returns the arguments for the function of a chunk.
///
/// # Errors
/// The message about arguments that the function does not accept.
pub fn arguments(function: &Function, full: &str, low: &Map) -> Result<Bound, String> {
    let mut bound = Bound::default();
    for param in function.params {
        let value = low.get(param.name).cloned().or_else(|| param.default.map(|make| make()));
        bound.values.push_back(value.unwrap_or_default());
    }
    // Parameters of the function are passed even if the engine interprets them too, such as `saltenv`.
    let is_param = |key: &str| function.params.iter().any(|param| param.name == key);
    let rest = low.iter().filter(|(key, _)| !key.as_str().is_some_and(|key| is_param(key) || is_internal(key)));
    if function.kwargs.is_some() {
        bound.kwargs = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
        return Ok(bound);
    }
    let extra: Vec<String> = rest.map(|(key, _)| format!("'{key}'")).collect();
    match extra.as_slice() {
        [] => Ok(bound),
        [one] => Err(format!("{one} is an invalid keyword argument for '{full}'")),
        [first @ .., last] => {
            Err(format!("{} and {last} are invalid keyword arguments for '{full}'", first.join(", ")))
        }
    }
}

/// State modules whose other arguments are data, under any name.
const OF_ANY_NAME: [&str; 4] = ["beacon", "event", "http", "module"];

/// Returns the arguments of a chunk that are probably misspelt, each with the argument that was probably meant. A function that
/// takes any keyword runs with them, as in Salt; the author should learn that they have no effect.
pub fn misspelt<'a>(function: &Function, low: &'a Map) -> Vec<(&'a str, &'static str)> {
    /// Shorter names are like too many others.
    const SHORTEST: usize = 4;
    if function.kwargs.is_none() || low.get_str("state").is_some_and(|state| OF_ANY_NAME.contains(&state)) {
        return Vec::new();
    }
    let own = || function.params.iter().map(|param| param.name);
    let unknown = low.text_keys().filter(|key| {
        key.len() >= SHORTEST && !key.starts_with("__") && !is_internal(key) && own().all(|name| name != *key)
    });
    let near =
        |key| value::near::nearest(key, own().chain(keywords::public()).filter(|name| name.len() >= SHORTEST - 1));
    unknown.filter_map(|key| Some((key, near(key)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::{Module, Param};
    use value::map;

    static PLAIN: Function = Function {
        name: "plain",
        doc: "",
        params: &[
            Param { name: "name", default: None, keyword_only: false },
            Param { name: "needed", default: None, keyword_only: false },
            Param { name: "mode", default: Some(|| Value::Int(7)), keyword_only: false },
        ],
        varargs: None,
        kwargs: None,
        out: None,
        body: exec::Body::Plain(|_, _| Ok(Value::Null)),
    };
    static MODULE: Module = Module::new("mod", "", &[&PLAIN]);

    fn states() -> Registry {
        Registry::new(&[&MODULE], &Map::new())
    }

    #[test]
    fn chunks_are_verified() {
        let errors = |mut low: Map| verify(&mut low, &states());
        let whole = map! { "state" => "mod", "fun" => "plain", "name" => "a", "needed" => 1, "__sls__" => "web" };
        assert!(errors(whole.clone()).is_empty());
        let with = |key: &str, value: Value| {
            let mut low = whole.clone();
            low.insert(key, value);
            errors(low)
        };
        assert_eq!(with("name", 5.into()), ["ID '5' in SLS 'web' is not formed as a string, but is a int"]);
        assert_eq!(with("umask", "9".into()), ["Invalid umask: 9"]);
        let missing = "State 'mod.other' was not found in SLS 'web'";
        assert_eq!(with("fun", "other".into()), [missing, "Reason: 'mod.other' is not available."]);
        let short = map! { "state" => "mod", "fun" => "plain", "name" => "a" };
        assert_eq!(errors(short), ["Missing parameter needed for state mod.plain"]);
        assert_eq!(errors(map! { "name" => "a" }), ["Missing \"state\" data", "Missing \"fun\" data"]);
        let mut low = map! { "state" => "mod", "fun" => "plain", "name" => "a", "needed" => 1, "umask" => 22 };
        assert!(verify(&mut low, &states()).is_empty());
        assert_eq!(low.get("__umask__"), Some(&18.into()));
    }

    #[test]
    fn misspelt_arguments_of_functions_that_take_any_are_found() {
        static ANY: Function = Function { kwargs: Some("kwargs"), ..PLAIN };
        let low = map! {
            "state" => "mod", "fun" => "any", "__id__" => "a", "name" => "a", "neded" => 1, "requre" => 1, "require" => 1,
            "order" => 1, "colour" => 1, "mde" => 1,
        };
        assert_eq!(misspelt(&ANY, &low), [("neded", "needed"), ("requre", "require")]);
        assert!(misspelt(&PLAIN, &low).is_empty(), "such a function refuses them");
        let mut low = low;
        low.insert("state", "event");
        assert!(misspelt(&ANY, &low).is_empty(), "its arguments are the fields of an event");
    }

    #[test]
    fn arguments_the_function_does_not_take_are_named() {
        let low =
            map! { "state" => "mod", "fun" => "plain", "name" => "a", "needed" => 1, "order" => 3, "__id__" => "a" };
        let bound = arguments(&PLAIN, "mod.plain", &low).unwrap();
        assert_eq!(Vec::from(bound.values), [Value::from("a"), Value::Int(1), Value::Int(7)]);
        let mut more = low.clone();
        more.insert("x", 1);
        let text = arguments(&PLAIN, "mod.plain", &more).unwrap_err();
        assert_eq!(text, "'x' is an invalid keyword argument for 'mod.plain'");
        more.insert("y", 1);
        let text = arguments(&PLAIN, "mod.plain", &more).unwrap_err();
        assert_eq!(text, "'x' and 'y' are invalid keyword arguments for 'mod.plain'");
    }
}
