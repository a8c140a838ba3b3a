//! What this master wrote to its job cache and its data cache, on its way to the shared records.
//!
//! Requests only note it here: no return waits for a record, nor for another master unless `cluster_return_copies` says so (`copies`). Jobs and returns are also named in a file,
//! before they are acknowledged. What a crash, a full queue or a full disk leaves there is read from the job cache later
//! (`catch_up`), so nothing is lost silently.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cache::Part;
use config::Master;
use share::{Class, Key};
use store::disk;
use tokio::sync::Notify;
use tracing::{error, warn};
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::{Packing, pack_into, pack_map_header, pack_map_into};

pub mod copies;
pub mod key_log;

use copies::{AwaitedCopy, Copies};
use key_log::KeyLog;

/// How many bytes of contents may wait. What is beyond that is only named in the file.
const MOST_BYTES: usize = 32 << 20;

/// How many jobs and returns are taken together, and about how many of their bytes.
const TAKEN: usize = 1_000;
const TAKEN_BYTES: usize = 8 << 20;

/// How many data of minions are taken together.
const TAKEN_DATA: usize = 100;

/// How the files are named, before their number.
const NAME: &str = "unshared.";

/// Fields of a return that are between the minion and its master.
const PRIVATE: [&str; 4] = ["sig", "tok", "nonce", "cmd"];

/// Something of a job that this master wrote.
pub enum Written {
    /// Its publication.
    Job { load: Bytes, nocache: bool },
    /// Minions that are expected to return, of this master or below a syndic.
    Expected { syndic: String, minions: Vec<String> },
    /// A return.
    Return { packed: Bytes, out: Option<String>, copy: bool },
    /// When it ended, in milliseconds since 1970.
    End(u64),
}

impl Written {
    fn class(&self) -> Class {
        match self {
            Written::Job { .. } => Class::Job,
            Written::Expected { .. } => Class::Expected,
            Written::Return { .. } => Class::Return,
            Written::End(_) => Class::End,
        }
    }

    fn is_publication(&self) -> bool {
        matches!(self, Written::Job { .. })
    }

    fn is_small_enough(&self, key: &Key) -> bool {
        let small = self.size() <= share::Record::MAX_CONTENT;
        if !small {
            warn!("the {} {key} is too large to be shared with other masters", self.class());
        }
        small
    }

    fn size(&self) -> usize {
        128 + match self {
            Written::Job { load, .. } => load.len(),
            Written::Expected { minions, .. } => minions.iter().map(|minion| minion.len() + 24).sum(),
            Written::Return { packed, .. } => packed.len(),
            Written::End(_) => 0,
        }
    }
}

/// The data of a minion that changed: which part, and whose.
pub type ChangedData = (&'static str, MinionId);

/// Which tokens may have changed. It has no `Debug`, because a token is a secret.
#[derive(Default)]
pub struct ChangedTokens {
    /// These.
    pub texts: BTreeSet<String>,
    /// All of them may have.
    pub any: bool,
}

/// What waits for the worker.
pub struct Outgoing {
    directory: PathBuf,
    jobs: bool,
    data: bool,
    files: Mutex<Files>,
    queue: Mutex<Queue>,
    more: Notify,
    failing: AtomicBool,
    /// Returns that wait for another master, if they are to be on two disks.
    copies: Option<Arc<Copies>>,
}

struct Files {
    current: Arc<LogFile>,
    number: u64,
    /// Files that nothing is added to any more, but for what is under way.
    retired: Vec<Arc<LogFile>>,
}

struct LogFile {
    log: KeyLog,
    used: AtomicBool,
    /// Some of what it names did not fit into the queue.
    unread: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Key, Written)>,
    /// How many of them are publications.
    published: usize,
    /// Those of them that no file names, because the disk was full.
    unnamed: BTreeSet<(Class, Key)>,
    bytes: usize,
    data: BTreeSet<ChangedData>,
    tokens: ChangedTokens,
}

/// What the worker takes at once.
#[derive(Default)]
pub struct Batch {
    pub jobs: Vec<(Key, Written)>,
    /// Those of them that no file names: nothing else remembers them.
    pub unnamed: Vec<(Class, Key)>,
    pub data: Vec<ChangedData>,
    pub tokens: ChangedTokens,
    /// Files that name nothing else than this and what was taken before.
    finished: Vec<Arc<LogFile>>,
}

/// Returns whether jobs are kept in a cache of this master, so that they are shared.
pub fn shares_jobs(config: &Master) -> bool {
    let jobs = &config.jobs;
    let own = [store::jobs::FILES, store::jobs::EMBEDDED].contains(&jobs.master_job_cache.as_str());
    jobs.job_cache && jobs.ext_job_cache.is_empty() && own
}

