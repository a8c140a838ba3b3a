//! Matching a path of keys and a pattern against nested data, as grain and pillar targets do.
//!
//! `os:Deb*` is tried at every place where a delimiter could part keys from pattern, the longest path of keys first.
//! Letter case never counts. Under a map the pattern may be a key, match a key, or be a path of its own; under a list
//! it may match a member; `*` as first part looks everywhere below. Inner paths are always parted by `:`, whatever the
//! outer delimiter is.

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
    /// As plain text.
    Exact,
}

/// Says whether the data match; [`SubdictMatcher`] for an expression that is used more than once.
pub fn subdict_match(data: &Map, expression: &str, delimiter: &str, compare: Compare) -> bool {
    SubdictMatcher::new(expression, delimiter, compare).matches(data)
}

/// A path with a pattern, read once.
#[derive(Debug)]
pub struct SubdictMatcher {
    arms: Vec<Arm>,
    /// What can be left of the expression once keys were taken from its front, by the place it starts at.
    tails: BTreeMap<usize, Tail>,
}

/// One way to part keys from pattern.
#[derive(Debug)]
struct Arm {
    keys: Keys,
    /// Where the pattern starts in the expression.
    tail: usize,
}

#[derive(Debug)]
enum Keys {
    /// The first part is `*`: the pattern is looked for in all of the data.
    Everything,
    Path(Vec<String>),
}

/// An end of the expression in its roles: as pattern, and as path of its own.
#[derive(Debug)]
struct Tail {
    text: String,
    pattern: Pattern,
    arms: Vec<Arm>,
}

/// A path of so many keys leads nowhere: all ways to part it have to be kept.
const PART_LIMIT: usize = 64;

/// The place behind `*:`, which makes a pattern look into all entries of a map.
const WILDCARD: &str = "*:";

impl SubdictMatcher {
    /// Reads an expression. One without the delimiter matches nothing; an empty delimiter is the usual `:`.
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

    /// Says whether the data match.
    pub fn matches(&self, data: &Map) -> bool {
        self.matches_within(data, &Budget::default())
    }

    /// The same for data and expressions of strangers: no match when the budget is spent.
    pub(crate) fn matches_within(&self, data: &Map, budget: &Budget) -> bool {
        Search { tails: &self.tails, budget }.any_arm(&self.arms, Place::Map(data))
    }
}

/// One look through some data. There may be very many ways through data and expression, which the budget ends.
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

    /// Looks for the pattern in what the keys led to.
    fn below(&self, found: Place, tail: usize) -> bool {
        match found {
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

/// What making a text of a value costs, about.
const STEPS_PER_TEXT: u64 = 50;

/// What looking a key up costs, about.
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

/// All ways to part a text into keys and pattern, the longest path of keys first.
fn arms(text: &str, start: usize, delimiter: &str) -> Vec<Arm> {
    let places: Vec<usize> = text.match_indices(delimiter).map(|(place, _)| place).collect();
    let arm = |place: &usize| {
        let (keys, tail) = (&text[..*place], start + place + delimiter.len());
        if keys == "*" {
            return Arm { keys: Keys::Everything, tail: start };
        }
        Arm { keys: Keys::Path(keys.split(delimiter).map(str::to_owned).collect()), tail }
    };
    places.iter().rev().map(arm).collect()
}

/// A pattern in small letters, compiled when first needed: most never are.
#[derive(Debug)]
struct Pattern {
    text: String,
    compare: Compare,
    glob: OnceLock<Glob>,
    regex: OnceLock<Option<PyRegex>>,
}

impl Pattern {
    /// Salt turns the whole pattern to small letters first, so that in a regex `\D` becomes `\d`; so do we.
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
/// A map is asked for the text, then for what the text means in YAML (`1`, `true`). A list is asked for the first
/// of its maps that has the key, then for an index.
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

/// An index as Python counts: from the end when negative.
fn at(items: &[Value], index: i64) -> Option<&Value> {
    let index = if index < 0 { index + items.len() as i64 } else { index };
    usize::try_from(index).ok().and_then(|index| items.get(index))
}

/// Reads what Python's `int()` reads: spaces around, a sign, underscores between digits.
fn python_int(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let good = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    if !good || digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// What a key means as a YAML scalar, when that is not the text itself.
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
