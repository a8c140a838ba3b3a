//! Several models that share over a carrier in memory.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::Rng;

use super::*;
use crate::member::{Member, Right, Rights, Role};
use crate::{By, Claim, Content, Index, KeyFile, Lane, Return, SignedDecision, State, Wish};

mod data;
mod jobs;
mod kept;
mod keys;
mod late;
mod net;
mod restart;
mod welcome;

use net::{Faults, Net, START};

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 1_440 * MINUTE;

/// The id of a job at the start of the tests.
const JID: &str = "20260225000000000001";

fn packed(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn returned(publisher: Node, packed: impl Into<Bytes>) -> Content {
    Content::Return(Return { packed: packed.into(), out: None, publisher, copy: false })
}

fn accepted(host: &net::Host, id: &str) -> bool {
    host.files.get(id).is_some_and(|(state, _)| *state == State::Accepted)
}

/// One change of any kind on a random host.
fn any_change(net: &mut Net) {
    let host = net.random.random_range(0..net.hosts.len());
    let publisher = net.node(host);
    let minion = format!("web{}", net.random.random_range(0..6));
    let jid = format!("202602250000{:02}{:06}", net.random.random_range(0..60), net.random.random_range(0..3));
    let text = packed(["a", "b", "c"][net.random.random_range(0..3)]);
    match net.random.random_range(0..12) {
        0..4 => {
            let state = State::ALL[net.random.random_range(0..4)];
            let by = if state == State::Pending { By::Auto } else { By::User("root".into()) };
            let id = Key::new(&minion).unwrap();
            net.change(host, Change::Key { id, state, public_key: text, by });
        }
        4 => jobs::write_any(net, host, &jid, text),
        5 => {
            let minions = BTreeSet::from([minion]);
            net.write(host, &jid, Content::Expected(BTreeMap::from([(String::new(), minions)])));
        }
        6 => net.write(host, &jid, Content::End(START)),
        7 => net.write(host, &format!("{jid}/{minion}"), returned(publisher, text)),
        8 => net.write(host, "grains/known", Content::Data(Some(text))),
        9 => {
            let token = if net.random.random() { Some(text) } else { None };
            net.write(host, "5ec7e7", Content::Token { token, expires: START + DAY });
        }
        10 => net.write(host, &minion, Content::Denied(text)),
        _ => {
            let done = if net.random.random() { Some(START) } else { None };
            net.write(host, "backup/noon", Content::Claim(Claim { node: publisher, begun: START, done }));
        }
    }
}

fn storm(seed: u64) {
    let mut net = Net::new(2 + seed as usize % 3, seed);
    for host in 0..net.hosts.len() {
        net.hosts[host].ahead = net.random.random_range(0..2) * 60 * MINUTE;
    }
    net.decide(0, "known", State::Accepted, "k");
    net.faults = Faults { loss: 0.2, repeat: 0.1, delay: 200 };
    for _ in 0..net.random.random_range(20..120) {
        any_change(&mut net);
        let (a, b) = (net.random.random_range(0..net.hosts.len()), net.random.random_range(0..net.hosts.len()));
        match net.random.random_range(0..10) {
            0 if a != b => net.cut(a, b),
            1 | 2 if a != b => net.link(a, b),
            3 if a != b => net.report(a, Incoming::Overflowed(net.node(b))),
            _ => {}
        }
        let pause = net.random.random_range(0..2_000);
        net.run(pause);
    }
    net.faults = Faults { delay: 5, ..Faults::default() };
    for a in 0..net.hosts.len() {
        (0..a).for_each(|b| net.link(a, b));
    }
    // In one round everybody may learn something new for the next one.
    net.run(4 * MINUTE);
    net.check_equal(&format!("seed {seed}"));
    for (a, host) in net.hosts.iter().enumerate() {
        for b in (0..net.hosts.len()).filter(|b| *b != a) {
            assert!(host.model.compared(net.node(b)).is_some(), "seed {seed}: {a} notes that it compared with {b}");
        }
    }
}

#[test]
fn copies_become_equal_whatever_the_carrier_does() {
    let full = std::env::var("SALTERN_HISTORIES").ok().and_then(|count| count.parse::<u64>().ok());
    (0..full.map_or(60, |count| count / 100)).for_each(storm);
}

#[test]
fn a_decision_is_valid_on_all_members_at_once() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.decide(1, "web1", State::Accepted, "k");
    net.run(10);
    assert!(net.hosts.iter().all(|host| accepted(host, "web1")));
    let changed = |host: &net::Host| host.actions.iter().any(|action| matches!(action, Action::WriteKey { .. }));
    assert!(!changed(&net.hosts[1]), "who decided has written its files already");
}

