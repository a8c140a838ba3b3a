//! The pillar that a master compiles for the minion.

use channel::client::MasterChannel;
use value::{Map, Value};
use wire::MinionId;
use wire::loads::PillarRequest;

use super::Link;
use crate::extra_data::for_ext_pillars;
use crate::machine::Machine;

/// Requests the pillar from a master.
///
/// # Errors
/// A message that says why there is none.
pub async fn ask_pillar(machine: &Machine, link: &Link, channel: &MasterChannel, extra: Map) -> Result<Map, String> {
    let grains = (*machine.grains()).clone();
    let mut load = request(machine.id.clone(), grains, &link.opts())?.into_map();
    load.update(extra);
    let answer = channel.request_pillar(load, None).await.map_err(|error| error.to_string())?;
    answer.into_map().ok_or_else(|| "Got a bad pillar from master".to_owned())
}

fn request(id: MinionId, grains: Map, opts: &Map) -> Result<PillarRequest, &'static str> {
    let option = |name: &str| opts.get(name).cloned().unwrap_or_default();
    Ok(PillarRequest {
        id,
        grains,
        saltenv: Some(option("saltenv")),
        pillarenv: Some(option("pillarenv")),
        pillar_override: Some(Value::Null),
        extra_minion_data: Some(for_ext_pillars(opts)?.into()),
        ver: Some("2".into()),
        ext: None,
        clean_cache: None,
        extra: Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn the_options_for_external_pillars_are_sent_with_the_request() {
        let opts = map! {
            "saltenv" => "dev", "pass_to_ext_pillars" => list!["site:rack"],
            "site" => map! { "rack" => 7, "secret" => 1 },
        };
        let id = || MinionId::new("web1").unwrap();
        let load = request(id(), map! { "os" => "Debian" }, &opts).unwrap().into_map();
        assert_eq!(load.get("extra_minion_data"), Some(&map! { "site" => map! { "rack" => 7 } }.into()));
        assert_eq!(load.get_str("saltenv"), Some("dev"));
        let malformed = request(id(), map! {}, &map! { "pass_to_ext_pillars" => "site" });
        assert_eq!(malformed.err(), Some("'pass_to_ext_pillars' config is malformed."));
    }
}
