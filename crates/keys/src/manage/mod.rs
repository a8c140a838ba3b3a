//! The operations of `salt-key` and the wheel functions `key.*`. Results have the same shapes as Salt's.

mod change;
mod generate;
mod list;
mod selection;
mod show;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crypto::{HashType, Signature};
use value::{Map, Value};
use wire::MinionId;

use crate::atomic::Owner;
use crate::{Bank, KeyStore, MasterKeyOptions};

pub use generate::generate_pair;

/// The effects of key changes outside the key directories.
pub trait Effects: Send + Sync {
    /// Fires an event on the master's bus. When no master is running the event is lost, as with Salt.
    fn fire(&self, tag: &str, data: Map);

    /// Removes the cached data (grains, pillar) of all minions except these.
    fn clean_minion_data(&self, keep: &HashSet<MinionId>);

    /// Tells a minion whose key is about to be deleted to forget its session (`saltutil.revoke_auth`).
    fn revoke_auth(&self, id: &MinionId);
}

/// No effects.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl Effects for NoEffects {
    fn fire(&self, _tag: &str, _data: Map) {}

    fn clean_minion_data(&self, _keep: &HashSet<MinionId>) {}

    fn revoke_auth(&self, _id: &MinionId) {}
}

/// The options for changes of keys, with Salt's names.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// The master's own keys.
    pub master: MasterKeyOptions,
    /// The directory of the drop file.
    pub cachedir: PathBuf,
    /// The digest of fingerprints.
    pub hash_type: HashType,
    /// Ask for a new AES key after deleting and rejecting.
    pub rotate_aes_key: bool,
    /// Never remove cached data of minions.
    pub preserve_minion_cache: bool,
    /// Do not remove cached data of the minions that are deleted (`--preserve-minions`).
    pub preserve_minions: bool,
    /// The algorithm of signature files.
    pub publish_signing_algorithm: Signature,
}

/// A selection of keys.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// A shell glob, several separated by commas, or a list of globs.
    Match(&'a Value),
    /// Ids by directory: `{"minions_pre": ["web1"]}`.
    Dict(&'a Map),
}

/// The result of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// The selected keys by their new directories.
    pub result: Map,
    /// The ids whose key was moved or removed, with the directory it was in.
    pub done: Vec<(MinionId, Bank)>,
    /// The ids whose file holds no key, and so was not accepted.
    pub invalid: Vec<MinionId>,
    /// Why the request for a new AES key failed. The keys were changed, but minions that have lost their keys still
    /// know the current AES key.
    pub not_rotated: Option<String>,
}

/// The arguments of `--gen-keys`.
#[derive(Clone, Debug)]
pub struct GenKeys<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The name of the files, without endings.
    pub name: &'a str,
    /// The size in bits; `None` for the option `keysize`.
    pub bits: Option<u32>,
    /// The account the files belong to.
    pub owner: Owner,
}

/// The arguments of `--gen-signature`.
#[derive(Clone, Debug, Default)]
pub struct GenSignature<'a> {
    /// The signing key; by default `master_sign.pem`.
    pub private: Option<&'a Path>,
    /// The key to be signed; by default the master's.
    pub public: Option<&'a Path>,
    /// The directory of the signature file; by default `pki_dir`.
    pub directory: Option<&'a Path>,
    /// Make a signing pair if there is none.
    pub auto_create: bool,
    /// The size of that pair.
    pub bits: Option<u32>,
}

/// The keys of a master, as an administrator manages them.
pub struct KeyManager {
    store: KeyStore,
    options: ManagerOptions,
    effects: Box<dyn Effects>,
    expected: HashMap<String, String>,
}

impl KeyManager {
    /// Creates a manager for a store. Each change has these effects.
    pub fn new(store: KeyStore, options: ManagerOptions, effects: impl Effects + 'static) -> Self {
        KeyManager { store, options, effects: Box::new(effects), expected: HashMap::new() }
    }

    /// Leaves keys alone that have another fingerprint than is expected of their id. The keys of other ids are not compared.
    #[must_use]
    pub fn expecting(mut self, fingerprints: HashMap<String, String>) -> Self {
        self.expected = fingerprints;
        self
    }

    /// Returns whether a key is the one that is expected; `None` if nothing is known of it.
    fn is_expected(&self, id: &MinionId, text: &str) -> Option<bool> {
        let expected = self.expected.get(id.as_str())?;
        Some(crypto::pem_finger(text.as_bytes(), self.options.hash_type).eq_ignore_ascii_case(expected))
    }

    /// The files.
    pub fn store(&self) -> &KeyStore {
        &self.store
    }
}

impl std::fmt::Debug for KeyManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyManager").field("store", &self.store).finish_non_exhaustive()
    }
}
