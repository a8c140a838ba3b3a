//! Sums of records: how two copies are compared without sending them.
//!
//! Each record counts as a number that follows from its class, key and digest. Sums of these numbers are equal exactly when the
//! records are, and change with one addition when a record does.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::{Class, Digest, Key};

/// The number of some records, and the sum of what they count as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many there are.
    pub count: u64,
    /// The sum of their [`ItemHash`]es, modulo 2^128.
    pub total: u128,
}

impl Sum {
    /// Adds a record.
    pub fn add(&mut self, item: ItemHash) {
        self.count += 1;
        self.total = self.total.wrapping_add(item.0);
    }

    /// Takes a record away that was added.
    pub fn remove(&mut self, item: ItemHash) {
        // A sum that was damaged on disk must not end the program; the next comparison shows that it is wrong.
        self.count = self.count.saturating_sub(1);
        self.total = self.total.wrapping_sub(item.0);
    }

    /// Adds another sum.
    pub fn extend(&mut self, other: Sum) {
        self.count += other.count;
        self.total = self.total.wrapping_add(other.total);
    }
}

/// What a record counts as in a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHash(pub u128);

impl ItemHash {
    /// Returns what a record counts as.
    pub fn of(class: Class, key: &Key, digest: Digest) -> ItemHash {
        // The class has one byte and the digest a fixed length, so no two records give one text, whatever their keys are.
        let hash = crypto::sha256(&[&[class.number()], key.as_str().as_bytes(), &digest.0]);
        let mut first = [0; 16];
        first.copy_from_slice(&hash[..16]);
        ItemHash(u128::from_be_bytes(first))
    }

    /// Returns the first 8 bytes, by which members name single records.
    pub fn short(self) -> u64 {
        // Two records of one part with one short hash would hide each other until one of them changes: with 2^20 in a part, 1 in 2^25.
        (self.0 >> 64) as u64
    }
}

/// How finely the records of a class are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// By the day of the job, counted since 1970.
    Day = 1,
    /// By its hour.
    Hour = 2,
    /// By its minute.
    Minute = 3,
    /// By the first byte of the SHA-256 of the key.
    Byte = 4,
}

impl Level {
    /// Returns the level at which the comparison of a class starts.
    pub fn first(class: Class) -> Level {
        if class.is_timed() { Level::Day } else { Level::Byte }
    }

    /// Returns the next finer level; `None` where single records come next.
    pub fn finer(self) -> Option<Level> {
        match self {
            Level::Day => Some(Level::Hour),
            Level::Hour => Some(Level::Minute),
            Level::Minute | Level::Byte => None,
        }
    }

    /// Returns the level with this number.
    pub fn from_number(number: u64) -> Option<Level> {
        [Level::Day, Level::Hour, Level::Minute, Level::Byte].into_iter().find(|level| *level as u64 == number)
    }

    /// Returns whether a class is divided like that.
    pub fn fits(self, class: Class) -> bool {
        (self != Level::Byte) == class.is_timed()
    }

    /// Returns how many of the finest parts are in one part.
    fn width(self) -> u32 {
        match self {
            Level::Day => 1_440,
            Level::Hour => 60,
            Level::Minute | Level::Byte => 1,
        }
    }

    /// Returns the part that a finest part is in.
    pub fn part_of(self, leaf: u32) -> u32 {
        leaf / self.width()
    }

    /// Returns the finest parts that are in a part.
    pub fn leaves(self, part: u32) -> RangeInclusive<u32> {
        // The part comes from another member: any number must name some range, and an absurd one an empty one.
        let first = part.saturating_mul(self.width());
        first..=first.saturating_add(self.width() - 1)
    }
}

/// Returns the finest part that a record belongs to: a minute, or the first byte of a hash.
pub fn leaf_of(class: Class, key: &Key) -> u32 {
    match class.is_timed() {
        // Keys of such classes have a minute (`Key::fits`); one that has none must still be in some part.
        true => key.minute().unwrap_or(0),
        false => u32::from(crypto::sha256(&[key.as_str().as_bytes()])[0]),
    }
}

