//! Key files and decisions: what a change of files says, and what a decision makes of the files.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use crypto::{PublicKey, clean_key};
use keys::{Bank, KeyError, KeyState, KeyStore, SignInChanges};
use share::{By, Change, Entry, Key, KeyFile, MAX_CONTENT, State};
use wire::MinionId;

/// How long a vanished file waits for the event that `salt-key` and the wheel fire when they delete a key, in milliseconds. Without
/// the event nobody knows whether it was deleted or lost.
const CONFIRM: u64 = 1_000;

/// Key files that vanished, and wait for somebody to say that the key was deleted.
#[derive(Default)]
pub struct Vanished {
    /// When to stop waiting.
    waiting: BTreeMap<MinionId, u64>,
    /// Those that a sign-in has made pending since. That does not bring back the file that vanished.
    registered: BTreeSet<MinionId>,
    /// The master starts: what changed, changed while nobody noted sign-ins.
    starting: bool,
}

impl Vanished {
    /// Expects what changed while the master was down.
    pub fn start(&mut self) {
        self.starting = true;
    }

    /// Returns the ids whose files vanished while the master was down. For them nobody fires an event any more.
    pub fn started(&mut self) -> Vec<MinionId> {
        self.starting = false;
        self.due(u64::MAX)
    }

    /// Forgets an id: its file is there again.
    pub fn forget(&mut self, id: &MinionId) {
        self.waiting.remove(id);
        self.registered.remove(id);
    }

    /// Returns when to call [`Vanished::due`].
    pub fn next(&self) -> Option<u64> {
        self.waiting.values().min().copied()
    }

    /// Returns the ids of which nobody has said that their key was deleted.
    pub fn due(&mut self, now: u64) -> Vec<MinionId> {
        let due: Vec<MinionId> = self.waiting.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for id in &due {
            self.waiting.remove(id);
        }
        due
    }

    /// Returns whether the file that was decided about is gone: there is none, or only what a sign-in has written since.
    pub fn is_gone(&self, id: &MinionId, found: &Found) -> bool {
        let Found::Files(files) = found else { return false };
        match &files[..] {
            [] => true,
            [file] => file.state == State::Pending && self.registered.contains(id),
            _ => false,
        }
    }

    /// Returns whether a sign-in has made the key pending since its file vanished.
    pub fn is_registered(&self, id: &MinionId) -> bool {
        self.registered.contains(id)
    }
}

/// What the files of an id are, as far as they can be decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// These files, each with a key.
    Files(Vec<KeyFile>),
    /// A file that holds no key: somebody is writing it, or it is damaged. Nothing is decided by it.
    Unreadable,
}

/// Returns whether a text is a public key, and may become a key file.
pub fn is_key(content: &[u8]) -> bool {
    PublicKey::from_pem(content).is_ok()
}

/// Reads the key files of an id.
pub fn read(store: &KeyStore, id: &MinionId) -> Result<Found, KeyError> {
    let mut files = Vec::new();
    for state in KeyState::LOOKUP {
        let Some(text) = store.read(state.bank(), id)? else { continue };
        let content = clean_key(&text);
        if content.len() > MAX_CONTENT || !is_key(content.as_bytes()) {
            return Ok(Found::Unreadable);
        }
        files.push(KeyFile { state: shared(state), content: Bytes::from(content) });
    }
    Ok(Found::Files(files))
}

/// Returns the ids that have a file in a directory of accepted, pending or rejected keys, and whether such a directory is gone.
pub fn ids(store: &KeyStore) -> Result<(BTreeSet<MinionId>, bool), KeyError> {
    let mut ids = BTreeSet::new();
    let mut gone = false;
    for bank in KeyState::LOOKUP.map(KeyState::bank) {
        gone |= !store.bank_path(bank).is_dir();
        ids.extend(store.ids(bank)?);
    }
    Ok((ids, gone))
}

/// Returns which directories of keys are there, by the state that their files have.
pub fn directories(store: &KeyStore) -> Vec<State> {
    KeyState::LOOKUP.into_iter().filter(|state| store.bank_path(state.bank()).is_dir()).map(shared).collect()
}

