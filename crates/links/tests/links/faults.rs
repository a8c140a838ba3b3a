//! What a link survives: cuts, restarts, members that dial at once, and members that stop.

use std::time::Duration;

use crate::support::{Member, acquainted, node, options, pair};
use rt::sim::Sim;
use share::{Carrier, Incoming, Lane, SendResult, To};

async fn talks(from: &Member, to: &mut Member, text: &'static str) {
    assert_eq!(from.links.send(To::All, Lane::Talk, text.into()), SendResult::Queued);
    match to.next().await {
        Some(Incoming::Message { message, .. }) => assert_eq!(message, text),
        other => panic!("{other:?} in place of {text:?}"),
    }
}

/// Waits until a member is down and up again, and returns what was said between.
async fn down_and_up(member: &mut Member, other: u8) {
    assert!(matches!(member.next().await, Some(Incoming::Down(found, _)) if found == node(other)));
    member.wait_up(other).await;
}

#[test]
fn members_that_dial_at_once_get_one_link() {
    for seed in 0..5 {
        Sim::run(seed, async |sim| {
            let (mut one, mut two) = pair(&sim).await;
            talks(&one, &mut two, "there").await;
            talks(&two, &mut one, "and back").await;
            // Nothing else is reported: the link that came second did not disturb the first.
            assert_eq!((one.next().await, two.next().await), (None, None));
            assert_eq!(sim.directions().iter().filter(|way| !way.contains("ended")).count(), 4);
        });
    }
}

#[test]
fn a_link_that_was_cut_returns_and_brings_nothing_old() {
    for seed in 0..5 {
        Sim::run(seed, async |sim| {
            let (mut one, mut two) = pair(&sim).await;
            sim.partition("m1", "m2");
            one.links.send(To::All, Lane::Talk, "lost".into());
            for (member, other) in [(&mut one, 2), (&mut two, 1)] {
                let silent = Incoming::Down(node(other), "no answer".into());
                assert_eq!(member.next().await, Some(silent));
            }
            assert_eq!(one.links.send(To::All, Lane::Talk, "away".into()), SendResult::Away);
            sim.repair("m1", "m2");
            one.wait_up(2).await;
            two.wait_up(1).await;
            talks(&one, &mut two, "new").await;
            talks(&two, &mut one, "newer").await;
        });
    }
}

#[test]
fn a_short_cut_loses_nothing() {
    Sim::run(3, async |sim| {
        let (one, mut two) = pair(&sim).await;
        sim.partition("m1", "m2");
        assert_eq!(one.links.send(To::All, Lane::Talk, "late".into()), SendResult::Queued);
        tokio::time::sleep(Duration::from_millis(300)).await;
        sim.repair("m1", "m2");
        assert!(matches!(two.next().await, Some(Incoming::Message { message, .. }) if message == "late"));
    });
}

#[test]
fn a_member_that_was_killed_links_again_when_it_is_back() {
    for seed in 0..5 {
        Sim::run(seed, async |sim| {
            let (mut one, two) = pair(&sim).await;
            sim.kill("m2");
            drop(two);
            let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
            two.dial(&["m1"]);
            down_and_up(&mut one, 2).await;
            two.wait_up(1).await;
            talks(&one, &mut two, "again").await;
        });
    }
}

#[test]
fn a_host_without_power_is_noticed_and_its_next_run_is_linked() {
    for seed in 0..5 {
        Sim::run(seed, async |sim| {
            let (mut one, two) = pair(&sim).await;
            sim.power_off("m2");
            drop(two);
            assert_eq!(one.next().await, Some(Incoming::Down(node(2), "no answer".into())));
            sim.power_on("m2");
            let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
            two.dial(&["m1"]);
            two.wait_up(1).await;
            one.wait_up(2).await;
            talks(&two, &mut one, "again").await;
        });
    }
}

#[test]
fn a_member_that_stops_says_so_after_what_it_had_to_say() {
    Sim::run(1, async |sim| {
        let (one, mut two) = pair(&sim).await;
        assert_eq!(one.links.send(To::All, Lane::Talk, "last".into()), SendResult::Queued);
        one.links.stop().await;
        assert!(matches!(two.next().await, Some(Incoming::Message { message, .. }) if message == "last"));
        assert_eq!(two.next().await, Some(Incoming::Down(node(1), "it was stopped".into())));
    });
}

#[test]
fn one_side_that_dials_is_enough() {
    Sim::run(1, async |sim| {
        ["m1", "m2"].iter().for_each(|host| sim.add_host(host));
        let mut one = Member::start(&sim, options(1), acquainted(&[1, 2])).await;
        let mut two = Member::start(&sim, options(2), acquainted(&[1, 2])).await;
        // A member may find its own address in a list that all have.
        two.dial(&["m1", "m2"]);
        one.wait_up(2).await;
        two.wait_up(1).await;
        talks(&one, &mut two, "there").await;
        sim.partition("m1", "m2");
        assert!(matches!(one.next().await, Some(Incoming::Down(..))));
        sim.repair("m1", "m2");
        one.wait_up(2).await;
        down_and_up(&mut two, 1).await;
        talks(&two, &mut one, "back").await;
    });
}
