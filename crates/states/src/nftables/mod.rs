//! `nftables`: rules of the kernel's packet filter, through nft.

mod rules;

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, map};

use crate::support::{call, call_with_kwargs, needs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new(
    "nftables",
    "Tables, chains, rules and policies of the kernel's packet filter, through nft.",
    &[
        &rules::APPEND,
        &CHAIN_ABSENT,
        &CHAIN_PRESENT,
        &rules::DELETE,
        &FLUSH,
        &rules::INSERT,
        &SET_POLICY,
        &TABLE_ABSENT,
        &TABLE_PRESENT,
    ],
)
.only_if(|_| needs(&["nft"], "nftables module could not be loaded"));

/// An argument without which the state makes no sense, named as Python names a missing key.
fn required(args: &Map, name: &str) -> Result<Value> {
    args.get(name).cloned().ok_or_else(|| Error::Other(format!("'{name}'")))
}

fn is_so(answer: &Value) -> bool {
    answer.get("result").is_some_and(Value::truthy)
}

fn comment(answer: &Value) -> String {
    answer.get("comment").map(|comment| comment.to_string().trim().to_owned()).unwrap_or_default()
}

fn done(ret: Ret, name: &str, text: String) -> Ret {
    ret.ok(text).changed(map! { "locale" => name })
}

fn of_family(family: &str) -> Map {
    map! { "family" => family }
}

/// Makes sure that a table has a chain; a base chain has `table_type`, `hook` and `priority`.
#[function]
fn chain_present(
    ctx: &Context,
    name: String,
    #[default("filter")] table: String,
    #[default(Value::Null)] table_type: Value,
    #[default(Value::Null)] hook: Value,
    #[default(Value::Null)] priority: Value,
    #[default("ipv4")] family: String,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let place = args![table.as_str(), name.as_str()];
    if is_so(&call(ctx, "nftables.check_chain", place.clone(), of_family(&family))?) {
        return Ok(ret.ok(format!("nftables {name} chain is already exist in {table} table for {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables chain {name} would be created in table {table} for family {family}")));
    }
    let mut more = map! { "table_type" => table_type, "hook" => hook, "priority" => priority };
    more.update(of_family(&family));
    let said = call(ctx, "nftables.new_chain", place, more)?;
    if is_so(&said) {
        return Ok(done(ret, &name, format!("nftables {name} chain in {table} table create success for {family}")));
    }
    Ok(ret.fail(format!("Failed to create {name} chain in {table} table: {} for {family}", comment(&said))))
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
    if !is_so(&call(ctx, "nftables.check_chain", place.clone(), Map::new())?) {
        return Ok(ret.ok(format!("nftables {name} chain is already absent in {table} table for {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables {name} chain in {table} table needs to be removed {family}")));
    }
    // nft deletes only empty chains.
    for (fun, doing) in [("nftables.flush", "flush"), ("nftables.delete_chain", "delete")] {
        let said = call(ctx, fun, place.clone(), Map::new())?;
        if !is_so(&said) {
            let text = format!("Failed to {doing} {name} chain in {table} table: {} for {family}", comment(&said));
            return Ok(ret.fail(text));
        }
    }
    Ok(done(ret, &name, format!("nftables {name} chain in {table} table delete success for {family}")))
}

/// Deletes all rules of a chain, or of a table.
#[function]
fn flush(
    ctx: &Context,
    name: String,
    #[default("ipv4")] family: String,
    #[default(false)] ignore_absence: bool,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    if ctx.is_test() {
        return Ok(ret.would("nftables flush not performed in test mode."));
    }
    let given = kwargs.given();
    let table = given.get("table").cloned().unwrap_or("filter".into());
    let table_there = is_so(&call(ctx, "nftables.check_table", args![table.clone()], of_family(&family))?);
    if !ignore_absence && !table_there {
        return Ok(ret.fail(format!("Failed to flush table {table} in family {family}, table does not exist.")));
    }
    let chain = given.get("chain").cloned();
    let mut chain_there = true;
    if let Some(chain) = &chain {
        let place = args![table.clone(), chain.clone()];
        chain_there = is_so(&call(ctx, "nftables.check_chain", place, of_family(&family))?);
        if !ignore_absence && !chain_there {
            return Ok(ret.fail(format!(
                "Failed to flush chain {chain} in table {table} in family {family}, chain does not exist."
            )));
        }
    }
    let chain = chain.unwrap_or("".into());
    let said = call(ctx, "nftables.flush", args![table.clone(), chain.clone(), family.as_str()], Map::new())?;
    if is_so(&said) || (ignore_absence && !(table_there && chain_there)) {
        let text = format!("Flush nftables rules in {table} table {chain} chain {family} family");
        return Ok(done(ret, &name, text));
    }
    Ok(ret.fail("Failed to flush nftables rules"))
}

/// Sets the policy of a base chain, which applies to packets that match no rule.
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
    let now = call(ctx, "nftables.get_policy", args![table, chain.clone(), family], Map::new())?;
    // nft accepts only lower case, while states often write DROP as for iptables.
    let low = policy.to_string().to_lowercase();
    if now.as_str().unwrap_or_default().to_lowercase() == low {
        return Ok(ret.ok(format!(
            "nftables default policy for chain {chain} on table {table} for {family} already set to {policy}"
        )));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!(
            "nftables default policy for chain {chain} on table {table} for {family} needs to be set to {policy}"
        )));
    }
    if !call(ctx, "nftables.set_policy", args![table, chain.clone(), low, family], Map::new())?.truthy() {
        return Ok(ret.fail("Failed to set nftables default policy"));
    }
    if !given.get("save").is_some_and(Value::truthy) {
        return Ok(done(ret, &name, format!("Set default policy for {chain} to {policy} family {family}")));
    }
    let file = given.get("save_filename").cloned();
    call_with_kwargs(ctx, "nftables.save", map! { "filename" => file, "family" => family })?;
    Ok(done(ret, &name, format!("Set and saved default policy for {chain} to {policy} family {family}")))
}

/// Makes sure that there is a table.
#[function]
fn table_present(ctx: &Context, name: String, #[default("ipv4")] family: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let ret = Ret::new(name.as_str());
    if is_so(&call(ctx, "nftables.check_table", args![name.as_str()], of_family(&family))?) {
        return Ok(ret.ok(format!("nftables table {name} already exists in family {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables table {name} would be created in family {family}")));
    }
    Ok(match is_so(&call(ctx, "nftables.new_table", args![name.as_str()], of_family(&family))?) {
        true => done(ret, &name, format!("nftables table {name} successfully created in family {family}")),
        false => ret.fail(format!("Failed to create table {name} for family {family}")),
    })
}

/// Makes sure that there is no such table.
#[function]
fn table_absent(ctx: &Context, name: String, #[default("ipv4")] family: String, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let ret = Ret::new(name.as_str());
    if !is_so(&call(ctx, "nftables.check_table", args![name.as_str(), family.as_str()], Map::new())?) {
        return Ok(ret.ok(format!("nftables table {name} is already absent from family {family}")));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("nftables table {name} would be deleted from family {family}")));
    }
    Ok(match is_so(&call(ctx, "nftables.delete_table", args![name.as_str()], of_family(&family))?) {
        true => done(ret, &name, format!("nftables table {name} successfully deleted from family {family}")),
        false => ret.fail(format!("Failed to delete table {name} from family {family}")),
    })
}
