//! Changing text in files: replacing, commenting, `sed`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value};

use super::content::run_all;
use super::paths::{expand_user, real};
use super::pattern::{self, Template};
use super::{difflib, os_error};
use crate::cmd;

/// A text file to be changed.
struct Text {
    /// The file itself, behind all links.
    path: String,
    content: String,
    mode: u32,
    owner: (u32, u32),
}

impl Text {
    fn open(given: &str) -> Result<Self> {
        let path = real(&expand_user(given));
        let missing = || Error::invocation(format!("File not found: {path}"));
        let meta = fs::metadata(&path).map_err(|_| missing())?;
        let bytes = fs::read(&path)
            .map_err(|error| Error::execution(format!("Unable to open file '{path}'. Exception: {error}")))?;
        let binary = || Error::invocation(format!("Cannot perform string replacements on a binary file: {path}"));
        if bytes.iter().take(512).any(|byte| *byte == 0) {
            return Err(binary());
        }
        let content = String::from_utf8(bytes).map_err(|_| binary())?;
        Ok(Text { path, content, mode: meta.mode() & 0o7777, owner: (meta.uid(), meta.gid()) })
    }

    fn lines(&self) -> Vec<&str> {
        self.content.split_inclusive('\n').collect()
    }

    /// Writes the new content, after a copy of the old one with the suffix if there is one. The copy keeps owner and
    /// permissions; the file keeps its inode.
    fn store(&self, content: &str, backup: Option<&str>) -> Result<()> {
        if let Some(suffix) = backup {
            let copy = format!("{}{suffix}", self.path);
            fs::write(&copy, &self.content).map_err(|error| os_error(&error, &copy))?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(self.mode))
                .map_err(|error| os_error(&error, &copy))?;
            // Only root may give files away; as anyone else the copy belongs to who made it.
            let _ = std::os::unix::fs::chown(&copy, Some(self.owner.0), Some(self.owner.1));
        }
        fs::write(&self.path, content).map_err(|error| {
            Error::execution(format!(
                "Unable to write file '{}'. Contents may be truncated. Exception: {error}",
                self.path
            ))
        })
    }
}

/// The suffix of the copy; `False` and an empty text mean none.
fn suffix(backup: &Value) -> Option<String> {
    backup.truthy().then(|| if backup == &Value::Bool(true) { ".bak".into() } else { backup.to_string() })
}

/// Puts a comment sign before all lines that match, and returns the difference. ``backup`` is the suffix of a copy.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.comment /etc/modules pcspkr
#[function]
pub async fn comment(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, true, &backup)).await?
}

/// Puts a comment sign before all lines that match, or with ``cmnt=False`` takes it away.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.comment_line /etc/modules '^pcspkr$' cmnt=False
#[function]
pub async fn comment_line(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(true)] cmnt: bool,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, cmnt, &backup)).await?
}

/// Takes the comment sign from all lines that match behind it, and returns the difference.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.uncomment /etc/hosts.deny 'ALL: PARANOID'
#[function]
pub async fn uncomment(
    ctx: &Context,
    path: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
) -> Result<Value> {
    ctx.blocking(move || commented(&path, &regex, &char, false, &backup)).await?
}

fn commented(path: &str, regex: &str, sign: &str, on: bool, backup: &Value) -> Result<Value> {
    let inner = regex.trim_start_matches('^').trim_end_matches('$');
    let end = if regex.ends_with('$') { "$" } else { "" };
    let start = if regex.starts_with('^') { "^" } else { "" };
    let whole = if on { format!("{start}({inner}){end}") } else { format!("^{sign}\\s*({inner}){end}") };
    let matcher = targeting::PyRegex::new(&whole).map_err(|error| Error::Other(error.to_string()))?;
    if !Path::new(&real(&expand_user(path))).is_file() {
        return Err(Error::invocation(format!("File not found: {}", real(&expand_user(path)))));
    }
    let text = Text::open(path)?;
    let (mut old, mut new, mut content) = (Vec::new(), Vec::new(), String::new());
    for line in text.lines() {
        if !matcher.is_match(line) {
            content.push_str(line);
            continue;
        }
        let changed =
            if on { format!("{sign}{line}") } else { line.trim_start_matches(|c| sign.contains(c)).to_owned() };
        content.push_str(&changed);
        old.push(line.to_owned());
        new.push(changed);
    }
    if old.is_empty() {
        return Ok(Value::Bool(false));
    }
    text.store(&content, suffix(backup).as_deref())?;
    Ok(Value::from(difflib::unified(&old, &new)))
}

