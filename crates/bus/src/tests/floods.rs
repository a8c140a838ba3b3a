//! What strangers, and whoever repeats and forges greetings of members, can make a member compute.

use std::collections::BTreeMap;

use bytes::Bytes;
use peers::kind::Frame;
use share::{Carrier, Incoming, Lane, Node, SendResult, To};

use super::attacks::{Stranger, answers, linked, lower_than, pause};
use super::net::{Member, Net, acquainted, key, node, options, secret};
use crate::costs::FAILURES;
use crate::envelope::{Envelope, Greeting};
use crate::options::Options;
use crate::session::{Fresh, greet};
use crate::wire::Place;

fn put(net: &Net, greeting: &Greeting) {
    net.put(Place::To(greeting.to, Lane::Talk), Envelope::Greeting(greeting.clone()).encode());
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_well_signed_strangers_is_answered_within_the_budget_and_ends_no_link() {
    let net = Net::default();
    let mut eight = net.start(options(8), acquainted(&[1]));
    let mut one = net.start(options(1), acquainted(&[8]));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(one.next().await, Some(Incoming::Up(node(8))));
    net.seen();
    for key in lower_than(node(8)).take(300) {
        put(&net, &Stranger::new(key).greeting_of(&eight, "test").unwrap());
    }
    pause().await;
    assert_eq!(answers(&net).len(), FAILURES as usize);
    assert_eq!(one.bus.send(To::Member(node(8)), Lane::Talk, Bytes::from_static(b"still")), SendResult::Queued);
    let still = Incoming::Message { from: node(1), lane: Lane::Talk, message: Bytes::from_static(b"still") };
    assert_eq!(eight.next().await, Some(still));
    // Nor does a beat of a stranger make it greet.
    net.seen();
    net.put(Place::Beat, Envelope::Beat { from: Node([255; 8]), boot: 1 }.encode());
    pause().await;
    let by_eight = |envelope: &Bytes| match Envelope::decode(envelope) {
        Ok(Some(Envelope::Greeting(greeting))) => greeting.from == node(8) && greeting.to == Node([255; 8]),
        _ => false,
    };
    assert!(!net.seen().iter().any(|(_, envelope)| by_eight(envelope)));
    // A member that comes back is linked although the budget is spent.
    drop(one);
    let mut one = net.start(options(1), acquainted(&[8]));
    assert_eq!(one.next().await, Some(Incoming::Up(node(8))));
}

/// Returns a greeting of the first member, as somebody may have recorded it.
fn recorded(by: &Member) -> Greeting {
    let mut hello = by.bus.hub().own_hello(true);
    (hello.name, hello.boot) = ("m1".into(), 5);
    greet(&key(1), by.bus.node(), &Fresh::generate().unwrap(), Frame::Hello(hello).encode(), None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn old_greetings_of_a_member_do_not_keep_it_out() {
    let net = Net::default();
    let mut eight = net.start(options(8), acquainted(&[1]));
    let old: Vec<Greeting> = (0..20).map(|_| recorded(&eight)).collect();
    (0..20).for_each(|_| put(&net, &old[0]));
    pause().await;
    assert_eq!(answers(&net).len(), 1, "one that is repeated is passed over");
    old.iter().for_each(|greeting| put(&net, greeting));
    pause().await;
    assert!(eight.bus.hub().state().talks.len() <= 8);
    let mut one = net.start(options(1), acquainted(&[8]));
    let up = tokio::time::timeout(std::time::Duration::from_secs(1), one.next()).await;
    assert_eq!(up, Ok(Some(Incoming::Up(node(8)))));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
}

#[tokio::test(start_paused = true)]
async fn forged_greetings_of_a_member_leave_a_sample_that_is_checked() {
    let net = Net::default();
    let eight = net.start(options(8), acquainted(&[1]));
    for _ in 0..FAILURES {
        let genuine = Stranger::new(key(1)).greeting(&eight).unwrap();
        put(&net, &Greeting { signature: [0; 64], ..genuine });
    }
    pause().await;
    assert_eq!(answers(&net).len(), 0);
    (0..300).for_each(|_| put(&net, &Stranger::new(key(1)).greeting(&eight).unwrap()));
    pause().await;
    let checked = answers(&net).len();
    assert!((1..150).contains(&checked), "{checked} of 300");
}

#[tokio::test(start_paused = true)]
async fn a_greeting_counts_at_one_place_and_with_the_whole_key_of_a_member_only() {
    let net = Net::default();
    let eight = net.start(options(8), acquainted(&[1]));
    let greeting = Stranger::new(key(1)).greeting(&eight).unwrap();
    let bytes = Envelope::Greeting(greeting.clone()).encode();
    net.put(Place::To(node(8), Lane::Bulk), bytes);
    eight.known.other_keys.lock().unwrap().insert(node(1));
    put(&net, &greeting);
    pause().await;
    assert_eq!(answers(&net).len(), 0);
    eight.known.other_keys.lock().unwrap().clear();
    put(&net, &greeting);
    pause().await;
    assert_eq!(answers(&net).len(), 1);
}

/// Answers the first greeting of a member to a node, once genuine and so often forged, the forged ones first.
async fn answer_forged(net: &Net, member: &Member, number: u8, forged: usize) {
    net.put(Place::Beat, Envelope::Beat { from: node(number), boot: 5 }.encode());
    pause().await;
    let greetings = net.seen().into_iter().filter_map(|(_, envelope)| match Envelope::decode(&envelope) {
        Ok(Some(Envelope::Greeting(first))) if first.to == node(number) => Some(first),
        _ => None,
    });
    let first = greetings.last().expect("it greets");
    let mut hello = member.bus.hub().own_hello(false);
    (hello.name, hello.boot) = (format!("m{number}"), 5);
    let hello = Frame::Hello(hello).encode();
    let answer = greet(&key(number), first.from, &Fresh::generate().unwrap(), hello, Some(&first)).unwrap();
    (0..forged).for_each(|_| put(net, &Greeting { signature: [0; 64], ..answer.clone() }));
    put(net, &answer);
    pause().await;
}

#[tokio::test(start_paused = true)]
async fn three_forged_answers_end_a_conversation_with_a_stranger_and_none_with_a_member() {
    let net = Net::default();
    let with = Options { credentials: secret("a secret of twenty chars"), ..options(1) };
    let one = net.start(with, acquainted(&[8]));
    let talks = || one.bus.hub().state().talks.len();
    answer_forged(&net, &one, 7, 3).await;
    assert_eq!((talks(), one.bus.hub().state().begun.len()), (0, 0));
    answer_forged(&net, &one, 6, 2).await;
    assert_eq!(talks(), 1);
    answer_forged(&net, &one, 8, 20).await;
    assert_eq!(talks(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_session_says_arrives_in_its_order() {
    let net = Net::default();
    let (_one, _two) = linked(&net).await;
    pause().await;
    let mut last: BTreeMap<(Node, [u8; 8], u8), u64> = BTreeMap::new();
    for (_, envelope) in net.seen() {
        let Ok(Some(Envelope::Sealed(sealed))) = Envelope::decode(&envelope) else { continue };
        let before = last.insert((sealed.from, sealed.session, sealed.lane as u8), sealed.counter).unwrap_or(0);
        assert_eq!(sealed.counter, before + 1, "a welcome comes before the first heartbeat");
    }
    assert!(last.len() >= 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_hosts_with_one_key_the_later_run_stays_linked_and_the_other_one_is_told() {
    let net = Net::default();
    let mut eight = net.start(options(8), acquainted(&[1]));
    let mut copied = net.start(options(1), acquainted(&[8]));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(copied.next().await, Some(Incoming::Up(node(8))));
    let mut copy = net.start(options(1), acquainted(&[8]));
    assert_eq!(copy.next().await, Some(Incoming::Up(node(8))));
    assert_eq!(eight.next().await, Some(Incoming::Down(node(1), "it was restarted".to_owned())));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(eight.next().await, None, "the link does not flap");
    assert_eq!(copied.reason(), "refused there: two hosts have its member key");
}

#[tokio::test(start_paused = true)]
async fn only_another_host_with_the_own_key_makes_a_member_say_that_there_is_one() {
    let net = Net::default();
    let one = net.start(options(1), acquainted(&[]));
    let is_told = |member: &Member| {
        let hub = member.bus.hub();
        !hub.guard().may_log("the own node", "copied", hub.time().0)
    };
    one.bus.hub().beat_heard(node(1), 99);
    pause().await;
    assert!(net.seen().iter().any(|(place, _)| *place == Place::To(node(1), Lane::Talk)), "it asks");
    assert!(!is_told(&one), "a beat proves nothing");
    let other = Net::default();
    let (one, copy) = (other.start(options(1), acquainted(&[])), other.start(options(1), acquainted(&[])));
    one.bus.hub().beat_heard(node(1), copy.bus.hub().boot);
    pause().await;
    assert!(is_told(&one));
}
