//! Messages between masters of one set: what one of them sends is read with bounds, whatever it is.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use share::Message;

fuzz_target!(|input: &[u8]| {
    let Ok(Some(message)) = Message::decode(&Bytes::copy_from_slice(input)) else { return };
    // A message that is written and read again must be the same, or two of our own programs would disagree.
    assert_eq!(Message::decode(&message.encode()), Ok(Some(message)));
});
