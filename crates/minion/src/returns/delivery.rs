//! Delivers returns: carries out the actions of the plan, and reports the results to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use channel::client::MasterChannel;
use exec::{MasterRole, MasterState};
use store::returns::{Publisher, Spooled};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use value::error::chain;
use value::{Map, Value, map};
use wire::loads::{Ability, Lenient, ReturnForPeer};
use wire::msgpack::Decode;

use super::plan::{Action, Plan, Reach, Rules, SPREAD, Seen, Seq, View, Waiting, Why};
use super::{New, Returns, SMALL};
use crate::machine::Machine;
use crate::masters::{Link, Masters, sign_in_apart};

/// Delivers new returns and those of the last run, until the minion stops.
pub fn start(returns: &Arc<Returns>, masters: &Arc<Masters>) {
    let inbox = returns.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(inbox) = inbox else { return };
    let changed = Arc::new(Notify::new());
    let machine = &masters.machine;
    for link in &masters.links {
        machine.rt.spawn(watch(machine.clone(), link.clone(), changed.clone()));
    }
    let (found, finding) = mpsc::channel(super::QUEUE);
    machine.rt.spawn(find(machine.clone(), returns.clone(), found));
    machine.rt.spawn(Delivery::new(returns.clone(), masters.clone()).run(inbox, finding, changed));
}

/// Notifies the delivery whenever the state of a link changes.
async fn watch(machine: Arc<Machine>, link: Arc<Link>, changed: Arc<Notify>) {
    let mut state = link.watch();
    loop {
        tokio::select! {
            biased;
            () = machine.stop.cancelled() => return,
            more = state.changed() => if more.is_err() { return },
        }
        changed.notify_one();
    }
}

/// A return from the last run.
struct Found {
    name: String,
    age: Duration,
    about: Waiting,
}

/// Reads the returns of the last run, one after the other. Unreadable ones are set aside.
async fn find(machine: Arc<Machine>, returns: Arc<Returns>, found: mpsc::Sender<Found>) {
    let inside = returns.clone();
    let listing = machine.rt.blocking(move || inside.spool.names()).await;
    let names = match listing.map_err(|error| error.to_string()).and_then(|names| names.map_err(|error| chain(&error)))
    {
        Ok(names) => names,
        Err(reason) => return error!("the returns that wait cannot be listed: {reason}"),
    };
    if !names.is_empty() {
        info!("{} returns wait for their masters in {}", names.len(), returns.spool.directory().display());
    }
    for name in names {
        let (inside, there) = (machine.clone(), returns.clone());
        match machine.rt.blocking(move || find_or_set_aside(&inside, &there, &name)).await {
            Ok(Some(one)) => {
                if found.send(one).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(panic) => error!("a return could not be read: {panic}"),
        }
    }
}

fn find_or_set_aside(machine: &Machine, returns: &Returns, name: &str) -> Option<Found> {
    find_one(machine, returns, name).unwrap_or_else(|reason| {
        set_aside(returns, name, &reason);
        None
    })
}

fn find_one(machine: &Machine, returns: &Returns, name: &str) -> Result<Option<Found>, String> {
    let spool = &returns.spool;
    let read = || Ok(spool.read(name)?.map(|returned| (returned, spool.size(name))));
    let Some((returned, size)) = read().map_err(|error: store::Error| chain(&error))? else { return Ok(None) };
    // Another minion used this directory before, for example on a cloned machine.
    if returned.minion != machine.id.as_str() {
        return Err(format!("{name} is a return of the minion {:?}", returned.minion));
    }
    let size = size.map_err(|error| chain(&error))?;
    // A clock that was moved makes no return older than it is.
    let age = machine.rt.now().duration_since(returned.created).unwrap_or_default();
    Ok(Some(Found { name: name.to_owned(), age, about: about(&returned, size) }))
}

fn about(returned: &Spooled, size: u64) -> Waiting {
    let Publisher { address, has_peers, .. } = &returned.publisher;
    Waiting { jid: returned.jid().to_owned(), publisher: address.clone(), has_peers: *has_peers, size }
}

fn set_aside(returns: &Returns, name: &str, reason: &str) {
    match returns.spool.set_aside(name) {
        Ok(path) => error!("a return cannot be used and is set aside as {}: {reason}", path.display()),
        Err(error) => error!("a return cannot be used: {reason}; {}", chain(&error)),
    }
}

/// Where a return is stored.
#[derive(Default)]
struct Held {
    /// Its file; `None` as long as it could not be written.
    name: Option<String>,
    /// In memory while it is new or has no file.
    returned: Option<Arc<Spooled>>,
    settled: Option<oneshot::Sender<()>>,
    /// It is being written.
    writing: bool,
    /// How often sending it failed.
    failures: u32,
}

/// The result of a task.
enum Outcome {
    /// Of sending a return to its publisher.
    Sent(Seq, Result<bool, Failure>),
    /// Of sending a copy of a return of the publisher to a peer.
    Copied { seq: Seq, publisher: String, peer: String, result: Result<bool, Failure> },
    /// Of signing in at a master that is not followed.
    Visited(String, Result<Arc<MasterChannel>, String>),
    /// Of writing a return that was only in memory.
    Written(Seq, Option<String>),
    /// A file was removed.
    Removed,
}

/// Why something was not sent.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The master did not take it, so it should be sent again.
    #[error("{0}")]
    NotTaken(String),
    /// The file cannot be used. The text gives the reason.
    #[error("{0}")]
    Unreadable(String),
    /// The file is gone.
    #[error("its file is gone")]
    Gone,
}

