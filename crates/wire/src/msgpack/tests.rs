use bytes::{Bytes, BytesMut};
use value::{Map, Value};

use super::*;
use crate::testing::{Random, bytes, integer, vectors};

/// The Python expression of a vector as a value, as far as the decoded form shows it.
fn repr(value: &Value) -> String {
    match value {
        Value::Constant(_) => "_Constant".into(),
        other => value::python::repr(other),
    }
}

#[test]
fn vectors_decode_in_every_mode() {
    for case in vectors("msgpack")["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        for (hex, mode, expected) in [
            ("wire_hex", Decode::Default, "wire_decoded_default"),
            ("wire_hex", Decode::Raw, "wire_decoded_raw"),
            ("file_or_event_hex", Decode::Utf8, "event_decoded_utf8"),
        ] {
            let input = bytes(&case[hex]);
            let expected = case[expected].as_str().unwrap();
            assert_eq!(repr(&unpack(&input, mode).unwrap()), expected, "{name} {mode:?}");
            assert_eq!(repr(&unpack_bytes(&input, mode).unwrap()), expected, "{name} {mode:?} shared");
        }
    }
}

#[test]
fn vectors_encode_in_both_packings() {
    for case in vectors("msgpack")["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let recorded = bytes(&case["file_or_event_hex"]);
        let value = match name {
            "int_2^64_becomes_string" => integer(case["python"].as_str().unwrap()),
            _ => unpack(&recorded, Decode::Utf8).unwrap(),
        };
        assert_eq!(pack(&value, Packing::Bin), recorded, "{name}");
        assert_eq!(pack(&value, Packing::Wire), bytes(&case["wire_hex"]), "{name}");
    }
}

#[test]
fn random_values_survive() {
    let mut random = Random::new(1);
    for _ in 0..300 {
        let value = random.value(4);
        assert_eq!(unpack(&pack(&value, Packing::Bin), Decode::Utf8).as_ref(), Ok(&value));
        let wire = Bytes::from(pack(&value, Packing::Wire));
        assert_eq!(unpack_bytes(&wire, Decode::Default).as_ref(), Ok(&value));
        // Salt checks signatures over data that it packs itself, in the old raw family.
        assert!(!has_str8(&wire), "{value:?}");
    }
}

/// Looks for `str8` and `bin` markers where values begin.
fn has_str8(document: &[u8]) -> bool {
    document.first().is_some_and(|marker| (0xc4..=0xc6).contains(marker) || *marker == 0xd9)
}

#[test]
fn garbage_never_panics_and_framing_agrees_with_decoding() {
    let mut random = Random::new(2);
    for round in 0..20_000 {
        let mut input = match round % 2 {
            0 => random.bytes(40),
            _ => pack(&random.value(2), Packing::Wire),
        };
        if let Some(at) = (random.below(input.len() as u64 + 1) as usize).checked_sub(1) {
            input[at] = random.next() as u8;
        }
        let decoded = unpack_prefix(&input, Decode::Default);
        let framed = Framer::new(1 << 20).next(&mut BytesMut::from(&input[..]));
        match (&decoded, framed) {
            (Ok((_, used)), Ok(Some(document))) => assert_eq!(document.len(), *used),
            (Err(Error::Truncated), Ok(None) | Err(Error::TooLarge { .. })) => {}
            // Found wrong before, or besides, being cut short.
            (Err(Error::Reserved | Error::TooDeep | Error::Extension(_)), _) | (Err(Error::Truncated), Err(_)) => {}
            (decoded, framed) => panic!("{input:x?}: {decoded:?} but {framed:?}"),
        }
    }
}

#[test]
fn utf8_mode_falls_back_to_bytes_everywhere() {
    let decoded = unpack(b"\x82\xa1a\xa1\xff\xa1b\x01", Decode::Utf8).unwrap();
    assert_eq!(value::python::repr(&decoded), "{b'a': b'\\xff', b'b': 1}");
    let text = unpack(b"\x81\xa1a\xc4\x01b", Decode::Utf8).unwrap();
    assert_eq!(value::python::repr(&text), "{'a': b'b'}");
}

