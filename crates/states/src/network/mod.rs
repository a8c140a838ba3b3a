//! `network`: interfaces, their routes and the names of the machine.

#[cfg(test)]
mod tests;

use exec::{Call, Context, KwArgs, Module, Result, function};
use modules::file::difflib;
use modules::util::is_internal;
use value::{Map, Value, map};

use crate::Ret;
use crate::support::{call, caught_or_refused, items};

/// The module.
pub static MODULE: Module = Module::new(
    "network",
    "Interfaces, their routes and the names of the machine are as wanted.",
    &[&MANAGED, &ROUTES, &SYSTEM],
);

/// The settings of a state, and whether it is a test.
fn settings(ctx: &Context, kwargs: &KwArgs) -> Map {
    let mut settings = kwargs.given();
    // `test` stays: the functions of `ip` take it as an argument.
    settings.retain(|name, _| !name.as_str().is_some_and(|name| name != "test" && is_internal(name)));
    settings.entry_or_insert_with("test", || ctx.is_test().into());
    settings
}

fn is_test(settings: &Map) -> bool {
    settings.get("test").is_some_and(Value::truthy)
}

fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Str(text) => text.lines().map(str::to_owned).collect(),
        other => items(other).iter().map(Value::to_string).collect(),
    }
}

/// The difference of two files in one text; lines that have an end keep it.
fn difference(old: &Value, new: &Value) -> String {
    let parts = difflib::unified_lines(&lines(old), &lines(new), "", "");
    let plain = |(place, line): (usize, String)| {
        if place < 2 || line.starts_with("@@") { line.trim_end_matches('\n').to_owned() } else { line }
    };
    parts.into_iter().enumerate().map(plain).collect::<Vec<_>>().join("\n")
}

/// The words for reports on a file.
struct Wording<'a> {
    /// The subject of sentences, such as `Interface eth0`.
    what: String,
    /// The matching verb.
    verb: &'a str,
    /// The key of the change.
    key: &'a str,
    /// The text of the change for a new file.
    added: String,
}

/// Reports the written settings, or those that would be; returns whether anything changed.
fn tell(ret: &mut Ret, told: &Wording<'_>, old: &Value, new: &Value, test: bool) -> bool {
    let added = !old.truthy() && new.truthy();
    if !added && old == new {
        return false;
    }
    let what = &told.what;
    if test {
        let verb = told.verb;
        ret.result = None;
        ret.comment = if added {
            format!("{what} {verb} set to be added.").into()
        } else {
            format!("{what} {verb} set to be updated:\n{}", difference(old, new)).into()
        };
        return true;
    }
    ret.comment = format!("{what} {}.", if added { "added" } else { "updated" }).into();
    let change = if added { told.added.clone() } else { difference(old, new) };
    ret.changes.insert(told.key, change);
    true
}

/// A failure becomes the comment.
fn settled(ret: Ret, outcome: Result<bool>) -> Result<std::result::Result<(Ret, bool), Ret>> {
    match outcome {
        Ok(changed) => Ok(Ok((ret, changed))),
        Err(error) => Ok(Err(ret.fail(caught_or_refused(error)?.text))),
    }
}

/// Makes sure that an interface is set up, and is up or down.
#[function]
fn managed(ctx: &Context, name: String, #[default(true)] enabled: bool, kwargs: KwArgs) -> Result<Ret> {
    let mut settings = settings(ctx, &kwargs);
    let test = is_test(&settings);
    let mut ret = Ret::new(name.as_str()).ok(format!("Interface {name} is up to date."));
    let kind = settings.remove("type").map_or_else(|| "eth".to_owned(), |kind| kind.to_string());
    // `addr` is what the grains call the hardware address, so it gets mixed up.
    if let Some(address) = settings.remove("addr") {
        let known = settings.contains_key("hwaddr");
        settings.entry_or_insert_with("hwaddr", || address);
        let done = if known { "it has been ignored in favor of 'hwaddr'." } else { ASSIGNED };
        let text =
            format!("'addr' is not a valid argument name, {done} Update your SLS file to get rid of this warning.");
        ret.more.insert("warnings", value::list![text]);
    }
    let outcome = interface(ctx, &mut ret, &name, (&kind, enabled), &settings);
    let (mut ret, mut changed) = match settled(ret, outcome)? {
        Ok(done) => done,
        Err(failed) => return Ok(failed),
    };
    // A line that includes other files names no interface that could be brought up.
    if kind == "source" {
        return Ok(ret);
    }
    if kind == "bond" && crate::support::has(ctx, "ip.get_bond") {
        let outcome = bond(ctx, &mut ret, &name, &settings);
        match settled(ret, outcome)? {
            Ok((told, also)) => (ret, changed) = (told, changed || also),
            Err(failed) => return Ok(failed),
        }
    }
    if test {
        return Ok(ret);
    }
    let interface = Interface { name: &name, kind: &kind, enabled, settings: &settings };
    match interface.brought(ctx, &mut ret, changed) {
        Ok(()) => Ok(ret),
        Err(error) => Ok(ret.fail(error.to_string())),
    }
}

