//! MessagePack as Salt writes and reads it.
//!
//! There are two ways to write ([`Packing`]) and three ways to read ([`Decode`]); which one is used where stands with
//! the message concerned. Reading never allocates more than the input could fill, whatever lengths it announces, and
//! stops at [`MAX_DEPTH`] nested containers.

mod decode;
mod encode;
mod ext;
mod scan;

pub use decode::{Decode, unpack, unpack_bytes, unpack_prefix};
pub use encode::{
    Packing, pack, pack_array_header, pack_bytes_header, pack_entries, pack_into, pack_map_header, pack_map_into,
};
pub use scan::Framer;

/// How many containers may be nested; Python's packer has about the same limit (511).
pub const MAX_DEPTH: usize = 512;

/// What is wrong with MessagePack bytes.
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
    /// The byte 0xc1 has no meaning.
    #[error("MessagePack data contain the reserved byte 0xc1")]
    Reserved,
    /// An extension of a known type has a content that does not fit it.
    #[error("MessagePack extension {0} is malformed")]
    Extension(i8),
    /// A document of a stream is larger than allowed.
    #[error("MessagePack value of at least {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// What the value announces or has reached, in bytes.
        size: usize,
        /// What is allowed, in bytes.
        limit: usize,
    },
}

#[cfg(test)]
mod tests;
