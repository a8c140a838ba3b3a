//! Asking for tables, chains and rules, and saving them.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use super::{Place, answer, family_name, is_so, pattern, run};

/// Returns the file that rules are saved to.
fn saved_file(ctx: &Context, file: Option<String>) -> Result<String> {
    let grain = |name: &str| ctx.grains.get_str(name).unwrap_or_default();
    let known = ["RedHat", "Arch", "Debian"].contains(&grain("os_family")) || grain("os") == "Gentoo";
    let usual = known.then(|| "/etc/nftables".to_owned());
    let missing = || Error::execution("there is no usual file for rules on this system: a file must be named");
    file.filter(|file| !file.is_empty()).or(usual).ok_or_else(missing)
}

/// Returns the version of nft.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.version
#[function]
fn version(ctx: &Context) -> Result<String> {
    let text = ctx.call("cmd.run", vec!["nft --version".into()])?.to_string();
    let unknown = || Error::execution(format!("nft did not tell its version: '{text}'"));
    text.split_whitespace().nth(1).map(str::to_owned).ok_or_else(unknown)
}

/// Returns the lines of a file of rules, without blank ones and comments.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.get_saved_rules
#[function]
fn get_saved_rules(ctx: &Context, conf_file: Option<String>) -> Result<Vec<String>> {
    let file = saved_file(ctx, conf_file)?;
    let text = std::fs::read_to_string(&file).map_err(|error| Error::io("read", &file, &error))?;
    let says = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    Ok(text.split_inclusive('\n').filter(says).map(str::to_owned).collect())
}

fn tables(ctx: &Context, family: &str) -> Result<Vec<Value>> {
    let family = family_name(family)?;
    let text = run(ctx, format!("nft --json --numeric --numeric --numeric list tables {family}"))?;
    // No rules at all make nft print nothing.
    let data: Value = serde_json::from_str(&text).unwrap_or_default();
    let items = data.get("nftables").and_then(Value::as_list).unwrap_or_default();
    Ok(items.iter().filter_map(|item| item.get("table").cloned()).collect())
}

/// Returns the tables.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.list_tables family=ipv6
#[function]
fn list_tables(ctx: &Context, #[default("ipv4")] family: String) -> Result<Vec<Value>> {
    tables(ctx, &family)
}

fn texts(ctx: &Context, family: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let name = family_name(family)?;
    for table in tables(ctx, family)? {
        let table = table.get("name").cloned().unwrap_or_default();
        found.push(run(ctx, format!("nft --numeric --numeric --numeric list table {name} {table}"))?);
    }
    Ok(found)
}

/// Returns the tables with their chains and rules, each as nft prints it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.get_rules family=ipv6
#[function]
fn get_rules(ctx: &Context, #[default("ipv4")] family: String) -> Result<Vec<String>> {
    texts(ctx, &family)
}

pub(super) fn ruleset(ctx: &Context, family: &str) -> Result<Vec<Value>> {
    let family = family_name(family)?;
    let text = run(ctx, format!("nft --numeric --numeric --numeric --json list ruleset {family}"))?;
    let data: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(data.get("nftables").and_then(Value::as_list).unwrap_or_default().to_vec())
}

/// Returns tables, chains and rules as data.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.get_rules_json family=ipv6
#[function]
fn get_rules_json(ctx: &Context, #[default("ipv4")] family: String) -> Result<Vec<Value>> {
    ruleset(ctx, &family)
}

/// The entry of a chain.
pub(super) fn chain_entry<'a>(rules: &'a [Value], table: &str, chain: &str) -> Option<&'a Value> {
    let is = |entry: &Value, name: &str, wanted: &str| entry.get(name).and_then(Value::as_str) == Some(wanted);
    let mut chains = rules.iter().filter_map(|rule| rule.get("chain"));
    chains.find(|entry| is(entry, "table", table) && is(entry, "name", chain))
}

/// Returns the policy of a chain, which applies to packets that match no rule.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.get_policy filter input
#[function]
fn get_policy(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let Some(chain) = chain.filter(|chain| !chain.is_empty()) else {
        return Ok("Error: Chain needs to be specified".into());
    };
    let rules = ruleset(ctx, &family)?;
    Ok(chain_entry(&rules, &table, &chain).and_then(|entry| entry.get("policy")).cloned().unwrap_or_default())
}

