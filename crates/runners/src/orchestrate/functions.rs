//! `saltutil`, as an orchestration sees it: minions, runners and wheel functions.

use std::time::Duration;

use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use super::owner;
use crate::local::Ask;
use crate::run::{Kind, Request, new_jid, run};

/// The module.
pub(super) static MODULE: Module =
    Module::new("saltutil", "Minions, runners and wheel functions.", &[&CMD, &RUNNER, &WHEEL]);

/// Has minions run a function and returns their returns with all about them, by id.
#[function]
async fn cmd(
    ctx: &Context,
    tgt: Value,
    fun: Value,
    arg: Option<Vec<Value>>,
    timeout: Option<f64>,
    #[default("glob")] tgt_type: String,
    #[default("")] ret: String,
    kwarg: Option<Map>,
    #[default(false)] ssh: bool,
    kwargs: KwArgs,
) -> Result<Map> {
    let runner = owner(ctx)?;
    let given = |key: &str| kwargs.0.get(key).is_some_and(Value::truthy);
    for name in ["batch", "subset", "roster"] {
        if given(name) {
            return Err(Error::execution(format!("not supported: {name} in an orchestration")));
        }
    }
    if ssh {
        return Err(Error::execution("not supported: ssh in an orchestration"));
    }
    let mut ask = Ask::new(&runner, tgt, &tgt_type, "").with(arg.unwrap_or_default(), kwarg.unwrap_or_default());
    ask.job.function = fun;
    ask.job.returners = ret;
    if let Some(seconds) = timeout.filter(|seconds| *seconds > 0.0) {
        ask.timeout = Duration::from_secs_f64(seconds.min(1e9));
    }
    let answers = ask.run(&runner).await.map_err(|error| Error::execution(error.to_string()))?;
    let mut returns = Map::new();
    for answer in answers.returned {
        let mut data = answer.data;
        let value = data.remove("return").unwrap_or_default();
        data.insert("ret", value);
        data.entry_or_insert_with("jid", || answers.jid.as_str().into());
        returns.insert(answer.id, data);
    }
    if given("expect_minions") {
        for id in answers.silent {
            returns.insert(id, map! { "failed" => true });
        }
    }
    Ok(returns)
}

/// Runs a runner or a wheel function and returns all about it.
async fn on_master(ctx: &Context, kind: Kind, fun: String, arg: Option<Vec<Value>>, kwargs: Map) -> Result<Map> {
    let runner = owner(ctx)?;
    let jid = new_jid(&runner).await;
    let call = Call { args: arg.unwrap_or_default(), kwargs };
    let request = Request::new(kind, fun, call, jid, runner.job.user.clone());
    // A runner may be an orchestration again.
    Ok(Box::pin(run(&runner, request)).await.data)
}

/// Runs a runner and returns its result, or all about it.
#[function]
async fn runner(
    ctx: &Context,
    name: String,
    arg: Option<Vec<Value>>,
    kwarg: Option<Map>,
    #[default(false)] full_return: bool,
    kwargs: KwArgs,
) -> Result<Value> {
    let mut named = kwarg.unwrap_or_default();
    named.update(kwargs.given());
    let data = on_master(ctx, Kind::Runner, name, arg, named).await?;
    Ok(if full_return { data.into() } else { data.get("return").cloned().unwrap_or_default() })
}

/// Runs a wheel function and returns all about it.
#[function]
async fn wheel(
    ctx: &Context,
    name: String,
    arg: Option<Vec<Value>>,
    kwarg: Option<Map>,
    kwargs: KwArgs,
) -> Result<Map> {
    let mut named = kwarg.unwrap_or_default();
    named.update(kwargs.given());
    on_master(ctx, Kind::Wheel, name, arg, named).await
}
