//! `beacons` — what this machine is watched for.

use std::time::Duration;

use exec::{Context, KwArgs, Module, Result, function};
use value::{Map, Value, map};
use yaml::Flow;

use crate::util;

/// Registers the functions of `beacons`.
pub static MODULE: Module = Module::new(
    "beacons",
    "What this machine is watched for.",
    &[
        &ADD,
        &DELETE,
        &DISABLE,
        &DISABLE_BEACON,
        &ENABLE,
        &ENABLE_BEACON,
        &LIST,
        &LIST_AVAILABLE,
        &MODIFY,
        &RESET,
        &SAVE,
    ],
);

/// The timeout for the minion's answer, in seconds.
const PATIENCE: i64 = 60;

fn reply(comment: impl Into<Value>, result: bool) -> Map {
    map! { "comment" => comment.into(), "result" => result }
}

fn is_set(kwargs: &Map, name: &str) -> bool {
    kwargs.get(name).is_some_and(Value::truthy)
}

fn seconds(kwargs: &Map) -> i64 {
    kwargs.get("timeout").and_then(Value::as_i64).unwrap_or(PATIENCE).max(0)
}

/// Sends a request to the minion process, which runs the beacons; `None` when it does not answer in time.
fn ask(ctx: &Context, kwargs: &Map, question: Map, answer: &str) -> Result<Option<Map>> {
    let tag = format!("/salt/minion/minion_{answer}");
    let patience = Duration::from_secs(seconds(kwargs).unsigned_abs());
    // A job runs apart from the beacons, so the minion itself must be asked; its answer is an event.
    ctx.wait(ctx.agent.ask_minion("manage_beacons", question, &tag, patience))
}

fn late(kwargs: &Map, what: &str) -> Map {
    reply(format!("Did not receive the {what} event before the timeout of {}s", seconds(kwargs)), false)
}

fn configured(ctx: &Context, kwargs: &Map, pillar: bool, opts: bool) -> Result<Option<Map>> {
    let question = map! { "func" => "list", "include_pillar" => pillar, "include_opts" => opts };
    let answer = ask(ctx, kwargs, question, "beacons_list_complete")?;
    Ok(answer.and_then(|mut answer| answer.remove("beacons")).and_then(Value::into_map))
}

/// Returns the beacons of this minion, as YAML by default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.list
#[function]
fn list(
    ctx: &Context,
    #[default(true)] return_yaml: bool,
    #[default(true)] include_pillar: bool,
    #[default(true)] include_opts: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let beacons: Value = configured(ctx, &kwargs.0, include_pillar, include_opts)?.into();
    Ok(if return_yaml { yaml::dump(&map! { "beacons" => beacons }.into(), Flow::Block).into() } else { beacons })
}

/// Returns the names of the available beacons.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.list_available
#[function]
fn list_available(ctx: &Context, #[default(true)] return_yaml: bool, kwargs: KwArgs) -> Result<Value> {
    let names = available(ctx, &kwargs.0)?;
    // Salt returns an empty map here whatever the caller wants, even if the caller requested YAML.
    if names.is_empty() {
        return Ok(map! { "beacons" => Map::new() }.into());
    }
    let names = Value::List(names);
    Ok(if return_yaml { yaml::dump(&map! { "beacons" => names }.into(), Flow::Block).into() } else { names })
}

fn available(ctx: &Context, kwargs: &Map) -> Result<Vec<Value>> {
    let answer = ask(ctx, kwargs, map! { "func" => "list_available" }, "beacons_list_available_complete")?;
    Ok(answer.and_then(|mut answer| answer.remove("beacons")).and_then(Value::into_list).unwrap_or_default())
}

/// Returns why the minion rejects a configuration, if it does.
fn refusal(ctx: &Context, kwargs: &Map, name: &str, data: &Value, doing: &str) -> Result<Option<Map>> {
    let question = map! { "name" => name, "beacon_data" => data.clone(), "func" => "validate_beacon" };
    let Some(answer) = ask(ctx, kwargs, question, "beacon_validation_complete")? else {
        return Ok(Some(late(kwargs, "beacon validation complete")));
    };
    if is_set(&answer, "valid") {
        return Ok(None);
    }
    let comment = answer.get_str("vcomment").unwrap_or_default();
    Ok(Some(reply(format!("Beacon {name} configuration invalid, not {doing}.\n{comment}"), false)))
}

