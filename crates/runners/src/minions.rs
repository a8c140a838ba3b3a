//! Matches targets with minions, by keys and cached data.

use std::collections::HashMap;
use std::sync::Arc;

use cache::{Cache, Part};
use exec::{Error, Result};
use keys::Bank;
use targeting::{Checker, DEFAULT_DELIMITER, MinionData, Needs, ReadAhead, TargetType, Unavailable};
use value::{Map, Value};
use wire::MinionId;

use crate::RunnerContext;

/// The minions of a master as its files show them.
pub struct Minions<'a> {
    ctx: &'a RunnerContext,
    data: Arc<Cache>,
}

impl<'a> Minions<'a> {
    /// Reads the files of a master.
    ///
    /// # Errors
    /// When an option of the minion data cache has an invalid value.
    pub fn new(ctx: &'a RunnerContext) -> Result<Self> {
        Ok(Minions { ctx, data: ctx.data()? })
    }

    /// Returns what expands targets.
    pub fn checker(&self) -> Checker<'_> {
        let data_cache = self.ctx.config.jobs.minion_data_cache;
        Checker::new(self, &self.ctx.config.nodegroups, data_cache)
    }

    /// Returns the accepted minions that a target matches. An invalid target matches no minion, as on the master.
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

    /// Returns a part of the data of minions, in their order, with an empty map for those without it.
    pub fn all(&self, part: Part, ids: Vec<String>) -> Map {
        let mut all = Map::new();
        let mut add = |id: &str, found: Option<&Arc<Map>>| {
            all.insert(id, found.map(|map| (**map).clone()).unwrap_or_default());
        };
        let Some(size) = self.data.batch() else {
            for id in &ids {
                let found = self.read(part.name(), id, |id| match part {
                    Part::Grains => self.data.grains(id),
                    Part::Pillar => self.data.pillar(id),
                    Part::Mine => self.data.mine(id),
                });
                add(id, found.as_ref());
            }
            return all;
        };
        for some in ids.chunks(size) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let found = self.some(part, &some).unwrap_or_default();
            some.iter().for_each(|id| add(id, found.get(*id)));
        }
        all
    }

    fn some(&self, part: Part, ids: &[&str]) -> std::result::Result<HashMap<String, Arc<Map>>, Unavailable> {
        self.data.read(part, ids).map_err(|error| {
            if !error.is_logged() {
                tracing::warn!("failed to read the cached {} of minions: {error}", part.name());
            }
            Unavailable
        })
    }

    fn read(
        &self,
        what: &str,
        id: &str,
        read: impl FnOnce(&MinionId) -> cache::Result<Option<Arc<Map>>>,
    ) -> Option<Arc<Map>> {
        read(&MinionId::new(id).ok()?).unwrap_or_else(|error| {
            if !error.is_logged() {
                tracing::warn!("failed to read the cached {what} of {id}: {error}");
            }
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

    fn batch(&self) -> Option<usize> {
        self.data.batch()
    }

    fn read_ahead(&self, ids: &[&str], needs: Needs) -> std::result::Result<ReadAhead, Unavailable> {
        let grains = needs.grains.then(|| self.some(Part::Grains, ids)).transpose()?;
        Ok(ReadAhead { grains, pillar: needs.pillar.then(|| self.some(Part::Pillar, ids)).transpose()? })
    }
}
