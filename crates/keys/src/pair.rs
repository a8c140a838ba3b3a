//! The key pairs of this host on disk: a master's, a minion's, signing pairs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crypto::{HashType, PrivateKey, PublicKey, RsaError, clean_key, pem_finger};
use tracing::{info, warn};

use crate::KeyError;
use crate::atomic::{self, Manner, Owner};

/// The path of a pair: `<directory>/<name>.pem` and `<directory>/<name>.pub`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPath {
    /// The directory.
    pub directory: PathBuf,
    /// The name without an ending.
    pub name: String,
}

/// The options of a new pair.
#[derive(Clone, Copy, Debug)]
pub struct PairOptions<'a> {
    /// The size in bits (`keysize`).
    pub bits: u32,
    /// The passphrase of the private key (`key_pass`, `signing_key_pass`).
    pub passphrase: Option<&'a str>,
    /// The account the files belong to.
    pub owner: Owner,
}

/// A key pair.
#[derive(Clone, Debug)]
pub struct KeyPair {
    private: PrivateKey,
    public: PublicKey,
    public_text: String,
}

impl PairPath {
    /// Returns the place of a pair. A name that leads out of the directory is refused.
    pub fn new(directory: impl Into<PathBuf>, name: &str) -> Result<Self, KeyError> {
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(KeyError::Name(name.to_owned()));
        }
        Ok(PairPath { directory: directory.into(), name: name.to_owned() })
    }

    /// The file of the private half.
    pub fn private(&self) -> PathBuf {
        self.directory.join(format!("{}.pem", self.name))
    }

    /// The file of the public half.
    pub fn public(&self) -> PathBuf {
        self.directory.join(format!("{}.pub", self.name))
    }

    /// Returns whether there is a private half. Links are followed.
    pub fn exists(&self) -> bool {
        self.private().is_file()
    }

    /// Reads the pair. A missing public half is written.
    pub fn load(&self, options: PairOptions<'_>) -> Result<KeyPair, KeyError> {
        self.check_passphrase(options)?;
        let path = self.private();
        let pem = fs::read(&path).map_err(KeyError::io("read key", &path))?;
        let private = PrivateKey::from_pem(&pem, options.passphrase);
        let private = private.map_err(|source| KeyError::Unreadable { path, source })?;
        let public_text = self.public_text(&private, options.owner)?;
        Ok(KeyPair { public: private.public(), private, public_text })
    }

    /// Reads the pair, and creates it first if there is none.
    pub fn load_or_create(&self, options: PairOptions<'_>) -> Result<KeyPair, KeyError> {
        if !self.exists() {
            info!("Generating keys: {}", self.private().display());
            self.create(options)?;
        }
        self.load(options)
    }

    /// Creates a new pair, unless another process creates one first. Generating a key can take seconds.
    pub fn create(&self, options: PairOptions<'_>) -> Result<(), KeyError> {
        self.check_passphrase(options)?;
        let path = self.private();
        let make = |source: RsaError| KeyError::Make { path: path.clone(), source };
        let private = PrivateKey::generate(options.bits).map_err(make)?;
        let pem = private.to_pem(options.passphrase).map_err(make)?;
        match atomic::write_new(&path, pem.as_bytes(), manner(0o400, options.owner)) {
            // After the private half: a crash in between leaves a pair that `load` completes.
            Ok(()) => self.write_public(&private.public().to_pem(), options.owner),
            // Another process made a pair at the same time. Its key is in use, so this one is dropped.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(KeyError::io("write key", &path)(error)),
        }
    }

    fn check_passphrase(&self, options: PairOptions<'_>) -> Result<(), KeyError> {
        match options.passphrase {
            Some(reference) if reference.starts_with("sdb://") => Err(KeyError::Sdb { path: self.private() }),
            _ => Ok(()),
        }
    }

    fn write_public(&self, text: &str, owner: Owner) -> Result<(), KeyError> {
        let path = self.public();
        atomic::write(&path, text.as_bytes(), manner(0o644, owner)).map_err(KeyError::io("write key", &path))
    }

    /// Returns the text of the public half as others know it: that of the file, if it contains this key.
    fn public_text(&self, private: &PrivateKey, owner: Owner) -> Result<String, KeyError> {
        let path = self.public();
        let own = private.public();
        match fs::read_to_string(&path) {
            Ok(text) if PublicKey::from_pem(text.as_bytes()).is_ok_and(|found| found == own) => {
                return Ok(clean_key(&text));
            }
            Ok(_) => {
                warn!("{} is not the public half of {}, writing it anew", path.display(), self.private().display());
                if let Err(error) = self.write_public(&own.to_pem(), owner) {
                    // The private half is what counts; the directory may be read-only.
                    warn!("{error}, ignoring it");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_public(&own.to_pem(), owner)?,
            Err(error) => return Err(KeyError::io("read key", &path)(error)),
        }
        Ok(clean_key(&own.to_pem()))
    }
}

fn manner(mode: u32, owner: Owner) -> Manner {
    Manner { mode, owner, durable: true }
}

impl KeyPair {
    /// The private half.
    pub fn private(&self) -> &PrivateKey {
        &self.private
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the public half as it is sent and compared, without trailing white space.
    pub fn public_text(&self) -> &str {
        &self.public_text
    }

    /// The fingerprint administrators compare.
    pub fn fingerprint(&self, kind: HashType) -> String {
        pem_finger(self.public_text.as_bytes(), kind)
    }
}

/// Returns the fingerprint of a key file.
pub fn finger_file(path: &Path, kind: HashType) -> Result<String, KeyError> {
    let content = fs::read(path).map_err(KeyError::io("read key", path))?;
    Ok(pem_finger(&content, kind))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::{private_key, private_pem, public_key};

    const OPTIONS: PairOptions<'static> = PairOptions { bits: 2048, passphrase: None, owner: Owner::NOBODY };

    fn place() -> (tempfile::TempDir, PairPath) {
        let dir = tempfile::tempdir().unwrap();
        let path = PairPath::new(dir.path(), "minion").unwrap();
        (dir, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_pair_is_made_once() {
        let (_dir, path) = place();
        let made = path.load_or_create(OPTIONS).unwrap();
        assert_eq!((mode(&path.private()), mode(&path.public())), (0o400, 0o644));
        let again = path.load_or_create(OPTIONS).unwrap();
        assert_eq!(made.public_text(), again.public_text());
        assert_eq!(finger_file(&path.public(), HashType::Sha256).unwrap(), made.fingerprint(HashType::Sha256));
        path.create(OPTIONS).unwrap();
        assert_eq!(path.load(OPTIONS).unwrap().public_text(), made.public_text());
    }

    #[test]
    fn a_passphrase_protects_the_private_half() {
        let (_dir, path) = place();
        fs::write(path.private(), private_key(0).to_pem(Some("secret")).unwrap()).unwrap();
        let with = |passphrase| path.load(PairOptions { passphrase, ..OPTIONS });
        assert_eq!(with(Some("secret")).unwrap().public_text(), public_key(0));
        for wrong in [None, Some("other")] {
            let error = with(wrong).unwrap_err().to_string();
            assert!(error.contains("minion.pem") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_passphrase_kept_elsewhere_is_refused() {
        let (dir, path) = place();
        let options = PairOptions { passphrase: Some("sdb://vault/pass"), ..OPTIONS };
        assert!(matches!(path.load_or_create(options), Err(KeyError::Sdb { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_wrong_public_half_is_not_used_and_a_missing_one_written() {
        let (_dir, path) = place();
        fs::write(path.private(), private_pem(0)).unwrap();
        fs::write(path.public(), public_key(1)).unwrap();
        assert_eq!(path.load(OPTIONS).unwrap().public_text(), public_key(0));
        fs::remove_file(path.public()).unwrap();
        path.load(OPTIONS).unwrap();
        assert_eq!(fs::read_to_string(path.public()).unwrap().trim_end(), public_key(0));
    }

    #[test]
    fn names_stay_in_the_directory() {
        for name in ["", "../x", "/etc/x", ".hidden", "a\0b"] {
            assert!(matches!(PairPath::new("/tmp", name), Err(KeyError::Name(_))), "{name:?}");
        }
    }
}
