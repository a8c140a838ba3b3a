//! The rules of merging, class by class, and their laws on random copies.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::{By, Entry, Node, SignedDecision, State, Wish};

const JID: &str = "20240229131415678901";

fn stamp(time: u64, node: u8) -> Stamp {
    Stamp { time, node: Node([node; 8]) }
}

fn record(key: &str, at: Stamp, content: Content) -> Record {
    Record::new(Key::new(key).unwrap(), at, content)
}

fn returned(at: Stamp, packed: &'static str, copy: bool) -> Record {
    let packed = Bytes::from_static(packed.as_bytes());
    let publisher = Node([1; 8]);
    record(&format!("{JID}/web1"), at, Content::Return(Return { packed, out: None, publisher, copy }))
}

/// Checks that the merged record is `first`, in whichever order.
fn counts(first: &Record, other: &Record) {
    assert_eq!(first.merge(other), *first);
    assert_eq!(other.merge(first), *first);
}

#[test]
fn the_return_that_its_publisher_got_counts_before_a_copy() {
    counts(&returned(stamp(9, 1), "own", false), &returned(stamp(3, 2), "copy", true));
    counts(&returned(stamp(3, 2), "early", false), &returned(stamp(9, 1), "late", false));
    counts(&returned(stamp(3, 1), "lower node", false), &returned(stamp(3, 2), "higher node", false));
}

#[test]
fn equal_returns_have_one_digest_whoever_stored_them() {
    let mut other = returned(stamp(9, 2), "same", true);
    other.content = match other.content {
        Content::Return(found) => Content::Return(Return { publisher: Node([7; 8]), ..found }),
        content => content,
    };
    assert_eq!(returned(stamp(3, 1), "same", false).digest, other.digest);
}

#[test]
fn the_first_of_two_jobs_with_one_id_counts_and_they_contradict() {
    let job = |time, load: &'static str| {
        record(JID, stamp(time, 1), Content::Job { load: Bytes::from_static(load.as_bytes()), nocache: false })
    };
    counts(&job(1, "first"), &job(2, "second"));
    assert!(job(1, "first").contradicts(&job(2, "second")));
    assert!(!job(1, "first").contradicts(&job(2, "first")));
}

#[test]
fn expected_minions_are_united() {
    let expected = |time, syndic: &str, minions: &[&str]| {
        let minions: BTreeSet<String> = minions.iter().map(|minion| (*minion).to_owned()).collect();
        record(JID, stamp(time, 1), Content::Expected(BTreeMap::from([(syndic.to_owned(), minions)])))
    };
    let both = expected(1, "", &["a", "b"]).merge(&expected(2, "", &["b", "c"]));
    assert_eq!(both, expected(1, "", &["a", "b", "c"]));
    let Content::Expected(sets) = both.merge(&expected(3, "syndic", &["d"])).content else {
        panic!("expected minions")
    };
    assert_eq!(sets.len(), 2);
}

#[test]
fn expected_minions_are_bounded_and_can_be_read() {
    let expected = |syndic: &str, from: u32| {
        let minions: BTreeSet<String> = (from..from + 150_000).map(|number| format!("{number:0>253}")).collect();
        record(JID, stamp(1, 1), Content::Expected(BTreeMap::from([(syndic.to_owned(), minions)])))
    };
    let (a, b) = (expected("a", 0), expected("b", 1));
    let both = a.merge(&b);
    assert_eq!(both, b.merge(&a));
    assert_eq!(both.merge(&b), both);
    assert_eq!(both.check(), Ok(()));
    let Content::Expected(sets) = both.content else { panic!("expected minions") };
    assert_eq!(sets.values().map(BTreeSet::len).collect::<Vec<_>>(), [150_000, 50_000]);
}

#[test]
fn syndics_are_bounded_and_no_more_values_are_read_than_that() {
    let key = Key::new(JID).unwrap();
    let expected = |from: usize, count: usize| {
        let sets = (from..from + count).map(|number| (format!("s{number:0>6}"), BTreeSet::new())).collect();
        record(JID, stamp(1, 1), Content::Expected(sets))
    };
    let (a, b, c) = (expected(0, 600), expected(600, 600), expected(300, 600));
    let all = a.merge(&b).merge(&c);
    assert_eq!(all, c.merge(&a).merge(&b));
    let Content::Expected(sets) = &all.content else { panic!("expected minions") };
    assert_eq!((sets.len(), all.check()), (1_000, Ok(())));
    assert!(expected(0, 1_001).check().is_err());
    // An empty set each, and all under one name: a few bytes of the message, and hundreds of bytes of memory.
    let pair = Value::List(vec![Value::from("syndic"), Value::List(Vec::new())]);
    let packed = crate::fields::packed(vec![pair; 100_000]);
    assert!(Content::unpack(Class::Expected, &key, &packed).is_err());
}

#[test]
fn the_latest_end_counts() {
    let end = |time, end| record(JID, stamp(time, 1), Content::End(end));
    counts(&end(3, 200), &end(9, 100));
}

