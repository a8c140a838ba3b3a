//! The pillar that a master compiles for the minion.

use channel::client::MasterChannel;
use value::{Map, Value};
use wire::loads::PillarRequest;

use super::Link;
use crate::extra_data::for_ext_pillars;
use crate::machine::Machine;

/// Requests the pillar from a master.
///
/// # Errors
/// A text that says why there is none.
pub async fn ask_pillar(machine: &Machine, link: &Link, channel: &MasterChannel, extra: Map) -> Result<Map, String> {
    let opts = link.opts();
    let option = |name: &str| opts.get(name).cloned().unwrap_or_default();
    let request = PillarRequest {
        id: machine.id.clone(),
        grains: (*machine.grains()).clone(),
        saltenv: Some(option("saltenv")),
        pillarenv: Some(option("pillarenv")),
        pillar_override: Some(Value::Null),
        extra_minion_data: Some(for_ext_pillars(&opts)?.into()),
        ver: Some("2".into()),
        ext: None,
        clean_cache: None,
        extra: Map::new(),
    };
    let mut load = request.into_map();
    load.update(extra);
    let answer = channel.request_pillar(load, None).await.map_err(|error| error.to_string())?;
    answer.into_map().ok_or_else(|| "Got a bad pillar from master".to_owned())
}
