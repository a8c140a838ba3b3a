//! What tests of carriers share: the conformance suite over members of an asynchronous carrier, and the finder of a NATS server.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use share::testing::{Bench, check_carrier};
use share::{Incoming, Lane, Node, SendResult, To};
use tokio::time::timeout;

/// A member that the suite uses.
pub trait TestMember {
    /// Sends by the carrier of this member.
    fn send(&self, to: To, lane: Lane, message: Bytes) -> SendResult;

    /// Waits for the next report of its carrier.
    fn next(&mut self) -> impl Future<Output = Incoming>;
}

/// What the suite, on a thread of its own, asks of the thread that runs the members.
enum Request {
    Send(usize, To, Lane, Bytes, Sender<SendResult>),
    Next(usize, Sender<Option<Incoming>>),
    Cut(usize, usize, bool),
}

struct Remote {
    requests: Sender<Request>,
    nodes: Vec<Node>,
    queue: usize,
}

impl Remote {
    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> T {
        let (answer, answered) = channel();
        self.requests.send(request(answer)).expect("the members run");
        answered.recv().expect("the members run")
    }
}

impl Bench for Remote {
    fn node(&self, member: usize) -> Node {
        self.nodes[member]
    }

    fn send(&mut self, from: usize, to: To, lane: Lane, message: Bytes) -> SendResult {
        self.ask(|answer| Request::Send(from, to, lane, message, answer))
    }

    fn next(&mut self, member: usize) -> Option<Incoming> {
        self.ask(|answer| Request::Next(member, answer))
    }

    fn cut(&mut self, from: usize, to: usize, cut: bool) {
        self.requests.send(Request::Cut(from, to, cut)).expect("the members run");
    }

    fn queue(&self) -> usize {
        self.queue
    }
}

/// Runs the conformance suite of carriers with these members, whose nodes and bytes of queue are given. A report that does not come
/// within `patience` counts as none. `cut` cuts the way from one member to another, or mends it.
///
/// # Panics
/// If the carrier does not conform.
pub async fn check_members<M: TestMember>(
    members: &mut [M],
    (nodes, queue): (Vec<Node>, usize),
    patience: Duration,
    cut: impl Fn(usize, usize, bool),
) {
    let (requests, asked) = channel();
    let suite = std::thread::spawn(move || check_carrier(&mut Remote { requests, nodes, queue }));
    serve(asked, members, patience, cut).await;
    if let Err(panic) = suite.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Serves the suite. While it thinks, this thread waits and the time of a simulation stands still.
async fn serve<M: TestMember>(
    asked: Receiver<Request>,
    members: &mut [M],
    patience: Duration,
    cut: impl Fn(usize, usize, bool),
) {
    while let Ok(request) = asked.recv() {
        match request {
            Request::Send(from, to, lane, message, answer) => {
                answer.send(members[from].send(to, lane, message)).expect("the suite waits");
            }
            Request::Next(member, answer) => {
                let report = timeout(patience, members[member].next()).await.ok();
                answer.send(report).expect("the suite waits");
            }
            Request::Cut(from, to, is_cut) => cut(from, to, is_cut),
        }
    }
}

/// Returns the program `nats-server`, or says why the test is skipped.
///
/// # Panics
/// With `CI` in the environment, if there is none.
pub fn nats_server_or_skip() -> Option<PathBuf> {
    let named = std::env::var_os("SALTERN_NATS_SERVER").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found =
        named.or_else(|| std::env::split_paths(&paths).map(|dir| dir.join("nats-server")).find(|path| path.is_file()));
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "nats-server is not installed: put it into PATH or name it in SALTERN_NATS_SERVER"
        );
        eprintln!("skipped: nats-server is not installed (PATH, SALTERN_NATS_SERVER)");
    }
    found
}
