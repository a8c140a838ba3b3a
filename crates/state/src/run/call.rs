//! Calls one state function: arguments, checks, slots, retries, and the normalised result.

use std::time::Duration;

use exec::{Bound, Call, Context, Error, Function, Refresh};
use rand::Rng;
use value::{Map, Value, map};

use super::stamp::Stamp;
use super::{Run, bind, checks, retry, slots, unify};
use crate::high::text_of;
use crate::low::full_name;

/// The outcome of one attempt.
enum Attempt {
    /// A result. If `told` is true, the function was called, so a retry may help; otherwise the chunk is invalid.
    Done { ret: Map, told: bool },
    /// The result of a test run for a `prereq`.
    Trial(Map),
}

impl Run {
    /// Calls a chunk, with the attempts that its `retry` allows, and returns its result.
    pub(super) fn call(&mut self, low: &mut Map) -> Map {
        let mut attempts: Vec<(Map, f64)> = Vec::new();
        let mut last = loop {
            let (ret, told) = match self.attempt(low) {
                Attempt::Trial(ret) => return ret,
                Attempt::Done { ret, told } => (ret, told),
            };
            // A parallel state has only been started here; it retries on its own thread.
            let Some(wanted) = low.get("retry").filter(|_| told && !low.contains_key("parallel")) else { break ret };
            let wanted = retry::Retry::read(wanted);
            if self.ctx.is_test() {
                let mut ret = ret;
                wanted.report_test(&mut ret);
                break ret;
            }
            if wanted.is_reached(&ret) || attempts.len() as i64 + 1 >= wanted.attempts {
                break ret;
            }
            let seconds = pause_between(&wanted);
            self.ctx.sleep(Duration::from_secs(seconds));
            attempts.push((ret, seconds as f64 * 1000.0));
        };
        // From the last to the first, because each report is put before those that follow it.
        for (number, (earlier, waited)) in attempts.into_iter().enumerate().rev() {
            retry::merge_attempt(number as i64 + 1, &earlier, &mut last, waited);
        }
        last
    }

    fn attempt(&mut self, low: &mut Map) -> Attempt {
        let stamp = Stamp::now(self.world.utc_offset());
        let agent = self.ctx.agent.clone();
        let errors = bind::verify(low, agent.states());
        let name = low.get("name").cloned().unwrap_or_default();
        let full = full_name(low);
        let function = match agent.states().find_permitted(&full) {
            Ok(function) if errors.is_empty() => function,
            _ => {
                let comment: String = errors.iter().map(|error| format!("{error}\n")).collect();
                let ret = map! {
                    "result" => false, "name" => name, "changes" => Map::new(), "comment" => comment,
                    "__run_num__" => self.next_number(),
                };
                log_result(&ret);
                return Attempt::Done { ret, told: false };
            }
        };
        let trial = low.get("__prereq__").is_some_and(Value::truthy);
        tracing::info!(target: "salt.state", "Running state [{name}] at time {}", stamp.clock());
        tracing::info!(target: "salt.state", "Executing state {full} for [{name}]");
        let ctx = self.state_context(with_environment(low, &self.ctx), trial);
        let mut ret = match self.execute(&ctx, function, &full, low, trial) {
            Ok(ret) => ret,
            Err(error) => unify::unify(exception(low, &error.to_string()).into()),
        };
        if trial {
            // The next call of this chunk is the real one.
            low.insert("__prereq__", false);
            return Attempt::Trial(ret);
        }
        ret.insert("__sls__", low.get("__sls__").cloned().unwrap_or_default());
        let number = self.next_number();
        ret.insert("__run_num__", number);
        if low.get("no_log").is_some_and(Value::truthy) {
            conceal(&mut ret);
        }
        log_result(&ret);
        self.reload(low, &ret);
        stamp.write(&mut ret);
        let took = ret.get("duration").map(ToString::to_string).unwrap_or_default();
        tracing::info!(
            target: "salt.state",
            "Completed state [{name}] at time {} (duration_in_ms={took})",
            stamp.clock_now()
        );
        ret.insert("__id__", low.get("__id__").cloned().unwrap_or_default());
        Attempt::Done { ret, told: true }
    }

