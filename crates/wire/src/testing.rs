//! Recorded bytes, and random values, for the tests of this crate.

use bytes::Bytes;
use value::{BigInt, DateTime, Map, Value};

/// Reads `testdata/<name>.json`, recorded from real Salt.
pub fn vectors(name: &str) -> serde_json::Value {
    let path = format!("{}/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).expect(&path)).expect(&path)
}

/// Reads the hex text of a vector.
pub fn bytes(vector: &serde_json::Value) -> Bytes {
    hex::decode(vector.as_str().expect("a hex text")).expect("hex").into()
}

/// Turns JSON of a vector into a value.
pub fn value(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).expect("a value")
}

/// A small seeded generator of values (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn bytes(&mut self, longest: u64) -> Vec<u8> {
        (0..self.below(longest + 1)).map(|_| self.next() as u8).collect()
    }

    pub fn text(&mut self, longest: u64) -> String {
        (0..self.below(longest + 1)).map(|_| ['a', 'é', '世', '\n', '🧂'][self.below(5) as usize]).collect()
    }

    /// Any value; bytes are never valid UTF-8, so that they survive where text and bytes are mixed.
    pub fn value(&mut self, depth: u32) -> Value {
        let kinds = if depth == 0 { 9 } else { 11 };
        match self.below(kinds) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 1),
            2 => Value::Int((self.next() as i64) >> self.below(64)),
            3 => Value::from((1_u64 << 63) | self.next()),
            // NaN and infinities included: Python packs them too.
            4 => Value::Float(f64::from_bits(self.next())),
            5 | 6 => Value::Str(self.text(300)),
            7 => {
                let mut bytes = self.bytes(300);
                // 0xff never occurs in UTF-8.
                bytes.insert(0, 0xff);
                Value::bytes(bytes)
            }
            8 => Value::DateTime(DateTime {
                year: 1970 + self.below(100) as u16,
                month: 1 + self.below(12) as u8,
                day: 1 + self.below(28) as u8,
                hour: self.below(24) as u8,
                minute: self.below(60) as u8,
                second: self.below(60) as u8,
                micros: self.below(1_000_000) as u32,
            }),
            9 => Value::List((0..self.below(20)).map(|_| self.value(depth - 1)).collect()),
            _ => Value::Map(self.map(depth - 1)),
        }
    }

    pub fn map(&mut self, depth: u32) -> Map {
        (0..self.below(20)).map(|_| (self.text(40), self.value(depth))).collect()
    }
}

/// The integer a vector names in decimal.
pub fn integer(text: &str) -> Value {
    Value::from(text.parse::<BigInt>().expect("an integer"))
}
