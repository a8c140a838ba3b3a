//! Silent peers are detected, and only those.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rt::Listen;
use saltern_transport::{Audience, Error, Heartbeat, Limits, OnHeard, Requester, Target, tcp, zeromq};
use tokio::time::Instant;
use wire::zmtp::{Command, Incoming, SocketType, encode_message};

use crate::common::*;

const BOUND: Duration = Duration::from_secs(5);

fn address() -> SocketAddr {
    "127.0.0.1:4506".parse().unwrap()
}

/// A target of the usual settings, and a peer that took the connection and then does what the test makes it do.
fn by_hand() -> (MemoryNet, Target, tokio::sync::mpsc::UnboundedReceiver<tokio::io::DuplexStream>) {
    let net = MemoryNet::default();
    let incoming = net.listen_by_hand(address());
    (net, Target::plain(address()), incoming)
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_fell_silent_is_found() {
    let (net, target, mut incoming) = by_hand();
    let rt = net.rt();
    let (subscription, peer) = tokio::join!(zeromq::subscribe(&rt, &target, "web1", Vec::new()), async {
        Peer::over(incoming.recv().await.unwrap(), SocketType::Pub).await
    });
    let start = Instant::now();
    assert!(matches!(subscription.unwrap().next().await, Err(Error::Silent(_))));
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_request_port_that_fell_silent_is_found_while_a_question_waits_and_while_none_does() {
    let (net, target, mut incoming) = by_hand();
    let rt = net.rt();
    let requester = zeromq::ZmqRequester::new(rt.clone(), target.clone());
    let start = Instant::now();
    let (asked, watched, _peers) = tokio::join!(
        async { (requester.ask(question(1), Duration::from_secs(60)).await, start.elapsed()) },
        async { (zeromq::watch(&rt, &target).await, start.elapsed()) },
        async {
            let first = Peer::over(incoming.recv().await.unwrap(), SocketType::Router).await;
            (first, Peer::over(incoming.recv().await.unwrap(), SocketType::Router).await)
        }
    );
    assert!(matches!(asked.0, Err(Error::Silent(_))), "{:?}", asked.0);
    assert!(matches!(watched.0, Error::Silent(_)), "{}", watched.0);
    assert!(asked.1 < BOUND && watched.1 < BOUND, "{:?} {:?}", asked.1, watched.1);
}

#[tokio::test(start_paused = true)]
async fn a_tcp_master_that_fell_silent_is_found_and_one_that_answers_is_not() {
    let net = MemoryNet::default();
    let server = tcp::serve(net.rt(), Listen::at(address()), Limits::default(), None).await.unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let (rt, target) = (net.rt(), Target { on_heard: Some(counter(&heard)), ..Target::plain(address()) });
    let watched = tokio::spawn(async move { (tcp::watch(&rt, &target).await, Instant::now()) });
    let answering = tokio::spawn(async move {
        let mut server = server;
        for _ in 0..1000 {
            let request = server.next().await.unwrap();
            assert_eq!(load(request.envelope.as_ref().unwrap()), value::map! { "cmd" => "ping" });
            request.reply.send(true.into());
        }
        (server, Instant::now())
    });
    let (_server, silent_since) = answering.await.unwrap();
    let (error, found) = watched.await.unwrap();
    assert!(matches!(error, Error::Silent(_)), "{error}");
    assert!(found - silent_since < BOUND, "{:?}", found - silent_since);
    assert_eq!(heard.load(Ordering::Relaxed), 1000, "each answer is a sign of life");
}

fn counter(count: &Arc<AtomicUsize>) -> OnHeard {
    let count = count.clone();
    Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    })
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_a_request_port_are_told() {
    let (net, target, mut incoming) = by_hand();
    let heard = Arc::new(AtomicUsize::new(0));
    let (rt, target) = (net.rt(), Target { on_heard: Some(counter(&heard)), ..target });
    let watched = tokio::spawn(async move { zeromq::watch(&rt, &target).await });
    let mut peer = Peer::over(incoming.recv().await.unwrap(), SocketType::Router).await;
    lives_for(&mut peer, Duration::from_secs(30)).await;
    assert!(!watched.is_finished());
    assert!(heard.load(Ordering::Relaxed) >= 15, "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn masters_find_silent_peers_too() {
    let net = MemoryNet::default();
    let (listen, limits, beat) = (Listen::at(address()), Limits::default(), Some(Heartbeat::default()));
    let publisher = zeromq::publish(net.rt(), listen, limits, beat).await.unwrap();
    let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Sub).await;
    let start = Instant::now();
    closed(&mut peer.stream).await;
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    assert!(publisher.subscribers().is_empty());
}

/// Answers PINGs for a time, after which the other side must still be there.
async fn lives_for(peer: &mut Peer<tokio::io::DuplexStream>, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        match peer.next().await.expect("a good connection is not closed") {
            Incoming::Command(Command::Ping { context, .. }) => peer.send(&Command::Pong { context }.encode()).await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_lives_as_long_as_it_wants() {
    let net = MemoryNet::default();
    let (listen, limits, beat) = (Listen::at(address()), Limits::default(), Some(Heartbeat::default()));
    let _server = zeromq::serve(net.rt(), listen, limits, beat).await.unwrap();
    let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Req).await;
    lives_for(&mut peer, Duration::from_secs(3600)).await;
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_with_their_context() {
    let net = MemoryNet::default();
    let (listen, limits) = (Listen::at(address()), Limits::default());
    let _publisher = zeromq::publish(net.rt(), listen, limits, None).await.unwrap();
    let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Sub).await;
    for context in ["", "0123456789abcdef"] {
        peer.send(&Command::Ping { ttl: 10, context: context.into() }.encode()).await;
        assert_eq!(peer.next().await, Some(Incoming::Command(Command::Pong { context: context.into() })));
    }
    // No heartbeats were requested, so an hour of silence is no reason to close.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    peer.send(&Command::Ping { ttl: 0, context: Bytes::new() }.encode()).await;
    assert!(peer.next().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_while_the_server_is_busy() {
    let net = MemoryNet::default();
    let (listen, limits) = (Listen::at(address()), Limits::default());
    // Nobody takes requests.
    let _server = zeromq::serve(net.rt(), listen, limits, Some(Heartbeat::default())).await.unwrap();
    let mut floods = Vec::new();
    for _ in 0..70 {
        let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Dealer).await;
        for _ in 0..16 {
            peer.send(&encode_message(&["", "request"])).await;
        }
        floods.push(peer);
    }
    let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Req).await;
    peer.send(&encode_message(&["", "request"])).await;
    lives_for(&mut peer, Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_busy_for_long_does_not_give_up_a_good_peer() {
    let (net, target, mut incoming) = by_hand();
    let rt = net.rt();
    let (subscription, peer) = tokio::join!(zeromq::subscribe(&rt, &target, "web1", Vec::new()), async {
        Peer::over(incoming.recv().await.unwrap(), SocketType::Pub).await
    });
    let (mut subscription, mut peer) = (subscription.unwrap(), peer);
    // More than waits anywhere on the way; nobody takes it for a minute.
    let count = 5000;
    let sending = tokio::spawn(async move {
        for number in 0..count {
            peer.send(&encode_message(&[format!("{number:0>100}")])).await;
        }
        lives_for_subscriber(&mut peer).await;
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    for number in 0..count {
        assert_eq!(subscription.next().await.unwrap(), format!("{number:0>100}"));
    }
    sending.await.unwrap();
    assert_eq!(subscription.next().await.unwrap(), "end");
}

/// Answers the first PINGs, of which some waited long, then reports its end.
async fn lives_for_subscriber(peer: &mut Peer<tokio::io::DuplexStream>) {
    let mut pings = 0;
    while pings < 4 {
        if let Incoming::Command(Command::Ping { context, .. }) = peer.next().await.expect("it is not closed") {
            pings += 1;
            peer.send(&Command::Pong { context }.encode()).await;
        }
    }
    peer.send(&encode_message(&["end"])).await;
}

#[tokio::test(start_paused = true)]
async fn answers_to_pings_are_whole_between_publications_to_a_slow_reader() {
    let net = MemoryNet::default();
    let (listen, limits) = (Listen::at(address()), Limits::default());
    let publisher = zeromq::publish(net.rt(), listen, limits, None).await.unwrap();
    let mut peer = Peer::over(net.dial(address()).unwrap(), SocketType::Sub).await;
    peer.send(&Command::Subscribe(Bytes::new()).encode()).await;
    until("it is on the roll", || publisher.subscribers().len() == 1).await;
    let payload = Bytes::from(vec![7; 60_000]);
    let (mut pongs, mut messages) = (0, 0);
    for round in 0..50_u8 {
        peer.send(&Command::Ping { ttl: 0, context: vec![round; 16].into() }.encode()).await;
        publisher.publish(&payload.clone().into(), &Audience::All);
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    while pongs < 50 || messages < 45 {
        match peer.next().await.unwrap() {
            Incoming::Command(Command::Pong { context }) => {
                assert_eq!(context, vec![pongs; 16]);
                pongs += 1;
            }
            Incoming::Message(parts) => {
                assert_eq!(parts, std::slice::from_ref(&payload));
                messages += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}
