//! Jobs, returns, data of minions and tokens: what this master wrote becomes records, and records of others are written to its
//! caches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use share::{Change, Class, Content, Key, Record, Records as _, Return, State};
use tracing::{error, warn};
use wire::{Jid, MinionId};

use super::catch_up::CatchUp;
use super::pace::Pace;
use super::worker::Worker;
use crate::Shared;
use crate::jobs::shared as cached;
use crate::outgoing::key_log::KeyLog;
use crate::outgoing::{Outgoing, Written, unpacked};

/// How many jobs may wait for their announcement.
const MOST_UNANNOUNCED: usize = 10_000;

/// How many records that the disk refused are tried again at once.
const TRIED: usize = 500;

/// The maximum number of records that are not in the caches and are tried again.
pub const MOST_UNWRITTEN: usize = 100_000;

/// How long the file that names records of others may become before what is done is taken out of it.
const LONG: u64 = 1 << 20;

/// What is still to be done with the caches of this master.
pub struct Caches {
    /// Names records of others until they are written to the caches.
    arriving: Arc<KeyLog>,
    /// Those of them that the disk refused. The disk took the records themselves, so they are not many.
    unwritten: BTreeSet<(Class, Key)>,
    /// When to try again, by the steady clock.
    again: Option<u64>,
    /// From which length on the file is shortened.
    shorten_from: u64,
    pub(super) catch_up: CatchUp,
    pub(super) pace: Pace,
    /// Jobs of others that are announced once it is known from which minions they expect returns.
    unannounced: BTreeSet<Key>,
    /// How many records were not stored, and why.
    not_stored: Option<(usize, String)>,
    /// That the disk refuses records was logged.
    records_fail: bool,
    /// That the disk refuses what belongs to the caches was logged.
    caches_fail: bool,
    /// That too many records wait was logged.
    given_up: bool,
}

impl Caches {
    pub fn new(arriving: Arc<KeyLog>, unwritten: BTreeSet<(Class, Key)>, left_over: Vec<PathBuf>) -> Caches {
        let again = (!unwritten.is_empty()).then_some(0);
        Caches {
            arriving,
            unwritten,
            again,
            shorten_from: LONG,
            catch_up: CatchUp::new(left_over),
            pace: Pace::default(),
            unannounced: BTreeSet::new(),
            not_stored: None,
            records_fail: false,
            caches_fail: false,
            given_up: false,
        }
    }

    /// Notes that a record is to be written again.
    fn retry(&mut self, class: Class, key: &Key) {
        let entry = (class, key.clone());
        if self.unwritten.len() < MOST_UNWRITTEN || self.unwritten.contains(&entry) {
            self.unwritten.insert(entry);
        } else if !std::mem::replace(&mut self.given_up, true) {
            error!(
                "{MOST_UNWRITTEN} records of other masters are not in the caches: further ones are not tried again, and \
                 jobs.lookup_jid lacks them on this master"
            );
        }
    }

    /// Returns whether a record is still to be written.
    pub(super) fn lack(&self, class: Class, key: &Key) -> bool {
        self.unwritten.contains(&(class, key.clone()))
    }

    /// Forgets the names of records that are in the caches. `has_arrived` says whether there are new ones.
    fn forget_arrived(&mut self, has_arrived: impl FnOnce() -> bool) -> std::io::Result<()> {
        if self.unwritten.is_empty() {
            (self.caches_fail, self.given_up, self.shorten_from) = (false, false, LONG);
            return if has_arrived() { self.arriving.clear() } else { Ok(()) };
        }
        // One record that the disk refuses for ever must not keep all later ones in the file.
        if self.arriving.size()? < self.shorten_from {
            return Ok(());
        }
        self.arriving.replace(self.unwritten.iter().map(|(class, key)| (*class, key)))?;
        self.shorten_from = LONG.max(2 * self.arriving.size()?);
        Ok(())
    }

    /// Returns when there is something to do.
    pub fn next(&self) -> Option<u64> {
        self.again.into_iter().chain(self.catch_up.next()).min()
    }
}

/// Returns whether records of a class are also in a cache of the master, or in the directory of tokens.
pub fn is_cached(class: Class) -> bool {
    class.is_timed() || matches!(class, Class::Data | Class::Token)
}

/// Returns the ids of keys whose files are gone.
pub fn deleted(changes: &[Change]) -> Vec<Key> {
    let gone = changes.iter().filter_map(|change| match change {
        Change::Files(id, files) if files.is_empty() => Some(id.clone()),
        Change::Key { id, state: State::Deleted, .. } => Some(id.clone()),
        _ => None,
    });
    gone.collect()
}

/// Why a record is not in the caches.
pub(super) enum NotWritten {
    /// The disk refuses it, so it is tried again.
    Failed(String),
    /// Whoever wrote it made a mistake.
    Malformed,
}

impl<E: std::error::Error> From<E> for NotWritten {
    fn from(error: E) -> NotWritten {
        NotWritten::Failed(crate::chain(&error))
    }
}

