//! JSON from strangers.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use value::{Map, Value};

/// Parses JSON. Refuses what does not survive: names that occur twice, and numbers that do not fit in 64 bits. The depth is
/// bounded by the parser.
///
/// # Errors
/// When the text is not acceptable JSON.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    check_integers(bytes)?;
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Checks the integers of a document, which the parser reads as floats if they are too large.
fn check_integers(bytes: &[u8]) -> Result<(), serde_json::Error> {
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        rest = match first {
            b'"' => after_string(after),
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(end);
                let is_integer = !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
                let text = std::str::from_utf8(number).unwrap_or_default();
                if is_integer && text.parse::<i64>().is_err() && text.parse::<u64>().is_err() {
                    return Err(serde_json::Error::custom("number out of range"));
                }
                after
            }
            _ => after,
        };
    }
    Ok(())
}

/// Returns what follows a string, whose opening quote has been read.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some((&first, after)) = rest.split_first() {
        rest = match first {
            b'"' => return after,
            b'\\' => after.get(1..).unwrap_or_default(),
            _ => after,
        };
    }
    rest
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Strict)?;
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn documents_are_read_in_order() {
        let value = parse(br#" {"b": [1, -2, 2.5, null, true, "\u00fc\ud83d\ude00"], "a": {}} "#).unwrap();
        let expected = map! { "b" => list![1, -2, 2.5, Value::Null, true, "ü😀"], "a" => map! {} };
        assert_eq!(value, expected.into());
        for (text, expected) in [
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-1e30", "-1e+30"),
            ("\"\\\\\\\" -9223372036854775809\"", "\\\" -9223372036854775809"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = [&b"["[..]; 1].concat().repeat(100_000);
        let deep_maps = b"{\"a\":".repeat(100_000);
        let bad: [&[u8]; 17] = [
            b"",
            b"{nope",
            b"[1] 2",
            b"{\"a\": 1, \"a\": 2}",
            b"[{\"a\": {\"b\": 1, \"b\": 1}}]",
            b"1e400",
            b"-1e400",
            b"100000000000000000000000000000",
            b"18446744073709551616",
            b"-9223372036854775809",
            b"[\"\\\"\", -9223372036854775809]",
            b"NaN",
            b"\"\\ud800\"",
            b"\"\xff\"",
            b"\"a\nb\"",
            &deep,
            &deep_maps,
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{:?}", String::from_utf8_lossy(&text[..text.len().min(40)]));
        }
    }
}
