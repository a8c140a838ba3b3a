//! One run of the git program.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use exec::{Call, Context, Error, KwArgs, Result};
use regex::{Regex, RegexBuilder};
use value::{Map, Value, map};

use python::shlex as words;

/// The arguments nearly all functions share.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// The user git runs as.
    pub user: Option<String>,
    /// That user's password, for Windows.
    pub password: Option<Value>,
    /// Keeps the job a success when git fails.
    pub ignore_retcode: Value,
    /// The encoding of the output.
    pub output_encoding: Option<Value>,
}

impl Who {
    /// Resolves a path against the home directory of the user.
    pub fn path(&self, path: &str) -> String {
        // Salt joins with the home directory; an absolute path replaces it in Python as well.
        if Path::new(path).is_absolute() {
            return path.to_owned();
        }
        let home = match &self.user {
            None => std::env::var("HOME").ok().map(PathBuf::from),
            Some(name) => nix::unistd::User::from_name(name).ok().flatten().map(|user| user.dir),
        };
        let unknown = || PathBuf::from(format!("~{}", self.user.as_deref().unwrap_or_default()));
        home.unwrap_or_else(unknown).join(path).to_string_lossy().into_owned()
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Done {
    /// The exit code.
    pub retcode: i64,
    /// The standard output.
    pub stdout: String,
    /// The standard error, unless merged into the standard output.
    pub stderr: String,
}

/// A git command under construction.
pub struct Git<'a> {
    ctx: &'a Context,
    who: &'a Who,
    cwd: Option<String>,
    words: Vec<String>,
    merge: bool,
    identity: Option<Value>,
    saltenv: String,
}

impl<'a> Git<'a> {
    /// Starts a command with options in front of the subcommand.
    pub fn with(ctx: &'a Context, who: &'a Who, git_opts: &Value) -> Result<Self> {
        let mut words = vec!["git".to_owned()];
        words.extend(options(git_opts)?);
        Ok(Git { ctx, who, cwd: None, words, merge: false, identity: None, saltenv: "base".into() })
    }

    /// Starts a command with its first words.
    pub fn of(ctx: &'a Context, who: &'a Who, words: &[&str]) -> Self {
        let words = std::iter::once(&"git").chain(words).map(|word| (*word).to_owned()).collect();
        Git { ctx, who, cwd: None, words, merge: false, identity: None, saltenv: "base".into() }
    }

    /// Runs in this directory.
    pub fn at(mut self, cwd: &str) -> Self {
        self.cwd = Some(cwd.to_owned());
        self
    }

    /// Adds words.
    pub fn words<I: IntoIterator<Item = S>, S: Into<String>>(mut self, words: I) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// Adds a word.
    pub fn word(self, word: impl Into<String>) -> Self {
        self.words([word.into()])
    }

    /// Adds a word if it applies.
    pub fn word_if(self, applies: bool, word: &str) -> Self {
        if applies { self.word(word) } else { self }
    }

    /// Sends stderr to the same pipe as stdout.
    pub fn merged(mut self) -> Self {
        self.merge = true;
        self
    }

    /// Sets ssh keys, which are tried in order. They may be on the file server.
    pub fn identity(mut self, identity: Option<Value>, saltenv: &str) -> Self {
        self.identity = identity.filter(Value::truthy);
        self.saltenv = saltenv.to_owned();
        self
    }

    /// Runs it and returns its output.
    ///
    /// # Errors
    /// When it fails.
    pub fn text(self) -> Result<String> {
        let (merge, shown) = (self.merge, redacted(&self.words.join(" ")));
        let with_identity = self.identity.is_some();
        let done = self.run(true)?;
        // With keys a failure has become an error already, inside of `run`.
        if done.retcode == 0 || with_identity {
            return Ok(done.stdout);
        }
        let output = if merge { &done.stdout } else { &done.stderr };
        let why = if output.is_empty() { String::new() } else { format!(": {}", redacted(output)) };
        Err(Error::execution(format!("Command '{shown}' failed{why}")))
    }

