//! Sealing a publication.

use bytes::Bytes;
use value::{Map, map};
use wire::msgpack::{self, Packing};

use super::Server;

impl Server {
    /// Numbers, packs, seals and signs a publication. The result is the payload every subscriber gets.
    ///
    /// # Errors
    /// When the master's key cannot sign.
    pub fn seal_publication(&self, mut load: Map) -> Result<Bytes, crypto::RsaError> {
        let generation = self.aes.current();
        load.insert("serial", generation.next_serial());
        let sealed = generation.crypticle().seal(&load.into(), None);
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
