//! Whether a minion believes a master.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crypto::{HashType, PublicKey, Signature, clean_key, pem_finger};

use crate::KeyError;
use crate::atomic::{self, Manner, Owner};

/// What a master shows of itself when a minion signs in.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The public key, as it was sent.
    pub pub_key: &'a str,
    /// Its signature in Base64, if one was sent.
    pub pub_sig: Option<&'a str>,
}

/// What the minion knows and demands. The names are those of Salt's options.
#[derive(Clone, Copy, Debug)]
pub struct Demands<'a> {
    /// The content of `minion_master.pub`, if it exists.
    pub known: Option<&'a str>,
    /// A token was sent, which only the holder of the known key can read.
    pub token_sent: bool,
    /// Do not compare keys.
    pub open_mode: bool,
    /// Demand a signature.
    pub verify_master_pubkey_sign: bool,
    /// Check the signature also of a known key.
    pub always_verify_signature: bool,
    /// The key that signs, from `<master_sign_key_name>.pub`.
    pub verification_key: Option<&'a PublicKey>,
    /// The algorithm of signatures (`signing_algorithm`).
    pub signing_algorithm: Signature,
    /// The fingerprint the key must have (`master_finger`).
    pub master_finger: Option<&'a str>,
    /// The digest of fingerprints.
    pub hash_type: HashType,
}

/// A master the minion believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// Whether the answer must contain the token that was sent.
    pub check_token: bool,
    /// What to do with `minion_master.pub` when all other checks are passed.
    pub keep: Keep,
}

/// What to do with the file of the master's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Leave it.
    Nothing,
    /// Write it if there still is none: the key is trusted because it is the first one.
    First,
    /// Write it: the key is signed.
    Replace,
}

/// Why a master is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// The key is another one than before.
    #[error("The master key has changed, the salt master could have been subverted, verify salt master's public key")]
    Changed,
    /// What was sent is no key.
    #[error("the master sent something that is no RSA public key")]
    NoKey,
    /// A signature was sent that nobody asked for.
    #[error(
        "the master signs its public key, but this minion does not verify it: \
         set verify_master_pubkey_sign here or unset master_sign_pubkey there"
    )]
    UnexpectedSignature,
    /// No signature was sent.
    #[error(
        "the master does not sign its public key, but this minion wants to verify it: \
         unset verify_master_pubkey_sign here or set master_sign_pubkey there"
    )]
    NoSignature,
    /// There is no key to verify with.
    #[error("the key to verify the master's signature is missing; copy it from the master to the pki directory")]
    NoVerificationKey,
    /// The signature is not good.
    #[error("the signature of the master's public key could not be verified")]
    BadSignature,
    /// The fingerprint is not the demanded one.
    #[error(
        "The specified fingerprint in the master configuration file:\n{expected}\nDoes not match the authenticating master's key:\n{found}"
    )]
    Fingerprint {
        /// What the option says.
        expected: String,
        /// What the key has.
        found: String,
    },
}

/// Decides whether to believe a master.
///
/// Nothing is written yet: the answer's own signature, the token and the AES key have to be checked with the shown key
/// first, and then [`MasterKeyFile::keep`] is called.
pub fn judge(shown: &Shown<'_>, demands: &Demands<'_>) -> Result<Trusted, Distrust> {
    PublicKey::from_pem(shown.pub_key.as_bytes()).map_err(|_| Distrust::NoKey)?;
    let compared = demands.known.filter(|_| demands.token_sent && !demands.open_mode);
    let same = compared.map(|known| clean_key(known) == clean_key(shown.pub_key));
    if same == Some(false) && !demands.verify_master_pubkey_sign {
        return Err(Distrust::Changed);
    }
    signature_as_expected(shown, demands)?;
    let trusted = match same {
        Some(true) => {
            if demands.always_verify_signature {
                verify(shown, demands)?;
            }
            Trusted { check_token: true, keep: Keep::Nothing }
        }
        Some(false) => signed(shown, demands)?,
        None if demands.verify_master_pubkey_sign => signed(shown, demands)?,
        None if demands.known.is_some() => Trusted { check_token: false, keep: Keep::Nothing },
        None => Trusted { check_token: false, keep: Keep::First },
    };
    check_finger(shown, demands)?;
    Ok(trusted)
}

