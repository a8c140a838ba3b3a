//! The keys of a master itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto::{PrivateKey, PublicKey, Signature, clean_key};
use tracing::warn;

use crate::atomic::Owner;
use crate::{KeyError, KeyPair, PairOptions, PairPath};

/// The options of a master's own keys, under Salt's names.
#[derive(Clone, Debug)]
pub struct MasterKeyOptions {
    /// The directory of the keys.
    pub pki_dir: PathBuf,
    /// The id of the master, normally the host name with `_master` at the end.
    pub id: String,
    /// The account the files belong to.
    pub owner: Owner,
    /// The size of new keys in bits.
    pub keysize: u32,
    /// The passphrase of the master key.
    pub key_pass: Option<String>,
    /// Sign the master's public key for minions.
    pub master_sign_pubkey: bool,
    /// The name of the signing pair.
    pub master_sign_key_name: String,
    /// The passphrase of the signing pair.
    pub signing_key_pass: Option<String>,
    /// Send the signature that was computed before instead of using the signing pair.
    pub master_use_pubkey_signature: bool,
    /// The name of the file with that signature; `None` for Salt's defaults.
    pub master_pubkey_signature: Option<String>,
}

impl MasterKeyOptions {
    /// Salt's defaults for a directory and a master.
    pub fn new(pki_dir: impl Into<PathBuf>, id: impl Into<String>) -> Self {
        MasterKeyOptions {
            pki_dir: pki_dir.into(),
            id: id.into(),
            owner: Owner::NOBODY,
            keysize: 2048,
            key_pass: None,
            master_sign_pubkey: false,
            master_sign_key_name: "master_sign".to_owned(),
            signing_key_pass: None,
            master_use_pubkey_signature: false,
            master_pubkey_signature: None,
        }
    }

    /// The id without `_master` at the end: the name of the master's key files.
    pub fn short_id(&self) -> &str {
        self.id.strip_suffix("_master").unwrap_or(&self.id)
    }

    /// Returns the path of the master's pair, which may not exist yet.
    ///
    /// `<short id>.pem` comes first, then `master.pem`, which is the only name before Salt 3008. Links are followed,
    /// so that a directory copied from another master keeps its key: Salt 3008 makes a new one in that case.
    pub fn pair_path(&self) -> Result<PairPath, KeyError> {
        let own = PairPath::new(&self.pki_dir, self.short_id())?;
        let old = PairPath::new(&self.pki_dir, "master")?;
        // A master that was upgraded keeps its key: with another one, every minion would refuse it.
        Ok(if !own.exists() && old.exists() { old } else { own })
    }

    /// Returns the path of the signing pair.
    pub fn sign_path(&self) -> Result<PairPath, KeyError> {
        PairPath::new(&self.pki_dir, &self.master_sign_key_name)
    }

    /// The name under which a new signature file is written.
    pub fn signature_name(&self) -> String {
        self.master_pubkey_signature.clone().unwrap_or_else(|| format!("{}_pubkey_signature", self.id))
    }

    fn pair_options(&self) -> PairOptions<'_> {
        PairOptions { bits: self.keysize, passphrase: self.key_pass.as_deref(), owner: self.owner }
    }

    /// Returns the options for reading and creating the signing pair.
    pub fn sign_options(&self) -> PairOptions<'_> {
        PairOptions { bits: self.keysize, passphrase: self.signing_key_pass.as_deref(), owner: self.owner }
    }
}

/// The keys of a running master.
#[derive(Debug)]
pub struct MasterKeys {
    pair: KeyPair,
    voucher: Voucher,
}

/// The proof of the master's public key.
#[derive(Debug)]
enum Voucher {
    Nothing,
    /// A signing pair, with the signatures made so far.
    Pair(PrivateKey, Mutex<Vec<(Signature, String)>>),
    /// The content of the signature file.
    File(String),
}

impl MasterKeys {
    /// Reads the keys, and creates missing ones.
    pub fn load(options: &MasterKeyOptions) -> Result<Self, KeyError> {
        let path = options.pair_path()?;
        let new = !path.exists();
        if new {
            refuse_broken_link(&path.directory.join("master.pem"))?;
        }
        let pair = path.load_or_create(options.pair_options())?;
        // Existing files are not touched: an administrator may have arranged them.
        if new {
            link_old_names(&path)?;
        }
        replace_stale_public_key(&path, &pair)?;
        Ok(MasterKeys { pair, voucher: Voucher::load(options)? })
    }

    /// The master's pair.
    pub fn pair(&self) -> &KeyPair {
        &self.pair
    }

