//! Decides whether to trust the key that a master presents.
//!
//! The decision is [`judge`], which has no effects; [`FileTrust`] stores the key in `minion_master.pub`. The rules
//! are those of Salt's multi-master tutorials: trust on first use, signed master keys, a pinned fingerprint.

use std::io;
use std::path::{Path, PathBuf};

use crypto::{HashType, clean_key};

/// The minion's options for trust.
#[derive(Clone, Debug, Default)]
pub struct TrustSettings {
    /// Masters must present a signature of their key by the signing key (`verify_master_pubkey_sign`).
    pub verify_signature: bool,
    /// Check the signature at each sign-in, not only when the key is new (`always_verify_signature`).
    pub always_verify: bool,
    /// Accept any key (`open_mode`).
    pub open_mode: bool,
    /// The fingerprint the key must have (`master_finger`).
    pub finger: Option<String>,
}

/// What a master presents in its answer.
#[derive(Clone, Copy, Debug)]
pub struct OfferedKey<'a> {
    /// Its public key.
    pub key: &'a str,
    /// The signature of that key, if any, as sent.
    pub signature: Option<&'a str>,
    /// Our sign-in contained a token for the key on record.
    pub token_sent: bool,
}

/// The verdict on a trusted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What happens to the record once all other checks have passed.
    pub keep: Keep,
    /// The master must have returned our token.
    pub token: bool,
}

/// What happens to the record of the master's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It stays.
    Nothing,
    /// The key is recorded if there still is none: trust on first use.
    First,
    /// The key replaces the one on record: it is signed by the signing key, or any key is accepted.
    Replace,
}

/// Why a master's key is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It differs from the key on record, and is not signed.
    #[error(
        "The master key has changed, the salt master could have been subverted, verify salt master's public key{}",
        .0.as_ref().map(ToString::to_string).unwrap_or_default()
    )]
    Changed(Option<Box<Change>>),
    /// The signature does not fit the key.
    #[error(
        "The masters public could not be verified. Is the verification pubkey up to date? The signature that the master \
         sent does not fit its public key"
    )]
    BadSignature,
    /// Signatures must be verified, and the verification key is missing.
    #[error(
        "Verification public key {name} does not exist. You need to copy it from the master to the minions pki \
         directory: to {}",
        path.display()
    )]
    NoVerificationKey {
        /// The name of the file, the same on the master.
        name: String,
        /// Where it belongs.
        path: PathBuf,
    },
    /// Signed keys are required, and the master sent no signature.
    #[error(
        "The master did not send its public-key signature, but signature verification is enabled on the minion. Either \
         disable signature verification on the minion (verify_master_pubkey_sign) or enable signing the public key on the \
         master (master_sign_pubkey)"
    )]
    Unsigned,
    /// The master signs its key but this minion does not check signatures.
    #[error(
        "The masters sent its public-key signature, but signature verification is not enabled on the minion. Either enable \
         signature verification on the minion (verify_master_pubkey_sign) or disable signing the public key on the master \
         (master_sign_pubkey)"
    )]
    UnexpectedSignature,
    /// The master did not return the token, so it does not have the private half of the key on record.
    #[error("The master failed to decrypt the random minion token")]
    Token,
    /// The fingerprint is not the pinned one.
    #[error(
        "The specified fingerprint in the master configuration file:\n{wanted}\nDoes not match the authenticating master's \
         key:\n{shown}\nVerify that the configured fingerprint matches the fingerprint of the correct master"
    )]
    Fingerprint {
        /// What `master_finger` says.
        wanted: String,
        /// What the key has.
        shown: String,
    },
    /// The master's answer lacks a valid proof that the master made the AES key.
    #[error("Invalid master key")]
    Proof,
    /// The key on record could not be read or written.
    #[error("failed to {doing} {path}: {reason}")]
    Record {
        /// What was attempted.
        doing: &'static str,
        /// The file.
        path: String,
        /// Why it failed.
        reason: String,
    },
}

