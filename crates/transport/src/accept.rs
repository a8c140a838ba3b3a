//! Accepts connections. A stranger is a connection whose peer has not introduced itself; their number and their time
//! are limited.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rt::{Connection, Listener, Rt};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, warn};
use wire::Network;

use crate::Error;
use crate::capacity::{ConnectionRecord, Seat};

/// How long a stranger may stay when there is no room for new connections.
const GRACE: Duration = Duration::from_millis(500);

/// Accepts connections and runs `serve` for each. Dropping the handle closes all of them, and the listener.
pub(crate) fn accept<G, F>(
    rt: &Rt,
    listener: Box<dyn Listener>,
    half_open: usize,
    kind: &'static str,
    serve: G,
) -> AbortOnDropHandle<()>
where
    G: Fn(Connection, Place) -> F + Send + 'static,
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let inside = rt.clone();
    AbortOnDropHandle::new(rt.spawn(async move {
        let lobby = Lobby::new(half_open);
        let mut connections = JoinSet::new();
        let mut complaints = Complaints::default();
        let mut refused = None;
        loop {
            // Ended connections come first: they free the places that new ones need.
            let mut connection = tokio::select! {
                biased;
                Some(ended) = connections.join_next() => {
                    report(kind, ended, &mut complaints);
                    continue;
                }
                accepted = listener.accept() => match accepted {
                    Ok(connection) => connection,
                    Err(error) => {
                        rest_after(&error, &mut refused).await;
                        continue;
                    }
                },
            };
            // Budgets and seats are counted by address; the two forms of one address must count together.
            connection.peer = canonical(connection.peer);
            connection.local = canonical(connection.local);
            let seat = match Seat::find(connection.peer.ip()).await {
                Ok(seat) => seat,
                Err(seats) => {
                    turn_away(connection.peer, seats, &mut refused);
                    continue;
                }
            };
            let place = lobby.enter(seat.record().clone()).await;
            // The future is made here, so that it owns its place before the next connection is accepted.
            let (peer, visit) = (connection.peer, serve(connection, place));
            connections.spawn(inside.task(async move {
                let outcome = tokio::select! {
                    biased;
                    () = seat.record().must_leave() => Err(Error::Crowded),
                    outcome = visit => outcome,
                };
                // Given back only when the connection's files are closed.
                drop(seat);
                (peer, outcome)
            }));
        }
    }))
}

/// Converts IPv4-mapped IPv6 addresses (`::ffff:192.0.2.1`), which a socket for both families reports, to IPv4.
fn canonical(peer: SocketAddr) -> SocketAddr {
    match peer.ip().to_canonical() {
        IpAddr::V4(address) => SocketAddr::new(address.into(), peer.port()),
        IpAddr::V6(_) => peer,
    }
}

fn report(kind: &str, ended: Result<(SocketAddr, Result<(), Error>), JoinError>, complaints: &mut Complaints) {
    match ended {
        Ok((_, Ok(()))) => {}
        // A certificate that is refused is the operator's problem to solve, so it is a warning. Whatever else
        // strangers do wrong stays at debug level.
        Ok((peer, Err(Error::Tls(reason)))) if complaints.is_new(peer.ip(), Instant::now()) => {
            warn!(%peer, "{kind} connection refused: TLS: {reason}");
        }
        Ok((peer, Err(reason))) if is_of_interest(&reason) && complaints.is_new(peer.ip(), Instant::now()) => {
            warn!(%peer, "{kind} connection closed: {reason}");
        }
        Ok((peer, Err(reason))) => debug!(%peer, "{kind} connection ended: {reason}"),
        // A panic is our bug, never the peer's fault.
        Err(reason) if reason.is_panic() => error!("{kind} connection ended: {reason}"),
        Err(_) => {}
    }
}

/// Returns whether an operator should know why a connection was closed.
fn is_of_interest(reason: &Error) -> bool {
    use Error::{Budget, Displaced, Request, Slow, SlowReader};
    matches!(reason, Budget(_) | Slow(_) | SlowReader(_) | Displaced | Request(_))
}

/// The addresses whose invalid certificates were logged, so that each is logged only once in a while.
#[derive(Default)]
struct Complaints(HashMap<Network, Instant>);

impl Complaints {
    /// The time between two reports about an address.
    const QUIET: Duration = Duration::from_secs(600);

