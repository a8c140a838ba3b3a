//! Regular expressions as in Python's `re`.
//!
//! A pattern is translated and run by the crate `regex` in linear time. What that crate omits deliberately (look-around, back
//! references, atomic groups) runs on `fancy-regex`. That engine may need very many steps, so they are counted for a request
//! as a whole: see [`Budget`].

mod translate;

use std::sync::OnceLock;

use crate::{Budget, Error};
use translate::{Mode, Translated, translate};

/// The maximum sizes of a compiled program; a pattern beyond the last is refused. Each has the cost per character of a text and
/// the cost of compiling: larger programs are slower on texts that are built for it.
const SIZES: [(usize, u64, u64); 3] = [(16 << 10, 2, 20_000), (128 << 10, 16, 200_000), (SIZE_LIMIT, 128, 20_000_000)];

const SIZE_LIMIT: usize = 4 << 20;

/// How many steps back the second engine may take, before it is retried with a higher limit. Hardly any pattern needs the
/// second limit.
const STEP_LIMITS: [usize; 5] = [256, 1_024, 8_192, 65_536, 1_000_000];

/// A Python regular expression, compiled once.
#[derive(Debug)]
pub struct PyRegex {
    pattern: String,
    anchor: Anchor,
    engine: Engine,
    /// In Python `$` also matches before a final newline, which only the second engine can express.
    before_newline: OnceLock<Option<RetriedPattern>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Free,
}

#[derive(Debug)]
enum Engine {
    Plain { regex: regex::Regex, has_dollar: bool, cost: u64 },
    Fancy(Box<RetriedPattern>),
}

impl PyRegex {
    /// Compiles a pattern that must match from the start of a text, like `re.match`.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::within(pattern, &Budget::default())
    }

    /// Like `new`, for a stranger's pattern: the cost of compiling is taken out of the budget.
    pub(crate) fn within(pattern: &str, budget: &Budget) -> Result<Self, Error> {
        Self::build(pattern, Anchor::Start, budget)
    }

    /// Compiles a pattern that may match anywhere in a text, like `re.search`.
    pub fn search(pattern: &str) -> Result<Self, Error> {
        Self::build(pattern, Anchor::Free, &Budget::default())
    }

    /// Compiles a pattern that must match a whole text as in Salt: `\A` + pattern + `\Z`.
    ///
    /// As in Salt there is no group around the pattern: with `a|b` only the ends are anchored.
    pub fn whole(pattern: &str) -> Result<Self, Error> {
        Self::build(&format!("\\A{pattern}\\Z"), Anchor::Start, &Budget::default())
    }

    /// Returns whether the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        self.is_match_within(text, &Budget::unlimited())
    }

    /// Like `is_match`, for texts and patterns of strangers: no match once the budget is exhausted.
    pub(crate) fn is_match_within(&self, text: &str, budget: &Budget) -> bool {
        match &self.engine {
            // Only a text with a final newline shows a difference between the engines, so the slower one is rarely
            // needed.
            Engine::Plain { has_dollar: true, .. } if text.ends_with('\n') => {
                self.newline_engine().is_some_and(|regex| regex.is_match(text, budget))
            }
            // The constant covers the call itself, so that many short texts are not free.
            Engine::Plain { regex, cost, .. } => budget.spend(cost * (text.len() as u64 + 8)) && regex.is_match(text),
            Engine::Fancy(regex) => regex.is_match(text, budget),
        }
    }

    /// Returns the original pattern.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    fn build(pattern: &str, anchor: Anchor, budget: &Budget) -> Result<Self, Error> {
        let bad = |reason: String| Error::Regex { pattern: pattern.to_owned(), reason };
        let translated = translate(pattern, Mode::Plain).map_err(bad)?;
        let engine = if translated.fancy {
            let translated = translate(pattern, Mode::Fancy).map_err(bad)?;
            if !budget.spend(SIZES[1].2) {
                return Err(Error::TooExpensive);
            }
            Engine::Fancy(Box::new(RetriedPattern::new(anchored(&translated, anchor)).map_err(bad)?))
        } else {
            let (regex, cost) = plain(&anchored(&translated, anchor), budget)?.map_err(bad)?;
            Engine::Plain { regex, has_dollar: translated.has_dollar, cost }
        };
        Ok(PyRegex { pattern: pattern.to_owned(), anchor, engine, before_newline: OnceLock::new() })
    }

    fn newline_engine(&self) -> Option<&RetriedPattern> {
        let make = || RetriedPattern::new(anchored(&translate(&self.pattern, Mode::Fancy).ok()?, self.anchor)).ok();
        self.before_newline.get_or_init(make).as_ref()
    }
}

