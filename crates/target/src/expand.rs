//! Expands targets: which of a master's minions should answer.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use value::{Map, Value};

use crate::compiled::Atom;
use crate::{Budget, Compiled, Context, Error, Glob, TargetType};

/// A master's knowledge about its minions.
pub trait MinionData {
    /// Returns the ids of all accepted keys, in the order in which answers are listed.
    fn accepted(&self) -> Vec<String>;

    /// Returns the ids with cached grains, accepted or not.
    fn cached(&self) -> Vec<String>;

    /// Returns the cached grains of a minion.
    fn grains(&self, id: &str) -> Option<Arc<Map>>;

    /// Returns the cached pillar of a minion.
    fn pillar(&self, id: &str) -> Option<Arc<Map>>;

    /// Returns how many minions' data to read at once with [`Self::read_ahead`]; `None` if one by one is as fast.
    fn batch(&self) -> Option<usize> {
        None
    }

    /// Reads cached data of several minions at once.
    ///
    /// # Errors
    /// If the store gave no answer: what the minions' data is, is then not known.
    fn read_ahead(&self, _ids: &[&str], _needs: Needs) -> Result<ReadAhead, Unavailable> {
        Ok(ReadAhead::default())
    }
}

/// The store of cached data gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

/// The data that a target uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Grains.
    pub grains: bool,
    /// Pillar.
    pub pillar: bool,
}

/// Data of several minions by id. What was read contains no entry for a minion without data.
#[derive(Clone, Debug, Default)]
pub struct ReadAhead {
    /// Grains, if they were read.
    pub grains: Option<HashMap<String, Arc<Map>>>,
    /// Pillar, if it was read.
    pub pillar: Option<HashMap<String, Arc<Map>>>,
}

/// The minions that are expected to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Ids that match.
    pub minions: Vec<String>,
    /// Ids in a list that are not accepted.
    pub missing: Vec<String>,
}

/// Expands targets on a master.
pub struct Checker<'a> {
    /// The minions.
    pub minions: &'a dyn MinionData,
    /// The option `nodegroups`.
    pub nodegroups: &'a Map,
    /// The option `minion_data_cache`. Without it, targets by grains and pillar match every minion: the minions decide.
    pub data_cache: bool,
    budget: Budget,
    unavailable: Cell<bool>,
}

impl<'a> Checker<'a> {
    /// Creates a checker for one request, with one budget for all its questions.
    pub fn new(minions: &'a dyn MinionData, nodegroups: &'a Map, data_cache: bool) -> Self {
        Checker { minions, nodegroups, data_cache, budget: Budget::default(), unavailable: Cell::new(false) }
    }

    /// Returns the same checker with another budget.
    pub fn within(self, budget: Budget) -> Self {
        Checker { budget, ..self }
    }

    /// Returns the minions that should answer a publication. An invalid target matches none, and the reason is returned.
    pub fn expect(&self, target: &Value, kind: TargetType, delimiter: &str) -> Result<Expected, Error> {
        self.expand(target, kind, delimiter, true)
    }

    /// Returns whether a publication matches one accepted minion.
    ///
    /// # Errors
    /// If the target is invalid.
    pub fn means(&self, target: &Value, kind: TargetType, delimiter: &str, id: &str) -> Result<bool, Error> {
        let expected = self.among(vec![id.to_owned()], target, kind, delimiter, true)?;
        Ok(!expected.minions.is_empty())
    }

    /// Returns the minions that match by cached data, for the mine. Ids without cached data are left out.
    pub fn known(&self, target: &Value, kind: TargetType, delimiter: &str) -> Result<Expected, Error> {
        self.expand(target, kind, delimiter, false)
    }

    fn expand(&self, target: &Value, kind: TargetType, delimiter: &str, greedy: bool) -> Result<Expected, Error> {
        self.among(self.minions.accepted(), target, kind, delimiter, greedy)
    }

    fn among(
        &self,
        accepted: Vec<String>,
        target: &Value,
        kind: TargetType,
        delimiter: &str,
        greedy: bool,
    ) -> Result<Expected, Error> {
        if !self.data_cache && is_compound(kind) {
            // Salt does not even parse a compound target then, so an invalid one reaches the minions too.
            return Ok(Expected { minions: accepted, missing: Vec::new() });
        }
        if kind == TargetType::List {
            return listed(target, &accepted);
        }
        let context = Context { delimiter, nodegroups: Some(self.nodegroups) };
        let compiled = match Compiled::for_master_within(target, kind, &context, &self.budget) {
            // Unlike on the minion a path without delimiter is not an error here, it just matches no minion.
            Err(Error::NoDelimiter { .. }) if self.data_cache => return Ok(Expected::default()),
            Err(Error::NoDelimiter { .. } | Error::Ipcidr { .. }) if !self.data_cache => {
                // Without cached data Salt does not evaluate the target, so it cannot find it invalid.
                let minions = if greedy { accepted } else { Vec::new() };
                return Ok(Expected { minions, missing: Vec::new() });
            }
            other => other?,
        };
        let expected = self.select(&compiled, accepted, greedy);
        // After the selection: an exhausted budget makes any of its results doubtful.
        self.budget.check()?;
        // Without data `not G@a:b` matches everybody. Such a result must neither grant anything nor be published to.
        match self.unavailable.get() {
            true => Err(Error::DataUnavailable),
            false => Ok(expected),
        }
    }

