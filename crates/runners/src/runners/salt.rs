//! `salt` — execution functions from within runners.

use std::time::Duration;

use exec::{Call, KwArgs, Result, VarArgs, function};
use value::{Map, Value};

use crate::local::Ask;
use crate::{Module, RunnerContext, orchestrate};
use value::error::chain;

/// The functions of the runner `salt`.
pub static MODULE: Module = Module::new("salt", "Execution functions from within runners.", &[&CMD, &EXECUTE]);

/// Runs an execution function on the master itself and returns its result. With ``with_pillar=True`` the function sees
/// the pillar of the master's own id.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run salt.cmd test.ping
///     salt-run salt.cmd test.arg 1 2 3 a=1
///     salt-run salt.cmd pillar.items with_pillar=True
#[function]
async fn cmd(ctx: &RunnerContext, fun: String, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    let mut kwargs = kwargs.given();
    let with_pillar = kwargs.remove("with_pillar").is_some_and(|wanted| wanted.truthy());
    orchestrate::function(ctx, &fun, Call { args: args.0, kwargs }, with_pillar).await
}

/// Runs an execution function on minions and returns their results, by id. Without a master it is an empty map.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt-run salt.execute '*' test.arg arg='[1, 2]' kwarg='{a: 1}'
#[function]
async fn execute(
    ctx: &RunnerContext,
    tgt: Value,
    fun: Value,
    arg: Option<Value>,
    timeout: Option<f64>,
    #[default("glob")] tgt_type: String,
    #[default("")] ret: String,
    #[default("")] jid: String,
    kwarg: Option<Map>,
    kwargs: KwArgs,
) -> Result<Map> {
    let args = match arg {
        Some(Value::List(items)) => items,
        Some(Value::Str(text)) => text.split(',').map(yaml::args::parse_cli_arg).collect(),
        Some(single) => vec![single],
        None => Vec::new(),
    };
    let mut ask = Ask::new(ctx, tgt, &tgt_type, "").with(args, kwarg.unwrap_or_default());
    ask.job.function = fun;
    ask.job.returners = ret;
    ask.job.jid = jid;
    ask.job.options = kwargs.given();
    if let Some(seconds) = timeout.filter(|seconds| *seconds > 0.0) {
        ask.timeout = Duration::from_secs_f64(seconds.min(1e9));
    }
    match ask.run(ctx).await {
        Ok(answers) => Ok(answers.results(ctx)),
        // Salt logs the failure and returns an empty map.
        Err(error) => {
            tracing::error!("Error while executing {} on {} ({tgt_type})", ask.job.function, ask.job.target);
            tracing::error!("{}", chain(&error));
            Ok(Map::new())
        }
    }
}