#[test]
fn who_comes_late_gets_everything() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    net.decide(0, "known", State::Accepted, "k");
    for _ in 0..200 {
        any_change(&mut net);
    }
    for number in 0..3_000 {
        net.write(0, &format!("{JID}/web{number}"), returned(net.node(0), packed("return")));
    }
    net.link(0, 1);
    net.run(SECOND);
    net.check_equal("after one second");
}

#[test]
fn a_return_is_safe_when_the_other_member_says_so() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.write(0, &format!("{JID}/web1"), returned(net.node(0), packed("return")));
    net.run(10);
    let key = Key::of_parts(JID, "web1").unwrap();
    let safe = Action::Safe { node: net.node(1), records: vec![(Class::Return, key.clone())] };
    assert!(net.hosts[0].actions.contains(&safe));
    let changed = |action: &Action| matches!(action, Action::Changed(record) if record.key == key);
    assert_eq!(net.hosts[1].actions.iter().filter(|action| changed(action)).count(), 1);
    assert!(!net.hosts[0].actions.iter().any(changed), "its own return is no news");
}

#[test]
fn many_small_returns_travel_together() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    for number in 0..1_000 {
        net.write(0, &format!("{JID}/web{number}"), returned(net.node(0), packed("return")));
    }
    net.run(100);
    net.check_equal("at once");
    assert!(net.sent["put"] < 5, "{:?}", net.sent);
}

#[test]
fn a_large_return_travels_in_parts() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.write(0, &format!("{JID}/web1"), returned(net.node(0), vec![7; 3 << 20]));
    net.run(100);
    net.check_equal("in parts");
    assert_eq!(net.sent["part"], 7);
}

#[test]
fn what_one_member_writes_reaches_those_it_is_cut_off_from() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.cut(0, 2);
    let (first, second, third) = (net.node(0), net.node(1), net.node(2));
    net.report(1, Incoming::Linked(first, vec![second]));
    net.report(1, Incoming::Linked(third, vec![second]));
    net.sent.clear();
    net.decide(0, "web1", State::Accepted, "k");
    net.write(2, &format!("{JID}/web1"), returned(third, packed("return")));
    net.run(20);
    net.check_equal("through the other one");
    assert_eq!(net.sent["put"], 4, "each is sent once and passed on once");
}

#[test]
fn what_a_member_does_not_share_stays_out() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    net.hosts[1].model.settings.shared = Classes::without(&[Class::Data]);
    net.write(0, "grains/web1", Content::Data(Some(packed("grains"))));
    net.write(0, &format!("{JID}/web1"), returned(net.node(0), packed("return")));
    net.link(0, 1);
    net.run(SECOND);
    net.write(1, "grains/web2", Content::Data(Some(packed("grains"))));
    net.run(5 * MINUTE);
    assert_eq!(net.hosts[1].model.records().root(Class::Return, 0).count, 1);
    assert_eq!(net.hosts[0].model.records().root(Class::Data, 0).count, 1);
    assert_eq!(net.hosts[1].model.records().root(Class::Data, 0).count, 1, "only what it wrote itself");
    let lower = if net.node(0) < net.node(1) { 0 } else { 1 };
    assert!(net.hosts[lower].model.compared(net.node(1 - lower)).is_some());
}

#[test]
fn idle_members_only_compare_roots() {
    let mut net = Net::new(2, 1);
    net.run(MINUTE + SECOND);
    net.sent.clear();
    net.run(10 * MINUTE);
    assert_eq!(net.sent, BTreeMap::from([("root", 20)]));
}

