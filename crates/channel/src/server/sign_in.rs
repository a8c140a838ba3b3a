//! Answering a sign-in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crypto::{Encryption, PrivateKey, PublicKey, Signature};
use tracing::{error, warn};
use value::{Map, Value};
use wire::MinionId;
use wire::envelope::Clear;
use wire::loads::{
    ABILITIES_FIELD, AWAIT_FIELD, AuthAccepted, AuthAnswer, AuthOutcome, AuthRefused, AuthReply, Verdict, is_nonce,
};

use super::{Answer, Offer, Server};

/// How the master's public key is signed in answers to a sign-in (`master_sign_pubkey`).
pub enum MasterKeySignature {
    /// Not at all.
    None,
    /// By the signing key. The signature is computed when first needed, once for each algorithm.
    Key(PrivateKey, Mutex<HashMap<Signature, String>>),
    /// By a stored signature (`master_use_pubkey_signature`): the file's text.
    Stored(String),
}

impl MasterKeySignature {
    /// Signs with this key.
    pub fn by(key: PrivateKey) -> Self {
        MasterKeySignature::Key(key, Mutex::default())
    }

    fn text(&self, public: &str, algorithm: Signature) -> Result<Option<String>, crypto::RsaError> {
        match self {
            MasterKeySignature::None => Ok(None),
            MasterKeySignature::Stored(text) => Ok(Some(text.clone())),
            MasterKeySignature::Key(key, made) => {
                // Signing takes milliseconds, and every sign-in carries the same signature. The lock is not held
                // meanwhile.
                if let Some(text) = made.lock().unwrap_or_else(PoisonError::into_inner).get(&algorithm) {
                    return Ok(Some(text.clone()));
                }
                let text = BASE64_STANDARD.encode(key.sign(algorithm, public.as_bytes())?) + "\n";
                made.lock().unwrap_or_else(PoisonError::into_inner).insert(algorithm, text.clone());
                Ok(Some(text))
            }
        }
    }
}

/// The outcome of a sign-in: the answer, and what happened.
pub struct SignedIn {
    /// The answer.
    pub answer: Answer,
    /// What was decided; `None` when the request was unusable or the decision failed.
    pub decided: Option<Decided>,
    /// How long the minion, whose key is pending, waits for a decision.
    pub awaits: Option<Duration>,
}

/// What was decided about a minion.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The minion.
    pub id: MinionId,
    /// The decision.
    pub outcome: AuthOutcome,
    /// The key that it presented.
    pub public: String,
    /// The grains it sent for autosigning.
    pub grains: Option<Map>,
}

impl SignedIn {
    fn undecided(answer: Answer) -> Self {
        SignedIn { answer, decided: None, awaits: None }
    }
}

/// How many characters of an invalid id are logged.
const SHOWN_ID: usize = 64;

/// The content of a sign-in request.
struct Request<'a> {
    id: MinionId,
    public: String,
    nonce: Option<&'a str>,
    token: Option<&'a [u8]>,
    grains: Option<&'a Map>,
    enc_algo: Result<Encryption, ()>,
    sig_algo: Result<Signature, ()>,
    version: i64,
    awaits: Option<Duration>,
}

impl Server {
    /// Answers a sign-in. This takes two operations with a private key, so do not call it from an async task.
    pub fn sign_in(&self, request: &Clear, peer: IpAddr) -> SignedIn {
        let nonce = request.load.get_str("nonce");
        // What we sign must not be the sender's choice.
        if request.version > 1 && !nonce.is_some_and(is_nonce) {
            warn!("Authentication request without a valid nonce from {peer}");
            return SignedIn::undecided(Answer::plain("bad load"));
        }
        let Some(request) = read(request) else {
            let algorithm = signature_algorithm(&request.load).unwrap_or_default();
            warn!("Authentication request from invalid id {}", escaped_id(request.load.get("id")));
            return SignedIn::undecided(self.refusal(Verdict::Rejected, nonce, algorithm, request.version));
        };
        let offer = Offer { id: &request.id, public: &request.public, grains: request.grains, peer };
        let Ok(outcome) = self.keys.sign_in(&offer) else {
            return SignedIn::undecided(try_again());
        };
        let decided = Some(Decided {
            id: request.id.clone(),
            outcome,
            public: request.public.clone(),
            grains: request.grains.cloned(),
        });
        let (Ok(encryption), Ok(signature)) = (request.enc_algo, request.sig_algo) else {
            let word = if request.enc_algo.is_err() { "enc" } else { "sig" };
            let answer = Answer::Plain(AuthReply::bad_algorithm(word).to_value());
            return SignedIn { answer, decided, awaits: None };
        };
        let answer = match outcome.refusal() {
            None => self.welcome(&request, encryption, signature).unwrap_or_else(|reason| {
                error!(minion = %request.id, "failed to answer the sign-in of {}, which is to try again: {reason}", request.id);
                try_again()
            }),
            Some(Verdict::Pending) => self.pending(&request, signature),
            Some(refused) => self.refusal(refused, request.nonce, signature, request.version),
        };
        let awaits = request.awaits.filter(|_| outcome == AuthOutcome::Pending);
        SignedIn { answer, decided, awaits }
    }

