//! Publications over loopback, on both transports.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use rt::Rt;
use saltern_transport::{Audience, Delivery, Error, Kind, Limits, Payload, Publisher, Subscription, Target, zeromq};
use tokio::io::AsyncWriteExt;
use value::map;
use wire::MinionId;
use wire::zmtp::{Command, SocketType};

use crate::common::*;

async fn next(subscription: &mut dyn Subscription) -> Bytes {
    tokio::time::timeout(PATIENCE, subscription.next()).await.expect("a publication comes").unwrap()
}

async fn on_the_roll(publisher: &Publisher, count: usize) {
    until("all subscribers are on the roll", || publisher.subscribers().len() == count).await;
}

/// Publishes until all subscriptions have arrived at the publisher.
async fn reaches(publisher: &Publisher, payload: &Bytes, audience: &Audience, count: usize) {
    until("the subscriptions arrive", || publisher.publish(&payload.clone().into(), audience).queued == count).await;
}

#[tokio::test]
async fn everybody_gets_what_is_for_everybody() {
    for kind in BOTH {
        let publisher = publish_with(kind, Limits::default()).await;
        let mut one = subscribe(kind, publisher.address(), "web1").await;
        let mut two = subscribe(kind, publisher.address(), "web2").await;
        let payload = Bytes::from(vec![0x81; 100_000]);
        reaches(&publisher, &payload, &Audience::All, 2).await;
        assert_eq!(next(&mut *one).await, payload, "{kind:?}");
        assert_eq!(next(&mut *two).await, payload, "{kind:?}");
        drop(two);
        on_the_roll(&publisher, 1).await;
    }
}

#[tokio::test]
async fn a_publisher_that_is_dropped_closes_its_connections() {
    for kind in BOTH {
        let publisher = publish_with(kind, Limits::default()).await;
        let mut subscription = subscribe(kind, publisher.address(), "web1").await;
        on_the_roll(&publisher, 1).await;
        drop(publisher);
        let ended = tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap();
        assert!(matches!(ended, Err(Error::Closed | Error::Io(_))), "{kind:?}: {ended:?}");
    }
}

