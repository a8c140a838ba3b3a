//! `state` — orchestrations, and the event bus on the screen.

use exec::{Call, Error, Function, KwArgs, Result, function};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use store::proc_dir::ProcDir;
use value::{Map, Value, map};

use crate::context::failed;
use crate::local::Ask;
use crate::refusal::refuse;
use crate::texts::expr_match;
use crate::{Events, Module, RunnerContext, orchestrate};

/// The functions of the runner `state`.
pub static MODULE: Module = Module::new(
    "state",
    "Orchestrations, and the event bus on the screen.",
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
/// `tagmatch` is a shell glob or a regular expression; `count` is the number of events to wait for, `-1` for no limit;
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
    // Salt lets the runner listen to a minion on the same host; here `salt-call` does that.
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
    // A negative count waits for ever, so it is never decremented.
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

/// Writes JSON as Python does: with a space after commas and colons, or sorted and on several lines.
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
    // Python's `sort_keys` sorts at every level.
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

/// The arguments of an orchestration.
struct OrchestrateArgs {
    saltenv: Value,
    test: Option<Value>,
    exclude: Option<Value>,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    pillar_enc: Option<Value>,
}

impl OrchestrateArgs {
    /// Returns them as named arguments, with the environments from the configuration where none are given.
    fn named(self, ctx: &RunnerContext) -> Map {
        let option = |name: &str| ctx.config.raw.get(name).cloned();
        let saltenv = if self.saltenv.is_null() { option("saltenv").unwrap_or_default() } else { self.saltenv };
        let pillarenv = self.pillarenv.or_else(|| option("pillarenv"));
        map! {
            "saltenv" => saltenv, "test" => self.test, "exclude" => self.exclude, "pillar" => self.pillar,
            "pillarenv" => pillarenv, "pillar_enc" => self.pillar_enc,
        }
    }
}

/// Applies SLS files on the master: ``salt.state``, ``salt.function``, ``salt.runner`` and ``salt.wheel`` in them reach
/// minions and the master.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.orchestrate webserver
///     salt-run state.orchestrate webserver saltenv=dev test=True
#[function(name = "orchestrate")]
async fn orchestrate(
    ctx: &RunnerContext,
    mods: Value,
    #[default("base")] saltenv: Value,
    test: Option<Value>,
    exclude: Option<Value>,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    pillar_enc: Option<Value>,
    orchestration_jid: Option<String>,
) -> Result<Map> {
    let given = OrchestrateArgs { saltenv, test, exclude, pillar, pillarenv, pillar_enc };
    orchestrate::sls(ctx, mods, orchestration_jid, given.named(ctx)).await
}

/// `orch`: the same as `orchestrate`.
static ORCH: Function<RunnerContext> = Function {
    name: "orch",
    doc: "The same as ``state.orchestrate``.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt-run state.orch webserver",
    ..ORCHESTRATE
};

/// `sls`: the same as `orchestrate`.
static SLS: Function<RunnerContext> = Function {
    name: "sls",
    doc: "The same as ``state.orchestrate``.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt-run state.sls webserver",
    ..ORCHESTRATE
};

/// Returns the high data of SLS files as an orchestration sees them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.orchestrate_show_sls webserver
#[function(name = "orchestrate_show_sls")]
async fn orchestrate_show_sls(
    ctx: &RunnerContext,
    mods: Value,
    #[default("base")] saltenv: Value,
    test: Option<Value>,
    #[default(false)] queue: Value,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    pillar_enc: Option<Value>,
) -> Result<Map> {
    let _ = queue;
    let given = OrchestrateArgs { saltenv, test, exclude: None, pillar, pillarenv, pillar_enc };
    let mut kwargs = given.named(ctx);
    kwargs.insert("mods", mods);
    orchestrate::other(ctx, "state.show_sls", kwargs).await
}

/// `orch_show_sls`: the same as `orchestrate_show_sls`.
static ORCH_SHOW_SLS: Function<RunnerContext> = Function {
    name: "orch_show_sls",
    doc: "The same as ``state.orchestrate_show_sls``.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt-run state.orch_show_sls webserver",
    ..ORCHESTRATE_SHOW_SLS
};

/// Applies one state on the master.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.orchestrate_single fun=salt.wheel name=key.list_all
#[function]
async fn orchestrate_single(
    ctx: &RunnerContext,
    fun: Value,
    name: Value,
    test: Option<Value>,
    #[default(false)] queue: Value,
    pillar: Option<Value>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = queue;
    let mut all = kwargs.given();
    all.update(map! { "fun" => fun, "name" => name, "test" => test, "pillar" => pillar });
    let ret = orchestrate::other(ctx, "state.single", all).await?;
    ctx.progress(map! { "data" => ret.clone(), "outputter" => "highstate" }).await;
    Ok(ret)
}

/// Applies high data on the master.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.orchestrate_high '{stage_one: {salt.state: [{tgt: "db*"}, {sls: [stage_one]}]}}'
#[function]
async fn orchestrate_high(
    ctx: &RunnerContext,
    data: Value,
    test: Option<Value>,
    #[default(false)] queue: Value,
    pillar: Option<Value>,
    kwargs: KwArgs,
) -> Result<Map> {
    let _ = queue;
    let mut all = kwargs.given();
    all.update(map! { "data" => data, "test" => test, "pillar" => pillar });
    let ret = orchestrate::other(ctx, "state.high", all).await?;
    ctx.progress(map! { "data" => ret.clone(), "outputter" => "highstate" }).await;
    Ok(ret)
}

/// The states to draw a graph of.
struct Drawn {
    fun: &'static str,
    args: Vec<Value>,
    named: Map,
}

/// Has minions draw the graph, or the master if there is no target.
async fn drawn(
    ctx: &RunnerContext,
    tgt: Option<Value>,
    tgt_type: &str,
    timeout: Option<f64>,
    what: Drawn,
) -> Result<Value> {
    let Drawn { fun, args, mut named } = what;
    if let Some(tgt) = tgt.filter(Value::truthy) {
        let mut ask = Ask::new(ctx, tgt, tgt_type, fun).with(args, named);
        if let Some(seconds) = timeout.filter(|seconds| *seconds > 0.0) {
            ask.timeout = std::time::Duration::from_secs_f64(seconds.min(1e9));
        }
        return Ok(ask.run_or_fail(ctx).await?.results(ctx).into());
    }
    // An argument that is not given must not reach the function as a null.
    named.retain(|_, value| !value.is_null());
    orchestrate::function(ctx, fun, Call { args, kwargs: named }, true).await
}

/// Returns the dependencies of SLS files as a graph in the language of Graphviz, as minions or the master see them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.graph webserver
///     salt-run state.graph webserver tgt='*'
#[function]
async fn graph(
    ctx: &RunnerContext,
    mods: Value,
    tgt: Option<Value>,
    #[default("glob")] tgt_type: String,
    #[default("base")] saltenv: Value,
    test: Option<Value>,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    pillar_enc: Option<Value>,
    timeout: Option<f64>,
) -> Result<Value> {
    orchestrate::check_pillar(pillar.as_ref())?;
    let named = map! {
        "test" => test, "pillar" => pillar, "saltenv" => saltenv, "pillarenv" => pillarenv, "pillar_enc" => pillar_enc,
    };
    drawn(ctx, tgt, &tgt_type, timeout, Drawn { fun: "state.graph", args: vec![mods], named }).await
}

/// Returns the dependencies of the highstate as a graph in the language of Graphviz.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run state.graph_highstate
///     salt-run state.graph_highstate tgt='*'
#[function]
async fn graph_highstate(
    ctx: &RunnerContext,
    tgt: Option<Value>,
    #[default("glob")] tgt_type: String,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    pillar_enc: Option<Value>,
    timeout: Option<f64>,
) -> Result<Value> {
    orchestrate::check_pillar(pillar.as_ref())?;
    let named = map! { "pillar" => pillar, "pillarenv" => pillarenv, "pillar_enc" => pillar_enc };
    drawn(ctx, tgt, &tgt_type, timeout, Drawn { fun: "state.graph_highstate", args: Vec::new(), named }).await
}

/// Records what is to happen to a running orchestration. As with Salt, the request for an unknown one is recorded too:
/// it may be about to start.
async fn steer(ctx: &RunnerContext, fun: &str, kwargs: Map) -> Result<()> {
    let jid = kwargs.get_str("jid").unwrap_or_default().to_owned();
    if !is_running(ctx, &jid).await {
        tracing::warn!("{fun}: no runner with the job id {jid} is running on this master");
    }
    orchestrate::function(ctx, fun, Call { args: Vec::new(), kwargs }, false).await.map(drop)
}

/// Returns whether a runner of this job is running on this master.
async fn is_running(ctx: &RunnerContext, jid: &str) -> bool {
    let jid = jid.to_owned();
    let entry = ctx.blocking(move |ctx| ProcDir::new(ctx.cachedir()).get(&jid).map_err(failed)).await;
    entry.is_ok_and(|entry| entry.is_some())
}

macro_rules! steering {
    ($($(#[$doc:meta])* $name:ident ($fun:literal $(, $duration:ident)?)),*) => { $(
        $(#[$doc])*
        #[function]
        async fn $name(
            ctx: &RunnerContext,
            jid: Value,
            state_id: Option<Value>,
            $($duration: Option<i64>,)?
        ) -> Result<()> {
            // A job id on the command line is read as a number.
            #[allow(unused_mut)]
            let mut kwargs = map! { "jid" => jid.to_string(), "state_id" => state_id };
            $(kwargs.insert("duration", $duration);)?
            steer(ctx, $fun, kwargs).await
        }
    )* };
}

steering! {
    /// Pauses an orchestration before a state, or before the next one, for some seconds or until it is resumed.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.pause 20171130110407769519
    ///     salt-run state.pause 20171130110407769519 vim duration=20
    pause("state.pause", duration),
    /// The same as ``state.pause``.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.set_pause 20171130110407769519
    set_pause("state.pause", duration),
    /// Resumes a paused orchestration.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.resume 20171130110407769519
    resume("state.resume"),
    /// The same as ``state.resume``.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.rm_pause 20171130110407769519
    rm_pause("state.resume"),
    /// Ends an orchestration before a state, or before the next one.
    ///
    /// CLI Example:
    ///
    /// .. code-block:: bash
    ///
    ///     salt-run state.soft_kill 20171130110407769519
    ///     salt-run state.soft_kill 20171130110407769519 vim
    soft_kill("state.soft_kill")
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        // Programs parse this output line by line, and Python's spaces are part of what they compare.
        let data = map! { "b" => list![1, "é", Value::Null], "a" => map! { "x" => true }, "e" => map! {} };
        assert_eq!(json(&data, false).unwrap(), r#"{"b": [1, "é", null], "a": {"x": true}, "e": {}}"#);
        let pretty = "{\n    \"a\": {\n        \"x\": true\n    },\n    \"b\": [\n        1,\n        \"é\",\n        null\n    \
                      ],\n    \"e\": {}\n}";
        assert_eq!(json(&data, true).unwrap(), pretty);
    }
}
