//! Single steps of a lease.

use super::*;
use crate::bucket::Stored;
use crate::memory::{MemoryStore, Password};

const T: u64 = 6_000;
const WISH: u64 = 1;
const AGAIN: u64 = 2;
const ME: Who = Who { node: [1; 8], boot: 7 };
const OTHER: Who = Who { node: [2; 8], boot: 7 };

fn lease(who: Who) -> Lease {
    Lease::new(who, LeaseTimes::new(T), 1)
}

fn silent() -> BucketError {
    BucketError::NoAnswer("no answer".to_owned())
}

/// Tokens count, and nothing else does.
fn read(stored: Stored) -> Entry {
    Entry::read(&stored, "a", &Password(""))
}

/// Carries out the request that is due; the answer arrives after a time, if at all.
fn step(lease: &mut Lease, store: &mut MemoryStore, now: u64, answered: bool) -> Request {
    let request = lease.next(now).expect("something is due");
    let answer = match &request {
        Request::Publish { expected, value } => Answer::Published(store.publish("a", *expected, value.clone(), now)),
        Request::Last => Answer::Last(Ok(store.last("a", now).map(read))),
        Request::Delete { sequence } => {
            store.delete(*sequence, now);
            Answer::Deleted(Ok(()))
        }
    };
    let lost = match &request {
        Request::Publish { .. } => Answer::Published(Err(silent())),
        Request::Last => Answer::Last(Err(silent())),
        Request::Delete { .. } => Answer::Deleted(Err(silent())),
    };
    lease.answer(if answered { answer } else { lost }, now);
    request
}

#[test]
fn a_lease_is_held_from_before_its_request_to_a_tenth_before_it_expires_there() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    assert_eq!((one.next(0), one.due(), one.is_idle()), (None, None, true));
    one.want(WISH, 100);
    let Some(Request::Publish { expected: 0, value }) = one.next(100) else { panic!("it is free") };
    assert_eq!((one.next(100), one.held(100)), (None, None), "nothing else is asked meanwhile");
    let sequence = store.publish("a", 0, value, 1_000);
    one.answer(Answer::Published(sequence), 1_500);
    assert_eq!(one.held(1_500), Some(Grant { fence: 1, until: 5_500 }));
    assert_eq!((one.held(5_499).is_some(), one.held(5_500)), (true, None));
    assert_eq!(one.due(), Some(2_100));
}

#[test]
fn a_renewal_keeps_the_fence_and_a_lapse_does_not() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    assert!(matches!(step(&mut one, &mut store, 2_000, true), Request::Publish { expected: 1, .. }));
    assert_eq!(one.held(2_000), Some(Grant { fence: 1, until: 7_400 }));
    assert_eq!(one.held(7_500), None);
    assert!(matches!(step(&mut one, &mut store, 7_500, true), Request::Publish { expected: 2, .. }));
    assert_eq!(one.held(7_500).map(|grant| grant.fence), Some(3), "somebody may have seen that it was lost");
}

#[test]
fn a_lease_of_another_one_is_tried_again_until_it_expires() {
    let (mut one, mut other, mut store) = (lease(ME), lease(OTHER), MemoryStore::new(T));
    other.want(WISH, 0);
    step(&mut other, &mut store, 0, true);
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    assert_eq!(step(&mut one, &mut store, 0, true), Request::Last);
    assert_eq!((one.held(0), one.holder(0)), (None, Some(Holder { node: OTHER.node, seen: 0 })));
    let mut now = 0;
    while one.held(now).is_none() {
        now = one.due().unwrap();
        step(&mut one, &mut store, now, true);
    }
    assert!((T..T + 2_000).contains(&now), "{now}");
    assert_eq!(one.held(now).map(|grant| grant.fence), Some(2));
    assert_eq!(one.holder(now).map(|holder| holder.node), Some(ME.node));
}