/// Returns which of these directories hold keys.
pub fn holding(store: &KeyStore, directories: &[State]) -> Vec<State> {
    let holds = |state: KeyState| store.ids(state.bank()).is_ok_and(|ids| !ids.is_empty());
    directories.iter().copied().filter(|state| own(*state).is_some_and(holds)).collect()
}

/// Returns what the files of an id say that is to be told the model, if anything.
pub fn change(
    id: &MinionId,
    files: Vec<KeyFile>,
    entry: &Entry,
    signed_in: &SignInChanges,
    vanished: &mut Vanished,
    now: u64,
) -> Option<Change> {
    let key = Key::new(id.as_str())?;
    let present = entry.present();
    let by_rule = match &files[..] {
        [file] => signed_in.take(id, own(file.state)?, &String::from_utf8_lossy(&file.content)),
        _ => false,
    };
    // A sign-in makes a key pending only if there was no file. So the file that was decided about had vanished, and whether it
    // was deleted or lost is still open. This is not so if the set decided that the key is pending: each master keeps its own
    // pending key.
    let again = match (&files[..], present) {
        ([file], Some((decided, _))) => {
            let unseen = by_rule || vanished.is_registered(id) || vanished.starting;
            file.state == State::Pending && decided != State::Pending && unseen
        }
        _ => false,
    };
    if let Some((_, content)) = present
        && (files.is_empty() || again)
    {
        if files.is_empty() && !is_key(content) {
            // It was never written, so nobody removed it.
            return None;
        }
        vanished.waiting.entry(id.clone()).or_insert(now + CONFIRM);
        match again {
            true => vanished.registered.insert(id.clone()),
            false => vanished.registered.remove(id),
        };
        return None;
    }
    vanished.forget(id);
    if let [file] = &files[..] {
        // Only sign-ins make keys wait; people do by moving the file of a key that was decided about.
        let registered = file.state == State::Pending && present.is_none_or(|(_, content)| *content != file.content);
        if by_rule || registered {
            return Some(Change::Key { id: key, state: file.state, public_key: file.content.clone(), by: By::Auto });
        }
    }
    Some(Change::Files(key, files))
}

/// Returns the deletion of a key, if it is gone indeed and was not deleted before.
pub fn deletion(id: &MinionId, found: &Found, entry: &Entry, vanished: &mut Vanished) -> Option<Change> {
    if !vanished.is_gone(id, found) {
        return None;
    }
    let (_, content) = entry.present()?;
    vanished.waiting.remove(id);
    let (key, public_key) = (Key::new(id.as_str())?, content.clone());
    Some(Change::Key { id: key, state: State::Deleted, public_key, by: By::Files })
}

/// What became of key files by a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// They said it already.
    Same,
    /// The key has this state now.
    Now(KeyState),
    /// The key is gone; before, it had this state.
    Gone,
    /// Nothing: another key waits here.
    Kept(Bytes),
}

/// Makes the key files of an id say what was decided.
pub fn write(
    store: &KeyStore,
    id: &MinionId,
    present: Option<&(State, Bytes)>,
    denied: Option<&Bytes>,
    entry: &Entry,
) -> Result<Written, KeyError> {
    let found = read(store, id)?;
    if let Some(kept) = kept(present, &found).filter(|kept| !share::is_refused(entry, kept)) {
        if let Some((_, other)) = present {
            store.deny(id, &String::from_utf8_lossy(other))?;
        }
        return Ok(Written::Kept(kept));
    }
    if let Some(denied) = denied {
        store.deny(id, &String::from_utf8_lossy(denied))?;
    }
    let Some((state, content)) = present else {
        let mut gone = false;
        // As with `salt-key -d`, in all directories.
        for bank in Bank::ALL {
            gone |= store.remove(id, bank)?;
        }
        return Ok(if gone { Written::Gone } else { Written::Same });
    };
    let wanted = KeyFile { state: *state, content: content.clone() };
    if found == Found::Files(vec![wanted]) {
        return Ok(Written::Same);
    }
    let Some(state) = own(*state) else { return Ok(Written::Same) };
    store.put(id, state, &String::from_utf8_lossy(content))?;
    Ok(Written::Now(state))
}