struct Delivery {
    returns: Arc<Returns>,
    masters: Arc<Masters>,
    plan: Plan,
    view: View,
    held: HashMap<Seq, Held>,
    /// Connections to masters that are not followed.
    visits: BTreeMap<String, Arc<MasterChannel>>,
    tasks: JoinSet<Outcome>,
}

impl Delivery {
    fn new(returns: Arc<Returns>, masters: Arc<Masters>) -> Self {
        let login = &masters.machine.config.login;
        let rules =
            Rules { keep: login.return_keep, keep_size: login.return_keep_size, peer_after: login.return_peer_after };
        // A random start, so that not all minions send copies to the same peer.
        let turn = masters.machine.rt.below(1 << 16) as usize;
        let (held, visits, tasks) = (HashMap::new(), BTreeMap::new(), JoinSet::new());
        Delivery { plan: Plan::new(rules, turn), view: View::new(), held, visits, tasks, returns, masters }
    }

    fn machine(&self) -> &Arc<Machine> {
        &self.masters.machine
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<New>, mut finding: mpsc::Receiver<Found>, changed: Arc<Notify>) {
        let stop = self.machine().stop.clone();
        self.look();
        loop {
            self.act();
            let due = self.plan.due(&self.view);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = changed.notified() => self.look(),
                Some(outcome) = self.tasks.join_next() => match outcome {
                    Ok(outcome) => self.learn(outcome),
                    Err(panic) => error!("a return could not be sent: {panic}"),
                },
                Some(new) = inbox.recv() => self.take(new),
                Some(found) = finding.recv() => self.take_found(found),
                () = until(due) => {}
            }
        }
        let left: usize = self.plan.counts().map(|(_, count)| count).sum();
        if left > 0 {
            // Only in memory, because the disk did not take them.
            let lost = self.held.values().filter(|held| held.name.is_none()).count();
            warn!("{left} returns were not delivered; {} are kept for the next start, {lost} are lost", left - lost);
        }
    }

    /// Updates the view of the masters.
    fn look(&mut self) {
        self.view = self.masters.links.iter().map(|link| (link.address(), seen(link))).collect();
        let mut known = self.returns.known.lock().unwrap_or_else(PoisonError::into_inner);
        for link in self.masters.links.iter().filter(|link| link.channel().is_some()) {
            let publisher = self.returns.publisher(link);
            known.insert(publisher.address.clone(), publisher);
        }
    }

    fn take(&mut self, new: New) {
        let New { returned, name, size, settled } = new;
        let seq = self.plan.add(about(&returned, size), Instant::now());
        self.held.insert(seq, Held { name, returned: Some(returned), settled: Some(settled), ..Held::default() });
    }

    fn take_found(&mut self, found: Found) {
        if !self.view.contains_key(&found.about.publisher) {
            warn!(
                "the return of job {} waits for the master {}, which is not configured any more",
                found.about.jid, found.about.publisher
            );
        }
        let seq = self.plan.add_old(found.about, found.age, Instant::now());
        self.held.insert(seq, Held { name: Some(found.name), ..Held::default() });
    }

    fn act(&mut self) {
        let jitter = self.machine().rt.between(Duration::ZERO, SPREAD);
        for action in self.plan.act(Instant::now(), &self.view, jitter) {
            match action {
                Action::Deliver(seq) => self.deliver(seq),
                Action::Hold(seq) => self.release(seq),
                Action::Copy(seq, peer) => self.copy(seq, peer),
                Action::Visit(address) => self.visit(address),
                Action::Leave(address) => drop(self.visits.remove(&address)),
                Action::Drop(seq, about, why) => self.give_up(seq, &about, &why),
            }
        }
        let counts: BTreeMap<&str, usize> = self.plan.counts().collect();
        for link in &self.masters.links {
            link.set_returns_waiting(counts.get(link.address().as_str()).copied().unwrap_or(0));
        }
    }

    fn begin(&mut self, task: impl Future<Output = Outcome> + Send + 'static) {
        self.tasks.spawn(self.machine().rt.task(task));
    }

    fn link(&self, address: &str) -> Option<Arc<Link>> {
        self.masters.links.iter().find(|link| link.address() == address).cloned()
    }

    /// Returns where a return is, for a task that sends it.
    fn source(&self, seq: Seq) -> Source {
        let held = self.held.get(&seq);
        Source {
            machine: self.machine().clone(),
            returns: self.returns.clone(),
            name: held.and_then(|held| held.name.clone()),
            returned: held.and_then(|held| held.returned.clone()),
        }
    }

    fn deliver(&mut self, seq: Seq) {
        let publisher = self.plan.get(seq).map(|about| about.publisher.clone()).unwrap_or_default();
        let visit = self.visits.get(&publisher).cloned();
        let (link, source) = (self.link(&publisher), self.source(seq));
        self.begin(async move {
            let answer = match (visit, link) {
                (_, None) => Err(Failure::NotTaken("the master is not configured any more".to_owned())),
                // Asked before anything is sent: the results of a job are for the master that published it.
                (_, Some(link)) if source.is_for_another(&link).await => Err(Failure::NotTaken(ANOTHER.to_owned())),
                (Some(channel), _) => source.send(&channel, own_return).await,
                (None, Some(link)) => source.send_over(&link, own_return).await,
            };
            Outcome::Sent(seq, answer.and_then(taken))
        });
    }

    fn copy(&mut self, seq: Seq, peer: String) {
        let publisher = self.plan.get(seq).map(|about| about.publisher.clone()).unwrap_or_default();
        let (link, source) = (self.link(&peer), self.source(seq));
        self.begin(async move {
            let result = match link {
                Some(link) => source.send_over(&link, peer_return).await,
                None => Err(Failure::NotTaken("the master is not configured any more".to_owned())),
            };
            let result = result.and_then(copy_taken);
            Outcome::Copied { seq, publisher, peer, result }
        });
    }

    fn visit(&mut self, address: String) {
        let (machine, link) = (self.machine().clone(), self.link(&address));
        self.begin(async move {
            let result = match link {
                Some(link) => sign_in_apart(&machine, &link).await.map(|(channel, _)| channel),
                None => Err("the master is not configured any more".to_owned()),
            };
            Outcome::Visited(address, result)
        });
    }

    fn learn(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Sent(seq, Ok(taken)) => self.delivered(seq, taken),
            Outcome::Sent(seq, Err(failure)) => self.failed(seq, failure),
            Outcome::Copied { seq, publisher, peer, result } => self.copied(seq, &publisher, &peer, result),
            Outcome::Visited(address, Ok(channel)) => {
                debug!("signed in at the master {address}, which is not followed, to deliver returns");
                self.plan.visiting(&address);
                self.visits.insert(address, channel);
            }
            Outcome::Visited(address, Err(reason)) => {
                debug!("returns cannot be delivered to the master {address}, which is not followed: {reason}");
                let again = self.again();
                self.plan.visit_failed(&address, again);
            }
            Outcome::Written(seq, name) => self.written(seq, name),
            Outcome::Removed => {}
        }
    }

    /// Returns when to retry, after a random pause.
    fn again(&self) -> Instant {
        let login = &self.machine().config.login;
        let (least, most) = (login.return_retry_timer, login.return_retry_timer_max.max(login.return_retry_timer));
        Instant::now() + self.machine().rt.between(least, most)
    }

    fn delivered(&mut self, seq: Seq, taken: bool) {
        let Some(about) = self.plan.get(seq).cloned() else { return };
        if !taken {
            error!(master = %about.publisher, "the master refuses the return of job {}", about.jid);
        }
        self.plan.done(seq);
        self.forget(seq, about.size);
    }

    /// Forgets a return. A small file is removed at once, so that few returns are sent twice after a crash.
    fn forget(&mut self, seq: Seq, size: u64) {
        let Some(Held { name: Some(name), .. }) = self.held.remove(&seq) else { return };
        if size <= SMALL as u64 {
            return remove(&self.returns, &name);
        }
        let (rt, returns) = (self.machine().rt.clone(), self.returns.clone());
        self.begin(async move {
            if let Err(panic) = rt.blocking(move || remove(&returns, &name)).await {
                warn!("a return that is delivered may stay on disk: {panic}");
            }
            Outcome::Removed
        });
    }

    fn failed(&mut self, seq: Seq, failure: Failure) {
        let Some(about) = self.plan.get(seq).cloned() else { return };
        let address = &about.publisher;
        match &failure {
            Failure::NotTaken(reason) => {
                self.complain(seq, &about, reason);
                let again = self.again();
                // The connection of a visit may be the reason; the next visit makes a new one.
                if self.visits.remove(address).is_some() {
                    self.plan.visit_failed(address, again);
                }
                self.plan.failed(seq, again);
                self.release(seq);
            }
            Failure::Unreadable(_) | Failure::Gone => self.lose(seq, &about, &failure),
        }
    }

    /// Logs a failure: the first one and then ever fewer as warnings.
    fn complain(&mut self, seq: Seq, about: &Waiting, reason: &str) {
        let Some(held) = self.held.get_mut(&seq) else { return };
        held.failures = held.failures.saturating_add(1);
        if held.failures.is_power_of_two() {
            warn!(master = %about.publisher, "failed to return job {}: {reason}", about.jid);
        } else {
            debug!(master = %about.publisher, "failed to return job {}: {reason}", about.jid);
        }
    }

    /// Gives up a return whose file cannot be used.
    fn lose(&mut self, seq: Seq, about: &Waiting, failure: &Failure) {
        error!("The minion failed to return the job information for job {}: {failure}", about.jid);
        self.plan.done(seq);
        let name = self.held.remove(&seq).and_then(|held| held.name);
        if let (Some(name), Failure::Unreadable(reason)) = (name, failure) {
            set_aside(&self.returns, &name, reason);
        }
    }

    /// Notes that a return was sent once, or has to wait: it leaves the memory if it is on disk.
    fn release(&mut self, seq: Seq) {
        let Some(held) = self.held.get_mut(&seq) else { return };
        drop(held.settled.take());
        if held.name.is_some() {
            held.returned = None;
        } else if let Some(returned) = held.returned.clone().filter(|_| !held.writing) {
            held.writing = true;
            let (rt, returns) = (self.machine().rt.clone(), self.returns.clone());
            self.begin(async move {
                let content = returned.to_bytes();
                Outcome::Written(seq, returns.write(&rt, &returned, content).await)
            });
        }
    }

    fn written(&mut self, seq: Seq, name: Option<String>) {
        match self.held.get_mut(&seq) {
            Some(held) if name.is_some() => *held = Held { name, failures: held.failures, ..Held::default() },
            Some(held) => held.writing = false,
            // It was delivered meanwhile.
            None => {
                self.held.insert(seq, Held { name, ..Held::default() });
                self.forget(seq, 0);
            }
        }
    }

    fn copied(&mut self, seq: Seq, publisher: &str, peer: &str, result: Result<bool, Failure>) {
        match result {
            Ok(true) => {
                let jid = self.plan.get(seq).map(|about| about.jid.clone()).unwrap_or_default();
                info!("The master {peer} keeps the return of job {jid} until the master {publisher} takes it");
                self.plan.copied(seq, publisher, peer);
            }
            Ok(false) => {
                debug!("the master {peer} does not take a return of the master {publisher}");
                self.plan.copy_failed(seq, publisher, Some(peer), Instant::now());
            }
            Err(Failure::NotTaken(reason)) => {
                debug!("the master {peer} did not take a return of the master {publisher}: {reason}");
                let again = self.again();
                self.plan.copy_failed(seq, publisher, None, again);
            }
            Err(failure) => {
                let again = self.again();
                self.plan.copy_failed(seq, publisher, None, again);
                if let Some(about) = self.plan.get(seq).cloned() {
                    self.lose(seq, &about, &failure);
                }
            }
        }
    }

    /// Reports that a return will not reach its master.
    fn give_up(&mut self, seq: Seq, about: &Waiting, why: &Why) {
        let (Waiting { jid, publisher, .. }, keep) = (about, self.machine().config.login.return_keep.as_secs());
        let (reason, holder) = match why {
            Why::Age(holder) => (format!("the master {publisher} did not take it within {keep} s"), holder),
            Why::Room(holder) => ("returns that wait fill their room (return_keep_size)".to_owned(), holder),
        };
        match holder {
            Some(peer) => warn!("the return of job {jid} goes no further, the master {peer} has it: {reason}"),
            None => error!("The minion failed to return the job information for job {jid}: {reason}"),
        }
        self.forget(seq, about.size);
    }
}

