//! What removed members decide after their removal.

use super::*;

fn remove(net: &mut Net, host: usize, removed: usize) {
    let member = net::member(removed, Rights::ALL);
    net.change(host, Change::Member(member, State::Deleted, By::User("root".into())));
}

/// Compares all members but the last one, which was removed.
fn check_without_the_last(net: &mut Net, what: &str) {
    let last = net.hosts.pop().expect("a host").model.node();
    net.check_equal(what);
    let model = &net.hosts[0].model;
    let removed_at = model.entry(Class::Members, &Key::of_node(last)).removed_at();
    for class in [Class::Members, Class::Keys] {
        for record in model.records().all(class) {
            let entry = model.entry(class, &record.key);
            let by_last = entry.decisions().iter().filter(|one| one.stamp.node == last && !one.is_removal());
            for one in by_last {
                assert!(removed_at.is_none_or(|at| one.stamp.time <= at), "{what}: {one:?}");
            }
        }
    }
}

#[test]
fn what_a_removed_member_decides_later_counts_nowhere_and_replaces_nothing() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    net.decide(0, "web0", State::Accepted, "k");
    net.decide(2, "web1", State::Accepted, "k");
    net.run(SECOND);
    net.cut(0, 1);
    remove(&mut net, 0, 2);
    net.run(SECOND);
    net.decide(2, "web0", State::Deleted, "k");
    net.decide(2, "web1", State::Rejected, "k");
    net.decide(2, "web2", State::Accepted, "k");
    net.change(2, Change::Member(net::member(7, Rights::ALL), State::Accepted, By::Auto));
    net.run(SECOND);
    assert!(accepted(&net.hosts[1], "web2") && !accepted(&net.hosts[1], "web0"), "nobody told the second member");
    net.link(0, 1);
    net.run(2 * MINUTE);
    for host in &net.hosts[..2] {
        assert!(accepted(host, "web0") && accepted(host, "web1"));
        assert_eq!(host.files["web2"].0, State::Pending, "somebody has to decide again");
        let friend = Key::of_node(net::member(7, Rights::ALL).node());
        assert!(host.model.entry(Class::Members, &friend).is_empty());
    }
    check_without_the_last(&mut net, "after the removal");
    // What is left is read at the next start.
    let records = net.hosts[1].model.records().clone();
    let again = Model::new(net::member_key(1), records, Settings::default(), 0);
    assert_eq!(again.live_keys, 3);
    assert!(!again.members.is_accepted(net::member(2, Rights::ALL).node()));
}

#[test]
fn a_removal_does_not_take_itself_back() {
    let mut net = Net::new(3, 1);
    net.run(SECOND);
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        net.cut(a, b);
    }
    remove(&mut net, 2, 0);
    net.run(SECOND);
    remove(&mut net, 0, 2);
    net.link(1, 2);
    net.run(SECOND);
    assert!(!net.hosts[1].model.members.is_accepted(net.node(0)), "the earlier removal counts");
    net.hosts[1].model.members = Members::load(net.hosts[1].model.records());
    let removal = net.hosts[0].model.records().get(Class::Members, &Key::of_node(net.node(2))).unwrap();
    put(&mut net, 2, 1, removal, 0);
    assert!(!net.hosts[1].model.members.is_accepted(net.node(2)), "and so does the later one");
}

fn storm(seed: u64) {
    let mut net = Net::new(3 + seed as usize % 2, seed);
    let last = net.hosts.len() - 1;
    for host in 0..net.hosts.len() {
        net.hosts[host].ahead = net.random.random_range(0..2) * 60 * MINUTE;
    }
    net.decide(0, "known", State::Accepted, "k");
    net.faults = Faults { loss: 0.2, repeat: 0.1, delay: 200 };
    let steps = net.random.random_range(20..60);
    let removals: Vec<(usize, usize)> = (0..net.random.random_range(1..3))
        .map(|_| (net.random.random_range(0..steps), net.random.random_range(0..last)))
        .collect();
    for step in 0..steps {
        any_change(&mut net);
        let (a, b) = (net.random.random_range(0..net.hosts.len()), net.random.random_range(0..net.hosts.len()));
        match net.random.random_range(0..10) {
            0..3 if a != b => net.cut(a, b),
            3 | 4 if a != b => net.link(a, b),
            _ => {}
        }
        for (_, host) in removals.iter().filter(|(at, _)| *at == step) {
            remove(&mut net, *host, last);
        }
        let pause = net.random.random_range(0..2_000);
        net.run(pause);
    }
    net.faults = Faults { delay: 5, ..Faults::default() };
    (0..last).for_each(|host| net.cut(host, last));
    for a in 0..last {
        (0..a).for_each(|b| net.link(a, b));
    }
    net.run(4 * MINUTE);
    check_without_the_last(&mut net, &format!("seed {seed}"));
}

#[test]
fn copies_become_equal_whoever_hears_of_a_removal_first() {
    let full = std::env::var("SALTERN_HISTORIES").ok().and_then(|count| count.parse::<u64>().ok());
    (0..full.map_or(60, |count| count / 100)).for_each(storm);
}
