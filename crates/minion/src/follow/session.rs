//! Follows one master: resolves its name, connects, signs in and takes jobs, again and again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use channel::client::{Distrust, Error as ChannelError, MasterChannel, SignIn};
use exec::{MasterRole, MasterState};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use transport::{Heartbeat, Subscription, Target};

use super::announce::{connected, disconnected};
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::masters::{
    AcceptanceWait, CONNECT, Ended, FULL, Link, LinkSettings, Masters, REJECTION, ask_pillar, open_channel, ping,
    reachable, resolve, subscribe, target,
};
use crate::missed::{self, Notice};

/// A rejected minion retries after this long, so that an operator who accepts the key later need not restart it.
const REJECTED: Duration = Duration::from_secs(60);

/// A name that did not resolve `retry_dns_count` times is looked up again after this long.
const UNRESOLVABLE: Duration = Duration::from_secs(600);

/// How a session starts.
#[derive(Clone, Copy, Debug)]
pub struct Approach {
    /// The timeout for a connection.
    pub patience: Duration,
    /// The pillar is compiled again, even if there is an older one.
    pub fresh: bool,
    /// What happened before.
    pub after: After,
}

/// What happened before a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The minion has started.
    Start,
    /// This master was lost.
    Loss,
    /// This master did not accept the key any more, and has deleted what it knew of this minion.
    Unaccepted,
    /// Another master was followed.
    Another,
}

/// Follows a master until stopped. Failures concern only this link.
pub async fn follow(jobs: Arc<Jobs>, link: Arc<Link>, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = follow_for_ever(&jobs, &link) => {}
    }
    link.set_channel(None);
}

/// The failures of one link since it was last connected.
#[derive(Default)]
struct Failures {
    all: u32,
    /// Those of the name look-up, in a row.
    unresolved: u32,
    /// True if it was connected at least once.
    known: bool,
}

async fn follow_for_ever(jobs: &Arc<Jobs>, link: &Arc<Link>) {
    let mut failures = Failures::default();
    let mut unaccepted = false;
    loop {
        let after = match unaccepted {
            true => After::Unaccepted,
            false if failures.known => After::Loss,
            false => After::Start,
        };
        let attempt = failures.all + 1;
        debug!(master = %link.settings.address, "Connecting to master. Attempt {attempt} (infinite attempts)");
        let ended = session(jobs, link, Approach { patience: CONNECT, fresh: false, after }).await;
        let was_live = link.is_live();
        // Until it is connected again.
        unaccepted = is_unaccepted(&ended) || unaccepted && !was_live;
        failures.all = if was_live { 1 } else { failures.all + 1 };
        failures.unresolved = if matches!(ended, Ended::Unresolved(_)) { failures.unresolved + 1 } else { 0 };
        failures.known |= was_live;
        link.set_channel(None);
        let wait = report(&jobs.machine, link, &ended, &failures);
        link.set_state(ended.state(), None, jobs.machine.rt.now());
        if was_live {
            disconnected(&jobs.machine, link);
        }
        tokio::time::sleep(wait).await;
    }
}

fn is_unaccepted(ended: &Ended) -> bool {
    matches!(ended, Ended::Channel(ChannelError::NotAccepted))
}

/// Logs why a session ended, in Salt's words if people search for them. Returns how long to wait.
fn report(machine: &Machine, link: &Link, ended: &Ended, failures: &Failures) -> Duration {
    let master = &link.settings.address;
    let backoff = link.settings.backoff.wait(failures.all, &machine.rt);
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
                link.note_away(machine.rt.now());
            }
            wait
        }
        Ended::Refused(reason) => {
            error!(%master, "{reason}");
            link.note_away(machine.rt.now());
            if link.settings.rejected_retry { link.settings.acceptance_wait.0 } else { REJECTED }
        }
        Ended::Channel(ChannelError::Distrust(reason)) => {
            error!(%master, "{reason}");
            link.note_away(machine.rt.now());
            REJECTED
        }
        Ended::Goodbye(spread) => {
            info!("Master {master} is stopping; it is tried again");
            // A minion with running jobs or waiting returns comes back at once.
            if link.is_busy() { backoff } else { backoff + machine.rt.between(Duration::ZERO, *spread) }
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
                link.note_away(machine.rt.now());
            } else {
                debug!(%master, "{text}")
            }
            // A fleet that was connected does not come back at once if the operator says so.
            let spread = if failures.known { link.settings.channel.reauth_delay } else { Duration::ZERO };
            backoff + machine.rt.between(Duration::ZERO, spread)
        }
    }
}

