//! Following one master: from its name to its jobs, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use channel::client::{Distrust, Error as ChannelError, MasterChannel, SignIn};
use config::MasterAddress;
use exec::{MasterRole, MasterState};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use transport::{Heartbeat, Subscription, Target};

use super::connect::{self, CONNECT, open_channel, reachable, resolve, subscribe, target};
use super::{AcceptanceWait, Link, LinkSettings};
use crate::missed::{self, Word};
use crate::world::World;

/// A rejected minion retries after this long, so that an operator who accepts the key later need not restart it.
const REJECTED: Duration = Duration::from_secs(60);

/// A name that did not resolve `retry_dns_count` times is looked up again after this long.
const UNRESOLVABLE: Duration = Duration::from_secs(600);

/// The log line for a rejected minion.
const REJECTION: &str = "The Salt Master has rejected this minion's public key! To repair this issue, delete the public key for \
                         this minion on the Salt Master (salt-key -d)";

/// The log line for a minion above `max_minions`.
const FULL: &str = "The Salt Master has as many minions as it allows";

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
    /// Our key is pending, and the caller does not wait for it.
    #[error("Minion failed to authenticate with the master {0}, has the minion key been accepted?")]
    Pending(MasterAddress),
    /// The master refuses us.
    #[error("{0}")]
    Refused(&'static str),
    /// The master has said that it stops. A minion with nothing to deliver comes back within this time.
    #[error("it said goodbye")]
    Goodbye(Duration),
}

impl Ended {
    /// Returns the state of a link afterwards.
    pub fn state(&self) -> MasterState {
        match self {
            Ended::Refused(_) | Ended::Channel(ChannelError::Distrust(_)) => MasterState::Refused,
            _ => MasterState::Backoff,
        }
    }
}

/// How a session starts.
#[derive(Clone, Copy, Debug)]
pub struct Approach {
    /// Time for a connection to be made.
    pub patience: Duration,
    /// The pillar is compiled again, even if there is an older one.
    pub fresh: bool,
    /// What was before.
    pub after: After,
}

/// What was before the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The minion has started.
    Start,
    /// This master was lost.
    Loss,
    /// Another master was followed.
    Another,
}

/// Follows a master until stopped. Failures concern only this link.
pub async fn follow(world: Arc<World>, link: Arc<Link>, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = follow_for_ever(&world, &link) => {}
    }
    link.set_channel(None);
}

/// The failures of one link since it was last connected.
#[derive(Default)]
struct Failures {
    all: u32,
    /// Those of the name look-up, in a row.
    unresolved: u32,
    /// It was connected at least once.
    known: bool,
}

async fn follow_for_ever(world: &Arc<World>, link: &Arc<Link>) {
    let mut failures = Failures::default();
    loop {
        let after = if failures.known { After::Loss } else { After::Start };
        let attempt = failures.all + 1;
        debug!(master = %link.settings.address, "Connecting to master. Attempt {attempt} (infinite attempts)");
        let ended = session(world, link, Approach { patience: CONNECT, fresh: false, after }).await;
        let was_live = link.is_live();
        failures.all = if was_live { 1 } else { failures.all + 1 };
        failures.unresolved = if matches!(ended, Ended::Unresolved(_)) { failures.unresolved + 1 } else { 0 };
        failures.known |= was_live;
        link.set_channel(None);
        let wait = report(world, link, &ended, &failures);
        link.set_state(ended.state(), None, world.rt.now());
        if was_live {
            world.disconnected(link);
        }
        tokio::time::sleep(wait).await;
    }
}

