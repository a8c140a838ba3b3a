//! `ssh_known_hosts`: keys of other hosts.

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module = Module::new("ssh_known_hosts", "Keys of other hosts.", &[&ABSENT, &PRESENT]);

const NO_PLACE: &str = "If not specifying a \"user\", specify an absolute \"config\".";

/// Returns the file of hosts, or None for a relative path without a user.
fn file(user: &Value, config: &Value) -> Option<String> {
    let default = if user.truthy() { ".ssh/known_hosts" } else { "/etc/ssh/ssh_known_hosts" };
    let config = if config.truthy() { config.to_string() } else { default.to_owned() };
    // A relative path belongs to a home directory, and without a user there is none.
    (user.truthy() || config.starts_with('/')).then_some(config)
}

/// Makes sure that the key of a host is known.
#[function]
fn present(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] fingerprint: Value,
    #[default(Value::Null)] key: Value,
    #[default(Value::Null)] port: Value,
    #[default(Value::Null)] enc: Value,
    #[default(Value::Null)] config: Value,
    #[default(true)] hash_known_hosts: Value,
    #[default(5)] timeout: Value,
    #[default(Value::Null)] fingerprint_hash_type: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let Some(config) = file(&user, &config) else { return Ok(ret.fail(NO_PLACE)) };
    let common = map! {
        "key" => key.clone(),
        "fingerprint" => fingerprint.clone(),
        "config" => config.as_str(),
        "port" => port,
        "fingerprint_hash_type" => fingerprint_hash_type,
    };
    if ctx.is_test() {
        // Only checked in test mode. In a real run the execution function checks it.
        if key.truthy() && fingerprint.truthy() {
            return Ok(ret.fail("Specify either \"key\" or \"fingerprint\", not both."));
        }
        if key.truthy() && !enc.truthy() {
            return Ok(ret.fail("Required argument \"enc\" if using \"key\" argument."));
        }
        return would(ctx, &name, user, &config, common, ret);
    }
    let mut kwargs = common;
    kwargs.update(map! {
        "user" => user,
        "hostname" => name.as_str(),
        "enc" => enc.clone(),
        "hash_known_hosts" => hash_known_hosts,
        "timeout" => timeout,
    });
    let result = call(ctx, "ssh.set_known_host", args![], kwargs)?;
    let part = |name: &str| result.get(name).cloned().unwrap_or_default();
    match part("status").as_str() {
        Some("exists") => return Ok(ret.ok(format!("{name} already exists in {config}"))),
        Some("error") => return Ok(ret.fail(part("error"))),
        _ => {}
    }
    let new = part("new");
    // One host can have several keys; Salt shows the first.
    let first =
        |field: &str| new.as_list().and_then(|new| new.first()?.get(field)).map(Value::to_string).unwrap_or_default();
    let comment = match (key.truthy(), fingerprint.truthy(), enc.truthy()) {
        (true, ..) => format!("{name}'s key saved to {config} (key: {})", first("key")),
        (_, true, _) => format!("{name}'s key saved to {config} (fingerprint: {})", first("fingerprint")),
        (_, _, true) => format!("{name}'s {enc} key saved to {config} (key: {})", first("key")),
        _ => format!("{name}'s key(s) saved to {config}"),
    };
    Ok(ret.ok(comment).changed(map! { "old" => part("old"), "new" => new }))
}

fn would(ctx: &Context, name: &str, user: Value, config: &str, kwargs: Map, ret: Ret) -> Result<Ret> {
    let result = match call(ctx, "ssh.check_known_host", args![user, name], kwargs) {
        // ssh-keyscan or ssh-keygen is missing.
        Err(Error::CommandNotFound(why)) => {
            return Ok(ret.fail(format!("ssh.check_known_host error: {why}")));
        }
        other => other?,
    };
    if let Some(error) = result.get("error") {
        return Ok(ret.fail(error.clone()));
    }
    Ok(match result.as_str() {
        Some("exists") => ret.ok(format!("Host {name} is already in {config}")),
        Some("add") => ret.would(format!("Key for {name} is set to be added to {config}")),
        _ => ret.would(format!("Key for {name} is set to be updated in {config}")),
    })
}

/// Makes sure that no key of a host is known.
#[function]
fn absent(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] config: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let Some(config) = file(&user, &config) else { return Ok(ret.fail(NO_PLACE)) };
    let kwargs = map! { "user" => user, "hostname" => name.as_str(), "config" => config.as_str() };
    let known = call(ctx, "ssh.get_known_host_entries", args![], kwargs.clone())?;
    if !known.truthy() {
        return Ok(ret.ok("Host is already absent"));
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Key for {name} is set to be removed from {config}")));
    }
    let result = call(ctx, "ssh.rm_known_host", args![], kwargs)?;
    let part = |name: &str| result.get(name).cloned().unwrap_or_default();
    if part("status").as_str() == Some("error") {
        return Ok(ret.fail(part("error")));
    }
    Ok(ret.ok(part("comment")).changed(map! { "old" => known, "new" => Value::Null }))
}
