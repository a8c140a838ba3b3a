//! Jobs for minions of other masters: sent to the member that a minion is connected to, and published there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rt::Rt;
use share::duties::Occasion;
use share::member::Right;
use share::message::{Job, MAX_MESSAGE};
use share::{Carrier as _, Content, Key, Lane, Message, Node, Record, SendResult, Stamp, State, To};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use value::escape::brief;
use value::{Map, Value};
use wire::msgpack::{Decode, Packing, most_values, pack, unpack_within};
use wire::{Jid, MinionId};

use super::worker::{Work, Worker};
use super::{SetLinks, events, once};
use crate::Shared;
use crate::jobs::expiry;
use crate::jobs::keep::is_of_the_future;
use crate::jobs::publish::{ForwardedJob, NotPublished, is_nocache, publish_forwarded};
use crate::open_jobs::ledger::Undelivered;
use crate::open_jobs::{LONGEST_GRACE, OpenJobs};
use crate::other_masters::{OtherMasters, PublishedJob, Turn};

/// How many jobs of other members may wait to be published, and their bytes together.
const MOST_WAITING: usize = 256;
const MOST_BYTES: usize = 64 << 20;

/// The largest number of bytes of the name of a user.
const USER: usize = 200;

/// The longest time for which a job may be held: nobody waits longer, and times beyond the end of the calendar cannot be written.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long a job waits that the disk did not take.
const AGAIN: Duration = Duration::from_secs(5);

/// How old a job may be that is valid for less: it was on its way for a moment, and clocks are compared only roughly.
const ON_THE_WAY: Duration = Duration::from_secs(5);

impl OtherMasters for SetLinks {
    fn forward(&self, job: &PublishedJob<'_>, open: &OpenJobs) {
        // The load may have what others must not see.
        let linked = self.members.that_may(Right::Jobs, self.fleet.linked());
        if linked.is_empty() {
            return;
        }
        let routes = self.fleet.routes(job.jid.as_str(), job.targets);
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
        for node in linked.into_iter().filter(|node| job.judged_by_minions || routes.concerns(*node)) {
            let yours = routes.yours.get(&node).map(Vec::as_slice).unwrap_or_default();
            let ids = (owned(yours), owned(&routes.rest));
            let Some(message) = message(&self.rt, self.node, Some(self.links.steady()), job, ids) else {
                return;
            };
            let message = Message::Job(message);
            let bytes = message.encode();
            // Before it is sent: the link may break at once, which takes this back.
            open.forwarded(job.jid, node, yours.iter().copied());
            let sent = match bytes.len() {
                0..=MAX_MESSAGE => self.links.send(To::Member(node), Lane::Talk, bytes) == SendResult::Queued,
                _ => self.worker.try_send(Work::Tell(node, message)).is_ok(),
            };
            if !sent {
                open.not_forwarded(job.jid, node, yours.iter().copied());
                warn!("the job {} does not reach minions of the master {}", job.jid, self.members.called(node));
            }
        }
    }

    fn drop_held(&self, jid: &Jid) -> Vec<String> {
        let linked = self.fleet.linked();
        let bytes = Message::Drop(jid.as_str().to_owned()).encode();
        let mut away = Vec::new();
        for (node, (_, state)) in self.members.all() {
            if node == self.node || state != State::Accepted || !self.members.serves_minions(node) {
                continue;
            }
            let sent = linked.contains(&node)
                && self.links.send(To::Member(node), Lane::Talk, bytes.clone()) == SendResult::Queued;
            if !sent {
                away.push(self.members.called(node));
            }
        }
        away
    }

    fn may_be_elsewhere(&self, id: &str) -> bool {
        self.fleet.may_be_elsewhere(id, tokio::time::Instant::now())
    }

    fn is_first_copy(&self, minion: &str, event: &event::Event) -> bool {
        events::is_first_copy(self, minion, event)
    }

    fn is_member(&self, name: &str) -> bool {
        !self.members.accepted(name).is_empty()
    }

    fn turn(&self, occasion: Occasion) -> BoxFuture<'static, Option<Box<dyn Turn>>> {
        once::turn(self.clone(), occasion).boxed()
    }

    fn with_those_elsewhere(&self, own: Vec<MinionId>) -> Vec<MinionId> {
        self.fleet.with_those_elsewhere(own)
    }
}