/// Writes all rules to a file, or to ``salt-all-in-one.nft`` in a directory, and returns them.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.save /etc/nftables
#[function]
fn save(ctx: &Context, filename: Option<String>, #[default("ipv4")] family: String) -> Result<String> {
    let _ = family;
    let mut file = saved_file(ctx, filename)?;
    let mut rules = "#! nft -f\n".to_owned();
    // All families go into one file, whichever family the caller named.
    for family in ["ip", "ip6", "inet", "arp", "bridge", "netdev"] {
        let found = texts(ctx, family)?;
        if !found.is_empty() {
            rules.push('\n');
        }
        rules.push_str(&found.join("\n"));
    }
    rules.push('\n');
    if ctx.call("file.directory_exists", vec![file.as_str().into()])?.truthy() {
        file.push_str("/salt-all-in-one.nft");
    }
    // The file keeps its permissions: firewall rules may be readable by root only.
    let mode = std::fs::metadata(&file)
        .map_or(0o644, |meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777);
    crate::util::replace_file(Path::new(&file), rules.as_bytes(), mode)
        .map_err(|error| Error::execution(format!("Problem writing to configuration file: {error}")))?;
    Ok(rules)
}

/// Returns whether there is a table.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.check_table nat
#[function]
fn check_table(ctx: &Context, table: Option<String>, #[default("ipv4")] family: String) -> Result<Map> {
    Place::new(table.unwrap_or_default(), None, family)?.table_there(ctx)
}

/// Returns whether a table has a chain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.check_chain filter input
#[function]
fn check_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    Place::new(table, chain, family)?.chain_there(ctx)
}

/// Returns whether a chain has a rule.
pub(super) fn rule_there(ctx: &Context, place: &Place, rule: Option<&str>) -> Result<Map> {
    let Place { table, chain, family, .. } = place;
    if chain.is_empty() {
        return Ok(answer(false, "Chain needs to be specified"));
    }
    let Some(rule) = rule.filter(|rule| !rule.is_empty()) else {
        return Ok(answer(false, "Rule needs to be specified"));
    };
    if let Some(missing) = place.missing(ctx)? {
        return Ok(missing);
    }
    let there = place.has_rule(ctx, rule)?;
    let word = if there { "exists" } else { "does not exist" };
    Ok(answer(there, format!("Rule {rule} in chain {chain} in table {table} in family {family} {word}")))
}

/// Returns whether a chain has a rule.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.check filter input rule='tcp dport { 22 } accept'
#[function]
fn check(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    rule_there(ctx, &Place::new(table, chain, family)?, rule.as_deref())
}

/// The handle a rule can be deleted by.
pub(super) fn handle(ctx: &Context, place: &Place, rule: &str) -> Result<Option<String>> {
    let Place { table, chain, name, .. } = place;
    let line = format!("nft --numeric --numeric --numeric --handle list chain {name} {table} {chain}");
    let text = run(ctx, line)?;
    Ok(pattern(rule, r" handle (\d+)")?.captures(&text).map(|found| found[1].to_owned()))
}

/// Returns the handle of a rule.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.get_rule_handle filter input rule='tcp dport { 22 } accept'
#[function]
fn get_rule_handle(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let place = Place::new(table, chain, family)?;
    // Salt checks the place here, and `rule_there` checks it again.
    let complete = !place.chain.is_empty() && rule.as_deref().is_some_and(|rule| !rule.is_empty());
    if let Some(missing) = if complete { place.missing(ctx)? } else { None } {
        return Ok(missing);
    }
    let there = rule_there(ctx, &place, rule.as_deref())?;
    let (true, Some(rule)) = (is_so(&there), rule) else { return Ok(there) };
    Ok(match handle(ctx, &place, &rule)? {
        Some(handle) => map! { "result" => true, "handle" => handle },
        None => answer(false, format!("Could not find rule {rule}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn a_chain_is_found_by_its_table_and_name() {
        let chain = |table: &str| map! { "chain" => map! { "table" => table, "name" => "input", "policy" => table } };
        let rules = list![map! { "metainfo" => Map::new() }, chain("nat"), chain("filter")];
        let found = chain_entry(rules.as_list().unwrap(), "filter", "input").unwrap();
        assert_eq!(found.get("policy"), Some(&"filter".into()));
        assert_eq!(chain_entry(rules.as_list().unwrap(), "filter", "output"), None);
    }

    #[test]
    fn a_rule_is_found_with_and_without_braces() {
        let text = "\t\ttcp dport 22 accept # handle 7\n\t\ttcp dport { 80, 443 } accept # handle 8\n";
        let handle = |rule: &str| Some(pattern(rule, r" handle (\d+)").unwrap().captures(text)?[1].to_owned());
        assert_eq!(handle("tcp dport { 22 } accept").as_deref(), Some("7"));
        assert_eq!(handle("tcp dport { 80, 443 } accept").as_deref(), Some("8"));
        assert_eq!(handle("tcp dport { 23 } accept"), None);
    }
}
