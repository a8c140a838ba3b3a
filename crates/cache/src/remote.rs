//! The data of minions on a server that several masters share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::try_join_all;
use store::Layout;
use store::minion_data::{pillar_bank, pillar_place};
use value::{Map, Value, map};
use wire::MinionId;
use wire::msgpack::{Decode, Packing, pack, unpack};

use crate::link::Link;
use crate::memory::Memory;
use crate::{Error, Part, Place, Result};

/// The key of grains and pillar in the layout of 3006 and 3007.
const DATA: &str = "data";

/// The cache on a server.
pub(crate) struct Remote {
    link: Link,
    layout: Layout,
    memory: Memory,
    /// The number of environments for which the pillar of a minion is kept; 0 for any number.
    most_environments: usize,
}

impl Remote {
    pub(crate) fn new(link: Link, layout: Layout, memory: Memory, most_environments: usize) -> Self {
        Remote { link, layout, memory, most_environments }
    }

    /// Returns where a part of a minion's data is.
    fn place(&self, part: Part, id: &str) -> Place {
        match (self.layout, part) {
            (Layout::Since3008, _) => Place::new(part.name(), id),
            (Layout::Until3007, Part::Mine) => Place::new(format!("minions/{id}"), part.name()),
            (Layout::Until3007, Part::Grains | Part::Pillar) => Place::new(format!("minions/{id}"), DATA),
        }
    }

    /// Reads a part of the data of several minions in one request.
    pub(crate) fn read(&self, part: Part, ids: &[&str]) -> Result<HashMap<String, Arc<Map>>> {
        let places = ids.iter().map(|id| self.place(part, id)).collect();
        let maps = self.maps(places)?;
        let parts = ids.iter().zip(maps).filter_map(|(id, map)| {
            let map = map?;
            let inside = self.layout == Layout::Until3007 && part != Part::Mine;
            let map = if inside { Arc::new(map.get(part.name())?.as_map()?.clone()) } else { map };
            Some(((*id).to_owned(), map))
        });
        Ok(parts.collect())
    }

