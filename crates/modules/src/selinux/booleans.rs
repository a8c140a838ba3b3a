//! Booleans and modules of the policy.

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use super::works;

fn printed(ctx: &Context, line: &str) -> Result<String> {
    Ok(ctx.call("cmd.run", vec![line.into()])?.to_string())
}

/// Reads rows such as "virt_use_usb  (on   ,   on)  Allow virt to use usb".
fn booleans(text: &str) -> Map {
    // The first line is a title.
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.len() >= 4)
        .map(|words| {
            let entry = map! {
                "State" => words[1].strip_prefix('(').unwrap_or(words[1]),
                "Default" => words[3].strip_suffix(')').unwrap_or(words[3]),
                "Description" => words[4..].join(" "),
            };
            (words[0], entry)
        })
        .collect()
}

/// Lines such as "100 nagios pp disabled".
fn modules(text: &str) -> Map {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|words| words.len() >= 2)
        // `priority name format`, and `disabled` as a fourth word. Versions are no longer printed.
        .map(|words| (words[1], map! { "Enabled" => words.len() != 4, "Version" => () }))
        .collect()
}

fn all_booleans(ctx: &Context) -> Result<Map> {
    Ok(booleans(&printed(ctx, "semanage boolean --list")?))
}

fn all_modules(ctx: &Context) -> Result<Map> {
    Ok(modules(&printed(ctx, "semodule --list-modules=full")?))
}

fn entry(all: &Map, name: &str) -> Value {
    all.get(name).cloned().unwrap_or_else(|| Map::new().into())
}

/// Returns information about a boolean.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.getsebool virt_use_usb
#[function]
fn getsebool(ctx: &Context, boolean: String) -> Result<Value> {
    Ok(entry(&all_booleans(ctx)?, &boolean))
}

/// Sets a boolean, with ``persist`` permanently. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.setsebool virt_use_usb off
#[function]
fn setsebool(ctx: &Context, boolean: Value, value: Value, #[default(false)] persist: bool) -> Result<bool> {
    let option = if persist { "-P " } else { "" };
    let line = format!("setsebool {option}'{boolean}' '{value}'");
    works(ctx, line.into(), map! { "python_shell" => false })
}

/// Sets several booleans. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.setsebools '{virt_use_usb: on, squid_use_tproxy: off}'
#[function]
fn setsebools(ctx: &Context, pairs: Map, #[default(false)] persist: bool) -> Result<bool> {
    let mut words: Vec<Value> = vec!["setsebool".into()];
    words.extend(persist.then(|| "-P".into()));
    words.extend(pairs.iter().map(|(name, value)| Value::from(format!("{name}={value}"))));
    works(ctx, words.into(), map! { "python_shell" => false })
}

/// Returns all booleans, with their current and permanent state.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.list_sebool
#[function]
fn list_sebool(ctx: &Context) -> Result<Map> {
    all_booleans(ctx)
}

/// Returns information about a module.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.getsemod mysql
#[function]
fn getsemod(ctx: &Context, module: String) -> Result<Value> {
    Ok(entry(&all_modules(ctx)?, &module))
}

/// Enables or disables a module. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.setsemod nagios Enabled
#[function]
fn setsemod(ctx: &Context, module: Value, state: String) -> Result<bool> {
    let option = match state.to_lowercase().as_str() {
        "enabled" => "--enable",
        "disabled" => "--disable",
        _ => return Err(Error::invocation(format!("Invalid state {state}"))),
    };
    works(ctx, format!("semodule {option} '{module}'").into(), Map::new())
}

/// Installs a module from a file, which may be on the master. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.install_semod salt://path/to/module.pp
#[function]
fn install_semod(ctx: &Context, module_path: String) -> Result<bool> {
    let path = match module_path.starts_with("salt://") {
        true => ctx.call("cp.cache_file", vec![module_path.into()])?,
        false => module_path.into(),
    };
    works(ctx, format!("semodule --install '{path}'").into(), Map::new())
}

/// Removes a module. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.remove_semod nagios
#[function]
fn remove_semod(ctx: &Context, module: Value) -> Result<bool> {
    works(ctx, format!("semodule --remove '{module}'").into(), Map::new())
}

/// Returns all modules, and whether they are enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.list_semod
#[function]
fn list_semod(ctx: &Context) -> Result<Map> {
    all_modules(ctx)
}
