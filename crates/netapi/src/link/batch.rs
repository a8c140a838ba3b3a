//! `local_batch` and `local_subset`: a job on a few minions at a time, or on a random few.

use std::collections::BTreeSet;
use std::time::Duration;

use client::batch::Batch;
use client::gather::{Action, Gather, Return, Timeouts};
use event::Event;
use tokio::sync::broadcast;
use tokio::time::Instant;
use value::{Map, Value, map};

use super::{Link, NO_RETURN};
use crate::bus;
use crate::failure::Failure;
use crate::low::{Batches, Local};

impl Link {
    /// Publishes a job to random minions of those that have the function, and gathers their returns.
    pub(super) async fn subset(&self, job: Local, count: usize, proof: Map) -> Result<Value, Failure> {
        let question = Local { function: "sys.list_functions".into(), ..question(&job) };
        let answers = self.local(question, proof.clone()).await?.into_map().unwrap_or_default();
        let mut having: Vec<Value> =
            answers.into_iter().filter(|(_, functions)| has(functions, &job.function)).map(|(id, _)| id).collect();
        // Shuffled first, or the fastest minions would always be picked.
        for place in (1..having.len()).rev() {
            having.swap(place, self.rt.below(place as u64 + 1) as usize);
        }
        having.truncate(count);
        if having.is_empty() {
            return Ok(Map::new().into());
        }
        self.local(Local { target: Value::List(having), target_type: "list".to_owned(), ..job }, proof).await
    }

    /// Returns an id for a job that begins now.
    pub fn new_jid(&self) -> String {
        wire::jid::JidSource::new().next(self.rt.now()).as_str().to_owned()
    }

    /// Publishes a job to the minions that answer a ping, a batch at a time. Returns one map for each minion, in the order of
    /// the returns.
    pub(super) async fn batch(&self, job: Local, how: Batches, proof: Map) -> Result<Vec<Value>, Failure> {
        let ping = Local { function: "test.ping".into(), full_return: true, ..question(&job) };
        let answers = self.local(ping, proof.clone()).await?.into_map().unwrap_or_default();
        // Before the first batch: a minion may return before the answer arrives.
        let events = self.bus.subscribe().await?;
        let run = Run {
            link: self,
            batch: Batch::new(have_returned(answers), how.size, how.wait, how.failhard.unwrap_or(self.failhard)),
            // One id for all batches, so that `jobs.lookup_jid` finds them together.
            jid: match job.jid.is_empty() {
                true => self.new_jid(),
                false => job.jid.clone(),
            },
            patience: self.patience(&job),
            raw: how.raw,
            job,
            proof,
            events,
            started: Instant::now(),
            parts: Vec::new(),
            returns: Vec::new(),
        };
        run.run().await
    }
}

/// Returns a job for the same minions, which asks them something first.
fn question(job: &Local) -> Local {
    let mut options = job.options.clone();
    options.retain(|name, _| name.as_str() == Some("delimiter"));
    Local {
        arguments: Vec::new(),
        returners: String::new(),
        jid: String::new(),
        options,
        full_return: false,
        detached: false,
        ..job.clone()
    }
}

/// Returns the minions that have returned, of whole returns. Silent minions have a text and a code of their own.
fn have_returned(answers: Map) -> BTreeSet<String> {
    let returned = answers.into_iter().filter(|(_, answer)| answer.get("out") != Some(&NO_RETURN.into()));
    returned.filter_map(|(id, _)| id.into_string()).collect()
}

/// Returns whether a minion with these functions has those of a job.
fn has(functions: &Value, wanted: &Value) -> bool {
    let Some(functions) = functions.as_list() else { return false };
    match wanted {
        Value::List(all) => all.iter().all(|one| functions.contains(one)),
        one => functions.contains(one),
    }
}

/// A run in batches.
struct Run<'a> {
    link: &'a Link,
    job: Local,
    proof: Map,
    patience: Timeouts,
    batch: Batch,
    jid: String,
    raw: bool,
    events: broadcast::Receiver<Event>,
    started: Instant,
    /// The parts of the job in progress.
    parts: Vec<Gather>,
    returns: Vec<Value>,
}

