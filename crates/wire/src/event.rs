//! Events: a tag, an empty line, and packed data.

use bytes::Bytes;
use value::{Map, Value};

use crate::msgpack::{self, Decode, Packing};

/// The empty line between tag and data.
pub const SEPARATOR: &[u8] = b"\n\n";

/// The replacement for a value that makes an event too large.
pub const TRIMMED: &str = "VALUE_TRIMMED";

/// Salt's default for `max_event_size`, in bytes.
pub const DEFAULT_MAX_SIZE: usize = 1_048_576;

/// One event of a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The tag, for instance `salt/job/20240229131415678901/ret/web1`.
    pub tag: String,
    /// The data, normally with a `_stamp` that the sender has put last.
    pub data: Map,
}

/// An error: the bytes are not an event, or the event must not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The tag is empty.
    #[error("event has an empty tag")]
    EmptyTag,
    /// The tag contains the separator, so that it could not be read back.
    #[error("event tag {0:?} contains an empty line")]
    TagWithSeparator(String),
    /// There is no empty line.
    #[error("event has no separator between tag and data")]
    NoSeparator,
    /// The tag is not UTF-8.
    #[error("event tag is not text")]
    TagNotText,
    /// The data are not a map.
    #[error("data of event {tag:?} are a {found}, not a map")]
    NotAMap {
        /// The tag of the event.
        tag: String,
        /// The type of the data.
        found: &'static str,
    },
    /// The data cannot be read.
    #[error("data of event {tag:?} cannot be read: {error}")]
    Msgpack {
        /// The tag of the event.
        tag: String,
        /// The decoding error.
        error: msgpack::Error,
    },
}

impl Event {
    /// Returns an event.
    pub fn new(tag: impl Into<String>, data: Map) -> Self {
        Event { tag: tag.into(), data }
    }

    /// Returns the bytes of the event; values are trimmed until the packed data have no more than `max_size` bytes.
    pub fn encode(&self, max_size: usize) -> Result<Bytes, Error> {
        if self.tag.is_empty() {
            return Err(Error::EmptyTag);
        }
        // A trailing newline would join the separator, and the reader would find it one byte too early.
        if self.tag.contains("\n\n") || self.tag.ends_with('\n') {
            return Err(Error::TagWithSeparator(self.tag.clone()));
        }
        let mut out = self.start();
        let start = out.len();
        // Packed before anything is trimmed: most events fit, and only a packed event has a size.
        msgpack::pack_map_into(&mut out, &self.data, Packing::Bin);
        if out.len() - start > max_size {
            let mut data = self.data.clone();
            trim(&mut data, max_size);
            out.truncate(start);
            msgpack::pack_map_into(&mut out, &data, Packing::Bin);
        }
        Ok(out.into())
    }

    fn start(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.tag.len() + 256);
        out.extend_from_slice(self.tag.as_bytes());
        out.extend_from_slice(SEPARATOR);
        out
    }

    /// Reads an event.
    pub fn decode(input: &Bytes) -> Result<Self, Error> {
        let (tag, data) = split(input)?;
        let tag = tag.to_owned();
        match msgpack::unpack_bytes(&data, Decode::Utf8) {
            Ok(Value::Map(data)) => Ok(Event { tag, data }),
            Ok(other) => Err(Error::NotAMap { tag, found: other.type_name() }),
            Err(error) => Err(Error::Msgpack { tag, error }),
        }
    }
}

/// Splits the bytes of an event into tag and packed data, so that a reader can skip other events without unpacking
/// them.
pub fn split(input: &Bytes) -> Result<(&str, Bytes), Error> {
    // The first separator ends the tag. The data may contain more of them.
    let end = input.windows(SEPARATOR.len()).position(|window| window == SEPARATOR).ok_or(Error::NoSeparator)?;
    let tag = std::str::from_utf8(&input[..end]).map_err(|_| Error::TagNotText)?;
    Ok((tag, input.slice(end + SEPARATOR.len()..)))
}

