//! `kmod`: modules of the kernel.

use exec::{Context, Module, Result, function};
use value::{Map, Value};

use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("kmod", "Modules of the kernel are loaded or not.", &[&ABSENT, &PRESENT]);

fn module_names(name: &str, mods: &Value) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for name in mods.as_list().unwrap_or(&[name.into()]).iter().map(Value::to_string) {
        if !wanted.contains(&name) {
            wanted.push(name);
        }
    }
    wanted
}

fn names(ctx: &Context, fun: &str, args: Vec<Value>) -> Result<Vec<String>> {
    let list = call(ctx, fun, args, Map::new())?;
    Ok(list.as_list().unwrap_or_default().iter().map(Value::to_string).collect())
}

/// "Kernel module x is …" or "Kernel modules x, y are …".
fn are(names: &[String], what: &str) -> String {
    match names {
        [one] => format!("Kernel module {one} is {what}"),
        many => format!("Kernel modules {} are {what}", many.join(", ")),
    }
}

/// "Loaded kernel module x", or of several.
fn done(what: &str, names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("{what} kernel module {one}")),
        many => Some(format!("{what} kernel modules {}", many.join(", "))),
    }
}

/// The outcome of loading or removing modules.
#[derive(Default)]
struct Outcome {
    yes: Vec<String>,
    no: Vec<String>,
    failed: Vec<(String, Value)>,
}

impl Outcome {
    fn add(&mut self, name: &str, answer: Value, what: &str, changes: &mut Map) {
        match answer {
            Value::List(modules) if !modules.is_empty() => {
                changes.extend(modules.into_iter().map(|module| (module, what)));
                self.yes.push(name.to_owned());
            }
            Value::List(_) => self.no.push(name.to_owned()),
            other => self.failed.push((name.to_owned(), other)),
        }
    }

    fn good(&self) -> bool {
        self.no.is_empty() && self.failed.is_empty()
    }

    fn comments(&self, did: &str, verb: &str) -> Vec<String> {
        let mut lines: Vec<String> = done(did, &self.yes).into_iter().collect();
        lines.extend(done(&format!("Failed to {verb}"), &self.no));
        let failed = self.failed.iter();
        lines.extend(failed.map(|(name, why)| format!("Failed to {verb} kernel module {name}: {why}")));
        lines
    }
}

/// Makes sure that modules are loaded; with `persist` also at boot.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(false)] persist: bool,
    #[default(Value::Null)] mods: Value,
) -> Result<Ret> {
    let wanted = module_names(&name, &mods);
    let mut loaded = names(ctx, "kmod.mod_list", args![])?;
    if persist {
        let kept = names(ctx, "kmod.mod_list", args![true])?;
        loaded.retain(|name| kept.contains(name));
    }
    let (there, missing): (Vec<String>, Vec<String>) = wanted.into_iter().partition(|name| loaded.contains(name));
    let mut lines = Vec::new();
    if !there.is_empty() {
        lines.push(are(&there, "already present"));
    }
    let ret = Ret::new(name);
    if missing.is_empty() {
        return Ok(ret.ok(lines.join("\n")));
    }
    if ctx.is_test() {
        lines.push(are(&missing, "set to be loaded"));
        return Ok(ret.would(lines.join("\n")));
    }
    let known = names(ctx, "kmod.available", args![])?;
    let (available, unknown): (Vec<String>, Vec<String>) = missing.into_iter().partition(|name| known.contains(name));
    if !unknown.is_empty() {
        lines.push(are(&unknown, "unavailable"));
    }
    let (mut outcome, mut changes) = (Outcome::default(), Map::new());
    for module in &available {
        if changes.contains_key(module) {
            outcome.yes.push(module.clone());
            continue;
        }
        let answer = call(ctx, "kmod.load", args![module.as_str(), persist], Map::new())?;
        outcome.add(module, answer, "loaded", &mut changes);
    }
    lines.extend(outcome.comments("Loaded", "load"));
    let good = unknown.is_empty() && outcome.good();
    Ok(Ret { result: Some(good), ..ret.ok(lines.join("\n")) }.changed(changes))
}

/// Makes sure that modules are not loaded; with `persist` also not at boot.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(false)] persist: bool,
    #[default(true)] comment: Value,
    #[default(Value::Null)] mods: Value,
) -> Result<Ret> {
    let wanted = module_names(&name, &mods);
    let mut loaded = names(ctx, "kmod.mod_list", args![])?;
    if persist {
        loaded.extend(names(ctx, "kmod.mod_list", args![true])?);
    }
    let there: Vec<String> = wanted.iter().filter(|name| loaded.contains(name)).cloned().collect();
    let ret = Ret::new(name);
    if there.is_empty() {
        return Ok(ret.ok(are(&wanted, "already removed")));
    }
    if ctx.is_test() {
        return Ok(ret.would(are(&there, "set to be removed")));
    }
    let (mut outcome, mut changes) = (Outcome::default(), Map::new());
    for module in &there {
        let args = args![module.as_str(), persist, comment.clone()];
        let answer = call(ctx, "kmod.remove", args, Map::new())?;
        outcome.add(module, answer, "removed", &mut changes);
    }
    let lines = outcome.comments("Removed", "remove");
    Ok(Ret { result: Some(outcome.good()), ..ret.ok(lines.join("\n")) }.changed(changes))
}
