//! `defaults` — default values of formulas.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value};

use crate::util::merge_maps;

/// Registers the functions of `defaults`.
pub static MODULE: Module =
    Module::new("defaults", "Default values that formulas bring along.", &[&DEEPCOPY, &GET, &MERGE, &UPDATE]);

/// Returns a value of ``defaults.yaml`` or ``defaults.json`` in the directory of a formula; ``core:users:root`` is the value
/// under ``users:root`` of the formula ``core``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' defaults.get core:users:root
#[function]
fn get(ctx: &Context, key: String, #[default("")] default: Value) -> Result<Value> {
    let (formula, key) = match key.split_once(':') {
        Some((formula, key)) => (formula, Some(key).filter(|key| !key.is_empty())),
        None => (key.as_str(), None),
    };
    let defaults = load(ctx, formula)?;
    match key {
        Some(key) => Ok(defaults.traverse(key, ":").cloned().unwrap_or(default)),
        None => Ok(defaults),
    }
}

fn load(ctx: &Context, formula: &str) -> Result<Value> {
    let saltenv = ctx.opt_str("saltenv").unwrap_or("base");
    // The order is Salt's: a formula that has both files is read from the first.
    for kind in ["yaml", "json"] {
        let address = format!("salt://{formula}/defaults.{kind}");
        let Some(place) = crate::fileclient::cache(ctx, &address, saltenv)? else { continue };
        let text = std::fs::read_to_string(&place).map_err(|error| Error::io("read", &place, &error))?;
        let loaded = match kind {
            "yaml" => yaml::load(&text, &place.to_string_lossy()).map_err(|error| error.to_string()),
            _ => python::json::loads(&text),
        };
        let loaded = loaded.map_err(|why| Error::Other(format!("{address}: {why}")))?;
        // An empty file means no defaults, but the formula exists: the lookup continues in an empty map.
        return Ok(if loaded.truthy() { loaded } else { Map::new().into() });
    }
    Ok(Value::Null)
}

fn no_maps() -> Error {
    Error::Other("Cannot update using non-dict types in dictupdate.update()".into())
}

fn merged(dest: Value, src: Value, join_lists: bool) -> Result<Map> {
    let (Value::Map(mut dest), Value::Map(src)) = (dest, src) else { return Err(no_maps()) };
    merge_maps(&mut dest, src, join_lists);
    Ok(dest)
}

/// Merges one map over another and returns the result. In templates ``dest`` itself is changed, unless
/// ``in_place=False``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' defaults.merge '{a: b}' '{d: e}'
#[function]
fn merge(
    dest: Value,
    src: Value,
    #[default(false)] merge_lists: bool,
    #[default(true)] in_place: bool,
    #[default(true)] convert_none: bool,
) -> Result<Map> {
    let src = if src.is_null() && convert_none { Map::new().into() } else { src };
    if dest.is_null() && convert_none {
        if in_place {
            // In Python the caller's object is changed, and None cannot be.
            return Err(Error::Other("Can't perform in-place merge into NoneType".into()));
        }
        return merged(Map::new().into(), src, merge_lists);
    }
    merged(dest, src, merge_lists)
}

/// Returns a deep copy of a map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' defaults.deepcopy '{a: b}'
#[function]
fn deepcopy(source: Value) -> Result<Value> {
    Ok(source)
}

/// Merges each entry of a map over the same defaults. In templates ``dest`` itself is changed, unless
/// ``in_place=False``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' defaults.update '{a: {b: c}}' '{d: e}'
#[function]
fn update(
    dest: Value,
    defaults: Value,
    #[default(true)] merge_lists: bool,
    #[default(true)] in_place: bool,
    #[default(true)] convert_none: bool,
) -> Result<Map> {
    let nodes = match dest {
        Value::Map(nodes) => nodes,
        Value::Null if in_place => {
            return Err(Error::Other("Can't perform in-place update into NoneType".into()));
        }
        Value::Null if convert_none => Map::new(),
        other => {
            // Salt fails with Python's own message.
            let text = format!("'{}' object has no attribute 'items'", other.type_name());
            return Err(Error::Other(text));
        }
    };
    let defaults = if defaults.is_null() && convert_none { Map::new().into() } else { defaults };
    // Each node is merged over the defaults, not the other way round: the node takes precedence.
    let lay = |(name, vars): (Value, Value)| {
        let vars = if vars.is_null() && convert_none { Map::new().into() } else { vars };
        Ok((name, Value::Map(merged(defaults.clone(), vars, merge_lists)?)))
    };
    nodes.into_iter().map(lay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn maps_are_laid_over_each_other() {
        let (ctx, _) = exec::testing::context(&[&MODULE], map! {}, map! {}, map! {});
        let call = |name: &str, args: Value| {
            let (ctx, name) = (ctx.clone(), format!("defaults.{name}"));
            ctx.call(&name, args.into_list().unwrap()).map_err(|error| error.to_string())
        };
        let a = map! { "x" => map! { "y" => list![1] } };
        let merged = call("merge", list![a.clone(), map! { "x" => map! { "z" => 2 } }]).unwrap();
        assert_eq!(merged.to_string(), "{'x': {'y': [1], 'z': 2}}");
        assert_eq!(call("merge", list![a.clone(), Value::Null]).unwrap(), a.clone().into());
        let refused = call("merge", list![Value::Null, a.clone()]).unwrap_err();
        assert_eq!(refused, "Can't perform in-place merge into NoneType");
        let updated =
            call("update", list![map! { "n" => map! { "l" => list![2] } }, map! { "l" => list![1], "d" => 0 }]);
        assert_eq!(updated.unwrap().to_string(), "{'n': {'l': [1, 2], 'd': 0}}");
    }
}
