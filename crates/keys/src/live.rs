//! The keys of a running master, cached in memory until the files change.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crypto::{HashType, PublicKey, clean_key};
use wire::MinionId;

use crate::watch::{Changes, Watch};
use crate::{Bank, KeyError, KeyState, KeyStore, Listing};

/// The keys of minions with a cache in memory. Cheap to clone.
///
/// Every answer reflects the files as they are now. Changes made by hand, by `salt-key` or by rsync are noticed at the
/// next call, which does not touch the disk if nothing has changed.
#[derive(Clone, Debug)]
pub struct LiveKeys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: KeyStore,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    watch: Watch,
    /// Counts changes, so that data read before a change is not cached after it.
    generation: u64,
    accepted: HashMap<MinionId, AcceptedKey>,
    listing: Option<Arc<Listing>>,
}

/// An accepted key.
#[derive(Clone, Debug)]
struct AcceptedKey {
    key: Arc<PublicKey>,
    /// The digest of the normalised text. Comparing digests is cheaper than parsing a key or reading a file.
    digest: Vec<u8>,
    version: Version,
}

fn digest(text: &str) -> Vec<u8> {
    HashType::Sha256.digest(clean_key(text).as_bytes())
}

type Version = (u64, u64, i64, i64);

fn version(file: &Metadata) -> Version {
    (file.ino(), file.size(), file.mtime(), file.mtime_nsec())
}

impl LiveKeys {
    /// Starts to watch the directories of a store.
    pub fn new(store: KeyStore) -> Self {
        let watch = Watch::new(Bank::ALL.map(|bank| store.bank_path(bank)).into());
        Self::with_watch(store, watch)
    }

    fn with_watch(store: KeyStore, watch: Watch) -> Self {
        let memory = Memory { watch, generation: 0, accepted: HashMap::new(), listing: None };
        LiveKeys(Arc::new(Inner { store, memory: Mutex::new(memory) }))
    }

    /// Returns the key files, to change them or to read them without the cache.
    pub fn store(&self) -> &KeyStore {
        &self.0.store
    }

    /// Returns the ids in all directories.
    pub fn list(&self) -> Result<Arc<Listing>, KeyError> {
        let generation = {
            let memory = self.current();
            if let Some(listing) = &memory.listing {
                return Ok(Arc::clone(listing));
            }
            memory.generation
        };
        // Without the lock: listing a large directory must not hold up sign-ins.
        let listing = Arc::new(self.0.store.list()?);
        let mut memory = self.current();
        if memory.generation == generation {
            // Only if nothing changed while the directories were read, or a stale list would stay.
            memory.listing = Some(Arc::clone(&listing));
        }
        Ok(listing)
    }

    /// Returns the key of an accepted minion; `None` when its key is not accepted. A file that holds no key is an
    /// error.
    pub fn accepted_key(&self, id: &MinionId) -> Result<Option<Arc<PublicKey>>, KeyError> {
        let (known, generation, trusts_memory) = {
            let memory = self.current();
            (memory.accepted.get(id).cloned(), memory.generation, memory.watch.reports_files())
        };
        let path = self.0.store.path(Bank::Accepted, id);
        if let Some(known) = known {
            // Without reports about files the file has to be looked at.
            if trusts_memory || fs::symlink_metadata(&path).is_ok_and(|file| version(&file) == known.version) {
                return Ok(Some(known.key));
            }
        }
        // Before the content is read. If the file changes in between, the stored version does not fit, and the next
        // call reads again.
        let file = fs::symlink_metadata(&path).ok();
        let Some(stored) = self.0.store.find(id)?.filter(|stored| stored.state == KeyState::Accepted) else {
            return Ok(None);
        };
        let parsed = PublicKey::from_pem(stored.text.as_bytes());
        let key = Arc::new(parsed.map_err(|source| KeyError::Unreadable { path, source })?);
        // What a link points to may change without a report.
        if let Some(file) = file.filter(|file| file.is_file()) {
            let known = AcceptedKey { key: Arc::clone(&key), digest: digest(&stored.text), version: version(&file) };
            self.remember(id, known, generation);
        }
        Ok(Some(key))
    }

