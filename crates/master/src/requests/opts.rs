//! `_master_opts` and `_master_tops`: the parts of the master's options that minions need.

use value::{Map, Value};
use wire::loads::MasterOpts;

use super::{Answer, MasterRequest, read};

/// Options that concern environments.
const ENVIRONMENTS: [&str; 3] = ["top_file_merging_strategy", "env_order", "default_top"];

/// Options that concern states.
const STATES: [&str; 12] = [
    "renderer",
    "failhard",
    "state_top",
    "state_top_saltenv",
    "nodegroups",
    "state_auto_order",
    "state_events",
    "state_aggregate",
    "jinja_lstrip_blocks",
    "jinja_trim_blocks",
    "jinja_env",
    "jinja_sls_env",
];

/// Answers with the environments, and the options that state runs on minions follow.
pub fn options(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, load, .. } = ask;
    let stores = &shared.stores;
    let env_only = read(load, MasterOpts::from_map).and_then(|request| request.env_only).unwrap_or_default();
    let mut told = Map::new();
    let roots: Map = stores.files.envs().into_iter().map(|env| (env, Value::List(Vec::new()))).collect();
    told.insert("file_roots", roots);
    let names = ENVIRONMENTS.iter().chain(STATES.iter().filter(|_| !env_only));
    for name in names {
        told.insert(*name, stores.config.raw.get(name).cloned().unwrap_or_default());
    }
    told.into()
}

/// Answers with the SLS files that a minion gets from sources other than top files.
pub fn tops(ask: MasterRequest) -> Answer {
    let Some(id) = &ask.id else { return super::nothing() };
    state::tops::tops(ask.shared.stores.config.raw.get("master_tops"), id.as_str()).into()
}
