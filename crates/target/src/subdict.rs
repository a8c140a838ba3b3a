//! Matches a path of keys and a pattern against nested data, for grain and pillar targets.
//!
//! `os:Deb*` is tried at every place where a delimiter could separate keys from pattern, the longest path of keys first. Case
//! never counts. In a map the pattern may be a key, match a key, or be a separate path; in a list it may match a
//! member; `*` as the first part looks everywhere below. Inner paths always have the delimiter `:`, whatever the outer one is.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use value::{Map, Value};

use crate::{Budget, DEFAULT_DELIMITER, Glob, PyRegex};

/// How the last part is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// As a shell glob.
    Glob,
    /// As a regular expression from the start.
    Regex,
    /// As a literal string.
    Exact,
}

/// Returns whether the data matches. Use [`SubdictMatcher`] for an expression that is used more than once.
pub fn subdict_match(data: &Map, expression: &str, delimiter: &str, compare: Compare) -> bool {
    SubdictMatcher::new(expression, delimiter, compare).matches(data)
}

/// A parsed path with its pattern.
#[derive(Debug)]
pub struct SubdictMatcher {
    arms: Vec<Arm>,
    /// The rests of the expression after keys were taken from its front, by their offset.
    tails: BTreeMap<usize, Tail>,
}

/// One way to separate keys from pattern.
#[derive(Debug)]
struct Arm {
    keys: Keys,
    /// The offset of the pattern in the expression.
    tail: usize,
}

#[derive(Debug)]
enum Keys {
    /// The first part is `*`: the pattern is searched in all of the data.
    Everything,
    Path(Vec<String>),
}

/// A rest of the expression, as a pattern and as a separate path.
#[derive(Debug)]
struct Tail {
    text: String,
    pattern: Pattern,
    arms: Vec<Arm>,
}

/// The maximum number of keys. All ways to separate a path have to be kept.
// The number of ways grows with the square of the parts, and real paths have fewer than ten.
const PART_LIMIT: usize = 64;

/// `*:` makes a pattern look into all entries of a map.
const WILDCARD: &str = "*:";

impl SubdictMatcher {
    /// Parses an expression. One without the delimiter matches nothing; an empty delimiter means `:`.
    pub fn new(expression: &str, delimiter: &str, compare: Compare) -> Self {
        let delimiter = if delimiter.is_empty() { DEFAULT_DELIMITER } else { delimiter };
        let parts = |delimiter| expression.matches(delimiter).take(PART_LIMIT).count();
        if parts(delimiter).max(parts(DEFAULT_DELIMITER)) == PART_LIMIT {
            return SubdictMatcher { arms: Vec::new(), tails: BTreeMap::new() };
        }
        let arms = arms(expression, 0, delimiter);
        let mut tails = BTreeMap::new();
        let mut open: Vec<usize> = arms.iter().map(|arm| arm.tail).collect();
        while let Some(start) = open.pop() {
            if tails.contains_key(&start) {
                continue;
            }
            let tail = Tail::new(&expression[start..], start, compare);
            open.extend(tail.arms.iter().map(|arm| arm.tail));
            if tail.text.starts_with(WILDCARD) {
                open.push(start + WILDCARD.len());
            }
            tails.insert(start, tail);
        }
        SubdictMatcher { arms, tails }
    }

    /// Returns whether the data matches.
    pub fn matches(&self, data: &Map) -> bool {
        self.matches_within(data, &Budget::default())
    }

    /// Like `matches`, for data and expressions of strangers: no match once the budget is exhausted.
    pub(crate) fn matches_within(&self, data: &Map, budget: &Budget) -> bool {
        Search { tails: &self.tails, budget }.any_arm(&self.arms, Place::Map(data))
    }
}

/// A search in some data. There may be very many paths through data and expression, so the budget limits it.
struct Search<'a> {
    tails: &'a BTreeMap<usize, Tail>,
    budget: &'a Budget,
}

