//! The event bus: frames of every release in whatever pieces they arrive, and the events inside.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::event::{DEFAULT_MAX_SIZE, Event};
use wire::ipc::{Decoder, Error, Form, encode};

const LIMIT: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let Some((first, stream)) = input.split_first() else { return };
    let at_once = read(stream, stream.len().max(1));
    // TCP cuts a stream anywhere: how the pieces fall must not change what is read.
    assert_eq!(read(stream, usize::from(*first) + 1), at_once);
    for body in &at_once.0 {
        // Releases of Salt frame events in two ways.
        for form in [Form::Bare, Form::LengthPrefix] {
            let framed = encode(body, form);
            if framed.len() <= LIMIT {
                assert_eq!(read(&framed, 100), (vec![body.clone()], None));
            }
        }
        event(body);
    }
    event(&Bytes::copy_from_slice(stream));
});

fn event(body: &Bytes) {
    let Ok(event) = Event::decode(body) else { return };
    // An event near the limit may grow when it is encoded again; that is an error, not a panic.
    if let Ok(encoded) = event.encode(DEFAULT_MAX_SIZE) {
        Event::decode(&encoded).expect("what we send can be read");
    }
    if let Ok(trimmed) = event.encode(64) {
        Event::decode(&trimmed).expect("what is trimmed can be read");
    }
}

fn read(stream: &[u8], step: usize) -> (Vec<Bytes>, Option<Error>) {
    let (mut decoder, mut buffer, mut found) = (Decoder::new(LIMIT), BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(body)) => found.push(body),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
