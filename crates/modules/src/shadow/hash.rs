//! Hashes of passwords as crypt(3) makes them with SHA-256 and SHA-512: `$5$salt$hash` and `$6$salt$hash`.
//!
//! The format is that of Ulrich Drepper's "Unix crypt using SHA-256 and SHA-512".

use crypto::{CRYPT_LETTERS, ShaCrypt};
use exec::{Context, Error, Result, function};
use rand::Rng;
use value::Value;

/// Longest salt that counts, and the length of a new one.
const SALT: usize = 16;

/// Returns the hash of a password in the form of /etc/shadow. ``algorithm`` is sha512 or sha256; ``crypt_salt`` may
/// begin with ``rounds=N$``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' shadow.gen_password 'I_am_password'
///     salt '*' shadow.gen_password 'I_am_password' crypt_salt='I_am_salt' algorithm=sha256
#[function]
pub fn gen_password(
    ctx: &Context,
    password: Value,
    crypt_salt: Option<String>,
    #[default("sha512")] algorithm: String,
) -> Result<String> {
    // Salt also makes up a password here. It is never shown, so the account is locked in effect.
    let password = if password.is_null() { letters(20) } else { password.to_string() };
    let salt = crypt_salt.unwrap_or_else(|| letters(SALT));
    ctx.blocking(move || hash(&algorithm, &password, &salt))
}

/// Random characters of those that salts may contain.
fn letters(count: usize) -> String {
    let mut random = rand::rng();
    (0..count).map(|_| char::from(CRYPT_LETTERS[random.random_range(0..CRYPT_LETTERS.len())])).collect()
}

fn hash(algorithm: &str, password: &str, salt: &str) -> Result<String> {
    // MD5 and DES are too weak to offer.
    if !matches!(algorithm, "sha256" | "sha512") {
        return Err(Error::invocation(format!(
            "Cannot hash using '{algorithm}' hash algorithm. Natively supported algorithms are: ['sha512', 'sha256']."
        )));
    }
    let (rounds, salt) = rounds(salt)?;
    // crypt(3) ends the salt at the first dollar sign and ignores everything after 16 letters.
    let salt: String = salt.split('$').next().unwrap_or_default().chars().take(SALT).collect();
    let is_bad = |letter: char| {
        letter.is_control() || !letter.is_ascii() || matches!(letter, ':' | ';' | '*' | '!' | '\\' | ' ')
    };
    // Such a letter would break the line in /etc/shadow.
    if salt.contains(is_bad) {
        return Err(Error::invocation("crypt_salt has letters that no salt may have"));
    }
    let kind = if algorithm == "sha256" { ShaCrypt::Sha256 } else { ShaCrypt::Sha512 };
    kind.hash(password.as_bytes(), &salt, rounds)
        .ok_or_else(|| Error::invocation("crypt_salt: rounds must lie between 1000 and 999999999"))
}

/// Takes `rounds=N$` from the front of a salt.
fn rounds(salt: &str) -> Result<(Option<u32>, &str)> {
    let Some((number, rest)) = salt.strip_prefix("rounds=").and_then(|rest| rest.split_once('$')) else {
        return Ok((None, salt));
    };
    let wrong = |_| Error::invocation(format!("crypt_salt: rounds={number} is not a number of rounds"));
    Ok((Some(number.parse().map_err(wrong)?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by crypt(3).
    #[test]
    fn hashes_are_those_of_crypt() {
        let known = [
            (
                "sha512",
                "saltstring",
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            ),
            ("sha256", "saltstring", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (
                "sha256",
                "rounds=10000$saltstringsaltstring",
                "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
            ),
        ];
        for (algorithm, salt, expected) in known {
            assert_eq!(hash(algorithm, "Hello world!", salt).unwrap(), expected);
        }
    }

    #[test]
    fn what_cannot_be_hashed_is_told() {
        for (algorithm, salt) in [("md5", "x"), ("sha512", "a:b"), ("sha512", "rounds=x$y"), ("sha512", "rounds=10$y")]
        {
            assert!(hash(algorithm, "x", salt).is_err(), "{algorithm} {salt}");
        }
        assert_eq!(letters(16).len(), 16);
    }
}
