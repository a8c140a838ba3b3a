//! `grains` — facts about this machine: reading them, and writing those an operator sets.
//!
//! The values that were set are in the file `grains` in the directory of the minion's configuration file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use exec::{Context, Error, KwArgs, Module, Refresh, Result, VarArgs, function};
use tokio::sync::Mutex;
use value::{Map, Value, map, python};

use crate::util::{self, FilterBy};

/// Registers the functions of `grains`.
pub static MODULE: Module = Module::new(
    "grains",
    "Facts about this machine.",
    &[
        &APPEND, &DELKEY, &DELVAL, &EQUALS, &FETCH, &FILTER_BY, &GET, &HAS_VALUE, &ITEM, &ITEMS, &LS, &REMOVE, &SET,
        &SETVAL, &SETVALS,
    ],
);

/// Serializes changes of the file.
static WRITING: Mutex<()> = Mutex::const_new(());

/// Returns a grain, which may be nested: ``os_data:disks:0``; if it does not exist, the default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.get os_family
///     salt '*' grains.get roles:0 default=none
#[function]
fn get(
    ctx: &Context,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    #[default(true)] ordered: bool,
) -> Result<Value> {
    let _ = ordered;
    Ok(lookup(&now(ctx), &key, default, &delimiter))
}

/// The same as ``grains.get``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.fetch os_family
#[function]
fn fetch(
    ctx: &Context,
    key: String,
    #[default("")] default: Value,
    #[default(":")] delimiter: String,
    #[default(true)] ordered: bool,
) -> Result<Value> {
    let _ = ordered;
    Ok(lookup(&now(ctx), &key, default, &delimiter))
}

/// All grains, with what this job has written to the file since they were gathered.
#[derive(Default)]
struct Changed(std::sync::Mutex<Option<Arc<Map>>>);

/// Returns the grains, with those that functions of this job, or of this state run, have set.
pub fn now(ctx: &Context) -> Arc<Map> {
    let changed = ctx.memo.get::<Changed>();
    let changed = changed.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    changed.clone().unwrap_or_else(|| ctx.grains.clone())
}

/// Makes new grains visible to the other functions of this job.
fn remember(ctx: &Context, new: &Map, destructive: bool) {
    let mut grains = (*now(ctx)).clone();
    lay_over(&mut grains, new, destructive);
    let changed = ctx.memo.get::<Changed>();
    *changed.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Arc::new(grains));
}

fn lay_over(grains: &mut Map, new: &Map, destructive: bool) {
    for (key, value) in new {
        // None is a value as well: only `destructive` removes the key.
        if value.is_null() && destructive {
            grains.remove_value(key);
        } else {
            grains.insert(key.clone(), value.clone());
        }
    }
}

fn lookup(grains: &Map, key: &str, default: Value, delimiter: &str) -> Value {
    util::traverse(grains, key, delimiter).cloned().unwrap_or(default)
}

/// Returns whether there is such a grain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.has_value roles:web
#[function]
fn has_value(ctx: &Context, key: String) -> Result<bool> {
    Ok(util::traverse(&now(ctx), &key, ":").is_some())
}

/// Returns all grains. With ``sanitize=True`` names and serial numbers are made unrecognisable.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.items
///     salt '*' grains.items sanitize=True
#[function(out = "nested")]
fn items(ctx: &Context, #[default(false)] sanitize: bool) -> Result<Map> {
    let mut grains = (*now(ctx)).clone();
    if sanitize {
        hide_names(&mut grains);
    }
    Ok(grains)
}

