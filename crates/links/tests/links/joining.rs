//! Who may link: members, and strangers that prove that they belong to the set. Everybody else is refused in words.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Known, Log, Member, PORT, acquainted, node, options, secret};
use bytes::Bytes;
use crypto::PrivateKey;
use rt::sim::Sim;
use saltern_links::{Credentials, HEARTBEAT, LinkState, Links, Members, Options, SelfReport, Standing};
use share::member::Role;
use share::{Carrier, Class, Classes, Lane, SendResult, To};

const SECRET: &str = "twenty characters at least";

/// Starts two members of which the second dials the first, and returns them.
async fn meet(sim: &Sim, one: (Options, Arc<Known>), two: (Options, Arc<Known>)) -> (Member, Member) {
    sim.add_host("m1");
    sim.add_host("m2");
    let first = Member::start(sim, one.0, one.1).await;
    // The host of the second is `m2`, whatever name it claims.
    let rt = sim.rt("m2");
    let (links, reports) = saltern_links::Links::start(rt, two.0, two.1.clone()).await.unwrap();
    let second = Member { links, reports, known: two.1 };
    second.dial(&["m1"]);
    (first, second)
}

/// Checks that two members do not link, that both log these words, and that the second shows this reason.
fn refused(one: (Options, Arc<Known>), two: (Options, Arc<Known>), (words, reason): (&str, &str), ahead: i64) {
    let log = Log::start();
    Sim::run(1, async |sim| {
        let (mut first, mut second) = meet(&sim, one, two).await;
        sim.move_clock("m2", ahead);
        assert_eq!(first.next().await, None);
        assert_eq!(second.next().await, None);
        assert_eq!(second.reason(), reason);
    });
    // It dialled again and again, and each side logged it once: the refused one repeats the words of the other.
    assert_eq!(log.count(words), 2, "{words}");
}

fn strangers() -> Arc<Known> {
    Arc::new(Known::default())
}

fn joins(credentials: Credentials) {
    Sim::run(1, async |sim| {
        let with = |number| Options { credentials: credentials.clone(), ..options(number) };
        let (mut first, mut second) = meet(&sim, (with(1), strangers()), (with(2), strangers())).await;
        first.wait_up(2).await;
        second.wait_up(1).await;
        assert!(!first.known.learned.lock().unwrap().is_empty() && !second.known.learned.lock().unwrap().is_empty());
        assert_eq!(first.known.standing(node(2)), Standing::Member);
        // Whoever dials does not show at which port it is found.
        let seen = |host: &str| format!("{}:{}", sim.address(host), PORT);
        assert_eq!(*first.known.addresses.lock().unwrap(), [seen("m2")]);
        assert_eq!(*second.known.addresses.lock().unwrap(), [seen("m1")]);
    });
}

#[test]
fn strangers_join_by_the_secret_or_a_common_key() {
    joins(secret(SECRET));
    let pair = PrivateKey::generate(2048).unwrap();
    joins(Credentials { master_key: Some(pair.clone()), ..Credentials::default() });
    joins(Credentials { sign_key: Some(pair), ..Credentials::default() });
}

#[test]
fn one_that_knows_the_other_still_has_to_prove_itself() {
    let with = |number, text| Options { credentials: secret(text), ..options(number) };
    refused(
        (with(1, SECRET), acquainted(&[1, 2])),
        (with(2, "another secret of that size"), strangers()),
        ("is wrong: cluster_secret or keys differ", "refused there: wrong secret"),
        0,
    );
}

#[test]
fn an_address_with_five_wrong_proofs_is_refused_for_a_minute() {
    let with = |number, text| Options { credentials: secret(text), ..options(number) };
    Sim::run(1, async |sim| {
        let other = with(2, "another secret of that size");
        let (mut first, second) = meet(&sim, (with(1, SECRET), strangers()), (other, strangers())).await;
        // Long enough for five attempts, which are at most five seconds apart.
        tokio::time::sleep(Duration::from_secs(40)).await;
        second.links.stop().await;
        drop(second);
        sim.kill("m2");
        // With the right secret it is not heard for the rest of the minute, and then it is.
        let right = Member::start(&sim, with(2, SECRET), strangers()).await;
        right.dial(&["m1"]);
        assert_eq!(first.next().await, None);
        tokio::time::sleep(Duration::from_secs(60)).await;
        first.wait_up(2).await;
    });
}

#[test]
fn a_wrong_secret_is_refused() {
    let with = |number, text| Options { credentials: secret(text), ..options(number) };
    let log = Log::start();
    Sim::run(1, async |sim| {
        let other = with(2, "another secret of that size");
        let (mut first, _second) = meet(&sim, (with(1, SECRET), strangers()), (other, strangers())).await;
        assert_eq!(first.next().await, None);
    });
    assert!(log.count("cluster_secret or keys differ") >= 2);
    assert_eq!(log.count(SECRET) + log.count("another secret"), 0, "secrets are not logged");
}