/// Joins a tag from its parts; empty ones are left out: `salt/<prefix>/<part>/…`.
pub fn tag(base: &str, prefix: &str, parts: &[&str]) -> String {
    let all = [base, prefix];
    let words: Vec<&str> = all.iter().chain(parts).copied().filter(|part| !part.is_empty()).collect();
    words.join("/")
}

/// Replaces large values, at any depth of maps, by [`TRIMMED`] until the packed data fit into `max_size` bytes.
///
/// The threshold starts at half of the limit and falls by a tenth of the limit in each round, as in Salt.
pub fn trim(data: &mut Map, max_size: usize) {
    for percent in [50, 40, 30, 20, 10, 0] {
        trim_values(data, max_size.saturating_mul(percent) / 100);
        let mut packed = Vec::new();
        msgpack::pack_map_into(&mut packed, data, Packing::Bin);
        if packed.len() <= max_size {
            return;
        }
    }
}

fn trim_values(map: &mut Map, largest: usize) {
    for (_, value) in map.iter_mut() {
        match value {
            Value::Map(inner) => trim_values(inner, largest),
            Value::Str(text) if text.len() > largest && text != TRIMMED => *value = TRIMMED.into(),
            Value::Bytes(bytes) if bytes.len() > largest => *value = TRIMMED.into(),
            // Salt looks into maps only: a list is kept or replaced as a whole.
            Value::List(_) if msgpack::pack(value, Packing::Bin).len() > largest => *value = TRIMMED.into(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, vectors};

    #[test]
    fn vector() {
        let all = vectors("ipc");
        let recorded = bytes(&all["body_hex"]);
        let event = Event::decode(&recorded).unwrap();
        assert_eq!(event.tag, all["tag"].as_str().unwrap());
        assert_eq!(value::python::repr_map(&event.data), all["data_repr"].as_str().unwrap());
        assert_eq!(event.encode(DEFAULT_MAX_SIZE).unwrap(), recorded);
    }

    #[test]
    fn large_values_are_trimmed_largest_first() {
        let event = Event::new(
            "t",
            value::map! {
                "id" => "web1",
                "return" => value::map! { "big" => "x".repeat(700), "middle" => "y".repeat(450), "small" => "z".repeat(100) },
            },
        );
        let back = Event::decode(&event.encode(1000).unwrap()).unwrap();
        let kept = back.data.get("return").unwrap();
        assert_eq!(back.data.get_str("id"), Some("web1"));
        assert_eq!(kept.get("big"), Some(&TRIMMED.into()));
        assert_eq!(kept.get("middle").unwrap().as_str().unwrap().len(), 450);
        assert_eq!(kept.get("small").unwrap().as_str().unwrap().len(), 100);
    }

    #[test]
    fn tags_are_built_without_empty_parts() {
        assert_eq!(tag("salt", "auth", &[]), "salt/auth");
        assert_eq!(tag("salt", "job", &["2024", "", "new"]), "salt/job/2024/new");
    }

    #[test]
    fn what_is_no_event_is_refused() {
        assert_eq!(Event::new("", Map::new()).encode(100), Err(Error::EmptyTag));
        assert!(matches!(Event::new("a\n\nb", Map::new()).encode(100), Err(Error::TagWithSeparator(_))));
        assert_eq!(Event::decode(&Bytes::from_static(b"tag")), Err(Error::NoSeparator));
        assert_eq!(Event::decode(&Bytes::from_static(b"\xff\n\n\x80")), Err(Error::TagNotText));
        assert!(matches!(Event::decode(&Bytes::from_static(b"t\n\n\x01")), Err(Error::NotAMap { .. })));
        assert!(matches!(Event::decode(&Bytes::from_static(b"t\n\n\x81")), Err(Error::Msgpack { .. })));
    }
}