fn remove(returns: &Returns, name: &str) {
    if let Err(error) = returns.spool.remove(name) {
        warn!("a return that is delivered stays on disk and will be sent again: {}", chain(&error));
    }
}

/// Waits until a time; forever if there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn seen(link: &Link) -> Seen {
    let (channel, status) = (link.channel(), link.status(false));
    let reach = match reach(status.state, status.role) {
        Reach::Live if channel.is_none() => Reach::Away,
        reach => reach,
    };
    Seen {
        reach,
        takes_copies: channel.as_ref().is_some_and(|channel| channel.master_can(Ability::PeerReturns)),
        boot: channel.and_then(|channel| channel.abilities()).map(|abilities| abilities.boot),
    }
}

/// Returns how a master can be reached. If one of several masters is followed at a time, a lost master is not retried
/// by itself.
fn reach(state: MasterState, role: MasterRole) -> Reach {
    match (state, role) {
        (MasterState::Live, _) => Reach::Live,
        (MasterState::Idle, _) => Reach::Idle,
        (MasterState::Backoff | MasterState::Refused, role) if role != MasterRole::Hot => Reach::Idle,
        _ => Reach::Away,
    }
}

/// A return being sent, read from its file if it is not in memory.
struct Source {
    machine: Arc<Machine>,
    returns: Arc<Returns>,
    name: Option<String>,
    returned: Option<Arc<Spooled>>,
}

