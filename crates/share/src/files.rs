//! What a change in the key directories means: a decision, or a file that is set aside.
//!
//! Programs and people may change key files behind a master's back, and such a change is a decision like any other. But files
//! that come back from a backup must not bring back a key that was deleted, and a lost directory must not delete a fleet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{Entry, Key, State};

/// A key file that lies in one of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// What its directory says: accepted, pending or rejected.
    pub state: State,
    /// The public key in it.
    pub content: Bytes,
}

/// What the files of an id mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// Nothing: they say what was decided, or wait for somebody to decide.
    Nothing,
    /// Somebody decided this by changing them.
    Decide(State, Bytes),
    /// Nobody decides by this. The file is moved to the pending keys and somebody is told why.
    SetAside(Bytes, &'static str),
    /// Nobody decides by this: a copy lies beside an accepted key file, and nobody knows which of the two is meant.
    Beside {
        /// The accepted key.
        accepted: Bytes,
        /// The file beside it.
        copy: KeyFile,
    },
    /// The files are gone. Ask [`LossWatch`] what that means.
    Gone,
}

/// Returns a public key in the form in which keys are compared: line endings and white space around it do not count.
pub(crate) fn clean(key: &Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(key) else { return key.clone() };
    let cleaned = crypto::clean_key(text);
    if cleaned.len() == key.len() { key.clone() } else { cleaned.into() }
}

/// Judges the key files of one id against what was decided about it.
pub fn judge(entry: Option<&Entry>, files: &[KeyFile]) -> FileVerdict {
    let cleaned = |file: &KeyFile| KeyFile { state: file.state, content: clean(&file.content) };
    let files: Vec<KeyFile> = files.iter().map(cleaned).collect();
    let visible = entry.and_then(Entry::visible).map(|visible| (visible.state, clean(&visible.content)));
    // Of several files the one counts that Salt obeys: the safest.
    let counted = files.iter().min_by_key(|file| match file.state {
        State::Deleted | State::Rejected => 0,
        State::Pending => 1,
        State::Accepted => 2,
    });
    let Some(file) = counted else {
        let known = visible.is_some_and(|(state, _)| state != State::Deleted);
        return if known { FileVerdict::Gone } else { FileVerdict::Nothing };
    };
    let decided = || FileVerdict::Decide(file.state, file.content.clone());
    let Some((state, content)) = &visible else {
        // Which of several files is meant, nobody has ever said.
        return accepted_beside(&files).map_or_else(decided, |accepted| beside(accepted, file));
    };
    let refused = entry.and_then(|entry| refused_state(entry, &file.content));
    let again = "the same key was deleted or rejected";
    if *state == file.state && *content == file.content {
        // Beside the file that counts, the same key in another directory is no move, but a copy that came back.
        let copy = files.iter().any(|other| other.state == State::Accepted && other.content == file.content);
        let returned = file.state != State::Accepted && refused.is_some() && copy;
        return if returned { FileVerdict::SetAside(file.content.clone(), again) } else { FileVerdict::Nothing };
    }
    if let Some(accepted) = accepted_beside(&files) {
        let obeyed = *state == State::Accepted && *content == accepted.content;
        let returned = !obeyed && entry.is_some_and(|entry| refused_state(entry, &accepted.content).is_some());
        return match returned {
            true => FileVerdict::SetAside(accepted.content.clone(), again),
            false => beside(accepted, file),
        };
    }
    // Whoever moves the file of a key that waits or is rejected knows what he does.
    let moved = *state != State::Deleted && *content == file.content;
    match refused {
        // A deleted key that waits does no harm, and a decision would only hide that it was deleted.
        Some(State::Deleted) if file.state == State::Pending && !moved => FileVerdict::Nothing,
        Some(_) if !moved => FileVerdict::SetAside(file.content.clone(), again),
        _ => decided(),
    }
}

/// Returns the accepted file of an id that has other files, too, as from an old backup.
fn accepted_beside(files: &[KeyFile]) -> Option<&KeyFile> {
    files.iter().find(|file| file.state == State::Accepted && files.len() > 1)
}

fn beside(accepted: &KeyFile, copy: &KeyFile) -> FileVerdict {
    FileVerdict::Beside { accepted: accepted.content.clone(), copy: copy.clone() }
}

/// Returns whether somebody deleted or rejected this public key, and nobody replaced that.
pub fn is_refused(entry: &Entry, key: &Bytes) -> bool {
    refused_state(entry, &clean(key)).is_some()
}

/// Returns how this public key was refused, if it was and nobody replaced that.
fn refused_state(entry: &Entry, content: &Bytes) -> Option<State> {
    let refused = |state| entry.decisions().iter().any(|one| one.state == state && clean(&one.content) == *content);
    [State::Deleted, State::Rejected].into_iter().find(|state| refused(*state))
}

/// How long vanished files wait for others to vanish, in milliseconds.
const LOSS_WINDOW: u64 = 5_000;

/// The number of files that may vanish in that time, whatever part of all they are.
const LOSS_FREE: usize = 10;

/// The number of files that may vanish while a master is down and count as deleted.
const DOWN_FREE: usize = 2;

