//! What those on the bus cannot do who are no members, the servers among them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crypto::MemberKey;
use openssl::error::ErrorStack;
use peers::kind::{Frame, How};
use share::{Carrier, Incoming, Lane, Node, To};

use super::net::{Known, Member, Net, acquainted, key, node, options, secret};
use crate::content::Content;
use crate::envelope::{Envelope, Greeting};
use crate::options::Options;
use crate::session::{Fresh, Session, greet};
use crate::wire::Place;

pub async fn linked(net: &Net) -> (Member, Member) {
    let (mut one, mut two) = (net.start(options(1), acquainted(&[2])), net.start(options(2), acquainted(&[1])));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
    (one, two)
}

pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_repeated_or_forged_reaches_nobody_and_ends_nothing() {
    let net = Net::default();
    let (one, mut two) = linked(&net).await;
    assert_eq!(one.bus.send(To::Member(node(2)), Lane::Talk, Bytes::from_static(b"once")), share::SendResult::Queued);
    let once = Incoming::Message { from: node(1), lane: Lane::Talk, message: Bytes::from_static(b"once") };
    assert_eq!(two.next().await, Some(once));
    let seen = net.seen();
    for (place, envelope) in &seen {
        net.put(*place, envelope.clone());
        if let Ok(Some(Envelope::Sealed(sealed))) = Envelope::decode(envelope) {
            let forged = |sealed| net.put(*place, Envelope::Sealed(sealed).encode());
            forged(crate::envelope::Sealed { counter: u64::MAX, ..sealed.clone() });
            forged(crate::envelope::Sealed { from: node(3), counter: u64::MAX, ..sealed.clone() });
            forged(crate::envelope::Sealed { session: [9; 8], ..sealed });
        }
    }
    for boot in 0..100 {
        net.put(Place::Beat, Envelope::Beat { from: node(2), boot }.encode());
        net.put(Place::Beat, Envelope::Beat { from: node(1), boot }.encode());
    }
    pause().await;
    assert_eq!(one.bus.send(To::Member(node(2)), Lane::Talk, Bytes::from_static(b"next")), share::SendResult::Queued);
    let next = Incoming::Message { from: node(1), lane: Lane::Talk, message: Bytes::from_static(b"next") };
    assert_eq!(two.next().await, Some(next), "the link stays, and nothing comes twice");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_the_bus_loses_is_noticed_by_the_next_one() {
    let net = Net::default();
    let (one, mut two) = linked(&net).await;
    net.lose(node(2), Lane::Bulk);
    let send = |text| one.bus.send(To::Member(node(2)), Lane::Bulk, Bytes::from_static(text));
    send(b"lost");
    pause().await;
    send(b"next");
    assert_eq!(two.next().await, Some(Incoming::Overflowed(node(1))));
    assert!(matches!(two.next().await, Some(Incoming::Message { message, .. }) if message == b"next"[..]));
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_does_not_count_as_under_way_for_ever() {
    let net = Net::default();
    let (one, mut two) = linked(&net).await;
    let large = Bytes::from(vec![7; share::message::MAX_MESSAGE]);
    let send = || one.bus.send(To::Member(node(2)), Lane::Bulk, large.clone());
    for _ in 0..20 {
        net.lose(node(2), Lane::Bulk);
        send();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    send();
    let arrives = async { while !matches!(two.next().await.unwrap(), Incoming::Message { .. }) {} };
    arrives.await;
}

/// A stranger that speaks as members do.
pub struct Stranger {
    key: MemberKey,
    pub fresh: Fresh,
}

impl Stranger {
    pub fn new(key: MemberKey) -> Stranger {
        Stranger { key, fresh: Fresh::generate().unwrap() }
    }

    pub fn greeting(&self, member: &Member) -> Result<Greeting, ErrorStack> {
        let cluster_id = member.bus.hub().options.cluster_id.clone();
        self.greeting_of(member, &cluster_id)
    }

    /// Greets as a node of another set.
    pub fn greeting_of(&self, member: &Member, cluster_id: &str) -> Result<Greeting, ErrorStack> {
        let mut hello = member.bus.hub().own_hello(false);
        (hello.name, hello.cluster_id) = ("stranger".into(), cluster_id.into());
        greet(&self.key, member.bus.node(), &self.fresh, Frame::Hello(hello).encode(), None)
    }
}

/// Keys of strangers whose node is lower than that of a member, so that they greet it.
pub fn lower_than(node: Node) -> impl Iterator<Item = MemberKey> {
    let keys = std::iter::repeat_with(|| MemberKey::generate().unwrap());
    keys.filter(move |key| Node::of_key(&key.public()) < node)
}

pub fn answers(net: &Net) -> Vec<Greeting> {
    let seen = net.seen().into_iter().filter_map(|(_, envelope)| match Envelope::decode(&envelope) {
        Ok(Some(Envelope::Greeting(greeting))) if greeting.is_answer => Some(greeting),
        _ => None,
    });
    seen.collect()
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_strangers_costs_little_and_keeps_no_member_out() {
    let net = Net::default();
    let with = |number| Options { credentials: secret("a secret of twenty chars"), ..options(number) };
    let mut eight = net.start(with(8), acquainted(&[1]));
    for key in lower_than(node(8)).take(200) {
        let stranger = Stranger::new(key);
        let greeting = stranger.greeting(&eight).unwrap();
        net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(greeting.clone()).encode());
        let forged = Greeting { signature: [0; 64], ..greeting };
        net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(forged).encode());
    }
    pause().await;
    assert_eq!(answers(&net).len(), 32, "no more strangers are served at once");
    let mut one = net.start(with(1), acquainted(&[8]));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(one.next().await, Some(Incoming::Up(node(8))));
}

#[tokio::test(start_paused = true)]
async fn forged_greetings_of_many_nodes_are_soon_not_even_checked() {
    let net = Net::default();
    let with = |number| Options { credentials: secret("a secret of twenty chars"), ..options(number) };
    let mut eight = net.start(with(8), acquainted(&[1]));
    let keys: Vec<MemberKey> = lower_than(node(8)).take(60).collect();
    for key in &keys {
        let greeting = Stranger::new(key.clone()).greeting(&eight).unwrap();
        let forged = Greeting { signature: [0; 64], ..greeting };
        net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(forged).encode());
    }
    pause().await;
    let answered = || {
        let greeting = Stranger::new(keys[0].clone()).greeting(&eight).unwrap();
        net.seen();
        net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(greeting).encode());
        async {
            pause().await;
            answers(&net).len()
        }
    };
    assert_eq!(answered().await, 0, "a stranger waits");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(answered().await, 1, "and not for long");
    let mut one = net.start(with(1), acquainted(&[8]));
    assert_eq!(eight.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(one.next().await, Some(Incoming::Up(node(8))));
}

#[tokio::test(start_paused = true)]
async fn five_wrong_proofs_close_the_door_for_a_minute() {
    let net = Net::default();
    let with = Options { credentials: secret("a secret of twenty chars"), ..options(8) };
    let known = Arc::new(Known::default());
    let eight = net.start(with, known);
    let key = key(1);
    let mut served = 0;
    for _ in 0..20 {
        let stranger = Stranger::new(key.clone());
        let first = stranger.greeting(&eight).unwrap();
        net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(first.clone()).encode());
        pause().await;
        let Some(answer) = answers(&net).pop() else { break };
        served += 1;
        let mut session = Session::new(&stranger.fresh, &first, &answer, true).unwrap();
        let proof = Frame::Proof { how: How::Secret, bytes: Bytes::from_static(&[0; 32]) };
        let sealed = session.seal(Lane::Talk, &Content::Frame(proof).encode()).unwrap();
        net.put(Place::To(node(8), Lane::Talk), sealed);
        pause().await;
        net.seen();
    }
    assert_eq!(served, 5);
    assert_eq!(eight.reason(), "wrong secret");
    // Nor is a welcome a proof.
    tokio::time::sleep(Duration::from_secs(61)).await;
    let stranger = Stranger::new(key.clone());
    let first = stranger.greeting(&eight).unwrap();
    net.put(Place::To(node(8), Lane::Talk), Envelope::Greeting(first.clone()).encode());
    pause().await;
    let answer = answers(&net).pop().expect("a minute has passed");
    let mut session = Session::new(&stranger.fresh, &first, &answer, true).unwrap();
    let welcome = Frame::Welcome { number: 0, decisions: vec![], report: Default::default() };
    net.put(Place::To(node(8), Lane::Talk), session.seal(Lane::Talk, &Content::Frame(welcome).encode()).unwrap());
    pause().await;
    assert!(eight.bus.hub().links(To::All).is_empty());
}

#[tokio::test(start_paused = true)]
async fn garbage_is_passed_over() {
    let net = Net::default();
    let (_one, mut two) = linked(&net).await;
    for len in 0..200 {
        for kind in 0..5 {
            let mut bytes = vec![0xc1; len];
            bytes.iter_mut().zip([1, kind]).for_each(|(byte, head)| *byte = head);
            net.put(Place::To(node(2), Lane::Talk), bytes.into());
        }
    }
    assert_eq!(two.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_an_old_greeting_is_not_heard() {
    let net = Net::default();
    let (one, two) = linked(&net).await;
    let seen = net.seen();
    let heard = || two.known.times.lock().unwrap().len();
    let before = heard();
    assert_eq!(before, 1);
    for (place, envelope) in seen {
        net.put(place, envelope);
    }
    pause().await;
    assert_eq!(heard(), before);
    drop(one);
}
