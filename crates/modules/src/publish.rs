//! `publish` — commanding other minions through the master, as far as its option `peer` allows it.

use std::time::{Duration, Instant};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

/// The module.
pub static MODULE: Module = Module::new(
    "publish",
    "Functions that command other minions through the master.",
    &[&FULL_DATA, &PUBLISH, &RUNNER],
);

/// The pause between two questions for returns.
// Salt's interval. The master answers at once, so shorter ones would only load it.
const INTERVAL: Duration = Duration::from_millis(300);

/// A job for others.
struct Job {
    tgt: Value,
    fun: String,
    arg: Option<Value>,
    tgt_type: String,
    returner: String,
    timeout: f64,
    form: &'static str,
}

/// Text is read as on the command line.
fn arguments(arg: Option<Value>) -> Vec<Value> {
    let read = |item: Value| match item {
        Value::Str(text) => yaml::args::parse_cli_arg(&text),
        other => other,
    };
    match arg.map(read) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(items)) => items.into_iter().map(read).collect(),
        Some(single) => vec![single],
    }
}

/// Returns whether there is no master to ask. A call with `--local` must not use the masters of the minion on the same
/// machine.
fn no_master(ctx: &Context) -> bool {
    let on = |name: &str| ctx.opt(name).is_some_and(Value::truthy);
    let alone = on("local") && !on("use_master_when_local");
    alone || (ctx.is_local() && ctx.agent.masters().is_empty())
}

fn ask(ctx: &Context, load: Map, timeout: f64) -> Result<Value> {
    // A minute more than the job itself takes, for the way there and back.
    let limit = Duration::try_from_secs_f64(timeout.max(0.0) + 60.0).unwrap_or(Duration::from_secs(60));
    ctx.wait(ctx.agent.request(load, Some(limit)))
}

impl Job {
    fn run(self, ctx: &Context) -> Result<Value> {
        if no_master(ctx) {
            tracing::error!("Cannot run publish commands without a connection to a salt master. No command sent.");
            return Ok(Map::new().into());
        }
        // A job that publishes jobs could go round in circles for ever. The master refuses it as
        // well.
        if self.fun.starts_with("publish.") {
            tracing::info!("Cannot publish publish calls. Returning {{}}");
            return Ok(Map::new().into());
        }
        let load = map! {
            "cmd" => "minion_pub", "fun" => self.fun.clone(), "arg" => arguments(self.arg), "tgt" => self.tgt,
            "tgt_type" => self.tgt_type, "ret" => self.returner, "tmo" => self.timeout, "form" => self.form,
            "id" => ctx.id(), "no_parse" => ctx.opt("no_parse").cloned().unwrap_or_else(|| Value::List(Vec::new())),
        };
        tracing::info!("Publishing '{}'", self.fun);
        let job = ask(ctx, load, self.timeout)?;
        if !job.truthy() {
            return Ok(Map::new().into());
        }
        let jid = job.get("jid").cloned().unwrap_or_default();
        let expected = job.get("minions").and_then(Value::as_list).unwrap_or_default();
        if expected.is_empty() {
            // Salt returns nothing for a job that matched no minion, and an empty map for one the master refused.
            return Ok(Value::Null);
        }
        gather(ctx, jid, expected, self.timeout, self.form == "clean")
    }
}

/// Queries the returns until all have arrived or the timeout expires.
fn gather(ctx: &Context, jid: Value, expected: &[Value], timeout: f64, clean: bool) -> Result<Value> {
    let begin = Instant::now();
    loop {
        let load = map! { "cmd" => "pub_ret", "id" => ctx.id(), "jid" => jid.clone() };
        let returns = ask(ctx, load, timeout)?.into_map().unwrap_or_default();
        // Once all have answered, there is nothing to wait for.
        let complete = expected.iter().all(|id| returns.get_value(id).is_some());
        if complete || begin.elapsed().as_secs_f64() > timeout {
            if !clean {
                return Ok(returns.into());
            }
            let plain = |ret: &Value| ret.get("ret").cloned().unwrap_or_default();
            return Ok(returns.iter().map(|(id, ret)| (id.clone(), plain(ret))).collect::<Map>().into());
        }
        ctx.sleep(INTERVAL);
    }
}

/// Publishes a function to other minions and returns their results.
///
/// The master must allow it with its option ``peer``. ``via_master`` names the master to ask, which is always that of
/// the job here.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt system.example.com publish.publish '*' user.add 'foo,1020,1020'
///     salt system.example.com publish.publish 'os:Fedora' network.interfaces '' grain
#[function]
fn publish(
    ctx: &Context,
    tgt: Value,
    fun: String,
    arg: Option<Value>,
    #[default("glob")] tgt_type: String,
    #[default("")] returner: String,
    #[default(5)] timeout: f64,
    via_master: Option<String>,
) -> Result<Value> {
    if let Some(name) = via_master.filter(|name| !name.is_empty()) {
        check_master(ctx, &name)?;
    }
    Job { tgt, fun, arg, tgt_type, returner, timeout, form: "clean" }.run(ctx)
}

