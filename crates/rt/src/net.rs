//! Names and connections, as traits.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream between two programs.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A byte stream whose kind does not matter.
pub type BoxStream = Box<dyn Stream>;

/// A connection and who is at its ends.
pub struct Connection {
    /// The bytes.
    pub stream: BoxStream,
    /// The other end.
    pub peer: SocketAddr,
    /// This end.
    pub local: SocketAddr,
}

/// TCP keepalive as Salt's `tcp_keepalive*` options set it. `None` leaves the system's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Unanswered probes before the connection is dead.
    pub count: Option<u32>,
}

/// A connection to make.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Where to.
    pub to: SocketAddr,
    /// The address and port to come from, if not any.
    pub from: Option<SocketAddr>,
    /// Probes on an idle connection; `None` for none.
    pub keepalive: Option<Keepalive>,
    /// Time to wait for the other side to answer.
    pub timeout: Duration,
}

impl Connect {
    /// A connection to an address with a limit of ten seconds.
    pub fn to(to: SocketAddr) -> Self {
        Connect { to, from: None, keepalive: Some(Keepalive::default()), timeout: Duration::from_secs(10) }
    }
}

/// An address to listen on.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where; port 0 takes any free one.
    pub at: SocketAddr,
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// Probes on idle accepted connections; `None` for none.
    pub keepalive: Option<Keepalive>,
}

impl Listen {
    /// A listener with a backlog of 1,000 (`zmq_backlog`).
    pub fn at(at: SocketAddr) -> Self {
        Listen { at, backlog: 1000, keepalive: Some(Keepalive::default()) }
    }
}

/// The network.
pub trait Net: Send + Sync {
    /// Returns all addresses of a host with the port, in the resolver's order. Literal addresses need no
    /// resolver.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// Makes a connection without delay of small packets (`TCP_NODELAY`).
    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>>;

    /// Starts to listen.
    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// Something that accepts connections.
pub trait Listener: Send + Sync {
    /// Waits for the next connection. Errors of a single connection are returned and may be followed by good ones.
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>>;

    /// Returns the address it listens on.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}
