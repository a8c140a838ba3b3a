//! Changing text in files: replacing, commenting, `sed`.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value};

use super::content::run_all;
use super::paths::{expand_user, real};
use super::replace::Editable;
use super::{difflib, pattern};

/// Puts a comment sign before all matching lines, and returns the difference. ``backup`` is the suffix of a copy.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.comment /etc/modules pcspkr
#[function]
pub fn comment(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, true, &backup))
}

/// Puts a comment sign before all matching lines, or with ``cmnt=False`` removes it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.comment_line /etc/modules '^pcspkr$' cmnt=False
#[function]
pub fn comment_line(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(true)] cmnt: bool,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, cmnt, &backup))
}

/// Removes the comment sign from all matching lines, and returns the difference.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.uncomment /etc/hosts.deny 'ALL: PARANOID'
#[function]
pub fn uncomment(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, false, &backup))
}

fn commented(path: &str, regex: &str, sign: &str, on: bool, backup: &Value) -> Result<Value> {
    let inner = regex.trim_start_matches('^').trim_end_matches('$');
    let end = if regex.ends_with('$') { "$" } else { "" };
    let start = if regex.starts_with('^') { "^" } else { "" };
    // Anchors are moved outside, so that the sign can stand between the start of the line and the pattern.
    let whole = if on { format!("{start}({inner}){end}") } else { format!("^{sign}\\s*({inner}){end}") };
    let matcher = targeting::PyRegex::new(&whole).map_err(|error| Error::Other(error.to_string()))?;
    // A backup and a new file would otherwise replace the link.
    let path = real(&expand_user(path));
    let file = Editable::open(&path)?;
    let (mut old, mut new, mut content) = (Vec::new(), Vec::new(), String::new());
    for line in file.text.content.split_inclusive('\n') {
        if !matcher.is_match(line) {
            content.push_str(line);
            continue;
        }
        let changed =
            // Python's `lstrip` takes a set of letters: several signs in a row go together.
            if on { format!("{sign}{line}") } else { line.trim_start_matches(|c| sign.contains(c)).to_owned() };
        content.push_str(&changed);
        old.push(line.to_owned());
        new.push(changed);
    }
    if old.is_empty() {
        return Ok(Value::Bool(false));
    }
    if backup.truthy() {
        file.keep(&format!("{path}{backup}"))?;
    }
    file.write(&content)?;
    Ok(Value::from(difflib::unified(&old, &new)))
}

/// Replaces text with the program ``sed`` and returns the result of ``cmd.run_all``. Slashes are escaped.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
#[function]
pub fn sed(
    ctx: &Context,
    path: String,
    before: Value,
    after: Value,
    #[default("")] limit: Value,
    #[default(".bak")] backup: Value,
    #[default("-r -e")] options: String,
    #[default("g")] flags: String,
    #[default(false)] escape_all: bool,
    #[default(false)] negate_match: bool,
) -> Result<Value> {
    let path = expand_user(&path);
    if !Path::new(&path).exists() {
        return Ok(Value::Bool(false));
    }
    let escaped = |value: &Value| sed_escape(&value.to_string(), escape_all);
    let negate = if negate_match { "!" } else { "" };
    // The words reach sed without a shell; only the slash, which ends a part, has to be escaped.
    let script = format!("{}{negate}s/{}/{}/{flags}", sed_limit(&escaped(&limit)), escaped(&before), escaped(&after));
    let mut words =
        vec!["sed".to_owned(), format!("-i{}", if backup.truthy() { backup.to_string() } else { String::new() })];
    words.extend(python::shlex::split(&options).map_err(|error| Error::Other(error.to_string()))?);
    words.extend([script, path]);
    run_all(ctx, &words).map(Value::Map)
}

