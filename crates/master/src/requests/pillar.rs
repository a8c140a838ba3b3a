//! `_pillar`: a minion requests its pillar.

use cache::Part;
use tracing::{debug, error};
use value::{Map, Value, map};

use store::minion_data::pillar_place;
use wire::MinionId;
use wire::loads::PillarRequest;

use super::{Answer, MasterRequest, read};
use crate::Shared;

/// Compiles the pillar of a minion, and caches it together with the minion's grains.
pub fn handle(ask: MasterRequest) -> Answer {
    let MasterRequest { shared, id, nonce, load, .. } = ask;
    let (Some(id), Some(request)) = (id, read(load, PillarRequest::from_map)) else {
        return Answer::Plain(Map::new().into());
    };
    let mut grains = request.grains;
    grains.insert("id", &id);
    let text = |value: Option<Value>| value.filter(Value::truthy).map(|value| value.to_string());
    let (saltenv, pillarenv) = (text(request.saltenv), text(request.pillarenv));
    let config = &shared.stores.config;
    let cache_env = pillarenv.clone().or_else(|| config.pillar.pillarenv.clone()).filter(|env| !env.is_empty());
    let over = request.pillar_override.as_ref().and_then(Value::as_map).filter(|over| !over.is_empty());
    let keeps = config.jobs.minion_data_cache || config.pillar.pillar_cache;
    let kept = if request.clean_cache == Some(true) { None } else { cached(&shared, &id, cache_env.as_deref()) };
    let mut pillar = kept.unwrap_or_else(|| {
        let pillar = shared.stores.pillar.compile(&pillar::Request {
            id: id.as_str(),
            grains: Some(&grains),
            saltenv: saltenv.as_deref(),
            pillarenv: pillarenv.as_deref(),
            // What is kept for others to see is made without what one call gave.
            pillar_override: over.filter(|_| !keeps),
            ext: request.ext.as_ref().and_then(Value::as_map),
            extra_minion_data: request.extra_minion_data.as_ref().and_then(Value::as_map),
        });
        // Asked only now: of two attempts at once, the first that is done stores its data.
        if shared.channel.may_store(&id, nonce.as_deref()) {
            remember(&shared, &id, grains, &pillar, cache_env.as_deref());
        } else {
            debug!(minion = %id, "the data of {id} is not stored: this request was answered before");
        }
        pillar
    });
    if let Some(over) = over.filter(|_| keeps) {
        pillar = shared.stores.pillar.overridden(pillar, over);
    }
    let old_protocol = shared.stores.config.raw.get("pillar_version").and_then(Value::as_i64) == Some(1);
    match old_protocol && request.ver.as_ref().and_then(Value::as_str) != Some("2") {
        true => pillar.into(),
        false => Answer::Pillar(pillar),
    }
}

/// Returns the cached pillar, if the option `pillar_cache` allows it and it is not too old.
fn cached(shared: &Shared, id: &MinionId, pillarenv: Option<&str>) -> Option<Map> {
    let settings = &shared.stores.config.pillar;
    if !settings.pillar_cache {
        return None;
    }
    let cache = &shared.stores.data;
    let (bank, key) = pillar_place(id.as_str(), pillarenv);
    let now = shared.stores.rt.now();
    let found = cache.updated(&bank, &key).and_then(|since| Ok((since, cache.fetch(&bank, &key, now)?)));
    match found {
        Ok((Some(since), Some(Value::Map(pillar)))) => {
            let age = now.duration_since(since).unwrap_or_default();
            (age.as_secs() < settings.pillar_cache_ttl && !pillar.is_empty()).then_some(pillar)
        }
        Ok(_) => None,
        Err(failure) if failure.is_logged() => None,
        Err(failure) => {
            error!(minion = %id, "failed to read the cached pillar of {id}: {failure}");
            None
        }
    }
}

fn remember(shared: &Shared, id: &MinionId, grains: Map, pillar: &Map, pillarenv: Option<&str>) {
    let jobs = &shared.stores.config.jobs;
    if !jobs.minion_data_cache && !shared.stores.config.pillar.pillar_cache {
        return;
    }
    if !shared.bounds.may_keep(id, "grains", &grains) {
        return;
    }
    match shared.stores.data.store(id, grains, pillar.clone(), pillarenv) {
        Ok(()) => {
            if let Some(outgoing) = &shared.outgoing {
                outgoing.data(Part::Grains, id);
                if pillarenv.is_none() {
                    outgoing.data(Part::Pillar, id);
                }
            }
        }
        Err(failure) if failure.is_logged() => {}
        Err(failure) => error!(minion = %id, "failed to store the data of {id}: {}", crate::chain(&failure)),
    }
    if jobs.minion_data_cache_events {
        shared.fire(format!("minion/refresh/{id}"), map! { "Minion data cache refresh" => id });
    }
}