#[test]
fn unknown_extensions_are_bytes() {
    assert_eq!(unpack(b"\xd4\x01\xff", Decode::Default).unwrap(), Value::bytes(Bytes::from_static(b"\xff")));
    assert_eq!(unpack(b"\xd4\x01x", Decode::Default).unwrap(), Value::from("x"));
    assert_eq!(unpack(b"\xd4\x01x", Decode::Utf8).unwrap(), Value::bytes(Bytes::from_static(b"x")));
}

#[test]
fn broken_documents_say_why() {
    for (input, error) in [
        (&b""[..], Error::Truncated),
        (b"\xc1", Error::Reserved),
        (b"\x01\x02", Error::Trailing(1)),
        (b"\xdb\xff\xff\xff\xff", Error::Truncated),
        (b"\xdd\xff\xff\xff\xff", Error::Truncated),
        (b"\xd4\x4ex", Error::Extension(78)),
        (b"\xc7\x18\x4e20240230T13:14:15.678901", Error::Extension(78)),
        (b"\xd4\x4f\x01", Error::Extension(79)),
        (&[0x91; 600], Error::TooDeep),
    ] {
        assert_eq!(unpack(input, Decode::Default), Err(error), "{input:x?}");
    }
}

#[test]
fn what_is_nested_too_deep_is_written_as_a_text() {
    let deep = (0..MAX_DEPTH + 10).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    let packed = pack(&deep, Packing::Wire);
    assert_eq!(packed.len(), MAX_DEPTH + 18);
    assert!(unpack(&packed, Decode::Default).is_ok());
}

#[test]
fn constants_nested_too_deep_are_written_as_a_text() {
    let deep = (0..MAX_DEPTH).fold(Value::Null, |inner, _| Value::Constant(std::sync::Arc::new(("c".into(), inner))));
    assert!(unpack(&pack(&deep, Packing::Wire), Decode::Default).is_ok());
}

/// The bound on nesting protects the stack. The test uses half the stack of a thread of the daemons.
#[test]
fn the_deepest_documents_fit_on_half_a_stack() {
    let pair = || [&[0xc9, 0, 0, 0, 0, 0x4f][..], &[0x92, 0xa1, b'c']].concat();
    let constants = (0..MAX_DEPTH / 2 - 1).fold(vec![0xc0], |inner, _| {
        let mut outer = pair();
        outer.extend(inner);
        let len = (outer.len() - 6) as u32;
        outer[1..5].copy_from_slice(&len.to_be_bytes());
        outer
    });
    let maps = [[0x81, 0x01].repeat(MAX_DEPTH), vec![0xc0]].concat();
    let lists = [vec![0x91; MAX_DEPTH], vec![0xc0]].concat();
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let work = move || {
        for document in [constants, maps, lists] {
            let value = unpack(&document, Decode::Default).unwrap();
            assert_eq!(unpack(&pack(&value, Packing::Wire), Decode::Default), Ok(value));
        }
    };
    small.spawn(work).unwrap().join().unwrap();
}

#[test]
fn the_framer_bounds_nesting_and_size() {
    let next = |input: &[u8], limit| Framer::new(limit).next(&mut BytesMut::from(input));
    assert_eq!(next(&[0x91; 600], 10_000), Err(Error::TooDeep));
    assert_eq!(next(b"\xc6\x7f\xff\xff\xff", 100), Err(Error::TooLarge { size: 0x7fff_ffff + 5, limit: 100 }));
    assert!(matches!(next(b"\xdd\x00\x00\x01\x00", 100), Err(Error::TooLarge { .. })));
    assert_eq!(next(b"\x92\x01", 100), Ok(None));
}