/// The details with which an operator can decide about a changed key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    ". {} holds the key {known}, and this master shows {shown}. Masters that are followed at the same time need the same key \
     pair (master.pem, master.pub), or signed keys. If the change was intended, delete the file",
    record.display()
)]
pub struct Change {
    /// The fingerprint of the key on record.
    pub known: String,
    /// The fingerprint of the key that the master presented.
    pub shown: String,
    /// The file of the record.
    pub record: PathBuf,
}

/// Judges a key. `verify` checks a signature of the presented key by the signing key; `finger` returns the fingerprint
/// of the presented key.
///
/// # Errors
/// Why the key is not trusted.
pub fn judge(
    settings: &TrustSettings,
    known: Option<&str>,
    shown: OfferedKey<'_>,
    verify: impl Fn(&str) -> Result<(), Distrust>,
    finger: impl FnOnce() -> String,
) -> Result<Judgement, Distrust> {
    // As in Salt, a signature that nobody checks is an error, too: one side is configured in another way than the
    // other.
    let signed = |check: bool| match (settings.verify_signature, shown.signature) {
        (true, None) => Err(Distrust::Unsigned),
        (false, Some(_)) => Err(Distrust::UnexpectedSignature),
        (true, Some(signature)) if check => verify(signature),
        _ => Ok(()),
    };
    // In open mode any key is accepted, so nothing is compared. Without a token in the request there was no key on
    // record.
    let compared = known.filter(|_| shown.token_sent && !settings.open_mode);
    let judgement = match compared {
        Some(known) if clean_key(known) == clean_key(shown.key) => {
            signed(settings.always_verify)?;
            Judgement { keep: Keep::Nothing, token: true }
        }
        Some(_) => {
            signed(true)?;
            // This is where a stolen address stops: another key without a signature is never accepted.
            if !settings.verify_signature {
                return Err(Distrust::Changed(None));
            }
            Judgement { keep: Keep::Replace, token: false }
        }
        None => {
            signed(true)?;
            let keep = match (settings.verify_signature, known) {
                (true, _) => Keep::Replace,
                (false, Some(_)) => Keep::Nothing,
                (false, None) => Keep::First,
            };
            Judgement { keep, token: false }
        }
    };
    // Last, so that a wrong key is reported as changed even if its fingerprint is pinned.
    match &settings.finger {
        Some(wanted) => check_finger(wanted, finger()).map(|()| judgement),
        None => Ok(judgement),
    }
}

fn check_finger(wanted: &str, shown: String) -> Result<(), Distrust> {
    // People write fingerprints in either case.
    if wanted.eq_ignore_ascii_case(&shown) {
        return Ok(());
    }
    Err(Distrust::Fingerprint { wanted: wanted.to_owned(), shown })
}

/// Stores the master's key.
pub trait Trust: Send + Sync {
    /// Returns the key on record.
    fn known(&self) -> Result<Option<String>, Distrust>;

    /// Updates the record as decided. If another key was recorded in the meantime, this one is not trusted.
    fn keep(&self, keep: Keep, key: &str) -> Result<(), Distrust>;

    /// Returns the public half of the signing key.
    fn signing_key(&self) -> Result<crypto::PublicKey, Distrust>;

    /// Called after the signature of a master's key was verified.
    fn note_verified(&self, _fits: bool) {}

    /// Adds details to an error: which key is in which file.
    fn explain(&self, distrust: Distrust, _known: Option<&str>, _shown: &str, _digest: HashType) -> Distrust {
        distrust
    }

    /// Parses a master's key, from the record or from an answer. Implementations may cache it for repeated sign-ins.
    ///
    /// # Errors
    /// When the text is not a key.
    fn read(&self, text: &str) -> Result<crypto::PublicKey, crypto::RsaError> {
        crypto::PublicKey::from_pem(text.as_bytes())
    }
}

/// The record in the minion's `pki_dir`: `minion_master.pub` and `<master_sign_key_name>.pub`.
#[derive(Clone, Debug)]
pub struct FileTrust {
    record: PathBuf,
    signing: PathBuf,
}

impl FileTrust {
    /// Creates the record in a directory.
    pub fn new(pki_dir: &Path, sign_key_name: &str) -> Self {
        FileTrust { record: pki_dir.join("minion_master.pub"), signing: pki_dir.join(format!("{sign_key_name}.pub")) }
    }
}