/// Returns what a member is told to publish; `None` if it could not be read there.
fn message(
    rt: &Rt,
    node: Node,
    sent: Option<u64>,
    job: &PublishedJob<'_>,
    (yours, rest): (Vec<String>, Vec<String>),
) -> Option<Job> {
    let wall = rt.now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let stamp = Stamp { time: (wall.as_millis() as u64) << 16, node };
    let nocache = is_nocache(job.load);
    let packed = pack(&Value::from(job.load.clone()), Packing::Bin);
    let load = Record::new(Key::new(job.jid.as_str())?, stamp, Content::Job { load: packed.into(), nocache });
    if let Err(error) = load.check() {
        warn!("the job {} is not sent to other masters: {error}", job.jid);
        return None;
    }
    let user = job.load.get("user").map(Value::to_string).unwrap_or_default();
    let valid_for = u64::try_from(job.valid_for.as_millis()).unwrap_or(u64::MAX);
    Some(Job { load, yours, rest, valid_for, user: brief(&user, USER).into_owned(), origin: node, sent })
}

/// Jobs of other members that wait to be published.
#[derive(Clone)]
pub struct Inbox {
    queue: Sender<(Node, Job)>,
    bytes: Arc<AtomicUsize>,
}

impl Inbox {
    /// Creates it, with the end that [`run`] reads.
    pub fn new() -> (Inbox, Receiver<(Node, Job)>) {
        let (queue, waiting) = tokio::sync::mpsc::channel(MOST_WAITING);
        (Inbox { queue, bytes: Arc::default() }, waiting)
    }

    fn put(&self, from: Node, job: Job) -> bool {
        let size = size(&job);
        let before = self.bytes.fetch_add(size, Ordering::AcqRel);
        // One is always taken, however large.
        let taken = (before == 0 || before + size <= MOST_BYTES) && self.queue.try_send((from, job)).is_ok();
        if !taken {
            self.bytes.fetch_sub(size, Ordering::AcqRel);
        }
        taken
    }
}

fn size(job: &Job) -> usize {
    job.load.size() + job.yours.iter().chain(&job.rest).map(|id| id.len() + 24).sum::<usize>()
}

