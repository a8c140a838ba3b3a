//! Frames of the tcp transport, in whatever pieces they arrive.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::tcp::{Decoder, Error, Frame, RawFrame, body_start};

const LIMIT: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let Some((first, stream)) = input.split_first() else { return };
    let at_once = read(stream, stream.len().max(1));
    assert_eq!(read(stream, usize::from(*first) + 1), at_once);
    if let Ok(raw) = RawFrame::read(&Bytes::copy_from_slice(stream), LIMIT) {
        assert!(raw.body.len() < stream.len());
    }
    assert!(body_start(stream).is_none_or(|start| start <= stream.len()));
    for frame in &at_once.0 {
        frame.mid();
        assert_eq!(Frame::decode(&frame.encode()).as_ref(), Ok(frame));
    }
});

fn read(stream: &[u8], step: usize) -> (Vec<Frame>, Option<Error>) {
    let (mut decoder, mut buffer, mut found) = (Decoder::new(LIMIT, LIMIT), BytesMut::new(), Vec::new());
    for piece in stream.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}
