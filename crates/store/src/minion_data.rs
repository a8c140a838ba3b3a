//! The minion data cache of a master: grains, pillar, mine.
//!
//! 3008 keeps each in a separate bank (`grains/<id>.p`, `pillar/<id>.p`, `mine/<id>.p`). 3006 and 3007 keep grains and
//! pillar together in `minions/<id>/data.p`, with the mine beside it. One layout is written, both are read, so that
//! targeting continues to work after an upgrade. Maps that are not large are cached in memory until their file changes.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use value::{Map, Value, map};
use wire::MinionId;

use crate::disk::{self, Writing};
use crate::local_fs::unexpired;
use crate::{Error, Layout, Result};

/// The bank of pillars of environments. Salt uses `pillar/<id>:<env>.p`, which can clash with the pillar of a minion
/// whose id contains a colon.
const ENVIRONMENTS: &str = "pillar_env";

/// The default of [`MinionDataCache::with_most_environments`].
pub const MOST_ENVIRONMENTS: usize = 32;

/// Returns the bank of the pillars of a minion's environments.
pub fn pillar_bank(id: &str) -> String {
    format!("{ENVIRONMENTS}/{id}")
}

/// The largest file, in bytes, whose map stays in memory. Grains and mines usually have some kilobytes, but every minion may store
/// many megabytes.
const LARGEST_IN_MEMORY: u64 = 1 << 20;

/// Returns the bank and key of a cached pillar.
pub fn pillar_place(id: &str, pillarenv: Option<&str>) -> (String, String) {
    match pillarenv {
        None => ("pillar".to_owned(), id.to_owned()),
        // `%` is escaped as well, so that two environments never share a file.
        Some(env) => (pillar_bank(id), env.replace('%', "%25").replace('/', "%2F")),
    }
}

/// The minion data cache of a master.
#[derive(Debug)]
pub struct MinionDataCache {
    cachedir: PathBuf,
    layout: Layout,
    most_environments: usize,
    read: Mutex<HashMap<PathBuf, CachedMap>>,
}

/// A map with the state of its file when it was read.
#[derive(Debug)]
struct CachedMap {
    stamp: Stamp,
    map: Option<Arc<Map>>,
}

/// The attributes that change when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    inode: u64,
    len: u64,
}

impl MinionDataCache {
    /// Returns the cache in a master's `cachedir`, which writes one layout and reads both.
    pub fn new(cachedir: impl Into<PathBuf>, layout: Layout) -> Self {
        let most_environments = MOST_ENVIRONMENTS;
        MinionDataCache { cachedir: cachedir.into(), layout, most_environments, read: Mutex::default() }
    }

    /// Sets the maximum number of environments for which the pillar of a minion is kept; 0 means no limit.
    #[must_use]
    pub fn with_most_environments(self, most_environments: usize) -> Self {
        MinionDataCache { most_environments, ..self }
    }

    /// Returns the grains of a minion.
    pub fn grains(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        self.first(id, "grains", &self.bank("grains", id.as_str()))
    }

    /// Returns the pillar of a minion.
    pub fn pillar(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        self.first(id, "pillar", &self.bank("pillar", id.as_str()))
    }

    /// Returns the mine of a minion.
    pub fn mine(&self, id: &MinionId) -> Result<Option<Arc<Map>>> {
        let (old, new) = (self.old_directory(id).join("mine.p"), self.bank("mine", id.as_str()));
        let (first, second) = if self.layout == Layout::Since3008 { (new, old) } else { (old, new) };
        match self.map_of(&first)? {
            Some(map) => Ok(Some(map)),
            None => self.map_of(&second),
        }
    }

