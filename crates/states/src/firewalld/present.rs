//! `firewalld.present`.

use exec::{Context, Result, function, nested};
use value::{Map, Value, map};

use super::{listed, permanent, reload, settled, unique, without};
use crate::support::{call, items, over};
use crate::{Ret, args};

/// A list of a zone: the wanted members, and whether all others are removed.
struct List {
    wanted: Vec<Value>,
    prune: bool,
}

impl List {
    fn new(wanted: &Value, prune: bool) -> Self {
        List { wanted: items(wanted), prune }
    }

    fn matters(&self) -> bool {
        self.prune || !self.wanted.is_empty()
    }
}

/// The functions for one kind of members of a zone.
struct Kind {
    /// The key in the changes.
    name: &'static str,
    list: &'static str,
    add: &'static str,
    remove: &'static str,
    /// True if the member comes before the zone in calls.
    member_first: bool,
}

const ICMP: Kind = Kind {
    name: "icmp_types",
    list: "firewalld.list_icmp_block",
    add: "firewalld.block_icmp",
    remove: "firewalld.allow_icmp",
    member_first: false,
};
const PORTS: Kind = Kind {
    name: "ports",
    list: "firewalld.list_ports",
    add: "firewalld.add_port",
    remove: "firewalld.remove_port",
    member_first: false,
};
const FORWARDED: Kind = Kind {
    name: "port_fwd",
    list: "firewalld.list_port_fwd",
    add: "firewalld.add_port_fwd",
    remove: "firewalld.remove_port_fwd",
    member_first: false,
};
const SERVICES: Kind = Kind {
    name: "services",
    list: "firewalld.list_services",
    add: "firewalld.add_service",
    remove: "firewalld.remove_service",
    member_first: true,
};
const INTERFACES: Kind = Kind {
    name: "interfaces",
    list: "firewalld.get_interfaces",
    add: "firewalld.add_interface",
    remove: "firewalld.remove_interface",
    member_first: false,
};
const SOURCES: Kind = Kind {
    name: "sources",
    list: "firewalld.get_sources",
    add: "firewalld.add_source",
    remove: "firewalld.remove_source",
    member_first: false,
};
const RICH_RULES: Kind = Kind {
    name: "rich_rules",
    list: "firewalld.get_rich_rules",
    add: "firewalld.add_rich_rule",
    remove: "firewalld.remove_rich_rule",
    member_first: false,
};

const FORWARD_FIELDS: [&str; 4] = ["Source port", "Destination port", "Protocol", "Destination address"];

/// Returns the arguments of a call about a member of a zone.
fn call_args(kind: &Kind, zone: &str, member: &Value) -> Vec<Value> {
    match member {
        // A forwarded port is passed as separate arguments.
        Value::Map(forward) => {
            let fields = FORWARD_FIELDS.map(|field| forward.get(field).cloned().unwrap_or_default());
            std::iter::once(zone.into()).chain(fields).collect()
        }
        member if kind.member_first => args![member.clone(), zone],
        member => args![zone, member.clone()],
    }
}

/// Adds missing members to a zone, removes superfluous ones, and records the changes.
fn put_right(ctx: &Context, kind: &Kind, zone: &str, mut list: List, ret: &mut Ret) -> Result<()> {
    if !list.matters() {
        return Ok(());
    }
    let current = listed(ctx, kind.list, args![zone], permanent())?;
    // An invalid type is only logged, and the others are still set.
    if kind.name == ICMP.name && !list.wanted.is_empty() {
        let valid = listed(ctx, "firewalld.get_icmp_types", Vec::new(), permanent())?;
        for kind in without(&list.wanted, &valid) {
            tracing::error!("{kind} is an invalid ICMP type");
        }
        list.wanted.retain(|kind| valid.contains(kind));
    }
    let new = without(&list.wanted, &current);
    let old = if list.prune { without(&current, &list.wanted) } else { Vec::new() };
    if !ctx.is_test() {
        // The functions would otherwise turn masquerading on, which the state decides on its own.
        let hide = map! { "force_masquerade" => false };
        let forced = [PORTS.name, FORWARDED.name].contains(&kind.name);
        let more = if forced { over(permanent(), &hide) } else { permanent() };
        for member in &new {
            call(ctx, kind.add, call_args(kind, zone, member), more.clone())?;
        }
        for member in &old {
            call(ctx, kind.remove, call_args(kind, zone, member), permanent())?;
        }
    }
    if !new.is_empty() || !old.is_empty() {
        let all = if list.prune { list.wanted } else { unique(&[new, current.clone()].concat()) };
        ret.changes.insert(kind.name, map! { "old" => current, "new" => all });
    }
    Ok(())
}

/// Reads a forwarded port such as "22:2222:tcp:10.0.0.2".
fn forward(text: &Value) -> Result<Value> {
    let text = text.to_string();
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, protocol, address) = match parts[..] {
        [source, target, protocol] => (source, target, protocol, ""),
        [source, target, protocol, address] => (source, target, protocol, address),
        _ => return Err(exec::Error::Other(format!("a forwarded port is 'from:to:protocol:address', not '{text}'"))),
    };
    let fields = FORWARD_FIELDS.iter().zip([source, target, protocol, address]);
    Ok(fields.map(|(name, value)| (*name, value)).collect::<Map>().into())
}

