//! Serial numbers.

use exec::{Error, Result};
use openssl::rand::rand_bytes;
use value::Value;

/// Reads a serial number: a number, or hexadecimal digits with or without colons. Without one, a random one of 159 bits.
///
/// # Errors
/// The value is not a serial number.
pub fn from_value(value: Option<&Value>) -> Result<Vec<u8>> {
    let unreadable = |value: &Value| Error::execution(format!("Could not parse serial number {value}"));
    match value {
        None | Some(Value::Null) => random(),
        Some(Value::Int(number)) => match u64::try_from(*number) {
            Ok(number) => Ok(number.to_be_bytes().to_vec()),
            Err(_) => Err(Error::Other("Negative integers are not supported".into())),
        },
        // Larger numbers of either sign begin with the byte of their sign.
        Some(Value::BigInt(number)) => match number.to_signed_bytes_be() {
            bytes if bytes.first().is_some_and(|first| first & 0x80 == 0) => Ok(bytes),
            _ => Err(Error::Other("Negative integers are not supported".into())),
        },
        Some(Value::Bytes(bytes)) => Ok(bytes.to_vec()),
        Some(value @ Value::Str(text)) => {
            let digits: String = text.replace(':', "").split_ascii_whitespace().collect();
            hex::decode(digits).map_err(|_| unreadable(value))
        }
        Some(other) => Err(unreadable(other)),
    }
}

fn random() -> Result<Vec<u8>> {
    let mut bytes = vec![0; 20];
    rand_bytes(&mut bytes).map_err(|error| Error::execution(format!("failed to get random bytes: {error}")))?;
    bytes[0] &= 0x7f;
    Ok(bytes)
}
