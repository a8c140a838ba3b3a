//! The actions that a command line of `salt-key` requests.

use value::{Map, Value};

/// One action with its pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a key pair with this name.
    GenKeys(String),
    /// Sign the master's public key.
    GenSignature,
    /// List a class of keys: `acc`, `pre`, `un`, `rej`, `den` or `all`.
    List(String),
    /// Print public keys.
    Print(String),
    /// Accept keys.
    Accept(String),
    /// Reject keys.
    Reject(String),
    /// Delete keys.
    Delete(String),
    /// Print fingerprints.
    Finger(String),
}

impl Action {
    /// Chooses the action. Of several flags the first in this order counts, as in Salt; without any, all keys are
    /// listed.
    pub fn choose(settings: &Map) -> Action {
        let text = |name: &str| settings.get_str(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let flag = |name: &str| settings.get(name).is_some_and(Value::truthy);
        let one_or_all = |one: &str, all: &str, make: fn(String) -> Action| {
            text(one).or_else(|| flag(all).then(|| "*".to_owned())).map(make)
        };
        text("gen_keys")
            .map(Action::GenKeys)
            .or_else(|| flag("gen_signature").then_some(Action::GenSignature))
            .or_else(|| text("list").map(Action::List))
            .or_else(|| flag("list_all").then(|| Action::List("all".into())))
            .or_else(|| one_or_all("print", "print_all", Action::Print))
            .or_else(|| one_or_all("accept", "accept_all", Action::Accept))
            .or_else(|| one_or_all("reject", "reject_all", Action::Reject))
            .or_else(|| one_or_all("delete", "delete_all", Action::Delete))
            .or_else(|| one_or_all("finger", "finger_all", Action::Finger))
            .unwrap_or_else(|| Action::List("all".into()))
    }
}

/// The classes that accept and reject search besides the pending one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Include {
    /// Accepted keys.
    pub accepted: bool,
    /// Rejected keys.
    pub rejected: bool,
    /// Denied keys.
    pub denied: bool,
}

impl Include {
    /// Returns the flags that have an effect on an action.
    pub fn of(action: &Action, settings: &Map) -> Include {
        let flag = |name: &str| settings.get(name).is_some_and(Value::truthy);
        let all = flag("include_all");
        let denied = flag("include_denied");
        match action {
            // An accepted key is not accepted again, whatever the flags say.
            Action::Accept(_) => Include { accepted: false, rejected: all || flag("include_rejected"), denied },
            Action::Reject(_) => Include { accepted: all || flag("include_accepted"), rejected: false, denied },
            _ => Include { accepted: flag("include_accepted"), rejected: flag("include_rejected"), denied },
        }
    }

    /// Returns the classes in words, `unaccepted, rejected or denied`.
    pub fn in_words(self) -> String {
        let mut words = vec!["unaccepted"];
        words.extend(self.accepted.then_some("accepted"));
        words.extend(self.rejected.then_some("rejected"));
        words.extend(self.denied.then_some("denied"));
        match words.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => words.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn the_first_action_counts_and_listing_is_the_last_resort() {
        assert_eq!(Action::choose(&map! {}), Action::List("all".into()));
        assert_eq!(Action::choose(&map! { "list" => "", "accept_all" => true }), Action::Accept("*".into()));
        assert_eq!(Action::choose(&map! { "finger" => "web*", "delete" => "" }), Action::Finger("web*".into()));
        assert_eq!(Action::choose(&map! { "accept" => "a", "list" => "acc" }), Action::List("acc".into()));
    }

    #[test]
    fn accept_never_looks_at_accepted_keys() {
        let settings = map! { "include_all" => true, "include_denied" => true };
        let accept = Include::of(&Action::Accept("*".into()), &settings);
        assert_eq!(accept.in_words(), "unaccepted, rejected or denied");
        let reject = Include::of(&Action::Reject("*".into()), &settings);
        assert_eq!(reject.in_words(), "unaccepted, accepted or denied");
        assert_eq!(Include::default().in_words(), "unaccepted");
    }
}
