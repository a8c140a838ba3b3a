use bytes::{Bytes, BytesMut};

use super::*;
use crate::testing::Random;

/// The bytes that libzmq 4.3.5 sends from a SUB socket with an identity and an empty subscription. It does not send the
/// identity.
const LIBZMQ_SUB: &str = "ff00000000000000057f03014e554c4c0000000000000000000000000000000000000000000000000000000000000000\
000000000000000000000000000000000419055245414459\
0b536f636b65742d5479706500000003535542040a09535542534352494245";

/// The bytes that it sends from a REQ socket with the identity `web1` and the message `hi`.
const LIBZMQ_REQ: &str = "ff00000000000000057f03014e554c4c0000000000000000000000000000000000000000000000000000000000000000\
00000000000000000000000000000000042a055245414459\
0b536f636b65742d5479706500000003524551084964656e746974790000000477656231010000026869";

fn recorded(text: &str) -> BytesMut {
    BytesMut::from(&hex::decode(text).unwrap()[..])
}

fn finish(handshake: &mut Handshake, buffer: &mut BytesMut) -> Result<Peer, Error> {
    loop {
        match handshake.advance(buffer)? {
            Step::Done(peer) => return Ok(peer),
            Step::Send(_) => {}
            Step::Read => panic!("the recorded bytes are complete"),
        }
    }
}

#[test]
fn libzmq_subscribers_are_understood() {
    let (mut handshake, _) = Handshake::new(SocketType::Pub, Bytes::new());
    let mut buffer = recorded(LIBZMQ_SUB);
    let peer = finish(&mut handshake, &mut buffer).unwrap();
    assert_eq!(peer, Peer { socket_type: SocketType::Sub, identity: Bytes::new(), minor: 1 });
    let subscribed = Decoder::new(100).decode(&mut buffer).unwrap();
    assert_eq!(subscribed, Some(Incoming::Command(Command::Subscribe(Bytes::new()))));
    assert!(buffer.is_empty());
}

#[test]
fn libzmq_requests_are_understood() {
    let (mut handshake, _) = Handshake::new(SocketType::Router, Bytes::new());
    let mut buffer = recorded(LIBZMQ_REQ);
    let peer = finish(&mut handshake, &mut buffer).unwrap();
    assert_eq!(peer, Peer { socket_type: SocketType::Req, identity: "web1".into(), minor: 1 });
    let message = Decoder::new(100).decode(&mut buffer).unwrap();
    assert_eq!(message, Some(Incoming::Message(vec![Bytes::new(), "hi".into()])));
}

#[test]
fn the_ready_commands_are_libzmqs() {
    for (socket_type, identity, recording) in
        [(SocketType::Sub, Bytes::new(), LIBZMQ_SUB), (SocketType::Req, "web1".into(), LIBZMQ_REQ)]
    {
        let ready = Command::Ready(Ready { socket_type, identity }).encode();
        assert_eq!(ready, recorded(recording)[GREETING_LEN..GREETING_LEN + ready.len()]);
    }
}

#[test]
fn two_ends_shake_hands_byte_by_byte() {
    let (mut client, client_greeting) = Handshake::new(SocketType::Req, "a".into());
    let (mut server, server_greeting) = Handshake::new(SocketType::Router, Bytes::new());
    let (mut server_in, mut client_in) = (BytesMut::new(), BytesMut::new());
    let (to_client, at_server) = feed(&mut server, &mut server_in, &client_greeting);
    assert_eq!(at_server, None);
    let (to_server, at_client) = feed(&mut client, &mut client_in, &[server_greeting, to_client].concat().into());
    assert_eq!(at_client.unwrap().socket_type, SocketType::Router);
    let (_, at_server) = feed(&mut server, &mut server_in, &to_server);
    assert_eq!(at_server.unwrap(), Peer { socket_type: SocketType::Req, identity: "a".into(), minor: 1 });
}

