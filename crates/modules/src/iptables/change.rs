//! Changing and querying tables.

use exec::{Context, Error, Result, function};
use value::{Map, Value};

use super::{NO_CHAIN, call_for_text, program, rules_now, wait};

const NO_RULE: &str = "Error: Rule needs to be specified";

/// Returns an argument unless it is empty.
fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Runs a command on a table and returns its stderr.
fn change(ctx: &Context, family: &str, table: &str, what: &str) -> Result<String> {
    let wait = wait(ctx, family)?;
    call_for_text(ctx, "cmd.run_stderr", &format!("{} {wait} -t {table} {what}", program(ctx, family)?))
}

/// Returns True for an empty text, otherwise the text.
fn silent(text: String) -> Value {
    if text.is_empty() { true.into() } else { text.into() }
}

/// Sets the policy of a chain, which applies to packets that match no rule. Returns the program's error message;
/// empty when it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.set_policy filter INPUT ACCEPT
#[function]
fn set_policy(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    policy: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<String> {
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    let Some(policy) = non_empty(policy) else { return Ok("Error: Policy needs to be specified".into()) };
    change(ctx, &family, &table, &format!("-P {chain} {policy}"))
}

fn is_there(ctx: &Context, table: &str, chain: &str, rule: &str, family: &str) -> Result<bool> {
    // Versions without the option are older than 1.4.11; Salt compares rules by itself there.
    if !super::has_option(ctx, "--check", family)? {
        return Err(Error::execution("not supported: this version of iptables has no option --check"));
    }
    let line = format!("{} -t {table} -C {chain} {rule}", program(ctx, family)?);
    // A rule that is missing makes the program fail, which is an answer and not worth an error in the log.
    let kwargs = value::map! { "output_loglevel" => "quiet" };
    let code = ctx.call_with("cmd.retcode", exec::Call { args: vec![line.into()], kwargs })?;
    Ok(!code.truthy())
}

/// Returns whether a chain has a rule.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.check filter INPUT rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
#[function]
fn check(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    let Some(rule) = non_empty(rule) else { return Ok(NO_RULE.into()) };
    is_there(ctx, &table, &chain, &rule, &family).map(Value::from)
}

/// Returns whether a table has a chain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.check_chain filter INPUT
#[function]
fn check_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    let text = call_for_text(ctx, "cmd.run_stdout", &format!("{}-save -t {table}", program(ctx, &family)?))?;
    // iptables-save prints `:NAME POLICY [counters]`; the blank keeps a longer name from matching.
    Ok(text.contains(&format!(":{chain} ")).into())
}

/// Makes a chain; returns True, or the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.new_chain filter CUSTOM_CHAIN
#[function]
fn new_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    match non_empty(chain) {
        Some(chain) => Ok(silent(change(ctx, &family, &table, &format!("-N {chain}"))?)),
        None => Ok(NO_CHAIN.into()),
    }
}

/// Deletes a chain; returns True, or the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.delete_chain filter CUSTOM_CHAIN
#[function]
fn delete_chain(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    match non_empty(chain) {
        Some(chain) => Ok(silent(change(ctx, &family, &table, &format!("-X {chain}"))?)),
        None => Ok(NO_CHAIN.into()),
    }
}

/// Adds a rule at the end of a chain that does not have it. Returns whether it was added.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.append filter INPUT rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
#[function]
fn append(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    let Some(rule) = non_empty(rule) else { return Ok(NO_RULE.into()) };
    let wait = wait(ctx, &family)?;
    // iptables would add the same rule a second time.
    if is_there(ctx, &table, &chain, &rule, &family)? {
        return Ok(false.into());
    }
    let line = format!("{} {wait} -t {table} -A {chain} {rule}", program(ctx, &family)?);
    // Success is silent; Salt checks stderr and not the exit code.
    Ok(call_for_text(ctx, "cmd.run_stderr", &line)?.is_empty().into())
}

/// Converts a position counted from the end: -1 is before the last rule.
fn from_the_end(rules: &Map, table: &str, chain: &str, position: i64) -> Result<i64> {
    let chain_entry = rules.get(table).and_then(|table| table.get(chain));
    let rules = chain_entry.and_then(|chain| chain.get("rules")?.as_list());
    let size = rules.ok_or_else(|| Error::execution(format!("there is no chain '{chain}' in table '{table}'")))?.len();
    let place = i64::try_from(size).unwrap_or(i64::MAX).saturating_add(position).saturating_add(1);
    // The position of the first rule is 1; Salt corrects this one case only.
    Ok(if place == 0 { 1 } else { place })
}

/// Inserts a rule into a chain that does not have it; a negative position counts from the end. Returns the error
/// message of the program, or False.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.insert filter INPUT position=3 rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
#[function]
fn insert(
    ctx: &Context,
    #[default("filter")] table: String,
    chain: Option<String>,
    position: Option<i64>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<Value> {
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    let Some(mut position) = position.filter(|position| *position != 0) else {
        return Ok("Error: Position needs to be specified or use append (-A)".into());
    };
    let Some(rule) = non_empty(rule) else { return Ok(NO_RULE.into()) };
    if position < 0 {
        // iptables has no negative positions.
        position = from_the_end(&rules_now(ctx, &family)?, &table, &chain, position)?;
    }
    let wait = wait(ctx, &family)?;
    if is_there(ctx, &table, &chain, &rule, &family)? {
        return Ok(false.into());
    }
    let line = format!("{} {wait} -t {table} -I {chain} {position} {rule}", program(ctx, &family)?);
    Ok(call_for_text(ctx, "cmd.run_stderr", &line)?.into())
}

/// Deletes a rule from a chain, given by the rule or its position. Returns the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.delete filter INPUT position=3
///     salt '*' iptables.delete filter INPUT rule='-m state --state RELATED,ESTABLISHED -j ACCEPT'
#[function]
fn delete(
    ctx: &Context,
    table: String,
    chain: Option<String>,
    position: Option<i64>,
    rule: Option<String>,
    #[default("ipv4")] family: String,
) -> Result<String> {
    let position = position.filter(|position| *position != 0);
    let rule = match (position, non_empty(rule)) {
        // Mistakes in arguments are answers here, not errors: Salt returns these texts.
        (Some(_), Some(_)) => return Ok("Error: Only specify a position or a rule, not both".into()),
        (Some(position), None) => position.to_string(),
        (None, Some(rule)) => rule,
        (None, None) => return Ok(NO_RULE.into()),
    };
    let Some(chain) = non_empty(chain) else { return Ok(NO_CHAIN.into()) };
    change(ctx, &family, &table, &format!("-D {chain} {rule}"))
}

/// Deletes all rules of a chain, or of all chains of a table. Returns the error message of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' iptables.flush filter INPUT
#[function]
fn flush(
    ctx: &Context,
    #[default("filter")] table: String,
    #[default("")] chain: String,
    #[default("ipv4")] family: String,
) -> Result<String> {
    change(ctx, &family, &table, &format!("-F {chain}"))
}
