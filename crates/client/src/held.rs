//! Jobs that a Saltern master holds for minions that are away: queries, and waiting for them.

use std::collections::BTreeSet;
use std::time::Duration;

use event::Listening;
use value::{Map, Value};
use wire::envelope::Envelope;
use wire::loads::{DropJob, JobProgress};
use wire::{Command, MinionId};

use crate::answers::{seconds, texts};
use crate::gather::{Gather, Return, Timeouts};
use crate::local::{AwayCheck, Error, LocalClient, OnBus, Outcome, Ticket};

/// The state of a job, as the master knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How long the job can still be delivered; `None` if it has expired.
    pub left: Option<Duration>,
    /// True if the job is still held.
    pub held: bool,
    /// The state of each minion: `sent`, `received`, `started`, `returned` or `unreachable`.
    pub states: Map,
    /// The minions that have not returned and are not connected.
    pub away: Vec<String>,
}

/// What became of a request to drop a held job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The master held it.
    pub was_held: bool,
    /// Other masters of the set that are away, and may still deliver it.
    pub away: Vec<String>,
}

/// How long to wait for a master that is away at the end of a hold.
const MASTER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connected minion may take to confirm a job.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(3);

impl LocalClient {
    /// Checks that the master can hold jobs.
    ///
    /// # Errors
    /// If it cannot, or does not answer.
    pub async fn check_holds(&mut self) -> Result<(), Error> {
        let answer = self.command(Command::HeldJobs, Map::new()).await?;
        // A master that can hold jobs answers a user without permission with an error, which proves the same.
        if answer.contains_key("held") || answer.contains_key("error") { Ok(()) } else { Err(Error::CannotHold) }
    }

    /// Returns the held jobs.
    ///
    /// # Errors
    /// If the master does not know the command, refuses, or does not answer.
    pub async fn held(&mut self) -> Result<Vec<Value>, Error> {
        let mut answer = self.saltern_command(Command::HeldJobs, Map::new(), "held").await?;
        Ok(answer.remove("held").and_then(Value::into_list).unwrap_or_default())
    }

    /// Returns the state of a job; `None` if the master has forgotten it.
    ///
    /// # Errors
    /// Those of [`LocalClient::held`].
    pub async fn progress(&mut self, jid: &str) -> Result<Option<Progress>, Error> {
        let mut answer = self.saltern_command(Command::JobProgress, JobProgress::new(jid).into_map(), "job").await?;
        let Some(mut job) = answer.remove("job").and_then(Value::into_map) else { return Ok(None) };
        Ok(Some(Progress {
            left: job.get("left").and_then(seconds),
            held: job.get("held").is_some_and(Value::truthy),
            away: texts(job.get("away")),
            states: job.remove("states").and_then(Value::into_map).unwrap_or_default(),
        }))
    }

    /// Drops a held job, on all masters of the set that are linked.
    ///
    /// # Errors
    /// Those of [`LocalClient::held`].
    pub async fn drop_held(&mut self, jid: &str) -> Result<Dropped, Error> {
        let answer = self.saltern_command(Command::DropJob, DropJob::new(jid).into_map(), "dropped").await?;
        Ok(Dropped { was_held: answer.get("dropped").is_some_and(Value::truthy), away: texts(answer.get("away")) })
    }