    fn select(&self, compiled: &Compiled, accepted: Vec<String>, greedy: bool) -> Expected {
        // The mine also answers with data of minions whose keys are gone, as in Salt, but only for targets that use
        // data.
        let wants_strangers = !greedy && compiled.atoms.iter().any(Atom::needs_data);
        // Built only when it is needed: with tens of thousands of keys it costs more than matching a glob.
        let known: HashSet<&str> = match wants_strangers || !compiled.named.is_empty() {
            true => accepted.iter().map(String::as_str).collect(),
            false => HashSet::new(),
        };
        let missing = compiled.named.iter().filter(|id| !known.contains(id.as_str())).cloned().collect();
        let strangers = if !wants_strangers {
            Vec::new()
        } else {
            let mut ids = self.minions.cached();
            ids.retain(|id| !known.contains(id.as_str()));
            ids
        };
        drop(known);
        let everyone = accepted.into_iter().map(|id| (id, true)).chain(strangers.into_iter().map(|id| (id, false)));
        if let Some((size, needs)) = self.in_batches(compiled) {
            return Expected {
                minions: self.select_in_batches(compiled, everyone.collect(), greedy, size, needs),
                missing,
            };
        }
        let matched = everyone.filter(|(id, accepted)| self.matched(compiled, id, *accepted, greedy, None));
        Expected { minions: matched.map(|(id, _)| id).collect(), missing }
    }

    /// Returns how many minions to evaluate at once, and with which data, if their data are remote.
    fn in_batches(&self, compiled: &Compiled) -> Option<(usize, Needs)> {
        let size = self.minions.batch().filter(|_| self.data_cache)?;
        let grains = compiled.atoms.iter().any(|atom| matches!(atom, Atom::Grain(_) | Atom::Ipcidr(_)));
        let pillar = compiled.atoms.iter().any(|atom| matches!(atom, Atom::Pillar(_)));
        (grains || pillar).then_some((size.max(1), Needs { grains, pillar }))
    }

    fn select_in_batches(
        &self,
        compiled: &Compiled,
        everyone: Vec<(String, bool)>,
        greedy: bool,
        size: usize,
        needs: Needs,
    ) -> Vec<String> {
        let mut matched = Vec::new();
        for some in everyone.chunks(size) {
            // Nothing more is read for a target that is refused anyway.
            if self.budget.check().is_err() {
                break;
            }
            let ids: Vec<&str> = some.iter().map(|(id, _)| id.as_str()).collect();
            let Ok(ahead) = self.minions.read_ahead(&ids, needs) else {
                self.unavailable.set(true);
                break;
            };
            let fits = |(id, accepted): &&(String, bool)| self.matched(compiled, id, *accepted, greedy, Some(&ahead));
            matched.extend(some.iter().filter(fits).map(|(id, _)| id.clone()));
        }
        matched
    }

    fn matched(&self, compiled: &Compiled, id: &str, accepted: bool, greedy: bool, ahead: Option<&ReadAhead>) -> bool {
        let (grains, pillar) = (OnceCell::new(), OnceCell::new());
        let candidate = Candidate { id, accepted, greedy, checker: self, ahead, grains, pillar };
        let mut atom = |number: usize| candidate.matches(&compiled.atoms[number]);
        // Whatever is excluded is taken from the accepted ids.
        let matched = compiled.expression.evaluate(&mut atom, &|inner| accepted && !inner).unwrap_or(false);
        self.budget.spend(STEPS_PER_MINION) && matched
    }
}

/// The approximate cost of a minion besides its patterns.
const STEPS_PER_MINION: u64 = 50;

fn is_compound(kind: TargetType) -> bool {
    matches!(kind, TargetType::Compound | TargetType::CompoundPillarExact | TargetType::Nodegroup)
}

