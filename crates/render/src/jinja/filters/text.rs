//! Filters for texts: quoting, hashes, conversions.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use jinja::value::BigInt;
use jinja::{CallArgs, Error, ErrorKind, Value};
use openssl::hash::{MessageDigest, hash};

use super::{bytes_of, flag, python_str, salt_error, text};
use python::time::Local;
use python::{integer, is_space, strip};

pub fn skip(_call: &mut CallArgs) -> Result<Value, Error> {
    Ok(Value::str(""))
}

pub fn quote(call: &mut CallArgs) -> Result<Value, Error> {
    let [txt] = call.bind("quote", [("txt", None)])?;
    let text = text(&txt)?;
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "_@%+=:,./-".contains(letter);
    Ok(Value::from(match text.is_empty() || !text.chars().all(safe) {
        // Python's shlex.quote(): a quote is closed, quoted in the other kind, and opened again.
        true => format!("'{}'", text.replace('\'', "'\"'\"'")),
        false => text.to_string(),
    }))
}

pub fn uuid(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("uuid_", [("val", None)])?;
    // The namespace in Salt's code: the same input must give the same id on every minion and in Salt.
    const NAMESPACE: [u8; 16] =
        [0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e];
    let mut input = NAMESPACE.to_vec();
    input.extend_from_slice(&bytes_of(&value)?);
    let digest = digest(MessageDigest::sha1(), &input)?;
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    // Version 5 and the variant of RFC 4122.
    id[6] = id[6] & 0x0f | 0x50;
    id[8] = id[8] & 0x3f | 0x80;
    let hex = hex(&id);
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(Value::from(parts.join("-")))
}

