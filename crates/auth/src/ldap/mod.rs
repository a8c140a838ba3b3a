//! The backend `ldap`: an LDAP server knows passwords and groups.
//!
//! What a server sends is read by a library that ends the process when it is nonsense, and has no bound on memory. So it is not
//! read in the master: a helper process asks the server for each login. It is this program again. On the socket that is its
//! standard input, it reads one question and writes one answer, both JSON, and it is stopped when that takes too long.

mod groups;
mod options;
mod session;
mod template;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use python::json;
use value::{Map, Value, map};

use crate::{Error, pam};
use options::Settings;
use session::Answer;

/// The word with which the program becomes the helper.
pub const HELPER: &str = "ldap-check";

/// How long all questions of a login may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// How much longer the helper may take than the server, so that it can say what is wrong.
const MORE: Duration = Duration::from_secs(1);

/// The longest question and the longest answer, in bytes.
const LONGEST: usize = 1 << 20;

/// How much memory a helper may have, in bytes.
const MEMORY: u64 = 256 << 20;

/// Where the certificates of authorities are named that the LDAP programs of this host trust.
const CONFIGURATIONS: [&str; 2] = ["/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"];

/// An LDAP server, or several with the same users.
pub struct Ldap {
    /// The options `auth.ldap.*` of the master.
    options: Map,
    program: fn() -> Command,
    patience: Duration,
}

/// The options have a password.
impl fmt::Debug for Ldap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ldap(…)")
    }
}

impl Ldap {
    /// Reads the options of the backend, `auth.ldap.*`. Logs what is dangerous in them.
    ///
    /// # Errors
    /// When they cannot be obeyed.
    pub fn from_options(all: &Map) -> Result<Self, Error> {
        let own = |(name, value): (&Value, &Value)| {
            let is_own = name.as_str().is_some_and(|name| name.starts_with("auth.ldap."));
            is_own.then(|| (name.clone(), value.clone()))
        };
        let options: Map = all.iter().filter_map(own).collect();
        let settings = Settings::read(&options)?;
        if settings.no_verify {
            tracing::warn!("auth.ldap.no_verify: anybody between here and the server can read the passwords of users");
        }
        if settings.is_unprotected() {
            tracing::warn!("external_auth: ldap: there is no TLS, so passwords are sent unprotected");
        }
        Ok(Ldap { options, program: this_program, patience: PATIENCE })
    }

    /// Takes another program as the helper, and another time for all questions of a login.
    #[doc(hidden)]
    #[must_use]
    pub fn with_helper(self, program: fn() -> Command, patience: Duration) -> Self {
        Ldap { program, patience, ..self }
    }

    /// Returns the groups of the user if the password is right. Blocks until the helper answers or is stopped.
    ///
    /// # Errors
    /// When no server can tell.
    pub fn check(&self, username: &str, password: &str) -> Result<Option<Vec<String>>, Error> {
        if password.is_empty() {
            return Ok(None);
        }
        let answer = self.ask(map! { "username" => username, "password" => password })?;
        if let Some(groups) = answer.get("groups").and_then(Value::as_list) {
            if let Some(remark) = answer.get_str("remark") {
                let name = value::escape::brief(username, 60);
                tracing::warn!("external_auth: ldap: the groups of {name} are not known: {}", for_log(remark));
            }
            return Ok(Some(groups.iter().map(Value::to_string).collect()));
        }
        let reason = answer.get_str("no").ok_or_else(|| failed("the helper has sent a strange answer"))?;
        tracing::info!("external_auth: ldap: {}", for_log(reason));
        Ok(None)
    }

    /// Returns the ids of the minions on the computers below each base. Blocks like [`Ldap::check`].
    ///
    /// # Errors
    /// When no server can tell.
    pub fn computers(&self, bases: &[String]) -> Result<HashMap<String, Vec<String>>, Error> {
        let answer = self.ask(map! { "bases" => bases.to_vec() })?;
        let found = answer.get("computers").and_then(Value::as_map);
        let found = found.ok_or_else(|| failed("the helper has sent a strange answer"))?;
        let texts = |list: &Value| list.as_list().unwrap_or_default().iter().map(Value::to_string).collect();
        Ok(found.iter().map(|(base, ids)| (base.to_string(), texts(ids))).collect())
    }

    /// Asks a new helper.
    fn ask(&self, mut question: Map) -> Result<Map, Error> {
        question.insert("options", self.options.clone());
        question.insert("patience", self.patience.as_secs_f64());
        let question = json::dumps(&question.into(), &json::Style::default()).map_err(failed)?;
        let (answer, status) = self.run(&question).map_err(|error| failed(format!("the helper failed: {error}")))?;
        let text = String::from_utf8_lossy(&answer);
        let answer = match json::loads(&text) {
            Ok(Value::Map(answer)) => answer,
            // It has not come to the end.
            _ => return Err(failed(format!("the helper crashed ({status}); the server may have sent nonsense"))),
        };
        match answer.get_str("failed") {
            Some(reason) => Err(failed(for_log(reason))),
            None => Ok(answer),
        }
    }