    /// Returns the master's metrics.
    ///
    /// # Errors
    /// Those of [`LocalClient::held`].
    pub async fn status(&mut self) -> Result<Map, Error> {
        match self.saltern_command(Command::Status, Map::new(), "status").await {
            Ok(mut answer) => Ok(answer.remove("status").and_then(Value::into_map).unwrap_or_default()),
            Err(Error::CannotHold) => {
                Err(Error::Refused("this master has no status: it is not a Saltern master".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends an unencrypted command that only Saltern masters know; their answers have the field.
    /// Asks the master about the masters that it shares with. `arguments` has the question in `what`.
    ///
    /// # Errors
    /// Those of [`LocalClient::held`].
    pub async fn sharing(&mut self, arguments: Map) -> Result<Value, Error> {
        match self.saltern_command(Command::Sharing, arguments, "sharing").await {
            Ok(mut answer) => Ok(answer.remove("sharing").unwrap_or_default()),
            Err(Error::CannotHold) => {
                Err(Error::Refused("this master shares nothing with others: it is not a Saltern master".into()))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn saltern_command(&mut self, command: Command, load: Map, field: &str) -> Result<Map, Error> {
        let answer = self.command(command, load).await?;
        if let Some(error) = answer.get("error") {
            return Err(Error::Refused(error.get("message").unwrap_or(error).to_string()));
        }
        if answer.contains_key(field) { Ok(answer) } else { Err(Error::CannotHold) }
    }

    /// Sends an unencrypted command with the user's key.
    async fn command(&mut self, command: Command, load: Map) -> Result<Map, Error> {
        self.check_running()?;
        // A hold may last for days, and a master that restarts during it creates new keys.
        self.read_key_again();
        let mut load = load;
        load.insert("cmd", command.name());
        load.insert("user", self.user());
        load.insert("key", self.key());
        let answer = self.send(Envelope::clear(load)).await?;
        Ok(answer.into_map().unwrap_or_default())
    }

    /// Gathers the returns of a held job. It waits for connected minions as for any other job, then for the others, until all
    /// have returned or the hold has ended. After that it waits only for minions that have begun.
    ///
    /// # Errors
    /// If the master refuses, or is away for a minute.
    pub async fn gather_held(
        &mut self,
        bus: &mut Listening,
        ticket: &Ticket,
        patience: Timeouts,
        mut on: impl FnMut(Outcome),
    ) -> Result<(), Error> {
        // These were reported when the job was published.
        let away = ticket.held.iter().flat_map(|held| held.away.iter().cloned()).collect::<BTreeSet<String>>();
        let gather = Gather::new(&ticket.jid, ticket.minions.iter().cloned(), patience, self.now());
        let mut waiting =
            self.gather_without_reporting(bus, gather.passing_over(away.clone()), away.clone(), &mut on).await?;
        // Otherwise a minion that hangs would be waited for until the hold ends, perhaps for days.
        self.give_up_unconfirmed(&ticket.jid, &mut waiting, &mut on).await?;
        let mut announced = waiting.is_subset(&away);
        let mut last = None;
        while !waiting.is_empty() {
            last = self.progress_with_retries(&ticket.jid).await?;
            let Some(progress) = &last else { break };
            self.take_stored(&ticket.jid, progress, &mut waiting, &mut on);
            let Some(left) = progress.left.filter(|_| progress.held) else { break };
            if !announced && !waiting.is_empty() {
                announced = true;
                on(Outcome::Waiting(self.keys_first(waiting.iter().cloned())));
            }
            self.wait(bus, &ticket.jid, left, &mut waiting, &mut on).await?;
        }
        // Minions that have begun are waited for as in any job; the others will not get it any more.
        let begun = last.map_or_else(|| waiting.clone(), |progress| begun(&waiting, &progress.states));
        let mut silent: BTreeSet<String> = waiting.difference(&begun).cloned().collect();
        if !begun.is_empty() {
            let gather = Gather::new(&ticket.jid, begun, patience, self.now()).passing_over(silent.iter().cloned());
            silent = self.gather_without_reporting(bus, gather, silent, &mut on).await?;
        }
        if !silent.is_empty() {
            on(Outcome::Silent(self.keys_first(silent)));
        }
        Ok(())
    }

    /// Gathers returns. Returns the minions that were silent, and those passed over that did not return.
    async fn gather_without_reporting(
        &mut self,
        bus: &mut Listening,
        gather: Gather,
        passed_over: BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> Result<BTreeSet<String>, Error> {
        let mut silent = passed_over;
        let sort = |outcome| match outcome {
            Outcome::Silent(ids) => silent.extend(ids),
            other => {
                if let Outcome::Answer(answer) = &other {
                    silent.remove(&answer.id);
                }
                on(other);
            }
        };
        // The job is held for the minions that are away, so they are not reported as silent.
        self.gather_to_the_end(bus, gather, AwayCheck::never(), sort).await?;
        Ok(silent)
    }

    /// Stops waiting for connected minions that did not take the job: their target does not match, or they hang.
    async fn give_up_unconfirmed(
        &mut self,
        jid: &str,
        waiting: &mut BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let mut without = waiting.clone();
        // A minion that has just reconnected is about to get the job, so ask twice.
        for pause in [Duration::ZERO, CONFIRM_TIMEOUT] {
            if without.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            let Some(progress) = self.progress_with_retries(jid).await? else { return Ok(()) };
            let idle = |id: &String| matches!(progress.states.get_str(id), Some("sent" | "unreachable") | None);
            without.retain(|id| idle(id) && !progress.away.contains(id));
        }
        if !without.is_empty() {
            waiting.retain(|id| !without.contains(id));
            on(Outcome::Silent(self.keys_first(without)));
        }
        Ok(())
    }

    /// Waits for events of the job until the deadline, the end of the hold, or a reconnection of the bus.
    async fn wait(
        &mut self,
        bus: &mut Listening,
        jid: &str,
        left: Duration,
        waiting: &mut BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> Result<(), Error> {
        // A second more, so that the master's own clock ends the hold first.
        let until = self.now() + left + Duration::from_secs(1);
        let (returns, ended) = (format!("salt/job/{jid}/ret/"), format!("salt/job/{jid}/held"));
        while !waiting.is_empty() {
            let event = match self.next_on_bus(bus, Some(until)).await {
                OnBus::Event(event) => event,
                // The end of the hold may be among the missed events, and then no other event follows. The returns
                // among them are in the job cache.
                OnBus::Reconnected | OnBus::WakeTime => return Ok(()),
            };
            // The caller asks the master for the state. The event only says that there is a new one.
            if event.tag() == ended {
                return Ok(());
            }
            let data = event.data();
            let id = data.get_str("id").filter(|_| event.tag().starts_with(&returns) && data.contains_key("return"));
            if let Some(id) = id.filter(|id| waiting.remove(*id)) {
                on(Outcome::Answer(Return { id: id.to_owned(), data: data.clone() }));
            }
        }
        Ok(())
    }

    /// Reads returns that arrived while the bus was disconnected from the job cache.
    fn take_stored(
        &self,
        jid: &str,
        progress: &Progress,
        waiting: &mut BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) {
        let returned = |id: &&String| progress.states.get_str(id) == Some("returned");
        for id in waiting.iter().filter(returned).cloned().collect::<Vec<_>>() {
            let stored = MinionId::new(id.as_str()).ok().and_then(|minion| self.stored_return(jid, &minion));
            if let Some(mut data) = stored {
                data.insert("id", id.as_str());
                data.insert("jid", jid);
                waiting.remove(&id);
                on(Outcome::Answer(Return { id, data }));
            }
        }
    }

    /// Queries the state of a job, and retries while the master restarts.
    async fn progress_with_retries(&mut self, jid: &str) -> Result<Option<Progress>, Error> {
        let give_up = self.now() + MASTER_TIMEOUT;
        loop {
            match self.progress(jid).await {
                Err(Error::NotRunning | Error::TimedOut | Error::RequestPort(_)) if self.now() < give_up => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                other => return other,
            }
        }
    }
}

/// Returns the minions that have taken the job.
fn begun(ids: &BTreeSet<String>, states: &Map) -> BTreeSet<String> {
    ids.iter().filter(|id| matches!(states.get_str(id), Some("received" | "started" | "returned"))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn a_minion_that_did_not_take_the_job_is_not_waited_for_after_the_hold() {
        let ids: BTreeSet<String> = ["away", "done", "gone", "got", "new", "runs"].map(str::to_owned).into();
        let states = map! {
            "away" => "sent", "gone" => "unreachable", "got" => "received", "runs" => "started", "done" => "returned",
        };
        assert_eq!(begun(&ids, &states).into_iter().collect::<Vec<_>>(), ["done", "got", "runs"]);
    }
}
