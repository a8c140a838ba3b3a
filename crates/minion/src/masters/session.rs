//! Following one master: from its name to its jobs, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use channel::client::{Distrust, Error as ChannelError, FileTrust, MasterChannel, SignIn};
use exec::MasterState;
use rt::{Connect, Keepalive};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use transport::{Heartbeat, Requester, Subscription, Target};
use value::Map;

use super::{AcceptanceWait, Link};
use crate::world::World;

/// Time for one address to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A rejected minion asks again after this long, so that an operator who changes his mind need not restart it.
const REJECTED: Duration = Duration::from_secs(60);

/// Why a session with a master ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The name has no address.
    #[error("{0}")]
    Unresolved(std::io::Error),
    /// No address accepts connections.
    #[error("{0}")]
    Unreachable(std::io::Error),
    /// The conversation failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] transport::Error),
    /// The master refuses us.
    #[error("{0}")]
    Refused(&'static str),
}

/// Follows a master until told to stop. Whatever goes wrong concerns this link alone.
pub async fn follow(world: Arc<World>, link: Arc<Link>, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = follow_for_ever(&world, &link) => {}
    }
    link.set_channel(None);
}

async fn follow_for_ever(world: &Arc<World>, link: &Arc<Link>) {
    let mut failures = 0;
    loop {
        let was_live = link.has_pillar();
        let ended = session(world, link).await;
        let now = world.rt.now();
        let went_well = link.is_live();
        failures = if went_well { 1 } else { failures + 1 };
        link.set_channel(None);
        let wait = report(world, link, &ended, failures, was_live || went_well);
        let state = if matches!(ended, Ended::Refused(_)) { MasterState::Refused } else { MasterState::Backoff };
        link.set_state(state, None, now);
        tokio::time::sleep(wait).await;
    }
}

/// Says what happened, in Salt's words where people look for them, and how long to wait.
fn report(world: &World, link: &Link, ended: &Ended, failures: u32, known: bool) -> Duration {
    let master = &link.settings.address;
    let backoff = link.settings.backoff.wait(failures, &world.rt);
    match ended {
        Ended::Unresolved(reason) => {
            let wait =
                if link.settings.retry_dns.is_zero() { backoff } else { link.settings.retry_dns.min(backoff * 3) };
            if failures == 1 || failures.is_power_of_two() {
                error!("DNS lookup or connection check of '{}' failed. ({reason})", master.host);
            }
            wait
        }
        Ended::Refused(reason) => {
            error!(%master, "{reason}");
            if link.settings.rejected_retry { link.settings.acceptance_wait.0 } else { REJECTED }
        }
        Ended::Channel(ChannelError::Distrust(reason)) => {
            error!(%master, "{reason}");
            REJECTED
        }
        other => {
            let text = if known {
                format!("Connection to master {master} lost: {other}")
            } else {
                format!("Cannot connect to master {master}: {other}")
            };
            // The first failure and then ever fewer are worth an operator's eye.
            if failures <= 1 || failures.is_power_of_two() {
                warn!("{text}")
            } else {
                debug!("{text}")
            }
            backoff
        }
    }
}

/// One session, from resolving the name to the loss of the connection.
async fn session(world: &Arc<World>, link: &Arc<Link>) -> Ended {
    match begin(world, link).await {
        Ok(subscription) => serve(world, link, subscription).await,
        Err(ended) => ended,
    }
}

async fn begin(world: &Arc<World>, link: &Arc<Link>) -> Result<Box<dyn Subscription>, Ended> {
    let settings = &link.settings;
    link.set_state(MasterState::Resolving, None, world.rt.now());
    let addresses = resolve(world, link).await.map_err(Ended::Unresolved)?;
    link.set_state(MasterState::Connecting, None, world.rt.now());
    let address = first_reachable(world, link, &addresses).await.map_err(Ended::Unreachable)?;
    link.set_state(MasterState::Connecting, Some(address), world.rt.now());
    let channel = Arc::new(open_channel(world, link, address));
    let mut wait = AcceptanceWait::new(settings.acceptance_wait.0, settings.acceptance_wait.1);
    let publish_port = loop {
        match channel.sign_in().await? {
            SignIn::Accepted(credentials) => break credentials.publish_port,
            SignIn::Pending => {
                link.set_state(MasterState::Pending, Some(address), world.rt.now());
                let pause = wait.next();
                error!(
                    "The Salt Master has cached the public key for this node, this salt minion will wait for {} seconds \
                     before attempting to re-authenticate",
                    pause.as_secs()
                );
                tokio::time::sleep(pause).await;
            }
            SignIn::Rejected => {
                return Err(Ended::Refused("The Salt Master has rejected this minion's public key!"));
            }
            SignIn::Full => return Err(Ended::Refused("The Salt Master has as many minions as it allows")),
        }
    };
    info!("Authentication with master at {} successful!", address.ip());
    link.note_heard(world.rt.now());
    let port = settings.publish_port.unwrap_or(publish_port);
    let subscription = subscribe(world, link, &channel, SocketAddr::new(address.ip(), port)).await?;
    link.set_channel(Some(channel.clone()));
    if !link.has_pillar() {
        refresh_pillar(world, link, &channel).await;
    }
    Ok(subscription)
}

