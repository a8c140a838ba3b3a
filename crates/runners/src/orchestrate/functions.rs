//! `saltutil`, as an orchestration sees it: minions, runners and wheel functions.

use std::time::Duration;

use client::batch::Size;
use event::{Filter, MatchType};
use exec::{Call, Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use super::owner;
use crate::local::{Answers, Ask};
use crate::run::{Request, new_jid, run};
use crate::{Kind, RunnerContext};

/// The functions `saltutil.*` of an orchestration.
pub(super) static MODULE: Module =
    Module::new("saltutil", "Minions, runners and wheel functions.", &[&CMD, &RUNNER, &WAIT_FOR_EVENT, &WHEEL]);

/// Has minions run a function and returns their full returns, by id.
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
    if ssh || given("roster") {
        return Err(Error::execution("not supported: ssh and roster in an orchestration"));
    }
    let (arg, kwarg) = (arg.unwrap_or_default(), kwarg.unwrap_or_default());
    let mut told = map! {
        "arg" => arg.clone(), "kwarg" => kwarg.clone(), "ret" => ret.as_str(), "timeout" => timeout,
        "tgt_type" => tgt_type.as_str(), "ssh" => ssh,
    };
    told.update(kwargs.given());
    fire_args(ctx, &runner, &tgt, told).await;
    let mut ask = Ask::new(&runner, tgt, &tgt_type, "").with(arg, kwarg);
    ask.job.function = fun;
    ask.job.returners = ret;
    if let Some(seconds) = timeout.filter(|seconds| *seconds > 0.0) {
        // An infinite or huge number of seconds would panic.
        ask.timeout = Duration::from_secs_f64(seconds.min(1e9));
    }
    let failed = |error: client::Error| Error::execution(error.to_string());
    if let Some(batch) = kwargs.0.get("batch").filter(|batch| batch.truthy()) {
        let size = batch.to_string().parse::<Size>().map_err(|error| Error::execution(error.to_string()))?;
        let answers = ask.run_in_batches(&runner, size, given("failhard")).await.map_err(failed)?;
        return Ok(of_batches(answers));
    }
    let answers = match kwargs.0.get("subset").filter(|subset| subset.truthy()) {
        Some(subset) => ask.run_on_some(&runner, count(subset)?).await,
        None => ask.run(&runner).await,
    };
    let answers = answers.map_err(failed)?;
    let mut returns = Map::new();
    for answer in answers.returned {
        let mut data = answer.data;
        let value = data.remove("return").unwrap_or_default();
        data.insert("ret", value);
        data.entry_or_insert_with("jid", || answers.jid.as_str().into());
        returns.insert(answer.id, data);
    }
    // Only callers that judge silent minions themselves (`expect_minions`, as `salt.state` does) get to see them.
    if given("expect_minions") {
        for id in answers.silent {
            returns.insert(id, map! { "failed" => true });
        }
    }
    Ok(returns)
}

/// Fires what a state of an orchestration asks of minions (`salt/run/<jid>/args`).
async fn fire_args(ctx: &Context, runner: &RunnerContext, tgt: &Value, told: Map) {
    let data = ctx.state.as_ref().and_then(|state| args_event(&state.low, tgt, told));
    let (Some(data), Some(jid)) = (data, ctx.opts.get_str("__orchestration_jid__")) else { return };
    runner.events.fire(&format!("salt/run/{jid}/args"), data).await;
}

/// Returns the data of that event, or nothing for states other than those of `salt`.
fn args_event(low: &Map, tgt: &Value, told: Map) -> Option<Map> {
    let part = |key: &str| low.get(key).cloned().unwrap_or_default();
    let event = || map! { "type" => part("fun"), "tgt" => tgt.clone(), "name" => part("name"), "args" => told };
    (low.get_str("state") == Some("salt")).then(event)
}

/// Returns the results of a run in batches. Salt returns nothing but the outputter and the result here.
fn of_batches(answers: Answers) -> Map {
    let entry = |mut data: Map| {
        let value = data.remove("return").unwrap_or_default();
        let out = value.get("out").cloned().unwrap_or_else(|| "highstate".into());
        map! { "out" => out, "ret" => value }
    };
    answers.returned.into_iter().map(|answer| (answer.id, entry(answer.data))).collect()
}

fn count(subset: &Value) -> Result<usize> {
    let count = subset.as_i64().or_else(|| subset.as_str()?.trim().parse().ok());
    let count = count.and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| Error::execution(format!("subset must be a number of minions, not {subset}")))
}