    /// Returns the files of accepted keys that contain no valid key. Reads all of them and caches nothing.
    pub fn corrupt(&self) -> Result<Vec<PathBuf>, KeyError> {
        let mut corrupt = Vec::new();
        for id in self.list()?.ids(Bank::Accepted) {
            // Somebody may have removed it since the list was made.
            let Some(text) = self.0.store.read(Bank::Accepted, id)? else { continue };
            if PublicKey::from_pem(text.as_bytes()).is_err() {
                corrupt.push(self.0.store.path(Bank::Accepted, id));
            }
        }
        Ok(corrupt)
    }

    /// Returns the key of an accepted minion that sent this text, if the cache alone can decide. `None` says nothing
    /// about the key: the caller must read the files.
    pub fn recognise(&self, id: &MinionId, text: &str) -> Option<Arc<PublicKey>> {
        let shown = digest(text);
        let memory = self.current();
        let known = memory.accepted.get(id).filter(|known| memory.watch.reports_files() && known.digest == shown)?;
        Some(Arc::clone(&known.key))
    }

    fn remember(&self, id: &MinionId, known: AcceptedKey, generation: u64) {
        let mut memory = self.current();
        if memory.generation == generation {
            memory.accepted.insert(id.clone(), known);
        }
    }

    /// Locks the cache and removes entries that have changed on disk. Reading the kernel's reports does not block.
    fn current(&self) -> MutexGuard<'_, Memory> {
        let mut memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = memory.watch.changes();
        memory.forget(&changes);
        memory
    }
}

impl Memory {
    fn forget(&mut self, changes: &Changes) {
        // Called at every question; most of the time nothing has happened.
        if changes.directories.is_empty() && !changes.all {
            return;
        }
        self.generation += 1;
        self.listing = None;
        if changes.all {
            self.accepted.clear();
        }
        for name in &changes.names {
            if let Ok(id) = MinionId::new(name.as_str()) {
                self.accepted.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::Owner;
    use crate::testing::public_key;

    fn live() -> (tempfile::TempDir, LiveKeys) {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::default());
        store.prepare().unwrap();
        (dir, LiveKeys::new(store))
    }

    fn without_events(dir: &Path) -> LiveKeys {
        let store = KeyStore::new(dir, Owner::default());
        let watch = Watch::by_times(Bank::ALL.map(|bank| store.bank_path(bank)).into());
        LiveKeys::with_watch(store, watch)
    }

    fn id(text: &str) -> MinionId {
        MinionId::new(text).unwrap()
    }

    fn accepted(live: &LiveKeys) -> Vec<String> {
        live.list().unwrap().ids(Bank::Accepted).iter().map(ToString::to_string).collect()
    }

    /// Checks that manual changes are noticed at once.
    fn changes_by_hand_are_seen(live: &LiveKeys) {
        let web = id("web1");
        let (first, second) = (public_key(0), public_key(1));
        let key = |text: &str| PublicKey::from_pem(text.as_bytes()).unwrap();
        let path = live.store().path(Bank::Accepted, &web);
        assert_eq!(live.accepted_key(&web).unwrap(), None);
        assert!(accepted(live).is_empty());

        fs::write(&path, &first).unwrap();
        assert_eq!(*live.accepted_key(&web).unwrap().unwrap(), key(&first));
        assert_eq!(accepted(live), ["web1"]);

        fs::write(&path, &second).unwrap();
        assert_eq!(*live.accepted_key(&web).unwrap().unwrap(), key(&second));

        let passing = live.store().dir().join("passing");
        fs::write(&passing, &first).unwrap();
        // `mv` and rsync replace a file without opening it for writing.
        fs::rename(&passing, &path).unwrap();
        assert_eq!(*live.accepted_key(&web).unwrap().unwrap(), key(&first));

        fs::write(live.store().path(Bank::Rejected, &web), &first).unwrap();
        assert_eq!(live.accepted_key(&web).unwrap(), None);
        fs::remove_file(live.store().path(Bank::Rejected, &web)).unwrap();
        assert!(live.accepted_key(&web).unwrap().is_some());

        fs::remove_file(&path).unwrap();
        assert_eq!(live.accepted_key(&web).unwrap(), None);
        assert!(accepted(live).is_empty());
    }

    #[test]
    fn changes_by_hand_are_seen_through_events() {
        let (_dir, live) = live();
        assert!(live.current().watch.reports_files());
        changes_by_hand_are_seen(&live);
    }

    #[test]
    fn changes_by_hand_are_seen_without_events() {
        let (dir, _) = live();
        changes_by_hand_are_seen(&without_events(dir.path()));
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let (_dir, live) = live();
        live.store().put(&id("web1"), KeyState::Accepted, &public_key(0)).unwrap();
        let first = live.accepted_key(&id("web1")).unwrap().unwrap();
        live.store().put(&id("web2"), KeyState::Accepted, &public_key(1)).unwrap();
        let second = live.accepted_key(&id("web1")).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&live.list().unwrap(), &live.list().unwrap()));
    }

