//! The node itself, the cluster it is part of, and its queues.

use exec::{Context, Result, VarArgs, function};
use value::{Map, Value};

use super::answer;
use super::tool::{control, control_with, words};

/// Returns the status of the node.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.status
#[function]
fn status(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["status"], &runas)?.output()
}

/// Returns the status of the cluster.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.cluster_status
#[function]
fn cluster_status(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["cluster_status"], &runas)?.output()
}

/// Joins the cluster of another node, which ``user`` and ``host`` name; stops the broker for it. Returns the output.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.join_cluster rabbit.example.com rabbit
#[function]
fn join_cluster(
    ctx: &Context,
    host: String,
    #[default("rabbit")] user: String,
    #[default(Value::Null)] ram_node: Value,
    runas: Option<String>,
) -> Result<Map> {
    let node = format!("{user}@{host}");
    let mut command = vec!["join_cluster"];
    if ram_node.truthy() {
        command.push("--ram");
    }
    command.push(&node);
    // A running node cannot join a cluster.
    control(ctx, ["stop_app"], &runas)?.output()?;
    let joined = control(ctx, command, &runas)?;
    // Also after a failed join: a node that stays down would be a second problem. Only then is the failure reported.
    control(ctx, ["start_app"], &runas)?.output()?;
    joined.under("Join")
}

/// Stops the broker, not the runtime it is in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.stop_app
#[function]
fn stop_app(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["stop_app"], &runas)?.output()
}

/// Starts the broker.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.start_app
#[function]
fn start_app(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["start_app"], &runas)?.output()
}

/// Resets the node: deletes all its data.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.reset
#[function]
fn reset(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["reset"], &runas)?.output()
}

/// Resets the node: deletes all its data, whatever state it and its cluster are in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.force_reset
#[function]
fn force_reset(ctx: &Context, runas: Option<String>) -> Result<String> {
    control(ctx, ["force_reset"], &runas)?.output()
}

fn queues(ctx: &Context, mut command: Vec<Value>, items: VarArgs, runas: &Option<String>) -> Result<Map> {
    command.extend(items.0);
    let listed = control_with(ctx, command, runas, Map::new())?.output()?;
    Ok(answer::by_name(&listed, answer::columns))
}

/// Returns the queues of the virtual host ``/``, each with the requested facts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_queues messages consumers
#[function]
fn list_queues(ctx: &Context, runas: Option<String>, args: VarArgs) -> Result<Map> {
    queues(ctx, words(["list_queues", "-q"]), args, &runas)
}

/// Returns the queues of a virtual host, each with the requested facts.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' rabbitmq.list_queues_vhost myvhost root messages consumers
#[function]
fn list_queues_vhost(ctx: &Context, vhost: String, runas: Option<String>, args: VarArgs) -> Result<Map> {
    queues(ctx, words(["list_queues", "-q", "-p", &vhost]), args, &runas)
}
