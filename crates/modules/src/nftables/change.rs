//! Changing tables, chains and rules.

use exec::{Call, Context, Result, function};
use value::{Map, Value, map};

use super::look::{chain_entry, handle, rule_there, ruleset};
use super::{Place, answer, family_name, is_so, run};

/// Makes a table. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.new_table filter
#[function]
fn new_table(ctx: &Context, table: String, #[default("ipv4")] family: String) -> Result<Map> {
    let place = Place::new(table, None, family)?;
    let there = place.table_there(ctx)?;
    if is_so(&there) || place.table.is_empty() {
        return Ok(there);
    }
    let Place { table, family, name, .. } = &place;
    // nft is silent when it succeeds, and Salt takes any output for a failure.
    let worked = run(ctx, format!("nft add table {name} {table}"))?.is_empty();
    let word = if worked { "created" } else { "could not be created" };
    Ok(answer(worked, format!("Table {table} in family {family} {word}")))
}

/// Deletes a table. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.delete_table filter
#[function]
fn delete_table(ctx: &Context, table: String, #[default("ipv4")] family: String) -> Result<Map> {
    let place = Place::new(table, None, family)?;
    let there = place.table_there(ctx)?;
    if !is_so(&there) {
        return Ok(there);
    }
    let Place { table, family, name, .. } = &place;
    let worked = run(ctx, format!("nft delete table {name} {table}"))?.is_empty();
    let word = if worked { "deleted" } else { "could not be deleted" };
    Ok(answer(worked, format!("Table {table} in family {family} {word}")))
}

/// Makes a chain; a base chain needs ``table_type``, ``hook`` and ``priority``. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.new_chain filter input
///     salt '*' nftables.new_chain filter input table_type=filter hook=input priority=0
#[function]
fn new_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default(Value::Null)] table_type: Value,
    #[default(Value::Null)] hook: Value,
    #[default(Value::Null)] priority: Value,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let place = Place::new(table, chain, family)?;
    if place.chain.is_empty() {
        return Ok(answer(false, "Chain needs to be specified"));
    }
    let there = place.table_there(ctx)?;
    if !is_so(&there) {
        return Ok(there);
    }
    let Place { table, chain, family, name } = &place;
    let said = |text: &str| format!("Chain {chain} in table {table} in family {family} {text}");
    if is_so(&place.chain_there(ctx)?) {
        return Ok(answer(false, said("already exists")));
    }
    // The two dashes let a negative priority pass.
    let mut line = format!("nft -- add chain {name} {table} {chain}");
    if table_type.truthy() || hook.truthy() || priority.truthy() {
        if !table_type.truthy() || !hook.truthy() {
            return Ok(answer(false, "Table_type, hook, and priority required."));
        }
        // Salt's escapes for a shell. The line is split into words by `cmd.run`, which removes
        // them.
        line.push_str(&format!(r" \{{ type {table_type} hook {hook} priority {priority}\; \}}"));
    }
    let worked = run(ctx, line)?.is_empty();
    Ok(answer(worked, said(if worked { "created" } else { "could not be created" })))
}

/// Deletes a chain. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.delete_chain filter input
#[function]
fn delete_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let place = Place::new(table, chain, family)?;
    if place.chain.is_empty() {
        return Ok(answer(false, "Chain needs to be specified"));
    }
    if let Some(missing) = place.missing(ctx)? {
        return Ok(missing);
    }
    let Place { table, chain, family, name } = &place;
    let worked = run(ctx, format!("nft delete chain {name} {table} {chain}"))?.is_empty();
    let word = if worked { "deleted" } else { "could not be deleted" };
    Ok(answer(worked, format!("Chain {chain} in table {table} in family {family} {word}")))
}

/// Adds a rule to a chain that does not have it.
fn add(ctx: &Context, place: &Place, rule: Option<String>, how: impl Fn(&Place, &str) -> String) -> Result<Map> {
    let Place { table, chain, family, .. } = place;
    if chain.is_empty() {
        return Ok(answer(false, "Chain needs to be specified"));
    }
    let Some(rule) = rule.filter(|rule| !rule.is_empty()) else {
        return Ok(answer(false, "Rule needs to be specified"));
    };
    // Salt checks the place here, and `rule_there` checks it again.
    if let Some(missing) = place.missing(ctx)? {
        return Ok(missing);
    }
    let behind = format!("chain {chain} in table {table} in family {family}");
    if is_so(&rule_there(ctx, place, Some(&rule))?) {
        return Ok(answer(false, format!("Rule {rule} {behind} already exists")));
    }
    Ok(match run(ctx, how(place, &rule))?.is_empty() {
        true => answer(true, format!("Added rule \"{rule}\" {behind}.")),
        false => answer(false, format!("Failed to add rule \"{rule}\" {behind}.")),
    })
}

