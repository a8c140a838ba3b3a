//! An event that many readers share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use value::Map;
use wire::ipc::{self, Form};

use crate::EventError;

/// An event, shared by all its readers. It is cheap to clone.
///
/// It is packed when the first socket needs it, and at most once, for both forms of frames.
#[derive(Clone)]
pub struct Event(Arc<Shared>);

struct Shared {
    event: wire::event::Event,
    source: Source,
    max_size: usize,
    packed: OnceLock<Packed>,
}

/// Where an event was born. Readers in the same process see it; it is no part of the bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// In this daemon, or in a program on its host.
    #[default]
    Host,
    /// At the minion with this id, or below the syndic with this id.
    Minion(Arc<str>),
    /// In a program beside the minion with this id, such as `salt-call`, which does not send it to all masters of the minion.
    ProgramOfMinion(Arc<str>),
    /// At another master of the set, which this master shares with.
    OtherMaster,
}

/// The frame with its length, and the offset of the event's own bytes in it.
struct Packed {
    frame: Bytes,
    body_at: usize,
}

impl Event {
    /// Creates an event. Data of more than `max_size` packed bytes is trimmed in its bytes.
    ///
    /// Fails if the tag is empty, or contains the separator of tag and data.
    pub fn new(tag: impl Into<String>, data: Map, max_size: usize) -> Result<Self, EventError> {
        Self::from_source(Source::Host, tag, data, max_size)
    }

    /// Creates an event that was born elsewhere.
    ///
    /// Fails like [`Event::new`].
    pub fn from_source(source: Source, tag: impl Into<String>, data: Map, max_size: usize) -> Result<Self, EventError> {
        let tag = tag.into();
        if tag.is_empty() {
            return Err(EventError::EmptyTag);
        }
        if tag.contains("\n\n") || tag.ends_with('\n') {
            return Err(EventError::TagWithSeparator(tag));
        }
        let event = wire::event::Event::new(tag, data);
        Ok(Event(Arc::new(Shared { event, source, max_size, packed: OnceLock::new() })))
    }

    /// Parses an event from the bytes of a frame.
    pub fn from_bytes(bytes: &Bytes) -> Result<Self, EventError> {
        let event = wire::event::Event::decode(bytes)?;
        if event.tag.is_empty() {
            return Err(EventError::EmptyTag);
        }
        // The bytes of the sender are passed on unchanged, and not packed once more.
        let packed = OnceLock::from(Packed::new(bytes));
        Ok(Event(Arc::new(Shared { event, source: Source::Host, max_size: usize::MAX, packed })))
    }

    /// Returns the tag, for instance `salt/job/20240229131415678901/ret/web1`.
    pub fn tag(&self) -> &str {
        &self.0.event.tag
    }

    /// The data.
    pub fn data(&self) -> &Map {
        &self.0.event.data
    }

    /// Returns where the event was born.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// Returns the bytes of the event: tag, separator, packed data.
    pub fn bytes(&self) -> Bytes {
        let packed = self.packed();
        packed.frame.slice(packed.body_at..)
    }

    /// Returns the frame to write to a socket.
    pub fn frame(&self, form: Form) -> Bytes {
        let frame = &self.packed().frame;
        match form {
            Form::LengthPrefix => frame.clone(),
            // Without the four bytes of the length; both forms share the memory.
            Form::Bare => frame.slice(4..),
        }
    }

    /// Returns the approximate memory of the packed event in bytes.
    pub(crate) fn size(&self) -> usize {
        self.packed().frame.len() + 256
    }

    fn packed(&self) -> &Packed {
        self.0.packed.get_or_init(|| {
            let bytes = self.0.event.encode(self.0.max_size).unwrap_or_else(|error| {
                // The tag was checked when the event was created; nothing else can fail.
                unreachable!("cannot pack an event that was checked: {error}")
            });
            Packed::new(&bytes)
        })
    }
}

impl Packed {
    fn new(bytes: &[u8]) -> Self {
        let frame = ipc::encode(bytes, Form::LengthPrefix);
        let body_at = frame.len() - bytes.len();
        Packed { frame, body_at }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("tag", &self.tag()).field("data", self.data()).finish()
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn the_frame_is_packed_once_for_both_forms() {
        let event = Event::new("t", map! { "a" => 1 }, 1000).unwrap();
        let long = event.frame(Form::LengthPrefix);
        let bare = event.frame(Form::Bare);
        assert_eq!(bare, ipc::encode(&event.bytes(), Form::Bare));
        assert_eq!(long, ipc::encode(&event.bytes(), Form::LengthPrefix));
        assert_eq!(bare.as_ptr(), long[4..].as_ptr());
        assert_eq!(event.bytes(), b"t\n\n\x81\xa1a\x01"[..]);
    }

    #[test]
    fn tags_that_cannot_be_parsed_are_refused() {
        assert_eq!(Event::new("", Map::new(), 9).unwrap_err(), EventError::EmptyTag);
        assert!(matches!(Event::new("a\n", Map::new(), 9).unwrap_err(), EventError::TagWithSeparator(_)));
        assert_eq!(Event::from_bytes(&Bytes::from_static(b"\n\n\x80")).unwrap_err(), EventError::EmptyTag);
    }

    #[test]
    fn only_the_packed_data_is_trimmed() {
        let event = Event::new("t", map! { "big" => "x".repeat(900), "id" => "web1" }, 500).unwrap();
        assert_eq!(event.data().get_str("big").unwrap().len(), 900);
        let read = Event::from_bytes(&event.bytes()).unwrap();
        assert_eq!(read.data(), &map! { "big" => "VALUE_TRIMMED", "id" => "web1" });
    }
}
