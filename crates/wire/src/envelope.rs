//! The envelope around every request: `enc`, `load`, `version`, and what newer releases add.

use bytes::Bytes;
use value::{Map, Value};

use crate::msgpack::{self, Decode, Packing, extent, fields, most_values, unpack_within};

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
    /// The command, encrypted by Crypticle.
    pub load: Bytes,
    /// From 3 on: sealed with the session key of `id`. Lower: sealed with the master's AES key.
    pub version: i64,
    /// The id that the sender claims, from version 3 on. Unchecked.
    pub id: Option<Value>,
    /// The algorithm for encryption to the sender, for instance `OAEP-SHA1`; missing from older releases.
    pub enc_algo: Option<String>,
    /// The algorithm for signatures to the sender, for instance `PKCS1v15-SHA1`; missing from older releases.
    pub sig_algo: Option<String>,
}

/// An error: the bytes are not an envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The MessagePack is broken.
    #[error(transparent)]
    Msgpack(#[from] msgpack::Error),
    /// The document is not a map, or has no `enc` or no `load`.
    #[error("request is not a map with enc and load")]
    Shape,
    /// `enc` is neither `clear` nor `aes`.
    #[error("request has the unknown encoding {0:?}")]
    UnknownEncoding(String),
    /// The load of a clear request is not a map.
    #[error("load of a clear request is a {0}, not a map")]
    LoadNotMap(&'static str),
    /// A clear request is larger than its sender may send.
    #[error("clear request of {size} bytes exceeds the {limit} bytes that another host may send")]
    TooLarge {
        /// The length of the whole request in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
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
        Outline::read(input, most_values(input.len()))?.open()
    }

    /// Reads an envelope from a decoded value (the body of a tcp frame).
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let Value::Map(mut map) = value else { return Err(Error::Shape) };
        // A missing version is read as 0, as Salt does, and left to `minimum_auth_version`.
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
                // Missing and not `None`: older releases do not have these fields, and recorded requests must be
                // written byte by byte.
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

/// The maximum number of values in a clear request from another host. Such requests are sign-ins, with grains at most,
/// and pings.
pub const MOST_FOREIGN_VALUES: usize = 16 << 10;

/// The longest clear request from another host, in bytes.
///
/// Clear commands from elsewhere are `_auth` and `ping`. `salt`, `salt-run`, salt-api and syndics use the master's key file and
/// its event socket, so they run on its host.
pub const MOST_FOREIGN_BYTES: usize = 1 << 20;

/// The limits of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerBounds {
    /// Its length in bytes.
    pub bytes: usize,
    /// The values it may hold before anything sealed in it is opened.
    pub values: usize,
}

impl Envelope {
    /// Returns the bounds of the answer. The answer to a sign-in comes from a peer that has proved nothing, the answer
    /// to a sealed request is sealed itself, and all others come from a master on this host.
    pub fn answer_bounds(&self, limit: usize) -> AnswerBounds {
        match self {
            Envelope::Clear(clear) if clear.load.get_str("cmd") == Some("_auth") => {
                AnswerBounds { bytes: limit.min(MOST_FOREIGN_BYTES), values: MOST_FOREIGN_VALUES }
            }
            Envelope::Sealed(_) => AnswerBounds { bytes: limit, values: MOST_FOREIGN_VALUES },
            Envelope::Clear(_) => AnswerBounds { bytes: limit, values: most_values(limit) },
        }
    }
}

/// A request whose load has not been decoded.
#[derive(Clone, Debug)]
pub struct Outline {
    enc: Enc,
    load: Bytes,
    values: usize,
    most: usize,
    version: i64,
    id: Option<Value>,
    enc_algo: Option<String>,
    sig_algo: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enc {
    Clear,
    Sealed,
}

impl Outline {
    /// Finds the fields of an envelope with at most `most` values. The load is not decoded.
    ///
    /// # Errors
    /// If the bytes are not an envelope, or hold more values.
    pub fn read(input: &Bytes, most: usize) -> Result<Self, Error> {
        // Other fields are skipped undecoded, so a stranger cannot make them expensive.
        let names = ["enc", "load", "version", "id", "enc_algo", "sig_algo"];
        let found = fields(input, names, most)?.ok_or(Error::Shape)?;
        let [enc, Some((load, values)), version, id, enc_algo, sig_algo] = found else { return Err(Error::Shape) };
        // All of them are short; more would be decoded for nothing.
        let small = |field: Option<(Bytes, usize)>| {
            field.map(|(packed, _)| unpack_within(&packed, Decode::Default, MOST_FIELD_VALUES)).transpose()
        };
        let enc = match small(enc)?.ok_or(Error::Shape)? {
            Value::Str(name) if name == "clear" => Enc::Clear,
            Value::Str(name) if name == "aes" => Enc::Sealed,
            other => return Err(Error::UnknownEncoding(clip(other.to_string()))),
        };
        let text = |field| Ok::<_, Error>(small(field)?.and_then(Value::into_string));
        Ok(Outline {
            enc,
            load,
            values,
            most,
            version: small(version)?.as_ref().map_or(0, self::version),
            id: small(id)?,
            enc_algo: text(enc_algo)?,
            sig_algo: text(sig_algo)?,
        })
    }

    /// Returns whether the load is sealed. Opening a sealed load decodes nothing.
    pub fn is_sealed(&self) -> bool {
        self.enc == Enc::Sealed
    }

    /// Returns roughly how many bytes of memory the opened request takes in addition to its own bytes.
    pub fn cost(&self) -> usize {
        self.values.saturating_mul(msgpack::VALUE_COST)
    }

    /// Decodes the load of a clear request.
    ///
    /// # Errors
    /// If the load is not what the encoding says.
    pub fn open(self) -> Result<Envelope, Error> {
        let Outline { enc, load, most, version, id, enc_algo, sig_algo, .. } = self;
        match enc {
            Enc::Clear => match unpack_within(&load, Decode::Default, most)? {
                Value::Map(load) => Ok(Envelope::Clear(Clear { load, version })),
                other => Err(Error::LoadNotMap(other.type_name())),
            },
            Enc::Sealed => {
                // Bytes are one value; of anything else a little is enough to name it.
                let load = match unpack_within(&load, Decode::Default, 1) {
                    Err(msgpack::Error::TooManyValues(_)) => return Err(Error::LoadNotBytes(container(&load))),
                    load => bytes(load?)?,
                };
                Ok(Envelope::Sealed(Sealed { load, version, id, enc_algo, sig_algo }))
            }
        }
    }
}

/// The most values in a field of an envelope beside its load.
const MOST_FIELD_VALUES: usize = 64;

fn container(packed: &[u8]) -> &'static str {
    // Python's names of the types, because the error is shown to operators who know Salt's messages.
    if matches!(packed.first(), Some(0x80..=0x8f | 0xde | 0xdf)) { "dict" } else { "list" }
}

/// The kind of a request, judged by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A sealed request; its load has this many bytes.
    Sealed(usize),
    /// No map, so no request.
    Garbage,
    /// Another request, or one with its fields in an unusual order.
    Other,
    /// More bytes are needed.
    Short,
}

