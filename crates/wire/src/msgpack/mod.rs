//! MessagePack as Salt writes and reads it.
//!
//! There are two ways to write ([`Packing`]) and three ways to read ([`Decode`]); each message says which one it uses.
//! Reading stops at [`MAX_DEPTH`] nested containers and at a number of values ([`most_values`]): one byte of input can
//! become 64 bytes of memory, so the length of a document alone does not bound its cost. No memory is reserved for
//! announced items before they are counted.

mod decode;
mod encode;
mod ext;
mod scan;

pub use decode::{Decode, unpack, unpack_bytes, unpack_entries, unpack_prefix, unpack_within};
pub use encode::{
    Packing, pack, pack_array_header, pack_bytes_header, pack_entries, pack_into, pack_map_header, pack_map_into,
};
pub use scan::{Extent, Fields, Framer, extent, fields};

/// The maximum number of nested containers. Python's packer has about the same limit (511).
pub const MAX_DEPTH: usize = 512;

/// Roughly how many bytes of memory one decoded value takes, without its content.
pub const VALUE_COST: usize = 64;

/// Returns the maximum number of values in a document of `len` bytes.
///
/// A million, plus one for every eight bytes; no honest document has nearly as many. The largest in use, the returns of
/// a thousand state runs that a syndic forwards in one request, have 15 to 20 bytes per value.
pub fn most_values(len: usize) -> usize {
    (1_usize << 20).saturating_add(len / 8).min(8 << 20)
}

/// An error in MessagePack bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end within a value.
    #[error("MessagePack data end in the middle of a value")]
    Truncated,
    /// Bytes follow the value.
    #[error("{0} bytes follow the MessagePack value")]
    Trailing(usize),
    /// Containers are nested deeper than [`MAX_DEPTH`].
    #[error("MessagePack containers are nested more than {MAX_DEPTH} deep")]
    TooDeep,
    /// The document holds more values than it may.
    #[error("MessagePack data hold more than {0} values")]
    TooManyValues(usize),
    /// The byte 0xc1 has no meaning.
    #[error("MessagePack data contain the reserved byte 0xc1")]
    Reserved,
    /// An extension of a known type has an invalid content.
    #[error("MessagePack extension {0} is malformed")]
    Extension(i8),
    /// A document of a stream is larger than allowed.
    #[error("MessagePack value of at least {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The announced or reached size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

#[cfg(test)]
mod tests;
