//! Which events a reader wants.

use std::str::FromStr;
use std::sync::Arc;

use targeting::{Glob, PyRegex};
use value::{Map, Value};

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

/// The fields of a filter that is told to a daemon.
const PATTERNS: &str = "patterns";
const PREFIX: &str = "prefix";
const JOBS_FROM: &str = "jobs_from";

#[derive(Clone, Debug)]
enum Pattern {
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Find(Box<str>),
    Regex(Arc<PyRegex>),
    Fnmatch(Glob),
    JobsFrom(Box<str>),
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

    /// Events of this job and of those published after it: job ids are times.
    pub fn jobs_from(jid: &str) -> Self {
        Filter(vec![Pattern::JobsFrom(jid.into())])
    }

    /// What to tell a daemon of ours, so that it sends what is wanted only. `None` when only the reader can decide.
    pub(crate) fn to_map(&self) -> Option<Map> {
        let patterns = self.0.iter().map(|pattern| match pattern {
            Pattern::StartsWith(text) => Some(value::map! { PREFIX => &**text }),
            Pattern::JobsFrom(jid) => Some(value::map! { JOBS_FROM => &**jid }),
            _ => None,
        });
        let patterns: Option<Vec<Value>> = patterns.map(|pattern| pattern.map(Value::from)).collect();
        patterns.map(|patterns| value::map! { PATTERNS => patterns })
    }

    /// Reads what [`Filter::to_map`] has written. `None` for anything else.
    pub(crate) fn from_map(map: &Map) -> Option<Self> {
        let patterns = map.get(PATTERNS)?.as_list()?.iter().map(|pattern| {
            let pattern = pattern.as_map()?;
            let starts = pattern.get_str(PREFIX).map(|text| Pattern::StartsWith(text.into()));
            starts.or_else(|| pattern.get_str(JOBS_FROM).map(|jid| Pattern::JobsFrom(jid.into())))
        });
        patterns.collect::<Option<Vec<_>>>().map(Filter)
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
            Pattern::JobsFrom(jid) => {
                let job = tag.strip_prefix("salt/job/").and_then(|rest| rest.split('/').next());
                job.is_some_and(|job| job >= &**jid)
            }
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
    fn a_job_and_those_after_it() {
        let filter = Filter::jobs_from("20240229131415678901");
        assert!(filter.wants("salt/job/20240229131415678901/ret/web1"));
        assert!(filter.wants("salt/job/20240229131415678902/new"));
        assert!(!filter.wants("salt/job/20240229131415678900/ret/web1"));
        assert!(!filter.wants("salt/auth"));
    }

    #[test]
    fn a_filter_is_told_and_read() {
        let told = Filter::prefixes(["a/", "b/"]).or(Filter::jobs_from("2024")).to_map().unwrap();
        let read = Filter::from_map(&told).unwrap();
        assert!(["a/1", "b/1", "salt/job/2024/new"].iter().all(|tag| read.wants(tag)));
        assert!(!read.wants("salt/job/2023/new"));
        let by_regex = Filter::matching("a", MatchType::Regex).unwrap();
        assert!(by_regex.to_map().is_none(), "Python's expressions are not told");
        for nonsense in [Map::new(), value::map! { PATTERNS => vec![Value::from(1)] }] {
            assert!(Filter::from_map(&nonsense).is_none());
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!("contains".parse::<MatchType>().is_err());
        assert!(matches!(Filter::matching("(", MatchType::Regex), Err(InvalidPattern::Regex { .. })));
    }
}
