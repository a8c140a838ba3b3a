//! What links read from strangers, for the fuzz targets of this project. Nothing else needs it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use crate::frame::FrameReader;
pub use peers::fuzzing::survives;

/// Bytes that arrive in pieces.
struct Pieces<'a> {
    left: &'a [u8],
    step: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (piece, left) = self.left.split_at(self.step.min(self.left.len()).min(into.remaining()));
        into.put_slice(piece);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}

/// Reads what a stranger sends, in pieces of `step` bytes, and returns the content of its frames.
pub fn frames(stream: &[u8], step: usize) -> Vec<Bytes> {
    let (mut pieces, mut reader, mut found) = (Pieces { left: stream, step }, FrameReader::of_stranger(), Vec::new());
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let next = std::pin::pin!(reader.next(&mut pieces));
        // The bytes are all here: nothing is ever pending.
        match next.poll(&mut context) {
            Poll::Ready(Ok(frame)) => found.push(frame),
            Poll::Ready(Err(_)) | Poll::Pending => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use peers::kind::Frame;

    use super::*;
    use crate::frame::put;

    #[test]
    fn frames_are_the_same_in_whatever_pieces_they_arrive() {
        let mut stream = Vec::new();
        let frames_in = [
            Frame::Refused { reason: "because".into(), word: "clock".into() }.encode(),
            Frame::Bye("over".into()).encode(),
        ];
        frames_in.iter().for_each(|frame| put(&mut stream, frame));
        for step in [1, 7, 1_000] {
            let found = frames(&stream, step);
            assert_eq!(found, frames_in);
            assert!(found.iter().all(survives));
        }
    }
}
