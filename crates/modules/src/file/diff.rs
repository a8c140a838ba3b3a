//! The differences between two files.

use std::fs;
use std::path::{Path, PathBuf};

use exec::{Context, Error, Result, function};
use value::{Value, list};

use super::difflib;
use crate::fileclient::Web;
use crate::text;
use crate::util;

/// The differences to ignore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    /// The order of lines.
    pub ordering: bool,
    /// Blanks around lines.
    pub whitespace: bool,
    /// Lines that begin with one of these signs are ignored.
    pub comments: Vec<String>,
    /// Set when any of the arguments was given, even comment characters of a wrong type.
    pub asked: bool,
}

impl Ignore {
    /// Reads the three arguments.
    pub fn of(ordering: bool, whitespace: bool, comments: &Value) -> Self {
        let list = match comments {
            Value::Str(one) => vec![one.clone()],
            Value::List(many) => many.iter().map(Value::to_string).collect(),
            Value::Null => Vec::new(),
            _ => {
                tracing::warn!("ignore_comment_characters must be set to a string or list");
                Vec::new()
            }
        };
        Ignore { ordering, whitespace, comments: list, asked: ordering || whitespace || comments.truthy() }
    }

    /// Returns whether anything is to be ignored.
    pub fn any(&self) -> bool {
        self.asked
    }

    /// Returns whether removed and added lines differ in more than what is ignored.
    fn counts(&self, difference: &[String]) -> bool {
        let (mut added, mut gone) = (Vec::new(), Vec::new());
        for line in difference.iter().filter(|line| !line.starts_with("+++") && !line.starts_with("---")) {
            let Some(sign) = line.chars().next().filter(|sign| "+-".contains(*sign)) else { continue };
            let mut rest = &line[1..];
            for mark in &self.comments {
                // Everything behind the sign is cut off, even within quotes, as in Salt.
                rest = rest.find(mark.as_str()).map_or(rest, |place| &rest[..place]);
            }
            if self.whitespace {
                rest = rest.trim();
            }
            // A line that was only a comment counts for nothing.
            if !rest.is_empty() {
                if sign == '+' { &mut added } else { &mut gone }.push(rest.to_owned());
            }
        }
        // Sorted, so that lines that only moved cancel out: in Salt the other two options imply this one.
        added.sort();
        gone.sort();
        added != gone
    }
}

/// The differences between two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The difference, or a placeholder; empty if there is none.
    pub text: String,
    /// Set when it counts, after everything ignored is left out.
    pub counts: bool,
}

/// The format of a difference.
#[derive(Clone, Debug, Default)]
pub struct Show {
    /// Names of both sides.
    pub names: Option<(String, String)>,
    /// The content is not to be shown.
    pub hidden: bool,
    /// The content may be a secret of a template.
    pub template: bool,
    /// The differences to ignore.
    pub ignore: Ignore,
}

/// Returns whether the contents of templates must not be shown.
pub fn is_obfuscated(ctx: &Context) -> bool {
    util::config_get(ctx, "obfuscate_templates").is_some_and(|value| value.truthy())
}

/// Compares the contents of two files.
pub fn of_contents(ctx: &Context, old: &[u8], new: &[u8], show: &Show) -> Found {
    if old == new {
        return Found::default();
    }
    let plain = |text: &str| Found { text: text.to_owned(), counts: false };
    // The option is there because pillar data in templates may be secret.
    if show.template && is_obfuscated(ctx) {
        return plain("<Obfuscated Template>");
    }
    if show.hidden {
        return plain("<show_changes=False>");
    }
    // Salt examines the same number of bytes.
    let sample = |bytes: &[u8]| text::is_binary(&bytes[..bytes.len().min(512)]);
    if let Some(word) = binary_word(sample(old), sample(new)) {
        return plain(word);
    }
    let (old, new) = (text::decoded_lines(old), text::decoded_lines(new));
    let (name_old, name_new) = show.names.as_ref().map_or(("", ""), |(old, new)| (old.as_str(), new.as_str()));
    let lines = difflib::unified_lines(&old, &new, name_old, name_new);
    Found { counts: show.ignore.counts(&lines), text: lines.concat() }
}

/// Returns the placeholder for the difference of binary files.
fn binary_word(old: bool, new: bool) -> Option<&'static str> {
    match (old, new) {
        (true, true) => Some("Replace binary file"),
        (true, false) => Some("Replace binary file with text file"),
        (false, true) => Some("Replace text file with binary file"),
        (false, false) => None,
    }
}

