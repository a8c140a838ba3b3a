//! Authorisation lists: what a user, a token or a peer may run.
//!
//! As in Salt, all regular expressions here match from the start only: `test.ping` also allows `test.pingx`. An invalid one
//! matches nothing.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

use value::{Map, Value};

use crate::indirect::{Indirect, called_by};
use crate::{Checker, DEFAULT_DELIMITER, Error, PyRegex, TargetType, expr_match};

/// A requested publication.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// The functions; several for a compound command.
    pub functions: &'a [String],
    /// The arguments of each function.
    pub arguments: &'a [Vec<Value>],
    /// The target.
    pub target: &'a Value,
    /// The type of the target.
    pub kind: TargetType,
    /// The delimiter of the target's paths.
    pub delimiter: &'a str,
    /// The minions that the target matches, if they are known already.
    pub minions: Option<&'a [String]>,
}

/// Returns whether the list grants the publication: each of its functions, on all minions of the target.
///
/// Salt grants a compound command as soon as one of its functions is granted.
pub fn publish_allowed(list: &[Value], request: &Publication, checker: &Checker) -> bool {
    let patterns = Patterns::default();
    // Each is expanded once, and only if it is needed, whatever the number of functions is.
    let covers: Vec<OnceCell<bool>> = list.iter().map(|_| OnceCell::new()).collect();
    let covers = |place: usize, target: &str| *covers[place].get_or_init(|| target_covers(target, request, checker));
    !request.functions.is_empty()
        && request.functions.iter().enumerate().all(|(place, function)| {
            // A function without arguments in the request has none; an entry that requires some does not grant it.
            let arguments = request.arguments.get(place).map_or(&[][..], Vec::as_slice);
            let (positional, named) = split_keywords(arguments);
            let grants = |function: &str, positional: &[Value], named: &Map| {
                list.iter().enumerate().any(|(place, entry)| match entry {
                    Value::Str(pattern) => patterns.match_function(pattern, function),
                    Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
                        covers(place, target) && patterns.grant(conditions, function, positional, Some(named))
                    }),
                    _ => false,
                })
            };
            grants(function, &positional, &named)
                && match called_by(function, &positional, &named, &unread_keywords(arguments)) {
                    Indirect::Nothing => true,
                    // Its own arguments are not compared, so an entry with conditions on them does not grant it.
                    Indirect::Function(called) => grants(&called, &[], &Map::new()),
                    Indirect::Unknown => everything_allowed(list, request, checker),
                }
        })
}

/// Returns the functions that the calls of a publication run besides those that it names, as far as their arguments tell.
pub fn called_indirectly(functions: &[String], arguments: &[Vec<Value>]) -> Vec<String> {
    let called = functions.iter().enumerate().map(|(place, function)| {
        let arguments = arguments.get(place).map_or(&[][..], Vec::as_slice);
        let (positional, named) = split_keywords(arguments);
        called_by(function, &positional, &named, &unread_keywords(arguments))
    });
    called.filter_map(|called| if let Indirect::Function(called) = called { Some(called) } else { None }).collect()
}

/// Returns the entries that count on every minion, whether it is known here or not: those without a target, and those of `*`.
pub fn for_every_minion(list: &[Value]) -> Vec<Value> {
    let counts = |entry: &&Value| match entry {
        Value::Map(map) => single(map).is_some_and(|(target, _)| target == "*"),
        _ => true,
    };
    list.iter().filter(counts).cloned().collect()
}

/// Returns whether the list could grant the functions on some minions. This is cheap: no target is expanded.
pub fn functions_allowed(list: &[Value], functions: &[String]) -> bool {
    let patterns = Patterns::default();
    let grants = |entry: &Value, function: &str| match entry {
        Value::Str(pattern) => patterns.match_function(pattern, function),
        Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
            !target.starts_with('@')
                && one_or_many(conditions).iter().any(|condition| match condition {
                    Value::Str(pattern) => patterns.match_function(pattern, function),
                    Value::Map(map) => {
                        single(map).is_some_and(|(pattern, _)| patterns.match_function(pattern, function))
                    }
                    _ => false,
                })
        }),
        _ => false,
    };
    !functions.is_empty() && functions.iter().all(|function| list.iter().any(|entry| grants(entry, function)))
}

