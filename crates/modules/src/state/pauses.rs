//! Pausing and ending runs of states between two states.

use ::state::run::{Pauses, pauses_path};
use exec::{Context, Error, Result, function};
use value::{Map, Value, list, map};

/// The entry that applies to every state.
const ALL: &str = "__all__";

fn failed(error: std::io::Error) -> Error {
    Error::execution(format!("failed to note what is paused: {error}"))
}

fn read(pauses: &Pauses) -> Result<Map> {
    Ok(pauses.read().map_err(failed)?.unwrap_or_default())
}

/// Changes the entry of a state in the pauses of a job.
fn change(ctx: &Context, jid: &str, state_id: Option<String>, key: &str, value: Value) -> Result<()> {
    let pauses = Pauses::new(ctx.cachedir(), jid);
    let mut data = read(&pauses)?;
    // Without an ID the whole run is paused.
    let entry = data.entry_or_insert_with(state_id.unwrap_or_else(|| ALL.into()), || Map::new().into());
    if let Some(entry) = entry.as_map_mut().filter(|_| !key.is_empty()) {
        entry.insert(key, value);
    }
    pauses.write(data).map_err(failed)
}

/// Pauses a run before a state, or before the next one, for some seconds or until it is resumed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.pause 20171130110407769519
///     salt '*' state.pause 20171130110407769519 vim duration=20
#[function]
pub fn pause(ctx: &Context, jid: String, state_id: Option<String>, duration: Option<i64>) -> Result<()> {
    // 0 means until `state.resume`, like no duration.
    match duration.filter(|duration| *duration != 0) {
        Some(seconds) => change(ctx, &jid, state_id, "duration", seconds.into()),
        None => change(ctx, &jid, state_id, "", Value::Null),
    }
}

/// Ends a run before a state, or before the next one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.soft_kill 20171130110407769519
///     salt '*' state.soft_kill 20171130110407769519 vim
#[function]
pub fn soft_kill(ctx: &Context, jid: String, state_id: Option<String>) -> Result<()> {
    change(ctx, &jid, state_id, "kill", true.into())
}

/// Resumes a paused run.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.resume 20171130110407769519
///     salt '*' state.resume 20171130110407769519 vim
#[function]
pub fn resume(ctx: &Context, jid: String, state_id: Option<String>) -> Result<()> {
    let pauses = Pauses::new(ctx.cachedir(), &jid);
    let data = match state_id {
        None => Map::new(),
        // Resuming everything also ends the pauses of single states.
        Some(id) if id == ALL => Map::new(),
        Some(id) => {
            let mut data = read(&pauses)?;
            data.remove(&id);
            data
        }
    };
    pauses.write(data).map_err(failed)
}

/// Returns the paused states, by job.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.get_pauses
///     salt '*' state.get_pauses jid=20171130110407769519
#[function]
pub fn get_pauses(ctx: &Context, jid: Option<Value>) -> Result<Map> {
    let jids: Vec<String> = match jid {
        Some(Value::List(jids)) => jids.iter().map(Value::to_string).collect(),
        Some(jid) => vec![jid.to_string()],
        None => {
            let entries = std::fs::read_dir(pauses_path(ctx.cachedir())).into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            // Files that are being written.
            names.filter(|name| !name.ends_with(".tmp")).collect()
        }
    };
    let running = ctx.call("saltutil.is_running", vec!["state.*".into()])?;
    let active = running.as_list().unwrap_or_default();
    let mut found = map! {};
    for jid in jids {
        let pauses = Pauses::new(ctx.cachedir(), &jid);
        if active.iter().any(|job| job.get("jid").is_some_and(|active| active.to_string() == jid)) {
            found.insert(jid, read(&pauses)?);
        } else {
            // The job has ended, so its pauses can go.
            pauses.forget();
        }
    }
    Ok(found)
}

/// Returns the active runs.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' state.running
#[function]
pub fn running(ctx: &Context, #[default(false)] concurrent: bool) -> Result<Value> {
    match concurrent {
        true => Ok(list![]),
        false => Ok(super::holders::Runs::new(ctx.cachedir()).others(ctx)?.into()),
    }
}
