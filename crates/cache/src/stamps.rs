//! The times at which values were written.

use crate::banks::Failure;

/// Returns a time as Salt stores it.
pub(crate) fn packed(now: i64) -> Vec<u8> {
    wire::msgpack::pack(&value::Value::Int(now), wire::msgpack::Packing::Wire)
}

/// Reads a time as Salt stores it. Anything else counts as no time.
pub(crate) fn unpacked(stamp: Option<Vec<u8>>) -> Option<i64> {
    wire::msgpack::unpack(&stamp?, wire::msgpack::Decode::Default).ok()?.as_i64()
}

/// Refuses the key of a value that would be in the place of another value's time.
pub(crate) fn refuse(key: &str, suffix: &str) -> Result<(), Failure> {
    match key.ends_with(suffix) {
        true => Err(Failure::new(format!("the key {key:?} ends like those of times ({suffix})"))),
        false => Ok(()),
    }
}
