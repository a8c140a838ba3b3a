//! Decodes values.

use std::sync::Arc;

use bytes::Bytes;
use value::{Map, Value};

use super::scan::extent;
use super::{Error, MAX_DEPTH, ext, most_values};

/// The rules by which bytes become text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decode {
    /// Valid UTF-8 becomes text, everything else stays bytes: loads, replies, publications.
    Default,
    /// Everything stays bytes, keys too: file chunks.
    Raw,
    /// `str` and raw become text, `bin` stays bytes; when a text is not valid UTF-8 the whole document is read as
    /// with [`Decode::Raw`]: events.
    Utf8,
}

/// Reads one value that fills the input.
pub fn unpack(input: &[u8], mode: Decode) -> Result<Value, Error> {
    whole(input, None, mode, most_values(input.len()))
}

/// Reads one value that fills the input; byte strings share its memory instead of being copied.
pub fn unpack_bytes(input: &Bytes, mode: Decode) -> Result<Value, Error> {
    unpack_within(input, mode, most_values(input.len()))
}

/// Reads one value that fills the input and holds at most `most` values, itself included.
pub fn unpack_within(input: &Bytes, mode: Decode, most: usize) -> Result<Value, Error> {
    whole(input, Some(input), mode, most)
}

/// Reads the value at the start of the input and returns it with its length in bytes.
pub fn unpack_prefix(input: &[u8], mode: Decode) -> Result<(Value, usize), Error> {
    prefix(input, None, mode, most_values(input.len()))
}

/// Reads a map that fills the input with [`Decode::Default`], but only the entries under these keys. The others are measured and
/// not decoded, so dates and constants in them may be malformed. A value that is not a map is read whole.
pub fn unpack_entries(input: &[u8], keys: &[&str]) -> Result<Value, Error> {
    let Some(&marker @ (0x80..=0x8f | 0xde | 0xdf)) = input.first() else { return unpack(input, Decode::Default) };
    let most = most_values(input.len());
    let mut reader = Reader { input, at: 1, shared: None, mode: Decode::Default, most, room: most };
    let map = reader.entries(marker, keys).map_err(Stop::into_error)?;
    match reader.left() {
        0 => Ok(Value::Map(map)),
        rest => Err(Error::Trailing(rest)),
    }
}

fn whole(input: &[u8], shared: Option<&Bytes>, mode: Decode, most: usize) -> Result<Value, Error> {
    let (value, used) = prefix(input, shared, mode, most)?;
    match input.len() - used {
        0 => Ok(value),
        rest => Err(Error::Trailing(rest)),
    }
}

fn prefix(input: &[u8], shared: Option<&Bytes>, mode: Decode, most: usize) -> Result<(Value, usize), Error> {
    let run = |mode| {
        let mut reader = Reader { input, at: 0, shared, mode, most, room: most };
        reader.spend(1)?;
        reader.value(MAX_DEPTH).map(|value| (value, reader.at))
    };
    match run(mode) {
        Ok(found) => Ok(found),
        // The whole document once more, not just this text: Python's reader does so, and the keys become bytes too.
        Err(Stop::NotText) => run(Decode::Raw).map_err(Stop::into_error),
        Err(stop) => Err(stop.into_error()),
    }
}

/// The reasons why reading ended early.
enum Stop {
    Error(Error),
    /// A text is not valid UTF-8 where the mode insists on it.
    NotText,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

impl Stop {
    fn into_error(self) -> Error {
        match self {
            Stop::Error(error) => error,
            // Only reached with Decode::Utf8, which is then read again in raw mode.
            Stop::NotText => Error::Truncated,
        }
    }
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    shared: Option<&'a Bytes>,
    mode: Decode,
    /// The number of values the document may hold, and how many of them are left.
    most: usize,
    room: usize,
}

impl<'a> Reader<'a> {
    /// Only containers recurse, through small stack frames: the stack must hold [`MAX_DEPTH`] of them.
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let marker = self.take(1)?[0];
        match marker {
            0x80..=0x8f | 0xde | 0xdf => self.map(marker, depth),
            0x90..=0x9f | 0xdc | 0xdd => self.list(marker, depth),
            0xc7..=0xc9 | 0xd4..=0xd8 => self.extension(marker, depth),
            _ => self.scalar(marker),
        }
    }

