//! The table of changes in the key directories, row by row.

use super::*;
use crate::entry::Wish;
use crate::{By, Class, Node, SignedDecision, Stamp};

const REASON: &str = "the same key was deleted or rejected";

/// An entry in which these things were decided one after the other.
fn entry(decided: &[(State, &'static str, By)]) -> Entry {
    decided.iter().enumerate().fold(Entry::default(), |entry, (time, (state, content, by))| {
        let content = Bytes::from_static(content.as_bytes());
        let wish = Wish { class: Class::Keys, key: Key::new("web1").unwrap(), state: *state, content, by: by.clone() };
        let stamp = Stamp { time: time as u64 + 1, node: Node([1; 8]) };
        let decision = entry.decide(wish, stamp).expect("a change");
        entry.merge(&Entry::new(vec![SignedDecision::unsigned(decision)]))
    })
}

fn user() -> By {
    By::User("root".into())
}

fn file(state: State, content: &'static str) -> KeyFile {
    KeyFile { state, content: Bytes::from_static(content.as_bytes()) }
}

fn decide(state: State, content: &'static str) -> FileVerdict {
    FileVerdict::Decide(state, Bytes::from_static(content.as_bytes()))
}

fn set_aside(content: &'static str) -> FileVerdict {
    FileVerdict::SetAside(Bytes::from_static(content.as_bytes()), REASON)
}

#[test]
fn a_file_of_an_unknown_id_is_a_decision() {
    for state in [State::Accepted, State::Pending, State::Rejected] {
        assert_eq!(judge(None, &[file(state, "k")]), decide(state, "k"));
    }
    assert_eq!(judge(None, &[]), FileVerdict::Nothing);
}

#[test]
fn a_file_that_says_what_was_decided_is_nothing() {
    let accepted = entry(&[(State::Accepted, "k", user())]);
    assert_eq!(judge(Some(&accepted), &[file(State::Accepted, "k")]), FileVerdict::Nothing);
    let deleted = entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user())]);
    assert_eq!(judge(Some(&deleted), &[]), FileVerdict::Nothing);
}

#[test]
fn a_deleted_key_that_comes_back_is_set_aside() {
    let deleted = entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user())]);
    assert_eq!(judge(Some(&deleted), &[file(State::Accepted, "k")]), set_aside("k"));
    assert_eq!(judge(Some(&deleted), &[file(State::Pending, "k")]), FileVerdict::Nothing, "where it then waits");
    assert_eq!(judge(Some(&deleted), &[file(State::Accepted, "new")]), decide(State::Accepted, "new"));
}

#[test]
fn a_deleted_key_that_comes_back_beside_a_new_registration_is_set_aside() {
    let again =
        entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user()), (State::Pending, "k", By::Auto)]);
    assert_eq!(judge(Some(&again), &[file(State::Pending, "k")]), FileVerdict::Nothing);
    assert_eq!(judge(Some(&again), &[file(State::Pending, "k"), file(State::Accepted, "k")]), set_aside("k"));
    assert_eq!(
        judge(Some(&again), &[file(State::Accepted, "k")]),
        decide(State::Accepted, "k"),
        "a move is a decision"
    );
    let other =
        entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user()), (State::Pending, "new", By::Auto)]);
    assert_eq!(judge(Some(&other), &[file(State::Accepted, "k")]), set_aside("k"));
}

#[test]
fn a_rejected_key_that_comes_back_is_set_aside_and_a_moved_one_is_accepted() {
    let rejected = entry(&[(State::Pending, "k", By::Auto), (State::Rejected, "k", user())]);
    assert_eq!(judge(Some(&rejected), &[file(State::Rejected, "k"), file(State::Accepted, "k")]), set_aside("k"));
    assert_eq!(judge(Some(&rejected), &[file(State::Accepted, "k")]), decide(State::Accepted, "k"));
    assert_eq!(judge(Some(&rejected), &[file(State::Accepted, "new")]), decide(State::Accepted, "new"));
}

