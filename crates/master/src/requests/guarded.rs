//! Targets of callers with a list, matched so that nobody learns data of minions that they may not read.

use std::borrow::Cow;

use targeting::acl::{Publication, for_every_minion, pillar_is_exact, reads_all_pillar};
use targeting::{Checker, Expected, TargetType};
use value::{Map, Value};

use crate::open_jobs::Target;

/// How the target of a caller with a list is matched and published.
#[derive(Debug, PartialEq)]
pub struct Guarded {
    /// The type with which the master matches it.
    pub kind: TargetType,
    /// True if the job goes to the minions by their ids: by the target itself, more could match.
    pub by_ids: bool,
}

/// Decides how a target is matched. Pillar that the caller names is compared exactly, unless they may read that of all minions: with
/// patterns, whoever may call any function could read values letter by letter. The pillar in node groups is the operator's.
///
/// # Errors
/// With `order_masters`, if patterns of pillar would be needed: lower masters match the target themselves.
pub fn guarded(
    target: &Target,
    kind: TargetType,
    list: &[Value],
    checker: &Checker,
    order_masters: bool,
) -> Result<Guarded, &'static str> {
    let exact = kind.with_exact_pillar();
    if exact == kind || !names_pillar(&target.tgt, kind) || reads_all_pillar(list, checker) {
        return Ok(Guarded { kind, by_ids: false });
    }
    if !order_masters {
        return Ok(Guarded { kind: exact, by_ids: true });
    }
    let wanted = Publication {
        functions: &[],
        arguments: &[],
        target: &target.tgt,
        kind,
        delimiter: &target.delimiter,
        minions: None,
    };
    match pillar_is_exact(&wanted, checker) {
        true => Ok(Guarded { kind, by_ids: false }),
        false => Err("patterns of pillar are for those who may read the pillar of all minions"),
    }
}

/// Returns whether a caller names pillar in a target. In compound ones it is looked for anywhere: a wrong guess costs nothing.
fn names_pillar(tgt: &Value, kind: TargetType) -> bool {
    let in_text = |text: &str| text.contains("I@") || text.contains("J@");
    match (kind, tgt) {
        (TargetType::Compound, Value::List(words)) => words.iter().any(|word| word.as_str().is_none_or(in_text)),
        (TargetType::Compound, tgt) => tgt.as_str().is_none_or(in_text),
        _ => true,
    }
}

/// Returns the entries of a list that can grant a publication to these minions.
///
/// An entry for some minions would grant a target that matches nobody, since it covers all of none. Where a refusal tells that a target
/// by data matches somebody else, its absence would tell that nobody has the data; and with `order_masters` such a target goes to lower
/// masters all the same, and it is not known whether the entry covers theirs.
pub fn granting<'a>(list: &'a [Value], meant: &Expected, kind: TargetType, order_masters: bool) -> Cow<'a, [Value]> {
    match meant.minions.is_empty() && (order_masters || kind.needs_data()) {
        true => for_every_minion(list).into(),
        false => list.into(),
    }
}

/// Names the minions in a publication by their ids.
pub fn name_minions(load: &mut Map, meant: &Expected) {
    load.insert("tgt", meant.minions.clone());
    load.insert("tgt_type", "list");
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;
    use crate::minion_ids::Ids;

    fn decided(tgt: &str, kind: &str, list: Value, order_masters: bool) -> Result<Guarded, &'static str> {
        let (ids, groups) = (Ids::of(&["web1", "db1"]), Map::new());
        let target = Target::of(&map! { "tgt" => tgt, "tgt_type" => kind });
        let checker = Checker::new(&ids, &groups, true);
        guarded(&target, target.kind.unwrap(), list.as_list().unwrap(), &checker, order_masters)
    }

    #[test]
    fn patterns_of_pillar_are_for_those_who_may_read_it() {
        let exact = |kind| Ok(Guarded { kind, by_ids: true });
        let plain = |kind| Ok(Guarded { kind, by_ids: false });
        let few = || list!["test.ping", map! { "web*" => list![".*"] }];
        assert_eq!(decided("a:b*", "pillar", few(), false), exact(TargetType::PillarExact));
        assert_eq!(decided("a:b*", "pillar_pcre", few(), false), exact(TargetType::PillarExact));
        for text in ["web1 and I@a:b*", "web1 or (J@a:b.*)", "not I@a:b"] {
            assert_eq!(decided(text, "compound", few(), false), exact(TargetType::CompoundPillarExact), "{text}");
            assert_eq!(decided(text, "compound", list!["test.*", "pillar.items"], false), plain(TargetType::Compound));
        }
        assert_eq!(decided("N@web or G@os:x", "compound", few(), false), plain(TargetType::Compound));
        assert_eq!(decided("a:b*", "grain", few(), false), plain(TargetType::Grain));
        assert_eq!(decided("a:b*", "pillar", list![".*"], false), plain(TargetType::Pillar));
        // Lower masters get the target as it is.
        assert_eq!(decided("a:b*", "pillar", few(), true), plain(TargetType::Pillar), "it matches nobody here");
    }

    #[test]
    fn data_that_nobody_has_is_refused_like_that_of_others() {
        let list = [map! { "web*" => list!["test.ping"] }.into(), map! { "*" => list!["test.echo"] }.into()];
        let (nobody, somebody) = (Expected::default(), Expected { minions: vec!["db1".into()], missing: Vec::new() });
        let left = |meant, kind, order_masters| granting(&list, meant, kind, order_masters).len();
        assert_eq!(left(&nobody, TargetType::Grain, false), 1);
        assert_eq!(left(&somebody, TargetType::Grain, false), 2);
        assert_eq!(left(&nobody, TargetType::Glob, false), 2);
        assert_eq!(left(&nobody, TargetType::Glob, true), 1);
    }
}