    /// Stores grains and pillar. In the grains, `id` becomes the minion's authenticated id.
    ///
    /// `pillarenv` is the environment of the pillar, if the minion asked for one.
    pub fn store(&self, id: &MinionId, mut grains: Map, pillar: Map, pillarenv: Option<&str>) -> Result<()> {
        // A minion may claim any grain, but it must not be targeted, or given pillar, under the id of another.
        grains.insert("id", id.as_str());
        match self.layout {
            Layout::Until3007 => {
                let data = map! { "grains" => grains, "pillar" => pillar };
                self.write(&self.old_directory(id).join("data.p"), data)
            }
            Layout::Since3008 => {
                let (bank, key) = pillar_place(id.as_str(), pillarenv);
                // Checked before anything is written: the minion chose the name of the environment.
                let pillar_file = disk::join_inside(&self.cachedir.join(bank), &format!("{key}.p"), "pillarenv")?;
                self.write(&self.bank("grains", id.as_str()), grains)?;
                if pillarenv.is_some() && !pillar_file.exists() {
                    self.make_room(id)?;
                }
                self.write(&pillar_file, pillar)
            }
        }
    }

    /// Minions choose the environments of their pillar, so the oldest ones are removed when there are too many.
    fn make_room(&self, id: &MinionId) -> Result<()> {
        let directory = self.environments(id);
        let mut names = disk::text_names(&directory)?;
        if self.most_environments == 0 || names.len() < self.most_environments {
            return Ok(());
        }
        names.sort_by_cached_key(|name| {
            std::fs::metadata(directory.join(name)).and_then(|metadata| metadata.modified()).ok()
        });
        let surplus = names.len() + 1 - self.most_environments;
        names.into_iter().take(surplus).try_for_each(|name| disk::remove(&directory.join(name)).map(drop))
    }

    fn environments(&self, id: &MinionId) -> PathBuf {
        self.cachedir.join(ENVIRONMENTS).join(id.as_str())
    }

    /// Replaces the mine of a minion.
    pub fn store_mine(&self, id: &MinionId, mine: Map) -> Result<()> {
        match self.layout {
            Layout::Until3007 => self.write(&self.old_directory(id).join("mine.p"), mine),
            Layout::Since3008 => self.write(&self.bank("mine", id.as_str()), mine),
        }
    }

    /// Removes the mine of a minion in both layouts, and returns whether it existed.
    pub fn remove_mine(&self, id: &MinionId) -> Result<bool> {
        let old = disk::remove(&self.old_directory(id).join("mine.p"))?;
        Ok(disk::remove(&self.bank("mine", id.as_str()))? || old)
    }

    /// Removes grains and pillar of a minion, for instance when its key is deleted. In the old layout the mine is removed too.
    pub fn remove(&self, id: &MinionId) -> Result<()> {
        disk::remove(&self.bank("grains", id.as_str()))?;
        disk::remove(&self.bank("pillar", id.as_str()))?;
        let of_environment = format!("{id}:");
        disk::remove_tree(&self.environments(id))?;
        for name in disk::text_names(&self.cachedir.join("pillar"))? {
            // Salt's name for the pillar of an environment, which could also be that of another minion's pillar.
            let is_of_minion = || self.cachedir.join("grains").join(&name).exists();
            if name.starts_with(&of_environment) && !is_of_minion() {
                disk::remove(&self.cachedir.join("pillar").join(name))?;
            }
        }
        for name in ["data.p", "mine.p"] {
            disk::remove(&self.old_directory(id).join(name))?;
        }
        // Files that the minion pushed are in the same directory and stay.
        let _ = std::fs::remove_dir(self.old_directory(id));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // The next minion with this id must not be matched by cached data of this one.
        read.retain(|path, _| path.exists());
        Ok(())
    }

