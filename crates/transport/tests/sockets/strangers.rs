//! Messages of unauthenticated peers harm only those peers.

use std::time::Duration;

use bytes::Bytes;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use saltern_transport::{Audience, Kind, Limits};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use wire::zmtp::{Command, SocketType, encode_message};

use crate::common::*;

/// Limits under which tests of timeouts are short.
fn impatient() -> Limits {
    Limits { handshake: Duration::from_millis(300), ..Limits::default() }
}

/// Returns how many connections the system permits this test to have, at most `wanted`. Each may take two file
/// descriptors, and other tests need some, too.
fn room_for(wanted: u64) -> u64 {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    wanted.min(most.saturating_sub(400) / 2)
}

#[tokio::test]
async fn thousands_of_half_open_connections_keep_nobody_out() {
    for kind in BOTH {
        let server = serve(kind).await;
        let publisher = publish_with(kind, Limits::default()).await;
        let requester = requester(kind, server.address());
        let address = server.address();
        let _answering = answer_all(server);
        let mut strangers = Vec::new();
        for _ in 0..room_for(5000) {
            let connecting = TcpStream::connect(address);
            strangers.push(tokio::time::timeout(PATIENCE, connecting).await.unwrap().unwrap());
        }
        let start = Instant::now();
        assert_eq!(ask(&*requester, 1).await.unwrap(), echo(1), "{kind:?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{kind:?}: {:?}", start.elapsed());
        let mut subscription = subscribe(kind, publisher.address(), "web1").await;
        until("others are not touched", || publisher.publish(&Bytes::from("x").into(), &Audience::All).queued == 1)
            .await;
        assert_eq!(subscription.next().await.unwrap(), "x");
        let mut oldest = strangers.swap_remove(0);
        closed(&mut oldest).await;
    }
}

#[tokio::test]
async fn who_says_nothing_is_sent_away() {
    for kind in BOTH {
        let server = serve_at(kind, loopback(), impatient()).await;
        let mut stranger = TcpStream::connect(server.address()).await.unwrap();
        closed(&mut stranger).await;
    }
    let publisher = publish_with(Kind::Zeromq, impatient()).await;
    closed(&mut TcpStream::connect(publisher.address()).await.unwrap()).await;
}

#[tokio::test]
async fn garbage_ends_its_connection_and_no_other() {
    let greeting = {
        let (_, greeting) = wire::zmtp::Handshake::new(SocketType::Req, Bytes::new());
        greeting
    };
    let zmtp: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: master\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        [&greeting[..], &[0xff; 100]].concat(),
        [&greeting[..], &encode_message(&["no READY"])].concat(),
        // A SUB does not talk to a ROUTER, nor a REQ to a PUB.
        [&greeting[..], &[4, 5, 5], b"READY"].concat(),
        // A READY of 2 GB.
        [&greeting[..], &[6, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff]].concat(),
    ];
    let frames: Vec<Vec<u8>> = vec![
        b"\xc1".to_vec(),
        b"GET / HTTP/1.1\r\nHost: master\r\n\r\n".to_vec(),
        vec![0x91; 4096],
        b"\xdb\x7f\xff\xff\xff".to_vec(),
        b"\xdf\xff\xff\xff\xff".to_vec(),
    ];
    for (kind, inputs) in [(Kind::Zeromq, zmtp), (Kind::Tcp, frames)] {
        let server = serve(kind).await;
        let publisher = publish_with(kind, Limits::default()).await;
        let requester = requester(kind, server.address());
        let (requests, publications) = (server.address(), publisher.address());
        let _answering = answer_all(server);
        for (number, input) in inputs.iter().enumerate() {
            for address in [requests, publications] {
                let mut stranger = TcpStream::connect(address).await.unwrap();
                let _ = stranger.write_all(input).await;
                closed(&mut stranger).await;
            }
            assert_eq!(ask(&*requester, number as i64).await.unwrap(), echo(number as i64), "{kind:?}");
        }
        until("no stranger stays", || publisher.subscribers().is_empty()).await;
    }
}

#[tokio::test]
async fn huge_announcements_after_the_handshake_are_refused_at_once() {
    let server = serve(Kind::Zeromq).await;
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    for (address, socket) in [(server.address(), SocketType::Req), (publisher.address(), SocketType::Sub)] {
        for flags in [2, 3, 6] {
            let mut peer = Peer::connect(address, socket).await;
            peer.send(&[&[flags][..], &(2_u64 << 30).to_be_bytes()].concat()).await;
            closed(&mut peer.stream).await;
        }
    }
    // A subscriber has nothing long to say, even if it says it in full.
    let mut peer = Peer::connect(publisher.address(), SocketType::Sub).await;
    peer.send(&Command::Subscribe(vec![7; 5000].into()).encode()).await;
    closed(&mut peer.stream).await;
}

/// The start of an encrypted request: its announcement, and this number of bytes.
fn begun(kind: Kind, announced: u32, sent: usize) -> Vec<u8> {
    let sealed = [&b"\x82\xa3enc\xa3aes\xa4load\xc6"[..], &announced.to_be_bytes()].concat();
    begun_with(kind, announced + sealed.len() as u32, &sealed, sent)
}

/// A message that announces a size, begins with these bytes, and goes on for a number of them.
fn begun_with(kind: Kind, announced: u32, start: &[u8], sent: usize) -> Vec<u8> {
    let mut bytes = match kind {
        Kind::Zeromq => [&[2][..], &u64::from(announced).to_be_bytes()].concat(),
        Kind::Tcp => [&[0x82, 0xa4][..], b"head", &[0x80, 0xa4], b"body"].concat(),
    };
    bytes.extend(start);
    bytes.resize(bytes.len() + sent, 1);
    bytes
}

