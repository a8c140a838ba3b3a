//! Decrypting publications.

use std::sync::Arc;

use bytes::Bytes;
use crypto::{PublicKey, Signature};
use tracing::error;
use value::{Map, Value};
use wire::loads::PublicationMessage;
use wire::msgpack::Decode;

use super::serials::Serialised;
use super::{Credentials, Error, MasterChannel, Serials, Signatures};

impl MasterChannel {
    /// Decrypts a publication. If our keys do not fit, the master has new ones: signs in and tries once more. Returns
    /// `None` for a replay.
    ///
    /// # Errors
    /// When it is not a publication, lacks the demanded signature, or cannot be decrypted.
    pub async fn open(&self, payload: &Bytes) -> Result<Option<Map>, Error> {
        let message = decode(payload)?;
        let credentials = self.credentials();
        if let Some(opened) = self.open_with_known(credentials.as_deref(), &message) {
            return opened;
        }
        // A master of Saltern sends what is urgent under the key before as well, shortly after a rotation.
        if let Some(before) = &message.before
            && let Some(opened) = self.open_with_known(credentials.as_deref(), &decode(before)?)
        {
            return opened;
        }
        // The whole fleet sees the same publication and would sign in at the same moment.
        self.hesitate().await;
        let credentials: Arc<Credentials> = self.renew(credentials.as_ref()).await?;
        self.open_with(&credentials, &message)
    }

    /// Decrypts with the current or the previous keys. Returns `None` if it was encrypted with others.
    fn open_with_known(
        &self,
        current: Option<&Credentials>,
        message: &PublicationMessage,
    ) -> Option<Result<Option<Map>, Error>> {
        let fits = |opened: &Result<_, Error>| !matches!(opened, Err(Error::Authentication(_)));
        let opened = current.map(|credentials| self.open_with(credentials, message)).filter(fits);
        // A request may have signed in again before all earlier publications were read.
        opened.or_else(|| self.previous().map(|previous| self.open_with(&previous, message)).filter(fits))
    }

    /// Decrypts a publication. The digest shows whether the keys fit, but does not prove who sent the publication,
    /// because every minion has the key. The signature proves it. Both are checked before the message is decrypted.
    fn open_with(&self, credentials: &Credentials, message: &PublicationMessage) -> Result<Option<Map>, Error> {
        // Checked before the signature: verifying that is expensive, and with other keys it says nothing.
        if !credentials.aes.is_seal_of(&message.load) {
            return Err(crypto::OpenError::Authentication.into());
        }
        let demanded = match self.settings.signatures {
            Signatures::Demanded => true,
            Signatures::Announced => credentials.signs_publications,
            Signatures::Ignored => false,
        };
        if demanded {
            check_signature(&credentials.master, message)?;
        }
        unseal(credentials, &message.load, &self.identity.serials)
    }
}

fn decode(payload: &Bytes) -> Result<PublicationMessage, Error> {
    let message = PublicationMessage::decode(payload).map_err(|error| Error::Malformed(error.to_string()))?;
    match message.enc.as_str() {
        "aes" => Ok(message),
        other => Err(Error::Malformed(format!("publication with the encoding {other:?}"))),
    }
}

fn check_signature(master: &PublicKey, message: &PublicationMessage) -> Result<(), Error> {
    let Some(sig) = &message.sig else { return Err(Error::Forged("it has no signature")) };
    let algorithm = message.sig_algo.as_deref().map_or(Ok(Signature::default()), str::parse);
    let algorithm = algorithm.map_err(|error: crypto::UnsupportedAlgorithm| Error::Algorithm(error.0))?;
    match master.verify(algorithm, &message.load, sig) {
        true => Ok(()),
        false => Err(Error::Forged("Message signature failed to validate.")),
    }
}

fn unseal(credentials: &Credentials, sealed: &[u8], serials: &Serials) -> Result<Option<Map>, Error> {
    let opened = credentials.aes.open(sealed, None, Decode::Default).map_err(Error::from)?;
    match serials.admit(&credentials.aes_digest, opened) {
        // Only a map is a job. Whatever else a master publishes is not for minions.
        Serialised::Fresh(Value::Map(load)) => Ok(Some(load)),
        Serialised::Fresh(other) => Err(Error::Malformed(format!("a publication that is a {}", other.type_name()))),
        Serialised::Replayed { serial, last } => {
            error!("Received a publication with the old serial {serial} (last was {last}); it is dropped as a replay");
            Ok(None)
        }
    }
}
