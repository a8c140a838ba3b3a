//! `git.config_set` and `git.config_unset`.

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use super::repo::{Repo, refused, without_command};
use crate::Ret;

/// The file or repository of the options, and the other keyword arguments.
struct Place {
    repo: Repo,
    cwd: Option<Value>,
    global: Value,
    all: Value,
}

impl Place {
    fn read(repo: Repo, cwd: Option<Value>, kwargs: KwArgs, with_all: bool) -> std::result::Result<Self, String> {
        let mut kwargs = kwargs.0;
        // `global` and `all` are reserved words or builtins in Python, so Salt takes them out of
        // the keyword arguments.
        let global = kwargs.remove("global").unwrap_or(false.into());
        let all = if with_all { kwargs.remove("all") } else { None }.unwrap_or(false.into());
        if let Some(text) = refused(&kwargs) {
            return Err(text);
        }
        let given = cwd.as_ref().is_some_and(Value::truthy);
        if !global.truthy() && !given {
            return Err("Non-global config options require the 'repo' argument to be set".into());
        }
        Ok(Place { repo, cwd, global, all })
    }

    fn call(&self, ctx: &Context, fun: &str, more: Map) -> Result<Value> {
        let mut arguments = map! { "cwd" => self.cwd.clone(), "global" => self.global.clone() };
        arguments.update(more);
        self.repo.git(ctx, fun, arguments)
    }

    fn matching(&self, ctx: &Context, key: &str, value: Option<&str>) -> Result<Map> {
        // git exits with 1 if nothing matches, which is not a failure.
        let arguments = map! { "key" => key, "value_regex" => value, "ignore_retcode" => true };
        Ok(self.call(ctx, "config_get_regexp", arguments)?.into_map().unwrap_or_default())
    }
}

/// Removes the options whose names and, if given, values match patterns; several values of one with ``all``. Of a
/// repository (``repo``), or with ``global`` of the user.
#[function]
fn config_unset(
    ctx: &Context,
    name: String,
    value_regex: Option<String>,
    repo: Option<Value>,
    user: Option<Value>,
    password: Option<Value>,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("No matching keys are set");
    let who = Repo { user, password, output_encoding, ..Repo::default() };
    let place = match Place::read(who, repo, kwargs, true) {
        Ok(place) => place,
        Err(text) => return Ok(ret.fail(text)),
    };
    let value = value_regex.as_deref();
    // The name is matched as a whole. Anchors that the user wrote are not doubled.
    let key = format!("^{}$", name.trim_start_matches('^').trim_end_matches('$'));
    let before = place.matching(ctx, &key, value)?;
    if before.is_empty() {
        return Ok(ret);
    }
    if !place.all.truthy()
        && let Some(text) = several(&before, value.is_some())
    {
        return Ok(ret.fail(text));
    }
    if ctx.is_test() {
        let text = format!("{} key(s) would have value(s) unset", before.len());
        return Ok(ret.changed(before).would(text));
    }
    // The changes list the removed ones of all values, so those that `value_regex` leaves must be known before and
    // after.
    let whole = if value.is_none() { before.clone() } else { place.matching(ctx, &key, None)? };
    if let Some(text) = unset_each(ctx, &place, &name, value, &before)? {
        return Ok(ret.fail(text));
    }
    let after = place.matching(ctx, &key, None)?;
    let ret = ret.changed(gone(&whole, &after));
    let left = if value.is_none() { after } else { place.matching(ctx, &key, value)? };
    if !left.is_empty() {
        return Ok(ret.fail(format!("Failed to unset value(s): {}", describe(left.iter()))));
    }
    Ok(ret.ok("Value(s) successfully unset"))
}

fn joined(values: &Value) -> String {
    values.as_list().unwrap_or_default().iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn describe<'a>(entries: impl Iterator<Item = (&'a Value, &'a Value)>) -> String {
    entries.map(|(key, values)| format!("{key} ({})", joined(values))).collect::<Vec<_>>().join("; ")
}

/// The comment about options with several values.
fn several(found: &Map, by_value: bool) -> Option<String> {
    let many: Vec<_> =
        found.iter().filter(|(_, values)| values.as_list().is_some_and(|values| values.len() > 1)).collect();
    if many.is_empty() {
        return None;
    }
    let begin = match by_value {
        true => "Multiple values are matched by value_regex for the following keys",
        false => "Multivar(s) matched by the key expression",
    };
    Some(format!("{begin} (set 'all' to True to force removal): {}", describe(many.into_iter())))
}

