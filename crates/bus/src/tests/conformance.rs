//! The conformance suite of carriers over the bus: in memory, and over a real server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use config::bus::Bus as Servers;
use peers::testing::{TestMember, check_members};
use rt::Rt;
use share::{Carrier, Incoming, Lane, SendResult, To};
use value::map;

use super::net::{Member, Net, acquainted, node, options};
use super::server::Server;
use crate::bus::Bus;

/// How long a report may take that is to come.
const PATIENCE: Duration = Duration::from_secs(30);

impl TestMember for Member {
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.bus.send(to, lane, message)
    }

    async fn next(&mut self) -> Incoming {
        self.reports.next().await
    }
}

async fn check(members: &mut [Member], cut: impl Fn(usize, usize, bool)) {
    check_members(members, ((1..=3).map(node).collect(), options(1).queue), PATIENCE, cut).await;
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
