//! The link to one master.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use channel::client::MasterChannel;
use config::MasterAddress;
use exec::{MasterRole, MasterState, MasterStatus};
use tokio::sync::{Notify, watch};
use tracing::warn;
use value::{Map, Value, map};
use wire::msgpack::Decode;

use super::LinkSettings;

/// One master: its settings, its connection, its pillar.
pub struct Link {
    /// The configuration of the link.
    pub settings: LinkSettings,
    /// The options that functions see in jobs of this master: `master` is its host.
    opts: Arc<Map>,
    state: watch::Sender<LinkState>,
    role: RwLock<MasterRole>,
    heard: Mutex<Option<SystemTime>>,
    /// The address that the name had at the last look-up.
    resolved: Mutex<Option<IpAddr>>,
    /// The time since which the master is away, if the log has said so.
    away: Mutex<Option<SystemTime>>,
    /// The time since which the master holds the minion's key as pending.
    pending: Mutex<Option<SystemTime>>,
    /// The durations of the latest answers.
    round_trips: Mutex<VecDeque<Duration>>,
    /// The fingerprint of the key that the master proved to have.
    fingerprint: RwLock<Option<String>>,
    started: AtomicBool,
    /// The number of jobs from this master since the start.
    jobs: AtomicU64,
    /// The number of unfinished jobs: still running, or with a return that is not delivered.
    unfinished: watch::Sender<usize>,
    /// The number of returns that wait for this master.
    returns_waiting: AtomicUsize,
    channel: RwLock<Option<Arc<MasterChannel>>>,
    pillar: RwLock<Option<Arc<Map>>>,
    /// Woken when the pillar should be compiled again.
    pub refresh: Notify,
    /// The next request for the pillar must not be answered from the master's cache.
    clean: AtomicBool,
    /// Counts the compiled pillars, so that a refresh can be waited for.
    compiled: watch::Sender<u64>,
}

/// How many of the latest answers are remembered to estimate the round trip.
const ANSWERS: usize = 8;

/// The timeout for an answer that is not used.
const TELL: Duration = Duration::from_secs(60);

/// An unfinished job of a master.
pub struct Unfinished(Arc<Link>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.unfinished.send_modify(|count| *count -= 1);
    }
}

/// The state of a link, and since when.
#[derive(Clone, Debug)]
pub struct LinkState {
    /// The state.
    pub state: MasterState,
    /// Since when.
    pub since: SystemTime,
    /// The address in use.
    pub address: Option<SocketAddr>,
}

impl Link {
    /// Creates a link that is not connected.
    pub fn new(settings: LinkSettings, opts: Map, now: SystemTime) -> Self {
        let state = LinkState { state: MasterState::Resolving, since: now, address: None };
        Link {
            settings,
            opts: Arc::new(opts),
            state: watch::Sender::new(state),
            role: RwLock::new(MasterRole::Hot),
            heard: Mutex::default(),
            resolved: Mutex::default(),
            away: Mutex::default(),
            pending: Mutex::default(),
            round_trips: Mutex::default(),
            fingerprint: RwLock::default(),
            jobs: AtomicU64::new(0),
            unfinished: watch::Sender::new(0),
            returns_waiting: AtomicUsize::new(0),
            started: AtomicBool::new(false),
            channel: RwLock::default(),
            pillar: RwLock::default(),
            refresh: Notify::new(),
            clean: AtomicBool::new(false),
            compiled: watch::Sender::new(0),
        }
    }

    /// Returns the configured address: host and port.
    pub fn address(&self) -> String {
        self.settings.address.to_string()
    }

    /// Returns the options that functions see in jobs of this master.
    pub fn opts(&self) -> Arc<Map> {
        self.opts.clone()
    }