/// Reports what happened, in Salt's words where people search for them. Returns how long to wait.
fn report(world: &World, link: &Link, ended: &Ended, failures: &Failures) -> Duration {
    let master = &link.settings.address;
    let backoff = link.settings.backoff.wait(failures.all, &world.rt);
    match ended {
        Ended::Unresolved(reason) => {
            let wait = wait_for_name(&link.settings, failures.unresolved, backoff);
            // The first failure and then ever fewer: a dead name server must not fill the log.
            if failures.unresolved == 1 || failures.unresolved.is_power_of_two() {
                error!(
                    %master,
                    "DNS lookup or connection check of '{host}' failed. ({reason}) Master hostname: '{host}' not found or not \
                     responsive. Retrying in {} seconds",
                    wait.as_secs(),
                    host = master.host,
                );
                link.note_away(world.rt.now());
            }
            wait
        }
        Ended::Refused(reason) => {
            error!(%master, "{reason}");
            link.note_away(world.rt.now());
            if link.settings.rejected_retry { link.settings.acceptance_wait.0 } else { REJECTED }
        }
        Ended::Channel(ChannelError::Distrust(reason)) => {
            error!(%master, "{reason}");
            link.note_away(world.rt.now());
            REJECTED
        }
        Ended::Goodbye(spread) => {
            info!("Master {master} is stopping; it is tried again");
            // A minion with running jobs or waiting returns comes back at once.
            if link.is_busy() { backoff } else { backoff + world.rt.between(Duration::ZERO, *spread) }
        }
        other => {
            let text = if failures.known {
                format!("Connection to master {} lost: {other}", master.host)
            } else {
                format!("Cannot connect to master {}: {other}", master.host)
            };
            // The first failure and then ever fewer are worth an operator's attention.
            if failures.all <= 1 || failures.all.is_power_of_two() {
                warn!(%master, "{text}");
                link.note_away(world.rt.now());
            } else {
                debug!(%master, "{text}")
            }
            // A fleet that was connected does not come back at once if the operator says so.
            let spread = if failures.known { link.settings.channel.reauth_delay } else { Duration::ZERO };
            backoff + world.rt.between(Duration::ZERO, spread)
        }
    }
}

/// Returns how long to wait before a name is looked up again: at first shorter than `retry_dns`, and after
/// `retry_dns_count` tries rarely, but not never.
fn wait_for_name(settings: &LinkSettings, unresolved: u32, backoff: Duration) -> Duration {
    match settings.retry_dns_count {
        Some(count) if unresolved >= count.max(1) => {
            if unresolved == count.max(1) {
                error!(master = %settings.address, "The name '{}' did not resolve {unresolved} times", settings.address.host);
            }
            // Salt's minion would exit here. This one waits, because nobody may be there to start it again.
            UNRESOLVABLE
        }
        _ if settings.retry_dns.is_zero() => backoff,
        _ => settings.retry_dns.min(backoff * 3),
    }
}

/// Runs one session, from the look-up of the name to the loss of the connection.
pub(crate) async fn session(world: &Arc<World>, link: &Arc<Link>, approach: Approach) -> Ended {
    match begin(world, link, approach).await {
        Ok(subscription) => serve(world, link, subscription).await,
        Err(ended) => ended,
    }
}

async fn begin(world: &Arc<World>, link: &Arc<Link>, approach: Approach) -> Result<Box<dyn Subscription>, Ended> {
    link.set_state(MasterState::Resolving, None, world.rt.now());
    let addresses = resolve(world, link).await.map_err(Ended::Unresolved)?;
    if let Some((before, now)) = link.note_resolved(&addresses) {
        warn!(master = %link.settings.address, "Master ip address changed from {before} to {now}");
    }
    link.set_state(MasterState::Connecting, None, world.rt.now());
    let addresses = reachable(world, link, addresses, approach.patience).await.map_err(Ended::Unreachable)?;
    let mut failure = Ended::Unreachable(std::io::ErrorKind::NotFound.into());
    for address in addresses {
        match begin_at(world, link, address, approach).await {
            // Only a verdict about our key ends the search: it would be the same at every address.
            Err(ended @ (Ended::Transport(_) | Ended::Channel(_))) => failure = ended,
            other => return other,
        }
    }
    Err(failure)
}

