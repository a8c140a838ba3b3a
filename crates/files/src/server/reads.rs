//! Files that are being read in chunks.
//!
//! A minion sends the path with each request. If the branch moves in between, the rest of the file must still come from the
//! content of the first chunk.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A minion and the file it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    pub who: String,
    pub env: String,
    pub path: String,
}

/// A content that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub path: PathBuf,
    pub relative: String,
}

/// The progress of one reader.
struct Reading {
    content: Content,
    /// The offset of the last chunk, which may be requested again.
    last: u64,
    /// The offset of the next chunk.
    next: u64,
    since: Instant,
}

/// The progress of all readers.
#[derive(Default)]
pub(super) struct Reads {
    open: HashMap<Reader, Vec<Reading>>,
    /// The number of readers.
    count: usize,
}

/// A reader that pauses for longer starts over.
const READER_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of readers; the oldest are forgotten.
const MAX: usize = 20_000;

impl Reads {
    /// Returns the content of a reader that requests a chunk after the first.
    pub fn resume(&self, reader: &Reader, offset: u64) -> Option<Content> {
        let readings = self.open.get(reader)?;
        // A reader in good order comes first. A repeated chunk, whose answer was lost, is the exception.
        let next = readings.iter().find(|reading| reading.next == offset);
        let found = next.or_else(|| readings.iter().find(|reading| reading.last == offset));
        found.map(|reading| reading.content.clone())
    }

    /// Notes that a chunk was sent; an empty one ends the file.
    pub fn note(&mut self, reader: Reader, content: &Content, offset: u64, len: u64, now: Instant) {
        if self.count >= MAX {
            self.forget_old(now);
        }
        let readings = self.open.entry(reader.clone()).or_default();
        let own = readings.iter().position(|reading| {
            reading.content == *content && offset != 0 && (reading.next == offset || reading.last == offset)
        });
        match own {
            Some(at) if len == 0 => {
                readings.remove(at);
                self.count -= 1;
            }
            Some(at) => {
                let reading = &mut readings[at];
                (reading.last, reading.next, reading.since) = (offset, offset + len, now);
            }
            None if len == 0 => {}
            None => {
                readings.push(Reading { content: content.clone(), last: offset, next: offset + len, since: now });
                self.count += 1;
                // A reader that starts over again and again has given up its earlier attempts.
                if readings.len() > 8 {
                    readings.remove(0);
                    self.count -= 1;
                }
            }
        }
        if readings.is_empty() {
            self.open.remove(&reader);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let mut ages: Vec<Instant> = self.open.values().flatten().map(|reading| reading.since).collect();
        ages.sort_unstable();
        let patient = now.checked_sub(READER_TIMEOUT);
        // At least a quarter goes, so that this is not done at each request once the bound is reached.
        let limit = ages[ages.len() / 4].max(patient.unwrap_or(ages[0]));
        self.open.retain(|_, readings| {
            readings.retain(|reading| reading.since > limit);
            !readings.is_empty()
        });
        self.count = self.open.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(name: &str) -> Content {
        Content { path: name.into(), relative: "f".into() }
    }

    fn reader(who: &str) -> Reader {
        Reader { who: who.into(), env: "base".into(), path: "f".into() }
    }

    #[test]
    fn a_reader_continues_with_its_first_content() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        reads.note(reader("a"), &content("old"), 0, 10, now);
        reads.note(reader("b"), &content("new"), 0, 10, now);
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("old")));
        assert_eq!(reads.resume(&reader("b"), 10), Some(content("new")));
        assert_eq!(reads.resume(&reader("c"), 10), None);
        reads.note(reader("a"), &content("old"), 10, 10, now);
        // The same chunk once more, since the answer was lost.
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 20), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 30), None);
        reads.note(reader("a"), &content("old"), 20, 0, now);
        assert_eq!(reads.resume(&reader("a"), 20), None);
        assert_eq!(reads.count, 1);
    }

    #[test]
    fn two_files_of_one_minion_are_independent() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        reads.note(reader("a"), &content("old"), 0, 10, now);
        reads.note(reader("a"), &content("old"), 10, 10, now);
        reads.note(reader("a"), &content("new"), 0, 10, now);
        assert_eq!(reads.resume(&reader("a"), 20), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("new")));
    }

    #[test]
    fn readers_that_never_finish_are_forgotten() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        for number in 0..MAX * 2 {
            let later = now + Duration::from_millis(number as u64);
            reads.note(reader(&number.to_string()), &content("x"), 0, 10, later);
        }
        assert!(reads.count <= MAX && reads.open.len() == reads.count, "{}", reads.count);
        assert!(reads.resume(&reader(&(MAX * 2 - 1).to_string()), 10).is_some());
    }
}
