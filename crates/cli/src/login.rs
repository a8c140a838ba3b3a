//! Logins with `external_auth`: flags, prompts, the file with the token.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use client::{Error, LocalClient, Login, Proof};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices};
use value::{Map, Value};

use crate::{exit_codes, hint};

/// The backends of Salt, which a user may choose from: the master may be one of Salt.
const BACKENDS: [&str; 6] = ["auto", "file", "ldap", "pam", "rest", "sharedsecret"];

/// The variable that names a file with the password.
const PASSWORD_FILE: &str = "SALT_PASSWORD_FILE";

/// How the user will prove who they are.
pub enum Plan {
    /// With what is known already.
    Proof(Proof),
    /// With a new token, which is kept in a file.
    MakeToken(Login, Option<PathBuf>),
}

/// Why nobody has been asked for a login, or has not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// No Salt has such a backend.
    #[error("the external authentication system {0:?} is not available")]
    Unknown(String),
    /// The user has pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Failed {
    /// Prints it as Salt does, and returns Salt's exit code.
    pub fn print(&self) -> Result<u8> {
        match self {
            Failed::Unknown(backend) => {
                outputters::print_line(&format!(
                    "The specified external authentication system \"{backend}\" is not available\nAvailable eauth types: {}",
                    BACKENDS.join(", ")
                ))?;
                if let Some(near) = hint::nearest(backend, BACKENDS) {
                    rt::complain!("{}", hint::did_you_mean(near));
                }
                rt::complain!("ERROR: Authentication failed");
                Ok(exit_codes::NO_RETURN)
            }
            Failed::Interrupted => {
                rt::complain!("\nExiting gracefully on Ctrl-c");
                Ok(exit_codes::OK)
            }
        }
    }

    /// Prints the same for `salt-run` and `salt-key`. Salt's end with 0 there.
    pub fn print_as_refusal(&self) -> Result<u8> {
        let code = self.print()?;
        Ok(if code == exit_codes::OK { code } else { exit_codes::GENERIC })
    }
}

/// Checks the flags of a login.
pub fn check(options: &Map) -> Result<(), String> {
    let given = |name: &str| options.get(name).is_some_and(Value::truthy);
    if !given("eauth") && ["mktoken", "username", "password"].into_iter().any(given) {
        // Ignoring them would run the command as a user other than the one requested.
        return Err("-T/--make-token, --username and --password need a backend (--auth/--eauth)".to_owned());
    }
    Ok(())
}

/// Returns whether the user asks to log in.
pub fn is_wanted(options: &Map) -> bool {
    options.get("eauth").is_some_and(Value::truthy)
}

/// The flags of a new login.
const OF_NEW_LOGIN: [&str; 3] = ["mktoken", "username", "password"];

/// Returns what to say beside the master's refusal if the user has a kept token, which is not valid then; `None` if they proved in
/// another way who they are.
pub fn about_kept_token(options: &Map, config: &config::Master) -> Option<String> {
    let wanted = is_wanted(options);
    let is_new = wanted && OF_NEW_LOGIN.iter().any(|name| options.get(name).is_some_and(Value::truthy));
    if is_new || !wanted && reads_root_key(config) {
        return None;
    }
    let file = token_file(options).filter(|file| file.is_file())?;
    if wanted && kept_token(&file, config.access.token_expire).is_none() {
        // The user has been asked for a password instead.
        return None;
    }
    let reason = match fs::File::open(&file) {
        Ok(_) => "is not valid".to_owned(),
        Err(error) => format!("cannot be read ({error})"),
    };
    Some(format!("the token in {} {reason}: log in again with -T", file.display()))
}

fn reads_root_key(config: &config::Master) -> bool {
    fs::File::open(config.paths.cachedir.join(".root_key")).is_ok()
}

/// Finds the token of an earlier login, or asks for a new one. Without either, the user proves with a key who they are.
pub fn plan(options: &Map, config: &config::Master) -> Result<Plan> {
    let given = |name: &str| options.get(name).is_some_and(Value::truthy);
    let file = token_file(options);
    let wanted = is_wanted(options);
    if !wanted || !OF_NEW_LOGIN.into_iter().any(given) {
        let kept = file.as_deref().and_then(|file| kept_token(file, config.access.token_expire));
        // As in Salt, a token counts also without `-a`, except for those who may read root's key. Unlike in Salt, who asks to
        // log in never commands with all permissions instead.
        if let Some(token) = kept
            && (wanted || !reads_root_key(config))
        {
            return Ok(Plan::Proof(Proof::Token(token)));
        }
    }
    if !wanted {
        return Ok(Plan::Proof(Proof::Key));
    }
    let login = ask(options)?;
    Ok(if given("mktoken") { Plan::MakeToken(login, file) } else { Plan::Proof(Proof::Login(login)) })
}

