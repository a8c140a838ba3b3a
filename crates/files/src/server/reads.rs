//! Files that are being read piece by piece.
//!
//! A minion asks for a file by its path each time. When the branch moves on in between, the rest of the file has to come
//! from the content it began with.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Who reads which file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    pub who: String,
    pub env: String,
    pub path: String,
}

/// A content somebody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub path: PathBuf,
    pub relative: String,
}

/// One file on its way.
struct Reading {
    content: Content,
    /// Where the last piece began, which may be asked for again.
    last: u64,
    /// Where the next piece begins.
    next: u64,
    since: Instant,
}

/// All files on their way.
#[derive(Default)]
pub(super) struct Reads {
    open: HashMap<Reader, Vec<Reading>>,
    /// How many there are.
    count: usize,
}

/// Who does not go on for so long begins anew.
const PATIENCE: Duration = Duration::from_secs(600);
/// More are not remembered; the oldest go.
const MAX: usize = 20_000;

impl Reads {
    /// Returns the content somebody reads who asks for a piece that is not the first.
    pub fn resume(&self, reader: &Reader, offset: u64) -> Option<Content> {
        let readings = self.open.get(reader)?;
        let next = readings.iter().find(|reading| reading.next == offset);
        let found = next.or_else(|| readings.iter().find(|reading| reading.last == offset));
        found.map(|reading| reading.content.clone())
    }

    /// Notes that a piece of a content was handed out; an empty one is its end.
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
                // Who begins again and again has given up the first tries.
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
        let patient = now.checked_sub(PATIENCE);
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
    fn who_began_with_a_content_goes_on_with_it() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        reads.note(reader("a"), &content("old"), 0, 10, now);
        reads.note(reader("b"), &content("new"), 0, 10, now);
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("old")));
        assert_eq!(reads.resume(&reader("b"), 10), Some(content("new")));
        assert_eq!(reads.resume(&reader("c"), 10), None);
        reads.note(reader("a"), &content("old"), 10, 10, now);
        // The same piece once more, since the answer was lost.
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 20), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 30), None);
        reads.note(reader("a"), &content("old"), 20, 0, now);
        assert_eq!(reads.resume(&reader("a"), 20), None);
        assert_eq!(reads.count, 1);
    }

    #[test]
    fn two_reads_of_one_minion_are_kept_apart() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        reads.note(reader("a"), &content("old"), 0, 10, now);
        reads.note(reader("a"), &content("old"), 10, 10, now);
        reads.note(reader("a"), &content("new"), 0, 10, now);
        assert_eq!(reads.resume(&reader("a"), 20), Some(content("old")));
        assert_eq!(reads.resume(&reader("a"), 10), Some(content("new")));
    }

    #[test]
    fn those_who_never_end_are_forgotten() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        for number in 0..MAX * 2 {
            let later = now + Duration::from_millis(number as u64);
            reads.note(reader(&number.to_string()), &content("x"), 0, 10, later);
        }
        assert!(reads.count <= MAX && reads.open.len() == reads.count, "{}", reads.count);
        assert!(reads.resume(&reader(&(MAX * 2 - 1).to_string()), 10).is_some());
    }
}