    /// The largest number of addresses that are remembered. Others are logged at debug level only.
    const REMEMBERED: usize = 1024;

    fn is_new(&mut self, address: IpAddr, now: Instant) -> bool {
        let network = Network::from(address);
        if self.0.get(&network).is_some_and(|last| now.duration_since(*last) < Self::QUIET) {
            return false;
        }
        if self.0.len() >= Self::REMEMBERED {
            self.0.retain(|_, last| now.duration_since(*last) < Self::QUIET);
        }
        let room = self.0.len() < Self::REMEMBERED;
        if room {
            self.0.insert(network, now);
        }
        room
    }
}

/// Waits a moment after an error of `accept`, such as too many open files, instead of looping. Logs it at most once a
/// minute. Existing connections are still served; new ones wait in the system's queue.
async fn rest_after(error: &std::io::Error, told: &mut Option<Instant>) {
    const TOO_MANY: [i32; 2] = [nix::libc::EMFILE, nix::libc::ENFILE];
    if is_time_to_tell(told) {
        match error.raw_os_error() {
            Some(code) if TOO_MANY.contains(&code) => error!("no more connections can be accepted: {error}. {ADVICE}"),
            _ => warn!("failed to accept a connection: {error}"),
        }
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
}

const ADVICE: &str = "Raise the option 'max_open_files', and the limit of the system if that is lower (LimitNOFILE of the \
                      service, ulimit -n, fs.file-max)";

/// Closes a connection at once. The remaining file descriptors are for existing connections; the new peer has to retry.
fn turn_away(peer: SocketAddr, seats: usize, told: &mut Option<Instant>) {
    debug!(%peer, "a connection is closed at once: there are too many");
    if is_time_to_tell(told) {
        error!("more than {seats} connections are too many for the limit of open files, new ones are closed. {ADVICE}");
    }
}

/// Returns true at most once a minute.
fn is_time_to_tell(told: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let due = told.is_none_or(|before| now.duration_since(before) >= Duration::from_secs(60));
    if due {
        *told = Some(now);
    }
    due
}

/// The connections whose peers have not introduced themselves.
struct Lobby {
    limit: usize,
    strangers: Mutex<Strangers>,
    left: Notify,
}

#[derive(Default)]
struct Strangers {
    next: u64,
    by_number: BTreeMap<u64, Stranger>,
    by_network: HashMap<Network, usize>,
    warned: Option<Instant>,
}

struct Stranger {
    network: Network,
    since: Instant,
    /// Dropped to disconnect the stranger.
    _stay: oneshot::Sender<()>,
}

impl Lobby {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Lobby { limit: limit.max(1), strangers: Mutex::default(), left: Notify::new() })
    }

    /// Waits for room. The oldest stranger of the address with the most strangers is disconnected.
    async fn enter(self: &Arc<Self>, record: Arc<ConnectionRecord>) -> Place {
        let network = record.network;
        loop {
            // Registered before the look: a stranger that leaves in between must not be missed.
            let left = self.left.notified();
            let Some(wait) = lock(&self.strangers).make_room(self.limit, network) else { break };
            tokio::select! {
                biased;
                () = left => {}
                () = tokio::time::sleep_until(wait) => {}
            }
        }
        let (stay, end) = oneshot::channel();
        let number = lock(&self.strangers).enter(Stranger { network, since: Instant::now(), _stay: stay });
        Place { lobby: self.clone(), number, end, record }
    }
}

impl Strangers {
    fn enter(&mut self, stranger: Stranger) -> u64 {
        *self.by_network.entry(stranger.network).or_default() += 1;
        self.next += 1;
        self.by_number.insert(self.next, stranger);
        self.next
    }

    fn remove(&mut self, number: u64) {
        let Some(stranger) = self.by_number.remove(&number) else { return };
        if let Some(count) = self.by_network.get_mut(&stranger.network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&stranger.network);
            }
        }
    }

    /// Makes room for one more connection from this address. If that is not possible now, returns when to try again.
    fn make_room(&mut self, limit: usize, network: Network) -> Option<Instant> {
        if self.by_number.len() < limit {
            return None;
        }
        let (&busiest, &count) = self.by_network.iter().max_by_key(|(_, count)| **count)?;
        let (&number, oldest) = self.by_number.iter().find(|(_, stranger)| stranger.network == busiest)?;
        // An address that holds most of the room must not keep others waiting.
        let grace = if busiest != network && count * 2 > limit { Duration::ZERO } else { GRACE };
        let (now, end) = (Instant::now(), oldest.since + grace);
        if end > now {
            return Some(end);
        }
        self.remove(number);
        self.warn(busiest, now);
        None
    }

    fn warn(&mut self, busiest: Network, now: Instant) {
        if self.warned.is_none_or(|before| now - before > Duration::from_secs(60)) {
            self.warned = Some(now);
            warn!(peer = %busiest, "too many connections have not introduced themselves; the oldest ones are closed");
        }
    }
}

