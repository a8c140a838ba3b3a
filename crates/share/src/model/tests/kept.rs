//! What becomes of what a store outside the set keeps: an earlier decision replaces no later one, and deletions expire there, too.

use super::welcome::{kept_by, kept_of};
use super::*;
use crate::{KeptRecord, KeptVerdict};

fn web1() -> Key {
    Key::new("web1").unwrap()
}

/// Takes what is there, as a master does, and decides about it.
fn verdict(net: &mut Net, host: usize, there: Option<KeptRecord>) -> KeptVerdict {
    if let Some(there) = &there {
        net.change(host, Change::Kept(vec![there.clone()]));
    }
    let now = net.moment(host);
    net.hosts[host].model.kept_verdict(Class::Keys, &web1(), there.as_ref(), None, now)
}

#[test]
fn an_earlier_decision_never_replaces_a_later_one() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.run(SECOND);
    let earlier = kept_of(&net, 0, Class::Keys, &web1());
    assert!(matches!(verdict(&mut net, 0, None), KeptVerdict::Replace { .. }), "nothing is kept yet");
    assert_eq!(verdict(&mut net, 1, Some(earlier.clone())), KeptVerdict::Leave);
    net.cut(0, 1);
    net.decide(1, "web1", State::Deleted, "k");
    let later = kept_of(&net, 1, Class::Keys, &web1());
    let KeptVerdict::Replace { record, .. } = verdict(&mut net, 1, Some(earlier)) else { panic!("it is earlier") };
    assert_eq!(record.digest, later.record.digest);
    // The first member has not heard of it and comes late with what it decided.
    assert_eq!(verdict(&mut net, 0, Some(later)), KeptVerdict::Leave);
    assert!(!accepted(&net.hosts[0], "web1"), "it takes what is there");
}

#[test]
fn decisions_beside_each_other_are_kept_together() {
    let mut net = Net::strangers(2, 1, Rights::ALL);
    net.decide(0, "web1", State::Accepted, "k");
    net.decide(1, "web1", State::Rejected, "k");
    let there = kept_of(&net, 1, Class::Keys, &web1());
    let KeptVerdict::Replace { record, .. } = verdict(&mut net, 0, Some(there)) else { panic!("it says less") };
    let Content::Decided(_, entry) = &record.content else { panic!("an entry") };
    assert_eq!(entry.decisions().len(), 2);
}

#[test]
fn what_a_member_without_the_right_had_kept_is_replaced_and_such_a_member_replaces_nothing() {
    let mut net = Net::strangers(3, 1, Rights::only(&[Right::Jobs]));
    net.decide(0, "web1", State::Accepted, "k");
    let by = |writer| kept_by(writer, net.hosts[0].model.records().get(Class::Keys, &web1()).unwrap());
    let (right, wrong, unsigned) = (by(1), by(2), KeptRecord { signature: [0; 64], ..by(1) });
    assert_eq!(verdict(&mut net, 0, Some(right)), KeptVerdict::Leave);
    assert!(matches!(verdict(&mut net, 0, Some(wrong)), KeptVerdict::Replace { .. }));
    assert!(matches!(verdict(&mut net, 0, Some(unsigned)), KeptVerdict::Replace { .. }));
    assert_eq!(verdict(&mut net, 2, None), KeptVerdict::Leave);
}

#[test]
fn a_deletion_expires_where_it_is_kept_when_members_forget_it() {
    let mut net = Net::new(2, 1);
    net.run(SECOND);
    net.decide(0, "web1", State::Accepted, "k");
    net.decide(0, "web1", State::Deleted, "k");
    net.run(SECOND);
    let now = net.moment(0).wall;
    let there = KeptRecord { age: SECOND, at: now, ..kept_of(&net, 0, Class::Keys, &web1()) };
    (0..2).for_each(|host| net.set_ahead(host, 80 * DAY));
    net.run(20 * MINUTE);
    assert_eq!(verdict(&mut net, 0, Some(there.clone())), KeptVerdict::Leave);
    // A new member counts on from when it was kept.
    let mut fresh = Net::strangers(2, 1, Rights::ALL);
    (0..2).for_each(|host| fresh.set_ahead(host, 80 * DAY));
    assert_eq!(verdict(&mut fresh, 0, Some(there.clone())), KeptVerdict::Leave);
    assert_eq!(fresh.hosts[0].model.records().root(Class::Keys, 0).count, 1);
    for net in [&mut net, &mut fresh] {
        (0..2).for_each(|host| net.set_ahead(host, 91 * DAY));
        net.run(20 * MINUTE);
        assert_eq!(net.hosts[0].model.records().root(Class::Keys, 0).count, 0);
        let forgotten = Action::Forgotten { id: web1(), digest: there.record.digest };
        assert!(net.hosts[0].actions.contains(&forgotten), "whoever keeps it hears of it");
        assert_eq!(verdict(net, 0, Some(there.clone())), KeptVerdict::Remove);
        assert_eq!(net.hosts[0].model.records().root(Class::Keys, 0).count, 0, "it does not come back");
    }
    // What an earlier version had kept has no age: it goes when a member forgets it, and nothing else does.
    let there = KeptRecord { age: 0, at: 0, ..there };
    let now = net.moment(0);
    let model = &mut net.hosts[0].model;
    let mut decide = |forgotten| model.kept_verdict(Class::Keys, &web1(), Some(&there), forgotten, now);
    assert_eq!(decide(Some(there.record.digest)), KeptVerdict::Remove);
    assert_eq!(decide(Some(crate::Digest([7; 16]))), KeptVerdict::Leave);
}