#[test]
fn values_are_bounded_before_memory_is_taken_for_them() {
    let list = |items: u32, content: &[u8]| [&[0xdd][..], &items.to_be_bytes(), content].concat();
    let most = most_values(2 << 20);
    let many = list(2 << 20, &vec![1; 2 << 20]);
    assert_eq!(unpack(&many, Decode::Default), Err(Error::TooManyValues(most_values(many.len()))));
    assert_eq!(extent(&many, most), Err(Error::TooManyValues(most)));
    let within = |input: &[u8], most| unpack_within(&Bytes::copy_from_slice(input), Decode::Default, most);
    // A list and its items, a map and its entries, an extension and its content.
    let constant = b"\xc7\x04\x4f\x92\xa1c\x01";
    for (input, values) in [(&b"\x93\x01\x02\x03"[..], 4), (b"\x81\x01\x91\x02", 4), (constant, 4), (b"\xd4\x01x", 1)] {
        assert!(within(input, values).is_ok(), "{input:x?}");
        assert_eq!(within(input, values - 1), Err(Error::TooManyValues(values - 1)), "{input:x?}");
    }
    // Each level announces a thousand items, none of which comes.
    let nested = [[0xdc, 0x03, 0xe8].repeat(MAX_DEPTH), vec![0; 2000]].concat();
    assert_eq!(within(&nested, 100_000), Err(Error::TooManyValues(100_000)));
}

#[test]
fn containers_as_keys_cost_more_at_every_level() {
    let nested = |levels: usize| {
        let inner = [&[0x91][..], &[7]].concat();
        (0..levels).fold(inner, |key, _| [&[0x81][..], &key, &[1]].concat())
    };
    assert!(unpack(&nested(3), Decode::Default).is_ok());
    assert!(matches!(unpack(&nested(64), Decode::Default), Err(Error::TooManyValues(_))));
}

#[test]
fn entries_under_other_keys_are_not_decoded() {
    let map = value::map! {
        "fun" => "test.ping", "return" => value::list![1, value::map! { "fun" => 2 }], 7 => "seven", "arg" => value::list!["x"],
        "" => Value::Null,
    };
    for packing in [Packing::Bin, Packing::Wire] {
        let packed = pack(&Value::Map(map.clone()), packing);
        let read = |keys: &[&str]| unpack_entries(&packed, keys);
        assert_eq!(
            read(&["arg", "fun", "7"]),
            Ok(value::map! { "fun" => "test.ping", "arg" => value::list!["x"] }.into())
        );
        assert_eq!(read(&[]), Ok(Value::Map(Map::new())));
        for cut in 0..packed.len() {
            assert!(unpack_entries(&packed[..cut], &["fun"]).is_err(), "{cut}");
        }
        let longer = [&packed[..], &[0xc0]].concat();
        assert_eq!(unpack_entries(&longer, &["fun"]), Err(Error::Trailing(1)));
    }
    // What is no map is read whole.
    assert_eq!(unpack_entries(&[0x93, 1, 2, 3], &["fun"]), Ok(value::list![1, 2, 3]));
    // Of two entries with one key the last counts, and what is skipped may be malformed inside, but has bounds.
    assert_eq!(unpack_entries(b"\x82\xa1a\x01\xa1a\x02", &["a"]), Ok(value::map! { "a" => 2 }.into()));
    let deep = [&b"\x81\xa1b"[..], &[0x91; MAX_DEPTH + 1], &[0xc0]].concat();
    assert_eq!(unpack_entries(&deep, &["a"]), Err(Error::TooDeep));
    let many = [&b"\x81\xa1b\xdd\x00\x20\x00\x00"[..], &[0xc0; 0x20_0000]].concat();
    assert_eq!(unpack_entries(&many, &["a"]), Err(Error::TooManyValues(most_values(many.len()))));
}

#[test]
fn extents_agree_with_decoding() {
    let mut random = Random::new(3);
    for _ in 0..500 {
        let value = random.value(3);
        let packed = pack(&value, Packing::Wire);
        let measured = extent(&packed, 1 << 20).unwrap();
        assert_eq!(measured.len, packed.len());
        assert!(extent(&packed[..packed.len() - 1], 1 << 20).is_err());
        if measured.values > 1 {
            assert_eq!(extent(&packed, measured.values - 1), Err(Error::TooManyValues(measured.values - 1)));
        }
    }
}
