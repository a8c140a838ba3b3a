//! Helpers that several functions need.

use std::path::Path;

use exec::{Call, Context, Error, Function, KwArgs, Result, bind};
use modules::file::facts;
use modules::file::owners::{gid_of, uid_of};
use modules::file::paths::{real, split};
use modules::file::perms::Report;
use nix::unistd::User;
use value::{Map, Value, map};

use crate::Ret;

impl From<Report> for Ret {
    fn from(report: Report) -> Ret {
        let Report { name, changes, comment, result, more } = report;
        Ret { name, result, changes, comment, more }
    }
}

impl From<Ret> for Report {
    fn from(ret: Ret) -> Report {
        let Ret { name, result, changes, comment, more } = ret;
        Report { name, changes, comment, result, more }
    }
}

/// A result that is successful so far, the usual start of a file state.
pub fn start(name: &str) -> Ret {
    Ret::new(name).ok("")
}

/// The saltenv of the running state.
pub fn environment(ctx: &Context) -> String {
    let low = ctx.state.as_ref().and_then(|state| state.low.get_str("__env__"));
    // An empty `saltenv` in the state counts as none, and so becomes `base`.
    low.filter(|env| !env.is_empty()).unwrap_or("base").to_owned()
}

/// Returns which user or group is missing. In test mode it only warns: an earlier state may create
/// them in the real run.
pub fn check_user(ctx: &Context, user: &Value, group: &Value) -> Option<String> {
    let mut wrong = String::new();
    if user.truthy() && uid_of(user).is_none() {
        // The trailing blank is Salt's. It parts the two sentences and stays when only the user is
        // missing.
        wrong.push_str(&format!("User {user} is not available "));
    }
    if group.truthy() && gid_of(group).is_none() {
        wrong.push_str(&format!("Group {group} is not available"));
    }
    if ctx.is_test() && !wrong.is_empty() {
        tracing::warn!("{wrong}");
        return None;
    }
    Some(wrong).filter(|wrong| !wrong.is_empty())
}

/// Checks that the path of a file to be edited is absolute and exists.
pub fn check_file(name: &str) -> std::result::Result<(), String> {
    if !name.starts_with('/') {
        return Err(format!("Specified file {name} is not an absolute path"));
    }
    if !Path::new(name).exists() {
        return Err(format!("{name}: file not found"));
    }
    Ok(())
}

/// Returns `user`, or the deprecated `owner` if only that is given.
pub fn user_or_owner(user: Value, kwargs: &KwArgs) -> Value {
    if user.truthy() {
        return user;
    }
    match kwargs.0.get("owner") {
        Some(owner) => {
            tracing::warn!("Use of argument owner found, \"owner\" is invalid, please use \"user\"");
            owner.clone()
        }
        None => user,
    }
}

/// Fills in owner and group where they are not given: the user the minion runs as, and that user's
/// primary group.
pub fn default_owner(ctx: &Context, user: Value, group: Value) -> (Value, Value) {
    let user = if user.is_null() { ctx.opt("user").cloned().unwrap_or_else(|| "root".into()) } else { user };
    if !group.is_null() {
        return (user, group);
    }
    // An unknown user gets root's group here. The caller checks afterwards that both exist and
    // reports the user.
    let known = uid_of(&user).and_then(|uid| User::from_uid(uid.into()).ok().flatten());
    let gid = known.map_or(0, |user| user.gid.as_raw());
    (user, facts::group_name(gid))
}

/// Returns which of user and group do not exist, and which paths are not absolute.
pub fn preflight(user: &Value, group: &Value, paths: &[(&str, &str)]) -> Option<String> {
    let mut wrong = Vec::new();
    if uid_of(user).is_none() {
        wrong.push(format!("User {user} does not exist"));
    }
    if gid_of(group).is_none() {
        wrong.push(format!("Group {group} does not exist"));
    }
    for (what, path) in paths.iter().filter(|(_, path)| !path.starts_with('/')) {
        wrong.push(format!("Specified {what} {path} is not an absolute path"));
    }
    // Salt ends the text with a full stop only when it joins several sentences.
    let end = if wrong.len() > 1 { "." } else { "" };
    (!wrong.is_empty()).then(|| format!("{}{end}", wrong.join(". ")))
}

/// Returns the directory of a path (`os.path.dirname`).
pub fn parent(path: &str) -> &str {
    split(path).0
}

/// Puts a name behind a directory (`os.path.join`).
pub fn join(directory: &str, name: &str) -> String {
    // `os.path.join` throws the directory away before an absolute name, and callers rely on it.
    match name.starts_with('/') {
        true => name.to_owned(),
        false if directory.is_empty() || directory.ends_with('/') => format!("{directory}{name}"),
        false => format!("{directory}/{name}"),
    }
}

