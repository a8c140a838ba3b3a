//! What members believe of the decisions in a welcome.

use super::*;
use crate::{Decision, KeptRecord};

/// A record as a member has it kept outside the set.
pub(super) fn kept_by(writer: usize, record: Record) -> KeptRecord {
    let (key, signed) = (net::member_key(writer), Bytes::from(format!("{record:?}")));
    let signature = key.sign(&signed).unwrap();
    KeptRecord { record, writer: Node::of_key(&key.public()), signed, signature, age: 0, at: 0 }
}

pub(super) fn kept_of(net: &Net, host: usize, class: Class, key: &Key) -> KeptRecord {
    kept_by(host, net.hosts[host].model.records().get(class, key).unwrap())
}

fn state_of(host: &net::Host, id: &str) -> Option<State> {
    host.model.entry(Class::Keys, &Key::new(id).unwrap()).present().map(|(state, _)| state)
}

/// A decision of a member about a member at a time in milliseconds since 1970.
fn decided(by: usize, member: Member, state: State, at: u64) -> Record {
    let (key, content) = (Key::of_node(member.node()), member.pack());
    let author = net::member_key(by);
    let stamp = Stamp { time: at << 16, node: Node::of_key(&author.public()) };
    let (class, replaces, follows) = (Class::Members, crate::Seen::default(), crate::Seen::default());
    let by = By::User("root".into());
    let decision = Decision { class, key: key.clone(), stamp, state, content, by, replaces, follows };
    let signed = SignedDecision::sign(decision, &author).unwrap();
    Record::new(key, stamp, Content::Decided(Class::Members, Entry::new(vec![signed])))
}

#[test]
fn a_welcome_from_the_future_does_not_move_the_clock() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    let ahead = START + 10 * DAY;
    let future = decided(1, net::member(1, Rights::ALL), State::Accepted, ahead);
    let decisions = vec![welcomed(0), welcomed(1), future, welcomed(2)];
    net.change(0, Change::Welcome { from: net.node(1), decisions });
    assert!(net.hosts[0].model.last_time() < ahead << 16);
    let warnings = net.hosts[0].warnings();
    assert!(warnings.iter().any(|text| text.contains("m1") && text.contains("9 days ahead")), "{warnings:?}");
    let third = Node::of_key(&net::member_key(2).public());
    assert!(net.hosts[0].model.entry(Class::Members, &Key::of_node(third)).present().is_some(), "the others count");
    // What it decides now is believed by the others.
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    assert!(accepted(&net.hosts[1], "web1"), "{:?}", net.hosts[1].warnings());
}

#[test]
fn a_welcome_is_believed_only_if_its_decisions_hold() {
    let fresh = |from: usize, decisions: Vec<Record>| {
        let mut model = Model::new(net::member_key(7), crate::MemoryRecords::default(), Settings::default(), 0);
        let from = Node::of_key(&net::member_key(from).public());
        let actions = model.local(Change::Welcome { from, decisions }, Moment { wall: START, steady: 0 });
        let warned = actions.iter().any(|action| matches!(action, Action::Warn(_)));
        (model.records().root(Class::Members, 0).count, warned)
    };
    let all = || vec![welcomed(0), welcomed(1)];
    assert_eq!(fresh(1, all()), (2, false));
    assert_eq!(fresh(2, all()), (0, true), "the sender is no member");
    assert_eq!(fresh(1, vec![welcomed(1)]), (0, true), "its author is not there");
    let mut forged = all();
    forged[1] = signed_by(welcomed(1), &net::member_key(1));
    assert_eq!(fresh(1, forged), (0, true), "the author did not sign");
}

#[test]
fn a_reader_cannot_make_itself_a_master_by_its_welcome() {
    let mut net = Net::new(2, 1);
    let reader = Member { role: Role::Reader, ..net::member(2, Rights::ALL) };
    net.change(0, Change::Member(reader, State::Accepted, By::User("root".into())));
    let master = decided(2, net::member(2, Rights::ALL), State::Accepted, START);
    let removal = decided(2, net::member(1, Rights::ALL), State::Deleted, START);
    let from = Node::of_key(&net::member_key(2).public());
    let before = net.hosts[0].model.records().root(Class::Members, 0);
    net.change(0, Change::Welcome { from, decisions: vec![master, removal] });
    assert_eq!(net.hosts[0].model.records().root(Class::Members, 0), before);
    let removed = net.hosts[0].model.entry(Class::Members, &Key::of_node(net.node(1)));
    assert_eq!(removed.present().map(|(state, _)| state), Some(State::Accepted));
    let warnings = net.hosts[0].warnings();
    assert!(warnings.iter().any(|text| text.contains("m2 lacks the right members")), "{warnings:?}");
}

#[test]
fn what_was_kept_outside_the_set_counts_only_with_the_signature_of_a_member() {
    let mut net = Net::new(2, 1);
    net.decide(1, "web1", State::Accepted, "k");
    let kept = |net: &Net, id: &str| net.hosts[1].model.records().get(Class::Keys, &Key::new(id).unwrap()).unwrap();
    let good = kept(&net, "web1");
    // The first member has not heard of it: nobody is there.
    net.cut(0, 1);
    net.decide(1, "web2", State::Accepted, "k");
    let forged = signed_by(kept(&net, "web2"), &net::member_key(0));
    let mut fresh = Net::new(2, 1);
    fresh.change(0, Change::Kept(vec![kept_by(1, forged), kept_by(1, good)]));
    assert!(accepted(&fresh.hosts[0], "web1"), "{:?}", fresh.hosts[0].warnings());
    assert!(!accepted(&fresh.hosts[0], "web2"));
    let warnings = fresh.hosts[0].warnings();
    assert!(
        warnings.iter().any(|text| text.contains("1 decisions that were kept") && text.contains("signature")),
        "{warnings:?}"
    );
}

