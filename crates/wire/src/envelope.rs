//! The envelope around every request: `enc`, `load`, `version`, and what newer releases add.

use bytes::Bytes;
use value::{Map, Value};

use crate::msgpack::{self, Decode, Packing};

/// The envelope version all current releases write.
pub const CURRENT_VERSION: i64 = 3;

/// A request as it travels.
#[derive(Clone, Debug, PartialEq)]
pub enum Envelope {
    /// The load can be read by anybody: sign-in, `ping`, and the commands of local users.
    Clear(Clear),
    /// The load is sealed with a key that depends on the version.
    Sealed(Sealed),
}

/// An envelope with a readable load.
#[derive(Clone, Debug, PartialEq)]
pub struct Clear {
    /// The command with its fields.
    pub load: Map,
    /// The envelope version; 0 when missing or unreadable, which most masters refuse.
    pub version: i64,
}

/// An envelope with a sealed load.
#[derive(Clone, Debug, PartialEq)]
pub struct Sealed {
    /// What Crypticle made of the command.
    pub load: Bytes,
    /// 3: sealed with the session key of `id`. Lower: sealed with the master's AES key.
    pub version: i64,
    /// Who claims to send it; from version 3 on. Unchecked.
    pub id: Option<Value>,
    /// How to encrypt to the sender, for instance `OAEP-SHA1`; missing from older releases.
    pub enc_algo: Option<String>,
    /// How to sign for the sender, for instance `PKCS1v15-SHA1`; missing from older releases.
    pub sig_algo: Option<String>,
}

/// Bytes that are no envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The MessagePack is broken.
    #[error(transparent)]
    Msgpack(#[from] msgpack::Error),
    /// The document is no map, or has no `enc` or no `load`.
    #[error("request is not a map with enc and load")]
    Shape,
    /// `enc` is neither `clear` nor `aes`.
    #[error("request has the unknown encoding {0:?}")]
    UnknownEncoding(String),
    /// The load of a clear request is no map.
    #[error("load of a clear request is a {0}, not a map")]
    LoadNotMap(&'static str),
    /// The load of a sealed request is not bytes.
    #[error("load of a sealed request is a {0}, not bytes")]
    LoadNotBytes(&'static str),
}

impl Envelope {
    /// Returns a clear envelope of the current version.
    pub fn clear(load: Map) -> Self {
        Envelope::Clear(Clear { load, version: CURRENT_VERSION })
    }

    /// Returns the version, whatever the form.
    pub fn version(&self) -> i64 {
        match self {
            Envelope::Clear(clear) => clear.version,
            Envelope::Sealed(sealed) => sealed.version,
        }
    }

    /// Reads an envelope from MessagePack bytes (zeromq).
    pub fn decode(input: &Bytes) -> Result<Self, Error> {
        Self::from_value(msgpack::unpack_bytes(input, Decode::Default)?)
    }

    /// Reads an envelope from a decoded value (the body of a tcp frame).
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let Value::Map(mut map) = value else { return Err(Error::Shape) };
        let (Some(enc), Some(load)) = (map.remove("enc"), map.remove("load")) else { return Err(Error::Shape) };
        let version = map.get("version").map_or(0, version);
        match enc.as_str() {
            Some("clear") => match load {
                Value::Map(load) => Ok(Envelope::Clear(Clear { load, version })),
                other => Err(Error::LoadNotMap(other.type_name())),
            },
            Some("aes") => Ok(Envelope::Sealed(Sealed {
                load: bytes(load)?,
                version,
                id: map.remove("id"),
                enc_algo: map.remove("enc_algo").and_then(Value::into_string),
                sig_algo: map.remove("sig_algo").and_then(Value::into_string),
            })),
            _ => Err(Error::UnknownEncoding(clip(enc.to_string()))),
        }
    }

    /// Returns the envelope as a value, fields in Salt's order.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        match self {
            Envelope::Clear(clear) => {
                map.insert("enc", "clear");
                map.insert("load", clear.load.clone());
                map.insert("version", clear.version);
            }
            Envelope::Sealed(sealed) => {
                map.insert("enc", "aes");
                map.insert("load", sealed.load.clone());
                map.insert("version", sealed.version);
                let optional = [
                    ("id", sealed.id.clone()),
                    ("enc_algo", sealed.enc_algo.as_ref().map(Value::from)),
                    ("sig_algo", sealed.sig_algo.as_ref().map(Value::from)),
                ];
                map.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
            }
        }
        map.into()
    }

    /// Returns the envelope as MessagePack bytes (zeromq).
    pub fn encode(&self) -> Bytes {
        msgpack::pack(&self.to_value(), Packing::Wire).into()
    }
}

/// Salt applies Python's `int()`: numbers and their decimal texts count, anything else is 0.
fn version(value: &Value) -> i64 {
    match value {
        Value::Float(number) => *number as i64,
        Value::Str(text) => text.trim().parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

/// Sealed bytes that happen to be valid UTF-8 have been read as text.
fn bytes(load: Value) -> Result<Bytes, Error> {
    match load {
        Value::Bytes(bytes) => Ok(*bytes),
        Value::Str(text) => Ok(text.into()),
        other => Err(Error::LoadNotBytes(other.type_name())),
    }
}

fn clip(text: String) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use value::map;

    #[test]
    fn request_vectors() {
        let all = testing::vectors("request");
        for (name, version) in [("v3", 3), ("v2", 2)] {
            let recorded = testing::bytes(&all[name]["request_wire_hex"]);
            let envelope = Envelope::decode(&recorded).unwrap();
            assert_eq!(envelope.encode(), recorded);
            let Envelope::Sealed(sealed) = envelope else { panic!("sealed") };
            assert_eq!((sealed.version, sealed.id.is_some()), (version, version == 3));
        }
    }

    #[test]
    fn sign_in_vectors() {
        for request in testing::vectors("signin")["requests"].as_array().unwrap() {
            let recorded = testing::bytes(&request["wire_hex"]);
            let envelope = Envelope::decode(&recorded).unwrap();
            assert_eq!(envelope.version(), request["version"].as_i64().unwrap());
            assert_eq!(envelope.encode(), recorded);
        }
    }

    #[test]
    fn versions_are_read_as_python_reads_them() {
        for (given, read) in [(Value::from("3"), 3), (Value::from(2.9), 2), (Value::from("x"), 0), (Value::Null, 0)] {
            let value = map! { "enc" => "clear", "load" => map! {}, "version" => given };
            assert_eq!(Envelope::from_value(value.into()).unwrap().version(), read);
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        for (value, error) in [
            (Value::Int(1), Error::Shape),
            (map! { "enc" => "clear" }.into(), Error::Shape),
            (map! { "enc" => "rot13", "load" => 1 }.into(), Error::UnknownEncoding("rot13".into())),
            (map! { "enc" => "clear", "load" => 1 }.into(), Error::LoadNotMap("int")),
            (map! { "enc" => "aes", "load" => map! {} }.into(), Error::LoadNotBytes("dict")),
        ] {
            assert_eq!(Envelope::from_value(value), Err(error));
        }
    }
}
