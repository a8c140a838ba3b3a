//! What follows from the rules about decisions, case by case.

use super::*;
use crate::Node;

const A: Node = Node([1; 8]);
const B: Node = Node([2; 8]);
const C: Node = Node([3; 8]);

fn user() -> By {
    By::User("root".into())
}

/// The copy of one member, in which it decides.
#[derive(Clone)]
struct Copy {
    node: Node,
    entry: Entry,
}

impl Copy {
    fn new(node: Node) -> Copy {
        Copy { node, entry: Entry::default() }
    }

    fn decide(&mut self, time: u64, state: State, key: &'static str, by: By) -> bool {
        self.decide_about(Class::Keys, time, state, key, by)
    }

    fn decide_about(&mut self, class: Class, time: u64, state: State, key: &'static str, by: By) -> bool {
        let content = Bytes::from_static(key.as_bytes());
        let wish = Wish { class, key: Key::new("web1").unwrap(), state, content, by };
        let Some(decision) = self.entry.decide(wish, Stamp { time, node: self.node }) else { return false };
        self.entry = self.entry.merge(&Entry::new(vec![SignedDecision::unsigned(decision)]));
        true
    }

    fn obeyed(&self) -> Option<(State, &str)> {
        self.entry.present().map(|(state, content)| (state, std::str::from_utf8(content).unwrap()))
    }
}

fn sync(a: &mut Copy, b: &mut Copy) {
    let merged = a.entry.merge(&b.entry);
    assert_eq!(merged, b.entry.merge(&a.entry));
    (a.entry, b.entry) = (merged.clone(), merged);
}

/// Two members that both know the accepted key of a minion.
fn accepted_on_both() -> (Copy, Copy) {
    let (mut a, mut b) = (Copy::new(A), Copy::new(B));
    a.decide(1, State::Pending, "k", By::Auto);
    a.decide(2, State::Accepted, "k", user());
    sync(&mut a, &mut b);
    (a, b)
}

#[test]
fn a_delete_beats_acceptances_made_without_knowing_of_it() {
    let (mut a, mut b) = accepted_on_both();
    a.decide(3, State::Deleted, "k", user());
    b.decide(9, State::Rejected, "k", user());
    b.decide(10, State::Accepted, "k", user());
    sync(&mut a, &mut b);
    assert_eq!(a.obeyed(), None);
    assert_eq!(a.entry.conflicts().len(), 1);
}

#[test]
fn a_delete_still_beats_them_when_the_minion_registers_again() {
    for (state, by) in [(State::Pending, By::Auto), (State::Accepted, By::Auto)] {
        let (mut a, mut b) = accepted_on_both();
        a.decide(3, State::Deleted, "k", user());
        assert!(a.decide(4, state, "new", by));
        assert_eq!(a.obeyed(), Some((state, "new")), "the new registration follows the delete");
        b.decide(5, State::Rejected, "k", user());
        b.decide(6, State::Accepted, "k", user());
        sync(&mut a, &mut b);
        assert_eq!(a.obeyed(), Some((state, "new")), "and the acceptance of the deleted key does not come back");
    }
}

#[test]
fn a_registration_after_a_delete_is_pending_and_can_be_accepted() {
    let (mut a, mut b) = accepted_on_both();
    a.decide(3, State::Deleted, "k", user());
    sync(&mut a, &mut b);
    assert!(b.decide(4, State::Pending, "k", By::Auto));
    assert_eq!(b.obeyed(), Some((State::Pending, "k")));
    assert!(b.entry.conflicts().is_empty());
    sync(&mut a, &mut b);
    a.decide(5, State::Accepted, "k", user());
    assert_eq!(a.obeyed(), Some((State::Accepted, "k")));
    assert_eq!(a.entry.decisions().len(), 1, "the decision of a person replaces all");
}

#[test]
fn a_registration_after_a_delete_leaves_what_others_decided_meanwhile_to_be_settled() {
    for state in [State::Rejected, State::Accepted] {
        let (mut a, mut b) = accepted_on_both();
        a.decide(3, State::Deleted, "k", user());
        b.decide(4, State::Rejected, "k", user());
        b.decide(5, state, "k", user());
        sync(&mut a, &mut b);
        assert_eq!(a.entry.conflicts().len(), 1);
        assert!(a.decide(6, State::Pending, "k", By::Auto));
        assert_eq!(a.obeyed(), Some((State::Pending, "k")));
        assert_eq!(a.entry.conflicts().len(), 1, "the minion alone settles nothing");
        assert!(!a.decide(7, State::Pending, "k", By::Auto), "it asks again and again");
        sync(&mut a, &mut b);
        b.decide(8, State::Accepted, "k", user());
        assert_eq!((b.obeyed(), b.entry.decisions().len()), (Some((State::Accepted, "k")), 1));
    }
}

#[test]
fn a_delete_settles_a_registration_that_it_saw() {
    let (mut a, mut b) = accepted_on_both();
    a.decide(3, State::Deleted, "k", user());
    a.decide(4, State::Pending, "k", By::Auto);
    sync(&mut a, &mut b);
    b.decide(5, State::Deleted, "k", user());
    assert_eq!(b.obeyed(), None);
    assert!(b.entry.is_tombstone());
}

#[test]
fn a_registration_at_a_member_that_knows_nothing_changes_nothing() {
    let (mut a, _) = accepted_on_both();
    let mut fresh = Copy::new(C);
    fresh.decide(0, State::Pending, "k", By::Auto);
    sync(&mut a, &mut fresh);
    assert_eq!(fresh.obeyed(), Some((State::Accepted, "k")));
    assert!(fresh.entry.conflicts().is_empty());
}

