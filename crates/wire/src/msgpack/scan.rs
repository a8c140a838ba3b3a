//! Finding where a value of a stream ends before all of it has arrived.

use bytes::{Bytes, BytesMut};

use super::{Error, MAX_DEPTH};

/// Cuts a stream of values without length prefixes into single values.
///
/// Each byte is looked at once, however small the pieces it arrives in, and nothing is decoded. A value that announces
/// more than the limit is refused before its content arrives.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    /// How far into the buffer the current value has been understood.
    at: usize,
    /// Content bytes still to be skipped before the next marker.
    skip: usize,
    /// How many values are still to come in each open container.
    open: Vec<u64>,
}

impl Framer {
    /// Returns a framer that refuses values of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Framer { limit, at: 0, skip: 0, open: Vec::new() }
    }

    /// Takes the next whole value off the front of the buffer; `None` when more bytes are needed.
    ///
    /// After an error the stream cannot be read on.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Error> {
        if buffer.is_empty() || !self.scan(buffer)? {
            return Ok(None);
        }
        let document = buffer.split_to(self.at).freeze();
        (self.at, self.skip) = (0, 0);
        Ok(Some(document))
    }

    /// Returns how many bytes of the text or byte string that is being read are still to come, known after
    /// [`Framer::next`] has asked for more. A reader may make room for so many at once.
    pub fn missing(&self) -> usize {
        self.skip
    }

    /// Returns true when the value is complete and ends at `self.at`.
    fn scan(&mut self, buffer: &[u8]) -> Result<bool, Error> {
        if self.at == 0 && self.skip == 0 && self.open.is_empty() {
            self.open.push(1);
        }
        loop {
            let step = self.skip.min(buffer.len() - self.at);
            self.at += step;
            self.skip -= step;
            if self.skip > 0 {
                return Ok(false);
            }
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
        self.at += header;
        self.skip = content;
        if let Some(left) = self.open.last_mut() {
            *left -= 1;
        }
        if items > 0 {
            if self.open.len() > MAX_DEPTH {
                return Err(Error::TooDeep);
            }
            self.open.push(items);
        }
        Ok(())
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