const ASSIGNED: &str = "its value has been assigned to 'hwaddr' instead.";

fn interface(ctx: &Context, ret: &mut Ret, name: &str, kind: (&str, bool), settings: &Map) -> Result<bool> {
    // Read before writing; both answers are the lines of the file.
    let old = call(ctx, "ip.get_interface", vec![name.into()], Map::new())?;
    let args = vec![name.into(), kind.0.into(), kind.1.into()];
    let new = call(ctx, "ip.build_interface", args, settings.clone())?;
    let told = Wording {
        what: format!("Interface {name}"),
        verb: "is",
        key: "interface",
        added: "Added network interface.".into(),
    };
    Ok(tell(ret, &told, &old, &new, is_test(settings)))
}

fn bond(ctx: &Context, ret: &mut Ret, name: &str, settings: &Map) -> Result<bool> {
    let old = call(ctx, "ip.get_bond", vec![name.into()], Map::new())?;
    let new = call(ctx, "ip.build_bond", vec![name.into()], settings.clone())?;
    let told = Wording {
        what: format!("Bond interface {name}"),
        verb: "is",
        key: "bond",
        added: format!("Added bond {name}."),
    };
    Ok(tell(ret, &told, &old, &new, is_test(settings)))
}

/// An interface that was set up.
struct Interface<'a> {
    name: &'a str,
    kind: &'a str,
    enabled: bool,
    settings: &'a Map,
}

impl Interface<'_> {
    /// Brings the interface up or down if requested.
    fn brought(&self, ctx: &Context, ret: &mut Ret, changed: bool) -> Result<()> {
        let name = self.name;
        if name.contains("range") {
            // Red Hat's families have files for several interfaces at once.
            ret.comment = "no change, passing it".into();
            if changed {
                let done = call(ctx, "service.restart", vec!["network".into()], Map::new())?;
                ret.result = Some(done.truthy());
                ret.comment = "network restarted for change of ranged interfaces".into();
            }
            return Ok(());
        }
        let is_up = is_up(ctx, name)?;
        if !self.settings.contains_key("noifupdown") {
            self.switch(ctx, ret, is_up)?;
            if self.kind == "bond" {
                self.enslave(ctx, ret)?;
            }
        }
        // Addresses have changed, and the grains hold them.
        if !(self.enabled && is_up) {
            call(ctx, "saltutil.refresh_grains", Vec::new(), Map::new())?;
        }
        Ok(())
    }

    fn switch(&self, ctx: &Context, ret: &mut Ret, is_up: bool) -> Result<()> {
        let name = self.name;
        let go = |fun: &'static str| call(ctx, fun, vec![name.into(), self.kind.into()], Map::new());
        let status = match (self.enabled, is_up) {
            (true, true) if ret.changes.is_empty() => return Ok(()),
            (true, true) => {
                // Down and up again, so that the new file is read. The connection to the master may drop briefly.
                go("ip.down")?;
                go("ip.up")?;
                format!("Interface {name} restart to validate")
            }
            (true, false) => {
                go("ip.up")?;
                format!("Interface {name} is up")
            }
            (false, true) => {
                go("ip.down")?;
                format!("Interface {name} down")
            }
            (false, false) => return Ok(()),
        };
        ret.changes.insert("status", status);
        Ok(())
    }

    /// Adds slaves to a bond that is up.
    fn enslave(&self, ctx: &Context, ret: &mut Ret) -> Result<()> {
        let name = self.name;
        let wanted = match self.settings.get("slaves") {
            Some(Value::List(slaves)) => slaves.iter().map(Value::to_string).collect(),
            Some(other) => other.to_string().split_whitespace().map(str::to_owned).collect(),
            None => Vec::new(),
        };
        // The kernel's own list; a slave that is already in must not be added twice.
        let present = std::fs::read_to_string(format!("/sys/class/net/{name}/bonding/slaves")).unwrap_or_default();
        let missing = wanted.into_iter().filter(|slave| !present.split_whitespace().any(|known| known == slave));
        let missing: Vec<String> = missing.collect();
        if missing.is_empty() {
            return Ok(());
        }
        let Some(program) = modules::util::which("ifenslave") else {
            // Salt only logs this. The interface itself is up.
            tracing::error!("Command 'ifenslave' not found");
            return Ok(());
        };
        let program = program.to_string_lossy().into_owned();
        let words: Value = [program.as_str(), name].into_iter().chain(missing.iter().map(String::as_str)).collect();
        let run = Call { args: vec![words], kwargs: map! { "python_shell" => false } };
        ctx.call_with("cmd.run", run)?;
        ret.changes.insert("enslave", format!("Added slaves '{}' to master '{name}'", missing.join(" ")));
        Ok(())
    }
}

