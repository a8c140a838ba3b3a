//! Failover: carries out what [`FailoverPolicy`] decides. One master is followed at a time; the others are on standby.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use event::Filter;
use exec::{MasterRole, MasterState};
use futures_util::future::{OptionFuture, select_all};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use value::map;

use super::announce::disconnected;
use super::failover_policy::{Action, Event, FailoverPolicy, Place, Rules};
use super::session::{After, Approach, session};
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::masters::{Ended, Link, ping};

/// The connection timeout in the first round. It is short, because another master may be alive. It is longer in each
/// further round, for slow networks.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest connection timeout.
const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// The event that asks for the return to the preferred master, as in Salt.
const FAILBACK: &str = "__master_failback";

/// Follows one of the masters at a time until stopped.
pub async fn follow_one(jobs: Arc<Jobs>, rules: Rules, order: Vec<Place>, stop: CancellationToken) {
    let mut driver = Driver {
        policy: FailoverPolicy::new(rules, order),
        jobs: jobs.clone(),
        began: Instant::now(),
        sessions: Vec::new(),
        looking: None,
        connected_once: false,
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = driver.run() => {}
    }
    jobs.masters.links.iter().for_each(|link| link.set_channel(None));
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Driver {
    jobs: Arc<Jobs>,
    policy: FailoverPolicy,
    began: Instant,
    sessions: Vec<Session>,
    looking: Option<Boxed<bool>>,
    connected_once: bool,
}

/// A master that is followed.
struct Session {
    place: Place,
    /// True if the policy knows that this master has accepted the minion.
    live: bool,
    /// True if the policy knows that this master holds the minion's key as pending.
    pending: bool,
    run: Boxed<Ended>,
}

/// What the driver waits for.
enum News {
    Live(Place),
    Pending(Place),
    Over(Place, Ended),
    Looked(bool),
    Tick,
}

impl Driver {
    async fn run(&mut self) {
        // Programs on this host may ask for a failback, which counts as a successful check.
        let mut asked = self.machine().bus.subscribe(Filter::prefix(FAILBACK));
        for link in &self.jobs.masters.links {
            link.set_state(MasterState::Idle, None, self.machine().rt.now());
        }
        self.tell(Event::Start);
        loop {
            let news = tokio::select! {
                biased;
                news = self.news() => news,
                Some(event) = asked.next() => {
                    let preferred = self.policy.preferred().map(|place| self.link(place).settings.address.host.clone());
                    // Anybody on this host can fire the event; it counts only for the master that the minion would
                    // return to anyway.
                    if event.data().get_str("master") != preferred.as_deref() {
                        continue;
                    }
                    News::Looked(true)
                }
            };
            self.take(news);
        }
    }

    fn machine(&self) -> &Arc<Machine> {
        &self.jobs.machine
    }

    fn link(&self, place: Place) -> &Arc<Link> {
        &self.jobs.masters.links[place.0]
    }

    fn is_busy(&self) -> bool {
        self.policy.current().is_some_and(|place| self.link(place).is_busy())
    }

    async fn news(&mut self) -> News {
        let busy = self.is_busy();
        let due = self.policy.due(busy).map(|due| tokio::time::sleep_until(self.began + due));
        let current = self.policy.current().filter(|_| busy).map(|place| self.link(place).clone());
        let becoming = self.sessions.iter().filter(|session| !session.live);
        let becoming: Vec<Boxed<News>> =
            becoming.map(|session| step(self.link(session.place).clone(), session.place, session.pending)).collect();
        let becoming: OptionFuture<_> = (!becoming.is_empty()).then(|| select_all(becoming)).into();
        let running = self.sessions.iter_mut().map(|session| {
            let place = session.place;
            let run = session.run.as_mut();
            Box::pin(async move { (place, run.await) })
        });
        let running: Vec<_> = running.collect();
        let running: OptionFuture<_> = (!running.is_empty()).then(|| select_all(running)).into();
        tokio::select! {
            // Ended sessions come first, so that nothing is reported of a master that is gone.
            biased;
            Some(((place, ended), ..)) = running => News::Over(place, ended),
            Some((news, ..)) = becoming => news,
            Some(answered) = OptionFuture::from(self.looking.as_mut()) => News::Looked(answered),
            Some(()) = OptionFuture::from(due) => News::Tick,
            Some(()) = OptionFuture::from(current.map(|link| async move { link.idle().await })) => News::Tick,
            else => std::future::pending().await,
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Tick => self.tell(Event::Tick),
            News::Looked(answered) => {
                self.looking = None;
                self.tell(Event::Looked(answered));
            }
            News::Live(place) => {
                for session in self.sessions.iter_mut().filter(|session| session.place == place) {
                    session.live = true;
                }
                if self.policy.current().is_some() {
                    let master = &self.link(place).settings.address;
                    info!(%master, "Going back to the preferred master {}", master.host);
                    self.fire(FAILBACK, place);
                }
                self.connected_once = true;
                self.tell(Event::Connected(place));
            }
            News::Pending(place) => {
                for session in self.sessions.iter_mut().filter(|session| session.place == place) {
                    session.pending = true;
                }
                self.tell(Event::Pending(place));
            }
            News::Over(place, ended) => {
                let was_live = self.link(place).is_live();
                self.sessions.retain(|session| session.place != place);
                self.note_over(place, &ended, was_live);
                self.tell(Event::Ended(place));
            }
        }
    }

    /// Passes an event to the policy and carries out its actions.
    fn tell(&mut self, event: Event) {
        let (now, busy) = (self.began.elapsed(), self.is_busy());
        for action in self.policy.on(now, busy, event) {
            match action {
                Action::Follow(place, round) => self.begin(place, round),
                Action::Leave(place) => self.leave(place),
                Action::Look(place) => self.look(place),
                Action::Complain => {
                    error!("No master could be reached or all masters denied the minion's connection attempt.")
                }
            }
        }
        self.note_roles();
    }

    fn begin(&mut self, place: Place, round: u32) {
        let (jobs, link) = (self.jobs.clone(), self.link(place).clone());
        // The new master is told that the minion has started, as by Salt's failover.
        link.forget_start();
        link.set_state(MasterState::Resolving, None, self.machine().rt.now());
        let patience = PATIENCE.saturating_mul(round.saturating_add(1)).min(MOST_PATIENCE);
        let after = if self.connected_once { After::Another } else { After::Start };
        let approach = Approach { patience, fresh: true, after };
        let run = Box::pin(async move { session(&jobs, &link, approach).await });
        self.sessions.push(Session { place, live: false, pending: false, run });
    }

    fn leave(&mut self, place: Place) {
        self.sessions.retain(|session| session.place != place);
        let link = self.link(place).clone();
        let (was_live, master) = (link.is_live(), &link.settings.address);
        link.set_channel(None);
        // Operators should see why this master is not followed.
        if link.is_pending() {
            info!(%master, "Master {} has not accepted this minion's key yet, trying the others first", master.host);
            return;
        }
        link.set_state(MasterState::Idle, None, self.machine().rt.now());
        if was_live {
            info!(%master, "Leaving master {}", master.host);
        }
    }

    fn look(&mut self, place: Place) {
        let (machine, link) = (self.machine().clone(), self.link(place).clone());
        let timeout = link.settings.channel.auth_timeout;
        self.looking = Some(Box::pin(async move { ping(&machine, &link, timeout).await }));
    }

    /// Reports what happened to a master, in the words of Salt's tutorials.
    fn note_over(&self, place: Place, ended: &Ended, was_live: bool) {
        let link = self.link(place);
        let (master, host) = (&link.settings.address, &link.settings.address.host);
        link.set_channel(None);
        link.set_state(ended.state(), None, self.machine().rt.now());
        if was_live {
            warn!(%master, "Connection to master {host} lost: {ended}");
            // An operator who reads that it is gone should also read that it is back.
            link.note_away(self.machine().rt.now());
            info!(%master, "Trying to tune in to next master from master-list");
            info!(%master, "Moving possibly failed master {host} to the end of the list of masters");
            disconnected(self.machine(), link);
            return;
        }
        match ended {
            Ended::Unresolved(reason) => {
                error!(%master, "DNS lookup or connection check of '{host}' failed. ({reason})");
            }
            Ended::Refused(_) | Ended::Channel(channel::client::Error::Distrust(_)) => {
                error!(%master, "{ended}");
                link.note_away(self.machine().rt.now());
            }
            _ => {}
        }
        info!(%master, "Master {host} could not be reached, trying next master (if any): {ended}");
    }

    fn fire(&self, tag: &str, place: Place) {
        let data = map! { "master" => self.link(place).settings.address.host.as_str() };
        if let Err(reason) = self.machine().bus.fire(tag, data) {
            warn!("an event was not fired: {reason}");
        }
    }

    fn note_roles(&self) {
        let followed = |place: Place| match self.policy.current() {
            Some(current) => current == place,
            None => self.sessions.iter().any(|session| session.place == place),
        };
        for (link, at) in self.jobs.masters.links.iter().zip(0..) {
            let place = Place(at);
            link.set_role(match place {
                _ if followed(place) => MasterRole::Active,
                _ if self.policy.preferred() == Some(place) => MasterRole::Preferred,
                _ => MasterRole::Standby,
            });
        }
    }
}

/// Waits until a master accepts the minion or, unless that is known, holds its key as pending.
fn step(link: Arc<Link>, place: Place, known_pending: bool) -> Boxed<News> {
    Box::pin(async move {
        match link.live_or_pending(known_pending).await {
            MasterState::Pending => News::Pending(place),
            _ => News::Live(place),
        }
    })
}