/// The number of bytes that suffice for that: the header of a map, `enc` and its value, `load` and its header.
const ENOUGH: usize = 64;

/// Judges a request by its first bytes. All releases write `enc` first and `load` next.
pub fn start(input: &[u8]) -> Start {
    match sealed_start(input) {
        Some(found) => found,
        None if input.len() < ENOUGH => Start::Short,
        None => Start::Other,
    }
}

/// `None` when the bytes end too early.
fn sealed_start(input: &[u8]) -> Option<Start> {
    let mut rest = match input.first()? {
        0x80..=0x8f => &input[1..],
        0xde => input.get(3..)?,
        // A map with a 32-bit length has more entries than any request.
        0xdf => return Some(Start::Other),
        _ => return Some(Start::Garbage),
    };
    for expected in ["enc", "aes", "load"] {
        let extent = match extent(rest, 1) {
            Err(msgpack::Error::Truncated) => return None,
            Err(_) => return Some(Start::Other),
            Ok(extent) => extent,
        };
        let (word, after) = rest.split_at(extent.len);
        // Up to five bytes of header precede the word: any form that a packer may choose for it is fine.
        if !word.ends_with(expected.as_bytes()) || word.len() > expected.len() + 5 {
            return Some(Start::Other);
        }
        rest = after;
    }
    let width = match rest.first()? {
        // Raw or binary: Salt writes raw, but a load in the newer family is valid too.
        0xa0..=0xbf => return Some(Start::Sealed(usize::from(rest[0] & 0x1f))),
        0xc4 | 0xd9 => 1,
        0xc5 | 0xda => 2,
        0xc6 | 0xdb => 4,
        _ => return Some(Start::Other),
    };
    let len = rest.get(1..=width)?;
    Some(Start::Sealed(len.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))))
}

