//! What carriers read from strangers, for the fuzz targets of this project. Nothing else needs it.

use bytes::Bytes;

use crate::checks::{Facts, judge, judge_time};
use crate::kind::Frame;
use crate::members::Standing;

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
    use crate::kind::tests::hello;

    #[test]
    fn a_hello_and_the_words_of_its_refusal_survive() {
        assert!(survives(&Frame::Hello(hello()).encode()));
        assert!(survives(&Bytes::from_static(b"anything")));
    }
}
