//! The source of jobs and their returns: the master's own job cache, or that of a returner.

use exec::{Error, Result};
use returners::{Returner, World};
use store::jobs::JobReturn;
use value::{Map, Value};

use crate::RunnerContext;
use crate::context::failed;

/// The names of the job caches that every master has.
const OWN: [&str; 2] = [store::jobs::FILES, store::jobs::EMBEDDED];

/// A job cache that can be read.
pub enum Source {
    /// The master's own.
    Own,
    /// The cache of a returner: `ext_job_cache`, or the one the caller named.
    Outside(&'static dyn Returner, World),
}

impl Source {
    /// Finds the cache: the option `ext_job_cache`, then the given name, then the master's own. With
    /// `master_job_cache` the master's own cache has the same jobs.
    ///
    /// # Errors
    /// When there is no such returner, or it keeps no jobs.
    pub fn find(ctx: &RunnerContext, asked: Option<&str>) -> Result<Self> {
        // `ext_job_cache` comes before the caller's choice, as in Salt: with it, the master's own cache has no
        // returns.
        let named = [ctx.config.jobs.ext_job_cache.as_str(), asked.unwrap_or_default()];
        let Some(name) = named.into_iter().find(|name| !name.is_empty() && !OWN.contains(name)) else {
            return Ok(Source::Own);
        };
        let world = World::of_master(ctx.rt.clone(), ctx.config.raw.clone());
        let returner = returners::find(&world, name).map_err(failed)?;
        match returner.jobs() {
            Some(_) => Ok(Source::Outside(returner, world)),
            None => Err(Error::execution(format!("'{name}.get_jid' is not available."))),
        }
    }

    /// Returns the name of the returner.
    pub fn name(&self) -> &'static str {
        match self {
            Source::Own => store::jobs::FILES,
            Source::Outside(returner, _) => returner.name(),
        }
    }

    /// Returns what lists show of the publication of a job. Blocks.
    ///
    /// # Errors
    /// When the cache cannot be read; so for the other two.
    pub fn head(&self, ctx: &RunnerContext, jid: &str) -> Result<Option<Map>> {
        match self.store() {
            None => ctx.jobs()?.head(jid).map_err(failed),
            Some((store, world)) => wait(store.load(world, jid)),
        }
    }

    /// Returns what came back for a job. Blocks.
    pub fn returns(&self, ctx: &RunnerContext, jid: &str) -> Result<Vec<(String, JobReturn)>> {
        let Some((store, world)) = self.store() else { return ctx.jobs()?.returns(jid).map_err(failed) };
        let found = wait(store.returns(world, jid))?;
        let one = |(id, ret): (Value, Value)| {
            let returned = match ret {
                // Some returners keep only the value, without `retcode` and `success`.
                Value::Map(ret) => JobReturn::from_load(&ret),
                bare => JobReturn { value: bare, ..JobReturn::default() },
            };
            (id.to_string(), returned)
        };
        Ok(found.into_iter().map(one).collect())
    }

    /// Returns the same of all jobs. Blocks.
    pub fn heads(&self, ctx: &RunnerContext) -> Result<Vec<(String, Map)>> {
        match self.store() {
            None => ctx.jobs()?.heads().map_err(failed),
            Some((store, world)) => wait(store.all(world)),
        }
    }

    fn store(&self) -> Option<(&dyn returners::JobStore, &World)> {
        match self {
            Source::Own => None,
            Source::Outside(returner, world) => returner.jobs().map(|store| (store, world)),
        }
    }
}

fn wait<T>(asking: impl Future<Output = returners::Result<T>>) -> Result<T> {
    // Callers run in `RunnerContext::blocking`, on a thread on which the runtime may be entered again.
    tokio::runtime::Handle::current().block_on(asking).map_err(failed)
}