/// Adds a beacon.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.add ps "[{'processes': {'salt-master': 'stopped', 'apache2': 'stopped'}}]"
#[function]
fn add(ctx: &Context, name: String, beacon_data: Value, kwargs: KwArgs) -> Result<Map> {
    let kwargs = &kwargs.0;
    if configured(ctx, kwargs, true, true)?.unwrap_or_default().contains_key(&name) {
        return Ok(reply(format!("Beacon {name} is already configured."), true));
    }
    // Several beacons can use one module under different names.
    let module = flat(&beacon_data).remove("beacon_module").map_or_else(|| name.clone(), |module| module.to_string());
    if !available(ctx, kwargs)?.contains(&module.as_str().into()) {
        return Ok(reply(format!("Beacon \"{module}\" is not available."), false));
    }
    // The check of the module comes first, so a test run names a module that does not exist.
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Beacon: {name} would be added."), true));
    }
    if let Some(refusal) = refusal(ctx, kwargs, &name, &beacon_data, "adding")? {
        return Ok(refusal);
    }
    let question = map! { "name" => name.as_str(), "beacon_data" => beacon_data.clone(), "func" => "add" };
    let answer = ask(ctx, kwargs, question, "beacon_add_complete")?;
    let done = |beacons: &Map| beacons.get(&name) == Some(&beacon_data);
    let words = (format!("Added beacon: {name}."), format!("Failed to add beacon {name}."));
    Ok(outcome(kwargs, answer, "beacon add complete", done, words))
}

/// Turns the minion's answer to a change into a result; a refusal keeps the minion's own words.
fn outcome(
    kwargs: &Map,
    answer: Option<Map>,
    what: &str,
    done: impl FnOnce(&Map) -> bool,
    (good, bad): (String, String),
) -> Map {
    let Some(answer) = answer else { return late(kwargs, what) };
    if !is_set(&answer, "complete") {
        return reply(answer.get_str("comment").unwrap_or(&bad), false);
    }
    let beacons = answer.get("beacons").and_then(Value::as_map).cloned().unwrap_or_default();
    if done(&beacons) { reply(good, true) } else { reply(bad, false) }
}

/// Replaces the configuration of a beacon.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.modify ps "[{'salt-master': 'stopped'}, {'apache2': 'stopped'}]"
#[function]
fn modify(ctx: &Context, name: String, beacon_data: Value, kwargs: KwArgs) -> Result<Map> {
    let kwargs = &kwargs.0;
    let Some(current) = configured(ctx, kwargs, true, true)?.and_then(|mut all| all.remove(&name)) else {
        return Ok(reply(format!("Beacon {name} is not configured."), true));
    };
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Beacon: {name} would be modified."), true));
    }
    if let Some(refusal) = refusal(ctx, kwargs, &name, &beacon_data, "modifying")? {
        return Ok(refusal);
    }
    // Salt calls a beacon a job in this message.
    if current == beacon_data {
        return Ok(reply(format!("Job {name} in correct state"), true));
    }
    let diff = crate::file::difflib::unified(&lines(&current), &lines(&beacon_data));
    let question = map! { "name" => name.as_str(), "beacon_data" => beacon_data.clone(), "func" => "modify" };
    let answer = ask(ctx, kwargs, question, "beacon_modify_complete")?;
    let done = |beacons: &Map| beacons.get(&name) == Some(&beacon_data);
    // Salt has no text for this failure.
    let words = (format!("Modified beacon: {name}."), String::new());
    let mut told = outcome(kwargs, answer, "beacon modify complete ", done, words);
    told.insert("changes", map! { "diff" => diff });
    Ok(told)
}

/// Lists the settings of a beacon as lines, for a difference.
fn lines(config: &Value) -> Vec<String> {
    let one = std::slice::from_ref(config);
    let maps = config.as_list().unwrap_or(one).iter().filter_map(Value::as_map);
    maps.flat_map(|map| map.iter()).map(|(key, value)| format!("{key}:{value}\n")).collect()
}

/// Deletes a beacon.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.delete ps
#[function]
fn delete(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    if is_set(&kwargs.0, "test") {
        return Ok(reply(format!("Beacon: {name} would be deleted."), true));
    }
    let question = map! { "name" => name.as_str(), "func" => "delete" };
    let answer = ask(ctx, &kwargs.0, question, "beacon_delete_complete")?;
    let words = (format!("Deleted beacon: {name}."), format!("Failed to delete beacon {name}."));
    let gone = |beacons: &Map| !beacons.contains_key(&name);
    Ok(outcome(&kwargs.0, answer, "beacon delete complete", gone, words))
}

/// Saves the beacons that are not in the pillar to ``beacons.conf``, for the next start.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.save
#[function]
fn save(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    // Without the pillar: what the master sets must not survive in a file when the master takes it back.
    let beacons = configured(ctx, &kwargs.0, false, true)?;
    let path = schedule::beside(&ctx.opts, "beacons.conf");
    let text = match beacons {
        Some(beacons) if !beacons.is_empty() => yaml::dump(&map! { "beacons" => beacons }.into(), Flow::Block),
        // An empty file rather than none, so that a restart does not bring old beacons back.
        _ => String::new(),
    };
    // Beacons may hold passwords, as may an existing file.
    let written = path
        .parent()
        .map_or(Ok(()), store::disk::make_directories)
        .and_then(|()| util::replace_file(&path, text.as_bytes(), 0o600));
    let path = path.display();
    Ok(match written {
        Ok(()) => reply(format!("Beacons saved to {path}."), true),
        Err(_) => reply(format!("Unable to write to beacons file at {path}. Check permissions."), false),
    })
}

