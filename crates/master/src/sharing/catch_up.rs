//! Shares what this master wrote and has not shared: before a crash, while the disk refused it, or when too much waited.
//!
//! Files name it (`outgoing`). Its content is read from the job cache, a little at a time, so that nothing else waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use share::{Change, Class, Content, Key, Records as _, Return};
use store::disk;
use tracing::{info, warn};
use value::{Map, map};
use wire::MinionId;
use wire::msgpack::{Packing, pack_map_into};

use super::data;
use super::worker::Worker;
use crate::jobs::shared::is_nocache;
use crate::outgoing::key_log;
use crate::outgoing::{ChangedData, packed};

/// How many records are looked at in one step.
const STEP: usize = 200;

/// What is left to share.
pub struct CatchUp {
    /// Files that name records, the oldest first.
    pub files: VecDeque<PathBuf>,
    /// Up to where the first file is done.
    at: u64,
    /// Jobs and returns that could not be stored, and that no file names.
    unnamed: BTreeSet<(Class, Key)>,
    /// Data of minions that could not be stored.
    pub data: BTreeSet<ChangedData>,
    /// When to go on, by the steady clock.
    due: u64,
}

impl CatchUp {
    pub fn new(files: Vec<PathBuf>) -> CatchUp {
        CatchUp { files: files.into(), at: 0, unnamed: BTreeSet::new(), data: BTreeSet::new(), due: 0 }
    }

    pub fn wait_until(&mut self, at: u64) {
        self.due = at;
    }

    /// Remembers jobs and returns that no file names. A master with a full disk takes few: it acknowledges no return that its
    /// job cache could not store.
    pub fn remember(&mut self, unnamed: Vec<(Class, Key)>) {
        self.unnamed.extend(unnamed);
    }

    /// Returns when to go on.
    pub fn next(&self) -> Option<u64> {
        let nothing = self.files.is_empty() && self.unnamed.is_empty() && self.data.is_empty();
        (!nothing).then_some(self.due)
    }
}

impl Worker {
    /// Shares some of what is left.
    pub(super) fn catch_up(&mut self) {
        if self.caches.catch_up.next().is_none_or(|due| due > self.now().steady) {
            return;
        }
        let data: Vec<ChangedData> = std::iter::from_fn(|| self.caches.catch_up.data.pop_first()).take(STEP).collect();
        let mut changes: Vec<Change> = data.iter().filter_map(|(part, id)| self.data_change(part, id)).collect();
        let unnamed: Vec<(Class, Key)> =
            std::iter::from_fn(|| self.caches.catch_up.unnamed.pop_first()).take(STEP).collect();
        changes.extend(unnamed.iter().filter_map(|(class, key)| self.unshared(*class, key)));
        let file = self.caches.catch_up.files.front().cloned();
        let named = file.map(|file| key_log::read(&file, self.caches.catch_up.at, STEP).map(|found| (file, found)));
        let (file, keys, end) = match named.transpose() {
            Ok(Some((file, (keys, end)))) => (Some(file), keys, end),
            Ok(None) => (None, Vec::new(), 0),
            Err(error) => {
                warn!("{error}");
                (None, Vec::new(), self.caches.catch_up.at)
            }
        };
        changes.extend(keys.iter().filter_map(|(class, key)| self.unshared(*class, key)));
        let count = changes.len();
        if !self.write_records(changes) {
            let again = self.again();
            self.caches.catch_up.data.extend(data);
            self.caches.catch_up.remember(unnamed);
            return self.caches.catch_up.wait_until(again);
        }
        if count > 0 {
            info!("{count} jobs and returns that were not shared before are shared now");
        }
        self.caches.catch_up.at = end;
        match file {
            Some(file) if keys.is_empty() => {
                self.caches.catch_up.files.pop_front();
                self.caches.catch_up.at = 0;
                if let Err(error) = disk::remove(&file) {
                    warn!("{}", crate::chain(&error));
                }
            }
            // It cannot be read now.
            None if !self.caches.catch_up.files.is_empty() => {
                let again = self.again();
                self.caches.catch_up.wait_until(again);
            }
            _ => {}
        }
    }

    /// Returns what a cache of this master says about a record, if the records lack it.
    fn unshared(&self, class: Class, key: &Key) -> Option<Change> {
        if let Some((part, id)) = data::changed(key).filter(|_| class == Class::Data) {
            return self.data_change(part, &id);
        }
        let known = match class {
            // Of a batch the latest part may be missing.
            Class::Expected | Class::Job => false,
            _ => self.has(class, key),
        };
        if known {
            return None;
        }
        let content = self.cached_content(class, key);
        let content = content.unwrap_or_else(|error| {
            warn!("the {class} {key} cannot be shared: {}", crate::chain(&error));
            None
        });
        let content = content.filter(|content| class != Class::Job || self.model.is_new_job(key, content));
        content.map(|content| Change::Write(key.clone(), content))
    }

    fn cached_content(&self, class: Class, key: &Key) -> store::Result<Option<Content>> {
        let jobs = &self.shared.stores.jobs;
        let (jid, id) = key.parts().unwrap_or((key.as_str(), ""));
        let load = || -> store::Result<Option<Map>> {
            let mut load = jobs.load(jid)?;
            load.iter_mut().for_each(|load| drop(load.remove("Minions")));
            Ok(load)
        };
        Ok(match class {
            Class::Job => load()?.map(|load| {
                let mut packed = Vec::new();
                pack_map_into(&mut packed, &load, Packing::Bin);
                Content::Job { load: packed.into(), nocache: is_nocache(&load) }
            }),
            Class::Expected => {
                let known = match self.model.records().get(Class::Expected, key).map(|record| record.content) {
                    Some(Content::Expected(sets)) => sets.into_values().flatten().collect(),
                    _ => BTreeSet::new(),
                };
                let minions: BTreeSet<String> =
                    jobs.minions(jid)?.into_iter().filter(|minion| !known.contains(minion)).collect();
                (!minions.is_empty()).then(|| Content::Expected(BTreeMap::from([(String::new(), minions)])))
            }
            Class::Return => {
                let Ok(id) = MinionId::new(id) else { return Ok(None) };
                let Some(returned) = jobs.return_of(jid, &id)? else { return Ok(None) };
                let load = load()?.unwrap_or_default();
                let mut all = map! { "id" => id.as_str(), "jid" => jid };
                all.update(returned.to_map());
                let arguments = load.get("arg").or_else(|| load.get("fun_args")).cloned();
                for (name, value) in [("fun", load.get("fun").cloned()), ("fun_args", arguments)] {
                    if let Some(value) = value {
                        all.insert(name, value);
                    }
                }
                let out = returned.out.as_ref().and_then(|out| out.as_str()).map(str::to_owned);
                let out = out.filter(|out| out.len() <= share::fields::MAX_NAME);
                Some(Content::Return(Return { packed: packed(&all), out, publisher: self.model.node(), copy: false }))
            }
            _ => None,
        })
    }
}
