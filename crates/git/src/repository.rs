//! The local copy of a remote.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::lock::{Lock, LockType};
use crate::object::{Kind, Objects};
use crate::program::{Fetch, Git};
use crate::remote::RefType;
use crate::snapshot::Stamp;
use crate::tree::Trees;
use crate::{Error, Oid, Remote, Result, Snapshot, Tree, configuration};

/// The result of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// There are new references.
    Changed,
    /// Nothing has changed.
    Same,
    /// Another process is fetching.
    Locked,
}

/// The paths of a remote, with Salt's names.
#[derive(Clone, Debug)]
pub struct Places {
    /// The name of the remote's directory.
    pub basehash: String,
    /// The repository.
    pub cachedir: PathBuf,
    /// The directory of the locks and the list of references.
    pub work: PathBuf,
}

/// Options that all remotes of a role share.
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// True if locks of other machines are respected.
    pub global_lock: bool,
    /// The id of this machine.
    pub machine: String,
    /// The timeout of a fetch.
    pub timeout: Duration,
}

/// The local copy of a remote.
pub struct Repository {
    /// The remote's configuration.
    pub remote: Remote,
    places: Places,
    around: SharedOptions,
    git: Arc<dyn Git>,
    id: String,
    url: String,
    current: RwLock<Current>,
    readers: Mutex<Readers>,
    /// Signals that a reader is free.
    free: Condvar,
    trees: Trees,
    /// The trees of the commits that were requested last.
    recent: Mutex<VecDeque<(Oid, Option<Arc<Tree>>)>>,
    damaged: AtomicBool,
}

#[derive(Default)]
struct Current {
    stamp: Option<Stamp>,
    snapshot: Arc<Snapshot>,
}

/// Idle readers of objects.
#[derive(Default)]
struct Readers {
    idle: Vec<(Box<dyn Objects>, Instant)>,
    /// The number of readers in use.
    busy: usize,
    /// Incremented with each new copy: older readers are useless.
    generation: u64,
}

/// The right to use a reader.
struct Turn<'a> {
    repository: &'a Repository,
    /// The generation of the readers when it began.
    generation: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.repository.readers().busy -= 1;
        self.repository.free.notify_one();
    }
}

/// The maximum number of readers in use; other users wait.
const MAX_BUSY: usize = 4;
/// The maximum number of idle readers; more are stopped after use.
const MAX_IDLE: usize = 2;
/// A reader that is idle for longer is stopped.
const IDLE: Duration = Duration::from_secs(300);
/// The number of commits that are kept in memory.
const MAX_RECENT: usize = 64;
/// The prefix of incomplete copies.
const FRESH: &str = ".new";
/// An older lock of git's own was left by a fetch that died.
const DEAD_LOCK: Duration = Duration::from_secs(60);

impl Repository {
    /// Returns the local copy of a remote, without fetching.
    pub fn new(remote: Remote, places: Places, around: SharedOptions, git: Arc<dyn Git>) -> Self {
        Repository {
            id: remote.id(),
            url: remote.url(),
            remote,
            places,
            around,
            git,
            current: RwLock::default(),
            readers: Mutex::default(),
            free: Condvar::new(),
            trees: Trees::default(),
            recent: Mutex::default(),
            damaged: AtomicBool::new(false),
        }
    }

