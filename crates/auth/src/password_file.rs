//! The backend `file`: a text file of names and passwords, or a file of Apache's `htpasswd` or `htdigest`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crypto::{HashType, ShaCrypt};
use value::{Map, Value};

use crate::{Error, apr1, same};

/// The largest file, in bytes.
const LARGEST: u64 = 16 << 20;

/// The largest cost of a bcrypt hash. Each step doubles the time; this one takes a few seconds.
const LARGEST_COST: u32 = 15;

/// The largest number of rounds of a `$5$` or `$6$` hash, for the same reason.
const MOST_ROUNDS: u64 = 2_000_000;

/// A file of passwords. It is read at each login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordFile {
    path: PathBuf,
    form: Form,
}

/// The form of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// Fields with a separator; `None` as the hash is the password itself. Fields are counted from 0.
    Text { hash: Option<HashType>, separator: String, username: usize, password: usize },
    /// `name:hash`
    Htpasswd,
    /// `name:realm:hash`
    Htdigest { realm: String },
}

/// A kind of hash in an htpasswd file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sha1,
    ShaCrypt,
    Apr1,
    Bcrypt,
}

/// Why a hash cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    /// It is of this kind, which is not supported.
    Kind(&'static str),
    /// It would take too long.
    Cost,
}

impl PasswordFile {
    /// Reads the options of the backend: `^filename`, `^filetype` and those of the type.
    ///
    /// # Errors
    /// When one of them is missing or cannot be obeyed.
    pub fn from_options(part: &Map) -> Result<Self, Error> {
        let text = |name: &str| part.get(name).filter(|value| !value.is_null()).map(Value::to_string);
        let path = text("^filename").filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| problem("filename", "is required"))?;
        let form = match text("^filetype").as_deref().unwrap_or("text") {
            "text" => Form::Text {
                hash: hash(text("^hashtype").as_deref().unwrap_or("plaintext"))?,
                separator: text("^field_separator").filter(|separator| !separator.is_empty()).unwrap_or(":".into()),
                username: field(part, "username_field", "^username_field", 1)?,
                password: field(part, "password_field", "^password_field", 2)?,
            },
            "htpasswd" => Form::Htpasswd,
            "htdigest" => {
                let realm = text("^realm").ok_or_else(|| problem("realm", "is required with '^filetype: htdigest'"))?;
                Form::Htdigest { realm }
            }
            other => {
                return Err(problem("filetype", format!("cannot be '{other}', only text, htpasswd or htdigest")));
            }
        };
        Ok(PasswordFile { path: path.into(), form })
    }

    /// Checks the file when the master starts. A missing file is only logged: it may come later.
    ///
    /// # Errors
    /// When everybody may write it, or when it has hashes of a kind that cannot be checked.
    pub fn inspect(&self) -> Result<(), Error> {
        let content = match self.read() {
            Ok(content) => content,
            Err(error @ Error::Writable { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!("{}: nobody can log in with it", value::error::chain(&error));
                return Ok(());
            }
        };
        let mode = fs::metadata(&self.path).map_or(0, |found| found.permissions().mode());
        if mode & 0o044 != 0 {
            tracing::warn!("external_auth: other users may read {}", self.path.display());
        }
        if self.form != Form::Htpasswd {
            return Ok(());
        }
        for (number, line) in lines(&content) {
            if let Some((name, hash)) = line.split_once(':')
                && let Err(unusable) = Kind::of(hash)
            {
                return Err(self.line(number, unusable.of_user(name)));
            }
        }
        Ok(())
    }

    /// Returns whether the password is the user's. May block.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn check(&self, username: &str, password: &str) -> Result<bool, Error> {
        // An entry without a password is no invitation.
        if password.is_empty() {
            return Ok(false);
        }
        self.judge(&self.read()?, username, password)
    }

    /// Returns whether the password is the user's in a file with this content. The first line of the user decides.
    fn judge(&self, content: &str, username: &str, password: &str) -> Result<bool, Error> {
        for (number, line) in lines(content) {
            match &self.form {
                Form::Text { hash, separator, username: name, password: place } => {
                    let fields: Vec<&str> = line.split(separator.as_str()).collect();
                    // As in Salt, nothing behind a broken line counts.
                    let (Some(found), Some(stored)) = (fields.get(*name), fields.get(*place)) else {
                        return Err(self.line(number, "it has too few fields".into()));
                    };
                    if *found == username {
                        return Ok(match hash {
                            None => same(stored.as_bytes(), password.as_bytes()),
                            Some(kind) => same(stored.as_bytes(), kind.hex(password.as_bytes()).as_bytes()),
                        });
                    }
                }
                Form::Htpasswd => match line.split_once(':') {
                    Some((found, hash)) if found == username => {
                        return verify(hash, password)
                            .map_err(|unusable| self.line(number, unusable.of_user(username)));
                    }
                    _ => {}
                },
                Form::Htdigest { realm } => {
                    let mut fields = line.splitn(3, ':');
                    let (found, of, stored) = (fields.next(), fields.next(), fields.next().unwrap_or_default());
                    if found == Some(username) && of == Some(realm) {
                        let expected = HashType::Md5.hex(format!("{username}:{realm}:{password}").as_bytes());
                        return Ok(same(stored.as_bytes(), expected.as_bytes()));
                    }
                }
            }
        }
        Ok(false)
    }

    fn read(&self) -> Result<String, Error> {
        let failed = |source| Error::Read { path: self.path.clone(), source };
        let found = fs::metadata(&self.path).map_err(failed)?;
        if !found.is_file() {
            return Err(failed(io::Error::other("it is not a regular file")));
        }
        if found.len() > LARGEST {
            return Err(failed(io::Error::other(format!("it has more than {LARGEST} bytes"))));
        }
        if found.permissions().mode() & 0o002 != 0 {
            return Err(Error::Writable { path: self.path.clone() });
        }
        fs::read_to_string(&self.path).map_err(failed)
    }

    fn line(&self, line: usize, problem: String) -> Error {
        Error::Line { path: self.path.clone(), line, problem }
    }
}

