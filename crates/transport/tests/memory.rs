//! What an idle subscriber costs a master.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rt::{Listen, Rt};
use saltern_transport::{Audience, Heartbeat, Limits, Publisher, tcp, zeromq};
use wire::zmtp::{Command, Handshake, SocketType, Step};

/// Bytes of memory this process has resident.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A subscriber for which this process holds only a file descriptor.
fn zeromq_subscriber(to: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(to).unwrap();
    let (mut handshake, greeting) = Handshake::new(SocketType::Sub, Bytes::from_static(b"web1"));
    stream.write_all(&greeting).unwrap();
    let mut buffer = BytesMut::new();
    loop {
        match handshake.advance(&mut buffer).unwrap() {
            Step::Read => {
                let mut some = [0; 256];
                let count = stream.read(&mut some).unwrap();
                assert_ne!(count, 0);
                buffer.extend_from_slice(&some[..count]);
            }
            Step::Send(bytes) => stream.write_all(&bytes).unwrap(),
            Step::Done(_) => break,
        }
    }
    stream.write_all(&Command::Subscribe(Bytes::new()).encode_legacy()).unwrap();
    stream
}

fn tcp_subscriber(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).unwrap()
}

/// Connects subscribers, all of which get a publication; returns them, and the memory of each in bytes.
async fn cost(publisher: &Publisher, count: usize, subscriber: fn(SocketAddr) -> TcpStream) -> (Vec<TcpStream>, usize) {
    let (address, before) = (publisher.address(), resident());
    let connecting = tokio::task::spawn_blocking(move || (0..count).map(|_| subscriber(address)).collect::<Vec<_>>());
    let subscribers = connecting.await.unwrap();
    let served = async {
        while publisher.publish(&Bytes::from_static(b"payload").into(), &Audience::All).queued < count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        while publisher.subscribers().iter().any(|status| status.queued > 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("all are there and have got it");
    (subscribers, resident().saturating_sub(before) / count)
}

#[tokio::test]
async fn an_idle_subscriber_costs_less_than_ten_kilobytes() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    // Both ends of all connections are ours. With 9,500 it is the same, but takes long.
    let count = 2000.min(usize::try_from(most).unwrap().saturating_sub(100) / 4);
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let publisher = tcp::publish(Rt::real(), listen.clone(), Limits::default(), None).await.unwrap();
    let (_subscribers, tcp) = cost(&publisher, count, tcp_subscriber).await;
    // Longer than the test: these subscribers answer no PING.
    let beat = Some(Heartbeat::every(Duration::from_secs(600)));
    let publisher_of_zeromq = zeromq::publish(Rt::real(), listen, Limits::default(), beat).await.unwrap();
    let (_subscribers, zeromq) = cost(&publisher_of_zeromq, count, zeromq_subscriber).await;
    println!("{count} subscribers: {zeromq} bytes each over zeromq, {tcp} over tcp");
    assert!(zeromq <= 10_000 && tcp <= 10_000, "{zeromq} over zeromq, {tcp} over tcp");
}