impl FileTrust {
    /// The name of the file with the verification key.
    pub fn signing_name(&self) -> String {
        self.signing.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes a key to a temporary file in the directory of the record, which it can replace in one step.
    fn write(&self, text: &str) -> io::Result<tempfile::NamedTempFile> {
        let directory = self.record.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        Ok(file)
    }
}

impl Trust for FileTrust {
    fn known(&self) -> Result<Option<String>, Distrust> {
        match std::fs::read_to_string(&self.record) {
            Ok(text) => Ok(Some(text)),
            // Any other error must not look like a first contact: then the next key would be trusted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("read", &self.record, error)),
        }
    }

    fn keep(&self, keep: Keep, key: &str) -> Result<(), Distrust> {
        let text = clean_key(key);
        let written = match keep {
            Keep::Nothing => return Ok(()),
            Keep::Replace => self.write(&text).and_then(|file| Ok(file.persist(&self.record).map(drop)?)),
            // Two links may sign in for the first time at once. Only one of their keys becomes the record.
            Keep::First => self.write(&text).and_then(|file| Ok(file.persist_noclobber(&self.record).map(drop)?)),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.known()? {
                Some(known) if clean_key(&known) == text => Ok(()),
                _ => Err(Distrust::Changed(None)),
            },
            other => other.map_err(|error| failed("write", &self.record, error)),
        }
    }

    fn signing_key(&self) -> Result<crypto::PublicKey, Distrust> {
        let text = std::fs::read(&self.signing).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Distrust::NoVerificationKey { name: self.signing_name(), path: self.signing.clone() }
            }
            _ => failed("read", &self.signing, error),
        })?;
        crypto::PublicKey::from_pem(&text).map_err(|error| failed("read", &self.signing, error))
    }

    fn explain(&self, distrust: Distrust, known: Option<&str>, shown: &str, digest: HashType) -> Distrust {
        let Distrust::Changed(None) = distrust else { return distrust };
        // Another link may have recorded its master's key since.
        let record = self.known().ok().flatten();
        let Some(known) = known.or(record.as_deref()) else { return distrust };
        let finger = |key: &str| crypto::pem_finger(clean_key(key).as_bytes(), digest);
        Distrust::Changed(Some(Box::new(Change {
            known: finger(known),
            shown: finger(shown),
            record: self.record.clone(),
        })))
    }
}

