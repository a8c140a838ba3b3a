//! The link between two members: which connections are part of it, and when it is up.
//!
//! A link has a connection per lane. Both members dial, so there may be more connections than lanes: the member with the lower
//! node decides which of them count, and gives each link a number. The other one follows: a connection of a later link ends
//! the one before. So both always agree on the connections, although each learns of a broken one at another time.

use peers::kind::LinkNumber;
use share::{Lane, Node};

/// Names a connection of this process.
pub(crate) type ConnectionId = u64;

/// A connection whose peer is proven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub id: ConnectionId,
    pub lane: Lane,
    pub dialled_by_lower: bool,
    /// The boot of the peer.
    pub boot: u64,
    /// The last link that the peer has lost.
    pub lost: LinkNumber,
}

/// What changes when a connection comes or goes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Connections to close.
    pub close: Vec<ConnectionId>,
    /// The link was up, and is down now.
    pub down: bool,
    /// The link is up now.
    pub up: bool,
}

/// The link to one other member.
pub(crate) struct Pair {
    lower: bool,
    boot: u64,
    /// The number of the present link, or the last one.
    number: u64,
    /// The boot of the peer, in the present link.
    peer_boot: u64,
    lanes: [Option<Live>; 2],
    lost: LinkNumber,
}

#[derive(Clone, Copy)]
struct Live {
    id: ConnectionId,
    dialled_by_lower: bool,
}

impl Pair {
    pub fn new(own: Node, peer: Node, boot: u64) -> Self {
        let lost = LinkNumber::default();
        Pair { lower: own < peer, boot, number: 0, peer_boot: 0, lanes: [None; 2], lost }
    }

    /// Returns whether this member decides which connections count.
    pub fn decides(&self) -> bool {
        self.lower
    }

    /// Returns the last link that this member has lost.
    pub fn lost(&self) -> LinkNumber {
        self.lost
    }

    /// Returns whether a connection for this lane is missing.
    pub fn lacks(&self, lane: Lane) -> bool {
        self.lanes[lane as usize].is_none()
    }

    /// Returns whether the link is up.
    pub fn is_up(&self) -> bool {
        self.lanes.iter().all(Option::is_some)
    }

    /// Returns the number of the present link.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Decides about a connection; `None` if it does not count. Only for the member that decides.
    pub fn offer(&mut self, new: Candidate) -> Option<Change> {
        let mut change = Change::default();
        let exists = self.lanes.iter().any(Option::is_some);
        let restarted = exists && new.boot != self.peer_boot;
        // A peer that has lost one lane reconnects both. Only the link number tells such a connection from the second lane of the
        // present link, which may arrive late.
        let lost = exists && new.lost == LinkNumber { boot: self.boot, number: self.number };
        if restarted || lost {
            change = self.end();
        } else if let Some(live) = self.lanes[new.lane as usize] {
            // Two members that dial at once: the one with the lower node wins, but a link that is up is not disturbed.
            if self.is_up() || live.dialled_by_lower || !new.dialled_by_lower {
                return None;
            }
            change = self.end();
        }
        // The first connection begins a link, the second one joins it under the same number.
        if self.lanes.iter().all(Option::is_none) {
            self.number += 1;
        }
        Some(self.take(new, change))
    }

    /// Takes a connection that the member with the lower node has chosen for this link; `None` if the link is an old one.
    pub fn follow(&mut self, new: Candidate, number: u64) -> Option<Change> {
        let mut change = Change::default();
        let named = LinkNumber { boot: new.boot, number };
        // A welcome may have waited in a buffer until this link was lost. Its other end is closed.
        let over = named.boot == self.lost.boot && named.number <= self.lost.number;
        let same_boot = new.boot == self.peer_boot;
        if over || (same_boot && number < self.number) {
            return None;
        }
        let other_link = !same_boot || number > self.number;
        if other_link || self.lanes[new.lane as usize].is_some() {
            change = self.end();
            // What ended was the link before, not this one.
            self.number = number;
        }
        Some(self.take(new, change))
    }

    /// Notes that a connection is closed. Connections that are no part of the link change nothing.
    pub fn closed(&mut self, id: ConnectionId) -> Change {
        let part = self.lanes.iter().flatten().any(|live| live.id == id);
        if part { self.end() } else { Change::default() }
    }

    fn take(&mut self, new: Candidate, mut change: Change) -> Change {
        self.peer_boot = new.boot;
        self.lanes[new.lane as usize] = Some(Live { id: new.id, dialled_by_lower: new.dialled_by_lower });
        change.up = self.is_up();
        change
    }

