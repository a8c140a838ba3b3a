//! Jobs that a master of ours holds for minions that are away: waiting for them, and asking about them.

use std::collections::BTreeSet;
use std::time::Duration;

use event::Listening;
use value::{Map, Value, map};
use wire::MinionId;
use wire::envelope::Envelope;

use crate::gather::{Gather, Patience, Return};
use crate::local::{Error, LocalClient, Look, Outcome, Ticket};

/// That the master holds a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// For how long.
    pub left: Duration,
    /// The expected minions that were not connected when it was published.
    pub away: Vec<String>,
}

impl Held {
    /// Reads what the master says of a job it holds.
    pub(crate) fn of(said: &Value) -> Option<Self> {
        Some(Held { left: seconds(said.get("left")?)?, away: texts(said.get("away")) })
    }
}

/// How far a job is, as the master knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// For how much longer it may be delivered; `None` when its time is over.
    pub left: Option<Duration>,
    /// Whether it was asked to be held, and still is.
    pub held: bool,
    /// By minion: `sent`, `received`, `started`, `returned` or `unreachable`.
    pub states: Map,
    /// The minions that have not returned and are not connected.
    pub away: Vec<String>,
}

/// How long the master may be away before its answer is given up, at the end of a hold.
const LATE: Duration = Duration::from_secs(60);

/// Time for a minion that is connected to say that it got a job.
const A_MOMENT: Duration = Duration::from_secs(3);

impl LocalClient {
    /// Makes sure that the master can hold jobs.
    ///
    /// # Errors
    /// When it cannot, or cannot be asked.
    pub async fn check_holds(&mut self) -> Result<(), Error> {
        let answer = self.command("saltern_held", Map::new()).await?;
        // A user who may not see the held jobs is told so by a master that has some.
        if answer.contains_key("held") || answer.contains_key("error") { Ok(()) } else { Err(Error::HoldsNothing) }
    }

    /// Returns the held jobs.
    ///
    /// # Errors
    /// When the master does not know the command, refuses, or does not answer.
    pub async fn held(&mut self) -> Result<Vec<Value>, Error> {
        let mut answer = self.own_command("saltern_held", Map::new(), "held").await?;
        Ok(answer.remove("held").and_then(Value::into_list).unwrap_or_default())
    }

    /// Returns how far a job is; `None` when the master does not remember it.
    ///
    /// # Errors
    /// As [`LocalClient::held`].
    pub async fn progress(&mut self, jid: &str) -> Result<Option<Progress>, Error> {
        let mut answer = self.own_command("saltern_job", map! { "jid" => jid }, "job").await?;
        let Some(mut job) = answer.remove("job").and_then(Value::into_map) else { return Ok(None) };
        Ok(Some(Progress {
            left: job.get("left").and_then(seconds),
            held: job.get("held").is_some_and(Value::truthy),
            away: texts(job.get("away")),
            states: job.remove("states").and_then(Value::into_map).unwrap_or_default(),
        }))
    }

    /// Ends a held job. Says whether there was one.
    ///
    /// # Errors
    /// As [`LocalClient::held`].
    pub async fn drop_held(&mut self, jid: &str) -> Result<bool, Error> {
        let answer = self.own_command("saltern_drop", map! { "jid" => jid }, "dropped").await?;
        Ok(answer.get("dropped").is_some_and(Value::truthy))
    }

