//! `aliases` — the mail aliases of the machine.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;

use exec::{Context, Error, Module, Result, function};
use regex::Regex;
use value::{Map, Value};

/// Registers the functions of `aliases`.
pub static MODULE: Module = Module::new(
    "aliases",
    "Functions that read and change the mail aliases.",
    &[&GET_TARGET, &HAS_TARGET, &LIST_ALIASES, &RM_ALIAS, &SET_TARGET],
);

/// A line of the file: an alias, its target and the trailing comment. Lines without an alias leave the first two empty.
#[derive(Clone, Debug)]
struct Line {
    alias: String,
    target: String,
    comment: String,
}

/// Returns the path of the file: the option `aliases.file`, with links resolved.
fn path(ctx: &Context) -> PathBuf {
    let name = crate::util::config_get(ctx, "aliases.file").map(|name| name.to_string());
    let path = PathBuf::from(name.unwrap_or_else(|| "/etc/aliases".into()));
    // The file is replaced by a rename, which would turn a link into a plain file and leave its target as it was.
    path.canonicalize().unwrap_or(path)
}

fn lines(ctx: &Context) -> Result<Vec<Line>> {
    let path = path(ctx);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let bytes = std::fs::read(&path).map_err(|error| Error::io("read", &path, &error))?;
    let pattern = Regex::new(r"^([^:#]*)\s*:?\s*([^#]*?)(\s+#.*|$)").expect("the pattern is constant");
    // Targets and comments are not always UTF-8; one odd byte must not make the whole file unreadable.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let line = |line: &str| match pattern.captures(line) {
        Some(found) => Line { alias: found[1].into(), target: found[2].into(), comment: found[3].into() },
        // A line that is only a comment has no alias and is written back as it was.
        None => Line { alias: String::new(), target: String::new(), comment: line.trim().into() },
    };
    Ok(text.lines().map(line).collect())
}

fn write(ctx: &Context, lines: &[Line]) -> Result<()> {
    let path = path(ctx);
    let failed = |error: std::io::Error| Error::io("write", &path, &error);
    let text: String = lines
        .iter()
        .map(|line| match line.alias.is_empty() || line.target.is_empty() {
            true => format!("{}\n", line.comment),
            false => format!("{}: {}{}\n", line.alias, line.target, line.comment),
        })
        .collect();
    let meta = path.metadata().ok();
    crate::util::replace_file(&path, text.as_bytes(), meta.as_ref().map_or(0o644, |meta| meta.mode() & 0o7777))
        .map_err(failed)?;
    // The new file belongs to the minion's user until it gets the owner of the old one.
    let (uid, gid) = meta.map_or((0, 0), |meta| (meta.uid(), meta.gid()));
    chown(&path, Some(uid), Some(gid)).map_err(failed)?;
    // Sendmail and Postfix read a database built from the file, so a change has no effect before it is rebuilt.
    if let Some(program) = crate::util::which("newaliases") {
        ctx.call("cmd.run", vec![program.to_string_lossy().into()])?;
    }
    Ok(())
}

fn target_of(ctx: &Context, alias: &str) -> Result<Option<String>> {
    // When a name occurs twice the last line wins, as in the map Salt builds from the lines.
    let found = lines(ctx)?.into_iter().rfind(|line| line.alias == alias && !alias.is_empty());
    Ok(found.map(|line| line.target))
}

/// Joins several targets as one line lists them.
fn joined(target: &Value) -> String {
    match target {
        Value::List(items) => items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn refuse_empty(what: &str, value: &Value) -> Result<()> {
    match value.as_str() {
        Some("") => Err(Error::invocation(format!("{what} can not be an empty string"))),
        _ => Ok(()),
    }
}

/// Returns all aliases with their targets.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' aliases.list_aliases
#[function(out = "yaml")]
fn list_aliases(ctx: &Context) -> Result<Map> {
    let named = lines(ctx)?.into_iter().filter(|line| !line.alias.is_empty());
    Ok(named.map(|line| (line.alias, line.target)).collect())
}

/// Returns the target of an alias; empty if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' aliases.get_target postmaster
#[function(out = "txt")]
fn get_target(ctx: &Context, alias: String) -> Result<String> {
    Ok(target_of(ctx, &alias)?.unwrap_or_default())
}

/// Returns whether an alias has a target, or the targets of a list.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' aliases.has_target postmaster root
#[function(out = "txt")]
fn has_target(ctx: &Context, alias: String, target: Value) -> Result<bool> {
    refuse_empty("target", &target)?;
    Ok(target_of(ctx, &alias)?.is_some_and(|found| found == joined(&target)))
}

/// Sets the target of an alias; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' aliases.set_target postmaster root
#[function(out = "txt")]
fn set_target(ctx: &Context, alias: String, target: Value) -> Result<bool> {
    refuse_empty("alias", &alias.as_str().into())?;
    refuse_empty("target", &target)?;
    if target_of(ctx, &alias)?.map(Value::from) == Some(target.clone()) {
        return Ok(true);
    }
    let target = joined(&target);
    let mut out: Vec<Line> = Vec::new();
    let mut done = false;
    for mut line in lines(ctx)? {
        if line.alias == alias {
            // Later lines of the same name are dropped: with two left, the mail server would choose one of them.
            if std::mem::replace(&mut done, true) {
                continue;
            }
            line.target = target.clone();
        }
        out.push(line);
    }
    if !done {
        out.push(Line { alias, target, comment: String::new() });
    }
    write(ctx, &out)?;
    Ok(true)
}

/// Removes an alias; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' aliases.rm_alias postmaster
#[function(out = "txt")]
fn rm_alias(ctx: &Context, alias: String) -> Result<bool> {
    if target_of(ctx, &alias)?.is_none_or(|target| target.is_empty()) {
        return Ok(true);
    }
    let rest: Vec<Line> = lines(ctx)?.into_iter().filter(|line| line.alias != alias).collect();
    write(ctx, &rest)?;
    Ok(true)
}