/// Returns whether key files that were gone when a master started count as deleted.
///
/// While a master is down nobody tells how many vanished at once. So only few count, and only beside other files in a directory
/// that was there before the start: a restored or replaced directory deletes nothing. `gone` says in which directories the
/// files were, `holding` which ones were there and are not empty.
pub(crate) fn deleted_while_down(gone: &[State], holding: &[State]) -> bool {
    gone.len() <= DOWN_FREE && gone.iter().all(|state| holding.contains(state))
}

/// Key files that vanished, and wait until it is clear that not the whole directory vanishes.
#[derive(Clone, Debug, Default)]
pub struct LossWatch {
    gone: BTreeMap<Key, u64>,
    /// The same, the first that vanished first.
    order: BTreeSet<(u64, Key)>,
    /// When files vanished, also those that turned out to be deleted.
    recent: VecDeque<u64>,
    /// Too many vanished at once. Nothing is decided until they are back, or an operator has decided.
    many: bool,
    /// A whole directory is gone.
    directory: bool,
    /// Files vanished since the loss was last reported.
    unreported: bool,
    reported: Option<u64>,
}

/// The verdict on vanished files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Somebody deleted these keys.
    Deleted(Vec<Key>),
    /// Too many vanished at once to be deletions. Nothing is decided until an operator restores or adopts them.
    TooMany(Vec<Key>),
}

impl LossWatch {
    /// Takes note that the files of an id are gone.
    pub fn gone(&mut self, key: Key, now: u64) {
        if self.gone.contains_key(&key) {
            return;
        }
        self.order.insert((now, key.clone()));
        self.gone.insert(key, now);
        self.recent.push_back(now);
        self.unreported = true;
    }

    /// Takes note of files that were gone when the master started, and cannot be deletions.
    pub fn lost(&mut self, keys: Vec<Key>, now: u64) {
        self.many |= !keys.is_empty();
        keys.into_iter().for_each(|key| self.gone(key, now));
    }

    /// Takes note that files of an id are there again, or that something else was decided about it.
    pub fn back(&mut self, key: &Key) {
        let Some(time) = self.gone.remove(key) else { return };
        self.order.remove(&(time, key.clone()));
        if let Some(place) = self.recent.iter().position(|recent| *recent == time) {
            self.recent.remove(place);
        }
        if self.gone.is_empty() {
            // It was a false alarm.
            (self.many, self.directory, self.unreported) = (false, false, false);
        }
    }

    /// Takes note that a sign-in has made the file of an id again, which had vanished. Many keys may be lost although most of their
    /// minions are back within moments.
    pub fn made_again(&mut self, key: &Key, now: u64) {
        match self.gone.remove(key) {
            Some(time) => drop(self.order.remove(&(time, key.clone()))),
            None => self.recent.push_back(now),
        }
        if self.gone.is_empty() {
            self.recent.retain(|time| time + LOSS_WINDOW > now);
        }
    }

    /// Takes note that a whole directory is gone.
    pub fn directory_gone(&mut self) {
        self.directory = true;
    }

    /// Takes note that the directory is there again. Files in it that are not back stay undecided.
    pub fn directory_back(&mut self) {
        self.many |= self.directory && !self.gone.is_empty();
        self.directory = false;
    }

    /// Returns whether nothing waits for a decision.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty()
    }

    /// Returns when to call [`LossWatch::decide`].
    pub fn next(&self) -> Option<u64> {
        let (oldest, _) = self.order.first()?;
        match self.many || self.directory {
            true => self.unreported.then(|| self.reported.map_or(*oldest, |reported| reported + LOSS_WINDOW)),
            false => Some(oldest + LOSS_WINDOW),
        }
    }

    /// Decides about the files that vanished: at once if they are too many, else when their time is up. `known` is the number of
    /// keys that are not deleted.
    pub fn decide(&mut self, now: u64, known: usize) -> Option<Lost> {
        let oldest = self.order.first().map_or(u64::MAX, |(time, _)| *time);
        while self.recent.front().is_some_and(|time| time + LOSS_WINDOW <= now && *time < oldest) {
            self.recent.pop_front();
        }
        // Those that vanished shortly before and are deleted meanwhile count as well.
        let known = known + self.recent.len().saturating_sub(self.gone.len());
        let waiting = !self.gone.is_empty();
        self.many |= waiting && self.recent.len() > LOSS_FREE && self.recent.len() * 5 > known;
        if (self.many || self.directory) && waiting {
            self.many = true;
            return self.report(now);
        }
        let mut due = Vec::new();
        while self.order.first().is_some_and(|(time, _)| *time + LOSS_WINDOW <= now) {
            due.extend(self.order.pop_first().map(|(_, key)| key));
        }
        for key in &due {
            self.gone.remove(key);
        }
        (!due.is_empty()).then_some(Lost::Deleted(due))
    }

    /// Reports the loss at once, and what is lost besides when its time is up.
    fn report(&mut self, now: u64) -> Option<Lost> {
        if !self.unreported || self.reported.is_some_and(|reported| now < reported + LOSS_WINDOW) {
            return None;
        }
        (self.unreported, self.reported) = (false, Some(now));
        Some(Lost::TooMany(self.gone.keys().cloned().collect()))
    }

    /// Somebody has looked at the loss: the files were written again, or their deletion was meant. Returns the ids.
    pub fn release(&mut self) -> Vec<Key> {
        let gone = std::mem::take(self).gone;
        gone.into_keys().collect()
    }
}

#[cfg(test)]
mod tests;
