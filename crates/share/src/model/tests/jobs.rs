//! Jobs: nobody but its publisher says what a job is.

use value::map;
use wire::msgpack::{Packing, pack};

use super::net::{Host, Net, member_key};
use super::*;
use crate::message::Put;

/// An id in the slot of the first host.
const OF_0: &str = "20260225000000000000";

fn load(fun: &str) -> Content {
    Content::Job { load: pack(&map! { "fun" => fun }.into(), Packing::Bin).into(), nocache: false }
}

fn by_minion(fun: &str) -> Content {
    Content::Job { load: pack(&map! { "fun" => fun, "id" => "web1" }.into(), Packing::Bin).into(), nocache: false }
}

/// Writes a job under one of a few ids: one that the host publishes, which has an id of its own, or one that a minion ran.
pub fn write_any(net: &mut Net, host: usize, jid: &str, text: Bytes) {
    let text = String::from_utf8(text.into()).unwrap();
    match net.random.random() {
        true => net.write(host, &format!("{}{host:02}", &jid[..18]), load(&text)),
        false => net.write(host, jid, by_minion(&text)),
    }
}

/// A record of a job as some host could send it, whoever it says has written it.
fn record(jid: &str, author: usize, time: u64, content: Content) -> Record {
    let node = Node::of_key(&member_key(author).public());
    Record::new(Key::new(jid).unwrap(), Stamp { time: (START + time) << 16, node }, content)
}

fn send(net: &mut Net, from: usize, to: usize, record: Record) {
    let put = Put { number: 7, records: vec![(record, 0)], unreadable: Vec::new(), served: None };
    let from = net.node(from);
    net.report(to, Incoming::Message { from, lane: Lane::Talk, message: Message::Put(put).encode() });
}

fn content(host: &Host, jid: &str) -> Option<Content> {
    host.model.records().get(Class::Job, &Key::new(jid).unwrap()).map(|record| record.content)
}

#[test]
fn a_published_job_is_replaced_by_no_other_member() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.write(0, OF_0, load("test.ping"));
    net.run(SECOND);
    // In its own name, in the name of the publisher, and copied to be changed afterwards: always with an earlier stamp.
    let forged =
        [record(OF_0, 1, 0, load("evil")), record(OF_0, 0, 0, load("evil")), record(OF_0, 1, 0, load("test.ping"))];
    for forged in forged.into_iter().chain([record(OF_0, 1, 0, load("evil"))]) {
        for to in [0, 2] {
            send(&mut net, 1, to, forged.clone());
            assert_eq!(content(&net.hosts[to], OF_0), Some(load("test.ping")), "{to} and {forged:?}");
        }
    }
    let silent = match load("test.ping") {
        Content::Job { load, .. } => Content::Job { load, nocache: true },
        other => other,
    };
    send(&mut net, 1, 2, record(OF_0, 1, 0, silent));
    assert_eq!(content(&net.hosts[2], OF_0), Some(load("test.ping")));
    assert!(net.hosts[2].warnings().iter().any(|text| text.contains("sent another job")));
}

#[test]
fn who_is_faster_than_the_publisher_gains_nothing() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    for (place, author) in [(0, 1), (10, 0)] {
        let jid = format!("202602250000000{place:03}00");
        send(&mut net, 1, 2, record(&jid, author, 0, load("evil")));
        send(&mut net, 1, 0, record(&jid, author, 0, load("evil")));
        net.write(0, &jid, load("test.ping"));
        net.run(SECOND);
        for host in [0, 2] {
            assert_eq!(content(&net.hosts[host], &jid), Some(load("test.ping")), "{host}, author {author}");
        }
    }
    let silent = Content::Job { load: packed("load"), nocache: true };
    send(&mut net, 1, 2, record("20260225000000003000", 1, 0, silent));
    assert_eq!(content(&net.hosts[2], "20260225000000003000"), None, "an id of another member");
}

/// The host has another clock since: it was ahead before, or is behind now.
#[test]
fn a_member_that_lost_its_records_gets_its_jobs_back_although_their_ids_are_later_than_its_start() {
    let mut net = Net::new(2, 1);
    net.hosts[0].ahead = 50 * MINUTE;
    net.run(SECOND);
    let (lost, next) = ("20260225004900000000", "20260225004900000100");
    net.write(0, lost, load("test.ping"));
    net.run(SECOND);
    net.cut(0, 1);
    net.hosts[0] = Host::new(0, (0..2).map(|number| super::net::welcome(number, Rights::ALL)).collect());
    net.link(0, 1);
    net.run(2 * MINUTE);
    net.check_equal("the lost job");
    assert_eq!(content(&net.hosts[0], lost), Some(load("test.ping")));
    // Nobody keeps it from using the ids that it has not used yet.
    send(&mut net, 1, 0, record(next, 0, 0, load("evil")));
    assert_eq!(content(&net.hosts[0], next), Some(load("evil")));
    assert!(!net.hosts[0].model.has_published(&Key::new(next).unwrap()));
    for fun in ["test.ping", "test.late"] {
        net.write(0, next, load(fun));
        net.run(2 * MINUTE);
        net.check_equal(fun);
        assert_eq!(content(&net.hosts[1], next), Some(load("test.ping")), "the first counts");
    }
    assert!(net.hosts[0].model.has_published(&Key::new(next).unwrap()));
}

