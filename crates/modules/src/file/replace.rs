//! Replacing what a regular expression matches.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use exec::{Context, Error, Result, function};
use value::Value;

use super::encode::Encoding;
use super::paths::{expand_user, real};
use super::pattern::{self, Template};
use super::store::{self, Content, Keep};
use super::{difflib, os_error};
use crate::text::{self, Text};

/// A text file that is to be changed.
pub struct Editable {
    /// The file, with links resolved.
    pub path: String,
    /// Its text.
    pub text: Text,
    bytes: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
}

impl Editable {
    /// Reads a file that looks like text.
    ///
    /// # Errors
    /// Salt's words for a file that is missing or binary.
    pub fn open(path: &str) -> Result<Self> {
        Self::read(path, true)
    }

    /// Reads any file.
    pub fn any(path: &str) -> Result<Self> {
        Self::read(path, false)
    }

    fn read(path: &str, must_be_text: bool) -> Result<Self> {
        let meta = fs::metadata(path).map_err(|_| Error::invocation(format!("File not found: {path}")))?;
        // A pattern that matches in a program or an image would destroy it.
        if must_be_text && !text::is_text(path) {
            return Err(Error::invocation(format!("Cannot perform string replacements on a binary file: {path}")));
        }
        let bytes = fs::read(path)
            .map_err(|error| Error::execution(format!("Unable to open file '{path}'. Exception: {error}")))?;
        let (mode, owner) = (meta.mode() & 0o7777, (meta.uid(), meta.gid()));
        Ok(Editable { path: path.to_owned(), text: Text::of(&bytes), bytes, mode, owner })
    }

    /// Writes a copy of the file as it was, with its owner and permissions.
    pub fn keep(&self, copy: &str) -> Result<()> {
        self.copy_for(copy, Some(self.owner))
    }

    /// Writes a copy of the file as it was, with its permissions; it belongs to this process.
    pub fn copy(&self, copy: &str) -> Result<()> {
        self.copy_for(copy, None)
    }

    /// Writes the copy. A link in its place is replaced, never followed.
    fn copy_for(&self, copy: &str, owner: Option<(u32, u32)>) -> Result<()> {
        let folder = Path::new(copy).parent().unwrap_or(Path::new("/"));
        // Written beside and renamed: the name of the copy is known in advance, and a link there would be followed.
        let done = tempfile::Builder::new().prefix(".saltern-").tempfile_in(folder).and_then(|mut file| {
            file.write_all(&self.bytes)?;
            if let Some((uid, gid)) = owner {
                // Only root may give files away; as anyone else the copy belongs to who made it.
                let _ = chown(file.path(), Some(uid), Some(gid));
            }
            file.as_file().set_permissions(fs::Permissions::from_mode(self.mode))?;
            file.persist(copy).map(drop).map_err(|error| error.error)
        });
        done.map_err(|error| os_error(&error, copy))
    }

    /// Writes new text; the file keeps its inode.
    pub fn write(&self, content: &str) -> Result<()> {
        self.write_bytes(&self.text.bytes(content))
    }

    fn write_bytes(&self, content: &[u8]) -> Result<()> {
        // Not by a rename, so that hard links and open descriptors still see the file.
        fs::write(&self.path, content).map_err(|error| {
            Error::execution(format!(
                "Unable to write file '{}'. Contents may be truncated. Exception: {error}",
                self.path
            ))
        })
    }

    /// Replaces the file atomically.
    pub fn swap(&self, content: &[u8]) -> Result<()> {
        store::put(Content::Bytes(content), Path::new(&self.path), &Keep::default()).map_err(Error::Other)
    }
}

/// The place for a line that is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Beginning,
    End,
}

/// The arguments of a replacement.
struct Replacement {
    pattern: String,
    repl: String,
    flags: i64,
    count: usize,
    literal: bool,
    add: Option<Place>,
    not_found: Option<String>,
    backup: Option<String>,
    dry_run: bool,
    encoding: Option<Encoding>,
    preserve_inode: bool,
}

/// The result of a replacement.
struct Done {
    difference: String,
    changed: bool,
}

impl Replacement {
    fn open(&self, path: &str) -> Result<(Editable, String)> {
        let file = Editable::read(path, self.encoding.is_none())?;
        let content = match self.encoding {
            Some(encoding) => encoding.decode(&file.bytes)?,
            None => file.text.content.clone(),
        };
        Ok((file, content))
    }

    /// Converts the user's text to the form of the file's.
    fn fit(&self, file: &Editable, text: &str) -> String {
        if self.encoding.is_some() { text.to_owned() } else { file.text.fit(text) }
    }

    fn found_in(&self, path: &str) -> Result<bool> {
        let (file, content) = self.open(path)?;
        pattern::is_match(&pattern::compile(&self.fit(&file, &self.pattern), self.flags)?, &content)
    }

