//! `salt.state`.

use exec::{Call, Context, KwArgs, Result, function};
use value::{Map, Value, list, map, python};

use super::{fails_hard, minions, note_jid};
use crate::Ret;

/// Has minions apply SLS files (``sls``), the highstate (``highstate: True``) or a top file (``top``).
///
/// Fails when it fails on more than ``allow_fail`` minions; those in ``fail_minions`` do not count.
#[function]
fn state(
    ctx: &Context,
    name: Value,
    tgt: Value,
    #[default(false)] ssh: Value,
    #[default("glob")] tgt_type: Value,
    #[default("")] ret: Value,
    ret_config: Option<Value>,
    ret_kwargs: Option<Value>,
    highstate: Option<Value>,
    sls: Option<Value>,
    top: Option<Value>,
    saltenv: Option<Value>,
    test: Option<Value>,
    pillar: Option<Value>,
    pillarenv: Option<Value>,
    #[default(true)] expect_minions: Value,
    exclude: Option<Value>,
    fail_minions: Option<Value>,
    #[default(0)] allow_fail: Value,
    #[default(false)] concurrent: Value,
    timeout: Option<Value>,
    batch: Option<Value>,
    #[default(false)] queue: Value,
    subset: Option<Value>,
    orchestration_jid: Option<Value>,
    failhard: Option<Value>,
    kwargs: KwArgs,
) -> Result<Ret> {
    let _ = orchestration_jid;
    let mut state = Ret::new(name).ok("");
    let allowed = match allow_fail.as_i64().or_else(|| allow_fail.as_str()?.trim().parse().ok()) {
        Some(allowed) => allowed,
        None => return Ok(state.fail("Passed invalid value for 'allow_fail', must be an int")),
    };
    let given = |value: &Option<Value>| value.clone().filter(Value::truthy);
    let Some((fun, arg)) = function_and_argument(given(&highstate), given(&top), given(&sls)) else {
        return Ok(state.fail("No highstate or sls specified, no execution made"));
    };
    // Running states side by side is dangerous, so a misspelt value must not count as true.
    if !matches!(concurrent, Value::Bool(_)) {
        return Ok(state.fail("Must pass in boolean for value of 'concurrent'"));
    }
    let mut named = Map::new();
    let testing = test.as_ref().is_some_and(Value::truthy) || ctx.is_test();
    // `test: False` is passed on as well: it overrides `test: True` in a minion's configuration.
    if test.is_some() || ctx.is_test() {
        named.insert("test", test.clone().unwrap_or(true.into()));
    }
    insert_some(
        &mut named,
        [("pillar", given(&pillar)), ("pillarenv", pillarenv), ("saltenv", saltenv), ("exclude", exclude)],
    );
    named.update(map! { "queue" => queue, "concurrent" => concurrent });
    let mut command = map! {
        "arg" => arg, "kwarg" => named, "ret" => ret, "timeout" => timeout, "tgt_type" => tgt_type, "ssh" => ssh,
        "expect_minions" => expect_minions.clone(),
    };
    let batch = batch.map(|batch| Value::from(batch.to_string()));
    let roster = kwargs.0.get("roster").cloned();
    let hard = fails_hard(ctx, failhard.as_ref()).then(|| Value::from(true));
    let (config, arguments) = (given(&ret_config), given(&ret_kwargs));
    insert_some(&mut command, [("ret_config", config), ("ret_kwargs", arguments), ("roster", roster)]);
    insert_some(&mut command, [("batch", batch), ("subset", subset), ("failhard", hard)]);
    let returns = run(ctx, tgt, fun, command)?;
    note_jid(&mut state, &returns);
    let forgiven = minions(fail_minions, &mut state);
    // A target that matches no minion is only an error if the user expects minions.
    if returns.is_empty() && expect_minions.truthy() {
        return Ok(state.fail("No minions returned"));
    }
    let mut state = Tally::of(returns, &forgiven).tell(state, allowed);
    // Only test mode with changes may give None. A failure stays a failure.
    if testing && !state.changes.is_empty() && state.result == Some(true) {
        state.result = None;
    }
    Ok(state)
}

/// Returns the function to call and its arguments; `None` if nothing is to be applied.
fn function_and_argument(
    highstate: Option<Value>,
    top: Option<Value>,
    sls: Option<Value>,
) -> Option<(&'static str, Value)> {
    // The order is Salt's: `highstate` wins over `top`, and both over `sls`.
    match (highstate, top, sls) {
        (Some(_), ..) => Some(("state.highstate", list![])),
        (_, Some(top), _) => Some(("state.top", list![top])),
        (.., Some(Value::List(names))) => {
            Some(("state.sls", list![names.iter().map(Value::to_string).collect::<Vec<_>>().join(",")]))
        }
        (.., Some(sls)) => Some(("state.sls", list![sls])),
        _ => None,
    }
}

/// Inserts the values that are there.
fn insert_some<const N: usize>(map: &mut Map, entries: [(&str, Option<Value>); N]) {
    for (key, value) in entries {
        if let Some(value) = value {
            map.insert(key, value);
        }
    }
}