#[test]
fn a_member_without_a_right_changes_nothing() {
    let mut net = Net::strangers(2, 1, Rights::only(&[Right::Data]));
    net.link(0, 1);
    net.run(SECOND);
    net.decide(1, "web1", State::Accepted, "k");
    net.write(1, &format!("{JID}/web1"), returned(net.node(1), packed("return")));
    net.decide(0, "known", State::Accepted, "k");
    net.write(1, "grains/known", Content::Data(Some(packed("grains"))));
    net.run(2 * MINUTE);
    assert!(!accepted(&net.hosts[0], "web1"));
    let records = net.hosts[0].model.records();
    assert_eq!(records.root(Class::Return, 0).count, 0);
    assert_eq!(records.root(Class::Data, 0).count, 1);
    let own = net.hosts[1].model.entry(Class::Keys, &Key::new("web1").unwrap());
    assert!(own.is_empty(), "it does not decide what others refuse");
    let warned = |net: &Net, host: usize, what: &str| net.hosts[host].warnings().iter().any(|text| text.contains(what));
    assert!(warned(&net, 1, "lacks the right keys, and leaves keys web1 to the others"));
    let forged = forged(&net);
    net.report(0, forged);
    assert!(!accepted(&net.hosts[0], "web1"));
    let warnings = net.hosts[0].warnings();
    assert!(warnings.iter().any(|text| text.contains("m1 lacks the right keys")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("its sender lacks the right jobs")), "{warnings:?}");
    assert!(net.hosts[1].warnings().iter().any(|text| text.contains("refused")), "it learns that it is refused");
}

/// A decision of the second member that it makes whatever its rights are.
fn forged(net: &Net) -> Incoming {
    let (class, key, content) = (Class::Keys, Key::new("web1").unwrap(), Bytes::from_static(b"k"));
    let wish = Wish { class, key: key.clone(), state: State::Accepted, content, by: By::Files };
    let stamp = Stamp { time: (START + SECOND) << 16, node: net.node(1) };
    let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &net::member_key(1)).unwrap();
    let record = Record::new(key, stamp, Content::Decided(class, Entry::new(vec![decision])));
    let put = crate::message::Put { number: 1, records: vec![(record, 0)], unreadable: Vec::new(), served: None };
    Incoming::Message { from: net.node(1), lane: Lane::Talk, message: Message::Put(put).encode() }
}

#[test]
fn jobs_of_the_future_are_neither_written_nor_taken() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let (soon, never) = ("20260225235900000000", "20990225000000000000");
    let put = |net: &Net, jid: &str| {
        let stamp = Stamp { time: (START + SECOND) << 16, node: net.node(1) };
        let record = Record::new(Key::new(jid).unwrap(), stamp, Content::End(START));
        let put = crate::message::Put { number: 1, records: vec![(record, 0)], unreadable: Vec::new(), served: None };
        Incoming::Message { from: net.node(1), lane: Lane::Talk, message: Message::Put(put).encode() }
    };
    for jid in [soon, never] {
        let message = put(&net, jid);
        net.report(0, message);
        net.write(1, jid, Content::End(START));
    }
    for host in &net.hosts {
        let kept = |jid: &str| host.model.records().get(Class::End, &Key::new(jid).unwrap()).is_some();
        assert_eq!([soon, never].map(kept), [true, false]);
    }
    let refused = |action: &Action| matches!(action, Action::NotStored { key, .. } if key.as_str() == never);
    assert!(net.hosts[1].actions.iter().any(refused));
    assert!(net.hosts[0].warnings().is_empty(), "an honest member may have got it from a minion");
}

/// A decision by one member about a key, with a stamp of this time.
fn decision(by: usize, time: u64, key: &crypto::MemberKey) -> Record {
    let id = Key::new("web1").unwrap();
    let user = By::User("root".into());
    let wish = Wish { class: Class::Keys, key: id.clone(), state: State::Accepted, content: packed("k"), by: user };
    let stamp = Stamp { time, node: Node::of_key(&net::member_key(by).public()) };
    let decision = SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), key).unwrap();
    Record::new(id, stamp, Content::Decided(Class::Keys, Entry::new(vec![decision])))
}

fn put(net: &mut Net, from: usize, to: usize, record: Record, age: u64) {
    let put = crate::message::Put { number: 1, records: vec![(record, age)], unreadable: Vec::new(), served: None };
    let message = Message::Put(put).encode();
    net.report(to, Incoming::Message { from: net.node(from), lane: Lane::Talk, message });
}

