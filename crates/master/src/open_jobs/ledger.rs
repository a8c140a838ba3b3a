//! The jobs that may still be delivered, and the progress of each with each of its targets.
//!
//! It is pure: times (since any fixed moment) go in, decisions come out. A job is *valid* for `job_grace` after its
//! publication, a held job until the hold ends; a minion that reconnects in this time gets it. The progress of its
//! targets is remembered longer, while there is room.

mod elsewhere;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use share::Node;
use value::Map;

pub use elsewhere::Undelivered;

/// The progress of a job with one target. Later variants are further progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The minion was not connected.
    Unreachable,
    /// It was sent to the minion.
    Sent,
    /// The minion has confirmed it.
    Received,
    /// The minion has started it.
    Started,
    /// The minion has returned.
    Returned,
}

impl Progress {
    /// Returns the word that operators see.
    pub fn word(self) -> &'static str {
        match self {
            Progress::Unreachable => "unreachable",
            Progress::Sent => "sent",
            Progress::Received => "received",
            Progress::Started => "started",
            Progress::Returned => "returned",
        }
    }
}

/// The limits of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Size of jobs that are not held, with their targets, in bytes. Beyond it the oldest are dropped.
    pub plain: usize,
    /// Size of held jobs, with their targets, in bytes. Further ones are refused.
    pub held: usize,
    /// Number of held jobs.
    pub held_jobs: usize,
    /// How many missed jobs are sent to a minion at a time.
    pub offers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { plain: 64 << 20, held: 64 << 20, held_jobs: 10_000, offers: 200 }
    }
}

/// A published job.
pub struct NewJob {
    /// Its id.
    pub jid: String,
    /// The publication.
    pub publication: Arc<Map>,
    /// Its approximate size in bytes.
    pub size: usize,
    /// The minions that are expected to answer.
    pub targets: Vec<String>,
    /// Only minions can decide whether they are targeted, so there may be others than the expected ones.
    pub judged_by_minions: bool,
    /// It is to be held.
    pub held: bool,
    /// When its validity ends.
    pub until: Duration,
}

/// There is no room for a held job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the master already holds {jobs} jobs of {bytes} bytes; no more can be held until some of them end")]
pub struct Full {
    /// Held jobs.
    pub jobs: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A job that a minion may still run.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The publication.
    pub publication: Arc<Map>,
    /// For how much longer it may be started.
    pub left: Duration,
    /// The minion must confirm it first.
    pub held: bool,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its id.
    pub jid: String,
    /// For how much longer it is valid; `None` if it has ended.
    pub left: Option<Duration>,
    /// It is held.
    pub held: bool,
    /// The progress with each target, in the order of ids.
    pub targets: Vec<(String, Progress)>,
}

#[derive(Debug)]
struct Entry {
    /// `None` once it is no longer valid.
    publication: Option<Arc<Map>>,
    size: usize,
    held: bool,
    judged_by_minions: bool,
    until: Duration,
    /// Sorted by id.
    targets: Vec<Target>,
    unreturned: usize,
}

#[derive(Debug)]
struct Target {
    id: Box<str>,
    progress: Progress,
    /// The other master that was told to deliver the job to it; `None` if this one does.
    via: Option<Node>,
}

impl Target {
    fn new(id: String) -> Target {
        Target { id: id.into_boxed_str(), progress: Progress::Unreachable, via: None }
    }

    /// Returns whether the job may have to be sent to it once more.
    fn is_open(&self) -> bool {
        self.progress < Progress::Received
    }
}

/// The ledger of jobs.
#[derive(Debug, Default)]
pub struct Ledger {
    limits: Limits,
    /// By id, which is the order of publication.
    entries: BTreeMap<String, Entry>,
    ends: BTreeSet<(Duration, String)>,
    plain: usize,
    held: (usize, usize),
    /// Jobs whose recipients were not noted since the publication.
    unseen: BTreeSet<String>,
    /// Jobs that connections lost to full queues.
    lost: HashMap<u64, Vec<String>>,
    /// In how many jobs that may still be delivered a target has neither confirmed the job nor returned.
    unconfirmed: HashMap<Box<str>, usize>,
}

