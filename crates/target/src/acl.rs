//! Authorisation lists: what a user, a token or a peer may have done.
//!
//! All regular expressions here have to match from the start only, as in Salt: `test.ping` also allows `test.pingx`.
//! One that is invalid matches nothing.

use std::collections::HashSet;

use value::{Map, Value};

use crate::{Checker, DEFAULT_DELIMITER, Error, PyRegex, TargetType, expr_match};

/// A publication somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Publication<'a> {
    /// The functions; several for a compound command.
    pub functions: &'a [String],
    /// The arguments of each function.
    pub arguments: &'a [Vec<Value>],
    /// The target.
    pub target: &'a Value,
    /// How the target is to be read.
    pub kind: TargetType,
    /// What parts the keys of the target's paths.
    pub delimiter: &'a str,
    /// Who the target means, when already known.
    pub minions: Option<&'a [String]>,
}

/// Says whether the list grants the publication: each of its functions, on all minions it means.
///
/// Salt grants a compound command as soon as one of its functions is granted; here all have to be.
pub fn publish_allowed(list: &[Value], wanted: &Publication, checker: &Checker) -> bool {
    !wanted.functions.is_empty()
        && wanted.functions.iter().enumerate().all(|(place, function)| {
            let arguments = wanted.arguments.get(place).map_or(&[][..], Vec::as_slice);
            list.iter().any(|entry| entry_grants(entry, function, arguments, wanted, checker))
        })
}

/// Says whether the list could grant the functions on some minions. Cheap: no target is expanded.
pub fn functions_allowed(list: &[Value], functions: &[String]) -> bool {
    let grants = |entry: &Value, function: &str| match entry {
        Value::Str(pattern) => function_matches(pattern, function),
        Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
            !target.starts_with('@')
                && one_or_many(conditions).iter().any(|condition| match condition {
                    Value::Str(pattern) => function_matches(pattern, function),
                    Value::Map(map) => single(map).is_some_and(|(pattern, _)| function_matches(pattern, function)),
                    _ => false,
                })
        }),
        _ => false,
    };
    !functions.is_empty() && functions.iter().all(|function| list.iter().any(|entry| grants(entry, function)))
}

/// Says whether the list grants everything on the minions of the publication: by the pattern `.*`, alone or below a target
/// that covers them.
///
/// Who may call one function only must not have it called another way, with returners and executors of their choice.
pub fn everything_allowed(list: &[Value], wanted: &Publication, checker: &Checker) -> bool {
    let is_all = |condition: &Value| condition.as_str() == Some(".*");
    list.iter().any(|entry| match entry {
        Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
            one_or_many(conditions).iter().any(is_all) && target_covers(target, wanted, checker)
        }),
        entry => is_all(entry),
    })
}

/// Says whether a target by pillar means no more minions than plain comparison of the pillar would.
///
/// Minions that publish through their master could otherwise learn pillar values by globbing.
pub fn pillar_is_exact(wanted: &Publication, checker: &Checker) -> bool {
    let exact = match wanted.kind {
        TargetType::Pillar | TargetType::PillarPcre => TargetType::PillarExact,
        TargetType::Compound => TargetType::CompoundPillarExact,
        _ => return true,
    };
    let meant = |kind| meant(checker, wanted.target, kind, wanted.delimiter);
    let (Some(exact), Some(meant)) = (meant(exact), meant(wanted.kind)) else { return false };
    let exact: HashSet<String> = exact.into_iter().collect();
    meant.iter().all(|id| exact.contains(id))
}

/// Says whether all minions of the publication are among those the compound target `covering` means.
///
/// `*` covers everyone, a target that starts with `@` (it names a runner or wheel module) nobody.
pub fn target_covers(covering: &str, wanted: &Publication, checker: &Checker) -> bool {
    if covering == "*" {
        return true;
    }
    if covering.starts_with('@') {
        return false;
    }
    let covering = Value::from(covering);
    let Some(covered) = meant(checker, &covering, TargetType::Compound, DEFAULT_DELIMITER) else { return false };
    let covered: HashSet<String> = covered.into_iter().collect();
    let is_covered = |id: &String| covered.contains(id);
    match wanted.minions {
        Some(minions) => minions.iter().all(is_covered),
        None => meant(checker, wanted.target, wanted.kind, wanted.delimiter)
            .is_some_and(|minions| minions.iter().all(is_covered)),
    }
}

/// Returns whom a target means: nobody when it cannot be read, as in Salt, and `None` when that is not known because it
/// would take too long.
fn meant(checker: &Checker, target: &Value, kind: TargetType, delimiter: &str) -> Option<Vec<String>> {
    match checker.expect(target, kind, delimiter) {
        Ok(expected) => Some(expected.minions),
        Err(Error::TooExpensive) => None,
        Err(_) => Some(Vec::new()),
    }
}

