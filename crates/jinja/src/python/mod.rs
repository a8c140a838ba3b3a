//! Python's operations on objects: print, compare, count, iterate, calculate.

mod access;
mod arith;
mod compare;
mod format_percent;
mod format_spec;
mod pprint;
mod print;
mod slice;
mod str_format;
pub(crate) mod text;

pub use access::{contains, iterate, len, to_vec, truthy};
pub use arith::div;
pub use compare::{CmpOp, compare, equal, less_than, sort_by_keys};
pub use pprint::pformat;
pub use print::{Quote, repr, repr_float, repr_str, str_of};
pub use slice::slice;

pub(crate) use access::{get_attr, get_item, get_item_raw, is_callable, is_iterable, is_mapping, unpack};
pub(crate) use arith::{BinOp, add, binary, modulo, mul, negate, positive, to_big};
pub(crate) use compare::{compare_numbers, ranges_equal};
pub(crate) use format_percent::percent;
pub(crate) use format_spec::format_value;
pub(crate) use print::{debug, int_text};
pub(crate) use slice::index_of;
pub(crate) use str_format::str_format;

use crate::error::{Error, ErrorKind};

/// The deepest nesting of values that is printed, compared or encoded.
// Functions that print, compare or encode recurse once per level. Python's limit depends on what else is on its stack;
// this one holds everywhere and is listed in COMPATIBILITY.md.
pub(crate) const MAX_DEPTH: u32 = 200;

pub(crate) fn too_deep() -> Error {
    Error::new(ErrorKind::Recursion, "maximum recursion depth exceeded")
}