    /// Returns the configured URL without the password.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the URL without the password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the paths.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns a lock of this remote.
    pub fn lock(&self, kind: LockType) -> Lock<'_> {
        Lock {
            path: self.places.work.join(format!("{}.lk", kind.name())),
            kind,
            role: self.remote.role,
            id: &self.id,
            url: &self.url,
            global: self.around.global_lock,
            machine: &self.around.machine,
        }
    }

    /// Returns the references after the last fetch of any process.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let path = self.list();
        let stamp = Stamp::of(&path);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            // One `stat` per request is the price for noticing the fetch of another process at once.
            if current.stamp == stamp {
                return Arc::clone(&current.snapshot);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        match Snapshot::load(&path) {
            Ok(snapshot) => *current = Current { stamp, snapshot: Arc::new(snapshot) },
            Err(error) => tracing::error!("failed to read the references of '{}': {}", self.id, error.chain()),
        }
        Arc::clone(&current.snapshot)
    }

    fn list(&self) -> PathBuf {
        self.places.work.join("refs")
    }

    /// Fetches, and publishes all new references at once.
    ///
    /// # Errors
    /// If the remote cannot be reached or the disk fails; the old references are still served.
    pub fn fetch(&self) -> Result<Fetched> {
        let lock = self.lock(LockType::Update);
        // Held until the list is published, so that lists of two fetches do not cross.
        let Some(_held) = lock.take()? else {
            lock.tell_skipped();
            return Ok(Fetched::Locked);
        };
        tracing::debug!("Fetching {} remote '{}'", self.remote.role, self.id);
        self.fetch_or_repair()?;
        let found = Snapshot::new(self.git.refs(&self.places.cachedir)?);
        // From the disk, not from memory: another master may have published since.
        let before = Snapshot::load(&self.list())?;
        self.tidy();
        // An empty list is published as well, or an empty remote would never count as fetched.
        if found == before && self.list().exists() {
            return Ok(Fetched::Same);
        }
        self.tell_changes(&before, &found);
        found.store(&self.list())?;
        Ok(Fetched::Changed)
    }

    fn tell_changes(&self, before: &Snapshot, found: &Snapshot) {
        let role = self.remote.role;
        let short = |oid: &Oid| oid.as_str()[..7].to_owned();
        for (name, oid) in found.iter() {
            match before.get(name) {
                Some(old) if old == oid => {}
                Some(old) => tracing::debug!(
                    "{role} has updated '{name}' for remote '{}' from {} to {}",
                    self.id,
                    short(old),
                    short(oid)
                ),
                None => tracing::debug!("{role} has fetched new '{name}' for remote '{}'", self.id),
            }
        }
        let gone: Vec<_> = before.names().filter(|name| found.get(name).is_none()).collect();
        if !gone.is_empty() {
            tracing::debug!("{role} pruned the following stale refs: {}", gone.join(", "));
        }
    }

    /// Fetches into the existing copy. A damaged copy is rebuilt beside it, and replaced only when the new one is
    /// complete.
    fn fetch_or_repair(&self) -> Result<()> {
        let place = &self.places.cachedir;
        // A reader has seen damage that git's own fetch may not notice.
        if self.damaged.load(Ordering::Acquire) || !self.is_usable() {
            return self.rebuild();
        }
        match self.fetch_into(place) {
            // Safe under this repository's lock: no other fetch of Salt's or Saltern's runs.
            Err(Error::Git { message, .. }) if remove_dead_locks(place, &message) => self.fetch_into(place),
            Err(Error::Git { message, .. }) if tells_of_damage(&message) => {
                tracing::error!(
                    "The copy of {} remote '{}' in {} is damaged and is fetched again: {message}",
                    self.remote.role,
                    self.id,
                    place.display()
                );
                self.rebuild()
            }
            outcome => outcome,
        }
    }

    fn is_usable(&self) -> bool {
        let place = &self.places.cachedir;
        ["HEAD", "objects", "refs", configuration::MARK].iter().all(|name| place.join(name).exists())
    }

    fn rebuild(&self) -> Result<()> {
        let place = &self.places.cachedir;
        let parent = place.parent().unwrap_or(Path::new("/"));
        let old = std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
        if old {
            tracing::warn!(
                "Cache path {} (corresponding remote: {}) exists but is not a valid git repository of this program. It is \
                 replaced as soon as the remote has been fetched anew.",
                place.display(),
                self.id
            );
        }
        store::disk::make_directories(parent).map_err(Error::io("make", parent))?;
        for name in store::disk::text_names(parent)?.into_iter().filter(|name| name.starts_with(FRESH)) {
            store::disk::remove_tree(&parent.join(name))?;
        }
        let fresh = tempfile::Builder::new().prefix(FRESH).tempdir_in(parent).map_err(Error::io("make", parent))?;
        let repository = fresh.path().join("repository");
        self.git.create(&repository)?;
        self.fetch_into(&repository)?;
        // Not atomic: there is briefly no copy. Readers that are running keep their open files.
        store::disk::remove_tree(place)?;
        std::fs::rename(&repository, place).map_err(Error::io("put in place", place))?;
        self.forget_readers();
        self.damaged.store(false, Ordering::Release);
        Ok(())
    }

    fn fetch_into(&self, repository: &Path) -> Result<()> {
        configuration::write(&self.remote, repository)?;
        store::disk::make_directories(&self.places.work).map_err(Error::io("make", &self.places.work))?;
        self.git.fetch(&Fetch {
            repository: repository.to_owned(),
            depth: self.remote.depth,
            environment: configuration::environment(&self.remote, &self.places.work)?,
            timeout: self.around.timeout,
        })
    }

    /// Returns the tree of a branch, tag or commit in a list of references. The first type of reference that has it
    /// wins.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub fn tree_of(&self, snapshot: &Snapshot, reference: &str) -> Result<Option<Arc<Tree>>> {
        for kind in &self.remote.ref_types {
            let found = match kind {
                RefType::Branch => self.tree_at(snapshot.get(&format!("refs/remotes/origin/{reference}")))?,
                RefType::Tag => self.tree_at(snapshot.get(&format!("refs/tags/{reference}")))?,
                RefType::Sha => self.tree_of_commit(reference)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn tree_at(&self, oid: Option<&Oid>) -> Result<Option<Arc<Tree>>> {
        oid.map_or(Ok(None), |oid| self.tree_of_object(oid.as_str()))
    }

    fn tree_of_commit(&self, name: &str) -> Result<Option<Arc<Tree>>> {
        // Four digits is git's own minimum for a short name. The test also keeps other syntax, such as `HEAD~1`, from
        // git.
        let hex = (4..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex || !self.places.cachedir.exists() {
            return Ok(None);
        }
        self.tree_of_object(name)
    }

    /// Returns the tree of a commit, or of the commit that a tag points to.
    fn tree_of_object(&self, name: &str) -> Result<Option<Arc<Tree>>> {
        let whole = Oid::new(name);
        if let Some(known) = whole.as_ref().and_then(|oid| self.recent_tree(oid)) {
            return Ok(known);
        }
        let tree = self.read(|objects| {
            let Some(oid) = tree_name(objects, name)? else { return Ok(None) };
            self.trees.load(objects, &oid).map(Some)
        })?;
        // A missing object may arrive with the next fetch, so it is not cached.
        if let Some(oid) = whole
            && tree.is_some()
        {
            self.remember(oid, tree.clone());
        }
        Ok(tree)
    }

    fn recent_tree(&self, oid: &Oid) -> Option<Option<Arc<Tree>>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let at = recent.iter().position(|(known, _)| known == oid)?;
        // Entries in the front half stay where they are, which saves moving the list at each request.
        if at > MAX_RECENT / 2 {
            let entry = recent.remove(at)?;
            recent.push_front(entry);
            return recent.front().map(|(_, tree)| tree.clone());
        }
        Some(recent[at].1.clone())
    }

    fn remember(&self, oid: Oid, tree: Option<Arc<Tree>>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_front((oid, tree));
        recent.truncate(MAX_RECENT);
    }

    /// Writes the content of a blob to the beginning of a file.
    ///
    /// # Errors
    /// If the repository cannot be read or the content cannot be written.
    pub fn copy(&self, oid: &Oid, file: &mut std::fs::File) -> Result<()> {
        use std::io::{Seek, SeekFrom, Write};
        self.read(|objects| {
            let failed = || Error::io("write", &self.places.cachedir);
            // A second attempt must not append to what the first one wrote.
            file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed())?;
            let mut out = std::io::BufWriter::with_capacity(256 << 10, &mut *file);
            match objects.copy(oid, &mut out)? {
                true => out.flush().map_err(failed()),
                false => Err(self.missing(format!("file {oid} is missing"))),
            }
        })
    }

    fn missing(&self, reason: String) -> Error {
        Error::Damaged { path: self.places.cachedir.clone(), reason }
    }

    /// Lends a reader. One that fails is not used again. If it was an old one, a new one is tried, since another process may have
    /// replaced the copy. The next fetch rebuilds a damaged copy.
    fn read<T>(&self, mut work: impl FnMut(&mut dyn Objects) -> Result<T>) -> Result<T> {
        let turn = self.wait_for_turn();
        if let Some(mut reader) = self.idle_reader() {
            match work(&mut *reader) {
                Ok(done) => {
                    self.give_back(reader, turn.generation);
                    return Ok(done);
                }
                Err(error) => tracing::debug!("failed to read '{}', retrying: {error}", self.id),
            }
            self.forget_readers();
        }
        let generation = self.readers().generation;
        let mut reader = self.git.objects(&self.places.cachedir)?;
        let done = work(&mut *reader).map_err(|error| self.note(error))?;
        self.give_back(reader, generation);
        Ok(done)
    }

    fn note(&self, error: Error) -> Error {
        match error {
            Error::Damaged { reason, .. } => {
                self.damaged.store(true, Ordering::Release);
                self.missing(reason)
            }
            other => other,
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_turn(&self) -> Turn<'_> {
        let readers = self.readers();
        let mut readers =
            self.free.wait_while(readers, |readers| readers.busy >= MAX_BUSY).unwrap_or_else(PoisonError::into_inner);
        readers.busy += 1;
        Turn { repository: self, generation: readers.generation }
    }

    fn idle_reader(&self) -> Option<Box<dyn Objects>> {
        self.readers().idle.pop().map(|(reader, _)| reader)
    }

    fn give_back(&self, reader: Box<dyn Objects>, generation: u64) {
        let mut readers = self.readers();
        if readers.generation == generation && readers.idle.len() < MAX_IDLE {
            readers.idle.push((reader, Instant::now()));
        }
    }

    fn forget_readers(&self) {
        let mut readers = self.readers();
        readers.generation += 1;
        let old = std::mem::take(&mut readers.idle);
        drop(readers);
        // Stopping them takes some time.
        drop(old);
    }

    /// Stops idle readers, and drops the trees of old commits.
    fn tidy(&self) {
        let mut readers = self.readers();
        readers.idle.retain(|(_, since)| since.elapsed() < IDLE);
        drop(readers);
        self.trees.tidy();
    }
}

/// Returns the name of a commit's tree, following tags.
fn tree_name(objects: &mut dyn Objects, name: &str) -> Result<Option<Oid>> {
    let mut name = name.to_owned();
    // Tags may point to tags, and a damaged repository could have a circle.
    for _ in 0..16 {
        let Some(object) = objects.read(&name)? else { return Ok(None) };
        let word = match object.kind {
            Kind::Commit => "tree ",
            Kind::Tag => "object ",
            Kind::Tree | Kind::Blob => return Ok(None),
        };
        let text = String::from_utf8_lossy(&object.data);
        let Some(oid) = text.lines().next().and_then(|line| line.strip_prefix(word)).and_then(Oid::new) else {
            return Ok(None);
        };
        if object.kind == Kind::Commit {
            return Ok(Some(oid));
        }
        name = oid.as_str().to_owned();
    }
    Ok(None)
}

/// Removes locks that git left when it was killed, and returns whether there were any.
fn remove_dead_locks(repository: &Path, message: &str) -> bool {
    if !message.contains(".lock': File exists") {
        return false;
    }
    let mut removed = false;
    for path in message.split('\'').filter(|word| word.ends_with(".lock")).map(Path::new) {
        let age = std::fs::metadata(path).and_then(|state| state.modified()).ok();
        let dead = age.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age > DEAD_LOCK);
        // The path comes from a message, which a remote can influence.
        if path.starts_with(repository) && dead && std::fs::remove_file(path).is_ok() {
            tracing::warn!("removed {}, which an interrupted fetch has left", path.display());
            removed = true;
        }
    }
    removed
}

/// Returns whether git reports a damaged copy, and not a problem of the remote.
fn tells_of_damage(message: &str) -> bool {
    // An error that the remote reports is its own problem. Rebuilding the copy would not help.
    let own = message.lines().filter(|line| !line.starts_with("remote:"));
    let signs = [
        "not a git repository",
        "is corrupt",
        "is empty",
        "bad object",
        "missing blob",
        "missing tree",
        "missing commit",
        "unable to read tree",
        "unable to read sha1 file",
        "Could not read ",
        "invalid index-pack",
        "does not point to a valid object",
        "bad config line",
        "did not send all necessary objects",
        "inflate: data stream error",
        "packfile",
        "garbage at end of loose object",
        "unresolved deltas",
    ];
    own.into_iter().any(|line| signs.iter().any(|sign| line.contains(sign)))
}
