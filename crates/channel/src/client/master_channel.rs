//! Encrypted requests to one master, and the sign-ins they need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use crypto::{Encryption, HashType, KeyString, PrivateKey, Signature};
use rt::Rt;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tracing::debug;
use transport::Requester;
use value::{Map, Value};
use wire::MinionId;
use wire::envelope::{Envelope, Sealed};
use wire::loads::{
    ABILITIES_FIELD, Abilities, Ability, AuthReply, LoadError, PillarContent, PillarReply, Sender, SignedPillar,
};
use wire::msgpack::{self, Decode, Packing};

use super::sign_in::Attempt;
use super::{Credentials, Error, Serials, SignIn, Trust, TrustSettings};

/// The request whose answers are large: a piece of a file.
const PIECE: &str = "_serve_file";

/// How long publications encrypted with the previous keys may still arrive after a sign-in with new keys.
const OVERLAP: Duration = Duration::from_secs(10);

/// Which publications must carry a valid signature of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signatures {
    /// All (`sign_pub_messages: True`).
    Demanded,
    /// Those of masters that have announced, in a signed answer, that they sign all. This is the default of a minion.
    Announced,
    /// None: for load tests with thousands of minions on one host.
    Ignored,
}

/// The minion's options for the channel.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How keys are encrypted (`encryption_algorithm`).
    pub encryption: Encryption,
    /// How answers are signed (`signing_algorithm`).
    pub signing: Signature,
    /// Which publications must be signed.
    pub signatures: Signatures,
    /// Our requests are signed (`minion_sign_messages`).
    pub minion_sign_messages: bool,
    /// Digest of fingerprints (`hash_type`).
    pub hash_type: HashType,
    /// Grains sent for automatic acceptance, with their values.
    pub autosign_grains: Option<Map>,
    /// Time for one sign-in (`auth_timeout`).
    pub auth_timeout: Duration,
    /// Sign-ins that may go unanswered (`auth_tries`), at least one.
    pub auth_tries: u32,
    /// Time for one request (`request_channel_timeout`).
    pub request_timeout: Duration,
    /// Requests that may go unanswered (`request_channel_tries`), at least one.
    pub request_tries: u32,
    /// Which keys are trusted.
    pub trust: TrustSettings,
    /// The longest random delay before the sign-in that follows a key rotation of the master (`random_reauth_delay`).
    pub reauth_delay: Duration,
    /// What each encrypted request tells Saltern masters about this program.
    pub sender: Sender,
}

/// The identity of the minion.
pub struct MinionIdentity {
    /// Its id.
    pub id: MinionId,
    /// Its key pair.
    pub key: PrivateKey,
    /// The public half as text, in the form that is sent.
    pub public_text: String,
    /// The serial numbers of the publications it has received, for all its channels: they must outlive a connection.
    pub serials: Arc<Serials>,
    token: OnceLock<Bytes>,
}

impl MinionIdentity {
    /// Creates an identity.
    pub fn new(id: MinionId, key: PrivateKey) -> Self {
        let public_text = crypto::clean_key(&key.public().to_pem());
        MinionIdentity { id, key, public_text, serials: Arc::default(), token: OnceLock::new() }
    }

    /// Returns the token that is sent with each request. It is computed when first needed, because a call without a
    /// master needs none.
    fn token(&self) -> Result<Bytes, Error> {
        if let Some(token) = self.token.get() {
            return Ok(token.clone());
        }
        let token = self.key.tok().map_err(|source| Error::Crypto { doing: "make the minion's token", source })?;
        Ok(self.token.get_or_init(|| token.into()).clone())
    }
}

/// The channel to one master. Channels to different masters share only the identity.
pub struct MasterChannel {
    pub(super) settings: Settings,
    pub(super) identity: Arc<MinionIdentity>,
    pub(super) trust: Arc<dyn Trust>,
    ask: Arc<dyn Requester>,
    rt: Rt,
    credentials: watch::Sender<Option<Arc<Credentials>>>,
    /// The previous credentials, with the time at which they were replaced.
    previous: std::sync::Mutex<Option<(Arc<Credentials>, Instant)>>,
    /// Held while signing in: at most one sign-in at a time.
    gate: Mutex<()>,
    /// The master permits us to wait for a decision about our key.
    may_await: AtomicBool,
    /// A renewal was refused, because the key is not accepted any more.
    refused: watch::Sender<bool>,
}

impl MasterChannel {
    /// Creates a channel that has not signed in yet.
    pub fn new(
        settings: Settings,
        identity: Arc<MinionIdentity>,
        trust: Arc<dyn Trust>,
        ask: Arc<dyn Requester>,
        rt: Rt,
    ) -> Self {
        MasterChannel {
            settings,
            identity,
            trust,
            ask,
            rt,
            credentials: watch::Sender::new(None),
            previous: std::sync::Mutex::default(),
            gate: Mutex::new(()),
            may_await: AtomicBool::new(false),
            refused: watch::Sender::new(false),
        }
    }

