//! The conformance suite of carriers over the bus: in memory, and over a real server.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use config::bus::Bus as Servers;
use rt::Rt;
use share::testing::{Bench, check_carrier};
use share::{Carrier, Incoming, Lane, Node, SendResult, To};
use tokio::time::timeout;
use value::map;

use super::net::{Member, Net, acquainted, node, options};
use super::server::Server;
use crate::bus::Bus;

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

async fn serve(requests: Receiver<Request>, members: &mut [Member], cut: impl Fn(usize, usize, bool)) {
    while let Ok(request) = requests.recv() {
        match request {
            Request::Send(from, to, lane, message, answer) => {
                answer.send(members[from].bus.send(to, lane, message)).expect("the suite waits");
            }
            Request::Next(member, answer) => {
                let report = timeout(Duration::from_secs(30), members[member].reports.next()).await.ok();
                answer.send(report).expect("the suite waits");
            }
            Request::Cut(from, to, is_cut) => cut(from, to, is_cut),
        }
    }
}

async fn check(members: &mut [Member], cut: impl Fn(usize, usize, bool)) {
    let (ask, requests) = channel();
    let suite = std::thread::spawn(move || check_carrier(&mut Remote(ask)));
    serve(requests, members, cut).await;
    if let Err(panic) = suite.join() {
        std::panic::resume_unwind(panic);
    }
}

#[tokio::test(start_paused = true)]
async fn the_bus_in_memory_conforms() {
    let net = Net::default();
    let mut members: Vec<Member> = (1..=3).map(|number| net.start(options(number), acquainted(&[1, 2, 3]))).collect();
    let cut = |from: usize, to: usize, cut| net.cut(node(from as u8 + 1), node(to as u8 + 1), cut);
    check(&mut members, cut).await;
}

/// A member over a real server. What others send reaches it through `cuts`.
async fn start(number: u8, servers: &Servers, cuts: &Cuts) -> Member {
    let known = acquainted(&[1, 2, 3]);
    let (bus, reports) = Bus::start(Rt::real(), servers, options(number), known.clone()).await.unwrap();
    cuts.0.lock().unwrap().push(bus.hub().clone());
    Member { bus, reports, known }
}

/// Directions that are cut.
#[derive(Clone, Default)]
struct Cuts(Arc<Mutex<Vec<Arc<crate::hub::Hub>>>>);

fn servers(port: u16, token: &str) -> Servers {
    Servers::read(&format!("nats://127.0.0.1:{port}").into(), &map! { "token" => token }.into()).unwrap().unwrap()
}

#[test]
fn the_bus_conforms_over_a_real_server() {
    let Some(server) = Server::start("let us in") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (cuts, servers) = (Cuts::default(), servers(server.port, "let us in"));
        let mut members = Vec::new();
        for number in 1..=3 {
            members.push(start(number, &servers, &cuts).await);
        }
        let cut = |from: usize, to: usize, cut| cuts.0.lock().unwrap()[to].deafen(node(from as u8 + 1), cut);
        check(&mut members, cut).await;
    });
}

#[test]
fn a_server_that_dies_takes_all_links_with_it_and_one_that_comes_back_brings_them() {
    let Some(mut server) = Server::start("let us in") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (cuts, servers) = (Cuts::default(), servers(server.port, "let us in"));
        let (mut one, mut two) = (start(1, &servers, &cuts).await, start(2, &servers, &cuts).await);
        assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
        assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
        server.kill();
        let gone = |node| Some(Incoming::Down(node, "no connection to the servers of cluster_bus".to_owned()));
        assert_eq!(one.next().await, gone(node(2)));
        assert_eq!(two.next().await, gone(node(1)));
        assert_eq!(one.bus.send(To::All, Lane::Talk, Bytes::from_static(b"lost")), SendResult::Away);
        server.begin("let us in");
        assert_eq!(one.next().await, Some(Incoming::Up(node(2))));
        assert_eq!(two.next().await, Some(Incoming::Up(node(1))));
        one.bus.stop().await;
        assert_eq!(two.next().await, Some(Incoming::Down(node(1), "it was stopped".to_owned())));
    });
}