/// A list is answered in its own order.
fn listed(target: &Value, accepted: &[String]) -> Result<Expected, Error> {
    let accepted: HashSet<&str> = accepted.iter().map(String::as_str).collect();
    let ids = crate::split_list(target)?;
    let (minions, missing) = ids.into_iter().partition(|id| accepted.contains(id.as_str()));
    Ok(Expected { minions, missing })
}

/// A minion that is being matched; its data is read when it is first needed.
struct Candidate<'a> {
    id: &'a str,
    accepted: bool,
    greedy: bool,
    checker: &'a Checker<'a>,
    ahead: Option<&'a ReadAhead>,
    grains: OnceCell<Option<Arc<Map>>>,
    pillar: OnceCell<Option<Arc<Map>>>,
}

impl Candidate<'_> {
    fn matches(&self, atom: &Atom) -> bool {
        let budget = &self.checker.budget;
        match atom {
            Atom::Glob(glob) => self.accepted && glob.matches_within(self.id, budget),
            // Every word costs something, or an expression of very many words would be free.
            Atom::List(ids) => budget.spend(STEPS_PER_MINION) && self.accepted && ids.contains(self.id),
            Atom::Pcre(regex) => self.accepted && regex.is_match_within(self.id, budget),
            Atom::Manager(pattern) => {
                budget.spend(pattern.len() as u64)
                    && self.accepted
                    && Glob::new(pattern).matches_within(self.id, budget)
            }
            Atom::Resource => false,
            Atom::Grain(path) => {
                self.by_data(|| self.grains().is_some_and(|grains| path.matches_within(grains, budget)), false)
            }
            Atom::Pillar(path) => {
                self.by_data(|| self.pillar().is_some_and(|pillar| path.matches_within(pillar, budget)), false)
            }
            // While nothing is known, an address could match, unlike a grain.
            Atom::Ipcidr(subnet) => {
                self.by_data(|| self.grains().is_some_and(|grains| subnet.matches(grains)), self.grains().is_none())
            }
        }
    }

    fn by_data(&self, matches: impl Fn() -> bool, unknown_counts: bool) -> bool {
        match (self.greedy, self.checker.data_cache) {
            (true, false) => self.accepted,
            (false, false) => false,
            // A minion without cached data is left out, except by address.
            (true, true) => self.accepted && (unknown_counts || matches()),
            (false, true) => matches(),
        }
    }

    fn grains(&self) -> Option<&Map> {
        let read = || match self.ahead.and_then(|ahead| ahead.grains.as_ref()) {
            Some(ahead) => ahead.get(self.id).cloned(),
            None => self.checker.minions.grains(self.id),
        };
        self.grains.get_or_init(read).as_deref()
    }

    fn pillar(&self) -> Option<&Map> {
        let read = || match self.ahead.and_then(|ahead| ahead.pillar.as_ref()) {
            Some(ahead) => ahead.get(self.id).cloned(),
            None => self.checker.minions.pillar(self.id),
        };
        self.pillar.get_or_init(read).as_deref()
    }
}

