//! Who is meant by a target.

use std::collections::BTreeMap;
use std::sync::Arc;

use targeting::{Checker, DEFAULT_DELIMITER, MinionData, TargetType};
use value::{Map, list};

use crate::id;

/// A thousand minions with thirty grains each.
struct Minions(BTreeMap<String, Arc<Map>>);

impl Minions {
    fn new() -> Self {
        let grains = |number: usize| {
            let mut grains: Map = (0..27).map(|place| (format!("grain{place}"), format!("value {place}"))).collect();
            grains.insert("os", if number.is_multiple_of(3) { "Debian" } else { "RedHat" });
            grains.insert("roles", list!["web", "cache"]);
            grains.insert("ipv4", list!["127.0.0.1", format!("10.0.{}.{}", number / 250, number % 250)]);
            (id(number), Arc::new(grains))
        };
        Minions((0..1000).map(grains).collect())
    }

    fn matches(&self, target: &str, kind: TargetType) -> usize {
        let nodegroups = Map::new();
        let checker = Checker::new(self, &nodegroups, true);
        let expected = checker.expect(&target.into(), kind, DEFAULT_DELIMITER);
        expected.expect("the target can be read").minions.len()
    }
}

impl MinionData for Minions {
    fn accepted(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn cached(&self) -> Vec<String> {
        self.accepted()
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        self.0.get(id).cloned()
    }

    fn pillar(&self, _: &str) -> Option<Arc<Map>> {
        None
    }
}

pub fn glob(times: usize) {
    let known = Minions::new();
    for _ in 0..times {
        assert_eq!(known.matches("web00?[0-4]*", TargetType::Glob), 500);
    }
}

pub fn grain(times: usize) {
    let known = Minions::new();
    for _ in 0..times {
        assert_eq!(known.matches("os:Debian", TargetType::Grain), 334);
    }
}

pub fn compound(times: usize) {
    let known = Minions::new();
    for _ in 0..times {
        assert_eq!(known.matches("G@roles:cache and web00* and not E@web000[0-4].*", TargetType::Compound), 950);
    }
}