impl Search<'_> {
    fn any_arm(&self, arms: &[Arm], data: Place) -> bool {
        arms.iter().any(|arm| match &arm.keys {
            Keys::Everything => self.below(data, arm.tail),
            Keys::Path(keys) => {
                self.budget.spend(STEPS_PER_KEY * keys.len() as u64)
                    && data.walk(keys).is_some_and(|found| self.below(found.into(), arm.tail))
            }
        })
    }

    /// Searches for the pattern in the value that the keys led to.
    fn below(&self, found: Place, tail: usize) -> bool {
        match found {
            // An empty map matches nothing in Salt, not even `*`.
            Place::Map(map) => !map.is_empty() && self.in_map(map, tail),
            Place::Other(Value::List(members)) => members.iter().any(|member| {
                member.as_map().is_some_and(|map| self.in_map(map, tail))
                    || self.tails[&tail].pattern.matches(member, self.budget)
            }),
            Place::Other(value) => self.tails[&tail].pattern.matches(value, self.budget),
        }
    }

    fn in_map(&self, map: &Map, tail: usize) -> bool {
        let wildcard = self.tails[&tail].text.starts_with(WILDCARD);
        let tail = if wildcard { tail + WILDCARD.len() } else { tail };
        let Tail { text, pattern, arms } = &self.tails[&tail];
        // The order is Salt's: the cheap comparisons come before the search below.
        text == "*"
            || map.contains_key(text)
            || map.keys().any(|key| pattern.matches(key, self.budget))
            || self.any_arm(arms, Place::Map(map))
            || (wildcard && map.values().any(|value| self.in_entry(value, tail)))
    }

    fn in_entry(&self, value: &Value, tail: usize) -> bool {
        let pattern = &self.tails[&tail].pattern;
        match value {
            Value::Map(map) => self.in_map(map, tail),
            Value::List(members) => members.iter().any(|member| pattern.matches(member, self.budget)),
            value => pattern.matches(value, self.budget),
        }
    }
}

/// The approximate cost of converting a value to a string.
const STEPS_PER_TEXT: u64 = 50;

/// The approximate cost of looking up a key.
const STEPS_PER_KEY: u64 = 20;

/// A map that need not be inside a value.
#[derive(Clone, Copy)]
enum Place<'a> {
    Map(&'a Map),
    Other(&'a Value),
}

impl<'a> From<&'a Value> for Place<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Map(map) => Place::Map(map),
            other => Place::Other(other),
        }
    }
}

impl<'a> Place<'a> {
    fn walk(self, keys: &[String]) -> Option<&'a Value> {
        let (first, rest) = keys.split_first()?;
        let found = match self {
            Place::Map(map) => entry(map, first),
            Place::Other(value) => step(value, first),
        };
        rest.iter().try_fold(found?, |place, key| step(place, key))
    }
}

impl Tail {
    fn new(text: &str, start: usize, compare: Compare) -> Self {
        Tail { text: text.to_owned(), pattern: Pattern::new(text, compare), arms: arms(text, start, DEFAULT_DELIMITER) }
    }
}

/// Returns all ways to separate a string into keys and pattern, the longest path of keys first.
fn arms(text: &str, start: usize, delimiter: &str) -> Vec<Arm> {
    let places: Vec<usize> = text.match_indices(delimiter).map(|(place, _)| place).collect();
    let arm = |place: &usize| {
        let (keys, tail) = (&text[..*place], start + place + delimiter.len());
        // With `*` as the only key, Salt searches with the whole expression, star included.
        if keys == "*" {
            return Arm { keys: Keys::Everything, tail: start };
        }
        Arm { keys: Keys::Path(keys.split(delimiter).map(str::to_owned).collect()), tail }
    };
    places.iter().rev().map(arm).collect()
}

/// A lower-case pattern that is compiled when it is first needed; most never are.
#[derive(Debug)]
struct Pattern {
    text: String,
    compare: Compare,
    glob: OnceLock<Glob>,
    regex: OnceLock<Option<PyRegex>>,
}

impl Pattern {
    /// As in Salt, the whole pattern is lowered first, so in a regular expression `\D` becomes `\d`.
    fn new(text: &str, compare: Compare) -> Self {
        Pattern { text: text.to_lowercase(), compare, glob: OnceLock::new(), regex: OnceLock::new() }
    }