fn entry_grants(entry: &Value, function: &str, arguments: &[Value], wanted: &Publication, checker: &Checker) -> bool {
    match entry {
        Value::Str(pattern) => function_matches(pattern, function),
        Value::Map(map) => single(map).is_some_and(|(target, conditions)| {
            let (positional, named) = split_keywords(arguments);
            target_covers(target, wanted, checker) && conditions_grant(conditions, function, positional, named)
        }),
        _ => false,
    }
}

/// Keyword arguments travel as a last map with the mark `__kwarg__`.
fn split_keywords(arguments: &[Value]) -> (&[Value], Option<&Map>) {
    match arguments.split_last() {
        Some((Value::Map(named), rest)) if named.contains_key("__kwarg__") => (rest, Some(named)),
        _ => (arguments, None),
    }
}

/// Says whether a regular expression over function names matches from the start.
pub fn function_matches(pattern: &str, function: &str) -> bool {
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

/// The name of a runner or wheel function has not exactly one dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A command invocation error occurred: Check syntax.")]
pub struct BadSyntax;

/// A runner or wheel function somebody asks for.
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

/// Says whether the list grants a runner or wheel function.
///
/// Granted by `@module`, `@runner` or `@runners` (`@wheel`, `@wheels`) as text, or as the key of conditions on the
/// function name: the bare one under `@module`, the full one under `@runner`. An empty list grants nothing, whatever
/// the name is.
pub fn call_allowed(list: &[Value], call: &Call) -> Result<bool, BadSyntax> {
    if list.is_empty() {
        return Ok(false);
    }
    let (module, name) = call.function.split_once('.').filter(|(_, name)| !name.contains('.')).ok_or(BadSyntax)?;
    Ok(list.iter().any(|entry| match entry {
        Value::Str(text) => {
            text.strip_prefix('@').is_some_and(|granted| granted == module || call.form.names().contains(&granted))
        }
        Value::Map(map) => single(map).is_some_and(|(key, conditions)| {
            let Some(granted) = key.strip_prefix('@') else { return false };
            let grants = |name| conditions_grant(conditions, name, call.arguments, call.keywords);
            (granted == module && grants(name)) || (call.form.names().contains(&granted) && grants(call.function))
        }),
        _ => false,
    }))
}

/// Returns what a provider's entries grant to a user and the groups it is in.
///
/// Keys are expressions over user names ([`expr_match`]) or `group%`. `*` counts only when no other user key
/// matched, with `permissive` always.
pub fn entries_for(provider: &Map, user: &str, groups: &[String], permissive: bool) -> Vec<Value> {
    let mut granted = Vec::new();
    let mut matched = false;
    for (key, entries) in provider {
        let Some(key) = key.as_str() else { continue };
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

/// Returns what the option `peer` (or `peer_run`) lets a minion publish: the lists of all keys that match its id from
/// the start.
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

fn conditions_grant(conditions: &Value, function: &str, positional: &[Value], named: Option<&Map>) -> bool {
    one_or_many(conditions).iter().any(|condition| match condition {
        Value::Str(pattern) => function_matches(pattern, function),
        Value::Map(map) => single(map).is_some_and(|(pattern, demands)| {
            function_matches(pattern, function)
                && one_or_many(demands).iter().any(|demand| arguments_meet(demand, positional, named))
        }),
        _ => false,
    })
}

fn one_or_many(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        other => std::slice::from_ref(other),
    }
}

/// Compares arguments one by one; a missing one fails, more than asked for are free, an empty demand means any.
fn arguments_meet(demand: &Value, positional: &[Value], named: Option<&Map>) -> bool {
    let Value::Map(demand) = demand else { return false };
    let fits = |pattern: &Value, found: Option<&Value>| match (pattern, found) {
        (_, None) => false,
        (Value::Null, Some(_)) => true,
        (Value::Str(pattern), Some(found)) => function_matches(pattern, &found.to_string()),
        _ => false,
    };
    let wanted = demand.get("args").map_or(&[][..], one_or_many);
    let positions = wanted.iter().enumerate().all(|(place, pattern)| fits(pattern, positional.get(place)));
    positions
        && match demand.get("kwargs") {
            Some(Value::Map(wanted)) => {
                wanted.iter().all(|(name, pattern)| fits(pattern, named.and_then(|named| named.get_value(name))))
            }
            None | Some(Value::Null) => true,
            Some(_) => false,
        }
}