/// Returns whether an interface, or an address with a label, is there and up.
fn is_up(ctx: &Context, name: &str) -> Result<bool> {
    let interfaces = call(ctx, "network.interfaces", Vec::new(), Map::new())?.into_map().unwrap_or_default();
    if let Some(interface) = interfaces.get(name) {
        return Ok(interface.get("up").is_some_and(Value::truthy));
    }
    let labelled = |addresses: Option<&Value>| {
        let addresses = addresses.and_then(Value::as_list).unwrap_or_default();
        addresses.iter().any(|address| address.get("label").and_then(Value::as_str) == Some(name))
    };
    Ok(interfaces.iter().any(|(interface, data)| {
        let of_loopback = || labelled(data.get("inet")) || labelled(data.get("inet6"));
        // An alias such as `eth0:1` is not an interface but an address with a label.
        labelled(data.get("secondary")) || (interface.as_str() == Some("lo") && of_loopback())
    }))
}

/// Makes sure that an interface has routes.
#[function]
fn routes(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    let settings = settings(ctx, &kwargs);
    let mut ret = Ret::new(name.as_str()).ok(format!("Interface {name} routes are up to date."));
    let mut write = || {
        let old = call(ctx, "ip.get_routes", vec![name.as_str().into()], Map::new())?;
        let new = call(ctx, "ip.build_routes", vec![name.as_str().into()], settings.clone())?;
        let told = Wording {
            what: format!("Interface {name} routes"),
            verb: "are",
            key: "network_routes",
            added: format!("Added interface {name} routes."),
        };
        applied(ctx, &mut ret, &told, (&old, &new), &settings)
    };
    let outcome = write();
    Ok(settled(ret, outcome)?.map_or_else(|failed| failed, |(ret, _)| ret))
}

/// Reports the written settings and activates them.
fn applied(
    ctx: &Context,
    ret: &mut Ret,
    told: &Wording<'_>,
    (old, new): (&Value, &Value),
    settings: &Map,
) -> Result<bool> {
    let test = is_test(settings);
    let changed = tell(ret, told, old, new, test);
    if changed && !test {
        call(ctx, "ip.apply_network_settings", Vec::new(), settings.clone())?;
    }
    Ok(changed)
}

/// Makes sure that the network settings of the machine are as wanted.
#[function]
fn system(ctx: &Context, name: String, kwargs: KwArgs) -> Result<Ret> {
    const UP_TO_DATE: &str = "Global network settings are up to date.";
    let mut settings = settings(ctx, &kwargs);
    // Unlike the other two functions this one ignores a `test` argument, as in Salt.
    settings.insert("test", ctx.is_test());
    let mut ret = Ret::new(name.as_str()).ok(UP_TO_DATE);
    let mut write = || {
        let old = call(ctx, "ip.get_network_settings", Vec::new(), Map::new())?;
        let new = call(ctx, "ip.build_network_settings", Vec::new(), settings.clone())?;
        let told = Wording {
            what: "Global network settings".into(),
            verb: "are",
            key: "network_settings",
            added: "Added global network settings.".into(),
        };
        applied(ctx, &mut ret, &told, (&old, &new), &settings)
    };
    let outcome = write();
    let ret = settled(ret, outcome)?.map_or_else(|failed| failed, |(ret, _)| ret);
    // Only the changes report the written settings.
    Ok(if ret.result == Some(true) { ret.ok(UP_TO_DATE) } else { ret })
}