async fn begin_at(
    world: &Arc<World>,
    link: &Arc<Link>,
    address: SocketAddr,
    approach: Approach,
) -> Result<Box<dyn Subscription>, Ended> {
    link.set_state(MasterState::Connecting, Some(address), world.rt.now());
    debug!(master = %link.settings.address, "Master URI: tcp://{address}");
    let channel = Arc::new(open_channel(world, link, address, approach.patience));
    let publish_port = sign_in(world, link, &channel, address).await?;
    let (master, host) = (&link.settings.address, &link.settings.address.host);
    info!(%master, "Authentication with master at {} successful!", address.ip());
    match approach.after {
        After::Start => {}
        After::Loss => info!(%master, "Connection to master {host} re-established"),
        After::Another => info!(%master, "Re-initialising subsystems for new master {host}"),
    }
    let port = link.settings.publish_port.unwrap_or(publish_port);
    let to = SocketAddr::new(address.ip(), port);
    let subscription = subscribe(world, link, &channel, to, approach.patience).await?;
    link.set_channel(Some(channel.clone()));
    if approach.fresh || !link.has_pillar() {
        // Otherwise a master that dies now would be waited for as long as a slow one.
        tokio::select! {
            biased;
            () = refresh_pillar(world, link, &channel) => {}
            error = watch_requests(world, link) => return Err(error.into()),
        }
    }
    Ok(subscription)
}

/// Signs in, waits until our key is accepted, and returns the port of the publications.
async fn sign_in(world: &World, link: &Link, channel: &MasterChannel, address: SocketAddr) -> Result<u16, Ended> {
    let (first, most) = link.settings.acceptance_wait;
    let mut wait = AcceptanceWait::new(first, most);
    let master = &link.settings.address;
    let mut answer = channel.sign_in().await?;
    loop {
        match answer {
            SignIn::Accepted(credentials) => {
                debug!(target: "salt.crypt", %master, "Got new master aes key.");
                return Ok(credentials.publish_port);
            }
            SignIn::Pending => {
                link.set_state(MasterState::Pending, Some(address), world.rt.now());
                let pause = wait.next();
                error!(
                    %master,
                    "The Salt Master has cached the public key for this node, this salt minion will wait for {} seconds \
                     before attempting to re-authenticate",
                    pause.as_secs()
                );
                link.note_away(world.rt.now());
                info!(%master, "Waiting {} seconds before retry.", pause.as_secs());
                answer = await_decision(channel, pause).await?;
            }
            SignIn::Rejected => return Err(Ended::Refused(REJECTION)),
            SignIn::Full => return Err(Ended::Refused(FULL)),
        }
    }
}

/// The longest time that a master holds a sign-in for us.
const LONGEST_QUESTION: Duration = Duration::from_secs(60);

