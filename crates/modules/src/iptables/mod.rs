//! `iptables` — the rules of the kernel's packet filter.
//!
//! [`rule`] writes rules from arguments, [`saved`] reads what `iptables-save` prints, [`change`] changes tables.

mod change;
mod rule;
mod saved;

use std::path::Path;

use exec::{Call, Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::util;

/// Registers the functions of `iptables`.
pub static MODULE: Module = Module::new(
    "iptables",
    "Functions that look at the rules of the kernel's packet filter and change them.",
    &[
        &change::APPEND,
        &rule::BUILD_RULE,
        &change::CHECK,
        &change::CHECK_CHAIN,
        &change::DELETE,
        &change::DELETE_CHAIN,
        &change::FLUSH,
        &GET_POLICY,
        &GET_RULES,
        &GET_SAVED_POLICY,
        &GET_SAVED_RULES,
        &change::INSERT,
        &change::NEW_CHAIN,
        &SAVE,
        &change::SET_POLICY,
        &VERSION,
    ],
)
.only_if(|_| match util::which("iptables") {
    Some(_) => Ok(()),
    None => Err("The iptables execution module cannot be loaded: iptables not installed.".into()),
});

/// The program of a protocol family.
fn program(ctx: &Context, family: &str) -> Result<String> {
    let name = if family == "ipv6" { "ip6tables" } else { "iptables" };
    util::program(ctx, name).ok_or_else(|| Error::CommandNotFound(name.into()))
}

fn call_for_text(ctx: &Context, fun: &str, line: &str) -> Result<String> {
    Ok(ctx.call(fun, vec![line.into()])?.to_string())
}

/// Returns whether the program has an option.
fn has_option(ctx: &Context, option: &str, family: &str) -> Result<bool> {
    let args = vec![format!("{} --help", program(ctx, family)?).into()];
    let help = ctx.call_with("cmd.run_stdout", Call { args, kwargs: map! { "output_loglevel" => "quiet" } })?;
    // The version alone would not do: distributions patch options into older ones.
    Ok(help.to_string().contains(option))
}

/// Returns the option that makes the program wait for its lock, if it has one.
fn wait(ctx: &Context, family: &str) -> Result<&'static str> {
    Ok(if has_option(ctx, "--wait", family)? { "--wait" } else { "" })
}

/// The place of the rules that a distribution loads at boot.
fn file_of_rules(grains: &Map, family: &str) -> Result<&'static str> {
    let grain = |name: &str| grains.get_str(name).unwrap_or_default();
    let (v4, v6) = match (grain("os_family"), grain("os")) {
        // There is no standard place: each distribution's service loads its own file.
        ("RedHat", _) => ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
        ("Arch" | "Void", _) => ("/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules"),
        ("Debian", _) => ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
        (_, "Gentoo") => ("/var/lib/iptables/rules-save", "/var/lib/ip6tables/rules-save"),
        ("Suse", _) => ("/etc/sysconfig/scripts/SuSEfirewall2-custom", "/etc/sysconfig/scripts/SuSEfirewall2-custom"),
        (_, "Alpine") => ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
        ("NILinuxRT", _) => ("/etc/natinst/share/iptables.conf", "/etc/natinst/share/ip6tables.conf"),
        (_, os) => {
            return Err(Error::Other(format!(
                "Saving iptables to file is not supported on {os}. Please file an issue with SaltStack"
            )));
        }
    };
    Ok(if family == "ipv6" { v6 } else { v4 })
}

fn chosen_file(ctx: &Context, file: Option<String>, family: &str) -> Result<String> {
    match file.filter(|file| !file.is_empty()) {
        Some(file) => Ok(file),
        None => file_of_rules(&ctx.grains, family).map(str::to_owned),
    }
}

fn rules_now(ctx: &Context, family: &str) -> Result<Map> {
    saved::parsed(&call_for_text(ctx, "cmd.run_stdout", &format!("{}-save", program(ctx, family)?))?)
}

fn rules_in(ctx: &Context, file: Option<String>, family: &str) -> Result<Map> {
    let file = chosen_file(ctx, file, family)?;
    ctx.blocking(move || {
        let text = std::fs::read_to_string(&file).map_err(|error| Error::io("read", &file, &error))?;
        saved::parsed(&text)
    })
}