#[test]
fn a_file_in_another_directory_is_a_decision() {
    let pending = entry(&[(State::Pending, "k", By::Auto)]);
    assert_eq!(judge(Some(&pending), &[file(State::Accepted, "k")]), decide(State::Accepted, "k"));
    assert_eq!(judge(Some(&pending), &[file(State::Rejected, "k")]), decide(State::Rejected, "k"));
}

#[test]
fn a_copy_beside_an_accepted_file_decides_nothing() {
    let beside =
        |state, content| FileVerdict::Beside { accepted: Bytes::from_static(b"k"), copy: file(state, content) };
    let accepted = entry(&[(State::Accepted, "k", user())]);
    let pending = entry(&[(State::Pending, "other", By::Auto)]);
    let again =
        entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user()), (State::Accepted, "k", By::Auto)]);
    for (state, content) in
        [(State::Rejected, "k"), (State::Rejected, "old"), (State::Pending, "k"), (State::Pending, "old")]
    {
        let files = [file(state, content), file(State::Accepted, "k")];
        for decided in [None, Some(&accepted), Some(&pending), Some(&again)] {
            assert_eq!(judge(decided, &files), beside(state, content));
        }
        let deleted = entry(&[(State::Accepted, "k", user()), (State::Deleted, "k", user())]);
        assert_eq!(judge(Some(&deleted), &files), set_aside("k"), "neither comes back");
    }
    let rejected = file(State::Rejected, "k");
    assert_eq!(judge(Some(&accepted), &[rejected]), decide(State::Rejected, "k"), "alone it is a move");
}

#[test]
fn few_files_beside_others_may_be_deleted_while_a_master_is_down() {
    let accepted = |count| vec![State::Accepted; count];
    assert!(deleted_while_down(&accepted(2), &[State::Accepted]));
    assert!(!deleted_while_down(&accepted(3), &[State::Accepted]));
    assert!(!deleted_while_down(&accepted(1), &[State::Pending]), "the directory is new or empty");
    assert!(!deleted_while_down(&[State::Accepted, State::Rejected], &[State::Accepted]));
}

#[test]
fn files_that_were_lost_at_the_start_wait_for_somebody() {
    let mut watch = LossWatch::default();
    watch.lost(vec![key(0)], 1_000);
    assert_eq!(watch.next(), Some(1_000));
    assert_eq!(watch.decide(1_000, 54), Some(Lost::TooMany(vec![key(0)])));
    assert_eq!(watch.decide(99_000, 54), None);
    watch.back(&key(0));
    watch.gone(key(1), 100_000);
    assert_eq!(watch.decide(105_000, 54), Some(Lost::Deleted(vec![key(1)])), "it was a false alarm");
    watch.lost(Vec::new(), 106_000);
    watch.gone(key(1), 106_000);
    assert!(matches!(watch.decide(111_000, 54), Some(Lost::Deleted(_))));
}

#[test]
fn a_missing_file_is_gone() {
    assert_eq!(judge(Some(&entry(&[(State::Accepted, "k", user())])), &[]), FileVerdict::Gone);
}

fn key(number: usize) -> Key {
    Key::new(&format!("web{number:02}")).unwrap()
}

fn vanished(count: usize) -> LossWatch {
    let mut watch = LossWatch::default();
    (0..count).for_each(|number| watch.gone(key(number), 1_000 + number as u64));
    watch
}

#[test]
fn a_few_missing_files_are_deleted_when_no_more_follow() {
    let mut watch = vanished(2);
    assert_eq!(watch.decide(1_000, 100), None);
    assert_eq!(watch.next(), Some(6_000));
    assert_eq!(watch.decide(6_000, 100), Some(Lost::Deleted(vec![key(0)])));
    assert_eq!(watch.decide(6_001, 100), Some(Lost::Deleted(vec![key(1)])));
    assert_eq!(watch.next(), None);
}

