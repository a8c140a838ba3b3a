//! Peers that cheat: proofs that were meant for others, and members that flood.

use std::sync::Arc;
use std::time::Duration;

use crate::support::puppet::{PUPPET, Puppet, hello, kind, ping};
use crate::support::{Known, Log, Member, PORT, acquainted, node, options, secret};
use rt::sim::Sim;
use rt::{Connect, Listen};
use saltern_links::{Members, Options, Standing, Target};
use share::{Carrier, Incoming, Lane, SendResult, To};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};
use value::Value;

const SECRET: &str = "twenty characters at least";

/// Lets the second member dial the stranger's host, which says `hello` and gets the proof of the member.
async fn steal_a_proof(sim: &Sim) -> (Member, Puppet, Vec<Value>) {
    let listen = Listen::at(format!("0.0.0.0:{PORT}").parse().unwrap());
    let listener = sim.rt("stranger").net().listen(&listen).await.unwrap();
    let with = Options { credentials: secret(SECRET), ..options(2) };
    let member = Member::start(sim, with, Arc::new(Known::default())).await;
    member.dial(&["stranger"]);
    let mut puppet = Puppet::answer(listener.accept().await.unwrap().stream).await;
    assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
    puppet.send(hello("m9", Lane::Talk, false, true)).await;
    let proof = puppet.frame().await.unwrap();
    assert_eq!(kind(&proof), "proof");
    (member, puppet, proof)
}

/// Checks that a peer refuses a proof.
async fn refuses(puppet: &mut Puppet) {
    let answer = puppet.frame().await.expect("it says why");
    assert_eq!((kind(&answer), answer[2].as_str()), ("refused", Some("proof")), "{answer:?}");
    assert_eq!(puppet.frame().await, None);
}

#[test]
fn a_proof_that_was_shown_to_a_stranger_proves_nothing_elsewhere() {
    Sim::run(1, async |sim| {
        ["m1", "m2", "stranger"].iter().for_each(|host| sim.add_host(host));
        let with = Options { credentials: secret(SECRET), ..options(1) };
        let mut one = Member::start(&sim, with, Arc::new(Known::default())).await;
        let (_member, _held, proof) = steal_a_proof(&sim).await;
        let mut puppet = Puppet::dial(&sim).await;
        puppet.send(hello("m2", Lane::Talk, false, true)).await;
        assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
        puppet.send(proof).await;
        refuses(&mut puppet).await;
        assert_eq!(one.next().await, None);
        assert_eq!(one.known.standing(node(PUPPET)), Standing::Stranger);
        assert_eq!(one.links.waiting(), [], "who fails a proof does not wait");
        assert_eq!(*one.known.told_time.lock().unwrap(), [], "what it says of the time does not count");
    });
}

#[test]
fn another_key_with_the_node_of_a_member_does_not_link_until_the_key_is_that_of_the_member() {
    let log = Log::start();
    Sim::run(1, async |sim| {
        ["m1", "m2"].iter().for_each(|host| sim.add_host(host));
        let mut one = Member::start(&sim, options(1), acquainted(&[1, 2])).await;
        one.known.other_keys.lock().unwrap().insert(node(2));
        let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
        two.dial(&["m1"]);
        assert_eq!(two.next().await, None);
        let words = "its key is another one than that of the member with its node";
        assert_eq!(two.reason(), format!("refused there: {words}"));
        assert_eq!(one.links.status(), [], "what somebody does under its node is no reason why the member is away");
        assert!(log.count(words) > 0);
        one.dial(&["m2"]);
        assert_eq!(one.next().await, None, "and who dials compares as well");
        assert_eq!(one.reason(), words);
        one.known.other_keys.lock().unwrap().clear();
        one.wait_up(2).await;
        two.wait_up(1).await;
    });
}

#[test]
fn nothing_is_proven_at_an_address_that_the_operator_has_not_named() {
    Sim::run(1, async |sim| {
        ["m2", "stranger"].iter().for_each(|host| sim.add_host(host));
        let listen = Listen::at(format!("0.0.0.0:{PORT}").parse().unwrap());
        let listener = sim.rt("stranger").net().listen(&listen).await.unwrap();
        let with = Options { credentials: secret(SECRET), ..options(2) };
        let member = Member::start(&sim, with, Arc::new(Known::default())).await;
        // As a member has said of itself, or of another one.
        member.links.set_addresses(&[Target { address: "stranger".into(), member: Some(node(3)) }]);
        let mut puppet = Puppet::answer(listener.accept().await.unwrap().stream).await;
        assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
        puppet.send(hello("m9", Lane::Talk, false, true)).await;
        assert_eq!(kind(&puppet.frame().await.unwrap()), "bye");
        assert_eq!(member.known.standing(node(PUPPET)), Standing::Stranger);
    });
}

