//! `firewall`: whether a port of another host can be reached from here.

use exec::{Context, KwArgs, Module, Result, function};
use value::Value;

use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("firewall", "Ports of other hosts can be reached.", &[&CHECK]);

/// Connects to a port of a host. ``proto`` (tcp, udp), ``family`` (ipv4, ipv6) and ``timeout`` (seconds) are those of
/// `network.connect`.
#[function]
fn check(ctx: &Context, name: String, #[default(Value::Null)] port: Value, kwargs: KwArgs) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let mut given = kwargs.given();
    let test = given.entry_or_insert_with("test", || ctx.is_test().into()).truthy();
    if test {
        return Ok(ret.ok("The connection will be tested"));
    }
    let answer = call(ctx, "network.connect", args![name, port], given)?;
    let comment = answer.get("comment").cloned().unwrap_or_default();
    Ok(match answer.get("result").is_some_and(Value::truthy) {
        true => ret.ok(comment),
        false => ret.fail(comment),
    })
}
