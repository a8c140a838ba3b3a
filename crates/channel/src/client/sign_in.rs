//! The sign-in: builds the request and verifies the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crypto::{KeyString, PublicKey};
use rt::Rt;
use value::{Map, Value};
use wire::loads::{AWAIT_FIELD, Abilities, Ability, AuthAccepted, AuthAnswer, AuthReply, AuthRequest, Verdict};

use super::{Credentials, Distrust, Error, Judgement, MinionIdentity, OfferedKey, Settings, Trust, judge};

/// Follows the reason when a refusal, which says nothing about the key it is signed with, does not fit the key on record.
const NOT_ON_RECORD: &str = " by the master's key on record: perhaps the master has another key and this minion's key is \
                             pending or denied there (see salt-key -L)";

/// The answer of a master to a sign-in.
pub enum SignIn {
    /// Accepted: the credentials.
    Accepted(Arc<Credentials>),
    /// Our key is pending.
    Pending,
    /// Our key is rejected or denied.
    Rejected,
    /// The master has as many minions as it allows (`max_minions`).
    Full,
}

/// A sign-in in progress, with the values against which its answer is checked.
pub(super) struct Attempt<'a> {
    settings: &'a Settings,
    identity: &'a MinionIdentity,
    trust: &'a dyn Trust,
    nonce: String,
    token: Option<KeyString>,
    known: Option<String>,
    /// How long the answer may take while our key is pending.
    awaits: Option<Duration>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        identity: &'a MinionIdentity,
        trust: &'a dyn Trust,
        rt: &Rt,
        awaits: Option<Duration>,
    ) -> Result<Self, Error> {
        let known = trust.known()?;
        // A random text that only the holder of the key on record can decrypt and return: it proves the key without
        // trust in the network.
        let token = known.as_ref().map(|_| KeyString::from_random(rt.bytes()));
        Ok(Attempt { settings, identity, trust, nonce: rt.nonce(), token, known, awaits })
    }

    /// The load of the request.
    pub(super) fn request(&self) -> Result<Map, Error> {
        let token = match (&self.known, &self.token) {
            (Some(known), Some(token)) => {
                let master = self.trust.read(known).map_err(Error::crypto("read the master's key on record"))?;
                let sealed = master.encrypt(self.settings.encryption, token.expose().as_bytes());
                Some(sealed.map_err(Error::crypto("encrypt the token"))?.into())
            }
            _ => None,
        };
        let request = AuthRequest {
            id: self.identity.id.clone(),
            nonce: Some(self.nonce.clone()),
            enc_algo: Some(self.settings.encryption.name().to_owned()),
            sig_algo: Some(self.settings.signing.name().to_owned()),
            autosign_grains: self.settings.autosign_grains.clone(),
            token,
            pub_key: self.identity.public_text.clone(),
            extra: self.extra(),
        };
        Ok(request.into_map())
    }

    /// Returns the fields that Salt does not have.
    fn extra(&self) -> Map {
        let mut extra = Map::new();
        if let Some(awaits) = self.awaits {
            extra.insert(AWAIT_FIELD, awaits.as_secs());
        }
        extra
    }

    /// Verifies the answer, and records a new key that is trusted. Sets `may_await` to whether the master permits us to
    /// wait for a decision about our key.
    pub(super) fn judge(self, reply: AuthReply, may_await: &AtomicBool) -> Result<SignIn, Error> {
        let (load, sig) = match reply {
            AuthReply::Signed { load, sig } => (load, sig),
            AuthReply::Unsigned(map) => {
                let word = map.get_str("ret").unwrap_or("an unsigned answer");
                return Err(Error::Algorithm(word.to_owned()));
            }
            AuthReply::TryAgain => return Err(Error::TryAgain),
            AuthReply::Malformed(value) => {
                // Cut: the text is from a peer that has proved nothing.
                let shown: String = value.to_string().chars().take(80).collect();
                return Err(Error::Malformed(format!("{shown:?} to a sign-in")));
            }
        };
        let answer = AuthAnswer::decode(&load).map_err(|error| Error::Malformed(error.to_string()))?;
        let judged = match &answer {
            AuthAnswer::Accepted(accepted) => Some(self.accept(accepted)?),
            AuthAnswer::Refused(_) => None,
        };
        // In this order: the key is judged, then what it signed, then whether that is an answer to our request.
        self.check_signature(judged.as_ref(), &load, &sig)?;
        if answer.nonce() != Some(&self.nonce) {
            return Err(Error::Authentication("The payload nonce did not validate".to_owned()));
        }
        match answer {
            AuthAnswer::Accepted(accepted) => self.take_keys(&accepted, judged.as_ref()),
            AuthAnswer::Refused(refused) => Ok(match refused.verdict {
                Verdict::Rejected => SignIn::Rejected,
                Verdict::Pending => {
                    let may = refused.extra.get(AWAIT_FIELD).is_some_and(Value::truthy);
                    may_await.store(may, Ordering::Relaxed);
                    SignIn::Pending
                }
                Verdict::Full => SignIn::Full,
            }),
        }
    }

    fn accept(&self, accepted: &AuthAccepted) -> Result<(Judgement, PublicKey), Error> {
        let shown = OfferedKey {
            key: &accepted.pub_key,
            signature: accepted.pub_sig.as_deref(),
            token_sent: self.token.is_some(),
        };
        let verify = |signature: &str| self.vouched(&accepted.pub_key, signature);
        let finger = || crypto::pem_finger(accepted.pub_key.as_bytes(), self.settings.hash_type);
        let judgement = judge(&self.settings.trust, self.known.as_deref(), shown, verify, finger);
        let judgement = judgement.map_err(|distrust| self.explain(distrust, &accepted.pub_key))?;
        let key = self.trust.read(&accepted.pub_key).map_err(Error::crypto("read the master's key"))?;
        Ok((judgement, key))
    }

    fn vouched(&self, key: &str, signature: &str) -> Result<(), Distrust> {
        let signing = self.trust.signing_key()?;
        // The file may have been wrapped into lines.
        let signature: String = signature.split_whitespace().collect();
        let signature = BASE64_STANDARD.decode(signature).ok();
        let fits = signature.is_some_and(|signature| {
            signing.verify(self.settings.signing, crypto::clean_key(key).as_bytes(), &signature)
        });
        self.trust.note_verified(fits);
        if fits { Ok(()) } else { Err(Distrust::BadSignature) }
    }

    fn explain(&self, distrust: Distrust, shown: &str) -> Distrust {
        self.trust.explain(distrust, self.known.as_deref(), shown, self.settings.hash_type)
    }

    /// Checks the outer signature: with the key in the answer, or for a refusal with the key on record.
    fn check_signature(&self, judged: Option<&(Judgement, PublicKey)>, load: &[u8], sig: &[u8]) -> Result<(), Error> {
        let on_record;
        let key = match (judged, &self.known) {
            (Some((_, key)), _) => key,
            (None, Some(known)) => {
                on_record = self.trust.read(known).map_err(Error::crypto("read the master's key on record"))?;
                &on_record
            }
            // The refusal of an unknown master cannot be checked. It reveals nothing.
            (None, None) => return Ok(()),
        };
        match key.verify(self.settings.signing, load, sig) {
            true => Ok(()),
            false => Err(Error::Authentication(match judged {
                Some(_) => "The payload signature did not validate".to_owned(),
                None => format!("The payload signature did not validate{NOT_ON_RECORD}"),
            })),
        }
    }

    fn take_keys(&self, accepted: &AuthAccepted, judged: Option<&(Judgement, PublicKey)>) -> Result<SignIn, Error> {
        let Some((judgement, master)) = judged else { return Err(Distrust::Proof.into()) };
        let private = &self.identity.key;
        let decrypt = |sealed: &[u8]| private.decrypt(self.settings.encryption, sealed);
        let key_string = |sealed: &[u8]| {
            let text = decrypt(sealed).map_err(Error::crypto("decrypt a key of the master"))?;
            KeyString::parse(&text).map_err(|error| Error::Malformed(error.to_string()))
        };
        let aes = key_string(&accepted.aes)?;
        // The AES key must be signed by the master: whoever knows our public key could encrypt one for us.
        if !accepted.sig.as_deref().is_some_and(|sig| master.verify_key_string(&aes, sig)) {
            return Err(Distrust::Proof.into());
        }
        if judgement.token {
            let returned = accepted.token.as_deref().and_then(|token| decrypt(token).ok());
            let sent = self.token.as_ref().map(|token| token.expose().as_bytes());
            if returned.as_deref() != sent {
                return Err(Distrust::Token.into());
            }
        }
        let session = accepted.session.as_deref().map(key_string).transpose()?;
        // Recorded only now, after every check.
        let kept = self.trust.keep(judgement.keep, &accepted.pub_key);
        kept.map_err(|distrust| self.explain(distrust, &accepted.pub_key))?;
        let credentials = Credentials::new(aes, session, accepted.publish_port, master.clone());
        let mut credentials = credentials.map_err(|error| Error::Malformed(error.to_string()))?;
        let abilities = Abilities::find(&accepted.extra);
        credentials.signs_publications =
            abilities.as_ref().is_some_and(|abilities| abilities.can(Ability::SignedPublications));
        credentials.is_saltern = abilities.is_some();
        // The master tells everybody; who does not stay makes no use of it.
        credentials.abilities = abilities.filter(|_| self.settings.sender.stays());
        Ok(SignIn::Accepted(Arc::new(credentials)))
    }
}
