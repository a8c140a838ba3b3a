//! A session: from a sign-in to the loss of the connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use channel::client::MasterChannel;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep, sleep_until};
use transport::{Kind as Transport, Subscription};
use value::Map;

use super::notice::Notice;
use super::{CONNECT, Minion};
use crate::Kind;
use crate::chance::Purpose;
use crate::stats::Request;

/// The time after which an announced key of the master is available.
// The notice leaves the master with the old key. A sign-in that is faster than the change would return the old key once
// more.
const SOON: Duration = Duration::from_millis(300);

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ended {
    /// The minion left because of churn.
    Left,
    /// The connection was lost, or could not be made.
    Lost,
    /// The master stops; its minions return within this time.
    Goodbye(Duration),
    /// The key is not accepted.
    NotAccepted,
}

/// Work beside listening.
type Busy<'a> = FuturesUnordered<BoxFuture<'a, ()>>;

/// When a minion does its periodic actions.
struct Times {
    leave: Option<Instant>,
    reauth: Option<Instant>,
    repeat: Option<Instant>,
}

impl Minion {
    /// Listens until the master is lost. Also returns whether it ever received anything.
    pub(super) async fn session(&self, channel: &MasterChannel, from: Option<SocketAddr>, port: u16) -> (Ended, bool) {
        let subscription = match self.subscribe(channel, from, port).await {
            Ok(subscription) => subscription,
            Err(error) => {
                self.failed(Request::Subscribe, &error);
                return (Ended::Lost, false);
            }
        };
        // A guard: the count must go down at any of the ends, also when the task of the minion is aborted.
        let _connected = Connected::new(self);
        let watched = self.watch(from);
        let ended = tokio::select! {
            // In a fixed order, so that the runtime's random choice does not change the course of a run with the same
            // seed.
            biased;
            ended = self.listen(channel, subscription) => ended,
            error = watched => {
                self.failed(Request::Subscribe, &error.into());
                Ended::Lost
            }
        };
        (ended, true)
    }

    async fn subscribe(
        &self,
        channel: &MasterChannel,
        from: Option<SocketAddr>,
        port: u16,
    ) -> Result<Box<dyn Subscription>, channel::client::Error> {
        let (rt, options) = (&self.shared.rt, &self.shared.options);
        // The port of the sign-in answer, unless a proxy in between has another one.
        let to = SocketAddr::new(options.master.ip(), options.publish_port.unwrap_or(port));
        let target = self.target(to, from);
        let subscribing = async {
            match options.transport {
                Transport::Zeromq => Ok(transport::zeromq::subscribe(rt, &target, self.id(), Vec::new()).await?),
                Transport::Tcp => Ok(transport::tcp::subscribe(rt, &target, &channel.introduction()?).await?),
            }
        };
        let late = channel::client::Error::Timeout(CONNECT * 2);
        tokio::time::timeout(CONNECT * 2, subscribing).await.unwrap_or(Err(late))
    }

    /// Keeps a second connection to the request port, as Saltern minions do. Salt minions have none.
    async fn watch(&self, from: Option<SocketAddr>) -> transport::Error {
        if self.shared.behaviour().kind == Kind::Salt {
            return std::future::pending().await;
        }
        let target = self.target(self.shared.options.master, from);
        match self.shared.options.transport {
            Transport::Zeromq => transport::zeromq::watch(&self.shared.rt, &target).await,
            Transport::Tcp => transport::tcp::watch(&self.shared.rt, &target).await,
        }
    }

