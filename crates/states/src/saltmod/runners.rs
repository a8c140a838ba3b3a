//! `salt.runner`, `salt.parallel_runners` and `salt.wheel`.

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::Ret;
use crate::support::saltenv;

/// The arguments with what the master adds about the orchestration.
fn with_orchestration(ctx: &Context, kwargs: Map) -> Map {
    let mut all = map! {
        // A runner finds out with this that it runs inside an orchestration, and can report to its
        // job.
        "__orchestration_jid__" => ctx.opt("__orchestration_jid__").cloned(), "__env__" => saltenv(ctx),
    };
    all.update(kwargs);
    all
}

/// Makes the result of a state from the output of a runner or wheel function.
fn state_result(name: Value, kind: &str, out: Value) -> Ret {
    let returned = out.get("return").cloned().unwrap_or_default();
    // Some failures come back as a map with the key `Error` and not as an exception.
    let refused = returned.as_map().is_some_and(|map| map.contains_key("Error"));
    let success = !refused && out.get("success").is_none_or(Value::truthy);
    let how = if success { "executed" } else { "failed" };
    let text = format!("{kind} function '{name}' {how}.");
    let mut ret = Ret::new(name).changed(map! { "return" => returned }).ok(text);
    ret.result = Some(success);
    if let Some(jid) = out.get("jid") {
        ret.more.insert("__jid__", jid.clone());
    }
    ret
}

/// Runs a runner with the other arguments.
#[function]
fn runner(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    if ctx.is_test() {
        let text = format!("Runner function '{name}' would be executed.");
        return Ok(Ret::new(name).would(text));
    }
    let mut kwargs = with_orchestration(ctx, kwargs.0);
    // Without it the return lacks the job id and the `success` flag.
    kwargs.insert("full_return", true);
    let out = ctx.call_with("saltutil.runner", Call { args: vec![name.clone()], kwargs })?;
    Ok(state_result(name, "Runner", out))
}

/// Runs a wheel function with the other arguments.
#[function]
fn wheel(ctx: &Context, name: Value, kwargs: KwArgs) -> Result<Ret> {
    if ctx.is_test() {
        let text = format!("Wheel function '{name}' would be executed.");
        return Ok(Ret::new(name).would(text));
    }
    let kwargs = with_orchestration(ctx, kwargs.0);
    let out = ctx.call_with("saltutil.wheel", Call { args: vec![name.clone()], kwargs })?;
    Ok(state_result(name, "Wheel", out))
}

/// A runner with its arguments.
struct Job {
    id: Value,
    fun: Value,
    kwargs: Map,
}

/// Reads the runners: their ids with lists or maps of ``name`` and ``kwarg``.
fn jobs(runners: &Map) -> Vec<Job> {
    let read = |(id, config): (&Value, &Value)| {
        let config = match config {
            Value::Map(map) => map.clone(),
            // SLS files usually write a list of maps with one key each.
            Value::List(items) => {
                items.iter().filter_map(Value::as_map).flatten().collect::<Vec<_>>().into_iter().fold(
                    Map::new(),
                    |mut all, (key, value)| {
                        all.insert(key.clone(), value.clone());
                        all
                    },
                )
            }
            _ => Map::new(),
        };
        let fun = config.get("name").cloned().unwrap_or_else(|| id.clone());
        let kwargs = config.get("kwarg").and_then(Value::as_map).cloned().unwrap_or_default();
        Job { id: id.clone(), fun, kwargs }
    };
    runners.iter().map(read).collect()
}