/// Why a return waits although a master is at the address: it is another master.
const ANOTHER: &str =
    "there is another master now where the one was that published the job: its key and id have changed";

impl Source {
    /// Returns whether the return is for another master than the one at the address now.
    async fn is_for_another(&self, link: &Link) -> bool {
        let status = link.status(false);
        let now = Publisher { id: status.id, fingerprint: status.fingerprint, ..Publisher::default() };
        self.read().await.is_ok_and(|returned| is_another(&returned.publisher, &now))
    }

    /// Sends over the connection of a link, as long as the link has it.
    async fn send_over(&self, link: &Link, make: fn(&Spooled) -> Map) -> Result<Value, Failure> {
        let away = || Failure::NotTaken("not connected".to_owned());
        let channel = link.channel().ok_or_else(away)?;
        let mut state = link.watch();
        let same = || link.channel().is_some_and(|current| Arc::ptr_eq(&current, &channel));
        tokio::select! {
            biased;
            answer = self.send(&channel, make) => answer,
            _ = state.wait_for(|now| now.state != MasterState::Live || !same()) => Err(away()),
        }
    }

    async fn send(&self, channel: &MasterChannel, make: fn(&Spooled) -> Map) -> Result<Value, Failure> {
        let returned = self.read().await?;
        let timeout = Some(self.machine.config.login.request_channel_timeout);
        let answer = channel.request(make(&returned), timeout, Decode::Default).await;
        answer.map_err(|error| Failure::NotTaken(error.to_string()))
    }

