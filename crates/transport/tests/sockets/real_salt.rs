//! Our sockets against those of the libzmq of a real Salt.
//!
//! `SALTERN_SALT_DIR` (by default `~/.cache/saltern/salt`) has a directory per release (`<release>/bin/python`).
//! Without one the test reports that it is skipped; with `CI=true` it fails.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rt::Rt;
use saltern_transport::{Audience, Error, Kind, Limits, Target, zeromq};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::Instant;

use crate::common::*;

const SLOW: Duration = Duration::from_secs(60);

/// The interpreter of the newest release installed; others have the same libzmq.
fn python() -> Option<PathBuf> {
    let root = std::env::var_os("SALTERN_SALT_DIR").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
    });
    let releases = std::fs::read_dir(&root).into_iter().flatten().flatten();
    let found = releases.map(|entry| entry.path().join("bin/python")).filter(|python| python.exists()).max();
    if found.is_none() {
        let sentence = format!("no real Salt is installed below {}", root.display());
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask test` installs it");
        println!("skipped: {sentence}; `cargo xtask test` installs it");
    }
    found
}

/// A program that talks with libzmq; it is killed at the end.
struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(python: &Path, script: &str) -> Self {
        let prelude = "import sys, zmq\n\
                       context = zmq.Context()\n\
                       def say(*words):\n    print(*words, flush=True)\n\
                       def port(socket):\n    \
                           say(socket.bind_to_random_port('tcp://127.0.0.1'))\n    \
                           return socket\n";
        let mut child = Command::new(python)
            .args(["-c", &format!("{prelude}{script}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, output }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(SLOW, self.output.next_line()).await.expect("the program says something");
        line.unwrap().expect("the program has not ended")
    }

    /// The address of the socket it has bound.
    async fn address(&mut self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.line().await.parse().unwrap()).into()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().unwrap() as i32), signal).unwrap();
    }
}

#[tokio::test]
async fn their_subscribers_hear_our_publisher() {
    let Some(python) = python() else { return };
    let publisher = publish_with(Kind::Zeromq, Limits::default()).await;
    let script = format!(
        "one, two = context.socket(zmq.SUB), context.socket(zmq.SUB)\n\
         one.setsockopt(zmq.SUBSCRIBE, b'')\n\
         two.setsockopt(zmq.SUBSCRIBE, b'web')\n\
         for socket in (one, two):\n    \
             socket.setsockopt(zmq.HEARTBEAT_IVL, 300)\n    \
             socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 1000)\n    \
             socket.connect('tcp://{}')\n\
         say(len(one.recv()))\n\
         say(one.recv_multipart())\n\
         say(two.recv_multipart())\n\
         two.setsockopt(zmq.UNSUBSCRIBE, b'web')\n\
         import time\n\
         time.sleep(600)\n",
        publisher.address()
    );
    let mut program = Program::start(&python, &script);
    let all = |size| publisher.publish(&Bytes::from(vec![7; size]).into(), &Audience::All).queued;
    until_within(SLOW, "their subscriptions arrive", || all(100) == 1).await;
    until_within(SLOW, "both of them", || {
        publisher.publish(&Bytes::from("payload").into(), &Audience::Topics(vec!["web1".into()])).queued == 2
    })
    .await;
    assert_eq!(program.line().await, "100");
    for _ in 0..2 {
        assert_eq!(program.line().await, "[b'web1', b'payload']");
    }
    until_within(SLOW, "the cancelled one leaves", || {
        publisher.publish(&Bytes::from("payload").into(), &Audience::Topics(vec!["web1".into()])).queued == 1
    })
    .await;
    let numbers = || publisher.subscribers().iter().map(|status| status.number).collect::<Vec<_>>();
    let before = numbers();
    // Many of their heartbeats, and a few of our own.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(numbers(), before, "good connections stay");

    program.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    until_within(SLOW, "stopped subscribers are found", || publisher.subscribers().is_empty()).await;
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    program.signal(Signal::SIGCONT);
    until_within(SLOW, "they come back", || publisher.subscribers().len() == 2).await;
}

async fn until_within(time: Duration, what: &str, so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(time, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn their_questions_get_our_answers() {
    let Some(python) = python() else { return };
    let server = serve(Kind::Zeromq).await;
    let script = format!(
        "import msgpack\n\
         def question(number):\n    \
             return msgpack.dumps({{'enc': 'clear', 'load': {{'number': number, 'data': b'x' * number}}, 'version': 3}})\n\
         req, dealer = context.socket(zmq.REQ), context.socket(zmq.DEALER)\n\
         for socket in (req, dealer):\n    \
             socket.setsockopt(zmq.HEARTBEAT_IVL, 300)\n    \
             socket.connect('tcp://{}')\n\
         for number in (1, 300, 2000000):\n    \
             req.send(question(number))\n    \
             answer = msgpack.loads(req.recv())\n    \
             say(answer['number'], len(answer['data']))\n\
         for number in range(100):\n    dealer.send_multipart([b'', question(number)])\n\
         say([msgpack.loads(dealer.recv_multipart()[1])['number'] for _ in range(100)] == list(range(100)))\n",
        server.address()
    );
    let _answering = answer_all(server);
    let mut program = Program::start(&python, &script);
    for expected in ["1 1", "300 300", "2000000 2000000", "True"] {
        assert_eq!(program.line().await, expected);
    }
}

#[tokio::test]
async fn our_requester_asks_their_router_and_finds_it_stopped() {
    let Some(python) = python() else { return };
    // Salt's masters have a ROUTER in front and answer in any order.
    let script = "import msgpack\n\
                  router = port(context.socket(zmq.ROUTER))\n\
                  held = []\n\
                  while True:\n    \
                      held.append(router.recv_multipart())\n    \
                      if len(held) == 3:\n        \
                          while held:\n            \
                              peer, empty, question = held.pop()\n            \
                              router.send_multipart([peer, empty, msgpack.dumps(msgpack.loads(question)['load'])])\n";
    let mut program = Program::start(&python, script);
    let address = program.address().await;
    let requester = requester(Kind::Zeromq, address);
    for round in 0..3 {
        let asked = [0, 1, 2].map(|number| ask(&*requester, 3 * round + number));
        for (number, answer) in futures_util::future::join_all(asked).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap(), echo(3 * round + number as i64));
        }
    }
    let target = Target::plain(address);
    let watched = tokio::spawn(async move { zeromq::watch(&Rt::real(), &target).await });
    // The watch has to be there first: three questions more mean that it has had the time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!watched.is_finished());
    program.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let (asked, watched) = tokio::join!(requester.ask(question(1), SLOW), watched);
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    assert!(matches!(asked, Err(Error::Silent(_) | Error::Timeout(_))), "{asked:?}");
    assert!(matches!(watched.unwrap(), Error::Silent(_)));
}

#[tokio::test]
async fn our_subscription_hears_their_publisher_and_finds_it_stopped() {
    let Some(python) = python() else { return };
    let script = "import time\n\
                  publisher = port(context.socket(zmq.PUB))\n\
                  while True:\n    \
                      publisher.send(b'plain')\n    \
                      publisher.send_multipart([b'web1', b'for web1'])\n    \
                      publisher.send_multipart([b'web10', b'for web10'])\n    \
                      time.sleep(0.05)\n";
    let mut program = Program::start(&python, script);
    let target = Target::plain(program.address().await);
    let topics = vec![Bytes::from_static(b"web1")];
    let mut filtered = zeromq::subscribe(&Rt::real(), &target, "web1", topics).await.unwrap();
    let mut all = zeromq::subscribe(&Rt::real(), &target, "web1", Vec::new()).await.unwrap();
    for _ in 0..5 {
        assert_eq!(filtered.next().await.unwrap(), "for web1");
    }
    let mut heard = [all.next().await.unwrap(), all.next().await.unwrap(), all.next().await.unwrap()];
    heard.sort();
    assert_eq!(heard, ["for web1", "for web10", "plain"]);
    program.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let ended = async {
        loop {
            if let Err(error) = all.next().await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(SLOW, ended).await.unwrap();
    assert!(matches!(error, Error::Silent(_)), "{error}");
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
}
