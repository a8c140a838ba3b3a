//! `local_cache` — stores returns in `<cachedir>/jobs`, as on a master.

use std::path::Path;

use futures_util::future::BoxFuture;
use store::jobs::{JobCache, JobReturn, Stored};
use tracing::{debug, warn};
use value::{Map, Value};
use wire::{Jid, MinionId};

use crate::{Error, Result, Returner, World};

/// The job cache in the program's own cache directory.
pub struct LocalCache;

impl Returner for LocalCache {
    fn name(&self) -> &'static str {
        "local_cache"
    }

    fn give<'a>(&'a self, world: &'a World, ret: &'a Map) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let cache = cache(world)?;
            let id = ret.get("id").and_then(|id| MinionId::try_from(id).ok());
            let id = id.ok_or_else(|| Error::failed("the return names no minion"))?;
            let jid = match ret.get_str("jid") {
                // Salt's `req` asks for a new job id.
                None | Some("req") => Jid::at(world.rt.now()).to_string(),
                Some(jid) => jid.to_owned(),
            };
            let ret = ret.clone();
            let storing = world.rt.blocking(move || store(&cache, &jid, &id, &ret));
            storing.await.map_err(Error::failed)?.map_err(Error::failed)
        })
    }
}

fn cache(world: &World) -> Result<JobCache> {
    let text = |name: &str, default: &'static str| world.opts().get_str(name).unwrap_or(default).to_owned();
    let hash = text("hash_type", "sha256");
    let hash = hash.parse().map_err(|_| Error::option(format!("option 'hash_type': {hash} is not known")))?;
    Ok(JobCache::new(Path::new(&text("cachedir", "/var/cache/salt/minion")), hash))
}

fn store(cache: &JobCache, jid: &str, id: &MinionId, ret: &Map) -> store::Result<()> {
    // On a minion nobody stores the publication, so the first return makes the job's directory.
    if !cache.contains(jid)? {
        let nocache = ret.get("nocache").is_some_and(Value::truthy);
        cache.prepare(jid, nocache)?;
    }
    match cache.store_return(jid, id, &JobReturn::from_load(ret))? {
        // A minion may give a return twice; the first one counts.
        Stored::Duplicate { same: true } => debug!("the return for job {jid} is stored already"),
        Stored::Duplicate { same: false } => {
            warn!("another return for job {jid} is stored already; the second one is ignored");
        }
        Stored::New | Stored::NotKept | Stored::UnknownJob => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_return_can_be_looked_up_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let world = testing::world(map! { "cachedir" => dir.path().to_str().unwrap() });
        LocalCache.give(&world, &testing::ret()).await.unwrap();
        let returns = cache(&world).unwrap().returns("20240229131415678901").unwrap();
        assert_eq!(returns.len(), 1);
        assert_eq!(returns[0].0, "web1");
        assert_eq!(Some(&returns[0].1.value), testing::ret().get("return"));
    }
}
