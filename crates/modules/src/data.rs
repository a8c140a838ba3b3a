//! `data` — a small store of values on this machine, kept in the minion's cache directory.

use std::path::PathBuf;

use exec::{Context, Error, Module, Result, function};
use tokio::sync::Mutex;
use value::{Map, Value};
use wire::msgpack::{self, Decode, Packing};

use crate::util;

/// Registers the functions of `data`.
pub static MODULE: Module = Module::new(
    "data",
    "A small store of values on this machine.",
    &[&CAS, &CLEAR, &DUMP, &GET, &HAS_KEY, &ITEMS, &KEYS, &LOAD, &POP, &UPDATE, &VALUES],
);

/// Serializes changes of the file.
static WRITING: Mutex<()> = Mutex::const_new(());

fn path(ctx: &Context) -> PathBuf {
    PathBuf::from(ctx.cachedir()).join("datastore")
}

/// Reads the store. A missing or broken store is empty, as in Salt; a broken one is logged.
pub fn read(ctx: &Context) -> Map {
    let path = path(ctx);
    match std::fs::read(&path) {
        Ok(bytes) => match msgpack::unpack(&bytes, Decode::Default) {
            Ok(Value::Map(map)) => map,
            // Something other than a map cannot be a store.
            Ok(_) => Map::new(),
            Err(error) => {
                tracing::error!("failed to read the data store {}: {error}", path.display());
                Map::new()
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
        Err(error) => {
            tracing::error!("failed to read the data store {}: {error}", path.display());
            Map::new()
        }
    }
}

fn write(ctx: &Context, store: Map) -> Result<()> {
    let path = path(ctx);
    let failed = |error: std::io::Error| Error::io("write the data store", &path, &error);
    if let Some(folder) = path.parent() {
        store::disk::make_directories(folder).map_err(failed)?;
    }
    // The format and the place are Salt's, so both programs can read the same store.
    let bytes = msgpack::pack(&store.into(), Packing::Wire);
    util::replace_file(&path, &bytes, 0o600).map_err(failed)
}

/// Puts a value under a key.
///
/// # Errors
/// When the file cannot be written.
pub fn put(ctx: &Context, key: Value, value: Value) -> Result<()> {
    let _one_at_a_time = ctx.wait(WRITING.lock());
    let mut store = read(ctx);
    store.insert(key, value);
    write(ctx, store)
}

/// Returns the whole store.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.load
#[function]
fn load(ctx: &Context) -> Result<Map> {
    Ok(read(ctx))
}

/// Replaces the whole store.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.dump '{eggs: spam}'
#[function]
fn dump(ctx: &Context, new_data: Value) -> Result<bool> {
    let new = match new_data {
        Value::Map(map) => Some(map),
        // The command line hands a map over as text when its quoting hides the braces.
        Value::Str(text) => yaml::load(&text, yaml::UNNAMED).ok().and_then(Value::into_map),
        _ => None,
    };
    let Some(new) = new else { return Ok(false) };
    let _one_at_a_time = ctx.wait(WRITING.lock());
    write(ctx, new).map(|()| true)
}

/// Stores a value under a key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.update eggs 12
#[function]
fn update(ctx: &Context, key: Value, value: Value) -> Result<bool> {
    put(ctx, key, value).map(|()| true)
}

/// Deletes everything.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.clear
#[function]
fn clear(ctx: &Context) -> Result<bool> {
    let _one_at_a_time = ctx.wait(WRITING.lock());
    // Clearing an empty store succeeds.
    match std::fs::remove_file(path(ctx)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove the data store", path(ctx), &error))
        }
        _ => Ok(true),
    }
}

/// Stores a value under a key if the current value is the expected one, and returns whether it was.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.cas eggs 13 12
#[function]
fn cas(ctx: &Context, key: Value, value: Value, old_value: Value) -> Result<bool> {
    let _one_at_a_time = ctx.wait(WRITING.lock());
    let mut store = read(ctx);
    match store.get_value(&key) {
        // Python's equality: the number 1 on the command line equals a stored 1.0 or True.
        Some(found) if value::python::equal(found, &old_value) => {
            store.insert(key, value);
            write(ctx, store).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// Removes a value and returns it, or the default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.pop eggs default=0
#[function]
fn pop(ctx: &Context, key: Value, default: Option<Value>) -> Result<Value> {
    let _one_at_a_time = ctx.wait(WRITING.lock());
    let mut store = read(ctx);
    let found = store.remove_value(&key);
    write(ctx, store)?;
    Ok(found.or(default).unwrap_or_default())
}

/// Returns a value, or the default. For a list of keys, returns the existing values, or each with the default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.get eggs
///     salt '*' data.get '[eggs, spam]'
#[function]
fn get(ctx: &Context, key: Value, default: Option<Value>) -> Result<Value> {
    let store = read(ctx);
    match key {
        Value::List(keys) => {
            // A missing key without a default is left out, so the result can be shorter than the list.
            let found = keys.iter().filter_map(|key| store.get_value(key).or(default.as_ref()));
            Ok(found.cloned().collect())
        }
        key => Ok(store.get_value(&key).cloned().or(default).unwrap_or_default()),
    }
}

/// Returns whether there is a value under the key.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.has_key eggs
#[function]
fn has_key(ctx: &Context, key: Value) -> Result<bool> {
    Ok(read(ctx).get_value(&key).is_some())
}

/// Returns all keys.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.keys
#[function]
fn keys(ctx: &Context) -> Result<Vec<Value>> {
    Ok(read(ctx).keys().cloned().collect())
}

/// Returns all values.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.values
#[function]
fn values(ctx: &Context) -> Result<Vec<Value>> {
    Ok(read(ctx).values().cloned().collect())
}

/// Returns the whole store.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' data.items
#[function]
fn items(ctx: &Context) -> Result<Map> {
    Ok(read(ctx))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::{list, map};

    #[test]
    fn values_are_kept_changed_and_taken() {
        let dir = tempfile::tempdir().unwrap();
        let cachedir = dir.path().join("new");
        let (ctx, _) = context(&[&MODULE], map! { "cachedir" => cachedir.to_str().unwrap() }, map! {}, map! {});
        let call = |fun: &str, args: Value| ctx.call(&format!("data.{fun}"), args.into_list().unwrap()).unwrap();
        assert_eq!(call("load", list![]), map! {}.into());
        assert_eq!(call("update", list!["a", 1]), true.into());
        assert_eq!(call("cas", list!["a", 2, 5]), false.into());
        assert_eq!(call("cas", list!["a", 2, 1]), true.into());
        assert_eq!(call("get", list!["a"]), 2.into());
        assert_eq!(call("get", list![list!["a", "x"]]), list![2]);
        assert_eq!(call("get", list![list!["a", "x"], 0]), list![2, 0]);
        assert_eq!(call("has_key", list!["x"]), false.into());
        assert_eq!(call("dump", list!["{'b': 3}"]), true.into());
        assert_eq!(call("dump", list![7]), false.into());
        assert_eq!(call("items", list![]), map! { "b" => 3 }.into());
        assert_eq!((call("keys", list![]), call("values", list![])), (list!["b"], list![3]));
        assert_eq!(call("pop", list!["b"]), 3.into());
        assert_eq!(call("pop", list!["b", 9]), 9.into());
        std::fs::write(path(&ctx), b"\xc1").unwrap();
        assert_eq!(call("load", list![]), map! {}.into());
        assert_eq!(call("clear", list![]), true.into());
        assert!(!path(&ctx).exists());
    }
}