/// Reads a file that is to be compared.
pub fn content(path: &Path) -> Result<Vec<u8>> {
    let reason = |error: std::io::Error| {
        let number = error.raw_os_error();
        let reason = number.map_or_else(|| error.to_string(), |number| nix::Error::from_raw(number).desc().to_owned());
        Error::execution(format!("Failed to read {}: {reason}", path.display()))
    };
    fs::read(path).map_err(reason)
}

/// Compares the contents of two files without loading them into memory.
fn same_bytes(old: &Path, new: &Path) -> Result<bool> {
    let size = |path: &Path| fs::metadata(path).map(|meta| meta.len()).ok();
    // Cheaper than two checksums.
    if size(old) != size(new) {
        return Ok(false);
    }
    let sum = |path: &Path| super::hash::of_file(&path.to_string_lossy(), "sha256");
    Ok(sum(old)? == sum(new)?)
}

/// Compares two files of this machine.
pub fn of_files(ctx: &Context, old: &Path, new: &Path, show: &Show) -> Result<Found> {
    let is_text = |path: &Path| text::is_text(&path.to_string_lossy());
    let readable = old.is_file() && new.is_file();
    // A binary file may be large and need not be read: only whether it differs counts.
    if let Some(word) = binary_word(!is_text(old), !is_text(new)).filter(|_| readable) {
        if same_bytes(old, new)? {
            return Ok(Found::default());
        }
        let shown = match () {
            () if show.template && is_obfuscated(ctx) => "<Obfuscated Template>",
            () if show.hidden => "<show_changes=False>",
            () => word,
        };
        return Ok(Found { text: shown.to_owned(), counts: false });
    }
    Ok(of_contents(ctx, &content(old)?, &content(new)?, show))
}

/// Returns the difference of two files, which may be files of the master.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_diff /home/fred/.vimrc salt://users/fred/.vimrc
#[function]
pub fn get_diff(
    ctx: &Context,
    file1: String,
    file2: String,
    #[default("base")] saltenv: String,
    #[default(true)] show_filenames: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] template: bool,
    source_hash_file1: Option<String>,
    source_hash_file2: Option<String>,
    #[default(false)] ignore_ordering: bool,
    #[default(false)] ignore_whitespace: bool,
    #[default(Value::Null)] ignore_comment_characters: Value,
) -> Result<Value> {
    let mut places: Vec<PathBuf> = Vec::new();
    let mut wrong = Vec::new();
    for (file, hash) in [(&file1, &source_hash_file1), (&file2, &source_hash_file2)] {
        match crate::fileclient::cache_hashed(ctx, file, &saltenv, hash.as_deref(), Web::default()) {
            Ok(Some(place)) => places.push(place),
            Ok(None) => wrong.push(format!("File {file} not found")),
            // Both files are tried, so that one message names everything that is missing.
            Err(error) => wrong.push(error.to_string()),
        }
    }
    let [old, new] = &places[..] else {
        let wrong: Value = wrong.into();
        let info = exec::nested(&wrong);
        return Err(Error::execution(format!("Failed to cache one or more files. Additional info follows:\n\n{info}")));
    };
    let named = |path: &PathBuf| path.to_string_lossy().into_owned();
    let ignore = Ignore::of(ignore_ordering, ignore_whitespace, &ignore_comment_characters);
    let any = ignore.any();
    let names = show_filenames.then(|| (named(old), named(new)));
    let found = of_files(ctx, old, new, &Show { names, hidden: !show_changes, template, ignore })?;
    Ok(if any { list![found.counts, found.text] } else { found.text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(old: &[u8], new: &[u8], ignore: Ignore) -> Found {
        let (ctx, _) = exec::testing::context(&[], value::map! {}, value::map! {}, value::map! {});
        of_contents(&ctx, old, new, &Show { ignore, ..Show::default() })
    }

    #[test]
    fn kinds_of_content_are_named() {
        assert_eq!(found(b"a\0", b"b", Ignore::default()).text, "Replace binary file with text file");
        assert_eq!(found(b"a", b"b\0", Ignore::default()).text, "Replace text file with binary file");
        assert_eq!(found(b"a\n", b"b\n", Ignore::default()).text, "--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(found(b"a", b"a", Ignore::default()).text, "");
    }

    #[test]
    fn what_is_ignored_does_not_count() {
        let ordering = Ignore::of(true, false, &Value::Null);
        assert!(!found(b"a\nb\n", b"b\na\n", ordering.clone()).counts);
        assert!(found(b"a\nb\n", b"b\nc\n", ordering).counts);
        let comments = Ignore::of(false, true, &"#".into());
        assert!(!found(b"a # x\n", b" a\n", comments).counts);
    }
}