    async fn read(&self) -> Result<Arc<Spooled>, Failure> {
        if let Some(returned) = &self.returned {
            return Ok(returned.clone());
        }
        let Some(name) = self.name.clone() else { return Err(Failure::Gone) };
        let returns = self.returns.clone();
        let reading = self.machine.rt.blocking(move || returns.spool.read(&name));
        match reading.await.map_err(|error| Failure::NotTaken(error.to_string()))? {
            Ok(Some(returned)) => Ok(Arc::new(returned)),
            Ok(None) => Err(Failure::Gone),
            // A disk that fails to read may work later. What was read but makes no sense never will.
            Err(error @ store::Error::Io { .. }) => Err(Failure::NotTaken(chain(&error))),
            Err(error) => Err(Failure::Unreadable(chain(&error))),
        }
    }
}

/// Returns whether two masters seen at one address are different: they have different keys and, if both have sent them,
/// different ids. A Saltern master whose key was changed keeps its id.
fn is_another(then: &Publisher, now: &Publisher) -> bool {
    let differ = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
    let same_id = then.id.is_some() && then.id == now.id;
    differ(&then.fingerprint, &now.fingerprint) && !same_id
}

/// Returns the request that delivers a return.
fn own_return(returned: &Spooled) -> Map {
    returned.load.clone()
}

