//! The states that programs enable and disable.

use exec::{Context, Result};
use value::{Map, Value, map};

use crate::support::call;
use crate::{Ret, args};

/// A kind of things that can be enabled and disabled.
pub(super) struct Switch {
    /// Its name in comments.
    pub kind: &'static str,
    /// Its name in functions.
    pub short: &'static str,
}

impl Switch {
    /// Makes sure that something is on, or off.
    pub fn turn(&self, ctx: &Context, name: &str, on: bool) -> Result<Ret> {
        let Switch { kind, short } = self;
        let (verb, done) = if on { ("enable", "enabled") } else { ("disable", "disabled") };
        let ret = Ret::new(name);
        let check = format!("apache.check_{short}_enabled");
        if call(ctx, &check, args![name], Map::new())?.truthy() == on {
            return Ok(ret.ok(format!("{name} already {done}.")));
        }
        let (before, after) = if on { (Value::Null, name.into()) } else { (name.into(), Value::Null) };
        let changes = map! { "old" => before, "new" => after };
        if ctx.is_test() {
            return Ok(ret.would(format!("Apache {kind} {name} is set to be {done}.")).changed(changes));
        }
        let fun = format!("apache.a2{}{short}", if on { "en" } else { "dis" });
        let told = call(ctx, &fun, args![name], Map::new())?;
        Ok(match told.get("Status").and_then(Value::as_str) {
            Some(status) if status.contains(done) => ret.ok("").changed(changes),
            Some(status) => ret.fail(format!("Failed to {verb} {name} Apache {kind} ({status})")),
            None => ret.fail(format!("Failed to {verb} {name} Apache {kind}")),
        })
    }
}
