//! Keys in `authorized_keys` and `known_hosts`: their lines, kinds and fingerprints.

use std::sync::LazyLock;

use base64::Engine;
use exec::{Context, Error, Result, function};
use regex::Regex;
use value::{Map, Value, map};

/// Options, then kind, key and remark.
pub static LINE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(.*?)\s?((?:sk-)?(?:ssh-|ecds)[\w@.-]+\s.+)$").expect("the pattern is fixed"));

/// A key in `authorized_keys`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The key itself.
    pub key: String,
    /// Its kind.
    pub enc: String,
    /// The remark behind it.
    pub comment: String,
    /// The options before the key, such as `no-pty`.
    pub options: Vec<String>,
}

impl Key {
    /// Reads a line. Returns None for remarks and lines without a key.
    pub fn parse(line: &str) -> Option<Key> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let found = LINE.captures(line)?;
        let mut words = found[2].split_whitespace();
        let (enc, key) = (words.next()?.to_owned(), words.next()?.to_owned());
        // Split at every comma, also inside quotes. Writing joins them again, so nothing is lost.
        let options = if found[1].is_empty() { vec![] } else { found[1].split(',').map(str::to_owned).collect() };
        Some(Key { key, enc, comment: words.collect::<Vec<_>>().join(" "), options })
    }

    /// The line as it is written.
    pub fn line(&self) -> String {
        let options = if self.options.is_empty() { String::new() } else { format!("{} ", self.options.join(",")) };
        format!("{options}{} {} {}\n", self.enc, self.key, self.comment)
    }
}

/// All keys of a file, by key, with their fingerprints.
///
/// # Errors
/// When there is no such kind of fingerprint.
pub fn listed(text: &str, hash: Option<&str>) -> Result<Map> {
    let mut found = Map::new();
    for key in text.lines().filter_map(Key::parse) {
        let Some(fingerprint) = fingerprint(&key.key, hash)? else { continue };
        let entry = map! {
            "enc" => key.enc,
            "comment" => key.comment,
            "options" => key.options,
            "fingerprint" => fingerprint,
        };
        found.insert(key.key, entry);
    }
    Ok(found)
}

/// Returns the fingerprint of a key, as pairs of digits with colons. Returns None for what is not a key.
///
/// # Errors
/// When there is no such kind of fingerprint.
pub fn fingerprint(key: &str, hash: Option<&str>) -> Result<Option<String>> {
    let kind = hash.filter(|hash| !hash.is_empty()).unwrap_or("sha256").to_lowercase();
    let digest = openssl::hash::MessageDigest::from_name(&kind.replace('_', "-"));
    let Some(digest) = digest else {
        return Err(Error::execution(format!("The fingerprint_hash_type {kind} is not supported.")));
    };
    // Not base64, so it is not a key.
    let Ok(raw) = base64::engine::general_purpose::STANDARD.decode(key) else { return Ok(None) };
    let sum = openssl::hash::hash(digest, &raw).map_err(|error| Error::execution(error.to_string()))?;
    Ok(Some(sum.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")))
}

/// Kinds of keys with no other name.
const OTHERS: [&str; 13] = [
    "rsa-sha2-512",
    "rsa-sha2-256",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ssh-rsa-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ssh-ed25519-cert-v01@openssh.com",
    "sk-ssh-ed25519@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
];

/// Returns the whole name of a kind of key.
///
/// # Errors
/// When there is no such kind.
pub fn kind(enc: &str) -> Result<String> {
    Ok(match enc {
        "r" | "rsa" | "ssh-rsa" => "ssh-rsa",
        "d" | "dsa" | "dss" | "ssh-dss" => "ssh-dss",
        "e" | "ecdsa" | "ecdsa-sha2-nistp256" => "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp521" | "ecdsa-sha2-nistp384" => enc,
        "ed25519" | "ssh-ed25519" => "ssh-ed25519",
        other if OTHERS.contains(&other) => other,
        other => return Err(Error::execution(format!("Incorrect encryption key type '{other}'."))),
    }
    .to_owned())
}

/// Puts user and home into a path such as `/etc/keys/%u`.
///
/// # Errors
/// For other signs behind `%`.
pub fn expanded(path: &str, user: &str, home: &str) -> Result<String> {
    let mut text = String::new();
    let mut signs = path.chars();
    while let Some(sign) = signs.next() {
        match (sign, sign == '%') {
            (_, false) => text.push(sign),
            (_, true) => match signs.next() {
                Some('%') => text.push('%'),
                Some('u') => text.push_str(user),
                Some('h') => text.push_str(home),
                Some(other) => {
                    let reason = format!("AuthorizedKeysFile path: unknown token character \"%{other}\"");
                    return Err(Error::execution(reason));
                }
                None => {
                    return Err(Error::execution("AuthorizedKeysFile path: Last character can't be escape character"));
                }
            },
        }
    }
    Ok(text)
}

/// Parses entries of `known_hosts` in the output of the programs of OpenSSH.
///
/// # Errors
/// When there is no such kind of fingerprint.
pub fn hosts(text: &str, hash: Option<&str>) -> Result<Vec<Map>> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [hostname, enc, key] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        if let Some(fingerprint) = fingerprint(key, hash)? {
            found.push(map! { "hostname" => hostname, "key" => key, "enc" => enc, "fingerprint" => fingerprint });
        }
    }
    Ok(found)
}

