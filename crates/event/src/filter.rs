//! Event filters.

use std::str::FromStr;
use std::sync::Arc;

use targeting::{Glob, PyRegex};

/// How a pattern is matched against tags (Salt's `event_match_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchType {
    /// The tag begins with the pattern.
    #[default]
    StartsWith,
    /// The tag ends with the pattern.
    EndsWith,
    /// The tag contains the pattern.
    Find,
    /// The regular expression matches from the beginning of the tag.
    Regex,
    /// The shell glob matches the whole tag.
    Fnmatch,
}

/// An invalid pattern or match type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// The name of a match type is unknown.
    #[error("{0:?} is no way to match event tags (startswith, endswith, find, regex, fnmatch)")]
    MatchType(String),
    /// The regular expression cannot be read.
    #[error("invalid event tag pattern {pattern:?}: {reason}")]
    Regex {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
}

/// The events that a reader wants, by tag alone: one of the patterns must match.
#[derive(Clone, Debug)]
pub struct Filter(Vec<Pattern>);

#[derive(Clone, Debug)]
enum Pattern {
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Find(Box<str>),
    Regex(Arc<PyRegex>),
    Fnmatch(Glob),
}

impl FromStr for MatchType {
    type Err = InvalidPattern;

    /// Parses Salt's names: `startswith`, `endswith`, `find`, `regex`, `fnmatch`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "startswith" => MatchType::StartsWith,
            "endswith" => MatchType::EndsWith,
            "find" => MatchType::Find,
            "regex" => MatchType::Regex,
            "fnmatch" => MatchType::Fnmatch,
            other => return Err(InvalidPattern::MatchType(other.to_owned())),
        })
    }
}

impl Filter {
    /// Matches every event.
    pub fn all() -> Self {
        Filter::prefix("")
    }

    /// Matches no event; add patterns to it.
    pub fn none() -> Self {
        Filter(Vec::new())
    }

    /// Matches events whose tag begins with a prefix.
    pub fn prefix(text: &str) -> Self {
        Filter(vec![Pattern::StartsWith(text.into())])
    }

    /// Matches events whose tag begins with one of several prefixes.
    pub fn prefixes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Filter(texts.into_iter().map(|text| Pattern::StartsWith(text.into())).collect())
    }

    /// Matches events whose tag matches a pattern.
    pub fn matching(pattern: &str, how: MatchType) -> Result<Self, InvalidPattern> {
        Ok(Filter(vec![Pattern::new(pattern, how)?]))
    }

    /// Also matches the events of another filter.
    pub fn or(mut self, other: Filter) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns whether events with this tag match.
    pub fn wants(&self, tag: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(tag))
    }
}

impl Pattern {
    fn new(pattern: &str, how: MatchType) -> Result<Self, InvalidPattern> {
        Ok(match how {
            MatchType::StartsWith => Pattern::StartsWith(pattern.into()),
            MatchType::EndsWith => Pattern::EndsWith(pattern.into()),
            MatchType::Find => Pattern::Find(pattern.into()),
            MatchType::Fnmatch => Pattern::Fnmatch(Glob::new(pattern)),
            MatchType::Regex => {
                // Salt puts the anchor in front without a group: in `a|b` only the first branch is anchored.
                let regex = PyRegex::search(&format!("^{pattern}")).map_err(|error| InvalidPattern::Regex {
                    pattern: pattern.to_owned(),
                    reason: error.to_string(),
                })?;
                Pattern::Regex(Arc::new(regex))
            }
        })
    }

    fn matches(&self, tag: &str) -> bool {
        match self {
            Pattern::StartsWith(text) => tag.starts_with(&**text),
            Pattern::EndsWith(text) => tag.ends_with(&**text),
            Pattern::Find(text) => tag.contains(&**text),
            Pattern::Regex(regex) => regex.is_match(tag),
            Pattern::Fnmatch(glob) => glob.matches(tag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_match_type() {
        let tag = "salt/job/20240229131415678901/ret/web1";
        let cases = [
            ("startswith", "salt/job/", true),
            ("startswith", "job/", false),
            ("endswith", "/web1", true),
            ("endswith", "/web", false),
            ("find", "/ret/", true),
            ("find", "/new", false),
            ("regex", r"salt/job/\d{20}/ret", true),
            ("regex", "ret/web1", false),
            ("fnmatch", "salt/job/*/ret/web[12]", true),
            ("fnmatch", "salt/job/*/ret", false),
        ];
        for (how, pattern, expected) in cases {
            let filter = Filter::matching(pattern, how.parse().unwrap()).unwrap();
            assert_eq!(filter.wants(tag), expected, "{how} {pattern}");
        }
    }

    #[test]
    fn filters_can_be_combined() {
        let filter = Filter::prefix("a/").or(Filter::prefixes(["b/", "c/"]));
        assert!(["a/1", "b/1", "c/1"].iter().all(|tag| filter.wants(tag)));
        assert!(!filter.wants("d/1"));
        assert!(!Filter::none().wants(""));
        assert!(Filter::all().wants("anything"));
    }

    #[test]
    fn invalid_filters_are_refused() {
        assert!("contains".parse::<MatchType>().is_err());
        assert!(matches!(Filter::matching("(", MatchType::Regex), Err(InvalidPattern::Regex { .. })));
    }
}