#[test]
fn decisions_are_checked_whoever_brings_them() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    // Member 2 brings what member 1 is said to have decided.
    put(&mut net, 2, 0, decision(1, START << 16, &net::member_key(2)), 0);
    assert!(!accepted(&net.hosts[0], "web1"));
    assert!(net.hosts[0].warnings().iter().any(|text| text.contains("the signature of m1 is wrong")));
    put(&mut net, 2, 0, decision(1, START << 16, &net::member_key(1)), 0);
    assert!(accepted(&net.hosts[0], "web1"));
}

#[test]
fn stamps_far_ahead_are_refused_and_do_not_move_the_clock() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let ahead = (START + 10 * DAY) << 16;
    put(&mut net, 1, 0, decision(1, ahead, &net::member_key(1)), 0);
    assert!(!accepted(&net.hosts[0], "web1"));
    assert!(net.hosts[0].warnings().iter().any(|text| text.contains("9 days ahead")), "{:?}", net.hosts[0].warnings());
    assert!(net.hosts[0].model.last_time() < ahead);
    put(&mut net, 1, 0, decision(1, (START + DAY / 2) << 16, &net::member_key(1)), 0);
    assert!(accepted(&net.hosts[0], "web1"), "half a day is followed");
}

#[test]
fn what_cannot_be_stored_changes_nothing_and_both_sides_know() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.hosts[1].model.records.set_full(true);
    let actions = net.hosts[1].actions.len();
    net.decide(0, "web1", State::Accepted, "k");
    net.change(1, Change::Write(Key::new("grains/web1").unwrap(), Content::Data(Some(packed("grains")))));
    net.run(SECOND);
    let (class, key) = (Class::Data, Key::new("grains/web1").unwrap());
    let not_stored = Action::NotStored { class, key, reason: "the disk is full".into() };
    assert!(net.hosts[1].actions.contains(&not_stored));
    let told =
        net.hosts[1].actions[actions..].iter().any(|one| matches!(one, Action::Changed(_) | Action::WriteKey { .. }));
    assert!(!told, "what is not stored has no consequences");
    assert!(!net.hosts[0].actions.iter().any(|action| matches!(action, Action::Safe { .. })));
    assert!(net.hosts[0].warnings().iter().any(|text| text.contains("refused 1 records: the disk is full")));

    net.hosts[1].model.records.set_full(false);
    net.run(11 * SECOND);
    net.check_equal("there is room again, and the next comparison of each minute is far");
}

#[test]
fn the_highest_stamp_is_written_with_the_records() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.hosts[0].ahead = DAY / 2;
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    for host in &net.hosts {
        assert_eq!(host.model.records().last_time(), host.model.last_time());
    }
}

#[test]
fn what_is_not_kept_is_not_safe_and_no_reason_to_warn() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.hosts[1].model.settings.shared = Classes::without(&[Class::End]);
    net.write(0, JID, Content::End(START));
    let expired = Content::Token { token: Some(packed("token")), expires: START };
    net.write(0, "5ec7e7", expired);
    net.run(SECOND);
    assert!(!net.hosts[0].actions.iter().any(|action| matches!(action, Action::Safe { .. })));
    assert!(net.hosts.iter().all(|host| host.warnings().is_empty()));
}

#[test]
fn a_removed_member_is_not_heard_any_more() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.decide(2, "web1", State::Accepted, "k");
    net.run(SECOND);
    let removed = net::member(2, Rights::ALL);
    net.change(0, Change::Member(removed, State::Deleted, By::User("root".into())));
    net.run(SECOND);
    assert!(net.hosts[1].actions.contains(&Action::Unlink(net.node(2))));
    assert!(accepted(&net.hosts[1], "web1"), "what it decided before still counts");
    net.link(1, 2);
    net.decide(2, "web2", State::Accepted, "k");
    net.run(2 * MINUTE);
    assert!(!accepted(&net.hosts[1], "web2"));
}

#[test]
fn a_decision_counts_for_all_or_for_nobody_whenever_they_hear_of_lost_rights() {
    let lost = [(State::Deleted, Rights::ALL), (State::Accepted, Rights::only(&[Right::Data]))];
    for (state, rights) in lost {
        let mut net = Net::new(3, 1);
        net.run(SECOND);
        net.cut(0, 1);
        net.cut(0, 2);
        // While the second member takes the decision of the third, the first one ends its rights.
        net.decide(2, "web1", State::Accepted, "k");
        net.change(0, Change::Member(net::member(2, rights), state, By::User("root".into())));
        net.run(SECOND);
        net.link(0, 1);
        net.run(2 * MINUTE);
        assert!(accepted(&net.hosts[0], "web1"), "{state:?}: {:?}", net.hosts[0].warnings());
        assert!(net.hosts[0].warnings().is_empty(), "{:?}", net.hosts[0].warnings());
        // And what it decides afterwards counts for nobody.
        net.link(0, 2);
        net.decide(2, "web2", State::Accepted, "k");
        net.run(2 * MINUTE);
        assert!(!accepted(&net.hosts[0], "web2") && !accepted(&net.hosts[1], "web2"));
    }
}

