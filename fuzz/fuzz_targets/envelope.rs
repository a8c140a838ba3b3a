//! Requests and replies: envelopes, and every load that may be inside.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use value::{Map, Value};
use wire::envelope::{Clear, Envelope, MOST_FOREIGN_VALUES, Outline, Start, start};
use wire::loads::*;
use wire::msgpack::{Decode, unpack_bytes};

fuzz_target!(|input: &[u8]| {
    let input = Bytes::copy_from_slice(input);
    let outline = Outline::read(&input, MOST_FOREIGN_VALUES);
    match outline.and_then(Outline::open) {
        // What is opened in two steps is what is opened in one.
        Ok(envelope) => assert_eq!(Envelope::decode(&input).as_ref(), Ok(&envelope)),
        Err(_) => {}
    }
    // What the first half of the input shows must not change with the rest: connections decide on a prefix.
    if start(&input[..input.len() / 2]) != Start::Short {
        assert_eq!(start(&input[..input.len() / 2]), start(&input));
    }
    if let Ok(envelope) = Envelope::decode(&input) {
        assert_eq!(Envelope::decode(&envelope.encode()).as_ref(), Ok(&envelope));
        if let Envelope::Clear(Clear { load, .. }) = envelope {
            loads(&load);
        }
    }
    // The same bytes as an unencrypted load and as the answer to a sign-in: both are read before anything is
    // authenticated.
    if let Ok(value) = unpack_bytes(&input, Decode::Default) {
        if let Value::Map(map) = &value {
            loads(map);
        }
        if let AuthReply::Signed { load, .. } = AuthReply::from_value(value) {
            answer(&load);
        }
    }
    answer(&input);
});

fn answer(load: &Bytes) {
    if let Ok(answer) = AuthAnswer::decode(load) {
        assert_eq!(AuthAnswer::decode(&answer.encode()).as_ref(), Ok(&answer));
    }
}

fn loads(map: &Map) {
    macro_rules! read_and_write {
        ($($name:ident),*) => { $(
            // A load that is written and read again must be the same, or two of our own programs would disagree.
            if let Ok(load) = $name::from_map(map.clone()) {
                assert_eq!($name::from_map(load.to_map()).as_ref(), Ok(&load), stringify!($name));
            }
        )* };
    }
    read_and_write!(
        AuthRequest,
        DirList,
        FileChunk,
        FileEnvs,
        FileFind,
        FileFound,
        FileHash,
        FileHashAndStat,
        FileList,
        FileReceive,
        FileSum,
        MineGet,
        MinionEvent,
        PeerPublish,
        PillarContent,
        PillarReply,
        PillarRequest,
        PublishRequest,
        Published,
        Return,
        ReturnForPeer,
        ServeFile,
        SignedPillar
    );
}