/// Signs in at a master once, for a single call.
///
/// # Errors
/// Why the master cannot be used, in words.
pub async fn sign_in_once(world: &Arc<World>, link: &Arc<Link>) -> Result<(), String> {
    let (channel, address) = sign_in_apart(world, link).await?;
    link.set_state(MasterState::Live, Some(address), world.rt.now());
    link.set_channel(Some(channel));
    Ok(())
}

/// Signs in at a master once, on a connection of its own that the link knows nothing of. It closes with the channel.
///
/// # Errors
/// Why the master cannot be used, in words.
pub async fn sign_in_apart(world: &World, link: &Link) -> Result<(Arc<MasterChannel>, SocketAddr), String> {
    let addresses = resolve(world, link).await.map_err(|error| error.to_string())?;
    let address = first_reachable(world, link, &addresses).await.map_err(|error| error.to_string())?;
    let channel = Arc::new(open_channel(world, link, address));
    match channel.sign_in().await.map_err(|error| error.to_string())? {
        SignIn::Accepted(_) => Ok((channel, address)),
        SignIn::Pending => Err(format!(
            "Minion failed to authenticate with the master {}, has the minion key been accepted?",
            link.settings.address
        )),
        SignIn::Rejected => Err("The Salt Master has rejected this minion's public key!".to_owned()),
        SignIn::Full => Err("The Salt Master has as many minions as it allows".to_owned()),
    }
}

/// All addresses of the master's name, those of the wished family first.
async fn resolve(world: &World, link: &Link) -> std::io::Result<Vec<SocketAddr>> {
    let master = &link.settings.address;
    let mut found = world.rt.net().resolve(&master.host, master.port).await?;
    match link.settings.ipv6 {
        Some(true) => found.sort_by_key(SocketAddr::is_ipv4),
        Some(false) => found.retain(SocketAddr::is_ipv4),
        None => {}
    }
    if found.is_empty() {
        return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no address of the wished family"));
    }
    Ok(found)
}