fn failed(doing: &'static str, path: &Path, reason: impl std::fmt::Display) -> Distrust {
    Distrust::Record { doing, path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Judgement = Judgement { keep: Keep::First, token: false };
    const KNOWN: Judgement = Judgement { keep: Keep::Nothing, token: true };
    const SAME: &str = "KEY A\n";

    fn offered(key: &str, signature: Option<&'static str>) -> OfferedKey<'static> {
        OfferedKey { key: if key == "a" { "KEY A" } else { "KEY B" }, signature, token_sent: true }
    }

    fn decide(settings: TrustSettings, known: Option<&str>, shown: OfferedKey<'_>) -> Result<Judgement, Distrust> {
        judge(
            &settings,
            known,
            shown,
            |signature| if signature == "good" { Ok(()) } else { Err(Distrust::BadSignature) },
            || "aa:bb".to_owned(),
        )
    }

    fn verifying() -> TrustSettings {
        TrustSettings { verify_signature: true, ..TrustSettings::default() }
    }

    #[test]
    fn the_first_key_is_trusted_and_kept() {
        let first = OfferedKey { token_sent: false, ..offered("a", None) };
        assert_eq!(decide(TrustSettings::default(), None, first), Ok(FIRST));
    }

    #[test]
    fn the_same_key_must_return_the_token() {
        let same = decide(TrustSettings::default(), Some(SAME), offered("a", None));
        assert_eq!(same, Ok(KNOWN));
    }

    #[test]
    fn a_changed_key_needs_a_good_signature() {
        let plain = TrustSettings::default;
        assert_eq!(decide(plain(), Some(SAME), offered("b", None)), Err(Distrust::Changed(None)));
        assert_eq!(decide(plain(), Some(SAME), offered("b", Some("good"))), Err(Distrust::UnexpectedSignature));
        assert_eq!(decide(verifying(), Some(SAME), offered("b", Some("bad"))), Err(Distrust::BadSignature));
        assert_eq!(decide(verifying(), Some(SAME), offered("b", None)), Err(Distrust::Unsigned));
        let good = decide(verifying(), Some(SAME), offered("b", Some("good")));
        assert_eq!(good, Ok(Judgement { keep: Keep::Replace, token: false }));
    }

    #[test]
    fn signing_and_verifying_must_go_together() {
        assert_eq!(decide(verifying(), Some(SAME), offered("a", None)), Err(Distrust::Unsigned));
        let unasked = decide(TrustSettings::default(), Some(SAME), offered("a", Some("good")));
        assert_eq!(unasked, Err(Distrust::UnexpectedSignature));
        assert_eq!(decide(verifying(), None, offered("a", Some("bad"))), Err(Distrust::BadSignature));
    }

    #[test]
    fn a_known_key_is_verified_again_only_when_asked_for() {
        assert!(decide(verifying(), Some(SAME), offered("a", Some("bad"))).is_ok());
        let always = TrustSettings { always_verify: true, ..verifying() };
        assert_eq!(decide(always, Some(SAME), offered("a", Some("bad"))), Err(Distrust::BadSignature));
    }

    #[test]
    fn a_pinned_fingerprint_must_fit() {
        let pinned = |finger: &str| TrustSettings { finger: Some(finger.to_owned()), ..TrustSettings::default() };
        assert!(decide(pinned("AA:bb"), None, offered("a", None)).is_ok());
        let other = decide(pinned("cc:dd"), None, offered("a", None));
        assert!(matches!(other, Err(Distrust::Fingerprint { .. })), "{other:?}");
    }

    #[test]
    fn open_mode_takes_any_key() {
        let open = TrustSettings { open_mode: true, ..TrustSettings::default() };
        let taken = Judgement { keep: Keep::Nothing, token: false };
        assert_eq!(decide(open, Some(SAME), offered("b", None)), Ok(taken));
    }

    #[test]
    fn the_first_key_goes_on_record_once_and_a_vouched_one_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let trust = FileTrust::new(dir.path(), "master_sign");
        assert_eq!(trust.known(), Ok(None));
        trust.keep(Keep::First, "KEY A\n").unwrap();
        trust.keep(Keep::First, "KEY A").unwrap();
        assert_eq!(trust.keep(Keep::First, "KEY C"), Err(Distrust::Changed(None)), "another link was first");
        trust.keep(Keep::Replace, "KEY B\r\n").unwrap();
        assert_eq!(trust.known(), Ok(Some("KEY B".to_owned())));
    }

    #[test]
    fn a_missing_verification_key_is_named_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let trust = FileTrust::new(dir.path(), "master_sign");
        let text = trust.signing_key().unwrap_err().to_string();
        assert!(
            text.starts_with("Verification public key master_sign.pub does not exist. You need to copy it"),
            "{text}"
        );
        assert!(text.contains(dir.path().join("master_sign.pub").to_str().unwrap()), "{text}");
        std::fs::write(dir.path().join("master_sign.pub"), "nonsense").unwrap();
        assert!(matches!(trust.signing_key(), Err(Distrust::Record { .. })));
    }

    #[test]
    fn a_changed_key_is_told_with_both_fingerprints_and_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let trust = FileTrust::new(dir.path(), "master_sign");
        let pem = |text: &str| format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----");
        let (old, new) = (pem("b2xk"), pem("bmV3"));
        trust.keep(Keep::First, &old).unwrap();
        let told = trust.explain(Distrust::Changed(None), Some(&old), &new, HashType::Sha256).to_string();
        assert!(told.starts_with("The master key has changed, the salt master could have been subverted"), "{told}");
        for part in [
            crypto::pem_finger(old.as_bytes(), HashType::Sha256),
            crypto::pem_finger(new.as_bytes(), HashType::Sha256),
            dir.path().join("minion_master.pub").display().to_string(),
            "same key pair".to_owned(),
        ] {
            assert!(told.contains(&part), "{part} in {told}");
        }
        assert_eq!(trust.explain(Distrust::Unsigned, None, &new, HashType::Sha256), Distrust::Unsigned);
    }
}
