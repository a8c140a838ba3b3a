//! `firewalld.service`.

use exec::{Context, Result, function};
use value::{Map, Value, map};

use super::{listed, reload, settled, without};
use crate::support::{call, items};
use crate::{Ret, args};

/// Ports or protocols of a service.
struct Part {
    /// The key in the changes.
    name: &'static str,
    get: &'static str,
    add: &'static str,
    remove: &'static str,
}

const PARTS: [Part; 2] = [
    Part {
        name: "ports",
        get: "firewalld.get_service_ports",
        add: "firewalld.add_service_port",
        remove: "firewalld.remove_service_port",
    },
    Part {
        name: "protocols",
        get: "firewalld.get_service_protocols",
        add: "firewalld.add_service_protocol",
        remove: "firewalld.remove_service_protocol",
    },
];

fn put_right(ctx: &Context, part: &Part, name: &str, there: bool, wanted: &[Value], ret: &mut Ret) -> Result<()> {
    let current = if there { listed(ctx, part.get, args![name], Map::new())? } else { Vec::new() };
    let (new, old) = (without(wanted, &current), without(&current, wanted));
    if !ctx.is_test() {
        for item in &new {
            call(ctx, part.add, args![name, item.clone()], Map::new())?;
        }
        for item in &old {
            call(ctx, part.remove, args![name, item.clone()], Map::new())?;
        }
    }
    if !new.is_empty() || !old.is_empty() {
        ret.changes.insert(part.name, map! { "old" => current, "new" => wanted.to_vec() });
    }
    Ok(())
}

/// Makes sure that a service has these ports and protocols, and no others.
#[function]
fn service(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] ports: Value,
    #[default(Value::Null)] protocols: Value,
) -> Result<Ret> {
    let mut ret = Ret::new(name.as_str());
    let mut there = listed(ctx, "firewalld.get_services", Vec::new(), Map::new())?.contains(&name.as_str().into());
    // In a test Salt still makes the service.
    if !there && !ctx.is_test() {
        call(ctx, "firewalld.new_service", args![name.as_str()], map! { "restart" => false })?;
        there = true;
    }
    for (part, wanted) in PARTS.iter().zip([items(&ports), items(&protocols)]) {
        let outcome = put_right(ctx, part, &name, there, &wanted, &mut ret);
        if !settled(&mut ret, outcome)? {
            return Ok(ret);
        }
    }
    if ret.changes.is_empty() && there {
        return Ok(ret.ok(format!("'{name}' is already in the desired state.")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Configuration for '{name}' will change.")));
    }
    reload(ctx)?;
    Ok(ret.ok(format!("'{name}' was configured.")))
}
