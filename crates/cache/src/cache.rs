//! The cache of a master.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use store::minion_data::MinionDataCache;
use store::{Layout, LocalFs, Precondition, Store};
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Packing, pack};

use crate::link::Link;
use crate::memory::Memory;
use crate::options::{Driver, Settings};
use crate::remote::Remote;
use crate::{Error, Part, Place, Result};

/// The number of minions whose data are read from a server at once. More of them could take more memory than the data of a
/// few thousand minions should.
pub const BATCH: usize = 500;

/// Grains, pillar and mine of minions, and other values by bank and key.
pub struct Cache(Kind);

enum Kind {
    Local { data: MinionDataCache, files: LocalFs },
    Remote(Remote),
}

impl Cache {
    /// Returns the cache that the options of a master describe. Nothing is connected yet.
    ///
    /// # Errors
    /// If an option has an invalid value.
    pub fn of_master(config: &config::Master) -> Result<Self> {
        let settings = Settings::read(&config.raw)?;
        let (driver, option, address, banks) = match settings.driver {
            Driver::LocalFs => {
                let cachedir = &config.paths.cachedir;
                let most = config.jobs.max_pillar_environments;
                let data = MinionDataCache::new(cachedir, settings.layout).with_most_environments(most);
                return Ok(Cache(Kind::Local { data, files: LocalFs::new(cachedir) }));
            }
            Driver::Redis(server) => {
                let address = server.address();
                let banks = server.banks().map_err(|failure| Error::option("cache.redis.host", failure))?;
                ("redis", "cache.redis.host", address, banks)
            }
            Driver::Consul(server) => ("consul", "consul.host", server.target.address(), server.banks()?),
            Driver::Etcd(server) => (server.driver(), "etcd.host", server.target.address(), server.banks()?),
            Driver::MySql(server) => ("mysql", "mysql.host", server.address(), server.banks()?),
        };
        let link = Link::new(driver, option, address, banks)?;
        let memory = Memory::new(settings.memory, settings.most_items);
        Ok(Cache(Kind::Remote(Remote::new(link, settings.layout, memory, config.jobs.max_pillar_environments))))
    }

    /// Returns the cache `localfs` in a directory.
    pub fn in_directory(cachedir: impl Into<PathBuf>) -> Self {
        let cachedir = cachedir.into();
        let data = MinionDataCache::new(&cachedir, Layout::default());
        Cache(Kind::Local { data, files: LocalFs::new(cachedir) })
    }

    /// Returns how many minions to read at once with [`Self::read`]; `None` if reading them one by one is as fast.
    pub fn batch(&self) -> Option<usize> {
        match &self.0 {
            Kind::Local { .. } => None,
            Kind::Remote(_) => Some(BATCH),
        }
    }