#[test]
fn a_job_under_an_id_that_an_operator_chose_is_shared() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    for slot in ["01", "77"] {
        let jid = format!("202602250000000009{slot}");
        net.write(0, &jid, load("test.ping"));
        net.run(SECOND);
        send(&mut net, 2, 1, record(&jid, 2, 0, load("evil")));
        net.check_equal(slot);
        assert_eq!(content(&net.hosts[1], &jid), Some(load("test.ping")));
    }
}

#[test]
fn a_job_that_a_minion_ran_by_itself_takes_the_place_of_no_publication() {
    let mut net = Net::strangers(3, 1, Rights::ALL);
    // The minion knew the id first, on the publisher and elsewhere.
    net.write(0, OF_0, by_minion("evil"));
    net.write(1, OF_0, by_minion("evil"));
    net.run(SECOND);
    net.write(0, OF_0, load("test.ping"));
    net.write(2, OF_0, by_minion("late"));
    // The third one never hears it from the publisher.
    net.link(0, 1);
    net.run(2 * MINUTE);
    net.link(1, 2);
    net.run(2 * MINUTE);
    net.check_equal("one publication");
    assert!(net.hosts.iter().all(|host| content(host, OF_0) == Some(load("test.ping"))));
}

/// A part of a batch.
fn part(minion: &str) -> Content {
    let load = map! { "fun" => "test.ping", "user" => "root", "arg" => value::list![], "tgt" => value::list![minion] };
    Content::Job { load: pack(&load.into(), Packing::Bin).into(), nocache: false }
}

#[test]
fn the_latest_part_of_a_batch_counts_on_all_members() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    // Two of them before the first is stored, one that the third member misses.
    let key = Key::new(OF_0).unwrap();
    let both = ["db1", "db2"].map(|minion| Change::Write(key.clone(), part(minion)));
    net.change(0, Change::Together(both.into()));
    net.run(SECOND);
    net.cut(0, 2);
    assert!(net.hosts[0].model.is_new_job(&key, &part("web1")));
    net.write(0, OF_0, part("web1"));
    net.run(2 * MINUTE);
    let shown = |net: &Net| [0, 1, 2].map(|host| content(&net.hosts[host], OF_0).unwrap());
    assert!(shown(&net) == [part("web1"), part("web1"), part("db2")], "nobody else replaces what it published");
    assert!(net.hosts[2].warnings().is_empty(), "that is no other job");
    net.link(0, 2);
    net.run(2 * MINUTE);
    net.check_equal("the latest part");
    assert!(shown(&net) == [part("web1"), part("web1"), part("web1")]);

    // Something else under its id is no part of it, nor is what a minion ran.
    for other in [load("test.ping"), load("evil"), by_minion("test.ping")] {
        assert!(!net.hosts[0].model.is_new_job(&key, &other));
        net.write(0, OF_0, other.clone());
        send(&mut net, 1, 2, record(OF_0, 0, 9, other));
        net.run(SECOND);
        assert!(shown(&net) == [part("web1"), part("web1"), part("web1")]);
    }
    assert!(!net.hosts[0].model.is_new_job(&key, &part("web1")), "it is there");
}

#[test]
fn both_members_of_a_pair_know_when_they_were_equal_though_jobs_are_never_exchanged() {
    let mut net = Net::new(2, 1);
    net.run(2 * MINUTE);
    net.cut(0, 1);
    net.write(0, OF_0, load("test.ping"));
    net.run(MINUTE);
    net.faults = Faults { delay: 100, ..Faults::default() };
    let (linked, nodes) = (START + net.now, [net.node(0), net.node(1)]);
    let is_known = |net: &Net, host: usize| net.hosts[host].model.compared(nodes[1 - host]) >= Some(linked);
    net.link(0, 1);
    while !is_known(&net, 0) || !is_known(&net, 1) {
        net.run(1);
        // The answer about the parts that differ comes after four messages.
        assert!(content(&net.hosts[1], OF_0).is_none(), "before the job has come");
    }
}
