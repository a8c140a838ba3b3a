//! The master's side of the channel.

mod aes;
mod keybook;
mod open;
mod publish;
mod replays;
mod reply;
mod sign_in;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use crypto::{PrivateKey, Signature};
use rt::Rt;
use wire::MinionId;
use wire::loads::Abilities;

pub use aes::{AesKey, Generation, Rotation};
pub use keybook::{KeyBook, Offer, Session, SessionBook, Undecided};
pub use open::{Opened, Refused, SealedRequest};
pub use publish::Numbered;
pub use reply::Answer;
pub use sign_in::{Decided, MasterKeySignature, SignedIn};

/// The master's options for the channel.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Oldest envelope version that is accepted (`minimum_auth_version`, 3; 0 accepts all).
    pub minimum_auth_version: i64,
    /// Seconds for which an encrypted request is valid (`request_server_ttl`; 0 means forever).
    pub request_server_ttl: i64,
    /// Lifetime of a session key (`publish_session`, a day).
    pub publish_session: Duration,
    /// The port for publications that minions are told (`publish_port`).
    pub publish_port: u16,
    /// Publications are signed (`sign_pub_messages`).
    pub sign_pub_messages: bool,
    /// How publications are signed (`publish_signing_algorithm`).
    pub publish_signing_algorithm: Signature,
    /// The abilities beyond Salt that this master announces to Saltern minions.
    pub abilities: Abilities,
}

/// The keys that a master presents.
pub struct Identity {
    /// The key pair `master.pem`.
    pub key: PrivateKey,
    /// The public half as text, cleaned.
    pub public_text: String,
    /// How the public half is signed, with `master_sign_pubkey`.
    pub signature: MasterKeySignature,
}

/// Decrypts what minions and local programs send, and encrypts the answers.
pub struct Server {
    settings: Settings,
    identity: Identity,
    aes: AesKey,
    keys: Arc<dyn KeyBook>,
    sessions: Arc<dyn SessionBook>,
    tokens: tokens::VerifiedTokens,
    replays: replays::Replays,
    rt: Rt,
}

impl Server {
    /// Creates a server with a new AES key.
    pub fn new(
        settings: Settings,
        identity: Identity,
        keys: Arc<dyn KeyBook>,
        sessions: Arc<dyn SessionBook>,
        rt: Rt,
    ) -> Self {
        let aes = AesKey::new(&rt);
        let (tokens, replays) = (tokens::VerifiedTokens::default(), replays::Replays::new(rt.unix_seconds()));
        Server { settings, identity, aes, keys, sessions, tokens, replays, rt }
    }

    /// Returns the key of all publications.
    pub fn aes(&self) -> &AesKey {
        &self.aes
    }

    /// Creates a new AES key. Minions sign in again when they receive a publication that they cannot decrypt.
    pub fn rotate(&self, reason: Rotation) {
        self.aes.rotate(&self.rt, reason);
    }

    /// Returns whether the data in a request that minions may repeat, such as grains, may be stored: once for each
    /// nonce.
    pub fn may_store(&self, id: &MinionId, nonce: Option<&str>) -> bool {
        nonce.is_none_or(|nonce| self.replays.may_store(id, nonce))
    }

    /// Returns the keys that this master presents.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}
