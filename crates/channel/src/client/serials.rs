//! The serial numbers of publications, which show a replay.
//!
//! A master numbers the publications under each AES key: 1, 2, 3… It makes a new key when it starts, and with each
//! rotation. A recorded publication is therefore new to nobody who remembers the last number under its key. The memory
//! belongs to the minion: it must outlive a connection, a sign-in and a restart, all of which somebody on the path can
//! cause. Masters of a Salt cluster (`cluster_id`), which share one key, send no numbers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crypto::KeyString;
use value::Value;

/// The number of keys that are remembered: those of eight masters for a week, when each makes a new key every day.
const MOST_KEYS: usize = 64;

/// Names an AES key without telling it: the first 16 bytes of its SHA-256, as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDigest(String);

/// The last serial number under each AES key that the minion has received publications with.
#[derive(Debug, Default)]
pub struct Serials {
    /// The key that was used last comes last.
    seen: Mutex<VecDeque<Last>>,
}

#[derive(Debug)]
struct Last {
    key: KeyDigest,
    serial: i64,
    /// It was [taken](Serials::take_unsaved) for the disk.
    saved: bool,
}

/// The result of checking the serial number of a publication.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Serialised {
    /// It is new; the serial number has been removed.
    Fresh(Value),
    /// It is a repetition and must be ignored.
    Replayed {
        /// Its serial number.
        serial: i64,
        /// The last serial number.
        last: i64,
    },
}

impl KeyDigest {
    /// Computes the digest of a key.
    pub(super) fn of(key: &KeyString) -> Self {
        let mut text = crypto::HashType::Sha256.hex(key.expose().as_bytes());
        text.truncate(32);
        KeyDigest(text)
    }

    /// Reads a digest that was written as text. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 32 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        fits.then(|| KeyDigest(text.to_owned()))
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serials {
    /// Checks and remembers the serial number of a publication. One without a number is always fresh; one whose number
    /// is not an integer counts as a repetition.
    pub(super) fn admit(&self, key: &KeyDigest, mut publication: Value) -> Serialised {
        let Some(serial) = publication.as_map_mut().and_then(|map| map.remove("serial")) else {
            return Serialised::Fresh(publication);
        };
        // Zero is never greater than the last one.
        let serial = serial.as_i64().unwrap_or(0);
        match self.raise(key, serial, false) {
            Ok(()) => Serialised::Fresh(publication),
            Err(last) => Serialised::Replayed { serial, last },
        }
    }

    /// Adds what was known before a restart.
    pub fn restore(&self, key: &KeyDigest, serial: i64) {
        // A number that is known already is what the caller wants.
        let _known: Result<(), i64> = self.raise(key, serial, true);
    }

    /// Returns the numbers that have grown since the last call of this method or of [`Serials::take_all`].
    pub fn take_unsaved(&self) -> Vec<(KeyDigest, i64)> {
        let mut seen = self.seen();
        let unsaved = seen.iter_mut().filter(|last| !last.saved);
        unsaved
            .map(|last| {
                last.saved = true;
                (last.key.clone(), last.serial)
            })
            .collect()
    }

    /// Returns all numbers, the key that was used last at the end.
    pub fn take_all(&self) -> Vec<(KeyDigest, i64)> {
        let mut seen = self.seen();
        seen.iter_mut().for_each(|last| last.saved = true);
        seen.iter().map(|last| (last.key.clone(), last.serial)).collect()
    }

    /// Raises the number of a key. Fails with the last number if this one is not greater: equal counts as a repetition,
    /// too, because one publication must not run a job twice.
    fn raise(&self, key: &KeyDigest, serial: i64, saved: bool) -> Result<(), i64> {
        let mut seen = self.seen();
        // From the end: most publications come under the key that was used last.
        let place = seen.iter().rposition(|last| last.key == *key);
        let last = place.and_then(|place| seen.get(place)).map_or(0, |last| last.serial);
        if serial <= last {
            return Err(last);
        }
        if let Some(place) = place {
            seen.remove(place);
        }
        seen.push_back(Last { key: key.clone(), serial, saved });
        if seen.len() > MOST_KEYS {
            seen.pop_front();
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, VecDeque<Last>> {
        // Comparing numbers does not panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn key(number: u8) -> KeyDigest {
        KeyDigest::parse(&format!("{number:032x}")).unwrap()
    }

    fn numbered(serial: i64) -> Value {
        map! { "jid" => "1", "serial" => serial }.into()
    }

    #[test]
    fn a_number_is_fresh_once_under_each_key() {
        let serials = Serials::default();
        assert_eq!(serials.admit(&key(1), numbered(2)), Serialised::Fresh(map! { "jid" => "1" }.into()));
        for old in [2, 1, 0, -1] {
            assert_eq!(serials.admit(&key(1), numbered(old)), Serialised::Replayed { serial: old, last: 2 });
        }
        let odd = map! { "serial" => "x" };
        assert_eq!(serials.admit(&key(1), odd.into()), Serialised::Replayed { serial: 0, last: 2 });
        assert!(matches!(serials.admit(&key(2), numbered(1)), Serialised::Fresh(_)));
        assert!(matches!(serials.admit(&key(1), numbered(3)), Serialised::Fresh(_)));
        assert_eq!(serials.admit(&key(1), Value::Null), Serialised::Fresh(Value::Null));
    }

    #[test]
    fn what_was_saved_is_known_after_a_restart() {
        let before = Serials::default();
        before.admit(&key(1), numbered(7));
        before.admit(&key(2), numbered(1));
        before.admit(&key(2), numbered(2));
        let saved = before.take_unsaved();
        assert_eq!(saved, [(key(1), 7), (key(2), 2)]);
        assert_eq!(before.take_unsaved(), []);
        before.admit(&key(1), numbered(8));
        assert_eq!(before.take_unsaved(), [(key(1), 8)]);
        assert_eq!(before.take_all(), [(key(2), 2), (key(1), 8)]);

        let after = Serials::default();
        saved.iter().for_each(|(key, serial)| after.restore(key, *serial));
        assert_eq!(after.admit(&key(1), numbered(7)), Serialised::Replayed { serial: 7, last: 7 });
        assert!(matches!(after.admit(&key(1), numbered(8)), Serialised::Fresh(_)));
        // An older line of the same file changes nothing.
        after.restore(&key(1), 3);
        assert_eq!(after.admit(&key(1), numbered(8)), Serialised::Replayed { serial: 8, last: 8 });
    }

    #[test]
    fn the_keys_that_were_not_used_for_longest_are_forgotten() {
        let serials = Serials::default();
        for number in 1..=64 {
            serials.admit(&key(number), numbered(1));
        }
        serials.admit(&key(1), numbered(2));
        serials.admit(&key(65), numbered(1));
        let known = serials.take_all();
        assert_eq!(known.len(), MOST_KEYS);
        assert!(known.contains(&(key(1), 2)) && !known.iter().any(|(known, _)| *known == key(2)));
    }

    #[test]
    fn only_a_digest_is_read_as_one() {
        let digest = KeyDigest::of(&KeyString::generate());
        assert_eq!(KeyDigest::parse(&digest.to_string()), Some(digest.clone()));
        for wrong in ["", "abc", &digest.to_string().replace(|_: char| true, "G"), &format!("{digest}0")] {
            assert_eq!(KeyDigest::parse(wrong), None, "{wrong:?}");
        }
    }
}
