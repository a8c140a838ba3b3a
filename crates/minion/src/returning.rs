//! Passes returns to returners.

use std::sync::Arc;

use value::Map;

use crate::local_pillar;
use crate::machine::Machine;
use crate::masters::Link;

/// Stores a return with these returners, one after the other. Their options come from the configuration files, the
/// grains, and the pillar of the job's master.
pub async fn give(machine: &Machine, link: Option<&Arc<Link>>, names: &[String], ret: &Map) {
    if names.is_empty() {
        return;
    }
    let (opts, pillar) = match link {
        Some(link) => (link.opts(), link.pillar()),
        None => (Arc::new(machine.config.raw.clone()), local_pillar(machine)),
    };
    let place = returners::World::new(machine.rt.clone(), opts, machine.grains(), pillar);
    returners::give(&place, names, ret).await;
}

fn local_pillar(machine: &Machine) -> Arc<Map> {
    let pillar = local_pillar::compile(machine, &Map::new());
    Arc::new(pillar.inspect_err(|reason| tracing::error!("{reason}")).unwrap_or_default())
}