/// The memory of a target in addition to its id, in bytes.
const PER_TARGET: usize = 48;

fn size_of(targets: &[Target]) -> usize {
    targets.iter().map(|target| target.id.len() + PER_TARGET).sum()
}

impl Ledger {
    /// Creates an empty ledger with these limits.
    pub fn new(limits: Limits) -> Self {
        Ledger { limits, ..Ledger::default() }
    }

    /// Enters a job.
    ///
    /// # Errors
    /// If it is to be held and there is no room.
    pub fn enter(&mut self, job: NewJob) -> Result<(), Full> {
        let mut targets: Vec<Target> = job.targets.into_iter().map(Target::new).collect();
        let size = job.size + size_of(&targets);
        // Refused, not made room for: whoever holds a job relies on it.
        if job.held && (self.held.0 >= self.limits.held_jobs || self.held.1 + size > self.limits.held) {
            return Err(Full { jobs: self.held.0, bytes: self.held.1 });
        }
        // The parts of a batch share their id.
        if let Some(before) = self.entries.remove(&job.jid) {
            self.account(&before, false);
            stop_waiting(&mut self.unconfirmed, &before);
            self.ends.remove(&(before.until, job.jid.clone()));
            targets.extend(before.targets);
        }
        // Of the same target the further one stays.
        targets.sort_unstable_by(|a, b| a.id.cmp(&b.id).then(b.progress.cmp(&a.progress)));
        targets.dedup_by(|a, b| a.id == b.id);
        self.unseen.insert(job.jid.clone());
        let size = job.size + size_of(&targets);
        targets.iter().filter(|target| target.is_open()).for_each(|target| self.wait_for(&target.id));
        let unreturned = targets.iter().filter(|target| target.progress < Progress::Returned).count();
        let (held, until, judged_by_minions) = (job.held, job.until, job.judged_by_minions);
        let entry =
            Entry { publication: Some(job.publication), size, held, judged_by_minions, until, targets, unreturned };
        self.account(&entry, true);
        self.ends.insert((until, job.jid.clone()));
        self.entries.insert(job.jid, entry);
        self.make_room();
        Ok(())
    }

    fn wait_for(&mut self, id: &str) {
        match self.unconfirmed.get_mut(id) {
            Some(count) => *count += 1,
            None => drop(self.unconfirmed.insert(id.into(), 1)),
        }
    }

    fn account(&mut self, entry: &Entry, add: bool) {
        let change = |value: &mut usize, by: usize| *value = if add { *value + by } else { value.saturating_sub(by) };
        if entry.held {
            change(&mut self.held.0, 1);
            change(&mut self.held.1, entry.size);
        } else {
            change(&mut self.plain, entry.size);
        }
    }

    /// Forgets the oldest jobs that are not held; first those that are no longer valid.
    fn make_room(&mut self) {
        while self.plain > self.limits.plain {
            let mut plain = self.entries.iter().filter(|(_, entry)| !entry.held);
            let over = plain.clone().find(|(_, entry)| entry.publication.is_none()).or_else(|| plain.next());
            let Some(jid) = over.map(|(jid, _)| jid.clone()) else { return };
            self.forget(&jid);
        }
    }

    fn forget(&mut self, jid: &str) -> Option<Entry> {
        let entry = self.entries.remove(jid)?;
        self.account(&entry, false);
        stop_waiting(&mut self.unconfirmed, &entry);
        self.ends.remove(&(entry.until, jid.to_owned()));
        self.unseen.remove(jid);
        Some(entry)
    }

