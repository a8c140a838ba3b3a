//! `service.running`.

use exec::{Context, KwArgs, Result, function};
use value::{Map, Value};

use super::{Wish, available, boot, enabled_used, masks, not_available, offline, systemd_only};
use crate::support::{call, caught};
use crate::{Ret, args};

/// Makes sure that a service runs; with `enable` also that it starts at boot, or does not.
#[function]
fn running(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] enable: Value,
    #[default(Value::Null)] sig: Value,
    #[default(Value::Null)] init_delay: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let kwargs = kwargs.given();
    if kwargs.contains_key("enabled") {
        return Ok(enabled_used(&name));
    }
    let mut ret = Ret::new(name.as_str()).ok("");
    if offline(ctx)? {
        return Ok(ret.ok("Running in OFFLINE mode. Nothing to do"));
    }
    match available(ctx, &name)? {
        Ok(true) => {}
        Ok(false) if ctx.is_test() => {
            let text = "not present; if created in this state run, it would have been started";
            return Ok(ret.would(format!("Service {name} {text}")));
        }
        Ok(false) => return Ok(ret.fail(not_available(&name))),
        Err(text) => return Ok(ret.fail(text)),
    }
    let wish = Wish::new(name, enable, sig, init_delay, kwargs);
    let status_kwargs = systemd_only(ctx, "service.status", &wish.kwargs, &mut ret);
    let status = wish.status(ctx, args![wish.sig.clone()], &status_kwargs)?;
    let enabled = wish.enabled(ctx)?;
    // A masked service cannot be started, so this comes first. It happens in test mode, too, and
    // then only reports.
    let unmask = wish.kwargs.get("unmask").is_some_and(Value::truthy);
    let mut unmasked = String::new();
    if unmask {
        let runtime = wish.kwargs.get("unmask_runtime").cloned().unwrap_or(false.into());
        // Only the comment is used. Whether it worked shows when the service is started.
        unmasked = masks::unmask(ctx, &wish.name, runtime)?.comment.to_string();
    }
    let with_mask = |text: String| if unmasked.is_empty() { text } else { format!("{text}\n{unmasked}") };
    if status.truthy() {
        let ret = ret.ok(with_mask(format!("The service {} is already running", wish.name)));
        // A running service is never touched here, whatever its start at boot.
        return wish.toggled_if_needed(ctx, ret, enabled.truthy());
    }
    if ctx.is_test() {
        return Ok(ret.would(with_mask(format!("Service {} is set to start", wish.name))));
    }
    let ret = start(ctx, &wish, ret, &status_kwargs, (status, enabled))?;
    // The text is only added where Salt adds it: at the very end, and even if it is empty.
    Ok(match (ret.1, unmask) {
        (true, true) => Ret { comment: format!("{}\n{unmasked}", ret.0.comment).into(), ..ret.0 },
        _ => ret.0,
    })
}

/// Starts it. Returns also whether it got to the end, where unmasking is reported.
fn start(ctx: &Context, wish: &Wish, mut ret: Ret, status_kwargs: &Map, before: (Value, Value)) -> Result<(Ret, bool)> {
    let name = &wish.name;
    let start_kwargs = systemd_only(ctx, "service.start", &wish.kwargs, &mut ret);
    match call(ctx, "service.start", args![name.as_str()], start_kwargs) {
        Ok(done) if done.truthy() => {}
        Ok(_) => {
            let ret = ret.fail(format!("Service {name} failed to start"));
            // Enabled even though it did not start. It may after a reboot.
            return Ok((wish.toggled(ctx, ret, Some(false), false)?, false));
        }
        Err(error) => return Ok((ret.fail(caught(error)?.text), false)),
    }
    // Some services report success and crash shortly after. The delay lets the status show that.
    wish.wait(ctx);
    let status = wish.status(ctx, args![wish.sig.clone()], status_kwargs)?;
    let enabled = wish.enabled(ctx)?;
    // A change is claimed only if one was observed: status commands of init scripts are not to be
    // trusted.
    if before != (status.clone(), enabled) && ret.changes.is_empty() {
        ret.changes.insert(name.as_str(), status.clone());
    }
    let ret = match status.truthy() {
        true => ret.ok(format!("Started service {name}")),
        false => ret.fail(format!("Service {name} failed to start")),
    };
    let mut ret = wish.toggled(ctx, ret, boot::runs(&status), status.truthy())?;
    if wish.init_delay.truthy() {
        ret.comment = format!("{}\nDelayed return for {} seconds", ret.comment, wish.init_delay).into();
    }
    Ok((ret, true))
}