/// Calls the function on the targeted minions and returns their returns.
fn run(ctx: &Context, tgt: Value, fun: &str, command: Map) -> Result<Map> {
    // `salt-call --local` has no minions to publish to.
    if ctx.opt_str("__role") != Some("master") && ctx.is_local() && !command_is_remote(&command) {
        return here(ctx, fun, command);
    }
    let call = Call { args: vec![tgt, fun.into()], kwargs: command };
    Ok(ctx.call_with("saltutil.cmd", call)?.into_map().unwrap_or_default())
}

fn command_is_remote(command: &Map) -> bool {
    command.get("ssh").is_some_and(Value::truthy)
}

/// Without a master the states are applied here, whatever the target is.
fn here(ctx: &Context, fun: &str, mut command: Map) -> Result<Map> {
    let first = command.remove("arg").and_then(Value::into_list).unwrap_or_default().into_iter().next();
    let named = command.remove("kwarg").and_then(Value::into_map).unwrap_or_default();
    command.update(named);
    if let Some(first) = first {
        // The first argument goes by another name in each function. `state.highstate` has none.
        command.insert(if fun == "state.top" { "topfn" } else { "mods" }, first);
    }
    let ret = ctx.call_with(fun, Call { args: Vec::new(), kwargs: command })?;
    let out = ret.get("out").cloned().unwrap_or_else(|| "highstate".into());
    Ok(map! { ctx.id() => map! { "ret" => ret, "out" => out } })
}

/// The sum of the returns of all minions.
#[derive(Default)]
struct Tally {
    changes: Map,
    failed: Vec<String>,
    details: Vec<(String, String)>,
    unchanged: Vec<String>,
}

impl Tally {
    fn of(returns: Map, forgiven: &[String]) -> Self {
        let mut tally = Tally::default();
        for (minion, data) in returns.iter() {
            tally.add(minion.to_string(), data, forgiven);
        }
        tally
    }

    fn add(&mut self, minion: String, data: &Value, forgiven: &[String]) {
        let ret = data.get("ret").or_else(|| data.get("return"));
        let failed = data.get("failed").is_some_and(Value::truthy);
        let good = !failed && ret.is_some_and(succeeded);
        if !good {
            let shown = if failed { Value::Bool(false) } else { ret.cloned().unwrap_or(false.into()) };
            // Minions in `fail_minions` still show in the changes, but do not fail the state.
            if !forgiven.contains(&minion) {
                self.details.push((minion.clone(), detail(&minion, ret)));
                self.failed.push(minion.clone());
            }
            self.changes.insert(minion, shown);
            return;
        }
        let changed = ret
            .and_then(Value::as_map)
            .is_some_and(|states| states.values().any(|state| state.get("changes").is_some_and(Value::truthy)));
        if changed {
            self.changes.insert(minion, ret.cloned());
        } else {
            self.unchanged.push(minion);
        }
    }

    fn tell(mut self, mut ret: Ret, allowed: i64) -> Ret {
        let names = |map: &Map| map.keys().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let mut text;
        if i64::try_from(self.failed.len()).unwrap_or(i64::MAX) > allowed {
            ret.result = Some(false);
            text = format!("Run failed on minions: {}", self.failed.join(", "));
            self.details.sort();
            for (_, detail) in self.details.iter().filter(|(_, detail)| !detail.is_empty()) {
                text.push('\n');
                text.push_str(detail);
            }
        } else {
            text = "States ran successfully.".to_owned();
            if !self.changes.is_empty() {
                text.push_str(&format!(" Updating {}.", names(&self.changes)));
            }
            if !self.unchanged.is_empty() {
                text.push_str(&format!(" No changes made to {}.", self.unchanged.join(", ")));
            }
        }
        if !self.changes.is_empty() {
            ret.changes = map! { "out" => "highstate", "ret" => self.changes };
        }
        ret.comment = text.into();
        ret
    }
}

/// Returns why a minion counts as failed, if its states do not show it.
fn detail(minion: &str, ret: Option<&Value>) -> String {
    match ret {
        // A bare list of minion names does not say why the orchestration failed.
        None => format!("Minion {minion} did not return a state result."),
        Some(Value::Map(_)) => String::new(),
        Some(Value::List(errors)) => {
            let errors: Vec<String> = errors.iter().filter(|error| error.truthy()).map(Value::to_string).collect();
            match errors.is_empty() {
                true => format!("Minion {minion} returned an empty error list."),
                false => format!("Minion {minion} returned errors: {}", errors.join("; ")),
            }
        }
        Some(other) => format!("Minion {minion} returned {} instead of a state result.", python::repr(other)),
    }
}

/// Returns whether no state of a return has failed. Values that hold no results themselves are searched recursively.
fn succeeded(ret: &Value) -> bool {
    let Value::Map(states) = ret else { return false };
    // A nested orchestration has maps of results below its own entries, so these are searched, too.
    let good = |state: &Value| match (state, state.get("result")) {
        (_, Some(result)) => result != &Value::Bool(false),
        (Value::Map(_), None) => succeeded(state),
        _ => true,
    };
    // An empty return means that no state ran, which is a failure.
    !states.is_empty() && states.values().all(good)
}
