//! Whether the set takes this master for a member, as far as others have said. Without that it takes no leases that servers grant, and
//! has them keep nothing: whoever may log in to the servers could do both. Nor does it take leases by rank if it knows no other
//! member, or was removed: those that have refused it run what the set does once.
//!
//! A master that is linked belongs to the set. One that has just started and is linked with nobody waits for a moment: a member that
//! refuses it says so within seconds. So it is with a member that knows others, but it takes leases at once: others know it, or have
//! removed it and do not let its values count (`lease_proof`).

use peers::checks::REMOVED_NOW;
use peers::members::Refused;
use share::votes::OncePolicy;
use share::{Node, State};
use tracing::warn;

use super::worker::Worker;

/// For how long a master that starts and is linked with nobody waits for others, in milliseconds.
const FIRST_MOMENT: u64 = 20_000;

/// For how long a refusal counts that is not repeated, in milliseconds. Masters try again every few seconds.
const COUNTS: u64 = 600_000;

/// What others have said of this master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// Nobody has said anything yet.
    New {
        /// When it has waited long enough.
        until: u64,
        /// Somebody who has nothing in common with this master waits to be accepted, here or there.
        waits: bool,
    },
    /// It belongs to the set.
    Settled,
    /// It is refused, and linked with nobody.
    Refused {
        /// By whom.
        by: Node,
        /// Why, in a few words.
        reason: String,
        /// When it counts no more; `None` for never.
        until: Option<u64>,
    },
}

/// What this master knows when it hears of a refusal.
#[derive(Clone, Copy, Debug)]
pub struct Knows {
    /// Another member is linked.
    pub is_linked: bool,
    /// The other one is a member.
    pub is_member: bool,
    /// Any other member is known.
    pub others: bool,
}

impl Belonging {
    /// Begins at a time of the steady clock, in milliseconds.
    pub fn new(now: u64) -> Belonging {
        Belonging::New { until: now + FIRST_MOMENT, waits: false }
    }

    /// Takes note that a member is linked. Returns whether that is news.
    pub fn linked(&mut self) -> bool {
        std::mem::replace(self, Belonging::Settled) != Belonging::Settled
    }

    /// Takes note that this master and another one do not link because one of them refuses the other. Returns whether this master is
    /// refused from now on.
    pub fn refused(&mut self, refused: &Refused, knows: Knows, now: u64) -> bool {
        if knows.is_linked {
            return false;
        }
        let by_member = knows.is_member && refused.there;
        // Two that know nobody cannot tell which of them belongs to the set: the later one gives way.
        let is_late = !knows.others && *self != Belonging::Settled;
        if !by_member && is_late && refused.waits {
            *self = Belonging::New { until: now + COUNTS, waits: true };
            return false;
        }
        if !by_member && !is_late {
            return false;
        }
        let is_news = !matches!(self, Belonging::Refused { .. });
        let until = (!refused.for_ever).then(|| now + COUNTS);
        *self = Belonging::Refused { by: refused.node, reason: refused.reason.clone(), until };
        is_news
    }

    /// Does what is due. Returns whether this master belongs to the set from now on.
    pub fn tick(&mut self, now: u64) -> bool {
        let is_over = self.next().is_some_and(|until| until <= now);
        is_over && self.linked()
    }

    /// Returns when something is due.
    pub fn next(&self) -> Option<u64> {
        match self {
            Belonging::New { until, .. } => Some(*until),
            Belonging::Settled => None,
            Belonging::Refused { until, .. } => *until,
        }
    }

    /// Returns whether this master may take what servers grant.
    pub fn may_take(&self, knows_others: bool) -> bool {
        match self {
            Belonging::New { waits, .. } => knows_others || *waits,
            Belonging::Settled => true,
            Belonging::Refused { .. } => false,
        }
    }

    /// Returns whether others have said that this master was removed.
    pub fn is_removed(&self) -> bool {
        matches!(self, Belonging::Refused { until: None, .. })
    }

    /// Returns whether the set has refused this master, which is no member of it.
    pub fn is_outside(&self, knows_others: bool) -> bool {
        matches!(self, Belonging::Refused { .. }) && !knows_others || self.is_removed()
    }

    /// Returns whether this master may have servers keep what it decides.
    pub fn may_keep(&self) -> bool {
        *self == Belonging::Settled
    }
}

impl Worker {
    /// Takes note that this master and another one do not link because one of them refuses the other.
    pub(super) fn refused(&mut self, refused: &Refused) {
        let own = self.model.node();
        let knows = Knows {
            is_linked: !self.fleet.linked().is_empty(),
            is_member: matches!(self.members.key_of(refused.node), Some((State::Accepted, _))),
            others: self.members.knows_others(own),
        };
        if self.belonging.refused(refused, knows, self.now().steady) {
            let (called, reason) = (self.members.called(refused.node), &refused.reason);
            if self.once.leases.granted.is_some() {
                warn!(
                    "this master takes no leases from JetStream and keeps nothing there until it links with a member: {called} \
                     ({reason}), and no other one is linked"
                );
            } else if self.belonging.is_outside(knows.others) && self.settings.once != OncePolicy::Off {
                warn!(
                    "this master runs nothing of what the set does once until it links with a member: {called} ({reason}), and no \
                     other one is linked"
                );
            }
        }
        self.renew_outside();
    }