#[test]
fn decisions_of_members_that_were_never_accepted_or_decide_nothing_are_refused() {
    let pending = net::decided(net::member(3, Rights::ALL), State::Pending, 3);
    let witness =
        net::decided(crate::member::Member { role: Role::Witness, ..net::member(4, Rights::ALL) }, State::Accepted, 4);
    let removed = net::decided(net::member(5, Rights::ALL), State::Pending, 5);
    let mut net = Net::new(2, 1);
    let records = vec![welcomed(0), pending, witness, removed];
    net.change(0, Change::Welcome { from: net.node(0), decisions: records });
    net.change(0, Change::Member(net::member(5, Rights::ALL), State::Deleted, By::User("root".into())));
    net.run(SECOND);
    for number in 3..6 {
        put(&mut net, 1, 0, decision(number, START << 16, &net::member_key(number)), 0);
        assert!(!accepted(&net.hosts[0], "web1"), "{number}");
    }
    let warnings = net.hosts[0].warnings();
    for text in ["m3 is not accepted", "m4 lacks the right keys", "m5 is removed"] {
        assert!(warnings.iter().any(|warning| warning.contains(text)), "{text}: {warnings:?}");
    }
}

fn welcomed(number: usize) -> Record {
    net::welcome(number, Rights::ALL)
}

/// The record with decisions that somebody else signed in the name of their author.
fn signed_by(record: Record, key: &crypto::MemberKey) -> Record {
    let Content::Decided(class, entry) = &record.content else { panic!("decisions") };
    let sign = |one: &std::sync::Arc<SignedDecision>| SignedDecision::sign(one.decision().clone(), key).unwrap();
    let entry = Entry::new(entry.decisions().iter().map(sign).collect());
    Record::new(record.key.clone(), record.stamp, Content::Decided(*class, entry))
}

#[test]
fn who_is_linked_before_it_is_a_member_is_heard_once_it_is_one() {
    let mut net = Net::new(2, 1);
    net.cut(0, 1);
    net.change(0, Change::Member(net::member(2, Rights::ALL), State::Accepted, By::User("root".into())));
    net.hosts.push(net::Host::new(2, vec![welcomed(0), welcomed(1), welcomed(2)]));
    net.decide(2, "web1", State::Accepted, "k");
    net.link(1, 2);
    net.run(SECOND);
    assert!(!accepted(&net.hosts[1], "web1"));
    net.link(0, 1);
    net.run(MINUTE);
    assert!(accepted(&net.hosts[1], "web1"), "without a new link");
}

#[test]
fn strangers_are_not_heard() {
    let mut net = Net::new(2, 1);
    let stranger = net::member_key(9);
    let node = Node::of_key(&stranger.public());
    net.report(0, Incoming::Up(node));
    let message = Message::Want(vec![(Class::Keys, Key::new("web1").unwrap())]).encode();
    net.report(0, Incoming::Message { from: node, lane: Lane::Talk, message });
    assert!(net.hosts[0].warnings()[0].contains("no member of the set"));
    assert!(!net.sent.contains_key("put"));
}

#[test]
fn deletions_are_forgotten_once_and_for_all() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.decide(0, "web1", State::Deleted, "k");
    net.run(SECOND);
    // One member looks through its tombstones later than the other.
    for host in 0..2 {
        net.set_ahead(host, 90 * DAY - 5 * MINUTE);
    }
    net.run(MINUTE);
    assert_eq!(net.hosts[1].model.records().root(Class::Keys, 0).count, 1);
    net.run(20 * MINUTE);
    assert_eq!(net.hosts[0].model.records().root(Class::Keys, 0).count, 0);
    assert_eq!(net.hosts[1].model.records().root(Class::Keys, 0).count, 0);
    net.check_equal("forgotten");
}