/// Adds a rule at the end of a chain. Returns whether it was added.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.append filter input rule='tcp dport { 22 } accept'
#[function]
fn append(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let how = |place: &Place, rule: &str| format!("nft add rule {} {} {} {rule}", place.name, place.table, place.chain);
    add(ctx, &Place::new(table, chain, family)?, rule, how)
}

/// Inserts a rule into a chain, at its start or in front of a position. Returns whether it was added.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.insert filter input rule='tcp dport { 22 } accept'
///     salt '*' nftables.insert filter input position=3 rule='tcp dport { 22 } accept'
#[function]
fn insert(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default(Value::Null)] position: Value,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let how = |place: &Place, rule: &str| {
        let Place { table, chain, name, .. } = place;
        let position = if position.truthy() { format!("position {position} ") } else { String::new() };
        format!("nft insert rule {name} {table} {chain} {position}{rule}")
    };
    add(ctx, &Place::new(table, chain, family)?, rule, how)
}

/// Deletes a rule from a chain, given by the rule or its handle (``position``). Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.delete filter input position=3
///     salt '*' nftables.delete filter input rule='tcp dport { 22 } accept'
#[function]
fn delete(
    ctx: &Context,
    table: String,
    chain: Option<String>,
    #[default(Value::Null)] position: Value,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let place = Place::new(table, chain, family)?;
    let rule = rule.filter(|rule| !rule.is_empty());
    let shown = rule.as_deref().unwrap_or("None");
    if position.truthy() && rule.is_some() {
        return Ok(answer(false, "Only specify a position or a rule, not both"));
    }
    if let Some(missing) = place.missing(ctx)? {
        return Ok(missing);
    }
    let Place { table, chain, family, name } = &place;
    let handle = if position.truthy() {
        position.to_string()
    } else {
        let there = is_so(&rule_there(ctx, &place, rule.as_deref())?);
        match if there { handle(ctx, &place, shown)? } else { None } {
            Some(handle) => handle,
            None => {
                let text = format!("Rule {shown} chain {chain} in table {table} in family {family} does not exist");
                return Ok(answer(false, text));
            }
        }
    };
    // nft deletes by handle only, so the rule has to be looked up.
    Ok(match run(ctx, format!("nft delete rule {name} {table} {chain} handle {handle}"))?.is_empty() {
        true => answer(true, format!("Deleted rule \"{shown}\" in chain {chain} in table {table} in family {family}.")),
        false => answer(
            false,
            format!("Failed to delete rule \"{shown}\" in chain {chain}  table {table} in family {family}"),
        ),
    })
}

/// Deletes all rules of a chain, or of a table. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.flush filter input
#[function]
fn flush(
    ctx: &Context,
    #[default("filter")] table: String,
    #[default("")] chain: String,
    #[default("ipv4")] family: String,
) -> Result<Map> {
    let place = Place::new(table, Some(chain), family)?;
    let missing = match place.chain.is_empty() {
        true => Some(place.table_there(ctx)?).filter(|there| !is_so(there)),
        false => place.missing(ctx)?,
    };
    if let Some(missing) = missing {
        return Ok(missing);
    }
    let Place { table, chain, family, name } = &place;
    let (line, what) = match chain.is_empty() {
        true => (format!("nft flush table {name} {table}"), format!("from table {table} in family {family}.")),
        false => (
            format!("nft flush chain {name} {table} {chain}"),
            format!("from chain {chain} in table {table} in family {family}."),
        ),
    };
    Ok(match run(ctx, line)?.is_empty() {
        true => answer(true, format!("Flushed rules {what}")),
        false => answer(false, format!("Failed to flush rules {what}")),
    })
}

/// Sets the policy of a base chain, which applies to packets that match no rule. Returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' nftables.set_policy filter input accept
#[function]
fn set_policy(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    policy: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let Some(chain) = given(chain) else { return Ok("Error: Chain needs to be specified".into()) };
    let Some(policy) = given(policy) else { return Ok("Error: Policy needs to be specified".into()) };
    let name = family_name(&family)?;
    let rules = ruleset(ctx, &family)?;
    let entry = chain_entry(&rules, &table, &chain);
    let part = |name: &str| entry.and_then(|entry| entry.get(name));
    // A chain that is not a base chain has no policy.
    let (Some(kind), Some(hook), Some(priority)) = (part("type"), part("hook"), part("prio")) else {
        return Ok(false.into());
    };
    let line = format!(
        "nft add chain {name} {table} {chain} \"{{ type {kind} hook {hook} priority {priority}; policy {policy}; }}\""
    );
    // Here the exit code counts, unlike everywhere else in this module.
    let call = Call { args: vec![line.into()], kwargs: map! { "python_shell" => false } };
    let said = ctx.call_with("cmd.run_all", call)?;
    Ok((!said.get("retcode").is_some_and(Value::truthy)).into())
}
