//! Answers on their way to a peer: packed once, and charged to the budget until they are written.

use std::any::Any;

use bytes::{Buf, Bytes};
use value::Value;
use wire::msgpack::{Packing, pack, pack_bytes_header};

use crate::budget::{Kept, Share};

/// A value that is dropped when the answer has been written, or can no longer be written.
pub(crate) type Guard = Box<dyn Any + Send>;

/// A packed answer.
pub(crate) struct PackedAnswer {
    /// The bytes before the body.
    head: Vec<u8>,
    body: Bytes,
    held: Held,
}

/// Resources that are released when an answer has been written.
pub(crate) struct Held {
    _charged: Kept,
    _guard: Option<Guard>,
}

impl PackedAnswer {
    /// Packs an answer and charges it to the budget. An answer that consists of bytes is not copied, since it may be
    /// large.
    pub(crate) fn new(answer: Value, packing: Packing, share: &Share, guard: Option<Guard>) -> Self {
        let mut head = Vec::new();
        let body = match answer {
            Value::Bytes(body) => {
                pack_bytes_header(&mut head, body.len(), packing);
                *body
            }
            other => pack(&other, packing).into(),
        };
        let charged = share.keep_answer(head.len() + body.len());
        PackedAnswer { head, body, held: Held { _charged: charged, _guard: guard } }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Returns the bytes of a frame and of this answer, and the resources to hold until they are written.
    pub(crate) fn after(mut self, mut frame: Vec<u8>) -> (impl Buf + use<>, Held) {
        frame.append(&mut self.head);
        (Bytes::from(frame).chain(self.body), self.held)
    }
}