    fn matches(&self, value: &Value, budget: &Budget) -> bool {
        let text = match value {
            Value::Str(text) => text.to_lowercase(),
            other => other.to_string().to_lowercase(),
        };
        if !budget.spend(STEPS_PER_TEXT + text.len() as u64) {
            return false;
        }
        match self.compare {
            Compare::Exact => self.text == text,
            Compare::Glob => self.glob.get_or_init(|| Glob::new(&self.text)).matches_within(&text, budget),
            Compare::Regex => self
                .regex
                .get_or_init(|| PyRegex::within(&self.text, budget).ok())
                .as_ref()
                .is_some_and(|regex| regex.is_match_within(&text, budget)),
        }
    }
}

/// Follows a path of keys through maps and lists, as Salt's `traverse_dict_and_list` does.
///
/// In a map the string is looked up, then its value in YAML (`1`, `true`). In a list, the first map with the key is used, or else
/// the key is an index.
pub fn traverse<'a>(data: &'a Value, path: &str, delimiter: &str) -> Option<&'a Value> {
    let delimiter = if delimiter.is_empty() { DEFAULT_DELIMITER } else { delimiter };
    path.split(delimiter).try_fold(data, |place, key| step(place, key))
}

fn step<'a>(place: &'a Value, key: &str) -> Option<&'a Value> {
    match place {
        Value::Map(map) => entry(map, key),
        Value::List(items) => {
            let mut maps = items.iter().filter_map(Value::as_map);
            match python_int(key) {
                None => maps.find_map(|map| map.get(key)),
                Some(index) => maps.find_map(|map| map.get_value(&Value::Int(index))).or_else(|| at(items, index)),
            }
        }
        _ => None,
    }
}

fn entry<'a>(map: &'a Map, key: &str) -> Option<&'a Value> {
    map.get(key).or_else(|| match plain_scalar(key)? {
        Value::Str(text) => map.get(&text),
        key => find_key(map, &key),
    })
}

/// Finds a key by Python's equality, in which `1`, `1.0` and `True` are one key.
fn find_key<'a>(map: &'a Map, key: &Value) -> Option<&'a Value> {
    map.get_value(key).or_else(|| {
        let same = |(other, _): &(&Value, &Value)| other.as_str().is_none() && value::python::equal(other, key);
        map.iter().find(same).map(|(_, value)| value)
    })
}

/// Indexes as Python does: from the end if negative.
fn at(items: &[Value], index: i64) -> Option<&Value> {
    let index = if index < 0 { index + items.len() as i64 } else { index };
    usize::try_from(index).ok().and_then(|index| items.get(index))
}

/// Parses what Python's `int()` accepts: spaces around, a sign, underscores between digits.
fn python_int(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let good = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    if !good || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    // A number of more than 64 bits is not an index.
    text.replace('_', "").parse().ok()
}

/// Returns the YAML value of a key, unless that is the string itself.
fn plain_scalar(key: &str) -> Option<Value> {
    if key.contains(['#', '\t', '\r', '\n'])
        || key.contains('_') && key.trim().bytes().all(|b| b.is_ascii_digit() || b == b'_')
    {
        return None;
    }
    let text = key.trim_matches(' ');
    match text {
        "" | "---" | "..." => return None,
        "~" | "null" | "Null" | "NULL" | "None" => return Some(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some(Value::Bool(true)),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some(Value::Bool(false)),
        _ => {}
    }
    yaml_number(text).or_else(|| (text.len() < key.len()).then(|| Value::from(text)))
}

fn yaml_number(text: &str) -> Option<Value> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
        return None;
    }
    let plain = digits.replace('_', "");
    let whole = match plain.as_bytes() {
        [b'0', b'x', ..] => i64::from_str_radix(&plain[2..], 16).ok(),
        [b'0', b'b', ..] => i64::from_str_radix(&plain[2..], 2).ok(),
        [b'0', _, ..] => i64::from_str_radix(&plain[1..], 8).ok(),
        _ => plain.parse().ok(),
    };
    if let Some(whole) = whole {
        return Some(Value::Int(sign * whole));
    }
    let number: f64 = plain.contains('.').then(|| plain.parse().ok()).flatten()?;
    Some(Value::Float(sign as f64 * number))
}