/// Returns whether anything is at a path. A dangling link counts (`os.path.lexists`).
pub fn lexists(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}

/// Sources and their checksums, as several functions take them.
pub struct Sources {
    /// The chosen source.
    pub source: Value,
    /// Its checksum.
    pub source_hash: Value,
    /// Several sources.
    pub sources: Value,
    /// Their checksums.
    pub source_hashes: Value,
}

impl Sources {
    /// Returns the sources, or why they make no sense.
    pub fn unify(&self) -> std::result::Result<Vec<String>, &'static str> {
        if self.source.truthy() && self.sources.truthy() {
            return Err("source and sources are mutually exclusive");
        }
        if self.source_hash.truthy() && self.source_hashes.truthy() {
            return Err("source_hash and source_hashes are mutually exclusive");
        }
        Ok(match (&self.source, &self.sources) {
            (source, _) if source.truthy() => vec![source.to_string()],
            (_, Value::List(sources)) => sources.iter().map(Value::to_string).collect(),
            (_, sources) if sources.truthy() => vec![sources.to_string()],
            _ => Vec::new(),
        })
    }
}

/// Fetches and renders sources. Returns their texts, or the failed result.
pub fn rendered_sources(
    ctx: &Context,
    sources: &[String],
    template: &str,
    defaults: &Value,
    context: &Value,
) -> Result<std::result::Result<Vec<String>, Ret>> {
    use modules::file::template::{RenderArgs, file};
    let env = environment(ctx);
    // The context wins over the defaults, as for `file.managed`.
    let mut known = defaults.as_map().cloned().unwrap_or_default();
    known.update(context.as_map().cloned().unwrap_or_default());
    let mut texts = Vec::new();
    for source in sources {
        let failed = |comment: String| {
            // Salt returns what its template function returned, `data` included, and names the
            // state after the source.
            let more = map! { "data" => Value::List(Vec::new()) };
            Ok(Err(Ret { more, ..Ret::new(source.as_str()).fail(comment) }))
        };
        let place = modules::fileclient::cache(ctx, source, &env).ok().flatten();
        let Some(place) = place else { return failed(format!("Failed to load template file {source}")) };
        let order = RenderArgs { engine: template, saltenv: &env, context: known.clone(), known: Map::new() };
        match file(ctx, &place, order)? {
            // Salt cannot distinguish a template that renders to nothing from one it failed to read.
            Ok(text) if text.is_empty() => {
                return failed(format!("Failed to read rendered template file {} ({source})", place.display()));
            }
            Ok(text) => texts.push(text),
            // A gap in this program must not look like a broken template of the user.
            Err(error) if error.starts_with("not supported") => return Err(Error::execution(error)),
            Err(error) => {
                tracing::error!("{source} cannot be rendered: {error}");
                return failed(format!("Failed to load template file {source}"));
            }
        }
    }
    Ok(Ok(texts))
}

/// Makes a list of texts of what may be one (Salt's `_validate_str_list`).
pub fn text_list(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        Value::Bytes(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        other => vec![other.to_string()],
    }
}

/// Calls another state function with arguments by name.
pub fn apply(ctx: &Context, function: &Function, kwargs: Map) -> Result<Ret> {
    let bound = bind(function, Call { args: Vec::new(), kwargs }, &Map::new())?;
    let answer = function.call(ctx, bound)?;
    Ok(Report::from_map(answer.into_map().unwrap_or_default()).into())
}

/// Returns the same context with test mode switched off.
pub fn for_real(ctx: &Context) -> Context {
    let mut opts = (*ctx.opts).clone();
    opts.insert("test", false);
    Context { opts: opts.into(), ..ctx.clone() }
}

/// Returns the entry `diff` of the changes: a difference, or Salt's text in place of one.
pub fn text_difference(name: &str, difference: String, show: bool) -> Value {
    // A difference of binary data would put raw bytes into the job's return.
    if !modules::text::is_text(name) {
        return "Replace binary file".into();
    }
    if show { difference.into() } else { "<show_changes=False>".into() }
}

/// Notes a difference.
pub fn note_diff(changes: &mut Map, difference: Value) {
    changes.update(map! { "diff" => difference });
}

/// The text of a file, for comparing it before and after.
pub fn read_text(name: &str) -> Result<String> {
    let bytes = std::fs::read(name).map_err(|error| modules::file::os_error(&error, &real(name)))?;
    Ok(modules::text::decode(&bytes))
}