/// Replaces what a regular expression matches, and returns the difference.
///
/// ``flags`` are those of Python's ``re``, by name or number; by default ``^`` and ``$`` match at lines. What is not
/// found can be put at the end or the beginning of the file. With ``dry_run`` nothing is written.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.replace /etc/httpd/httpd.conf pattern='LogLevel warn' repl='LogLevel info'
#[function]
pub async fn replace(
    ctx: &Context,
    path: String,
    pattern: String,
    repl: Value,
    #[default(0)] count: u64,
    #[default(8)] flags: Value,
    #[default(1)] bufsize: Value,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(Value::Null)] not_found_content: Value,
    #[default(".bak")] backup: Value,
    #[default(false)] dry_run: bool,
    #[default(false)] search_only: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] ignore_if_missing: bool,
    #[default(true)] preserve_inode: bool,
    #[default(false)] backslash_literal: bool,
    encoding: Option<String>,
) -> Result<Value> {
    // The whole file is read in any case, and written in place.
    let _ = (bufsize, preserve_inode);
    refuse_encoding(encoding.as_deref())?;
    let add = match (append_if_not_found, prepend_if_not_found) {
        (true, true) => {
            return Err(Error::invocation("Only one of append and prepend_if_not_found is permitted"));
        }
        (true, false) => Some(Place::End),
        (false, true) => Some(Place::Beginning),
        (false, false) => None,
    };
    if search_only && add.is_some() {
        return Err(Error::invocation("search_only cannot be used with append/prepend_if_not_found"));
    }
    let repl = repl.to_string();
    let missing = if not_found_content.is_null() { repl.clone() } else { not_found_content.to_string() };
    let order = Replacement {
        pattern,
        flags: pattern::flags(&flags)?,
        count: usize::try_from(count).unwrap_or(0),
        template: if backslash_literal { Template::literal(&repl) } else { Template::parse(&repl)? },
        add: add.map(|place| (place, missing)),
        backup: suffix(&backup),
        dry_run,
    };
    ctx.blocking(move || {
        if ignore_if_missing && !Path::new(&expand_user(&path)).exists() {
            return Ok(Value::Bool(false));
        }
        let text = Text::open(&path)?;
        if search_only {
            return order.found_in(&text).map(Value::Bool);
        }
        let difference = order.carry_out(&text)?;
        Ok(if show_changes { Value::from(difference) } else { Value::Bool(!difference.is_empty()) })
    })
    .await?
}

fn refuse_encoding(encoding: Option<&str>) -> Result<()> {
    match encoding.map(|name| name.to_lowercase().replace('_', "-")) {
        None => Ok(()),
        Some(name) if ["utf-8", "utf8", "ascii", "us-ascii"].contains(&name.as_str()) => Ok(()),
        Some(name) => Err(Error::execution(format!("not supported: the encoding '{name}'"))),
    }
}

enum Place {
    Beginning,
    End,
}

/// What is to be replaced, and how.
struct Replacement {
    pattern: String,
    flags: i64,
    count: usize,
    template: Template,
    /// Where to put what if nothing is found.
    add: Option<(Place, String)>,
    backup: Option<String>,
    dry_run: bool,
}

impl Replacement {
    fn found_in(&self, text: &Text) -> Result<bool> {
        pattern::is_match(&pattern::compile(&self.pattern, self.flags)?, &text.content)
    }

    fn carry_out(&self, text: &Text) -> Result<String> {
        let regex = pattern::compile(&self.pattern, self.flags)?;
        let (mut content, found) = pattern::replace(&regex, &self.template, &text.content, self.count)?;
        if let Some((place, missing)) = self.add.as_ref().filter(|_| found == 0)
            && !self.stands_already(missing, text)?
        {
            content = added(&content, place, missing);
        }
        if content != text.content && !self.dry_run {
            text.store(&content, self.backup.as_deref())?;
        }
        let new: Vec<&str> = content.split_inclusive('\n').collect();
        Ok(difflib::unified(&text.lines(), &new))
    }

    /// Says whether the line to be added is there.
    fn stands_already(&self, line: &str, text: &Text) -> Result<bool> {
        let whole = format!("^{}($|(?=\r\n))", fancy_regex::escape(line));
        pattern::is_match(&pattern::compile(&whole, self.flags)?, &text.content)
    }
}