    /// Returns the answer for a pending key. It also says that the minion may wait for the decision, which Salt minions
    /// ignore.
    fn pending(&self, request: &Request<'_>, signature: Signature) -> Answer {
        let mut extra = Map::new();
        // A simulation has no kernel that tells of decisions.
        if !self.rt.is_simulated() {
            extra.insert(AWAIT_FIELD, true);
        }
        let refused = AuthRefused { verdict: Verdict::Pending, nonce: request.nonce.map(str::to_owned), extra };
        self.signed(AuthAnswer::Refused(refused), signature, request.version)
    }

    fn welcome(&self, request: &Request<'_>, encryption: Encryption, signature: Signature) -> Result<Answer, String> {
        let say = |error: crypto::RsaError| error.to_string();
        let minion = self.minion_key(request).ok_or("the stored key cannot be read")?;
        let generation = self.aes.current();
        let vouched = self.identity.signature.text(&self.identity.public_text, signature).map_err(say)?;
        // A token that cannot be decrypted is left out, as in Salt: the minion has another key on record and will
        // report it.
        let token = request.token.and_then(|token| self.identity.key.decrypt(encryption, token).ok());
        let encrypt = |text: &[u8]| minion.encrypt(encryption, text).map(Bytes::from).map_err(say);
        if self.replays.renew(&request.id, self.rt.unix_seconds()) {
            self.sessions.forget(&request.id);
        }
        let session = self.sessions.session(&request.id, self.settings.publish_session);
        let session = session.map_err(|error| format!("failed to make a session key: {error}"))?;
        let inner = AuthAccepted {
            enc: "pub".to_owned(),
            pub_key: self.identity.public_text.clone(),
            publish_port: self.settings.publish_port,
            pub_sig: vouched,
            token: token.map(|token| encrypt(&token)).transpose()?,
            aes: encrypt(generation.key().expose().as_bytes())?,
            session: Some(encrypt(session.key.expose().as_bytes())?),
            sig: Some(generation.proof(&self.identity.key).map_err(say)?.into()),
            nonce: request.nonce.map(str::to_owned),
            // In every answer: nothing in the request, which is not signed, may make a Saltern minion believe that this
            // master does not sign its publications.
            extra: value::map! { ABILITIES_FIELD => self.settings.abilities.to_value() },
        };
        Ok(self.signed(AuthAnswer::Accepted(inner), signature, request.version))
    }

    fn minion_key(&self, request: &Request<'_>) -> Option<Arc<PublicKey>> {
        // In open mode the store may not have the key yet.
        self.keys.accepted(&request.id).or_else(|| PublicKey::from_pem(request.public.as_bytes()).ok().map(Arc::new))
    }

    fn refusal(&self, verdict: Verdict, nonce: Option<&str>, algorithm: Signature, version: i64) -> Answer {
        let refused = AuthRefused { verdict, nonce: nonce.map(str::to_owned), extra: Map::new() };
        self.signed(AuthAnswer::Refused(refused), algorithm, version)
    }

    fn signed(&self, answer: AuthAnswer, algorithm: Signature, version: i64) -> Answer {
        let reply = if version < 2 {
            AuthReply::Unsigned(match answer {
                AuthAnswer::Accepted(accepted) => accepted.to_map(),
                AuthAnswer::Refused(refused) => refused.to_map(),
            })
        } else {
            let load = answer.encode();
            match self.identity.key.sign(algorithm, &load) {
                Ok(sig) => AuthReply::Signed { load, sig: sig.into() },
                Err(reason) => {
                    error!("the master's key cannot sign: {reason}");
                    return try_again();
                }
            }
        };
        Answer::Plain(reply.to_value())
    }
}

/// Returns the answer for a failure on the master. The minion keeps its key and retries soon.
fn try_again() -> Answer {
    Answer::Plain(AuthReply::TryAgain.to_value())
}

/// Escapes and shortens an invalid id for a log line.
fn escaped_id(id: Option<&Value>) -> String {
    let text = match id {
        Some(Value::Str(text)) => text.to_string(),
        Some(other) => format!("(a {})", other.type_name()),
        None => "(none)".to_owned(),
    };
    let cut: String = text.chars().take(SHOWN_ID).collect();
    let more = if cut.len() < text.len() { format!("… ({} bytes)", text.len()) } else { String::new() };
    format!("{}{more}", cut.escape_debug())
}

fn read(request: &Clear) -> Option<Request<'_>> {
    let load = &request.load;
    Some(Request {
        // Nothing else of the request is read before the id is known to be a legal one.
        id: MinionId::new(load.get_str("id")?).ok()?,
        public: load.get_str("pub")?.trim().to_owned(),
        nonce: load.get_str("nonce"),
        token: load.get("token").and_then(Value::as_bytes),
        grains: load.get("autosign_grains").and_then(Value::as_map),
        enc_algo: match load.get_str("enc_algo") {
            None => Ok(Encryption::default()),
            Some(name) => name.parse().map_err(|_| ()),
        },
        sig_algo: signature_algorithm(load),
        version: request.version,
        awaits: load
            .get(AWAIT_FIELD)
            .and_then(Value::as_i64)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    })
}

fn signature_algorithm(load: &Map) -> Result<Signature, ()> {
    match load.get_str("sig_algo") {
        None => Ok(Signature::default()),
        Some(name) => name.parse().map_err(|_| ()),
    }
}
