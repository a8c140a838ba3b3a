//! Publications as minions receive them, and the jobs inside.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::loads::{Publication, PublicationMessage};
use wire::msgpack::{Decode, unpack_bytes};
use wire::topic::Topic;
use wire::{Jid, MinionId};

fuzz_target!(|input: &[u8]| {
    let input = Bytes::copy_from_slice(input);
    if let Ok(message) = PublicationMessage::decode(&input) {
        assert_eq!(PublicationMessage::decode(&message.encode()).as_ref(), Ok(&message));
    }
    let job = unpack_bytes(&input, Decode::Default).map(Publication::from_value);
    if let Ok(Ok(job)) = job {
        assert_eq!(Publication::from_map(job.to_map()).as_ref(), Ok(&job));
        if let Ok(jid) = Jid::new(job.jid.as_str()) {
            jid.display_time();
            jid.time();
        }
    }
    Topic::from_bytes(&input);
    if let Ok(text) = std::str::from_utf8(&input) {
        let _ = MinionId::new(text);
        let _ = Jid::new(text).map(|jid| jid.display_time());
    }
});
