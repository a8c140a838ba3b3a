//! The jobs that may still be delivered: the ledger, combined with clock and disk.

mod held;
pub mod ledger;
mod order;
mod publication;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use share::Node;
use targeting::TargetType;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::info;
use value::Map;
use wire::msgpack::{Packing, pack};
use wire::{Jid, MinionId};

use crate::Stores;
use held::{HeldFiles, HeldJob, Journal};
use ledger::{Full, Ledger, Limits, NewJob, Offer, Progress, Report, Undelivered};

pub use order::PublicationOrder;
pub use publication::{Target, field, publication};

/// The jobs that may still be delivered.
pub struct OpenJobs {
    ledger: Mutex<Ledger>,
    files: HeldFiles,
    journal: Journal,
    grace: Duration,
    start: Instant,
    changed: Notify,
}

/// The longest grace period. Minions remember for at least ten minutes which jobs they ran, so a job that is offered
/// later might run twice.
pub const LONGEST_GRACE: Duration = Duration::from_secs(600);

/// A job just before its publication.
pub struct Opening<'a> {
    /// Its id.
    pub jid: &'a Jid,
    /// The publication.
    pub publication: &'a Map,
    /// The minions that are expected to answer.
    pub targets: &'a [String],
    /// The kind of target.
    pub kind: Option<TargetType>,
    /// How long it is to be held.
    pub hold: Option<Duration>,
    /// How long it is valid, if another master that published it says so.
    pub left: Option<Duration>,
    /// The job cache stores it.
    pub kept: bool,
}

