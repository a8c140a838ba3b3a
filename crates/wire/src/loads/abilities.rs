//! Abilities beyond Salt's, which Saltern's masters and minions announce to each other at sign-in.
//!
//! The minion adds the field [`FIELD`] to its `_auth` load, and the master adds its own to the answer. Salt's programs
//! ignore both. The answer is signed but the request is not. So the master always sends the field, even if the request
//! lacks it: nobody in between can make a Saltern minion believe that its master is one of Salt's.

use std::collections::BTreeSet;

use value::{Map, Value, map};

/// The field of `_auth` loads and of their answers.
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

    /// Reads the field from a load. Unknown abilities are ignored. `None` means that the peer is one of Salt's
    /// programs.
    pub fn find(load: &Map) -> Option<Self> {
        let said = load.get(FIELD)?.as_map()?;
        let names = said.get("can").and_then(Value::as_list).unwrap_or_default();
        let named = |ability: &Ability| names.iter().any(|name| name.as_str() == Some(ability.name()));
        let text = |name: &str| said.get_str(name).filter(|text| text.len() <= LONGEST).unwrap_or_default().to_owned();
        Some(Abilities { can: Ability::ALL.into_iter().filter(named).collect(), id: text("id"), boot: text("boot") })
    }

    /// Returns the value of the field.
    pub fn to_value(&self) -> Value {
        let can: Vec<Value> = self.can.iter().map(|ability| ability.name().into()).collect();
        map! { "can" => can, "id" => self.id.as_str(), "boot" => self.boot.as_str() }.into()
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
    fn strangers_and_newer_peers_are_understood() {
        assert_eq!(Abilities::find(&map! { "cmd" => "_auth" }), None);
        assert_eq!(Abilities::find(&map! { FIELD => "yes" }), None);
        let newer = map! { "can" => value::list!["missed", "fly", 7], "id" => "x".repeat(1000), "boot" => 1 };
        let found = Abilities::find(&map! { FIELD => newer }).unwrap();
        assert_eq!(found, Abilities { can: [Ability::Missed].into(), ..Abilities::default() });
    }
}