/// Returns whether data of minions are kept in files of this master, so that they are shared.
pub fn shares_data(config: &Master, cache: &cache::Cache) -> bool {
    (config.jobs.minion_data_cache || config.jobs.enforce_mine_cache) && !cache.is_remote()
}

impl Outgoing {
    /// Opens what is to be shared, if the options say so, and returns the files that an earlier run left.
    ///
    /// # Errors
    /// If the directory of the shared records cannot be written.
    pub fn open(config: &Master, cache: &cache::Cache) -> io::Result<Option<(Outgoing, Vec<PathBuf>)>> {
        if config.cluster.is_none() {
            return Ok(None);
        }
        let directory = config.paths.cachedir.join("saltern").join("share");
        let (outgoing, left) = Outgoing::open_in(&directory, shares_jobs(config), shares_data(config, cache))?;
        let two = config.cluster.as_ref().is_some_and(|cluster| cluster.return_copies > 1);
        Ok(Some((Outgoing { copies: two.then(Arc::default), ..outgoing }, left)))
    }

    fn open_in(directory: &Path, jobs: bool, data: bool) -> io::Result<(Outgoing, Vec<PathBuf>)> {
        let failed = |error: store::Error| io::Error::other(crate::chain(&error));
        disk::make_directory(directory).map_err(failed)?;
        let names = disk::text_names(directory).map_err(failed)?.into_iter();
        let mut numbers: Vec<u64> = names.filter_map(|name| name.strip_prefix(NAME)?.parse().ok()).collect();
        numbers.sort_unstable();
        let number = numbers.last().map_or(1, |last| last + 1);
        let left = numbers.into_iter().map(|number| path(directory, number)).collect();
        let current = LogFile::open(directory, number)?;
        let files = Files { current, number, retired: Vec::new() };
        let outgoing = Outgoing {
            directory: directory.to_owned(),
            jobs,
            data,
            files: Mutex::new(files),
            queue: Mutex::default(),
            more: Notify::new(),
            failing: AtomicBool::new(false),
            copies: None,
        };
        Ok((outgoing, left))
    }

    /// Returns whether the publication of a job waits.
    pub fn has_publication(&self) -> bool {
        self.queue().published > 0
    }

    /// Waits until there is something to take.
    pub async fn ready(&self) {
        self.more.notified().await;
    }

    /// Notes that a job was written, with the minions that are expected to return.
    pub fn published(&self, jid: &str, load: &Map, nocache: bool, minions: &[String]) {
        if self.jobs {
            let (syndic, minions) = (String::new(), minions.to_vec());
            self.note(Key::new(jid), vec![Written::Expected { syndic, minions }, job(load, nocache)]);
        }
    }

    /// Notes that the publication of a job was written.
    pub fn job(&self, jid: &str, load: &Map) {
        if self.jobs {
            self.note(Key::new(jid), vec![job(load, false)]);
        }
    }

    /// Notes that minions below a syndic are expected to return.
    pub fn expected(&self, jid: &str, minions: &[String], syndic: &MinionId) {
        if self.jobs {
            let (syndic, minions) = (syndic.to_string(), minions.to_vec());
            self.note(Key::new(jid), vec![Written::Expected { syndic, minions }]);
        }
    }

    /// Notes that a return was stored, as a copy for the master that published the job or not. Returns what to wait for before it is
    /// acknowledged, if anything. `is_news` says whether it was not stored before.
    pub fn returned(&self, jid: &str, id: &MinionId, load: &Map, copy: bool, is_news: bool) -> Option<AwaitedCopy> {
        let key = Key::of_parts(jid, id.as_str()).filter(|key| self.jobs && key.fits(Class::Return))?;
        let out = load.get_str("out").filter(|out| out.len() <= share::fields::MAX_NAME).map(str::to_owned);
        let awaited = self.copies.as_ref().and_then(|copies| copies.expect(&key, is_news));
        let noted = self.note(Some(key), vec![Written::Return { packed: packed(load), out, copy }]);
        awaited.filter(|_| noted)
    }

    /// Returns the returns that wait for another master, if they are to be on two disks.
    pub fn copies(&self) -> Option<&Copies> {
        self.copies.as_deref()
    }

    /// Notes when a job ended.
    pub fn ended(&self, jid: &str, at: std::time::SystemTime) {
        if self.jobs {
            let since = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            self.note(Key::new(jid), vec![Written::End(since.as_millis() as u64)]);
        }
    }

    /// Notes that data of a minion were written or removed.
    pub fn data(&self, part: Part, id: &MinionId) {
        if self.data {
            self.queue().data.insert((part.name(), id.clone()));
            self.more.notify_one();
        }
    }

    /// Notes that a token was made or removed.
    pub fn token(&self, text: &str) {
        self.queue().tokens.texts.insert(text.to_owned());
        self.more.notify_one();
    }