fn feed(side: &mut Handshake, buffer: &mut BytesMut, input: &Bytes) -> (Bytes, Option<Peer>) {
    let (mut sent, mut done) = (Bytes::new(), None);
    for byte in input {
        buffer.extend_from_slice(&[*byte]);
        match side.advance(buffer).unwrap() {
            Step::Read => {}
            Step::Send(bytes) => sent = bytes,
            Step::Done(peer) => done = Some(peer),
        }
    }
    (sent, done)
}

#[test]
fn strangers_are_refused_at_the_first_wrong_byte() {
    let refused = |start: &[u8]| {
        let (mut handshake, _) = Handshake::new(SocketType::Router, Bytes::new());
        handshake.advance(&mut BytesMut::from(start)).unwrap_err()
    };
    assert_eq!(refused(b"GET / HTTP/1.1"), Error::NotZmtp);
    assert_eq!(refused(b"\xff\0\0\0\0\0\0\0\x01\x00"), Error::NotZmtp);
    assert_eq!(refused(b"\xff\0\0\0\0\0\0\0\x01\x7f\x01"), Error::OldVersion(1));
    let mut curve = recorded(LIBZMQ_SUB);
    curve[12..17].copy_from_slice(b"CURVE");
    assert_eq!(refused(&curve), Error::Mechanism("CURVE".into()));
}

#[test]
fn the_wrong_kind_of_socket_is_refused() {
    let (mut handshake, _) = Handshake::new(SocketType::Router, Bytes::new());
    let error = finish(&mut handshake, &mut recorded(LIBZMQ_SUB)).unwrap_err();
    assert_eq!(error, Error::Incompatible { local: SocketType::Router, peer: SocketType::Sub });
}

#[test]
fn a_message_in_place_of_ready_is_refused() {
    let (mut handshake, greeting) = Handshake::new(SocketType::Router, Bytes::new());
    let mut buffer = BytesMut::from(&greeting[..]);
    buffer.extend_from_slice(&encode_message(&["x"]));
    assert_eq!(finish(&mut handshake, &mut buffer), Err(Error::NotReady("a message".into())));
}

#[test]
fn commands_read_as_written() {
    let all = [
        Command::Error("no".into()),
        Command::Ping { ttl: 300, context: "c".into() },
        Command::Pong { context: "c".into() },
        Command::Subscribe("broadcast".into()),
        Command::Cancel(Bytes::new()),
        Command::Unknown(Bytes::from_static(b"\x03NEWrest")),
    ];
    let mut buffer = BytesMut::new();
    all.iter().for_each(|command| buffer.extend_from_slice(&command.encode()));
    let mut decoder = Decoder::new(1000);
    for command in all {
        assert_eq!(decoder.decode(&mut buffer).unwrap(), Some(Incoming::Command(command)));
    }
    assert_eq!(Command::Ping { ttl: 10, context: Bytes::new() }.encode(), &b"\x04\x07\x04PING\0\x0a"[..]);
}

#[test]
fn a_reason_that_is_no_text_reads_as_written() {
    let mut body = b"\x05ERROR\xff".to_vec();
    body.extend_from_slice(&[0xff; 255]);
    let read = Command::decode(&body.into()).unwrap();
    let Command::Error(reason) = &read else { panic!("an ERROR, not {read:?}") };
    assert_eq!(reason.len(), 255);
    let mut buffer = BytesMut::from(&read.encode()[..]);
    assert_eq!(Decoder::new(1000).decode(&mut buffer).unwrap(), Some(Incoming::Command(read)));
}

#[test]
fn the_old_form_of_subscriptions_is_read_and_written() {
    for command in [Command::Subscribe("ab".into()), Command::Cancel("ab".into())] {
        let mut buffer = BytesMut::from(&command.encode_legacy()[..]);
        let Some(Incoming::Message(parts)) = Decoder::new(10).decode(&mut buffer).unwrap() else { panic!("a message") };
        assert_eq!(subscription(&parts), Some(command));
    }
    assert_eq!(subscription(&[Bytes::from_static(b"\x02")]), None);
    assert_eq!(subscription(&[Bytes::new()]), None);
}