#[test]
fn the_latest_data_counts_and_may_be_none() {
    let data = |time, value: Option<&'static str>| {
        let value = value.map(|text| Bytes::from_static(text.as_bytes()));
        record("grains/web1", stamp(time, 1), Content::Data(value))
    };
    counts(&data(9, Some("new")), &data(3, Some("old")));
    counts(&data(9, None), &data(3, Some("old")));
    assert!(data(9, None).is_tombstone());
    let token = |time, token: Option<&'static [u8]>| {
        record("5ec7e7", stamp(time, 1), Content::Token { token: token.map(Bytes::from_static), expires: 9 })
    };
    counts(&token(9, None), &token(3, Some(b"token")));
    let denied = |time, key: &'static [u8]| record("web1", stamp(time, 1), Content::Denied(Bytes::from_static(key)));
    counts(&denied(9, b"new"), &denied(3, b"old"));
}

#[test]
fn a_claim_that_is_done_counts_before_one_that_only_began() {
    let claim = |time, done| {
        record("backup/noon", stamp(time, 1), Content::Claim(Claim { node: Node([1; 8]), begun: time, done }))
    };
    counts(&claim(9, Some(10)), &claim(3, None));
    counts(&claim(3, None), &claim(9, None));
}

#[test]
fn debug_output_shows_neither_tokens_nor_contents() {
    let content = Content::Token { token: Some(Bytes::from_static(b"hidden")), expires: 9 };
    let shown = format!("{:?}", record("5ec7e7", stamp(1, 1), content));
    assert!(!shown.contains("5ec7e7") && !shown.contains("hidden"), "{shown}");
}

/// A copy of one of a few records, with few different stamps and contents, so that all ties happen.
pub(crate) fn any(random: &mut StdRng, class: Class) -> Record {
    let at = stamp(random.random_range(1..4), random.random_range(1..4));
    let packed = Bytes::copy_from_slice(&[random.random_range(0..3)]);
    let (key, content) = match class {
        Class::Members | Class::Keys => {
            let state = State::ALL[random.random_range(0..4)];
            let key = Key::new("0101010101010101").unwrap();
            let by = if random.random() { By::Auto } else { By::Files };
            let wish = Wish { class, key, state, content: packed, by };
            let decisions = Entry::default().decide(wish, at).map(SignedDecision::unsigned);
            ("0101010101010101", Content::Decided(class, Entry::new(decisions.into_iter().collect())))
        }
        Class::Denied => ("web1", Content::Denied(packed)),
        Class::Job => (JID, Content::Job { load: packed, nocache: random.random() }),
        Class::Expected => {
            let minions = BTreeSet::from([random.random_range(0..5).to_string()]);
            (JID, Content::Expected(BTreeMap::from([(String::new(), minions)])))
        }
        Class::Return => {
            let (publisher, copy) = (Node([random.random_range(1..4); 8]), random.random());
            let out = if random.random() { Some("nested".to_owned()) } else { None };
            ("20240229131415678901/web1", Content::Return(Return { packed, out, publisher, copy }))
        }
        Class::End => (JID, Content::End(random.random_range(1..4))),
        Class::Data => ("grains/web1", Content::Data(if random.random() { Some(packed) } else { None })),
        Class::Token => ("5ec7e7", Content::Token { token: Some(packed), expires: random.random_range(1..4) }),
        Class::Claim => {
            let done = if random.random() { Some(random.random_range(1..4)) } else { None };
            let claim = Claim { node: Node([random.random_range(1..4); 8]), begun: 1, done };
            ("backup/noon", Content::Claim(claim))
        }
    };
    record(key, at, content)
}

#[test]
fn merging_is_commutative_associative_and_idempotent() {
    let mut random = StdRng::seed_from_u64(1);
    for round in 0..30_000 {
        let class = Class::ALL[round % Class::ALL.len()];
        let [a, b, c] = std::array::from_fn(|_| any(&mut random, class));
        let both = a.merge(&b);
        assert_eq!(both, b.merge(&a), "{class}");
        assert_eq!(a.merge(&a), a, "{class}");
        assert_eq!(both.merge(&c), a.merge(&b.merge(&c)), "{class}");
    }
}

#[test]
fn records_come_back_as_they_were() {
    let mut random = StdRng::seed_from_u64(2);
    for round in 0..3_000 {
        let class = Class::ALL[round % Class::ALL.len()];
        let made = any(&mut random, class);
        if matches!(&made.content, Content::Decided(_, entry) if entry.decisions().is_empty()) {
            continue;
        }
        let packed = fields::packed(vec![made.to_value(7)]);
        let mut list = Fields::open(&packed, 10_000, "records").unwrap();
        let read = Record::read(list.list("a record", 20).unwrap()).unwrap();
        assert_eq!(Record::unpack(&made.pack()).as_ref(), Ok(&made), "{class}");
        assert_eq!(read, Some((made, 7)), "{class}");
    }
}