    /// Runs it and returns its result, successful or not.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn done(self) -> Result<Done> {
        self.run(false)
    }

    fn run(self, failhard: bool) -> Result<Done> {
        match &self.identity {
            None => self.once(Map::new()),
            Some(Value::List(keys)) => self.with_keys(keys, failhard),
            Some(key) => self.with_keys(std::slice::from_ref(key), failhard),
        }
    }

    fn once(&self, env: Map) -> Result<Done> {
        let arguments = map! {
            "cmd" => self.words.clone(), "cwd" => self.cwd.clone(), "runas" => self.who.user.clone(),
            "password" => self.who.password.clone(), "env" => env, "python_shell" => false,
            "ignore_retcode" => self.who.ignore_retcode.clone(), "redirect_stderr" => self.merge,
            "output_encoding" => self.who.output_encoding.clone(),
        };
        let answer = self.ctx.call_with("cmd.run_all", Call { args: Vec::new(), kwargs: arguments })?;
        let part = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let retcode = answer.get("retcode").and_then(Value::as_i64).unwrap_or(1);
        Ok(Done { retcode, stdout: part("stdout"), stderr: part("stderr") })
    }

    fn with_keys(&self, keys: &[Value], failhard: bool) -> Result<Done> {
        let (mut errors, mut missing, mut last) = (Vec::new(), Vec::new(), None);
        for key in keys.iter().map(Value::to_string) {
            let Some(path) = self.key_file(&key)? else {
                tracing::error!("identity {key} does not exist.");
                // Salt lists only paths of this machine as missing; a key from the file server is just logged.
                if !key.contains("salt://") {
                    missing.push(key);
                }
                continue;
            };
            // ssh would wait for a passphrase until the job times out.
            if is_encrypted(&path) {
                errors.push(format!(
                    "Identity file {} is passphrase-protected and cannot be used in a non-interactive command. Using \
                     salt-call from the minion will allow a passphrase-protected key to be used.",
                    path.display()
                ));
                continue;
            }
            let done = self.once(map! { "GIT_SSH_COMMAND" => ssh_command(&path) })?;
            if done.retcode == 0 {
                return Ok(done);
            }
            let output = if self.merge { &done.stdout } else { &done.stderr };
            if !output.is_empty() {
                errors.push(redacted(output));
            }
            last = Some(done);
        }
        match last {
            Some(done) if !failhard => Ok(done),
            _ => Err(Error::execution(refusal(&errors, &missing))),
        }
    }

    fn key_file(&self, key: &str) -> Result<Option<PathBuf>> {
        if !key.contains("salt://") {
            return Ok(Some(PathBuf::from(key)).filter(|path| path.is_file()));
        }
        let call = Call { args: vec![key.into()], kwargs: map! { "saltenv" => self.saltenv.clone() } };
        let cached = self.ctx.call_with("cp.cache_file", call)?;
        let Some(path) = cached.as_str().filter(|path| !path.is_empty()).map(PathBuf::from) else { return Ok(None) };
        // The file is secret, and ssh takes no key that others can read.
        use std::os::unix::fs::PermissionsExt;
        let failed = |error: std::io::Error| Error::io("protect", &path, &error);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        if let Some(user) = &self.who.user
            && let Ok(Some(user)) = nix::unistd::User::from_name(user)
        {
            std::os::unix::fs::chown(&path, Some(user.uid.as_raw()), None).map_err(failed)?;
        }
        Ok(Some(path))
    }
}

fn refusal(errors: &[String], missing: &[String]) -> String {
    let mut text = format!("Unable to authenticate using identity file:\n\n{}", errors.join("\n"));
    if !missing.is_empty() {
        if !errors.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&format!("The following identity file(s) were not found: {}", missing.join(", ")));
    }
    text
}

/// Builds the ssh command for a key, with everything off that would ask a question.
fn ssh_command(key: &Path) -> String {
    // git hands the command to a shell.
    let quoted = key.to_string_lossy().replace('\'', r"'\''");
    format!(
        // An unknown host would ask a question. Salt's wrapper script passes the same options.
        "ssh -oStrictHostKeyChecking=no -oPasswordAuthentication=no -oKbdInteractiveAuthentication=no \
         -oChallengeResponseAuthentication=no -i '{quoted}'"
    )
}