    /// Returns the jobs that a minion missed and may still run. The jobs it already knows count as received.
    pub fn missed(&mut self, id: &str, known: &HashSet<&str>, now: Duration) -> Vec<Offer> {
        let mut offers = Vec::new();
        // The soonest to end come first here, so all valid ones have to be looked at to keep the order of publishing.
        let valid: BTreeSet<&String> = self.ends.iter().filter(|(until, _)| *until > now).map(|(_, jid)| jid).collect();
        for jid in valid {
            let Some(entry) = self.entries.get_mut(jid) else { continue };
            let place = entry.place(id);
            if known.contains(jid.as_str()) {
                if let Some(place) = place {
                    entry.advance(place, Progress::Received, &mut self.unconfirmed);
                }
                continue;
            }
            let wanted = match place {
                Some(place) => entry.targets[place].is_open(),
                // Not listed, and yet it may match: its grains here may be old.
                None => entry.judged_by_minions,
            };
            let Some(publication) = entry.publication.clone().filter(|_| wanted && offers.len() < self.limits.offers)
            else {
                continue;
            };
            if let Some(place) = place {
                entry.advance(place, Progress::Sent, &mut self.unconfirmed);
                entry.targets[place].via = None;
            }
            offers.push(Offer { publication, left: entry.until - now, held: entry.held });
        }
        offers
    }

    /// Notes the progress of a target. Returns whether the job is valid, so that it may be started.
    pub fn advance(&mut self, jid: &str, id: &str, progress: Progress, now: Duration) -> bool {
        let Some(entry) = self.entries.get_mut(jid) else { return false };
        if let Some(place) = entry.place(id) {
            entry.advance(place, progress, &mut self.unconfirmed);
        }
        let valid = entry.publication.is_some() && entry.until > now;
        let freed = entry.forget_returned();
        self.plain = self.plain.saturating_sub(freed);
        valid
    }

    /// Returns whether a held job has all its returns.
    pub fn is_complete(&self, jid: &str) -> bool {
        // Otherwise nobody knows how many minions will return.
        self.entries.get(jid).is_some_and(|entry| entry.held && !entry.judged_by_minions && entry.unreturned == 0)
    }

    /// Returns whether there are jobs whose recipients were not noted.
    pub fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Notes that the jobs published since the last call were sent to these connected minions.
    pub fn sent_to(&mut self, connected: &HashSet<&str>) {
        for jid in std::mem::take(&mut self.unseen) {
            let Some(entry) = self.entries.get_mut(&jid) else { continue };
            for place in 0..entry.targets.len() {
                let target = &entry.targets[place];
                if target.progress < Progress::Sent && connected.contains(&*target.id) {
                    entry.advance(place, Progress::Sent, &mut self.unconfirmed);
                }
            }
        }
    }

    /// Notes that these connections lost a job to full queues.
    pub fn lose(&mut self, connections: &[u64], jid: &str) {
        for number in connections {
            self.lost.entry(*number).or_default().push(jid.to_owned());
        }
    }

    /// Returns the valid jobs that a connection lost, and forgets the loss.
    pub fn lost_by(&mut self, connection: u64, now: Duration) -> Vec<Offer> {
        // A set restores the order of publication, and a job is sent once.
        let lost: BTreeSet<String> = self.lost.remove(&connection).unwrap_or_default().into_iter().collect();
        let offers = lost.iter().filter_map(|jid| {
            let entry = self.entries.get(jid).filter(|entry| entry.until > now)?;
            let publication = entry.publication.clone()?;
            Some(Offer { publication, left: entry.until - now, held: entry.held })
        });
        offers.collect()
    }

    /// Forgets the losses of connections that are closed.
    pub fn forget_connections(&mut self, is_there: impl Fn(u64) -> bool) {
        self.lost.retain(|number, _| is_there(*number));
    }

    /// Ends the jobs whose time has passed. Returns those that were held and had not ended before.
    pub fn expire(&mut self, now: Duration) -> Vec<String> {
        let mut ended = Vec::new();
        while let Some((until, jid)) = self.ends.first().cloned() {
            if until > now {
                break;
            }
            ended.extend(self.end(&jid).then_some(jid));
        }
        ended
    }

    /// Ends a job early. Returns whether it was held.
    pub fn end(&mut self, jid: &str) -> bool {
        let Some(mut entry) = self.forget(jid) else { return false };
        let was_held = entry.held && entry.publication.is_some();
        // What became of its targets stays, among the jobs that are not held.
        entry.publication = None;
        entry.size = size_of(&entry.targets);
        let held = std::mem::replace(&mut entry.held, false);
        self.account(&entry, true);
        self.entries.insert(jid.to_owned(), entry);
        self.make_room();
        was_held && held
    }

