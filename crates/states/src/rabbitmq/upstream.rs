//! `rabbitmq_upstream`: brokers whose messages are taken over (federation).

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use super::failed;
use crate::support::{call, call_with_kwargs, caught, equal, needs, over};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_upstream", "Brokers whose messages are taken over.", &[&ABSENT, &PRESENT])
        .only_if(|_| needs(&["rabbitmqctl"], "rabbitmq module could not be loaded"));

/// Returns the entries that are in one map only or differ.
fn difference(old: &Map, new: &Map) -> Map {
    let without = |one: &Map, other: &Map| -> Map {
        let alone = one.iter().filter(|(key, value)| other.get_value(key).is_none_or(|there| !equal(there, value)));
        alone.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut found = Map::new();
    for (name, part) in [("old", without(old, new)), ("new", without(new, old))] {
        if !part.is_empty() {
            found.insert(name, part);
        }
    }
    found
}

/// Makes sure that there is an upstream. ``uri`` is its address, one or several; ``prefetch_count`` limits the messages
/// on their way, and ``ack_mode`` (on-confirm, on-publish, no-ack) determines when they are acknowledged.
/// ``reconnect_delay`` is in seconds, ``expires`` and ``message_ttl`` are in milliseconds.
#[function]
fn present(
    ctx: &Context,
    name: String,
    uri: Value,
    #[default(Value::Null)] prefetch_count: Value,
    #[default(Value::Null)] reconnect_delay: Value,
    #[default(Value::Null)] ack_mode: Value,
    #[default(Value::Null)] trust_user_id: Value,
    #[default(Value::Null)] exchange: Value,
    #[default(Value::Null)] max_hops: Value,
    #[default(Value::Null)] expires: Value,
    #[default(Value::Null)] message_ttl: Value,
    #[default(Value::Null)] ha_policy: Value,
    #[default(Value::Null)] queue: Value,
    #[default(Value::Null)] runas: Value,
) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wishes = map! {
        "prefetch_count" => prefetch_count, "reconnect_delay" => reconnect_delay, "ack_mode" => ack_mode,
        "trust_user_id" => trust_user_id, "exchange" => exchange, "max_hops" => max_hops, "expires" => expires,
        "message_ttl" => message_ttl, "ha_policy" => ha_policy, "queue" => queue,
    };
    let current = match call_with_kwargs(ctx, "rabbitmq.list_upstreams", map! { "runas" => runas.clone() }) {
        Ok(current) => current,
        Err(error) => return failed(ret, error),
    };
    let (action, changes) = match current.get(&name) {
        None => ("create", map! { "old" => (), "new" => parameters(&uri, &wishes) }),
        Some(text) => match difference(&definition(&name, text)?, &parameters(&uri, &wishes)) {
            none if none.is_empty() => return Ok(ret.ok(format!("Upstream \"{name}\" already present as specified."))),
            difference => ("update", difference),
        },
    };
    if ctx.is_test() {
        return Ok(ret.would(format!("Upstream \"{name}\" would have been {action}d.")));
    }
    let more = over(wishes, &map! { "runas" => runas });
    Ok(match call(ctx, "rabbitmq.set_upstream", args![name.as_str(), uri], more) {
        Ok(done) => {
            let ret = Ret { result: done.as_bool(), changes, ..ret };
            Ret { comment: format!("Upstream \"{name}\" {action}d.").into(), ..ret }
        }
        Err(error) => ret.fail(format!("Error trying to {action} upstream: {}", caught(error)?.text)),
    })
}

/// Returns the parameters as the broker will store them.
fn parameters(uri: &Value, wishes: &Map) -> Map {
    let mut found = map! { "uri" => uri.clone() };
    found.extend(wishes.iter().map(|(name, wish)| (Value::from(name.to_string().replace('_', "-")), wish.clone())));
    // The broker leaves out unset values. `False` is a setting.
    found.retain(|_, wish| matches!(wish, Value::Bool(_)) || wish.truthy());
    found
}

fn definition(name: &str, text: &Value) -> Result<Map> {
    let read: std::result::Result<Value, _> = serde_json::from_str(&text.to_string());
    let read = read.ok().and_then(Value::into_map);
    read.ok_or_else(|| Error::Other(format!("the definition of the upstream {name} is not an object in JSON")))
}

/// Makes sure that there is no upstream of this name.
#[function]
fn absent(ctx: &Context, name: String, #[default(Value::Null)] runas: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let runas = map! { "runas" => runas };
    match call(ctx, "rabbitmq.upstream_exists", args![name.as_str()], runas.clone()) {
        Ok(exists) if exists.truthy() => {}
        Ok(_) => return Ok(ret.ok(format!("The upstream \"{name}\" is already absent."))),
        Err(error) => return failed(ret, error),
    }
    if ctx.is_test() {
        return Ok(ret.would(format!("Upstream \"{name}\" would have been deleted.")));
    }
    match call(ctx, "rabbitmq.delete_upstream", args![name.as_str()], runas) {
        Ok(done) if done.truthy() => {
            let changes = map! { "old" => name.as_str(), "new" => () };
            Ok(ret.ok(format!("Upstream \"{name}\" has been deleted.")).changed(changes))
        }
        Ok(_) => Ok(ret),
        Err(error) => failed(ret, error),
    }
}
