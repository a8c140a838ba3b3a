//! Settings of connections.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use rt::Keepalive;

use crate::Tls;

/// The transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// ZMTP over TCP, Salt's default.
    #[default]
    Zeromq,
    /// MessagePack frames over TCP, optionally with TLS.
    Tcp,
}

impl Kind {
    /// Returns the transport of this name (option `transport`).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "zeromq" => Some(Kind::Zeromq),
            "tcp" => Some(Kind::Tcp),
            _ => None,
        }
    }
}

/// How a silent peer is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The silence after which a PING is sent, and the time between two PINGs without an answer.
    pub every: Duration,
    /// The silence after which the peer counts as dead.
    pub dead_after: Duration,
    /// The factor by which both times are longer for a peer that sends no PINGs.
    pub slower: u32,
}

impl Heartbeat {
    /// A PING after silence of `every`. The peer is dead after three without any answer.
    pub const fn every(every: Duration) -> Self {
        let dead_after = Duration::from_millis(every.as_millis() as u64 * 3);
        Heartbeat { every, dead_after, slower: 1 }
    }

    /// Heartbeats of a server whose peers mostly send a PING themselves after 1.5 s. The server sends one only after
    /// two seconds, so that usually only one side sends. A silent peer is still detected in under 5 s. A peer that
    /// never sends a PING, such as a program with libzmq's defaults, gets one every ten seconds.
    pub const fn of_servers() -> Self {
        Heartbeat { every: Duration::from_secs(2), dead_after: Duration::from_millis(4500), slower: 5 }
    }
}

/// A PING every 1.5 s: a silent peer is detected in under 5 s.
impl Default for Heartbeat {
    fn default() -> Self {
        Heartbeat::every(Duration::from_millis(1500))
    }
}

/// Limits on the resources that peers may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest message in bytes.
    pub message: usize,
    /// Largest sum of unfinished messages and unanswered requests over all connections, in bytes.
    pub unfinished: usize,
    /// The part of `unfinished` for connections whose peer is not authenticated.
    pub unproven: usize,
    /// The largest number of connections in their handshake. Above it, the oldest ones are closed.
    pub half_open: usize,
    /// Time for the handshake.
    pub handshake: Duration,
    /// Payloads waiting for one subscriber (`pub_hwm`).
    pub queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            message: 256 << 20,
            unfinished: 512 << 20,
            unproven: 64 << 20,
            half_open: 2048,
            handshake: Duration::from_secs(10),
            queue: 1000,
        }
    }
}

/// Where and how to connect.
#[derive(Clone)]
pub struct Target {
    /// The peer.
    pub to: SocketAddr,
    /// The local address and port, if they are fixed.
    pub from: Option<SocketAddr>,
    /// TCP keepalive.
    pub keepalive: Option<Keepalive>,
    /// How a silent peer is detected; `None` to rely on TCP.
    pub heartbeat: Option<Heartbeat>,
    /// Time for a connection and its handshake.
    pub timeout: Duration,
    /// TLS, for the tcp transport, with the name to check the certificate against.
    pub tls: Option<(Tls, String)>,
    /// Largest message accepted from the peer, in bytes.
    pub message_limit: usize,
    /// Called whenever something is received from the peer, including heartbeats.
    pub on_heard: Option<OnHeard>,
}

/// A function that is called when something was received from a peer.
pub type OnHeard = std::sync::Arc<dyn Fn() + Send + Sync>;

impl Target {
    /// A plain connection with the usual settings.
    pub fn plain(to: SocketAddr) -> Self {
        Target {
            to,
            from: None,
            keepalive: Some(Keepalive::default()),
            heartbeat: Some(Heartbeat::default()),
            timeout: Duration::from_secs(5),
            tls: None,
            message_limit: 1 << 30,
            on_heard: None,
        }
    }

    pub(crate) fn note_heard(&self) {
        if let Some(on_heard) = &self.on_heard {
            on_heard();
        }
    }

    pub(crate) fn connect(&self) -> rt::Connect {
        rt::Connect { to: self.to, from: self.from, keepalive: self.keepalive, timeout: self.timeout }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.to)
    }
}
