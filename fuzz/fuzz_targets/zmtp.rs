//! Both ends of a ZMTP connection, whatever the peer sends and in whatever pieces it arrives.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::zmtp::{Decoder, Error, Handshake, Incoming, SocketType, Step, encode_message, subscription};

const LIMIT: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let Some((first, stream)) = input.split_first() else { return };
    // One byte chooses both the mode and the size of the pieces, so that the rest is the stream.
    let step = usize::from(first >> 1) + 1;
    if first & 1 == 0 {
        shake_hands(stream, step);
    }
    let at_once = read(stream, stream.len().max(1));
    assert_eq!(read(stream, step), at_once);
    for incoming in &at_once.0 {
        match incoming {
            Incoming::Command(command) => {
                let again = read(&command.encode(), LIMIT);
                assert_eq!(again, (vec![Incoming::Command(command.clone())], None));
            }
            Incoming::Message(parts) => {
                subscription(parts);
                assert_eq!(read(&encode_message(parts), LIMIT), (vec![incoming.clone()], None));
            }
        }
    }
});

fn shake_hands(stream: &[u8], step: usize) {
    for kind in [SocketType::Router, SocketType::Pub, SocketType::Sub, SocketType::Req] {
        let (mut handshake, _) = Handshake::new(kind, Bytes::new());
        let mut buffer = BytesMut::new();
        for piece in stream.chunks(step) {
            buffer.extend_from_slice(piece);
            match handshake.advance(&mut buffer) {
                Ok(Step::Read | Step::Send(_)) => {}
                // As a connection does: after the handshake another decoder goes on.
                Ok(Step::Done(_)) | Err(_) => break,
            }
        }
    }
}

fn read(stream: &[u8], step: usize) -> (Vec<Incoming>, Option<Error>) {
    let (mut decoder, mut buffer, mut found) = (Decoder::new(LIMIT), BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(incoming)) => found.push(incoming),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