#[test]
fn strangers_without_anything_in_common_are_refused() {
    refused(
        (options(1), strangers()),
        (options(2), strangers()),
        ("is not accepted, and has neither", "waiting to be accepted"),
        0,
    );
}

#[test]
fn another_set_is_refused() {
    let other = Options { cluster_id: "test".into(), ..options(2) };
    refused(
        (options(1), acquainted(&[1, 2])),
        (other, acquainted(&[1, 2])),
        ("cluster_id is", "refused there: another cluster_id"),
        0,
    );
}

#[test]
fn a_name_in_use_is_refused() {
    let same = Options { name: "m3".into(), credentials: secret(SECRET), ..options(2) };
    let one = Options { credentials: secret(SECRET), ..options(1) };
    refused(
        (one, acquainted(&[1, 3])),
        (same, strangers()),
        ("is in use by another member", "refused there: name in use"),
        0,
    );
}

#[test]
fn a_removed_node_is_refused() {
    let known = acquainted(&[1]);
    known.set(node(2), "m2", Standing::Removed);
    refused(
        (options(1), known),
        (options(2), acquainted(&[1, 2])),
        ("was removed from the set", "refused there: removed"),
        0,
    );
}

#[test]
fn a_clock_that_is_days_ahead_is_refused() {
    let both = || acquainted(&[1, 2]);
    let words = ("is 3 days ahead", "refused there: the clock of \"m2\" is 3 days ahead");
    refused((options(1), both()), (options(2), both()), words, 3 * 24 * 3600 + 10);
}

#[test]
fn a_member_that_is_removed_loses_its_link() {
    Sim::run(1, async |sim| {
        let (mut one, mut two) = crate::support::pair(&sim).await;
        one.known.set(node(2), "m2", Standing::Removed);
        one.links.members_changed();
        let reason = "it was removed from the set".to_owned();
        assert_eq!(one.next().await, Some(share::Incoming::Down(node(2), reason)));
        assert!(matches!(two.next().await, Some(share::Incoming::Down(..))));
        assert_eq!(two.next().await, None);
    });
}

#[test]
fn a_stranger_without_a_proof_waits_until_both_accept_each_other() {
    Sim::run(1, async |sim| {
        let (first, second) = meet(&sim, (options(1), strangers()), (options(2), strangers())).await;
        let (mut first, mut second) = (first, second);
        assert_eq!(first.next().await, None);
        for (member, other) in [(&first, 2), (&second, 1)] {
            let name = format!("m{other}");
            let waiting = member.links.waiting();
            assert_eq!((waiting.len(), &waiting[0].newcomer.name, waiting[0].newcomer.node), (1, &name, node(other)));
            assert_eq!(waiting[0].info.version, env!("CARGO_PKG_VERSION"));
            // It tries again and again, and is reported once.
            assert_eq!(*member.known.waited.lock().unwrap(), [name]);
            assert!(matches!(member.links.status()[0].state, LinkState::Waiting { .. }));
        }
        first.known.set(node(2), "m2", Standing::Member);
        first.links.members_changed();
        assert_eq!(first.next().await, None);
        assert_eq!((first.links.waiting(), first.reason()), (vec![], "this member is not accepted there".into()));
        second.known.set(node(1), "m1", Standing::Member);
        second.links.members_changed();
        // Not with the next attempt, which may be five seconds away.
        let up = tokio::time::timeout(Duration::from_secs(1), second.wait_up(1));
        up.await.expect("whoever is accepted is dialled at once");
        first.wait_up(2).await;
        assert_eq!(second.links.waiting(), []);
    });
}

#[test]
fn what_others_would_not_read_is_refused_at_the_start() {
    Sim::run(1, async |sim| {
        sim.add_host("m1");
        for (bad, words) in [
            (Options { name: "../m1".into(), ..options(1) }, "the name of a member is missing, malformed or too large"),
            (
                Options { cluster_id: "x".repeat(300), ..options(1) },
                "the id of a set is missing, malformed or too large",
            ),
            (Options { addresses: vec!["a\n".into()], ..options(1) }, "an address is missing, malformed or too large"),
        ] {
            let error = Links::start(sim.rt("m1"), bad, strangers()).await.err().expect("it is refused");
            assert_eq!(error.to_string(), words);
        }
    });
}

#[test]
fn a_pinned_key_takes_the_place_of_accepting_it() {
    let fingerprint = crypto::fingerprint(&crate::support::key(1).public(), crypto::HashType::Sha256).parse().unwrap();
    let pinning =
        Options { credentials: Credentials { pinned: vec![fingerprint], ..Credentials::default() }, ..options(2) };
    Sim::run(1, async |sim| {
        let (mut first, mut second) = meet(&sim, (options(1), strangers()), (pinning, strangers())).await;
        assert_eq!(first.next().await, None);
        assert_eq!(first.links.waiting()[0].newcomer.fingerprint().len(), 95);
        assert_eq!((second.links.waiting(), second.reason()), (vec![], "this member is not accepted there".into()));
        first.known.set(node(2), "m2", Standing::Member);
        second.wait_up(1).await;
        first.wait_up(2).await;
        assert_eq!(second.known.standing(node(1)), Standing::Member);
    });
}

