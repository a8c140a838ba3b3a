//! Which minions a target matches, by keys and cached data.

use std::sync::Arc;

use exec::{Error, Result};
use keys::Bank;
use targeting::{Checker, DEFAULT_DELIMITER, MinionData, TargetType};
use value::{Map, Value};
use wire::MinionId;

use crate::RunnerContext;

/// The minions of a master as its files show them.
pub struct Minions<'a> {
    ctx: &'a RunnerContext,
    data: store::minion_data::MinionDataCache,
}

impl<'a> Minions<'a> {
    /// Looks at the files of a master.
    pub fn new(ctx: &'a RunnerContext) -> Self {
        Minions { ctx, data: ctx.data() }
    }

    /// Returns what expands targets.
    pub fn checker(&self) -> Checker<'_> {
        let data_cache = self.ctx.config.jobs.minion_data_cache;
        Checker::new(self, &self.ctx.config.nodegroups, data_cache)
    }

    /// Returns the accepted minions that a target matches. A target that cannot be read matches nobody, as on the
    /// master.
    pub fn matching(&self, target: &Value, kind: &str) -> Result<Vec<String>> {
        let kind = TargetType::from_name(kind).map_err(|error| Error::invocation(error.to_string()))?;
        let found = self.checker().expect(target, kind, DEFAULT_DELIMITER);
        Ok(found.map(|expected| expected.minions).unwrap_or_else(|error| {
            tracing::error!("Failed matching available minions with {kind} pattern: {target}: {error}");
            Vec::new()
        }))
    }

    /// Returns the ids with cached data.
    pub fn with_data(&self) -> Vec<String> {
        self.data.ids().unwrap_or_else(|error| {
            tracing::warn!("failed to list the minion data cache: {error}");
            Vec::new()
        })
    }

    /// Returns the mine of a minion.
    pub fn mine(&self, id: &str) -> Option<Arc<Map>> {
        self.read("mine", id, |id| self.data.mine(id))
    }

    fn read(
        &self,
        what: &str,
        id: &str,
        read: impl FnOnce(&MinionId) -> store::Result<Option<Arc<Map>>>,
    ) -> Option<Arc<Map>> {
        read(&MinionId::new(id).ok()?).unwrap_or_else(|error| {
            tracing::warn!("failed to read the cached {what} of {id}: {error}");
            None
        })
    }
}

impl MinionData for Minions<'_> {
    fn accepted(&self) -> Vec<String> {
        match self.ctx.keys().ids(Bank::Accepted) {
            Ok(ids) => ids.into_iter().map(String::from).collect(),
            Err(error) => {
                tracing::error!("failed to list the keys of minions: {error}");
                Vec::new()
            }
        }
    }

    fn cached(&self) -> Vec<String> {
        self.with_data()
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        self.read("grains", id, |id| self.data.grains(id))
    }

    fn pillar(&self, id: &str) -> Option<Arc<Map>> {
        self.read("pillar", id, |id| self.data.pillar(id))
    }
}
