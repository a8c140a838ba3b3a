//! Grains, pillar and mine: who sends them, and whose are kept.

use super::net::{Host, Net};
use super::*;

/// The key of the minion is accepted everywhere.
fn know(net: &mut Net) {
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
}

fn grains(text: &'static str) -> Content {
    Content::Data(Some(packed(text)))
}

fn count(net: &Net, host: usize) -> u64 {
    net.hosts[host].model.records().root(Class::Data, 0).count
}

#[test]
fn data_that_both_got_from_the_minion_are_not_sent() {
    let mut net = Net::new(2, 1);
    know(&mut net);
    net.sent.clear();
    let grains = || Content::Data(Some(packed("grains")));
    net.write(0, "grains/web1", grains());
    net.run(50);
    net.write(1, "grains/web1", grains());
    net.run(SECOND);
    net.check_equal("both have it");
    assert_eq!(net.sent, BTreeMap::from([("have", 1)]), "one announcement, and nobody asks");
    net.write(0, "grains/web1", grains());
    net.run(SECOND);
    assert_eq!(net.sent["have"], 1, "what did not change is not announced");
}

#[test]
fn data_that_only_one_got_are_fetched() {
    let mut net = Net::new(3, 1);
    know(&mut net);
    net.write(0, "mine/web1", Content::Data(Some(packed("old"))));
    net.run(SECOND);
    net.write(2, "mine/web1", Content::Data(Some(packed("new"))));
    net.run(SECOND);
    net.check_equal("fetched");
    assert_eq!(net.sent["want"], 4);
}

#[test]
fn data_that_are_removed_and_written_again_are_fetched_at_once() {
    let mut net = Net::new(2, 1);
    know(&mut net);
    for content in [grains("mine"), Content::Data(None), grains("mine"), grains("other"), grains("mine")] {
        // The one that announced it first is told as well.
        let host = usize::from(net.hosts[0].model.records().root(Class::Data, 0).count > 0);
        net.write(host, "mine/web1", content.clone());
        net.run(SECOND);
        net.check_equal(&format!("{content:?}"));
    }
}

#[test]
fn what_is_written_later_counts_although_the_clock_is_behind() {
    let mut net = Net::new(2, 1);
    net.hosts[0].ahead = 3 * 60 * MINUTE;
    know(&mut net);
    net.write(0, "grains/web1", Content::Data(Some(packed("old"))));
    net.run(SECOND);
    net.write(1, "grains/web1", Content::Data(Some(packed("new"))));
    net.run(SECOND);
    net.check_equal("clocks");
    let record = net.hosts[0].model.records().get(Class::Data, &Key::new("grains/web1").unwrap());
    assert_eq!(record.unwrap().content, Content::Data(Some(packed("new"))));
}

#[test]
fn data_of_minions_without_a_key_are_not_taken() {
    let mut net = Net::new(2, 1);
    know(&mut net);
    for key in ["grains/other", "noise/web1", "pillar/web1/dev"] {
        net.write(1, key, grains("grains"));
    }
    net.run(2 * MINUTE);
    assert_eq!(count(&net, 0), 0);
    assert!(net.hosts[0].warnings().is_empty(), "the key may come later: {:?}", net.hosts[0].warnings());
    net.decide(1, "other", State::Accepted, "k");
    net.run(2 * MINUTE);
    assert_eq!(count(&net, 0), 1, "and is compared then");
}

#[test]
fn data_of_a_deleted_minion_are_gone_for_ever() {
    let mut net = Net::new(3, 1);
    know(&mut net);
    net.write(0, "grains/web1", grains("grains"));
    net.run(SECOND);
    net.cut(0, 2);
    net.cut(1, 2);
    net.decide(0, "web1", State::Deleted, "k");
    net.write(0, "grains/web1", Content::Data(None));
    net.run(SECOND);
    // One that has not heard of it.
    net.write(2, "grains/web1", grains("newer"));
    net.run(SECOND);
    net.link(1, 2);
    net.link(0, 2);
    net.run(2 * MINUTE);
    let record =
        |host: usize| net.hosts[host].model.records().get(Class::Data, &Key::new("grains/web1").unwrap()).unwrap();
    assert!([0, 1].map(record).iter().all(Record::is_tombstone));
}

