//! `host`: names of addresses in the hosts file.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, items, join};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("host", "Names of addresses in the hosts file.", &[&ABSENT, &ONLY, &PRESENT]);

/// The changes to the hosts file.
#[derive(Default)]
struct Plan {
    add: Vec<String>,
    remove: Vec<String>,
    remark: Vec<String>,
    lines: Vec<String>,
    warnings: Vec<String>,
    invalid: bool,
}

impl Plan {
    fn of(all: &Map, name: &str, wanted: &[String], comment: &str, clean: bool) -> Plan {
        let mut plan = Plan::default();
        for address in wanted.iter().filter(|address| !all.contains_key(address)) {
            plan.add(address, comment);
        }
        for (address, info) in all {
            let address = address.to_string();
            let named = info.get("aliases").and_then(Value::as_list).is_some_and(|names| names.contains(&name.into()));
            match (wanted.contains(&address), named) {
                (false, false) => {}
                (false, true) if clean => plan.remove.push(address),
                (false, true) => plan.warnings.push(format!(
                    "Host {name} present for IP address {address}. To get rid of this warning, either run this state with \
                     'clean' set to True to remove {name} from {address}, or add {address} to the 'ip' argument."
                )),
                (true, true) if !comment.is_empty() && info.get("comment").and_then(Value::as_str) != Some(comment) => {
                    plan.remark.push(address);
                }
                (true, true) => plan.lines.push(format!("Host {name} ({address}) already present")),
                (true, false) if address.parse::<std::net::IpAddr>().is_ok() => plan.add(&address, comment),
                (true, false) => {
                    plan.invalid = true;
                    plan.lines.push(format!("Invalid IP Address for {name} ({address})"));
                }
            }
        }
        plan
    }

    fn add(&mut self, address: &str, comment: &str) {
        if !self.add.iter().any(|known| known == address) {
            self.add.push(address.to_owned());
            self.remark.extend((!comment.is_empty()).then(|| address.to_owned()));
        }
    }
}

fn note(changes: &mut Map, kind: &str, address: &str, what: &str) {
    let kind = changes.entry_or_insert_with(kind, || Map::new().into());
    if let Value::Map(kind) = kind {
        kind.insert(address, value::list![what]);
    }
}

/// Makes sure that addresses have a name; with `clean` that no others do.
#[function]
fn present(
    ctx: &Context,
    name: String,
    ip: Value,
    #[default("")] comment: Value,
    #[default(false)] clean: bool,
) -> Result<Ret> {
    let wanted: Vec<String> = items(&ip).iter().map(Value::to_string).collect();
    let all = call(ctx, "hosts.list_hosts", args![], Map::new())?.into_map().unwrap_or_default();
    let comment = if comment.truthy() { comment.to_string() } else { String::new() };
    let mut plan = Plan::of(&all, &name, &wanted, &comment, clean);
    let mut ret = Ret::new(name.as_str()).ok("");
    if plan.invalid {
        ret.result = Some(false);
    }
    if !plan.warnings.is_empty() {
        ret.more.insert("warnings", std::mem::take(&mut plan.warnings));
    }
    let mut lines = std::mem::take(&mut plan.lines);
    let test = ctx.is_test();
    let steps = [
        (&plan.add, "hosts.add_host", "added", name.as_str()),
        (&plan.remark, "hosts.set_comment", "comment_added", comment.as_str()),
        (&plan.remove, "hosts.rm_host", "removed", name.as_str()),
    ];
    for (addresses, fun, kind, what) in steps {
        for address in addresses {
            let done = test || call(ctx, fun, args![address.as_str(), what], Map::new())?.truthy();
            lines.push(change_comment(kind, address, what, test, done));
            if !done {
                ret.result = Some(false);
                continue;
            }
            if test && kind != "comment_added" {
                ret.result = None;
            }
            note(&mut ret.changes, kind, address, what);
        }
    }
    Ok(Ret { comment: lines.join("\n").into(), ..ret })
}

fn change_comment(kind: &str, address: &str, what: &str, test: bool, done: bool) -> String {
    match (kind, test, done) {
        ("added", true, _) => format!("Host {what} ({address}) would be added"),
        ("added", _, true) => format!("Added host {what} ({address})"),
        ("added", ..) => format!("Failed to add host {what} ({address})"),
        ("removed", true, _) => format!("Host {what} ({address}) would be removed"),
        ("removed", _, true) => format!("Removed host {what} ({address})"),
        ("removed", ..) => format!("Failed to remove host {what} ({address})"),
        (_, true, _) => format!("Comment for {address} ({what}) would be added"),
        (_, _, true) => format!("Set comment for host {address} ({what})"),
        _ => format!("Failed to add comment for host {address} ({what})"),
    }
}

/// Makes sure that addresses do not have a name.
#[function]
fn absent(ctx: &Context, name: String, ip: Value) -> Result<Ret> {
    let mut ret = Ret { result: None, ..Ret::new(name.as_str()) };
    let mut lines = Vec::new();
    for address in items(&ip) {
        if !call(ctx, "hosts.has_pair", args![address.clone(), name.as_str()], Map::new())?.truthy() {
            ret.result = Some(true);
            lines.push(format!("Host {name} ({address}) already absent"));
        } else if ctx.is_test() {
            lines.push(format!("Host {name} ({address}) needs to be removed"));
        } else if call(ctx, "hosts.rm_host", args![address.clone(), name.as_str()], Map::new())?.truthy() {
            ret.changes = map! { "host" => name.as_str() };
            ret.result = Some(true);
            lines.push(format!("Removed host {name} ({address})"));
        } else {
            ret.result = Some(false);
            lines.push("Failed to remove host".into());
        }
    }
    Ok(Ret { comment: lines.join("\n").into(), ..ret })
}

/// Makes sure that an address has these names and no others.
#[function]
fn only(ctx: &Context, name: String, hostnames: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let old = call(ctx, "hosts.get_alias", args![name.as_str()], Map::new())?;
    let old = join(items(&old), " ");
    let new = join(items(&hostnames).iter().map(|name| name.to_string().trim().to_owned()), " ");
    if old == new {
        return Ok(ret.ok(format!("IP address {name} already set to \"{new}\"")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Would change {name} from \"{old}\" to \"{new}\"")));
    }
    if !call(ctx, "hosts.set_host", args![name.as_str(), new.as_str()], Map::new())?.truthy() {
        return Ok(ret.fail(format!("hosts.set_host failed to change {name} from \"{old}\" to \"{new}\"")));
    }
    let text = format!("successfully changed {name} from \"{old}\" to \"{new}\"");
    Ok(ret.ok(text).changed(map! { name => map! { "old" => old, "new" => new } }))
}
