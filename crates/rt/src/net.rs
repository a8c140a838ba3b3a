//! Names and connections, as traits.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream between two programs.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A byte stream of any type.
pub type BoxStream = Box<dyn Stream>;

/// A connection and its addresses.
pub struct Connection {
    /// The byte stream.
    pub stream: BoxStream,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
}

/// TCP keepalive with the values of Salt's `tcp_keepalive*` options. `None` keeps the system's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// The idle time before the first probe.
    pub idle: Option<Duration>,
    /// The interval between probes.
    pub interval: Option<Duration>,
    /// The number of unanswered probes after which the connection is dead.
    pub count: Option<u32>,
}

/// The parameters of a connection.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The address to connect to.
    pub to: SocketAddr,
    /// The source address and port, if they matter.
    pub from: Option<SocketAddr>,
    /// Probes of an idle connection; `None` for none.
    pub keepalive: Option<Keepalive>,
    /// The timeout.
    pub timeout: Duration,
}

impl Connect {
    /// Returns the parameters of a connection with a timeout of ten seconds.
    pub fn to(to: SocketAddr) -> Self {
        // Ten seconds: long enough for three SYNs on a lossy link, short enough that failover does not hang.
        Connect { to, from: None, keepalive: Some(Keepalive::default()), timeout: Duration::from_secs(10) }
    }
}

/// The parameters of a listener.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The address; port 0 means any free port.
    pub at: SocketAddr,
    /// How many connections may wait to be accepted.
    pub backlog: u32,
    /// Probes of idle accepted connections; `None` for none.
    pub keepalive: Option<Keepalive>,
}

impl Listen {
    /// Returns the parameters of a listener with a backlog of 1,000 (`zmq_backlog`).
    pub fn at(at: SocketAddr) -> Self {
        Listen { at, backlog: 1000, keepalive: Some(Keepalive::default()) }
    }
}

/// The network.
pub trait Net: Send + Sync {
    /// Returns all addresses of a host with the port, in the resolver's order. Literal addresses need no resolver.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// Connects, with `TCP_NODELAY`.
    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>>;

    /// Starts to listen.
    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// A listener.
pub trait Listener: Send + Sync {
    /// Waits for the next connection. An error concerns a single connection; later ones may succeed.
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>>;

    /// Returns the address it listens on.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}