fn added(content: &str, place: &Place, line: &str) -> String {
    match place {
        Place::Beginning => format!("{line}\n{content}"),
        Place::End if content.is_empty() || content.ends_with('\n') => format!("{content}{line}\n"),
        Place::End => format!("{content}\n{line}\n"),
    }
}

/// Says whether a regular expression matches in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.search /etc/crontab 'mymaintenance.sh'
#[function]
pub async fn search(
    ctx: &Context,
    path: String,
    pattern: String,
    #[default(8)] flags: Value,
    #[default(1)] bufsize: Value,
    #[default(false)] ignore_if_missing: bool,
    #[default(false)] multiline: bool,
) -> Result<bool> {
    let _ = bufsize;
    let flags = pattern::flags(&flags)? | if multiline { pattern::MULTILINE } else { 0 };
    ctx.blocking(move || {
        if ignore_if_missing && !Path::new(&expand_user(&path)).exists() {
            return Ok(false);
        }
        let text = Text::open(&path)?;
        pattern::is_match(&pattern::compile(&pattern, flags)?, &text.content)
    })
    .await?
}

/// Replaces text with the program ``sed`` and returns what ``cmd.run_all`` would. Slashes are escaped.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.sed /etc/httpd/httpd.conf 'LogLevel warn' 'LogLevel info'
#[function]
pub async fn sed(
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
    let script = format!("{}{negate}s/{}/{}/{flags}", sed_limit(&escaped(&limit)), escaped(&before), escaped(&after));
    let mut words = vec!["sed".to_owned(), format!("-i{}", suffix(&backup).unwrap_or_default())];
    words.extend(cmd::words::split(&options).map_err(|error| Error::Other(error.to_string()))?);
    words.extend([script, path]);
    run_all(ctx, &words).await.map(Value::Map)
}

/// Says with the program ``sed`` whether a pattern matches in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.sed_contains /etc/crontab 'mymaintenance.sh'
#[function]
pub async fn sed_contains(
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
    let said: Map = run_all(ctx, &words).await?;
    Ok(said.get("stdout").is_some_and(Value::truthy))
}

fn sed_limit(limit: &str) -> String {
    if limit.is_empty() { String::new() } else { format!("/{limit}/ ") }
}

fn sed_escape(text: &str, all: bool) -> String {
    let quoted = text.replace('\'', "'\"'\"'").replace('/', "\\/");
    if !all {
        return quoted;
    }
    quoted.chars().flat_map(|c| "^.[$()|*+?{".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    }

    fn order(pattern: &str, repl: &str, add: Option<(Place, String)>) -> Replacement {
        let template = Template::parse(repl).unwrap();
        Replacement { pattern: pattern.into(), flags: 8, count: 0, template, add, backup: None, dry_run: false }
    }

    #[test]
    fn text_is_replaced_and_a_copy_kept() {
        let (_folder, path) = file("a=1\nb=2\n");
        let mut order = order("^a=(.)$", r"a=\g<1>0", None);
        order.backup = Some(".bak".into());
        let difference = order.carry_out(&Text::open(&path).unwrap()).unwrap();
        assert_eq!(difference, "--- \n+++ \n@@ -1,2 +1,2 @@\n-a=1\n+a=10\n b=2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a=10\nb=2\n");
        assert_eq!(fs::read_to_string(format!("{path}.bak")).unwrap(), "a=1\nb=2\n");
    }

    #[test]
    fn what_is_not_found_is_added_once() {
        let (_folder, path) = file("a=1");
        for _ in 0..2 {
            let order = order("^x=.*$", "x=9", Some((Place::End, "x=9".into())));
            order.carry_out(&Text::open(&path).unwrap()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "a=1\nx=9\n");
        }
        let order = order("^y=.*$", "y", Some((Place::Beginning, "y".into())));
        order.carry_out(&Text::open(&path).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "y\na=1\nx=9\n");
    }

    #[test]
    fn binary_files_are_left_alone() {
        let (_folder, path) = file("a\0b");
        let refused = Text::open(&path).err().unwrap().to_string();
        assert!(refused.starts_with("Cannot perform string replacements on a binary file"));
        let missing = Text::open("/no/such/file").err().unwrap().to_string();
        assert_eq!(missing, "File not found: /no/such/file");
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
