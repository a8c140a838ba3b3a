//! The renderer `gpg`: encrypted parts of texts become plain, through the gpg program.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use value::{Bytes, Map, Value};

use crate::Error;

const BEGIN: &str = "-----BEGIN PGP MESSAGE-----";
const END: &str = "-----END PGP MESSAGE-----";

/// The options of the master or minion for decryption.
#[derive(Clone, Debug)]
pub struct Gpg {
    /// The directory of the keys (`gpg_keydir`, or `gpgkeys` beside the configuration).
    pub keydir: PathBuf,
    /// True if a part that cannot be decrypted is an error (`gpg_decrypt_must_succeed`). Otherwise it stays as it is.
    pub must_succeed: bool,
    /// The time for which decrypted texts are cached (`gpg_cache`, `gpg_cache_ttl`).
    pub keep: Option<Duration>,
}

/// Decrypted texts by ciphertext.
static REMEMBERED: LazyLock<Mutex<HashMap<String, (Instant, Bytes)>>> = LazyLock::new(Mutex::default);

impl Gpg {
    /// Reads the options. As with `config.get`, the directory of the keys may also be named by a grain or in the pillar.
    pub fn of(opts: &Map, grains: &Map, pillar: &Map) -> Self {
        let named = [opts, grains, pillar].into_iter().find_map(|map| map.get_str("gpg_keydir"));
        let beside = || {
            let file = PathBuf::from(opts.get_str("conf_file").unwrap_or("/etc/salt/master"));
            let directory = opts.get_str("config_dir").map(PathBuf::from);
            directory.or_else(|| file.parent().map(PathBuf::from)).unwrap_or_default().join("gpgkeys")
        };
        let seconds = opts.get("gpg_cache_ttl").and_then(Value::as_f64).unwrap_or(86_400.0);
        let ttl = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        Gpg {
            keydir: named.filter(|name| !name.is_empty()).map_or_else(beside, PathBuf::from),
            must_succeed: opts.get("gpg_decrypt_must_succeed").is_some_and(Value::truthy),
            keep: opts.get("gpg_cache").is_some_and(Value::truthy).then_some(ttl),
        }
    }

    /// Decrypts all texts in a value, however deep; keys of maps stay as they are. With `translate_newlines` the two
    /// characters `\n` count as a line break everywhere, as on a command line.
    ///
    /// # Errors
    /// If gpg is missing, or a part cannot be decrypted and `must_succeed` is set.
    pub fn render(&self, value: Value, translate_newlines: bool) -> Result<Value, Error> {
        let one = |value| self.render(value, translate_newlines);
        match value {
            Value::Str(text) => self.text(&text, translate_newlines),
            Value::List(items) => items.into_iter().map(one).collect::<Result<Vec<_>, _>>().map(Value::List),
            Value::Map(map) => {
                let entries = map.into_iter().map(|(key, value)| Ok((key, one(value)?)));
                entries.collect::<Result<Map, Error>>().map(Value::Map)
            }
            other => Ok(other),
        }
    }

    fn text(&self, text: &str, translate_newlines: bool) -> Result<Value, Error> {
        let translated = if translate_newlines { text.replace("\\n", "\n") } else { text.to_owned() };
        let mut out = Vec::new();
        let mut rest = translated.as_str();
        let mut found = false;
        while let Some((start, end)) = next_message(rest) {
            found = true;
            out.extend_from_slice(&rest.as_bytes()[..start]);
            out.extend_from_slice(&self.message(&rest[start..end])?);
            rest = &rest[end..];
        }
        if !found {
            return Ok(translated.into());
        }
        out.extend_from_slice(rest.as_bytes());
        // A message in a YAML block ends with a newline that is not part of the secret. Without a message nothing is
        // stripped.
        while out.last() == Some(&b'\n') {
            out.pop();
        }
        Ok(match String::from_utf8(out) {
            Ok(text) => text.into(),
            Err(binary) => Value::bytes(binary.into_bytes()),
        })
    }

    /// Decrypts one message.
    fn message(&self, cipher: &str) -> Result<Bytes, Error> {
        // A message on one line, as environment variables and command lines hold it.
        let cipher = cipher.replace("\\n", "\n");
        if let Some(plain) = self.remembered(&cipher) {
            return Ok(plain);
        }
        self.remove_stale_locks();
        let (plain, told) = self.run(&cipher)?;
        // Like Salt, an empty plaintext counts as a failure.
        if !plain.is_empty() {
            let plain = Bytes::from(plain);
            if self.keep.is_some() {
                let mut all = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(cipher, (Instant::now(), plain.clone()));
            }
            return Ok(plain);
        }
        let told = value::python::repr(&Value::bytes(told));
        let shown = value::python::repr(&Value::bytes(cipher.clone().into_bytes()));
        let text = format!("Could not decrypt cipher {shown}, received: {told}");
        tracing::warn!("{text}");
        // On by default since 3007, off in 3006.
        if self.must_succeed { Err(Error::new(text)) } else { Ok(cipher.into_bytes().into()) }
    }

