//! `environ` — the environment of the minion.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value};

/// The module.
pub static MODULE: Module =
    Module::new("environ", "Functions that look at the environment of the minion.", &[&GET, &HAS_VALUE, &ITEM, &ITEMS]);

fn variable(name: &str) -> Option<Value> {
    std::env::var_os(name).map(|value| Value::from(value.to_string_lossy()))
}

fn name_of(key: &Value) -> Result<&str> {
    key.as_str().filter(|name| !name.is_empty()).ok_or_else(|| Error::invocation(format!("'{key}' is no name")))
}

/// Returns a variable, or the default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.get foo
///     salt '*' environ.get baz default=False
#[function]
fn get(key: Value, #[default("")] default: Value) -> Result<Value> {
    match name_of(&key) {
        Ok(name) => Ok(variable(name).unwrap_or(default)),
        Err(_) => Ok(Value::Bool(false)),
    }
}

/// Says whether a variable is set, or has a value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.has_value foo
#[function]
fn has_value(key: Value, #[default(Value::Null)] value: Value) -> Result<bool> {
    let Ok(name) = name_of(&key) else { return Ok(false) };
    Ok(variable(name).is_some_and(|found| value.is_null() || found == value))
}

/// Returns several variables.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.item foo
///     salt '*' environ.item '[foo, baz]' default=None
#[function]
fn item(keys: Value, #[default("")] default: Value) -> Result<Map> {
    let single = [keys];
    let names = single[0].as_list().unwrap_or(&single);
    let found = names.iter().filter_map(Value::as_str).filter(|name| !name.is_empty());
    Ok(found.map(|name| (name, variable(name).unwrap_or_else(|| default.clone()))).collect())
}

/// Returns all variables.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' environ.items
#[function]
fn items(ctx: &Context) -> Result<Map> {
    let _ = ctx;
    Ok(std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn variables_are_looked_up() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(get("PATH".into(), "".into()).unwrap(), path.as_str().into());
        assert_eq!(get("NO_SUCH_NAME".into(), 7.into()).unwrap(), 7.into());
        assert!(has_value("PATH".into(), Value::Null).unwrap());
        assert!(!has_value("PATH".into(), "x".into()).unwrap());
        let found = item(list!["PATH", "NO_SUCH_NAME"], "".into()).unwrap();
        assert_eq!(found, map! { "PATH" => path, "NO_SUCH_NAME" => "" });
    }
}