    fn carry_out(&self, given: &str, path: &str) -> Result<Done> {
        let (file, content) = self.open(path)?;
        let regex = pattern::compile(&self.fit(&file, &self.pattern), self.flags)?;
        let repl = self.fit(&file, &self.repl);
        let template = if self.literal { Template::literal(&repl) } else { Template::parse(&repl)? };
        let (new, count) = pattern::replace(&regex, &template, &content, self.count)?;
        let (old, mut lines) = (self.lines(&content), self.lines(&new));
        let mut added = false;
        if let Some(place) = self.add.filter(|_| count == 0)
            && !self.stands_already(&file, &content, &repl)?
        {
            // A replacement with references to groups makes no line: the caller names the content to add.
            let line = self.not_found.as_ref().map_or(repl, |line| self.fit(&file, line));
            add_line(&mut lines, place, &line);
            added = true;
        }
        let new = if added { lines.concat() } else { new };
        let changed = added || new != content;
        if changed && !self.dry_run {
            // An added line is written in one step, as Salt does with its temporary file.
            self.store(&file, given, &new, added)?;
        }
        let difference = difflib::unified(&old, &lines);
        Ok(Done { changed: changed && !difference.is_empty(), difference })
    }

    /// Returns whether the line that would be added is there.
    fn stands_already(&self, file: &Editable, content: &str, repl: &str) -> Result<bool> {
        // The line may stand there already although the pattern does not match it; adding it again on each run must not
        // happen.
        let line = self.not_found.as_ref().filter(|line| !line.is_empty());
        let line = line.map_or_else(|| repl.to_owned(), |line| self.fit(file, line));
        // With MULTILINE the dollar sign matches before a line feed only, so the end of a Windows line is named apart.
        let whole = format!("^{}($|(?=\r\n))", escape(&line));
        pattern::is_match(&pattern::compile(&whole, self.flags)?, content)
    }

    fn store(&self, file: &Editable, given: &str, content: &str, atomic: bool) -> Result<()> {
        if let Some(suffix) = &self.backup {
            file.copy(&format!("{}{suffix}", file.path))?;
            keep_link(given, suffix)?;
        }
        let bytes = match self.encoding {
            Some(encoding) => encoding.encode(content, "strict")?,
            None => file.text.bytes(content),
        };
        // `preserve_inode` keeps the file; otherwise a new one takes its place.
        if atomic || !self.preserve_inode { file.swap(&bytes) } else { file.write_bytes(&bytes) }
    }

