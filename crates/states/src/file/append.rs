//! `file.append`.

use std::path::Path;

use exec::{Context, KwArgs, Result, VarArgs, function};
use modules::file::difflib;
use modules::file::paths::expand_user;
use modules::file::replace::found;
use modules::file::{content, tree};
use modules::text;
use value::{Value, map};

use super::common::{Sources, check_file, note_diff, parent, read_text, rendered_sources, text_difference, text_list};
use super::touch;
use crate::Ret;

/// Adds text to the end of a file if the file does not contain it.
#[function]
pub fn append(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] text: Value,
    #[default(false)] makedirs: Value,
    #[default(Value::Null)] source: Value,
    #[default(Value::Null)] source_hash: Value,
    #[default("jinja")] template: String,
    #[default(Value::Null)] sources: Value,
    #[default(Value::Null)] source_hashes: Value,
    #[default(Value::Null)] defaults: Value,
    #[default(Value::Null)] context: Value,
    #[default(true)] ignore_whitespace: bool,
    #[default(true)] show_changes: bool,
) -> Result<Ret> {
    let order = TextToAdd { function: "append", text, makedirs, template, defaults, context };
    let sources = Sources { source, source_hash, sources, source_hashes };
    let ready = match order.prepare(ctx, &expand_user(&name), &sources)? {
        Ok(ready) => ready,
        Err(ret) => return Ok(*ret),
    };
    let Ready { name, mut ret, texts } = ready;
    let Some(texts) = texts else { return Ok(ret.fail("No text found to append. Nothing appended")) };
    let before = read_text(&name)?;
    // Read before anything is written, for the difference in the report.
    let before = text::lines(&before);
    let mut lines = Vec::new();
    for chunk in &texts {
        // With `ignore_whitespace: False` Salt hands the text over as a regular expression,
        // unescaped.
        let pattern = if ignore_whitespace { loose_pattern(chunk) } else { chunk.clone() };
        if !found(&name, &pattern, modules::file::pattern::MULTILINE, false)? {
            lines.extend(text::lines(chunk).into_iter().map(str::to_owned));
        }
    }
    if ctx.is_test() {
        if lines.is_empty() {
            return Ok(ret.ok(format!("File {name} is in correct state")));
        }
        let after: Vec<&str> = before.iter().copied().chain(lines.iter().map(String::as_str)).collect();
        // Salt builds the difference from lines without ends here, which is why it looks unlike
        // that of other states.
        note_diff(&mut ret.changes, text_difference(&name, difference(&before, &after), show_changes));
        return Ok(ret.would(format!("File {name} is set to be updated")));
    }
    let comment = if lines.is_empty() {
        format!("File {name} is in correct state")
    } else {
        let count = lines.len();
        let args = KwArgs(map! { "args" => lines });
        content::append(ctx, name.clone(), VarArgs::default(), args)?;
        format!("Appended {count} lines")
    };
    // Read again instead of computed: `file.append` may add a line end to the last line first.
    let after = read_text(&name)?;
    let after = text::lines(&after);
    if before != after {
        note_diff(&mut ret.changes, text_difference(&name, difference(&before, &after), show_changes));
    }
    Ok(ret.ok(comment))
}

/// The difference of lines without their ends; as in Salt its first lines have two.
fn difference(before: &[&str], after: &[&str]) -> String {
    difflib::unified_lines(before, after, "", "").join("\n")
}

/// The common part of `append` and `prepend`: their arguments and the steps before the edit.
pub struct TextToAdd {
    /// The name of the function.
    pub function: &'static str,
    /// The text.
    pub text: Value,
    /// True if directories are made.
    pub makedirs: Value,
    /// The engine for sources.
    pub template: String,
    /// Variables of the template.
    pub defaults: Value,
    /// Variables of the template. They win over `defaults`.
    pub context: Value,
}

/// An existing file and the texts to be added.
pub struct Ready {
    /// The file.
    pub name: String,
    /// The state so far.
    pub ret: Ret,
    /// The texts, or None if none were given.
    pub texts: Option<Vec<String>>,
}