fn signature_as_expected(shown: &Shown<'_>, demands: &Demands<'_>) -> Result<(), Distrust> {
    match (shown.pub_sig.is_some(), demands.verify_master_pubkey_sign) {
        (true, false) => Err(Distrust::UnexpectedSignature),
        (false, true) => Err(Distrust::NoSignature),
        _ => Ok(()),
    }
}

fn signed(shown: &Shown<'_>, demands: &Demands<'_>) -> Result<Trusted, Distrust> {
    verify(shown, demands)?;
    Ok(Trusted { check_token: false, keep: Keep::Replace })
}

fn verify(shown: &Shown<'_>, demands: &Demands<'_>) -> Result<(), Distrust> {
    let key = demands.verification_key.ok_or(Distrust::NoVerificationKey)?;
    let text: String = shown.pub_sig.unwrap_or_default().split_ascii_whitespace().collect();
    let signature = STANDARD.decode(text).map_err(|_| Distrust::BadSignature)?;
    let good = key.verify(demands.signing_algorithm, shown.pub_key.as_bytes(), &signature);
    good.then_some(()).ok_or(Distrust::BadSignature)
}

fn check_finger(shown: &Shown<'_>, demands: &Demands<'_>) -> Result<(), Distrust> {
    let Some(expected) = demands.master_finger.filter(|finger| !finger.is_empty()) else { return Ok(()) };
    let found = pem_finger(shown.pub_key.as_bytes(), demands.hash_type);
    if found == expected { Ok(()) } else { Err(Distrust::Fingerprint { expected: expected.to_owned(), found }) }
}

/// The file with the key of the masters a minion believes: `minion_master.pub`, for a syndic `syndic_master.pub`.
#[derive(Clone, Debug)]
pub struct MasterKeyFile {
    path: PathBuf,
    owner: Owner,
}

impl MasterKeyFile {
    /// The file in a minion's `pki_dir`.
    pub fn of_minion(pki_dir: &Path, owner: Owner) -> Self {
        MasterKeyFile { path: pki_dir.join("minion_master.pub"), owner }
    }

