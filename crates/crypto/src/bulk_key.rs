//! The key of large answers, derived from the session key.

use openssl::error::ErrorStack;
use openssl::md::Md;
use openssl::pkey::Id;
use openssl::pkey_ctx::PkeyCtx;

const INFO: &[u8] = b"saltern bulk aes-256-gcm";

/// The derived key.
pub(crate) struct BulkKey(pub(crate) [u8; 32]);

impl BulkKey {
    pub(crate) fn derive(secret: &[u8]) -> Result<Self, ErrorStack> {
        let mut key = [0; 32];
        let mut hkdf = PkeyCtx::new_id(Id::HKDF)?;
        hkdf.derive_init()?;
        hkdf.set_hkdf_md(Md::sha256())?;
        hkdf.set_hkdf_key(secret)?;
        // No salt is needed: the session key is uniformly random.
        hkdf.set_hkdf_salt(&[])?;
        hkdf.add_hkdf_info(INFO)?;
        hkdf.derive(Some(&mut key))?;
        Ok(BulkKey(key))
    }
}

impl Drop for BulkKey {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}