    fn lines(&self, content: &str) -> Vec<String> {
        match self.encoding {
            Some(_) => text::lines_with_ends(content).into_iter().map(str::to_owned).collect(),
            None => text::plain_lines(content).into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Escapes what means something in a pattern.
fn escape(text: &str) -> String {
    fancy_regex::escape(text).into_owned()
}

/// If the given path is a link, creates a link to the copy beside it.
fn keep_link(given: &str, suffix: &str) -> Result<()> {
    let given = expand_user(given);
    let Ok(target) = fs::read_link(&given) else { return Ok(()) };
    let (target, link) = (format!("{}{suffix}", target.display()), format!("{given}{suffix}"));
    // An older backup may have left its link.
    if symlink(&target, &link).is_err() {
        let again = fs::remove_file(&link).and_then(|()| symlink(&target, &link));
        again.map_err(|error| {
            Error::execution(format!(
                "Unable create backup symlink '{link}'. Target was '{target}'. Exception: {error}"
            ))
        })?;
    }
    Ok(())
}

/// Adds a text that is not found, and ends it with a line feed.
fn add_line(lines: &mut Vec<String>, place: Place, line: &str) {
    match place {
        Place::Beginning => lines.insert(0, format!("{line}\n")),
        Place::End => {
            if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
                last.push('\n');
            }
            lines.push(format!("{line}\n"));
        }
    }
}

/// Replaces the matches of a regular expression, and returns the difference.
///
/// ``flags`` are those of Python's ``re``, by name or number; by default ``^`` and ``$`` match at lines. A text that is
/// not found can be added at the end or the beginning of the file. With ``dry_run`` nothing is written.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.replace /etc/httpd/httpd.conf pattern='LogLevel warn' repl='LogLevel info'
#[function]
pub fn replace(
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
    // The whole file is read in any case.
    let _ = bufsize;
    let given = path;
    let path = real(&expand_user(&given));
    if !Path::new(&path).exists() {
        return match ignore_if_missing {
            true => Ok(Value::Bool(false)),
            false => Err(Error::invocation(format!("File not found: {path}"))),
        };
    }
    let encoding = encoding.as_deref().map(Encoding::named).transpose()?;
    if encoding.is_none() && !text::is_text(&path) {
        return Err(Error::invocation(format!("Cannot perform string replacements on a binary file: {path}")));
    }
    let add = match (append_if_not_found, prepend_if_not_found) {
        // Salt refuses what could not be meant together.
        (true, _) | (_, true) if search_only => {
            return Err(Error::invocation("search_only cannot be used with append/prepend_if_not_found"));
        }
        (true, true) => return Err(Error::invocation("Only one of append and prepend_if_not_found is permitted")),
        (true, false) => Some(Place::End),
        (false, true) => Some(Place::Beginning),
        (false, false) => None,
    };
    let order = Replacement {
        pattern,
        repl: repl.to_string(),
        flags: pattern::flags(&flags)?,
        count: usize::try_from(count).unwrap_or(0),
        literal: backslash_literal,
        add,
        not_found: Some(not_found_content).filter(|line| !line.is_null()).map(|line| line.to_string()),
        backup: backup.truthy().then(|| backup.to_string()),
        dry_run,
        encoding,
        preserve_inode,
    };
    ctx.blocking(move || {
        if search_only {
            return order.found_in(&path).map(Value::Bool);
        }
        let done = order.carry_out(&given, &path)?;
        Ok(if show_changes { Value::from(done.difference) } else { Value::Bool(done.changed) })
    })
}

/// Returns whether a regular expression matches in a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.search /etc/crontab 'mymaintenance.sh'
#[function]
pub fn search(
    ctx: &Context,
    path: String,
    pattern: String,
    #[default(8)] flags: Value,
    #[default(1)] bufsize: Value,
    #[default(false)] ignore_if_missing: bool,
    #[default(false)] multiline: bool,
) -> Result<bool> {
    let _ = bufsize;
    // The argument adds to the flags, whose default has it already.
    let flags = pattern::flags(&flags)? | if multiline { pattern::MULTILINE } else { 0 };
    ctx.blocking(move || found(&path, &pattern, flags, ignore_if_missing))
}

/// Returns whether a pattern matches in a text file.
pub fn found(path: &str, pattern: &str, flags: i64, ignore_if_missing: bool) -> Result<bool> {
    let path = real(&expand_user(path));
    if ignore_if_missing && !Path::new(&path).exists() {
        return Ok(false);
    }
    let file = Editable::open(&path)?;
    pattern::is_match(&pattern::compile(&file.text.fit(pattern), flags)?, &file.text.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x").to_str().unwrap().to_owned();
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn order(pattern: &str, repl: &str, add: Option<Place>) -> Replacement {
        Replacement {
            pattern: pattern.into(),
            repl: repl.into(),
            flags: 8,
            count: 0,
            literal: false,
            add,
            not_found: None,
            backup: None,
            dry_run: false,
            encoding: None,
            preserve_inode: true,
        }
    }

    #[test]
    fn text_is_replaced_and_a_copy_kept() {
        let (_folder, path) = file(b"a=1\nb=2\n");
        let order = Replacement { backup: Some(".bak".into()), ..order("^a=(.)$", r"a=\g<1>0", None) };
        let done = order.carry_out(&path, &path).unwrap();
        assert_eq!(done.difference, "--- \n+++ \n@@ -1,2 +1,2 @@\n-a=1\n+a=10\n b=2\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a=10\nb=2\n");
        assert_eq!(fs::read_to_string(format!("{path}.bak")).unwrap(), "a=1\nb=2\n");
    }

    #[test]
    fn what_is_not_found_is_added_once() {
        let (_folder, path) = file(b"a=1");
        for _ in 0..2 {
            order("^x=.*$", "x=9", Some(Place::End)).carry_out(&path, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "a=1\nx=9\n");
        }
        order("^y=.*$", "y", Some(Place::Beginning)).carry_out(&path, &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "y\na=1\nx=9\n");
    }

    #[test]
    fn a_link_in_the_place_of_the_copy_is_not_followed() {
        let (folder, path) = file(b"a=1\n");
        let other = folder.path().join("other");
        fs::write(&other, "secret").unwrap();
        // Any user who may write to the directory could plant such a link to have another file overwritten.
        symlink(&other, format!("{path}.bak")).unwrap();
        let order = Replacement { backup: Some(".bak".into()), ..order("1", "2", None) };
        order.carry_out(&path, &path).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "secret");
        assert_eq!(fs::read_to_string(format!("{path}.bak")).unwrap(), "a=1\n");
    }

    #[test]
    fn other_encodings_stay() {
        // Latin-1, which is not valid UTF-8.
        let (_folder, path) = file(b"caf\xe9=1\n");
        order("=1", "=2", None).carry_out(&path, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"caf\xe9=2\n");
    }

    #[test]
    fn binary_files_are_left_alone() {
        let (_folder, path) = file(b"a\0b");
        let refused = Editable::open(&path).err().unwrap().to_string();
        assert!(refused.starts_with("Cannot perform string replacements on a binary file"));
        let missing = Editable::open("/no/such/file").err().unwrap().to_string();
        assert_eq!(missing, "File not found: /no/such/file");
    }
}