    /// The file of the syndic that uses this `pki_dir`.
    pub fn of_syndic(pki_dir: &Path, owner: Owner) -> Self {
        MasterKeyFile { path: pki_dir.join("syndic_master.pub"), owner }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content; `None` when there is no such file.
    pub fn read(&self) -> Result<Option<String>, KeyError> {
        match fs::read(&self.path) {
            Ok(content) => Ok(Some(String::from_utf8_lossy(&content).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(KeyError::io("read key", &self.path)(error)),
        }
    }

    /// Does what [`judge`] decided. Returns false when another master's key was stored as the first one meanwhile: then
    /// this master is not to be believed any more.
    pub fn keep(&self, keep: Keep, pub_key: &str) -> Result<bool, KeyError> {
        let text = clean_key(pub_key);
        let manner = Manner { mode: 0o644, owner: self.owner, durable: false };
        let written = match keep {
            Keep::Nothing => return Ok(true),
            Keep::Replace => atomic::write(&self.path, text.as_bytes(), manner),
            Keep::First => atomic::write_new(&self.path, text.as_bytes(), manner),
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(self.read()?.is_some_and(|known| clean_key(&known) == text))
            }
            Err(error) => Err(KeyError::io("write key", &self.path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master_keys::sign_public_key;
    use crate::testing::{private_key, public_key};

    fn sha1() -> Signature {
        "PKCS1v15-SHA1".parse().unwrap()
    }

    /// The usual minion: trusts the first master, then only that one.
    fn plain<'a>(known: Option<&'a str>) -> Demands<'a> {
        Demands {
            known,
            token_sent: known.is_some(),
            open_mode: false,
            verify_master_pubkey_sign: false,
            always_verify_signature: false,
            verification_key: None,
            signing_algorithm: sha1(),
            master_finger: None,
            hash_type: HashType::Sha256,
        }
    }

    fn unsigned(pub_key: &str) -> Shown<'_> {
        Shown { pub_key, pub_sig: None }
    }

    const KNOWN: Trusted = Trusted { check_token: true, keep: Keep::Nothing };
    const FIRST: Trusted = Trusted { check_token: false, keep: Keep::First };
    const SIGNED: Trusted = Trusted { check_token: false, keep: Keep::Replace };

    #[test]
    fn without_signatures_the_first_key_counts() {
        let (one, two) = (public_key(0), public_key(1));
        assert_eq!(judge(&unsigned(&one), &plain(None)), Ok(FIRST));
        assert_eq!(judge(&unsigned(&one), &plain(Some(&one))), Ok(KNOWN));
        assert_eq!(judge(&unsigned(&format!("{one}\n")), &plain(Some(&one.replace('\n', "\r\n")))), Ok(KNOWN));
        assert_eq!(judge(&unsigned(&two), &plain(Some(&one))), Err(Distrust::Changed));
        assert_eq!(judge(&unsigned("nonsense"), &plain(None)), Err(Distrust::NoKey));
    }

    #[test]
    fn open_mode_takes_any_key_and_keeps_the_file() {
        let (one, two) = (public_key(0), public_key(1));
        let demands = Demands { open_mode: true, ..plain(Some(&one)) };
        assert_eq!(judge(&unsigned(&two), &demands), Ok(Trusted { check_token: false, keep: Keep::Nothing }));
    }

    #[test]
    fn signatures_are_checked_when_demanded() {
        let (one, two) = (public_key(0), public_key(1));
        let signer = private_key(2);
        let verification_key = signer.public();
        let good = sign_public_key(&signer, &two, sha1()).unwrap();
        let foreign = sign_public_key(&private_key(0), &two, sha1()).unwrap();
        let verifying = |known| Demands {
            verify_master_pubkey_sign: true,
            verification_key: Some(&verification_key),
            ..plain(known)
        };
        let with = |pub_sig| Shown { pub_key: &two, pub_sig: Some(pub_sig) };
        for known in [None, Some(one.as_str())] {
            assert_eq!(judge(&with(&good), &verifying(known)), Ok(SIGNED));
            assert_eq!(judge(&with(good.trim_end()), &verifying(known)), Ok(SIGNED));
            for bad in [foreign.as_str(), "", "!!"] {
                assert_eq!(judge(&with(bad), &verifying(known)), Err(Distrust::BadSignature));
            }
            assert_eq!(judge(&unsigned(&two), &verifying(known)), Err(Distrust::NoSignature));
            let without_key = Demands { verification_key: None, ..verifying(known) };
            assert_eq!(judge(&with(&good), &without_key), Err(Distrust::NoVerificationKey));
        }
        assert_eq!(judge(&with(&good), &plain(None)), Err(Distrust::UnexpectedSignature));
        assert_eq!(judge(&with(&good), &plain(Some(&two))), Err(Distrust::UnexpectedSignature));
        // A known key is believed without looking at the signature, unless asked to.
        assert_eq!(judge(&with(&foreign), &verifying(Some(&two))), Ok(KNOWN));
        let always = Demands { always_verify_signature: true, ..verifying(Some(&two)) };
        assert_eq!(judge(&with(&foreign), &always), Err(Distrust::BadSignature));
        assert_eq!(judge(&with(&good), &always), Ok(KNOWN));
    }

    #[test]
    fn the_fingerprint_may_be_demanded() {
        let one = public_key(0);
        let finger = pem_finger(one.as_bytes(), HashType::Sha256);
        let demands = Demands { master_finger: Some(&finger), ..plain(None) };
        assert_eq!(judge(&unsigned(&one), &demands), Ok(FIRST));
        let other = judge(&unsigned(&public_key(1)), &demands).unwrap_err();
        assert!(matches!(&other, Distrust::Fingerprint { expected, .. } if *expected == finger));
        assert_eq!(judge(&unsigned(&one), &Demands { master_finger: Some(""), ..demands }), Ok(FIRST));
    }

    #[test]
    fn of_two_first_masters_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = MasterKeyFile::of_minion(dir.path(), Owner::NOBODY);
        let (one, two) = (public_key(0), public_key(1));
        assert_eq!(file.read().unwrap(), None);
        assert!(file.keep(Keep::First, &format!("{one}\n")).unwrap());
        assert!(file.keep(Keep::First, &one).unwrap());
        assert!(!file.keep(Keep::First, &two).unwrap());
        assert_eq!(file.read().unwrap().unwrap(), one);
        assert!(file.keep(Keep::Replace, &two).unwrap());
        assert_eq!(file.read().unwrap().unwrap(), two);
    }
}