/// Carries out a plan for jobs.
///
/// # Errors
/// When the master refuses to make a token, or cannot be asked.
pub async fn proof(plan: Plan, client: &LocalClient) -> Result<Proof, Error> {
    carry_out(plan, client, |_| "Authentication error occurred.".to_owned()).await
}

/// Carries out a plan for runners and wheel functions.
///
/// # Errors
/// When the master refuses to make a token, or cannot be asked.
pub async fn proof_for_functions(plan: Plan, client: &LocalClient) -> Result<Proof, Error> {
    let refusal =
        |login: &Login| format!("Authentication failure of type \"eauth\" occurred for user {}.", login.username);
    carry_out(plan, client, refusal).await
}

async fn carry_out(plan: Plan, client: &LocalClient, refusal: impl FnOnce(&Login) -> String) -> Result<Proof, Error> {
    let (login, file) = match plan {
        Plan::Proof(proof) => return Ok(proof),
        Plan::MakeToken(login, file) => (login, file),
    };
    let refused = || Error::Refused(refusal(&login));
    let token = client.make_token(&login).await?.ok_or_else(refused)?;
    if let Some(file) = &file
        && let Err(error) = keep(file, &token)
    {
        tracing::warn!("failed to keep the token in {}: {error}", file.display());
    }
    Ok(Proof::Token(token))
}

/// Asks for what the flags do not say.
fn ask(options: &Map) -> Result<Login> {
    let text = |name: &str| options.get(name).filter(|value| !value.is_null()).map(Value::to_string);
    let backend = text("eauth").unwrap_or_default();
    if !BACKENDS.contains(&backend.as_str()) {
        return Err(Failed::Unknown(backend).into());
    }
    let mut username = match text("username") {
        Some(name) => name,
        None => visible("username: ")?,
    };
    if username.is_empty() {
        username = own_user();
    }
    let password = match (text("password"), std::env::var_os(PASSWORD_FILE)) {
        (Some(password), _) => password,
        (None, Some(file)) => password_in(Path::new(&file))?,
        (None, None) => hidden("password: ")?,
    };
    Ok(Login { backend, username, password })
}

fn own_user() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map_or_else(String::new, |user| user.name)
}

/// Returns the first line of a file.
fn password_in(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("failed to read the password from {} ({PASSWORD_FILE})", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn visible(prompt: &str) -> Result<String> {
    crate::terminal::print(prompt);
    line(&mut io::stdin().lock())
}

/// Asks for a password on the terminal, without showing it. Without a terminal, the password is the next line of the input.
fn hidden(prompt: &str) -> Result<String> {
    let Ok(terminal) = fs::OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        if io::stdin().is_terminal() {
            rt::complain!("Warning: Password input may be echoed.");
        }
        // Not a line: the answer follows it.
        let _ = io::stderr().write_all(prompt.as_bytes());
        return line(&mut io::stdin().lock());
    };
    let _silence = Silence::of(&terminal).context("failed to hide the password")?;
    (&terminal).write_all(prompt.as_bytes()).context("failed to ask for the password")?;
    let password = line(&mut io::BufReader::new(&terminal))?;
    (&terminal).write_all(b"\n").context("failed to write to the terminal")?;
    if password.ends_with(char::from(CTRL_C)) { Err(Failed::Interrupted.into()) } else { Ok(password) }
}

fn line(input: &mut impl BufRead) -> Result<String> {
    let mut bytes = Vec::new();
    // A line that Ctrl-C ends has no line feed, so that the terminal's end of a line counts, too.
    loop {
        let part = input.fill_buf().context("failed to read the answer")?;
        let end = part.iter().position(|byte| matches!(*byte, b'\n' | CTRL_C));
        bytes.extend_from_slice(&part[..end.map_or(part.len(), |end| end + 1)]);
        let (read, ended) = (end.map_or(part.len(), |end| end + 1), end.is_some());
        input.consume(read);
        if ended || read == 0 {
            break;
        }
    }
    anyhow::ensure!(!bytes.is_empty(), "the input ended before the login was complete");
    let text = String::from_utf8(bytes).context("the answer is not UTF-8")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The letter of Ctrl-C.
const CTRL_C: u8 = 3;

/// A terminal that does not show what is typed, until this is dropped. Ctrl-C ends a line: the signal would end the program
/// before the terminal is restored.
struct Silence<'a> {
    terminal: &'a fs::File,
    before: termios::Termios,
}

impl<'a> Silence<'a> {
    fn of(terminal: &'a fs::File) -> nix::Result<Self> {
        let before = termios::tcgetattr(terminal.as_fd())?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ISIG);
        silent.control_chars[SpecialCharacterIndices::VEOL as usize] = CTRL_C;
        termios::tcsetattr(terminal.as_fd(), SetArg::TCSAFLUSH, &silent)?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        if let Err(error) = termios::tcsetattr(self.terminal.as_fd(), SetArg::TCSAFLUSH, &self.before) {
            rt::complain!("the terminal still hides what is typed ({error}); `stty echo` shows it again");
        }
    }
}

