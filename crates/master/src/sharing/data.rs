//! Grains, pillar and mine of minions, as records and in the data cache.
//!
//! Pillars of environments stay where they were compiled: no target looks at them.

use bytes::Bytes;
use cache::{Cache, Part};
use share::{Change, Class, Content, Key, Records as _};
use tracing::warn;
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Packing, pack_map_into};

use super::worker::Worker;
use crate::outgoing::{ChangedData, shares_data, unpacked};

/// The parts that are shared.
const PARTS: [Part; 3] = [Part::Grains, Part::Pillar, Part::Mine];

/// The layout of 3006 and 3007, in the option `cache_layout`.
const OLD_LAYOUT: i64 = 3006;

impl Worker {
    /// Returns the record of what the cache says now; `None` if the records say the same.
    pub(super) fn data_change(&self, part: &str, id: &MinionId) -> Option<Change> {
        let part = PARTS.into_iter().find(|known| known.name() == part)?;
        let key = Key::of_data(part.name(), id.as_str(), None)?;
        let data = &self.shared.stores.data;
        let found = match part {
            Part::Grains => data.grains(id),
            Part::Pillar => data.pillar(id),
            Part::Mine => data.mine(id),
        };
        let found = found.unwrap_or_else(|error| {
            warn!(minion = %id, "the {} of {id} are not shared: {}", part.name(), crate::chain(&error));
            None
        });
        match found {
            Some(map) => {
                let mut packed = Vec::new();
                pack_map_into(&mut packed, &map, Packing::Bin);
                Some(Change::Write(key, Content::Data(Some(packed.into()))))
            }
            None => self.has_data(&key).then(|| Change::Write(key, Content::Data(None))),
        }
    }

    /// Makes records of what a program has changed in the data cache. Returns how many parts of it were looked at.
    pub(super) fn data_changed(&mut self, ids: &[MinionId]) -> Result<usize, String> {
        if !shares_data(&self.shared.stores.config, &self.shared.stores.data) {
            return Ok(0);
        }
        let changes = ids.iter().flat_map(|id| PARTS.map(|part| self.data_change(part.name(), id))).flatten();
        let changes: Vec<Change> = changes.collect();
        let count = changes.len();
        match self.write_records(changes) {
            true => Ok(count),
            false => Err("the records could not be stored: see the log of the master".to_owned()),
        }
    }

    /// Says that the data of minions are gone with their keys. With `preserve_minion_cache` they stay in the cache of this master.
    pub(super) fn forget_shared_data(&mut self, ids: &[Key]) {
        let keys = ids.iter().filter(|id| self.model.entry(Class::Keys, id).present().is_none());
        let keys = keys.flat_map(|id| PARTS.map(|part| Key::of_data(part.name(), id.as_str(), None))).flatten();
        let gone: Vec<Key> = keys.filter(|key| self.has_data(key)).collect();
        for key in &gone {
            if let Some(Err(error)) = self.write_data(key, None) {
                warn!("the {key} of a deleted minion are not removed: {}", crate::chain(&error));
            }
        }
        self.write_records(gone.into_iter().map(|key| Change::Write(key, Content::Data(None))).collect());
    }

    /// Returns whether records have data that were not removed.
    fn has_data(&self, key: &Key) -> bool {
        self.model.records().get(Class::Data, key).is_some_and(|record| !record.is_tombstone())
    }

    /// Writes data of a minion that another master got; `None` if the record is malformed.
    pub(super) fn write_data(&self, key: &Key, value: Option<&Bytes>) -> Option<cache::Result<()>> {
        let (part, id) = place(key)?;
        let config = &self.shared.stores.config;
        // This master compiles what it gives to its minions from this cache.
        if part == Part::Pillar && config.pillar.pillar_cache && value.is_some() {
            return Some(Ok(()));
        }
        let cache = &self.shared.stores.data;
        let Some(packed) = value else {
            let deleted = Key::new(id.as_str()).is_none_or(|id| self.model.entry(Class::Keys, &id).present().is_none());
            if deleted && config.keys.preserve_minion_cache {
                return Some(Ok(()));
            }
            return Some(match part {
                Part::Mine => cache.remove_mine(&id).map(drop),
                part => cache.remove_part(part, &id),
            });
        };
        let old = config.raw.get("cache_layout").and_then(Value::as_i64) == Some(OLD_LAYOUT);
        Some(write(cache, part, &id, unpacked(packed)?, old))
    }
}

/// Returns what a key is about; `None` for parts that are not shared.
fn place(key: &Key) -> Option<(Part, MinionId)> {
    let (part, id) = key.parts()?;
    let part = PARTS.into_iter().find(|known| known.name() == part)?;
    Some((part, MinionId::new(id).ok()?))
}

fn write(cache: &Cache, part: Part, id: &MinionId, mut map: Map, old_layout: bool) -> cache::Result<()> {
    let read = |found: cache::Result<Option<std::sync::Arc<Map>>>| {
        found.map(|map| map.map(|map| (*map).clone()).unwrap_or_default())
    };
    if part == Part::Grains {
        // Whatever they say.
        map.insert("id", id.as_str());
    }
    match part {
        Part::Mine => cache.store_mine(id, map),
        // One file holds both.
        Part::Grains if old_layout => cache.store(id, map, read(cache.pillar(id))?, None),
        Part::Pillar if old_layout => cache.store(id, read(cache.grains(id))?, map, None),
        part => cache.put(part.name(), id.as_str(), &map.into()),
    }
}

/// Returns which data a key of a record is about.
pub fn changed(key: &Key) -> Option<ChangedData> {
    place(key).map(|(part, id)| (part.name(), id))
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn parts_are_written_one_by_one_in_both_layouts() {
        let id = MinionId::new("web1").unwrap();
        for old_layout in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let layout = if old_layout { 3006 } else { 3008 };
            let options = map! { "cachedir" => dir.path().to_str().unwrap(), "cache_layout" => layout, "id" => "m" };
            let cache = Cache::of_master(&config::Master::from_options(options).unwrap()).unwrap();
            write(&cache, Part::Grains, &id, map! { "os" => "Debian", "id" => "forged" }, old_layout).unwrap();
            write(&cache, Part::Pillar, &id, map! { "a" => 1 }, old_layout).unwrap();
            write(&cache, Part::Mine, &id, map! { "m" => 2 }, old_layout).unwrap();
            assert_eq!(*cache.grains(&id).unwrap().unwrap(), map! { "os" => "Debian", "id" => "web1" });
            assert_eq!(*cache.pillar(&id).unwrap().unwrap(), map! { "a" => 1 });
            assert_eq!(*cache.mine(&id).unwrap().unwrap(), map! { "m" => 2 });
        }
    }

    #[test]
    fn keys_of_other_parts_and_environments_are_passed_over() {
        let place = |text: &str| place(&Key::new(text).unwrap());
        assert!(place("grains/web1").is_some_and(|(part, id)| part == Part::Grains && id.as_str() == "web1"));
        assert!(place("pillar/web1/dev").is_none() && place("tokens/web1").is_none() && place("web1").is_none());
    }
}
