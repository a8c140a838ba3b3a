//! Who is let in, who waits, and who is refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peers::credentials::{Credentials, KeyFingerprint};
use peers::members::Standing;
use peers::status::LinkState;
use share::{Carrier, Incoming, Lane, SendResult, To};

use super::net::{Known, Member, Net, acquainted, key, node, options, secret};
use crate::options::Options;

fn alone() -> Arc<Known> {
    Arc::new(Known::default())
}

#[tokio::test(start_paused = true)]
async fn a_secret_admits_both_to_each_other() {
    let net = Net::default();
    let credentials = secret("a secret of twenty chars");
    let with = |number| Options { credentials: credentials.clone(), ..options(number) };
    let (mut one, mut two) = (net.start(with(1), alone()), net.start(with(2), alone()));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(one.bus.info(node(2)).map(|info| info.name), Some("m2".to_owned()));
    assert!(matches!(two.bus.status()[0].state, LinkState::Linked { .. }));
    let everything: Vec<u8> = net.seen().iter().flat_map(|(_, envelope)| envelope.to_vec()).collect();
    assert!(!everything.windows(10).any(|part| part == b"a decision"), "servers read no decisions");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_secret_is_refused_in_words_on_both() {
    let net = Net::default();
    let with = |number, text| Options { credentials: secret(text), ..options(number) };
    let mut one = net.start(with(1, "a secret of twenty chars"), alone());
    let two = net.start(with(2, "another secret of theirs"), alone());
    assert_eq!(one.next().await, None);
    assert_eq!((one.reason().as_str(), two.reason().as_str()), ("refused there: wrong secret", "wrong secret"));
    assert_eq!(one.bus.send(To::All, Lane::Talk, Bytes::from_static(b"x")), SendResult::Away);
    let told = |member: &Member| {
        let refused = member.known.refused.lock().unwrap();
        refused.first().map(|refused| (refused.node, refused.there, refused.waits, refused.for_ever))
    };
    assert_eq!(told(&one), Some((node(2), true, false, false)), "the master hears of it");
    assert_eq!(told(&two), Some((node(1), false, false, false)));
}

#[tokio::test(start_paused = true)]
async fn without_anything_in_common_both_wait_until_they_are_accepted() {
    let net = Net::default();
    let (mut one, mut two) = (net.start(options(1), alone()), net.start(options(2), alone()));
    assert_eq!(one.next().await, None);
    assert_eq!(one.bus.waiting().len(), 1);
    assert_eq!(*one.known.waited.lock().unwrap(), ["m2"]);
    // The lower node learns first that there is nothing in common, and the other one when it says so.
    two.known.set(node(1), "m1", Standing::Member);
    two.bus.members_changed();
    assert_eq!(one.next().await, None);
    one.known.set(node(2), "m2", Standing::Member);
    one.bus.members_changed();
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
}

#[tokio::test(start_paused = true)]
async fn a_pinned_key_needs_no_proof() {
    let net = Net::default();
    let pinned = |number| vec![KeyFingerprint::of(&key(number).public())];
    let with = |number, other| Options {
        credentials: Credentials { pinned: pinned(other), ..Credentials::default() },
        ..options(number)
    };
    let (mut one, mut two) = (net.start(with(1, 2), alone()), net.start(with(2, 1), alone()));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
    assert_eq!(one.known.standing_of(2), Standing::Member);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_begins_anew_or_is_removed_loses_its_link() {
    let net = Net::default();
    let mut one = net.start(options(1), acquainted(&[2]));
    let two = net.start(options(2), acquainted(&[1]));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    // It crashes: nobody says goodbye.
    drop(two);
    let mut two = net.start(options(2), acquainted(&[1]));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
    let Some(Incoming::Down(down, reason)) = one.next().await else { panic!("the old link ends") };
    assert_eq!((down, reason.as_str()), (node(2), "it was restarted"));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    one.known.set(node(2), "m2", Standing::Removed);
    one.bus.members_changed();
    assert!(matches!(one.next().await, Some(Incoming::Down(..))));
    assert!(matches!(two.next().await, Some(Incoming::Down(_, reason)) if reason == "it was removed from the set"));
    assert_eq!(two.next().await, None);
    assert!(one.bus.hub().links(To::All).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_lost_takes_all_away_at_once() {
    let net = Net::default();
    let mut one = net.start(options(1), acquainted(&[2]));
    let mut two = net.start(options(2), acquainted(&[1]));
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
    assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
    net.set_down(true);
    let gone = tokio::time::timeout(Duration::from_millis(10), one.next()).await.unwrap();
    assert_eq!(gone, Some(Incoming::Down(node(2), "no connection to the servers of cluster_bus".to_owned())));
    net.set_down(false);
    assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_days_ahead_is_refused_whoever_begins() {
    for behind in [1, 2] {
        let net = Net::default();
        let mut one = net.start(options(1), acquainted(&[2]));
        let two = net.start(options(2), acquainted(&[1]));
        let (late, other) = if behind == 1 { (&one, &two) } else { (&two, &one) };
        *late.known.behind.lock().unwrap() = 252 * 3_600_000;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(late.reason(), "clock is 10 days ahead");
        assert_eq!(
            other.reason(),
            "refused there: the clock of \"m2\" is 10 days ahead".replace("m2", &format!("m{}", 3 - behind))
        );
        assert!(!late.known.times.lock().unwrap().is_empty(), "what a member says of the time is heard");
        assert_eq!(one.next().await, None);
    }
}