#[test]
fn messages_read_as_written_whatever_the_pieces() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let parts: Vec<Bytes> = (0..1 + random.below(4)).map(|_| random.bytes(600).into()).collect();
        let encoded = encode_message(&parts);
        let mut decoder = Decoder::new(4000);
        let mut buffer = BytesMut::new();
        let mut found = None;
        for piece in encoded.chunks(1 + random.below(300) as usize) {
            assert_eq!(found, None);
            buffer.extend_from_slice(piece);
            found = decoder.decode(&mut buffer).unwrap();
        }
        assert_eq!(found, Some(Incoming::Message(parts)));
    }
}

#[test]
fn commands_may_stand_between_frames() {
    let mut buffer = BytesMut::from(&b"\x01\x01a"[..]);
    buffer.extend_from_slice(&Command::Pong { context: Bytes::new() }.encode());
    buffer.extend_from_slice(b"\x00\x01b");
    let mut decoder = Decoder::new(100);
    assert!(matches!(decoder.decode(&mut buffer), Ok(Some(Incoming::Command(_)))));
    assert_eq!(decoder.decode(&mut buffer), Ok(Some(Incoming::Message(vec!["a".into(), "b".into()]))));
}

#[test]
fn frames_that_wait_for_the_last_one_keep_no_memory_but_their_own() {
    let mut buffer = BytesMut::with_capacity(1 << 20);
    buffer.extend_from_slice(b"\x01\x01a\x01\x00\x00\x01");
    let mut decoder = Decoder::new(100);
    assert_eq!((decoder.decode(&mut buffer), decoder.held()), (Ok(None), 1));
    // This allocates nothing, so it succeeds only if no other handle holds a part of the memory.
    assert!(buffer.try_reclaim((1 << 20) - 2));
    buffer.extend_from_slice(b"b");
    assert_eq!(decoder.decode(&mut buffer), Ok(Some(Incoming::Message(vec!["a".into(), Bytes::new(), "b".into()]))));
}

#[test]
fn hostile_frames_are_refused() {
    let refused = |input: &[u8]| Decoder::new(1000).decode(&mut BytesMut::from(input)).unwrap_err();
    assert_eq!(refused(b"\x02\0\0\0\0\x7f\xff\xff\xff"), Error::TooLarge { size: 0x7fff_ffff, limit: 1000 });
    assert_eq!(refused(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff"), Error::TooLarge { size: u64::MAX, limit: 1000 });
    assert_eq!(refused(b"\x08\0"), Error::Flags(8));
    assert_eq!(refused(b"\x05\0"), Error::Flags(5));
    assert_eq!(refused(b"\x04\0"), Error::Command("empty"));
    assert_eq!(refused(b"\x04\x06\x05READY").to_string(), "peer names no known socket type");
    assert_eq!(refused(b"\x04\x08\x05READY\xff\xff"), Error::Command("READY"));
    assert_eq!(refused(b"\x04\x05\x04PING"), Error::Command("PING"));
    assert_eq!(refused(&b"\x01\x00".repeat(100)), Error::TooManyParts);
    assert!(matches!(
        // Four frames, each within the limit, together above it.
        refused(&b"\x01\xff".iter().copied().chain([0; 255]).collect::<Vec<u8>>().repeat(4)),
        Error::TooLarge { .. }
    ));
}

#[test]
fn what_is_missing_is_known_after_the_header() {
    let message = encode_message(&[vec![7; 5000]]);
    let decoder = Decoder::new(10_000);
    // A long frame's header has nine bytes; nothing is known before the last one.
    for (arrived, missing) in [(0, 0), (8, 0), (9, 5000), (100, message.len() - 100), (message.len(), 0)] {
        assert_eq!(decoder.missing(&message[..arrived]), missing, "{arrived} bytes have arrived");
    }
}
