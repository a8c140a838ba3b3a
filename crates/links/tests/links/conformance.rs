//! The conformance suite of carriers over links: in a simulated network, and over the sockets of this host.

use std::time::Duration;

use bytes::Bytes;
use peers::testing::{TestMember, check_members};
use rt::Rt;
use rt::sim::Sim;
use saltern_links::{LinkState, LinkStatus, Links, Target};
use share::{Carrier, Incoming, Lane, SendResult, To};
use tokio::time::timeout;

use crate::support::{Member, acquainted, node, options};

const HOSTS: [&str; 3] = ["m1", "m2", "m3"];

impl TestMember for Member {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.links.send(to, lane, message)
    }

    async fn next(&mut self) -> Incoming {
        self.reports.next().await
    }
}

fn conforms_in_a_simulation(seed: u64) {
    Sim::run(seed, async |sim| {
        HOSTS.iter().for_each(|host| sim.add_host(host));
        let mut members = Vec::new();
        for number in 1..=3 {
            let member = Member::start(&sim, options(number), acquainted(&[1, 2, 3])).await;
            member.dial(&HOSTS);
            members.push(member);
        }
        let nodes = (1..=3).map(node).collect();
        let cut = |from: usize, to: usize, cut| match cut {
            true => sim.cut(HOSTS[from], HOSTS[to]),
            false => sim.mend(HOSTS[from], HOSTS[to]),
        };
        // A SYN that was lost is sent again after up to 32 s.
        check_members(&mut members, (nodes, options(1).queue), Duration::from_secs(60), cut).await;
    });
}

#[test]
fn links_conform_in_a_simulated_network() {
    (1..=3).for_each(conforms_in_a_simulation);
}

#[test]
fn members_link_and_talk_over_sockets() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let talk = async {
        let start = |number| {
            let listen = "127.0.0.1:0".parse().unwrap();
            let options = saltern_links::Options { listen, ..options(number) };
            Links::start(Rt::real(), options, acquainted(&[1, 2]))
        };
        let (one, mut to_one) = start(1).await.unwrap();
        let (two, mut to_two) = start(2).await.unwrap();
        one.set_addresses(&[Target::named(two.local_addr().to_string())]);
        two.set_addresses(&[Target::named(one.local_addr().to_string())]);
        assert_eq!(to_one.next().await, Incoming::Up(node(2)));
        assert_eq!(to_two.next().await, Incoming::Up(node(1)));
        for number in 0..100u8 {
            let message = Bytes::from(vec![number; 100_000]);
            while one.send(To::All, Lane::Bulk, message.clone()) == SendResult::Full {
                tokio::task::yield_now().await;
            }
            let message = loop {
                match to_two.next().await {
                    Incoming::Message { message, .. } => break message,
                    Incoming::Linked(..) => {}
                    other => panic!("message {number}: {other:?}"),
                }
            };
            assert!(message.len() == 100_000 && message.iter().all(|byte| *byte == number));
        }
        one.stop().await;
        let down = Incoming::Down(node(1), "it was stopped".into());
        let mut last = to_two.next().await;
        while let Incoming::Linked(..) = last {
            last = to_two.next().await;
        }
        assert_eq!(last, down);
        let status = two.status();
        assert!(matches!(status[..], [LinkStatus { state: LinkState::Away { .. }, .. }]), "{status:?}");
    };
    // Far more than it takes, so that a report that never comes is a failure and no standstill.
    runtime.block_on(async { timeout(Duration::from_secs(60), talk).await.expect("all reports come") });
}