fn policy_of(rules: &Map, table: &str, chain: &str) -> Value {
    let chain = rules.get(table).and_then(|table| table.get(chain));
    chain.and_then(|chain| chain.get("policy")).cloned().unwrap_or_default()
}

/// Returns the active rules, by table and chain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.get_rules
///     salt '*' iptables.get_rules family=ipv6
#[function]
fn get_rules(ctx: &Context, #[default("ipv4")] family: String) -> Result<Map> {
    rules_now(ctx, &family)
}

/// Returns the rules in a file, by table and chain; by default, in the file that is loaded at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.get_saved_rules
///     salt '*' iptables.get_saved_rules family=ipv6
#[function]
fn get_saved_rules(ctx: &Context, conf_file: Option<String>, #[default("ipv4")] family: String) -> Result<Map> {
    rules_in(ctx, conf_file, &family)
}

const NO_CHAIN: &str = "Error: Chain needs to be specified";

/// Returns the policy of a chain, which applies to packets that match no rule.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.get_policy filter INPUT
#[function]
fn get_policy(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    match chain.filter(|chain| !chain.is_empty()) {
        Some(chain) => Ok(policy_of(&rules_now(ctx, &family)?, &table, &chain)),
        None => Ok(NO_CHAIN.into()),
    }
}

/// Returns the policy of a chain in a file of rules; by default, in the file that is loaded at boot.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.get_saved_policy filter INPUT conf_file=/etc/iptables.saved
#[function]
fn get_saved_policy(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    conf_file: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    match chain.filter(|chain| !chain.is_empty()) {
        Some(chain) => Ok(policy_of(&rules_in(ctx, conf_file, &family)?, &table, &chain)),
        None => Ok(NO_CHAIN.into()),
    }
}

/// Returns the lines that match no filter of the option `iptables.save_filters`.
fn filtered(text: &str, filters: &Value) -> String {
    let patterns: Vec<String> = match filters {
        Value::List(filters) => filters.iter().map(Value::to_string).collect(),
        Value::Null => Vec::new(),
        single => vec![single.to_string()],
    };
    let compiled = patterns.iter().filter_map(|pattern| match targeting::PyRegex::search(pattern) {
        Ok(compiled) => Some(compiled),
        // An invalid filter must not keep the rules from being saved.
        Err(error) => {
            tracing::warn!("Skipping regex rule: '{pattern}': {error}");
            None
        }
    });
    let compiled: Vec<_> = compiled.collect();
    text.split_inclusive('\n').filter(|line| !compiled.iter().any(|pattern| pattern.is_match(line))).collect()
}

/// Writes the active rules to a file; by default to the file that is loaded at boot. Lines that match a pattern of the
/// option ``iptables.save_filters`` are left out.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.save /etc/sysconfig/iptables
///     salt '*' iptables.save /etc/sysconfig/ip6tables family=ipv6
#[function]
fn save(ctx: &Context, filename: Option<String>, #[default("ipv4")] family: String) -> Result<Value> {
    let filename = chosen_file(ctx, filename, &family)?;
    if let Some(parent) = Path::new(&filename).parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| Error::io("make", parent, &error))?;
    }
    // The rules of the kernel, not only those that Salt has set: others may have added some.
    let text = call_for_text(ctx, "cmd.run_stdout", &format!("{}-save", program(ctx, &family)?))?;
    let filters = util::config_get(ctx, "iptables.save_filters").unwrap_or_default();
    ctx.call("file.write", vec![filename.into(), filtered(&text, &filters).into()])
}

/// Returns the version of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.version
#[function]
fn version(ctx: &Context, #[default("ipv4")] family: String) -> Result<String> {
    let text = call_for_text(ctx, "cmd.run_stdout", &format!("{} --version", program(ctx, &family)?))?;
    let unknown = || Error::execution(format!("iptables did not tell its version: '{text}'"));
    text.split_whitespace().nth(1).map(str::to_owned).ok_or_else(unknown)
}
