//! Tells a running master which key files have changed, whoever changed them.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use crypto::clean_key;
use wire::MinionId;

use crate::watch::Watch;
use crate::{Bank, KeyState, KeyStore};

/// The directories that say what was decided about a key.
const STATES: [Bank; 3] = [Bank::Accepted, Bank::Pending, Bank::Rejected];

/// Watches the directories of accepted, pending and rejected keys.
#[derive(Debug)]
pub struct KeyChanges {
    watch: Watch,
}

/// Key files that have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedKeys {
    /// The files of these ids.
    These(Vec<MinionId>),
    /// Any: more changed than could be reported, or the kernel reports nothing.
    Any,
}

impl KeyChanges {
    /// Starts to watch. What changed before is not told.
    pub fn watch(store: &KeyStore) -> Self {
        KeyChanges { watch: Watch::new(STATES.map(|bank| store.bank_path(bank)).into()) }
    }

    /// Returns what has changed since the last call, without waiting.
    pub fn take(&mut self) -> ChangedKeys {
        let changes = self.watch.changes();
        if changes.all {
            return ChangedKeys::Any;
        }
        let mut ids: Vec<MinionId> = changes.names.into_iter().filter_map(|name| MinionId::new(name).ok()).collect();
        ids.sort();
        ids.dedup();
        ChangedKeys::These(ids)
    }

    /// Becomes readable when there is something to [take](KeyChanges::take); `None` where the kernel cannot report changes, as on
    /// network file systems. There [`take`](KeyChanges::take) must be called from time to time.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.watch.readable()
    }
}

/// The maximum number of changes that are remembered until somebody asks for them.
const MOST: usize = 100_000;

/// The key files that the master itself writes when minions sign in. A running master that shares its keys needs to know them:
/// they are the decisions of a rule and not of a person.
#[derive(Debug, Default)]
pub struct SignInChanges(Mutex<HashMap<MinionId, (KeyState, String)>>);

impl SignInChanges {
    /// Notes a change that is about to be made.
    pub(crate) fn note(&self, id: &MinionId, state: KeyState, text: &str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is forgotten counts as the decision of a person.
        if noted.len() >= MOST {
            noted.clear();
        }
        noted.insert(id.clone(), (state, clean_key(text)));
    }

    /// Returns whether the last change of the key of an id was made by the master at a sign-in, and led to this state and key.
    /// Forgets the change.
    pub fn take(&self, id: &MinionId, state: KeyState, text: &str) -> bool {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        noted.is_some_and(|noted| noted == (state, clean_key(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Owner;

    #[test]
    fn changes_are_told_by_id_and_denied_keys_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::default());
        store.prepare().unwrap();
        let mut changes = KeyChanges::watch(&store);
        assert!(changes.readable().is_some());
        assert_eq!(changes.take(), ChangedKeys::These(vec![]));
        let id = |text: &str| MinionId::new(text).unwrap();
        store.put(&id("web2"), KeyState::Pending, "key").unwrap();
        store.move_key(&id("web2"), Bank::Pending, Bank::Accepted).unwrap();
        store.put(&id("web1"), KeyState::Rejected, "key").unwrap();
        store.deny(&id("web3"), "key").unwrap();
        assert_eq!(changes.take(), ChangedKeys::These(vec![id("web1"), id("web2")]));
        store.remove(&id("web1"), Bank::Rejected).unwrap();
        assert_eq!(changes.take(), ChangedKeys::These(vec![id("web1")]));
        std::fs::rename(store.bank_path(Bank::Accepted), dir.path().join("elsewhere")).unwrap();
        assert_eq!(changes.take(), ChangedKeys::Any);
    }

    #[test]
    fn a_change_at_a_sign_in_is_known_once_and_only_as_it_was_made() {
        let (changes, web) = (SignInChanges::default(), MinionId::new("web1").unwrap());
        changes.note(&web, KeyState::Pending, "key\r\n");
        assert!(changes.take(&web, KeyState::Pending, "key"));
        assert!(!changes.take(&web, KeyState::Pending, "key"));
        changes.note(&web, KeyState::Pending, "key");
        assert!(!changes.take(&web, KeyState::Accepted, "key"));
    }
}