/// Returns whether the list grants everything on the minions of the publication: by the pattern `.*`, alone or below a target
/// that covers them.
///
/// A user who may call only one function must not be able to bypass that with returners and executors of their choice.
pub fn everything_allowed(list: &[Value], request: &Publication, checker: &Checker) -> bool {
    // Only this literal pattern: deciding whether another expression matches everything would be guessing.
    let is_all = |condition: &Value| condition.as_str() == Some(".*");
    list.iter().any(|entry| match entry {
        Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
            one_or_many(conditions).iter().any(is_all) && target_covers(target, request, checker)
        }),
        entry => is_all(entry),
    })
}

/// Returns whether a pillar target matches no more minions than exact comparison of the pillar would.
///
/// Otherwise those who may not read pillar could learn its values by globbing.
pub fn pillar_is_exact(request: &Publication, checker: &Checker) -> bool {
    let exact = request.kind.with_exact_pillar();
    if exact == request.kind {
        return true;
    }
    let matched = |kind| matched(checker, request.target, kind, request.delimiter);
    // Both must be known; a target that is too expensive counts as guessing.
    let (Some(exact), Some(matched)) = (matched(exact), matched(request.kind)) else { return false };
    let exact: HashSet<String> = exact.into_iter().collect();
    matched.iter().all(|id| exact.contains(id))
}

/// Returns whether the list grants reading the pillar of all minions: `pillar.items` on every one.
///
/// Whoever may not could read values letter by letter, with patterns in targets and any function that they may call.
pub fn reads_all_pillar(list: &[Value], checker: &Checker) -> bool {
    let (functions, target) = (["pillar.items".to_owned()], "*".into());
    let everywhere = Publication {
        functions: &functions,
        arguments: &[Vec::new()],
        target: &target,
        kind: TargetType::Glob,
        delimiter: DEFAULT_DELIMITER,
        minions: None,
    };
    publish_allowed(list, &everywhere, checker)
}

/// Returns whether the compound target `covering` matches all minions of the publication.
///
/// `*` covers every minion; a target that begins with `@` names a runner or wheel module and covers none.
pub fn target_covers(covering: &str, request: &Publication, checker: &Checker) -> bool {
    // The common case, without looking at any minion.
    if covering == "*" {
        return true;
    }
    if covering.starts_with('@') {
        return false;
    }
    let covering = Value::from(covering);
    // A target that is too expensive to evaluate covers nothing: an authorisation fails closed.
    let Some(covered) = matched(checker, &covering, TargetType::Compound, DEFAULT_DELIMITER) else { return false };
    let covered: HashSet<String> = covered.into_iter().collect();
    let is_covered = |id: &String| covered.contains(id);
    match request.minions {
        Some(minions) => minions.iter().all(is_covered),
        None => matched(checker, request.target, request.kind, request.delimiter)
            .is_some_and(|minions| minions.iter().all(is_covered)),
    }
}

/// Returns the minions that a target matches: none if it cannot be parsed, as in Salt, and `None` if they cannot be found out:
/// evaluating it would be too expensive, or the minion data cache gives no answer.
fn matched(checker: &Checker, target: &Value, kind: TargetType, delimiter: &str) -> Option<Vec<String>> {
    match checker.expect(target, kind, delimiter) {
        Ok(expected) => Some(expected.minions),
        Err(Error::TooExpensive | Error::DataUnavailable) => None,
        Err(_) => Some(Vec::new()),
    }
}

/// The regular expressions of a list, each compiled once for a request. An invalid one matches nothing, as in Salt.
#[derive(Default)]
struct Patterns(RefCell<HashMap<String, Option<PyRegex>>>);

