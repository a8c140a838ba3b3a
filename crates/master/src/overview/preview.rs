//! What a job would reach, and by which entry a user may publish it.

use std::collections::HashSet;

use targeting::acl::{Publication, publish_allowed};
use targeting::{Checker, DEFAULT_DELIMITER, TargetType};
use value::{Map, Value, map};

use super::matching::matched;
use super::question::PreviewedJob;
use super::{Refused, granted};
use crate::Shared;
use crate::credentials::Caller;

/// The most ids of each list.
const MOST: usize = 100;

/// Says which minions a job would reach and whether the user may publish it. Nothing is published.
///
/// # Errors
/// When the target cannot be matched.
pub fn preview(shared: &Shared, caller: &Caller, job: &PreviewedJob) -> Result<Value, Refused> {
    let list = granted(caller);
    let judges = !job.functions.is_empty();
    if !job.sees_all && !list.iter().any(names_minions) {
        // No minion is looked at for a user who may know none.
        return Ok(answer(&[], &[], judges.then(Judged::default)));
    }
    let checker = shared.stores.checker();
    let meant = matched(&list, &checker, &job.tgt, job.kind);
    let meant = meant.map_err(|error| Refused::new(400, format!("the target cannot be matched: {error}")))?;
    let mut known = meant.clone();
    if !job.sees_all {
        let reach = within_reach(&list, &meant, &checker);
        known.retain(|id| reach.contains(id));
    }
    let connected = shared.connected_anywhere();
    let there = |id: &&String| connected.binary_search_by(|known| known.as_str().cmp(id)).is_ok();
    let away: Vec<&String> = known.iter().filter(|id| !there(id)).collect();
    let blacklisted = shared.users.is_blacklisted(caller.user.as_deref().unwrap_or_default(), &job.functions);
    let judged = judges.then(|| judge(&list, job, &Minions { meant: &meant, known: &known }, &checker, blacklisted));
    Ok(answer(&known, &away, judged))
}

fn answer(known: &[String], away: &[&String], judged: Option<Judged>) -> Value {
    let (allowed, refused, by) = match judged {
        Some(Judged { allowed, refused, by }) => (Some(allowed), refused, by),
        None => (None, Vec::new(), Vec::new()),
    };
    map! {
        "count" => known.len(), "minions" => first(known.iter()),
        "away_count" => away.len(), "away" => first(away.iter().copied()),
        "allowed" => allowed, "refused_count" => refused.len(), "refused" => first(refused.iter()), "granted_by" => by,
    }
    .into()
}

/// Returns whether an entry grants a function on some minions.
fn names_minions(entry: &Value) -> bool {
    match entry {
        Value::Str(text) => !text.starts_with('@') && !text.is_empty(),
        Value::Map(map) => map.iter().any(|(target, _)| target.as_str().is_some_and(|target| !target.starts_with('@'))),
        _ => false,
    }
}

fn first<'a>(ids: impl Iterator<Item = &'a String>) -> Vec<Value> {
    ids.take(MOST).map(|id| id.as_str().into()).collect()
}

/// Returns the minions of which a user may know because an entry names them: those on which any function is granted.
fn within_reach(list: &[Value], meant: &[String], checker: &Checker) -> HashSet<String> {
    let mut known = HashSet::new();
    for entry in list {
        match entry {
            Value::Str(_) if names_minions(entry) => return meant.iter().cloned().collect(),
            Value::Map(map) => known.extend(targets(map, meant, checker)),
            _ => {}
        }
    }
    known
}

/// Returns the minions of a job that the target of an entry means.
fn targets(entry: &Map, meant: &[String], checker: &Checker) -> Vec<String> {
    let target = match entry.iter().next() {
        Some((Value::Str(target), _)) if entry.len() == 1 && !target.starts_with('@') => target,
        _ => return Vec::new(),
    };
    // A target that cannot be matched grants nothing.
    let Ok(expected) = checker.expect(&target.as_str().into(), TargetType::Compound, DEFAULT_DELIMITER) else {
        return Vec::new();
    };
    let expected: HashSet<&String> = expected.minions.iter().collect();
    meant.iter().filter(|id| expected.contains(id)).cloned().collect()
}

