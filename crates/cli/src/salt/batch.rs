//! `--batch` and `--static`: a job on a few minions at a time, or on all with one output at the end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use client::batch::{Batch, Size};
use client::gather::{Action, Gather, Return};
use client::{Outcome, Ticket};
use event::Listening;
use value::{Map, Value};

use super::docs::Docs;
use super::silence::MasterFiles;
use super::summary::retcode;
use super::{Session, no_return, say_no_return};
use crate::exit_codes;

impl Session {
    /// Runs the job in batches.
    pub(super) async fn run_batch(&mut self, known: MasterFiles) -> Result<u8> {
        match self.batches(&known).await {
            Ok(code) => Ok(code),
            Err(error) => match error.downcast::<client::Error>() {
                Ok(refused) => {
                    outputters::print_line(&value::error::chain(&refused))?;
                    Ok(if self.flag("static") { exit_codes::NO_RETURN } else { exit_codes::GENERIC })
                }
                Err(other) => Err(other),
            },
        }
    }

    async fn batches(&mut self, known: &MasterFiles) -> Result<u8> {
        let quiet = self.flag("static");
        // `--static` alone is a single batch of all minions.
        let size = self.batch_size().unwrap_or_else(|| "100%".into());
        let size: Size = match size.parse() {
            Ok(size) => size,
            Err(error) => {
                rt::complain!("{error}");
                return Ok(exit_codes::GENERIC);
            }
        };
        // Before the ping, or fast answers would be missed.
        let mut bus = self.client.listen().await?;
        let Some((up, down)) = self.ping(&mut bus).await? else {
            outputters::print_line(super::NOBODY)?;
            known.explain(&self.job, self.delimiter());
            if !quiet {
                outputters::print_line("No minions matched the target.")?;
                return Ok(say_no_return());
            }
            return no_return(&self.settings);
        };
        if !quiet && !up.is_empty() {
            for id in down {
                outputters::print_line(&format!("Minion {id} did not respond. No job will be sent."))?;
            }
        }
        if up.is_empty() {
            return if quiet { no_return(&self.settings) } else { Ok(say_no_return()) };
        }
        let seconds = self.prepared.options.get("batch_wait").and_then(Value::as_f64).unwrap_or(0.0);
        // Bounded: `from_secs_f64` panics on negative and huge numbers.
        let wait = std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        let batch = Batch::new(up, size, wait, self.flag("failhard"));
        let (jid, parts, results) = (String::new(), Vec::new(), BTreeMap::new());
        let mut run = Run { session: self, batch, jid, parts, results, worst: 0, quiet };
        run.run(&mut bus).await?;
        let (worst, results) = (run.worst, std::mem::take(&mut run.results));
        if !quiet {
            return Ok(u8::try_from(worst).unwrap_or(exit_codes::GENERIC));
        }
        if self.job.single_function() == Some("sys.doc") {
            let mut docs = Docs::default();
            results.values().for_each(|result| docs.add(result));
            docs.print(&self.settings)?;
        } else {
            outputters::display(&Value::Map(results.into_iter().collect()), None, &self.settings, 0)?;
        }
        Ok(exit_codes::OK)
    }

    /// Finds out which minions answer. Returns the ids that do, and those that do not. `None` if the target matched no
    /// minion.
    async fn ping(&mut self, bus: &mut Listening) -> Result<Option<(BTreeSet<String>, BTreeSet<String>)>> {
        let job = client::Job {
            // The original target, which the master resolves; the batches then have lists of ids.
            target: self.job.target.clone(),
            target_type: self.job.target_type.clone(),
            function: "test.ping".into(),
            options: Map::from_iter([("delimiter", self.delimiter())]),
            timeout: self.timeout().as_secs() as i64,
            ..client::Job::default()
        };
        let Some(ticket) = self.client.publish(&job).await?.filter(|ticket| !ticket.minions.is_empty()) else {
            return Ok(None);
        };
        let mut up = BTreeSet::new();
        let patience = client::settings::patience(&self.prepared.config, self.timeout());
        let collect = |outcome| {
            if let Outcome::Answer(answer) = outcome {
                up.insert(answer.id);
            }
        };
        self.client.gather(bus, &ticket, patience, collect).await?;
        let down = ticket.minions.into_iter().filter(|id| !up.contains(id)).collect();
        Ok(Some((up, down)))
    }
}