    /// Takes over whether the set has refused this master.
    fn renew_outside(&mut self) {
        let now = self.now().steady;
        let outside = self.belonging.is_outside(self.members.knows_others(self.model.node()));
        let actions = self.once.leases.votes_mut().set_outside(outside, now);
        self.follow_leases(actions);
    }

    /// Takes note that a member is linked, or why it is not any more.
    pub(super) fn note_belonging(&mut self, node: Node, up: bool, reason: &str) {
        if up && self.belonging.linked() {
            self.belongs();
            self.renew_outside();
        } else if !up && reason == REMOVED_NOW {
            let refused = Refused {
                node,
                reason: "refused there: removed".to_owned(),
                there: true,
                waits: false,
                for_ever: true,
            };
            self.refused(&refused);
        }
    }

    pub(super) fn belonging_due(&mut self, now: u64) {
        if self.belonging.tick(now) {
            self.belongs();
            self.renew_outside();
        }
        self.renew_right();
    }

    /// Has JetStream keep what it has not been told so far.
    fn belongs(&self) {
        self.unkept.iter().for_each(|unkept| unkept.compare_again());
    }

    /// Returns why this master takes no leases, if it is for what others have said of it.
    pub(super) fn outside_in_words(&self) -> Option<String> {
        let (own, asks_servers) = (self.model.node(), self.once.leases.granted.is_some());
        if matches!(self.members.key_of(own), Some((State::Deleted, _))) {
            return Some("nobody here runs it: this master was removed from the set".to_owned());
        }
        let knows_others = self.members.knows_others(own);
        match &self.belonging {
            Belonging::Refused { by, reason, .. } if asks_servers || self.belonging.is_outside(knows_others) => {
                Some(format!(
                    "nobody here runs it: no member is linked with this master, and of {} it is known: {reason}",
                    self.members.called(*by)
                ))
            }
            one if asks_servers && !one.may_take(knows_others) => Some(format!(
                "nobody here runs it: this master waits up to {} s for other members",
                FIRST_MOMENT / 1_000
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node([2; 8]);
    const STRANGER: Knows = Knows { is_linked: false, is_member: false, others: false };
    const MEMBER: Knows = Knows { is_linked: false, is_member: true, others: true };

    fn refused(there: bool) -> Refused {
        Refused { node: NODE, reason: "wrong secret".into(), there, waits: false, for_ever: false }
    }

    #[test]
    fn a_newcomer_waits_for_others_and_takes_nothing_once_it_is_refused() {
        for there in [true, false] {
            let mut newcomer = Belonging::new(0);
            assert!(!newcomer.may_take(false) && !newcomer.may_keep());
            assert!(newcomer.refused(&refused(there), STRANGER, 1_000), "whoever has refused the other");
            assert!(!newcomer.refused(&refused(there), STRANGER, 6_000), "it is said once");
            assert!(!newcomer.may_take(false) && !newcomer.may_keep() && newcomer.is_outside(false));
            assert!(!newcomer.tick(6_000 + COUNTS - 1) && newcomer.tick(6_000 + COUNTS));
            assert!(newcomer.may_take(false) && newcomer.may_keep());
        }
        let mut first = Belonging::new(0);
        assert!(!first.tick(FIRST_MOMENT - 1) && first.tick(FIRST_MOMENT), "nobody is there");
        assert!(first.may_take(false) && first.may_keep());
        assert!(!first.refused(&refused(true), STRANGER, 90_000) && first.may_take(false), "it was there before");
    }

    #[test]
    fn a_member_gives_way_to_members_and_not_to_strangers() {
        let stranger = Knows { is_member: false, ..MEMBER };
        let mut member = Belonging::new(0);
        assert!(member.may_take(true) && !member.may_keep(), "others know it");
        assert!(!member.refused(&refused(true), stranger, 1_000) && member.may_take(true));
        assert!(!member.refused(&refused(false), MEMBER, 1_000), "it refuses the other one itself");
        assert!(!member.refused(&refused(true), Knows { is_linked: true, ..MEMBER }, 1_000));
        let removed = Refused { for_ever: true, ..refused(true) };
        assert!(member.refused(&removed, MEMBER, 1_000) && !member.may_take(true) && !member.may_keep());
        assert_eq!(member.next(), None, "a removal counts until the next start");
        assert!(member.is_outside(true));
        assert!(member.linked() && member.may_take(true) && member.may_keep());
        assert!(!member.linked(), "that is no news");
        assert!(member.refused(&refused(true), MEMBER, 2_000), "it was linked before");
        assert!(!member.is_outside(true), "two members may refuse each other: one of them must run by rank");
    }

    #[test]
    fn whoever_waits_to_be_accepted_keeps_nothing_and_stops_nobody() {
        let waits = Refused { waits: true, ..refused(true) };
        let mut one = Belonging::new(0);
        assert!(!one.refused(&waits, STRANGER, 1_000));
        assert!(one.may_take(false) && !one.may_keep());
        assert!(one.linked() && one.may_keep());
    }
}