/// Salt applies Python's `int()`: numbers and their decimal texts count, anything else is 0.
fn version(value: &Value) -> i64 {
    match value {
        // `as` saturates and turns NaN into 0, so no stranger's float can panic here.
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
    fn the_load_of_an_outline_is_not_decoded() {
        let clear = |load: &[u8]| Bytes::from([b"\x83\xa3enc\xa5clear\xa4load", load, b"\xa7version\x03"].concat());
        let many = [&[0x81, 0xa1, b'x', 0xdc, 0x27, 0x10][..], &[1; 10_000]].concat();
        let outline = Outline::read(&clear(&many), 20_000).unwrap();
        assert!(!outline.is_sealed() && outline.cost() > 10_000 * 32);
        assert!(outline.open().is_ok());
        let refused = Outline::read(&clear(&many), 9_000).unwrap_err();
        assert!(matches!(refused, Error::Msgpack(msgpack::Error::TooManyValues(_))));
        // Fields that no message uses are skipped, and none of them may be large.
        let odd = Bytes::from([b"\x83\xa3enc\x91\xa3aes\xa4load\xa1x\xa2id\xdc\x27\x10", &[1; 10_000][..]].concat());
        assert!(matches!(Outline::read(&odd, 20_000), Err(Error::UnknownEncoding(_))));
        // Even the type of a wrong load is named without decoding it.
        let list = Envelope::decode(&Bytes::from_static(b"\x82\xa3enc\xa3aes\xa4load\x91\x01"));
        assert_eq!(list, Err(Error::LoadNotBytes("list")));
    }

    #[test]
    fn the_answer_to_a_sign_in_is_short() {
        let limit = 1 << 30;
        let of = |envelope: Envelope| envelope.answer_bounds(limit);
        let sign_in = of(Envelope::clear(map! { "cmd" => "_auth" }));
        assert_eq!(sign_in, AnswerBounds { bytes: MOST_FOREIGN_BYTES, values: MOST_FOREIGN_VALUES });
        assert_eq!(of(Envelope::clear(map! { "cmd" => "publish" })).bytes, limit);
        let sealed = Sealed { load: Bytes::new(), version: 3, id: None, enc_algo: None, sig_algo: None };
        assert_eq!(of(Envelope::Sealed(sealed)), AnswerBounds { bytes: limit, values: MOST_FOREIGN_VALUES });
    }

    #[test]
    fn the_first_bytes_tell_whether_a_request_is_sealed() {
        for name in ["v3", "v2"] {
            let recorded = testing::bytes(&testing::vectors("request")[name]["request_wire_hex"]);
            let Envelope::Sealed(sealed) = Envelope::decode(&recorded).unwrap() else { panic!("sealed") };
            assert_eq!(start(&recorded), Start::Sealed(sealed.load.len()), "{name}");
            assert_eq!(start(&recorded[..10]), Start::Short);
        }
        let clear = Envelope::clear(map! { "cmd" => "ping" }).encode();
        assert_eq!(start(&clear), Start::Other);
        assert_eq!(start(&[0xdd; 5]), Start::Garbage);
        assert_eq!(start(&[0x83, 0xa3, b'e', b'n', b'c', 0xdb, 0, 1, 0, 0]), Start::Short);
    }

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