    /// Returns the pillar that this master compiled; empty before the first.
    pub fn pillar(&self) -> Arc<Map> {
        self.pillar.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// Returns whether this link ever got a pillar.
    pub fn has_pillar(&self) -> bool {
        self.pillar.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sets the pillar.
    pub fn set_pillar(&self, pillar: Map) {
        *self.pillar.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(pillar));
        self.compiled.send_modify(|count| *count += 1);
    }

    /// Requests a new pillar and waits for it. Returns false when it does not arrive in time. With `clean`, the
    /// master must not use its cache.
    pub async fn refresh_pillar(&self, patience: Duration, clean: bool) -> bool {
        let mut compiled = self.compiled.subscribe();
        // Only a pillar that is compiled from now on counts.
        compiled.mark_unchanged();
        self.clean.fetch_or(clean, Ordering::Relaxed);
        self.refresh.notify_one();
        tokio::time::timeout(patience, compiled.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// Returns the additional fields of the next request for the pillar.
    pub fn take_pillar_terms(&self) -> Map {
        if self.clean.swap(false, Ordering::Relaxed) {
            map! { "clean_cache" => true }
        } else {
            Map::new()
        }
    }

    /// Returns a receiver that changes whenever a pillar was compiled.
    pub fn watch_pillar(&self) -> watch::Receiver<u64> {
        self.compiled.subscribe()
    }

    /// Returns the current channel; `None` without a connection.
    pub fn channel(&self) -> Option<Arc<MasterChannel>> {
        self.channel.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the current channel, or removes it.
    pub fn set_channel(&self, channel: Option<Arc<MasterChannel>>) {
        *self.channel.write().unwrap_or_else(PoisonError::into_inner) = channel;
    }

    /// Sends a request to the master and ignores the answer. Returns whether there was one.
    pub async fn tell(&self, load: Map) -> bool {
        let Some(channel) = self.channel() else { return false };
        match channel.request(load, Some(TELL), Decode::Default).await {
            Ok(_) => true,
            Err(reason) => {
                warn!(master = %self.settings.address, "unable to send to the master: {reason}");
                false
            }
        }
    }

    /// Notes the state of the link. Attempts to restore a lost connection do not change the time since which it is
    /// lost.
    pub fn set_state(&self, state: MasterState, address: Option<SocketAddr>, now: SystemTime) {
        let trying = |state| matches!(state, MasterState::Resolving | MasterState::Connecting | MasterState::Backoff);
        self.state.send_if_modified(|current| {
            let changed = current.state != state;
            if changed && !(trying(current.state) && trying(state)) {
                current.since = now;
            }
            current.state = state;
            current.address = address.or(current.address);
            changed
        });
    }

    /// Notes that the master was notified of the start of the minion. Returns whether it had been notified before.
    pub fn note_started(&self) -> bool {
        self.started.swap(true, Ordering::Relaxed)
    }

    /// Forgets that the master was notified of the start, because it is followed again after another one.
    pub fn forget_start(&self) {
        self.started.store(false, Ordering::Relaxed);
    }

    /// Notes the role of the master.
    pub fn set_role(&self, role: MasterRole) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
    }

    /// Returns the role of the master.
    pub fn role(&self) -> MasterRole {
        *self.role.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the fingerprint of the key that the master proved to have.
    pub fn note_fingerprint(&self, fingerprint: String) {
        *self.fingerprint.write().unwrap_or_else(PoisonError::into_inner) = Some(fingerprint);
    }

    /// Notes how long an answer took.
    pub fn note_round_trip(&self, time: Duration) {
        let mut latest = self.round_trips.lock().unwrap_or_else(PoisonError::into_inner);
        latest.truncate(ANSWERS - 1);
        latest.push_front(time);
    }

    /// Notes a job of this master, which counts as unfinished until the result is dropped.
    pub fn begin_job(self: &Arc<Self>) -> Unfinished {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        self.unfinished.send_modify(|count| *count += 1);
        Unfinished(self.clone())
    }

    /// Notes how many returns wait for this master.
    pub fn set_returns_waiting(&self, count: usize) {
        self.returns_waiting.store(count, Ordering::Relaxed);
    }

    /// Returns whether jobs of this master are running or their returns are not delivered.
    pub fn is_busy(&self) -> bool {
        *self.unfinished.borrow() > 0
    }

    /// Waits until no job of this master is running and all its returns are delivered.
    pub async fn idle(&self) {
        let mut unfinished = self.unfinished.subscribe();
        // The sender lives as long as this link, so waiting only ends when the condition holds.
        let _ = unfinished.wait_for(|count| *count == 0).await;
    }

    /// Notes that something was received from this master.
    pub fn note_heard(&self, now: SystemTime) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Notes the addresses of the master's name. Returns the old and the new address if the old one is no longer among
    /// them. The order of several addresses may change at each look-up.
    pub fn note_resolved(&self, found: &[SocketAddr]) -> Option<(IpAddr, IpAddr)> {
        let now = found.first()?.ip();
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let before = resolved.filter(|before| found.iter().any(|address| address.ip() == *before));
        if before.is_some() {
            return None;
        }
        resolved.replace(now).map(|before| (before, now))
    }

    /// Notes that the log has said that the master is away.
    pub fn note_away(&self, now: SystemTime) {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
    }

    /// Returns whether the log has said that the master is away, and not yet that it is back.
    pub fn is_away(&self) -> bool {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes that the master is back. Returns since when the log has said that it is away.
    pub fn take_away(&self) -> Option<SystemTime> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes that the master holds the minion's key as pending, and that the log has said so.
    pub fn note_pending(&self, now: SystemTime) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        self.note_away(now);
    }

    /// Notes that the master has accepted the minion's key. Returns since when the key was pending, if it was.
    pub fn take_pending(&self) -> Option<SystemTime> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether the link is connected and signed in.
    pub fn is_live(&self) -> bool {
        self.state.borrow().state == MasterState::Live
    }

    /// Returns the address in use, or the last one.
    pub fn address_in_use(&self) -> Option<SocketAddr> {
        self.state.borrow().address
    }

    /// Returns a receiver of the state of the link.
    pub fn watch(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// Waits until the link is connected and signed in.
    pub async fn live(&self) {
        self.live_or_pending(true).await;
    }

    /// Waits until the link is connected and signed in or, unless `known_pending`, the master holds the minion's key as
    /// pending. Returns that state.
    pub async fn live_or_pending(&self, known_pending: bool) -> MasterState {
        let mut state = self.state.subscribe();
        let is_it = |now: &LinkState| match now.state {
            MasterState::Live => true,
            MasterState::Pending => !known_pending,
            _ => false,
        };
        // The sender lives as long as this link, so waiting only ends when the condition holds.
        state.wait_for(is_it).await.map_or(MasterState::Live, |now| now.state)
    }

    /// Returns whether the master holds the minion's key as pending.
    pub fn is_pending(&self) -> bool {
        self.state.borrow().state == MasterState::Pending
    }

    /// Returns the quickest of the latest answers: the time on the network, without the master's work.
    fn round_trip(&self) -> Option<Duration> {
        self.round_trips.lock().unwrap_or_else(PoisonError::into_inner).iter().min().copied()
    }

    /// Returns the status of this master, for operators.
    pub fn status(&self, asking: bool) -> MasterStatus {
        let state = self.state.borrow().clone();
        let abilities = self.channel().and_then(|channel| channel.abilities());
        MasterStatus {
            address: self.address(),
            id: abilities.map(|abilities| abilities.id).filter(|id| !id.is_empty()),
            role: self.role(),
            host: self.settings.address.host.clone(),
            ip: state.address.map(|address| address.ip()),
            state: state.state,
            since: state.since,
            last_heard: *self.heard.lock().unwrap_or_else(PoisonError::into_inner),
            round_trip: self.round_trip(),
            fingerprint: self.fingerprint.read().unwrap_or_else(PoisonError::into_inner).clone(),
            jobs: self.jobs.load(Ordering::Relaxed),
            returns_waiting: self.returns_waiting.load(Ordering::Relaxed),
            asking,
        }
    }
}

/// Creates the links for these settings, not connected.
pub fn new_links(config: &config::Minion, settings: Vec<LinkSettings>, now: SystemTime) -> Vec<Arc<Link>> {
    let all: Vec<MasterAddress> = settings.iter().map(|settings| settings.address.clone()).collect();
    let link = |settings: LinkSettings| {
        let opts = link_opts(config, &settings, &all);
        Arc::new(Link::new(settings, opts, now))
    };
    settings.into_iter().map(link).collect()
}

/// Returns the options that functions see in jobs of this master: `master` is its host, `master_uri` its address.
fn link_opts(config: &config::Minion, settings: &LinkSettings, all: &[MasterAddress]) -> Map {
    let mut opts = config.raw.clone();
    opts.insert("master", settings.address.host.as_str());
    opts.insert("master_port", settings.address.port);
    opts.insert("master_uri", format!("tcp://{}", settings.address));
    let list = all.iter().map(|master| Value::from(master.host.as_str()));
    opts.insert("master_list", list.collect::<Value>());
    opts.insert("master_uri_list", all.iter().map(|master| format!("tcp://{master}")).collect::<Value>());
    opts
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    fn link(now: SystemTime) -> Arc<Link> {
        let options = map! { "id" => "m", "master" => list!["a"] };
        let config = config::Minion::from_options(options).unwrap();
        let masters = config.masters.clone();
        let settings = super::super::links(&config, masters, &map! {}).unwrap().remove(0);
        Arc::new(Link::new(settings, map! {}, now))
    }

    #[test]
    fn a_master_is_away_since_it_was_lost_and_not_since_the_last_try() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let link = link(at(0));
        let since = |state, seconds| {
            link.set_state(state, None, at(seconds));
            link.status(false).since
        };
        assert_eq!(since(MasterState::Connecting, 1), at(0));
        assert_eq!(since(MasterState::Live, 2), at(2));
        assert_eq!(since(MasterState::Backoff, 3), at(3));
        assert_eq!(since(MasterState::Resolving, 4), at(3));
        assert_eq!(since(MasterState::Backoff, 5), at(3));
        assert_eq!(since(MasterState::Refused, 6), at(6));
    }

    #[test]
    fn an_address_has_changed_when_the_name_does_not_lead_there_any_more() {
        let link = link(SystemTime::UNIX_EPOCH);
        let at = |ips: &[&str]| -> Vec<SocketAddr> {
            ips.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 4506)).collect()
        };
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        assert_eq!(link.note_resolved(&at(&["172.16.0.1"])), None, "the first is no change");
        assert_eq!(link.note_resolved(&at(&["127.0.0.1", "127.0.0.2"])), Some((ip("172.16.0.1"), ip("127.0.0.1"))));
        assert_eq!(link.note_resolved(&at(&["127.0.0.2", "127.0.0.1"])), None, "in another order");
        assert_eq!(link.note_resolved(&[]), None);
        assert_eq!(link.note_resolved(&at(&["::1"])), Some((ip("127.0.0.1"), ip("::1"))));
    }

    #[test]
    fn a_master_is_back_once_for_each_time_it_was_told_away() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let link = link(at(0));
        assert_eq!(link.take_away(), None, "nobody was told");
        link.note_away(at(3));
        // Every failed try reports it, but the first time counts.
        link.note_away(at(5));
        assert!(link.is_away() && link.is_away(), "asking changes nothing");
        assert_eq!(link.take_away(), Some(at(3)));
        assert_eq!(link.take_away(), None);
    }

    #[tokio::test]
    async fn a_link_is_busy_until_its_jobs_are_done() {
        let link = link(SystemTime::UNIX_EPOCH);
        let (one, two) = (link.begin_job(), link.begin_job());
        drop(one);
        assert!(link.is_busy());
        drop(two);
        link.idle().await;
        assert_eq!((link.is_busy(), link.status(false).jobs), (false, 2));
    }

    #[test]
    fn the_quickest_of_the_latest_answers_tells_the_way() {
        let link = link(SystemTime::UNIX_EPOCH);
        assert_eq!(link.status(false).round_trip, None);
        // One slow answer says more about the master's load than about the network.
        for millis in [1, 30, 20, 30, 30, 30, 30, 30, 30] {
            link.note_round_trip(Duration::from_millis(millis));
        }
        assert_eq!(link.status(false).round_trip, Some(Duration::from_millis(20)), "the first is forgotten");
    }
}