#[test]
fn records_of_jobs_are_removed_with_their_age() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let (publisher, minutes) = (net.node(0), 24 * 60);
    net.write(0, JID, Content::Job { load: packed("load"), nocache: false });
    net.write(0, &format!("{JID}/web1"), returned(publisher, "one"));
    let late = "20260225010000000001";
    net.write(0, &format!("{late}/web1"), returned(publisher, "two"));
    net.run(SECOND);
    net.check_equal("written");
    (0..2).for_each(|host| net.set_ahead(host, (minutes + 30) * MINUTE));
    net.run(15 * MINUTE);
    for host in &net.hosts {
        let records = host.model.records();
        assert_eq!([Class::Job, Class::Return].map(|class| records.root(class, 0).count), [0, 1]);
    }
    net.check_equal("removed");
}

#[test]
fn a_deletion_does_not_become_young_by_being_sent() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    net.decide(0, "web1", State::Accepted, "k");
    net.decide(0, "web1", State::Deleted, "k");
    for host in 0..2 {
        net.set_ahead(host, 50 * DAY);
    }
    net.link(0, 1);
    net.run(SECOND);
    assert_eq!(net.hosts[1].model.records().root(Class::Keys, 0).count, 1);
    for host in 0..2 {
        net.set_ahead(host, 91 * DAY);
    }
    net.run(20 * MINUTE);
    assert_eq!(net.hosts[1].model.records().root(Class::Keys, 0).count, 0);
}

#[test]
fn of_two_deletions_the_younger_keeps_its_age() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    for (host, days) in [(0, 0), (1, 50)] {
        (0..2).for_each(|host| net.set_ahead(host, days * DAY));
        net.decide(host, "web1", State::Accepted, "k");
        net.decide(host, "web1", State::Deleted, "k");
    }
    (0..2).for_each(|host| net.set_ahead(host, 60 * DAY));
    net.link(0, 1);
    net.run(SECOND);
    net.check_equal("both deletions");
    let key = Key::new("web1").unwrap();
    for host in &net.hosts {
        let arrived = host.model.records().arrived(Class::Keys, &key).unwrap();
        assert!(arrived >= START + 50 * DAY, "{}", (arrived - START) / DAY);
    }
}

#[test]
fn what_others_could_not_read_is_not_written() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let long = || "x".repeat(300);
    let outputter = Return { packed: packed("return"), out: Some(long()), publisher: net.node(0), copy: false };
    net.write(0, &format!("{JID}/web1"), Content::Return(outputter));
    net.write(0, JID, Content::Job { load: vec![0; Record::MAX_CONTENT].into(), nocache: false });
    let (id, public_key) = (Key::new("web1").unwrap(), packed("k"));
    net.change(0, Change::Key { id, state: State::Accepted, public_key, by: By::User(long()) });
    let named = crate::member::Member { name: long(), ..net::member(3, Rights::ALL) };
    net.change(0, Change::Member(named, State::Accepted, By::Auto));
    let lost = net.hosts[0].actions.iter().filter(|action| matches!(action, Action::NotStored { .. }));
    assert_eq!(lost.count(), 4, "{:?}", net.hosts[0].actions);
    net.run(SECOND);
    assert!(net.hosts[1].warnings().is_empty());
    net.write(0, JID, Content::Job { load: vec![0; Record::MAX_CONTENT - 16].into(), nocache: false });
    net.run(MINUTE);
    let jobs = net.hosts[1].model.records().root(Class::Job, 0).count;
    assert_eq!(jobs, 1, "what is just not too large arrives");
}

#[test]
fn a_record_that_is_malformed_keeps_no_other_one_back() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let outputter =
        Return { packed: packed("return"), out: Some("x".repeat(300)), publisher: net.node(1), copy: false };
    let at = |time| Stamp { time, node: net.node(1) };
    let bad = Record::new(Key::of_parts(JID, "web1").unwrap(), at(1), Content::Return(outputter));
    let good = Record::new(Key::of_parts(JID, "web2").unwrap(), at(2), returned(net.node(1), packed("return")));
    let records = vec![(bad, 0), (good, 0)];
    let put = crate::message::Put { number: 77, records, unreadable: Vec::new(), served: None };
    let (from, message) = (net.node(1), Message::Put(put).encode());
    let now = net.moment(0);
    let actions = net.hosts[0].model.hear(Incoming::Message { from, lane: Lane::Talk, message }, now);
    assert_eq!(net.hosts[0].model.records().root(Class::Return, 0).count, 1);
    let answer = actions.iter().find_map(|action| match action {
        Action::Send { message, .. } => Message::decode(message).unwrap(),
        _ => None,
    });
    let Some(Message::Stored(stored)) = answer else { panic!("{actions:?}") };
    assert_eq!(stored.refused, [(0, "an outputter is missing, malformed or too large".to_owned())]);
}

