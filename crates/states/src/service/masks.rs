//! `service.masked` and `service.unmasked`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use crate::support::{call, caught, has};
use crate::{Ret, args};

/// Makes sure that a service is masked, so that it cannot be started.
#[function]
fn masked(ctx: &Context, name: String, #[default(false)] runtime: Value) -> Result<Ret> {
    Task { name: &name, runtime, mask: true }.run(ctx)
}

/// Makes sure that a service is not masked, so that it can be started.
#[function]
fn unmasked(ctx: &Context, name: String, #[default(false)] runtime: Value) -> Result<Ret> {
    unmask(ctx, &name, runtime)
}

/// Unmasks a service.
pub(super) fn unmask(ctx: &Context, name: &str, runtime: Value) -> Result<Ret> {
    Task { name, runtime, mask: false }.run(ctx)
}

struct Task<'a> {
    name: &'a str,
    runtime: Value,
    mask: bool,
}

impl Task<'_> {
    fn run(&self, ctx: &Context) -> Result<Ret> {
        let ret = Ret::new(self.name);
        if !has(ctx, "service.masked") {
            return Ok(ret.fail("Service masking not available on this minion"));
        }
        match self.apply(ctx, ret.clone()) {
            Ok(ret) => Ok(ret),
            Err(error) => Ok(ret.fail(caught(error)?.text)),
        }
    }

    fn is_masked(&self, ctx: &Context) -> Result<bool> {
        // A runtime mask is in /run and is gone after a reboot. The two kinds are independent of each other.
        let args = args![self.name, self.runtime.clone()];
        Ok(call(ctx, "service.masked", args, Map::new())?.truthy())
    }

    fn apply(&self, ctx: &Context, ret: Ret) -> Result<Ret> {
        let name = self.name;
        let kind = if self.runtime.truthy() { "runtime " } else { "" };
        let (done, verb, already) = match self.mask {
            true => ("masked", "mask", "is already"),
            false => ("unmasked", "unmask", "was already"),
        };
        let changes = map! { format!("{kind}masked") => map! { "old" => !self.mask, "new" => self.mask } };
        // The command may succeed without effect, for instance on a generated unit.
        if self.is_masked(ctx)? == self.mask {
            return Ok(ret.ok(format!("Service {name} {already} {kind}{done}")));
        }
        if ctx.is_test() {
            return Ok(ret.would(format!("Service {name} would be {kind}{done}")).changed(changes));
        }
        call(ctx, &format!("service.{verb}"), args![name, self.runtime.clone()], Map::new())?;
        if self.is_masked(ctx)? == self.mask {
            return Ok(ret.ok(format!("Service {name} was {kind}{done}")).changed(changes));
        }
        // As in Salt this is not a failure.
        Ok(ret.ok(format!("Failed to {verb} service {name}")))
    }
}