/// Returns whether a private key needs a passphrase, by its PEM header or by the cipher named in an OpenSSH key.
fn is_encrypted(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    // PEM names it in a header, PKCS#8 in the first line.
    if text.contains("ENCRYPTED") {
        return true;
    }
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let Ok(bytes) = STANDARD.decode(body) else { return false };
    let Some(rest) = bytes.strip_prefix(b"openssh-key-v1\0") else { return false };
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return false };
    let length = u32::from_be_bytes(*length) as usize;
    rest.get(..length).is_some_and(|cipher| cipher != b"none")
}

/// Replaces credentials in addresses.
pub fn redacted(text: &str) -> String {
    // Greedy on purpose: a password may hold an at sign, and hiding too much does no harm.
    let pattern = RegexBuilder::new(r"(https?)://.*@").case_insensitive(true).build().expect("the pattern is constant");
    pattern.replace_all(text, "${1}://<redacted>@").into_owned()
}

/// Puts credentials into an https address.
///
/// # Errors
/// For addresses of another kind.
pub fn with_credentials(url: &str, user: Option<&str>, password: Option<&str>) -> Result<String> {
    if user.is_none() && password.is_none() {
        return Ok(url.to_owned());
    }
    // Over plain HTTP the password would cross the network readable.
    let Some(rest) = url.strip_prefix("https://") else {
        return Err(Error::invocation("Basic Auth only supported for HTTPS"));
    };
    let user = quoted(user.unwrap_or_default());
    Ok(match password {
        None => format!("https://{user}@{rest}"),
        Some(password) => format!("https://{user}:{}@{rest}", quoted(password)),
    })
}

fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // An at sign or a slash in a password would end the host part early.
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Reads options from a text or a list. A trailing `--` is removed, since the caller adds its own.
pub fn options(opts: &Value) -> Result<Vec<String>> {
    let mut words = match opts {
        Value::Null => return Ok(Vec::new()),
        Value::List(items) => return Ok(items.iter().map(Value::to_string).collect()),
        Value::Str(text) => words::split(text).map_err(|error| Error::Other(error.to_string()))?,
        other => vec![other.to_string()],
    };
    if words.last().is_some_and(|last| last == "--") {
        words.pop();
    }
    Ok(words)
}

/// Takes the arguments that Salt reads from `**kwargs`, mostly because their names are builtins of Python. Any others
/// are refused.
///
/// # Errors
/// For arguments that are not known.
pub fn named<const N: usize>(kwargs: &KwArgs, names: [&str; N]) -> Result<[Value; N]> {
    let mut given = kwargs.given();
    let found = names.map(|name| given.remove(name).unwrap_or_default());
    if given.is_empty() {
        return Ok(found);
    }
    let wrong: Vec<String> = given.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Err(Error::invocation(format!("The following keyword arguments are not valid: {}", wrong.join(", "))))
}

/// Returns the items of a list, or splits a text at commas.
pub fn listed(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        other => other.to_string().split(',').map(str::to_owned).collect(),
    }
}

/// Compiles a constant pattern.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_go_in_and_are_hidden() {
        // An `@` in the password must not end the credentials.
        let url = with_credentials("https://h/r.git", Some("a b"), Some("p@ss")).unwrap();
        assert_eq!(url, "https://a%20b:p%40ss@h/r.git");
        assert_eq!(redacted(&format!("from {url}: no")), "from https://<redacted>@h/r.git: no");
        assert!(with_credentials("http://h", Some("a"), None).is_err());
    }

    #[test]
    fn options_are_words() {
        assert_eq!(options(&"-a 'b c' --".into()).unwrap(), ["-a", "b c"]);
        assert_eq!(options(&value::list!["-n", 5]).unwrap(), ["-n", "5"]);
        assert_eq!(options(&7.into()).unwrap(), ["7"]);
    }
}
