//! MessagePack in every mode, and streams of it: what is read can be written and read again.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::msgpack::{
    Decode, Error, Extent, Framer, Packing, extent, fields, pack, unpack, unpack_bytes, unpack_prefix, unpack_within,
};

fuzz_target!(|input: &[u8]| {
    let shared = Bytes::copy_from_slice(input);
    for (mode, packing) in
        [(Decode::Default, Packing::Wire), (Decode::Raw, Packing::Wire), (Decode::Utf8, Packing::Bin)]
    {
        let read = unpack(input, mode);
        assert_eq!(read, unpack_bytes(&shared, mode));
        if let Ok(value) = read {
            assert_eq!(unpack(&pack(&value, packing), mode).as_ref(), Ok(&value));
        }
    }
    // What is measured without being decoded agrees with what is decoded, and a bound on values holds for both.
    let measured = extent(input, usize::MAX);
    if let (Ok((_, used)), Ok(Extent { len, values })) = (unpack_prefix(input, Decode::Default), &measured) {
        assert_eq!(used, *len);
        assert!(*values <= input.len());
        // One value less than there are must not be enough.
        assert!(extent(input, values - 1).is_err());
    }
    assert!(matches!(unpack_within(&shared, Decode::Default, 0), Err(_)));
    if let Ok(Some([Some((found, _)), _])) = fields(&shared, ["a", "b"], usize::MAX) {
        assert!(extent(&found, usize::MAX).is_ok_and(|extent| extent.len == found.len()));
    }
    let framed = Framer::new(input.len()).next(&mut BytesMut::from(input));
    match (unpack_prefix(input, Decode::Default), framed) {
        (Ok((_, used)), framed) => assert_eq!(framed.map(|found| found.map(|it| it.len())), Ok(Some(used))),
        // Input that ends early is no whole document for the framer either.
        (Err(Error::Truncated), framed) => assert!(!matches!(framed, Ok(Some(_)))),
        (Err(_), _) => {}
    }
});
