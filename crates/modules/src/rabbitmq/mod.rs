//! `rabbitmq` — users, virtual hosts, policies and plug-ins of the message broker RabbitMQ, through the programs `rabbitmqctl`
//! and `rabbitmq-plugins`.

mod answer;
mod node;
mod password;
mod permissions;
mod plugins;
mod policies;
mod tool;
mod upstreams;
mod users;
mod vhosts;

use exec::Module;

use crate::util;

/// The execution module `rabbitmq`.
pub static MODULE: Module = Module::new(
    "rabbitmq",
    "Functions that look at the message broker RabbitMQ and change it.",
    &[
        &users::ADD_USER,
        &vhosts::ADD_VHOST,
        &users::CHANGE_PASSWORD,
        &users::CHECK_PASSWORD,
        &users::CLEAR_PASSWORD,
        &node::CLUSTER_STATUS,
        &policies::DELETE_POLICY,
        &upstreams::DELETE_UPSTREAM,
        &users::DELETE_USER,
        &vhosts::DELETE_VHOST,
        &plugins::DISABLE_PLUGIN,
        &plugins::ENABLE_PLUGIN,
        &node::FORCE_RESET,
        &node::JOIN_CLUSTER,
        &plugins::LIST_AVAILABLE_PLUGINS,
        &plugins::LIST_ENABLED_PLUGINS,
        &permissions::LIST_PERMISSIONS,
        &policies::LIST_POLICIES,
        &node::LIST_QUEUES,
        &node::LIST_QUEUES_VHOST,
        &upstreams::LIST_UPSTREAMS,
        &permissions::LIST_USER_PERMISSIONS,
        &users::LIST_USERS,
        &vhosts::LIST_VHOSTS,
        &plugins::PLUGIN_IS_ENABLED,
        &policies::POLICY_EXISTS,
        &node::RESET,
        &permissions::SET_PERMISSIONS,
        &policies::SET_POLICY,
        &upstreams::SET_UPSTREAM,
        &users::SET_USER_TAGS,
        &node::START_APP,
        &node::STATUS,
        &node::STOP_APP,
        &upstreams::UPSTREAM_EXISTS,
        &users::USER_EXISTS,
        &vhosts::VHOST_EXISTS,
    ],
)
.only_if(|_| match util::which("rabbitmqctl") {
    Some(_) => Ok(()),
    None => Err("Module rabbitmq: module only works when RabbitMQ is installed".into()),
});
