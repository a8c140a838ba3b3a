//! `random` — random numbers and texts.

use base64::Engine;
use exec::{Context, Error, Module, Result, function};
use rand::Rng;
use value::Value;

use crate::hashutil;

/// The module.
pub static MODULE: Module = Module::new(
    "random",
    "Functions that return random numbers and texts.",
    &[&GET_STR, &HASH, &RAND_INT, &SAMPLE, &SHUFFLE, &STR_ENCODE],
);

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const WHITESPACE: &str = " \t\n\r\x0b\x0c";

/// Python's generator gives the same numbers for the same seed; ours is another one.
fn refuse_seed(seed: &Value) -> Result<()> {
    if seed.is_null() { Ok(()) } else { Err(Error::execution("not supported: numbers that depend on a seed")) }
}

/// Returns a random text, of the letters given or of all kinds that are on.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.get_str 128
///     salt '*' random.get_str 128 chars='abc123.!()'
#[function]
fn get_str(
    #[default(20)] length: u64,
    chars: Option<String>,
    #[default(true)] lowercase: bool,
    #[default(true)] uppercase: bool,
    #[default(true)] digits: bool,
    #[default(true)] punctuation: bool,
    #[default(false)] whitespace: bool,
    #[default(false)] printable: bool,
) -> Result<String> {
    let kinds = [
        (lowercase || printable, ('a'..='z').collect::<String>()),
        (uppercase || printable, ('A'..='Z').collect()),
        (digits || printable, ('0'..='9').collect()),
        (punctuation || printable, PUNCTUATION.to_owned()),
        (whitespace || printable, WHITESPACE.to_owned()),
    ];
    let chosen = || kinds.into_iter().filter(|(on, _)| *on).map(|(_, letters)| letters).collect::<String>();
    let letters: Vec<char> = chars.filter(|letters| !letters.is_empty()).unwrap_or_else(chosen).chars().collect();
    if letters.is_empty() {
        return Err(Error::execution("no characters to choose from"));
    }
    if length > 1 << 20 {
        return Err(Error::invocation(format!("a text of {length} characters is too long")));
    }
    let mut rng = rand::rng();
    Ok((0..length).map(|_| letters[rng.random_range(0..letters.len())]).collect())
}

/// Returns the checksum of a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.hash 'I am a string' md5
#[function]
fn hash(value: Value, #[default("sha512")] algorithm: String) -> Result<String> {
    let text = value.to_string();
    let unknown = |_| Error::invocation("You must specify a valid algorithm.");
    hashutil::hex_digest(&algorithm, value.as_bytes().unwrap_or(text.as_bytes())).map_err(unknown)
}

/// Returns a random number between two, both included.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.rand_int 1 10
#[function]
fn rand_int(#[default(1)] start: i64, #[default(10)] end: i64, #[default(Value::Null)] seed: Value) -> Result<i64> {
    refuse_seed(&seed)?;
    if start > end {
        return Err(Error::Other(format!("empty range for randrange() ({start}, {}, {})", end + 1, end + 1 - start)));
    }
    Ok(rand::rng().random_range(start..=end))
}

/// Returns some items of a list, chosen by chance.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.sample '["one", "two"]' 1
#[function]
fn sample(value: Vec<Value>, size: u64, #[default(Value::Null)] seed: Value) -> Result<Value> {
    refuse_seed(&seed)?;
    let size = usize::try_from(size).ok().filter(|size| *size <= value.len());
    let size = size.ok_or_else(|| Error::Other("Sample larger than population or is negative".into()))?;
    let mut shuffled = shuffled(value);
    shuffled.truncate(size);
    Ok(Value::List(shuffled))
}

fn shuffled(mut items: Vec<Value>) -> Vec<Value> {
    let mut rng = rand::rng();
    for place in (1..items.len()).rev() {
        items.swap(place, rng.random_range(0..=place));
    }
    items
}

/// Returns the items of a list in a random order.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.shuffle '["one", "two"]'
#[function]
fn shuffle(value: Vec<Value>, #[default(Value::Null)] seed: Value) -> Result<Value> {
    refuse_seed(&seed)?;
    Ok(Value::List(shuffled(value)))
}

/// Returns a text in another encoding, by default base64.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.str_encode 'I am a new string' base64
#[function]
fn str_encode(ctx: &Context, value: Value, #[default("base64")] encoder: String) -> Result<String> {
    let _ = ctx;
    let wrong = || Error::invocation("Value must be an encode-able string");
    if encoder != "base64" {
        return Err(Error::invocation("You must specify a valid encoder"));
    }
    Ok(base64::engine::general_purpose::STANDARD.encode(value.as_bytes().ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_wanted_letters_and_length() {
        let text = get_str(50, Some("ab".into()), true, true, true, true, false, false).unwrap();
        assert!(text.len() == 50 && text.chars().all(|c| "ab".contains(c)));
        assert!(get_str(1, None, false, false, false, false, false, false).is_err());
    }

    #[test]
    fn nothing_is_lost_in_shuffling() {
        let mut items = shuffled((0..50).map(Value::Int).collect());
        items.sort_by_key(|item| item.as_i64());
        assert_eq!(items, (0..50).map(Value::Int).collect::<Vec<_>>());
        assert!(sample(vec![1.into()], 2, Value::Null).is_err());
        assert!((1..=3).contains(&rand_int(1, 3, Value::Null).unwrap()));
        assert!(rand_int(1, 3, 7.into()).is_err());
    }
}
