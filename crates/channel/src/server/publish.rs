//! Encrypting a publication.

use std::sync::Arc;

use bytes::Bytes;
use value::Map;
use wire::loads::PublicationMessage;

use super::{Generation, Server};

/// The position of a publication in the sequence of this master's publications: its key and its serial number.
///
/// Minions drop a publication with a lower serial number than the last one as a replay, so publications must be sent in
/// the order of their numbers.
pub struct Numbered {
    generation: Arc<Generation>,
    serial: Option<u64>,
    /// The same publication under the previous key, for minions that do not have the new one.
    before: Option<Box<Numbered>>,
}

impl Numbered {
    fn next(generation: Arc<Generation>) -> Self {
        Numbered { serial: Some(generation.next_serial()), generation, before: None }
    }
}

impl Server {
    /// Numbers the next publication.
    pub fn number_publication(&self) -> Numbered {
        Numbered::next(self.aes.current())
    }

    /// Numbers the next publication under the previous key, while that is still valid.
    pub fn number_before(&self) -> Option<Numbered> {
        self.aes.previous().map(Numbered::next)
    }

    /// Returns a position without a number, for a message that may arrive out of order: a Salt minion that must sign in
    /// to read it may already have read the next publication.
    pub fn unnumbered(&self) -> Numbered {
        Numbered { serial: None, generation: self.aes.current(), before: None }
    }

    /// Numbers a publication for Saltern minions only. Shortly after a rotation, it can also be decrypted with the old
    /// key.
    pub fn number_notice(&self) -> Numbered {
        let before = self.number_before().map(Box::new);
        Numbered { before, ..self.number_publication() }
    }

    /// Packs, encrypts and signs a publication. Every subscriber gets the same payload.
    ///
    /// # Errors
    /// When the master's key cannot sign.
    pub fn seal_publication(&self, mut load: Map, number: &Numbered) -> Result<Bytes, crypto::RsaError> {
        let before = number.before.as_deref().map(|before| self.seal_publication(load.clone(), before)).transpose()?;
        if let Some(serial) = number.serial {
            load.insert("serial", serial);
        }
        let sealed = number.generation.crypticle().seal(&load.into(), None);
        let mut message = PublicationMessage { before, ..PublicationMessage::unsigned(sealed.clone()) };
        if self.settings.sign_pub_messages {
            let algorithm = self.settings.publish_signing_algorithm;
            // The encrypted bytes are signed, so that minions can check it before they decrypt anything.
            let sig = self.identity.key.sign(algorithm, &sealed)?;
            message.sig_algo = Some(algorithm.name().to_owned());
            message.sig = Some(sig.into());
        }
        Ok(message.encode())
    }
}