    // Not inlined, because its locals would enlarge the stack frame of `value`, which recurses.
    #[inline(never)]
    fn scalar(&mut self, marker: u8) -> Result<Value, Stop> {
        Ok(match marker {
            0x00..=0x7f => Value::Int(i64::from(marker)),
            0xa0..=0xbf => self.text(usize::from(marker & 0x1f))?,
            0xc0 => Value::Null,
            0xc2 | 0xc3 => Value::Bool(marker == 0xc3),
            0xc4..=0xc6 => {
                let len = self.length(marker - 0xc4)?;
                self.binary(len)?
            }
            // Salt writes 64-bit floats only, but Python reads both.
            0xca => Value::Float(f64::from(f32::from_be_bytes(self.array()?))),
            0xcb => Value::Float(f64::from_be_bytes(self.array()?)),
            0xcc => Value::from(self.array::<1>()?[0]),
            0xcd => Value::from(u16::from_be_bytes(self.array()?)),
            0xce => Value::from(u32::from_be_bytes(self.array()?)),
            0xcf => Value::from(u64::from_be_bytes(self.array()?)),
            0xd0 => Value::from(i8::from_be_bytes(self.array()?)),
            0xd1 => Value::from(i16::from_be_bytes(self.array()?)),
            0xd2 => Value::from(i32::from_be_bytes(self.array()?)),
            0xd3 => Value::from(i64::from_be_bytes(self.array()?)),
            0xd9..=0xdb => {
                let len = self.length(marker - 0xd9)?;
                self.text(len)?
            }
            0xe0.. => Value::Int(i64::from(marker as i8)),
            // 0xc1; all others are containers or extensions.
            _ => return Err(Error::Reserved.into()),
        })
    }

    fn list(&mut self, marker: u8, depth: usize) -> Result<Value, Stop> {
        let len = self.items(marker, 0xdc)?;
        let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
        self.announced(len)?;
        let mut items = Vec::with_capacity(len.min(ROOM));
        for _ in 0..len {
            items.push(self.value(depth)?);
        }
        Ok(Value::List(items))
    }

    fn map(&mut self, marker: u8, depth: usize) -> Result<Value, Stop> {
        let len = self.items(marker, 0xde)?;
        let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
        self.announced(len.saturating_mul(2))?;
        let mut map = Map::with_capacity(len.min(ROOM));
        for _ in 0..len {
            let key = self.key(depth)?;
            let value = self.value(depth)?;
            // A repeated key replaces the earlier value, as in a Python dict.
            map.insert(key, value);
        }
        Ok(Value::Map(map))
    }

    /// Reads the entries of the outermost map that are under these keys.
    fn entries(&mut self, marker: u8, keys: &[&str]) -> Result<Map, Stop> {
        let len = self.items(marker, 0xde)?;
        self.spend(1)?;
        self.announced(len.saturating_mul(2))?;
        let mut map = Map::new();
        for _ in 0..len {
            let key = self.key(MAX_DEPTH - 1)?;
            if key.as_str().is_some_and(|key| keys.contains(&key)) {
                let value = self.value(MAX_DEPTH - 1)?;
                map.insert(key, value);
            } else {
                // The value itself was announced by the map.
                let skipped =
                    extent(&self.input[self.at..], self.room.saturating_add(1)).map_err(|error| match error {
                        Error::TooManyValues(_) => Error::TooManyValues(self.most),
                        other => other,
                    })?;
                self.spend(skipped.values - 1)?;
                self.at += skipped.len;
            }
        }
        Ok(map)
    }

    /// A container as a key is hashed with all that is in it, and again with each key it is part of: it counts twice at every
    /// level. Python has no such keys.
    // Inlined, so that a level of maps does not cost a stack frame more.
    #[inline(always)]
    fn key(&mut self, depth: usize) -> Result<Value, Stop> {
        let before = self.room;
        let key = self.value(depth)?;
        // Scalars cost what they announce. Only containers have changed the room.
        if before != self.room {
            self.spend(before - self.room)?;
        }
        Ok(key)
    }

    /// Counts the items that a container announces, each of which takes at least a byte. It must fit as a whole before
    /// memory is reserved for any of it, or nested announcements would multiply.
    fn announced(&mut self, values: usize) -> Result<(), Error> {
        if values > self.left() {
            return Err(Error::Truncated);
        }
        self.spend(values)
    }

