//! A server that has as many connections as its limit of open files allows, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use rt::{Listen, Rt};
use saltern_transport::{Limits, Requester, Target, connections, refused_connections, zeromq};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use value::map;
use wire::envelope::Envelope;

const SERVER: &str = "SALTERN_FULL_SERVER";

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Of this number of files, 32 stay free.
const FILES: u64 = 64;

/// The process with few files: says where it listens, and how many it refused once its input ends.
async fn serve() {
    setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).unwrap();
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let limits = Limits { handshake: Duration::from_secs(60), ..Limits::default() };
    let mut server = zeromq::serve(Rt::real(), listen, limits, None).await.unwrap();
    println!("address {}", server.address());
    std::io::stdout().flush().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = server.next().await {
            incoming.reply.send("pong".into());
        }
    });
    let ended = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    ended.await.unwrap().unwrap();
    println!("refused {} of {}", refused_connections(), connections());
}

/// Returns whether the server speaks to a new connection. It does so first.
async fn is_welcome(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(PATIENCE, stream.read_u8()).await;
    read.expect("the server speaks or closes").is_ok()
}

#[tokio::test]
async fn who_comes_when_all_seats_are_taken_is_sent_away_and_may_come_again() {
    if std::env::var_os(SERVER).is_some() {
        return serve().await;
    }
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "who_comes_when_all_seats_are_taken_is_sent_away_and_may_come_again", "--nocapture"])
        .env(SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find_map(|line| line.strip_prefix("address ").map(str::to_owned)).unwrap();
    let connect = async || TcpStream::connect(&address).await.unwrap();
    let mut guests = Vec::new();
    for number in 0..FILES - 32 {
        let mut guest = connect().await;
        assert!(is_welcome(&mut guest).await, "{number}");
        guests.push(guest);
    }
    // Nobody has asked anything, so the oldest makes room once it has had a moment to do so.
    let mut oldest = guests.remove(0);
    let again = async {
        while !is_welcome(&mut connect().await).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("silent connections of one address keep nobody out");
    let end = async { while !matches!(oldest.read(&mut [0; 512]).await, Ok(0) | Err(_)) {} };
    tokio::time::timeout(PATIENCE, end).await.expect("the oldest was sent away");
    guests.pop();
    // The server hears of the empty seat a moment later.
    let again = async {
        while !is_welcome(&mut connect().await).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("the seat is free again");
    // Who has asked and is idle makes room, and asks over a new connection when it has to. Who only watches stays.
    guests.truncate(5);
    let target = Target::plain(address.parse().unwrap());
    let watched = target.clone();
    let watching = tokio::spawn(async move { zeromq::watch(&Rt::real(), &watched).await });
    let requesters: Vec<_> = (0..FILES).map(|_| zeromq::ZmqRequester::new(Rt::real(), target.clone())).collect();
    for _ in 0..2 {
        for requester in &requesters {
            let ask = async {
                while requester.ask(Envelope::clear(map! { "cmd" => "ping" }), PATIENCE).await.is_err() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, ask).await.expect("an idle connection makes room");
        }
    }
    assert!(!watching.is_finished(), "it never asked");
    drop(server.stdin.take());
    assert!(lines.any(|line| line.starts_with("refused ")), "it lives");
    assert!(server.wait().unwrap().success());
}
