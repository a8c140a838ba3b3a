//! `ip` — what the network of a machine is to be: its interfaces, routes and names, in the files of the distribution.

pub mod debian;
mod options;
#[cfg(test)]
mod recorded;
pub mod redhat;

use std::path::{Path, PathBuf};

use exec::{Call, Context, Error, Result};
use value::{Map, Value};

use crate::util;

/// Returns the path of a file, below another root in tests.
fn place(ctx: &Context, path: &str) -> PathBuf {
    format!("{}{path}", ctx.opts.get_str("__root").unwrap_or_default()).into()
}

fn is_test(settings: &Map) -> bool {
    settings.get("test").is_some_and(Value::truthy)
}

/// Writes a file in one step. Its directory must exist.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    // A directory that is missing means that the distribution uses other files; making it would hide that.
    if !path.parent().is_some_and(Path::is_dir) {
        let folder = path.parent().unwrap_or(path).display();
        return Err(Error::execution(format!("{} cannot be written. {folder} does not exist", path.display())));
    }
    util::replace_file(path, text.as_bytes(), mode).map_err(|error| Error::io("write", path, &error))
}

/// Checks the name of an interface, which becomes a part of paths and of lines.
fn check_name(name: &str) -> Result<()> {
    // A slash would lead out of the directory, and white space would begin a new word in the file.
    let fits = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '/' || c == '\0');
    if fits { Ok(()) } else { Err(Error::execution(format!("{name:?} is not the name of an interface"))) }
}

/// Brings an interface up or down, unless its kind follows another interface.
fn switched(ctx: &Context, program: &str, iface: &str, kind: &str, others: &[&str]) -> Result<Value> {
    check_name(iface)?;
    // A slave comes up with its master; Salt returns None for it.
    if others.contains(&kind.to_lowercase().as_str()) {
        return Ok(Value::Null);
    }
    let words: Value = [program, iface].into_iter().collect();
    ctx.call_with("cmd.run", Call { args: vec![words], kwargs: value::map! { "python_shell" => false } })
}

fn is_set(options: &Map, name: &str) -> bool {
    options.get(name).and_then(options::switch) == Some(true)
}

/// Sets the host name, if it is to be applied at once. Returns whether that worked.
fn apply_hostname(ctx: &Context, options: &Map) -> Result<bool> {
    if !is_set(options, "apply_hostname") {
        return Ok(true);
    }
    let Some(name) = options.get("hostname") else {
        // Salt warns and reports failure; the settings of the interfaces are still applied.
        tracing::warn!("The network state is to apply the name of the machine, but no hostname is defined.");
        return Ok(false);
    };
    Ok(ctx.call("network.mod_hostname", vec![name.clone()])?.truthy())
}

/// Returns whether the settings take effect only after a reboot.
fn waits_for_reboot(options: &Map) -> bool {
    let waits = is_set(options, "require_reboot");
    if waits {
        tracing::warn!("The settings of the network take effect when the machine is started anew.");
    }
    waits
}
