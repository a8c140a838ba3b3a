//! Who may link: members, and strangers that prove that they belong to the set. Everybody else is refused in words.

mod support;

use std::sync::Arc;
use std::time::Duration;

use crypto::PrivateKey;
use rt::sim::Sim;
use saltern_links::{Credentials, Members, Options, Standing};
use support::{Known, Log, Member, acquainted, node, options, secret};

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

/// Checks that two members do not link, and that both log these words.
fn refused(one: (Options, Arc<Known>), two: (Options, Arc<Known>), words: &str, ahead: i64) {
    let log = Log::start();
    Sim::run(1, async |sim| {
        let (mut first, mut second) = meet(&sim, one, two).await;
        sim.move_clock("m2", ahead);
        assert_eq!(first.next().await, None);
        assert_eq!(second.next().await, None);
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
        "is wrong: cluster_secret or keys differ",
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
    refused((options(1), strangers()), (options(2), strangers()), "is not accepted, and has neither", 0);
}

#[test]
fn another_set_is_refused() {
    let other = Options { cluster_id: "test".into(), ..options(2) };
    refused((options(1), acquainted(&[1, 2])), (other, acquainted(&[1, 2])), "cluster_id is", 0);
}

#[test]
fn a_name_in_use_is_refused() {
    let same = Options { name: "m3".into(), credentials: secret(SECRET), ..options(2) };
    let one = Options { credentials: secret(SECRET), ..options(1) };
    refused((one, acquainted(&[1, 3])), (same, strangers()), "is in use by another member", 0);
}

#[test]
fn a_removed_node_is_refused() {
    let known = acquainted(&[1]);
    known.set(node(2), "m2", Standing::Removed);
    refused((options(1), known), (options(2), acquainted(&[1, 2])), "was removed from the set", 0);
}

#[test]
fn a_clock_that_is_days_ahead_is_refused() {
    let both = || acquainted(&[1, 2]);
    refused((options(1), both()), (options(2), both()), "is 3 days ahead", 3 * 24 * 3600 + 10);
}

#[test]
fn a_member_that_is_removed_loses_its_link() {
    Sim::run(1, async |sim| {
        let (mut one, mut two) = support::pair(&sim).await;
        one.known.set(node(2), "m2", Standing::Removed);
        one.links.members_changed();
        let reason = "it was removed from the set".to_owned();
        assert_eq!(one.next().await, Some(share::Incoming::Down(node(2), reason)));
        assert!(matches!(two.next().await, Some(share::Incoming::Down(..))));
        assert_eq!(two.next().await, None);
    });
}

#[test]
fn members_that_know_each_other_need_no_proof_and_report_their_links() {
    Sim::run(1, async |sim| {
        let (mut one, _two) = support::pair(&sim).await;
        let linked = share::Incoming::Linked(node(2), vec![node(1)]);
        let found = async { while one.reports.next().await != linked {} };
        tokio::time::timeout(Duration::from_secs(5), found).await.unwrap();
        let status = one.links.status();
        assert_eq!(status.len(), 1);
        assert!(status[0].clock.abs() < 200);
    });
}