    /// Returns the grains of a minion.
    pub fn grains(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.grains(id)?),
            Kind::Remote(remote) => one(remote, Part::Grains, id),
        }
    }

    /// Returns the pillar of a minion.
    pub fn pillar(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.pillar(id)?),
            Kind::Remote(remote) => one(remote, Part::Pillar, id),
        }
    }

    /// Returns the mine of a minion.
    pub fn mine(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.mine(id)?),
            Kind::Remote(remote) => one(remote, Part::Mine, id),
        }
    }

    /// Returns a part of the data of several minions, by id. Those without it are left out.
    pub fn read(&self, part: Part, ids: &[&str]) -> Result<HashMap<String, Arc<Map>>> {
        let data = match &self.0 {
            Kind::Local { data, .. } => data,
            Kind::Remote(remote) => {
                let valid: Vec<&str> = ids.iter().copied().filter(|id| MinionId::new(*id).is_ok()).collect();
                return remote.read(part, &valid);
            }
        };
        let mut found = HashMap::new();
        for id in ids.iter().filter_map(|id| MinionId::new(*id).ok()) {
            let map = match part {
                Part::Grains => data.grains(&id)?,
                Part::Pillar => data.pillar(&id)?,
                Part::Mine => data.mine(&id)?,
            };
            found.extend(map.map(|map| (id.to_string(), map)));
        }
        Ok(found)
    }

    /// Stores grains and pillar. In the grains, `id` becomes the minion's authenticated id.
    ///
    /// `pillarenv` is the environment of the pillar, if the minion requested one.
    pub fn store(&self, id: &MinionId, grains: Map, pillar: Map, pillarenv: Option<&str>) -> Result<()> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.store(id, grains, pillar, pillarenv)?),
            Kind::Remote(remote) => remote.store(id, grains, pillar, pillarenv),
        }
    }

    /// Replaces the mine of a minion.
    pub fn store_mine(&self, id: &MinionId, mine: Map) -> Result<()> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.store_mine(id, mine)?),
            Kind::Remote(remote) => remote.store_mine(id, mine),
        }
    }

    /// Removes the mine of a minion, and returns whether it existed.
    pub fn remove_mine(&self, id: &MinionId) -> Result<bool> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.remove_mine(id)?),
            Kind::Remote(remote) => remote.remove_mine(id),
        }
    }

    /// Removes grains and pillar of a minion, for instance when its key is deleted. In the layout of 3006 and 3007 the mine
    /// is removed too.
    pub fn remove(&self, id: &MinionId) -> Result<()> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.remove(id)?),
            Kind::Remote(remote) => remote.remove(id),
        }
    }

    /// Removes grains or pillar of a minion.
    pub fn remove_part(&self, part: Part, id: &MinionId) -> Result<()> {
        let files = match &self.0 {
            Kind::Local { files, .. } => files,
            Kind::Remote(remote) => return remote.remove_part(part, id).map(drop),
        };
        files.delete(part.name(), id.as_str())?;
        // Before 3008, grains and pillar are in one file.
        let bank = format!("minions/{id}");
        let Some(Value::Map(mut data)) = files.fetch(&bank, "data", SystemTime::now())? else { return Ok(()) };
        if data.remove(part.name()).is_none() {
            return Ok(());
        }
        match data.is_empty() {
            // An empty file would still list the minion as one with cached data.
            true => files.delete(&bank, "data")?,
            false => files.put(&bank, "data", &pack(&data.into(), Packing::Bin), Precondition::None)?,
        };
        Ok(())
    }

    /// Returns the ids with cached data, in alphabetical order.
    pub fn ids(&self) -> Result<Vec<String>> {
        match &self.0 {
            Kind::Local { data, .. } => Ok(data.ids()?),
            Kind::Remote(remote) => remote.ids(),
        }
    }

    /// Returns the value under a key. An expired value counts as absent.
    pub fn fetch(&self, bank: &str, key: &str, now: SystemTime) -> Result<Option<Value>> {
        match &self.0 {
            Kind::Local { files, .. } => Ok(files.fetch(bank, key, now)?),
            Kind::Remote(remote) => remote.fetch(bank, key),
        }
    }

    /// Returns when a value was last written.
    pub fn updated(&self, bank: &str, key: &str) -> Result<Option<SystemTime>> {
        match &self.0 {
            Kind::Local { files, .. } => Ok(files.updated(bank, key)?),
            Kind::Remote(remote) => remote.updated(bank, key),
        }
    }

    /// Writes a value.
    pub fn put(&self, bank: &str, key: &str, value: &Value) -> Result<()> {
        match &self.0 {
            Kind::Local { files, .. } => {
                files.put(bank, key, &pack(value, Packing::Bin), Precondition::None)?;
                Ok(())
            }
            Kind::Remote(remote) => remote.put(bank, key, value),
        }
    }

    /// Removes a value, and returns whether it existed.
    pub fn delete(&self, bank: &str, key: &str) -> Result<bool> {
        match &self.0 {
            Kind::Local { files, .. } => Ok(files.delete(bank, key)?),
            Kind::Remote(remote) => remote.delete(Place::new(bank, key)),
        }
    }

    /// Removes a bank with the banks below it, and returns whether it existed.
    pub fn flush(&self, bank: &str) -> Result<bool> {
        match &self.0 {
            Kind::Local { files, .. } => Ok(files.flush(bank)?),
            Kind::Remote(remote) => remote.flush(bank.to_owned()),
        }
    }

    /// Returns the keys of a bank in alphabetical order.
    pub fn list(&self, bank: &str) -> Result<Vec<String>> {
        match &self.0 {
            Kind::Local { files, .. } => Ok(files.list(bank)?),
            Kind::Remote(remote) => remote.list(bank),
        }
    }

    /// Returns whether the values are on a server, so that a directory on this host does not matter.
    pub fn is_remote(&self) -> bool {
        matches!(self.0, Kind::Remote(_))
    }
}

fn one(remote: &Remote, part: Part, id: &MinionId) -> Result<Option<Arc<Map>>> {
    Ok(remote.read(part, &[id.as_str()])?.remove(id.as_str()))
}
