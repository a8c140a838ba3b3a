//! `sysctl`: settings of the kernel.

use exec::{Context, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, caught, has};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("sysctl", "Settings of the kernel.", &[&PRESENT]);

/// Makes sure that a setting has a value, now and after a reboot.
#[function]
fn present(ctx: &Context, name: String, value: Value, config: Option<String>) -> Result<Ret> {
    let config = match config {
        Some(config) => config,
        None if has(ctx, "sysctl.default_config") => {
            call(ctx, "sysctl.default_config", args![], Map::new())?.to_string()
        }
        None => "/etc/sysctl.conf".into(),
    };
    let ret = Ret::new(name.as_str());
    if ctx.is_test() {
        return would(ctx, &name, &value, &config, ret);
    }
    match call(ctx, "sysctl.persist", args![name.as_str(), value.clone(), config], Map::new()) {
        Err(error) => Ok(ret.fail(format!("Failed to set {name} to {value}: {}", caught(error)?.text))),
        Ok(update) => Ok(match update.as_str() {
            Some("Updated") => {
                let text = format!("Updated sysctl value {name} = {value}");
                ret.ok(text).changed(map! { name => value })
            }
            Some("Already set") => ret.ok(format!("Sysctl value {name} = {value} is already set")),
            _ => ret.ok(""),
        }),
    }
}

fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let mut before = None;
    for c in text.chars() {
        let blank = [' ', '\t'].contains(&c);
        // A run of one kind of blank counts as one.
        if !blank || before != Some(c) {
            spaced.push(if blank { ' ' } else { c });
        }
        before = blank.then_some(c);
    }
    spaced
}

fn would(ctx: &Context, name: &str, value: &Value, config: &str, ret: Ret) -> Result<Ret> {
    let configured = call(ctx, "sysctl.show", args![], map! { "config_file" => config })?;
    if configured.is_null() {
        return Ok(ret.would(format!(
            "Sysctl option {name} might be changed, we failed to check config file at {config}. The file is either \
             unreadable, or missing."
        )));
    }
    let current = call(ctx, "sysctl.get", args![name], Map::new())?;
    let in_file = configured.get(name).is_some();
    let (current, wanted) = (current.to_string(), value.to_string());
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    Ok(match (current.is_empty(), in_file) {
        (false, true) if words(&current) == words(&wanted) => {
            ret.ok(format!("Sysctl value {name} = {value} is already set"))
        }
        (false, false) if spaced(&current) != spaced(&wanted) => {
            ret.would(format!("Sysctl option {name} set to be changed to {value}"))
        }
        (false, false) => ret.would(format!(
            "Sysctl value is currently set on the running system but not in a config file. Sysctl option {name} set to be \
             changed to {value} in config file."
        )),
        (true, true) => ret.would(format!(
            "Sysctl value {name} is present in configuration file but is not present in the running config. The value \
             {name} is set to be changed to {value}"
        )),
        _ => ret.would(format!("Sysctl option {name} would be changed to {value}")),
    })
}