    async fn listen(&self, channel: &MasterChannel, mut subscription: Box<dyn Subscription>) -> Ended {
        let mut busy: Busy<'_> = FuturesUnordered::new();
        busy.push(Box::pin(self.begin(channel)));
        let mut times = self.times();
        let mut deaf = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some(()) = busy.next(), if !busy.is_empty() => {}
                // A slow minion stops reading, so that its publications pile up in the master's send buffer: the load
                // that slow consumers cause.
                payload = subscription.next(), if deaf <= Instant::now() => {
                    let Ok(payload) = payload.inspect_err(|error| self.lost(error)) else { return Ended::Lost };
                    // Before it is opened: a message lost on the way advances no serial number either.
                    if self.happens(Purpose::LostPublication, self.shared.behaviour().loss) {
                        self.shared.stats.failed(Request::Publication, "lost_on_purpose", String::new());
                        continue;
                    }
                    if let Some(ended) = beside(&mut busy, self.take(channel, payload)).await.and_then(|load| self.act(channel, load, &busy)) {
                        return ended;
                    }
                    if self.slow {
                        deaf = Instant::now() + self.shared.behaviour().slow_by;
                    }
                }
                () = sleep_until(deaf), if deaf > Instant::now() => {}
                () = until(times.next()) => {
                    if self.at_times(channel, &mut times, &busy) {
                        return Ended::Left;
                    }
                }
            }
        }
    }

    fn lost(&self, error: &transport::Error) {
        self.shared.stats.failed(Request::Subscribe, "lost", error.to_string());
    }

    /// What a minion does after connecting: it sends its requests, and delivers pending returns.
    async fn begin(&self, channel: &MasterChannel) {
        let owed = self.ledger().owed();
        let give = owed.into_iter().map(|owed| self.give_back(channel, owed));
        let missed = async {
            for load in self.missed(channel).await {
                if let Some(owed) = self.admit(load) {
                    self.give_back(channel, owed).await;
                }
            }
        };
        // All at once, as on a real minion. Old returns must not wait behind a slow pillar.
        tokio::join!(futures_util::future::join_all(give), self.introduce(channel), missed);
    }

    /// Decrypts a publication.
    async fn take(&self, channel: &MasterChannel, payload: Bytes) -> Option<Map> {
        match channel.open(&payload).await {
            Ok(Some(load)) => Some(load),
            Ok(None) => {
                self.shared.stats.failed(Request::Publication, "replayed", String::new());
                None
            }
            Err(error) => {
                self.failed(Request::Publication, &error);
                None
            }
        }
    }

    /// Handles a publication.
    fn act<'a>(&'a self, channel: &'a MasterChannel, load: Map, busy: &Busy<'a>) -> Option<Ended> {
        match Notice::parse(&load) {
            Some(Notice::Goodbye(spread)) => return Some(Ended::Goodbye(spread)),
            Some(Notice::Rotated(spread)) => {
                let wait = SOON + self.between(Purpose::Backoff, Duration::ZERO, spread);
                busy.push(Box::pin(self.renew(channel, wait)));
            }
            Some(Notice::Other) => {}
            None => {
                if let Some(owed) = self.admit(load) {
                    busy.push(Box::pin(self.give_back(channel, owed)));
                }
            }
        }
        None
    }

    /// Signs in again after a while, unless that has happened meanwhile.
    async fn renew(&self, channel: &MasterChannel, wait: Duration) {
        // Read before the wait: if a publication makes the channel sign in meanwhile, `renew` sees new credentials and
        // does nothing.
        let old = channel.credentials();
        sleep(wait).await;
        if let Err(error) = channel.renew(old.as_ref()).await {
            self.failed(Request::SignIn, &error);
        }
    }

    async fn sign_in_again(&self, channel: &MasterChannel) {
        if let Err(error) = channel.sign_in().await {
            self.failed(Request::SignIn, &error);
        }
    }

    fn times(&self) -> Times {
        let (behaviour, now) = (self.shared.behaviour(), Instant::now());
        // Each minion has another phase, so that they do not all act at once.
        let phase =
            |every: Option<Duration>| every.map(|every| now + self.between(Purpose::Phase, Duration::ZERO, every));
        // Drawn for each session: minions that came back leave again at the same rate.
        let stay = self.chance.stay(self.next_turn(), behaviour.churn, self.shared.options.minions);
        Times { leave: stay.map(|stay| now + stay), reauth: phase(behaviour.reauth), repeat: phase(behaviour.repeat) }
    }

    /// Does what is due, and returns whether it is time to leave.
    fn at_times<'a>(&'a self, channel: &'a MasterChannel, times: &mut Times, busy: &Busy<'a>) -> bool {
        let (behaviour, now) = (self.shared.behaviour(), Instant::now());
        if due(&mut times.reauth, behaviour.reauth, now) {
            busy.push(Box::pin(self.sign_in_again(channel)));
        }
        if due(&mut times.repeat, behaviour.repeat, now) {
            busy.push(Box::pin(async { _ = self.fetch_all(channel).await }));
        }
        times.leave.is_some_and(|leave| leave <= now)
    }
}

impl Times {
    fn next(&self) -> Option<Instant> {
        [self.leave, self.reauth, self.repeat].into_iter().flatten().min()
    }
}

/// Returns whether it is due, and if so sets the next time.
fn due(next: &mut Option<Instant>, every: Option<Duration>, now: Instant) -> bool {
    let is_due = next.is_some_and(|next| next <= now);
    if is_due {
        // From now and not from the time that was due: a minion that was held up does not catch up with a burst.
        *next = every.map(|every| now + every);
    }
    is_due
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits for a future while the other work continues: it may wait for a sign-in that one of the others has started.
async fn beside<T>(busy: &mut Busy<'_>, waited: impl Future<Output = T>) -> T {
    tokio::pin!(waited);
    loop {
        tokio::select! {
            biased;
            done = &mut waited => return done,
            Some(()) = busy.next(), if !busy.is_empty() => {}
        }
    }
}

/// Counts a minion as connected for as long as it exists.
struct Connected<'a>(&'a Minion);

impl<'a> Connected<'a> {
    fn new(minion: &'a Minion) -> Self {
        minion.shared.stats.count(|counts| counts.connected += 1);
        Connected(minion)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.shared.stats.count(|counts| counts.connected -= 1);
    }
}