/// The values of a field of entries, of one kind of key or of all.
pub fn fields(entries: &[Map], name: &str, enc: Option<&str>) -> Vec<Value> {
    let own = |entry: &&Map| enc.is_none() || entry.get_str("enc") == enc;
    entries.iter().filter(own).filter_map(|entry| entry.get(name).cloned()).collect()
}

/// Returns whether a private key is encrypted with a passphrase.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ssh.key_is_encrypted /root/id_rsa
#[function]
fn key_is_encrypted(ctx: &Context, key: String) -> Result<bool> {
    let path = key.clone();
    let bytes = ctx.blocking(move || std::fs::read(path)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::execution(format!("{key} does not exist")),
        std::io::ErrorKind::PermissionDenied => Error::execution(format!("Permission denied reading from {key}")),
        _ => Error::io("read", &key, &error),
    })?;
    is_encrypted(&String::from_utf8_lossy(&bytes))
        .ok_or_else(|| Error::execution(format!("{key} is not a private key")))
}

/// Looks into the text of a private key. Returns None if it is not one.
fn is_encrypted(text: &str) -> Option<bool> {
    let (_, behind) = text.split_once("-----BEGIN ")?;
    let (kind, body) = behind.split_once("PRIVATE KEY-----")?;
    if kind != "OPENSSH " {
        // The older formats say so in their header.
        return Some(text.contains("ENCRYPTED"));
    }
    // PROTOCOL.key of OpenSSH: a magic word, then the length and the name of the cipher.
    let letters: String = body.split('-').next()?.split_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(letters).ok()?;
    let behind = bytes.strip_prefix(b"openssh-key-v1\0")?;
    let size = u32::from_be_bytes(behind.get(..4)?.try_into().ok()?) as usize;
    // Lengths are read with `get`, since the file may be cut short or made up.
    Some(behind.get(4..)?.get(..size)? != b"none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_keys_are_told_from_others() {
        let openssh = |cipher: &str| {
            let mut bytes = b"openssh-key-v1\0".to_vec();
            bytes.extend(u32::try_from(cipher.len()).unwrap().to_be_bytes());
            bytes.extend(cipher.as_bytes());
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
        };
        assert_eq!([is_encrypted(&openssh("none")), is_encrypted(&openssh("aes256-ctr"))], [Some(false), Some(true)]);
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
        assert_eq!(is_encrypted(pem), Some(true));
        assert_eq!(is_encrypted("-----BEGIN PRIVATE KEY-----\nMII\n"), Some(false));
        assert_eq!(is_encrypted("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII\n"), Some(true));
        assert_eq!([is_encrypted("-----BEGIN PUBLIC KEY-----\n"), is_encrypted("")], [None, None]);
    }

    #[test]
    fn lines_are_read_and_written() {
        let line = "no-pty,command=\"a b\" ssh-ed25519 AAAA me@x and more";
        let key = Key::parse(line).unwrap();
        assert_eq!((key.enc.as_str(), key.key.as_str()), ("ssh-ed25519", "AAAA"));
        assert_eq!(key.options, ["no-pty", "command=\"a b\""]);
        assert_eq!(key.line(), format!("{line}\n"));
        assert_eq!(Key::parse("# ssh-rsa AAAA"), None);
        assert_eq!(Key::parse("nonsense"), None);
    }

    #[test]
    fn fingerprints_are_pairs() {
        assert_eq!(
            fingerprint("AAAA", Some("md5")).unwrap().unwrap(),
            "69:3e:9a:f8:4d:3d:fc:c7:1e:64:0e:00:5b:dc:5e:2e"
        );
        assert_eq!(fingerprint("no key", None).unwrap(), None);
        assert!(fingerprint("AAAA", Some("none")).is_err());
    }

    #[test]
    fn kinds_and_paths_are_completed() {
        assert_eq!(kind("rsa").unwrap(), "ssh-rsa");
        assert_eq!(kind("e").unwrap(), "ecdsa-sha2-nistp256");
        assert!(kind("x").is_err());
        assert_eq!(expanded("%h/.ssh/%u%%", "me", "/home/me").unwrap(), "/home/me/.ssh/me%");
        assert!(expanded("%x", "", "").is_err() && expanded("a%", "", "").is_err());
    }

    #[test]
    fn hosts_are_read() {
        let text = "# Host x found: line 1\n|1|abc= ssh-rsa AAAA\nx ssh-rsa ***\nshort line\n";
        let found = hosts(text, None).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(fields(&found, "key", Some("ssh-rsa")), [Value::from("AAAA")]);
        assert!(fields(&found, "key", Some("ssh-dss")).is_empty());
    }
}
