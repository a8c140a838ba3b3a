//! Running a function on a few minions at a time, or on a random few of them.

use std::time::Duration;

use client::batch::{Batch, Size};
use client::gather::{Action, Gather, Timeouts};
use client::{Error, LocalClient, settings};
use event::Event;
use value::{Map, Value};

use crate::RunnerContext;
use crate::local::{Answers, Ask};

/// A run in batches, all under one job id.
struct Run<'a> {
    client: LocalClient,
    job: &'a client::Job,
    patience: Timeouts,
    batch: Batch,
    /// The parts of the job that still run.
    parts: Vec<Gather>,
    answers: Answers,
}

impl Ask {
    /// As [`Ask::run`], on at most `size` minions at a time, of those that answer a ping. With `failhard` the first
    /// failure ends the run.
    ///
    /// # Errors
    /// When there is no master, or it refuses.
    pub async fn run_in_batches(&self, ctx: &RunnerContext, size: Size, failhard: bool) -> Result<Answers, Error> {
        let mut up: Vec<String> =
            self.question("test.ping").run(ctx).await?.returned.into_iter().map(|answer| answer.id).collect();
        // The batches follow from the order of the ids, not from who answered first.
        up.sort();
        if up.is_empty() {
            return Ok(Answers::default());
        }
        let client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
        // Subscribed before the first part is published, so that no return is missed.
        let mut bus = client.listen().await?;
        let jid = crate::run::new_jid(ctx).await;
        let mut patience = settings::patience(&ctx.config, self.timeout);
        patience.gather = self.gather;
        let mut run = Run {
            client,
            job: &self.job,
            patience,
            batch: Batch::new(up, size, Duration::ZERO, failhard),
            parts: Vec::new(),
            answers: Answers { jid, ..Answers::default() },
        };
        while !run.batch.is_done() {
            let next = run.batch.next(run.client.now());
            if !next.is_empty() {
                ctx.may_publish(&self.job.function).await?;
                run.publish(next).await?;
                continue;
            }
            // Whatever is due first: a part's timeout, or the moment at which the next minions may start.
            let wake_at = run.parts.iter().filter_map(Gather::wake_at).chain(run.batch.wake_at()).min();
            let event = run.client.next_event(&mut bus, wake_at).await?;
            run.advance(event).await?;
        }
        if run.batch.is_halted() {
            tracing::error!("Batch run stopped due to failhard");
        }
        Ok(run.answers)
    }

    /// As [`Ask::run`], on at most `most` of the minions that have the function, chosen at random.
    ///
    /// # Errors
    /// As [`Ask::run`].
    pub async fn run_on_some(&self, ctx: &RunnerContext, most: usize) -> Result<Answers, Error> {
        let mut known = self.question("sys.list_functions").run(ctx).await?.returned;
        // A Fisher-Yates shuffle with the runtime's randomness, so that a simulation can repeat it.
        for last in (1..known.len()).rev() {
            let other = usize::try_from(ctx.rt.below(last as u64 + 1)).unwrap_or(0);
            known.swap(last, other);
        }
        let has = |data: &Map| {
            let functions = data.get("return").and_then(Value::as_list).unwrap_or_default();
            functions.contains(&self.job.function)
        };
        let chosen: Vec<Value> = known
            .iter()
            .filter(|answer| has(&answer.data))
            .take(most)
            .map(|answer| answer.id.as_str().into())
            .collect();
        if chosen.is_empty() {
            return Ok(Answers::default());
        }
        let mut some = self.clone();
        some.job.target = chosen.into();
        some.job.target_type = "list".to_owned();
        some.run(ctx).await
    }

    /// A job without arguments for the same minions.
    fn question(&self, fun: &str) -> Ask {
        let job = client::Job {
            target: self.job.target.clone(),
            target_type: self.job.target_type.clone(),
            function: fun.into(),
            ..client::Job::default()
        };
        Ask { job, ..self.clone() }
    }
}

impl Run<'_> {
    async fn publish(&mut self, ids: Vec<String>) -> Result<(), Error> {
        let job = client::Job {
            target: ids.clone().into(),
            target_type: "list".into(),
            jid: self.answers.jid.clone(),
            ..self.job.clone()
        };
        let now = self.client.now();
        match self.client.publish(&job).await? {
            Some(ticket) => {
                // The master leaves out minions without an accepted key. They count as finished, or the batch would
                // wait for them forever.
                for id in ids.iter().filter(|id| !ticket.minions.contains(id)) {
                    self.lost(id);
                }
                self.parts.push(Gather::new(ticket.jid, ticket.minions, self.patience, now).closed());
            }
            // The keys were deleted in the meantime.
            None => ids.iter().for_each(|id| self.lost(id)),
        }
        Ok(())
    }

    async fn advance(&mut self, event: Option<Event>) -> Result<(), Error> {
        let now = self.client.now();
        // Taken out, because a part's actions change the other fields of `self`.
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            let actions = match &event {
                Some(event) => part.event(event.tag(), event.data(), now),
                None => part.tick(now),
            };
            for action in actions {
                match action {
                    Action::Answer(answer) => {
                        let code = answer.data.get("retcode").and_then(Value::as_i64).unwrap_or(0);
                        self.batch.finished(&answer.id, code, now);
                        self.answers.returned.push(answer);
                    }
                    Action::Silent(ids) => ids.iter().for_each(|id| self.lost(id)),
                    Action::Ask(ids) => {
                        let question = self.client.ask_running(&self.answers.jid, ids.iter()).await;
                        part.question_published(question);
                    }
                    Action::Refused => return Err(Error::Refused("Authorization error occurred".into())),
                    Action::Step(_) | Action::Finished => {}
                }
            }
        }
        parts.retain(|part| !part.is_done());
        self.parts = parts;
        Ok(())
    }

    fn lost(&mut self, id: &str) {
        let now = self.client.now();
        // A minion that is silent has failed: with `failhard` it must end the run.
        self.batch.finished(id, 1, now);
        self.answers.silent.push(id.to_owned());
    }
}
