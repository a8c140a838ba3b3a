//! What a member does after a bug has left its model half changed.

use super::net::Net;
use super::*;

#[test]
fn a_member_that_begins_again_is_as_before_and_finds_what_it_missed() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.decide(1, "web1", State::Accepted, "k");
    net.run(SECOND);
    // A put was taken apart and not stored.
    let record = net.hosts[1].model.records().get(Class::Keys, &Key::new("web1").unwrap()).unwrap();
    let model = &mut net.hosts[0].model;
    model.stage(None, Record { key: Key::new("web9").unwrap(), ..record }, START, staged::Origin::Remote);
    model.members = Members::default();
    model.live_keys = 70;
    // And a message was lost with it.
    net.cut(0, 2);
    net.decide(2, "web2", State::Accepted, "k");
    let (node, now) = (net.node(2), net.moment(0));
    net.hosts[0].model.reached.insert(node);
    let actions = net.hosts[0].model.restart(now);
    net.link(0, 2);
    net.act(0, actions);
    assert_eq!(net.hosts[0].model.live_keys, 1);
    net.run(2 * MINUTE);
    net.check_equal("begun again");
    assert!(net.hosts.iter().all(|host| accepted(host, "web1") && accepted(host, "web2") && !accepted(host, "web9")));
    net.decide(0, "web3", State::Accepted, "k");
    net.run(SECOND);
    net.check_equal("it is heard");
}
