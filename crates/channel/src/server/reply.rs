//! Answers: unencrypted, encrypted, or for one minion only (pillar).

use std::sync::Arc;

use bytes::Bytes;
use crypto::{Crypticle, Encryption, KeyString, Signature};
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::{PillarContent, PillarReply, SignedPillar};
use wire::msgpack::{self, Packing};

use super::{Generation, Server, Session};

/// An answer, which the transport packs.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Unencrypted.
    Plain(Value),
    /// Encrypted.
    Sealed(Bytes),
}

impl Answer {
    /// Creates an unencrypted answer.
    pub fn plain(value: impl Into<Value>) -> Self {
        Answer::Plain(value.into())
    }

    /// Returns the answer as the value the transport packs.
    pub fn into_value(self) -> Value {
        match self {
            Answer::Plain(value) => value,
            Answer::Sealed(bytes) => Value::bytes(bytes),
        }
    }
}

/// The key and parameters that encrypt the answer to one request.
pub struct Seal {
    pub(super) sealer: Sealer,
    pub(super) nonce: Option<String>,
    pub(super) enc_algo: Option<String>,
    pub(super) sig_algo: Option<String>,
    pub(super) version: i64,
    /// The sender understands the format of large answers.
    pub(super) bulk: bool,
}

pub(super) enum Sealer {
    Session(Arc<Session>),
    Master(Arc<Generation>),
}

impl Sealer {
    pub(super) fn crypticle(&self) -> &Crypticle {
        match self {
            Sealer::Session(session) => &session.crypticle,
            Sealer::Master(generation) => generation.crypticle(),
        }
    }
}

impl Seal {
    /// Returns the nonce of the request.
    pub fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }

    /// Encrypts an answer for the sender of the request.
    pub fn seal(&self, answer: &Value) -> Answer {
        let crypticle = self.sealer.crypticle();
        Answer::Sealed(match &self.nonce {
            Some(nonce) if self.bulk => crypticle.seal_bulk(answer, nonce),
            nonce => crypticle.seal(answer, nonce.as_deref()),
        })
    }

    /// Returns the version of the request's envelope.
    pub fn version(&self) -> i64 {
        self.version
    }
}

impl Server {
    /// Encrypts a pillar for one minion with a one-time key, and signs it.
    ///
    /// # Errors
    /// The answer for the minion when its key, the nonce or an algorithm is missing.
    pub fn pillar(&self, id: &MinionId, seal: &Seal, pillar: Value) -> Result<Answer, Answer> {
        let Some(public) = self.keys.accepted(id) else {
            // As Salt's masters: an empty map for a minion whose key is gone.
            return Err(seal.seal(&Value::Map(Map::new())));
        };
        let encryption: Encryption = seal.enc_algo.as_deref().unwrap_or_default().parse().unwrap_or_default();
        let signature: Signature = seal.sig_algo.as_deref().unwrap_or_default().parse().unwrap_or_default();
        // A fresh key for each answer, so that only the holder of the private key can read it.
        let once = KeyString::from_random(self.rt.bytes());
        let failed = |_: crypto::RsaError| Answer::plain(map! { "error" => "bad load" });
        let key = Bytes::from(public.encrypt(encryption, once.expose().as_bytes()).map_err(failed)?);
        let crypticle = Crypticle::new(&once).expect("a key made of random bytes is well formed");
        let pillar = if seal.version < 2 {
            crypticle.seal(&pillar, None)
        } else {
            let Some(nonce) = &seal.nonce else {
                return Err(Answer::plain(map! { "error" => "Nonce not included in request" }));
            };
            let content = PillarContent { key: key.clone(), pillar, nonce: nonce.clone(), extra: Map::new() };
            let data = msgpack::pack(&content.into_map().into(), Packing::Wire);
            let sig = self.identity.key.sign(signature, &data).map_err(failed)?;
            let signed = SignedPillar { data: data.into(), sig: sig.into(), extra: Map::new() };
            crypticle.seal(&signed.to_value(), None)
        };
        Ok(Answer::plain(PillarReply { key, pillar, extra: Map::new() }.into_map()))
    }
}
