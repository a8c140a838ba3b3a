//! `file.line`: one line put in its place, replaced or deleted.

use std::fs;
use std::path::Path;

use exec::{Context, Error, Result, function};
use grains::system::local_time;
use value::Value;

use super::paths::{expand_user, real};
use super::store::{self, Content, Keep};
use super::{difflib, pattern};
use crate::text;

// `re.DOTALL`, which Salt compiles the patterns of this function with.
const DOTALL: i64 = 16;

/// The wanted line and its place.
#[derive(Clone, Debug, Default)]
pub struct LineEdit {
    /// The line.
    pub content: Option<String>,
    /// A pattern for the line to change.
    pub matching: Option<String>,
    /// `insert`, `ensure`, `delete` or `replace`.
    pub mode: String,
    /// `start` or `end`.
    pub location: Option<String>,
    /// A pattern for the line that follows it.
    pub before: Option<String>,
    /// A pattern for the line that precedes it.
    pub after: Option<String>,
    /// Takes over the indentation of the neighbour.
    pub indent: bool,
}

fn wrong<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::execution(reason))
}

/// Returns the lines that match a pattern or hold it as text; `None` when there is no pattern or no line.
fn matching(lines: &[String], regex: Option<&str>) -> Result<Option<Vec<String>>> {
    let Some(regex) = regex.filter(|regex| !regex.is_empty() && !lines.is_empty()) else { return Ok(None) };
    let compiled = pattern::compile(regex, DOTALL).map_err(|error| Error::execution(error.to_string()))?;
    let mut found = Vec::new();
    for line in lines {
        // Also as plain text: users give lines with brackets and dots, which would not match themselves.
        if pattern::is_match(&compiled, line)? || line.contains(regex) {
            found.push(line.clone());
        }
    }
    Ok(Some(found))
}

/// Returns the place of the only line that matches a condition.
fn only(lines: &[String], probe: &[String], target: &str) -> Result<usize> {
    let word = match probe.len() {
        1 => "",
        0 => "less than",
        _ => "more than",
    };
    if !word.is_empty() {
        return wrong(format!("Found {word} expected occurrences in \"{target}\" expression"));
    }
    // A line that occurs twice is found at its first place.
    Ok(lines.iter().position(|line| *line == probe[0]).unwrap_or_default())
}

fn end_of(line: &str) -> &str {
    ["\r\n", "\n", "\r"].into_iter().find(|end| line.ends_with(end)).unwrap_or("")
}

fn with_end_of(other: &str, line: &str) -> String {
    let end = Some(end_of(other)).filter(|end| !end.is_empty()).unwrap_or("\n");
    format!("{}{end}", line.trim_end())
}