impl Patterns {
    fn match_function(&self, pattern: &str, text: &str) -> bool {
        let mut compiled = self.0.borrow_mut();
        if !compiled.contains_key(pattern) {
            compiled.insert(pattern.to_owned(), PyRegex::new(pattern).ok());
        }
        compiled.get(pattern).and_then(Option::as_ref).is_some_and(|regex| regex.is_match(text))
    }

    fn grant(&self, conditions: &Value, function: &str, positional: &[Value], named: Option<&Map>) -> bool {
        one_or_many(conditions).iter().any(|condition| match condition {
            Value::Str(pattern) => self.match_function(pattern, function),
            Value::Map(map) => single(map).is_some_and(|(pattern, demands)| {
                self.match_function(pattern, function)
                    && one_or_many(demands).iter().any(|demand| self.arguments_meet(demand, positional, named))
            }),
            _ => false,
        })
    }

    /// Compares arguments one by one: a missing one fails, extra ones are free, and an empty condition accepts any.
    fn arguments_meet(&self, demand: &Value, positional: &[Value], named: Option<&Map>) -> bool {
        let Value::Map(demand) = demand else { return false };
        let fits = |pattern: &Value, found: Option<&Value>| match (pattern, found) {
            // A condition on an argument that was not given is not met; otherwise leaving it out would bypass the
            // condition.
            (_, None) => false,
            (Value::Null, Some(_)) => true,
            (Value::Str(pattern), Some(found)) => self.match_function(pattern, &found.to_string()),
            _ => false,
        };
        let request = demand.get("args").map_or(&[][..], one_or_many);
        let positions = request.iter().enumerate().all(|(place, pattern)| fits(pattern, positional.get(place)));
        positions
            && match demand.get("kwargs") {
                Some(Value::Map(request)) => {
                    request.iter().all(|(name, pattern)| fits(pattern, named.and_then(|named| named.get_value(name))))
                }
                None | Some(Value::Null) => true,
                // A malformed condition grants nothing.
                Some(_) => false,
            }
    }
}

/// The mark of a map of keyword arguments.
const MARK: &str = "__kwarg__";

/// Splits arguments as minions do, or a condition would be met by other arguments than those that the function gets.
///
/// A map is one of keyword arguments if its mark is true, wherever it is; later ones count. So do texts such as `name=value`, whose
/// value only minions read: no condition on it is met. If minions of different kinds would split the arguments differently, there
/// are none.
fn split_keywords(arguments: &[Value]) -> (Vec<Value>, Map) {
    let (mut positional, mut named) = (Vec::with_capacity(arguments.len()), Map::new());
    for argument in arguments {
        match argument {
            Value::Map(map) => {
                let mut map = map.clone();
                match map.remove(MARK) {
                    Some(Value::Bool(true)) => named.update(map),
                    _ => positional.push(map.into()),
                }
            }
            Value::Str(text) => match keyword(text) {
                Some(name) if !name.is_ascii() => return (Vec::new(), Map::new()),
                Some(name) => drop(named.remove(name)),
                None => positional.push(argument.clone()),
            },
            _ => positional.push(argument.clone()),
        }
    }
    (positional, named)
}

/// Returns the names of keyword arguments that are texts such as `name=value`.
fn unread_keywords(arguments: &[Value]) -> Vec<&str> {
    arguments.iter().filter_map(Value::as_str).filter_map(keyword).collect()
}

/// Returns the name in a text such as `name=value`. Which letters beyond ASCII a name may have is not the same everywhere.
fn keyword(text: &str) -> Option<&str> {
    let (name, value) = text.split_once('=')?;
    let value = value.strip_suffix('\n').unwrap_or(value);
    let first = name.chars().next().filter(|letter| !letter.is_ascii_digit() && !matches!(letter, '.' | '-'));
    let is_word = |letter: char| !letter.is_ascii() || letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let is_keyword = first.is_some() && name.chars().all(is_word) && !value.starts_with('=') && !value.contains('\n');
    is_keyword.then_some(name)
}