fn unset_each(ctx: &Context, place: &Place, name: &str, value: Option<&str>, found: &Map) -> Result<Option<String>> {
    let mut errors = Vec::new();
    for key in found.keys() {
        // Salt unsets the name as it was written once for every key found, so a name that is a
        // regular expression fails here.
        let arguments = map! { "key" => name, "value_regex" => value, "all" => place.all.clone() };
        match place.call(ctx, "config_unset", arguments) {
            Ok(_) => {}
            Err(error @ Error::Execution(_)) => {
                tracing::error!("Failed to unset '{key}': {}", without_command(&error));
                errors.push(key.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let begin = "Error(s) occurred unsetting values for the following keys (see the minion log for details)";
    Ok((!errors.is_empty()).then(|| format!("{begin}: {}", errors.join(", "))))
}

/// The values that were removed.
fn gone(before: &Map, after: &Map) -> Map {
    let mut changes = Map::new();
    for (key, values) in before.iter() {
        let left = after.get_value(key).and_then(Value::as_list).unwrap_or_default();
        let values = values.as_list().unwrap_or_default();
        let gone: Vec<Value> = values.iter().filter(|value| !left.contains(value)).cloned().collect();
        if !gone.is_empty() {
            changes.insert(key.clone(), gone);
        }
    }
    changes
}

/// Sets an option to a value, or with ``multivar`` to several. Of a repository (``repo``), or with ``global`` of the user.
#[function]
fn config_set(
    ctx: &Context,
    name: String,
    value: Option<String>,
    multivar: Option<Value>,
    repo: Option<Value>,
    user: Option<Value>,
    password: Option<Value>,
    output_encoding: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.clone()).ok("");
    if value.is_some() && multivar.is_some() {
        return Ok(ret.fail("Only one of 'value' and 'multivar' is permitted"));
    }
    let who = Repo { user, password, output_encoding, ..Repo::default() };
    let place = match Place::read(who, repo, kwargs, false) {
        Ok(place) => place,
        Err(text) => return Ok(ret.fail(text)),
    };
    let (wanted, words): (Value, String) = match (&value, &multivar) {
        (Some(value), _) => (value::list![value.as_str()], format!("'{value}'")),
        (None, Some(values)) => {
            let values: Value = match values {
                Value::List(items) => items.iter().map(Value::to_string).collect(),
                // A text with commas means several values.
                other => other.to_string().split(',').collect(),
            };
            let words = values.to_string();
            (values, words)
        }
        (None, None) => return Err(Error::Other("neither 'value' nor 'multivar' is given".into())),
    };
    // All values are read even for a single one: an option that should have one value may have
    // several.
    let arguments = map! { "key" => name.clone(), "all" => true, "ignore_retcode" => true };
    let before = place.call(ctx, "config_get", arguments)?;
    let (large, small) = if place.global.truthy() { ("Global key ", "global key ") } else { ("", "") };
    if before == wanted {
        return Ok(ret.ok(format!("{large}'{name}' is already set to {words}")));
    }
    let how = if before.is_null() { "added as" } else { "set to" };
    if ctx.is_test() {
        // In test mode Salt leaves out the level with the name.
        let changes = map! { "old" => before, "new" => wanted };
        return Ok(ret.changed(changes).would(format!("{large}'{name}' would be {how} {words}")));
    }
    let arguments = map! { "key" => name.clone(), "value" => value, "multivar" => multivar.map(|_| wanted.clone()) };
    let after = match place.call(ctx, "config_set", arguments) {
        Ok(after) => after,
        Err(error @ Error::Execution(_)) => {
            let why = without_command(&error);
            return Ok(ret.fail(format!("Failed to set {small}'{name}' to {words}: {why}")));
        }
        Err(error) => return Err(error),
    };
    let mut ret = ret;
    if before != after {
        ret.changes.insert(name.as_str(), map! { "old" => before, "new" => after.clone() });
    }
    // git answers with the current value, which can differ if another file sets the option as well.
    if after != wanted {
        return Ok(ret.fail(format!("Failed to set {small}'{name}' to {words}")));
    }
    Ok(ret.ok(format!("{large}'{name}' was {how} {words}")))
}