    /// Returns the current credentials, if signed in.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.credentials.borrow().clone()
    }

    /// Returns what the master can do beyond Salt; `None` for a Salt master, and before a sign-in.
    pub fn abilities(&self) -> Option<Abilities> {
        self.credentials.borrow().as_ref().and_then(|credentials| credentials.abilities.clone())
    }

    /// Returns whether the master can do something beyond Salt.
    pub fn master_can(&self, ability: Ability) -> bool {
        self.credentials
            .borrow()
            .as_ref()
            .is_some_and(|credentials| credentials.abilities.as_ref().is_some_and(|abilities| abilities.can(ability)))
    }

    /// Waits for a random time, so that not all minions sign in at the same moment after a key rotation.
    pub(super) async fn hesitate(&self) {
        tokio::time::sleep(self.rt.between(Duration::ZERO, self.settings.reauth_delay)).await;
    }

    /// Signs in. Repeats unanswered requests. New keys are used immediately.
    ///
    /// # Errors
    /// When no answer arrives, or one that cannot be trusted.
    pub async fn sign_in(&self) -> Result<SignIn, Error> {
        let _gate = self.gate.lock().await;
        self.sign_in_now(None).await
    }

    /// Returns whether the master permits us to [wait](MasterChannel::await_key) for a decision about our pending key.
    pub fn may_await_key(&self) -> bool {
        self.may_await.load(Ordering::Relaxed)
    }

    /// Signs in, and lets the master delay its answer until an operator has accepted or rejected our key, for at most
    /// this long.
    ///
    /// # Errors
    /// As [`MasterChannel::sign_in`].
    pub async fn await_key(&self, time: Duration) -> Result<SignIn, Error> {
        let _gate = self.gate.lock().await;
        self.sign_in_now(Some(time)).await
    }

    /// Replaces outdated credentials. If another task has already done so, returns the credentials of that sign-in.
    ///
    /// # Errors
    /// As [`MasterChannel::sign_in`], and [`Error::NotAccepted`].
    pub async fn renew(&self, old: Option<&Arc<Credentials>>) -> Result<Arc<Credentials>, Error> {
        let _gate = self.gate.lock().await;
        // Checked under the gate: when a master has restarted, a hundred waiting requests sign in once.
        if let Some(current) = self.credentials()
            && !old.is_some_and(|old| Arc::ptr_eq(old, &current))
        {
            return Ok(current);
        }
        match self.sign_in_now(None).await? {
            SignIn::Accepted(credentials) => Ok(credentials),
            _ => {
                self.refused.send_replace(true);
                Err(Error::NotAccepted)
            }
        }
    }

    /// Waits until the master refuses to renew the credentials of this channel, whichever request needed that. A master
    /// that does not accept the key any more has deleted what it knew of this minion, even if it accepts the key again a
    /// moment later.
    pub async fn refused(&self) {
        // Fails only without a sender, and `self` is the sender.
        let _ = self.refused.subscribe().wait_for(|refused| *refused).await;
    }

    /// Sends a request and returns the decrypted answer. Adds `id`, nonce, time and token. If the master has new keys,
    /// signs in and sends the request once more.
    ///
    /// # Errors
    /// When no answer arrives within the tries, or none that can be decrypted.
    pub async fn request(&self, mut load: Map, timeout: Option<Duration>, decode: Decode) -> Result<Value, Error> {
        if load.get_str("cmd") == Some(PIECE) {
            // A peer that does not know this field ignores it.
            load.insert(crypto::BULK_FIELD, crypto::BULK_NAME);
        }
        // A caller with a timeout of its own wants an answer within it; repeating would multiply it.
        let tries = if timeout.is_some() { 1 } else { self.settings.request_tries.max(1) };
        let timeout = timeout.unwrap_or(self.settings.request_timeout);
        let mut failure = Error::Timeout(timeout);
        for _ in 0..tries {
            match self.request_once(&load, timeout, decode).await {
                // Only these may be different at the next try.
                Err(error @ (Error::Timeout(_) | Error::Authentication(_))) => failure = error,
                other => return other,
            }
        }
        Err(failure)
    }

    /// Asks for the pillar, which comes encrypted for this minion alone and signed by the master.
    ///
    /// # Errors
    /// As [`MasterChannel::request`], and when the answer is not signed by the master or not for this request.
    pub async fn request_pillar(&self, load: Map, timeout: Option<Duration>) -> Result<Value, Error> {
        let timeout = timeout.unwrap_or(self.settings.request_timeout);
        let mut credentials = self.signed_in().await?;
        let mut reply = self.exchange(&load, &credentials, timeout).await?;
        // As in Salt: a master with other keys could not read the request and answers without one.
        if reply.0.get("key").is_none() {
            debug!(master_answer = reply.0.type_name(), "no pillar; signing in again");
            credentials = Box::pin(self.renew(Some(&credentials))).await?;
            reply = self.exchange(&load, &credentials, timeout).await?;
        }
        self.open_pillar(reply.0, &reply.1)
    }

    /// Returns the envelope with which a minion introduces itself to a publisher over tcp: id and token, encrypted with
    /// the master's AES key.
    ///
    /// # Errors
    /// Before a sign-in.
    pub fn introduction(&self) -> Result<Envelope, Error> {
        let credentials = self.credentials().ok_or(Error::NotAccepted)?;
        let load = value::map! { "id" => self.identity.id.as_str(), "tok" => self.identity.token()? };
        Ok(Envelope::Sealed(Sealed {
            load: credentials.aes.seal(&load.into(), None),
            version: wire::envelope::CURRENT_VERSION,
            id: None,
            enc_algo: None,
            sig_algo: None,
        }))
    }

    async fn sign_in_now(&self, awaits: Option<Duration>) -> Result<SignIn, Error> {
        let timeout = self.settings.auth_timeout + awaits.unwrap_or_default();
        let mut failure = Error::Timeout(timeout);
        // A wait that brought no decision ends here. The next sign-in starts a new one.
        let tries = if awaits.is_some() { 1 } else { self.settings.auth_tries.max(1) };
        for _ in 0..tries {
            // A new nonce and token for each attempt: a late answer to the one before must not be taken for this
            // one's.
            let attempt = Attempt::new(&self.settings, &self.identity, self.trust.as_ref(), &self.rt, awaits)?;
            match self.ask.ask(Envelope::clear(attempt.request()?), timeout).await.map_err(Error::from) {
                Ok(reply) => return self.keep(attempt.judge(AuthReply::from_value(reply), &self.may_await)?),
                Err(error @ Error::Timeout(_)) => failure = error,
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    /// Stores new credentials, unless the keys are the same.
    fn keep(&self, signed_in: SignIn) -> Result<SignIn, Error> {
        let SignIn::Accepted(new) = signed_in else { return Ok(signed_in) };
        let current = self.credentials().filter(|current| current.same_keys(&new));
        if let Some(current) = current
            // A master that moved to another port needs a new subscription, even with the same keys.
            && current.publish_port == new.publish_port
        {
            return Ok(SignIn::Accepted(current));
        }
        let old = self.credentials.send_replace(Some(new.clone()));
        let mut previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner);
        *previous = old.map(|old| (old, Instant::now()));
        Ok(SignIn::Accepted(new))
    }

    /// Returns the previous credentials, as long as publications encrypted with them may still arrive.
    pub(super) fn previous(&self) -> Option<Arc<Credentials>> {
        let previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner);
        previous.as_ref().filter(|(_, since)| since.elapsed() < OVERLAP).map(|(previous, _)| previous.clone())
    }

    async fn signed_in(&self) -> Result<Arc<Credentials>, Error> {
        match self.credentials() {
            Some(credentials) => Ok(credentials),
            // Rare, and large: not part of the memory of each request.
            None => Box::pin(self.renew(None)).await,
        }
    }

    async fn request_once(&self, load: &Map, timeout: Duration, decode: Decode) -> Result<Value, Error> {
        let credentials = self.signed_in().await?;
        let (reply, nonce) = self.exchange(load, &credentials, timeout).await?;
        match open(&credentials, reply, &nonce, decode) {
            // Once only: a master whose answers still do not decrypt is not helped by more sign-ins.
            Err(Error::Authentication(_)) => {
                let credentials = Box::pin(self.renew(Some(&credentials))).await?;
                let (reply, nonce) = self.exchange(load, &credentials, timeout).await?;
                open(&credentials, reply, &nonce, decode)
            }
            other => other,
        }
    }

    /// Encrypts a request, sends it, and returns the raw answer with the nonce that it must carry.
    async fn exchange(&self, load: &Map, with: &Credentials, timeout: Duration) -> Result<(Value, String), Error> {
        let nonce = self.rt.nonce();
        let envelope = self.sealed(load.clone(), with, &nonce)?;
        let reply = self.ask.ask(envelope, timeout).await?;
        Ok((reply, nonce))
    }

    fn sealed(&self, mut load: Map, with: &Credentials, nonce: &str) -> Result<Envelope, Error> {
        let (sealer, version) = with.sealer();
        load.insert("nonce", nonce);
        // Masters that know version 3 refuse a request that is too old.
        if version > 2 {
            load.insert("ts", self.rt.unix_seconds());
        }
        load.insert("tok", self.identity.token()?);
        load.insert("id", self.identity.id.as_str());
        if self.settings.minion_sign_messages {
            let sig = self.sign(&load)?;
            load.insert("sig", sig);
        }
        // Not covered by the signature: the master takes the field out before it checks that.
        if let Some(said) = self.settings.sender.to_value().filter(|_| with.is_saltern) {
            load.insert(ABILITIES_FIELD, said);
        }
        Ok(Envelope::Sealed(Sealed {
            load: sealer.seal(&load.into(), None),
            version,
            id: (version > 2).then(|| self.identity.id.as_str().into()),
            enc_algo: Some(self.settings.encryption.name().to_owned()),
            sig_algo: Some(self.settings.signing.name().to_owned()),
        }))
    }

    /// Signs the fields that the master's handler gets: all except nonce and token.
    fn sign(&self, load: &Map) -> Result<Bytes, Error> {
        let mut covered = load.clone();
        covered.remove("nonce");
        covered.remove("tok");
        let packed = msgpack::pack(&covered.into(), Packing::Bin);
        let sig = self.identity.key.sign(self.settings.signing, &packed);
        sig.map(Bytes::from).map_err(Error::crypto("sign a message"))
    }

    fn open_pillar(&self, reply: Value, nonce: &str) -> Result<Value, Error> {
        let malformed = |what: &str| Error::Malformed(format!("the pillar: {what}"));
        let wrong = |error: LoadError| malformed(&error.to_string());
        if let Some(error) = reply.get("error") {
            return Err(Error::Malformed(error.to_string()));
        }
        let reply = PillarReply::from_value(reply).map_err(wrong)?;
        let once = self.identity.key.decrypt(self.settings.encryption, &reply.key);
        let once = once.map_err(Error::crypto("decrypt the key of an answer"))?;
        let crypticle = KeyString::parse(&once).and_then(|key| crypto::Crypticle::new(&key));
        let crypticle = crypticle.map_err(|error| malformed(&error.to_string()))?;
        // Answers to version 1 are not signed; we never ask in that version.
        let signed = SignedPillar::from_value(crypticle.open(&reply.pillar, None, Decode::Default)?).map_err(wrong)?;
        if !self.master_key()?.verify(self.settings.signing, &signed.data, &signed.sig) {
            return Err(Error::Authentication("Pillar payload signature failed to validate.".to_owned()));
        }
        let content = msgpack::unpack(&signed.data, Decode::Default).map_err(|error| malformed(&error.to_string()))?;
        let content = PillarContent::from_value(content).map_err(wrong)?;
        if content.key != reply.key {
            return Err(Error::Authentication("Key verification failed.".to_owned()));
        }
        if content.nonce != nonce {
            return Err(Error::Authentication("Pillar nonce verification failed.".to_owned()));
        }
        Ok(content.pillar)
    }

    /// Returns the master's key on record.
    pub(super) fn master_key(&self) -> Result<crypto::PublicKey, Error> {
        let known = self.trust.known()?.ok_or(Error::NotAccepted)?;
        crypto::PublicKey::from_pem(known.as_bytes()).map_err(Error::crypto("read the master's key on record"))
    }
}

