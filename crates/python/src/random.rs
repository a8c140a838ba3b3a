//! Python's generator of random numbers, for what depends on a seed: the same seed gives the same numbers there and here
//! (Mersenne Twister, seeded by Python's rules of version 2).

use openssl::hash::{DigestBytes, MessageDigest, hash};
use rand_mt::Mt;

/// A generator with a seed.
pub struct Random(Mt);

impl Random {
    /// Seeded as by `random.seed(number)`.
    pub fn of_number(number: i64) -> Self {
        // Python ignores the sign of a seed.
        Self::of_bytes(&number.unsigned_abs().to_be_bytes())
    }

    /// Seeded as by `random.seed(text)`.
    pub fn of_text(text: &str) -> Self {
        Self::of_bytes(&[text.as_bytes(), &checksum(text)].concat())
    }

    /// Seeded as Salt does for `random.sample` and `random.shuffle`: with the hex digits of the SHA-512 checksum of a text.
    pub fn of_checksum(text: &str) -> Self {
        let digits: String = checksum(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Self::of_text(&digits)
    }

    /// Seeds with a number of any size, given as big-endian bytes.
    fn of_bytes(bytes: &[u8]) -> Self {
        let mut key: Vec<u32> =
            bytes.rchunks(4).map(|word| word.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))).collect();
        // The generator depends on the length of the key, and Python's has no leading zero words.
        while key.len() > 1 && key.last() == Some(&0) {
            key.pop();
        }
        Random(Mt::new_with_key(key))
    }

    fn bits(&mut self, mut count: u32) -> u64 {
        let (mut found, mut shift) = (0, 0);
        while count > 0 {
            let taken = count.min(32);
            found |= u64::from(self.0.next_u32() >> (32 - taken)) << shift;
            (count, shift) = (count - taken, shift + 32);
        }
        found
    }

    /// Returns a number below `limit`, which must not be 0 (`random.randrange(limit)`).
    pub fn below(&mut self, limit: u64) -> u64 {
        // Python draws just enough bits and rejects what is too large. Any other way would give other numbers.
        let count = u64::BITS - limit.leading_zeros();
        loop {
            let found = self.bits(count);
            if found < limit {
                return found;
            }
        }
    }

    /// Returns `size` of the items, at most all, in the order of `random.sample(items, size)`.
    pub fn sample<T: Clone>(&mut self, items: &[T], size: usize) -> Vec<T> {
        let size = size.min(items.len());
        // Where a set of those chosen takes less room than a list of all, as Python reckons.
        let more = if size > 5 { 4f64.powf((size as f64 * 3.0).log(4.0).ceil()) as usize } else { 0 };
        let set_size = 21 + more;
        if items.len() <= set_size {
            let mut pool: Vec<usize> = (0..items.len()).collect();
            let taken = (0..size).map(|place| {
                let last = pool.len() - 1 - place;
                let chosen = self.below(last as u64 + 1) as usize;
                let found = pool[chosen];
                pool[chosen] = pool[last];
                items[found].clone()
            });
            return taken.collect();
        }
        let mut seen = std::collections::HashSet::new();
        let taken = (0..size).map(|_| {
            loop {
                let chosen = self.below(items.len() as u64) as usize;
                if seen.insert(chosen) {
                    return items[chosen].clone();
                }
            }
        });
        taken.collect()
    }
}

fn checksum(text: &str) -> DigestBytes {
    hash(MessageDigest::sha512(), text.as_bytes()).expect("SHA-512 is always there")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by Python 3.11.
    #[test]
    fn the_same_seed_gives_pythons_numbers() {
        let mut random = Random::of_text("web1.example.org");
        assert_eq!([10, 60, 1000, 86400, 1 << 40].map(|limit| random.below(limit)), TEXT);
        let mut random = Random::of_number(-7);
        assert_eq!([10, 60, 1000, 1 << 63].map(|limit| random.below(limit)), NUMBER);
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(Random::of_number(3).sample(&items[..7], 7), ALL);
        assert_eq!(Random::of_number(3).sample(&items, 6), FEW);
        assert_eq!(Random::of_text("x").sample(&items[..85], 6)[..3], SOME);
        assert_eq!(Random::of_text("x").sample(&items[..86], 6)[..3], OTHER);
    }

    const TEXT: [u64; 5] = [4, 55, 871, 81539, 113008564507];
    const NUMBER: [u64; 4] = [5, 9, 404, 890727360438182992];
    const ALL: [u32; 7] = [1, 4, 5, 6, 3, 2, 0];
    const FEW: [u32; 6] = [30, 75, 69, 16, 47, 77];
    const SOME: [u32; 3] = [80, 40, 76];
    const OTHER: [u32; 3] = [80, 40, 76];
}