fn digest(kind: MessageDigest, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    hash(kind, bytes).map(|digest| digest.to_vec()).map_err(|error| Error::value_error(error.to_string()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hashed(call: &mut CallArgs, name: &str, kind: MessageDigest) -> Result<Value, Error> {
    let [value] = call.bind(name, [("instr", None)])?;
    Ok(Value::from(hex(&digest(kind, &bytes_of(&value)?)?)))
}

pub fn md5(call: &mut CallArgs) -> Result<Value, Error> {
    hashed(call, "md5_digest", MessageDigest::md5())
}

pub fn sha1(call: &mut CallArgs) -> Result<Value, Error> {
    hashed(call, "sha1_digest", MessageDigest::sha1())
}

pub fn sha256(call: &mut CallArgs) -> Result<Value, Error> {
    hashed(call, "sha256_digest", MessageDigest::sha256())
}

pub fn sha512(call: &mut CallArgs) -> Result<Value, Error> {
    hashed(call, "sha512_digest", MessageDigest::sha512())
}

/// The digests of Python's `hashlib` that are always there, by name.
pub(super) fn digest_named(name: &str) -> Option<MessageDigest> {
    Some(match name {
        "md5" => MessageDigest::md5(),
        "sha1" => MessageDigest::sha1(),
        "sha224" => MessageDigest::sha224(),
        "sha256" => MessageDigest::sha256(),
        "sha384" => MessageDigest::sha384(),
        "sha512" => MessageDigest::sha512(),
        "sha3_224" => MessageDigest::sha3_224(),
        "sha3_256" => MessageDigest::sha3_256(),
        "sha3_384" => MessageDigest::sha3_384(),
        "sha3_512" => MessageDigest::sha3_512(),
        _ => MessageDigest::from_name(name)?,
    })
}

fn hmac_of(text: &Value, secret: &Value) -> Result<Vec<u8>, Error> {
    let failed = |error: openssl::error::ErrorStack| Error::value_error(error.to_string());
    let key = openssl::pkey::PKey::hmac(&bytes_of(secret)?).map_err(failed)?;
    let mut signer = openssl::sign::Signer::new(MessageDigest::sha256(), &key).map_err(failed)?;
    signer.sign_oneshot_to_vec(&bytes_of(text)?).map_err(failed)
}

pub fn hmac_compute(call: &mut CallArgs) -> Result<Value, Error> {
    let [string, secret] = call.bind("hmac_compute", [("string", None), ("shared_secret", None)])?;
    Ok(Value::from(hex(&hmac_of(&string, &secret)?)))
}

pub fn hmac(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("string", None), ("shared_secret", None), ("challenge_hmac", None)];
    let [string, secret, challenge] = call.bind("hmac_signature", params)?;
    let valid = STANDARD.encode(hmac_of(&string, &secret)?);
    // As in Salt, not in constant time: the template's author chooses all three inputs.
    Ok(Value::Bool(valid.as_bytes() == &*bytes_of(&challenge)?))
}

pub fn base64_encode(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("base64_b64encode", [("instr", None)])?;
    Ok(Value::from(STANDARD.encode(bytes_of(&value)?)))
}

pub fn base64_decode(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("base64_b64decode", [("instr", None)])?;
    // Python passes over letters that do not belong to the alphabet.
    let letters: Vec<u8> = bytes_of(&value)?
        .iter()
        .copied()
        .filter(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
        .collect();
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let decoded = GeneralPurpose::new(&alphabet::STANDARD, config)
        .decode(letters)
        .map_err(|_| Error::other("Error", "Incorrect padding"))?;
    Ok(match String::from_utf8(decoded) {
        Ok(text) => Value::from(text),
        Err(binary) => Value::Bytes(binary.into_bytes().into()),
    })
}

pub fn to_bool(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("to_bool", [("val", None)])?;
    Ok(Value::Bool(match &value {
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number > 0,
        Value::Big(number) => **number > BigInt::from(0),
        Value::List(_) | Value::Dict(_) | Value::Set(_) => jinja::python::len(call.state, &value)? > 0,
        other => other.as_str().is_some_and(|text| matches!(text.to_lowercase().as_str(), "yes" | "1" | "true")),
    }))
}

fn float(text: &str) -> Option<f64> {
    let text = strip(text);
    let bare = text.trim_start_matches(['-', '+']);
    let word = matches!(bare.to_lowercase().as_str(), "inf" | "infinity" | "nan");
    let digits = bare.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let separated = text.contains('_') && !text.contains("__") && !text.starts_with('_') && !text.ends_with('_');
    match (word || digits, separated) {
        (true, true) => text.replace('_', "").parse().ok(),
        (true, false) => text.parse().ok(),
        (false, _) => None,
    }
}

pub fn to_num(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("to_num", [("text", None)])?;
    Ok(match &value {
        // Salt tries `int()` first, which cuts a float.
        Value::Float(number) if number.is_finite() => Value::Int(number.trunc() as i64),
        Value::Bool(flag) => Value::Int(i64::from(*flag)),
        Value::Int(_) | Value::Big(_) => value,
        other => match other.as_str() {
            Some(text) => match integer(text, 10) {
                Some(number) => Value::int(number),
                None => float(text).map_or(value.clone(), Value::Float),
            },
            None => {
                let text = "int() argument must be a string, a bytes-like object or a real number, not";
                return Err(Error::type_error(format!("{text} '{}'", value.type_name())));
            }
        },
    })
}

pub fn is_hex(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("is_hex", [("value", None)])?;
    Ok(Value::Bool(value.as_str().is_some_and(|text| integer(text, 16).is_some())))
}

pub fn contains_whitespace(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("contains_whitespace", [("text", None)])?;
    Ok(Value::Bool(text(&value)?.chars().any(is_space)))
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    first + &letters.as_str().to_lowercase()
}

pub fn to_camelcase(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("snake_input", None), ("uppercamel", Some(Value::Bool(false)))];
    let [value, upper] = call.bind("snake_to_camel_case", params)?;
    let text = text(&value)?;
    let mut words = text.split('_');
    let first = words.next().unwrap_or_default();
    let mut out = if flag(call.state, &upper)? { capitalized(first) } else { first.to_owned() };
    words.for_each(|word| out.push_str(&capitalized(word)));
    Ok(Value::from(out))
}

pub fn to_snake_case(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("camel_to_snake_case", [("camel_input", None)])?;
    let letters: Vec<char> = text(&value)?.chars().collect();
    if letters.is_empty() {
        return Err(Error::new(ErrorKind::Index, "string index out of range"));
    }
    let mut out: String = letters[0].to_lowercase().collect();
    for (at, letter) in letters.iter().enumerate().skip(1) {
        // The last capital of a run begins the next word: `HTTPServer` is `http_server`.
        let behind = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (letters[at - 1].is_lowercase() || behind) {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    Ok(Value::from(out))
}

pub fn human_to_bytes(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("size", None), ("default_unit", Some(Value::str("B"))), ("handle_metric", Some(Value::Bool(false)))];
    let [size, default_unit, metric] = call.bind("human_to_bytes", params)?;
    let metric = flag(call.state, &metric)?;
    let size = python_str(call.state, &size)?;
    let size = strip(&size);
    let digits = size.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(size.len());
    let unit = size[digits..].trim_start_matches(is_space).to_lowercase();
    let unit = if unit.is_empty() { text(&default_unit)?.to_lowercase() } else { unit };
    let number = &size[..digits];
    let power = match unit.chars().next().and_then(|first| "bkmgtpezy".find(first)) {
        Some(power) => power as u32,
        None => return Ok(Value::Int(0)),
    };
    // `MB` is a power of two unless `handle_metric` is set; `MiB` always is.
    let decimal = match &unit[1..] {
        "b" if power > 0 => metric,
        "" => false,
        "ib" if power > 0 => false,
        _ => return Ok(Value::Int(0)),
    };
    let factor = if decimal { BigInt::from(10).pow(power * 3) } else { BigInt::from(2).pow(power * 10) };
    if let Ok(whole) = number.parse::<BigInt>() {
        return Ok(Value::int(whole * factor));
    }
    let Ok(fraction) = number.parse::<f64>() else { return Ok(Value::Int(0)) };
    let factor = factor.to_string().parse::<f64>().unwrap_or(f64::INFINITY);
    // Anything a disk may hold fits; beyond that the digits come from the float's text.
    let product = (fraction * factor).trunc();
    match product.abs() < 9e18 {
        true => Ok(Value::Int(product as i64)),
        false => Ok(BigInt::parse_bytes(format!("{product:.0}").as_bytes(), 10).map_or(Value::Int(0), Value::int)),
    }
}

pub fn to_bytes(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("s", None), ("encoding", Some(Value::None)), ("errors", Some(Value::str("strict")))];
    let [value, encoding, _errors] = call.bind("to_bytes", params)?;
    if let Value::Bytes(_) = value {
        return Ok(value);
    }
    let Some(text) = value.as_str() else {
        let class = super::class(&value);
        return Err(Error::type_error(format!("expected str, bytes, or bytearray not {class}")));
    };
    match encoding.as_str().map(|name| name.to_lowercase().replace('_', "-")).as_deref() {
        None | Some("utf-8" | "utf8") => Ok(Value::Bytes(text.as_bytes().into())),
        Some("ascii" | "us-ascii") if text.is_ascii() => Ok(Value::Bytes(text.as_bytes().into())),
        Some("latin-1" | "latin1" | "iso-8859-1") if text.chars().all(|letter| (letter as u32) < 256) => {
            Ok(Value::Bytes(text.chars().map(|letter| letter as u8).collect()))
        }
        Some(other) => Err(salt_error("SaltRenderError", format!("not supported: to_bytes with encoding '{other}'"))),
    }
}

pub fn check_whitelist_blacklist(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("value", None), ("whitelist", Some(Value::None)), ("blacklist", Some(Value::None))];
    let [value, white, black] = call.bind("check_whitelist_blacklist", params)?;
    let white = expressions(call, &white, "whitelist")?;
    let black = expressions(call, &black, "blacklist")?;
    let value = python_str(call.state, &value)?;
    let matches = |list: &[String]| list.iter().any(|expression| matches(&value, expression));
    Ok(Value::Bool(match (white.is_empty(), black.is_empty()) {
        (true, true) => true,
        (true, false) => !matches(&black),
        (false, true) => matches(&white),
        (false, false) => !matches(&black) && matches(&white),
    }))
}

fn expressions(call: &mut CallArgs, list: &Value, name: &str) -> Result<Vec<String>, Error> {
    if !flag(call.state, list)? {
        return Ok(Vec::new());
    }
    if let Some(text) = list.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    let Ok(items) = jinja::python::to_vec(call.state, list) else {
        let python_str = python_str(call.state, list)?;
        let class = list.type_name();
        return Err(Error::type_error(format!("Expecting iterable {name}, but got {class} ({python_str})")));
    };
    items.iter().map(|item| python_str(call.state, item)).collect()
}

/// Compares with a glob, or else with a pattern for the whole text.
fn matches(value: &str, expression: &str) -> bool {
    targeting::Glob::new(expression).matches(value)
        || targeting::PyRegex::whole(expression).is_ok_and(|regex| regex.is_match(value))
}

pub fn mac_str_to_bytes(call: &mut CallArgs) -> Result<Value, Error> {
    let [value] = call.bind("mac_str_to_bytes", [("mac_str", None)])?;
    let text = text(&value)?;
    let letters: Vec<char> = text.chars().collect();
    let digits: String = match letters.len() {
        12 => text.to_string(),
        // Salt takes the third character for the separator, whichever it is.
        17 => letters.iter().filter(|letter| **letter != letters[2]).collect(),
        _ => return Err(Error::value_error("Invalid MAC address")),
    };
    let pairs: Vec<char> = digits.chars().collect();
    let bytes: Option<Vec<u8>> =
        pairs.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok()).collect();
    let bad = || Error::value_error(format!("invalid literal for int() with base 16: '{digits}'"));
    bytes.filter(|bytes| bytes.len() == 6).map(|bytes| Value::Bytes(bytes.into())).ok_or_else(bad)
}

pub fn strftime(call: &mut CallArgs) -> Result<Value, Error> {
    let params = [("date", Some(Value::None)), ("format", Some(Value::str("%Y-%m-%d")))];
    let [date, format] = call.bind("strftime", params)?;
    let format = text(&format)?;
    let time = match &date {
        Value::None => Local::now(),
        Value::Int(number) => Local::at(*number as f64),
        Value::Float(number) => Local::at(*number),
        Value::Bool(flag) => Local::at(f64::from(u8::from(*flag))),
        other => other.as_str().and_then(|text| Local::read(text).or_else(|| Local::at(float(text)?))),
    };
    let Some(time) = time else {
        return Err(Error::value_error(format!("Unable to parse {}", python_str(call.state, &date)?)));
    };
    Ok(Value::from(time.format(&format)))
}
