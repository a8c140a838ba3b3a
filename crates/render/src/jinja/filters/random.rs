//! Filters that return something random.

use base64::Engine as _;
use jinja::{CallArgs, Error, Value};
use openssl::hash::hash;
use rand::Rng;
use rand::seq::SliceRandom;

use super::{text, whole};
use python::random::Random;

pub fn random_hash(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("size", Some(Value::Int(9_999_999_999))), ("hash_type", Some(Value::None))];
    let [size, kind] = call.bind("random_hash", params)?;
    let kind = if kind.is_none() { "md5".into() } else { text(&kind)? };
    let Some(digest) = super::text::digest_named(&kind) else {
        let text = format!("module 'hashlib' has no attribute '{kind}'");
        return Err(Error::new(jinja::ErrorKind::Attribute, text));
    };
    let size = whole(&size, "size")?;
    if size < 0 {
        return Err(Error::value_error(format!("empty range for randrange() (0, {}, {})", size + 1, size + 1)));
    }
    // As in Salt, the hash of a random number. It hides nothing, because the number is small.
    let number = rand::rng().random_range(0..=size);
    let bytes = hash(digest, number.to_string().as_bytes()).map_err(|error| Error::value_error(error.to_string()))?;
    Ok(Value::from(super::text::hex(&bytes)))
}

pub fn random_str(call: &mut CallArgs) -> Result<Value, Error> {
    let [size] = call.bind("random", [("size", Some(Value::Int(32)))])?;
    let size =
        usize::try_from(whole(&size, "size")?).map_err(|_| Error::value_error("negative argument not allowed"))?;
    if size > 1 << 20 {
        return Err(super::too_many());
    }
    let mut bytes = vec![0; size];
    rand::rng().fill(bytes.as_mut_slice());
    let mut text = base64::engine::general_purpose::STANDARD.encode(bytes);
    // Base64 is longer than its input, so that enough characters remain.
    text.truncate(size);
    Ok(Value::from(text))
}

pub fn gen_mac(call: &mut CallArgs) -> Result<Value, Error> {
    let [prefix] = call.bind("gen_mac", [("prefix", Some(Value::str("AC:DE:48")))])?;
    let prefix = text(&prefix)?;
    let [a, b, c]: [u8; 3] = rand::rng().random();
    Ok(Value::from(format!("{prefix}:{a:02X}:{b:02X}:{c:02X}")))
}

pub fn random_sample(call: &mut CallArgs) -> Result<Value, Error> {
    let [values, size, seed] = call.bind("sample", [("value", None), ("size", None), ("seed", Some(Value::None))])?;
    let size = whole(&size, "size")?;
    sample(call, &values, Some(size), &seed)
}

pub fn random_shuffle(call: &mut CallArgs) -> Result<Value, Error> {
    let [values, seed] = call.bind("shuffle", [("value", None), ("seed", Some(Value::None))])?;
    sample(call, &values, None, &seed)
}

fn sample(call: &mut CallArgs, values: &Value, size: Option<i64>, seed: &Value) -> Result<Value, Error> {
    if matches!(values, Value::Dict(_) | Value::Set(_)) {
        let text = "Population must be a sequence.  For dicts or sets, use sorted(d).";
        return Err(Error::type_error(text));
    }
    let mut items = jinja::python::to_vec(call.state, values)?;
    let size = size.map_or(Some(items.len()), |size| usize::try_from(size).ok());
    let Some(size) = size.filter(|size| *size <= items.len()) else {
        return Err(Error::value_error("Sample larger than population or is negative"));
    };
    // A seed, usually the minion's id, must give the same result as Salt's: such templates spread jobs over time.
    if let Some(mut random) = seeded(seed)? {
        return Ok(Value::list(random.sample(&items, size)));
    }
    items.shuffle(&mut rand::rng());
    items.truncate(size);
    Ok(Value::list(items))
}

/// Returns the generator of a seed; `None` without a seed.
fn seeded(seed: &Value) -> Result<Option<Random>, Error> {
    if seed.is_none() {
        return Ok(None);
    }
    let refused = || Error::type_error("object supporting the buffer API required");
    seed.as_str().map(|seed| Some(Random::of_checksum(seed))).ok_or_else(refused)
}
