//! Which minions are connected to a member: long lists of ids, compressed.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use value::Value;

use crate::fields::{Fields, Malformed, number};

/// The length in bytes from which lists are compressed.
const COMPRESSED_FROM: usize = 1_024;

/// The maximum length of a list in bytes before it is compressed.
const MAX_LIST: usize = 16 << 20;

/// The maximum number of ids in a list.
const MOST_IDS: usize = 1_000_000;

/// Minions that are connected to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// What the list says.
    pub change: HereChange,
    /// The ids.
    pub ids: Vec<String>,
}

/// What a list of connected minions says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HereChange {
    /// These are all.
    All = 1,
    /// These came.
    Came = 2,
    /// These went.
    Went = 3,
}

impl Here {
    pub(super) fn to_fields(&self) -> Vec<Value> {
        let list = self.ids.join("\n").into_bytes();
        let (compressed, list) = match list.len() {
            0..COMPRESSED_FROM => (false, list),
            _ => (true, compress(&list)),
        };
        vec![number(self.change as u64), Value::Bool(compressed), Value::bytes(list)]
    }

    pub(super) fn read(mut fields: Fields) -> Result<Here, Malformed> {
        const WHAT: &str = "a list of connected minions";
        let change = match fields.number(WHAT)? {
            1 => HereChange::All,
            2 => HereChange::Came,
            3 => HereChange::Went,
            _ => return Err(Malformed(WHAT)),
        };
        let compressed = fields.flag(WHAT)?;
        let list = fields.bytes(WHAT, MAX_LIST)?;
        let list = if compressed { decompress(&list)? } else { list.to_vec() };
        let list = String::from_utf8(list).map_err(|_| Malformed(WHAT))?;
        if list.bytes().filter(|byte| *byte == b'\n').count() >= MOST_IDS {
            return Err(Malformed(WHAT));
        }
        let ids = if list.is_empty() { Vec::new() } else { list.split('\n').map(str::to_owned).collect() };
        Ok(Here { change, ids })
    }
}

fn compress(list: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(list).and_then(|()| encoder.finish()).expect("memory takes all that is written")
}

fn decompress(list: &Bytes) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "a compressed list";
    let mut all = Vec::new();
    // One byte more than allowed, to tell a list that is too long from one that just fits.
    ZlibDecoder::new(&list[..]).take(MAX_LIST as u64 + 1).read_to_end(&mut all).map_err(|_| Malformed(WHAT))?;
    if all.len() > MAX_LIST { Err(Malformed(WHAT)) } else { Ok(all) }
}
