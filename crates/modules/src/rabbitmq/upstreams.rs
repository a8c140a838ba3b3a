//! Upstreams: brokers whose messages are taken over (federation).

use exec::{Context, Error, Result, function};
use python::json::{Style, dumps};
use value::{Map, Value, map};

use super::answer;
use super::tool::{control, control_with, unlogged, words};

/// All parameters of the broker; the addresses in them may have passwords.
fn upstreams(ctx: &Context, runas: &Option<String>) -> Result<Map> {
    // The address of an upstream may hold a password, hence no log.
    let said = control_with(ctx, words(["list_parameters", "-q"]), runas, unlogged())?;
    let mut found = Map::new();
    for line in said.stdout.split('\n').filter(|line| answer::is_data(line)) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, name, definition] = columns[..] else {
            let count = columns.len();
            return Err(Error::Other(format!(
                "rabbitmqctl told of a parameter in {count} columns where there are three"
            )));
        };
        found.insert(name, definition);
    }
    Ok(found)
}

/// Returns the upstreams by name, each as JSON.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_upstreams
#[function]
fn list_upstreams(ctx: &Context, runas: Option<String>) -> Result<Map> {
    upstreams(ctx, &runas)
}

/// Returns whether there is an upstream of this name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.upstream_exists rabbit_upstream
#[function]
fn upstream_exists(ctx: &Context, name: String, runas: Option<String>) -> Result<bool> {
    Ok(upstreams(ctx, &runas)?.contains_key(&name))
}

/// Sets an upstream. ``uri`` is its address, one or several; ``prefetch_count`` limits the messages on their way, and
/// ``ack_mode`` (on-confirm, on-publish, no-ack) determines when they are acknowledged. ``reconnect_delay`` is in
/// seconds, ``expires`` and ``message_ttl`` are in milliseconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.set_upstream upstream_name ack_mode=on-confirm max_hops=1 trust_user_id=True uri=amqp://hostname
#[function]
fn set_upstream(
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
    runas: Option<String>,
) -> Result<bool> {
    let mut wishes = map! {
        "uri" => uri, "prefetch-count" => prefetch_count, "reconnect-delay" => reconnect_delay, "ack-mode" => ack_mode,
        "trust-user-id" => trust_user_id, "exchange" => exchange, "max-hops" => max_hops, "expires" => expires,
        "message-ttl" => message_ttl, "ha-policy" => ha_policy, "queue" => queue,
    };
    // `trust-user-id: false` is a setting, an empty text is none.
    wishes.retain(|_, wish| matches!(wish, Value::Bool(_)) || wish.truthy());
    let definition = dumps(&wishes.into(), &Style::default()).map_err(Error::Other)?;
    let command = words(["set_parameter", "federation-upstream", &name, &definition]);
    control_with(ctx, command, &runas, unlogged())?.output()?;
    Ok(true)
}

/// Deletes an upstream.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.delete_upstream upstream_name
#[function]
fn delete_upstream(ctx: &Context, name: String, runas: Option<String>) -> Result<bool> {
    control(ctx, ["clear_parameter", "federation-upstream", &name], &runas)?.output()?;
    Ok(true)
}
