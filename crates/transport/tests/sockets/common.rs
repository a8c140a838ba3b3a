//! Shared by the tests: servers on loopback, a network in memory, peers that behave badly.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use rt::{BoxStream, Connect, Connection, Listen, Listener, Net, Rt, SeededRandom, WallClock};
use saltern_transport::{
    Error, Heartbeat, Kind, Limits, Publisher, RequestServer, Requester, Subscription, Target, tcp, zeromq,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use value::{Map, Value, map};
use wire::envelope::Envelope;
use wire::zmtp::{Decoder, Handshake, Incoming, SocketType, Step};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const BOTH: [Kind; 2] = [Kind::Zeromq, Kind::Tcp];

pub fn loopback() -> Listen {
    Listen::at("127.0.0.1:0".parse().unwrap())
}

pub async fn serve_at(kind: Kind, listen: Listen, limits: Limits) -> RequestServer {
    let (rt, beat) = (Rt::real(), Some(Heartbeat::default()));
    match kind {
        Kind::Zeromq => zeromq::serve(rt, listen, limits, beat).await.unwrap(),
        Kind::Tcp => tcp::serve(rt, listen, limits, None).await.unwrap(),
    }
}

pub async fn serve(kind: Kind) -> RequestServer {
    serve_at(kind, loopback(), Limits::default()).await
}

pub async fn publish_with(kind: Kind, limits: Limits) -> Publisher {
    let (rt, beat) = (Rt::real(), Some(Heartbeat::default()));
    match kind {
        Kind::Zeromq => zeromq::publish(rt, loopback(), limits, beat).await.unwrap(),
        Kind::Tcp => tcp::publish(rt, loopback(), limits, None).await.unwrap(),
    }
}

pub fn requester_to(kind: Kind, target: Target) -> Arc<dyn Requester> {
    match kind {
        Kind::Zeromq => Arc::new(zeromq::ZmqRequester::new(Rt::real(), target)),
        Kind::Tcp => Arc::new(tcp::TcpRequester::new(Rt::real(), target)),
    }
}

pub fn requester(kind: Kind, to: SocketAddr) -> Arc<dyn Requester> {
    requester_to(kind, Target::plain(to))
}

pub async fn subscribe(kind: Kind, to: SocketAddr, id: &str) -> Box<dyn Subscription> {
    let (rt, target) = (Rt::real(), Target::plain(to));
    match kind {
        Kind::Zeromq => zeromq::subscribe(&rt, &target, id, Vec::new()).await.unwrap(),
        Kind::Tcp => tcp::subscribe(&rt, &target, &Envelope::clear(map! { "id" => id })).await.unwrap(),
    }
}

pub fn question(number: i64) -> Envelope {
    Envelope::clear(map! { "number" => number })
}

pub fn load(envelope: &Envelope) -> Map {
    match envelope {
        Envelope::Clear(clear) => clear.load.clone(),
        Envelope::Sealed(_) => panic!("a clear envelope was sent"),
    }
}

pub async fn ask(requester: &dyn Requester, number: i64) -> Result<Value, Error> {
    requester.ask(question(number), PATIENCE).await
}

/// What an echoing server answers to a question.
pub fn echo(number: i64) -> Value {
    map! { "number" => number }.into()
}

/// Answers each request with its own load.
pub fn answer_all(mut server: RequestServer) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        while let Some(request) = server.next().await {
            if let Ok(envelope) = &request.envelope {
                request.reply.send(load(envelope).into());
            }
        }
    }))
}

/// Waits until a condition holds.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// A peer that speaks ZMTP by hand.
pub struct Peer<S = tokio::net::TcpStream> {
    pub stream: S,
    pub buffer: BytesMut,
    decoder: Decoder,
}

impl Peer {
    pub async fn connect(to: SocketAddr, socket: SocketType) -> Self {
        Peer::over(tokio::net::TcpStream::connect(to).await.unwrap(), socket).await
    }
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Peer<S> {
    pub async fn over(mut stream: S, socket: SocketType) -> Self {
        let (mut handshake, greeting) = Handshake::new(socket, Bytes::new());
        let mut buffer = BytesMut::new();
        stream.write_all(&greeting).await.unwrap();
        loop {
            match handshake.advance(&mut buffer).unwrap() {
                Step::Read => assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0),
                Step::Send(bytes) => stream.write_all(&bytes).await.unwrap(),
                Step::Done(_) => break,
            }
        }
        Peer { stream, buffer, decoder: Decoder::new(1 << 30) }
    }

    /// Returns the next frame, including heartbeats; `None` when the other side has closed.
    pub async fn next(&mut self) -> Option<Incoming> {
        let reading = async {
            loop {
                if let Some(incoming) = self.decoder.decode(&mut self.buffer).unwrap() {
                    return Some(incoming);
                }
                match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("something comes, or the other side closes")
    }

    /// The frames of the next message.
    pub async fn message(&mut self) -> Vec<Bytes> {
        loop {
            match self.next().await.expect("the connection lives") {
                Incoming::Message(frames) => return frames,
                Incoming::Command(_) => {}
            }
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

/// Waits until the other side closes, whatever it sends before.
pub async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let reading = async { while matches!(stream.read(&mut [0; 4096]).await, Ok(1..)) {} };
    tokio::time::timeout(PATIENCE, reading).await.expect("the other side closes");
}

/// A network in memory, for paused time: data arrives at once.
#[derive(Clone, Default)]
pub struct MemoryNet(Arc<Mutex<HashMap<SocketAddr, mpsc::UnboundedSender<DuplexStream>>>>);

/// How many bytes may be on their way.
const WIRE: usize = 64 << 10;

impl MemoryNet {
    pub fn rt(&self) -> Rt {
        Rt::new(self.clone(), WallClock, SeededRandom::new(1))
    }

    /// Returns the other end of a new connection, for the test to handle.
    pub fn dial(&self, to: SocketAddr) -> io::Result<DuplexStream> {
        let (near, far) = tokio::io::duplex(WIRE);
        let listeners = self.0.lock().unwrap();
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        listeners.get(&to).ok_or_else(refused)?.send(far).map_err(|_| refused())?;
        Ok(near)
    }

    /// Accepts connections without one of our servers.
    pub fn listen_by_hand(&self, at: SocketAddr) -> mpsc::UnboundedReceiver<DuplexStream> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.lock().unwrap().insert(at, sender);
        receiver
    }
}

fn connection(stream: DuplexStream, peer: SocketAddr) -> Connection {
    Connection { stream: Box::new(stream) as BoxStream, peer, local: peer }
}

impl Net for MemoryNet {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
    }

    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async { Ok(connection(self.dial(connect.to)?, connect.to)) })
    }

    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async {
            let incoming = tokio::sync::Mutex::new(self.listen_by_hand(listen.at));
            Ok(Box::new(MemoryListener { incoming, at: listen.at }) as Box<dyn Listener>)
        })
    }
}

struct MemoryListener {
    incoming: tokio::sync::Mutex<mpsc::UnboundedReceiver<DuplexStream>>,
    at: SocketAddr,
}

impl Listener for MemoryListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(async {
            let stream = self.incoming.lock().await.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(connection(stream, "127.0.0.1:1".parse().unwrap()))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.at)
    }
}
