//! `service`: services run, are dead, start with the system or not.

mod beacon;
mod boot;
mod dead;
mod masks;
mod running;
mod watch;

use std::time::Duration;

use exec::{Context, Module, Result};
use value::{Map, Value};

use crate::support::{call, caught, has, over};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "service",
    "Services run, are dead, start with the system or not.",
    &[
        &dead::DEAD,
        &boot::DISABLED,
        &boot::ENABLED,
        &masks::MASKED,
        &beacon::MOD_BEACON,
        &watch::MOD_WATCH,
        &running::RUNNING,
        &masks::UNMASKED,
    ],
);

/// A part of a result that replaces that of a state.
#[derive(Default)]
struct Part {
    result: Option<Option<bool>>,
    changes: Option<Map>,
    comment: Option<String>,
}

impl Part {
    fn onto(self, mut ret: Ret) -> Ret {
        ret.result = self.result.unwrap_or(ret.result);
        ret.changes = self.changes.unwrap_or(ret.changes);
        ret.comment = self.comment.map_or(ret.comment, Value::from);
        ret
    }
}

/// The arguments of a state beside the name.
struct Wish {
    name: String,
    enable: Value,
    sig: Value,
    init_delay: Value,
    kwargs: Map,
}

impl Wish {
    fn new(name: String, enable: Value, sig: Value, init_delay: Value, kwargs: Map) -> Self {
        // Texts such as "yes" are read as booleans. Other values mean that the start at boot is
        // left alone.
        let enable = if enable.as_str().is_some() { crate::support::is_true(&enable).into() } else { enable };
        Wish { name, enable, sig, init_delay, kwargs }
    }

    /// Enables or disables the service if requested and merges the outcome into the result.
    fn toggled(&self, ctx: &Context, ret: Ret, started: Option<bool>, result: bool) -> Result<Ret> {
        let part = match self.enable {
            Value::Bool(true) => boot::enable(ctx, &self.name, started, result, &self.kwargs)?,
            Value::Bool(false) => boot::disable(ctx, &self.name, started, result, &self.kwargs)?,
            _ => return Ok(ret),
        };
        Ok(part.onto(ret))
    }

    /// Does the same for a service that runs, or does not run, as requested, if its state at boot differs from the
    /// wanted one.
    fn toggled_if_needed(&self, ctx: &Context, ret: Ret, enabled: bool) -> Result<Ret> {
        let differs = self.enable.as_bool().is_some_and(|enable| enable != enabled);
        if differs { self.toggled(ctx, ret, None, true) } else { Ok(ret) }
    }

    fn status(&self, ctx: &Context, args: Vec<Value>, kwargs: &Map) -> Result<Value> {
        let args = [args![self.name.as_str()], args].concat();
        call(ctx, "service.status", args, kwargs.clone())
    }

    fn enabled(&self, ctx: &Context) -> Result<Value> {
        if !has(ctx, "service.enabled") {
            // Without the function a service counts as enabled, so `enable: True` has nothing to
            // do.
            return Ok(Value::Bool(true));
        }
        call(ctx, "service.enabled", args![self.name.as_str()], Map::new())
    }

    fn wait(&self, ctx: &Context) {
        if let Some(seconds) = self.init_delay.as_f64().filter(|seconds| *seconds > 0.0) {
            // Bounded by a day: a huge number would panic in `Duration`.
            ctx.sleep(Duration::from_secs_f64(seconds.min(86_400.0)));
        }
    }
}

fn enabled_used(name: &str) -> Ret {
    let text = format!("Service {name} uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?");
    Ret::new(name).fail(text)
}

/// Returns whether services cannot be started, since this is not a running system.
fn offline(ctx: &Context) -> Result<bool> {
    Ok(has(ctx, "service.offline") && call(ctx, "service.offline", Vec::new(), Map::new())?.truthy())
}

/// Returns whether the service exists, or why that cannot be found out.
fn available(ctx: &Context, name: &str) -> Result<std::result::Result<bool, String>> {
    let found = if has(ctx, "service.available") {
        call(ctx, "service.available", args![name], Map::new())
    } else if has(ctx, "service.get_all") {
        let all = call(ctx, "service.get_all", Vec::new(), Map::new());
        all.map(|all| all.as_list().unwrap_or_default().contains(&Value::from(name)).into())
    } else {
        Ok(Value::Bool(false))
    };
    match found {
        Ok(found) => Ok(Ok(found.truthy())),
        Err(error) => Ok(Err(caught(error)?.text)),
    }
}

fn not_available(name: &str) -> String {
    format!("The named service {name} is not available")
}

/// Arguments that only the systemd module takes, by function.
const SYSTEMD_ONLY: [(&str, &[&str]); 6] = [
    ("service.force_reload", &["no_block", "unmask", "unmask_runtime"]),
    ("service.reload", &["no_block", "unmask", "unmask_runtime"]),
    ("service.restart", &["no_block", "unmask", "unmask_runtime"]),
    ("service.start", &["no_block", "unmask", "unmask_runtime"]),
    ("service.stop", &["no_block"]),
    ("service.status", &[]),
];

/// Picks the arguments a function of systemd's module takes; elsewhere they are warned of.
fn systemd_only(ctx: &Context, fun: &str, kwargs: &Map, ret: &mut Ret) -> Map {
    let known = SYSTEMD_ONLY.iter().find(|(name, _)| *name == fun).map_or(&[] as &[&str], |(_, names)| names);
    let given = ["no_block", "unmask", "unmask_runtime"].iter().filter(|name| known.contains(name));
    let mut picked = Map::new();
    for name in given {
        let Some(value) = kwargs.get(name) else { continue };
        // The same file must work on machines with and without systemd, so elsewhere there is only
        // a warning.
        if booted(ctx) {
            picked.insert(*name, value.clone());
        } else {
            warn(ret, format!("The '{name}' argument is not supported by this platform"));
        }
    }
    picked
}

fn booted(ctx: &Context) -> bool {
    #[cfg(test)]
    // For tests, which replay answers of machines with systemd.
    if let Some(said) = ctx.opts.get("__booted_with_systemd") {
        return said.truthy();
    }
    let _ = ctx;
    std::path::Path::new("/run/systemd/system").exists()
}

fn warn(ret: &mut Ret, text: String) {
    let warnings = ret.more.entry_or_insert_with("warnings", || Value::List(Vec::new()));
    if let Value::List(warnings) = warnings
        // Several functions are asked for the same argument, and one warning is enough.
        && !warnings.contains(&Value::from(text.as_str()))
    {
        warnings.push(text.into());
    }
}

/// Returns the arguments that functions of `service` need beside the name.
fn with(kwargs: &Map) -> Map {
    over(Map::new(), kwargs)
}
