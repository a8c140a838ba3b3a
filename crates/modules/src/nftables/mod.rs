//! `nftables` — the rules of the kernel's packet filter, through `nft`.
//!
//! [`rule`] writes rules from arguments, [`look`] queries the current state, [`change`] changes tables, chains and
//! rules.

mod change;
mod look;
mod rule;

use exec::{Call, Context, Error, Module, Result};
use value::{Map, Value, map};

use crate::util;

/// The module.
pub static MODULE: Module = Module::new(
    "nftables",
    "Functions that look at the rules of the kernel's packet filter and change them, through nft.",
    &[
        &change::APPEND,
        &rule::BUILD_RULE,
        &look::CHECK,
        &look::CHECK_CHAIN,
        &look::CHECK_TABLE,
        &change::DELETE,
        &change::DELETE_CHAIN,
        &change::DELETE_TABLE,
        &change::FLUSH,
        &look::GET_POLICY,
        &look::GET_RULE_HANDLE,
        &look::GET_RULES,
        &look::GET_RULES_JSON,
        &look::GET_SAVED_RULES,
        &change::INSERT,
        &look::LIST_TABLES,
        &change::NEW_CHAIN,
        &change::NEW_TABLE,
        &look::SAVE,
        &change::SET_POLICY,
        &look::VERSION,
    ],
)
.only_if(|_| match util::which("nft") {
    Some(_) => Ok(()),
    None => Err("The nftables execution module failed to load: nftables is not installed.".into()),
});

/// The name `nft` has for a family.
fn family_name(family: &str) -> Result<&'static str> {
    Ok(match family {
        "ipv4" | "ip4" | "ip" => "ip",
        "ipv6" | "ip6" => "ip6",
        "inet" => "inet",
        "arp" => "arp",
        "bridge" => "bridge",
        "netdev" => "netdev",
        other => return Err(Error::Other(format!("there is no family '{other}' of protocols"))),
    })
}

/// Runs a command without a shell and returns what it printed.
fn run(ctx: &Context, line: String) -> Result<String> {
    let call = Call { args: vec![line.into()], kwargs: map! { "python_shell" => false } };
    Ok(ctx.call_with("cmd.run", call)?.to_string())
}

/// Makes the usual answer of this module: a `result` and a `comment`.
fn answer(result: bool, comment: impl Into<String>) -> Map {
    map! { "comment" => comment.into(), "result" => result }
}

fn is_so(answer: &Map) -> bool {
    answer.get("result").is_some_and(Value::truthy)
}

/// A table and a chain of one family.
struct Place {
    table: String,
    chain: String,
    family: String,
    /// The family as `nft` names it.
    name: &'static str,
}

impl Place {
    fn new(table: String, chain: Option<String>, family: String) -> Result<Self> {
        let name = family_name(&family)?;
        Ok(Place { table, chain: chain.unwrap_or_default(), family, name })
    }

    fn table_there(&self, ctx: &Context) -> Result<Map> {
        let Place { table, family, name, .. } = self;
        if table.is_empty() {
            return Ok(answer(false, "Table needs to be specified"));
        }
        // A longer name that starts the same matches as well, as in Salt.
        let there = run(ctx, format!("nft list tables {name}"))?.contains(&format!("table {name} {table}"));
        let word = if there { "exists" } else { "does not exist" };
        Ok(answer(there, format!("Table {table} in family {family} {word}")))
    }

    fn chain_there(&self, ctx: &Context) -> Result<Map> {
        let Place { table, chain, family, name } = self;
        if chain.is_empty() {
            return Ok(answer(false, "Chain needs to be specified"));
        }
        let there = run(ctx, format!("nft list table {name} {table}"))?.contains(&format!("chain {chain} {{"));
        let word = if there { "exists" } else { "does not exist" };
        Ok(answer(there, format!("Chain {chain} in table {table} in family {family} {word}")))
    }

    /// Checks the table and the chain. Returns the answer for a missing one.
    fn missing(&self, ctx: &Context) -> Result<Option<Map>> {
        let table = self.table_there(ctx)?;
        if !is_so(&table) {
            return Ok(Some(table));
        }
        let chain = self.chain_there(ctx)?;
        Ok((!is_so(&chain)).then_some(chain))
    }

    /// Returns whether the chain has the rule.
    fn has_rule(&self, ctx: &Context, rule: &str) -> Result<bool> {
        let Place { table, chain, name, .. } = self;
        let text = run(ctx, format!("nft --handle list chain {name} {table} {chain}"))?;
        Ok(pattern(rule, "")?.is_match(&text))
    }
}

/// Matches a rule as `nft` prints it, which drops the braces around a single value; `behind` continues the pattern.
fn pattern(rule: &str, behind: &str) -> Result<regex::Regex> {
    let rule = regex::escape(rule).replace(r"\{ ", r"\{? ?").replace(r" \}", r" ?\}?");
    let found = regex::Regex::new(&format!("{rule} #{behind}"));
    found.map_err(|error| Error::execution(format!("the rule cannot be looked for: {error}")))
}
