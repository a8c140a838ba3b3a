//! Connects to a master: resolves its name, connects and opens a channel.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use channel::client::{FileTrust, MasterChannel};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rt::{Connect, Keepalive};
use tokio::time::Instant;
use transport::{Error as TransportError, Requester, Subscription, Target};
use value::{Value, map};
use wire::envelope::Envelope;
use wire::topic::Topic;

use super::trust::LinkTrust;
use super::{Ended, Link};
use crate::machine::Machine;

/// Timeout for a connection to one address.
pub const CONNECT: Duration = Duration::from_secs(5);

/// The head start of each address of a name before the next one.
const STAGGER: Duration = Duration::from_millis(250);

/// Returns all addresses of the master's name, those of the preferred family first.
///
/// # Errors
/// When the name has none. Addresses of earlier look-ups are never used.
pub async fn resolve(machine: &Machine, link: &Link) -> io::Result<Vec<SocketAddr>> {
    let master = &link.settings.address;
    // Looked up at each attempt: after a move of the master, the name has another address.
    let mut found = machine.rt.net().resolve(&master.host, master.port).await?;
    match link.settings.ipv6 {
        Some(true) => found.sort_by_key(SocketAddr::is_ipv4),
        Some(false) => found.retain(SocketAddr::is_ipv4),
        None => {}
    }
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no address of the wished family"));
    }
    Ok(found)
}

/// Returns the addresses that accept connections, the quickest first. Each is tried a little later than the one
/// before it.
///
/// # Errors
/// If none does: the error of the last one.
pub async fn reachable(
    machine: &Machine,
    link: &Link,
    addresses: Vec<SocketAddr>,
    patience: Duration,
) -> io::Result<Vec<SocketAddr>> {
    if addresses.len() == 1 {
        // The first request will show whether it works.
        return Ok(addresses);
    }
    let mut tries: FuturesUnordered<_> =
        addresses.iter().zip(0..).map(|(address, at)| try_address(machine, link, *address, at, patience)).collect();
    let (mut found, mut failure) = (Vec::new(), io::Error::from(io::ErrorKind::NotFound));
    // One that answers is enough to start with, so the others get only a moment.
    let mut waiting = std::pin::pin!(tokio::time::sleep(patience + STAGGER * addresses.len() as u32));
    loop {
        tokio::select! {
            biased;
            tried = tries.next() => match tried {
                Some(Ok(address)) => {
                    found.push(address);
                    waiting.as_mut().reset(Instant::now() + STAGGER);
                }
                Some(Err(error)) => failure = error,
                None => break,
            },
            () = &mut waiting => break,
        }
    }
    if found.is_empty() { Err(failure) } else { Ok(found) }
}

async fn try_address(
    machine: &Machine,
    link: &Link,
    to: SocketAddr,
    at: u32,
    timeout: Duration,
) -> io::Result<SocketAddr> {
    tokio::time::sleep(STAGGER * at).await;
    let from = link.settings.source.address.map(|ip| SocketAddr::new(ip, 0));
    machine.rt.net().connect(&Connect { to, from, keepalive: None, timeout }).await.map(|_| to)
}