/// Runs several runners at once. It succeeds when all do.
#[function]
fn parallel_runners(ctx: &Context, name: Value, runners: Value, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let ret = Ret::new(name);
    let runners = match runners {
        Value::Str(fun) => map! { fun.as_str() => map! { "name" => fun.clone() } },
        Value::Map(runners) => runners,
        _ => return Ok(ret.fail("The runners parameter must be a string or dict.")),
    };
    let jobs = jobs(&runners);
    let calls = jobs.iter().map(|job| {
        let mut kwargs = with_orchestration(ctx, job.kwargs.clone());
        kwargs.insert("full_return", true);
        move || ctx.call_with("saltutil.runner", Call { args: vec![job.fun.clone()], kwargs })
    });
    let mut outputs = Map::new();
    // All runners have finished by then. The first error in the order of the file is reported.
    for (job, out) in jobs.iter().zip(ctx.side_by_side(calls.collect())) {
        match out {
            Ok(out) => drop(outputs.insert(job.id.clone(), out.get("return").cloned().unwrap_or_default())),
            Err(error @ (Error::Execution(_) | Error::Invocation(_) | Error::CommandNotFound(_))) => {
                let mut ret = ret.fail(format!("One of the runners raised an exception: {error}"));
                ret.more.insert("success", false);
                return Ok(ret);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(gathered(ret, outputs))
}

fn gathered(ret: Ret, outputs: Map) -> Ret {
    const DONE: &str = "All runner functions executed successfully.";
    // Only if all outputs are highstates is the report made from their changes. One other output
    // changes the whole form.
    let is_highstate = |out: &Value| {
        out.get("outputter").is_some_and(|out| out.as_str() == Some("highstate")) && out.get("data").is_some()
    };
    // A missing code is a success; 0 is the only good one.
    let code = |out: &Value, key: &str| out.get(key).is_some_and(|code| code != &Value::Int(0));
    if !outputs.values().all(is_highstate) {
        let failed: Vec<String> =
            outputs.iter().filter(|(_, out)| code(out, "exit_code")).map(|(id, _)| id.to_string()).collect();
        let text = match failed.as_slice() {
            [] => DONE.to_owned(),
            [one] => format!("Runner {one} failed."),
            all => format!("Runners {} failed.", all.join(", ")),
        };
        let mut ret = ret.changed(map! { "ret" => outputs }).ok(text);
        ret.result = Some(failed.is_empty());
        return ret;
    }
    let data = |out: &Value| out.get("data").cloned().unwrap_or_default();
    let failed: Vec<String> = outputs
        .iter()
        .filter(|(_, out)| code(&data(out), "retcode"))
        .map(|(id, out)| format!("Runner {id} failed with return value:\n{out}"))
        .collect();
    let changes: Map = outputs
        .iter()
        .map(|(id, out)| (id.clone(), changes_in(&data(out))))
        .filter(|(_, changes)| changes.truthy())
        .collect();
    let mut ret = ret.changed(changes).ok(if failed.is_empty() { DONE.to_owned() } else { failed.join("\n") });
    ret.result = Some(failed.is_empty());
    ret
}

/// Searches an output for `changes`, however deep they are.
fn changes_in(value: &Value) -> Value {
    let Value::Map(map) = value else { return Map::new().into() };
    if let Some(changes) = map.get("changes") {
        // A nested orchestration wraps its changes in an outputter's envelope.
        let inner = changes.get("out").filter(|out| out.as_str() == Some("highstate")).and(changes.get("ret"));
        return inner.unwrap_or(changes).clone();
    }
    let found = map.iter().map(|(key, value)| (key.clone(), changes_in(value))).filter(|(_, found)| found.truthy());
    found.collect::<Map>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn runners_have_names_and_arguments() {
        let runners = map! {
            "one" => list![map! { "name" => "manage.up" }, map! { "kwarg" => map! { "a" => 1 } }], "manage.down" => (),
        };
        let jobs = jobs(&runners);
        assert_eq!((&jobs[0].fun, &jobs[0].kwargs), (&"manage.up".into(), &map! { "a" => 1 }));
        assert_eq!(jobs[1].fun, "manage.down".into());
    }

    #[test]
    fn what_several_runners_came_to_is_gathered() {
        let ret = gathered(Ret::new("n"), map! { "a" => map! { "exit_code" => 1 }, "b" => map! { "x" => 1 } });
        assert_eq!((ret.result, ret.comment), (Some(false), "Runner a failed.".into()));
        let below = map! { "a" => map! { "changes" => map! { "x" => 1 } }, "b" => map! { "changes" => map! {} } };
        let one = map! { "outputter" => "highstate", "data" => map! { "retcode" => 0, "master" => below } };
        let ret = gathered(Ret::new("n"), map! { "one" => one });
        assert_eq!(ret.comment, "All runner functions executed successfully.".into());
        assert_eq!(ret.changes, map! { "one" => map! { "master" => map! { "a" => map! { "x" => 1 } } } });
    }
}