    fn run(&self, question: &str) -> io::Result<(Vec<u8>, ExitStatus)> {
        let limit = self.patience + MORE;
        let deadline = Instant::now() + limit;
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut command = (self.program)();
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn()?;
        // It holds the other end of the socket.
        drop(command);
        ours.set_write_timeout(Some(limit))?;
        let sent = ours.write_all(question.as_bytes()).and_then(|()| ours.shutdown(Shutdown::Write));
        let answer = sent.and_then(|()| pam::read_until(&ours, LONGEST, deadline));
        // In any case: it may hang, also behind its answer.
        child.kill()?;
        let status = child.wait()?;
        match answer {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(io::Error::other(format!("no answer within {} seconds", limit.as_secs())))
            }
            answer => Ok((answer?, status)),
        }
    }
}

/// This program, as the helper.
fn this_program() -> Command {
    // As a link of the kernel, it is this program even if the file was replaced by an update.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("saltern").arg(HELPER);
    if let Some(file) = trusted_file() {
        command.env("SSL_CERT_FILE", file);
    }
    command
}

/// Returns the file with the certificates that LDAP programs trust, if one is named. Those of the system are trusted, too.
fn trusted_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("LDAPTLS_CACERT") {
        return Some(file.into());
    }
    let read = |path: &&str| std::fs::read_to_string(path).ok();
    CONFIGURATIONS.iter().find_map(read).and_then(|text| named_file(&text))
}

/// Returns the file that a configuration of LDAP programs names.
fn named_file(configuration: &str) -> Option<PathBuf> {
    let pairs = configuration.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    let mut named = pairs.filter(|(name, _)| name.eq_ignore_ascii_case("TLS_CACERT"));
    named.next_back().map(|(_, file)| file.trim().into())
}

fn failed(reason: impl Into<String>) -> Error {
    Error::Ldap(reason.into())
}

/// Returns what a server or a user has sent, for the log.
fn for_log(text: &str) -> String {
    value::escape::brief(text, 400).into_owned()
}

/// Answers one question, as the helper.
///
/// # Errors
/// When the question cannot be read, or the answer cannot be written.
pub fn answer(socket: &mut UnixStream) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_DATA, MEMORY, MEMORY)?;
    let mut question = String::new();
    socket.take(LONGEST as u64).read_to_string(&mut question)?;
    let reply = match judge(&question) {
        Ok(reply) => reply,
        Err(reason) => map! { "failed" => reason },
    };
    let reply = json::dumps(&reply.into(), &json::Style::default()).map_err(io::Error::other)?;
    socket.write_all(reply.as_bytes())?;
    socket.shutdown(Shutdown::Both)
}

fn judge(question: &str) -> Result<Map, String> {
    let Ok(Value::Map(question)) = json::loads(question) else {
        return Err("the question cannot be read".to_owned());
    };
    let options = question.get("options").and_then(Value::as_map).ok_or("the question has no options")?;
    let settings = Settings::read(options).map_err(|error| error.to_string())?;
    let seconds = question.get("patience").and_then(Value::as_f64).ok_or("the question has no patience")?;
    let deadline = Instant::now() + Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if let Some(bases) = question.get("bases").and_then(Value::as_list) {
        let bases: Vec<String> = bases.iter().map(Value::to_string).collect();
        let found = session::computers(&settings, &bases, deadline)?;
        let found: Map = found.into_iter().map(|(base, ids)| (Value::from(base), Value::from(ids))).collect();
        return Ok(map! { "computers" => found });
    }
    let text = |name| question.get_str(name).ok_or("the question has no login");
    Ok(match session::login(&settings, text("username")?, text("password")?, deadline)? {
        Answer::Yes { groups, remark } => {
            map! { "groups" => groups, "remark" => remark.map_or(Value::Null, Value::from) }
        }
        Answer::No(reason) => map! { "no" => reason },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_ldap_name_an_authority() {
        let text = "# TLS_CACERT /no\nBASE dc=x\nTLS_CACERT\t/etc/ssl/own.pem\n";
        assert_eq!(named_file(text), Some("/etc/ssl/own.pem".into()));
        assert_eq!(named_file("TLS_REQCERT never\n"), None);
    }

    #[test]
    fn no_password_is_printed() {
        let options =
            map! { "auth.ldap.binddn" => "{{ username }}", "auth.ldap.filter" => "hush", "token_dir" => "/t" };
        let ldap = Ldap::from_options(&options).unwrap();
        assert!(!format!("{ldap:?}").contains("hush"));
        assert!(ldap.options.get("token_dir").is_none(), "the helper gets its own options only");
    }

    #[test]
    fn a_helper_that_crashes_or_hangs_lets_nobody_in() {
        let options = map! { "auth.ldap.binddn" => "{{ username }}" };
        let check = |program| {
            let ldap = Ldap::from_options(&options).unwrap().with_helper(program, Duration::from_millis(200));
            ldap.check("fred", "secret").unwrap_err().to_string()
        };
        let crashed = check(|| {
            let mut command = Command::new("sh");
            command.args(["-c", "cat >/dev/null; printf '{\"groups\": [\"admins\"' >&0; kill -SEGV $$"]);
            command
        });
        assert!(crashed.contains("the helper crashed (signal: 11"), "{crashed}");
        let hanging = check(|| {
            let mut command = Command::new("sh");
            // The answer does not end while somebody has the socket.
            command.args(["-c", "cat >/dev/null; printf '{\"groups\": []}' >&0; exec tail -f /dev/null"]);
            command
        });
        assert!(hanging.contains("the helper failed: no answer within"), "{hanging}");
        let missing = check(|| Command::new("/no/such/program"));
        assert!(missing.contains("the helper failed: No such file"), "{missing}");
    }
}
