//! Who should answer: a target over all minions a master knows.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use value::{Map, Value};

use crate::compiled::Atom;
use crate::{Compiled, Context, Error, TargetType, fnmatch};

/// What a master knows about its minions.
pub trait MinionData {
    /// Returns the ids of all accepted keys, in the order answers are listed in.
    fn accepted(&self) -> Vec<String>;

    /// Returns the ids with cached grains, accepted or not.
    fn cached(&self) -> Vec<String>;

    /// Returns the cached grains of a minion.
    fn grains(&self, id: &str) -> Option<Arc<Map>>;

    /// Returns the cached pillar of a minion.
    fn pillar(&self, id: &str) -> Option<Arc<Map>>;
}

/// Who is expected to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Ids that match.
    pub minions: Vec<String>,
    /// Ids a list names that are not accepted.
    pub missing: Vec<String>,
}

/// Expands targets on a master.
pub struct Checker<'a> {
    /// The minions.
    pub minions: &'a dyn MinionData,
    /// The option `nodegroups`.
    pub nodegroups: &'a Map,
    /// The option `minion_data_cache`. Without it targets by grains and pillar mean everyone: the minions decide.
    pub data_cache: bool,
}

impl Checker<'_> {
    /// Returns who should answer a publication. A target that cannot be read means nobody, with the reason.
    pub fn expect(&self, target: &Value, kind: TargetType, delimiter: &str) -> Result<Expected, Error> {
        self.expand(target, kind, delimiter, true)
    }

    /// Returns who matches by what the cache holds, for the mine: ids without cached data are left out.
    pub fn known(&self, target: &Value, kind: TargetType, delimiter: &str) -> Result<Expected, Error> {
        self.expand(target, kind, delimiter, false)
    }

    fn expand(&self, target: &Value, kind: TargetType, delimiter: &str, greedy: bool) -> Result<Expected, Error> {
        let accepted = self.minions.accepted();
        if !self.data_cache && is_compound(kind) {
            return Ok(Expected { minions: accepted, missing: Vec::new() });
        }
        if kind == TargetType::List {
            return listed(target, &accepted);
        }
        let context = Context { delimiter, nodegroups: Some(self.nodegroups) };
        let compiled = match Compiled::for_master(target, kind, &context) {
            // Unlike on the minion a path without delimiter is no error here, it just matches nobody.
            Err(Error::NoDelimiter { .. }) if self.data_cache => return Ok(Expected::default()),
            Err(Error::NoDelimiter { .. } | Error::Ipcidr { .. }) if !self.data_cache => {
                let minions = if greedy { accepted } else { Vec::new() };
                return Ok(Expected { minions, missing: Vec::new() });
            }
            other => other?,
        };
        Ok(self.select(&compiled, accepted, greedy))
    }

    fn select(&self, compiled: &Compiled, accepted: Vec<String>, greedy: bool) -> Expected {
        let wants_strangers = !greedy && compiled.atoms.iter().any(Atom::needs_data);
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
        let meant = everyone.filter(|(id, accepted)| self.meant(compiled, id, *accepted, greedy));
        Expected { minions: meant.map(|(id, _)| id).collect(), missing }
    }

    fn meant(&self, compiled: &Compiled, id: &str, accepted: bool, greedy: bool) -> bool {
        let candidate =
            Candidate { id, accepted, greedy, checker: self, grains: OnceCell::new(), pillar: OnceCell::new() };
        let mut atom = |number: usize| candidate.matches(&compiled.atoms[number]);
        // Whatever is excluded is taken from the accepted ids.
        compiled.expression.evaluate(&mut atom, &|inner| accepted && !inner).unwrap_or(false)
    }
}

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

/// A minion in question, with its data read when first needed.
struct Candidate<'a> {
    id: &'a str,
    accepted: bool,
    greedy: bool,
    checker: &'a Checker<'a>,
    grains: OnceCell<Option<Arc<Map>>>,
    pillar: OnceCell<Option<Arc<Map>>>,
}

impl Candidate<'_> {
    fn matches(&self, atom: &Atom) -> bool {
        match atom {
            Atom::Glob(glob) => self.accepted && glob.matches(self.id),
            Atom::List(ids) => self.accepted && ids.iter().any(|id| id == self.id),
            Atom::Pcre(regex) => self.accepted && regex.is_match(self.id),
            Atom::Manager(pattern) => self.accepted && fnmatch(self.id, pattern),
            Atom::Resource => false,
            Atom::Grain(path) => self.by_data(|| self.grains().is_some_and(|grains| path.matches(grains)), false),
            Atom::Pillar(path) => self.by_data(|| self.pillar().is_some_and(|pillar| path.matches(pillar)), false),
            // An address could be the right one as long as nothing is known, unlike a grain.
            Atom::Ipcidr(subnet) => {
                self.by_data(|| self.grains().is_some_and(|grains| subnet.matches(grains)), self.grains().is_none())
            }
        }
    }

    fn by_data(&self, matches: impl Fn() -> bool, unknown_counts: bool) -> bool {
        match (self.greedy, self.checker.data_cache) {
            (true, false) => self.accepted,
            (false, false) => false,
            (true, true) => self.accepted && (unknown_counts || matches()),
            (false, true) => matches(),
        }
    }

    fn grains(&self) -> Option<&Map> {
        self.grains.get_or_init(|| self.checker.minions.grains(self.id)).as_deref()
    }

    fn pillar(&self) -> Option<&Map> {
        self.pillar.get_or_init(|| self.checker.minions.pillar(self.id)).as_deref()
    }
}

impl Atom {
    fn needs_data(&self) -> bool {
        matches!(self, Atom::Grain(_) | Atom::Pillar(_) | Atom::Ipcidr(_))
    }
}