impl TextToAdd {
    /// Makes sure that the file exists and collects the texts, or returns the final result of the
    /// state.
    pub fn prepare(self, ctx: &Context, name: &str, sources: &Sources) -> Result<std::result::Result<Ready, Box<Ret>>> {
        let mut ret = Ret::new(name);
        let failed = |ret: Ret, why: String| Ok(Err(Box::new(ret.fail(why))));
        if name.is_empty() {
            return failed(ret, format!("Must provide name to file.{}", self.function));
        }
        let sources = match sources.unify() {
            Ok(sources) => sources,
            Err(wrong) => return failed(ret, wrong.into()),
        };
        // Salt compares with `is True`, so another truthy value only takes effect in `file.touch`
        // below.
        if self.makedirs == Value::Bool(true) {
            let directory = parent(name);
            if ctx.is_test() {
                ret = ret.would(format!("Directory {directory} is set to be updated"));
            } else if !Path::new(directory).is_dir() {
                // Salt reports the failure in the words of its test mode; they are kept.
                tree::make_parents(name, &Value::Null, &Value::Null, &Value::Null)?;
                if !Path::new(directory).is_dir() {
                    ret.changes = map! { directory => map! { "directory" => "new" } };
                    let comment = format!("The following files will be changed:\n{directory}: directory - new\n");
                    return failed(ret, comment);
                }
            }
        }
        if let Err(wrong) = check_file(name) {
            // A missing file is created, but a relative path is not: `touch` refuses it, too.
            let touched = touch::touch(ctx, name.into(), Value::Null, Value::Null, self.makedirs.truthy())?;
            // In test mode there is no file to compare with, so the state ends with the result of `touch`.
            if ctx.is_test() {
                return Ok(Err(Box::new(touched)));
            }
            if check_file(name).is_err() {
                return failed(ret, wrong);
            }
        }
        let texts = if sources.is_empty() {
            Some(text_list(&self.text))
        } else {
            match rendered_sources(ctx, &sources, &self.template, &self.defaults, &self.context)? {
                Ok(texts) => Some(texts),
                Err(failed) => return Ok(Err(Box::new(failed))),
            }
        };
        Ok(Ok(Ready { name: name.to_owned(), ret, texts }))
    }
}

/// A pattern that matches text with any blanks between its words (Salt's `build_whitespace_split_regex`).
pub fn loose_pattern(chunk: &str) -> String {
    const BLANKS: &str = r"(?:[\s]+)?";
    let lines = text::lines(chunk).into_iter().map(|line| {
        let words: Vec<String> = words(line).iter().map(|word| fancy_regex::escape(word).into_owned()).collect();
        // Blanks may also match nothing, so `a b` in the state finds `ab` in the file. Salt does
        // the same.
        format!("{BLANKS}{}{BLANKS}", words.join(BLANKS))
    });
    format!("(?m)^{}$", lines.collect::<String>())
}

/// Splits as Python's `shlex` with `whitespace_split`, without comments: quotes hold words together and stay. Which
/// characters are quotes depends on those in the text.
fn words(line: &str) -> Vec<String> {
    // Salt makes `shlex` treat only those quote characters as quotes that the line does not hold itself; otherwise a
    // lone apostrophe would be an unclosed quote.
    let quotes = match () {
        () if line.contains(r#"'\""#) => "",
        () if line.contains('\'') => "\"",
        () if line.contains('"') => "'",
        () => "'\"",
    };
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match quote {
            Some(open) => {
                word.push(c);
                if c == open {
                    quote = None;
                }
            }
            None if " \t\r\n".contains(c) => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            None => {
                if quotes.contains(c) {
                    quote = Some(c);
                }
                word.push(c);
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_do_not_count() {
        let pattern = loose_pattern("if [ -z \"$a\" ];  then");
        let regex = modules::file::pattern::compile(&pattern, 8).unwrap();
        assert!(modules::file::pattern::is_match(&regex, "x\n  if [ -z   \"$a\" ]; then\ny").unwrap());
        // Special characters of the text must be escaped, or `$a` would match an end of line.
        assert!(!modules::file::pattern::is_match(&regex, "if [ -z \"$b\" ]; then").unwrap());
    }
}
