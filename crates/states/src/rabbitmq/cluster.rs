//! `rabbitmq_cluster`: the cluster a node is part of.

use exec::{Context, Function, Module, Result, function};
use value::{Map, Value, map};

use super::{installed, with_answer};
use crate::support::call;
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("rabbitmq_cluster", "The cluster a node is part of.", &[&JOIN, &JOINED]).only_if(installed);

/// Makes sure that the node is in a cluster with another one, which ``user`` and ``host`` name.
#[function]
fn joined(
    ctx: &Context,
    name: String,
    host: String,
    #[default("rabbit")] user: String,
    #[default(Value::Null)] ram_node: Value,
    #[default("root")] runas: Value,
) -> Result<Ret> {
    let ret = Ret::new(name);
    let node = format!("{user}@{host}");
    let status = call(ctx, "rabbitmq.cluster_status", Vec::new(), Map::new())?.to_string();
    // The status is free text that changes between versions, so only the node's name is searched in
    // it.
    if status.contains(&node) {
        return Ok(ret.ok("Already in cluster"));
    }
    let changes = map! { "old" => "", "new" => node.as_str() };
    if ctx.is_test() {
        return Ok(ret.would(format!("Node is set to join cluster {node}")).changed(changes));
    }
    let join = args![host, user, ram_node];
    let answer = call(ctx, "rabbitmq.join_cluster", join, map! { "runas" => runas })?;
    let ret = with_answer(ret, &answer, "Join");
    Ok(if ret.result == Some(true) { ret.changed(changes) } else { ret })
}

static JOIN: Function = Function { name: "join", doc: "The same as ``joined``, by an older name.", ..JOINED };
