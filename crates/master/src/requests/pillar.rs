//! `_pillar`: a minion wants its pillar.

use tracing::error;
use value::{Map, Value, map};

use super::{Answer, Ask};
use crate::Shared;
use wire::MinionId;

/// Makes the pillar of a minion and remembers it with its grains.
pub fn handle(ask: Ask) -> Answer {
    let Ask { shared, id, mut load } = ask;
    let (Some(id), Some(Value::Map(mut grains))) = (id, load.remove("grains")) else {
        return Answer::Plain(Map::new().into());
    };
    grains.insert("id", &id);
    let text = |name: &str| load.get(name).filter(|value| value.truthy()).map(Value::to_string);
    let (saltenv, pillarenv) = (text("saltenv"), text("pillarenv"));
    let pillar = shared.stores.pillar.compile(&pillar::Request {
        id: id.as_str(),
        grains: Some(&grains),
        saltenv: saltenv.as_deref(),
        pillarenv: pillarenv.as_deref(),
        pillar_override: load.get("pillar_override").and_then(Value::as_map),
        ext: load.get("ext").and_then(Value::as_map),
    });
    remember(&shared, &id, grains, &pillar, pillarenv.as_deref());
    let old_protocol = shared.stores.config.raw.get("pillar_version").and_then(Value::as_i64) == Some(1);
    match old_protocol && load.get_str("ver") != Some("2") {
        true => pillar.into(),
        false => Answer::Private(pillar),
    }
}

fn remember(shared: &Shared, id: &MinionId, grains: Map, pillar: &Map, pillarenv: Option<&str>) {
    let jobs = &shared.stores.config.jobs;
    if !jobs.minion_data_cache {
        return;
    }
    if let Err(failure) = shared.stores.data.store(id, grains, pillar.clone(), pillarenv) {
        error!(minion = %id, "failed to store the data of {id}: {}", crate::chain(&failure));
    }
    if jobs.minion_data_cache_events {
        shared.fire(format!("minion/refresh/{id}"), map! { "Minion data cache refresh" => id });
    }
}