    /// Ends the link, so that no message of it counts for the next one.
    pub fn end(&mut self) -> Change {
        let down = self.is_up();
        let close: Vec<_> = self.lanes.iter_mut().filter_map(Option::take).map(|live| live.id).collect();
        // Without a connection nothing was lost, and the peer would be told of a link that it never had.
        if !close.is_empty() {
            let boot = if self.lower { self.boot } else { self.peer_boot };
            self.lost = LinkNumber { boot, number: self.number };
        }
        Change { close, down, up: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: Node = Node([1; 8]);
    const HIGH: Node = Node([2; 8]);

    fn candidate(id: ConnectionId, lane: Lane, dialled_by_lower: bool) -> Candidate {
        Candidate { id, lane, dialled_by_lower, boot: 70, lost: LinkNumber::default() }
    }

    /// A link that is up, with the connections 1 and 2.
    fn up(own: Node) -> Pair {
        let (peer, boot) = if own == LOW { (HIGH, 50) } else { (LOW, 60) };
        let mut pair = Pair::new(own, peer, boot);
        for (id, lane) in [(1, Lane::Talk), (2, Lane::Bulk)] {
            let new = candidate(id, lane, true);
            let change = if pair.decides() { pair.offer(new) } else { pair.follow(new, 1) };
            assert_eq!(change, Some(Change { up: id == 2, ..Change::default() }));
        }
        pair
    }

    #[test]
    fn a_link_is_up_with_both_lanes_and_down_without_either() {
        for own in [LOW, HIGH] {
            let mut pair = up(own);
            assert!(pair.is_up() && !pair.lacks(Lane::Bulk));
            assert_eq!(pair.closed(9), Change::default());
            assert_eq!(pair.closed(2), Change { close: vec![1, 2], down: true, up: false });
            assert_eq!(pair.closed(1), Change::default());
            assert!(pair.lacks(Lane::Talk) && pair.lacks(Lane::Bulk));
        }
    }

    #[test]
    fn of_two_members_that_dial_at_once_the_lower_wins() {
        let mut pair = Pair::new(LOW, HIGH, 50);
        assert!(pair.offer(candidate(1, Lane::Talk, false)).is_some());
        assert_eq!(pair.offer(candidate(2, Lane::Talk, true)).unwrap().close, [1]);
        assert_eq!(pair.offer(candidate(3, Lane::Talk, false)), None);
        assert_eq!(pair.number(), 2);
    }

    #[test]
    fn a_late_dial_does_not_disturb_a_link_that_is_up() {
        let mut pair = up(LOW);
        assert_eq!(pair.offer(candidate(3, Lane::Talk, true)), None);
        assert_eq!(pair.offer(candidate(4, Lane::Bulk, false)), None);
    }

    #[test]
    fn a_peer_that_lost_the_link_or_restarted_gets_another_one() {
        let mut pair = up(LOW);
        let lost = Candidate { lost: LinkNumber { boot: 50, number: 1 }, ..candidate(3, Lane::Talk, false) };
        assert_eq!(pair.offer(lost), Some(Change { close: vec![1, 2], down: true, up: false }));
        assert_eq!(pair.number(), 2);
        // The second lane of the new link comes from a peer that still reports the same loss.
        let second = Candidate { lane: Lane::Bulk, id: 4, ..lost };
        assert_eq!(pair.offer(second), Some(Change { up: true, ..Change::default() }));
        let restarted = Candidate { boot: 71, ..candidate(5, Lane::Talk, false) };
        assert_eq!(pair.offer(restarted).unwrap().close, [3, 4]);
        assert_eq!(pair.number(), 3);
    }

    #[test]
    fn the_higher_node_follows_to_later_links_and_never_back() {
        let mut pair = up(HIGH);
        assert_eq!(pair.follow(candidate(3, Lane::Bulk, true), 2).unwrap().close, [1, 2]);
        assert_eq!(pair.follow(candidate(4, Lane::Talk, true), 1), None);
        assert!(pair.follow(candidate(5, Lane::Talk, true), 2).unwrap().up);
        pair.closed(5);
        assert_eq!(pair.lost(), LinkNumber { boot: 70, number: 2 });
        assert_eq!(pair.follow(candidate(6, Lane::Talk, true), 2), None);
        assert!(pair.follow(Candidate { boot: 71, ..candidate(7, Lane::Talk, true) }, 1).is_some());
    }
}
