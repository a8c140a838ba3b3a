//! Where returns go besides the master.

use std::sync::Arc;

use value::Map;

use crate::masters::Link;
use crate::world::World;

/// Stores a return with these returners, one after the other. Their options are in the files, the grains, and the
/// pillar of the job's master.
pub async fn give(world: &World, link: Option<&Arc<Link>>, names: &[String], ret: &Map) {
    if names.is_empty() {
        return;
    }
    let (opts, pillar) = match link {
        Some(link) => (link.opts(), link.pillar()),
        None => (Arc::new(world.config.raw.clone()), local_pillar(world)),
    };
    let place = returners::World::new(world.rt.clone(), opts, world.grains(), pillar);
    returners::give(&place, names, ret).await;
}

fn local_pillar(world: &World) -> Arc<Map> {
    let pillar = crate::call::local_pillar(world, Map::new());
    Arc::new(pillar.inspect_err(|reason| tracing::error!("{reason}")).unwrap_or_default())
}