/// Enables the beacons.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.enable
#[function]
fn enable(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    switch_all(ctx, &kwargs.0, true)
}

/// Disables all beacons.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.disable
#[function]
fn disable(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    switch_all(ctx, &kwargs.0, false)
}

/// The verbs for switching on and off, as messages use them.
fn verbs(on: bool) -> (&'static str, &'static str) {
    if on { ("enable", "Enabled") } else { ("disable", "Disabled") }
}

fn switch_all(ctx: &Context, kwargs: &Map, on: bool) -> Result<Map> {
    let (verb, capital) = verbs(on);
    if is_set(kwargs, "test") {
        return Ok(reply(format!("Beacons would be {verb}d."), true));
    }
    let answer = ask(ctx, kwargs, map! { "func" => verb }, &format!("beacons_{verb}d_complete"))?;
    let words = (format!("{capital} beacons on minion."), format!("Failed to {verb} beacons on minion."));
    let done = |beacons: &Map| beacons.get("enabled").is_some_and(|enabled| enabled.truthy() == on);
    Ok(outcome(kwargs, answer, &format!("beacon {verb}d complete"), done, words))
}

/// Enables a beacon.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.enable_beacon ps
#[function]
fn enable_beacon(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    switch(ctx, &name, &kwargs.0, true)
}

/// Disables a beacon.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.disable_beacon ps
#[function]
fn disable_beacon(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Map> {
    switch(ctx, &name, &kwargs.0, false)
}

fn switch(ctx: &Context, name: &str, kwargs: &Map, on: bool) -> Result<Map> {
    let (verb, capital) = verbs(on);
    if name.is_empty() {
        return Ok(reply("Beacon name is required.", false));
    }
    if is_set(kwargs, "test") {
        let text =
            // The second text names no beacon, as in Salt.
            if on { format!("Beacon {name} would be enabled.") } else { "Beacons would be disabled.".to_owned() };
        return Ok(reply(text, true));
    }
    if !configured(ctx, kwargs, true, true)?.unwrap_or_default().contains_key(name) {
        return Ok(reply(format!("Beacon {name} is not currently configured."), false));
    }
    let question = map! { "func" => format!("{verb}_beacon"), "name" => name };
    let answer = ask(ctx, kwargs, question, &format!("beacon_{verb}d_complete"))?;
    let bad = if on {
        format!("Failed to enable beacon {name} on minion.")
    } else {
        "Failed to disable beacon on minion.".to_owned()
    };
    let done = |beacons: &Map| {
        let enabled = beacons.get(name).and_then(|config| flat(config).remove("enabled"));
        enabled.is_some_and(|enabled| enabled.truthy() == on)
    };
    let words = (format!("{capital} beacon {name} on minion."), bad);
    Ok(outcome(kwargs, answer, &format!("beacon {verb}d complete"), done, words))
}

/// Deletes all beacons that are not in the pillar.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' beacons.reset
#[function]
fn reset(ctx: &Context, kwargs: KwArgs) -> Result<Map> {
    if is_set(&kwargs.0, "test") {
        return Ok(reply("Beacons would be reset.", true));
    }
    let answer = ask(ctx, &kwargs.0, map! { "func" => "reset" }, "beacon_reset_complete")?;
    let words = ("Beacon configuration reset.".to_owned(), String::new());
    Ok(outcome(&kwargs.0, answer, "beacon reset", |_| true, words))
}

/// Merges the settings of a beacon into one map.
fn flat(config: &Value) -> Map {
    match config {
        Value::Map(map) => map.clone(),
        other => {
            let mut all = Map::new();
            other
                .as_list()
                .unwrap_or_default()
                .iter()
                .filter_map(Value::as_map)
                .for_each(|map| all.update(map.clone()));
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    #[test]
    fn a_beacon_is_checked_before_it_is_added() {
        let (ctx, agent) = context(&[&MODULE], map! {}, map! {}, map! {});
        let config = list![map! { "processes" => map! { "a" => "running" } }];
        let answer = |map: Map| agent.answers.lock().unwrap().push_back(map.into());
        answer(map! { "complete" => true, "beacons" => map! {} });
        answer(map! { "complete" => true, "beacons" => list!["ps"] });
        answer(map! { "complete" => true, "valid" => true, "vcomment" => "" });
        answer(map! { "complete" => true, "beacons" => map! { "ps" => config.clone() } });
        let added = ctx.call("beacons.add", vec!["ps".into(), config.clone()]).unwrap();
        assert_eq!(added, map! { "comment" => "Added beacon: ps.", "result" => true }.into());
        answer(map! { "complete" => true, "beacons" => map! {} });
        answer(map! { "complete" => true, "beacons" => list!["ps"] });
        let refused = ctx.call("beacons.add", vec!["watchdog".into(), config]).unwrap();
        assert_eq!(refused, map! { "comment" => "Beacon \"watchdog\" is not available.", "result" => false }.into());
    }
}