/// Translates a pattern of Python's `re` to the syntax of `fancy-regex`, for callers that need groups or replacements.
///
/// # Errors
/// What is wrong with the pattern.
pub fn python_pattern(pattern: &str) -> Result<String, String> {
    let Translated { flags, body, .. } = translate(pattern, Mode::Fancy)?;
    Ok(format!("{flags}(?:{body})"))
}

/// A pattern of the second engine, with increasing limits: the engine does not report how many steps it took, only that they
/// did not suffice.
#[derive(Debug)]
struct RetriedPattern {
    pattern: String,
    first: fancy_regex::Regex,
    more: [OnceLock<Option<fancy_regex::Regex>>; STEP_LIMITS.len() - 1],
}

impl RetriedPattern {
    fn new(pattern: String) -> Result<Self, String> {
        let first = fancy(&pattern, STEP_LIMITS[0]).map_err(|error| in_one_line(&error.to_string()))?;
        Ok(RetriedPattern { pattern, first, more: Default::default() })
    }

    fn is_match(&self, text: &str, budget: &Budget) -> bool {
        let length = text.len() as u64;
        // The cost of the first attempt, whose limit is low.
        if !budget.spend(2_000 + 10 * length) {
            return false;
        }
        if let Ok(matches) = self.first.is_match(text) {
            return matches;
        }
        for (regex, patience) in self.more.iter().zip(&STEP_LIMITS[1..]) {
            let Some(regex) = regex.get_or_init(|| fancy(&self.pattern, *patience).ok()) else { return false };
            // Each step back may look through a part of the text.
            if !budget.spend(*patience as u64 * (10 + length / 16)) {
                return false;
            }
            if let Ok(matches) = regex.is_match(text) {
                return matches;
            }
        }
        // "No match" would become a match after a `not`, so the whole budget is spent.
        budget.spend(u64::MAX);
        false
    }
}

fn fancy(pattern: &str, patience: usize) -> Result<fancy_regex::Regex, fancy_regex::Error> {
    let mut builder = fancy_regex::RegexBuilder::new(pattern);
    builder.delegate_size_limit(SIZE_LIMIT).backtrack_limit(patience).build()
}

/// The engine draws the translated pattern; the reason is in the last line.
fn in_one_line(error: &str) -> String {
    let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(error);
    last.trim_start_matches("error: ").to_owned()
}

/// Compiles for the first engine, and returns the cost per character of a text.
fn plain(pattern: &str, budget: &Budget) -> Result<Result<(regex::Regex, u64), String>, Error> {
    for (size, cost, compiling) in SIZES {
        if !budget.spend(compiling) {
            return Err(Error::TooExpensive);
        }
        match regex::RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(regex) => return Ok(Ok((regex, cost))),
            Err(regex::Error::CompiledTooBig(_)) if size < SIZE_LIMIT => {}
            Err(error) => return Ok(Err(in_one_line(&error.to_string()))),
        }
    }
    Ok(Err("too large".into()))
}

fn anchored(translated: &Translated, anchor: Anchor) -> String {
    let Translated { flags, body, .. } = translated;
    // The group keeps the anchor in front of all alternatives of `a|b`.
    let start = if anchor == Anchor::Start { "\\A" } else { "" };
    format!("{flags}{start}(?:{body})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_starts_at_the_start() {
        assert!(PyRegex::new("web").unwrap().is_match("web12"));
        assert!(!PyRegex::new("eb").unwrap().is_match("web12"));
        assert!(PyRegex::search("eb").unwrap().is_match("web12"));
        assert!(!PyRegex::new("a|b").unwrap().is_match("cb"));
    }

    #[test]
    fn a_hostile_pattern_is_refused_or_bounded() {
        assert!(PyRegex::new("((a{1000}){1000}){1000}").is_err());
        assert!(!PyRegex::new("(a+)+$").unwrap().is_match(&("a".repeat(10_000) + "b")));
        let budget = Budget::default();
        let slow = PyRegex::new(r"(?:(a)|(aa))+(?!c)b\1").unwrap();
        assert!(!slow.is_match_within(&"a".repeat(40), &budget) && budget.check().is_err());
        let compiling = Budget::of(SIZES[0].2);
        assert!(PyRegex::within("web[0-9]+", &compiling).is_ok());
        assert_eq!(PyRegex::within("web[0-9]+", &compiling).unwrap_err(), Error::TooExpensive);
        assert!(PyRegex::new(&"(".repeat(5_000)).is_err());
        assert!(PyRegex::new(&("(".repeat(5_000) + &")".repeat(5_000))).is_err());
    }

    #[test]
    fn the_error_names_the_pattern() {
        let error = PyRegex::new("web(").unwrap_err().to_string();
        assert!(error.contains("web("), "{error}");
    }
}