/// Returns how long to wait before a name is looked up again: at first a time shorter than `retry_dns`, and after
/// `retry_dns_count` attempts [`UNRESOLVABLE`].
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
pub async fn session(jobs: &Arc<Jobs>, link: &Arc<Link>, approach: Approach) -> Ended {
    match begin(jobs, link, approach).await {
        Ok((subscription, accepted)) => serve(jobs, link, subscription, accepted).await,
        Err(ended) => ended,
    }
}

/// A session that has begun, and whether the key had to be accepted first.
type Begun = (Box<dyn Subscription>, bool);

async fn begin(jobs: &Arc<Jobs>, link: &Arc<Link>, approach: Approach) -> Result<Begun, Ended> {
    let machine = &jobs.machine;
    link.set_state(MasterState::Resolving, None, machine.rt.now());
    let addresses = resolve(machine, link).await.map_err(Ended::Unresolved)?;
    if let Some(warning) = changed_address(link, &addresses) {
        warn!(master = %link.settings.address, "{warning}");
    }
    link.set_state(MasterState::Connecting, None, machine.rt.now());
    let addresses = reachable(machine, link, addresses, approach.patience).await.map_err(Ended::Unreachable)?;
    let mut failure = Ended::Unreachable(std::io::ErrorKind::NotFound.into());
    for address in addresses {
        match begin_at(machine, link, address, approach).await {
            // Only a verdict about our key ends the search: it would be the same at every address.
            Err(ended @ (Ended::Transport(_) | Ended::Channel(_))) => failure = ended,
            other => return other,
        }
    }
    Err(failure)
}

/// Returns Salt's warning if the master's name has another address than at the last look-up.
fn changed_address(link: &Link, addresses: &[SocketAddr]) -> Option<String> {
    let (before, now) = link.note_resolved(addresses)?;
    Some(format!("Master ip address changed from {before} to {now}"))
}

async fn begin_at(
    machine: &Machine,
    link: &Arc<Link>,
    address: SocketAddr,
    approach: Approach,
) -> Result<Begun, Ended> {
    link.set_state(MasterState::Connecting, Some(address), machine.rt.now());
    debug!(master = %link.settings.address, "Master URI: tcp://{address}");
    let channel = Arc::new(open_channel(machine, link, address, approach.patience));
    let (publish_port, waited) = sign_in(machine, link, &channel, address).await?;
    let accepted = waited || approach.after == After::Unaccepted;
    let (master, host) = (&link.settings.address, &link.settings.address.host);
    info!(%master, "Authentication with master at {} successful!", address.ip());
    match approach.after {
        After::Start => {}
        After::Loss | After::Unaccepted => info!(%master, "Connection to master {host} re-established"),
        After::Another => info!(%master, "Re-initialising subsystems for new master {host}"),
    }
    let port = link.settings.publish_port.unwrap_or(publish_port);
    let to = SocketAddr::new(address.ip(), port);
    let subscription = subscribe(machine, link, &channel, to, approach.patience).await?;
    link.set_channel(Some(channel.clone()));
    // Whoever accepted the key again had deleted it, and with it the grains and the pillar.
    if approach.fresh || accepted || !link.has_pillar() {
        // Otherwise a master that dies now would be waited for as long as a slow one.
        tokio::select! {
            biased;
            () = refresh_pillar(machine, link, &channel) => {}
            error = watch_requests(machine, link) => return Err(error.into()),
        }
    }
    Ok((subscription, accepted))
}

/// Signs in and waits until our key is accepted. Returns the port of the publications, and whether it had to wait.
async fn sign_in(
    machine: &Machine,
    link: &Link,
    channel: &MasterChannel,
    address: SocketAddr,
) -> Result<(u16, bool), Ended> {
    let (first, most) = link.settings.acceptance_wait;
    let mut wait = AcceptanceWait::new(first, most);
    let master = &link.settings.address;
    let mut answer = channel.sign_in().await?;
    let mut waited = false;
    loop {
        match answer {
            SignIn::Accepted(credentials) => {
                debug!(target: "salt.crypt", %master, "Got new master aes key.");
                return Ok((credentials.publish_port, waited));
            }
            SignIn::Pending => {
                waited = true;
                link.set_state(MasterState::Pending, Some(address), machine.rt.now());
                let pause = wait.next();
                error!(
                    %master,
                    "The Salt Master has cached the public key for this node, this salt minion will wait for {} seconds \
                     before attempting to re-authenticate",
                    pause.as_secs()
                );
                link.note_pending(machine.rt.now());
                info!(%master, "Waiting {} seconds before retry.", pause.as_secs());
                answer = await_decision(channel, pause).await?;
            }
            SignIn::Rejected => return Err(Ended::Refused(REJECTION)),
            SignIn::Full => return Err(Ended::Refused(FULL)),
        }
    }
}

