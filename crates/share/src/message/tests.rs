//! Messages there and back, and what strangers could make of them.

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use super::*;
use crate::{Content, Level, Sum, record};

fn load() -> Record {
    let key = Key::new("20240229131415678901").unwrap();
    let content = Content::Job { load: Bytes::from_static(b"load"), nocache: false };
    Record::new(key, Stamp { time: 1, node: Node([1; 8]) }, content)
}

/// One message of each kind.
fn one_of_each() -> Vec<Message> {
    let key = || Key::new("web1").unwrap();
    let (stamp, digest) = (Stamp { time: 5, node: Node([2; 8]) }, Digest([3; 16]));
    let sum = Sum { count: 3, total: u128::MAX };
    let within = Some((Level::Hour, vec![7, 8]));
    let (class, since, level) = (Class::Return, 3, Level::Minute);
    let ids = |count: usize| (0..count).map(|number| format!("web{number}")).collect::<Vec<_>>();
    vec![
        Message::Put(Put {
            number: 1,
            records: vec![(load(), 70_000)],
            unreadable: Vec::new(),
            served: Some((7, 4_096)),
        }),
        Message::Put(Put { number: 2, records: vec![], unreadable: Vec::new(), served: None }),
        Message::Stored(Stored { number: 1, refused: vec![(0, "no right".into())], not_kept: vec![1] }),
        Message::Have(vec![Have { class: Class::Denied, key: key(), digest, stamp }]),
        Message::Want(vec![(Class::Denied, key())]),
        Message::Root(Root { round: 9, since, answer: true, sums: vec![(Class::Keys, sum)] }),
        Message::Parts(Parts { round: 9, class, since, level, within, sums: vec![(60, sum)] }),
        Message::Differ(Differ { round: 9, level, parts: vec![u32::MAX, 0] }),
        Message::Items(Items { round: 9, class, since, leaves: vec![1], hashes: vec![u64::MAX, 1] }),
        Message::Missing(Missing { round: 9, here: vec![1], there: vec![] }),
        Message::Fetch(Fetch { round: 9, class, since, leaves: vec![1], hashes: vec![1] }),
        Message::Job(Job {
            load: load(),
            yours: ids(2),
            rest: ids(0),
            valid_for: 30_000,
            user: "root".into(),
            origin: Node([1; 8]),
            sent: Some(5),
        }),
        Message::Progress(vec![Progress { jid: "20240229131415678901".into(), minion: "web1".into(), how_far: 2 }]),
        Message::Drop("20240229131415678901".into()),
        Message::Events(vec![Event { tag: "x/y".into(), data: Bytes::from_static(b"d"), minion: None, stamp }]),
        Message::Here(Here { change: HereChange::All, ids: ids(5_000) }),
        Message::Here(Here { change: HereChange::Went, ids: ids(0) }),
        Message::Digests(vec![NamedDigest { kind: "files".into(), name: "base".into(), digest }]),
        Message::Ask(Ask { number: 1, question: "drift".into(), arguments: Bytes::from_static(b"\x90") }),
        Message::Answer(Answer { number: 1, value: Bytes::from_static(b"\xc0") }),
        Message::Vote(Bytes::from_static(b"ballot")),
        Message::Part(Part { id: 1, place: 0, of: 2, bytes: Bytes::from_static(b"half") }),
    ]
}

#[test]
fn every_message_comes_back_as_it_was() {
    for message in one_of_each() {
        assert_eq!(Message::decode(&message.encode()), Ok(Some(message)));
    }
}

#[test]
fn unknown_kinds_and_further_fields_are_passed_over() {
    assert_eq!(Message::decode(&fields::packed(vec![Value::from("later"), Value::from(1)])), Ok(None));
    for message in one_of_each() {
        // A `put` may have one field more.
        if matches!(&message, Message::Put(put) if put.served.is_none()) {
            continue;
        }
        let (kind, mut all) = codec::to_fields(&message);
        all.insert(0, Value::from(kind));
        all.push(Value::from("later"));
        assert_eq!(Message::decode(&fields::packed(all)), Ok(Some(message)));
    }
}

#[test]
fn records_and_sums_of_later_classes_are_passed_over() {
    let later = Value::List(vec![Value::from(200), Value::from("key")]);
    let put =
        fields::packed(vec![Value::from("put"), Value::from(1), Value::List(vec![later.clone(), load().to_value(0)])]);
    let read = Put { number: 1, records: vec![(load(), 0)], unreadable: vec![(0, None)], served: None };
    assert_eq!(Message::decode(&put), Ok(Some(Message::Put(read))));
    let root = vec![Value::from("root"), Value::from(1), Value::from(0), Value::Bool(false), Value::List(vec![later])];
    let expected = Root { round: 1, since: 0, answer: false, sums: vec![] };
    assert_eq!(Message::decode(&fields::packed(root)), Ok(Some(Message::Root(expected))));
}

#[test]
fn keys_that_leave_their_directory_are_refused() {
    let mut record = load();
    record.key = Key::new("20240229131415678901/../x").unwrap();
    let put = Message::Put(Put { number: 1, records: vec![(record, 0)], unreadable: Vec::new(), served: None });
    let unreadable = vec![(0, Some(Malformed("the key of a record")))];
    let read = Put { number: 1, records: vec![], unreadable, served: None };
    assert_eq!(Message::decode(&put.encode()), Ok(Some(Message::Put(read))));
}

#[test]
fn compressed_lists_are_bounded() {
    let here = Here { change: HereChange::All, ids: vec!["x".repeat(17 << 20)] };
    assert_eq!(Message::decode(&Message::Here(here).encode()), Err(Malformed("a compressed list")));
    let here = Here { change: HereChange::All, ids: vec![String::new(); 2_000_000] };
    assert!(Message::decode(&Message::Here(here).encode()).is_err());
}

#[test]
fn the_decoder_is_total() {
    let mut random = StdRng::seed_from_u64(1);
    let mut messages: Vec<Vec<u8>> = one_of_each().iter().map(|message| message.encode().to_vec()).collect();
    for class in Class::ALL {
        let made = record::tests::any(&mut random, class);
        messages.push(
            Message::Put(Put { number: 1, records: vec![(made, 0)], unreadable: Vec::new(), served: None })
                .encode()
                .to_vec(),
        );
    }
    let mut read = 0;
    for round in 0..60_000 {
        let mut packed = messages[round % messages.len()].clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..packed.len());
            match random.random_range(0..4) {
                0 => packed[at] = random.random(),
                1 => packed.truncate(at.max(1)),
                2 => packed.insert(at, random.random()),
                _ => {
                    let mut noise = [0; 4];
                    random.fill_bytes(&mut noise);
                    packed.extend(noise);
                }
            }
        }
        if let Ok(Some(mut message)) = Message::decode(&Bytes::from(packed)) {
            read += 1;
            if let Message::Put(put) = &mut message {
                put.unreadable.clear();
            }
            assert_eq!(Message::decode(&message.encode()), Ok(Some(message)));
        }
    }
    assert!(read > 1_000, "some changes leave a message: {read}");
}