#[test]
fn of_two_first_keys_the_earlier_counts_and_the_other_is_denied() {
    let (mut a, mut b) = (Copy::new(A), Copy::new(B));
    a.decide(2, State::Pending, "later", By::Auto);
    b.decide(1, State::Pending, "earlier", By::Auto);
    sync(&mut a, &mut b);
    assert_eq!(a.obeyed(), Some((State::Pending, "earlier")));
    assert_eq!(a.entry.denied().unwrap(), "later");
    assert_eq!(a.entry.conflicts().len(), 1);
}

#[test]
fn of_two_first_keys_at_one_moment_that_of_the_lower_node_counts() {
    let (mut a, mut b) = (Copy::new(A), Copy::new(B));
    b.decide(1, State::Pending, "of b", By::Auto);
    a.decide(1, State::Pending, "of a", By::Auto);
    sync(&mut a, &mut b);
    assert_eq!(b.obeyed(), Some((State::Pending, "of a")));
}

#[test]
fn a_sign_in_with_the_accepted_key_writes_nothing() {
    let (mut a, _) = accepted_on_both();
    let before = a.entry.clone();
    assert!(!a.decide(9, State::Pending, "k", By::Auto));
    assert!(!a.decide(9, State::Pending, "another", By::Auto));
    assert!(!a.decide(9, State::Accepted, "k", By::Auto));
    assert!(!a.decide(9, State::Accepted, "k", user()), "nor does an operator who accepts it once more");
    assert_eq!(a.entry, before);
}

#[test]
fn a_person_counts_before_a_rule() {
    let (mut a, mut b) = (Copy::new(A), Copy::new(B));
    a.decide(1, State::Accepted, "by rule", By::Auto);
    b.decide(2, State::Accepted, "by hand", user());
    sync(&mut a, &mut b);
    assert_eq!(a.obeyed(), Some((State::Accepted, "by hand")));
}

#[test]
fn rejected_counts_before_accepted_until_somebody_settles_it() {
    let (mut a, mut b) = (Copy::new(A), Copy::new(B));
    a.decide(1, State::Pending, "k", By::Auto);
    sync(&mut a, &mut b);
    a.decide(2, State::Accepted, "k", user());
    b.decide(3, State::Rejected, "k", user());
    sync(&mut a, &mut b);
    assert_eq!(a.obeyed(), Some((State::Rejected, "k")));
    assert_eq!(a.entry.conflicts().len(), 1);
    assert!(a.decide(4, State::Rejected, "k", user()), "saying it once more settles the conflict");
    assert!(a.entry.conflicts().is_empty());
    sync(&mut a, &mut b);
    assert_eq!(b.entry.decisions().len(), 1);
}

#[test]
fn a_deletion_of_what_is_unknown_or_gone_writes_nothing() {
    let mut a = Copy::new(A);
    assert!(!a.decide(1, State::Deleted, "", user()));
    let (mut a, _) = accepted_on_both();
    assert!(a.decide(3, State::Deleted, "k", user()));
    assert!(!a.decide(4, State::Deleted, "", user()));
}

#[test]
fn a_removed_member_never_comes_back() {
    let mut a = Copy::new(A);
    a.decide_about(Class::Members, 1, State::Accepted, "m2", user());
    a.decide_about(Class::Members, 2, State::Deleted, "m2", user());
    assert!(a.decide_about(Class::Members, 3, State::Accepted, "m2", user()));
    assert_eq!(a.obeyed(), None);
    a.decide_about(Class::Members, 4, State::Deleted, "m2 elsewhere", user());
    assert_eq!(a.entry.decisions().len(), 2, "a second removal settles the attempt");
    assert!(a.entry.conflicts().is_empty());
    assert_eq!(a.entry.removed_at(), Some(2), "and does not move the first one");
    assert!(!a.decide_about(Class::Members, 5, State::Deleted, "m2", user()));
}

#[test]
fn what_a_decision_replaces_is_bounded_and_names_all_that_stand_there() {
    let mut a = Copy::new(A);
    for number in 0..4_u64 {
        let mut replaces = Seen::default();
        (0..400).for_each(|other: u64| {
            let node = Node((number * 1_000 + other).to_be_bytes());
            replaces.add(Stamp { time: other, node });
        });
        let stamp = Stamp { time: 1_000, node: Node([number as u8 + 1; 8]) };
        let wish = Wish {
            class: Class::Keys,
            key: Key::new("web1").unwrap(),
            state: State::Accepted,
            content: Bytes::new(),
            by: user(),
        };
        let decision = Decision { replaces, ..Entry::default().decide(wish, stamp).unwrap() };
        a.entry = a.entry.merge(&Entry::new(vec![SignedDecision::unsigned(decision)]));
    }
    a.decide(1_001, State::Rejected, "k", user());
    let [decision] = a.entry.decisions() else { panic!("all are replaced") };
    assert_eq!(decision.check(), Ok(()));
}

#[test]
fn an_entry_is_bounded_and_keeps_the_safest() {
    let decisions = (0..200).map(|time| {
        let state = if time == 199 { State::Deleted } else { State::Accepted };
        SignedDecision::unsigned(Decision {
            class: Class::Keys,
            key: Key::new("web1").unwrap(),
            stamp: Stamp { time, node: A },
            state,
            content: Bytes::from_static(b"k"),
            by: user(),
            replaces: Seen::default(),
            follows: Seen::default(),
        })
    });
    let entry = Entry::new(decisions.collect());
    assert_eq!(entry.decisions().len(), Entry::MAX_DECISIONS);
    assert_eq!(entry.present(), None);
}