/// Returns whether the program ``sed`` finds a pattern in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.sed_contains /etc/crontab 'mymaintenance.sh'
#[function]
pub fn sed_contains(
    ctx: &Context,
    path: String,
    text: Value,
    #[default("")] limit: Value,
    #[default("g")] flags: String,
) -> Result<bool> {
    let path = expand_user(&path);
    if !Path::new(&path).exists() {
        return Ok(false);
    }
    let escaped = |value: &Value| sed_escape(&value.to_string(), false);
    let script = format!("{}s/{}/$/p{flags}", sed_limit(&escaped(&limit)), escaped(&text));
    let words = ["sed", "-n", "-r", "-e"].map(str::to_owned).into_iter().chain([script, path]).collect::<Vec<_>>();
    let said: Map = run_all(ctx, &words)?;
    Ok(said.get("stdout").is_some_and(Value::truthy))
}

fn sed_limit(limit: &str) -> String {
    if limit.is_empty() { String::new() } else { format!("/{limit}/ ") }
}

fn sed_escape(text: &str, all: bool) -> String {
    // Salt quotes for a shell although there is none, and a quote in the pattern is changed by it.
    let quoted = text.replace('\'', "'\"'\"'").replace('/', "\\/");
    if !all {
        return quoted;
    }
    quoted.chars().flat_map(|c| "^.[$()|*+?{".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

/// Replaces text without the program ``sed``, in the way of the first versions of Salt. ``flags`` are letters of ``re``
/// and ``g``; with ``limit`` only what follows the first match of it is kept and changed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.psed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
#[function]
pub fn psed(
    ctx: &Context,
    path: String,
    before: Value,
    after: Value,
    #[default("")] limit: Value,
    #[default(".bak")] backup: Value,
    #[default("gMS")] flags: String,
    #[default(false)] escape_all: bool,
    #[default(false)] multi: bool,
) -> Result<()> {
    if multi {
        return Err(Error::execution("not supported: file.psed with multi=True"));
    }
    let escaped = |value: &Value| sed_escape(&value.to_string(), escape_all);
    let (before, after, limit) = (escaped(&before), after.to_string(), escaped(&limit));
    if !limit.is_empty() {
        return Err(Error::execution("not supported: file.psed with a limit"));
    }
    let sum = pattern::letters(&flags.replace('g', ""))?;
    // `g` is sed's letter and no flag of Python: without it only the first match is replaced.
    let count = usize::from(!flags.contains('g'));
    let regex = pattern::compile(&before, sum)?;
    let template = pattern::Template::parse(&after)?;
    ctx.blocking(move || {
        let path = expand_user(&path);
        let file = Editable::open(&path)?;
        // Salt always makes the copy here, also with an empty suffix.
        file.copy(&format!("{path}{backup}"))?;
        let (content, _) = pattern::replace(&regex, &template, &file.text.content, count)?;
        file.write(&content)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(content: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn psed_knows_flags_by_letter() {
        let (_folder, path) = file("LogLevel warn\nloglevel warn\n");
        let (ctx, _) = exec::testing::context(&[], value::map! {}, value::map! {}, value::map! {});
        let run = |flags: &str| {
            let (path, text) = (path.clone(), |text: &str| Value::from(text));
            psed(&ctx, path, text("loglevel"), text("L"), text(""), text(".bak"), flags.to_owned(), false, false)
        };
        run("gMS").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "LogLevel warn\nL warn\n");
        run("gI").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "L warn\nL warn\n");
        assert_eq!(fs::read_to_string(path.clone() + ".bak").unwrap(), "LogLevel warn\nL warn\n");
        assert_eq!(run("gZ").unwrap_err().to_string(), "Invalid re flag given: Z");
    }

    #[test]
    fn lines_are_commented_and_back() {
        let (_folder, path) = file("one\ntwo\n");
        let difference = commented(&path, "^two$", "#", true, &Value::Bool(false)).unwrap();
        assert_eq!(difference, "--- \n+++ \n@@ -1 +1 @@\n-two\n+#two\n".into());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n#two\n");
        assert_eq!(commented(&path, "three", "#", true, &Value::Null).unwrap(), Value::Bool(false));
        commented(&path, "two", "#", false, &Value::Null).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn sed_scripts_are_escaped() {
        assert_eq!(sed_escape("a/b.c", false), r"a\/b.c");
        assert_eq!(sed_escape("a.c", true), r"a\.c");
    }
}
