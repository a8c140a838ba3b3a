//! Sealing a publication.

use std::sync::Arc;

use bytes::Bytes;
use value::{Map, map};
use wire::msgpack::{self, Packing};

use super::{Generation, Server};

/// The place of a publication among all of this master's: its key and its number.
///
/// Minions take a publication with a lower number than the last for a replay. So publications have to leave in the order in
/// which they were numbered.
pub struct Numbered {
    generation: Arc<Generation>,
    serial: u64,
}

impl Server {
    /// Numbers the next publication.
    pub fn number_publication(&self) -> Numbered {
        let generation = self.aes.current();
        let serial = generation.next_serial();
        Numbered { generation, serial }
    }

    /// Packs, seals and signs a publication. The result is the payload every subscriber gets.
    ///
    /// # Errors
    /// When the master's key cannot sign.
    pub fn seal_publication(&self, mut load: Map, number: &Numbered) -> Result<Bytes, crypto::RsaError> {
        load.insert("serial", number.serial);
        let sealed = number.generation.crypticle().seal(&load.into(), None);
        let mut message = map! { "enc" => "aes", "load" => sealed.clone() };
        if self.settings.sign_pub_messages {
            let algorithm = self.settings.publish_signing_algorithm;
            let sig = self.identity.key.sign(algorithm, &sealed)?;
            message.insert("sig_algo", algorithm.name());
            message.insert("sig", Bytes::from(sig));
        }
        Ok(msgpack::pack(&message.into(), Packing::Wire).into())
    }
}