    /// Notes that any tokens may have been made or removed.
    pub fn tokens(&self) {
        self.queue().tokens.any = true;
        self.more.notify_one();
    }

    /// Notes what was written under one key, to be taken together. Returns whether any of it is shared.
    fn note(&self, key: Option<Key>, mut all: Vec<Written>) -> bool {
        let Some(key) = key else { return false };
        // Job ids without a time stay here.
        all.retain(|written| key.fits(written.class()) && written.is_small_enough(&key));
        if all.is_empty() {
            return false;
        }
        let file = self.files().current.clone();
        file.used.store(true, Ordering::Relaxed);
        let named = file.log.append(all.iter().map(|written| (written.class(), &key)));
        let size: usize = all.iter().map(Written::size).sum();
        let mut queue = self.queue();
        if named.is_ok() && queue.bytes + size > MOST_BYTES {
            file.unread.store(true, Ordering::Relaxed);
        } else {
            queue.bytes += size;
            if named.is_err() {
                queue.unnamed.extend(all.iter().map(|written| (written.class(), key.clone())));
            }
            queue.published += all.iter().filter(|written| written.is_publication()).count();
            queue.jobs.extend(all.into_iter().map(|written| (key.clone(), written)));
        }
        drop(queue);
        // Not before it is in the queue: a file that nobody holds names nothing that is under way.
        drop(file);
        self.more.notify_one();
        match named {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(_) if self.failing.swap(true, Ordering::Relaxed) => {}
            Err(error) => {
                error!("jobs and returns that are shared now may be missing on other masters after a crash: {error}");
            }
        }
        true
    }

    /// Takes what waits, or a part of it.
    pub fn take(&self) -> Batch {
        let finished = self.retire();
        let mut queue = self.queue();
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.jobs.len() < TAKEN
            && bytes < TAKEN_BYTES
            && let Some((key, written)) = queue.jobs.pop_front()
        {
            bytes += written.size();
            queue.published -= usize::from(written.is_publication());
            batch.unnamed.extend(queue.unnamed.take(&(written.class(), key.clone())));
            batch.jobs.push((key, written));
        }
        queue.bytes -= bytes;
        while batch.data.len() < TAKEN_DATA
            && let Some(data) = queue.data.pop_first()
        {
            batch.data.push(data);
        }
        batch.tokens = std::mem::take(&mut queue.tokens);
        let (all_jobs, all) = (queue.jobs.is_empty(), queue.jobs.is_empty() && queue.data.is_empty());
        drop(queue);
        if all_jobs {
            batch.finished = finished;
        } else {
            self.files().retired.extend(finished);
        }
        if !all {
            self.more.notify_one();
        }
        batch
    }

    /// Starts a new file, and returns the earlier ones to which nothing is added any more.
    fn retire(&self) -> Vec<Arc<LogFile>> {
        let mut files = self.files();
        let files = &mut *files;
        if files.current.used.load(Ordering::Relaxed) {
            match LogFile::open(&self.directory, files.number + 1) {
                Ok(next) => {
                    files.number += 1;
                    files.retired.push(std::mem::replace(&mut files.current, next));
                }
                Err(error) => warn!("{error}"),
            }
        }
        files.retired.extract_if(.., |file| Arc::strong_count(file) == 1).collect()
    }

    /// Ends what was taken. Returns the files of which something is still to be shared: all of them, if it was not stored.
    pub fn finish(&self, batch: Batch, stored: bool) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for file in batch.finished {
            let path = file.log.path().to_owned();
            if !stored || file.unread.load(Ordering::Relaxed) {
                left.push(path);
            } else if let Err(error) = disk::remove(&path) {
                warn!("{}", crate::chain(&error));
            }
        }
        if !stored {
            // What could not be stored is named in files that are not finished, too.
            let files = self.files();
            for file in files.retired.iter().chain([&files.current]) {
                file.unread.store(true, Ordering::Relaxed);
            }
        }
        left
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    fn open(directory: &Path, number: u64) -> io::Result<Arc<LogFile>> {
        let log = KeyLog::open(path(directory, number))?;
        Ok(Arc::new(LogFile { log, used: AtomicBool::new(false), unread: AtomicBool::new(false) }))
    }

    #[cfg(test)]
    fn open_full() -> Arc<LogFile> {
        let log = KeyLog::open("/dev/full".into()).unwrap();
        Arc::new(LogFile { log, used: AtomicBool::new(false), unread: AtomicBool::new(false) })
    }
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{NAME}{number}"))
}

fn job(load: &Map, nocache: bool) -> Written {
    let mut packed = Vec::new();
    pack_map_into(&mut packed, load, Packing::Bin);
    Written::Job { load: packed.into(), nocache }
}

