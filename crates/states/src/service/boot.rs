//! `service.enabled` and `service.disabled`: what starts with the system.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value, map};

use super::{Part, available, not_available, with};
use crate::support::{call, caught, has};
use crate::{Ret, args};

/// Makes sure that a service starts at boot.
#[function]
fn enabled(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    // `None`: this state ignores whether the service runs, and the text says so.
    let part = enable(ctx, &name, None, true, &kwargs.given())?;
    let ret = part.onto(Ret::new(name.as_str()).ok(""));
    // In test mode a package that installs the service may not be installed yet.
    if ctx.is_test() && ret.comment.as_str() == Some(&not_available(&name)) {
        let text = format!("Service {name} not present; if created in this state run, it would have been enabled");
        return Ok(ret.would(text));
    }
    Ok(ret)
}

/// Makes sure that a service does not start at boot.
#[function]
fn disabled(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let part = disable(ctx, &name, None, true, &kwargs.given())?;
    Ok(part.onto(Ret::new(name).ok("")))
}

fn says(result: Option<bool>, comment: String) -> Part {
    Part { result: Some(result), changes: None, comment: Some(comment) }
}

/// Returns the words for a service that runs or not. None, unknown, counts as the wanted state.
fn beside(started: Option<bool>) -> &'static str {
    match started {
        Some(true) => "is running",
        None => "is in the desired state",
        Some(false) => "is dead",
    }
}

fn no_means(what: &str, name: &str, started: Option<bool>) -> String {
    let state = match started {
        Some(true) => "started",
        None => "is in the desired state",
        Some(false) => "is dead",
    };
    format!("{what} is not available on this minion, service {name} {state}")
}

/// Makes a service start with the system.
pub(super) fn enable(ctx: &Context, name: &str, started: Option<bool>, result: bool, kwargs: &Map) -> Result<Part> {
    match available(ctx, name)? {
        Ok(true) => {}
        // For `enable` a missing service is an error, for `disable` it is the wanted state.
        Ok(false) => return Ok(says(Some(false), not_available(name))),
        Err(text) => return Ok(says(Some(false), text)),
    }
    if !has(ctx, "service.enable") || !has(ctx, "service.enabled") {
        return Ok(says(Some(result), no_means("Enable", name, started)));
    }
    let before = call(ctx, "service.enabled", args![name], with(kwargs))?;
    let state = beside(started);
    if before.truthy() {
        // The changes are emptied only if the running state is unknown, so that a start before
        // stays visible.
        let part = says(Some(result), format!("Service {name} is already enabled, and {state}"));
        return Ok(Part { changes: started.is_none().then(Map::new), ..part });
    }
    if ctx.is_test() {
        return Ok(says(None, format!("Service {name} set to be enabled")));
    }
    let why = match call(ctx, "service.enable", args![name], with(kwargs)) {
        Ok(done) if done.truthy() => {
            let after = call(ctx, "service.enabled", args![name], with(kwargs))?;
            // Some services cannot report that they are enabled. Without a difference no change is
            // claimed, so that nothing is restarted.
            let changes = if after == before {
                Map::new()
            } else {
                map! { name => true }
            };
            let part = says(Some(result), format!("Service {name} has been enabled, and {state}"));
            return Ok(Part { changes: Some(changes), ..part });
        }
        Ok(_) => None,
        Err(error) => Some(caught(error)?.text),
    };
    let mut text = match started {
        Some(true) => format!("Failed when setting service {name} to start at boot, but the service is running"),
        None => format!("Failed when setting service {name} to start at boot, but the service was already running"),
        Some(false) => format!("Failed when setting service {name} to start at boot, and the service is dead"),
    };
    if let Some(why) = why.filter(|why| !why.is_empty()) {
        text.push_str(&format!(". Additional information follows:\n\n{why}"));
    }
    Ok(says(Some(false), text))
}

/// Keeps a service from starting with the system.
pub(super) fn disable(ctx: &Context, name: &str, started: Option<bool>, result: bool, kwargs: &Map) -> Result<Part> {
    match available(ctx, name)? {
        Ok(true) => {}
        Ok(false) => return Ok(says(Some(true), not_available(name))),
        Err(text) => return Ok(says(Some(false), text)),
    }
    if !has(ctx, "service.disable") || !has(ctx, "service.disabled") {
        return Ok(says(Some(result), no_means("Disable", name, started)));
    }
    // Salt passes no other arguments to `service.disabled`.
    let before = call(ctx, "service.disabled", args![name], Map::new())?;
    let state = beside(started);
    if before.truthy() {
        let part = says(Some(result), format!("Service {name} is already disabled, and {state}"));
        return Ok(Part { changes: started.is_none().then(Map::new), ..part });
    }
    if ctx.is_test() {
        return Ok(says(None, format!("Service {name} set to be disabled")));
    }
    if call(ctx, "service.disable", args![name], with(kwargs))?.truthy() {
        let after = call(ctx, "service.disabled", args![name], Map::new())?;
        let changes = if after == before {
            Map::new()
        } else {
            map! { name => true }
        };
        let part = says(Some(result), format!("Service {name} has been disabled, and {state}"));
        return Ok(Part { changes: Some(changes), ..part });
    }
    let text = match started {
        Some(true) => "and is running",
        None => "but the service was already running",
        Some(false) => "and the service is dead",
    };
    Ok(says(Some(false), format!("Failed when setting service {name} to not start at boot, {text}")))
}

/// Returns whether a value means that something runs.
pub(super) fn runs(status: &Value) -> Option<bool> {
    Some(status.truthy())
}
