//! A copied host: two members with one key are recognised, and break no link of others.

use rt::sim::Sim;
use saltern_links::Links;
use share::Incoming;

use crate::support::{Log, Member, acquainted, node, options};

const WORDS: &str = "two hosts have the member key of";

/// Starts the member `m2` on a host.
async fn second_on(sim: &Sim, host: &str, numbers: &[u8]) -> Member {
    sim.add_host(host);
    let known = acquainted(numbers);
    let (links, reports) = Links::start(sim.rt(host), options(2), known.clone()).await.unwrap();
    Member { links, reports, known }
}

fn copied(number: u8) {
    let log = Log::start();
    Sim::run(1, async |sim| {
        let host = format!("m{number}");
        sim.add_host(&host);
        let mut member = Member::start(&sim, options(number), acquainted(&[number, 2])).await;
        let original = second_on(&sim, "original", &[number, 2]).await;
        original.dial(&[&host]);
        member.wait_up(2).await;
        let copy = second_on(&sim, "copy", &[number, 2]).await;
        copy.dial(&[&host]);
        // It may have restarted, so it takes the place of the original once.
        assert!(matches!(member.next().await, Some(Incoming::Down(..))));
        member.wait_up(2).await;
        assert_eq!(member.next().await, None, "no link breaks again and again");
        assert_eq!(original.reason(), "refused there: two hosts have its member key");
        for host in ["original", "copy"] {
            assert!(log.count(&sim.address(host).to_string()) >= 1, "{host} is named");
        }
        assert_eq!(log.count(WORDS), 2, "each side says it once");
        // When the other one is stopped, the original links again.
        copy.links.stop().await;
        drop(copy);
        assert!(matches!(member.next().await, Some(Incoming::Down(..))));
        member.wait_up(2).await;
    });
}

#[test]
fn a_copy_of_a_member_does_not_break_its_links_again_and_again() {
    let lower = |number: &u8| node(*number) < node(2);
    let others = || [1, 3, 4, 5, 6, 7, 8].into_iter();
    copied(others().find(lower).expect("one that decides"));
    copied(others().find(|number| !lower(number)).expect("one that follows"));
}

#[test]
fn a_member_that_dials_its_copy_says_so_and_itself_it_dials_in_silence() {
    let log = Log::start();
    Sim::run(1, async |sim| {
        let mut original = second_on(&sim, "original", &[2]).await;
        original.dial(&["original"]);
        assert_eq!(original.next().await, None);
        assert_eq!((log.count("no link"), original.links.status().len()), (0, 0));
        let mut copy = second_on(&sim, "copy", &[2]).await;
        copy.dial(&["original"]);
        assert_eq!(copy.next().await, None);
        assert_eq!(copy.reason(), "two hosts have its member key");
        let addresses = |first: &str, second: &str| format!("{} and {}", sim.address(first), sim.address(second));
        assert_eq!(log.count(&addresses("copy", "original")), 1);
        assert_eq!(log.count(&addresses("original", "copy")), 1);
    });
}