    /// Returns what the master did and holds, in figures.
    ///
    /// # Errors
    /// As [`LocalClient::held`].
    pub async fn status(&mut self) -> Result<Map, Error> {
        match self.own_command("saltern_status", Map::new(), "status").await {
            Ok(mut answer) => Ok(answer.remove("status").and_then(Value::into_map).unwrap_or_default()),
            Err(Error::HoldsNothing) => {
                Err(Error::Refused("this master does not tell how it is: it is not one of Saltern".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a clear command that only masters of ours know; their answers have the field.
    pub(crate) async fn own_command(&mut self, cmd: &str, load: Map, field: &str) -> Result<Map, Error> {
        let answer = self.command(cmd, load).await?;
        if let Some(error) = answer.get("error") {
            return Err(Error::Refused(error.get("message").unwrap_or(error).to_string()));
        }
        if answer.contains_key(field) { Ok(answer) } else { Err(Error::HoldsNothing) }
    }

    /// Sends a clear command with the user's key.
    async fn command(&mut self, cmd: &str, load: Map) -> Result<Map, Error> {
        self.check_running()?;
        self.read_key_again();
        let mut load = load;
        load.insert("cmd", cmd);
        load.insert("user", self.user());
        load.insert("key", self.key());
        let answer = self.send(Envelope::clear(load)).await?;
        Ok(answer.into_map().unwrap_or_default())
    }

    /// Gathers the returns of a held job: first those of the minions that are there, as of any other job, then of those that
    /// are away, until all have returned or the job is not held any more. Then only what has begun is waited for.
    ///
    /// # Errors
    /// When the master refuses, or is away for long.
    pub async fn gather_held(
        &mut self,
        bus: &mut Listening,
        ticket: &Ticket,
        patience: Patience,
        mut on: impl FnMut(Outcome),
    ) -> Result<(), Error> {
        // Who was away from the start is known already.
        let away = ticket.held.iter().flat_map(|held| held.away.iter().cloned()).collect::<BTreeSet<String>>();
        let gather = Gather::new(&ticket.jid, ticket.minions.iter().cloned(), patience, self.now());
        let mut waiting =
            self.gather_all_but_silent(bus, gather.passing_over(away.clone()), away.clone(), &mut on).await?;
        self.name_those_without(&ticket.jid, &mut waiting, &mut on).await?;
        let mut announced = waiting.is_subset(&away);
        let mut last = None;
        while !waiting.is_empty() {
            last = self.patient_progress(&ticket.jid).await?;
            let Some(progress) = &last else { break };
            self.take_stored(&ticket.jid, progress, &mut waiting, &mut on);
            let Some(left) = progress.left.filter(|_| progress.held) else { break };
            if !announced && !waiting.is_empty() {
                announced = true;
                on(Outcome::Waiting(self.keys_first(waiting.iter().cloned())));
            }
            self.wait(bus, &ticket.jid, left, &mut waiting, &mut on).await?;
        }
        // What has begun is waited for as ever; the others do not get the job any more.
        let begun = last.map_or_else(|| waiting.clone(), |progress| begun(&waiting, &progress.states));
        let mut silent: BTreeSet<String> = waiting.difference(&begun).cloned().collect();
        if !begun.is_empty() {
            let gather = Gather::new(&ticket.jid, begun, patience, self.now()).passing_over(silent.iter().cloned());
            silent = self.gather_all_but_silent(bus, gather, silent, &mut on).await?;
        }
        if !silent.is_empty() {
            on(Outcome::Silent(self.keys_first(silent)));
        }
        Ok(())
    }

    /// Gathers, and returns who kept silent or was passed over and did not return.
    async fn gather_all_but_silent(
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
        // Those that are away are what the job is held for.
        self.gather_to_the_end(bus, gather, Look::never(), sort).await?;
        Ok(silent)
    }

    /// Minions that are there and did not take the job are not waited for: they are not meant, or do not work.
    async fn name_those_without(
        &mut self,
        jid: &str,
        waiting: &mut BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let mut without = waiting.clone();
        // Who came back this moment is about to get it.
        for pause in [Duration::ZERO, A_MOMENT] {
            if without.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            let Some(progress) = self.patient_progress(jid).await? else { return Ok(()) };
            let idle = |id: &String| matches!(progress.states.get_str(id), Some("sent" | "unreachable") | None);
            without.retain(|id| idle(id) && !progress.away.contains(id));
        }
        if !without.is_empty() {
            waiting.retain(|id| !without.contains(id));
            on(Outcome::Silent(self.keys_first(without)));
        }
        Ok(())
    }

    /// Waits for events of the job until the time is over, the hold has ended, or the bus was lost in between.
    async fn wait(
        &mut self,
        bus: &mut Listening,
        jid: &str,
        left: Duration,
        waiting: &mut BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let (until, before) = (self.now() + left + Duration::from_secs(1), self.bus_losses());
        let (returns, ended) = (format!("salt/job/{jid}/ret/"), format!("salt/job/{jid}/held"));
        while !waiting.is_empty() {
            let Some(event) = self.next_event(bus, Some(until)).await? else { return Ok(()) };
            if event.tag() == ended {
                return Ok(());
            }
            let lost_some = self.bus_losses() != before;
            let data = event.data();
            let id = data.get_str("id").filter(|_| event.tag().starts_with(&returns) && data.contains_key("return"));
            if let Some(id) = id.filter(|id| waiting.remove(*id)) {
                on(Outcome::Answer(Return { id: id.to_owned(), data: data.clone() }));
            }
            if lost_some {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns that came while the bus was away are in the job cache.
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

    /// A master that restarts is waited for.
    async fn patient_progress(&mut self, jid: &str) -> Result<Option<Progress>, Error> {
        let give_up = self.now() + LATE;
        loop {
            match self.progress(jid).await {
                Err(Error::NotRunning | Error::TimedOut | Error::Road(_)) if self.now() < give_up => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                other => return other,
            }
        }
    }
}

/// The minions that have taken the job.
fn begun(ids: &BTreeSet<String>, states: &Map) -> BTreeSet<String> {
    ids.iter().filter(|id| matches!(states.get_str(id), Some("received" | "started" | "returned"))).cloned().collect()
}

fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}

/// The texts of a list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
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