    fn spend(&mut self, values: usize) -> Result<(), Error> {
        self.room = self.room.checked_sub(values).ok_or(Error::TooManyValues(self.most))?;
        Ok(())
    }

    /// Content of the raw and `str` family.
    fn text(&mut self, len: usize) -> Result<Value, Stop> {
        let content = self.take(len)?;
        match (self.mode, std::str::from_utf8(content)) {
            (Decode::Raw, _) | (Decode::Default, Err(_)) => Ok(self.bytes(content)),
            (_, Ok(text)) => Ok(Value::Str(text.to_owned())),
            (Decode::Utf8, Err(_)) => Err(Stop::NotText),
        }
    }

    /// Content of the `bin` family, and of unknown extensions.
    fn binary(&mut self, len: usize) -> Result<Value, Stop> {
        match self.mode {
            Decode::Default => self.text(len),
            Decode::Raw | Decode::Utf8 => {
                let content = self.take(len)?;
                Ok(self.bytes(content))
            }
        }
    }

    fn extension(&mut self, marker: u8, depth: usize) -> Result<Value, Stop> {
        let len = match marker {
            0xd4..=0xd8 => 1 << (marker - 0xd4),
            _ => self.length(marker - 0xc7)?,
        };
        let code = self.take(1)?[0] as i8;
        match code {
            // A malformed date is an error, not a text: Salt would fail over it as well.
            ext::DATE_TIME => Ok(Value::DateTime(ext::date_time(self.take(len)?)?)),
            ext::CONSTANT => self.constant(len, depth),
            _ => self.binary(len),
        }
    }

    fn constant(&mut self, len: usize, depth: usize) -> Result<Value, Stop> {
        let content = self.take(len)?;
        // The content is a separate document, so its nesting continues at the depth of this one.
        let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
        self.spend(1)?;
        let (most, room) = (self.most, self.room);
        // Salt packs the pair in bin packing even inside a document in wire packing. Text and bytes are distinguished
        // here.
        let mut inner = Reader { input: content, at: 0, shared: None, mode: Decode::Utf8, most, room };
        let read = inner.value(depth);
        self.room = inner.room;
        match read {
            Ok(Value::List(pair)) if inner.left() == 0 => match <[Value; 2]>::try_from(pair) {
                Ok([Value::Str(name), value]) => Ok(Value::Constant(Arc::new((name, value)))),
                _ => Err(Error::Extension(ext::CONSTANT).into()),
            },
            // The bounds are those of the whole document and must not be reported as a malformed extension.
            Err(Stop::Error(error @ (Error::TooDeep | Error::TooManyValues(_)))) => Err(error.into()),
            _ => Err(Error::Extension(ext::CONSTANT).into()),
        }
    }

    fn bytes(&self, content: &[u8]) -> Value {
        Value::bytes(match self.shared {
            // An empty slice has no address within the input, and `slice_ref` would panic over it.
            Some(shared) if !content.is_empty() => shared.slice_ref(content),
            _ => Bytes::copy_from_slice(content),
        })
    }

    /// Returns the number of entries of a container, which is in the marker itself or follows one of the `long` two.
    fn items(&mut self, marker: u8, long: u8) -> Result<usize, Stop> {
        match marker.checked_sub(long) {
            Some(width) => self.length(width + 1),
            None => Ok(usize::from(marker & 0x0f)),
        }
    }

    /// Reads a length of 1, 2 or 4 bytes (`width` 0, 1, 2).
    fn length(&mut self, width: u8) -> Result<usize, Stop> {
        Ok(match width {
            0 => usize::from(self.array::<1>()?[0]),
            1 => usize::from(u16::from_be_bytes(self.array()?)),
            _ => u32::from_be_bytes(self.array()?) as usize,
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Stop> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.input.len()).ok_or(Error::Truncated)?;
        let content = &self.input[self.at..end];
        self.at = end;
        Ok(content)
    }

    fn left(&self) -> usize {
        self.input.len() - self.at
    }
}

/// The maximum number of items for which memory is reserved in advance. Larger containers grow as they fill.
const ROOM: usize = 1024;