#[test]
fn silent_strangers_do_not_keep_members_from_linking() {
    Sim::run(1, async |sim| {
        ["m1", "m2"].iter().for_each(|host| sim.add_host(host));
        let hosts: Vec<String> = (0..5).map(|number| format!("silent{number}")).collect();
        hosts.iter().for_each(|host| sim.add_host(host));
        let mut one = Member::start(&sim, options(1), acquainted(&[1, 2])).await;
        let mut held = Vec::new();
        for host in &hosts {
            let rt = sim.rt(host);
            let to = rt.net().resolve("m1", PORT).await.unwrap()[0];
            for _ in 0..8 {
                held.push(rt.net().connect(&Connect::to(to)).await.unwrap().stream);
            }
        }
        // The first knows where the second is, and cannot dial it.
        one.dial(&["m2:4999"]);
        let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
        two.dial(&["m1"]);
        let up = timeout(Duration::from_secs(3), two.wait_up(1));
        up.await.expect("a place is kept for a member");
        one.wait_up(2).await;
    });
}

#[test]
fn the_proof_of_the_dialler_is_none_of_the_listener() {
    Sim::run(1, async |sim| {
        ["m2", "stranger"].iter().for_each(|host| sim.add_host(host));
        let (member, mut puppet, proof) = steal_a_proof(&sim).await;
        puppet.send(proof).await;
        refuses(&mut puppet).await;
        assert_eq!(member.known.standing(node(PUPPET)), Standing::Stranger);
    });
}

#[test]
fn a_listener_shows_no_proof_before_it_has_seen_one() {
    Sim::run(1, async |sim| {
        ["m1", "stranger"].iter().for_each(|host| sim.add_host(host));
        let with = Options { credentials: secret(SECRET), ..options(1) };
        let _one = Member::start(&sim, with, Arc::new(Known::default())).await;
        let mut puppet = Puppet::dial(&sim).await;
        puppet.send(hello("m9", Lane::Talk, true, true)).await;
        assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
        // It waits for the proof of the dialler until its patience ends.
        assert_eq!(timeout(Duration::from_secs(9), puppet.frame()).await.expect("it closes"), None);
    });
}

#[test]
fn a_member_that_floods_pings_costs_no_memory_and_no_other_member() {
    let log = Log::start();
    Sim::run(1, async |sim| {
        ["m1", "m2", "stranger"].iter().for_each(|host| sim.add_host(host));
        let mut one = Member::start(&sim, options(1), acquainted(&[1, 2, PUPPET])).await;
        let mut talk = Puppet::link(&sim, Lane::Talk).await;
        let _bulk = Puppet::link(&sim, Lane::Bulk).await;
        one.wait_up(PUPPET).await;
        let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
        two.dial(&["m1"]);
        two.wait_up(1).await;
        // It never reads an answer, and names other links each time. Nobody reads the reports of the first meanwhile.
        for count in 0..20_000u64 {
            let other = Value::bytes(count.to_be_bytes().to_vec());
            if count % 1_000 == 0 {
                tokio::task::yield_now().await;
            }
            talk.send(ping(count, vec![other])).await;
        }
        talk.0.flush().await.unwrap();
        let start = Instant::now();
        assert_eq!(two.links.send(To::All, Lane::Talk, "still here".into()), SendResult::Queued);
        let mut reports = 0;
        while !matches!(one.reports.next().await, Incoming::Message { message, .. } if message == "still here") {
            reports += 1;
        }
        assert!(start.elapsed() < Duration::from_secs(1));
        assert!(reports < 10, "{reports} reports are kept of a member that floods");
    });
    assert_eq!(log.count(""), 0, "nothing is logged about it");
}

/// Its own time counts once TLS has proven its key, even if it is refused afterwards for that time.
#[test]
fn what_a_stranger_says_of_the_time_does_not_count_and_what_a_member_says_does() {
    for is_member in [false, true] {
        Sim::run(1, async |sim| {
            ["m1", "stranger"].iter().for_each(|host| sim.add_host(host));
            let known = if is_member { acquainted(&[1, PUPPET]) } else { acquainted(&[1]) };
            let with = Options { credentials: secret(SECRET), ..options(1) };
            let one = Member::start(&sim, with, known).await;
            let mut puppet = Puppet::dial(&sim).await;
            puppet.send(hello("m9", Lane::Talk, true, true)).await;
            assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
            // Out of turn: only a linked member says what the clock of its host shows.
            puppet.send(ping(1, vec![])).await;
            while puppet.frame().await.is_some() {}
            let expected: &[_] = if is_member { &[node(PUPPET)] } else { &[] };
            assert_eq!(*one.known.told_time.lock().unwrap(), expected);
            assert!(one.known.told_wall.lock().unwrap().is_empty());
        });
    }
}
