//! Chooses the member that acts for a minion. Every member chooses the same one without asking the others.

use crypto::HashType;

use crate::Node;

/// Returns the owner of something of a minion among the members that the minion is connected to: the one with the highest
/// SHA-256 of minion, subject and node. For the reactor the subject is the tag of the event.
///
/// A member that comes or goes changes the owner only of what it owns itself.
pub fn owner(minion: &str, subject: &str, members: impl IntoIterator<Item = Node>) -> Option<Node> {
    let mut members = members.into_iter();
    let first = members.next()?;
    // The usual case, for each event of each minion: nothing is hashed.
    let Some(second) = members.next() else { return Some(first) };
    let mut text = Vec::with_capacity(minion.len() + subject.len() + 10);
    // Neither ids nor tags of events contain a zero byte, so no two pairs make the same text.
    text.extend_from_slice(minion.as_bytes());
    text.push(0);
    text.extend_from_slice(subject.as_bytes());
    text.push(0);
    let stem = text.len();
    let mut rank = |node: Node| {
        text.truncate(stem);
        text.extend_from_slice(&node.0);
        (HashType::Sha256.digest(&text), node)
    };
    let highest = [first, second].into_iter().chain(members).map(&mut rank).max()?;
    Some(highest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(numbers: std::ops::Range<u8>) -> Vec<Node> {
        numbers.map(|number| Node([number; 8])).collect()
    }

    #[test]
    fn every_member_names_the_same_owner_and_owners_share_the_work() {
        let mut owned = std::collections::BTreeMap::new();
        for minion in 0..1_000 {
            let minion = format!("web{minion}");
            let mut members = nodes(1..5);
            let chosen = owner(&minion, "salt/beacon/load", members.iter().copied()).expect("there are members");
            members.reverse();
            assert_eq!(owner(&minion, "salt/beacon/load", members), Some(chosen));
            *owned.entry(chosen).or_insert(0) += 1;
        }
        assert!(owned.len() == 4 && owned.values().all(|count| (200..300).contains(count)), "{owned:?}");
    }

    #[test]
    fn a_member_that_goes_leaves_the_owners_of_the_rest_alone() {
        for minion in 0..200 {
            let minion = format!("web{minion}");
            let before = owner(&minion, "tag", nodes(1..5));
            let after = owner(&minion, "tag", nodes(1..4));
            assert!(after == before || before == Some(Node([4; 8])));
        }
        assert_eq!(owner("web1", "tag", nodes(1..1)), None);
        assert_eq!(owner("web1", "tag", nodes(3..4)), Some(Node([3; 8])));
    }

    /// Members of different versions must agree, so the way it is calculated must never change.
    #[test]
    fn the_calculation_stays_what_it_is() {
        let expected = |minion: &str| {
            let of = |number: u8| HashType::Sha256.digest(&[minion.as_bytes(), b"\0tag\0", &[number; 8]].concat());
            nodes(1..4).into_iter().max_by_key(|node| of(node.0[0]))
        };
        (0..50)
            .map(|number| format!("m{number}"))
            .for_each(|id| assert_eq!(owner(&id, "tag", nodes(1..4)), expected(&id)));
    }
}
