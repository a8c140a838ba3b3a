//! `selinux` — the mode, booleans, modules and policies of SELinux.

mod booleans;
mod contexts;
mod mode;
mod ports;

use exec::{Call, Context, Error, Module, Result};
use value::{Map, Value, map};

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "selinux",
    "Functions that look at the settings of SELinux and change them.",
    &[
        &contexts::FCONTEXT_ADD_POLICY,
        &contexts::FCONTEXT_APPLY_POLICY,
        &contexts::FCONTEXT_DELETE_POLICY,
        &contexts::FCONTEXT_GET_POLICY,
        &contexts::FCONTEXT_POLICY_IS_APPLIED,
        &contexts::FILETYPE_ID_TO_STRING,
        &mode::GETCONFIG,
        &mode::GETENFORCE,
        &booleans::GETSEBOOL,
        &booleans::GETSEMOD,
        &booleans::INSTALL_SEMOD,
        &booleans::LIST_SEBOOL,
        &booleans::LIST_SEMOD,
        &ports::PORT_ADD_POLICY,
        &ports::PORT_DELETE_POLICY,
        &ports::PORT_GET_POLICY,
        &ports::PORT_MODIFY_POLICY,
        &booleans::REMOVE_SEMOD,
        &mode::SELINUX_FS_PATH,
        &mode::SETENFORCE,
        &booleans::SETSEBOOL,
        &booleans::SETSEBOOLS,
        &booleans::SETSEMOD,
    ],
)
.only_if(installed);

fn installed(_grains: &Map) -> std::result::Result<(), String> {
    // All three come with the package of tools, without which nothing here works.
    let missing = ["semanage", "setsebool", "semodule"].into_iter().find(|name| util::which(name).is_none());
    missing.map_or(Ok(()), |name| Err(format!("{name} is not in the path")))
}

/// Runs a line of a shell, which may find nothing, and returns what it printed.
fn shell(ctx: &Context, line: String) -> Result<String> {
    // `grep` ends with 1 when it finds nothing, which is not an error.
    let kwargs = map! { "ignore_retcode" => true };
    Ok(ctx.call_with("cmd.shell", Call { args: vec![line.into()], kwargs })?.to_string())
}

/// Escapes special characters of a pattern with backslashes, as Python does.
fn escaped(text: &str) -> String {
    text.chars()
        // The letters that Python's `re.escape` escapes.
        .flat_map(|c| "()[]{}?*+-|^$\\.&~# \t\n\r\x0b\x0c".contains(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// An argument that goes into a line of a shell between single quotes.
fn quotable(value: Option<String>) -> Result<Option<String>> {
    match value.filter(|value| !value.is_empty()) {
        Some(value) if value.contains('\'') => {
            Err(Error::invocation(format!("{value} contains a single quote, which no name in a policy has")))
        }
        value => Ok(value),
    }
}

/// Runs a command. Returns whether it succeeded.
fn works(ctx: &Context, command: Value, kwargs: Map) -> Result<bool> {
    Ok(!ctx.call_with("cmd.retcode", Call { args: vec![command], kwargs })?.truthy())
}
