//! `random` — random numbers and texts.

use base64::Engine;
use exec::{Context, Error, Module, Result, function};
use python::random::Random;
use rand::Rng;
use value::Value;

use crate::hashutil;

/// The module.
pub static MODULE: Module = Module::new(
    "random",
    "Functions that return random numbers and texts.",
    &[&GET_STR, &HASH, &RAND_INT, &SAMPLE, &SEED, &SHADOW_HASH, &SHUFFLE, &STR_ENCODE],
);

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const WHITESPACE: &str = " \t\n\r\x0b\x0c";

/// The generator of a seed, which gives Python's numbers; none without one.
fn seeded(seed: &Value) -> Result<Option<Random>> {
    match seed {
        Value::Null => Ok(None),
        // To Python booleans are numbers.
        Value::Bool(seed) => Ok(Some(Random::of_number(i64::from(*seed)))),
        Value::Int(seed) => Ok(Some(Random::of_number(*seed))),
        Value::Str(seed) => Ok(Some(Random::of_text(seed))),
        _ => Err(Error::execution("not supported: a seed that is neither a number nor text")),
    }
}

/// The same for a choice from a list, where only text is a seed.
fn seeded_choice(seed: &Value) -> Result<Option<Random>> {
    match seed {
        Value::Null => Ok(None),
        // Salt seeds choices with a checksum of the text, unlike numbers. The same seed must give
        // the same choice on every minion.
        Value::Str(seed) => Ok(Some(Random::of_checksum(seed))),
        _ => Err(Error::Other("object supporting the buffer API required".into())),
    }
}

/// Returns a random text of the given characters, or of all enabled kinds.
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
    // A mistake on the command line must not take the memory of every minion.
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

/// Returns a random number between two numbers, both included.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.rand_int 1 10
#[function]
fn rand_int(#[default(1)] start: i64, #[default(10)] end: i64, #[default(Value::Null)] seed: Value) -> Result<i64> {
    if start > end {
        return Err(Error::Other(format!("empty range for randrange() ({start}, {}, {})", end + 1, end + 1 - start)));
    }
    match (seeded(&seed)?, end.abs_diff(start).checked_add(1)) {
        (Some(mut random), Some(count)) => Ok(start.wrapping_add_unsigned(random.below(count))),
        _ => Ok(rand::rng().random_range(start..=end)),
    }
}

/// Returns a number from 0 on that is smaller than ``range``, always the same one for the same ``hash``, which is the
/// minion's id by default.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.seed 10 hash=None
#[function]
fn seed(ctx: &Context, #[default(10)] range: i64, #[default(Value::Null)] hash: Value) -> Result<u64> {
    let limit = u64::try_from(range).ok().filter(|range| *range > 0);
    let limit = limit.ok_or_else(|| Error::Other("empty range for randrange()".into()))?;
    // Each minion gets a different number that stays the same, for example for the minute of a cron job.
    let own = ctx.grains.get_str("id").unwrap_or_else(|| ctx.id());
    let mut random = seeded(&hash)?.unwrap_or_else(|| Random::of_text(own));
    Ok(random.below(limit))
}

/// Returns the hash of a password in the form of /etc/shadow; without one, that of a random password.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.shadow_hash 'My5alT' 'MyP@asswd' sha256
#[function]
fn shadow_hash(
    ctx: &Context,
    crypt_salt: Option<String>,
    #[default(Value::Null)] password: Value,
    #[default("sha512")] algorithm: String,
) -> Result<String> {
    crate::shadow::hash::gen_password(ctx, password, crypt_salt, algorithm)
}

/// Returns some random items of a list.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' random.sample '["one", "two"]' 1
#[function]
fn sample(value: Vec<Value>, size: u64, #[default(Value::Null)] seed: Value) -> Result<Value> {
    let size = usize::try_from(size).ok().filter(|size| *size <= value.len());
    let size = size.ok_or_else(|| Error::Other("Sample larger than population or is negative".into()))?;
    if let Some(mut random) = seeded_choice(&seed)? {
        return Ok(Value::List(random.sample(&value, size)));
    }
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
    let size = value.len() as u64;
    sample(value, size, seed)
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
    }

    /// Told by Salt 3008.5.
    #[test]
    fn seeds_give_salts_numbers() {
        assert_eq!(rand_int(1, 1000, 7.into()).unwrap(), RAND_INT_7);
        assert_eq!(rand_int(-5, 1000, "web1".into()).unwrap(), RAND_INT_WEB1);
        let items = || (0..10).map(Value::Int).collect::<Vec<_>>();
        assert_eq!(sample(items(), 3, "web1".into()).unwrap(), Value::from(SAMPLE_WEB1.to_vec()));
        assert_eq!(shuffle(items(), "web1".into()).unwrap(), Value::from(SHUFFLE_WEB1.to_vec()));
    }

    const RAND_INT_7: i64 = 332;
    const SAMPLE_WEB1: [i64; 3] = [7, 8, 3];
    const SHUFFLE_WEB1: [i64; 10] = [7, 8, 3, 2, 4, 1, 6, 9, 0, 5];
    const RAND_INT_WEB1: i64 = 835;
}
