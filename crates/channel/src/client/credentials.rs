//! The result of a sign-in.

use crypto::{Crypticle, InvalidKeyString, KeyString, PublicKey};
use wire::loads::Abilities;

use super::serials::KeyDigest;

/// The keys of one master, from one sign-in to the next.
pub struct Credentials {
    /// Decrypts publications. For masters that send no session key, it also encrypts requests.
    pub aes: Crypticle,
    /// The key as text, to see whether a later sign-in brought another one.
    aes_text: KeyString,
    /// Encrypts requests. Old masters send none.
    pub session: Option<Crypticle>,
    session_text: Option<KeyString>,
    /// The port for publications.
    pub publish_port: u16,
    /// What the master can do beyond Salt; `None` for a Salt master, and where nothing uses it.
    pub abilities: Option<Abilities>,
    /// The master is a Saltern master. It understands the field in which requests describe their sender.
    pub(super) is_saltern: bool,
    /// The master's key, which the answer to the sign-in was signed with.
    pub(super) master: PublicKey,
    /// The master has announced, in a signed answer, that it signs every publication. One without a valid signature is
    /// then a forgery.
    pub(super) signs_publications: bool,
    /// Names `aes` in the memory of serial numbers.
    pub(super) aes_digest: KeyDigest,
}

impl Credentials {
    /// Creates credentials from these keys.
    ///
    /// # Errors
    /// When a key is not well formed.
    pub fn new(
        aes: KeyString,
        session: Option<KeyString>,
        publish_port: u16,
        master: PublicKey,
    ) -> Result<Self, InvalidKeyString> {
        Ok(Credentials {
            aes: Crypticle::new(&aes)?,
            session: session.as_ref().map(Crypticle::new).transpose()?,
            aes_digest: KeyDigest::of(&aes),
            aes_text: aes,
            session_text: session,
            publish_port,
            abilities: None,
            is_saltern: false,
            master,
            signs_publications: false,
        })
    }

    /// Returns what requests are encrypted with, and the version of the envelope that goes with it.
    pub fn sealer(&self) -> (&Crypticle, i64) {
        match &self.session {
            Some(session) => (session, 3),
            // Version 2 is that of releases without session keys: every minion has this key.
            None => (&self.aes, 2),
        }
    }

    /// Returns whether two sign-ins gave the same keys.
    pub fn same_keys(&self, other: &Credentials) -> bool {
        let text = |credentials: &Credentials| credentials.session_text.as_ref().map(|key| key.expose().to_owned());
        self.aes_text.expose() == other.aes_text.expose() && text(self) == text(other)
    }
}