#[test]
fn a_witness_gets_members_and_keys_only_and_a_reader_shares_what_its_minions_do() {
    let mut net = Net::new(3, 1);
    let role = |number, role| Member { role, ..net::member(number, Rights::ALL) };
    for (number, role) in [(1, role(1, Role::Witness)), (2, role(2, Role::Reader))] {
        net.change(0, Change::Member(role, State::Accepted, By::User("root".into())));
        assert_eq!(net.node(number), net::member(number, Rights::ALL).node());
    }
    know(&mut net);
    net.write(0, "grains/web1", grains("grains"));
    net.write(0, &format!("{JID}/web1"), returned(net.node(0), packed("return")));
    net.run(3 * MINUTE);
    let counts = |host: usize| {
        let records = net.hosts[host].model.records();
        [Class::Members, Class::Keys, Class::Data, Class::Return].map(|class| records.root(class, 0).count)
    };
    assert_eq!([0, 1, 2].map(counts), [[3, 1, 1, 1], [3, 1, 0, 0], [3, 1, 1, 1]]);
    assert!(net.hosts[0].model.compared(net.node(1)).is_some() || net.hosts[1].model.compared(net.node(0)).is_some());
    for host in [1, 2] {
        net.write(host, &format!("pillar/web{host}"), grains("pillar"));
        net.write(host, &format!("{JID}/db{host}"), returned(net.node(host), packed("return")));
        let (node, begun) = (net.node(host), START);
        net.write(host, &format!("backup/{host}"), Content::Claim(Claim { node, begun, done: None }));
    }
    net.decide(2, "web2", State::Accepted, "k");
    net.run(SECOND);
    let has = |class, key: &str| net.hosts[0].model.records().get(class, &Key::new(key).unwrap()).is_some();
    assert!(!has(Class::Return, &format!("{JID}/db1")), "of a witness");
    assert!(has(Class::Return, &format!("{JID}/db2")));
    assert!(!has(Class::Keys, "web2"), "a reader decides nothing");
    assert!(has(Class::Claim, "backup/1") && !has(Class::Claim, "backup/2"), "and runs nothing once");
}

#[test]
fn a_reader_adds_returns_and_replaces_none_and_takes_those_of_masters() {
    let mut net = Net::new(2, 1);
    let reader = Member { role: Role::Reader, ..net::member(1, Rights::ALL) };
    net.change(0, Change::Member(reader, State::Accepted, By::User("root".into())));
    know(&mut net);
    net.cut(0, 1);
    let (key, alone) = (format!("{JID}/web1"), format!("{JID}/web2"));
    net.write(1, &key, returned(net.node(1), packed("forged, with an earlier stamp")));
    net.write(1, &alone, returned(net.node(1), packed("of its own minion")));
    net.run(SECOND);
    net.write(0, &key, returned(net.node(0), packed("honest")));
    net.link(0, 1);
    net.run(3 * MINUTE);
    let has = |host: usize, key: &str| net.hosts[host].model.records().get(Class::Return, &Key::new(key).unwrap());
    let text = |host: usize, key: &str| match has(host, key).map(|record| record.content) {
        Some(Content::Return(returned)) => returned.packed,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1].map(|host| text(host, &key)), [packed("honest"), packed("honest")]);
    assert_eq!([0, 1].map(|host| text(host, &alone)), [packed("of its own minion"), packed("of its own minion")]);
    let warned = |what: &str| net.hosts[0].warnings().iter().any(|warning| warning.contains(what));
    assert!(warned("which is a reader, sent another return for"), "{:?}", net.hosts[0].warnings());
    let root = |host: usize| net.hosts[host].model.records().root(Class::Return, 0);
    assert_eq!(root(0), root(1));
}

