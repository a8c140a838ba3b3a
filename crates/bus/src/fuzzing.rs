//! What the bus reads from strangers, for the fuzz targets of this project. Nothing else needs it.

use bytes::Bytes;

use crate::content::Content;
use crate::envelope::Envelope;

/// Reads what anybody can put on the bus, and the `hello` in it. Returns whether it is the same after it was written and read
/// again.
pub fn envelope_survives(bytes: &Bytes) -> bool {
    let Ok(Some(envelope)) = Envelope::decode(bytes) else { return true };
    let again = Envelope::decode(&envelope.encode());
    let hello = match &envelope {
        Envelope::Greeting(greeting) => peers::fuzzing::survives(&greeting.hello),
        Envelope::Beat { .. } | Envelope::Sealed(_) => true,
    };
    hello && again.is_ok_and(|again| again.as_ref() == Some(&envelope))
}

/// Reads what a member has sealed. Returns whether it is the same after it was written and read again.
pub fn content_survives(bytes: &Bytes) -> bool {
    let Ok(Some(content)) = Content::decode(bytes) else { return true };
    Content::decode(&content.encode()).is_ok_and(|again| again.as_ref() == Some(&content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::HEAD_LEN;

    /// An envelope of each kind, and contents of each kind.
    fn seeds() -> Vec<(&'static str, Bytes)> {
        let sealed = [&[1, 3][..], &[7; HEAD_LEN - 11], &[0], &[0; 8], b"sealed"].concat();
        let greeting = |kind| [&[1, kind][..], &[7; 8], &[8; 8], &[9; 64], b"\x92\xa5hello\x01", &[6; 64]].concat();
        let message = [&[1][..], &[0; 8], b"message"].concat();
        vec![
            ("beat", [&[1, 0][..], &[7; 8], &[0; 8]].concat().into()),
            ("greeting", greeting(1).into()),
            ("answer", greeting(2).into()),
            ("sealed", sealed.into()),
            ("message", message.into()),
            ("credit", [&[2][..], &[0; 16]].concat().into()),
            ("mark", [&[3][..], &[0; 8]].concat().into()),
            ("frame", Bytes::from_static(b"\0\x92\xa4pong\x01")),
        ]
    }

    #[test]
    fn seeds_are_read_and_survive() {
        for (name, seed) in seeds() {
            let is_envelope = matches!(name, "beat" | "greeting" | "answer" | "sealed");
            let is_read = match is_envelope {
                true => matches!(Envelope::decode(&seed), Ok(Some(_))),
                false => matches!(Content::decode(&seed), Ok(Some(_))),
            };
            assert!(is_read, "{name}");
            assert!(envelope_survives(&seed) && content_survives(&seed), "{name}");
        }
    }
}