#[test]
fn a_lease_that_is_given_back_is_free_at_once() {
    let (mut one, mut other, mut store) = (lease(ME), lease(OTHER), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    one.release(10);
    assert_eq!(one.held(10), None);
    assert_eq!(step(&mut one, &mut store, 10, true), Request::Delete { sequence: 1 });
    assert!(one.is_idle());
    other.want(WISH, 11);
    step(&mut other, &mut store, 11, true);
    assert!(other.held(11).is_some());
}

#[test]
fn an_answer_that_is_lost_is_looked_up() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, false);
    assert_eq!(one.held(0), None);
    let at = one.due().unwrap();
    assert_eq!(step(&mut one, &mut store, at, false), Request::Last);
    let at = one.due().unwrap();
    assert_eq!(step(&mut one, &mut store, at, true), Request::Last);
    assert_eq!(one.held(at), Some(Grant { fence: 1, until: 5_400 }), "from when it was sent");
    // A renewal that was stored, and nobody said so.
    step(&mut one, &mut store, 2_000, false);
    assert_eq!(one.held(2_000), Some(Grant { fence: 1, until: 5_400 }));
    let at = one.due().unwrap();
    step(&mut one, &mut store, at, true);
    assert_eq!(one.held(at), Some(Grant { fence: 1, until: 7_400 }));
}

#[test]
fn what_was_given_back_is_never_held_again_although_it_is_still_stored() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    one.release(10);
    let Some(Request::Delete { sequence: 1 }) = one.next(10) else { panic!("it is given back") };
    one.answer(Answer::Deleted(Err(silent())), 20);
    one.want(AGAIN, 30);
    let at = one.due().unwrap();
    step(&mut one, &mut store, at, true);
    assert_eq!(step(&mut one, &mut store, at, true), Request::Last);
    assert_eq!(one.held(at), None, "whoever removes it late would let others in");
    assert_eq!(step(&mut one, &mut store, at, true), Request::Delete { sequence: 1 });
    step(&mut one, &mut store, at, true);
    assert_eq!(one.held(at).map(|grant| grant.fence), Some(2));
}

#[test]
fn a_renewal_under_way_when_the_lease_is_given_back_is_removed() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    let Some(Request::Publish { expected, value }) = one.next(2_000) else { panic!("it is renewed") };
    one.release(2_001);
    one.want(AGAIN, 2_002);
    let stored = store.publish("a", expected, value, 2_003);
    one.answer(Answer::Published(stored), 2_004);
    assert_eq!(one.held(2_004), None);
    assert_eq!(step(&mut one, &mut store, 2_004, true), Request::Delete { sequence: 2 });
    step(&mut one, &mut store, 2_005, true);
    assert_eq!(one.held(2_005).map(|grant| grant.fence), Some(3));
}

#[test]
fn who_has_given_back_does_not_ask_a_store_for_ever_that_is_away() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, false);
    one.release(10);
    let at = one.due().unwrap();
    step(&mut one, &mut store, at, false);
    assert!(one.is_idle());
    assert_eq!(one.due(), None);
}

#[test]
fn an_entry_that_is_no_token_is_waited_for_like_any_other() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    store.publish("a", 0, Bytes::from_static(b"\xff garbage"), 0).unwrap();
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    step(&mut one, &mut store, 0, true);
    assert_eq!((one.held(0), one.holder(0)), (None, None));
    assert!(one.due().unwrap() > 0);
}

#[test]
fn a_store_that_was_emptied_takes_the_lease_away() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    store = MemoryStore::new(T);
    step(&mut one, &mut store, 2_000, true);
    assert_eq!(step(&mut one, &mut store, 2_000, true), Request::Last);
    assert_eq!(one.held(2_000), None);
}

/// Has somebody write over the last entry, who may publish but knows no sequence.
fn overwrite(store: &mut MemoryStore, value: Bytes, now: u64) {
    let last = store.last("a", now).map_or(0, |stored| stored.sequence);
    store.publish("a", last, value, now).unwrap();
}

#[test]
fn an_entry_that_somebody_wrote_for_the_holder_lengthens_nothing() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    step(&mut one, &mut store, 0, true);
    let until = one.held(0).unwrap().until;
    // The own entry, written again as it was: when it was sent is not read there.
    let copy = store.last("a", 1_000).unwrap().value;
    overwrite(&mut store, copy, 1_000);
    step(&mut one, &mut store, 2_000, true);
    assert_eq!(step(&mut one, &mut store, 2_000, true), Request::Last);
    assert_eq!(one.held(2_000).map(|grant| grant.until), Some(until));
    // Nobody has sent these.
    for nonce in [0, 1 << 40, u64::MAX] {
        let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
        one.want(WISH, 0);
        step(&mut one, &mut store, 0, true);
        overwrite(&mut store, Token { who: ME, wish: WISH, nonce }.pack(), 1_000);
        step(&mut one, &mut store, 2_000, true);
        assert_eq!(step(&mut one, &mut store, 2_000, true), Request::Last);
        assert_eq!(one.held(2_000), None, "{nonce}");
        assert!(one.due().is_some_and(|due| due < 2_000 + T), "{nonce}");
    }
}