/// Signs in again after a pause. A master of Saltern answers as soon as somebody has decided about our key, if it has
/// room for waiting sign-ins.
async fn await_decision(channel: &MasterChannel, pause: Duration) -> Result<SignIn, ChannelError> {
    let until = Instant::now() + pause;
    while channel.may_await_key() {
        let time = until.saturating_duration_since(Instant::now()).min(LONGEST_QUESTION);
        // The time is sent in whole seconds.
        if time < Duration::from_secs(1) {
            break;
        }
        let began = Instant::now();
        let answer = channel.await_key(time).await?;
        match answer {
            // The master has no room now.
            SignIn::Pending if began.elapsed() < time / 2 => break,
            SignIn::Pending if Instant::now() < until => {}
            answer => return Ok(answer),
        }
    }
    tokio::time::sleep_until(until).await;
    channel.sign_in().await
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
/// Why the master cannot be used, in words: each address with its reason.
pub async fn sign_in_apart(world: &World, link: &Arc<Link>) -> Result<(Arc<MasterChannel>, SocketAddr), String> {
    let addresses = resolve(world, link).await.map_err(|error| format!("its name cannot be resolved: {error}"))?;
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let reached = reachable(world, link, addresses, CONNECT).await;
    let reached = reached.map_err(|error| format!("cannot connect to {}: {error}", names.join(", ")))?;
    let mut failures = Vec::new();
    for address in reached {
        debug!(master = %link.settings.address, "Master URI: tcp://{address}");
        let channel = Arc::new(open_channel(world, link, address, CONNECT));
        let ended: Ended = match channel.sign_in().await {
            Ok(SignIn::Accepted(_)) => return Ok((channel, address)),
            Ok(SignIn::Pending) => Ended::Pending(link.settings.address.clone()),
            Ok(SignIn::Rejected) => Ended::Refused(REJECTION),
            Ok(SignIn::Full) => Ended::Refused(FULL),
            Err(error) => error.into(),
        };
        failures.push(format!("at {address}: {ended}"));
    }
    Err(failures.join("; "))
}

async fn refresh_pillar(world: &World, link: &Link, channel: &MasterChannel) {
    match world.ask_pillar(link, channel, link.take_pillar_terms()).await {
        Ok(pillar) => link.set_pillar(pillar),
        Err(reason) => error!(master = %link.settings.address, "Pillar data could not be refreshed: {reason}"),
    }
}

/// Takes jobs until the connection ends.
async fn serve(world: &Arc<World>, link: &Arc<Link>, mut subscription: Box<dyn Subscription>) -> Ended {
    let Some(channel) = link.channel() else { return Ended::Refused("the channel is gone") };
    link.set_state(MasterState::Live, None, world.rt.now());
    info!(master = %link.settings.address, "Minion is ready to receive requests!");
    say_who_is_followed(world, link);
    world.connected(link).await;
    let watched = watch_requests(world, link);
    let checked = check_now_and_then(world, link);
    let unread = Notify::new();
    let asked = missed::ask_whenever(world, link, &unread);
    tokio::pin!(watched, checked, asked);
    loop {
        tokio::select! {
            biased;
            // The request port first: what the master published before it closed is taken below.
            error = &mut watched => {
                let said = last_words(world, link, &channel, &mut *subscription, &unread);
                let said = tokio::time::timeout(LAST_WORDS, said).await;
                return said.ok().flatten().unwrap_or_else(|| error.into());
            }
            () = &mut checked => {}
            () = &mut asked => {}
            payload = subscription.next() => match payload {
                Ok(payload) => {
                    link.note_heard(world.rt.now());
                    if let Some(ended) = take(world, link, &channel, payload, &unread).await {
                        return ended;
                    }
                }
                Err(error) => return error.into(),
            },
            () = link.refresh.notified() => {
                // Beside this loop, which must go on reading jobs.
                let (world, link, channel) = (world.clone(), link.clone(), channel.clone());
                world.rt.clone().spawn(async move { refresh_pillar(&world, &link, &channel).await });
            }
        }
    }
}

/// Whoever read that a master is away reads at the same level that it is back, and which masters the minion follows
/// now.
fn say_who_is_followed(world: &World, link: &Link) {
    let master = &link.settings.address;
    let (live, away): (Vec<_>, Vec<_>) = world.links.iter().partition(|link| link.is_live());
    let names = |links: &[&Arc<Link>]| links.iter().map(|link| link.address()).collect::<Vec<_>>().join(", ");
    let away = match away.is_empty() {
        true => String::new(),
        false => format!("; not followed: {}", names(&away)),
    };
    let followed = names(&live);
    let back = link.take_away();
    // With one master followed at a time, this one replaces one that was lost.
    let instead = link.role() != MasterRole::Hot && world.links.iter().filter_map(|link| link.take_away()).count() > 0;
    match back {
        Some(since) => {
            let away_for = world.rt.now().duration_since(since).unwrap_or_default().as_secs_f32();
            warn!(%master, "Master {master} is back after {away_for:.1} s; followed now: {followed}{away}");
        }
        None if instead => warn!(%master, "Master {master} is followed now{away}"),
        None => info!(%master, "Following master {master}; followed now: {followed}{away}"),
    }
}

/// How long the last publications may take after the request port has closed.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// Takes what was published before the request port closed. It may be the notice that the master stops.
async fn last_words(
    world: &Arc<World>,
    link: &Arc<Link>,
    channel: &MasterChannel,
    subscription: &mut dyn Subscription,
    unread: &Notify,
) -> Option<Ended> {
    loop {
        let payload = subscription.next().await.ok()?;
        if let Some(ended) = take(world, link, channel, payload, unread).await {
            return Some(ended);
        }
    }
}

/// The interval of pings over tcp at a master of Salt, whose workers handle each like any other request.
const STOCK_TCP_BEAT: Heartbeat = Heartbeat::every(Duration::from_secs(15));

/// Waits until the master's request port is lost, by closing or by silence.
async fn watch_requests(world: &World, link: &Arc<Link>) -> transport::Error {
    let Some(address) = link.address_in_use() else { return std::future::pending().await };
    let (rt, heard) = (world.rt.clone(), link.clone());
    let on_heard: transport::OnHeard = Arc::new(move || heard.note_heard(rt.now()));
    let target = Target { on_heard: Some(on_heard), ..target(link, address, 0, CONNECT) };
    match link.settings.transport {
        transport::Kind::Zeromq => transport::zeromq::watch(&world.rt, &target).await,
        transport::Kind::Tcp => {
            let ours = link.channel().is_some_and(|channel| channel.abilities().is_some());
            let heartbeat = if ours { target.heartbeat } else { Some(STOCK_TCP_BEAT) };
            transport::tcp::watch(&world.rt, &Target { heartbeat, ..target }).await
        }
    }
}

/// Checks at each `master_alive_interval` whether the master answers on a new connection as well. The connection
/// itself has heartbeats: a master that is only slow is reported, and kept.
async fn check_now_and_then(world: &World, link: &Link) {
    let (every, timeout) = (world.config.links.master_alive_interval, link.settings.channel.auth_timeout);
    if every.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(every).await;
        if !connect::ping(world, link, timeout).await {
            let master = &link.settings.address;
            warn!("Master {master} did not answer a ping within {} s; its connection is alive", timeout.as_secs_f32());
        }
    }
}