/// Returns whether a regular expression matches a function name from the start.
pub fn function_matches(pattern: &str, function: &str) -> bool {
    // An invalid pattern grants nothing, and Salt treats it alike.
    PyRegex::new(pattern).is_ok_and(|regex| regex.is_match(function))
}

/// A runner or a wheel function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `salt-run`.
    Runner,
    /// `wheel.*`.
    Wheel,
}

impl Form {
    fn names(self) -> [&'static str; 2] {
        match self {
            Form::Runner => ["runner", "runners"],
            Form::Wheel => ["wheel", "wheels"],
        }
    }
}

/// The name of a runner or wheel function does not have exactly one dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A command invocation error occurred: Check syntax.")]
pub struct BadSyntax;

/// A requested runner or wheel function.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Runner or wheel.
    pub form: Form,
    /// Name of the function, `module.function`.
    pub function: &'a str,
    /// Positional arguments.
    pub arguments: &'a [Value],
    /// Keyword arguments.
    pub keywords: Option<&'a Map>,
}

/// Returns whether the list grants a runner or wheel function.
///
/// It is granted by the strings `@module`, `@runner` or `@runners` (`@wheel`, `@wheels`), or by one of them as the key of
/// conditions on the function name: the bare name under `@module`, the full one under `@runner`. An empty list grants nothing,
/// whatever the name is.
pub fn call_allowed(list: &[Value], call: &Call) -> Result<bool, BadSyntax> {
    if list.is_empty() {
        return Ok(false);
    }
    let (module, name) = call.function.split_once('.').filter(|(_, name)| !name.contains('.')).ok_or(BadSyntax)?;
    let patterns = Patterns::default();
    Ok(list.iter().any(|entry| match entry {
        Value::Str(text) => {
            text.strip_prefix('@').is_some_and(|granted| granted == module || call.form.names().contains(&granted))
        }
        Value::Map(map) => single(map).is_some_and(|(key, conditions)| {
            let Some(granted) = key.strip_prefix('@') else { return false };
            let grants = |name| patterns.grant(conditions, name, call.arguments, call.keywords);
            (granted == module && grants(name)) || (call.form.names().contains(&granted) && grants(call.function))
        }),
        _ => false,
    }))
}

/// Returns what a provider's entries grant to a user and to the user's groups.
///
/// Keys are expressions over user names ([`expr_match`]) or `group%`. `*` counts only if no other user key matches, or with
/// `permissive`.
pub fn entries_for(provider: &Map, user: &str, groups: &[String], permissive: bool) -> Vec<Value> {
    let mut granted = Vec::new();
    let mut matched = false;
    for (key, entries) in provider {
        let Some(key) = key.as_str() else { continue };
        // Counted at the end, when it is known whether a more specific key matches.
        if key == "*" && !permissive {
            continue;
        }
        if key.ends_with('%') {
            if groups.iter().any(|group| group == key.trim_end_matches('%')) {
                extend(&mut granted, entries);
            }
        } else if expr_match(user, key) {
            matched = true;
            extend(&mut granted, entries);
        }
    }
    if !permissive
        && !matched
        && let Some(entries) = provider.get("*")
    {
        extend(&mut granted, entries);
    }
    granted
}

/// Returns what the option `peer` (or `peer_run`) lets a minion publish: the lists of all keys that match its id from the
/// start.
pub fn peer_entries(peer: &Map, id: &str) -> Vec<Value> {
    let mut granted = Vec::new();
    for (key, entries) in peer {
        if key.as_str().is_some_and(|pattern| function_matches(pattern, id)) {
            extend(&mut granted, entries);
        }
    }
    granted
}

fn extend(granted: &mut Vec<Value>, entries: &Value) {
    match entries {
        Value::List(entries) => granted.extend(entries.iter().cloned()),
        Value::Null => {}
        other => granted.push(other.clone()),
    }
}

fn single(map: &Map) -> Option<(&str, &Value)> {
    let (key, value) = map.iter().next().filter(|_| map.len() == 1)?;
    Some((key.as_str()?, value))
}

fn one_or_many(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        other => std::slice::from_ref(other),
    }
}
