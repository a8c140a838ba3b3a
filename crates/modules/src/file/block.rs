//! `file.blockreplace`: what stands between two marks.

use std::fs;
use std::path::Path;

use exec::{Context, Error, Result, function};
use value::Value;

use super::encode::Encoding;
use super::paths::expand_user;
use super::replace::Editable;
use super::{difflib, pattern};
use crate::text;

/// The place for a missing block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    Refuse,
    Append,
    Prepend,
    Before(String),
    After(String),
}

/// A block: its marks, its content, and what to do when it is missing.
struct Block {
    start: String,
    end: String,
    content: String,
    newline: bool,
    missing: Missing,
}

impl Block {
    /// Adds the content and the line that ends the block.
    fn write(&self, out: &mut Vec<String>, linesep: &str, end_line: &str) {
        let end_line = format!("{}{linesep}", end_line.trim_end_matches(['\r', '\n']));
        // The lines take the ends of the file, whatever ends the caller's text has.
        let content = self.content.replace("\r\n", "\n");
        let mut lines: Vec<&str> = content.split('\n').collect();
        let last = lines.pop().unwrap_or_default();
        out.extend(lines.into_iter().map(|line| format!("{line}{linesep}")));
        if self.newline {
            out.extend([format!("{last}{linesep}"), end_line]);
        } else {
            out.push(format!("{last}{end_line}"));
        }
    }

    fn whole(&self, linesep: &str) -> Vec<String> {
        let mut out = vec![format!("{}{linesep}", self.start)];
        self.write(&mut out, linesep, &self.end);
        out
    }

    /// Returns the lines with the block replaced or added.
    fn apply(&self, old: &[&str]) -> Result<Vec<String>> {
        // The first line decides, as in Salt.
        let linesep = if old.first().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
        let (mut new, mut inside, mut found) = (Vec::new(), false, false);
        for line in old {
            if line.contains(&self.start) {
                inside = true;
            // Without an end mark the rest of the file would be taken for the block and lost.
            } else if inside {
                if let Some(place) = line.find(&self.end) {
                    (inside, found) = (false, true);
                    // The text behind the end mark on its line is kept; the text before it belongs to the block.
                    self.write(&mut new, linesep, &line[place..]);
                }
                continue;
            }
            new.push((*line).to_owned());
        }
        if inside {
            return Err(Error::execution("Unterminated marked block. End of file reached before marker_end."));
        }
        if !found && !self.add(old, &mut new, linesep)? {
            return Err(Error::execution("Cannot edit marked block. Markers were not found in file."));
        }
        Ok(new)
    }