#[tokio::test]
async fn topics_are_prefixes_in_both_forms_of_subscriptions() {
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let mut new = Peer::connect(publisher.address(), SocketType::Sub).await;
    let mut old = Peer::connect(publisher.address(), SocketType::Sub).await;
    let ab = || Bytes::from_static(b"ab");
    new.send(&Command::Subscribe(ab()).encode()).await;
    old.send(&Command::Subscribe(ab()).encode_legacy()).await;
    let payload = Bytes::from_static(b"payload");
    let topics = |names: &[&'static str]| Audience::Topics(names.iter().map(|name| (*name).into()).collect());
    reaches(&publisher, &payload, &topics(&["abc"]), 2).await;
    assert_eq!(
        publisher.publish(&payload.clone().into(), &topics(&["a", "b", "ba"])),
        Delivery::default(),
        "not the prefix"
    );
    assert_eq!(publisher.publish(&payload.clone().into(), &topics(&["ab", "x", "abd"])).queued, 4, "once per topic");
    for peer in [&mut new, &mut old] {
        while peer.message().await != ["ab", "payload"] {}
        assert_eq!(peer.message().await, ["abd", "payload"]);
    }
    new.send(&Command::Cancel(ab()).encode()).await;
    old.send(&Command::Cancel(ab()).encode_legacy()).await;
    reaches(&publisher, &payload, &topics(&["ab"]), 0).await;
    new.send(&Command::Subscribe(Bytes::new()).encode()).await;
    reaches(&publisher, &payload, &Audience::All, 1).await;
    while new.message().await.len() != 1 {}
}

#[tokio::test]
async fn subscribers_of_topics_take_nothing_else() {
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let target = Target::plain(publisher.address());
    let topics = vec![Bytes::from_static(b"web1"), Bytes::from_static(b"broadcast")];
    let mut subscription = zeromq::subscribe(&Rt::real(), &target, "web1", topics).await.unwrap();
    let audience = |name: &'static str| Audience::Topics(vec![name.into()]);
    reaches(&publisher, &Bytes::from_static(b"one"), &audience("broadcast"), 1).await;
    // Begins like one of its topics, but is another minion's.
    assert_eq!(publisher.publish(&Bytes::from_static(b"not for us").into(), &audience("web10")).queued, 1);
    publisher.publish(&Bytes::from_static(b"two").into(), &audience("web1"));
    let mut got = next(&mut *subscription).await;
    while got == "one" {
        got = next(&mut *subscription).await;
    }
    assert_eq!(got, "two");
}

#[tokio::test]
async fn a_slow_reader_loses_publications_and_delays_nobody() {
    for kind in BOTH {
        let publisher = publish_with(kind, Limits { queue: 10, ..Limits::default() }).await;
        let mut slow = tokio::net::TcpStream::connect(publisher.address()).await.unwrap();
        if kind == Kind::Zeromq {
            let mut peer = Peer::over(slow, SocketType::Sub).await;
            peer.send(&Command::Subscribe(Bytes::new()).encode()).await;
            slow = peer.stream;
        }
        let mut quick = subscribe(kind, publisher.address(), "web1").await;
        let payload = Bytes::from(vec![7; 1 << 20]);
        reaches(&publisher, &payload, &Audience::All, 2).await;
        let mut dropped = 0;
        for round in 0..50 {
            let delivery = publisher.publish(&payload.clone().into(), &Audience::All);
            assert_eq!(delivery.queued + delivery.dropped, 2, "{kind:?} {round}");
            dropped += delivery.dropped as u64;
            assert_eq!(next(&mut *quick).await, payload, "{kind:?} {round}");
        }
        let status = publisher.subscribers();
        assert!(dropped > 10, "{kind:?}: {dropped}");
        assert_eq!((status[0].queued, status[0].dropped), (10, dropped), "{kind:?}");
        assert_eq!(status[1].dropped, 0, "{kind:?}");
        drop(slow);
    }
}

#[tokio::test]
async fn a_master_sees_who_listens() {
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let before = std::time::SystemTime::now();
    let _one = subscribe(Kind::Zeromq, publisher.address(), "web1").await;
    on_the_roll(&publisher, 1).await;
    let status = publisher.subscribers().remove(0);
    assert_eq!((status.claimed.as_deref(), status.minion, status.queued), (Some("web1"), None, 0));
    assert_eq!(status.peer.ip().to_string(), "127.0.0.1");
    assert!(status.since >= before);
    let id = MinionId::new("web1").unwrap();
    let heard = |id: &MinionId, from: &str| {
        publisher.heard(id, from.parse().unwrap());
        publisher.subscribers()[0].minion.clone()
    };
    assert_eq!(heard(&id, "127.0.0.2"), None, "another address claims nothing");
    assert_eq!(heard(&MinionId::new("web2").unwrap(), "127.0.0.1"), None, "nor does another minion");
    assert_eq!(heard(&id, "127.0.0.1"), Some(id.clone()));
    assert_eq!(heard(&id, "127.0.0.2"), None, "the minion has moved");
}

#[tokio::test]
async fn claims_that_do_not_count_leave_no_trace() {
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let (web1, web2) = (MinionId::new("web1").unwrap(), MinionId::new("web2").unwrap());
    publisher.heard(&web1, "127.0.0.1".parse().unwrap());
    publisher.heard(&web2, "127.0.0.2".parse().unwrap());
    let mut all = Vec::new();
    for name in ["web1", "web2", "web3"] {
        all.push(subscribe(Kind::Zeromq, publisher.address(), name).await);
    }
    on_the_roll(&publisher, 3).await;
    let minions: Vec<_> = publisher.subscribers().into_iter().filter_map(|status| status.minion).collect();
    assert_eq!((minions.len(), minions.first()), (1, Some(&web1)));
    drop(all);
    on_the_roll(&publisher, 0).await;
    let left = publisher.departures();
    assert_eq!((left.names.keys().map(String::as_str).collect::<Vec<_>>(), left.addresses.len()), (vec!["web1"], 0));
    publisher.forget(&web1);
    assert_eq!(publisher.departures().names.len(), 0);
    assert_eq!(publisher.proven().get(&web1), None);
}

#[tokio::test]
async fn introductions_say_who_listens_over_tcp() {
    let mut publisher = publish_with(Kind::Tcp, Limits::default()).await;
    let mut introductions = publisher.introductions().unwrap();
    assert!(publisher.introductions().is_none(), "there is one stream of them");
    let mut known = subscribe(Kind::Tcp, publisher.address(), "web1").await;
    let mut unknown = subscribe(Kind::Tcp, publisher.address(), "web2").await;
    for _ in 0..2 {
        let introduction = introductions.recv().await.unwrap();
        if load(introduction.envelope.as_ref().unwrap()) == map! { "id" => "web1" } {
            introduction.accept(MinionId::new("web1").unwrap());
        }
    }
    let named = |ids: &[&str]| ids.iter().map(|id| MinionId::new(*id).unwrap()).collect::<HashSet<_>>();
    let audience = |ids: &[&str]| Audience::Minions(named(ids));
    assert_eq!(publisher.publish(&Bytes::from_static(b"one").into(), &audience(&["web1", "db1"])).queued, 1);
    assert_eq!(publisher.publish(&Bytes::from_static(b"none").into(), &Audience::Minions(HashSet::new())).queued, 0);
    let not_web1 = Audience::AllBut(named(&["web1", "db1"]));
    assert_eq!(publisher.publish(&Bytes::from_static(b"others").into(), &not_web1).queued, 1);
    publisher.publish(&Bytes::from_static(b"all").into(), &Audience::All);
    assert_eq!((next(&mut *known).await, next(&mut *known).await), ("one".into(), "all".into()));
    assert_eq!(next(&mut *unknown).await, "others");
    assert_eq!(next(&mut *unknown).await, "all", "what is for named minions is not for strangers");
    // Somebody on the way may have sent it again.
    let web1 = MinionId::new("web1").unwrap();
    let counts = || publisher.subscribers().iter().filter(|subscriber| subscriber.minion.is_some()).count();
    assert_eq!(counts(), 0);
    publisher.heard(&web1, std::net::Ipv4Addr::new(127, 0, 0, 9).into());
    assert_eq!(counts(), 0);
    publisher.heard(&web1, std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(counts(), 1);
}

#[tokio::test]
async fn who_introduces_itself_without_end_is_sent_away() {
    let publisher = publish_with(Kind::Tcp, Limits::default()).await;
    let mut stream = tokio::net::TcpStream::connect(publisher.address()).await.unwrap();
    let frame = wire::tcp::Frame::plain(map! { "enc" => "clear", "load" => map!{} }).encode();
    for _ in 0..200 {
        // Fails as soon as the other side has closed.
        let _ = stream.write_all(&frame).await;
    }
    closed(&mut stream).await;
    on_the_roll(&publisher, 0).await;
}

#[tokio::test]
async fn a_subscriber_may_have_but_so_many_topics() {
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let mut peer = Peer::connect(publisher.address(), SocketType::Sub).await;
    for number in 0..100_u8 {
        let _ = peer.stream.write_all(&Command::Subscribe(vec![number].into()).encode()).await;
    }
    closed(&mut peer.stream).await;
    tokio::time::timeout(Duration::from_secs(5), on_the_roll(&publisher, 0)).await.unwrap();
}

#[tokio::test]
async fn a_subscriber_that_lost_something_is_told_of_once_it_has_taken_the_rest() {
    for kind in BOTH {
        let mut publisher = publish_with(kind, Limits { queue: 2, ..Limits::default() }).await;
        let mut drained = publisher.drained().expect("nobody took it before");
        let mut subscription = subscribe(kind, publisher.address(), "web1").await;
        let first = Bytes::from_static(b"\x81first");
        reaches(&publisher, &first, &Audience::All, 1).await;
        // More than the sockets in between take.
        let large = Bytes::from(vec![0x81; 4 << 20]);
        let lost = loop {
            let delivery = publisher.publish(&large.clone().into(), &Audience::All);
            match delivery.lost.first() {
                Some(number) => break *number,
                None => tokio::task::yield_now().await,
            }
        };
        assert!(!publisher.watch_queue(lost), "something waits");
        assert!(drained.try_recv().is_err(), "nothing was taken yet");
        let taking = async { while subscription.next().await.is_ok() {} };
        tokio::select! {
            () = taking => panic!("the connection ended"),
            told = tokio::time::timeout(PATIENCE, drained.recv()) => assert_eq!(told.unwrap(), Some(lost), "{kind:?}"),
        }
        let again = Bytes::from_static(b"\x81again");
        assert_eq!(publisher.publish_to(lost, &again.clone().into(), &Audience::All).queued, 1);
        assert_eq!(publisher.publish_to(lost + 7, &again.clone().into(), &Audience::All), Delivery::default());
        while next(&mut *subscription).await != again {}
        tokio::time::timeout(PATIENCE, publisher.flushed()).await.expect("nothing waits");
        assert!(publisher.is_there(lost) && publisher.watch_queue(lost));
    }
}

#[tokio::test]
async fn who_is_behind_gets_what_is_sealed_with_the_key_before() {
    for kind in BOTH {
        let mut publisher = publish_with(kind, Limits::default()).await;
        let mut one = subscribe(kind, publisher.address(), "web1").await;
        let mut two = subscribe(kind, publisher.address(), "web2").await;
        if let Some(mut introductions) = publisher.introductions() {
            for _ in 0..2 {
                let introduction = introductions.recv().await.unwrap();
                let id = load(introduction.envelope.as_ref().unwrap()).get_str("id").unwrap().to_owned();
                introduction.accept(MinionId::new(id).unwrap());
            }
        }
        reaches(&publisher, &Bytes::from_static(b"first"), &Audience::All, 2).await;
        let both = Payload { current: "new".into(), before: Some("old".into()) };
        let (localhost, one_id) = (std::net::Ipv4Addr::LOCALHOST.into(), MinionId::new("web1").unwrap());

        publisher.leave_behind();
        let mut three = subscribe(kind, publisher.address(), "web3").await;
        assert_eq!((publisher.behind().len(), publisher.any_behind()), (2, true));
        until("the third subscription arrives", || publisher.publish(&both, &Audience::All).queued == 3).await;
        publisher.has_signed_in(&one_id, std::net::Ipv4Addr::new(127, 0, 0, 9).into());
        assert_eq!(publisher.behind().len(), 2, "somebody elsewhere signed in");
        publisher.has_signed_in(&one_id, localhost);
        let rest: Vec<u64> = publisher.behind().into_iter().map(|(number, _)| number).collect();
        publisher.publish(&both, &Audience::All);
        assert_eq!(
            (rest.len(), publisher.catch_up(&rest, &"word".into()), publisher.catch_up(&rest, &"word".into())),
            (1, 1, 0)
        );
        publisher.publish(&both, &Audience::All);
        publisher.publish(&Bytes::from_static(b"end").into(), &Audience::All);

        let all = async |subscription: &mut dyn Subscription| {
            let mut got: Vec<Bytes> = Vec::new();
            while got.last().is_none_or(|last| last != "end") {
                got.push(next(subscription).await);
            }
            // How often something was published until the subscriptions had arrived is a matter of time.
            got.dedup();
            got
        };
        assert_eq!(all(&mut *one).await, ["first", "old", "new", "end"], "{kind:?}");
        assert_eq!(all(&mut *two).await, ["first", "old", "word", "new", "end"], "{kind:?}");
        assert_eq!(all(&mut *three).await, ["new", "end"], "{kind:?}");

        publisher.leave_behind();
        publisher.publish(&Bytes::from_static(b"only one").into(), &Audience::All);
        publisher.forget_before();
        publisher.publish(&both, &Audience::All);
        publisher.publish(&Bytes::from_static(b"end").into(), &Audience::All);
        assert_eq!(all(&mut *one).await, ["only one", "new", "end"], "{kind:?}");
        publisher.leave_behind();
        publisher.leave_behind();
        assert!(!publisher.any_behind(), "{kind:?}: the key before is not theirs any more");
    }
}