/// Returns the path of the file with the token.
fn token_file(options: &Map) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    match options.get_str("token_file").filter(|path| !path.is_empty()) {
        Some(path) => match path.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(path.into()),
        },
        None => {
            let settings = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
            let settings = settings.or_else(|| Some(home.as_ref()?.join(".config")));
            let own = settings.map(|settings| settings.join("salt")).filter(|directory| directory.is_dir());
            own.or(home).map(|directory| directory.join("salt_token"))
        }
    }
}

/// Returns the token in a file, unless it is too old.
fn kept_token(file: &Path, life: Duration) -> Option<String> {
    let written = fs::metadata(file).ok().filter(fs::Metadata::is_file)?.modified().ok()?;
    // A time in the future is young, too.
    if SystemTime::now().duration_since(written).is_ok_and(|age| age >= life) {
        return None;
    }
    let text = fs::read_to_string(file).inspect_err(|error| {
        tracing::debug!(path = %file.display(), %error, "the token cannot be read");
    });
    text.ok().map(|text| text.trim().to_owned()).filter(|token| !token.is_empty())
}

/// Keeps a token in a file that only this user may read.
fn keep(file: &Path, token: &str) -> io::Result<()> {
    let mut open = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file)?;
    // Before anything is written: the file may be an old one that others can read.
    open.set_permissions(fs::Permissions::from_mode(0o600))?;
    open.set_len(0)?;
    open.write_all(token.as_bytes())
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn a_token_is_kept_for_its_user_alone_and_for_its_time() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("salt_token");
        fs::write(&file, "an older and longer token").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        keep(&file, "abc").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(kept_token(&file, Duration::from_secs(60)), Some("abc".to_owned()));
        assert_eq!(kept_token(&file, Duration::ZERO), None);
        assert_eq!(kept_token(&place.path().join("none"), Duration::from_secs(60)), None);
    }

    #[test]
    fn a_kept_token_that_is_refused_is_named() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().to_str().unwrap();
        let config =
            config::Master::from_options(map! { "id" => "m", "root_dir" => root, "cachedir" => root }).unwrap();
        let file = place.path().join("salt_token");
        let told = |eauth: &str, more: Map| {
            let mut options = map! { "eauth" => eauth, "token_file" => file.to_str().unwrap() };
            options.update(more);
            about_kept_token(&options, &config)
        };
        assert_eq!(told("", map! {}), None, "there is none");
        fs::write(&file, "garbage").unwrap();
        let expected = format!("the token in {} is not valid: log in again with -T", file.display());
        assert_eq!([told("", map! {}), told("file", map! {})], [Some(expected.clone()), Some(expected.clone())]);
        assert_eq!(told("file", map! { "username" => "fred" }), None, "they log in again");
        fs::File::open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!([told("", map! {}), told("file", map! {})], [Some(expected), None], "expired");
        fs::write(place.path().join(".root_key"), "key").unwrap();
        assert_eq!(told("", map! {}), None, "root's key counts");
    }

    #[test]
    fn parts_of_a_login_need_a_backend() {
        assert!(check(&map! { "eauth" => "", "mktoken" => false }).is_ok());
        assert!(check(&map! { "eauth" => "file", "mktoken" => true, "username" => "fred" }).is_ok());
        for name in ["username", "password"] {
            assert!(check(&map! { "eauth" => "", name => "x" }).is_err(), "{name}");
        }
        assert!(check(&map! { "mktoken" => true }).is_err());
    }

    #[test]
    fn the_file_of_the_token_may_be_named() {
        assert_eq!(token_file(&map! { "token_file" => "/x/token" }), Some("/x/token".into()));
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("password");
        fs::write(&file, " with blanks \r\nmore\n").unwrap();
        assert_eq!(password_in(&file).unwrap(), " with blanks ");
        assert!(password_in(&place.path().join("none")).is_err());
    }
}
