//! `$apr1$`: the hash that `htpasswd` makes unless it is told otherwise, a thousand rounds of MD5.

use crypto::HashType;

/// The beginning of a hash.
pub const PREFIX: &str = "$apr1$";

/// The longest salt. What a file has beyond it does not count, as in Apache.
const LONGEST_SALT: usize = 8;

const ROUNDS: usize = 1000;

const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Which bytes of the digest make four letters, the highest first.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

/// Returns the hash of a password with the salt of another hash. `None` if that is not of this kind.
pub fn like(hash: &str, password: &str) -> Option<String> {
    let (salt, _) = hash.strip_prefix(PREFIX)?.split_once('$')?;
    let salt = salt.get(..LONGEST_SALT).unwrap_or(salt);
    let digest = digest(password.as_bytes(), salt.as_bytes());
    Some(format!("{PREFIX}{salt}${}", encode(&digest)))
}

fn digest(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let md5 = |parts: &[&[u8]]| HashType::Md5.digest(&parts.concat());
    let mixed = md5(&[password, salt, password]);
    let mut first = [password, PREFIX.as_bytes(), salt].concat();
    first.extend(mixed.iter().cycle().take(password.len()));
    let mut length = password.len();
    while length > 0 {
        // The bits of the length choose between a zero and the first letter.
        first.push(if length & 1 == 1 { 0 } else { password.first().copied().unwrap_or(0) });
        length >>= 1;
    }
    let mut digest = HashType::Md5.digest(&first);
    for round in 0..ROUNDS {
        let (before, after) = if round % 2 == 1 { (password, &digest[..]) } else { (&digest[..], password) };
        let salt = if round % 3 == 0 { &[][..] } else { salt };
        let password = if round % 7 == 0 { &[][..] } else { password };
        digest = md5(&[before, salt, password, after]);
    }
    digest
}

fn encode(digest: &[u8]) -> String {
    let byte = |place: usize| digest.get(place).copied().map_or(0, u32::from);
    let groups = GROUPS.into_iter().map(|[high, middle, low]| (byte(high) << 16 | byte(middle) << 8 | byte(low), 4));
    let mut text = String::with_capacity(22);
    for (mut bits, letters) in groups.chain([(byte(11), 2)]) {
        for _ in 0..letters {
            text.push(char::from(LETTERS[(bits & 63) as usize]));
            bits >>= 6;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_openssl() {
        for (password, hash) in [
            ("password", "$apr1$r31.....$ARC3pREO82RIm0aQ2zszC0"),
            ("grüße, lang und länger als sechzehn", "$apr1$r31.....$Zk6uD57gesb1dXZjqaDH5."),
            ("x", "$apr1$r31.....$3twvWbQRCoEFYiCXsqjDQ0"),
            ("short", "$apr1$ab$OYF20qNOmvQIb0ASG0j5H/"),
        ] {
            assert_eq!(like(hash, password).as_deref(), Some(hash));
            assert_ne!(like(hash, "other").as_deref(), Some(hash));
        }
        for broken in ["$apr1$", "$apr1$salt", "$1$salt$x", ""] {
            assert_eq!(like(broken, "x"), None, "{broken}");
        }
        assert_eq!(like("$apr1$123456789$x", "x"), like("$apr1$12345678$x", "x"));
        assert!(like("$apr1$ääääää$x", "").is_some());
    }
}