/// Packs a return as other masters get it: with all that their events say.
pub fn packed(load: &Map) -> Bytes {
    let shared = || load.iter().filter(|(name, _)| !name.as_str().is_some_and(|name| PRIVATE.contains(&name)));
    let mut packed = Vec::new();
    pack_map_header(&mut packed, shared().count());
    for (name, value) in shared() {
        pack_into(&mut packed, name, Packing::Bin);
        pack_into(&mut packed, value, Packing::Bin);
    }
    packed.into()
}

/// Reads what another member packed.
pub fn unpacked(packed: &Bytes) -> Option<Map> {
    wire::msgpack::unpack_bytes(packed, wire::msgpack::Decode::Default).ok().and_then(Value::into_map)
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    const JID: &str = "20260225000000000001";

    fn outgoing(directory: &Path) -> Outgoing {
        Outgoing::open_in(directory, true, true).unwrap().0
    }

    fn note(outgoing: &Outgoing, number: usize, size: usize) {
        let id = MinionId::new(format!("web{number}")).unwrap();
        outgoing.returned(JID, &id, &map! { "return" => "x".repeat(size) }, false, true);
    }

    fn named(path: &Path) -> usize {
        key_log::read(path, 0, usize::MAX).unwrap().0.len()
    }

    #[test]
    fn what_is_stored_is_named_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = outgoing(dir.path());
        (0..TAKEN + 1).for_each(|number| note(&outgoing, number, 1));
        let first = outgoing.take();
        assert_eq!(first.jobs.len(), TAKEN);
        assert!(outgoing.finish(first, true).is_empty());
        // One is left, and its file names all of them.
        let left = Outgoing::open_in(dir.path(), true, true).unwrap().1;
        assert_eq!(left.iter().map(|path| named(path)).sum::<usize>(), TAKEN + 1);
        let second = outgoing.take();
        assert_eq!(second.jobs.len(), 1);
        assert!(outgoing.finish(second, true).is_empty());
        assert!(!left[0].exists());
    }

    #[test]
    fn what_is_not_stored_or_did_not_fit_is_left_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = outgoing(dir.path());
        note(&outgoing, 1, 1);
        let batch = outgoing.take();
        let left = outgoing.finish(batch, false);
        assert_eq!(left.iter().map(|path| named(path)).sum::<usize>(), 1);
        (0..3).for_each(|number| note(&outgoing, number, MOST_BYTES / 2));
        let batches: Vec<Batch> = std::iter::repeat_with(|| outgoing.take()).take(3).collect();
        assert_eq!(batches.iter().map(|batch| batch.jobs.len()).collect::<Vec<_>>(), [1, 0, 0]);
        let left: Vec<PathBuf> = batches.into_iter().flat_map(|batch| outgoing.finish(batch, true)).collect();
        assert_eq!(left.iter().map(|path| named(path)).sum::<usize>(), 3);
        assert_eq!(outgoing.queue().bytes, 0);
    }

    #[test]
    fn what_no_file_names_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = outgoing(dir.path());
        // A file that takes no byte, as on a full disk.
        outgoing.files().current = LogFile::open_full();
        note(&outgoing, 1, 1);
        let batch = outgoing.take();
        let key = Key::of_parts(JID, "web1").unwrap();
        assert_eq!((batch.jobs.len(), batch.unnamed), (1, vec![(Class::Return, key)]));
        note(&outgoing, 2, 1);
        let batch = outgoing.take();
        assert_eq!((batch.jobs.len(), batch.unnamed.len()), (1, 0));
    }

    #[test]
    fn a_file_is_not_finished_while_something_is_under_way() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = outgoing(dir.path());
        note(&outgoing, 1, 1);
        // A thread that has named a return and has not put it into the queue.
        let held = outgoing.files().current.clone();
        let batch = outgoing.take();
        assert_eq!((batch.jobs.len(), batch.finished.len()), (1, 0));
        outgoing.finish(batch, true);
        assert!(held.log.path().exists());
        drop(held);
        assert_eq!(outgoing.take().finished.len(), 1);
    }

    #[test]
    fn ids_without_a_time_stay_here() {
        let dir = tempfile::tempdir().unwrap();
        let outgoing = outgoing(dir.path());
        outgoing.job("nocache", &map! {});
        outgoing.job("00000000000000000000", &map! {});
        assert!(outgoing.take().jobs.is_empty());
    }

    #[test]
    fn returns_travel_without_what_is_between_minion_and_master() {
        let load = map! { "cmd" => "_return", "sig" => "s", "return" => 1, "id" => "web1" };
        assert_eq!(unpacked(&packed(&load)), Some(map! { "return" => 1, "id" => "web1" }));
    }
}
