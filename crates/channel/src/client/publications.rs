//! Opening what the master publishes.

use std::sync::Arc;

use bytes::Bytes;
use crypto::{Serialised, Signature};
use tracing::error;
use value::{Map, Value};
use wire::loads::PublicationMessage;
use wire::msgpack::Decode;

use super::{Credentials, Error, MasterChannel};

impl MasterChannel {
    /// Opens a publication. One that our keys do not open makes us sign in and try once more: the master has new keys.
    /// `None` for one that was seen before.
    ///
    /// # Errors
    /// When it is not a publication, is not signed as demanded, or does not open.
    pub async fn open(&self, payload: &Bytes) -> Result<Option<Map>, Error> {
        let message = self.admit_publication(payload)?;
        let credentials = self.credentials();
        if let Some(opened) = self.open_with_known(credentials.as_deref(), &message.load) {
            return opened;
        }
        if let Some(before) = &message.before {
            let message = self.admit_publication(before)?;
            if let Some(opened) = self.open_with_known(credentials.as_deref(), &message.load) {
                return opened;
            }
        }
        self.hesitate().await;
        let credentials: Arc<Credentials> = self.renew(credentials.as_ref()).await?;
        open_with(&credentials, &message.load)
    }

    /// Opens with the keys that are at hand; `None` when they are not those it was sealed with.
    fn open_with_known(&self, current: Option<&Credentials>, sealed: &[u8]) -> Option<Result<Option<Map>, Error>> {
        let fits = |opened: &Result<_, Error>| !matches!(opened, Err(Error::Authentication(_)));
        let opened = current.map(|credentials| open_with(credentials, sealed)).filter(fits);
        // A request may have signed in anew before everything was read that was published earlier.
        opened.or_else(|| self.previous().map(|previous| open_with(&previous, sealed)).filter(fits))
    }

    fn admit_publication(&self, payload: &Bytes) -> Result<PublicationMessage, Error> {
        let message = PublicationMessage::decode(payload).map_err(|error| Error::Malformed(error.to_string()))?;
        if message.enc != "aes" {
            return Err(Error::Malformed(format!("publication with the encoding {:?}", message.enc)));
        }
        if self.settings.sign_pub_messages {
            self.check_publication(&message)?;
        }
        Ok(message)
    }

    fn check_publication(&self, message: &PublicationMessage) -> Result<(), Error> {
        let Some(sig) = &message.sig else {
            return Err(Error::Authentication("the publication is not signed".to_owned()));
        };
        let algorithm = message.sig_algo.as_deref().map_or(Ok(Signature::default()), str::parse);
        let algorithm = algorithm.map_err(|error: crypto::UnsupportedAlgorithm| Error::Algorithm(error.0))?;
        match self.master_key()?.verify(algorithm, &message.load, sig) {
            true => Ok(()),
            false => Err(Error::Authentication("Message signature failed to validate.".to_owned())),
        }
    }
}

fn open_with(credentials: &Credentials, sealed: &[u8]) -> Result<Option<Map>, Error> {
    let opened = credentials.aes.open(sealed, None, Decode::Default).map_err(Error::from)?;
    match credentials.admit(opened) {
        Serialised::Fresh(Value::Map(load)) => Ok(Some(load)),
        Serialised::Fresh(other) => Err(Error::Malformed(format!("a publication that is a {}", other.type_name()))),
        Serialised::Replayed { serial, last } => {
            error!("Received a publication with the old serial {serial} (last was {last}); it is dropped as a replay");
            Ok(None)
        }
    }
}
