//! Contexts of files.

use exec::{Context, Error, Result, function};
use regex::Regex;
use value::{Map, Value, map, python};

use super::{escaped, quotable, shell};

/// Kinds of files, as ``semanage fcontext`` names them.
const KINDS: [(&str, &str); 8] = [
    ("a", "all files"),
    ("f", "regular file"),
    ("d", "directory"),
    ("c", "character device"),
    ("b", "block device"),
    ("s", "socket"),
    ("l", "symbolic link"),
    ("p", "named pipe"),
];

const PARTS: [&str; 4] = ["sel_user", "sel_role", "sel_type", "sel_level"];

fn kind(code: &str) -> Result<&'static str> {
    let found = KINDS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
    found.ok_or_else(|| {
        let valid = KINDS.map(|(code, _)| code).join(", ");
        Error::invocation(format!("Invalid file type code {}; expected one of: {valid}", python::repr_str(code)))
    })
}

fn parts(context: &str) -> Result<Map> {
    let words: Vec<&str> = context.split(':').collect();
    if words.len() != 4 || words.iter().any(|word| word.is_empty()) {
        return Err(Error::invocation(format!(
            "Invalid SELinux context string: {context}. Expected \"sel_user:sel_role:sel_type:sel_level\""
        )));
    }
    Ok(PARTS.iter().zip(words).map(|(name, word)| (*name, word)).collect())
}

/// Returns the name of a kind of files: ``d`` is "directory".
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.filetype_id_to_string d
#[function]
fn filetype_id_to_string(#[default("a")] filetype: String) -> Result<String> {
    kind(&filetype).map(str::to_owned)
}

/// Returns the policy of a pattern of paths: kind of files, user, role, type and level; None if there is none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.fcontext_get_policy '/srv/www(/.*)?'
#[function]
fn fcontext_get_policy(
    ctx: &Context,
    name: String,
    filetype: Option<String>,
    sel_type: Option<String>,
    sel_user: Option<String>,
    sel_level: Option<String>,
) -> Result<Value> {
    let kind = filetype.filter(|code| !code.is_empty()).map(|code| kind(&code)).transpose()?;
    let name = quotable(Some(name))?.unwrap_or_default();
    // A part that was not given may be anything, but not beyond its colon.
    let any = |part: Option<String>| Ok::<_, Error>(quotable(part)?.unwrap_or_else(|| "[^:]+".into()));
    let (sel_user, sel_type, sel_level) = (any(sel_user)?, any(sel_type)?, any(sel_level)?);
    // The whole list is searched by `grep`, as in Salt. Quotes are refused before, and the rest is
    // escaped.
    let line = format!(
        "semanage fcontext --list | grep -E '^{}[ ]+{}[ ]+{sel_user}:[^:]+:{sel_type}:{sel_level}[ |\t]*$'",
        escaped(&name),
        kind.unwrap_or("[[:alpha:] ]+")
    );
    let text = shell(ctx, line)?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let pattern = format!("^({}) +([a-z ]+) (.*)$", regex::escape(&name));
    let pattern = Regex::new(&pattern).map_err(|error| Error::execution(error.to_string()))?;
    let unread = || Error::execution("Output from the fcontext command did not match the expected format");
    let found = pattern.captures(&text).ok_or_else(unread)?;
    let mut policy = map! { "filespec" => found[1].trim(), "filetype" => found[2].trim() };
    policy.update(parts(found[3].trim())?);
    Ok(policy.into())
}

struct Policy {
    name: String,
    filetype: Option<String>,
    sel_type: Option<String>,
    sel_user: Option<String>,
    sel_level: Option<String>,
}

