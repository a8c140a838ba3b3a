//! Rows of the file of shared records: how keys and records become bytes, in an order that serves comparing.

use std::ops::Range;

use bytes::Bytes;
use share::{Class, Digest, Key, Malformed, Record, leaf_of};

/// The bytes of a row before the packed record: a mark, the time of arrival, the digest.
const HEAD: usize = 1 + 8 + 16;
/// The mark of a tombstone.
const TOMBSTONE: u8 = 1;
/// The bytes of a row's key before the text of the key: class and finest part.
const PLACE: usize = 1 + 4;

/// Returns the key of a record's row: class, finest part, key. So the records of a part stand together.
pub fn key(class: Class, key: &Key) -> (u32, Vec<u8>) {
    let leaf = leaf_of(class, key);
    let mut row = Vec::with_capacity(PLACE + key.as_str().len());
    row.push(class.number());
    row.extend_from_slice(&leaf.to_be_bytes());
    row.extend_from_slice(key.as_str().as_bytes());
    (leaf, row)
}

/// Returns the key of a record from the key of its row.
pub fn key_of(row: &[u8]) -> Option<Key> {
    std::str::from_utf8(row.get(PLACE..)?).ok().and_then(Key::new)
}

/// Returns the keys of the rows of some finest parts.
pub fn parts(class: Class, first: u32, last: u32) -> Range<Vec<u8>> {
    let place = |leaf: u32| [&[class.number()][..], &leaf.to_be_bytes()].concat();
    place(first)..last.checked_add(1).map_or_else(|| vec![class.number() + 1], place)
}

/// Returns a row.
pub fn pack(record: &Record, arrived: u64) -> Vec<u8> {
    let packed = record.pack();
    let mut row = Vec::with_capacity(HEAD + packed.len());
    row.push(if record.is_tombstone() { TOMBSTONE } else { 0 });
    row.extend_from_slice(&arrived.to_be_bytes());
    row.extend_from_slice(&record.digest.0);
    row.extend_from_slice(&packed);
    row
}

/// What a row says about its record without it being read.
pub struct Head {
    pub tombstone: bool,
    pub arrived: u64,
    pub digest: Digest,
}

/// Reads the beginning of a row; `None` for one that is too short.
pub fn head(row: &[u8]) -> Option<Head> {
    let arrived = row.get(1..9)?.try_into().ok()?;
    let digest = Digest(row.get(9..HEAD)?.try_into().ok()?);
    Some(Head { tombstone: row[0] == TOMBSTONE, arrived: u64::from_be_bytes(arrived), digest })
}

/// Reads the record of a row.
pub fn unpack(row: &[u8]) -> Result<Record, Malformed> {
    let packed = row.get(HEAD..).ok_or(Malformed("a row"))?;
    Record::unpack(&Bytes::copy_from_slice(packed))
}

/// Returns the key of the row that lists a tombstone by its age: class, arrival, key.
pub fn tombstone(class: Class, arrived: u64, key: &Key) -> Vec<u8> {
    [&[class.number()][..], &arrived.to_be_bytes(), key.as_str().as_bytes()].concat()
}

/// Returns the keys of the rows of tombstones that arrived at a time or before.
pub fn tombstones(class: Class, until: u64) -> Range<Vec<u8>> {
    let end = until.checked_add(1).map(|end| [&[class.number()][..], &end.to_be_bytes()].concat());
    vec![class.number()]..end.unwrap_or_else(|| vec![class.number() + 1])
}

/// Returns the key of a record from the key of a row that lists its tombstone.
pub fn key_of_tombstone(row: &[u8]) -> Option<Key> {
    std::str::from_utf8(row.get(9..)?).ok().and_then(Key::new)
}