/// Its minions sign in, and somebody moves their key files.
#[test]
fn keys_that_only_a_reader_knows_wait_until_another_member_decides() {
    let mut net = Net::new(2, 1);
    let reader = Member { role: Role::Reader, ..net::member(1, Rights::ALL) };
    net.change(0, Change::Member(reader, State::Accepted, By::User("root".into())));
    net.run(SECOND);
    let key = |id: &str| Key::new(id).unwrap();
    let change = |net: &mut Net, id: &str, state, by| {
        let now = net.moment(1);
        net.hosts[1].model.local(Change::Key { id: key(id), state, public_key: "k".into(), by }, now)
    };
    assert_eq!(change(&mut net, "web1", State::Pending, By::Auto), [], "it waits, and nobody is told");
    let aside = |actions: &[Action]| actions.iter().any(|one| matches!(one, Action::SetAside { .. }));
    assert!(aside(&change(&mut net, "web1", State::Accepted, By::User("root".into()))));
    assert!(aside(&change(&mut net, "web1", State::Rejected, By::Files)));
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    let written = |net: &Net| net.hosts[1].files.get(&key("web1")).cloned();
    assert_eq!(written(&net), net.hosts[0].files.get(&key("web1")).cloned());
    let accepted = Some((State::Accepted, Bytes::from("k")));
    let follows = |actions: &[Action], wanted: &Option<(State, Bytes)>| {
        actions.iter().any(|one| matches!(one, Action::WriteKey { present, .. } if present == wanted))
    };
    for state in [State::Deleted, State::Rejected, State::Pending] {
        assert!(follows(&change(&mut net, "web1", state, By::Files), &accepted), "{state:?}");
    }
    net.decide(0, "web1", State::Deleted, "k");
    net.run(SECOND);
    assert_eq!(change(&mut net, "web1", State::Pending, By::Auto), [], "it may be accepted again");
    net.run(2 * MINUTE);
    let roots = |host: usize| net.hosts[host].model.records().root(Class::Keys, 0);
    assert_eq!(roots(0), roots(1));
}

/// A witness decides about itself and whom it meets, before it has heard of the set. Nobody takes that.
#[test]
fn the_copies_of_a_witness_become_those_of_the_others() {
    let mut net = Net::strangers(3, 1, Rights::ALL);
    let witness = Member { role: Role::Witness, ..net::member(2, Rights::ALL) };
    let joins = |net: &mut Net, host, member| net.change(host, Change::Member(member, State::Accepted, By::Auto));
    let (first, second) = (net::welcome(0, Rights::ALL), net::welcome(1, Rights::ALL));
    let third = net::decided(witness.clone(), State::Accepted, 2);
    for host in [0, 1] {
        net.hosts[host] = Host::new(host, vec![first.clone(), second.clone(), third.clone()]);
    }
    net.hosts[2] = Host::new(2, vec![first, third]);
    joins(&mut net, 2, net::member(1, Rights::ALL));
    [(0, 1), (0, 2), (1, 2)].into_iter().for_each(|(a, b)| net.link(a, b));
    know(&mut net);
    net.run(3 * MINUTE);
    // It has moved, and somebody changes its key files.
    joins(&mut net, 2, Member { addresses: vec!["10.0.0.4".into()], ..witness });
    net.decide(2, "web1", State::Rejected, "k");
    net.run(3 * MINUTE);
    let roots = |host: usize| {
        let records = net.hosts[host].model.records();
        [Class::Members, Class::Keys].map(|class| records.root(class, 0))
    };
    assert_eq!([roots(1), roots(2)], [roots(0), roots(0)]);
    assert_eq!(net.hosts[2].files, net.hosts[0].files);
}

#[test]
fn a_member_that_asks_without_end_is_not_answered() {
    let mut net = Net::new(2, 1);
    know(&mut net);
    let leaves: Vec<u32> = (0..crate::message::MOST_PARTS as u32).collect();
    let asked = |round| crate::message::Items {
        round,
        class: Class::Return,
        since: 0,
        leaves: leaves.clone(),
        hashes: vec![1],
    };
    let from = net.node(1);
    let ask = |net: &mut Net, round| {
        let message = Message::Items(asked(round)).encode();
        let now = net.moment(0);
        net.hosts[0].model.hear(Incoming::Message { from, lane: Lane::Bulk, message }, now)
    };
    let answered =
        (0..1_000).filter(|round| ask(&mut net, *round).iter().any(|one| matches!(one, Action::Send { .. }))).count();
    assert!((50..200).contains(&answered), "{answered}");
    net.run(MINUTE);
    assert!(ask(&mut net, 1).iter().any(|one| matches!(one, Action::Send { .. })), "later it is");
}