impl Worker {
    /// Makes records of what this master wrote since, unless returns are being gathered.
    pub(super) fn share_own(&mut self) {
        if self.share_at().is_none() {
            self.share_now();
        }
    }

    /// Makes records of what this master wrote since, if a job is among it that was published here: whoever hears of that job must
    /// not say first what it is.
    pub(super) fn share_published(&mut self) {
        if self.shared.outgoing.as_ref().is_some_and(Outgoing::has_publication) {
            self.share_now();
        }
    }

    /// Returns until when returns are gathered.
    pub(super) fn share_at(&self) -> Option<u64> {
        self.caches.pace.due(self.now().steady)
    }

    fn share_now(&mut self) {
        let shared = self.shared.clone();
        let Some(outgoing) = &shared.outgoing else { return };
        let mut batch = outgoing.take();
        self.caches.pace.took(batch.jobs.len(), self.now().steady);
        let mut changes = self.job_changes(std::mem::take(&mut batch.jobs));
        changes.extend(batch.data.iter().filter_map(|(part, id)| self.data_change(part, id)));
        changes.extend(self.token_changes(&std::mem::take(&mut batch.tokens)));
        let stored = self.write_records(changes);
        let again = self.again();
        if !stored {
            self.caches.catch_up.data.extend(batch.data.drain(..));
            self.caches.catch_up.remember(std::mem::take(&mut batch.unnamed));
            self.caches.catch_up.wait_until(again);
        }
        self.caches.catch_up.files.extend(outgoing.finish(batch, stored));
    }

    /// Stores records of this master in one step. Returns whether the disk took them.
    pub(super) fn write_records(&mut self, changes: Vec<Change>) -> bool {
        if changes.is_empty() {
            return true;
        }
        let failures = self.model.records().failures();
        self.unwritten.expect_others(false);
        let actions = self.model.local(Change::Together(changes), self.now());
        self.carry_out(actions);
        let stored = self.model.records().failures() == failures;
        let logged = std::mem::replace(&mut self.caches.records_fail, !stored);
        match self.caches.not_stored.take() {
            Some((count, reason)) if stored => {
                warn!("{count} records of jobs, minion data and tokens are not shared: {reason}")
            }
            Some((_, reason)) if !logged => {
                error!("jobs, minion data and tokens are shared once records can be stored: {reason}");
            }
            _ => {}
        }
        stored
    }

    /// Notes that a record of this master was not stored.
    pub(super) fn record_not_stored(&mut self, reason: String) {
        self.caches.not_stored.get_or_insert((0, reason)).0 += 1;
    }

    fn job_changes(&self, all: Vec<(Key, Written)>) -> Vec<Change> {
        let mut published = BTreeMap::<Key, Content>::new();
        let mut changes = Vec::with_capacity(all.len());
        for (key, written) in all {
            let content = match written {
                Written::Job { load, nocache } => {
                    let job = Content::Job { load, nocache };
                    // Of batches the latest part counts. What else is said again changes nothing, in whatever form.
                    let again = published.get(&key).is_some_and(|before| !before.is_of_same_batch(&job));
                    if again || !self.model.is_new_job(&key, &job) {
                        continue;
                    }
                    published.insert(key.clone(), job.clone());
                    job
                }
                Written::Expected { syndic, minions } => {
                    Content::Expected(BTreeMap::from([(syndic, minions.into_iter().collect())]))
                }
                Written::Return { packed, out, copy } => {
                    Content::Return(Return { packed, out, publisher: self.model.node(), copy })
                }
                Written::End(at) => Content::End(at),
            };
            changes.push(Change::Write(key, content));
        }
        changes
    }

    pub(super) fn has(&self, class: Class, key: &Key) -> bool {
        self.model.records().arrived(class, key).is_some()
    }

    /// Writes what another member changed to the caches of this master.
    pub(super) fn cache_record(&mut self, record: &Record) {
        let class = record.class();
        if !is_cached(class) {
            return;
        }
        // The key of a token is the token.
        let key = if class == Class::Token { "…" } else { record.key.as_str() };
        match self.write_record(record) {
            Ok(()) => {}
            Err(NotWritten::Malformed) => warn!("the {class} {key} of another master cannot be read"),
            Err(NotWritten::Failed(reason)) => {
                if !std::mem::replace(&mut self.caches.caches_fail, true) {
                    error!(
                        "the {class} {key} of another master, and perhaps others, are not in the caches yet: {reason}"
                    );
                }
                self.caches.retry(class, &record.key);
                self.caches.again = Some(self.again());
            }
        }
    }