fn bare(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

impl LineEdit {
    fn indented(&self, like: &str, line: &str) -> String {
        if !self.indent {
            return line.to_owned();
        }
        let blanks = &like[..like.len() - like.trim_start_matches([' ', '\t']).len()];
        format!("{blanks}{}", line.trim_start())
    }

    /// Returns the changed lines.
    ///
    /// # Errors
    /// When the conditions do not lead to one place.
    pub fn apply(&self, mut lines: Vec<String>) -> Result<Vec<String>> {
        if self.mode != "delete" && self.content.is_none() {
            return wrong("Content can only be empty if mode is delete");
        }
        let none = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
        let by_content = none(&self.matching) && self.before.is_none() && self.after.is_none();
        let after = matching(&lines, self.after.as_deref())?;
        let before = matching(&lines, self.before.as_deref())?;
        let meant = if by_content { &self.content } else { &self.matching };
        let meant = matching(&lines, meant.as_deref())?;
        let content = self.content.clone().unwrap_or_default();
        let first = meant.as_ref().and_then(|found| found.first());
        match (self.mode.as_str(), first) {
            ("delete" | "replace", _) if lines.is_empty() => return Ok(lines),
            // Only the first match decides, but every equal line goes.
            ("delete", Some(first)) => lines.retain(|line| line != first),
            ("replace", Some(first)) => {
                if let Some(place) = lines.iter().position(|line| line == first) {
                    lines[place] = self.indented(&lines[place], &content);
                }
            }
            ("insert", _) => self.insert(&mut lines, &content, (before, after))?,
            ("ensure", _) => self.ensure(&mut lines, &content, (before, after))?,
            _ => {}
        }
        Ok(lines)
    }

    fn insert(
        &self,
        lines: &mut Vec<String>,
        content: &str,
        found: (Option<Vec<String>>, Option<Vec<String>>),
    ) -> Result<()> {
        let (before, after) = found;
        let location = self.location.as_deref().filter(|location| !location.is_empty());
        if before.is_none() && after.is_none() && self.location.is_none() {
            return wrong("On insert either \"location\" or \"before/after\" conditions are required.");
        }
        // The location wins over `before` and `after`.
        if let Some(location) = location {
            match (location, lines.last(), lines.first()) {
                ("end", Some(last), _) => lines.push(self.indented(last, content)),
                ("end", None, _) => lines.push(content.to_owned()),
                ("start", _, Some(first)) => lines.insert(0, with_end_of(first, content)),
                ("start", _, None) => *lines = vec![format!("{content}\n")],
                _ => {}
            }
            return Ok(());
        }
        let filled = |found: Option<Vec<String>>| found.filter(|found| !found.is_empty());
        match (filled(before), filled(after)) {
            (Some(before), Some(after)) => {
                let last = only(lines, &before, "before")?;
                // The place is not used here, but Salt requires it to be unique.
                only(lines, &after, "after")?;
                lines.insert(last, self.indented(&lines[last], content));
            }
            (None, Some(after)) => {
                let place = only(lines, &after, "after")?;
                // The line exists already when the neighbour equals it, whatever its end.
                if lines.get(place + 1).is_none_or(|next| bare(next) != bare(content)) {
                    lines.insert(place + 1, self.indented(&lines[place], content));
                }
            }
            (Some(before), None) => {
                let place = only(lines, &before, "before")?;
                // Before the first line stands, as in Salt, the last one.
                let previous = place.checked_sub(1).unwrap_or(lines.len() - 1);
                if bare(&lines[previous]) != bare(content) {
                    lines.insert(place, self.indented(&lines[place], content));
                }
            }
            (None, None) => return wrong("Neither before or after was found in file"),
        }
        Ok(())
    }

    fn ensure(
        &self,
        lines: &mut Vec<String>,
        content: &str,
        found: (Option<Vec<String>>, Option<Vec<String>>),
    ) -> Result<()> {
        let filled = |found: Option<Vec<String>>| found.filter(|found| !found.is_empty());
        match (filled(found.0), filled(found.1)) {
            (Some(before), Some(after)) => {
                let after = only(lines, &after, "after")?;
                let before = only(lines, &before, "before")?;
                if lines.iter().any(|line| line.trim_start() == content) {
                    return Ok(());
                }
                let line = self.indented(&lines[after], content);
                if after + 1 == before {
                    lines.insert(after + 1, line);
                // Exactly one line between them is taken for an older version of the content and replaced.
                } else if after + 2 == before {
                    lines[after + 1] = line;
                } else {
                    return wrong("Found more than one line between boundaries \"before\" and \"after\".");
                }
            }
            (Some(before), None) => {
                let place = only(lines, &before, "before")?;
                let previous = place.checked_sub(1).unwrap_or(lines.len() - 1);
                if place == 0 || bare(&lines[previous]) != bare(content) {
                    lines.insert(place, self.indented(&lines[previous], content));
                }
            }
            (None, Some(after)) => {
                let place = only(lines, &after, "after")?;
                if lines.get(place + 1).is_none_or(|next| bare(next) != bare(content)) {
                    lines.insert(place + 1, self.indented(&lines[place], content));
                }
            }
            (None, None) => {
                return wrong(
                    "Wrong conditions? Unable to ensure line without knowing where to put it before and/or after.",
                );
            }
        }
        Ok(())
    }

    /// Returns the lines of the changed file.
    pub fn rewrite(&self, old: &str) -> Result<Vec<String>> {
        let mut lines: Vec<String> = text::plain_lines(old).into_iter().map(str::to_owned).collect();
        // An empty line at the end lets "append" and "insert behind the last line" work alike; it is taken off again
        // below.
        if lines.last().is_some_and(|last| !end_of(last).is_empty()) {
            lines.push(String::new());
        }
        let mut lines = self.apply(lines)?;
        for place in 0..lines.len().saturating_sub(1) {
            if end_of(&lines[place]).is_empty() {
                // As in Salt, the second line is compared with itself.
                let neighbour = if place > 1 { place - 1 } else { 1 };
                lines[place] = with_end_of(&lines[neighbour].clone(), &lines[place]);
            }
        }
        if lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        Ok(lines)
    }
}

/// Puts a line in its place, replaces or deletes it, and returns the difference.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.line /etc/nsswitch.conf "networks:\tfiles dns" after="hosts:.*?" mode='ensure'
#[function]
pub fn line(
    ctx: &Context,
    path: String,
    #[default(Value::Null)] content: Value,
    #[default(Value::Null)] r#match: Value,
    #[default(Value::Null)] mode: Value,
    #[default(Value::Null)] location: Value,
    #[default(Value::Null)] before: Value,
    #[default(Value::Null)] after: Value,
    #[default(true)] show_changes: bool,
    #[default(false)] backup: Value,
    #[default(false)] quiet: bool,
    #[default(true)] indent: bool,
) -> Result<Value> {
    let path = real(&expand_user(&path));
    if !Path::new(&path).is_file() {
        return match quiet {
            true => Ok(Value::Bool(false)),
            false => wrong(format!("File \"{path}\" does not exists or is not a file.")),
        };
    }
    let text_of = |value: Value| Some(value).filter(|value| !value.is_null()).map(|value| value.to_string());
    let mode = match text_of(mode).map(|mode| mode.to_lowercase()) {
        None => return wrong("Mode was not defined. How to process the file?"),
        Some(mode) if !["insert", "ensure", "delete", "replace"].contains(&mode.as_str()) => {
            return wrong(format!("Unknown mode: \"{mode}\""));
        }
        Some(mode) => mode,
    };
    if mode != "delete" && content.is_null() {
        return wrong("Content can only be empty if mode is \"delete\"");
    }
    // An empty text is kept apart from None here, because Salt tests some of these with `is None`.
    let order = LineEdit {
        content: text_of(content),
        matching: text_of(r#match),
        mode,
        location: text_of(location),
        before: text_of(before),
        after: text_of(after),
        indent,
    };
    let test = ctx.is_test();
    let backup = backup.truthy();
    ctx.blocking(move || change(&path, &order, (show_changes, backup, test)))
}

fn change(path: &str, order: &LineEdit, (show, backup, test): (bool, bool, bool)) -> Result<Value> {
    let bytes = fs::read(path).map_err(|error| super::os_error(&error, path))?;
    let old = text::Text::of(&bytes);
    let before = old.content.clone();
    let lines = order.rewrite(&before)?;
    let new = lines.concat();
    // An unchanged file is neither copied nor written.
    if new == before {
        return Ok(Value::Bool(false));
    }
    if !test {
        if backup {
            keep(path)?;
        }
        let place = Path::new(path);
        store::put(Content::Bytes(&old.bytes(&new)), place, &Keep::default()).map_err(Error::Other)?;
    }
    let shown: Vec<String> = lines;
    let difference =
        difflib::unified(&text::lines_with_ends(&before), &shown.iter().map(String::as_str).collect::<Vec<_>>());
    Ok(if show && !difference.is_empty() { difference.into() } else { Value::Bool(true) })
}

/// Copies the file to its own name with the time appended.
fn keep(path: &str) -> Result<()> {
    let time =
        local_time(None).ok_or_else(|| Error::execution(format!("failed to tell the time for a copy of {path}")))?;
    let stamp = format!(
        "{:04}-{:02}-{:02}-{:02}-{:02}-{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    );
    let file = super::replace::Editable::any(path)?;
    file.copy(&format!("{path}.{stamp}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(mode: &str, content: &str) -> LineEdit {
        LineEdit { content: Some(content.into()), mode: mode.into(), indent: true, ..LineEdit::default() }
    }

    #[test]
    fn lines_find_their_place() {
        let text = |order: LineEdit, old: &str| order.rewrite(old).unwrap().concat();
        let after = |content: &str| LineEdit { after: Some("^a".into()), ..order("ensure", content) };
        let indented = LineEdit { after: Some("a$".into()), ..order("ensure", "x") };
        assert_eq!(text(indented, "\ta\nb\n"), "\ta\n\tx\nb\n");
        assert_eq!(text(after("x"), "a\nb\n"), "a\nx\nb\n");
        assert_eq!(text(after("b"), "a\nb\n"), "a\nb\n");
        assert_eq!(text(LineEdit { location: Some("start".into()), ..order("insert", "x") }, "a\n"), "x\na\n");
        assert_eq!(text(order("delete", "b"), "a\nb\nb\n"), "a\n");
        let replace = LineEdit { matching: Some("b".into()), ..order("replace", "c") };
        assert_eq!(text(replace, "a\n\tb\n"), "a\n\tc\n");
    }

    #[test]
    fn what_leads_nowhere_is_an_error() {
        let twice = LineEdit { after: Some("a".into()), ..order("ensure", "x") };
        let error = twice.rewrite("a\na2\n").unwrap_err().to_string();
        assert_eq!(error, "Found more than expected occurrences in \"after\" expression");
        assert!(order("ensure", "x").rewrite("a\n").is_err());
        assert!(order("insert", "x").rewrite("a\n").is_err());
    }
}
