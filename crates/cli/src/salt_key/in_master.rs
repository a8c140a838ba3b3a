//! The keys of a master that a user commands who has logged in. The master does the work, with its wheel functions.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Error, LocalClient};
use rt::Rt;
use tokio::runtime::Runtime;
use value::{Map, Value};

use super::{Changes, Include, Verb};
use crate::login::{self, Plan};
use crate::prepare;

/// How long the master may work.
const LIMIT: Duration = Duration::from_secs(300);

/// The keys, seen through the master.
pub struct InMaster {
    runtime: Runtime,
    client: LocalClient,
}

impl InMaster {
    /// Logs in.
    pub fn new(config: &config::Master, plan: Plan) -> Result<Self> {
        let runtime = prepare::small_runtime().context("failed to start")?;
        let mut client = LocalClient::new(Rt::real(), client::settings::from_config(config));
        let proof = runtime.block_on(login::proof_for_functions(plan, &client))?;
        client.set_proof(proof);
        Ok(InMaster { runtime, client })
    }

    /// Lists a class of keys.
    pub fn list(&self, class: &str) -> Result<Map> {
        self.ask("key.list", vec![class.into()])
    }

    /// Returns public keys.
    pub fn key_str(&self, glob: &str) -> Result<Map> {
        self.ask("key.print", vec![glob.into()])
    }

    /// Returns fingerprints.
    pub fn finger(&self, glob: &str, hash_type: &str) -> Result<Map> {
        self.ask("key.finger", vec![glob.into(), hash_type.into()])
    }

    /// Returns the ids that match a glob, by class.
    pub fn glob_match(&self, glob: &str) -> Result<Map> {
        self.ask("key.glob_match", vec![glob.into()])
    }

    /// Changes the keys that the user has seen, and no others that have come since.
    pub fn change(&self, verb: Verb, include: Include, seen: &Map) -> Result<Changes> {
        let ids = ids(seen);
        let selected = selection(&ids);
        let (function, args) = match verb {
            Verb::Accept => ("key.accept", vec![selected, include.rejected.into(), include.denied.into()]),
            Verb::Reject => ("key.reject", vec![selected, include.accepted.into(), include.denied.into()]),
            Verb::Delete => ("key.delete", vec![selected]),
        };
        let now = self.ask(function, args)?;
        let (done, missed) = divide(verb, ids, &now);
        // The master does not say why a key was not accepted, and there is hardly another reason.
        let (invalid, missed) = if verb == Verb::Accept { (missed, Vec::new()) } else { (Vec::new(), missed) };
        Ok(Changes { done, invalid, missed, incomplete: None })
    }

    fn ask(&self, function: &str, args: Vec<Value>) -> Result<Map> {
        let data = self.runtime.block_on(self.client.wheel(function, args, LIMIT))?;
        match data.get("return") {
            Some(Value::Map(found)) if data.get("success").is_some_and(Value::truthy) => Ok(found.clone()),
            Some(Value::Str(text)) => Err(Error::Refused(text.clone()).into()),
            other => Err(Error::Answer(value::python::repr(other.unwrap_or(&Value::Null))).into()),
        }
    }
}

/// Returns each id once, in the order in which it was shown.
pub fn ids(seen: &Map) -> Vec<String> {
    let mut known = HashSet::new();
    let all = seen.iter().flat_map(|(_, ids)| ids.as_list().unwrap_or_default()).filter_map(Value::as_str);
    all.filter(|id| known.insert(*id)).map(str::to_owned).collect()
}

/// Returns the argument that means these ids. A single one is a text, so that demands on arguments in `external_auth` can
/// be met.
fn selection(ids: &[String]) -> Value {
    match ids {
        // A comma separates patterns.
        [one] if !one.contains(',') => exactly(one).into(),
        several => several.iter().map(|id| exactly(id)).collect::<Vec<_>>().into(),
    }
}

/// Returns the glob that only this id matches: anybody may offer a key for an id such as `*`.
fn exactly(id: &str) -> String {
    let mut glob = String::with_capacity(id.len());
    for letter in id.chars() {
        match letter {
            '*' | '?' | '[' => glob.extend(['[', letter, ']']),
            other => glob.push(other),
        }
    }
    glob
}

/// Divides ids into those that are where they should be, and the others.
pub fn divide(verb: Verb, ids: Vec<String>, now: &Map) -> (Vec<String>, Vec<String>) {
    let in_class = |wanted: Option<&str>| {
        let classes = now.iter().filter(|(class, _)| wanted.is_none_or(|wanted| class.as_str() == Some(wanted)));
        classes.flat_map(|(_, ids)| ids.as_list().unwrap_or_default()).filter_map(Value::as_str).collect::<HashSet<_>>()
    };
    let class = match verb {
        Verb::Accept => Some("minions"),
        Verb::Reject => Some("minions_rejected"),
        Verb::Delete => None,
    };
    let there = in_class(class);
    ids.into_iter().partition(|id| there.contains(id.as_str()) == class.is_some())
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn only_the_keys_that_were_shown_are_selected() {
        let seen = map! { "minions_pre" => list!["web1", "*"], "minions_denied" => list!["web1"] };
        assert_eq!(selection(&ids(&seen)), list!["web1", "[*]"]);
        assert_eq!(selection(&["web1".to_owned()]), "web1".into());
        assert_eq!(selection(&["a,b".to_owned()]), list!["a,b"]);
        assert_eq!(exactly("a?[b]"), "a[?][[]b]");
    }

    #[test]
    fn the_classes_afterwards_say_what_was_done() {
        let now = map! { "minions" => list!["a"], "minions_rejected" => list!["b"] };
        let divided = |verb| divide(verb, ["a", "b", "c"].map(str::to_owned).to_vec(), &now);
        assert_eq!(divided(Verb::Accept), (vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]));
        assert_eq!(divided(Verb::Reject), (vec!["b".to_owned()], vec!["a".to_owned(), "c".to_owned()]));
        assert_eq!(divided(Verb::Delete), (vec!["c".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
    }
}