    fn write_record(&mut self, record: &Record) -> Result<(), NotWritten> {
        let (shared, key) = (self.shared.clone(), &record.key);
        let shared: &Shared = &shared;
        if let Content::Data(value) = &record.content {
            return self.write_data(key, value.as_ref()).ok_or(NotWritten::Malformed)?.map_err(NotWritten::from);
        }
        if let Content::Token { token, expires } = &record.content {
            return self.write_token(key, token.as_ref(), *expires);
        }
        let name = key.parts().map_or(key.as_str(), |(jid, _)| jid);
        let jid = Jid::new(name).map_err(|_| NotWritten::Malformed)?;
        match &record.content {
            Content::Job { load, nocache } => {
                let load = unpacked(load).filter(|load| load.get_str("jid") == Some(name));
                let load = load.ok_or(NotWritten::Malformed)?;
                let own = self.members.slot(self.model.node()).is_some_and(|slot| key.slot() == Some(slot));
                if cached::job(shared, &jid, &load, *nocache, own)? {
                    match self.own_expected(key) {
                        None if self.caches.unannounced.len() < MOST_UNANNOUNCED => {
                            self.caches.unannounced.insert(key.clone());
                        }
                        minions => cached::announce(shared, &jid, &load, minions.unwrap_or_default()),
                    }
                }
            }
            Content::Expected(sets) => {
                cached::expected(shared, &jid, sets)?;
                if self.caches.unannounced.contains(key)
                    && let Some(load) = shared.stores.jobs.load(name)?
                {
                    self.caches.unannounced.remove(key);
                    cached::announce(shared, &jid, &load, self.own_expected(key).unwrap_or_default());
                }
            }
            Content::Return(returned) => {
                let id = key.parts().and_then(|(_, id)| MinionId::new(id).ok()).ok_or(NotWritten::Malformed)?;
                let mut load = unpacked(&returned.packed).filter(|load| load.contains_key("return"));
                let load = load.as_mut().ok_or(NotWritten::Malformed)?;
                // Whatever it says itself.
                load.insert("jid", jid.as_str());
                load.insert("id", id.as_str());
                cached::returned(shared, &jid, &id, std::mem::take(load))?;
            }
            Content::End(at) => {
                let at = UNIX_EPOCH.checked_add(Duration::from_millis(*at)).ok_or(NotWritten::Malformed)?;
                cached::ended(shared, &jid, at)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns from which minions a job expects returns, but for those below syndics; `None` if that is not known yet.
    fn own_expected(&self, key: &Key) -> Option<Vec<String>> {
        match self.model.records().get(Class::Expected, key)?.content {
            Content::Expected(mut sets) => sets.remove("").map(|minions| minions.into_iter().collect()),
            _ => None,
        }
    }

    /// Does what is due with the caches.
    pub(super) fn caches_due(&mut self) {
        if self.caches.again.is_some_and(|at| at <= self.now().steady) {
            self.caches.again = None;
            let mut due = std::mem::take(&mut self.caches.unwritten);
            let later = due.iter().nth(TRIED).cloned().map(|first| due.split_off(&first)).unwrap_or_default();
            if !later.is_empty() {
                self.caches.unwritten = later;
                self.caches.again = Some(self.now().steady);
            }
            for (class, key) in due {
                if let Some(record) = self.model.records().get(class, &key) {
                    self.cache_record(&record);
                }
            }
        }
        self.catch_up();
        self.forget_arrived();
    }

    fn forget_arrived(&mut self) {
        let records = self.model.records();
        if let Err(error) = self.caches.forget_arrived(|| records.take_arriving()) {
            // After the next start they are written once more, which changes nothing.
            warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new(&format!("2026022500000000{number:04}")).unwrap()
    }

    #[test]
    fn a_record_that_is_never_written_keeps_no_others_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let arriving = Arc::new(KeyLog::open(dir.path().join("arriving")).unwrap());
        let mut caches = Caches::new(arriving.clone(), BTreeSet::new(), Vec::new());
        let refused = key(7);
        caches.retry(Class::Job, &refused);
        for round in 0..100 {
            let all: Vec<Key> = (0..1_000).map(key).collect();
            arriving.append(all.iter().map(|key| (Class::Job, key))).unwrap();
            caches.forget_arrived(|| true).unwrap();
            assert!(arriving.size().unwrap() <= LONG + 30_000, "round {round}");
        }
        let (named, _) = crate::outgoing::key_log::read(arriving.path(), 0, usize::MAX).unwrap();
        assert!(named.contains(&(Class::Job, refused)));
        caches.unwritten.clear();
        caches.forget_arrived(|| true).unwrap();
        assert_eq!(arriving.size().unwrap(), 0);
    }

    #[test]
    fn what_is_tried_again_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let arriving = Arc::new(KeyLog::open(dir.path().join("arriving")).unwrap());
        let mut caches = Caches::new(arriving, BTreeSet::new(), Vec::new());
        for number in 0..=MOST_UNWRITTEN {
            caches.retry(Class::Return, &Key::of_parts("20260225000000000000", &format!("web{number}")).unwrap());
        }
        assert_eq!((caches.unwritten.len(), caches.given_up), (MOST_UNWRITTEN, true));
    }
}