    fn remembered(&self, cipher: &str) -> Option<Bytes> {
        let keep = self.keep?;
        let mut all = REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner);
        // Expired secrets are dropped from memory on every look-up, not only when they are requested.
        all.retain(|_, (since, _)| since.elapsed() <= keep);
        all.get(cipher).map(|(_, plain)| plain.clone())
    }

    /// Runs gpg with the message on its standard input. Returns its standard output and its standard error.
    fn run(&self, cipher: &str) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let failed = |error: &std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::new("GPG unavailable"),
            _ => Error::new(format!("failed to run gpg: {error}")),
        };
        let mut child = Command::new("gpg")
            .arg("--homedir")
            .arg(&self.keydir)
            // `--no-tty` keeps gpg from asking for a passphrase on the terminal of `salt-call`.
            .args(["--status-fd", "2", "--no-tty", "-d"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Written beside, since gpg may say something before it has read all.
            scope.spawn(move || input.map(|mut input| input.write_all(cipher.as_bytes())));
            child.wait_with_output()
        });
        let output = output.map_err(|error| failed(&error))?;
        Ok((output.stdout, output.stderr))
    }

    /// Removes lock files of gpg processes that no longer run: one that was killed leaves its file.
    fn remove_stale_locks(&self) {
        let Ok(entries) = std::fs::read_dir(&self.keydir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().filter(|name| name.starts_with(".#lk")).and_then(|name| name.rsplit('.').next());
            let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
            // A reused pid makes a stale lock look alive. Then gpg waits, but no lock is stolen.
            if !std::path::Path::new(&format!("/proc/{pid}")).exists()
                && let Err(error) = std::fs::remove_file(entry.path())
            {
                tracing::debug!("could not remove the stale lock file {}: {error}", entry.path().display());
            }
        }
    }
}

/// Returns where the next encrypted message begins and ends.
fn next_message(text: &str) -> Option<(usize, usize)> {
    let start = text.find(BEGIN)?;
    let inner = start + BEGIN.len();
    let length = text[inner..].find(END)?;
    Some((start, inner + length + END.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn gpg(keydir: PathBuf, must_succeed: bool) -> Gpg {
        Gpg { keydir, must_succeed, keep: None }
    }

    #[test]
    fn what_is_not_encrypted_stays() {
        let value = Value::from(map! { "a" => list![1, "text\\n"], "b" => Value::Null });
        let gpg = gpg(PathBuf::from("/nonexistent"), true);
        assert_eq!(gpg.render(value.clone(), false).unwrap(), value);
        let translated = gpg.render("one\\ntwo".into(), true).unwrap();
        assert_eq!(translated, "one\ntwo".into());
    }

    #[test]
    fn the_directory_of_the_keys_lies_beside_the_configuration() {
        let none = map! {};
        let keydir = |opts: Map| Gpg::of(&opts, &none, &none).keydir;
        assert_eq!(keydir(map! { "conf_file" => "/etc/salt/master" }), PathBuf::from("/etc/salt/gpgkeys"));
        assert_eq!(keydir(map! { "config_dir" => "/srv/conf" }), PathBuf::from("/srv/conf/gpgkeys"));
        assert_eq!(keydir(map! { "gpg_keydir" => "/srv/keys" }), PathBuf::from("/srv/keys"));
        let named = Gpg::of(&none, &none, &map! { "gpg_keydir" => "/srv/mine" });
        assert_eq!(named.keydir, PathBuf::from("/srv/mine"));
    }

    #[test]
    fn a_message_that_cannot_be_decrypted_stays_or_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{BEGIN}\nnothing\n{END}\n");
        let Ok(kept) = gpg(dir.path().to_owned(), false).render(text.as_str().into(), false) else {
            // Without gpg on this machine there is nothing to see.
            return;
        };
        assert_eq!(kept, text.trim_end().into());
        let error = gpg(dir.path().to_owned(), true).render(text.as_str().into(), false).unwrap_err().to_string();
        assert!(error.starts_with("Could not decrypt cipher b'-----BEGIN PGP MESSAGE-----\\nnothing"), "{error}");
    }

    /// Runs gpg with a key directory; `None` when it is not installed.
    fn run(keydir: &std::path::Path, args: &[&str], input: &str) -> Option<String> {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(keydir).args(["--batch", "--quiet", "--trust-model", "always"]).args(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "gpg {args:?}: {}", output.status);
        Some(String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn what_was_encrypted_for_a_key_becomes_plain() {
        // The socket of gpg's agent is in the directory, and its path has to be short.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix("g").permissions(private).tempdir_in("/tmp").unwrap();
        let make = ["--passphrase", "", "--quick-generate-key", "salt@example.org", "default", "default", "never"];
        if run(dir.path(), &make, "").is_none() {
            println!("skipped: gpg is not installed");
            return;
        }
        let sealed = |text: &str| run(dir.path(), &["--armor", "--encrypt", "-r", "salt@example.org"], text).unwrap();
        let secret = sealed("top secret");
        let value = map! { "password" => secret.as_str(), "list" => list![format!("a {} b", secret.trim_end())] };
        let gpg = Gpg::of(&map! { "gpg_keydir" => dir.path().to_str().unwrap() }, &map! {}, &map! {});
        let plain = gpg.render(value.into(), false).unwrap();
        let text = |value: &Value| match value {
            Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => other.to_string(),
        };
        assert_eq!(text(plain.get("password").unwrap()), "top secret");
        assert_eq!(text(&plain.get("list").unwrap().as_list().unwrap()[0]), "a top secret b");
        let stop = Command::new("gpgconf").arg("--homedir").arg(dir.path()).args(["--kill", "all"]).status();
        assert!(stop.unwrap().success());
    }

    #[test]
    fn messages_are_found_one_by_one() {
        let text = format!("a {BEGIN}x{END} b {BEGIN}y{END}");
        let (start, end) = next_message(&text).unwrap();
        assert_eq!(&text[start..end], format!("{BEGIN}x{END}"));
        assert!(next_message(&text[end..]).is_some());
        assert!(next_message(BEGIN).is_none());
    }
}