    fn maps(&self, places: Vec<Place>) -> Result<Vec<Option<Arc<Map>>>> {
        let now = Instant::now();
        let mut found: Vec<Option<Option<Arc<Map>>>> = places.iter().map(|place| self.memory.get(place, now)).collect();
        let asked: Vec<Place> =
            places.into_iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(place, _)| place).collect();
        if !asked.is_empty() {
            let (asked, values) = self.link.ask(|banks| async move {
                let values = banks.fetch(&asked).await?;
                Ok((asked, values))
            })?;
            let mut answers = asked.into_iter().zip(values).map(|(place, content)| {
                let map = self.decoded(&place, content).unwrap_or_else(|error| {
                    // One bad value must not hide those of all other minions.
                    tracing::warn!("{error}");
                    None
                });
                let map = map.and_then(Value::into_map).map(Arc::new);
                self.memory.put(place, map.clone(), now);
                map
            });
            for missing in found.iter_mut().filter(|found| found.is_none()) {
                *missing = Some(answers.next().flatten());
            }
        }
        Ok(found.into_iter().map(Option::flatten).collect())
    }

    fn decoded(&self, place: &Place, content: Option<Vec<u8>>) -> Result<Option<Value>> {
        let Some(content) = content else { return Ok(None) };
        let content = self.link.banks().value(content.into());
        let value = content.and_then(|content| unpack(&content, Decode::Default).map_err(|error| error.to_string()));
        let value =
            value.map_err(|reason| Error::Malformed { driver: self.link.driver(), place: place.clone(), reason })?;
        Ok(store::unexpired(value, SystemTime::now()))
    }

    /// Stores grains and pillar, as [`store::minion_data::MinionDataCache::store`] does.
    pub(crate) fn store(&self, id: &MinionId, mut grains: Map, pillar: Map, pillarenv: Option<&str>) -> Result<()> {
        // A minion may claim any grain, but it must not be targeted, or given pillar, under the id of another.
        grains.insert("id", id.as_str());
        let values = match self.layout {
            Layout::Until3007 => {
                let data = map! { "grains" => grains, "pillar" => pillar };
                vec![(self.place(Part::Grains, id.as_str()), data)]
            }
            Layout::Since3008 => {
                let (bank, key) = pillar_place(id.as_str(), pillarenv);
                let pillar_place = checked(bank, key)?;
                if pillarenv.is_some() {
                    self.make_room(&pillar_place)?;
                }
                vec![(self.place(Part::Grains, id.as_str()), grains), (pillar_place, pillar)]
            }
        };
        self.write(values)
    }

    pub(crate) fn store_mine(&self, id: &MinionId, mine: Map) -> Result<()> {
        self.write(vec![(self.place(Part::Mine, id.as_str()), mine)])
    }

    fn write(&self, values: Vec<(Place, Map)>) -> Result<()> {
        for (place, _) in &values {
            self.memory.forget(place);
        }
        let values: Vec<_> = values.into_iter().map(|(place, map)| (place, pack(&map.into(), Packing::Wire))).collect();
        let now = seconds();
        self.link.ask(|banks| async move {
            let writes = values.iter().map(|(place, value)| banks.store(place, value.clone(), now));
            try_join_all(writes).await.map(drop)
        })
    }

    /// Minions choose the environments of their pillar, so the oldest ones are removed when there are too many.
    fn make_room(&self, place: &Place) -> Result<()> {
        if self.most_environments == 0 {
            return Ok(());
        }
        let (place, most) = (place.clone(), self.most_environments);
        self.link.ask(|banks| async move {
            let names = banks.list(&place.bank).await?;
            if names.len() < most || names.contains(&place.key) {
                return Ok(());
            }
            let surplus = names.len() + 1 - most;
            let kept: Vec<Place> = names.into_iter().map(|name| Place::new(place.bank.as_str(), name)).collect();
            let times = try_join_all(kept.iter().map(|kept| banks.updated(kept))).await?;
            let mut by_age: Vec<_> = times.into_iter().zip(&kept).collect();
            by_age.sort_by_key(|(updated, _)| *updated);
            try_join_all(by_age.into_iter().take(surplus).map(|(_, oldest)| banks.flush(oldest))).await.map(drop)
        })
    }

    pub(crate) fn remove_mine(&self, id: &MinionId) -> Result<bool> {
        self.delete(self.place(Part::Mine, id.as_str()))
    }

    /// Removes grains and pillar of a minion; in the layout of 3006 and 3007 the mine, too.
    pub(crate) fn remove(&self, id: &MinionId) -> Result<()> {
        match self.layout {
            Layout::Until3007 => self.flush(format!("minions/{id}")).map(drop),
            Layout::Since3008 => {
                let environments = pillar_bank(id.as_str());
                let places = [Part::Grains, Part::Pillar].map(|part| self.place(part, id.as_str()));
                places.iter().for_each(|place| self.memory.forget(place));
                self.memory.forget_bank(&environments);
                self.link.ask(|banks| async move {
                    try_join_all(places.iter().map(|place| banks.flush(place))).await?;
                    banks.flush_bank(&environments).await.map(drop)
                })
            }
        }
    }

    /// Removes a part of a minion's data. Returns whether it existed.
    pub(crate) fn remove_part(&self, part: Part, id: &MinionId) -> Result<bool> {
        let place = self.place(part, id.as_str());
        if self.layout == Layout::Since3008 || part == Part::Mine {
            return self.delete(place);
        }
        let Some(data) = self.maps(vec![place.clone()])?.pop().flatten() else { return Ok(false) };
        let mut data = (*data).clone();
        let existed = data.remove(part.name()).is_some();
        match data.is_empty() {
            true => self.delete(place)?,
            false => self.write(vec![(place, data)]).map(|()| true)?,
        };
        Ok(existed)
    }

    /// Returns the ids with cached data, in alphabetical order.
    pub(crate) fn ids(&self) -> Result<Vec<String>> {
        self.list(match self.layout {
            Layout::Until3007 => "minions",
            Layout::Since3008 => Part::Grains.name(),
        })
    }

    pub(crate) fn list(&self, bank: &str) -> Result<Vec<String>> {
        let bank = checked(bank.to_owned(), "any".to_owned())?.bank;
        let mut names = self.link.ask(|banks| async move { banks.list(&bank).await })?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    pub(crate) fn fetch(&self, bank: &str, key: &str) -> Result<Option<Value>> {
        let place = checked(bank.to_owned(), key.to_owned())?;
        let (place, values) = self.link.ask(|banks| async move {
            let places = [place];
            let values = banks.fetch(&places).await?;
            let [place] = places;
            Ok((place, values))
        })?;
        self.decoded(&place, values.into_iter().next().flatten())
    }

    pub(crate) fn updated(&self, bank: &str, key: &str) -> Result<Option<SystemTime>> {
        let place = checked(bank.to_owned(), key.to_owned())?;
        let at = self.link.ask(|banks| async move { banks.updated(&place).await })?;
        let since = at.and_then(|at| u64::try_from(at).ok()).map(Duration::from_secs);
        Ok(since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)))
    }

    pub(crate) fn put(&self, bank: &str, key: &str, value: &Value) -> Result<()> {
        let place = checked(bank.to_owned(), key.to_owned())?;
        self.memory.forget(&place);
        let (packed, now) = (pack(value, Packing::Wire), seconds());
        self.link.ask(|banks| async move { banks.store(&place, packed, now).await })
    }

    pub(crate) fn delete(&self, place: Place) -> Result<bool> {
        let place = checked(place.bank, place.key)?;
        self.memory.forget(&place);
        self.link.ask(|banks| async move { banks.flush(&place).await })
    }

    pub(crate) fn flush(&self, bank: String) -> Result<bool> {
        let bank = checked(bank, "any".to_owned())?.bank;
        self.memory.forget_bank(&bank);
        self.link.ask(|banks| async move { banks.flush_bank(&bank).await })
    }
}

/// Seconds since 1970.
fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Refuses names that `localfs` refuses, too: they would mean another place in some layouts.
fn checked(bank: String, key: String) -> Result<Place> {
    for name in [&bank, &key] {
        let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
        if name.len() > 4096 || name.split('/').any(bad) {
            return Err(Error::BadName { name: name.chars().take(64).collect() });
        }
    }
    Ok(Place { bank, key })
}
