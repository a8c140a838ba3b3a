//! MessagePack in every mode, and streams of it: what is read can be written and read again.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use wire::msgpack::{Decode, Error, Framer, Packing, pack, unpack, unpack_bytes, unpack_prefix};

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
    let framed = Framer::new(input.len()).next(&mut BytesMut::from(input));
    match (unpack_prefix(input, Decode::Default), framed) {
        (Ok((_, used)), framed) => assert_eq!(framed.map(|found| found.map(|it| it.len())), Ok(Some(used))),
        (Err(Error::Truncated), framed) => assert!(!matches!(framed, Ok(Some(_)))),
        (Err(_), _) => {}
    }
});