/// Returns the named grains.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.item os osrelease
///     salt '*' grains.item host serialnumber sanitize=True
#[function(out = "nested")]
fn item(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<Map> {
    // A grain that does not exist shows as an empty text, so every requested name has an answer.
    let default = kwargs.0.get("default").cloned().unwrap_or_else(|| "".into());
    let delimiter = kwargs.0.get_str("delimiter").unwrap_or(":");
    let found = args.0.iter().map(|key| {
        let value = lookup(&now(ctx), &key.to_string(), default.clone(), delimiter);
        (key.clone(), value)
    });
    let mut found: Map = found.collect();
    if kwargs.0.get("sanitize").is_some_and(Value::truthy) {
        hide_names(&mut found);
    }
    Ok(found)
}

fn hide_names(grains: &mut Map) {
    for (name, value) in grains.iter_mut() {
        let hidden = match name.as_str() {
            Some("serialnumber") => without_tail(&value.to_string()),
            Some("domain") => "DOMAINNAME".to_owned(),
            // The words are Salt's. The minion's id usually is its full name.
            Some("fqdn" | "id") => "MINION.DOMAINNAME".to_owned(),
            Some("host" | "localhost" | "nodename") => "MINION".to_owned(),
            _ => continue,
        };
        *value = hidden.into();
    }
}

/// Replaces each character of the last quarter by an X.
fn without_tail(serial: &str) -> String {
    let kept = serial.chars().count() * 3 / 4;
    serial.chars().enumerate().map(|(place, letter)| if place < kept { letter } else { 'X' }).collect()
}

/// Returns the names of all grains.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.ls
#[function]
fn ls(ctx: &Context) -> Result<Vec<String>> {
    let mut names: Vec<String> = now(ctx).keys().map(Value::to_string).collect();
    names.sort();
    Ok(names)
}

/// Returns whether a grain, as text, is equal to the value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.equals os Debian
#[function]
fn equals(ctx: &Context, key: String, value: Value) -> Result<bool> {
    // The command line cannot distinguish 1 from "1", so both sides are compared as text.
    Ok(value.to_string() == lookup(&now(ctx), &key, "".into(), ":").to_string())
}

/// Returns the entry of a map whose key, a glob, matches a grain, with ``default`` and ``base`` as in ``merge``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.filter_by '{Debian: apache2, default: httpd}'
#[function]
fn filter_by(
    ctx: &Context,
    lookup_dict: Map,
    #[default("os_family")] grain: String,
    merge: Option<Value>,
    #[default("default")] default: Value,
    base: Option<String>,
) -> Result<Value> {
    FilterBy { lookup: lookup_dict, merge, default, base }.pick(util::traverse(&now(ctx), &grain, ":"))
}

/// Sets grains and returns them. With ``destructive=True``, grains whose value is None are deleted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.setvals '{role: web, site: north}'
#[function(out = "nested")]
fn setvals(
    ctx: &Context,
    grains: Value,
    #[default(false)] destructive: bool,
    #[default(true)] refresh_pillar: bool,
) -> Result<Value> {
    // The minion compiles the pillar again whenever its grains have changed.
    let _ = refresh_pillar;
    let Value::Map(new) = grains else {
        return Err(Error::execution("setvals grains must be a dictionary."));
    };
    let written = {
        // The lock ends before `finish`, which waits for the minion and must not block other writers.
        let _one_at_a_time = ctx.wait(WRITING.lock());
        write(ctx, new, destructive)?
    };
    finish(ctx, written)
}

/// Sets a grain and returns it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.setval role web
///     salt '*' grains.setval sites '[north, south]'
#[function(out = "nested")]
fn setval(
    ctx: &Context,
    key: String,
    val: Value,
    #[default(false)] destructive: bool,
    #[default(true)] refresh_pillar: bool,
) -> Result<Value> {
    let _ = refresh_pillar;
    let written = {
        let _one_at_a_time = ctx.wait(WRITING.lock());
        write(ctx, map! { key => val }, destructive)?
    };
    finish(ctx, written)
}

/// Adds a value, or each value of a list, to a grain that is a list. ``convert=True`` makes a list of a single value.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.append roles web
#[function]
fn append(
    ctx: &Context,
    key: String,
    val: Value,
    #[default(false)] convert: bool,
    #[default(":")] delimiter: String,
) -> Result<Value> {
    change_list(ctx, &key, &delimiter, |found| {
        let mut list = match found {
            Value::List(list) => list,
            Value::Null if convert => Vec::new(),
            single if convert => vec![single],
            _ => return Err(format!("The key {key} is not a valid list")),
        };
        // A list given as value is compared as a whole, as Python's `in` does.
        if contains(&list, &val) {
            return Err(format!("The val {val} was already in the list {key}"));
        }
        match val {
            Value::List(more) => list.extend(more),
            single => list.push(single),
        }
        Ok(list)
    })
}

/// Removes a value from a grain that is a list.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.remove roles web
#[function]
fn remove(ctx: &Context, key: String, val: Value, #[default(":")] delimiter: String) -> Result<Value> {
    change_list(ctx, &key, &delimiter, |found| {
        let Value::List(mut list) = found else { return Err(format!("The key {key} is not a valid list")) };
        match list.iter().position(|item| python::equal(item, &val)) {
            Some(place) => drop(list.remove(place)),
            None => return Err(format!("The val {val} was not in the list {key}")),
        }
        Ok(list)
    })
}

fn contains(list: &[Value], wanted: &Value) -> bool {
    list.iter().any(|item| python::equal(item, wanted))
}

/// Changes a grain that is a list, possibly nested. A refusal is returned as text, as in Salt.
fn change_list(
    ctx: &Context,
    key: &str,
    delimiter: &str,
    change: impl FnOnce(Value) -> std::result::Result<Vec<Value>, String> + Send,
) -> Result<Value> {
    let written = {
        let _one_at_a_time = ctx.wait(WRITING.lock());
        // Read under the lock: two jobs that append at once would lose one of the values otherwise.
        let grains = current(ctx);
        let found = lookup(&grains, key, Value::List(Vec::new()), delimiter);
        let list = match change(found) {
            Ok(list) => list,
            Err(refusal) => return Ok(refusal.into()),
        };
        let (top, value) = rebuilt(&grains, key, list.into(), delimiter);
        write(ctx, map! { top => value }, false)?
    };
    finish(ctx, written)
}

/// Rebuilds the top-level grain around a nested value.
fn rebuilt(grains: &Map, key: &str, value: Value, delimiter: &str) -> (String, Value) {
    let (mut key, mut value) = (key.to_owned(), value);
    while let Some((above, last)) = split_last(&key, delimiter) {
        let mut parent = lookup(grains, &above, Map::new().into(), delimiter);
        // A parent that is not a map has no place for the key and stays as it is.
        if let Some(map) = parent.as_map_mut() {
            map.insert(last, value);
        }
        (key, value) = (above, parent);
    }
    (key, value)
}

fn split_last(key: &str, delimiter: &str) -> Option<(String, String)> {
    if delimiter.is_empty() {
        return None;
    }
    key.rsplit_once(delimiter).map(|(above, last)| (above.to_owned(), last.to_owned()))
}

/// Sets a grain, which may be nested, unless that would replace a map or a list; ``force=True`` replaces them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.set app:version 12
///     salt '*' grains.set app '{version: 12}' force=True
#[function]
fn set(
    ctx: &Context,
    key: String,
    #[default("")] val: Value,
    #[default(false)] force: bool,
    #[default(false)] destructive: bool,
    #[default(":")] delimiter: String,
) -> Result<Map> {
    change(ctx, &key, Setting { val, force, destructive, delimiter })
}

/// Sets a grain to None. With ``destructive=True`` it is deleted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.delval role
#[function]
fn delval(
    ctx: &Context,
    key: String,
    #[default(false)] destructive: bool,
    #[default(false)] force: bool,
) -> Result<Map> {
    change(ctx, &key, Setting { val: Value::Null, force, destructive, delimiter: ":".into() })
}

/// Deletes a grain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' grains.delkey role
#[function]
fn delkey(ctx: &Context, key: String, #[default(false)] force: bool) -> Result<Map> {
    change(ctx, &key, Setting { val: Value::Null, force, destructive: true, delimiter: ":".into() })
}

/// The arguments of a request to set a grain.
struct Setting {
    val: Value,
    force: bool,
    destructive: bool,
    delimiter: String,
}

/// The decision about a setting.
enum Decision {
    /// This grain gets this value.
    Write(String, Value),
    /// Nothing is written, successfully or not.
    Leave(bool, String),
}

fn change(ctx: &Context, key: &str, setting: Setting) -> Result<Map> {
    let leave = |result: bool, comment: String| map! { "comment" => comment, "changes" => map! {}, "result" => result };
    let written = {
        let _one_at_a_time = ctx.wait(WRITING.lock());
        match setting.decide(&current(ctx), key) {
            Decision::Leave(result, comment) => return Ok(leave(result, comment)),
            Decision::Write(top, value) => write(ctx, map! { top => value }, setting.destructive)?,
        }
    };
    match finish(ctx, written)? {
        Value::Map(changes) => Ok(map! { "comment" => "", "changes" => changes, "result" => true }),
        refusal => Ok(leave(false, refusal.to_string())),
    }
}

impl Setting {
    fn decide(&self, grains: &Map, key: &str) -> Decision {
        let complex = |value: &Value| matches!(value, Value::Map(_) | Value::List(_));
        let existing = util::traverse(grains, key, &self.delimiter);
        if let Some(existing) = existing {
            // A grain that is None already equals the new value, but deleting its key still changes something.
            let goes = self.val.is_null() && self.destructive;
            if python::equal(existing, &self.val) && !goes {
                return Decision::Leave(true, "Grain is already set".into());
            }
            // One wrong key could wipe out a whole tree, so Salt requires `force`.
            if !self.force && complex(existing) {
                let what = format!("The key '{key}' exists but is a dict or a list.");
                return Decision::Leave(false, format!("{what} Use 'force=True' to overwrite."));
            }
            if !self.force && !existing.is_null() && complex(&self.val) {
                let what = format!("The key '{key}' exists and the given value is a dict or a list.");
                return Decision::Leave(false, format!("{what} Use 'force=True' to overwrite."));
            }
        }
        self.climb(grains, key)
    }

    /// Builds the new value of each parent, up to the grain.
    fn climb(&self, grains: &Map, key: &str) -> Decision {
        let (mut key, mut value) = (key.to_owned(), self.val.clone());
        while let Some((above, last)) = split_last(&key, &self.delimiter) {
            let parent = lookup(grains, &above, Map::new().into(), &self.delimiter);
            // Salt lets a grain `a: b` become `a: {b: value}` without force, since the name is kept.
            let same = parent == Value::from(&last);
            value = match parent {
                Value::Map(map) => self.within_map(map, last, value),
                Value::List(list) => within_list(list, last, value),
                _ if same || self.force => map! { last => value }.into(),
                other => {
                    let what = format!("The key '{above}' value is '{other}', which is different from");
                    let hint = format!("the provided key '{last}'. Use 'force=True' to overwrite.");
                    return Decision::Leave(false, format!("{what} {hint}"));
                }
            };
            key = above;
        }
        Decision::Write(key, value)
    }

    fn within_map(&self, mut map: Map, key: String, value: Value) -> Value {
        if value.is_null() && self.destructive {
            map.remove(&key);
        } else {
            map.insert(key, value);
        }
        map.into()
    }
}

/// Sets a key within a list: in the entries that are the key or a map with it, else in a new map.
fn within_list(mut list: Vec<Value>, key: String, value: Value) -> Value {
    let mut updated = false;
    for entry in &mut list {
        if entry.as_str() == Some(&key) {
            *entry = map! { key.clone() => value.clone() }.into();
            updated = true;
        } else if let Some(map) = entry.as_map_mut().filter(|map| map.contains_key(&key)) {
            map.insert(key.clone(), value.clone());
            updated = true;
        }
    }
    if !updated {
        list.push(map! { key => value }.into());
    }
    Value::List(list)
}

/// Returns the grains, with what the file holds now.
fn current(ctx: &Context) -> Map {
    let mut grains = (*now(ctx)).clone();
    if let Ok(Some(file)) = read(&path(ctx)) {
        grains.update(file);
    }
    grains
}

/// Returns the path of the file: beside the configuration file, or in the configuration directory.
pub fn path(ctx: &Context) -> PathBuf {
    let conf = Path::new(ctx.opt_str("conf_file").unwrap_or("/etc/salt/minion"));
    if conf.is_dir() { conf.join("grains") } else { conf.with_file_name("grains") }
}

/// Reads the file; `None` when there is none or it holds no map.
fn read(path: &Path) -> std::result::Result<Option<Map>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let value = yaml::load(&text, &path.to_string_lossy()).map_err(|error| error.to_string())?;
    Ok(value.into_map())
}

