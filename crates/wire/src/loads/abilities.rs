//! Abilities beyond Salt's, and how Saltern's masters and minions announce them to each other.
//!
//! The master names its abilities in the field [`FIELD`] of each signed answer to a sign-in; Salt's minions ignore the
//! field. A sign-in proves nothing about its sender, because public keys are no secret. So a minion names its abilities in
//! each encrypted request, and only to masters that have named theirs: a master of Salt would store the field with the
//! returns.

use std::collections::BTreeSet;

use value::{Map, Value, map};

/// The field of answers to sign-ins, and of encrypted requests to masters of Saltern.
pub const FIELD: &str = "saltern";

/// The maximum length of an id or boot text from a peer, in bytes. Longer ones are ignored.
const LONGEST: usize = 256;

/// One thing a peer can do beyond Salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// The master takes returns of jobs that other masters published.
    PeerReturns,
    /// The master answers which valid jobs a minion missed.
    Missed,
    /// The master announces that it stops; the minion understands the announcement.
    Goodbye,
    /// The minion confirms jobs that ask for it before it runs them.
    Receipts,
    /// The master signs every publication, and the minion must not act on one without a valid signature.
    SignedPublications,
}

impl Ability {
    const ALL: [Ability; 5] =
        [Ability::PeerReturns, Ability::Missed, Ability::Goodbye, Ability::Receipts, Ability::SignedPublications];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Ability::PeerReturns => "peer_returns",
            Ability::Missed => "missed",
            Ability::Goodbye => "goodbye",
            Ability::Receipts => "receipts",
            Ability::SignedPublications => "signed_publications",
        }
    }
}

/// The abilities and the identity of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Its abilities.
    pub can: BTreeSet<Ability>,
    /// The master's id (`id` of its options, `<host>_master`); empty for minions.
    pub id: String,
    /// Random text that changes with each start of the peer.
    pub boot: String,
}

impl Abilities {
    /// Returns all abilities, for this peer.
    pub fn all(id: impl Into<String>, boot: impl Into<String>) -> Self {
        Abilities { can: Ability::ALL.into(), id: id.into(), boot: boot.into() }
    }

    /// Returns the same abilities without one of them.
    #[must_use]
    pub fn without(mut self, ability: Ability) -> Self {
        self.can.remove(&ability);
        self
    }

    /// Returns whether the peer has an ability.
    pub fn can(&self, ability: Ability) -> bool {
        self.can.contains(&ability)
    }

    /// Reads the field from a load. Unknown abilities are ignored. `None` if the load does not have the field.
    pub fn find(load: &Map) -> Option<Self> {
        load.get(FIELD)?.as_map().map(Abilities::read)
    }

    fn read(said: &Map) -> Self {
        let names = said.get("can").and_then(Value::as_list).unwrap_or_default();
        let named = |ability: &Ability| names.iter().any(|name| name.as_str() == Some(ability.name()));
        let text = |name: &str| said.get_str(name).filter(|text| text.len() <= LONGEST).unwrap_or_default().to_owned();
        Abilities { can: Ability::ALL.into_iter().filter(named).collect(), id: text("id"), boot: text("boot") }
    }

    /// Returns the value of the field.
    pub fn to_value(&self) -> Value {
        map! { "can" => self.names(), "id" => self.id.as_str(), "boot" => self.boot.as_str() }.into()
    }

    fn names(&self) -> Vec<Value> {
        self.can.iter().map(|ability| ability.name().into()).collect()
    }
}

/// The kind of program that sends encrypted requests under the id of a minion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A program of Salt.
    Stock,
    /// A program of Saltern that does not stay, such as `salt-call`. It proves nothing about the minion on the same
    /// machine.
    Caller,
    /// A minion of Saltern, with what it can do.
    Minion(Abilities),
}

/// The key that a caller has in the field instead of abilities.
const CALLER: &str = "caller";

impl Sender {
    /// Takes the field out of a request, so that it is neither stored nor covered by signatures.
    pub fn take(load: &mut Map) -> Self {
        match load.remove(FIELD) {
            Some(Value::Map(said)) if said.contains_key(CALLER) => Sender::Caller,
            Some(Value::Map(said)) => Sender::Minion(Abilities::read(&said)),
            _ => Sender::Stock,
        }
    }

    /// Returns the value of the field; `None` for a program of Salt.
    pub fn to_value(&self) -> Option<Value> {
        match self {
            Sender::Stock => None,
            Sender::Caller => Some(map! { CALLER => true }.into()),
            Sender::Minion(abilities) => Some(map! { "can" => abilities.names() }.into()),
        }
    }

    /// Returns whether the program makes use of what masters can do beyond Salt.
    pub fn stays(&self) -> bool {
        matches!(self, Sender::Minion(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abilities_survive_the_way() {
        let all = Abilities::all("m1_master", "77");
        assert_eq!(Abilities::find(&map! { FIELD => all.to_value() }), Some(all));
    }

    #[test]
    fn senders_of_requests_are_told_apart() {
        let minion = Sender::Minion(Abilities::all("", ""));
        for sender in [Sender::Stock, Sender::Caller, minion] {
            let mut load = map! { "cmd" => "_return" };
            load.extend(sender.to_value().map(|value| (FIELD, value)));
            assert_eq!(Sender::take(&mut load), sender);
            assert_eq!(load, map! { "cmd" => "_return" });
        }
        assert_eq!(Sender::take(&mut map! { FIELD => true }), Sender::Stock);
    }

    #[test]
    fn strangers_and_newer_peers_are_understood() {
        assert_eq!(Abilities::find(&map! { "cmd" => "_auth" }), None);
        assert_eq!(Abilities::find(&map! { FIELD => "yes" }), None);
        let newer = map! { "can" => value::list!["missed", "fly", 7], "id" => "x".repeat(1000), "boot" => 1 };
        let found = Abilities::find(&map! { FIELD => newer }).unwrap();
        assert_eq!(found, Abilities { can: [Ability::Missed].into(), ..Abilities::default() });
    }
}
