//! Matches the targets of users who only ask.

use targeting::acl::reads_all_pillar;
use targeting::{Budget, Checker, DEFAULT_DELIMITER, Error, TargetType};
use value::Value;

/// The steps that the target of a question may take, far fewer than those of a publication: anybody may ask, and as often as they
/// like. A glob takes some 50 of them for each minion.
const STEPS: u64 = 30_000_000;

/// Returns the minions that a target matches, each once, in the order of their ids.
///
/// Pillar is compared exactly, unless the user may read that of all minions: with patterns a user could read its values letter by
/// letter.
///
/// # Errors
/// When the target cannot be matched.
pub fn matched(list: &[Value], checker: &Checker, tgt: &Value, kind: TargetType) -> Result<Vec<String>, Error> {
    let kind = match kind.with_exact_pillar() {
        exact if exact == kind || reads_all_pillar(list, checker) => kind,
        exact => exact,
    };
    let asked = Checker::new(checker.minions, checker.nodegroups, checker.data_cache).within(Budget::of(STEPS));
    let mut ids = asked.expect(tgt, kind, DEFAULT_DELIMITER)?.minions;
    ids.sort_unstable();
    // A list may name a minion twice.
    ids.dedup();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use value::{Map, list, map};

    use super::*;
    use crate::minion_ids::Ids;

    /// Two minions, with a password in their pillar.
    struct Secrets;

    impl targeting::MinionData for Secrets {
        fn accepted(&self) -> Vec<String> {
            vec!["min1".to_owned(), "db1".to_owned()]
        }

        fn cached(&self) -> Vec<String> {
            self.accepted()
        }

        fn grains(&self, _: &str) -> Option<Arc<Map>> {
            None
        }

        fn pillar(&self, _: &str) -> Option<Arc<Map>> {
            Some(Arc::new(map! { "db" => map! { "password" => "hunter2" } }))
        }
    }

    #[test]
    fn pillar_cannot_be_read_with_patterns() {
        let groups = Map::new();
        let count = |list: &Value, tgt: &str, kind| {
            let checker = Checker::new(&Secrets, &groups, true);
            matched(list.as_list().unwrap(), &checker, &tgt.into(), kind).unwrap().len()
        };
        let guesses = [
            ("db:password:h*", TargetType::Pillar),
            ("db:password:h.*", TargetType::PillarPcre),
            ("I@db:password:h* and *1", TargetType::Compound),
            ("J@db:password:h.*", TargetType::Compound),
        ];
        let some = [
            list![map! { "min1" => list![".*"] }],
            list!["test.ping"],
            list![map! { "*" => list!["test.*"] }, "@runner"],
        ];
        for (tgt, kind) in guesses {
            for list in &some {
                assert_eq!(count(list, tgt, kind), 0, "{tgt} {list}");
            }
            for list in [list![".*"], list![map! { "*" => list![".*"] }], list!["pillar.*"]] {
                assert_eq!(count(&list, tgt, kind), 2, "{tgt} {list}");
            }
        }
        assert_eq!(count(&some[0], "db:password:hunter2", TargetType::Pillar), 2, "a whole value is compared");
        assert_eq!(count(&some[0], "min1,min1,db1,min1", TargetType::List), 2, "each minion counts once");
    }

    #[test]
    fn targets_that_take_long_are_refused() {
        let many = Ids((0..10_000).map(|number| format!("{}{number}", "a".repeat(40))).collect());
        let groups = Map::new();
        let found = |tgt: &str, kind| {
            let checker = Checker::new(&many, &groups, true);
            matched(&[], &checker, &tgt.into(), kind).map(|ids| ids.len())
        };
        assert_eq!(found("a*1 and not E@a+[0-4]+$ or L@web1", TargetType::Compound), Ok(875));
        let slow = vec!["*a*a*a*b"; 900].join(" or ");
        assert_eq!(found(&slow, TargetType::Compound), Err(Error::TooExpensive));
    }
}