impl Run<'_> {
    async fn run(mut self) -> Result<Vec<Value>, Failure> {
        while !self.batch.is_done() {
            let next = self.batch.next(self.now());
            if !next.is_empty() {
                self.publish(next).await?;
                continue;
            }
            let wake_at = self.parts.iter().filter_map(Gather::wake_at).chain(self.batch.wake_at()).min();
            let next = bus::next(&mut self.events);
            let event = match wake_at {
                Some(at) => match tokio::time::timeout_at(self.started + at, next).await {
                    Ok(None) => return Ok(self.returns),
                    received => received.ok().flatten(),
                },
                None => Some(next.await.ok_or_else(Failure::no_master)?),
            };
            self.advance(event.as_ref()).await;
        }
        Ok(self.returns)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    async fn publish(&mut self, ids: Vec<String>) -> Result<(), Failure> {
        let part = Local {
            target: ids.clone().into(),
            target_type: "list".to_owned(),
            jid: self.jid.clone(),
            ..self.job.clone()
        };
        let ticket = self.link.publish(self.link.request(part, &self.proof, self.patience.timeout)).await?;
        let minions = ticket.map(|ticket| ticket.minions).unwrap_or_default();
        // Their keys were deleted in the meantime.
        for id in ids.iter().filter(|id| !minions.contains(id)) {
            self.lost(id);
        }
        // Closed: the returns of other batches have the same job id.
        self.parts.push(Gather::new(&self.jid, minions, self.patience, self.now()).closed());
        Ok(())
    }

    async fn advance(&mut self, event: Option<&Event>) {
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            let now = self.now();
            let actions = match event {
                Some(event) => part.event(event.tag(), event.data(), now),
                None => part.tick(now),
            };
            for action in actions {
                match action {
                    Action::Answer(answer) => self.answer(answer),
                    Action::Silent(ids) => self.silent(part, ids).await,
                    Action::Ask(ids) => {
                        let question = self.link.ask_running(&self.proof, &self.jid, ids).await;
                        part.question_published(question.ok().flatten());
                    }
                    // The master has answered the request with the reason already.
                    Action::Refused | Action::Step(_) | Action::Finished => {}
                }
            }
        }
        parts.retain(|part| !part.is_done());
        self.parts = parts;
    }

    fn answer(&mut self, answer: Return) {
        // A minion of the same batch has failed before.
        if self.batch.is_halted() {
            return;
        }
        let Return { id, data } = answer;
        let code = data.get("retcode").and_then(Value::as_i64).unwrap_or_default();
        self.returns.push(match self.raw {
            true => map! { "data" => data, "tag" => format!("salt/job/{}/ret/{id}", self.jid) }.into(),
            false => {
                let returned = data.get("return").cloned().unwrap_or_default();
                map! { id.as_str() => returned }.into()
            }
        });
        let now = self.now();
        self.batch.finished(&id, code, now);
    }

    async fn silent(&mut self, part: &mut Gather, ids: BTreeSet<String>) {
        for id in ids {
            match self.link.stored(&self.jid, &id).await {
                Some(data) if part.note(&id) => self.answer(Return { id, data }),
                Some(_) => {}
                None => self.lost(&id),
            }
        }
    }

    /// Handles a minion that answered the ping but not the job.
    fn lost(&mut self, id: &str) {
        self.returns.push(match self.raw {
            true => map! { "data" => map! { "id" => id, "return" => Map::new(), "retcode" => 0 } }.into(),
            false => map! { id => Map::new() }.into(),
        });
        let now = self.now();
        self.batch.finished(id, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;

    #[test]
    fn a_batch_is_for_the_minions_that_answer_the_ping() {
        let answers = map! {
            "up" => map! { "ret" => true, "retcode" => 0, "jid" => "20261126000000000000" },
            "failed" => map! { "ret" => "an error", "retcode" => 254, "out" => "nested" },
            "down" => super::super::no_return("20261126000000000000", true),
        };
        let up: Vec<String> = have_returned(answers).into_iter().collect();
        assert_eq!(up, ["failed", "up"]);
    }

    #[test]
    fn a_minion_must_have_all_functions_of_a_job() {
        let functions = list!["test.echo", "test.ping"];
        assert!(has(&functions, &"test.ping".into()));
        assert!(has(&functions, &list!["test.ping", "test.echo"]));
        assert!(!has(&functions, &list!["test.ping", "test.nosuch"]));
        assert!(!has(&"Minion did not return. [No response]".into(), &"test.ping".into()));
    }
}