/// Returns the request that gives a copy to a peer of the publisher.
fn peer_return(returned: &Spooled) -> Map {
    let Publisher { address, id, .. } = &returned.publisher;
    let request = ReturnForPeer {
        publisher: Lenient(Some(map! { "id" => id.clone(), "address" => address.as_str() })),
        job: Lenient(Some(returned.job.clone())),
        load: returned.load.clone(),
        extra: Map::new(),
    };
    request.into_map()
}

/// Reads a master's answer to a return: true if it has the return, false if it will never take it.
fn taken(answer: Value) -> Result<bool, Failure> {
    match answer {
        // Masters answer an empty text when something went wrong on their side.
        Value::Str(text) if text.is_empty() => Err(Failure::NotTaken("the master failed to handle it".to_owned())),
        Value::Bool(false) => Ok(false),
        _ => Ok(true),
    }
}

/// Reads a peer's answer to a copy. One that does not know the request answers anything but true.
fn copy_taken(answer: Value) -> Result<bool, Failure> {
    let yes = answer == Value::Bool(true);
    taken(answer).map(|_| yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        assert!(taken(Value::Null).unwrap());
        assert!(!taken(Value::Bool(false)).unwrap());
        assert!(taken("".into()).is_err(), "Salt's word for an exception");
        assert!(copy_taken(Value::Bool(true)).unwrap());
        assert!(!copy_taken(Value::Bool(false)).unwrap());
        assert!(!copy_taken(Map::new().into()).unwrap(), "Salt's word for what it does not understand");
        assert!(copy_taken("".into()).is_err());
    }

    #[test]
    fn masters_that_nobody_tries_to_reach_are_visited() {
        assert_eq!(reach(MasterState::Backoff, MasterRole::Hot), Reach::Away);
        assert_eq!(reach(MasterState::Backoff, MasterRole::Standby), Reach::Idle);
        assert_eq!(reach(MasterState::Connecting, MasterRole::Standby), Reach::Away);
        assert_eq!(reach(MasterState::Idle, MasterRole::Hot), Reach::Idle, "roles come a little later than states");
        assert_eq!(reach(MasterState::Live, MasterRole::Active), Reach::Live);
    }

    #[test]
    fn another_master_under_the_same_address_is_told_by_key_and_id() {
        let master = |id: Option<&str>, key: Option<&str>| Publisher {
            id: id.map(str::to_owned),
            fingerprint: key.map(str::to_owned),
            ..Publisher::default()
        };
        assert!(!is_another(&master(None, Some("aa")), &master(None, Some("aa"))));
        // To be on the safe side: results of a job must not reach the wrong master.
        assert!(is_another(&master(None, Some("aa")), &master(None, Some("bb"))), "stock masters tell no id");
        assert!(!is_another(&master(Some("a"), Some("aa")), &master(Some("a"), Some("bb"))), "a new key");
        assert!(is_another(&master(Some("a"), Some("aa")), &master(Some("b"), Some("bb"))));
        assert!(!is_another(&master(Some("a"), None), &master(None, Some("bb"))), "not known");
    }

    #[test]
    fn a_copy_says_whose_job_it_was_and_carries_the_whole_return() {
        let returned = Spooled {
            minion: "web1".to_owned(),
            created: std::time::SystemTime::UNIX_EPOCH,
            publisher: Publisher {
                address: "m1:4506".to_owned(),
                id: Some("m1_master".to_owned()),
                ..Default::default()
            },
            job: map! { "tgt" => "*" },
            load: map! { "cmd" => "_return", "jid" => "1", "return" => true },
        };
        assert_eq!(own_return(&returned), returned.load);
        let copy = peer_return(&returned);
        assert_eq!(copy.get_str("cmd"), Some("saltern_return"));
        assert_eq!(copy.get("publisher"), Some(&map! { "id" => "m1_master", "address" => "m1:4506" }.into()));
        assert_eq!(copy.get("load"), Some(&returned.load.clone().into()));
    }
}