/// Publishes jobs of other members in their order, until told to stop. What the disk does not take is tried again for as long as it is
/// valid, for no other member delivers it meanwhile.
pub async fn run(
    shared: Arc<Shared>,
    links: SetLinks,
    inbox: Inbox,
    mut waiting: Receiver<(Node, Job)>,
    stop: CancellationToken,
) {
    let mut delayed: VecDeque<Attempt> = VecDeque::new();
    loop {
        let again = delayed.front().map(|attempt| attempt.next);
        let attempt = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = at(again) => match delayed.pop_front() {
                Some(attempt) => attempt,
                None => continue,
            },
            next = waiting.recv() => match next {
                Some((from, job)) => Attempt::new(from, job, Instant::now()),
                None => return,
            },
        };
        let (bytes, here, there) = (size(&attempt.job), shared.clone(), links.clone());
        let attempted = shared.stores.rt.blocking(move || (publish(&here, &there, &attempt), attempt)).await;
        match attempted {
            Ok((false, attempt)) if delayed.len() < MOST_WAITING => {
                delayed.push_back(attempt.later(Instant::now()));
                // Its bytes still wait.
                continue;
            }
            Ok((false, attempt)) => {
                let jid = brief(attempt.job.load.key.as_str(), 100);
                warn!("the job {jid} of another master is not published: too many wait for the disk");
            }
            Ok((true, _)) => {}
            Err(failure) => error!("a job of another master could not be published: {failure}"),
        }
        inbox.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// A job that is to be published.
struct Attempt {
    from: Node,
    job: Job,
    /// When its time is up.
    until: Instant,
    /// When it is published, or tried again.
    next: Instant,
    /// It was tried before.
    failed: bool,
}

impl Attempt {
    fn new(from: Node, job: Job, now: Instant) -> Attempt {
        let until = now + Duration::from_millis(job.valid_for).min(LONGEST);
        Attempt { from, job, until, next: now, failed: false }
    }

    fn later(self, now: Instant) -> Attempt {
        Attempt { next: now + AGAIN, failed: true, ..self }
    }
}

/// Publishes a job, or says why not. Returns false if it is to be tried again.
fn publish(shared: &Shared, links: &SetLinks, attempt: &Attempt) -> bool {
    let (from, now) = (attempt.from, Instant::now());
    let (name, jid) = (links.members.called(from), brief(attempt.job.load.key.as_str(), 100).into_owned());
    let published = check(&attempt.job, shared.now()).map_err(NotPublished::from).and_then(|mut job| {
        if attempt.failed {
            let left = attempt.until.saturating_duration_since(now);
            (job.hold, job.left) = (job.hold.map(|_| left), left.min(LONGEST_GRACE));
        }
        job.nocache &= links.members.makes(from, &job.jid);
        let functions = crate::named_functions::functions(&job.load).unwrap_or_default();
        if shared.users.is_blacklisted(&job.user, &functions) {
            let functions = functions.join(",");
            return Err(format!("{} may not run {functions} here (publisher_acl_blacklist)", job.user).into());
        }
        // Saltern minions that are connected to the publisher have it from there.
        let there = links.fleet.at(from, shared.presence.ours(|_| true).iter());
        publish_forwarded(shared, job, &name, &there)
    });
    match published {
        Err(NotPublished::NotStored(reason)) if now + AGAIN < attempt.until => {
            if !attempt.failed {
                warn!("a job of the master {name} is not published yet, {jid}: {reason}");
            }
            return false;
        }
        Err(reason) => warn!("a job of the master {name} is not published, {jid}: {reason}"),
        Ok(()) => {}
    }
    true
}

/// Checks what another member wants to be published as strictly as the request of a client.
fn check(job: &Job, now: std::time::SystemTime) -> Result<ForwardedJob, String> {
    let Content::Job { load, nocache } = &job.load.content else { return Err("it has no load".to_owned()) };
    let jid = Jid::new(job.load.key.as_str()).map_err(|error| error.to_string())?;
    if is_of_the_future(&jid, now) {
        return Err("its job id is of the future".to_owned());
    }
    let load = unpacked(load).ok_or("its load cannot be read")?;
    if load.get_str("jid") != Some(jid.as_str()) {
        return Err("its load is that of another job".to_owned());
    }
    if crate::named_functions::functions(&load).is_none() || !["arg", "tgt"].iter().all(|name| load.contains_key(name))
    {
        return Err("it names no function, arguments or target".to_owned());
    }
    let invalid = job.yours.iter().chain(&job.rest).any(|id| MinionId::new(id.as_str()).is_err());
    if invalid {
        return Err("it names an id that no minion can have".to_owned());
    }
    let valid_for = Duration::from_millis(job.valid_for).min(LONGEST);
    let held = crate::jobs::publish::hold(&load)?.is_some();
    Ok(ForwardedJob {
        jid,
        nocache: *nocache,
        hold: held.then_some(valid_for),
        left: valid_for.min(LONGEST_GRACE),
        targets: job.yours.iter().chain(&job.rest).cloned().collect(),
        user: job.user.clone(),
        load,
    })
}

fn unpacked(load: &Bytes) -> Option<Map> {
    unpack_within(load, Decode::Default, most_values(load.len())).ok()?.into_map()
}

impl Worker {
    /// Takes a job that another member wants to be published.
    pub(super) fn take_job(&mut self, from: Node, job: Job) {
        let name = self.members.called(from);
        let jid = brief(job.load.key.as_str(), 100).into_owned();
        if job.origin != from {
            return warn!("the master {name} sent the job {jid} of another master, which is refused");
        }
        if !self.members.may(from, Right::Jobs) {
            return warn!("the job {jid} of the master {name} is refused: it lacks the right jobs");
        }
        if let Some(age) = self.age_of(from, &job).filter(|age| is_late(*age, job.valid_for)) {
            return warn!("the job {jid} of the master {name} is too late: it was sent {} s ago", age.as_secs());
        }
        debug!("the master {name} sent the job {jid} for {} minions", job.yours.len());
        if !self.forwarded.put(from, job) {
            warn!("the job {jid} of the master {name} is refused: too many wait to be published");
        }
    }

    /// Drops a held job that an operator has dropped on another member.
    pub(super) fn take_drop(&mut self, from: Node, jid: &str) {
        let name = self.members.called(from);
        if !self.members.may(from, Right::Jobs) {
            return self.warn_of_member(&format!("the master {name} may not drop held jobs: it lacks the right jobs"));
        }
        let Ok(jid) = Jid::new(jid) else {
            return self.warn_of_member(&format!("the master {name} wants a job to be dropped that has no job id"));
        };
        if expiry::end(&self.shared, &jid, "dropped") {
            info!("the job {jid} was dropped on the master {name}");
        }
    }

    /// Sends members the open jobs that their newly connected minions may have missed. Such a minion was connected nowhere, to a
    /// member that was not linked, or to one that it has left since.
    pub(super) fn send_undelivered(&mut self) {
        for (to, mut came) in std::mem::take(&mut self.came) {
            // Some may have gone again.
            came.retain(|id, _| self.fleet.is_at(to, id));
            let there = came.keys().cloned().collect();
            // A part at a time, for as long as the member takes them.
            while self.send_undelivered_to(to, &there, &came) {}
        }
    }

    /// Returns whether there may be more.
    fn send_undelivered_to(&mut self, to: Node, there: &BTreeSet<String>, came: &BTreeMap<String, bool>) -> bool {
        let stays = |id: &str, via: Option<Node>| match via {
            // The member that it has left may not have noticed yet.
            _ if came.get(id) == Some(&true) => false,
            Some(member) => self.fleet.is_at(member, id),
            None => self.fleet.is_here(id),
        };
        let undelivered = self.shared.open_jobs.undelivered(there, to, stays);
        let mut all_sent = !undelivered.is_empty();
        for missed in undelivered {
            all_sent &= self.send_missed(to, &missed);
        }
        all_sent
    }

    /// Sends a member a job again. Returns false if its link takes no more.
    fn send_missed(&mut self, to: Node, missed: &Undelivered) -> bool {
        let load = self.shared.stores.jobs.load(&missed.jid);
        let (Ok(jid), Ok(Some(mut load))) = (Jid::new(missed.jid.as_str()), load) else { return true };
        // Added by the job cache.
        load.remove("Minions");
        let (targets, valid_for) = (&missed.targets[..], missed.left);
        let job = PublishedJob { jid: &jid, load: &load, targets, judged_by_minions: false, valid_for };
        let Some(links) = self.links.clone() else { return false };
        let ids = (missed.targets.clone(), Vec::new());
        let Some(message) = message(&self.shared.stores.rt, self.model.node(), Some(links.steady()), &job, ids) else {
            return true;
        };
        debug!("the master {} is sent the job {jid}, which it may have missed", self.members.called(to));
        let message = Message::Job(message);
        let bytes = message.encode();
        if bytes.len() > MAX_MESSAGE {
            self.tell(to, &message);
            return true;
        }
        let sent = links.send(To::Member(to), Lane::Talk, bytes) == SendResult::Queued;
        if !sent {
            self.shared.open_jobs.not_forwarded(&jid, to, missed.targets.iter().map(String::as_str));
        }
        sent
    }

    /// Returns how long ago a job was sent, as far as that is known. Wall clocks count only if the other member runs an earlier
    /// version: they may have jumped since their difference was known.
    fn age_of(&self, from: Node, job: &Job) -> Option<Duration> {
        if let Some(sent) = job.sent {
            return self.links.as_ref()?.age(from, sent);
        }
        let status = self.links.as_ref()?.status().into_iter().find(|link| link.node == Some(from))?;
        Some(age(job.load.stamp.time >> 16, status.clock?, self.now().wall))
    }
}

/// Returns how long ago something was sent at a time of a clock that is ahead by `ahead`. All are milliseconds.
fn age(sent: u64, ahead: i64, now: u64) -> Duration {
    let sent = i128::from(sent) - i128::from(ahead);
    Duration::from_millis(u64::try_from(i128::from(now) - sent).unwrap_or_default())
}

/// Returns whether a job must not be published any more. A member that stood still for a while reads it late.
fn is_late(age: Duration, valid_for: u64) -> bool {
    age > Duration::from_millis(valid_for).max(ON_THE_WAY)
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use value::{list, map};

    use super::*;

    const JID: &str = "20240229131415678901";

    fn now() -> SystemTime {
        // 2024-03-01.
        UNIX_EPOCH + Duration::from_secs(1_709_251_200)
    }

    fn job(load: Map) -> Job {
        let stamp = Stamp { time: 1, node: Node([1; 8]) };
        let content = Content::Job { load: pack(&load.into(), Packing::Bin).into(), nocache: false };
        let load = Record::new(Key::new(JID).unwrap(), stamp, content);
        let (yours, rest) = (vec!["web1".to_owned()], vec!["web2".to_owned()]);
        Job { load, yours, rest, valid_for: 30_000, user: "fred".into(), origin: Node([1; 8]), sent: None }
    }

    fn load() -> Map {
        map! { "jid" => JID, "fun" => "test.ping", "arg" => list![], "tgt" => "*", "tgt_type" => "glob", "user" => "fred" }
    }

    #[test]
    fn a_job_is_published_to_those_it_names_for_as_long_as_it_says() {
        let job = check(&job(load()), now()).unwrap();
        assert_eq!(
            (job.targets, job.hold, job.left),
            (vec!["web1".into(), "web2".into()], None, Duration::from_secs(30))
        );
        let held = Map::from_iter([("kwargs", Value::from(map! { "job_hold" => 60 }))]);
        let mut with = load();
        with.update(held);
        let mut long = self::job(with);
        long.valid_for = 3_600_000;
        assert_eq!(check(&long, now()).unwrap().hold, Some(Duration::from_secs(3_600)));
        let long = Job { valid_for: u64::MAX, ..self::job(load()) };
        assert_eq!(check(&long, now()).unwrap().left, LONGEST_GRACE, "minions forget which jobs they ran");
    }

    #[test]
    fn what_no_client_could_publish_is_refused() {
        let refused = |job: Job| check(&job, now()).err().unwrap_or_else(|| panic!("it is taken"));
        let without = |name: &str| {
            let mut load = load();
            load.remove(name);
            refused(job(load))
        };
        assert!(without("fun").contains("names no function") && without("tgt").contains("target"));
        assert!(without("jid").contains("another job"));
        let early = check(&job(load()), UNIX_EPOCH).err().unwrap();
        assert!(early.contains("future"));
        let mut bad = job(load());
        bad.rest.push("../web".into());
        assert!(refused(bad).contains("no minion"));
        let mut broken = job(load());
        let content = Content::Job { load: Bytes::from_static(b"\xdf\xff\xff\xff\xff"), nocache: false };
        broken.load = Record::new(broken.load.key, broken.load.stamp, content);
        assert!(refused(broken).contains("cannot be read"));
    }

    #[test]
    fn what_was_sent_long_ago_is_not_published() {
        let late = |sent, ahead, now, valid_for| is_late(age(sent, ahead, now), valid_for);
        assert!(!late(100_000, 0, 129_000, 30_000) && late(100_000, 0, 131_000, 30_000));
        // The clock of the sender is an hour ahead, or behind.
        assert!(!late(3_700_000, 3_600_000, 129_000, 30_000) && late(3_700_000, 3_600_000, 131_000, 30_000));
        assert!(!late(100_000, -3_600_000, 3_729_000, 30_000));
        assert!(!late(100_000, 0, 104_000, 0), "a job without grace is valid on its way");
        assert_eq!(age(u64::MAX, i64::MIN, 0), Duration::ZERO, "no clock is too wrong");
    }

    #[test]
    fn what_waits_is_bounded() {
        let (inbox, mut waiting) = Inbox::new();
        let big = || {
            let mut one = job(load());
            one.rest = vec!["x".repeat(100); 300_000];
            one
        };
        assert!(inbox.put(Node([1; 8]), big()));
        assert!(!inbox.put(Node([1; 8]), big()), "together they are too large");
        assert!((1..MOST_WAITING).all(|_| inbox.put(Node([1; 8]), job(load()))));
        assert!(!inbox.put(Node([1; 8]), job(load())), "the queue is full");
        assert!(waiting.try_recv().is_ok());
    }
}
