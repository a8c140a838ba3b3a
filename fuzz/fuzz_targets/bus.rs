//! Masters over NATS: what anybody can put on the bus, and what a member seals.

#![no_main]

use bus::fuzzing::{content_survives, envelope_survives};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let bytes = Bytes::copy_from_slice(input);
    assert!(envelope_survives(&bytes));
    assert!(content_survives(&bytes));
});