fn publication<'a>(job: &'a PreviewedJob, minions: &'a [String]) -> Publication<'a> {
    Publication {
        functions: &job.functions,
        arguments: &job.arguments,
        target: &job.tgt,
        kind: job.kind,
        delimiter: DEFAULT_DELIMITER,
        minions: Some(minions),
    }
}

/// The minions of a job.
struct Minions<'a> {
    /// All that it would reach.
    meant: &'a [String],
    /// Those of which the user may know.
    known: &'a [String],
}

#[derive(Default)]
struct Judged {
    allowed: bool,
    refused: Vec<String>,
    by: Vec<Map>,
}

/// Judges a job by the rules for publications, and each entry by itself.
fn judge(list: &[Value], job: &PreviewedJob, minions: &Minions, checker: &Checker, blacklisted: bool) -> Judged {
    let Minions { meant, known } = *minions;
    if blacklisted {
        return Judged { allowed: false, refused: known.to_vec(), by: Vec::new() };
    }
    let (mut reached, mut by) = (HashSet::new(), Vec::new());
    for entry in list {
        let ids = match entry {
            Value::Map(map) => targets(map, known, checker),
            _ => known.to_vec(),
        };
        if !ids.is_empty() && publish_allowed(std::slice::from_ref(entry), &publication(job, &ids), checker) {
            by.push(map! { "entry" => entry.clone(), "count" => ids.len() });
            reached.extend(ids);
        }
    }
    // The list may grant with several entries together what none grants by itself, such as two functions. Minions of which the user
    // may not know count too: the job would be refused because of them.
    let allowed = publish_allowed(list, &publication(job, meant), checker);
    let refused = known.iter().filter(|id| !allowed && !reached.contains(*id)).cloned().collect();
    Judged { allowed, refused, by }
}

#[cfg(test)]
mod tests {

    use value::list;

    use super::*;
    use crate::minion_ids::Ids;

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn entries_are_judged_one_by_one() {
        let (data, groups) = (Ids::of(&["db1", "web1", "web2"]), Map::new());
        let checker = Checker::new(&data, &groups, true);
        let list = list![map! { "web*" => list!["test.*"] }, map! { "db1" => list!["test.ping"] }, "@jobs"];
        let list = list.as_list().unwrap();
        let job = |fun: &str| PreviewedJob {
            tgt: "*".into(),
            kind: TargetType::Glob,
            functions: ids(&[fun]),
            arguments: vec![Vec::new()],
            sees_all: true,
        };
        let meant = ids(&["db1", "web1", "web2"]);
        let minions = Minions { meant: &meant, known: &meant };
        let all = judge(list, &job("test.ping"), &minions, &checker, false);
        assert_eq!((all.refused.len(), all.by.len()), (0, 2));
        let some = judge(list, &job("test.version"), &minions, &checker, false);
        assert!(!some.allowed);
        assert_eq!((some.refused, some.by[0].get("count")), (ids(&["db1"]), Some(&2.into())));
        let none = judge(list, &job("cmd.run"), &minions, &checker, false);
        assert_eq!((none.allowed, none.refused.len(), none.by.len()), (false, 3, 0));
        assert!(!judge(list, &job("test.ping"), &minions, &checker, true).allowed, "the blacklist comes first");
        // A job that also reaches minions of which the user may not know is refused.
        let minions = Minions { meant: &meant, known: &meant[1..] };
        let some = judge(list, &job("test.version"), &minions, &checker, false);
        assert_eq!((some.allowed, some.refused, some.by.len()), (false, ids(&[]), 1));
    }

    #[test]
    fn ids_beyond_the_list_are_not_known() {
        let (data, groups) = (Ids::of(&["db1", "web1"]), Map::new());
        let checker = Checker::new(&data, &groups, true);
        let known = |list: Value| {
            let mut known: Vec<String> =
                within_reach(list.as_list().unwrap(), &ids(&["db1", "web1"]), &checker).into_iter().collect();
            known.sort();
            known
        };
        assert_eq!(known(list![map! { "web*" => list!["test.ping"] }]), ids(&["web1"]));
        assert_eq!(known(list!["test.ping"]), ids(&["db1", "web1"]));
        for nothing in [list![], list!["@jobs", "@runner"], list![""], list![map! { "@runner" => list!["jobs.*"] }]] {
            assert_eq!(known(nothing.clone()), ids(&[]), "{nothing}");
            assert!(!nothing.as_list().unwrap().iter().any(names_minions), "{nothing}");
        }
    }
}
