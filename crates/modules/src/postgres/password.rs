//! Digests of passwords, as PostgreSQL keeps them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use exec::{Error, Result};
use openssl::hash::{MessageDigest, hash};
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use value::Value;

/// The number of rounds for a new SCRAM verifier.
// PostgreSQL's own number (`scram_iterations`).
const ROUNDS: usize = 4096;

/// The form in which the server stores a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Plain,
    Md5,
    Scram,
}

impl Method {
    /// Reads the requested method: none is md5.
    pub fn of(encrypted: &Value) -> Result<Self> {
        match encrypted {
            // The default of Salt's module, whatever newer servers prefer.
            Value::Null | Value::Bool(true) => Ok(Method::Md5),
            Value::Bool(false) => Ok(Method::Plain),
            other => match other.as_str() {
                Some("md5") => Ok(Method::Md5),
                Some("scram-sha-256") => Ok(Method::Scram),
                _ => Err(Error::Other(format!("Unknown password algorithm: {other}"))),
            },
        }
    }
}

fn failed(error: openssl::error::ErrorStack) -> Error {
    Error::Other(format!("the digest of a password cannot be made: {error}"))
}

/// Returns a password as the server stores it; a verifier is returned unchanged.
pub(super) fn kept(role: &str, password: &str, method: Method) -> Result<String> {
    match method {
        Method::Scram if !password.starts_with("SCRAM-SHA-256") => {
            let mut salt = [0; 16];
            openssl::rand::rand_bytes(&mut salt).map_err(failed)?;
            scram(password, &salt, ROUNDS)
        }
        Method::Md5 if !password.starts_with("md5") => {
            tracing::warn!("The md5 password algorithm was deprecated in PostgreSQL 10");
            // The name of the role is PostgreSQL's salt for md5.
            let digest = hash(MessageDigest::md5(), format!("{password}{role}").as_bytes()).map_err(failed)?;
            Ok(format!("md5{}", hex::encode(digest)))
        }
        Method::Plain => {
            tracing::warn!("Unencrypted passwords were removed in PostgreSQL 10");
            Ok(password.to_owned())
        }
        _ => Ok(password.to_owned()),
    }
}

/// Returns whether a password matches its stored form.
pub(super) fn fits(role: &str, password: &str, known: &str, method: Method) -> Result<bool> {
    // A salted verifier differs every time, so the password is tried with the salt of the known
    // one.
    if method != Method::Scram || password.starts_with("SCRAM-SHA-256") {
        return Ok(kept(role, password, method)? == known);
    }
    let parts = known.strip_prefix("SCRAM-SHA-256$").and_then(|rest| rest.split_once('$')?.0.split_once(':'));
    let Some((rounds, salt)) = parts else { return Ok(false) };
    match (rounds.parse(), STANDARD.decode(salt)) {
        // A number from a database must not keep the minion busy for hours.
        (Ok(rounds), Ok(salt)) if (1..=10_000_000).contains(&rounds) => Ok(scram(password, &salt, rounds)? == known),
        _ => Ok(false),
    }
}

/// The verifier of a password (RFC 5803, as PostgreSQL writes it).
pub(super) fn scram(password: &str, salt: &[u8], rounds: usize) -> Result<String> {
    // PostgreSQL also takes a password unchanged when SASLprep refuses it.
    let password = stringprep::saslprep(password).unwrap_or_else(|_| password.into());
    let mut salted = [0; 32];
    pbkdf2_hmac(password.as_bytes(), salt, rounds, MessageDigest::sha256(), &mut salted).map_err(failed)?;
    let key = PKey::hmac(&salted).map_err(failed)?;
    let keyed = |text: &[u8]| {
        let mut signer = Signer::new(MessageDigest::sha256(), &key)?;
        signer.sign_oneshot_to_vec(text)
    };
    let stored = hash(MessageDigest::sha256(), &keyed(b"Client Key").map_err(failed)?).map_err(failed)?;
    let server = keyed(b"Server Key").map_err(failed)?;
    let text = |bytes: &[u8]| STANDARD.encode(bytes);
    Ok(format!("SCRAM-SHA-256${rounds}:{}${}:{}", text(salt), text(&stored), text(&server)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_server() {
        assert_eq!(kept("ann", "secret", Method::Md5).unwrap(), "md59d792a3a8853c2411afb9163d088c036");
        assert_eq!(kept("ann", "md5x", Method::Md5).unwrap(), "md5x");
        assert_eq!(kept("ann", "plain", Method::Plain).unwrap(), "plain");
        assert!(Method::of(&"sha1".into()).is_err());
        // The exchange of RFC 7677: password "pencil".
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let expected = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
        assert_eq!(scram("pencil", &salt, 4096).unwrap(), expected);
        assert!(fits("ann", "pencil", expected, Method::Scram).unwrap());
        assert!(!fits("ann", "pen", expected, Method::Scram).unwrap());
        assert!(!fits("ann", "pencil", "md5x", Method::Scram).unwrap());
    }
}