/// The first address that accepts a connection.
async fn first_reachable(world: &World, link: &Link, addresses: &[SocketAddr]) -> std::io::Result<SocketAddr> {
    if let [only] = addresses {
        // The first request will tell.
        return Ok(*only);
    }
    let mut failure = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in addresses {
        let source = link.settings.source.address.map(|ip| SocketAddr::new(ip, 0));
        let attempt = Connect { to: *address, from: source, keepalive: None, timeout: CONNECT };
        match world.rt.net().connect(&attempt).await {
            Ok(_) => return Ok(*address),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn target(link: &Link, to: SocketAddr, source_port: u16) -> Target {
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
        timeout: CONNECT,
        tls: settings.tls.clone().map(|tls| (tls, settings.address.host.clone())),
        ..Target::plain(to)
    }
}

fn open_channel(world: &World, link: &Link, address: SocketAddr) -> MasterChannel {
    let target = target(link, address, link.settings.source.ret_port);
    let requester: Arc<dyn Requester> = match link.settings.transport {
        transport::Kind::Zeromq => Arc::new(transport::zeromq::ZmqRequester::new(world.rt.clone(), target)),
        transport::Kind::Tcp => Arc::new(transport::tcp::TcpRequester::new(world.rt.clone(), target)),
    };
    let trust = FileTrust::new(&world.config.paths.pki_dir, &world.config.trust.master_sign_key_name);
    let settings = link.settings.channel.clone();
    MasterChannel::new(settings, world.identity.clone(), Arc::new(trust), requester, world.rt.clone())
}

async fn subscribe(
    world: &World,
    link: &Link,
    channel: &MasterChannel,
    to: SocketAddr,
) -> Result<Box<dyn Subscription>, Ended> {
    let target = target(link, to, link.settings.source.publish_port);
    let subscribing = async {
        match link.settings.transport {
            transport::Kind::Zeromq => {
                let topics = if link.settings.filtering { world.topics() } else { Vec::new() };
                Ok(transport::zeromq::subscribe(&world.rt, &target, world.identity.id.as_str(), topics).await?)
            }
            transport::Kind::Tcp => {
                let introduction = channel.introduction()?;
                let target = Target { keepalive: probed(&target), ..target };
                Ok(transport::tcp::subscribe(&world.rt, &target, &introduction).await?)
            }
        }
    };
    // A publish port that takes connections but does not speak would hold us for ever.
    tokio::time::timeout(CONNECT * 2, subscribing).await.map_err(|_| transport::Error::Timeout(CONNECT * 2))?
}

/// The transport tcp has no heartbeats, and a subscriber has nothing to ask; so the kernel probes a silent publisher as often
/// as heartbeats would come.
fn probed(target: &Target) -> Option<Keepalive> {
    let (keepalive, beat) = (target.keepalive?, target.heartbeat?.every);
    // The kernel counts in seconds.
    let often = Duration::from_secs(beat.as_secs().max(1));
    let idle = keepalive.idle.map_or(often, |idle| idle.min(often));
    Some(Keepalive { idle: Some(idle), interval: Some(often), count: Some(3) })
}

async fn refresh_pillar(world: &World, link: &Link, channel: &MasterChannel) {
    match world.ask_pillar(link, channel, Map::new()).await {
        Ok(pillar) => link.set_pillar(pillar),
        Err(reason) => error!(master = %link.settings.address, "Pillar data could not be refreshed: {reason}"),
    }
}

/// Takes jobs until the connection is lost.
async fn serve(world: &Arc<World>, link: &Arc<Link>, mut subscription: Box<dyn Subscription>) -> Ended {
    let Some(channel) = link.channel() else { return Ended::Refused("the channel is gone") };
    link.set_state(MasterState::Live, None, world.rt.now());
    info!("Minion is ready to receive requests!");
    world.connected(link).await;
    let watched = watch_requests(world, link);
    tokio::pin!(watched);
    loop {
        tokio::select! {
            error = &mut watched => return error.into(),
            payload = subscription.next() => match payload {
                Ok(payload) => {
                    link.note_heard(world.rt.now());
                    take(world, link, &channel, payload).await;
                }
                Err(error) => return error.into(),
            },
            () = link.refresh.notified() => {
                let (world, link, channel) = (world.clone(), link.clone(), channel.clone());
                tokio::spawn(async move { refresh_pillar(&world, &link, &channel).await });
            }
        }
    }
}

/// The beat over tcp at a stock master, for whose workers each one is a request like any other.
const STOCK_TCP_BEAT: Heartbeat = Heartbeat::every(Duration::from_secs(15));

/// Waits for the loss of the master's request port, by closing or by silence.
async fn watch_requests(world: &World, link: &Link) -> transport::Error {
    let Some(address) = link.address_in_use() else { return std::future::pending().await };
    let target = target(link, address, 0);
    match link.settings.transport {
        transport::Kind::Zeromq => transport::zeromq::watch(&world.rt, &target).await,
        transport::Kind::Tcp => {
            let ours = link.channel().is_some_and(|channel| channel.abilities().is_some());
            let heartbeat = if ours { target.heartbeat } else { Some(STOCK_TCP_BEAT) };
            transport::tcp::watch(&world.rt, &Target { heartbeat, ..target }).await
        }
    }
}

/// Opens a publication and starts its job, if it is for us.
async fn take(world: &Arc<World>, link: &Arc<Link>, channel: &MasterChannel, payload: Bytes) {
    match channel.open(&payload).await {
        Ok(Some(load)) => world.start_job(link, load),
        Ok(None) => {}
        Err(ChannelError::Distrust(reason @ Distrust::Changed)) => error!(master = %link.settings.address, "{reason}"),
        Err(reason) => {
            warn!(master = %link.settings.address, "a publication was not understood and is dropped: {reason}")
        }
    }
}
