//! The conformance suite of carriers over links: in a simulated network, and over the sockets of this host.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use rt::Rt;
use rt::sim::Sim;
use saltern_links::{LinkState, LinkStatus, Links, Reports, Target};
use share::testing::{Bench, check_carrier};
use share::{Carrier, Incoming, Lane, Node, SendResult, To};
use tokio::time::timeout;

use crate::support::{Member, acquainted, node, options};

const HOSTS: [&str; 3] = ["m1", "m2", "m3"];

/// What the suite, on a thread of its own, asks of the thread that runs the members.
enum Request {
    Send(usize, To, Lane, Bytes, Sender<SendResult>),
    Next(usize, Sender<Option<Incoming>>),
    Cut(usize, usize, bool),
}

struct Remote(Sender<Request>);

impl Remote {
    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> T {
        let (answer, answered) = channel();
        self.0.send(request(answer)).expect("the members run");
        answered.recv().expect("the members run")
    }
}

impl Bench for Remote {
    fn node(&self, member: usize) -> Node {
        node(member as u8 + 1)
    }

    fn send(&mut self, from: usize, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.ask(|answer| Request::Send(from, to, lane, message, answer))
    }

    fn next(&mut self, member: usize) -> Option<Incoming> {
        self.ask(|answer| Request::Next(member, answer))
    }

    fn cut(&mut self, from: usize, to: usize, cut: bool) {
        self.0.send(Request::Cut(from, to, cut)).expect("the members run");
    }

    fn queue(&self) -> usize {
        options(1).queue
    }
}

/// Serves the suite. While it thinks, this thread waits and the time of a simulation stands still.
async fn serve(
    requests: Receiver<Request>,
    members: &mut [(Links, Reports)],
    patience: Duration,
    cut: impl Fn(usize, usize, bool),
) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Send(from, to, lane, message, answer) => {
                answer.send(members[from].0.send(to, lane, message)).expect("the suite waits");
            }
            Request::Next(member, answer) => {
                let report = timeout(patience, members[member].1.next()).await.ok();
                answer.send(report).expect("the suite waits");
            }
            Request::Cut(from, to, is_cut) => cut(from, to, is_cut),
        }
    }
}

fn conforms_in_a_simulation(seed: u64) {
    Sim::run(seed, async |sim| {
        HOSTS.iter().for_each(|host| sim.add_host(host));
        let mut members = Vec::new();
        for number in 1..=3 {
            let member = Member::start(&sim, options(number), acquainted(&[1, 2, 3])).await;
            member.dial(&HOSTS);
            members.push((member.links, member.reports));
        }
        let (ask, requests) = channel();
        let suite = std::thread::spawn(move || check_carrier(&mut Remote(ask)));
        let cut = |from: usize, to: usize, cut| match cut {
            true => sim.cut(HOSTS[from], HOSTS[to]),
            false => sim.mend(HOSTS[from], HOSTS[to]),
        };
        // A SYN that was lost is sent again after up to 32 s.
        serve(requests, &mut members, Duration::from_secs(60), cut).await;
        if let Err(panic) = suite.join() {
            std::panic::resume_unwind(panic);
        }
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
