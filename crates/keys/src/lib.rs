//! Minion keys: pending, accepted, rejected and denied, with one place that decides.
//!
//! No other crate accepts a key. [`decide`] is the table of decisions. [`Admission`] applies it when a minion signs in,
//! and [`KeyManager`] implements `salt-key` and the wheel functions `key.*`. [`KeyStore`] is Salt's layout of
//! `pki_dir`. [`LiveKeys`] caches it in a running master and notices manual changes at once.
//!
//! The keys that a program owns are here as well ([`MasterKeys`], [`PairPath`], [`MemberKeyPath`]). How a minion learns
//! to trust a master is part of the sign-in, in the crate `channel`.

mod admit;
mod atomic;
mod auto;
mod bank;
mod changes;
mod decide;
mod decisions;
mod dropfile;
mod error;
mod live;
mod manage;
mod master_keys;
mod member_key;
mod pair;
mod pending;
mod settings;
mod store;
#[cfg(test)]
mod testing;
mod watch;

pub use admit::{Admission, AdmissionOptions, Applicant, Seats};
pub use atomic::Owner;
pub use auto::{AutoKey, AutoKeyOptions};
pub use bank::{Bank, KeyState, UnknownBank};
pub use changes::{ChangedKeys, KeyChanges, SignInChanges};
pub use decide::{Decision, Row, Situation, StoreAction, Stored, decide};
pub use decisions::{Decided, Decisions};
pub use dropfile::{DropFile, request_rotation, take_rotation_request};
pub use error::KeyError;
pub use live::LiveKeys;
pub use manage::{
    Changed, Effects, GenKeys, GenSignature, KeyManager, ManagerOptions, NoEffects, Selection, generate_pair,
};
pub use master_keys::{MasterKeyOptions, MasterKeys};
pub use member_key::MemberKeyPath;
pub use pair::{KeyPair, PairOptions, PairPath, finger_file};
pub use pending::PendingLimits;
pub use store::{KeyStore, Listing, StoredKey};