    /// Returns the ids with cached grains, in alphabetical order.
    pub fn ids(&self) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        for name in disk::text_names(&self.cachedir.join("grains"))? {
            ids.extend(name.strip_suffix(".p").map(str::to_owned));
        }
        let old = self.cachedir.join("minions");
        for name in disk::text_names(&old)? {
            if old.join(&name).join("data.p").is_file() {
                ids.insert(name);
            }
        }
        Ok(ids.into_iter().collect())
    }

    /// Reads a part from its own file or from the common one; that of the written layout first.
    fn first(&self, id: &MinionId, part: &str, own: &Path) -> Result<Option<Arc<Map>>> {
        let common = || -> Result<Option<Arc<Map>>> {
            let data = self.map_of(&self.old_directory(id).join("data.p"))?;
            Ok(data.and_then(|data| data.get(part)?.as_map().cloned().map(Arc::new)))
        };
        match self.layout {
            Layout::Since3008 => self.map_of(own)?.map_or_else(common, |map| Ok(Some(map))),
            // After an upgrade or a downgrade, the other layout is stale but better than no target at all.
            Layout::Until3007 => common()?.map_or_else(|| self.map_of(own), |map| Ok(Some(map))),
        }
    }

    fn map_of(&self, path: &Path) -> Result<Option<Arc<Map>>> {
        let Some(stamp) = stamp(path)? else { return Ok(None) };
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(path).filter(|kept| kept.stamp == stamp) {
            return Ok(kept.map.clone());
        }
        // 3008 wraps values with their expiry; 3006 and 3007 store them bare.
        let value = disk::read_value(path)?.and_then(|value| unexpired(value, SystemTime::now()));
        let map = value.and_then(Value::into_map).map(Arc::new);
        if stamp.len > LARGEST_IN_MEMORY {
            lock().remove(path);
        } else {
            // The stamp is older than the content: if the file changed in between, the next call reads it again.
            lock().insert(path.to_owned(), CachedMap { stamp, map: map.clone() });
        }
        Ok(map)
    }

    fn write(&self, path: &Path, map: Map) -> Result<()> {
        disk::make_directory(path.parent().unwrap_or(&self.cachedir))?;
        disk::write_value(path, &Value::Map(map), Writing::PRIVATE)
    }

    fn bank(&self, bank: &str, key: &str) -> PathBuf {
        self.cachedir.join(bank).join(format!("{key}.p"))
    }

    fn old_directory(&self, id: &MinionId) -> PathBuf {
        self.cachedir.join("minions").join(id.as_str())
    }
}