#[test]
fn a_member_without_the_right_cannot_decide_by_way_of_a_store() {
    let mut net = Net::new(3, 1);
    let (old, new) = (Key::new("web1").unwrap(), Key::new("web2").unwrap());
    net.decide(2, "web1", State::Accepted, "k");
    net.run(SECOND);
    // It has not heard that it may not any more.
    (0..2).for_each(|host| net.cut(host, 2));
    let demoted = net::member(2, Rights::ALL.without(&[Right::Keys, Right::Members]));
    net.change(0, Change::Member(demoted, State::Accepted, By::User("root".into())));
    net.run(SECOND);
    net.decide(2, "web2", State::Accepted, "k");
    let again = Change::Member(net::member(2, Rights::ALL), State::Accepted, By::User("root".into()));
    net.change(2, Change::Member(net::member(2, Rights::NONE), State::Accepted, By::User("root".into())));
    net.change(2, again);
    let own = Key::of_node(net.node(2));
    let mut kept = vec![
        kept_of(&net, 2, Class::Members, &own),
        kept_of(&net, 2, Class::Keys, &new),
        kept_of(&net, 2, Class::Keys, &old),
    ];
    // In the name of another member, which would be believed.
    kept.push(KeptRecord { writer: net.node(0), ..kept_of(&net, 2, Class::Keys, &new) });
    net.change(1, Change::Kept(kept));
    assert_eq!(state_of(&net.hosts[1], "web2"), None);
    assert!(!net.hosts[1].model.members.rights(net.node(2)).contains(Right::Keys));
    let warnings = net.hosts[1].warnings();
    assert!(warnings.iter().any(|text| text.contains("3 decisions that were kept")), "{warnings:?}");
    assert_eq!(state_of(&net.hosts[1], "web1"), Some(State::Accepted), "what it decided before still counts");
}

#[test]
fn what_a_member_that_is_gone_decided_counts_if_another_one_has_it_kept() {
    let mut net = Net::new(3, 1);
    net.decide(2, "web1", State::Accepted, "k");
    net.run(SECOND);
    net.change(0, Change::Member(net::member(2, Rights::ALL), State::Deleted, By::User("root".into())));
    net.run(SECOND);
    let web = Key::new("web1").unwrap();
    let mut late = Net::new(3, 1);
    late.change(1, Change::Member(net::member(2, Rights::ALL), State::Deleted, By::User("root".into())));
    late.change(1, Change::Kept(vec![kept_of(&net, 2, Class::Keys, &web)]));
    assert_eq!(state_of(&late.hosts[1], "web1"), None);
    late.change(1, Change::Kept(vec![kept_of(&net, 0, Class::Keys, &web)]));
    assert_eq!(state_of(&late.hosts[1], "web1"), Some(State::Accepted), "{:?}", late.hosts[1].warnings());
}

#[test]
fn who_knows_nobody_learns_the_set_from_a_store() {
    let mut net = Net::new(3, 1);
    net.decide(1, "web1", State::Accepted, "k");
    net.run(SECOND);
    let members = || (0..3).map(|number| kept_of(&net, 0, Class::Members, &Key::of_node(net.node(number))));
    let keys = kept_of(&net, 1, Class::Keys, &Key::new("web1").unwrap());
    let fresh = |kept: Vec<KeptRecord>| {
        let mut model = Model::new(net::member_key(7), crate::MemoryRecords::default(), Settings::default(), 0);
        let actions = model.local(Change::Kept(kept), Moment { wall: START, steady: 0 });
        let warned = actions.iter().any(|action| matches!(action, Action::Warn(_)));
        let [members, keys] = [Class::Members, Class::Keys].map(|class| model.records().root(class, 0).count);
        (members, keys, warned)
    };
    assert_eq!(fresh(members().chain([keys.clone()]).collect()), (3, 1, false));
    assert_eq!(fresh(vec![keys.clone()]), (0, 0, true), "nobody is known who decided it");
    assert_eq!(fresh(members().skip(1).collect()), (0, 0, true), "nobody is known who accepted them");
    let unsigned = members().map(|kept| KeptRecord { signature: [0; 64], ..kept });
    assert_eq!(fresh(unsigned.collect()), (0, 0, true), "the signatures are wrong");
}

#[test]
fn a_member_that_a_store_makes_known_is_believed_whatever_stands_first() {
    let mut net = Net::new(2, 1);
    let mut other = Net::new(4, 1);
    other.change(2, Change::Member(net::member(9, Rights::ALL), State::Accepted, By::User("root".into())));
    let ninth = Key::of_node(Node::of_key(&net::member_key(9).public()));
    let third = Key::of_node(other.node(2));
    let known = kept_by(0, welcomed(2));
    net.change(0, Change::Kept(vec![kept_of(&other, 2, Class::Members, &ninth), known]));
    let entry = net.hosts[0].model.entry(Class::Members, &ninth);
    assert!(entry.present().is_some(), "{:?}", net.hosts[0].warnings());
    assert!(net.hosts[0].model.entry(Class::Members, &third).present().is_some());
    assert!(net.hosts[0].warnings().is_empty());
}