impl Atom {
    fn needs_data(&self) -> bool {
        matches!(self, Atom::Grain(_) | Atom::Pillar(_) | Atom::Ipcidr(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEFAULT_DELIMITER;

    /// Minions with long ids, and grains that nest as deep as a stranger likes.
    struct Many(usize);

    impl MinionData for Many {
        fn accepted(&self) -> Vec<String> {
            (0..self.0).map(|number| format!("{}{number}", "a".repeat(60))).collect()
        }

        fn cached(&self) -> Vec<String> {
            Vec::new()
        }

        fn grains(&self, _: &str) -> Option<Arc<Map>> {
            let deep = (0..50).fold(Value::from("x"), |inner, _| value::map! { "a" => inner }.into());
            deep.into_map().map(Arc::new)
        }

        fn pillar(&self, _: &str) -> Option<Arc<Map>> {
            None
        }
    }

    /// Minions whose data are on a server, which counts the requests.
    struct Far {
        many: Many,
        asked: Cell<usize>,
        /// The request that gets no answer; 0 for none.
        fails_at: usize,
    }

    impl MinionData for Far {
        fn accepted(&self) -> Vec<String> {
            self.many.accepted()
        }

        fn cached(&self) -> Vec<String> {
            Vec::new()
        }

        fn grains(&self, _: &str) -> Option<Arc<Map>> {
            panic!("asked one by one")
        }

        fn pillar(&self, _: &str) -> Option<Arc<Map>> {
            panic!("asked one by one")
        }

        fn batch(&self) -> Option<usize> {
            Some(500)
        }

        fn read_ahead(&self, ids: &[&str], needs: Needs) -> Result<ReadAhead, Unavailable> {
            assert_eq!(needs, Needs { grains: true, pillar: false });
            self.asked.set(self.asked.get() + 1);
            if self.asked.get() == self.fails_at {
                return Err(Unavailable);
            }
            let odd = ids.iter().filter(|id| id.ends_with('1'));
            let grains = odd.map(|id| ((*id).to_owned(), Arc::new(value::map! { "os" => "Debian" }))).collect();
            Ok(ReadAhead { grains: Some(grains), pillar: None })
        }
    }

    #[test]
    fn data_on_a_server_are_read_many_at_once_and_only_if_they_are_needed() {
        let (minions, nodegroups) = (Far { many: Many(10_000), asked: Cell::default(), fails_at: 0 }, Map::new());
        let checker = Checker::new(&minions, &nodegroups, true);
        let count = |target: &str| {
            let expected = checker.expect(&target.into(), TargetType::Compound, DEFAULT_DELIMITER).unwrap();
            (expected.minions.len(), minions.asked.replace(0))
        };
        assert_eq!(count("G@os:Debian"), (1_000, 20));
        assert_eq!(count("* and not G@os:Deb*"), (9_000, 20));
        assert_eq!(count("a*"), (10_000, 0));
    }

    #[test]
    fn nobody_matches_and_nothing_is_granted_while_the_data_is_not_known() {
        for fails_at in [1, 2] {
            let (minions, nodegroups) = (Far { many: Many(1_000), asked: Cell::default(), fails_at }, Map::new());
            let checker = Checker::new(&minions, &nodegroups, true);
            let everyone = Value::from("* and not G@os:Debian");
            let found = checker.expect(&everyone, TargetType::Compound, DEFAULT_DELIMITER);
            assert_eq!(found, Err(Error::DataUnavailable));
            let request = crate::acl::Publication {
                functions: &["test.ping".to_owned()],
                arguments: &[],
                target: &"*".into(),
                kind: TargetType::Glob,
                delimiter: DEFAULT_DELIMITER,
                minions: None,
            };
            minions.asked.set(0);
            let checker = Checker::new(&minions, &nodegroups, true);
            assert!(!crate::acl::target_covers("* and not G@os:Debian", &request, &checker));
        }
    }

    fn expect(target: &str, kind: TargetType, minions: usize) -> Result<usize, Error> {
        let (minions, nodegroups) = (Many(minions), Map::new());
        // A small part of a request's budget keeps the test short.
        let budget = Budget::of(30_000_000);
        let checker = Checker { budget, ..Checker::new(&minions, &nodegroups, true) };
        checker.expect(&target.into(), kind, DEFAULT_DELIMITER).map(|expected| expected.minions.len())
    }

    #[test]
    fn the_cost_of_a_target_is_limited_for_all_minions_together() {
        let slow = r"(?:(a)|(aa))+(?!c)b\1";
        for kind in [TargetType::Compound, TargetType::Pcre] {
            let target = if kind == TargetType::Pcre { slow.to_owned() } else { format!("not E@{slow} or E@{slow}") };
            assert_eq!(expect(&target, kind, 1_000), Err(Error::TooExpensive), "{target}");
        }
        let deep = "a:".repeat(45) + "y";
        assert_eq!(expect(&deep, TargetType::Grain, 1), Err(Error::TooExpensive));
        assert_eq!(expect(&"a:".repeat(5_000), TargetType::Grain, 1), Ok(0));
        assert!(expect(&"x or ".repeat(20_000), TargetType::Compound, 1).is_err());
    }

    #[test]
    fn ordinary_targets_over_many_minions_are_cheap() {
        let many = 1_000;
        assert_eq!(expect("^(?!web)a+[0-9]*1$", TargetType::Pcre, many), Ok(100));
        assert_eq!(expect(r"(a)\1+[a-z0-9-]{1,63}", TargetType::Pcre, many), Ok(many));
        assert_eq!(expect(r"[\w.-]{1,20}", TargetType::Pcre, many), Ok(many));
        let words = (0..200).map(|number| format!("*x{number}")).collect::<Vec<_>>().join(" or ");
        assert_eq!(expect(&format!("( {words} ) or a*"), TargetType::Compound, many), Ok(many));
        assert_eq!(expect("a:a:a:*", TargetType::Grain, 300), Ok(300));
    }

    #[test]
    fn a_single_minion_is_checked_without_the_others() {
        let (minions, nodegroups) = (Many(3), Map::new());
        let checker = Checker::new(&minions, &nodegroups, true);
        let means = |target: &str, id: &str| checker.means(&target.into(), TargetType::Compound, ":", id);
        assert_eq!(means("web* and not E@b", "web1"), Ok(true));
        assert_eq!(means("web*", "db1"), Ok(false));
    }
}