/// Returns the key that waits here although the set has another one that waits.
///
/// An operator may have compared it. He would accept a key that he has never seen if it were replaced before he accepts.
fn kept(present: Option<&(State, Bytes)>, found: &Found) -> Option<Bytes> {
    let (State::Pending, decided) = present? else { return None };
    match found {
        Found::Files(files) => match &files[..] {
            [file] if file.state == State::Pending && !is_same(&file.content, decided) => Some(file.content.clone()),
            _ => None,
        },
        Found::Unreadable => None,
    }
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    let clean = |text: &[u8]| clean_key(&String::from_utf8_lossy(text));
    clean(a) == clean(b)
}

/// Moves the key of an id to those that wait.
pub fn set_aside(store: &KeyStore, id: &MinionId) -> Result<(), KeyError> {
    for bank in [Bank::Accepted, Bank::Rejected] {
        if store.move_key(id, bank, Bank::Pending)? {
            return Ok(());
        }
    }
    Ok(())
}

fn shared(state: KeyState) -> State {
    match state {
        KeyState::Accepted => State::Accepted,
        KeyState::Pending => State::Pending,
        KeyState::Rejected => State::Rejected,
    }
}

fn own(state: State) -> Option<KeyState> {
    match state {
        State::Accepted => Some(KeyState::Accepted),
        State::Pending => Some(KeyState::Pending),
        State::Rejected => Some(KeyState::Rejected),
        State::Deleted => None,
    }
}

#[cfg(test)]
mod tests {
    use crypto::PrivateKey;
    use keys::{Admission, AdmissionOptions, Applicant, AutoKey, AutoKeyOptions, LiveKeys, Owner, Seats};
    use share::{Class, Decision, Node, Seen, SignedDecision, Stamp};
    use std::sync::Arc;

    use super::*;