fn change(ctx: &Context, mut doing: &str, policy: Policy) -> Result<Value> {
    let name = quotable(Some(policy.name))?.unwrap_or_default();
    if doing == "add" {
        let line = format!("semanage fcontext --list | grep -E '{} '", escaped(&name));
        // `semanage` refuses to add a rule twice.
        if !shell(ctx, line)?.is_empty() {
            doing = "modify";
        }
    }
    let mut line = format!("semanage fcontext --{doing}");
    // "All files" is the default and has no letter for `--ftype` in old versions.
    if let Some(code) = policy.filetype.filter(|code| code != "a") {
        kind(&code)?;
        line.push_str(&format!(" --ftype {code}"));
    }
    line.extend(policy.sel_type.map(|kind| format!(" --type {kind}")));
    line.extend(policy.sel_user.map(|user| format!(" --seuser {user}")));
    line.extend(policy.sel_level.map(|level| format!(" --range {level}")));
    line.push_str(&format!(" {}", escaped(&name)));
    ctx.call("cmd.run_all", vec![line.into()])
}

/// Sets the context of the paths that match a pattern; returns the output of ``semanage``. ``restorecon`` applies it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.fcontext_add_policy '/srv/www(/.*)?' sel_type=httpd_sys_content_t
#[function]
fn fcontext_add_policy(
    ctx: &Context,
    name: String,
    filetype: Option<String>,
    sel_type: Option<String>,
    sel_user: Option<String>,
    sel_level: Option<String>,
) -> Result<Value> {
    change(ctx, "add", Policy { name, filetype, sel_type, sel_user, sel_level })
}

/// Deletes the policy of a pattern of paths; returns the output of ``semanage``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.fcontext_delete_policy '/srv/www(/.*)?'
#[function]
fn fcontext_delete_policy(
    ctx: &Context,
    name: String,
    filetype: Option<String>,
    sel_type: Option<String>,
    sel_user: Option<String>,
    sel_level: Option<String>,
) -> Result<Value> {
    change(ctx, "delete", Policy { name, filetype, sel_type, sel_user, sel_level })
}

fn differences(ctx: &Context, name: &str, recursive: bool) -> Result<String> {
    let option = if recursive { "-R " } else { "" };
    let line = format!("restorecon -n -v {option}{}", escaped(name));
    let said = ctx.call("cmd.run_all", vec![line.into()])?;
    Ok(said.get("stdout").map(Value::to_string).unwrap_or_default())
}

/// Returns the differences between the contexts of files and the policy; an empty text if there are none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.fcontext_policy_is_applied /srv/www recursive=True
#[function]
fn fcontext_policy_is_applied(ctx: &Context, name: String, #[default(false)] recursive: bool) -> Result<String> {
    differences(ctx, &name, recursive)
}

/// Returns the parts in which two contexts differ.
fn difference(old: &str, new: &str) -> Result<Map> {
    let (mut old, mut new) = (parts(old)?, parts(new)?);
    for name in PARTS {
        if old.get(name) == new.get(name) {
            old.remove(name);
            new.remove(name);
        }
    }
    Ok(map! { "old" => old, "new" => new })
}

/// Restores the contexts of files from the policy. Returns the output of ``restorecon``, with the changes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.fcontext_apply_policy /srv/www recursive=True
#[function]
fn fcontext_apply_policy(ctx: &Context, name: String, #[default(false)] recursive: bool) -> Result<Map> {
    // Only the dry run prints old and new contexts, so its text makes the report.
    let expected = differences(ctx, &name, recursive)?;
    let option = if recursive { "-R " } else { "" };
    let line = format!("restorecon -v -F {option}{}", escaped(&name));
    let mut said = ctx.call("cmd.run_all", vec![line.into()])?.into_map().unwrap_or_default();
    if said.get("retcode").is_some_and(Value::truthy) {
        return Ok(said);
    }
    // The text changed with version 2.7 or so of the tools.
    let pattern = if expected.starts_with("Would relabel") {
        "(?m)Would relabel (.*) from (.*) to (.*)$"
    } else if expected.starts_with("restorecon reset") {
        "(?m)restorecon reset (.*) context (.*)->(.*)$"
    } else {
        said.update(map! { "retcode" => 1, "error" => "Unrecognized response from restorecon command." });
        return Ok(said);
    };
    let mut changes = Map::new();
    for found in Regex::new(pattern).expect("the pattern is constant").captures_iter(&expected) {
        changes.insert(&found[1], difference(&found[2], &found[3])?);
    }
    if !changes.is_empty() {
        said.insert("changes", changes);
    }
    Ok(said)
}
