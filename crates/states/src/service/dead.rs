//! `service.dead`.

use exec::{Context, KwArgs, Result, function};
use value::Value;

use super::{Wish, available, boot, enabled_used, not_available, offline, systemd_only};
use crate::support::call;
use crate::{Ret, args};

/// Makes sure that a service does not run; with `enable` also that it starts at boot, or does not.
#[function]
fn dead(
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
    // In a chroot or while an image is built nothing can be stopped. The state succeeds, so that
    // images can be built with it.
    if offline(ctx)? {
        return Ok(ret.ok("Running in OFFLINE mode. Nothing to do"));
    }
    match available(ctx, &name)? {
        Ok(true) => {}
        Ok(false) if ctx.is_test() => {
            let text = "not present; if created in this state run, it would have been stopped";
            return Ok(ret.would(format!("Service {name} {text}")));
        }
        // A service that does not exist does not run either.
        Ok(false) => return Ok(ret.ok(not_available(&name))),
        Err(text) => return Ok(ret.fail(text)),
    }
    let wish = Wish::new(name, enable, sig, init_delay, kwargs);
    let name = wish.name.as_str();
    let status_kwargs = systemd_only(ctx, "service.status", &wish.kwargs, &mut ret);
    // Init scripts often report their status badly. It only decides whether something has to be
    // done.
    let before = wish.status(ctx, args![wish.sig.clone()], &status_kwargs)?;
    let enabled = wish.enabled(ctx)?;
    if !before.truthy() {
        let ret = ret.ok(format!("The service {name} is already dead"));
        return wish.toggled_if_needed(ctx, ret, enabled.truthy());
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Service {name} is set to be killed")));
    }
    let stop_kwargs = systemd_only(ctx, "service.stop", &wish.kwargs, &mut ret);
    // A failed stop still sets the start at boot, so that the next boot is right.
    if !call(ctx, "service.stop", args![name], stop_kwargs)?.truthy() {
        let ret = ret.fail(format!("Service {name} failed to die"));
        return wish.toggled(ctx, ret, Some(true), false);
    }
    wish.wait(ctx);
    // Without the signature, unlike before the stop. Salt does the same.
    let status = wish.status(ctx, args![], &status_kwargs)?;
    let still_enabled = wish.enabled(ctx)?;
    if (before != status || enabled != still_enabled) && ret.changes.is_empty() {
        ret.changes.insert(name, status.clone());
    }
    let ret = match status.truthy() {
        true => ret.fail(format!("Service {name} failed to die")),
        false => ret.ok(format!("Service {name} was killed")),
    };
    wish.toggled(ctx, ret, boot::runs(&status), !status.truthy())
}
