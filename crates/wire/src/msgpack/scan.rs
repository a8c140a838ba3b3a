//! Finds where values end without decoding them: in a stream that has not arrived completely, and in the fields of a
//! map.

use bytes::{Bytes, BytesMut};

use super::{Error, MAX_DEPTH};

/// Cuts a stream of values without length prefixes into single values.
///
/// Each byte is examined once, even if it arrives in small pieces, and nothing is decoded. A value that announces more
/// than the limit is refused before its content arrives.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    most: usize,
    /// The number of values of the current document that have been counted, announced ones included.
    values: usize,
    /// The length of the part of the current value that has been scanned.
    at: usize,
    /// Content bytes still to be skipped before the next marker.
    skip: usize,
    /// The number of values that are still to come in each open container.
    open: Vec<u64>,
}

impl Framer {
    /// Returns a framer that refuses values of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Framer { limit, most: usize::MAX, values: 0, at: 0, skip: 0, open: Vec::new() }
    }

    /// From now on refuses values of more than `limit` bytes, and documents with more than `most` values.
    pub fn set_bounds(&mut self, limit: usize, most: usize) {
        (self.limit, self.most) = (limit, most);
    }

    /// Refuses documents with more than `most` values.
    #[must_use]
    pub fn with_values(self, most: usize) -> Self {
        Framer { most, ..self }
    }

    /// Takes the next whole value off the front of the buffer; `None` when more bytes are needed.
    ///
    /// After an error the stream cannot be read on.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        if buffer.is_empty() || !self.scan(buffer)? {
            return Ok(None);
        }
        let document = buffer.split_to(self.at).freeze();
        (self.at, self.skip, self.values) = (0, 0, 0);
        Ok(Some(document))
    }

    /// Returns the number of bytes of the current text or byte string that are still to come, known after
    /// [`Framer::next`] has asked for more. A reader may reserve that much memory at once.
    pub fn missing(&self) -> usize {
        self.skip
    }

    /// Returns true when the value is complete and ends at `self.at`.
    fn scan(&mut self, buffer: &[u8]) -> Result<bool, Error> {
        if self.at == 0 && self.skip == 0 && self.open.is_empty() {
            // The stream itself counts as a container of one value. When it is used up, the value is complete.
            self.open.push(1);
        }
        loop {
            let step = self.skip.min(buffer.len() - self.at);
            self.at += step;
            self.skip -= step;
            if self.skip > 0 {
                return Ok(false);
            }
            // Before the next header: a container that is full ends without a final byte.
            while self.open.last() == Some(&0) {
                self.open.pop();
            }
            if self.open.is_empty() {
                return Ok(true);
            }
            let Some((header, content, items)) = header(&buffer[self.at..])? else {
                return Ok(false);
            };
            self.enter(header, content, items)?;
        }
    }

    fn enter(&mut self, header: usize, content: usize, items: u64) -> Result<(), Error> {
        let size = self.at.saturating_add(header).saturating_add(content);
        // Each announced item takes at least a byte.
        let size = size.saturating_add(usize::try_from(items).unwrap_or(usize::MAX));
        if size > self.limit {
            return Err(Error::TooLarge { size, limit: self.limit });
        }
        self.values = self.values.saturating_add(usize::try_from(items).unwrap_or(usize::MAX));
        // `>=`, since the outermost value is not announced and not counted here.
        if self.values >= self.most {
            return Err(Error::TooManyValues(self.most));
        }
        self.at += header;
        self.skip = content;
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        if items > 0 {
            // `>`, since the stream itself is the first open container.
            if self.open.len() > MAX_DEPTH {
                return Err(Error::TooDeep);
            }
            self.open.push(items);
        }
        Ok(())
    }
}

/// The length of a value, and the number of values it holds, itself included. Those inside extensions are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub len: usize,
    /// Number of values.
    pub values: usize,
}

/// Measures the value at the start of the input without decoding it. Gives up after `most` values.
pub fn extent(input: &[u8], most: usize) -> Result<Extent, Error> {
    let (mut at, mut values, mut left) = (0_usize, 0_usize, 1_u64);
    // The number of values that were left outside of each open container.
    let mut outside = Vec::new();
    loop {
        while left == 0 {
            match outside.pop() {
                Some(before) => left = before,
                None => return Ok(Extent { len: at, values }),
            }
        }
        values += 1;
        let (header, content, items) = header(&input[at..])?.ok_or(Error::Truncated)?;
        at = at.checked_add(header + content).filter(|at| *at <= input.len()).ok_or(Error::Truncated)?;
        left -= 1;
        let announced = usize::try_from(items).unwrap_or(usize::MAX);
        // Each item takes at least a byte. Without this check, a few bytes could announce billions of items.
        if announced > input.len() - at {
            return Err(Error::Truncated);
        }
        if values.saturating_add(announced) > most {
            return Err(Error::TooManyValues(most));
        }
        if items > 0 {
            if outside.len() == MAX_DEPTH {
                return Err(Error::TooDeep);
            }
            outside.push(std::mem::replace(&mut left, items));
        }
    }
}

