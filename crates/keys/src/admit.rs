//! The sign-in of a minion's key: reads the files, decides, and writes the result.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crypto::{PublicKey, clean_key};
use logscope::Peer;
use tracing::{error, info, warn};
use value::Map;
use wire::MinionId;
use wire::loads::AuthOutcome;

use crate::decide::{Row, Situation, StoreAction, Stored, decide};
use crate::pending::Pending;
use crate::{AutoKey, Bank, KeyError, KeyState, LiveKeys, PendingLimits, SignInChanges, StoredKey};

/// The longest key text that is parsed, in bytes. A key of 16,384 bits needs less than a fifth of that.
const MAX_KEY_TEXT: usize = 16 << 10;

/// How often a decision is repeated if the files have changed in the meantime.
const ATTEMPTS: usize = 10;

/// How a master treats keys. The names are those of Salt's options.
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    /// Do not check keys.
    pub open_mode: bool,
    /// How many minions may be connected; `None` for any number. Salt's option uses 0 for this.
    pub max_minions: Option<usize>,
    /// How many keys may be pending.
    pub max_pending: PendingLimits,
    /// New keys with fewer bits are refused (`minimum_key_bits`).
    pub minimum_key_bits: u32,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        AdmissionOptions {
            open_mode: false,
            max_minions: None,
            max_pending: PendingLimits::default(),
            minimum_key_bits: 2048,
        }
    }
}

/// What a minion sends about itself.
#[derive(Clone, Copy, Debug)]
pub struct Applicant<'a> {
    /// The id.
    pub id: &'a MinionId,
    /// The text of its public key, as received.
    pub public_key: &'a str,
    /// The grains it sent for automatic acceptance.
    pub autosign_grains: Option<&'a Map>,
    /// Its address, if known.
    pub address: Option<IpAddr>,
}

/// The connected minions, which count against `max_minions`.
#[derive(Clone, Copy, Debug)]
pub struct Seats {
    /// The number of connected minions.
    pub taken: usize,
    /// True if the applicant is one of them.
    pub has_seat: bool,
}

/// Decides about the keys of minions that sign in.
#[derive(Debug)]
pub struct Admission {
    keys: LiveKeys,
    auto: AutoKey,
    options: AdmissionOptions,
    pending: Pending,
    changes: Option<Arc<SignInChanges>>,
}

impl Admission {
    /// Creates the admission for a store of keys.
    pub fn new(keys: LiveKeys, auto: AutoKey, options: AdmissionOptions) -> Self {
        let pending = Pending::new(options.max_pending);
        Admission { keys, auto, options, pending, changes: None }
    }

    /// Notes each change of the key files.
    pub fn noting(self, changes: Arc<SignInChanges>) -> Self {
        Admission { changes: Some(changes), ..self }
    }

    /// Returns the keys.
    pub fn keys(&self) -> &LiveKeys {
        &self.keys
    }

    /// Decides about a minion's key and changes the files accordingly. Blocks on the disk, so do not call it from an
    /// async task.
    ///
    /// `seats` is called only with `max_minions`. If a file cannot be read or written, the sign-in has no effect, and
    /// the minion should retry.
    pub fn admit(
        &self,
        applicant: &Applicant<'_>,
        seats: impl Fn(&MinionId) -> Seats,
        now: SystemTime,
    ) -> Result<AuthOutcome, KeyError> {
        let id = applicant.id;
        info!("Authentication request from {id}");
        // Before anything is parsed or hashed: the sender has proved nothing yet.
        let sized = applicant.public_key.len() <= MAX_KEY_TEXT;
        // Stored as all releases compare it. A text that is too long is refused as it is.
        let cleaned = sized.then(|| clean_key(applicant.public_key));
        let text = cleaned.as_deref().unwrap_or(applicant.public_key);
        // The common case, a known minion that signs in again, needs no file at all.
        let recognised = sized.then(|| self.keys.recognise(id, text)).flatten();
        let is_recognised = recognised.is_some();
        let parse =
            || crypto::is_pem_block(text).then(|| PublicKey::from_pem(text.as_bytes()).ok().map(Arc::new)).flatten();
        let key = recognised.or_else(|| sized.then(parse).flatten());
        let case = Case { id, text, key, grains: applicant.autosign_grains, address: applicant.address, now };
        for _ in 0..ATTEMPTS {
            let full = self.options.max_minions.is_some_and(|most| {
                let seats = seats(case.id);
                seats.taken > most && !seats.has_seat
            });
            let known = match is_recognised {
                true => Some(Stored { state: KeyState::Accepted, same: true }),
                false => self.keys.store().find(case.id)?.map(|stored| is_same(&stored, text)),
            };
            let decision = decide(&self.situation(&case, full, known)?);
            if self.store(&case, known, decision.store)? {
                // Nothing is proven, but lines about a minion with a key have a share of their own: strangers must not hide them
                // among lines about strangers.
                let is_known = known.is_some_and(|stored| stored.state == KeyState::Accepted);
                let _peer = is_known.then(|| logscope::enter(Peer::Claimed(case.id.clone())));
                log(case.id, decision.row);
                return Ok(decision.outcome);
            }
            // Another application under this id was faster, and this one is no longer the first.
        }
        // A directory or a link to nowhere is in the way.
        let path = self.keys.store().path(Bank::Pending, case.id);
        Err(KeyError::io("store key", &path)(std::io::ErrorKind::AlreadyExists.into()))
    }