/// The batches of a job, which all have the same job id.
struct Run<'a> {
    session: &'a mut Session,
    batch: Batch,
    /// Empty until the first one is published: the master makes ids that no other master of its set makes.
    jid: String,
    /// The parts of the job in progress.
    parts: Vec<Gather>,
    /// With `--static`: the results.
    results: BTreeMap<String, Value>,
    worst: i64,
    quiet: bool,
}

impl Run<'_> {
    async fn run(&mut self, bus: &mut Listening) -> Result<()> {
        while !self.batch.is_done() {
            let now = self.session.client.now();
            let next = self.batch.next(now);
            if !next.is_empty() {
                self.publish(next).await?;
                continue;
            }
            let wake_at = self.parts.iter().filter_map(Gather::wake_at).chain(self.batch.wake_at()).min();
            let event = self.session.client.next_event(bus, wake_at).await?;
            self.advance(event).await?;
        }
        if self.batch.is_halted() {
            tracing::error!("Batch run stopped due to failhard");
        }
        Ok(())
    }

    async fn publish(&mut self, ids: Vec<String>) -> Result<()> {
        if !self.quiet {
            // Salt prints the list as Python does.
            let list = value::python::repr(&ids.clone().into());
            outputters::print_line(&format!("\nExecuting run on {list}\n"))?;
        }
        let job = client::Job {
            target: ids.clone().into(),
            target_type: "list".into(),
            // One id for all batches, so that `jobs.lookup_jid` finds them together.
            jid: self.jid.clone(),
            ..self.session.publication()
        };
        match self.session.client.publish(&job).await? {
            Some(Ticket { jid, minions, .. }) => {
                let patience = client::settings::patience(&self.session.prepared.config, self.session.timeout());
                let now = self.session.client.now();
                if self.jid.is_empty() {
                    self.jid.clone_from(&jid);
                    let _ = self.session.jid.set(jid.clone());
                }
                for id in ids.iter().filter(|id| !minions.contains(id)) {
                    self.lost(id)?;
                }
                // Closed: answers of minions of other batches have the same job id.
                self.parts.push(Gather::new(jid, minions, patience, now).closed());
            }
            // The keys were deleted in the meantime.
            None => ids.iter().try_for_each(|id| self.lost(id))?,
        }
        Ok(())
    }

    async fn advance(&mut self, event: Option<event::Event>) -> Result<()> {
        let now = self.session.client.now();
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            let actions = match &event {
                Some(event) => part.event(event.tag(), event.data(), now),
                None => part.tick(now),
            };
            for action in actions {
                match action {
                    Action::Answer(answer) => self.answer(answer)?,
                    Action::Silent(ids) => ids.iter().try_for_each(|id| self.lost(id))?,
                    Action::Ask(ids) => {
                        let question = self.session.client.ask_running(&self.jid, ids.iter()).await;
                        part.question_published(question);
                    }
                    Action::Refused => anyhow::bail!(client::Error::Refused("Authorization error occurred".into())),
                    Action::Step(_) | Action::Finished => {}
                }
            }
        }
        parts.retain(|part| !part.is_done());
        self.parts = parts;
        Ok(())
    }

    fn answer(&mut self, answer: Return) -> Result<()> {
        let Return { id, data } = answer;
        let code = retcode(&data);
        self.worst = self.worst.max(code);
        let result = data.get("return").cloned().unwrap_or_default();
        if self.quiet {
            self.results.insert(id.clone(), result);
        } else {
            // Salt prints the whole entry of the minion in a batch, job id and return code included, the result last.
            let mut shown = Map::new();
            for name in ["retcode", "jid"] {
                if let Some(value) = data.get(name) {
                    shown.insert(name, value.clone());
                }
            }
            shown.insert(id.as_str(), result);
            outputters::display(&shown.into(), data.get_str("out"), &self.session.settings, 0)?;
        }
        self.batch.finished(&id, code, self.session.client.now());
        Ok(())
    }

    /// Handles a minion that answered the ping but not the job.
    fn lost(&mut self, id: &str) -> Result<()> {
        if self.quiet {
            self.results.insert(id.to_owned(), Map::new().into());
        } else {
            outputters::print_line(&format!("Minion '{id}' failed to respond to job sent"))?;
            self.worst = self.worst.max(1);
        }
        self.batch.finished(id, 0, self.session.client.now());
        Ok(())
    }
}
