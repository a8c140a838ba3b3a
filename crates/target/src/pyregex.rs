//! Regular expressions as Python's `re` reads them.
//!
//! A pattern is translated and run by the `regex` crate in linear time. What that crate leaves out on purpose (looking
//! around, references back, atomic groups) runs on `fancy-regex`, which gives up after a bounded number of steps.

mod translate;

use std::sync::OnceLock;

use crate::Error;
use translate::{Mode, Translated, translate};

/// How large a compiled program may get; beyond, the pattern is refused.
const SIZE_LIMIT: usize = 4 << 20;

/// A Python regular expression, compiled once.
#[derive(Debug)]
pub struct PyRegex {
    pattern: String,
    anchor: Anchor,
    engine: Engine,
    /// In Python `$` also stands before a last newline, which only the second engine can say.
    before_newline: OnceLock<Option<fancy_regex::Regex>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Free,
}

#[derive(Debug)]
enum Engine {
    Plain { regex: regex::Regex, has_dollar: bool },
    Fancy(Box<fancy_regex::Regex>),
}

impl PyRegex {
    /// Compiles a pattern that has to match from the start of a text, as `re.match` does.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::build(pattern, Anchor::Start)
    }

    /// Compiles a pattern that may match anywhere in a text, as `re.search` does.
    pub fn search(pattern: &str) -> Result<Self, Error> {
        Self::build(pattern, Anchor::Free)
    }

    /// Compiles a pattern that has to match a whole text the way Salt writes it, `\A` + pattern + `\Z`.
    ///
    /// As in Salt there are no brackets around the pattern: with `a|b` only the ends are anchored.
    pub fn whole(pattern: &str) -> Result<Self, Error> {
        Self::build(&format!("\\A{pattern}\\Z"), Anchor::Start)
    }

    /// Says whether the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Plain { has_dollar: true, .. } if text.ends_with('\n') => {
                self.newline_engine().is_some_and(|regex| regex.is_match(text).unwrap_or(false))
            }
            Engine::Plain { regex, .. } => regex.is_match(text),
            Engine::Fancy(regex) => regex.is_match(text).unwrap_or(false),
        }
    }

    /// Returns the pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    fn build(pattern: &str, anchor: Anchor) -> Result<Self, Error> {
        let bad = |reason: String| Error::Regex { pattern: pattern.to_owned(), reason };
        let translated = translate(pattern, Mode::Plain).map_err(bad)?;
        let engine = if translated.fancy {
            let translated = translate(pattern, Mode::Fancy).map_err(bad)?;
            Engine::Fancy(Box::new(fancy(&translated, anchor).map_err(bad)?))
        } else {
            let regex = regex::RegexBuilder::new(&anchored(&translated, anchor)).size_limit(SIZE_LIMIT).build();
            Engine::Plain {
                regex: regex.map_err(|error| bad(in_one_line(&error.to_string())))?,
                has_dollar: translated.has_dollar,
            }
        };
        Ok(PyRegex { pattern: pattern.to_owned(), anchor, engine, before_newline: OnceLock::new() })
    }

    fn newline_engine(&self) -> Option<&fancy_regex::Regex> {
        let make = || fancy(&translate(&self.pattern, Mode::Fancy).ok()?, self.anchor).ok();
        self.before_newline.get_or_init(make).as_ref()
    }
}

/// Translates a pattern of Python's `re` to the syntax of `fancy-regex`, for callers that want groups or replacements.
///
/// # Errors
/// What is wrong with the pattern.
pub fn python_pattern(pattern: &str) -> Result<String, String> {
    let Translated { flags, body, .. } = translate(pattern, Mode::Fancy)?;
    Ok(format!("{flags}(?:{body})"))
}

fn fancy(translated: &Translated, anchor: Anchor) -> Result<fancy_regex::Regex, String> {
    fancy_regex::RegexBuilder::new(&anchored(translated, anchor))
        .delegate_size_limit(SIZE_LIMIT)
        .build()
        .map_err(|error| in_one_line(&error.to_string()))
}

/// The engine draws the pattern as it was translated; what is wrong stands in the last line.
fn in_one_line(error: &str) -> String {
    let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(error);
    last.trim_start_matches("error: ").to_owned()
}

fn anchored(translated: &Translated, anchor: Anchor) -> String {
    let Translated { flags, body, .. } = translated;
    let start = if anchor == Anchor::Start { "\\A" } else { "" };
    format!("{flags}{start}(?:{body})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_starts_at_the_start_only() {
        assert!(PyRegex::new("web").unwrap().is_match("web12"));
        assert!(!PyRegex::new("eb").unwrap().is_match("web12"));
        assert!(PyRegex::search("eb").unwrap().is_match("web12"));
        assert!(!PyRegex::new("a|b").unwrap().is_match("cb"));
    }

    #[test]
    fn a_hostile_pattern_is_refused_or_bounded() {
        assert!(PyRegex::new("((a{1000}){1000}){1000}").is_err());
        assert!(!PyRegex::new("(a+)+$").unwrap().is_match(&("a".repeat(10_000) + "b")));
        assert!(!PyRegex::new(r"(?=(a+)+b)(a+)+\1c").unwrap().is_match(&"a".repeat(40)));
        assert!(PyRegex::new(&"(".repeat(5_000)).is_err());
        assert!(PyRegex::new(&("(".repeat(5_000) + &")".repeat(5_000))).is_err());
    }

    #[test]
    fn the_error_names_the_pattern() {
        let error = PyRegex::new("web(").unwrap_err().to_string();
        assert!(error.contains("web("), "{error}");
    }
}