    /// Runs the checks, the call, and `check_cmd`.
    fn execute(
        &mut self,
        ctx: &Context,
        function: &'static Function,
        full: &str,
        low: &Map,
        trial: bool,
    ) -> Result<Map, Error> {
        let bound = bind::arguments(function, full, low).map_err(Error::Other)?;
        if !trial {
            for (key, near) in bind::misspelt(function, low) {
                let id = low.get("__id__").map(Value::to_string).unwrap_or_default();
                tracing::warn!("{full} of '{id}' has no argument '{key}', which is ignored. Did you mean '{near}'?");
            }
        }
        let has = |fun: &str| ctx.agent.states().find(&format!("{}.{fun}", text_of(low, "state"))).is_ok();
        let mut checked = checks::Checked::default();
        // Some state modules evaluate these checks themselves, with options that only they know.
        if checks::has_checks(low) && !has("mod_run_check") {
            checked = checks::before(ctx, low)?;
        }
        let mut ret = if checked.skip {
            skipped(low, checked.comment)
        } else if self.how.mocked {
            mocked(low)
        } else if let Some(ret) = refused_by_conditions(ctx, full, low)? {
            ret
        } else if !trial && low.get("parallel").is_some_and(Value::truthy) {
            self.start_beside(ctx, function, bound, low)
        } else {
            unify::unify(call_function(ctx, function, bound, low)?)
        };
        let own_check = has("mod_run_check_cmd") && function.params.iter().any(|param| param.name == "check_cmd");
        if low.contains_key("check_cmd") && !own_check {
            ret.update(checks::after(ctx, low)?);
        }
        Ok(ret)
    }

    pub(super) fn next_number(&mut self) -> i64 {
        self.number += 1;
        self.number - 1
    }

    /// Calls `mod_init` of a state module before its first chunk.
    pub(super) fn initialize(&mut self, low: &Map) {
        let state = text_of(low, "state");
        if self.initialized.contains(&state) {
            return;
        }
        let agent = self.ctx.agent.clone();
        let (exists, fun) = (agent.states().find_permitted(&full_name(low)).is_ok(), format!("{state}.mod_init"));
        if !exists || agent.states().find(&fun).is_err() {
            return;
        }
        let ctx = self.state_context(low.clone(), false);
        match ctx.call_state(&fun, Call { args: vec![low.clone().into()], kwargs: Map::new() }) {
            Ok(done) if done.truthy() => drop(self.initialized.insert(state)),
            Ok(_) => {}
            Err(error) => tracing::error!("{fun} failed: {error}"),
        }
    }

    /// Reloads grains, pillar and modules if a state requires it, and modules after a state that may have installed
    /// programs.
    fn reload(&mut self, low: &Map, ret: &Map) {
        let asks = |key: &str| low.get(key).is_some_and(Value::truthy);
        let changed = ret.get("changes").is_some_and(Value::truthy);
        // As in Salt, `force_reload_modules` only matters without changes; with changes, the other rules decide.
        let mut modules = if changed { asks("reload_modules") || may_bring(low) } else { asks("force_reload_modules") };
        if asks("reload_grains") {
            if let Some(grains) = self.world.grains(&self.ctx) {
                self.ctx.grains = std::sync::Arc::new(grains);
            }
            modules = true;
        }
        if asks("reload_pillar") {
            if let Some(pillar) = self.world.pillar(&self.ctx) {
                self.ctx.pillar = std::sync::Arc::new(pillar);
            }
            modules = true;
        }
        if modules && let Err(error) = self.ctx.wait(self.ctx.agent.refresh(Refresh::Modules)) {
            tracing::warn!("modules could not be loaded anew: {error}");
        }
    }
}

/// Returns whether a state with changes may have installed a program that modules need.
fn may_bring(low: &Map) -> bool {
    let text = |key: &str| low.get(key).map(Value::to_string).unwrap_or_default();
    match (text("state").as_str(), text("fun").as_str()) {
        ("pkg" | "ports" | "pip", _) | ("file", "recurse") => true,
        ("file", "managed") => [".py", ".pyx", ".pyo", ".pyc", ".so"].iter().any(|end| text("name").ends_with(end)),
        ("file", "symlink") => text("name").contains("bin"),
        _ => false,
    }
}

/// Returns the chunk with the environment for its function.
fn with_environment(low: &Map, ctx: &Context) -> Map {
    let mut low = low.clone();
    let locked = ctx.opt("lock_saltenv").is_some_and(Value::truthy);
    let own = low.get("saltenv").filter(|_| !locked).or_else(|| low.get("__env__"));
    let env = own.map_or_else(|| "base".to_owned(), Value::to_string);
    low.insert("__env__", env);
    low
}

/// Evaluates slots and calls a state function. A panic counts as a failure.
pub(super) fn call_function(
    ctx: &Context,
    function: &'static Function,
    mut bound: Bound,
    low: &Map,
) -> Result<Value, Error> {
    slots::fill(ctx, &mut bound)?;
    let mask = low.get("__umask__").and_then(Value::as_i64).and_then(|mask| u32::try_from(mask).ok());
    // A bug in one state function must not end the run: the states after it may repair the system.
    let call = || exec::caught(|| function.call(ctx, bound));
    let done = match mask {
        Some(mask) => rt::umask::with(mask, call),
        None => call(),
    };
    match done {
        // The run ends, too.
        Err(Error::Terminated) => ctx.end_killed(),
        done => done,
    }
}

