//! Entries for the computers of a directory: the target `ldap(ou=Web,dc=example,dc=com)` stands for the minions on the computers
//! below that entry.
//!
//! Salt asks the server at each request. Here a request waits for no server: the last answer counts, and is renewed by logins and
//! when it is old.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use value::{Map, Value};

use crate::ldap::Ldap;

/// How old an answer may be before the server is asked again.
const FRESH: Duration = Duration::from_secs(60);

/// The computers below the entries that a configuration names.
#[derive(Debug, Default)]
pub struct Computers {
    /// The distinguished names of the entries.
    bases: Vec<String>,
    cached: Mutex<CachedComputers>,
}

#[derive(Debug, Default)]
struct CachedComputers {
    minions: HashMap<String, Vec<String>>,
    /// When the server was asked for the last time.
    asked: Option<Instant>,
}

impl Computers {
    /// Finds the targets `ldap(…)` in the entries of all users.
    pub fn of(entries: &Map) -> Self {
        let listed = entries.values().filter_map(Value::as_list).flatten();
        let targets = listed.filter_map(Value::as_map).flat_map(Map::keys);
        let mut bases: Vec<String> = targets.filter_map(|target| base(target.as_str()?)).map(str::to_owned).collect();
        bases.sort();
        bases.dedup();
        Computers { bases, cached: Mutex::default() }
    }

    /// Returns whether the server should be asked. Who gets a yes asks it: others get a no for a while.
    pub fn is_due(&self, now: Instant) -> bool {
        if self.bases.is_empty() {
            return false;
        }
        let mut cached = self.cached();
        let is_due = cached.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= FRESH);
        if is_due {
            cached.asked = Some(now);
        }
        is_due
    }

    /// Asks the server. If it cannot tell, what was known before counts. Blocks.
    pub fn ask(&self, server: &Ldap) {
        match server.computers(&self.bases) {
            Ok(minions) => self.cached().minions = minions,
            Err(error) => tracing::error!("{error}: the computers in entries ldap(…) are those that were known before"),
        }
    }

    /// Returns entries with minions in the place of `ldap(…)`.
    pub fn expand(&self, entries: Vec<Value>) -> Vec<Value> {
        if self.bases.is_empty() {
            return entries;
        }
        let cached = self.cached();
        entries.into_iter().flat_map(|entry| expanded(entry, &cached.minions)).collect()
    }

    fn cached(&self) -> MutexGuard<'_, CachedComputers> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn expanded(entry: Value, minions: &HashMap<String, Vec<String>>) -> Vec<Value> {
    let single = entry.as_map().and_then(|map| map.iter().next());
    let Some((base, conditions)) = single.and_then(|(target, c)| Some((base(target.as_str()?)?, c))) else {
        return vec![entry];
    };
    let ids = minions.get(base).map_or(&[][..], Vec::as_slice).iter().filter(|id| is_id(id));
    ids.map(|id| Map::from_iter([(id.as_str(), conditions.clone())]).into()).collect()
}

/// Returns the distinguished name in a target `ldap(…)`.
fn base(target: &str) -> Option<&str> {
    target.trim().strip_prefix("ldap(")?.strip_suffix(')').map(str::trim)
}

/// Returns whether a name in a directory can be the id of a minion. As a target, another one could mean any minion.
fn is_id(name: &str) -> bool {
    let is_good = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
    !name.is_empty() && name.chars().all(is_good) && !["and", "or", "not"].contains(&name)
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn computers_take_the_place_of_their_base() {
        let web = || map! { "ldap(ou=Web,dc=x)" => list!["pkg.*"] };
        let entries = map! { "fred" => list!["test.*", web()], "admins%" => list![map! { "ldap( ou=Db )" => list![".*"] }, web()] };
        let computers = Computers::of(&entries);
        assert_eq!(computers.bases, ["ou=Db", "ou=Web,dc=x"]);
        let expand = || computers.expand(vec!["test.*".into(), web().into(), map! { "db" => list!["x"] }.into()]);
        let others = || vec![Value::from("test.*"), map! { "db" => list!["x"] }.into()];
        assert_eq!(expand(), others(), "nothing is known yet");
        let found = ["web1", "web 2 or *", "not", "w*", "", "web.example.com"].map(str::to_owned).to_vec();
        computers.cached().minions = [("ou=Web,dc=x".to_owned(), found)].into();
        let minion = |id: &str| Value::from(map! { id => list!["pkg.*"] });
        let [first, last] = others().try_into().unwrap();
        assert_eq!(expand(), [first, minion("web1"), minion("web.example.com"), last]);
    }

    #[test]
    fn one_asks_for_all() {
        let now = Instant::now();
        assert!(!Computers::of(&map! { "fred" => list!["test.*"] }).is_due(now));
        let computers = Computers::of(&map! { "fred" => list![map! { "ldap(ou=Web)" => list!["pkg.*"] }] });
        assert!(computers.is_due(now) && !computers.is_due(now) && computers.is_due(now + FRESH));
    }
}