fn check_master(ctx: &Context, name: &str) -> Result<()> {
    let masters = ctx.agent.masters();
    let hosts: Vec<Value> = masters.iter().map(|master| master.address.as_str().into()).collect();
    let named: Vec<_> = masters.iter().filter(|master| master.host == name).collect();
    if named.is_empty() {
        return Err(Error::invocation(format!(
            "Could not find match for {name} in list of configured masters {} when using `via_master` option",
            Value::List(hosts)
        )));
    }
    if named.iter().any(|master| master.asking) {
        return Ok(());
    }
    Err(Error::execution(format!(
        "not supported: publish.publish via_master={name}, which is not the master of this job"
    )))
}

/// Publishes a function to other minions and returns their full returns.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt system.example.com publish.full_data '*' cmd.run 'ls -la /tmp'
#[function]
fn full_data(
    ctx: &Context,
    tgt: Value,
    fun: String,
    arg: Option<Value>,
    #[default("glob")] tgt_type: String,
    #[default("")] returner: String,
    #[default(5)] timeout: f64,
) -> Result<Value> {
    Job { tgt, fun, arg, tgt_type, returner, timeout, form: "full" }.run(ctx)
}

/// Makes the master run a runner, if its option ``peer_run`` allows it, and returns the result.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt publish.runner manage.down
#[function]
fn runner(ctx: &Context, fun: String, arg: Option<Value>, #[default(5)] timeout: f64) -> Result<Value> {
    if no_master(ctx) {
        return Ok("No access to master. If using salt-call with --local, please remove.".into());
    }
    let load = map! {
        "cmd" => "minion_runner", "fun" => fun, "arg" => arguments(arg), "tmo" => timeout, "id" => ctx.id(),
        "no_parse" => ctx.opt("no_parse").cloned().unwrap_or_else(|| Value::List(Vec::new())),
    };
    ask(ctx, load, timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::context;
    use value::list;

    #[test]
    fn a_job_for_nobody_returns_nothing() {
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {});
        let nobody = Value::from(map! { "jid" => "7", "minions" => list![] });
        agent.answers.lock().unwrap().extend([nobody.clone(), nobody, Value::from(map! {})]);
        for (fun, expected) in [("publish", Value::Null), ("full_data", Value::Null), ("publish", map! {}.into())] {
            let call = ctx.call(&format!("publish.{fun}"), list!["x", "test.ping"].into_list().unwrap()).unwrap();
            assert_eq!(call, expected);
        }
    }

    #[test]
    fn returns_are_gathered_until_all_are_there() {
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {});
        let one = map! { "a" => map! { "ret" => 1 } };
        let both = map! { "a" => map! { "ret" => 1 }, "b" => map! { "ret" => 2 } };
        agent.answers.lock().unwrap().extend([
            Value::from(map! { "jid" => "7", "minions" => list!["a", "b"] }),
            one.into(),
            both.into(),
        ]);
        let call = ctx.call("publish.publish", list!["*", "test.ping", "x"].into_list().unwrap()).unwrap();
        assert_eq!(call, map! { "a" => 1, "b" => 2 }.into());
        let asked = agent.asked.lock().unwrap();
        assert_eq!(asked[0].get("arg"), Some(&list!["x"]));
        assert_eq!(asked[1], map! { "cmd" => "pub_ret", "id" => "m", "jid" => "7" });
        assert_eq!(asked.len(), 3);
    }

    #[test]
    fn a_call_with_local_asks_no_master_though_the_minion_beside_it_has_some() {
        let opts = map! { "id" => "m", "local" => true, "file_client" => "local" };
        let (ctx, agent) = context(&[&MODULE], opts, map! {}, map! {});
        let args = || list!["a", "test.ping"].into_list().unwrap();
        assert_eq!(ctx.call("publish.publish", args()).unwrap(), map! {}.into());
        assert!(ctx.call("publish.runner", args()).unwrap().to_string().starts_with("No access to master."));
        assert!(agent.asked.lock().unwrap().is_empty());
    }

    #[test]
    fn no_publication_asks_for_a_publication() {
        let (ctx, agent) = context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {});
        let call = ctx.call("publish.full_data", list!["*", "publish.publish"].into_list().unwrap()).unwrap();
        assert_eq!(call, map! {}.into());
        assert!(agent.asked.lock().unwrap().is_empty());
    }
}