fn lock(strangers: &Mutex<Strangers>) -> MutexGuard<'_, Strangers> {
    // Nothing in here panics between two changes that belong together.
    strangers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of one stranger.
pub(crate) struct Place {
    lobby: Arc<Lobby>,
    number: u64,
    end: oneshot::Receiver<()>,
    record: Arc<ConnectionRecord>,
}

/// Returns whether a connection comes from this host: over loopback, or from one of its own addresses to the same
/// one.
pub(crate) fn is_from_here(connection: &Connection) -> bool {
    connection.peer.ip().is_loopback() || connection.peer.ip() == connection.local.ip()
}

impl Place {
    /// Returns the connection to which this place belongs.
    pub(crate) fn record(&self) -> Arc<ConnectionRecord> {
        self.record.clone()
    }

    /// Waits for the introduction, until the timeout or until another connection needs the place.
    pub(crate) async fn during<T>(
        mut self,
        limit: Duration,
        introduction: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            done = tokio::time::timeout(limit, introduction) => done.map_err(|_| Error::Timeout(limit))?,
            _ = &mut self.end => Err(Error::Crowded),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.lobby.strangers).remove(self.number);
        self.lobby.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn an_address_is_complained_about_once() {
        let (mut complaints, now) = (Complaints::default(), Instant::now());
        assert_eq!([1, 1, 2].map(|last| complaints.is_new(address(last), now)), [true, false, true]);
        assert!(complaints.is_new(address(1), now + Complaints::QUIET));
        let neighbours = [1, 2].map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
        assert_eq!(neighbours.map(|address| complaints.is_new(address, now)), [true, false], "of one network");
        for number in 0..2 * Complaints::REMEMBERED as u32 {
            complaints.is_new(std::net::Ipv4Addr::from(number).into(), now);
        }
        assert_eq!(complaints.0.len(), Complaints::REMEMBERED);
    }

    async fn silent(place: Place) -> Result<(), Error> {
        place.during(LONG, std::future::pending()).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_goes_after_a_grace_when_one_address_fills_the_room() {
        let lobby = Lobby::new(2);
        let first = tokio::spawn(silent(lobby.enter(ConnectionRecord::new(address(1))).await));
        let mut second = tokio::spawn(silent(lobby.enter(ConnectionRecord::new(address(1))).await));
        let start = Instant::now();
        let _third = lobby.enter(ConnectionRecord::new(address(1))).await;
        assert_eq!(start.elapsed().as_millis().div_ceil(10), GRACE.as_millis() / 10);
        assert!(matches!(first.await.unwrap(), Err(Error::Crowded)));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err(), "it may stay");
    }

    #[tokio::test(start_paused = true)]
    async fn others_need_not_wait_for_an_address_with_many_strangers() {
        let lobby = Lobby::new(3);
        let mut held = vec![
            lobby.enter(ConnectionRecord::new(address(1))).await,
            lobby.enter(ConnectionRecord::new(address(2))).await,
            lobby.enter(ConnectionRecord::new(address(2))).await,
        ];
        let start = Instant::now();
        let _fourth = lobby.enter(ConnectionRecord::new(address(3))).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(matches!(silent(held.remove(1)).await, Err(Error::Crowded)), "the oldest of the busiest address");
        assert!(matches!(silent(held.remove(0)).await, Err(Error::Timeout(LONG))), "it was not in the way");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_done_makes_room_at_once() {
        let lobby = Lobby::new(1);
        let place = lobby.enter(ConnectionRecord::new(address(1))).await;
        let start = Instant::now();
        let (_next, ()) = tokio::join!(lobby.enter(ConnectionRecord::new(address(1))), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            place.during(LONG, async { Ok(()) }).await.unwrap();
        });
        assert!(start.elapsed() < GRACE);
        assert_eq!(lock(&lobby.strangers).by_network.len(), 1);
    }
}