/// The result of a write: the new grains, or the text of a refusal.
struct Written(Value);

fn write(ctx: &Context, new: Map, destructive: bool) -> Result<Written> {
    let path = path(ctx);
    let mut grains = match read(&path) {
        Ok(grains) => grains.unwrap_or_default(),
        // A broken file is not overwritten. Salt returns the text as the answer of a job that succeeded.
        Err(error) => return Ok(Written(format!("Unable to read existing grains file: {error}").into())),
    };
    lay_over(&mut grains, &new, destructive);
    remember(ctx, &new, destructive);
    let text = yaml::dump(&Value::from(grains), yaml::Flow::Block);
    // A link stays a link.
    let target = path.canonicalize().unwrap_or_else(|_| path.clone());
    // Grains may hold confidential data of the administrator; a mode that was set by hand is kept.
    let mode = target.metadata().map_or(0o640, |meta| meta.mode() & 0o777);
    util::replace_file(&target, text.as_bytes(), mode)
        .map_err(|error| Error::io("write to the grains file at", &path, &error))?;
    Ok(Written(new.into()))
}

/// Has the minion refresh its grains, so that the next job sees what was written.
fn finish(ctx: &Context, written: Written) -> Result<Value> {
    // `salt-call --local` has no minion to notify.
    if written.0.as_map().is_some() && !ctx.opt("local").is_some_and(Value::truthy) {
        ctx.wait(ctx.agent.refresh(Refresh::Grains))?;
    }
    Ok(written.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::{FakeAgent, context};
    use std::sync::Arc;
    use value::list;

    struct Place {
        _dir: tempfile::TempDir,
        ctx: Context,
        agent: Arc<FakeAgent>,
    }

    fn place(grains: Map) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("minion");
        std::fs::write(&conf, "id: m\n").unwrap();
        let opts = map! { "id" => "m", "conf_file" => conf.to_str().unwrap() };
        let (ctx, agent) = context(&[&MODULE], opts, grains, map! {});
        Place { _dir: dir, ctx, agent }
    }

    fn call(place: &Place, fun: &str, args: Value, kwargs: Map) -> Value {
        let call = exec::Call { args: args.into_list().unwrap(), kwargs };
        place.ctx.call_with(&format!("grains.{fun}"), call).unwrap()
    }

    fn done(changes: Map) -> Value {
        map! { "comment" => "", "changes" => changes, "result" => true }.into()
    }

    fn refused(comment: &str) -> Value {
        map! { "comment" => comment, "changes" => map! {}, "result" => false }.into()
    }

    /// The calls and answers real Salt 3008.5 gave in this order.
    #[test]
    fn setting_answers_as_salt_does() {
        let place = place(map! {});
        let set = |args: Value, kwargs: Map| call(&place, "set", args, kwargs);
        let nested = map! { "a" => map! { "b" => map! { "c" => 5 } } };
        assert_eq!(set(list!["a:b:c", 5], map! {}), done(nested));
        let again = map! { "comment" => "Grain is already set", "changes" => map! {}, "result" => true };
        assert_eq!(set(list!["a:b:c", 5], map! {}), again.into());
        let exists = "The key 'a:b' exists but is a dict or a list. Use 'force=True' to overwrite.";
        assert_eq!(set(list!["a:b", 6], map! {}), refused(exists));
        let forced = map! { "force" => true };
        assert_eq!(set(list!["a:b", 6], forced), done(map! { "a" => map! { "b" => 6 } }));
        assert_eq!(call(&place, "delkey", list!["a:b"], map! { "force" => true }), done(map! { "a" => map! {} }));
        assert_eq!(call(&place, "delval", list!["p"], map! {}), done(map! { "p" => () }));
        assert_eq!(set(list!["lst", list!["u", "v"]], map! {}), done(map! { "lst" => list!["u", "v"] }));
        let changed = map! { "lst" => list![map! { "u" => 5 }, "v"] };
        assert_eq!(set(list!["lst:u", 5], map! {}), done(changed));
        set(list!["s", "text"], map! {});
        let other =
            "The key 's' value is 'text', which is different from the provided key 't'. Use 'force=True' to overwrite.";
        assert_eq!(set(list!["s:t", 5], map! {}), refused(other));
        assert!(place.agent.refreshed.lock().unwrap().contains(&Refresh::Grains));
    }

    #[test]
    fn lists_grow_and_shrink_as_in_salt() {
        let place = place(map! {});
        call(&place, "setvals", list![map! { "q" => list![1, 2], "x" => "y" }], map! {});
        assert_eq!(call(&place, "append", list!["q", 3], map! {}), map! { "q" => list![1, 2, 3] }.into());
        assert_eq!(call(&place, "append", list!["q", 3], map! {}), "The val 3 was already in the list q".into());
        assert_eq!(call(&place, "append", list!["x", 1], map! {}), "The key x is not a valid list".into());
        let converted = call(&place, "append", list!["x", 1], map! { "convert" => true });
        assert_eq!(converted, map! { "x" => list!["y", 1] }.into());
        let nested = call(&place, "append", list!["new:nest", 1], map! {});
        assert_eq!(nested, map! { "new" => map! { "nest" => list![1] } }.into());
        assert_eq!(call(&place, "remove", list!["q", 1], map! {}), map! { "q" => list![2, 3] }.into());
        assert_eq!(call(&place, "remove", list!["q", 99], map! {}), "The val 99 was not in the list q".into());
        let file = std::fs::read_to_string(path(&place.ctx)).unwrap();
        // Sorted by name, whatever the order of the calls.
        assert_eq!(file, "new:\n  nest:\n  - 1\nq:\n- 2\n- 3\nx:\n- y\n- 1\n");
    }

    #[test]
    fn a_broken_file_is_left_alone() {
        let place = place(map! {});
        // A new file would lose everything that the broken one still holds.
        std::fs::write(path(&place.ctx), "a: [").unwrap();
        let answer = call(&place, "setval", list!["b", 1], map! {}).to_string();
        assert!(answer.starts_with("Unable to read existing grains file: "), "{answer}");
        assert_eq!(std::fs::read_to_string(path(&place.ctx)).unwrap(), "a: [");
    }

    #[test]
    fn reading_follows_paths_and_defaults() {
        let place =
            place(map! { "os_family" => "Debian", "id" => "m.example", "serialnumber" => "ABCDEFGH", "l" => list![7] });
        assert_eq!(call(&place, "get", list!["l:0"], map! {}), 7.into());
        assert_eq!(call(&place, "get", list!["none"], map! {}), "".into());
        assert_eq!(call(&place, "item", list!["l", "none"], map! {}), map! { "l" => list![7], "none" => "" }.into());
        assert_eq!(call(&place, "has_value", list!["l"], map! {}), true.into());
        assert_eq!(call(&place, "equals", list!["os_family", "Debian"], map! {}), true.into());
        assert_eq!(call(&place, "ls", list![], map! {}), list!["id", "l", "os_family", "serialnumber"]);
        let hidden = call(&place, "items", list![true], map! {});
        assert_eq!(
            (hidden.get("id"), hidden.get("serialnumber")),
            (Some(&"MINION.DOMAINNAME".into()), Some(&"ABCDEFXX".into()))
        );
        let picked = call(&place, "filter_by", list![map! { "Deb*" => "apt", "default" => "x" }], map! {});
        assert_eq!(picked, "apt".into());
    }
}