async fn stranger(kind: Kind, address: std::net::SocketAddr) -> TcpStream {
    match kind {
        Kind::Zeromq => Peer::connect(address, SocketType::Dealer).await.stream,
        Kind::Tcp => TcpStream::connect(address).await.unwrap(),
    }
}

#[tokio::test]
async fn unfinished_messages_of_all_together_are_bounded() {
    for kind in BOTH {
        let limits = Limits { unfinished: 3 << 20, ..Limits::default() };
        let server = serve_at(kind, loopback(), limits).await;
        let requester = requester(kind, server.address());
        let address = server.address();
        let _answering = answer_all(server);
        let mut strangers = Vec::new();
        for _ in 0..20 {
            let mut stream = stranger(kind, address).await;
            let sent = stream.write_all(&begun(kind, 100 << 20, 1 << 20)).await;
            strangers.push((stream, sent));
        }
        let mut ended = 0;
        for (stream, sent) in &mut strangers {
            let mut heard = [0; 1000];
            let over = sent.is_err() || {
                let read = tokio::io::AsyncReadExt::read(stream, &mut heard);
                // Heartbeats come where nothing ends.
                !matches!(tokio::time::timeout(Duration::from_millis(100), read).await, Err(_) | Ok(Ok(1..)))
            };
            ended += usize::from(over);
        }
        assert!(ended >= 16, "{kind:?}: {ended} were ended");
        assert_eq!(ask(&*requester, 1).await.unwrap(), echo(1), "{kind:?}: small requests need no budget");
    }
}

#[tokio::test]
async fn requests_count_until_they_are_answered() {
    for kind in BOTH {
        let limits = Limits { unfinished: 1 << 20, ..Limits::default() };
        let mut server = serve_at(kind, loopback(), limits).await;
        let large = wire::envelope::Envelope::clear(value::map! { "data" => Bytes::from(vec![0xff; 2 << 20]) });
        let requester = requester(kind, server.address());
        let refused = requester.ask(large, PATIENCE).await;
        assert!(refused.is_err(), "{kind:?}: it is larger than all may be together");
        let fits = || wire::envelope::Envelope::clear(value::map! { "data" => Bytes::from(vec![0xff; 900 << 10]) });
        let (first, request) = tokio::join!(requester.ask(fits(), Duration::from_millis(200)), server.next());
        assert!(first.is_err());
        let second = tokio::time::timeout(PATIENCE, requester.ask(fits(), PATIENCE)).await.unwrap();
        assert!(second.is_err(), "{kind:?}: the first is still there");
        request.unwrap().reply.send(true.into());
        let (third, ()) = tokio::join!(requester.ask(fits(), PATIENCE), async {
            server.next().await.unwrap().reply.send(true.into());
        });
        assert_eq!(third.unwrap(), true.into(), "{kind:?}");
    }
}

/// Bytes of memory this process has resident.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn large_messages_of_many_small_values_cost_nothing() {
    const SIZE: u32 = 16 << 20;
    let list = [&[0xdd][..], &SIZE.to_be_bytes()].concat();
    let pairs = [&[0xdf][..], &(SIZE / 2).to_be_bytes()].concat();
    let envelope = |load: &[u8]| [b"\x82\xa3enc\xa5clear\xa4load\x81\xa1x", load].concat();
    let nested = [vec![0x91; 400], list.clone()].concat();
    for kind in BOTH {
        let server = serve(kind).await;
        let (address, requester) = (server.address(), requester(kind, server.address()));
        let _answering = answer_all(server);
        let before = resident();
        for start in [list.clone(), pairs.clone(), nested.clone(), envelope(&list), envelope(&pairs), envelope(&nested)]
        {
            let mut stream = stranger(kind, address).await;
            // Refused in the middle, or answered as no request.
            let message = begun_with(kind, SIZE + start.len() as u32, &start, SIZE as usize);
            let _ = stream.write_all(&message).await;
            assert_eq!(ask(&*requester, 1).await.unwrap(), echo(1), "{kind:?}");
        }
        let grown = resident().saturating_sub(before);
        // Decoded, a list of this length would take half a gigabyte.
        assert!(grown < 128 << 20, "{kind:?}: {grown} bytes");
    }
}

#[tokio::test]
async fn unfinished_messages_of_a_few_strangers_keep_no_large_one_out() {
    for kind in BOTH {
        let limits = Limits { unproven: 4 << 20, ..Limits::default() };
        let server = serve_at(kind, loopback(), limits).await;
        let address = server.address();
        let _answering = answer_all(server);
        let mut strangers = Vec::new();
        for _ in 0..4 {
            let mut stream = stranger(kind, address).await;
            stream.write_all(&begun(kind, 100 << 20, 1 << 20)).await.unwrap();
            strangers.push(stream);
        }
        let load = value::map! { "number" => 7, "data" => Bytes::from(vec![0xff; 900 << 10]) };
        for _ in 0..5 {
            let large = wire::envelope::Envelope::clear(load.clone());
            let answer = requester(kind, address).ask(large, PATIENCE).await.unwrap();
            assert_eq!(answer.get("number"), Some(&7.into()), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn frames_before_a_request_are_short() {
    let server = serve(Kind::Zeromq).await;
    let mut peer = Peer::connect(server.address(), SocketType::Dealer).await;
    peer.send(&[&[3][..], &(1_u64 << 20).to_be_bytes(), &[0; 100]].concat()).await;
    closed(&mut peer.stream).await;
}