/// The maximum number of entries of a map from which fields are picked.
const MOST_FIELDS: u64 = 64;

/// Some fields of a map, still packed, each with its number of values.
pub type Fields<const N: usize> = [Option<(Bytes, usize)>; N];

/// Finds fields of a map that fills the input, still packed, with the values in each; `None` if the input is not a map,
/// or one of more entries than any message has.
///
/// Of several entries with one key the last counts, as it does in a decoded map.
pub fn fields<const N: usize>(input: &Bytes, wanted: [&str; N], most: usize) -> Result<Option<Fields<N>>, Error> {
    let Some((start, _, items)) = header(input)?.filter(|_| is_map(input)) else { return Ok(None) };
    // A map counts its keys and values separately.
    if items > MOST_FIELDS * 2 {
        return Ok(None);
    }
    let (mut found, mut at, mut room) = (std::array::from_fn(|_| None), start, most);
    let mut next = |at: &mut usize| -> Result<(usize, Extent), Error> {
        let (begin, extent) = (*at, extent(&input[*at..], room)?);
        room -= extent.values;
        *at += extent.len;
        Ok((begin, extent))
    };
    for _ in 0..items / 2 {
        let (key, extent) = next(&mut at)?;
        let key = text(&input[key..key + extent.len]);
        let (begin, extent) = next(&mut at)?;
        // Keys are compared as bytes, whichever family they are packed in.
        if let Some(place) = wanted.iter().position(|name| key == Some(name.as_bytes())) {
            found[place] = Some((input.slice(begin..begin + extent.len), extent.values));
        }
    }
    match input.len() - at {
        0 => Ok(Some(found)),
        rest => Err(Error::Trailing(rest)),
    }
}

fn is_map(input: &[u8]) -> bool {
    matches!(input.first(), Some(0x80..=0x8f | 0xde | 0xdf))
}

/// The content of a packed text or byte string.
fn text(packed: &[u8]) -> Option<&[u8]> {
    match packed.first()? {
        0xa0..=0xbf => packed.get(1..),
        0xc4 | 0xd9 => packed.get(2..),
        0xc5 | 0xda => packed.get(3..),
        0xc6 | 0xdb => packed.get(5..),
        _ => None,
    }
}

/// Returns the length of the header, of the content, and the number of values inside; `None` if the header is not
/// complete.
fn header(input: &[u8]) -> Result<Option<(usize, usize, u64)>, Error> {
    let Some(&marker) = input.first() else { return Ok(None) };
    let length = |width: usize| -> Option<usize> {
        let bytes = input.get(1..=width)?;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    Ok(match marker {
        0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0.. => Some((1, 0, 0)),
        0x80..=0x8f => Some((1, 0, u64::from(marker & 0x0f) * 2)),
        0x90..=0x9f => Some((1, 0, u64::from(marker & 0x0f))),
        0xa0..=0xbf => Some((1, usize::from(marker & 0x1f), 0)),
        0xc1 => return Err(Error::Reserved),
        0xc4..=0xc6 => length(1 << (marker - 0xc4)).map(|len| (1 + (1 << (marker - 0xc4)), len, 0)),
        // The byte with the type of an extension counts as content.
        0xc7..=0xc9 => length(1 << (marker - 0xc7)).map(|len| (1 + (1 << (marker - 0xc7)), len + 1, 0)),
        0xca | 0xce | 0xd2 => Some((1, 4, 0)),
        0xcb | 0xcf | 0xd3 => Some((1, 8, 0)),
        0xcc | 0xd0 => Some((1, 1, 0)),
        0xcd | 0xd1 => Some((1, 2, 0)),
        0xd4..=0xd8 => Some((1, (1 << (marker - 0xd4)) + 1, 0)),
        0xd9..=0xdb => length(1 << (marker - 0xd9)).map(|len| (1 + (1 << (marker - 0xd9)), len, 0)),
        0xdc | 0xdd => length(2 << (marker - 0xdc)).map(|len| (1 + (2 << (marker - 0xdc)), 0, len as u64)),
        0xde | 0xdf => length(2 << (marker - 0xde)).map(|len| (1 + (2 << (marker - 0xde)), 0, len as u64 * 2)),
    })
}