    /// Returns when [`Ledger::expire`] must be called next.
    pub fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Returns the state of a job.
    pub fn job(&self, jid: &str, now: Duration) -> Option<Report> {
        let entry = self.entries.get(jid)?;
        let left = entry.publication.as_ref().and_then(|_| entry.until.checked_sub(now)).filter(|left| !left.is_zero());
        let targets = entry.targets.iter().map(|target| (target.id.to_string(), target.progress)).collect();
        Some(Report { jid: jid.to_owned(), left, held: entry.held, targets })
    }

    /// Returns the held jobs, oldest first.
    pub fn held(&self, now: Duration) -> Vec<Report> {
        self.entries.iter().filter(|(_, entry)| entry.held).filter_map(|(jid, _)| self.job(jid, now)).collect()
    }

    /// Returns the publication of a valid job.
    pub fn publication(&self, jid: &str) -> Option<Arc<Map>> {
        self.entries.get(jid)?.publication.clone()
    }
}

impl Entry {
    /// Returns where a target is in the list.
    fn place(&self, id: &str) -> Option<usize> {
        self.targets.binary_search_by(|known| (*known.id).cmp(id)).ok()
    }

    /// Forgets the targets of jobs that are not held and have all their returns, which are in the job cache. Returns
    /// the number of bytes that this frees.
    fn forget_returned(&mut self) -> usize {
        if self.held || self.judged_by_minions || self.unreturned > 0 {
            return 0;
        }
        let freed = size_of(&self.targets);
        self.targets = Vec::new();
        self.size = self.size.saturating_sub(freed);
        freed
    }

    fn advance(&mut self, place: usize, progress: Progress, unconfirmed: &mut HashMap<Box<str>, usize>) {
        let target = &mut self.targets[place];
        // Messages overtake each other, and a late one must not undo progress.
        if target.progress < progress {
            if target.is_open() && progress >= Progress::Received && self.publication.is_some() {
                confirmed(unconfirmed, &target.id);
            }
            target.progress = progress;
            if progress == Progress::Returned {
                self.unreturned -= 1;
            }
        }
    }
}

fn confirmed(unconfirmed: &mut HashMap<Box<str>, usize>, id: &str) {
    if let Some(count) = unconfirmed.get_mut(id) {
        *count -= 1;
        if *count == 0 {
            unconfirmed.remove(id);
        }
    }
}