/// Returns the result of a state whose function raised an error.
pub(super) fn exception(low: &Map, why: &str) -> Map {
    tracing::debug!("An exception occurred in this state: {why}");
    map! {
        "result" => false,
        "name" => low.get("name").or_else(|| low.get("__id__")).cloned().unwrap_or_default(),
        "changes" => Map::new(),
        "comment" => format!("An exception occurred in this state: {why}"),
    }
}

fn skipped(low: &Map, comment: Vec<String>) -> Map {
    let part = |key: &str| low.get(key).cloned().unwrap_or_default();
    map! {
        "result" => true, "name" => part("name"), "changes" => Map::new(), "comment" => comment.join("\n"),
        "__sls__" => part("__sls__"), "__id__" => part("__id__"), "skip_watch" => true,
    }
}

fn mocked(low: &Map) -> Map {
    let name = low.get("name").cloned().unwrap_or_default();
    map! { "name" => name, "comment" => "Not called, mocked", "changes" => Map::new(), "result" => true }
}

/// Returns the result of a state that `global_state_conditions` forbids on this minion.
fn refused_by_conditions(ctx: &Context, full: &str, low: &Map) -> Result<Option<Map>, Error> {
    let Some(Value::Map(conditions)) = ctx.opt("global_state_conditions") else {
        return Ok(None);
    };
    let state = text_of(low, "state");
    let meant =
        conditions.iter().filter(|(key, _)| key.as_str().is_some_and(|key| key == "*" || key == full || key == state));
    let mut asked = false;
    for (_, targets) in meant {
        let targets = match targets {
            Value::List(targets) => targets.clone(),
            one => vec![one.clone()],
        };
        for target in targets {
            asked = true;
            if ctx.call("match.compound", vec![target])?.truthy() {
                return Ok(None);
            }
        }
    }
    Ok(asked.then(|| {
        let name = low.get("name").cloned().unwrap_or_default();
        map! {
            "name" => name, "changes" => Map::new(), "result" => Value::Null,
            "comment" => "Failed to meet global state conditions. State not called.",
        }
    }))
}

/// Logs the result of a state; a failure as an error.
fn log_result(ret: &Map) {
    let changes = ret.get("changes").and_then(Value::as_map).cloned().unwrap_or_default();
    let text = match told_changes(&changes) {
        Some(text) => text,
        None if changes.is_empty() => match retry::comment_of(ret) {
            comment if comment.is_empty() => format!("No changes made for {}", text_of(ret, "name")),
            comment => comment,
        },
        None => value::python::repr_map(&changes),
    };
    match ret.get("result") {
        Some(Value::Bool(true) | Value::Null) => tracing::info!("{text}"),
        _ => tracing::error!("{text}"),
    }
}

/// Logs the diff of a file, or old and new values.
fn told_changes(changes: &Map) -> Option<String> {
    if let Some(diff) = changes.get_str("diff") {
        return Some(format!("File changed:\n{diff}"));
    }
    let absent = |value: &Value| match value {
        Value::Null | Value::Bool(false) => value.to_string(),
        value if value.truthy() => value.to_string(),
        _ => "absent".to_owned(),
    };
    let mut text = "Made the following changes:\n".to_owned();
    for (name, change) in changes {
        let (old, new) = (change.get("old")?, change.get("new")?);
        text.push_str(&format!("'{name}' changed from '{}' to '{}'\n", absent(old), absent(new)));
    }
    (!changes.is_empty()).then_some(text)
}

/// Hides the output of a state with `no_log`.
fn conceal(ret: &mut Map) {
    for key in ["name", "comment", "changes"] {
        let Some(value) = ret.get_mut(key) else { continue };
        conceal_value(value);
    }
}

fn conceal_value(value: &mut Value) {
    match value {
        Value::Map(map) => map.iter_mut().for_each(|(_, value)| conceal_value(value)),
        Value::List(items) => items.iter_mut().for_each(conceal_value),
        // Numbers and booleans stay, so that success and changes can still be seen.
        Value::Str(_) | Value::Bytes(_) => *value = "**********".into(),
        _ => {}
    }
}

pub(super) fn pause_between(retry: &retry::Retry) -> u64 {
    let splay = if retry.splay > 0 { rand::rng().random_range(0..=retry.splay) } else { 0 };
    retry.interval.saturating_add(splay).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_links_to_programs_may_bring_what_modules_need() {
        let may =
            |state: &str, fun: &str, name: &str| may_bring(&map! { "state" => state, "fun" => fun, "name" => name });
        assert!(may("pkg", "installed", "apache2") && may("pip", "installed", "x") && may("file", "recurse", "/srv"));
        assert!(may("file", "symlink", "/usr/local/bin/x") && may("file", "managed", "/srv/x.py"));
        assert!(!may("file", "symlink", "/srv/x") && !may("file", "managed", "/srv/x") && !may("cmd", "run", "x"));
    }
}