    /// Collects the facts for the decision. Reads the control files only for keys that are new or pending.
    fn situation(&self, case: &Case<'_>, full: bool, stored: Option<Stored>) -> Result<Situation, KeyError> {
        let usable = case.key.is_some();
        let undecided = stored.is_none_or(|stored| stored.state == KeyState::Pending);
        let asks = undecided && usable && !full && !self.options.open_mode;
        let weak = case.key.as_ref().is_some_and(|key| key.bits() < self.options.minimum_key_bits);
        let auto_reject = asks && self.auto.rejects(case.id);
        Ok(Situation {
            weak,
            crowded: asks && stored.is_none() && self.pending.is_crowded(&self.keys, case.address)?,
            full,
            usable,
            open_mode: self.options.open_mode,
            stored,
            auto_reject,
            // A stub is used up by the question, so it is asked only when the answer counts.
            auto_sign: asks && !auto_reject && !weak && self.auto.signs(case.id, case.grains, case.now),
        })
    }

    /// Changes the files. Returns false if another key was stored for the id in the meantime.
    fn store(&self, case: &Case<'_>, stored: Option<Stored>, action: StoreAction) -> Result<bool, KeyError> {
        let store = self.keys.store();
        if let (Some(changes), StoreAction::Put(state) | StoreAction::Move(state)) = (&self.changes, action) {
            // Before it is made, or whoever sees it would take it for another's.
            changes.note(case.id, state, case.text);
        }
        match (action, stored) {
            (StoreAction::Nothing, _) => {}
            (StoreAction::Put(state), None) if !self.options.open_mode => {
                let stored = store.put_new(case.id, state, case.text)?;
                if stored && state != KeyState::Accepted {
                    self.pending.note(case.id, case.address);
                }
                return Ok(stored);
            }
            // What is accepted is the key that was looked at, not what may lie there by now.
            (StoreAction::Put(state) | StoreAction::Move(state @ KeyState::Accepted), _)
            | (StoreAction::Move(state), None) => {
                store.put(case.id, state, case.text)?;
            }
            (StoreAction::Move(state), Some(stored)) => {
                store.move_key(case.id, stored.state.bank(), state.bank())?;
            }
            (StoreAction::Deny, _) => store.deny(case.id, case.text)?,
        }
        Ok(true)
    }
}

struct Case<'a> {
    id: &'a MinionId,
    text: &'a str,
    key: Option<Arc<PublicKey>>,
    grains: Option<&'a Map>,
    address: Option<IpAddr>,
    now: SystemTime,
}

fn is_same(stored: &StoredKey, text: &str) -> Stored {
    Stored { state: stored.state, same: clean_key(&stored.text) == clean_key(text) }
}

