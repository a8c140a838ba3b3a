//! Hashes of passwords as crypt(3) makes them with SHA-256 and SHA-512: `$5$salt$hash` and `$6$salt$hash`.
//!
//! The format is that of Ulrich Drepper's "Unix crypt using SHA-256 and SHA-512".

use openssl::memcmp;
use sha_crypt::{Params, sha256_crypt, sha512_crypt};

/// The letters of salts and hashes, by their number.
pub const CRYPT_LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// In which order the bytes of a digest are written.
const ORDER_256: [usize; 32] = [
    20, 10, 0, 11, 1, 21, 2, 22, 12, 23, 13, 3, 14, 4, 24, 5, 25, 15, 26, 16, 6, 17, 7, 27, 8, 28, 18, 29, 19, 9, 30,
    31,
];
const ORDER_512: [usize; 64] = [
    42, 21, 0, 1, 43, 22, 23, 2, 44, 45, 24, 3, 4, 46, 25, 26, 5, 47, 48, 27, 6, 7, 49, 28, 29, 8, 50, 51, 30, 9, 10,
    52, 31, 32, 11, 53, 54, 33, 12, 13, 55, 34, 35, 14, 56, 57, 36, 15, 16, 58, 37, 38, 17, 59, 60, 39, 18, 19, 61, 40,
    41, 20, 62, 63,
];

/// The number of rounds that is not written into a hash.
const USUAL_ROUNDS: u32 = 5000;

/// The two kinds of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShaCrypt {
    /// `$5$`
    Sha256,
    /// `$6$`
    Sha512,
}

impl ShaCrypt {
    /// Returns the hash of a password in the form of /etc/shadow; `None` if the number of rounds is too small or too large.
    pub fn hash(self, password: &[u8], salt: &str, rounds: Option<u32>) -> Option<String> {
        let params = Params::new(rounds.unwrap_or(USUAL_ROUNDS)).ok()?;
        let (sign, text) = match self {
            ShaCrypt::Sha256 => ('5', encoded(&sha256_crypt(password, salt.as_bytes(), params), &ORDER_256)),
            ShaCrypt::Sha512 => ('6', encoded(&sha512_crypt(password, salt.as_bytes(), params), &ORDER_512)),
        };
        let rounds = rounds.map(|rounds| format!("rounds={rounds}$")).unwrap_or_default();
        Some(format!("${sign}${rounds}{salt}${text}"))
    }

    /// Returns whether this is the hash of the password; `None` if the text is no such hash.
    pub fn verify(hash: &str, password: &[u8]) -> Option<bool> {
        let (kind, rest) = match (hash.strip_prefix("$5$"), hash.strip_prefix("$6$")) {
            (Some(rest), _) => (ShaCrypt::Sha256, rest),
            (_, Some(rest)) => (ShaCrypt::Sha512, rest),
            _ => return None,
        };
        let (settings, _) = rest.rsplit_once('$')?;
        let (rounds, salt) = match settings.strip_prefix("rounds=") {
            Some(settings) => {
                let (rounds, salt) = settings.split_once('$')?;
                (Some(rounds.parse().ok()?), salt)
            }
            None => (None, settings),
        };
        let found = kind.hash(password, salt, rounds)?;
        // The length is no secret, and memcmp::eq panics if the lengths differ.
        Some(found.len() == hash.len() && memcmp::eq(found.as_bytes(), hash.as_bytes()))
    }
}

/// Three bytes are four letters, the lowest bits first.
fn encoded(digest: &[u8], order: &[usize]) -> String {
    let bytes: Vec<u8> = order.iter().map(|place| digest[*place]).collect();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut bits = three.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        // Three bytes make four letters; one or two left over make two or three.
        for _ in 0..=three.len() {
            text.push(char::from(CRYPT_LETTERS[bits as usize & 63]));
            bits >>= 6;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by crypt(3).
    #[test]
    fn hashes_of_crypt_are_verified() {
        for hash in [
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
            "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
        ] {
            assert_eq!(ShaCrypt::verify(hash, b"Hello world!"), Some(true), "{hash}");
            assert_eq!(ShaCrypt::verify(hash, b"Hello world"), Some(false), "{hash}");
            assert_eq!(ShaCrypt::verify(&hash[..hash.len() - 1], b"Hello world!"), Some(false), "{hash}");
        }
    }

    #[test]
    fn other_texts_are_no_hashes() {
        for text in ["", "$5$", "$6$salt", "$1$salt$x", "$5$rounds=x$a$b", "$5$rounds=5$a$b", "plain"] {
            assert_eq!(ShaCrypt::verify(text, b"plain"), None, "{text}");
        }
    }
}