/// Decrypts a publication and starts its job, if it is for us. It may be a notice of the master instead, even its
/// last.
async fn take(
    world: &Arc<World>,
    link: &Arc<Link>,
    channel: &MasterChannel,
    payload: Bytes,
    unread: &Notify,
) -> Option<Ended> {
    match channel.open(&payload).await {
        Ok(Some(load)) => match Word::of(&load) {
            Some(Word::Goodbye(spread)) => return Some(Ended::Goodbye(spread)),
            Some(Word::Rotated(spread)) => {
                world.rt.spawn(missed::renew(world.clone(), link.clone(), spread));
            }
            Some(Word::Other) => {}
            None => world.start_job(link, load),
        },
        Ok(None) => {}
        Err(ChannelError::Distrust(reason @ Distrust::Changed(_))) => {
            error!(master = %link.settings.address, "{reason}")
        }
        Err(forged @ ChannelError::Forged(_)) => {
            error!(
                master = %link.settings.address,
                "a publication is dropped, {forged}. Another minion may have made it: every minion has the key it is sealed with"
            );
        }
        Err(reason) => {
            warn!(master = %link.settings.address, "a publication was not understood and is dropped: {reason}");
            // It may be older than the master's key. Then the job can still be requested.
            unread.notify_one();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Value, map};

    fn waits(retry_dns: i64, count: impl Into<Value>) -> Vec<u64> {
        let options =
            map! { "id" => "m", "master" => "a", "retry_dns" => retry_dns, "retry_dns_count" => count.into() };
        let config = config::Minion::from_options(options).unwrap();
        let masters = config.masters.clone();
        let settings = super::super::links(&config, masters, &map! {}).unwrap().remove(0);
        let wait = |unresolved| wait_for_name(&settings, unresolved, Duration::from_secs(4)).as_secs();
        (1..=4).map(wait).collect()
    }

    #[test]
    fn a_name_is_looked_up_again_and_again_and_seldom_in_the_end() {
        // At most three times the usual pause, so that a new address of the master is found soon.
        assert_eq!(waits(30, Value::Null), [12, 12, 12, 12]);
        assert_eq!(waits(5, Value::Null), [5, 5, 5, 5]);
        assert_eq!(waits(0, Value::Null), [4, 4, 4, 4]);
        assert_eq!(waits(5, 3), [5, 5, 600, 600]);
    }
}