/// Describes an answer that is not encrypted. A Salt master may give the reason of a failure in it.
fn in_the_clear(answer: &Value) -> String {
    let said = answer.get("error").and_then(Value::as_str).filter(|said| said.len() < 100);
    let said = said.map_or_else(String::new, |said| format!(", which says {said:?}"));
    format!("a {} in the clear{said}", answer.type_name())
}

fn open(credentials: &Credentials, reply: Value, nonce: &str, decode: Decode) -> Result<Value, Error> {
    let sealer = credentials.sealer().0;
    match reply {
        Value::Bytes(sealed) if crypto::is_bulk(&sealed) => {
            sealer.open_bulk(*sealed, nonce, decode).map_err(Error::from)
        }
        Value::Bytes(sealed) if !sealed.is_empty() => sealer.open(&sealed, Some(nonce), decode).map_err(Error::from),
        Value::Str(text) if !text.is_empty() => {
            sealer.open(text.as_bytes(), Some(nonce), decode).map_err(|error| match error {
                // A short plain answer such as `bad load` is more useful than a failed digest.
                crypto::OpenError::Authentication if text.len() < 100 => {
                    Error::Authentication(format!("the master says {text:?}"))
                }
                error => error.into(),
            })
        }
        // Every release of Salt encrypts whatever it answers, even an empty value: an answer in the clear proves
        // nothing.
        other => Err(Error::Malformed(in_the_clear(&other))),
    }
}