#[test]
fn a_clock_that_jumps_for_a_minute_mutes_nobody() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.hosts[0].ahead = 10 * DAY;
    net.decide(0, "web1", State::Accepted, "k");
    net.run(MINUTE);
    assert!(accepted(&net.hosts[1], "web1"));
    net.hosts[0].ahead = 0;
    net.decide(0, "web2", State::Accepted, "k");
    net.run(SECOND);
    assert!(accepted(&net.hosts[1], "web2"));
    // A clock that stays where it is was set right.
    (0..2).for_each(|host| net.hosts[host].ahead = 10 * DAY);
    net.run(21 * MINUTE);
    net.decide(0, "web3", State::Accepted, "k");
    assert!(net.hosts[0].model.last_time() >> 16 >= START + 10 * DAY);
}

#[test]
fn there_is_an_end_to_members_and_claims() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    for number in 2..99 {
        net.change(0, Change::Member(net::member(number, Rights::ALL), State::Pending, By::Auto));
    }
    net.run(MINUTE);
    assert_eq!(net.hosts[1].model.records().root(Class::Members, 0).count, 99);
    net.change(0, Change::Member(net::member(99, Rights::ALL), State::Pending, By::Auto));
    let (class, key) = (Class::Members, Key::of_node(net::member(99, Rights::ALL).node()));
    let reason = "there are 99 records of members already".to_owned();
    assert!(net.hosts[0].actions.contains(&Action::NotStored { class, key, reason }));
    put(&mut net, 0, 1, net::decided(net::member(99, Rights::ALL), State::Pending, 7), 0);
    assert!(net.hosts[1].warnings().iter().any(|text| text.contains("there are 99 records")));
    // With a member less there is room.
    net.change(0, Change::Member(net::member(98, Rights::ALL), State::Deleted, By::User("root".into())));
    net.change(0, Change::Member(net::member(99, Rights::ALL), State::Pending, By::Auto));
    net.run(MINUTE);
    net.check_equal("99 members");
}

#[test]
fn changed_files_are_decisions_and_lost_ones_are_not() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let files = |id: &str, state| Change::Files(Key::new(id).unwrap(), vec![KeyFile { state, content: packed("k") }]);
    for number in 0..20 {
        net.change(0, files(&format!("web{number}"), State::Accepted));
    }
    net.run(SECOND);
    assert_eq!(net.hosts[1].files.len(), 20);
    // One file is deleted, and then all others are lost.
    let gone = |number: u64| Change::Files(Key::new(&format!("web{number}")).unwrap(), Vec::new());
    net.change(0, gone(0));
    net.run(10 * SECOND);
    assert_eq!(net.hosts[1].files.len(), 19);
    (1..20).for_each(|number| net.change(0, gone(number)));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 19, "nothing is decided");
    assert!(net.hosts[0].actions.iter().any(|action| matches!(action, Action::KeysLost(ids) if ids.len() == 19)));
    net.change(0, Change::LossAdopted);
    net.run(SECOND);
    assert_eq!(net.hosts[1].files.len(), 0);
    net.change(0, files("web1", State::Accepted));
    let id = Key::new("web1").unwrap();
    let aside = Action::SetAside { id, reason: "the same key was deleted or rejected" };
    assert!(net.hosts[0].actions.contains(&aside));
}

fn key_file(id: &str, present: bool) -> Change {
    let file = KeyFile { state: State::Accepted, content: packed("k") };
    Change::Files(Key::new(id).unwrap(), if present { vec![file] } else { Vec::new() })
}

#[test]
fn a_lost_file_that_another_member_brings_back_is_not_deleted_later() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    net.change(0, key_file("web1", false));
    net.run(SECOND);
    net.decide(1, "web1", State::Rejected, "k");
    net.run(10);
    net.decide(1, "web1", State::Accepted, "k");
    net.run(MINUTE);
    assert!(net.hosts.iter().all(|host| accepted(host, "web1")));
}