    /// Adds the block that is missing; returns whether there was a place for it.
    fn add(&self, old: &[&str], new: &mut Vec<String>, linesep: &str) -> Result<bool> {
        // Only when the block is missing: an existing one is never moved.
        let (regex, behind) = match &self.missing {
            Missing::Refuse => return Ok(false),
            Missing::Prepend => {
                new.splice(..0, self.whole(linesep));
                return Ok(true);
            }
            Missing::Append => {
                if let Some(last) = new.last_mut().filter(|last| !last.ends_with(linesep)) {
                    last.push_str(linesep);
                }
                new.extend(self.whole(linesep));
                return Ok(true);
            }
            Missing::Before(regex) => (regex, 0),
            Missing::After(regex) => (regex, 1),
        };
        let compiled = pattern::compile(regex, 0)?;
        // The first line that matches counts.
        for (place, line) in old.iter().enumerate() {
            if pattern::is_match(&compiled, line)? {
                new.splice(place + behind..place + behind, self.whole(linesep));
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Detects the encoding of a file by its byte order mark, or by its first bytes.
fn encoding_of(bytes: &[u8]) -> Option<Encoding> {
    let marks: [(&[u8], Encoding); 5] = [
        // UTF-32 before UTF-16: its little-endian mark begins with the other's.
        (&[0, 0, 0xfe, 0xff], Encoding::Utf32 { mark: false, big: true }),
        (&[0xff, 0xfe, 0, 0], Encoding::Utf32 { mark: false, big: false }),
        (&[0xfe, 0xff], Encoding::Utf16 { mark: false, big: true }),
        (&[0xff, 0xfe], Encoding::Utf16 { mark: false, big: false }),
        (&[0xef, 0xbb, 0xbf], Encoding::Utf8 { mark: false }),
    ];
    // Salt examines the same amount of the file.
    let sample = &bytes[..bytes.len().min(2048)];
    let marked = marks.iter().find(|(mark, _)| sample.starts_with(mark)).map(|(_, encoding)| *encoding);
    marked.or_else(|| std::str::from_utf8(sample).is_ok().then_some(Encoding::Utf8 { mark: false }))
}

/// Replaces the text between two marks, and returns the difference.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.blockreplace /etc/hosts '#-- start managed zone foobar : DO NOT EDIT --' '#-- end managed zone foobar --' $'10.0.1.1 foo.foobar\n10.0.1.2 bar.foobar' True
#[function]
pub fn blockreplace(
    ctx: &Context,
    path: String,
    #[default("#-- start managed zone --")] marker_start: String,
    #[default("#-- end managed zone --")] marker_end: String,
    #[default("")] content: Value,
    #[default(false)] append_if_not_found: bool,
    #[default(false)] prepend_if_not_found: bool,
    #[default(".bak")] backup: Value,
    #[default(false)] dry_run: bool,
    #[default(true)] show_changes: bool,
    #[default(false)] append_newline: Value,
    #[default(Value::Null)] insert_before_match: Value,
    #[default(Value::Null)] insert_after_match: Value,
) -> Result<Value> {
    let given = [append_if_not_found, prepend_if_not_found, insert_before_match.truthy(), insert_after_match.truthy()];
    if given.iter().filter(|given| **given).count() > 1 {
        return Err(Error::invocation(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match is \
             permitted",
        ));
    }
    let path = expand_user(&path);
    if !Path::new(&path).exists() {
        return Err(Error::invocation(format!("File not found: {path}")));
    }
    let missing = match given {
        [true, ..] => Missing::Append,
        [_, true, ..] => Missing::Prepend,
        [_, _, true, _] => Missing::Before(pattern_given(&insert_before_match, "insert_before_match")?),
        [_, _, _, true] => Missing::After(pattern_given(&insert_after_match, "insert_after_match")?),
        _ => Missing::Refuse,
    };
    let content = content.to_string();
    let newline = if append_newline.is_null() { !content.ends_with('\n') } else { append_newline.truthy() };
    let block = Block { start: marker_start, end: marker_end, content, newline, missing };
    let keep = (backup != Value::Bool(false)).then(|| backup.to_string());
    ctx.blocking(move || change(&path, &block, keep.filter(|_| !dry_run), (dry_run, show_changes)))
}

fn pattern_given(value: &Value, name: &str) -> Result<String> {
    let refused = || Error::execution(format!("RegEx expected in {name} parameter."));
    value.as_str().map(str::to_owned).ok_or_else(refused)
}

fn change(path: &str, block: &Block, keep: Option<String>, (dry_run, show): (bool, bool)) -> Result<Value> {
    let bytes = fs::read(path).map_err(|error| Error::execution(format!("Failed to read from {path}: {error}")))?;
    let Some(encoding) = encoding_of(&bytes) else {
        let binary = text::is_binary(&bytes[..bytes.len().min(2048)]);
        return Err(match binary {
            true => Error::invocation(format!("Cannot perform string replacements on a binary file: {path}")),
            false => Error::Other(text::decode_error(&bytes).unwrap_or_default()),
        });
    };
    let content = encoding.decode(&bytes)?;
    let old = text::plain_lines(&content);
    let new = block.apply(&old)?;
    let new: Vec<&str> = new.iter().map(String::as_str).collect();
    let difference = difflib::unified(&old, &new);
    // Nothing is written and no backup is made when nothing changes.
    if !difference.is_empty() && !dry_run {
        let file = Editable::any(path)?;
        if let Some(suffix) = keep {
            file.keep(&format!("{path}{suffix}"))?;
        }
        file.swap(&encoding.encode(&new.concat(), "strict")?)?;
    }
    Ok(if show { difference.into() } else { Value::Bool(!difference.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(content: &str, newline: bool, missing: Missing) -> Block {
        Block { start: "#s".into(), end: "#e".into(), content: content.into(), newline, missing }
    }

    #[test]
    fn what_stands_between_marks_is_replaced() {
        let new = block("x\ny", true, Missing::Refuse).apply(&["a\n", "#s\n", "old\n", "#e z\n", "b\n"]).unwrap();
        assert_eq!(new.concat(), "a\n#s\nx\ny\n#e z\nb\n");
        let crlf = block("x\n", false, Missing::Refuse).apply(&["#s\r\n", "#e\r\n"]).unwrap();
        assert_eq!(crlf.concat(), "#s\r\nx\r\n#e\r\n");
        // Without its end, or without both marks, a block has no place, and nothing may be guessed.
        assert!(block("", true, Missing::Refuse).apply(&["#s\n"]).is_err());
        assert!(block("", true, Missing::Refuse).apply(&["a\n"]).is_err());
    }

    #[test]
    fn a_block_that_is_missing_is_added() {
        let add = |missing: Missing| block("x", true, missing).apply(&["a\n", "b"]).unwrap().concat();
        assert_eq!(add(Missing::Append), "a\nb\n#s\nx\n#e\n");
        assert_eq!(add(Missing::Prepend), "#s\nx\n#e\na\nb");
        assert_eq!(add(Missing::Before("b".into())), "a\n#s\nx\n#e\nb");
        assert_eq!(add(Missing::After("a".into())), "a\n#s\nx\n#e\nb");
    }
}
