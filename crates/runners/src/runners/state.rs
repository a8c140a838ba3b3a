//! `state` — the event bus on the screen. What orchestrates states comes later and is refused.

use exec::{Error, KwArgs, Result, VarArgs, function};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use value::{Map, Value};

use crate::context::failed;
use crate::refusal::refuse;
use crate::texts::expr_match;
use crate::{Events, Module, RunnerContext};

/// The module.
pub static MODULE: Module = Module::new(
    "state",
    "The event bus on the screen.",
    &[
        &EVENT,
        &GRAPH,
        &GRAPH_HIGHSTATE,
        &ORCH,
        &ORCH_SHOW_SLS,
        &ORCHESTRATE,
        &ORCHESTRATE_HIGH,
        &ORCHESTRATE_SHOW_SLS,
        &ORCHESTRATE_SINGLE,
        &PAUSE,
        &RESUME,
        &RM_PAUSE,
        &SET_PAUSE,
        &SLS,
        &SOFT_KILL,
    ],
);

/// Prints the events of the master's bus as they come, a tag and JSON on each line.
///
/// `tagmatch` is a shell glob or a regular expression; `count` is how many to wait for, `-1` for all that ever come;
/// `quiet` only waits; `pretty` puts the JSON on several lines.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.event pretty=True
///     salt-run state.event 'salt/minion/*/start' count=3 quiet=True
#[function]
async fn event(
    ctx: &RunnerContext,
    #[default("*")] tagmatch: String,
    #[default(-1)] count: i64,
    #[default(false)] quiet: bool,
    sock_dir: Option<String>,
    #[default(false)] pretty: bool,
    #[default("master")] node: String,
) -> Result<()> {
    if node != "master" {
        return refuse(&format!("state.event node={node}; on a minion: salt-call state.event"));
    }
    let events = match sock_dir {
        Some(directory) => {
            let endpoints = event::Endpoints::master(std::path::Path::new(&directory));
            Events::Socket(std::sync::Arc::new(tokio::sync::Mutex::new(event::Remote::new(ctx.rt.clone(), endpoints))))
        }
        None => ctx.events.clone(),
    };
    let mut listener = events.listen(event::Filter::all()).await.map_err(failed)?;
    let mut left = count;
    while left != 0 {
        let Some(event) = listener.next().await else {
            return Err(Error::execution("the master closed its event bus"));
        };
        if !expr_match(event.tag(), &tagmatch) {
            continue;
        }
        if !quiet {
            ctx.sink.print(&format!("{}\t{}", event.tag(), json(event.data(), pretty)?));
        }
        left -= i64::from(left > 0);
    }
    Ok(())
}

/// Writes JSON as Python does: a blank behind commas and colons, or sorted on several lines.
fn json(data: &Map, pretty: bool) -> Result<String> {
    let mut out = Vec::new();
    let written = match pretty {
        true => {
            let formatter = PrettyFormatter::with_indent(b"    ");
            sorted(&data.clone().into()).serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))
        }
        false => data.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)),
    };
    written.map_err(failed)?;
    String::from_utf8(out).map_err(failed)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by_key(|(key, _)| key.to_string());
            entries.into_iter().collect::<Map>().into()
        }
        Value::List(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

macro_rules! not_yet {
    ($($(#[$doc:meta])* $name:ident),*) => { $(
        $(#[$doc])*
        #[function]
        async fn $name(_ctx: &RunnerContext, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
            let _ = (args, kwargs);
            refuse(concat!("state.", stringify!($name), " (states on the master)"))
        }
    )* };
}

not_yet! {
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.graph
    graph,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.graph_highstate
    graph_highstate,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orch
    orch,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orch_show_sls
    orch_show_sls,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orchestrate
    orchestrate,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orchestrate_high
    orchestrate_high,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orchestrate_show_sls
    orchestrate_show_sls,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.orchestrate_single
    orchestrate_single,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.pause
    pause,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.resume
    resume,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.rm_pause
    rm_pause,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.set_pause
    set_pause,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.sls
    sls,
    /// Not supported yet: there are no states on the master.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.soft_kill
    soft_kill
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let data = map! { "b" => list![1, "é", Value::Null], "a" => map! { "x" => true }, "e" => map! {} };
        assert_eq!(json(&data, false).unwrap(), r#"{"b": [1, "é", null], "a": {"x": true}, "e": {}}"#);
        let pretty = "{\n    \"a\": {\n        \"x\": true\n    },\n    \"b\": [\n        1,\n        \"é\",\n        null\n    \
                      ],\n    \"e\": {}\n}";
        assert_eq!(json(&data, true).unwrap(), pretty);
    }
}