#[test]
fn an_entry_that_the_store_refused_is_not_believed_when_somebody_writes_it_later() {
    let (mut one, mut other, mut store) = (lease(ME), lease(OTHER), MemoryStore::new(T));
    other.want(WISH, 0);
    step(&mut other, &mut store, 0, true);
    one.want(WISH, 0);
    let Request::Publish { value, .. } = step(&mut one, &mut store, 0, true) else { panic!("it tries") };
    overwrite(&mut store, value, 10);
    assert_eq!(step(&mut one, &mut store, 10, true), Request::Last);
    assert!(other.held(10).is_some() && one.held(10).is_none());
}

#[test]
fn only_the_last_entries_are_remembered_and_each_has_a_nonce_of_its_own() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    one.want(WISH, 0);
    let mut nonces = std::collections::BTreeSet::new();
    for turn in 0..50 {
        let Request::Publish { value, .. } = step(&mut one, &mut store, turn * 2_000, true) else { panic!("{turn}") };
        assert!(nonces.insert(Token::unpack(&value).unwrap().nonce));
    }
    assert_eq!(one.sent.len(), MOST_SENT);
}

/// Asks until a time, every 10 ms at most.
fn pass(
    lease: &mut Lease,
    store: &mut MemoryStore,
    now: u64,
    until: u64,
    mut each: impl FnMut(&mut MemoryStore, u64, &Lease),
) {
    for now in (now..until).step_by(10) {
        while lease.due().is_some_and(|due| due <= now) {
            step(lease, store, now, true);
        }
        each(store, now, lease);
    }
}

#[test]
fn an_entry_that_counts_for_nobody_is_replaced_and_held_only_when_the_holder_before_it_counts_no_more() {
    let (mut one, mut other, mut store) = (lease(ME), lease(OTHER), MemoryStore::new(T));
    other.want(WISH, 0);
    step(&mut other, &mut store, 0, true);
    overwrite(&mut store, "of a stranger".into(), 100);
    one.want(WISH, 200);
    let mut first = None;
    pass(&mut one, &mut store, 200, 3 * T, |store, now, one| {
        if first.is_none() && one.held(now).is_some() {
            first = Some(now);
        }
        // The stranger renews it until it is replaced.
        if now % 2_000 == 0 && store.last("a", now).is_some_and(|last| Token::unpack(&last.value).is_none()) {
            overwrite(store, "of a stranger".into(), now);
        }
        assert!(one.held(now).is_none() || other.held(now).is_none(), "{now}");
    });
    let first = first.unwrap();
    assert!(first > 200 + T && first < 2 * T + 2_000, "{first}");
}

#[test]
fn one_that_replaced_an_entry_and_gives_up_before_it_holds_the_lease_removes_nothing() {
    let (mut one, mut store) = (lease(ME), MemoryStore::new(T));
    overwrite(&mut store, "of a stranger".into(), 0);
    one.want(WISH, 0);
    let mut now = 0;
    while one.begins(now).is_none() {
        now = one.due().unwrap();
        // The stranger renews it until it is replaced.
        if now < T {
            overwrite(&mut store, "of a stranger".into(), now);
        }
        step(&mut one, &mut store, now, true);
    }
    let held_from = one.begins(now).unwrap();
    one.release(now);
    assert!(one.is_idle() && one.held(now).is_none());
    // Whoever wants it again finds it, and waits.
    one.want(AGAIN, now + 1);
    pass(&mut one, &mut store, now + 1, held_from, |_, now, one| assert_eq!(one.held(now), None));
    let end = now + T + 2_000;
    pass(&mut one, &mut store, held_from, end, |_, _, _| ());
    assert!(one.held(end - 10).is_some());
}

#[test]
fn an_entry_of_somebody_who_may_become_known_counts_longer_and_one_that_is_unclear_for_ever() {
    let grace = |verdict| LeaseTimes::new(T).counts_for(verdict);
    let all = [Verdict::Counts, Verdict::Unknown, Verdict::Nobodys, Verdict::Unsure].map(grace);
    assert_eq!(all, [None, Some(10 * T), Some(T), None]);
}