#[test]
fn files_that_come_back_in_time_were_not_deleted() {
    let mut watch = vanished(1);
    watch.back(&key(0));
    assert_eq!(watch.decide(99_000, 100), None);
}

#[test]
fn too_many_missing_files_are_no_decision() {
    let mut watch = vanished(11);
    assert_eq!(watch.decide(1_100, 54), Some(Lost::TooMany((0..11).map(key).collect())));
    assert_eq!(watch.next(), None, "no time makes a decision of them");
    watch.gone(key(11), 90_000);
    assert!(matches!(watch.decide(99_000, 54), Some(Lost::TooMany(all)) if all.len() == 12));
    assert_eq!(watch.release().len(), 12);
    assert_eq!(watch.decide(99_000, 54), None);
}

#[test]
fn files_that_sign_ins_make_again_count_among_those_that_vanished() {
    let mut watch = vanished(8);
    watch.made_again(&key(7), 1_500);
    (8..11).for_each(|number| watch.made_again(&key(number), 1_500));
    assert_eq!(watch.decide(1_600, 14), Some(Lost::TooMany((0..7).map(key).collect())));

    let mut watch = LossWatch::default();
    (0..11).for_each(|number| watch.made_again(&key(number), 1_000));
    assert_eq!(watch.decide(1_100, 14), None, "all are back");
    watch.gone(key(0), 7_000);
    assert_eq!(watch.decide(12_000, 14), Some(Lost::Deleted(vec![key(0)])), "long ago");
}

#[test]
fn many_files_that_are_a_small_part_or_vanish_slowly_are_deleted() {
    let mut watch = vanished(11);
    assert!(matches!(watch.decide(6_100, 55), Some(Lost::Deleted(all)) if all.len() == 11));
    let mut watch = LossWatch::default();
    for number in 0..30 {
        let now = 1_000 + number * 1_000;
        watch.gone(key(number as usize), now);
        assert!(!matches!(watch.decide(now, 40), Some(Lost::TooMany(_))));
    }
}

#[test]
fn keys_are_compared_by_what_they_say() {
    let accepted = entry(&[(State::Accepted, "k\nk", user())]);
    for file_text in ["k\nk\n", "k\r\nk\r\n", " k\nk"] {
        assert_eq!(judge(Some(&accepted), &[file(State::Accepted, file_text)]), FileVerdict::Nothing);
        assert_eq!(judge(Some(&accepted), &[file(State::Rejected, file_text)]), decide(State::Rejected, "k\nk"));
    }
}

#[test]
fn a_false_alarm_ends_when_the_files_are_back() {
    let mut watch = vanished(11);
    assert!(matches!(watch.decide(1_100, 54), Some(Lost::TooMany(_))));
    assert_eq!(watch.decide(1_200, 54), None, "it is said once");
    (0..11).for_each(|number| watch.back(&key(number)));
    watch.gone(key(0), 2_000);
    assert_eq!(watch.decide(2_000, 54), None);
    assert_eq!(watch.decide(7_000, 54), Some(Lost::Deleted(vec![key(0)])));

    let mut watch = LossWatch::default();
    watch.directory_gone();
    watch.gone(key(0), 1_000);
    assert!(matches!(watch.decide(1_000, 54), Some(Lost::TooMany(_))));
    watch.directory_back();
    assert_eq!(watch.decide(9_000, 54), None, "what the directory does not have any more waits for somebody");
    watch.back(&key(0));
    watch.gone(key(1), 9_000);
    assert_eq!(watch.decide(14_000, 54), Some(Lost::Deleted(vec![key(1)])));
}

#[test]
fn a_missing_directory_is_no_decision() {
    let mut watch = vanished(1);
    watch.directory_gone();
    assert_eq!(watch.decide(99_000, 1), Some(Lost::TooMany(vec![key(0)])));
}