/// The longest time for which a master keeps a sign-in waiting.
const LONGEST_QUESTION: Duration = Duration::from_secs(60);

/// Signs in again after a pause. A Saltern master answers as soon as our key is accepted or rejected, if it has room
/// for waiting sign-ins.
async fn await_decision(channel: &MasterChannel, pause: Duration) -> Result<SignIn, ChannelError> {
    let until = Instant::now() + pause;
    while channel.may_await_key() {
        let left = until.saturating_duration_since(Instant::now()).min(LONGEST_QUESTION);
        if left.is_zero() {
            break;
        }
        let time = in_whole_seconds(left);
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

/// Returns the time that a master is asked to keep a sign-in, which is sent in whole seconds. Rounded down, a pause of a second would
/// never be spent there: a moment of it has passed already.
fn in_whole_seconds(left: Duration) -> Duration {
    Duration::from_secs(left.as_millis().div_ceil(1_000) as u64)
}

async fn refresh_pillar(machine: &Machine, link: &Link, channel: &MasterChannel) {
    match ask_pillar(machine, link, channel, link.take_pillar_terms()).await {
        Ok(pillar) => link.set_pillar(pillar),
        Err(reason) => error!(master = %link.settings.address, "Pillar data could not be refreshed: {reason}"),
    }
}

/// Takes publications until the connection ends. `accepted` says that the key was accepted just now.
async fn serve(jobs: &Arc<Jobs>, link: &Arc<Link>, mut subscription: Box<dyn Subscription>, accepted: bool) -> Ended {
    let Some(channel) = link.channel() else { return Ended::Refused("the channel is gone") };
    let machine = &jobs.machine;
    link.set_state(MasterState::Live, None, machine.rt.now());
    info!(master = %link.settings.address, "Minion is ready to receive requests!");
    say_who_is_followed(&jobs.masters, link);
    connected(jobs, link);
    if accepted {
        jobs.masters.accepted.notify_one();
    }
    let watched = watch_requests(machine, link);
    let checked = check_now_and_then(machine, link);
    let unread = Notify::new();
    let asked = missed::ask_whenever(jobs, link, &unread);
    tokio::pin!(watched, checked, asked);
    loop {
        tokio::select! {
            biased;
            // The request port first: what the master published before it closed is taken below.
            error = &mut watched => {
                let said = last_words(jobs, link, &channel, &mut *subscription, &unread);
                let said = tokio::time::timeout(LAST_WORDS, said).await;
                return said.ok().flatten().unwrap_or_else(|| error.into());
            }
            () = &mut checked => {}
            () = &mut asked => {}
            payload = subscription.next() => match payload {
                Ok(payload) => {
                    link.note_heard(machine.rt.now());
                    if let Some(ended) = take(jobs, link, &channel, payload, &unread).await {
                        return ended;
                    }
                }
                Err(error) => return error.into(),
            },
            // The next session waits until it is accepted again.
            () = channel.refused() => return ChannelError::NotAccepted.into(),
            () = link.refresh.notified() => {
                // Beside this loop, which must go on reading jobs.
                let (inside, link, channel) = (machine.clone(), link.clone(), channel.clone());
                machine.rt.spawn(async move { refresh_pillar(&inside, &link, &channel).await });
            }
        }
    }
}

/// Logs which masters the minion follows now. If the log has said that this master is away, logs its return at the same
/// level.
fn say_who_is_followed(masters: &Masters, link: &Link) {
    let master = &link.settings.address;
    let (followed, away) = followed_and_away(&masters.links);
    match follows(&masters.links, link, link.role() != MasterRole::Hot) {
        Follows::Again(since) => {
            warn!(%master, "{}", is_back(link, since, masters.machine.rt.now(), &followed, &away));
        }
        Follows::Instead => warn!(%master, "Master {master} is followed now{away}"),
        Follows::First => info!(%master, "Following master {master}; followed now: {followed}{away}"),
    }
}

/// What it means that a master is followed now.
#[derive(Debug, PartialEq)]
enum Follows {
    /// The log has said since then that it is away.
    Again(SystemTime),
    /// It replaces one that the log has called away.
    Instead,
    /// Nobody was lost.
    First,
}

/// Notes that a master is followed now. `one` says that one master is followed at a time.
fn follows(links: &[Arc<Link>], link: &Link, one: bool) -> Follows {
    match link.take_away() {
        Some(since) => Follows::Again(since),
        // The lost one stays noted, so that the return to it is logged at the level of its loss, too.
        None if one && links.iter().any(|other| other.is_away()) => Follows::Instead,
        None => Follows::First,
    }
}

/// Returns the names of the connected masters, and the end of a log line with the others, which is empty if there are
/// none.
fn followed_and_away(links: &[Arc<Link>]) -> (String, String) {
    let (live, away): (Vec<_>, Vec<_>) = links.iter().partition(|link| link.is_live());
    let names = |links: &[&Arc<Link>]| links.iter().map(|link| link.address()).collect::<Vec<_>>().join(", ");
    let away = match away.is_empty() {
        true => String::new(),
        false => format!("; not followed: {}", names(&away)),
    };
    (names(&live), away)
}

/// Returns the warning that a master is back after the log has said that it is away, or has accepted the key after the
/// log has said that it is pending.
fn is_back(link: &Link, away: SystemTime, now: SystemTime, followed: &str, not_followed: &str) -> String {
    let (what, since) = match link.take_pending() {
        Some(since) => ("accepted this minion's key", since),
        None => ("is back", away),
    };
    let seconds = now.duration_since(since).unwrap_or_default().as_secs_f32();
    format!("Master {} {what} after {seconds:.1} s; followed now: {followed}{not_followed}", link.settings.address)
}

/// How long the last publications may take after the request port has closed.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// Takes the publications that were sent before the request port closed. One may be the notice that the master stops.
async fn last_words(
    jobs: &Arc<Jobs>,
    link: &Arc<Link>,
    channel: &MasterChannel,
    subscription: &mut dyn Subscription,
    unread: &Notify,
) -> Option<Ended> {
    loop {
        let payload = subscription.next().await.ok()?;
        if let Some(ended) = take(jobs, link, channel, payload, unread).await {
            return Some(ended);
        }
    }
}

/// The interval of pings over tcp to a Salt master, whose workers handle each like any other request.
const STOCK_TCP_BEAT: Heartbeat = Heartbeat::every(Duration::from_secs(15));

/// Waits until the connection to the master's request port is closed or silent for too long.
async fn watch_requests(machine: &Machine, link: &Arc<Link>) -> transport::Error {
    let Some(address) = link.address_in_use() else { return std::future::pending().await };
    let (rt, heard) = (machine.rt.clone(), link.clone());
    let on_heard: transport::OnHeard = Arc::new(move || heard.note_heard(rt.now()));
    let target = Target { on_heard: Some(on_heard), ..target(link, address, 0, CONNECT) };
    match link.settings.transport {
        transport::Kind::Zeromq => transport::zeromq::watch(&machine.rt, &target).await,
        transport::Kind::Tcp => {
            let ours = link.channel().is_some_and(|channel| channel.abilities().is_some());
            let heartbeat = if ours { target.heartbeat } else { Some(STOCK_TCP_BEAT) };
            transport::tcp::watch(&machine.rt, &Target { heartbeat, ..target }).await
        }
    }
}

/// Checks at each `master_alive_interval` whether the master answers on a new connection as well. The connection itself
/// has heartbeats, so a master that is only slow is logged but not left.
async fn check_now_and_then(machine: &Machine, link: &Link) {
    let (every, timeout) = (machine.config.links.master_alive_interval, link.settings.channel.auth_timeout);
    if every.is_zero() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(every).await;
        if !ping(machine, link, timeout).await {
            let master = &link.settings.address;
            warn!("Master {master} did not answer a ping within {} s; its connection is alive", timeout.as_secs_f32());
        }
    }
}

/// Decrypts a publication, and starts its job if it targets this minion. Instead of a job it may be a notice of the
/// master. Returns a reason if the session ends with it.
async fn take(
    jobs: &Arc<Jobs>,
    link: &Arc<Link>,
    channel: &MasterChannel,
    payload: Bytes,
    unread: &Notify,
) -> Option<Ended> {
    match channel.open(&payload).await {
        Ok(Some(load)) => match Notice::of(&load) {
            Some(Notice::Goodbye(spread)) => return Some(Ended::Goodbye(spread)),
            Some(Notice::Rotated(spread)) => {
                let rt = &jobs.machine.rt;
                rt.spawn(missed::renew(rt.clone(), link.clone(), spread));
            }
            Some(Notice::Other) => {}
            None => jobs.start(link, load),
        },
        Ok(None) => {}
        Err(reason @ ChannelError::NotAccepted) => return Some(reason.into()),
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
    use value::{Value, list, map};

    fn waits(retry_dns: i64, count: impl Into<Value>) -> Vec<u64> {
        let options =
            map! { "id" => "m", "master" => "a", "retry_dns" => retry_dns, "retry_dns_count" => count.into() };
        let config = config::Minion::from_options(options).unwrap();
        let masters = config.masters.clone();
        let settings = crate::masters::links(&config, masters, &map! {}).unwrap().remove(0);
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

    fn links(masters: Value) -> Vec<Arc<Link>> {
        let config = config::Minion::from_options(map! { "id" => "m", "master" => masters }).unwrap();
        let settings = crate::masters::links(&config, config.masters.clone(), &map! {}).unwrap();
        let link = |settings| Arc::new(Link::new(settings, map! {}, SystemTime::UNIX_EPOCH));
        settings.into_iter().map(link).collect()
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_told_in_salts_words() {
        let link = links("a".into()).remove(0);
        let changed = |ip: &str| changed_address(&link, &[SocketAddr::new(ip.parse().unwrap(), 4506)]);
        assert_eq!(changed("192.0.2.1"), None);
        assert_eq!(changed("192.0.2.2").unwrap(), "Master ip address changed from 192.0.2.1 to 192.0.2.2");
        assert_eq!(changed("192.0.2.2"), None);
    }

    #[test]
    fn the_return_to_the_preferred_master_is_logged_at_the_level_of_its_loss() {
        let links = links(list!["a", "b"]);
        assert_eq!(follows(&links, &links[0], true), Follows::First);
        let lost = SystemTime::UNIX_EPOCH;
        links[0].note_away(lost);
        assert_eq!(follows(&links, &links[1], false), Follows::First, "both are followed");
        assert_eq!(follows(&links, &links[1], true), Follows::Instead);
        assert_eq!(follows(&links, &links[0], true), Follows::Again(lost), "failback");
        assert_eq!(follows(&links, &links[1], true), Follows::First);
    }

    #[test]
    fn a_pause_of_a_second_is_spent_at_the_master() {
        let seconds = |millis| in_whole_seconds(Duration::from_millis(millis)).as_secs();
        assert_eq!([1, 999, 1_000, 9_999, 60_000].map(seconds), [1, 1, 1, 10, 60]);
    }

    #[test]
    fn a_master_that_is_back_is_told_with_those_that_are_followed_now() {
        let links = links(list!["a", "b", "c"]);
        let back = || {
            let (followed, away) = followed_and_away(&links);
            let since = SystemTime::UNIX_EPOCH;
            is_back(&links[1], since, since + Duration::from_millis(61_240), &followed, &away)
        };
        let state = |number: usize, state| links[number].set_state(state, None, SystemTime::UNIX_EPOCH);
        state(0, MasterState::Live);
        state(1, MasterState::Live);
        let expected = "Master b:4506 is back after 61.2 s; followed now: a:4506, b:4506; not followed: c:4506";
        assert_eq!(back(), expected);
        state(2, MasterState::Live);
        assert_eq!(back(), "Master b:4506 is back after 61.2 s; followed now: a:4506, b:4506, c:4506");
        // A master that answered all the time was not away.
        links[1].note_pending(SystemTime::UNIX_EPOCH + Duration::from_secs(60));
        let expected = "Master b:4506 accepted this minion's key after 1.2 s; followed now: a:4506, b:4506, c:4506";
        assert_eq!(back(), expected);
        assert!(back().contains("is back after"), "the next time it was away");
    }
}
