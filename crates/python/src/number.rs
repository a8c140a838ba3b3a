//! Numbers as Python reads them.

use value::BigInt;

use crate::strip;

/// Reads an integer as Python's `int(text, base)` does, for bases 10 and 16.
pub fn integer(text: &str, base: u32) -> Option<BigInt> {
    let text = strip(text);
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let digits = match digits.get(..2) {
        Some("0x" | "0X") if base == 16 => digits[2..].strip_prefix('_').unwrap_or(&digits[2..]),
        _ => digits,
    };
    // Python allows single underscores between digits only.
    let lonely = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    let digits: String = digits.chars().filter(|letter| *letter != '_').collect();
    if lonely || digits.is_empty() || !digits.chars().all(|letter| letter.is_digit(base)) {
        return None;
    }
    let number = BigInt::parse_bytes(digits.as_bytes(), base)?;
    Some(if sign { -number } else { number })
}
