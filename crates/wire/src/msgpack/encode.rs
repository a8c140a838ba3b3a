//! Encodes values.

use value::{Map, Value};

use super::{MAX_DEPTH, ext};

/// The formats of text and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Text and bytes alike become the old raw family, never `str8`: everything in envelopes, loads and publications.
    Wire,
    /// Text becomes `str`, bytes become `bin`: events, IPC frames, files.
    Bin,
}

/// Returns the value as MessagePack.
pub fn pack(value: &Value, packing: Packing) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    pack_into(&mut out, value, packing);
    out
}

/// Appends the value as MessagePack.
///
/// Containers nested deeper than [`MAX_DEPTH`] are replaced by a text that says so, since no reader accepts them.
pub fn pack_into(out: &mut Vec<u8>, value: &Value, packing: Packing) {
    write(out, value, packing, MAX_DEPTH);
}

/// Appends a map as MessagePack.
pub fn pack_map_into(out: &mut Vec<u8>, map: &Map, packing: Packing) {
    write_map(out, map, packing, MAX_DEPTH);
}

/// Returns the entries as a MessagePack map, without building a [`Map`] first.
pub fn pack_entries(entries: &[(&str, &Value)], packing: Packing) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    pack_map_header(&mut out, entries.len());
    for (key, value) in entries {
        write_text(&mut out, key, packing);
        write(&mut out, value, packing, MAX_DEPTH - 1);
    }
    out
}

/// Appends the header of a map with this many key-value pairs.
pub fn pack_map_header(out: &mut Vec<u8>, entries: usize) {
    match entries {
        0..=15 => out.push(0x80 | entries as u8),
        16..=0xffff => marker16(out, 0xde, entries),
        _ => marker32(out, 0xdf, entries),
    }
}

/// Appends the header of a list with this many items.
pub fn pack_array_header(out: &mut Vec<u8>, items: usize) {
    match items {
        0..=15 => out.push(0x90 | items as u8),
        16..=0xffff => marker16(out, 0xdc, items),
        _ => marker32(out, 0xdd, items),
    }
}

/// Appends the header of a byte string with this many bytes. The caller sends the bytes themselves.
pub fn pack_bytes_header(out: &mut Vec<u8>, len: usize, packing: Packing) {
    match packing {
        Packing::Wire => text_header(out, len, packing),
        Packing::Bin => match len {
            0..=0xff => out.extend([0xc4, len as u8]),
            0x100..=0xffff => marker16(out, 0xc5, len),
            _ => marker32(out, 0xc6, len),
        },
    }
}

fn write(out: &mut Vec<u8>, value: &Value, packing: Packing, depth: usize) {
    match value {
        Value::Null => out.push(0xc0),
        Value::Bool(flag) => out.push(0xc2 | u8::from(*flag)),
        Value::Int(number) => write_int(out, *number),
        // Beyond 64 bits Salt writes the digits.
        Value::BigInt(number) => match u64::try_from(number.as_ref()) {
            Ok(number) => write_unsigned(out, number),
            Err(_) => write_text(out, &number.to_string(), packing),
        },
        // Always 64 bits: Python has no other float.
        Value::Float(number) => {
            out.push(0xcb);
            out.extend(number.to_be_bytes());
        }
        Value::Str(text) => write_text(out, text, packing),
        Value::Bytes(bytes) => {
            pack_bytes_header(out, bytes.len(), packing);
            out.extend_from_slice(bytes);
        }
        Value::List(items) => write_list(out, items, packing, depth),
        Value::Map(map) => write_map(out, map, packing, depth),
        Value::DateTime(time) => write_ext(out, ext::DATE_TIME, ext::date_time_text(time).as_bytes()),
        Value::Constant(constant) => write_constant(out, constant, packing, depth),
    }
}

/// The extension and the pair inside count as two levels of nesting, as they do for the reader.
fn write_constant(out: &mut Vec<u8>, (name, value): &(String, Value), packing: Packing, depth: usize) {
    let Some(depth) = depth.checked_sub(2) else { return write_too_deep(out, packing) };
    let mut content = Vec::new();
    pack_array_header(&mut content, 2);
    // Bin packing whatever the document has, as in Salt.
    write_text(&mut content, name, Packing::Bin);
    write(&mut content, value, Packing::Bin, depth);
    write_ext(out, ext::CONSTANT, &content);
}

fn write_list(out: &mut Vec<u8>, items: &[Value], packing: Packing, depth: usize) {
    if depth == 0 {
        return write_too_deep(out, packing);
    }
    pack_array_header(out, items.len());
    for item in items {
        write(out, item, packing, depth - 1);
    }
}

fn write_map(out: &mut Vec<u8>, map: &Map, packing: Packing, depth: usize) {
    if depth == 0 {
        return write_too_deep(out, packing);
    }
    pack_map_header(out, map.len());
    for (key, value) in map {
        write(out, key, packing, depth - 1);
        write(out, value, packing, depth - 1);
    }
}

fn write_too_deep(out: &mut Vec<u8>, packing: Packing) {
    write_text(out, "<nested too deep>", packing);
}

fn write_int(out: &mut Vec<u8>, number: i64) {
    match number {
        // Always the shortest form, like Python's packer: signatures are computed over these bytes.
        0.. => write_unsigned(out, number as u64),
        -32..=-1 => out.push(number as u8),
        -0x80..=-33 => out.extend([0xd0, number as u8]),
        -0x8000..=-0x81 => {
            out.push(0xd1);
            out.extend((number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend((number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend(number.to_be_bytes());
        }
    }
}

fn write_unsigned(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend([0xcc, number as u8]),
        0x100..=0xffff => marker16(out, 0xcd, number as usize),
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(number.to_be_bytes());
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str, packing: Packing) {
    text_header(out, text.len(), packing);
    out.extend_from_slice(text.as_bytes());
}

fn text_header(out: &mut Vec<u8>, len: usize, packing: Packing) {
    match len {
        0..=31 => out.push(0xa0 | len as u8),
        // The old raw family has no 8-bit length. Signatures are computed over packed bytes, so one `str8` would break
        // them.
        32..=0xff if packing == Packing::Bin => out.extend([0xd9, len as u8]),
        32..=0xffff => marker16(out, 0xda, len),
        _ => marker32(out, 0xdb, len),
    }
}

fn write_ext(out: &mut Vec<u8>, code: i8, content: &[u8]) {
    match content.len() {
        // Lengths with a specific marker take no length byte.
        1 => out.push(0xd4),
        2 => out.push(0xd5),
        4 => out.push(0xd6),
        8 => out.push(0xd7),
        16 => out.push(0xd8),
        len @ 0..=0xff => out.extend([0xc7, len as u8]),
        len @ 0x100..=0xffff => marker16(out, 0xc8, len),
        len => marker32(out, 0xc9, len),
    }
    out.push(code as u8);
    out.extend_from_slice(content);
}

fn marker16(out: &mut Vec<u8>, marker: u8, number: usize) {
    out.push(marker);
    out.extend((number as u16).to_be_bytes());
}

fn marker32(out: &mut Vec<u8>, marker: u8, number: usize) {
    out.push(marker);
    // A value of 4 GiB in one piece cannot be expressed; nothing in Salt comes near.
    out.extend(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes());
}
