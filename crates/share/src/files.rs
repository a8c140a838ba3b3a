//! What a change in the key directories means: a decision, or a file that is set aside.
//!
//! Programs and people may change key files behind a master's back, and such a change is a decision like any other. But files
//! that come back from a backup must not bring back a key that was deleted, and a lost directory must not delete a fleet.

use std::collections::{BTreeMap, VecDeque};

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
    /// The files are gone. Ask [`LossWatch`] what that means.
    Gone,
}

/// Judges the key files of one id against what was decided about it.
pub fn judge(entry: Option<&Entry>, files: &[KeyFile]) -> FileVerdict {
    let visible = entry.and_then(Entry::visible).map(|visible| (visible.state, &visible.content));
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
    let Some((state, content)) = visible else { return decided() };
    let refused = entry.and_then(|entry| refused_state(entry, &file.content));
    let again = "the same key was deleted or rejected";
    if state == file.state && *content == file.content {
        // Beside the file that counts, the same key in another directory is no move, but a copy that came back.
        let copy = files.iter().any(|other| other.state == State::Accepted && other.content == file.content);
        let returned = file.state != State::Accepted && refused.is_some() && copy;
        return if returned { FileVerdict::SetAside(file.content.clone(), again) } else { FileVerdict::Nothing };
    }
    // Whoever moves the file of a key that waits or is rejected knows what he does.
    let moved = state != State::Deleted && *content == file.content;
    match refused {
        // A deleted key that waits does no harm, and a decision would only hide that it was deleted.
        Some(State::Deleted) if file.state == State::Pending && !moved => FileVerdict::Nothing,
        Some(_) if !moved => FileVerdict::SetAside(file.content.clone(), again),
        _ => decided(),
    }
}

/// Returns how this public key was refused, if it was and nobody replaced that.
fn refused_state(entry: &Entry, content: &Bytes) -> Option<State> {
    let refused = |state| entry.decisions().iter().any(|one| one.state == state && one.content == *content);
    [State::Deleted, State::Rejected].into_iter().find(|state| refused(*state))
}

/// How long vanished files wait for others to vanish, in milliseconds.
const LOSS_WINDOW: u64 = 5_000;

/// The number of files that may vanish in that time, whatever part of all they are.
const LOSS_FREE: usize = 10;

/// Key files that vanished, and wait until it is clear that not the whole directory vanishes.
#[derive(Clone, Debug, Default)]
pub struct LossWatch {
    gone: BTreeMap<Key, u64>,
    /// When files vanished, also those that turned out to be deleted.
    recent: VecDeque<u64>,
    held: bool,
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
        if self.gone.insert(key, now).is_none() {
            self.recent.push_back(now);
        }
    }

    /// Takes note that files of an id are there again.
    pub fn back(&mut self, key: &Key) {
        self.gone.remove(key);
    }

    /// Takes note that a whole directory is gone.
    pub fn directory_gone(&mut self) {
        self.held = true;
    }

    /// Returns whether nothing waits for a decision.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty()
    }

    /// Returns when to call [`LossWatch::settle`].
    pub fn next(&self) -> Option<u64> {
        let oldest = self.gone.values().min().filter(|_| !self.held)?;
        Some(oldest + LOSS_WINDOW)
    }

    /// Decides about the files that vanished: at once if they are too many, else when their time is up. `known` is the number of
    /// keys before they vanished.
    pub fn settle(&mut self, now: u64, known: usize) -> Option<Lost> {
        self.recent.retain(|&time| time + LOSS_WINDOW > now || self.gone.values().any(|gone| *gone == time));
        let many = self.recent.len() > LOSS_FREE && self.recent.len() * 5 > known;
        if (many || self.held) && !self.gone.is_empty() {
            self.held = true;
            return Some(Lost::TooMany(self.gone.keys().cloned().collect()));
        }
        let due: Vec<Key> =
            self.gone.iter().filter(|(_, time)| *time + LOSS_WINDOW <= now).map(|(key, _)| key.clone()).collect();
        due.iter().for_each(|key| {
            self.gone.remove(key);
        });
        (!due.is_empty()).then_some(Lost::Deleted(due))
    }

    /// Somebody has looked at the loss: the files were written again, or their deletion was meant. Returns the ids.
    pub fn release(&mut self) -> Vec<Key> {
        let gone = std::mem::take(self).gone;
        gone.into_keys().collect()
    }
}

#[cfg(test)]
mod tests;