    #[test]
    fn a_minion_is_recognised_until_its_file_changes() {
        let (dir, live) = live();
        let web = id("web1");
        let (first, second) = (public_key(0), public_key(1));
        live.store().put(&web, KeyState::Accepted, &first).unwrap();
        assert!(live.recognise(&web, &first).is_none(), "nothing was read yet");
        let read = live.accepted_key(&web).unwrap().unwrap();
        assert!(live.recognise(&web, &first.replace('\n', "\r\n")).is_some_and(|key| Arc::ptr_eq(&key, &read)));
        assert!(live.recognise(&web, &second).is_none());
        live.store().put(&web, KeyState::Accepted, &second).unwrap();
        assert!(live.recognise(&web, &first).is_none());
        live.accepted_key(&web).unwrap();
        fs::write(live.store().path(Bank::Rejected, &web), &second).unwrap();
        assert!(live.recognise(&web, &second).is_none());
        let blind = without_events(dir.path());
        fs::remove_file(live.store().path(Bank::Rejected, &web)).unwrap();
        assert!(blind.accepted_key(&web).unwrap().is_some() && blind.recognise(&web, &second).is_none());
    }

    #[test]
    fn the_target_of_a_link_may_change() {
        let (dir, live) = live();
        let target = dir.path().join("shared");
        fs::write(&target, public_key(0)).unwrap();
        symlink(&target, live.store().path(Bank::Accepted, &id("web1"))).unwrap();
        let before = live.accepted_key(&id("web1")).unwrap().unwrap();
        fs::write(&target, public_key(1)).unwrap();
        assert_ne!(before, live.accepted_key(&id("web1")).unwrap().unwrap());
    }

    #[test]
    fn a_file_without_a_key_is_named() {
        let (_dir, live) = live();
        fs::write(live.store().path(Bank::Accepted, &id("web1")), "nonsense").unwrap();
        let error = live.accepted_key(&id("web1")).unwrap_err().to_string();
        assert!(error.contains("minions/web1"), "{error}");
        live.store().put(&id("web2"), KeyState::Accepted, &public_key(0)).unwrap();
        assert_eq!(live.corrupt().unwrap(), [live.store().path(Bank::Accepted, &id("web1"))]);
    }

    #[test]
    fn directories_may_come_later() {
        let dir = tempfile::tempdir().unwrap();
        let live = LiveKeys::new(KeyStore::new(dir.path().join("pki"), Owner::default()));
        assert!(accepted(&live).is_empty());
        live.store().prepare().unwrap();
        live.store().put(&id("web1"), KeyState::Accepted, &public_key(0)).unwrap();
        assert_eq!(accepted(&live), ["web1"]);
    }
}
