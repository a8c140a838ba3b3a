//! Decides which publications are new jobs for this minion, and starts them.

use std::sync::Arc;

use targeting::{Compiled, Facts, TargetType};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use value::{Map, Value};

use super::receipts::Receipts;
use super::{Publication, RecentJids, ReturnReceiver, SameJidJobs, Seen, Terms};
use crate::machine::Machine;
use crate::masters::{Link, Masters};
use crate::returns::Returns;

/// Receives and runs published jobs.
pub struct Jobs {
    /// The machine they run on.
    pub machine: Arc<Machine>,
    /// The masters they come from.
    pub masters: Arc<Masters>,
    /// Takes the returns.
    pub(super) returns: Arc<Returns>,
    /// Reports of held jobs to masters.
    pub(super) receipts: Arc<Receipts>,
    /// Limits the running jobs to `process_count_max`.
    pub(super) room: Option<Arc<Semaphore>>,
    recent: RecentJids,
    same_jid: SameJidJobs,
}

impl Jobs {
    /// Creates the object before any job has arrived.
    pub fn new(masters: Arc<Masters>, returns: Arc<Returns>) -> Arc<Self> {
        let machine = masters.machine.clone();
        let config = &machine.config.jobs;
        let most = usize::try_from(config.process_count_max).ok().filter(|most| *most > 0);
        let serials = machine.identity.as_ref().map(|identity| identity.serials.clone()).unwrap_or_default();
        Arc::new(Jobs {
            receipts: Arc::default(),
            room: most.map(|most| Arc::new(Semaphore::new(most))),
            recent: RecentJids::new(config.minion_jid_queue_hwm, serials),
            same_jid: SameJidJobs::default(),
            returns,
            masters,
            machine,
        })
    }

    /// Stores the ids of jobs on disk, so that none runs again after a restart.
    pub fn remember(&self) {
        let path = self.machine.config.paths.cachedir.join("saltern/jids");
        if let Err(reason) = self.recent.open(&path, self.machine.rt.now()) {
            error!("a job may run again after a restart: {reason}");
        }
    }

    /// Returns the latest job ids that masters may offer again.
    pub fn known_jids(&self, most: usize) -> Vec<String> {
        self.recent.young(most, self.machine.rt.now())
    }

    /// Starts the job of a publication, if it targets this minion and is new.
    pub fn start(self: &Arc<Self>, link: &Arc<Link>, mut load: Map) {
        let terms = Terms::take(&mut load);
        self.start_on(link, load, terms);
    }

    /// Does the same with conditions. Returns whether the job was started or its return is shared.
    pub fn start_on(self: &Arc<Self>, link: &Arc<Link>, load: Map, terms: Terms) -> bool {
        let job = match Publication::new(load) {
            Ok(job) => job,
            Err(reason) => {
                warn!(master = %link.settings.address, "a publication is ignored: {reason}");
                return false;
            }
        };
        // A master that does not filter sends everything to everyone.
        if !self.is_meant(link, &job) {
            return false;
        }
        let return_sender = match self.arrive(link, &job, &terms) {
            Seen::Another(return_sender) => return_sender,
            Seen::Copy => return false,
            Seen::Twin(returned) => {
                self.share(link, job, returned);
                return true;
            }
        };
        let user = job.load().get_str("user").unwrap_or_default();
        info!("User {user} Executing command {} with jid {}", shown_fun(&job), job.jid());
        let (jobs, link) = (self.clone(), link.clone());
        // Noted before the task starts, so that the link cannot seem idle in between.
        let unfinished = link.begin_job();
        self.machine.spawn(async move {
            if !terms.receipt || jobs.receipts.confirm(&jobs.machine, &link, job.jid()).await {
                jobs.run(link, job, terms, return_sender).await;
            } else {
                info!("The job {} is not wanted any more and is not begun", job.jid());
            }
            drop(unfinished);
        });
        true
    }

    /// Compares a job with those that arrived before.
    fn arrive(&self, link: &Link, job: &Publication, terms: &Terms) -> Seen {
        let master = link.address();
        if self.recent.note(job.jid(), terms.left(), self.machine.rt.now(), !terms.asked) {
            return Seen::Another(self.same_jid.first(job, &master, Instant::now()));
        }
        // The answer to our own request is no publication of another master.
        if terms.asked { Seen::Copy } else { self.same_jid.again(job, &master, Instant::now()) }
    }

    /// Sends a master the return of a job that another master published under the same id.
    fn share(self: &Arc<Self>, link: &Arc<Link>, job: Publication, mut returned: ReturnReceiver) {
        info!("The job {} came from two masters; it runs once and both get its return", job.jid());
        let (jobs, link) = (self.clone(), link.clone());
        let unfinished = link.begin_job();
        self.machine.spawn(async move {
            let load = returned.wait_for(Option::is_some).await.ok().and_then(|load| load.clone());
            match load {
                Some(load) if jobs.machine.config.login.pub_ret => {
                    jobs.returns.post(&jobs.machine.rt, &link, job.load(), load.as_ref().clone()).await;
                }
                _ => debug!("the job {} has no return to share", job.jid()),
            }
            drop(unfinished);
        });
    }

    fn is_meant(&self, link: &Link, job: &Publication) -> bool {
        let Ok(kind) = TargetType::from_name(job.tgt_type()) else {
            debug!("a publication with the unknown target type {:?} is ignored", job.tgt_type());
            return false;
        };
        let opts = link.opts();
        let nodegroups = opts.get("nodegroups").and_then(Value::as_map);
        let context = targeting::Context { delimiter: job.delimiter(), nodegroups };
        match Compiled::new(job.tgt(), kind, &context) {
            Ok(target) => {
                let (grains, pillar) = (self.machine.grains(), link.pillar());
                target.matches(&Facts { id: self.machine.id.as_str(), grains: &grains, pillar: &pillar })
            }
            Err(reason) => {
                debug!("a publication with an unreadable target is ignored: {reason}");
                false
            }
        }
    }
}

fn shown_fun(job: &Publication) -> String {
    job.load().get("fun").map(Value::to_string).unwrap_or_default()
}