/// The sums of the records of one class, by finest part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(BTreeMap<u32, Sum>);

impl Sums {
    /// Adds a record.
    pub fn add(&mut self, leaf: u32, item: ItemHash) {
        self.0.entry(leaf).or_default().add(item);
    }

    /// Takes a record away that was added.
    pub fn remove(&mut self, leaf: u32, item: ItemHash) {
        if let Some(sum) = self.0.get_mut(&leaf) {
            sum.remove(item);
            if sum.count == 0 {
                self.0.remove(&leaf);
            }
        }
    }

    /// Returns the sum of a finest part.
    pub fn get(&self, leaf: u32) -> Sum {
        self.0.get(&leaf).copied().unwrap_or_default()
    }

    /// Sets the sum of a finest part: one that was computed elsewhere or kept on disk.
    pub fn set(&mut self, leaf: u32, sum: Sum) {
        match sum.count {
            0 => drop(self.0.remove(&leaf)),
            _ => drop(self.0.insert(leaf, sum)),
        }
    }

    /// Returns the sum of the parts from `since` on.
    pub fn root(&self, since: u32) -> Sum {
        let mut root = Sum::default();
        self.0.range(since..).for_each(|(_, sum)| root.extend(*sum));
        root
    }

    /// Returns the sums of the parts of a level within some finest parts, without the empty ones, in ascending order.
    pub fn parts(&self, level: Level, within: RangeInclusive<u32>) -> Vec<(u32, Sum)> {
        let mut parts: Vec<(u32, Sum)> = Vec::new();
        if within.is_empty() {
            return parts;
        }
        for (leaf, sum) in self.0.range(within) {
            let part = leaf / level.width();
            match parts.last_mut() {
                Some((last, total)) if *last == part => total.extend(*sum),
                _ => parts.push((part, *sum)),
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn item(number: u32) -> ItemHash {
        let key = Key::new(&number.to_string()).unwrap();
        ItemHash::of(Class::Data, &key, Digest::of(&[b"value"]))
    }

    #[test]
    fn sums_are_equal_exactly_when_the_sets_are() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..300 {
            let mut set: Vec<u32> = (0..random.random_range(0..60)).map(|_| random.random_range(0..1_000)).collect();
            set.sort_unstable();
            set.dedup();
            let (mut forwards, mut backwards) = (Sums::default(), Sums::default());
            set.iter().for_each(|&number| forwards.add(number % 7, item(number)));
            set.iter().rev().for_each(|&number| backwards.add(number % 7, item(number)));
            assert_eq!(forwards, backwards);
            let extra = random.random_range(1_000..2_000);
            backwards.add(extra % 7, item(extra));
            assert_ne!(forwards.root(0), backwards.root(0));
            if let Some(&other) = set.first() {
                backwards.remove(other % 7, item(other));
                assert_ne!(forwards.root(0), backwards.root(0), "one for another keeps only the number");
                backwards.add(other % 7, item(other));
            }
            backwards.remove(extra % 7, item(extra));
            assert_eq!(forwards, backwards);
        }
    }

    #[test]
    fn parts_of_all_levels_add_up() {
        let mut sums = Sums::default();
        for minute in [0, 59, 60, 1_439, 1_440, 4_000] {
            sums.add(minute, item(minute));
        }
        let parts = |level, within| sums.parts(level, within).iter().map(|(part, _)| *part).collect::<Vec<_>>();
        assert_eq!(parts(Level::Day, 0..=u32::MAX), [0, 1, 2]);
        assert_eq!(parts(Level::Hour, Level::Day.leaves(0)), [0, 1, 23]);
        assert_eq!(parts(Level::Minute, Level::Hour.leaves(0)), [0, 59]);
        assert_eq!(sums.root(1_440).count, 2);
        for level in [Level::Day, Level::Hour, Level::Minute] {
            let mut total = Sum::default();
            sums.parts(level, 0..=u32::MAX).iter().for_each(|(_, sum)| total.extend(*sum));
            assert_eq!(total, sums.root(0));
        }
    }
}