/// Returns how to connect to a port of the master.
pub fn target(link: &Link, to: SocketAddr, source_port: u16, timeout: Duration) -> Target {
    let settings = &link.settings;
    let from = match (settings.source.address, source_port) {
        (None, 0) => None,
        (ip, port) => {
            let any = if to.is_ipv4() { [0, 0, 0, 0].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
            Some(SocketAddr::new(ip.unwrap_or(any), port))
        }
    };
    Target {
        from,
        keepalive: settings.keepalive,
        heartbeat: Some(settings.heartbeat),
        timeout,
        tls: settings.tls.clone().map(|tls| (tls, settings.address.host.clone())),
        ..Target::plain(to)
    }
}

fn requester(machine: &Machine, link: &Link, target: Target) -> Arc<dyn Requester> {
    match link.settings.transport {
        transport::Kind::Zeromq => Arc::new(transport::zeromq::ZmqRequester::new(machine.rt.clone(), target)),
        transport::Kind::Tcp => Arc::new(transport::tcp::TcpRequester::new(machine.rt.clone(), target)),
    }
}

/// A requester that records when the master answered and how long it took.
struct Timed {
    ask: Arc<dyn Requester>,
    link: Arc<Link>,
    rt: rt::Rt,
}

impl Requester for Timed {
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, TransportError>> {
        Box::pin(async move {
            let began = Instant::now();
            let answer = self.ask.ask(envelope, timeout).await?;
            self.link.note_round_trip(began.elapsed());
            self.link.note_heard(self.rt.now());
            Ok(answer)
        })
    }
}

/// Opens a channel to a master at an address, not signed in yet. `patience` bounds the connection.
pub fn open_channel(machine: &Machine, link: &Arc<Link>, address: SocketAddr, patience: Duration) -> MasterChannel {
    let target = target(link, address, link.settings.source.ret_port, patience);
    let ask = Timed { ask: requester(machine, link, target), link: link.clone(), rt: machine.rt.clone() };
    let trust = &machine.config.trust;
    let file = FileTrust::new(&machine.config.paths.pki_dir, &trust.master_sign_key_name);
    let settings = link.settings.channel.clone();
    let trust = LinkTrust::new(file, settings.trust.verify_signature, settings.hash_type, Arc::downgrade(link));
    let identity = machine.identity.clone().expect("who has links to masters has a key pair to show them");
    MasterChannel::new(settings, identity, Arc::new(trust), Arc::new(ask), machine.rt.clone())
}

/// Connects to the publication port of a master.
pub async fn subscribe(
    machine: &Machine,
    link: &Link,
    channel: &MasterChannel,
    to: SocketAddr,
    patience: Duration,
) -> Result<Box<dyn Subscription>, Ended> {
    let target = target(link, to, link.settings.source.publish_port, patience);
    let subscribing = async {
        match link.settings.transport {
            transport::Kind::Zeromq => {
                let topics = if link.settings.filtering { topics(machine) } else { Vec::new() };
                Ok(transport::zeromq::subscribe(&machine.rt, &target, machine.id.as_str(), topics).await?)
            }
            transport::Kind::Tcp => {
                let introduction = channel.introduction()?;
                let target = Target { keepalive: probed(&target), ..target };
                Ok(transport::tcp::subscribe(&machine.rt, &target, &introduction).await?)
            }
        }
    };
    // A publish port that accepts connections but does not speak would block us for ever.
    tokio::time::timeout(patience * 2, subscribing).await.map_err(|_| TransportError::Timeout(patience * 2))?
}

/// Returns the topics to which the minion subscribes at a master with `zmq_filtering`.
fn topics(machine: &Machine) -> Vec<Bytes> {
    vec![Topic::Broadcast.to_bytes(), crypto::filter_topic(&machine.id).to_bytes()]
}

/// The transport tcp has no heartbeats, and a subscriber sends no requests. So the kernel probes a silent publisher
/// as often as heartbeats would be sent.
fn probed(target: &Target) -> Option<Keepalive> {
    let (keepalive, beat) = (target.keepalive?, target.heartbeat?.every);
    // The kernel counts in seconds.
    let often = Duration::from_secs(beat.as_secs().max(1));
    let idle = keepalive.idle.map_or(often, |idle| idle.min(often));
    Some(Keepalive { idle: Some(idle), interval: Some(often), count: Some(3) })
}

/// Returns whether a master answers a ping on a new connection. Does not authenticate the master.
pub async fn ping(machine: &Machine, link: &Link, timeout: Duration) -> bool {
    let asking = async {
        let addresses = resolve(machine, link).await.ok()?;
        let addresses = reachable(machine, link, addresses, timeout).await.ok()?;
        let target = Target { heartbeat: None, ..target(link, *addresses.first()?, 0, timeout) };
        requester(machine, link, target).ask(Envelope::clear(map! { "cmd" => "ping" }), timeout).await.ok()
    };
    tokio::time::timeout(timeout, asking).await.is_ok_and(|answer| answer.is_some())
}