/// Logs the decision with Salt's texts, which people search for.
fn log(id: &MinionId, row: Row) {
    match row {
        Row::Full => info!("Too many minions connected. Rejecting connection from id {id}"),
        Row::NewWeak => warn!(
            "The key of {id} is refused: it has fewer bits than minimum_key_bits allows. Let the minion make a new one: \
             delete its minion.pem and minion.pub, and start it with a larger keysize"
        ),
        Row::NewCrowded => warn!(
            "The key of {id} is not kept: as many keys wait for a decision as max_pending_keys or \
             max_pending_keys_per_address allows"
        ),
        Row::Unusable => error!("Corrupt or missing public key \"{id}\""),
        Row::OpenMode | Row::AcceptedSame | Row::NewSigned | Row::PendingSigned => {
            info!("Authentication accepted from {id}");
        }
        Row::Rejected => info!("Public key rejected for {id}. Key is present in rejection key dir."),
        Row::AcceptedOther | Row::PendingOther | Row::PendingSignedOther => warn!(
            "Authentication attempt from {id} failed, the public keys did not match. This may be an attempt to \
             compromise the Salt cluster."
        ),
        Row::NewRejected | Row::NewRejectedUnkept => info!("New public key for {id} rejected via autoreject_file"),
        Row::PendingRejected => info!("Pending public key for {id} rejected via autoreject_file"),
        Row::NewPending => info!("New public key for {id} placed in pending"),
        Row::PendingSame => info!(
            "Authentication failed from host {id}, the key is in pending and needs to be accepted with salt-key -a {id}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::public_key;
    use crate::{AutoKeyOptions, KeyStore, Owner};

    struct Door {
        dir: tempfile::TempDir,
        admission: Admission,
    }

    fn door(auto: AutoKeyOptions, options: AdmissionOptions) -> Door {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::NOBODY);
        store.prepare().unwrap();
        let auto = AutoKey::new(auto, dir.path());
        Door { admission: Admission::new(LiveKeys::new(store), auto, options), dir }
    }

    impl Door {
        fn knock(&self, id: &str, public_key: &str) -> AuthOutcome {
            let id = &MinionId::new(id).unwrap();
            let applicant = Applicant { id, public_key, autosign_grains: None, address: None };
            let seats = |_: &MinionId| Seats { taken: 3, has_seat: false };
            self.admission.admit(&applicant, seats, SystemTime::now()).unwrap()
        }

        fn knock_from(&self, address: &str, id: &str) -> AuthOutcome {
            let id = &MinionId::new(id).unwrap();
            let address = Some(address.parse().unwrap());
            let applicant = Applicant { id, public_key: &public_key(0), autosign_grains: None, address };
            let seats = |_: &MinionId| Seats { taken: 0, has_seat: false };
            self.admission.admit(&applicant, seats, SystemTime::now()).unwrap()
        }

        fn files(&self) -> Vec<String> {
            let listing = self.admission.keys().list().unwrap();
            let of = |bank: Bank| listing.ids(bank).iter().map(move |id| format!("{bank}/{id}"));
            Bank::ALL.into_iter().flat_map(of).collect()
        }
    }

    #[test]
    fn a_key_is_stored_without_what_an_operator_should_not_see() {
        let door = door(AutoKeyOptions::default(), AdmissionOptions::default());
        let key = public_key(0);
        let around = [
            "from the help desk: please accept\n".to_owned() + &key,
            key.clone() + "\n\u{1b}[2Jweb1",
            "\u{1}".to_owned() + &key,
        ];
        for text in &around {
            assert_eq!(door.knock("web1", text), AuthOutcome::Unusable, "{text:?}");
        }
        assert!(door.files().is_empty());
        // Line ends of Windows are no other key.
        assert_eq!(door.knock("web1", &key.replace('\n', "\r\n")), AuthOutcome::Pending);
        let path = door.admission.keys().store().path(Bank::Pending, &MinionId::new("web1").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), clean_key(&key));
        // Nor does such a text replace a key, or lie beside it.
        door.admission.keys().store().move_key(&MinionId::new("web1").unwrap(), Bank::Pending, Bank::Accepted).unwrap();
        for text in &around {
            assert_eq!(door.knock("web1", text), AuthOutcome::Unusable, "{text:?}");
        }
        assert_eq!(door.files(), ["minions/web1"]);
    }

    #[test]
    fn a_minion_waits_is_accepted_and_signs_in() {
        let door = door(AutoKeyOptions::default(), AdmissionOptions::default());
        let key = public_key(0);
        for _ in 0..2 {
            assert_eq!(door.knock("web1", &format!("{key}\n")), AuthOutcome::Pending);
        }
        assert_eq!(door.files(), ["minions_pre/web1"]);
        let web = MinionId::new("web1").unwrap();
        door.admission.keys().store().move_key(&web, Bank::Pending, Bank::Accepted).unwrap();
        assert_eq!(door.knock("web1", &key), AuthOutcome::Accepted);
        let read = door.admission.keys().accepted_key(&web).unwrap().unwrap();
        assert_eq!(*read, PublicKey::from_pem(key.as_bytes()).unwrap());
        assert_eq!(door.knock("web1", &key), AuthOutcome::Accepted);
        assert_eq!(door.knock("web1", &public_key(1)), AuthOutcome::Denied);
        door.admission.keys().store().move_key(&web, Bank::Accepted, Bank::Rejected).unwrap();
        assert_eq!(door.knock("web1", &key), AuthOutcome::Rejected);
    }

    #[test]
    fn a_foreign_key_is_denied_and_kept_apart() {
        let door = door(AutoKeyOptions::default(), AdmissionOptions::default());
        door.knock("web1", &public_key(0));
        assert_eq!(door.knock("web1", &public_key(1)), AuthOutcome::Denied);
        assert_eq!(door.files(), ["minions_denied/web1", "minions_pre/web1"]);
    }

    #[test]
    fn what_is_no_key_leaves_no_trace() {
        let auto = AutoKeyOptions { auto_accept: true, ..AutoKeyOptions::default() };
        let door = door(auto, AdmissionOptions::default());
        let key = public_key(0);
        for text in ["", "nonsense", &"A".repeat(1 << 20)] {
            assert_eq!(door.knock("web1", text), AuthOutcome::Unusable);
        }
        assert!(door.files().is_empty());
        assert_eq!(door.knock("web1", &key), AuthOutcome::Accepted);
    }

    #[test]
    fn all_new_keys_wait_where_others_decide() {
        let config = |role: &str| {
            let options = value::map! {
                "id" => "m1", "root_dir" => "/tmp/x", "cluster_id" => "prod", "cluster_role" => role, "auto_accept" => true,
                "open_mode" => true,
            };
            config::Master::from_options(options).unwrap()
        };
        for (role, expected) in [("reader", AuthOutcome::Pending), ("master", AuthOutcome::Accepted)] {
            let config = config(role);
            let door = door((&config).into(), (&config).into());
            assert_eq!(door.knock("web1", &public_key(0)), expected, "{role}");
        }
    }

    #[test]
    fn a_full_master_takes_nobody_new() {
        let options = AdmissionOptions { max_minions: Some(2), ..AdmissionOptions::default() };
        let door = door(AutoKeyOptions::default(), options);
        assert_eq!(door.knock("web1", &public_key(0)), AuthOutcome::Full);
        assert!(door.files().is_empty());
        let id = &MinionId::new("web1").unwrap();
        let applicant = Applicant { id, public_key: &public_key(0), autosign_grains: None, address: None };
        let seated = |_: &MinionId| Seats { taken: 3, has_seat: true };
        let outcome = door.admission.admit(&applicant, seated, SystemTime::now()).unwrap();
        assert_eq!(outcome, AuthOutcome::Pending);
    }

    #[test]
    fn strangers_leave_no_more_keys_than_there_is_room_for() {
        let max_pending = PendingLimits { all: Some(3), per_address: Some(2) };
        let options = AdmissionOptions { max_pending, ..AdmissionOptions::default() };
        let door = door(AutoKeyOptions::default(), options);
        fs::write(door.dir.path().join("minions_pre/before"), public_key(1)).unwrap();
        let (one, other) = ("192.0.2.1", "192.0.2.2");
        assert_eq!(
            [1, 2, 3].map(|n| door.knock_from(one, &format!("a{n}"))),
            [AuthOutcome::Pending, AuthOutcome::Pending, AuthOutcome::Full]
        );
        assert_eq!(door.knock_from(one, "a1"), AuthOutcome::Pending, "it waits already");
        assert_eq!(door.knock_from(other, "b1"), AuthOutcome::Full, "of all");
        assert_eq!(door.files(), ["minions_pre/a1", "minions_pre/a2", "minions_pre/before"]);
        let store = door.admission.keys().store();
        for decided in ["a1", "before"] {
            store.move_key(&MinionId::new(decided).unwrap(), Bank::Pending, Bank::Accepted).unwrap();
        }
        assert_eq!(door.knock_from(one, "a3"), AuthOutcome::Pending, "one of its keys was accepted");
        assert_eq!(door.knock_from(one, "a4"), AuthOutcome::Full);
        assert_eq!(door.knock_from(other, "b1"), AuthOutcome::Pending);
        assert_eq!(door.knock_from(other, "b2"), AuthOutcome::Full);
    }

    #[test]
    fn all_addresses_of_a_network_share_what_one_may_leave() {
        let max_pending = PendingLimits { all: None, per_address: Some(2) };
        let door = door(AutoKeyOptions::default(), AdmissionOptions { max_pending, ..AdmissionOptions::default() });
        let come = [1, 2, 3].map(|n| door.knock_from(&format!("2001:db8::{n}"), &format!("a{n}")));
        assert_eq!(come, [AuthOutcome::Pending, AuthOutcome::Pending, AuthOutcome::Full]);
        assert_eq!(door.knock_from("2001:db8:0:1::1", "b1"), AuthOutcome::Pending);
    }

    #[test]
    fn keys_that_are_rejected_by_their_names_need_room_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("reject");
        fs::write(&list, "evil*\n").unwrap();
        let max_pending = PendingLimits { all: Some(2), per_address: None };
        let auto = AutoKeyOptions { autoreject_file: Some(list), ..AutoKeyOptions::default() };
        let door = door(auto, AdmissionOptions { max_pending, ..AdmissionOptions::default() });
        for number in 0..5 {
            assert_eq!(door.knock_from("192.0.2.1", &format!("evil{number}")), AuthOutcome::Rejected);
        }
        assert_eq!(door.files(), ["minions_rejected/evil0", "minions_rejected/evil1"]);
    }

    #[test]
    fn short_keys_are_refused_unless_somebody_accepted_them() {
        let auto = AutoKeyOptions { auto_accept: true, ..AutoKeyOptions::default() };
        let short = clean_key(&crypto::PrivateKey::generate(1024).unwrap().public().to_pem());
        let door = door(auto, AdmissionOptions::default());
        assert_eq!(door.knock("web1", &short), AuthOutcome::Unusable);
        assert!(door.files().is_empty());
        let web = MinionId::new("web1").unwrap();
        door.admission.keys().store().put(&web, KeyState::Accepted, &short).unwrap();
        assert_eq!(door.knock("web1", &short), AuthOutcome::Accepted);
    }

    #[test]
    fn of_many_at_once_under_one_id_one_is_let_in() {
        let auto = AutoKeyOptions { auto_accept: true, ..AutoKeyOptions::default() };
        let door = door(auto, AdmissionOptions::default());
        let keys = [public_key(0), public_key(1), public_key(2)];
        let answers: Vec<AuthOutcome> = std::thread::scope(|scope| {
            let all: Vec<_> = keys.iter().map(|key| scope.spawn(|| door.knock("web1", key))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|answer| **answer == AuthOutcome::Accepted).count(), 1);
        assert_eq!(door.files(), ["minions/web1", "minions_denied/web1"]);
    }

    #[test]
    fn what_is_in_the_way_is_an_error() {
        let door = door(AutoKeyOptions::default(), AdmissionOptions::default());
        std::os::unix::fs::symlink("/nonexistent", door.dir.path().join("minions_pre/web1")).unwrap();
        fs::create_dir(door.dir.path().join("minions_pre/web2")).unwrap();
        for id in ["web1", "web2"] {
            let id = &MinionId::new(id).unwrap();
            let applicant = Applicant { id, public_key: &public_key(0), autosign_grains: None, address: None };
            let seats = |_: &MinionId| Seats { taken: 0, has_seat: false };
            let error = door.admission.admit(&applicant, seats, SystemTime::now()).unwrap_err();
            assert!(error.to_string().contains(&format!("minions_pre/{id}")), "{error}");
        }
    }

    #[test]
    fn stubs_are_kept_for_keys_that_need_them() {
        let door = door(AutoKeyOptions::default(), AdmissionOptions::default());
        let key = public_key(0);
        let web = MinionId::new("web1").unwrap();
        let stub = door.dir.path().join("minions_autosign/web1");
        fs::write(&stub, "").unwrap();
        door.admission.keys().store().put(&web, KeyState::Rejected, &key).unwrap();
        assert_eq!(door.knock("web1", &key), AuthOutcome::Rejected);
        assert!(stub.exists());
        door.admission.keys().store().remove(&web, Bank::Rejected).unwrap();
        assert_eq!(door.knock("web1", &key), AuthOutcome::Accepted);
        assert!(!stub.exists());
    }
}
