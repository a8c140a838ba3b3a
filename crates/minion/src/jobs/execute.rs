//! Runs a published job, from the entry among the running jobs to the return.

use std::sync::Arc;

use exec::Job;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use value::{Map, Value, map};

use super::{APART, Jobs, LAST_PARTS, Publication, ReturnSender, Terms, return_load, run, tell_progress};
use crate::agent::context;
use crate::masters::Link;
use crate::returning;

impl Jobs {
    /// Keeps the return of a job for a short time, for other masters that published the same job.
    fn offer(&self, return_sender: ReturnSender, load: &Map) {
        if self.masters.links.len() < 2 {
            return;
        }
        return_sender.send_replace(Some(Arc::new(load.clone())));
        self.machine.rt.spawn(async move {
            tokio::time::sleep(APART).await;
            drop(return_sender);
        });
    }

    pub(super) async fn run(
        self: Arc<Self>,
        link: Arc<Link>,
        job: Publication,
        terms: Terms,
        return_sender: ReturnSender,
    ) {
        // With process_count_max further jobs wait here, first come first served.
        let room = match &self.room {
            Some(room) => room.clone().acquire_owned().await.ok(),
            None => None,
        };
        // It may have waited for a place above until nobody wants it.
        if terms.is_over() {
            warn!("Job {} has expired and is not started", job.jid());
            return;
        }
        if terms.receipt {
            self.receipts.begun(&self.machine, &link, job.jid());
        }
        let (progress, parts) = mpsc::unbounded_channel();
        let ctx = context(&self.masters, &link, Job::with_progress(job.as_functions_see_it(), progress));
        let _running = self.machine.running.enter(self.running_entry(&job), self.machine.rt.now(), ctx.job.clone());
        let _note = self.machine.running.note(job.jid(), job.load());
        if let Err(reason) = &_note {
            error!("the job {} could not be noted: {reason}", job.jid());
        }
        info!(jid = job.jid(), "Starting a new job {} with PID {}", job.jid(), std::process::id());
        // Progress is reported beside the job, which must not wait for masters.
        let telling =
            self.machine.spawn(tell_progress(self.machine.clone(), link.clone(), job.jid().to_owned(), parts));
        if job.load().get("start_event").is_some_and(Value::truthy) {
            self.fire_start_of_job(&link, &job).await;
        }
        let outcomes = run(&self.machine.rt, &ctx, &job).await;
        ctx.job.end_progress();
        // Before the return: whoever sees it must not find the job among the running ones.
        drop((ctx, _note, _running, room));
        if tokio::time::timeout(LAST_PARTS, telling).await.is_err() {
            debug!("job {} may still have parts to tell; its return goes first", job.jid());
        }
        let load = return_load(self.machine.id.as_str(), &job, outcomes, self.machine.config.jobs.multifunc_ordered);
        self.cache_job(&load);
        self.offer(return_sender, &load);
        if self.machine.config.login.pub_ret {
            self.returns.post(&self.machine.rt, &link, job.load(), load.clone()).await;
        }
        let named = [job.load().get("ret"), self.machine.config.raw.get("return")];
        let ret = returners::returned(&load, job.load());
        returning::give(&self.machine, Some(&link), &returners::names(named.into_iter().flatten()), &ret).await;
    }

    fn running_entry(&self, job: &Publication) -> Map {
        let mut entry = map! { "pid" => self.machine.rt.process_id() };
        entry.update(job.load().clone());
        entry
    }

    async fn fire_start_of_job(&self, link: &Link, job: &Publication) {
        let mut data = map! { "id" => self.machine.id.as_str() };
        for field in ["jid", "fun", "tgt", "tgt_type", "user"] {
            data.insert(field, job.load().get(field).cloned());
        }
        for field in ["master_id", "metadata"] {
            if let Some(value) = job.load().get(field) {
                data.insert(field, value.clone());
            }
        }
        let tag = format!("salt/job/{}/start/{}", job.jid(), self.machine.id);
        link.tell(self.machine.event_load(&tag, data.into())).await;
    }

    /// With `cache_jobs`, stores a copy of each return on this machine.
    fn cache_job(&self, load: &Map) {
        if !self.machine.config.jobs.cache_jobs {
            return;
        }
        let jid = load.get_str("jid").unwrap_or_default();
        // The id is a master's text and must not leave the directory.
        let dir = self.machine.config.paths.cachedir.join("minion_jobs").join(jid.replace('/', "_"));
        let written = store::disk::make_directory(&dir).and_then(|()| {
            let path = dir.join("return.p");
            store::disk::write_value(&path, &Value::Map(load.clone()), store::disk::Writing::PRIVATE)
        });
        if let Err(reason) = written {
            error!("the return of job {jid} was not kept: {reason}");
        }
    }
}