    /// Returns the entry `pub_sig` of the sign-in answer: the signature of the public key's text in Base64 with a line
    /// feed, or the content of the signature file. `None` without `master_sign_pubkey`.
    pub fn pub_sig(&self, algorithm: Signature) -> Result<Option<String>, KeyError> {
        match &self.voucher {
            Voucher::Nothing => Ok(None),
            Voucher::File(text) => Ok(Some(text.clone())),
            Voucher::Pair(key, made) => self.signature(key, made, algorithm).map(Some),
        }
    }

    /// Returns the signature of the public key. It is always the same, so it is computed once for each algorithm.
    fn signature(
        &self,
        key: &PrivateKey,
        made: &Mutex<Vec<(Signature, String)>>,
        algorithm: Signature,
    ) -> Result<String, KeyError> {
        let known =
            made.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|(of, _)| *of == algorithm).cloned();
        if let Some((_, text)) = known {
            return Ok(text);
        }
        let text = sign_public_key(key, self.pair.public_text(), algorithm)?;
        made.lock().unwrap_or_else(PoisonError::into_inner).push((algorithm, text.clone()));
        Ok(text)
    }
}

impl Voucher {
    fn load(options: &MasterKeyOptions) -> Result<Self, KeyError> {
        if !options.master_sign_pubkey {
            return Ok(Voucher::Nothing);
        }
        // The private signing key can then stay off this host.
        if options.master_use_pubkey_signature {
            return read_signature(options).map(Voucher::File);
        }
        let pair = options.sign_path()?.load_or_create(options.sign_options())?;
        Ok(Voucher::Pair(pair.private().clone(), Mutex::default()))
    }
}

/// The signature file under the configured name, or under those of Salt 3008 and before.
fn read_signature(options: &MasterKeyOptions) -> Result<String, KeyError> {
    let first = options.pki_dir.join(options.signature_name());
    let mut places = vec![first.clone()];
    if options.master_pubkey_signature.is_none() {
        // Only if no name is configured; a wrong name must be an error.
        places.push(options.pki_dir.join("master_pubkey_signature"));
    }
    let Some(path) = places.into_iter().find(|path| path.is_file()) else {
        return Err(KeyError::NoSignature { path: first });
    };
    let text = fs::read_to_string(&path).map_err(KeyError::io("read signature", &path))?;
    Ok(clean_key(&text))
}

/// Returns the signature of a public key's text as it is sent and stored.
pub(crate) fn sign_public_key(key: &PrivateKey, text: &str, algorithm: Signature) -> Result<String, KeyError> {
    let signature = key.sign(algorithm, clean_key(text).as_bytes());
    let signature = signature.map_err(|source| KeyError::Sign { path: PathBuf::from("master.pub"), source })?;
    Ok(STANDARD.encode(signature) + "\n")
}

/// Refuses a link to a private key that is missing. A copy of the directory may have left the key itself behind, and the minions would
/// refuse a master with another one.
fn refuse_broken_link(link: &Path) -> Result<(), KeyError> {
    match fs::read_link(link) {
        Ok(target) if !link.exists() => Err(KeyError::BrokenLink { link: link.to_owned(), target }),
        _ => Ok(()),
    }
}

/// Links the key under the names that older releases use. The links are relative, so that the directory can be copied.
/// An existing file is left alone.
fn link_old_names(path: &PairPath) -> Result<(), KeyError> {
    for (name, target) in [("master.pem", path.private()), ("master.pub", path.public())] {
        let link = path.directory.join(name);
        let Some(file) = target.file_name().filter(|file| *file != name) else { continue };
        // A link to a public key that is gone would hide the new one.
        if link.is_symlink() && !link.exists() {
            fs::remove_file(&link).map_err(KeyError::io("replace broken link", &link))?;
        }
        if !link.is_symlink() && !link.exists() {
            symlink(file, &link).map_err(KeyError::io("make link", &link))?;
        }
    }
    Ok(())
}