/// Why a job cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum CannotHold {
    /// There is no room.
    #[error(transparent)]
    Full(#[from] Full),
    /// The file cannot be written.
    #[error("the master could not write the held job: {0}")]
    Disk(#[from] store::Error),
}

impl OpenJobs {
    /// Creates an empty list.
    pub fn new(config: &config::Master) -> Self {
        let cachedir = &config.paths.cachedir;
        OpenJobs {
            ledger: Mutex::new(Ledger::new(Limits::default())),
            files: HeldFiles::new(cachedir),
            journal: Journal::new(cachedir),
            grace: config.jobs.job_grace.min(LONGEST_GRACE),
            start: Instant::now(),
            changed: Notify::new(),
        }
    }

    /// Restores the jobs of the previous master process. Reads files.
    pub fn restore(&self, stores: &Stores) {
        let now = stores.rt.now();
        for job in self.files.all() {
            match job.until.duration_since(now) {
                Ok(left) => {
                    info!("the job {} is held for {} s more", job.jid, left.as_secs());
                    self.take_up(stores, &job, left, true);
                }
                Err(_) => self.files.remove(&job.jid),
            }
        }
        for (jid, until) in self.journal.read(now) {
            let Ok(Some(mut load)) = stores.jobs.load(jid.as_str()) else { continue };
            load.remove("Minions");
            let kind = Target::of(&load).kind;
            let targets = stores.jobs.minions(jid.as_str()).unwrap_or_default();
            let publication = Arc::new(publication(stores, &load));
            let job = HeldJob { jid, publication, targets, judged_by_minions: judged_by_minions(kind), until };
            // The clock may have been set back.
            let left = until.duration_since(now).unwrap_or_default().min(self.grace);
            self.take_up(stores, &job, left, false);
        }
    }

    fn take_up(&self, stores: &Stores, job: &HeldJob, left: Duration, held: bool) {
        let new = NewJob {
            jid: job.jid.to_string(),
            publication: job.publication.clone(),
            size: size(&job.publication),
            targets: job.targets.clone(),
            judged_by_minions: job.judged_by_minions,
            held,
            until: self.now() + left,
        };
        if let Err(full) = self.ledger().enter(new) {
            tracing::error!("the job {} was held, but {full}", job.jid);
            return;
        }
        // Minions that returned before the restart must not get it again.
        for (id, _) in stores.jobs.returns(job.jid.as_str()).unwrap_or_default() {
            self.advance(job.jid.as_str(), &id, Progress::Returned);
        }
    }

    /// Returns for how long a job is valid that is not held.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Enters a job just before its publication.
    ///
    /// # Errors
    /// If it is to be held and cannot be.
    pub fn enter(&self, job: &Opening<'_>, now: SystemTime) -> Result<(), CannotHold> {
        let publication = Arc::new(job.publication.clone());
        let left = job.hold.or(job.left).unwrap_or(self.grace);
        let judged_by_minions = judged_by_minions(job.kind);
        self.ledger().enter(NewJob {
            jid: job.jid.to_string(),
            size: size(&publication),
            publication: publication.clone(),
            targets: job.targets.to_vec(),
            judged_by_minions,
            held: job.hold.is_some(),
            until: self.now() + left,
        })?;
        let until = now + left;
        if job.hold.is_some() {
            // Those of earlier parts as well: the file is replaced for each part of a batch.
            let (jid, targets) = (job.jid.clone(), self.ledger().targets(job.jid.as_str()));
            let file = HeldJob { jid, publication, targets, judged_by_minions, until };
            if let Err(error) = self.files.write(&file) {
                // Not held after all: the client gets an error, and no minion gets the job.
                self.ledger().end(job.jid.as_str());
                return Err(error.into());
            }
        } else if job.kept && !left.is_zero() {
            self.journal.note(job.jid.as_str(), until, now);
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Returns the jobs that a minion missed and may still run. The jobs it already knows count as received.
    pub fn missed(&self, id: &MinionId, known: &HashSet<&str>) -> Vec<Offer> {
        let now = self.now();
        self.ledger().missed(id.as_str(), known, now)
    }

    /// Notes that another master is told to deliver a job to these targets.
    pub fn forwarded<'a>(&self, jid: &Jid, to: Node, ids: impl IntoIterator<Item = &'a str>) {
        self.ledger().forwarded(jid.as_str(), to, ids);
    }

    /// Notes that another master could not be told to deliver a job to these targets after all.
    pub fn not_forwarded<'a>(&self, jid: &Jid, to: Node, ids: impl IntoIterator<Item = &'a str>) {
        self.ledger().not_forwarded(jid.as_str(), to, ids);
    }

    /// Notes that another master is not linked any more: what it was told may not have arrived.
    pub fn lose_member(&self, member: Node) {
        self.ledger().lose_member(member);
    }

    /// Returns those minions for which `wanted` is true and that have not confirmed some job that may still be delivered.
    pub fn awaited(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        self.ledger().awaited().filter(|id| wanted(id)).map(str::to_owned).collect()
    }

    /// Returns the valid jobs that another master must be told to deliver to targets that are connected to it, `there`. These
    /// targets count as sent to by it. `stays` returns whether a target is still connected to the master that delivers its jobs, or
    /// to this one if that is `None`.
    pub fn undelivered(
        &self,
        there: &BTreeSet<String>,
        to: Node,
        stays: impl Fn(&str, Option<Node>) -> bool,
    ) -> Vec<Undelivered> {
        let now = self.now();
        self.ledger().undelivered(there, to, stays, now)
    }

    /// Returns those of a job's targets to which it was not sent yet; `None` if the job is not here.
    pub fn lacking(&self, jid: &Jid, targets: &[String]) -> Option<Vec<String>> {
        self.ledger().lacking(jid.as_str(), targets)
    }

    /// Notes the progress of a target. Returns whether the job may still be started.
    pub fn advance(&self, jid: &str, id: &str, progress: Progress) -> bool {
        let now = self.now();
        self.ledger().advance(jid, id, progress, now)
    }

    /// Notes a return that is on disk. Returns whether a held job ends with it.
    pub fn returned(&self, jid: &str, id: &str) -> bool {
        let now = self.now();
        let mut ledger = self.ledger();
        ledger.advance(jid, id, Progress::Returned, now);
        ledger.is_complete(jid)
    }

    /// Ends a held job. Returns whether it was held.
    pub fn end(&self, jid: &Jid) -> bool {
        let held = self.ledger().end(jid.as_str());
        if held {
            self.files.remove(jid);
        }
        held
    }

    /// Ends the jobs whose time has passed, and removes their files. Returns the held ones among them.
    pub fn expire(&self) -> Vec<Jid> {
        let now = self.now();
        let ended = self.ledger().expire(now);
        let ended: Vec<Jid> = ended.into_iter().filter_map(|jid| Jid::new(jid).ok()).collect();
        ended.iter().for_each(|jid| self.files.remove(jid));
        ended
    }

    /// Returns when [`OpenJobs::expire`] must be called next.
    pub fn next_end(&self) -> Option<Instant> {
        self.ledger().next_end().map(|end| self.start + end)
    }

    /// Waits until a job is entered.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns whether a job was published since [`OpenJobs::sent_to`].
    pub fn has_unseen(&self) -> bool {
        self.ledger().has_unseen()
    }

    /// Notes which minions were connected when the latest jobs were published.
    pub fn sent_to(&self, connected: &[MinionId]) {
        self.ledger().sent_to(&connected.iter().map(MinionId::as_str).collect());
    }

    /// Notes that connections lost a job to full queues.
    pub fn lose(&self, connections: &[u64], jid: &str) {
        self.ledger().lose(connections, jid);
    }

    /// Returns the jobs that a connection lost and may still get.
    pub fn lost_by(&self, connection: u64) -> Vec<Offer> {
        let now = self.now();
        self.ledger().lost_by(connection, now)
    }

    /// Forgets the losses of connections that are closed.
    pub fn forget_connections(&self, is_there: impl Fn(u64) -> bool) {
        self.ledger().forget_connections(is_there);
    }

    /// Returns the state of a job.
    pub fn job(&self, jid: &str) -> Option<Report> {
        let now = self.now();
        self.ledger().job(jid, now)
    }

    /// Returns the held jobs with their publications.
    pub fn held(&self) -> Vec<(Report, Arc<Map>)> {
        let now = self.now();
        let ledger = self.ledger();
        let held = ledger.held(now).into_iter();
        held.filter_map(|report| ledger.publication(&report.jid).map(|publication| (report, publication))).collect()
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // After a panic in one change the others are as true as before.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether only minions can decide if they are targeted. The master's copy of a minion's grains and pillar may
/// be old, but it knows all ids.
pub fn judged_by_minions(kind: Option<TargetType>) -> bool {
    !matches!(kind, Some(TargetType::Glob | TargetType::List | TargetType::Pcre))
}

fn size(publication: &Map) -> usize {
    pack(&publication.clone().into(), Packing::Wire).len()
}