#[test]
fn a_lost_file_of_a_key_that_is_accepted_again_is_not_deleted_later() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.change(0, key_file("web1", false));
    net.decide(0, "web1", State::Accepted, "k");
    net.run(MINUTE);
    assert!(net.hosts.iter().all(|host| accepted(host, "web1")), "although it says nothing new");
}

/// As with `auto_accept`, and minions that are connected.
#[test]
fn keys_that_sign_ins_accept_again_do_not_hide_that_a_fleet_is_lost() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let id = |number: u64| format!("web{number}");
    (0..14).for_each(|number| net.change(0, key_file(&id(number), true)));
    net.run(SECOND);
    for number in 0..4 {
        let (id, public_key) = (Key::new(&id(number)).unwrap(), packed("k"));
        net.change(0, Change::Key { id, state: State::Accepted, public_key, by: By::Auto });
    }
    (4..14).for_each(|number| net.change(0, key_file(&id(number), false)));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 14, "ten of fourteen are lost, not deleted");
}

#[test]
fn deleted_keys_do_not_hide_that_a_fleet_is_lost() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    for number in 0..60 {
        net.change(0, key_file(&format!("web{number}"), true));
    }
    for number in 20..60 {
        net.decide(0, &format!("web{number}"), State::Deleted, "k");
    }
    net.run(SECOND);
    (0..11).for_each(|number| net.change(0, key_file(&format!("web{number}"), false)));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 20, "eleven of twenty are lost, not deleted");
    let reports = |net: &Net| net.hosts[0].actions.iter().filter(|one| matches!(one, Action::KeysLost(_))).count();
    let reported = reports(&net);
    net.run(10 * MINUTE);
    assert_eq!(reports(&net), reported, "it is not said again");
    (0..11).for_each(|number| net.change(0, key_file(&format!("web{number}"), true)));
    net.change(0, key_file("web0", false));
    net.run(MINUTE);
    assert_eq!(net.hosts[1].files.len(), 19, "after the false alarm one file is deleted again");
}

#[test]
fn changes_together_are_one_message_and_each_counts() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.sent.clear();
    let file = |id: &str, text| {
        Change::Files(Key::new(id).unwrap(), vec![KeyFile { state: State::Accepted, content: packed(text) }])
    };
    // The second change of an id sees the first one.
    net.change(0, Change::Together(vec![file("web1", "k"), file("web2", "k"), file("web2", "l")]));
    net.run(SECOND);
    assert!(accepted(&net.hosts[1], "web1"));
    assert_eq!(net.hosts[1].files["web2"].1, packed("l"));
    assert_eq!(net.sent["put"], 1);
}

#[test]
fn a_conflict_is_reported_where_it_is_seen() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    net.decide(0, "web1", State::Accepted, "k");
    net.decide(1, "web1", State::Rejected, "k");
    net.link(0, 1);
    net.run(SECOND);
    let conflict = Action::Conflict { class: Class::Keys, key: Key::new("web1").unwrap() };
    assert!(net.hosts.iter().all(|host| host.actions.contains(&conflict)));
    net.check_equal("the safer one");
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    assert!(net.hosts.iter().all(|host| accepted(host, "web1")), "the next decision settles it");
}

#[test]
fn clocks_that_jump_change_nothing() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.hosts[0].ahead = 3 * 60 * MINUTE;
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    net.hosts[0].ahead = 0;
    net.decide(1, "web1", State::Rejected, "k");
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.run(2 * MINUTE);
    net.check_equal("clocks");
    assert!(net.hosts.iter().all(|host| accepted(host, "web1")), "the order of decisions is kept");
}

#[test]
fn messages_of_later_versions_and_damaged_ones_are_survived() {
    let mut net = Net::new(2, 1);
    let hear = |net: &mut Net, message: &'static [u8]| {
        let (from, message) = (net.node(1), Bytes::from_static(message));
        net.report(0, Incoming::Message { from, lane: Lane::Talk, message });
    };
    hear(&mut net, b"\x92\xa5later\x01");
    assert!(net.hosts[0].warnings().is_empty());
    hear(&mut net, b"\x91");
    assert_eq!(net.hosts[0].warnings().len(), 1);
}