/// Waits until events have reported each id of a list, or the timeout expires. The state `salt.wait_for_event` uses it.
#[function]
async fn wait_for_event(
    ctx: &Context,
    tag: String,
    id_list: Vec<Value>,
    #[default("id")] event_id: String,
    #[default(300)] timeout: f64,
) -> Result<Map> {
    let runner = owner(ctx)?;
    let filter = Filter::matching(&tag, MatchType::Fnmatch).map_err(|error| Error::execution(error.to_string()))?;
    // Subscribed first; the time this takes does not count.
    let mut events = runner.events.listen(filter).await.map_err(|error| Error::execution(error.to_string()))?;
    let begun = tokio::time::Instant::now();
    let patience = Duration::from_secs_f64(timeout.clamp(0.0, 1e9));
    let (mut left, mut seen) = (id_list, Vec::new());
    let watching = async {
        while !left.is_empty() {
            let Some(event) = events.next().await else {
                return Err(Error::execution("the master closed its event bus"));
            };
            seen.extend(take_seen(event.data(), &event_id, &mut left));
        }
        Ok(())
    };
    // After the timeout, the events seen until then are reported.
    if let Ok(ended) = tokio::time::timeout(patience, watching).await {
        ended?;
    }
    Ok(map! { "seen" => seen, "done" => left.is_empty(), "seconds" => begun.elapsed().as_secs_f64() })
}

/// Removes from the list what an event mentions (one id or several) and returns it.
fn take_seen(data: &Map, event_id: &str, left: &mut Vec<Value>) -> Vec<Value> {
    // Events of minions have their data one level deeper, below `data`.
    let inside = || data.get("data").and_then(|data| data.get(event_id));
    let found = data.get(event_id).filter(|found| !found.is_null()).or_else(inside);
    let told = match found {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::List(several)) => left.iter().filter(|id| several.contains(id)).cloned().collect(),
        Some(one) => vec![one.clone()],
    };
    let mut seen = Vec::new();
    for id in told {
        // An id is taken once, however often events mention it.
        if let Some(place) = left.iter().position(|wanted| *wanted == id) {
            seen.push(left.remove(place));
        }
    }
    seen
}

/// Runs a runner or a wheel function and returns its whole `…/ret` event.
async fn on_master(ctx: &Context, kind: Kind, fun: String, arg: Option<Vec<Value>>, kwargs: Map) -> Result<Map> {
    let runner = owner(ctx)?;
    let jid = new_jid(&runner).await;
    let call = Call { args: arg.unwrap_or_default(), kwargs };
    let request = Request::new(kind, fun, call, jid, runner.job.user.clone());
    // A runner may be an orchestration again.
    Ok(Box::pin(run(&runner, request)).await.data)
}

/// Runs a runner and returns its result, or the full return.
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

/// Runs a wheel function and returns the full return.
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

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn events_tell_of_one_id_or_several_and_of_each_once() {
        let mut left = list!["a", "b", "c"].into_list().unwrap();
        assert_eq!(take_seen(&map! { "id" => "b" }, "id", &mut left), ["b".into()]);
        assert_eq!(take_seen(&map! { "id" => "b" }, "id", &mut left), []);
        assert_eq!(
            take_seen(&map! { "data" => map! { "id" => list!["c", "x", "a"] } }, "id", &mut left),
            ["a".into(), "c".into()]
        );
        assert!(left.is_empty() && take_seen(&map! { "x" => 1 }, "id", &mut left).is_empty());
    }

    #[test]
    fn states_of_salt_tell_what_they_ask() {
        let mut low = map! { "state" => "salt", "fun" => "function", "name" => "test.ping", "__id__" => "x" };
        let told = map! { "arg" => list![1], "tgt_type" => "glob" };
        let event = args_event(&low, &"web*".into(), told.clone()).unwrap();
        let wanted = map! { "type" => "function", "tgt" => "web*", "name" => "test.ping", "args" => told.clone() };
        assert_eq!(event, wanted);
        low.insert("state", "saltutil");
        assert_eq!(args_event(&low, &"web*".into(), told), None);
    }

    #[test]
    fn a_batch_tells_of_the_results_alone() {
        let returned =
            client::gather::Return { id: "web1".into(), data: map! { "return" => map! { "x" => 1 }, "retcode" => 2 } };
        let told = of_batches(Answers { returned: vec![returned], ..Answers::default() });
        assert_eq!(told, map! { "web1" => map! { "out" => "highstate", "ret" => map! { "x" => 1 } } });
        assert_eq!(count(&"3".into()).unwrap(), 3);
        assert!(count(&"-3".into()).is_err());
    }
}
