//! `file.comment` and `file.uncomment`.

use std::sync::LazyLock;

use exec::{Context, Result, function};
use modules::file::difflib;
use modules::file::paths::expand_user;
use modules::text;
use targeting::python_pattern;
use value::Value;

use super::common::{check_file, note_diff, read_text, start, text_difference};
use crate::Ret;

/// Matches a pattern with its leading flags, `^` and `$`; the second group is the rest without them.
// The state builds patterns around the user's, so anchors of the user would end up in the middle and never match.
static ANCHORS: LazyLock<Option<fancy_regex::Regex>> =
    LazyLock::new(|| fancy_regex::Regex::new(&python_pattern(r"^(\(\?[iLmsux]\))?\^?(.*?)\$?$").ok()?).ok());

fn unanchored(regex: &str) -> String {
    let found = ANCHORS.as_ref().and_then(|anchors| anchors.captures(regex).ok().flatten());
    found.and_then(|found| Some(found.get(2)?.as_str().to_owned())).unwrap_or_else(|| regex.to_owned())
}

fn stands(name: &str, pattern: &str) -> Result<bool> {
    modules::file::replace::found(name, pattern, modules::file::pattern::MULTILINE, false)
}

/// Puts a comment sign before the lines that match a regular expression.
#[function]
pub fn comment(
    ctx: &Context,
    name: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
    #[default(false)] ignore_missing: bool,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = Ret::new(name.as_str());
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.comment"));
    }
    if let Err(wrong) = check_file(&name) {
        return Ok(ret.fail(wrong));
    }
    let bare = unanchored(&regex);
    // `open` skips lines that already start with the comment sign, so that a second run finds
    // nothing to do.
    let (open, closed) = (format!("^(?!\\s*{char})\\s*{bare}"), format!("{char}{bare}"));
    if !stands(&name, &open)? {
        return Ok(match () {
            // Looked for only now: a file may hold the line both ways, and one uncommented line is
            // enough to act.
            () if stands(&name, &closed)? => ret.ok("Pattern already commented"),
            () if ignore_missing => ret.ok("Pattern not found and ignore_missing set to True"),
            () => ret.fail(format!("{bare}: Pattern not found")),
        });
    }
    if ctx.is_test() {
        ret.changes.insert(name.as_str(), "updated");
        return Ok(ret.would(format!("File {name} is set to be updated")));
    }
    let before = read_text(&name)?;
    // This call gets the pattern with its anchors, because it matches against whole lines.
    modules::file::edit::comment_line(ctx, name.clone(), regex, char, true, backup)?;
    let after = read_text(&name)?;
    // The file is searched once more rather than trusted: a pattern that matches only before the
    // edit must fail the state.
    ret.result = Some(stands(&name, &closed)?);
    if before != after {
        let difference = difflib::unified(&text::lines_with_ends(&before), &text::lines_with_ends(&after));
        note_diff(&mut ret.changes, text_difference(&name, difference, true));
    }
    let done = ret.result == Some(true);
    ret.comment = if done { "Commented lines successfully" } else { "Expected commented lines not found" }.into();
    Ok(ret)
}

/// Removes the comment sign from the lines whose rest matches a regular expression.
#[function]
pub fn uncomment(
    ctx: &Context,
    name: String,
    regex: String,
    #[default("#")] char: String,
    #[default(".bak")] backup: Value,
) -> Result<Ret> {
    let name = expand_user(&name);
    let mut ret = start(&name);
    if name.is_empty() {
        return Ok(ret.fail("Must provide name to file.uncomment"));
    }
    if let Err(wrong) = check_file(&name) {
        return Ok(ret.fail(wrong));
    }
    // Salt strips only the leading anchor here, unlike for `comment`. A `$` at the end still works
    // at the end of a pattern.
    let bare = regex.trim_start_matches('^');
    let open = format!("^[ \t]*{bare}");
    if !stands(&name, &format!("{char}[ \t]*{bare}"))? {
        return Ok(match stands(&name, &open)? {
            true => ret.ok("Pattern already uncommented"),
            false => ret.fail(format!("{regex}: Pattern not found")),
        });
    }
    if ctx.is_test() {
        ret.changes.insert(name.as_str(), "updated");
        return Ok(ret.would(format!("File {name} is set to be updated")));
    }
    let before = read_text(&name)?;
    modules::file::edit::comment_line(ctx, name.clone(), regex.clone(), char, false, backup)?;
    let after = read_text(&name)?;
    ret.result = Some(stands(&name, &open)?);
    if before != after {
        let lines = |text: &str| text.split_inclusive('\n').map(str::to_owned).collect::<Vec<_>>();
        let difference = difflib::unified(&lines(&before), &lines(&after));
        note_diff(&mut ret.changes, text_difference(&name, difference, true));
    }
    let done = ret.result == Some(true);
    ret.comment = if done { "Uncommented lines successfully" } else { "Expected uncommented lines not found" }.into();
    Ok(ret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_come_off() {
        assert_eq!(unanchored("^a.b$"), "a.b");
        assert_eq!(unanchored("(?i)^a"), "a");
        assert_eq!(unanchored("a"), "a");
    }
}