    fn store() -> (tempfile::TempDir, KeyStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::default());
        store.prepare().unwrap();
        (dir, store)
    }

    fn public_key() -> String {
        PrivateKey::generate(2048).unwrap().public().to_pem()
    }

    fn web() -> MinionId {
        MinionId::new("web1").unwrap()
    }

    /// What was decided about a key, by anybody.
    fn entry(state: State, text: &str) -> Entry {
        let key = crypto::MemberKey::from_random([1; 32]).unwrap();
        let decision = Decision {
            class: Class::Keys,
            key: Key::new("web1").unwrap(),
            stamp: Stamp { time: 1, node: Node::of_key(&key.public()) },
            state,
            content: Bytes::from(clean_key(text)),
            by: By::Files,
            replaces: Seen::default(),
            follows: Seen::default(),
        };
        Entry::new(vec![SignedDecision::sign(decision, &key).unwrap()])
    }

    /// Who decided by the files as they are, or `None` if nothing is told the model.
    fn author(store: &KeyStore, entry: &Entry, signed_in: &SignInChanges, vanished: &mut Vanished) -> Option<By> {
        let Found::Files(files) = read(store, &web()).unwrap() else { return None };
        match change(&web(), files, entry, signed_in, vanished, 5_000)? {
            Change::Key { by, .. } => Some(by),
            _ => Some(By::Files),
        }
    }

    #[test]
    fn sign_ins_decide_by_rule_and_everybody_else_as_a_person() {
        let (dir, store) = store();
        let (signed_in, mut vanished) = (Arc::<SignInChanges>::default(), Vanished::default());
        let auto = AutoKeyOptions { auto_accept: true, ..AutoKeyOptions::default() };
        let auto = AutoKey::new(auto, dir.path());
        let admission = Admission::new(LiveKeys::new(store.clone()), auto, AdmissionOptions::default());
        let admission = admission.noting(signed_in.clone());
        let text = public_key();
        let applicant = Applicant { id: &web(), public_key: &text, autosign_grains: None, address: None };
        let seats = |_: &MinionId| Seats { taken: 0, has_seat: false };
        admission.admit(&applicant, seats, std::time::SystemTime::now()).unwrap();
        let nothing = Entry::default();
        assert_eq!(author(&store, &nothing, &signed_in, &mut vanished), Some(By::Auto));
        assert_eq!(author(&store, &nothing, &signed_in, &mut vanished), Some(By::Files), "that was the same by hand");
        store.move_key(&web(), Bank::Accepted, Bank::Pending).unwrap();
        assert_eq!(author(&store, &nothing, &signed_in, &mut vanished), Some(By::Auto));
        let accepted = entry(State::Accepted, &text);
        assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), Some(By::Files), "moved back by hand");
    }

    #[test]
    fn a_vanished_file_waits_for_the_word_that_it_was_deleted() {
        let (_dir, store) = store();
        let (signed_in, mut vanished) = (SignInChanges::default(), Vanished::default());
        let accepted = entry(State::Accepted, &public_key());
        assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), None);
        assert_eq!(vanished.next(), Some(5_000 + CONFIRM));
        let deletion = |found: &Found, entry: &Entry, vanished: &mut Vanished| deletion(&web(), found, entry, vanished);
        let gone = read(&store, &web()).unwrap();
        let decided = deletion(&gone, &accepted, &mut vanished);
        assert!(matches!(decided, Some(Change::Key { state: State::Deleted, by: By::Files, .. })));
        assert_eq!(vanished.next(), None);
        assert!(deletion(&gone, &Entry::default(), &mut vanished).is_none(), "nobody knows the key");
        store.put(&web(), KeyState::Accepted, &public_key()).unwrap();
        let there = read(&store, &web()).unwrap();
        assert!(deletion(&there, &accepted, &mut vanished).is_none(), "whoever says so, the key is there");
        author(&store, &accepted, &signed_in, &mut vanished);
        assert!(vanished.due(u64::MAX).is_empty());
    }

    #[test]
    fn a_sign_in_after_a_deletion_does_not_bring_the_key_back() {
        let (dir, store) = store();
        let (signed_in, mut vanished) = (Arc::<SignInChanges>::default(), Vanished::default());
        let text = public_key();
        let accepted = entry(State::Accepted, &text);
        store.put(&web(), KeyState::Accepted, &text).unwrap();
        store.remove(&web(), Bank::Accepted).unwrap();
        let auto = AutoKey::new(AutoKeyOptions::default(), dir.path());
        let admission = Admission::new(LiveKeys::new(store.clone()), auto, AdmissionOptions::default());
        let admission = admission.noting(signed_in.clone());
        let applicant = Applicant { id: &web(), public_key: &text, autosign_grains: None, address: None };
        let seats = |_: &MinionId| Seats { taken: 0, has_seat: false };
        admission.admit(&applicant, seats, std::time::SystemTime::now()).unwrap();
        let pending = read(&store, &web()).unwrap();
        for _ in 0..2 {
            assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), None, "it may be lost with many others");
            assert_eq!(vanished.due(u64::MAX), [web()]);
            assert!(vanished.is_gone(&web(), &pending));
        }
        let deleted = deletion(&web(), &pending, &accepted, &mut vanished);
        assert!(matches!(deleted, Some(Change::Key { state: State::Deleted, .. })));
        let tombstone = entry(State::Deleted, &text);
        assert_eq!(author(&store, &tombstone, &signed_in, &mut vanished), Some(By::Auto), "then it registers");
        assert!(!vanished.is_registered(&web()));
        assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), Some(By::Files), "moved by a person");
    }

    #[test]
    fn what_holds_no_key_decides_nothing() {
        let (_dir, store) = store();
        let half = &public_key()[..100];
        std::fs::write(store.path(Bank::Accepted, &web()), half).unwrap();
        assert_eq!(read(&store, &web()).unwrap(), Found::Unreadable);
    }

    #[test]
    fn a_key_that_is_none_is_not_missed() {
        let (_dir, store) = store();
        let (signed_in, mut vanished) = (SignInChanges::default(), Vanished::default());
        let nonsense = entry(State::Accepted, "nonsense");
        assert_eq!(author(&store, &nonsense, &signed_in, &mut vanished), None);
        assert_eq!(vanished.next(), None);
        assert!(!is_key(b"nonsense") && is_key(clean_key(&public_key()).as_bytes()));
    }

    #[test]
    fn a_key_that_waits_is_replaced_by_no_other_one_that_waits() {
        let (_dir, store) = store();
        let (own, other) = (public_key(), Bytes::from(clean_key(&public_key())));
        let content = Bytes::from(clean_key(&own));
        let put = |present: &(State, Bytes), entry: &Entry| {
            store.put(&web(), KeyState::Pending, &own).unwrap();
            write(&store, &web(), Some(present), Some(&content), entry).unwrap()
        };
        let pending = (State::Pending, other.clone());
        assert_eq!(put(&pending, &Entry::default()), Written::Kept(content.clone()));
        assert_eq!(store.find(&web()).unwrap().unwrap().text, own);
        let denied = store.read(Bank::Denied, &web()).unwrap().unwrap();
        assert_eq!(denied.as_bytes(), other, "the other one is denied here");
        for refused in [State::Deleted, State::Rejected] {
            assert_eq!(put(&pending, &entry(refused, &own)), Written::Now(KeyState::Pending));
        }
        assert_eq!(put(&(State::Accepted, other.clone()), &Entry::default()), Written::Now(KeyState::Accepted));
        let (signed_in, mut vanished) = (SignInChanges::default(), Vanished::default());
        store.put(&web(), KeyState::Pending, &own).unwrap();
        vanished.start();
        let decided = entry(State::Pending, &public_key());
        assert_eq!(author(&store, &decided, &signed_in, &mut vanished), Some(By::Auto), "it has not vanished");
    }

    #[test]
    fn a_sign_in_while_nobody_looked_does_not_bring_the_key_back() {
        let (_dir, store) = store();
        let (signed_in, mut vanished) = (SignInChanges::default(), Vanished::default());
        let text = public_key();
        let accepted = entry(State::Accepted, &text);
        store.put(&web(), KeyState::Pending, &text).unwrap();
        vanished.start();
        assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), None);
        assert_eq!(vanished.started(), [web()]);
        assert!(vanished.is_gone(&web(), &read(&store, &web()).unwrap()));
        store.put(&web(), KeyState::Accepted, &text).unwrap();
        assert_eq!(author(&store, &accepted, &signed_in, &mut vanished), Some(By::Files), "it is back");
    }

    #[test]
    fn directories_that_were_there_and_are_not_empty_hold_keys() {
        let (_dir, store) = store();
        store.put(&web(), KeyState::Accepted, "key").unwrap();
        std::fs::remove_dir(store.bank_path(Bank::Rejected)).unwrap();
        let there = directories(&store);
        assert_eq!(there, [State::Pending, State::Accepted]);
        store.prepare().unwrap();
        store.put(&MinionId::new("web2").unwrap(), KeyState::Rejected, "key").unwrap();
        assert_eq!(holding(&store, &there), [State::Accepted]);
    }

    #[test]
    fn files_follow_decisions_and_are_written_once() {
        let (_dir, store) = store();
        let (first, second) = (Bytes::from(clean_key(&public_key())), Bytes::from(clean_key(&public_key())));
        let accepted = (State::Accepted, first.clone());
        let now = |present: Option<&(State, Bytes)>, denied: Option<&Bytes>| {
            write(&store, &web(), present, denied, &Entry::default()).unwrap()
        };
        assert_eq!(now(Some(&accepted), Some(&second)), Written::Now(KeyState::Accepted));
        assert_eq!(now(Some(&accepted), None), Written::Same);
        assert!(store.path(Bank::Denied, &web()).is_file());
        assert_eq!(now(None, None), Written::Gone);
        assert_eq!(now(None, None), Written::Same);
        assert!(!store.path(Bank::Denied, &web()).exists());
        store.put(&web(), KeyState::Accepted, "key").unwrap();
        set_aside(&store, &web()).unwrap();
        assert_eq!(ids(&store).unwrap(), ([web()].into(), false));
        assert_eq!(store.find(&web()).unwrap().unwrap().state, KeyState::Pending);
        std::fs::remove_dir(store.bank_path(Bank::Accepted)).unwrap();
        assert!(ids(&store).unwrap().1);
    }
}
