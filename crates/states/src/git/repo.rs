//! A repository as the states see it, and the words they share.

use exec::{Context, Error, Result};
use regex::Regex;
use value::{Map, Value};

use crate::Ret;
use crate::support::call_with_kwargs;

/// A repository with the user and the options of all git calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Repo {
    pub user: Option<Value>,
    pub password: Option<Value>,
    pub output_encoding: Option<Value>,
    pub identity: Option<Value>,
    pub https_user: Option<Value>,
    pub https_pass: Option<Value>,
}

impl Repo {
    /// Calls a function of the module `git`.
    pub fn git(&self, ctx: &Context, fun: &str, more: Map) -> Result<Value> {
        let mut arguments = value::map! {
            "user" => self.user.clone(), "password" => self.password.clone(),
            "output_encoding" => self.output_encoding.clone(),
        };
        arguments.update(more);
        call_with_kwargs(ctx, &format!("git.{fun}"), arguments)
    }

    /// The same for one whose answer is text.
    pub fn text(&self, ctx: &Context, fun: &str, more: Map) -> Result<String> {
        Ok(self.git(ctx, fun, more)?.to_string())
    }

    /// The same for a question: a failure of git means that there is no such thing.
    pub fn look(&self, ctx: &Context, fun: &str, mut more: Map) -> Result<Option<String>> {
        more.insert("ignore_retcode", true);
        match self.text(ctx, fun, more) {
            Ok(text) => Ok(Some(text)),
            Err(Error::Execution(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commit and the branch that are checked out.
    pub fn head(&self, ctx: &Context, target: &str) -> Result<(Option<String>, Option<String>)> {
        let at = value::map! { "cwd" => target };
        Ok((self.look(ctx, "revision", at.clone())?, self.look(ctx, "current_branch", at)?))
    }

    /// Checks the SSH keys and expands `~`.
    pub fn identity(value: Option<Value>, begin: &str) -> std::result::Result<Option<Value>, String> {
        let keys = match value {
            None => return Ok(None),
            Some(Value::Str(key)) => vec![Value::Str(key)],
            Some(Value::List(keys)) => keys,
            // The states differ in the first letter, so the caller supplies it.
            Some(_) => return Err(format!("{begin}dentity must be either a list or a string")),
        };
        let keys: Vec<String> = keys.iter().map(|key| at_home(&key.to_string())).collect();
        for key in &keys {
            // A key from the file server is fetched by the execution function.
            if !key.contains("salt://") && !key.starts_with('/') {
                return Err(format!("{begin}dentity '{key}' is not an absolute path"));
            }
        }
        Ok(Some(keys.into()))
    }
}

/// A path below `~` as a whole one.
fn at_home(path: &str) -> String {
    match (path.strip_prefix("~/"), std::env::var("HOME")) {
        (Some(rest), Ok(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    }
}

/// Returns whether a text can be a commit hash or the beginning of one.
pub(super) fn is_hash(rev: &str) -> bool {
    // No lower bound: `ad` could be a hash and a branch. Refs of the remote are therefore looked up
    // first.
    rev.len() <= 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Comments as sentences.
pub(super) fn sentences(comments: &[String]) -> String {
    let text = comments.join(". ");
    // A single comment stays without a full stop, as in Salt.
    if comments.len() > 1 { text + "." } else { text }
}

/// Returns git's message without the line about the command that failed.
pub(super) fn without_command(error: &Error) -> String {
    // The command line can be long, and may hold credentials.
    let pattern = Regex::new(r#"^Command ['"].+['"] failed: "#).expect("the pattern is constant");
    pattern.replace(&error.to_string(), "").into_owned()
}

/// Returns a failure that also lists the actions before it.
pub(super) fn failed(ret: Ret, text: impl Into<String>, comments: &[String]) -> Ret {
    let mut text = text.into();
    if !comments.is_empty() {
        text.push_str("\n\nChanges already made: ");
        text.push_str(&sentences(comments));
    }
    ret.fail(text)
}

/// Appends the action, done or pending in test mode.
pub(super) fn with_made(ctx: &Context, text: String, comments: &[String]) -> String {
    if comments.is_empty() {
        return text;
    }
    let would = if ctx.is_test() { "that would be " } else { "" };
    format!("{text}\n\nChanges {would}made: {}", sentences(comments))
}

/// The comment about keyword arguments that do not exist.
pub(super) fn refused(kwargs: &Map) -> Option<String> {
    let given = exec::KwArgs(kwargs.clone()).given();
    if given.is_empty() {
        return None;
    }
    let pairs: Vec<String> = given.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(format!("The following keyword arguments are not valid: {}", pairs.join(", ")))
}

/// Empties a directory.
///
/// # Errors
/// The comment of the state, naming what stays and why.
pub(super) fn empty(target: &str) -> std::result::Result<(), String> {
    let entries = std::fs::read_dir(target).map_err(|error| format!("Unable to remove\n  {target}\n    {error}"))?;
    let mut errors = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let gone = match entry.file_type() {
            // The file type of a directory entry does not follow links, so a link to a directory is
            // only unlinked.
            Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(&path),
            _ => std::fs::remove_file(&path),
        };
        if let Err(error) = gone.or_else(|error| match error.kind() {
            // Another process removed it, which is just as well.
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }) {
            errors.push(format!("  {}\n    {error}", path.display()));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(format!("Unable to remove\n{}", errors.join("\n"))) }
}

/// Returns whether a directory has something in it.
pub(super) fn is_filled(target: &str) -> bool {
    std::fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some())
}
