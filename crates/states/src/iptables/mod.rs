//! `iptables`: rules of the kernel's packet filter.

mod aggregate;
mod rules;

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, call_with_kwargs, needs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "iptables",
    "Rules, chains and policies of the kernel's packet filter.",
    &[
        &rules::APPEND,
        &CHAIN_ABSENT,
        &CHAIN_PRESENT,
        &rules::DELETE,
        &FLUSH,
        &rules::INSERT,
        &aggregate::MOD_AGGREGATE,
        &SET_POLICY,
    ],
)
.only_if(|_| needs(&["iptables"], "iptables module could not be loaded"));

/// An argument without which the state makes no sense, named as Python names a missing key.
fn required(args: &Map, name: &str) -> Result<Value> {
    args.get(name).cloned().ok_or_else(|| Error::Other(format!("'{name}'")))
}

/// The file rules are saved to, when they are to be saved: none means the usual one.
fn file_to_save(args: &Map) -> Option<Value> {
    let save = args.get("save").filter(|save| save.truthy())?;
    Some(if *save == Value::Bool(true) { Value::Null } else { save.clone() })
}

fn save(ctx: &Context, file: Value, family: &str) -> Result<Value> {
    call_with_kwargs(ctx, "iptables.save", map! { "filename" => file, "family" => family })
}

/// Makes sure that a table has a chain.
#[function]
fn chain_present(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = args![table.as_str(), name.as_str(), family.as_str()];
    if call(ctx, "iptables.check_chain", place.clone(), Map::new())? == Value::Bool(true) {
        return Ok(ret.ok(format!("iptables {name} chain is already exist in {table} table for {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("iptables {name} chain in {table} table needs to be set for {family}")));
    }
    let said = call(ctx, "iptables.new_chain", place, Map::new())?;
    if said == Value::Bool(true) {
        let text = format!("iptables {name} chain in {table} table create success for {family}");
        return Ok(ret.ok(text).changed(map! { "locale" => name }));
    }
    let said = said.to_string();
    Ok(ret.fail(format!("Failed to create {name} chain in {table} table: {} for {family}", said.trim())))
}

/// Makes sure that a table does not have a chain.
#[function]
fn chain_absent(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = args![table.as_str(), name.as_str(), family.as_str()];
    if !call(ctx, "iptables.check_chain", place.clone(), Map::new())?.truthy() {
        return Ok(ret.ok(format!("iptables {name} chain is already absent in {table} table for {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("iptables {name} chain in {table} table needs to be removed {family}")));
    }
    let failed = |doing: &str, said: &Value| {
        let said = said.to_string();
        format!("Failed to {doing} {name} chain in {table} table: {} for {family}", said.trim())
    };
    // Only an empty chain can be deleted. The answer is what iptables printed, so text means
    // failure.
    let flushed = call(ctx, "iptables.flush", place.clone(), Map::new())?;
    if flushed.truthy() {
        return Ok(ret.fail(failed("flush", &flushed)));
    }
    let said = call(ctx, "iptables.delete_chain", place, Map::new())?;
    if said == Value::Bool(true) {
        let text = format!("iptables {name} chain in {table} table delete success for {family}");
        return Ok(ret.ok(text).changed(map! { "locale" => name.as_str() }));
    }
    Ok(ret.fail(failed("delete", &said)))
}

/// Sets the policy of a chain, which applies to packets that match no rule.
#[function]
fn set_policy(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let given = kwargs.given();
    let (chain, policy) = (required(&given, "chain")?, required(&given, "policy")?);
    let (table, family) = (table.as_str(), family.as_str());
    if call(ctx, "iptables.get_policy", args![table, chain.clone(), family], Map::new())? == policy {
        return Ok(ret.ok(format!(
            "iptables default policy for chain {chain} on table {table} for {family} already set to {policy}"
        )));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!(
            "iptables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}"
        )));
    }
    let place = args![table, chain.clone(), policy.clone(), family];
    if call(ctx, "iptables.set_policy", place, Map::new())?.truthy() {
        return Ok(ret.fail("Failed to set iptables default policy"));
    }
    let ret = ret.changed(map! { "locale" => name.as_str() });
    let Some(file) = file_to_save(&given) else {
        return Ok(ret.ok(format!("Set default policy for {chain} to {policy} family {family}")));
    };
    save(ctx, file, family)?;
    Ok(ret.ok(format!("Set and saved default policy for {chain} to {policy} family {family}")))
}

/// Deletes all rules of a chain, or of all chains of a table.
#[function]
fn flush(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default("ipv4")] family: String,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let chain = kwargs.given().get("chain").cloned().unwrap_or("".into());
    if ctx.is_test() {
        return Ok(
            ret.would(format!("iptables rules in {name} table {table} chain {family} family needs to be flushed"))
        );
    }
    let place = args![table.as_str(), chain.clone(), family.as_str()];
    if call(ctx, "iptables.flush", place, Map::new())?.truthy() {
        return Ok(ret.fail("Failed to flush iptables rules"));
    }
    let text = format!("Flush iptables rules in {table} table {chain} chain {family} family");
    Ok(ret.ok(text).changed(map! { "locale" => name.as_str() }))
}
