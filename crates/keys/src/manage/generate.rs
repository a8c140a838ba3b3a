//! Creates keys, signatures and the key cache.

use std::fs;
use std::path::Path;

use crypto::{PrivateKey, RsaError};
use tracing::error;
use value::{Map, Value, map};
use wire::MinionId;

use super::{GenKeys, GenSignature, KeyManager};
use crate::atomic::{self, Manner};
use crate::master_keys::sign_public_key;
use crate::{Bank, KeyError, KeyState, PairOptions, PairPath};

impl KeyManager {
    /// `key.gen_accept`: makes a pair and accepts its public half under an id; the private half is only returned.
    /// Without `force`, an id that has a key keeps it, and the result is empty.
    pub fn gen_accept(&self, id: &MinionId, bits: u32, force: bool) -> Result<Map, KeyError> {
        // A new pair would shut out the minion that has the old one.
        if !force && self.store.find(id)?.is_some() {
            return Ok(Map::new());
        }
        let path = self.store.path(Bank::Accepted, id);
        let pair = generate_pair(bits).map_err(|source| KeyError::Make { path, source })?;
        self.store.put(id, KeyState::Accepted, pair.get_str("pub").unwrap_or_default().trim())?;
        Ok(pair)
    }

    /// `key.gen_keys`: creates the files of a pair unless they exist, and returns the fingerprint.
    pub fn gen_keys(&self, wanted: &GenKeys<'_>) -> Result<String, KeyError> {
        let path = PairPath::new(wanted.directory, wanted.name)?;
        let bits = wanted.bits.unwrap_or(self.options.master.keysize);
        let pair = path.load_or_create(PairOptions { bits, passphrase: None, owner: wanted.owner })?;
        Ok(pair.fingerprint(self.options.hash_type))
    }

    /// `key.gen_signature`: signs the master's public key into a file. Returns true if it wrote the file, false if the
    /// file exists already, or a message that says what is missing.
    pub fn gen_signature(&self, wanted: &GenSignature<'_>) -> Result<Value, KeyError> {
        let master = &self.options.master;
        let public = match wanted.public {
            Some(path) if !path.is_file() => return Ok(format!("Public-key {} does not exist", path.display()).into()),
            Some(path) => path.to_owned(),
            None => master.pair_path()?.public(),
        };
        let private = match wanted.private {
            Some(path) if !path.is_file() => return Ok(format!("Private-key {} does not exist", path.display()).into()),
            Some(path) => path.to_owned(),
            None => master.sign_path()?.private(),
        };
        if !private.is_file() {
            if !wanted.auto_create {
                return Ok("No usable private-key found".into());
            }
            let options = master.sign_options();
            master.sign_path()?.create(PairOptions { bits: wanted.bits.unwrap_or(options.bits), ..options })?;
        }
        if !public.is_file() {
            return Ok("No usable public-key found".into());
        }
        self.write_signature(&private, &public, wanted.directory.unwrap_or(&master.pki_dir)).map(Value::from)
    }

    fn write_signature(&self, private: &Path, public: &Path, directory: &Path) -> Result<bool, KeyError> {
        let path = directory.join(self.options.master.signature_name());
        // An existing signature may be in use by minions; Salt does not replace it either.
        if path.exists() {
            error!("{} already exists at expected location", path.display());
            return Ok(false);
        }
        let pem = fs::read(private).map_err(KeyError::io("read key", private))?;
        let key = PrivateKey::from_pem(&pem, self.options.master.signing_key_pass.as_deref());
        let key = key.map_err(|source| KeyError::Unreadable { path: private.to_owned(), source })?;
        let text = fs::read_to_string(public).map_err(KeyError::io("read key", public))?;
        let signature = sign_public_key(&key, &text, self.options.publish_signing_algorithm)?;
        let manner = Manner { mode: 0o400, owner: self.store.owner(), durable: true };
        atomic::write(&path, signature.as_bytes(), manner).map_err(KeyError::io("write signature", &path))?;
        Ok(true)
    }
}

/// `key.gen`: creates a pair without storing it: `{"priv": …, "pub": …}`. Sizes below 2048 become 2048.
pub fn generate_pair(bits: u32) -> Result<Map, RsaError> {
    // As in Salt. OpenSSL would also make keys that can be broken.
    let private = PrivateKey::generate(bits.max(2048))?;
    Ok(map! { "priv" => private.to_pem(None)?, "pub" => private.public().to_pem() })
}