/// Returns the lines that are neither empty nor comments, with their numbers.
fn lines(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = content.lines().enumerate().map(|(place, line)| (place + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Kind {
    /// Returns the kind of a hash that can be checked.
    fn of(hash: &str) -> Result<Self, Unusable> {
        if hash.starts_with("{SHA}") {
            return Ok(Kind::Sha1);
        }
        if hash.starts_with(apr1::PREFIX) {
            return Ok(Kind::Apr1);
        }
        if hash.starts_with("$5$") || hash.starts_with("$6$") {
            let rounds = hash[3..].strip_prefix("rounds=").and_then(|rest| rest.split('$').next()?.parse().ok());
            return if rounds.unwrap_or(0_u64) > MOST_ROUNDS { Err(Unusable::Cost) } else { Ok(Kind::ShaCrypt) };
        }
        let bcrypt = ["$2a$", "$2b$", "$2y$"].iter().find_map(|prefix| hash.strip_prefix(prefix));
        if let Some(rest) = bcrypt {
            let cost = rest.split('$').next().and_then(|cost| cost.parse().ok());
            return if cost.unwrap_or(0_u32) > LARGEST_COST { Err(Unusable::Cost) } else { Ok(Kind::Bcrypt) };
        }
        let kinds = [("$2x$", "an old bcrypt with an error"), ("$1$", "md5-crypt"), ("$argon2", "argon2")];
        let kind = kinds.iter().find(|(prefix, _)| hash.starts_with(prefix));
        Err(Unusable::Kind(kind.map_or("plain text or crypt", |(_, kind)| kind)))
    }
}

impl Unusable {
    /// Returns what is wrong with the line of a user.
    fn of_user(self, name: &str) -> String {
        let name = value::escape::brief(name, 60);
        match self {
            Unusable::Kind(kind) => format!(
                "the password of {name} is kept as {kind}, which is not supported; use bcrypt, $5$, $6$, $apr1$ or {{SHA}} \
                 (htpasswd -B, -2, -5, -m, -s)"
            ),
            Unusable::Cost => format!(
                "the hash of {name} takes too long to check; the largest cost of bcrypt is {LARGEST_COST}, and the most \
                 rounds of $5$ and $6$ are {MOST_ROUNDS}"
            ),
        }
    }
}

/// Returns whether a hash in an htpasswd file is that of the password. A broken hash is nobody's.
fn verify(hash: &str, password: &str) -> Result<bool, Unusable> {
    Ok(match Kind::of(hash)? {
        Kind::Sha1 => {
            let digest = STANDARD.encode(HashType::Sha1.digest(password.as_bytes()));
            same(&hash.as_bytes()["{SHA}".len()..], digest.as_bytes())
        }
        // As in Salt. For C, the password would end there.
        _ if password.contains('\0') => false,
        Kind::ShaCrypt => ShaCrypt::verify(hash, password.as_bytes()).unwrap_or(false),
        Kind::Apr1 => apr1::like(hash, password).is_some_and(|expected| same(hash.as_bytes(), expected.as_bytes())),
        Kind::Bcrypt => bcrypt::verify(password, hash).unwrap_or(false),
    })
}

fn hash(name: &str) -> Result<Option<HashType>, Error> {
    match name {
        "plaintext" => Ok(None),
        "md5" => Ok(Some(HashType::Md5)),
        "sha256" => Ok(Some(HashType::Sha256)),
        "sha512" => Ok(Some(HashType::Sha512)),
        other => Err(problem("hashtype", format!("cannot be '{other}', only plaintext, md5, sha256 or sha512"))),
    }
}

/// Returns the place of a field, counted from 0.
fn field(part: &Map, option: &'static str, name: &str, default: usize) -> Result<usize, Error> {
    let number = match part.get(name) {
        None | Some(Value::Null) => Some(default),
        Some(value) => value.as_i64().and_then(|number| usize::try_from(number).ok()),
    };
    let place = number.and_then(|number| number.checked_sub(1)).filter(|place| *place < 100);
    place.ok_or_else(|| problem(option, "must be a number from 1 to 100"))
}

fn problem(option: &'static str, problem: impl Into<String>) -> Error {
    Error::Option { option, problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn file(options: Map) -> PasswordFile {
        let mut all = map! { "^filename" => "/nowhere/passwords" };
        all.update(options);
        PasswordFile::from_options(&all).unwrap()
    }

    #[test]
    fn text_files_are_read_as_by_salt() {
        let plain = file(map! {});
        let content = "# staff\n\n fred:secret:more\nann:\nfred:other\nwith:col:on\n";
        let cases = [
            ("fred", "secret", true),
            ("fred", "other", false),
            ("fred", "secret:more", false),
            ("with", "col:on", false),
            ("ann", "x", false),
            ("nobody", "secret", false),
            ("# staff", "", false),
        ];
        for (name, password, expected) in cases {
            assert_eq!(plain.judge(content, name, password).unwrap(), expected, "{name} {password}");
        }
        let error = plain.judge("broken\nfred:secret\n", "fred", "secret").unwrap_err().to_string();
        assert_eq!(error, "external_auth: /nowhere/passwords, line 1: it has too few fields");
        let swapped = file(map! { "^field_separator" => ";;", "^username_field" => 3, "^password_field" => 1 });
        assert!(swapped.judge("secret;;x;;fred", "fred", "secret").unwrap());
    }

    #[test]
    fn text_files_have_hashes_without_salt() {
        let hashes = [
            ("md5", "5ebe2294ecd0e0f08eab7690d2a6ee69"),
            ("sha256", "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"),
        ];
        for (kind, hash) in hashes {
            let file = file(map! { "^hashtype" => kind });
            assert!(file.judge(&format!("fred:{hash}"), "fred", "secret").unwrap(), "{kind}");
            assert!(!file.judge(&format!("fred:{hash}"), "fred", hash).unwrap(), "{kind}");
            // Salt compares with the digits of Python, which are lower-case.
            assert!(!file.judge(&format!("fred:{}", hash.to_uppercase()), "fred", "secret").unwrap(), "{kind}");
        }
    }

    /// The hashes are those of `htpasswd -s`, of crypt(3) and of `openssl passwd -apr1`.
    #[test]
    fn htpasswd_files_have_hashes_with_salt() {
        let file = file(map! { "^filetype" => "htpasswd" });
        let content = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nfred:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n\
                       bob:$1$ab$abc\neva:$apr1$ab$OYF20qNOmvQIb0ASG0j5H/\n";
        assert!(file.judge(content, "ann", "secret").unwrap());
        assert!(!file.judge(content, "ann", "Secret").unwrap());
        assert!(file.judge(content, "fred", "Hello world!").unwrap());
        assert!(!file.judge(content, "fred", "Hello world").unwrap());
        let error = file.judge(content, "bob", "x").unwrap_err().to_string();
        assert!(error.contains("line 3: the password of bob is kept as md5-crypt, which is not supported"), "{error}");
        assert!(file.judge(content, "eva", "short").unwrap());
        assert!(!file.judge(content, "eva", "Short").unwrap());
    }

    /// The hash is that of `htpasswd -B`.
    #[test]
    fn bcrypt_is_checked() {
        let file = file(map! { "^filetype" => "htpasswd" });
        let hash = "$2y$04$PYz9uXuEK6kLvblMfL/b7OznuNjFUvfwmpbzW2kiouwyYTZ9oMM4C";
        for kind in ["$2y$", "$2a$", "$2b$"] {
            let content = format!("fred:{}", hash.replacen("$2y$", kind, 1));
            assert!(file.judge(&content, "fred", "secret").unwrap(), "{kind}");
            for wrong in ["Secret", "secret\0", "secret\0x", ""] {
                assert!(!file.judge(&content, "fred", wrong).unwrap(), "{kind} {wrong:?}");
            }
        }
        for broken in ["$2y$05$abc", "$2y$", "$2b$xx$", &hash[..59]] {
            let right = file.judge(&format!("fred:{broken}"), "fred", "secret").unwrap();
            assert!(!right, "{broken}");
        }
    }

    #[test]
    fn a_hash_that_takes_minutes_is_refused() {
        let file = file(map! { "^filetype" => "htpasswd" });
        let costly = "$2y$16$nHBPQmWe8RlTwRjmSyrrFOnHBPQmWe8RlTwRjmSyrrFOnHBPQmWe8";
        for hash in [costly, "$2b$31$abc", "$6$rounds=999999999$salt$x", "$5$rounds=2000001$salt$x"] {
            let error = file.judge(&format!("fred:{hash}"), "fred", "secret").unwrap_err().to_string();
            assert!(error.contains("line 1: the hash of fred takes too long to check"), "{error}");
        }
    }

    #[test]
    fn htdigest_files_belong_to_a_realm() {
        let file = file(map! { "^filetype" => "htdigest", "^realm" => "salt" });
        let hash = HashType::Md5.hex(b"fred:salt:secret");
        let other = HashType::Md5.hex(b"fred:other:secret");
        let content = format!("fred:other:{other}\nfred:salt:{hash}\n");
        assert!(file.judge(&content, "fred", "secret").unwrap());
        assert!(!file.judge(&content, "fred", "secre").unwrap());
    }

    #[test]
    fn options_that_cannot_be_obeyed_are_refused() {
        for (options, expected) in [
            (map! {}, "'^filename' is required"),
            (map! { "^filename" => "/x", "^filetype" => "csv" }, "'^filetype' cannot be 'csv'"),
            (map! { "^filename" => "/x", "^hashtype" => "sha1" }, "'^hashtype' cannot be 'sha1'"),
            (map! { "^filename" => "/x", "^username_field" => 0 }, "'^username_field' must be a number"),
            (map! { "^filename" => "/x", "^filetype" => "htdigest" }, "'^realm' is required"),
        ] {
            let error = PasswordFile::from_options(&options).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_is_used_only_if_it_is_safe() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("passwords");
        let with = |kind: &str| {
            PasswordFile::from_options(&map! { "^filename" => path.to_str().unwrap(), "^filetype" => kind }).unwrap()
        };
        assert!(with("text").inspect().is_ok(), "it may come later");
        assert!(matches!(with("text").check("fred", "secret"), Err(Error::Read { .. })));
        fs::write(&path, "fred:secret\nann:\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(with("text").inspect().is_ok());
        assert!(with("text").check("fred", "secret").unwrap());
        assert!(!with("text").check("ann", "").unwrap(), "an empty password is never right");
        let error = with("htpasswd").inspect().unwrap_err().to_string();
        assert!(error.contains("line 1: the password of fred is kept as plain text or crypt"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        fs::write(&path, "eva:{SHA}x\nbob:$2y$31$abc\n").unwrap();
        let error = with("htpasswd").inspect().unwrap_err().to_string();
        assert!(error.contains("line 2: the hash of bob takes too long to check"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        for refused in [with("text").inspect(), with("text").check("fred", "secret").map(drop)] {
            assert!(matches!(refused, Err(Error::Writable { .. })), "{refused:?}");
        }
    }
}
