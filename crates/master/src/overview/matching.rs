//! Matches the targets of users who only ask.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use targeting::acl::{Publication, everything_allowed};
use targeting::{Budget, Checker, DEFAULT_DELIMITER, Error, TargetType};
use value::Value;

use super::Refused;

/// The steps that the target of a question may take, far fewer than those of a publication: anybody may ask, and as often as they
/// like. A glob takes some 50 of them for each minion.
const STEPS: u64 = 30_000_000;

/// The most questions with a target that one user may have under way.
const MOST_AT_ONCE: usize = 2;

/// Returns the minions that a target matches, each once, in the order of their ids.
///
/// Pillar is compared exactly, unless the user may do everything on all minions: with patterns a user could read its values letter
/// by letter.
///
/// # Errors
/// When the target cannot be matched.
pub fn matched(list: &[Value], checker: &Checker, tgt: &Value, kind: TargetType) -> Result<Vec<String>, Error> {
    let kind = match kind.with_exact_pillar() {
        exact if exact == kind || may_do_everything(list, checker) => kind,
        exact => exact,
    };
    let asked = Checker::new(checker.minions, checker.nodegroups, checker.data_cache).within(Budget::of(STEPS));
    let mut ids = asked.expect(tgt, kind, DEFAULT_DELIMITER)?.minions;
    ids.sort_unstable();
    // A list may name a minion twice.
    ids.dedup();
    Ok(ids)
}

fn may_do_everything(list: &[Value], checker: &Checker) -> bool {
    let everywhere = Publication {
        functions: &[],
        arguments: &[],
        target: &"*".into(),
        kind: TargetType::Glob,
        delimiter: DEFAULT_DELIMITER,
        minions: None,
    };
    everything_allowed(list, &everywhere, checker)
}

/// Counts the questions with a target that each user has under way: they take time of the processor.
#[derive(Default)]
pub struct Turns(Arc<Mutex<HashMap<String, usize>>>);

/// A question under way, until it is dropped.
pub struct Turn {
    all: Arc<Mutex<HashMap<String, usize>>>,
    user: String,
}

impl Turns {
    /// Takes a turn for a question.
    ///
    /// # Errors
    /// When the user has too many under way.
    pub fn take(&self, user: &str) -> Result<Turn, Refused> {
        // Each change is complete or has not happened.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(user.to_owned()).or_default();
        if *count >= MOST_AT_ONCE {
            return Err(Refused::new(429, "You have too many questions with a target under way"));
        }
        *count += 1;
        Ok(Turn { all: self.0.clone(), user: user.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use value::{Map, list, map};

    use super::*;

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
        let some =
            [list![map! { "min1" => list![".*"] }], list!["test.ping"], list![map! { "*" => list!["test.*"] }, "@runner"]];
        for (tgt, kind) in guesses {
            for list in &some {
                assert_eq!(count(list, tgt, kind), 0, "{tgt} {list}");
            }
            for list in [list![".*"], list![map! { "*" => list![".*"] }]] {
                assert_eq!(count(&list, tgt, kind), 2, "{tgt} {list}");
            }
        }
        assert_eq!(count(&some[0], "db:password:hunter2", TargetType::Pillar), 2, "a whole value is compared");
        assert_eq!(count(&some[0], "min1,min1,db1,min1", TargetType::List), 2, "each minion counts once");
    }

    /// Many minions.
    struct Many;

    impl targeting::MinionData for Many {
        fn accepted(&self) -> Vec<String> {
            (0..10_000).map(|number| format!("{}{number}", "a".repeat(40))).collect()
        }

        fn cached(&self) -> Vec<String> {
            Vec::new()
        }

        fn grains(&self, _: &str) -> Option<Arc<Map>> {
            None
        }

        fn pillar(&self, _: &str) -> Option<Arc<Map>> {
            None
        }
    }

    #[test]
    fn targets_that_take_long_are_refused() {
        let groups = Map::new();
        let found = |tgt: &str, kind| {
            let checker = Checker::new(&Many, &groups, true);
            matched(&[], &checker, &tgt.into(), kind).map(|ids| ids.len())
        };
        assert_eq!(found("a*1 and not E@a+[0-4]+$ or L@web1", TargetType::Compound), Ok(875));
        let slow = vec!["*a*a*a*b"; 900].join(" or ");
        assert_eq!(found(&slow, TargetType::Compound), Err(Error::TooExpensive));
    }

    #[test]
    fn each_user_has_few_questions_under_way() {
        let turns = Turns::default();
        let own = [(); MOST_AT_ONCE].map(|()| turns.take("fred").unwrap());
        assert_eq!(turns.take("fred").err().map(|refused| refused.status), Some(429));
        let other = turns.take("wilma").unwrap();
        drop(own);
        assert!(turns.take("fred").is_ok());
        drop(other);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