#[test]
fn a_member_with_a_secret_lets_one_without_it_wait() {
    let with = Options { credentials: secret(SECRET), ..options(1) };
    refused((with, strangers()), (options(2), strangers()), ("is not accepted, and has", "waiting to be accepted"), 0);
}

#[test]
fn whoever_is_refused_is_listed_on_both_sides() {
    let with = |number, text| Options { credentials: secret(text), ..options(number) };
    Sim::run(1, async |sim| {
        let other = with(2, "another secret of that size");
        let (mut first, second) = meet(&sim, (with(1, SECRET), strangers()), (other, strangers())).await;
        assert_eq!(first.next().await, None);
        for (member, name, reason) in [(&first, "m2", "wrong secret"), (&second, "m1", "refused there: wrong secret")] {
            assert_eq!(member.reason(), reason);
            let status = member.links.status().remove(0);
            assert!(matches!(status.state, LinkState::Refused { .. }), "{status:?}");
            assert_eq!(status.info.map(|info| info.name).as_deref(), Some(name));
        }
    });
}

#[test]
fn an_address_that_does_not_answer_is_listed_with_the_reason() {
    Sim::run(1, async |sim| {
        ["m1", "m2"].iter().for_each(|host| sim.add_host(host));
        let mut one = Member::start(&sim, options(1), acquainted(&[1, 2])).await;
        one.dial(&["m1", "m2", "nowhere"]);
        assert_eq!(one.next().await, None);
        let address = sim.address("m2");
        let reasons: Vec<_> = one.links.status().into_iter().map(|status| (status.dialled, status.reason)).collect();
        assert_eq!(reasons[0], (vec!["m2".into()], Some(format!("nothing listens on {address}:4520"))));
        assert!(reasons[1].1.as_ref().is_some_and(|reason| reason.starts_with("failed to resolve \"nowhere\"")));
        assert_eq!(reasons.len(), 2, "its own address is not listed");
        sim.partition("m1", "m2");
        assert_eq!(one.next().await, None);
        assert_eq!(one.links.status()[0].reason, Some(format!("no answer on {address}:4520")));
    });
}

#[test]
fn members_report_about_themselves_before_they_are_up_and_with_each_heartbeat() {
    Sim::run(1, async |sim| {
        let classes = Classes::without(&[Class::Data]);
        let report = SelfReport { classes, minions: 4211, highest: 7, highest_of_peer: 8, compared: 9, leases: None };
        let (one, two) = (acquainted(&[1, 2]), acquainted(&[1, 2]));
        *two.report.lock().unwrap() = report;
        let (mut one, two) = meet(&sim, (options(1), one), (options(2), two)).await;
        one.wait_up(2).await;
        let info = one.links.info(node(2)).unwrap();
        assert_eq!((info.name.as_str(), info.role, info.report), ("m2", Role::Master, Some(report)));
        let later = SelfReport { minions: 4212, ..report };
        *two.known.report.lock().unwrap() = later;
        let told = async {
            while one.links.info(node(2)).unwrap().report != Some(later) {
                one.reports.next().await;
            }
        };
        // Others are reported as linked only when that changes: it is enough that it is told within two heartbeats.
        let _ = tokio::time::timeout(2 * HEARTBEAT, told).await;
        assert_eq!(one.links.info(node(2)).unwrap().report, Some(later));
    });
}

#[test]
fn the_status_of_a_link_shows_what_waits_and_what_is_lost() {
    Sim::run(1, async |sim| {
        let (one, _two) = crate::support::pair(&sim).await;
        tokio::time::sleep(3 * HEARTBEAT).await;
        let before = one.links.status().remove(0);
        assert!(matches!(before.state, LinkState::Linked { .. }));
        assert_eq!((before.queue_bytes, before.dropped, &before.reason), (0, 0, &None));
        assert!(before.unanswered == 0 && before.rtt.is_some() && before.info.is_some(), "{before:?}");
        sim.partition("m1", "m2");
        let message = Bytes::from(vec![0; 512 * 1024]);
        while one.links.send(To::All, Lane::Bulk, message.clone()) == SendResult::Queued {
            tokio::task::yield_now().await;
        }
        // One that follows the beats of the other member beats less often now, and the latest one does not count.
        tokio::time::sleep(3 * HEARTBEAT).await;
        let status = one.links.status().remove(0);
        assert!(status.queue_bytes > 3 << 20 && status.dropped == 1 && status.unanswered >= 1, "{status:?}");
    });
}

#[test]
fn members_that_know_each_other_need_no_proof_and_report_their_links() {
    Sim::run(1, async |sim| {
        let (mut one, _two) = crate::support::pair(&sim).await;
        let linked = share::Incoming::Linked(node(2), vec![node(1)]);
        let found = async { while one.reports.next().await != linked {} };
        tokio::time::timeout(Duration::from_secs(5), found).await.unwrap();
        let status = one.links.status();
        assert_eq!(status.len(), 1);
        assert!(status[0].clock.unwrap().abs() < 200);
    });
}