/// Replaces a `master.pub` left by a pair that no longer exists. People would copy it to minions or compare its
/// fingerprint. Does so only if `master.pem` leads to this pair.
fn replace_stale_public_key(path: &PairPath, pair: &KeyPair) -> Result<(), KeyError> {
    let (private, public) = (path.directory.join("master.pem"), path.directory.join("master.pub"));
    let same_file = |one: &Path, other: &Path| {
        fs::canonicalize(one).ok().is_some_and(|one| fs::canonicalize(other).ok() == Some(one))
    };
    // If `master.pem` is another pair, its public half is none of this master's business.
    if same_file(&public, &path.public()) || !same_file(&private, &path.private()) {
        return Ok(());
    }
    let is_stale = match fs::read(&public) {
        Ok(text) => !PublicKey::from_pem(&text).is_ok_and(|found| found == *pair.public()),
        Err(_) => false,
    };
    let Some(file) = path.public().file_name().map(ToOwned::to_owned).filter(|_| is_stale) else { return Ok(()) };
    warn!("{} was the public half of another key than {}, and is replaced", public.display(), private.display());
    fs::remove_file(&public).map_err(KeyError::io("replace stale key", &public))?;
    symlink(file, &public).map_err(KeyError::io("make link", &public))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{private_pem, public_key, vectors};

    fn options(dir: &tempfile::TempDir) -> MasterKeyOptions {
        MasterKeyOptions::new(dir.path(), "salt.example_master")
    }

    fn text(dir: &tempfile::TempDir) -> String {
        MasterKeys::load(&options(dir)).unwrap().pair().public_text().to_owned()
    }

    #[test]
    fn a_new_key_is_found_under_the_old_names() {
        let dir = tempfile::tempdir().unwrap();
        let made = text(&dir);
        assert_eq!(fs::read_link(dir.path().join("master.pem")).unwrap().to_str(), Some("salt.example.pem"));
        assert_eq!(clean_key(&fs::read_to_string(dir.path().join("master.pub")).unwrap()), made);
        assert_eq!(text(&dir), made);
    }

    #[test]
    fn the_files_of_older_releases_are_used_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("master.pem"), private_pem(1)).unwrap();
        assert_eq!(text(&dir), public_key(1));
        assert!(!dir.path().join("salt.example.pem").exists());
        fs::write(dir.path().join("salt.example.pem"), private_pem(0)).unwrap();
        assert_eq!(text(&dir), public_key(0));
    }

    #[test]
    fn a_directory_copied_from_another_master_keeps_its_key() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other.pem"), private_pem(1)).unwrap();
        symlink(dir.path().join("other.pem"), dir.path().join("master.pem")).unwrap();
        assert_eq!(text(&dir), public_key(1));
    }

    #[test]
    fn a_public_key_without_its_private_half_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let shown = || clean_key(&fs::read_to_string(dir.path().join("master.pub")).unwrap());
        fs::write(dir.path().join("master.pub"), public_key(1)).unwrap();
        let made = text(&dir);
        assert_eq!(shown(), made, "a new pair was made");
        fs::remove_file(dir.path().join("master.pub")).unwrap();
        fs::write(dir.path().join("master.pub"), public_key(1)).unwrap();
        text(&dir);
        assert_eq!(shown(), made, "also when an earlier start left it");

        // A pair under the old name of its own, with a wrong public half.
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("master.pem"), private_pem(1)).unwrap();
        fs::write(dir.path().join("master.pub"), public_key(0)).unwrap();
        assert_eq!(text(&dir), public_key(1));
        assert_eq!(clean_key(&fs::read_to_string(dir.path().join("master.pub")).unwrap()), public_key(1));
    }

    #[test]
    fn a_link_to_a_private_key_that_was_not_copied_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("master.pem");
        symlink("other.pem", &link).unwrap();
        symlink("other.pub", dir.path().join("master.pub")).unwrap();
        let refused = MasterKeys::load(&options(&dir)).unwrap_err().to_string();
        assert!(refused.contains("master.pem is a link to other.pem, which is missing"), "{refused}");
        assert!(link.is_symlink() && !dir.path().join("salt.example.pem").exists(), "nothing is changed");
        fs::remove_file(&link).unwrap();
        let made = text(&dir);
        assert_eq!(text(&dir), made);
        assert!(dir.path().join("master.pub").exists(), "the link to a missing public key is replaced");
    }

    #[test]
    fn the_public_key_is_signed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("master.pem"), private_pem(1)).unwrap();
        fs::write(dir.path().join("master_sign.pem"), private_pem(2)).unwrap();
        let mut options = options(&dir);
        let sha1 = "PKCS1v15-SHA1".parse().unwrap();
        assert_eq!(MasterKeys::load(&options).unwrap().pub_sig(sha1).unwrap(), None);
        options.master_sign_pubkey = true;
        let keys = MasterKeys::load(&options).unwrap();
        let recorded = vectors("misc")["master_pubkey_signature_file"]["text"].as_str().unwrap().to_owned();
        for _ in 0..2 {
            assert_eq!(keys.pub_sig(sha1).unwrap().unwrap(), recorded);
        }
    }

    #[test]
    fn a_signature_made_before_is_sent_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("master.pem"), private_pem(1)).unwrap();
        let mut options = options(&dir);
        (options.master_sign_pubkey, options.master_use_pubkey_signature) = (true, true);
        let missing = MasterKeys::load(&options).unwrap_err().to_string();
        assert!(missing.contains("salt.example_master_pubkey_signature"), "{missing}");
        let sha1 = "PKCS1v15-SHA1".parse().unwrap();
        for name in ["master_pubkey_signature", "salt.example_master_pubkey_signature"] {
            fs::write(dir.path().join(name), format!("from {name}\n")).unwrap();
            let keys = MasterKeys::load(&options).unwrap();
            assert_eq!(keys.pub_sig(sha1).unwrap().unwrap(), format!("from {name}"));
        }
    }
}