/// Takes note that a job is not delivered to anybody any more.
fn stop_waiting(unconfirmed: &mut HashMap<Box<str>, usize>, entry: &Entry) {
    if entry.publication.is_some() {
        entry.targets.iter().filter(|target| target.is_open()).for_each(|target| confirmed(unconfirmed, &target.id));
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    pub const NODES: [Node; 2] = [Node([1; 8]), Node([2; 8])];

    pub fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    pub fn job(jid: &str, targets: &[&str], until: u64) -> NewJob {
        NewJob {
            jid: jid.to_owned(),
            publication: Arc::new(map! { "jid" => jid }),
            size: 100,
            targets: targets.iter().map(|id| (*id).to_owned()).collect(),
            judged_by_minions: false,
            held: false,
            until: at(until),
        }
    }

    pub fn held(jid: &str, targets: &[&str], until: u64) -> NewJob {
        NewJob { held: true, ..job(jid, targets, until) }
    }

    fn offered(ledger: &mut Ledger, id: &str, known: &[&str], now: u64) -> Vec<(String, u64)> {
        let offers = ledger.missed(id, &known.iter().copied().collect(), at(now));
        let short = |offer: Offer| (offer.publication.get_str("jid").unwrap().to_owned(), offer.left.as_secs());
        offers.into_iter().map(short).collect()
    }

    pub fn states(ledger: &Ledger, jid: &str) -> Vec<(String, &'static str)> {
        let report = ledger.job(jid, at(0)).unwrap();
        report.targets.into_iter().map(|(id, progress)| (id, progress.word())).collect()
    }

    #[test]
    fn a_minion_gets_what_it_missed_in_order_until_it_is_not_valid() {
        let mut ledger = Ledger::default();
        ledger.enter(job("2", &["a", "b"], 30)).unwrap();
        ledger.enter(held("1", &["b"], 600)).unwrap();
        ledger.enter(job("3", &["a"], 20)).unwrap();
        assert_eq!(offered(&mut ledger, "b", &[], 10), [("1".into(), 590), ("2".into(), 20)]);
        assert_eq!(offered(&mut ledger, "a", &["2"], 10), [("3".into(), 10)]);
        assert_eq!(states(&ledger, "2"), [("a".into(), "received"), ("b".into(), "sent")]);
        assert_eq!(offered(&mut ledger, "a", &[], 10), [("3".into(), 10)], "it has said that it knows the other");
        assert_eq!(offered(&mut ledger, "c", &[], 10), []);
        assert_eq!(offered(&mut ledger, "b", &[], 30), [("1".into(), 570)]);
    }

    #[test]
    fn what_has_returned_is_not_offered_again() {
        let mut ledger = Ledger::default();
        ledger.enter(held("1", &["a", "b"], 600)).unwrap();
        assert!(ledger.advance("1", "a", Progress::Returned, at(1)));
        assert_eq!(offered(&mut ledger, "a", &[], 2), []);
        assert!(!ledger.is_complete("1"));
        // A receipt may be delayed behind the return.
        assert!(ledger.advance("1", "a", Progress::Received, at(3)), "late news change nothing");
        assert_eq!(states(&ledger, "1"), [("a".into(), "returned"), ("b".into(), "unreachable")]);
        ledger.advance("1", "b", Progress::Returned, at(4));
        assert!(ledger.is_complete("1"));
        assert!(!ledger.advance("1", "b", Progress::Received, at(600)), "too late to begin");
        assert!(!ledger.advance("9", "b", Progress::Received, at(1)), "no such job");
    }

    #[test]
    fn who_is_waited_for_is_known_whatever_becomes_of_jobs() {
        let mut state = 3_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let limits = Limits { plain: 2_000, held: 2_000, held_jobs: 5, offers: 3 };
        let mut ledger = Ledger::new(limits);
        let ids = ["a", "b", "c", "d"];
        for step in 0..3_000 {
            let (jid, id) = (random(12).to_string(), ids[random(4) as usize]);
            match random(8) {
                0 | 1 => _ = ledger.enter(job(&jid, &ids[random(4) as usize..], step + random(9))),
                2 => _ = ledger.enter(held(&jid, &ids[..random(5) as usize], step + 5)),
                3 => _ = ledger.advance(&jid, id, Progress::Returned, at(step)),
                4 => ledger.sent_to(&[id].into()),
                5 => _ = ledger.undelivered(&BTreeSet::from([id.to_owned()]), NODES[0], |_, _| false, at(step)),
                6 if step % 3 == 0 => ledger.forwarded(&jid, NODES[1], [id]),
                6 if step % 3 == 1 => ledger.lose_member(NODES[step as usize % 2]),
                6 => _ = ledger.end(&jid),
                _ => _ = ledger.expire(at(step)),
            }
            let mut waiting = HashMap::new();
            for entry in ledger.entries.values().filter(|entry| entry.publication.is_some()) {
                for target in entry.targets.iter().filter(|target| target.progress < Progress::Received) {
                    *waiting.entry(target.id.clone()).or_default() += 1;
                }
            }
            assert_eq!(ledger.unconfirmed, waiting, "step {step}");
        }
    }

    #[test]
    fn a_target_only_minions_can_judge_is_offered_to_all() {
        let mut ledger = Ledger::default();
        ledger.enter(NewJob { judged_by_minions: true, ..held("1", &["a"], 600) }).unwrap();
        assert_eq!(offered(&mut ledger, "new", &[], 1).len(), 1);
        ledger.advance("1", "a", Progress::Returned, at(1));
        assert!(!ledger.is_complete("1"), "others may still come");
    }

    #[test]
    fn time_ends_jobs_and_their_states_stay() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        ledger.enter(held("2", &["a"], 60)).unwrap();
        assert_eq!(ledger.next_end(), Some(at(30)));
        assert_eq!(ledger.expire(at(30)), Vec::<String>::new());
        assert_eq!(ledger.expire(at(60)), ["2"]);
        assert_eq!(ledger.next_end(), None);
        assert_eq!(states(&ledger, "2"), [("a".into(), "unreachable")]);
        assert_eq!((ledger.held(at(60)), ledger.held), (Vec::new(), (0, 0)));
        // Otherwise the end of a held job would be announced twice.
        assert!(!ledger.end("2"), "it has ended");
        ledger.advance("1", "a", Progress::Returned, at(61));
        let late = [("a".into(), "returned"), ("b".into(), "unreachable")];
        assert_eq!(states(&ledger, "1"), late, "late returns count");
    }

    #[test]
    fn held_jobs_are_refused_when_there_is_no_room_and_others_make_room() {
        let limits = Limits { plain: 420, held_jobs: 1, ..Limits::default() };
        let mut ledger = Ledger::new(limits);
        ledger.enter(held("0", &["a"], 60)).unwrap();
        let full = ledger.enter(held("1", &["a"], 60)).unwrap_err();
        assert_eq!(full.to_string().split(';').next(), Some("the master already holds 1 jobs of 149 bytes"));
        assert!(ledger.end("0"));
        ledger.enter(held("1", &["a"], 60)).unwrap();
        for jid in ["2", "3", "4", "5"] {
            ledger.enter(job(jid, &["a"], 30)).unwrap();
        }
        let kept: Vec<&String> = ledger.entries.keys().collect();
        assert_eq!(kept, ["1", "4", "5"], "the oldest have gone, ended ones first");
        assert!(ledger.plain <= 420);
    }

    #[test]
    fn what_a_connection_lost_is_told_once() {
        let mut ledger = Ledger::default();
        for jid in ["1", "2", "3"] {
            ledger.enter(job(jid, &["a"], if jid == "2" { 5 } else { 30 })).unwrap();
            ledger.lose(&[7, 8], jid);
        }
        // A queue may lose the same job twice.
        ledger.lose(&[7], "3");
        let jids = |offers: Vec<Offer>| -> Vec<String> {
            offers.iter().map(|offer| offer.publication.get_str("jid").unwrap().to_owned()).collect()
        };
        assert_eq!(jids(ledger.lost_by(7, at(10))), ["1", "3"]);
        assert_eq!(jids(ledger.lost_by(7, at(10))), Vec::<String>::new());
        ledger.forget_connections(|number| number != 8);
        assert_eq!(ledger.lost_by(8, at(10)), []);
    }

    #[test]
    fn a_job_that_is_done_costs_little() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        ledger.enter(held("2", &["a"], 30)).unwrap();
        assert_eq!(ledger.plain, 100 + 2 * (PER_TARGET + 1));
        for id in ["a", "b"] {
            ledger.advance("1", id, Progress::Returned, at(1));
            ledger.advance("2", id, Progress::Returned, at(1));
        }
        assert_eq!((ledger.plain, states(&ledger, "1")), (100, Vec::new()));
        assert_eq!(offered(&mut ledger, "a", &[], 2), []);
        // Operators ask for the progress of held jobs, even when all have returned.
        assert_eq!(states(&ledger, "2"), [("a".into(), "returned")], "of held jobs everything is told");
        ledger.expire(at(30));
        assert_eq!(ledger.plain, PER_TARGET + 1);
    }

    #[test]
    fn parts_of_a_batch_are_one_job() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        ledger.advance("1", "a", Progress::Returned, at(1));
        ledger.enter(job("1", &["a", "c"], 40)).unwrap();
        ledger.sent_to(&["c"].into());
        assert_eq!(states(&ledger, "1"), [("a".into(), "returned"), ("b".into(), "unreachable"), ("c".into(), "sent")]);
        assert_eq!(ledger.ends.len(), 1);
    }

    #[test]
    fn who_is_connected_when_a_job_leaves_is_not_unreachable() {
        let mut ledger = Ledger::default();
        ledger.enter(job("1", &["a", "b"], 30)).unwrap();
        assert!(ledger.has_unseen());
        ledger.sent_to(&["b"].into());
        assert!(!ledger.has_unseen());
        ledger.sent_to(&["a"].into());
        assert_eq!(states(&ledger, "1"), [("a".into(), "unreachable"), ("b".into(), "sent")]);
    }
}