/// A rich rule with its values in double quotes, as the daemon shows it.
fn normal_rule(rule: &Value) -> Value {
    let part = |part: &str| {
        // firewalld shows rules with double quotes. Without the same form a rule would be added on
        // every run.
        let Some((name, value)) = part.split_once('=') else { return part.to_owned() };
        if value.starts_with('"') || value.ends_with('"') {
            return part.to_owned();
        }
        let bare = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
        format!("{name}=\"{bare}\"")
    };
    let rule = rule.to_string();
    rule.split(' ').map(part).collect::<Vec<_>>().join(" ").trim_start().into()
}

/// The arguments about the zone.
struct Wish {
    default: bool,
    masquerade: Value,
    lists: Vec<(&'static Kind, List)>,
}

fn zone_there(ctx: &Context, name: &str, ret: &mut Ret) -> Result<()> {
    let zones = listed(ctx, "firewalld.get_zones", Vec::new(), permanent())?;
    if zones.contains(&name.into()) {
        return Ok(());
    }
    if !ctx.is_test() {
        call(ctx, "firewalld.new_zone", args![name], Map::new())?;
    }
    ret.changes.insert(name, map! { "old" => zones, "new" => name });
    Ok(())
}

fn masquerade(ctx: &Context, name: &str, wanted: &Value, ret: &mut Ret) -> Result<()> {
    let on = call(ctx, "firewalld.get_masquerade", args![name], permanent())?;
    if wanted.is_null() || wanted.truthy() == on.truthy() {
        return Ok(());
    }
    let (fun, word) = match wanted.truthy() {
        true => ("firewalld.add_masquerade", "set"),
        false => ("firewalld.remove_masquerade", "disabled"),
    };
    if !ctx.is_test() {
        call(ctx, fun, args![name], permanent())?;
    }
    ret.changes.insert("masquerade", map! { "old" => on, "new" => format!("Masquerading successfully {word}.") });
    Ok(())
}

fn apply(ctx: &Context, name: &str, wish: Wish, ret: &mut Ret) -> Result<()> {
    zone_there(ctx, name, ret)?;
    let mut lists = wish.lists.into_iter();
    // ICMP comes first and the default zone next: Salt's order, which shows in the changes.
    if let Some((kind, list)) = lists.next() {
        put_right(ctx, kind, name, list, ret)?;
    }
    if wish.default {
        let default = call(ctx, "firewalld.default_zone", Vec::new(), Map::new())?;
        if default.as_str() != Some(name) {
            if !ctx.is_test() {
                call(ctx, "firewalld.set_default_zone", args![name], Map::new())?;
            }
            ret.changes.insert("default", map! { "old" => default, "new" => name });
        }
    }
    masquerade(ctx, name, &wish.masquerade, ret)?;
    for (kind, list) in lists {
        put_right(ctx, kind, name, list, ret)?;
    }
    Ok(())
}

/// Makes sure that a zone exists with these members; `prune_…` removes all others.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] block_icmp: Value,
    #[default(false)] prune_block_icmp: bool,
    #[default(Value::Null)] default: Value,
    #[default(Value::Null)] masquerade: Value,
    #[default(Value::Null)] ports: Value,
    #[default(false)] prune_ports: bool,
    #[default(Value::Null)] port_fwd: Value,
    #[default(false)] prune_port_fwd: bool,
    #[default(Value::Null)] services: Value,
    #[default(false)] prune_services: bool,
    #[default(Value::Null)] interfaces: Value,
    #[default(false)] prune_interfaces: bool,
    #[default(Value::Null)] sources: Value,
    #[default(false)] prune_sources: bool,
    #[default(Value::Null)] rich_rules: Value,
    #[default(false)] prune_rich_rules: bool,
) -> Result<Ret> {
    let mut ret = Ret::new(name.as_str());
    let forwards: Vec<Value> = items(&port_fwd).iter().map(forward).collect::<Result<_>>()?;
    let rules: Vec<Value> = items(&rich_rules).iter().map(normal_rule).collect();
    let lists = vec![
        (&ICMP, List::new(&block_icmp, prune_block_icmp)),
        (&PORTS, List::new(&ports, prune_ports)),
        (&FORWARDED, List { wanted: forwards, prune: prune_port_fwd }),
        (&SERVICES, List::new(&services, prune_services)),
        (&INTERFACES, List::new(&interfaces, prune_interfaces)),
        (&SOURCES, List::new(&sources, prune_sources)),
        (&RICH_RULES, List { wanted: rules, prune: prune_rich_rules }),
    ];
    let wish = Wish { default: default.truthy(), masquerade, lists };
    let outcome = apply(ctx, &name, wish, &mut ret);
    if !settled(&mut ret, outcome)? {
        // Permanent settings that were made before the failure take effect, as in Salt.
        if !ret.changes.is_empty() {
            reload(ctx)?;
        }
        return Ok(ret);
    }
    if ret.changes.is_empty() {
        return Ok(ret.ok(format!("'{name}' is already in the desired state.")));
    }
    if ctx.is_test() {
        let changes = nested(&std::mem::take(&mut ret.changes).into());
        return Ok(ret.would(format!("Configuration for '{name}' will change:\n{changes}")));
    }
    reload(ctx)?;
    Ok(ret.ok(format!("'{name}' was configured.")))
}
