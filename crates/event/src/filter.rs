//! Which events a reader wants.

use std::str::FromStr;
use std::sync::Arc;

use targeting::{Glob, PyRegex};

/// How a pattern is compared with tags (Salt's `event_match_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchType {
    /// The tag begins with the text.
    #[default]
    StartsWith,
    /// The tag ends with the text.
    EndsWith,
    /// The tag contains the text.
    Find,
    /// The beginning of the tag matches the regular expression.
    Regex,
    /// The whole tag matches the shell glob.
    Fnmatch,
}

/// A pattern or a match type that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPattern {
    /// The name of a match type is unknown.
    #[error("{0:?} is no way to match event tags (startswith, endswith, find, regex, fnmatch)")]
    MatchType(String),
    /// The regular expression cannot be read.
    #[error("cannot read event tag pattern {pattern:?}: {reason}")]
    Regex {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Which events a reader wants, decided by the tag alone. Made of patterns, one of which must match.
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

    /// Reads the names Salt uses: `startswith`, `endswith`, `find`, `regex`, `fnmatch`.
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
    /// Every event.
    pub fn all() -> Self {
        Filter::prefix("")
    }

    /// No event at all, to add patterns to.
    pub fn none() -> Self {
        Filter(Vec::new())
    }

    /// Events whose tag begins with a text.
    pub fn prefix(text: &str) -> Self {
        Filter(vec![Pattern::StartsWith(text.into())])
    }

    /// Events whose tag begins with one of some texts.
    pub fn prefixes<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Filter(texts.into_iter().map(|text| Pattern::StartsWith(text.into())).collect())
    }

    /// Events whose tag matches a pattern.
    pub fn matching(pattern: &str, how: MatchType) -> Result<Self, InvalidPattern> {
        Ok(Filter(vec![Pattern::new(pattern, how)?]))
    }

    /// The same, and events another filter wants.
    pub fn or(mut self, other: Filter) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Says whether events with this tag are wanted.
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
    fn each_way_to_match() {
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
    fn filters_add_up() {
        let filter = Filter::prefix("a/").or(Filter::prefixes(["b/", "c/"]));
        assert!(["a/1", "b/1", "c/1"].iter().all(|tag| filter.wants(tag)));
        assert!(!filter.wants("d/1"));
        assert!(!Filter::none().wants(""));
        assert!(Filter::all().wants("anything"));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!("contains".parse::<MatchType>().is_err());
        assert!(matches!(Filter::matching("(", MatchType::Regex), Err(InvalidPattern::Regex { .. })));
    }
}