fn stamp(path: &Path) -> Result<Option<Stamp>> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path) {
        Ok(metadata) => {
            let modified = metadata.modified().map_err(Error::io("read the time of", path))?;
            Ok(Some(Stamp { modified, inode: metadata.ino(), len: metadata.len() }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MinionId {
        MinionId::new("vecminion").unwrap()
    }

    #[test]
    fn pillars_of_environments_are_separate_and_limited() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        let (short, long) = (MinionId::new("ab").unwrap(), MinionId::new("ab:cd").unwrap());
        cache.store(&long, map! {}, map! { "secret" => 1 }, None).unwrap();
        cache.store(&short, map! {}, map! { "own" => 1 }, Some("cd")).unwrap();
        assert_eq!(*cache.pillar(&long).unwrap().unwrap(), map! { "secret" => 1 });
        // With Salt's names, minion `ab` could overwrite the pillar of `ab:cd` by asking for environment `cd`.
        assert_ne!(pillar_place("ab", Some("cd")), pillar_place("ab:cd", None));
        for number in 0..2 * MOST_ENVIRONMENTS {
            cache.store(&short, map! {}, map! {}, Some(&format!("a/{number}"))).unwrap();
        }
        assert_eq!(disk::text_names(&dir.path().join("pillar_env/ab")).unwrap().len(), MOST_ENVIRONMENTS);
        let narrow = MinionDataCache::new(dir.path(), Layout::Since3008).with_most_environments(MOST_ENVIRONMENTS / 2);
        narrow.store(&short, map! {}, map! {}, Some("b")).unwrap();
        assert_eq!(disk::text_names(&dir.path().join("pillar_env/ab")).unwrap().len(), MOST_ENVIRONMENTS / 2);
        cache.remove(&short).unwrap();
        assert!(!dir.path().join("pillar_env/ab").exists());
        assert!(cache.pillar(&long).unwrap().is_some(), "another minion's");
    }

    #[test]
    fn large_maps_do_not_stay_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        for (size, holders) in [(1000, 2), (2 << 20, 1), (1000, 2)] {
            cache.store_mine(&id(), map! { "x" => "y".repeat(size) }).unwrap();
            let mine = cache.mine(&id()).unwrap().unwrap();
            assert_eq!((mine.get_str("x").map(str::len), Arc::strong_count(&mine)), (Some(size), holders));
            assert_eq!(cache.read.lock().unwrap().len(), holders - 1);
        }
    }

    fn recorded(name: &str) -> String {
        let vectors: Value = serde_json::from_str(include_str!("../testdata/misc.json")).unwrap();
        vectors.get(name).unwrap().as_str().unwrap().to_owned()
    }

    fn write(path: &Path, hex: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, hex::decode(hex).unwrap()).unwrap();
    }

    #[test]
    fn both_layouts_are_written_as_recorded_and_read_by_either() {
        let new = ("grains/vecminion.p", "grains_cache_3008 (grains/<id>.p)");
        let old = ("minions/vecminion/data.p", "minion_data_cache_3006_3007 (minions/<id>/data.p)");
        for (layout, (file, vector)) in [(Layout::Since3008, new), (Layout::Until3007, old)] {
            let dir = tempfile::tempdir().unwrap();
            let cache = MinionDataCache::new(dir.path(), layout);
            let grains = map! { "os" => "Debian", "id" => "forged" };
            cache.store(&id(), grains, map! { "a" => 1 }, None).unwrap();
            assert_eq!(hex::encode(std::fs::read(dir.path().join(file)).unwrap()), recorded(vector));
            for reader in [Layout::Since3008, Layout::Until3007] {
                let cache = MinionDataCache::new(dir.path(), reader);
                assert_eq!(cache.grains(&id()).unwrap().unwrap().get_str("id"), Some("vecminion"));
                assert_eq!(cache.pillar(&id()).unwrap().unwrap().get("a"), Some(&Value::Int(1)));
                assert_eq!(cache.ids().unwrap(), ["vecminion"]);
            }
            cache.remove(&id()).unwrap();
            assert_eq!(cache.grains(&id()).unwrap(), None);
            assert_eq!(cache.ids().unwrap(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        assert_eq!(cache.grains(&id()).unwrap(), None);
        for os in ["Debian", "RedHat"] {
            cache.store(&id(), map! { "os" => os }, Map::new(), None).unwrap();
            let (first, second) = (cache.grains(&id()).unwrap().unwrap(), cache.grains(&id()).unwrap().unwrap());
            assert_eq!(first.get_str("os"), Some(os));
            assert!(Arc::ptr_eq(&first, &second));
        }
    }

    #[test]
    fn the_mine_is_read_from_both_places() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        write(&dir.path().join("minions/vecminion/mine.p"), &recorded("mine_3008 (mine/<id>.p)"));
        let mine = cache.mine(&id()).unwrap().unwrap();
        assert_eq!(mine.get("test.ping"), Some(&Value::Bool(true)));
        assert_eq!(mine.get("net").and_then(|net| net.get("__saltmine_acl__")), Some(&Value::Int(1)));
        cache.store_mine(&id(), map! { "x" => 1 }).unwrap();
        assert_eq!(cache.mine(&id()).unwrap().unwrap().get("x"), Some(&Value::Int(1)));
        assert!(cache.remove_mine(&id()).unwrap());
        assert_eq!(cache.mine(&id()).unwrap(), None);
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        write(&dir.path().join("grains/vecminion.p"), "92");
        assert!(cache.grains(&id()).unwrap_err().to_string().contains("grains/vecminion.p"));
    }

    #[test]
    fn pillar_of_an_environment_has_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let cache = MinionDataCache::new(dir.path(), Layout::Since3008);
        cache.store(&id(), Map::new(), map! { "a" => 1 }, Some("dev/x")).unwrap();
        assert!(dir.path().join("pillar_env/vecminion/dev%2Fx.p").is_file());
        cache.store(&id(), Map::new(), Map::new(), Some("../../x")).unwrap();
        assert!(dir.path().join("pillar_env/vecminion/..%2F..%2Fx.p").is_file());
        assert!(cache.store(&id(), Map::new(), Map::new(), Some(&"x".repeat(255))).is_err());
    }
}
