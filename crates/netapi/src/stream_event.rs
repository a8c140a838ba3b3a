//! An event on its way to streams, packed once for all of them.

use std::sync::OnceLock;

use bytes::Bytes;
use event::Event;
use value::map;

use crate::pack;

/// An event that streams show. The first stream that shows it packs it, and all share the bytes.
#[derive(Debug)]
pub struct StreamEvent {
    /// The event.
    pub event: Event,
    packed: OnceLock<Option<Packed>>,
}

#[derive(Debug)]
struct Packed {
    text: Bytes,
    /// Where the line `data:` begins.
    data_at: usize,
}

impl StreamEvent {
    /// Takes an event, without packing it.
    pub fn new(event: Event) -> Self {
        StreamEvent { event, packed: OnceLock::new() }
    }

    /// Returns the lines `tag:` and `data:` and an empty one; `None` for an event that cannot be packed.
    pub fn text(&self) -> Option<Bytes> {
        self.packed().map(|packed| packed.text.clone())
    }

    /// Returns the line `data:` and an empty one; `None` for an event that cannot be packed.
    pub fn data(&self) -> Option<Bytes> {
        self.packed().map(|packed| packed.text.slice(packed.data_at..))
    }

    fn packed(&self) -> Option<&Packed> {
        self.packed.get_or_init(|| Packed::of(&self.event)).as_ref()
    }
}

impl Packed {
    fn of(event: &Event) -> Option<Self> {
        // A line break in a tag would forge fields of the stream.
        let tag: String =
            event.tag().chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
        let data = pack::json(&map! { "data" => event.data().clone(), "tag" => event.tag() }.into());
        let data = data.inspect_err(|failure| tracing::warn!("an event is not shown: {}", failure.message)).ok()?;
        let head = format!("tag: {tag}\n");
        Some(Packed { data_at: head.len(), text: Bytes::from(format!("{head}data: {data}\n\n")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_cannot_forge_another() {
        let event = Event::new("salt/x\ndata: forged", map! { "a" => "b\n\ndata: forged" }, 1 << 20).unwrap();
        let (shown, data) = (
            StreamEvent::new(event),
            "data: {\"data\": {\"a\": \"b\\n\\ndata: forged\"}, \"tag\": \"salt/x\\ndata: forged\"}\n\n",
        );
        assert_eq!(shown.text().unwrap(), format!("tag: salt/x\u{fffd}data: forged\n{data}"));
        assert_eq!(shown.data().unwrap(), data);
    }
}
