//! The reaction of a service to a change of a watched state: it is restarted, reloaded or stopped.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{Wish, systemd_only};
use crate::support::{call, caught, has};
use crate::{Ret, args};

/// Restarts, reloads or stops a service.
#[function]
fn mod_watch(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] sfun: Value,
    #[default(Value::Null)] sig: Value,
    #[default(false)] reload: bool,
    #[default(false)] full_restart: bool,
    #[default(Value::Null)] init_delay: Value,
    #[default(false)] force: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    // The start at boot is the state's own business and not touched by a watch.
    let wish = Wish::new(name, Value::Null, sig, init_delay, kwargs.given());
    let name = wish.name.as_str();
    let mut ret = Ret::new(name).ok("");
    let status_kwargs = systemd_only(ctx, "service.status", &wish.kwargs, &mut ret);
    let kind = match sfun.as_str() {
        Some(kind @ ("dead" | "running")) => kind,
        _ => return Ok(ret.fail(format!("Unable to trigger watch for service.{sfun}"))),
    };
    let runs = wish.status(ctx, args![wish.sig.clone()], &status_kwargs)?.truthy();
    let (fun, verb, done) = match (kind, runs) {
        ("dead", true) => ("service.stop", "stop", "stopped".to_owned()),
        // A watch on `service.dead` stops the service again if something started it.
        ("dead", false) => return Ok(ret.ok("Service is already stopped")),
        (_, false) => ("service.start", "start", "started".to_owned()),
        (_, true) => {
            let (fun, verb) = how(ctx, reload, full_restart, force);
            (fun, verb, format!("{verb}ed"))
        }
    };
    if ctx.is_test() {
        return Ok(ret.would(format!("Service is set to be {done}")));
    }
    // A half-dead service can look stopped and still hold its port or its PID file.
    if verb == "start" && has(ctx, "service.stop") {
        call(ctx, "service.stop", args![name], Map::new())?;
    }
    let kwargs = systemd_only(ctx, fun, &wish.kwargs, &mut ret);
    let result = match call(ctx, fun, args![name], kwargs) {
        Ok(result) => result,
        Err(error) => return Ok(ret.fail(caught(error)?.text)),
    };
    wish.wait(ctx);
    let comment = match result.truthy() {
        true => format!("Service {done}"),
        false => format!("Failed to {verb} the service"),
    };
    let changes = map! { name => result.clone() };
    // Salt returns what the function returned, whatever its type.
    Ok(Ret { result: result.as_bool().or(Some(result.truthy())), ..ret.ok(comment) }.changed(changes))
}

/// The function for a service that runs, and what it does.
fn how(ctx: &Context, reload: bool, full_restart: bool, force: bool) -> (&'static str, &'static str) {
    if has(ctx, "service.reload") && reload {
        return match has(ctx, "service.force_reload") && force {
            true => ("service.force_reload", "forcefully reload"),
            false => ("service.reload", "reload"),
        };
    }
    match has(ctx, "service.full_restart") && full_restart {
        true => ("service.full_restart", "fully restart"),
        false => ("service.restart", "restart"),
    }
}
