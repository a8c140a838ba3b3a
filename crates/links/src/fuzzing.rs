//! What links read from strangers, for the fuzz targets of this project. Nothing else needs it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use crate::checks::{Facts, judge, judge_time};
use crate::frame::FrameReader;
use crate::kind::Frame;
use crate::members::Standing;

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

/// Reads a frame and decides about it if it is a `hello`. Returns whether it is the same after it was written and read again.
pub fn survives(packed: &Bytes) -> bool {
    let Ok(Some(frame)) = Frame::decode(packed) else { return true };
    if let Frame::Hello(hello) = &frame {
        let (node, standing) = (share::Node([1; 8]), Standing::Stranger);
        let facts = Facts { cluster_id: "prod", own_name: "m1", node, standing, named: None, copied: None };
        // The words for a refusal are made of what the stranger has sent.
        if let Err(refusal) = judge(hello, &facts).and_then(|()| judge_time(hello, 1_577_836_800_000)) {
            let refused = Frame::Refused { reason: refusal.to_string(), word: refusal.word().to_owned() };
            return matches!(Frame::decode(&refused.encode()), Ok(Some(Frame::Refused { .. }))) && same(&frame);
        }
    }
    same(&frame)
}

fn same(frame: &Frame) -> bool {
    Frame::decode(&frame.encode()).is_ok_and(|again| again.as_ref() == Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put;
    use crate::kind::tests::hello;

    #[test]
    fn frames_are_the_same_in_whatever_pieces_they_arrive() {
        let mut stream = Vec::new();
        let frames_in = [Frame::Hello(hello()).encode(), Frame::Bye("over".into()).encode()];
        frames_in.iter().for_each(|frame| put(&mut stream, frame));
        for step in [1, 7, 1_000] {
            let found = frames(&stream, step);
            assert_eq!(found, frames_in);
            assert!(found.iter().all(survives));
        }
    }
}
