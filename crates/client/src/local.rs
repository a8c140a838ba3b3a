//! The client itself: the sockets around [`crate::gather`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use event::{Endpoints, Filter, Listening, Remote};
use rt::Rt;
use tokio::time::Instant;
use value::{Map, Value, map};
use wire::MinionId;
use wire::envelope::Envelope;
use wire::loads::{PublishRequest, Published};

use crate::alive::Away;
use crate::gather::{Action, Gather, Patience, Return, Step};
use crate::held::Held;
use crate::road::{Road, RoadError};
use crate::user;

/// What the client needs to know of a master on this host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The sockets of its event bus.
    pub bus: Endpoints,
    /// The file whose presence says that the master runs; none with `ipc_mode: tcp`.
    pub running_file: Option<PathBuf>,
    /// The road to its request port.
    pub road: crate::road::RoadSettings,
    /// Where the keys of local users lie (`cachedir`).
    pub cachedir: PathBuf,
    /// The user the master runs as.
    pub master_user: String,
    /// Where accepted keys lie.
    pub accepted_dir: PathBuf,
    /// Time for one publication (`publish_timeout`).
    pub publish_timeout: Duration,
    /// Returners every job is sent to (`ext_job_cache`); empty for none.
    pub ext_job_cache: String,
    /// Whether masters below this one are expected (`order_masters`).
    pub order_masters: bool,
    /// Where the master keeps returns.
    pub jobs: Option<store::jobs::JobCache>,
}

/// A job to be published.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Whom: text, or a list of ids.
    pub target: Value,
    /// How the target is meant.
    pub target_type: String,
    /// The function, or a list of functions.
    pub function: Value,
    /// The arguments; a list of lists for several functions.
    pub arguments: Vec<Value>,
    /// Returners, separated by commas.
    pub returners: String,
    /// A job id to use; empty to get one.
    pub jid: String,
    /// Options of the publication: `delimiter`, `metadata`…
    pub options: Map,
    /// Seconds, told to masters below.
    pub timeout: i64,
}

/// A published job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// The job id.
    pub jid: String,
    /// Who is expected to answer.
    pub minions: Vec<String>,
    /// That the master holds it, if it was asked to and can.
    pub held: Option<Held>,
}

/// What went wrong between us and the master. The texts are Salt's where people know them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The master does not run, or its files are elsewhere.
    #[error("The salt master could not be contacted. Is master running?")]
    NotRunning,
    /// The master does not answer.
    #[error(
        "Salt request timed out. The master is not responding. You may need to run your command with `--async` in \
         order to bypass the congested event bus. With `--async`, the CLI tool will print the job id (jid) and exit \
         immediately without listening for responses. You can then use `salt-run jobs.lookup_jid` to look up the \
         results of the job in the job cache later."
    )]
    TimedOut,
    /// The request did not get through.
    #[error("failed to send the job to the master: {0}")]
    Road(#[from] RoadError),
    /// The event bus cannot be heard.
    #[error("failed to listen to the master's events: {0}")]
    Bus(#[from] event::RemoteError),
    /// The master does not know this user.
    #[error(
        "Failed to authenticate! This is most likely because this user is not permitted to execute commands, but there \
         is a small possibility that a disk error occurred (check disk/inode usage)."
    )]
    Authentication,
    /// The master refused, and says why.
    #[error("{0}")]
    Refused(String),
    /// A master of Salt, which cannot hold jobs.
    #[error("this master cannot hold jobs for minions that are away (--hold, job_hold): it is not one of Saltern")]
    HoldsNothing,
    /// The answer is none.
    #[error("the master's answer is not understood: {0}")]
    Answer(String),
}

/// Pauses between attempts to hear a bus again that closed.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A client of the master on this host.
pub struct LocalClient {
    rt: Rt,
    settings: Settings,
    road: Road,
    user: String,
    key: String,
    started: Instant,
    /// How often the event bus was lost and found again.
    bus_losses: AtomicU64,
}

impl LocalClient {
    /// Returns a client for the user of this process. Nothing is connected yet.
    pub fn new(rt: Rt, settings: Settings) -> Self {
        let user = user::request_user();
        let path = user::key_path(&settings.cachedir, &user, &settings.master_user);
        let key = user::read_key(&path).unwrap_or_default();
        let road = Road::new(rt.clone(), settings.road.clone());
        LocalClient { rt, settings, road, user, key, started: Instant::now(), bus_losses: AtomicU64::new(0) }
    }

    /// Returns the time for [`Gather`].
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn bus_losses(&self) -> u64 {
        self.bus_losses.load(Ordering::Relaxed)
    }

    /// The master makes new keys when it starts; ours may be from before. Says whether there is another one now.
    pub(crate) fn read_key_again(&mut self) -> bool {
        let path = user::key_path(&self.settings.cachedir, &self.user, &self.settings.master_user);
        let key = user::read_key(&path).unwrap_or_default();
        let changed = key != self.key;
        self.key = key;
        changed
    }

    /// Sends a request to the master.
    pub(crate) async fn send(&self, request: Envelope) -> Result<Value, Error> {
        self.road.ask(request, self.settings.publish_timeout).await.map_err(|error| match error {
            RoadError::TimedOut => Error::TimedOut,
            other => Error::Road(other),
        })
    }

    /// What a minion returned, out of the job cache.
    pub(crate) fn stored_return(&self, jid: &str, id: &wire::MinionId) -> Option<Map> {
        let stored = self.settings.jobs.as_ref()?.return_of(jid, id);
        let stored = stored.inspect_err(|error| tracing::warn!("{error}")).ok()?;
        stored.map(|stored| stored.to_map())
    }

    /// Connects to the event bus. To be done before publishing, so that no return is missed.
    pub async fn listen(&self) -> Result<Listening, Error> {
        self.check_running()?;
        let filter = if self.settings.order_masters {
            Filter::prefixes(["salt/job/", "syndic/"])
        } else {
            Filter::prefix("salt/job/")
        };
        Ok(Remote::new(self.rt.clone(), self.settings.bus.clone()).listen(filter).await?)
    }

    /// Fires an event on the master's bus.
    pub async fn fire(&self, tag: &str, data: Map) -> Result<(), Error> {
        Ok(Remote::new(self.rt.clone(), self.settings.bus.clone()).fire(tag, data).await?)
    }

    pub(crate) fn check_running(&self) -> Result<(), Error> {
        match &self.settings.running_file {
            Some(path) if !path.exists() => {
                tracing::error!("Unable to connect to the salt master publisher at {}", path.display());
                Err(Error::NotRunning)
            }
            _ => Ok(()),
        }
    }

    /// Publishes a job. No ticket means that nobody matched.
    pub async fn publish(&mut self, job: &Job) -> Result<Option<Ticket>, Error> {
        self.check_running()?;
        let mut answer = self.ask(job).await?;
        if !answer.truthy() {
            if !self.read_key_again() {
                return Err(Error::Authentication);
            }
            answer = self.ask(job).await?;
        }
        ticket(answer)
    }

    async fn ask(&self, job: &Job) -> Result<Value, Error> {
        let load = self.request(job).into_map();
        let timeout = self.settings.publish_timeout.max(Duration::from_secs(job.timeout.max(0) as u64));
        self.road.ask(Envelope::clear(load), timeout).await.map_err(|error| match error {
            RoadError::TimedOut => Error::TimedOut,
            other => Error::Road(other),
        })
    }

    fn request(&self, job: &Job) -> PublishRequest {
        let returners: Vec<&str> = [job.returners.as_str(), &self.settings.ext_job_cache]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        PublishRequest {
            tgt: job.target.clone(),
            fun: job.function.clone(),
            arg: Value::List(job.arguments.clone()),
            key: self.key.as_str().into(),
            tgt_type: Some(job.target_type.clone()),
            ret: Some(returners.join(",").into()),
            jid: Some(job.jid.as_str().into()),
            kwargs: (!job.options.is_empty()).then(|| job.options.clone()),
            user: Some(self.user.clone()),
            to: self.settings.order_masters.then(|| job.timeout.into()),
            extra: self.abilities(),
        }
    }

    /// Tells a master of ours that this client finds jobs in its one file.
    fn abilities(&self) -> Map {
        match store::jobs::Embedded::exists(&self.settings.cachedir) {
            true => map! { wire::loads::ABILITIES_FIELD => true },
            false => Map::new(),
        }
    }

    /// Waits for the next event, or until the time has come. `None` means that the time has come.
    ///
    /// A bus that closes is connected to again: a master that restarts in the meantime still gets the returns.
    pub async fn next_event(
        &self,
        bus: &mut Listening,
        wake_at: Option<Duration>,
    ) -> Result<Option<event::Event>, Error> {
        let wait = self.event_or_new_bus(bus);
        let Some(wake_at) = wake_at else { return Ok(Some(wait.await)) };
        // Time that is up means no event; the connection stays good.
        Ok(tokio::time::timeout_at(self.started + wake_at, wait).await.ok())
    }

    async fn event_or_new_bus(&self, bus: &mut Listening) -> event::Event {
        let mut pause = FIRST_PAUSE;
        loop {
            match bus.next().await {
                Ok(event) => return event,
                Err(error) => tracing::warn!("lost the master's events: {error}"),
            }
            *bus = loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                match self.listen().await {
                    Ok(bus) => {
                        self.bus_losses.fetch_add(1, Ordering::Relaxed);
                        break bus;
                    }
                    Err(error) => tracing::debug!("the master's events are not back yet: {error}"),
                }
            };
        }
    }

    /// Asks minions whether they still run a job, and returns the job id of the question.
    ///
    /// Ids without an accepted key (resources, keys deleted meanwhile) are left out; a list target with them would be
    /// refused as a whole. A question that cannot be asked is one nobody answers.
    pub async fn ask_running(&mut self, jid: &str, minions: impl Iterator<Item = &String>) -> Option<String> {
        let accepted = self.accepted();
        let ids: Vec<String> = minions.filter(|id| accepted.contains(*id)).cloned().collect();
        if ids.is_empty() {
            return None;
        }
        let job = Job {
            target: ids.into(),
            target_type: "list".into(),
            function: "saltutil.find_job".into(),
            arguments: vec![jid.into()],
            ..Job::default()
        };
        match self.publish(&job).await {
            Ok(ticket) => ticket.map(|ticket| ticket.jid),
            Err(error) => {
                tracing::warn!("failed to ask whether job {jid} still runs: {error}");
                None
            }
        }
    }

    /// Gathers the returns of one job to its end and hands each over.
    pub async fn gather(
        &mut self,
        bus: &mut Listening,
        ticket: &Ticket,
        patience: Patience,
        on: impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let gather = Gather::new(&ticket.jid, ticket.minions.iter().cloned(), patience, self.now());
        // A master of Salt's would note such a question as an odd one in its log.
        let look = match self.abilities().is_empty() {
            true => Look::never(),
            false => Look::new(ticket, patience, self.now()),
        };
        self.gather_to_the_end(bus, gather, look, on).await
    }

    /// Carries out what a [`Gather`] decides, until it is done.
    pub(crate) async fn gather_to_the_end(
        &mut self,
        bus: &mut Listening,
        mut gather: Gather,
        mut look: Look,
        mut on: impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let jid = gather.jid().to_owned();
        let mut actions = gather.tick(self.now());
        loop {
            let mut handed_over = false;
            for action in actions {
                match action {
                    Action::Answer(answer) => on(Outcome::Answer(answer)),
                    Action::Step(step) => on(Outcome::Step(step)),
                    Action::Silent(ids) => {
                        let silent = self.hand_over_stored(&mut gather, ids, &mut on);
                        if !silent.is_empty() {
                            on(Outcome::Silent(self.keys_first(silent)));
                        }
                    }
                    Action::Refused => return Err(Error::Refused("Authorization error occurred".into())),
                    Action::Ask(ids) => {
                        let silent = self.hand_over_stored(&mut gather, ids, &mut on);
                        handed_over = silent.is_empty();
                        gather.asked(self.ask_running(&jid, silent.iter()).await);
                    }
                    Action::Finished => return Ok(()),
                }
            }
            if look.is_due(self.now()) && !gather.is_done() {
                let away = self.look_for_absent(&mut gather, &mut look).await;
                if !away.is_empty() {
                    on(Outcome::Away(away));
                    handed_over = true;
                }
            }
            actions = match handed_over {
                true => gather.tick(self.now()),
                false => {
                    let wake_at = gather.wake_at().into_iter().chain(look.at).min();
                    match self.next_event(bus, wake_at).await? {
                        Some(event) => gather.event(event.tag(), event.data(), self.now()),
                        None => gather.tick(self.now()),
                    }
                }
            };
        }
    }

    /// Asks the master whom it is no use to wait for, and returns those.
    async fn look_for_absent(&mut self, gather: &mut Gather, look: &mut Look) -> Vec<Away> {
        let jid = gather.jid().to_owned();
        let mut away = match self.away(&jid).await {
            Ok(away) => away,
            Err(error) => {
                // Whoever may not know it waits as with a master of Salt.
                tracing::debug!("the master does not tell who is away: {error}");
                Vec::new()
            }
        };
        let waited = self.now() - look.published;
        // Who left after the job was published may have taken it along.
        away.retain(|it| gather.waiting().contains(&it.id) && it.gone > waited);
        let wait = away.iter().map(|it| it.wait).filter(|wait| !wait.is_zero()).min();
        look.at = wait.map(|wait| self.now() + wait);
        let certain: BTreeSet<String> = away.iter().filter(|it| it.wait.is_zero()).map(|it| it.id.clone()).collect();
        let given_up = gather.give_up(&certain);
        away.retain(|it| given_up.contains(&it.id));
        away
    }

    /// What came back and did not reach this program, because it is slower than the master or was away for a moment, is in
    /// the job cache. Returns those who are silent indeed.
    fn hand_over_stored(
        &self,
        gather: &mut Gather,
        ids: BTreeSet<String>,
        on: &mut impl FnMut(Outcome),
    ) -> BTreeSet<String> {
        let mut silent = ids;
        let Some(jobs) = &self.settings.jobs else { return silent };
        let jid = gather.jid().to_owned();
        silent.retain(|id| {
            let stored = MinionId::new(id.as_str()).ok().map(|minion| jobs.return_of(&jid, &minion));
            let Some(Ok(Some(stored))) = stored else { return true };
            if gather.note(id) {
                let mut data = stored.to_map();
                data.insert("id", id.as_str());
                data.insert("jid", jid.as_str());
                on(Outcome::Answer(Return { id: id.clone(), data }));
            }
            false
        });
        silent
    }

    /// The ids in order, those with an accepted key first, as Salt names them.
    pub fn keys_first(&self, ids: impl IntoIterator<Item = String>) -> Vec<String> {
        let accepted = self.accepted();
        let (mut known, unknown): (Vec<String>, Vec<String>) = ids.into_iter().partition(|id| accepted.contains(id));
        known.extend(unknown);
        known
    }

    fn accepted(&self) -> BTreeSet<String> {
        match std::fs::read_dir(&self.settings.accepted_dir) {
            Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
            Err(error) => {
                tracing::warn!(path = %self.settings.accepted_dir.display(), %error, "failed to list accepted keys");
                Default::default()
            }
        }
    }
}

/// When the master is asked who is away.
pub(crate) struct Look {
    published: Duration,
    at: Option<Duration>,
}

/// Most jobs are over by then, and nobody has to ask.
const QUIET: Duration = Duration::from_millis(500);

impl Look {
    /// All are waited for.
    pub(crate) fn never() -> Self {
        Look { published: Duration::ZERO, at: None }
    }

    /// Minions a job is held for are waited for, and those of masters below are not known.
    fn new(ticket: &Ticket, patience: Patience, now: Duration) -> Self {
        let asks = ticket.held.is_none() && patience.syndics.is_none();
        Look { published: now, at: asks.then(|| now + QUIET) }
    }

    fn is_due(&self, now: Duration) -> bool {
        self.at.is_some_and(|at| now >= at)
    }
}

/// What comes out of gathering.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A minion answered.
    Answer(Return),
    /// A minion told how far it is with a run of states.
    Step(Step),
    /// These did not.
    Silent(Vec<String>),
    /// These did not get the job: they are not connected.
    Away(Vec<Away>),
    /// The job is held for these, and they are waited for.
    Waiting(Vec<String>),
}

/// Reads the master's answer to a publication.
fn ticket(answer: Value) -> Result<Option<Ticket>, Error> {
    let map = match answer {
        Value::Map(map) => map,
        Value::Str(text) if text.is_empty() => return Err(Error::Authentication),
        Value::Str(text) => return Err(Error::Refused(text)),
        other if !other.truthy() => return Err(Error::Authentication),
        other => return Err(Error::Answer(format!("{} instead of a map", other.type_name()))),
    };
    if let Some(error) = map.get("error") {
        let text = error.get("message").unwrap_or(error).to_string();
        return Err(Error::Refused(text));
    }
    let load = map.get("load").cloned().ok_or_else(|| Error::Answer("there is no load".into()))?;
    if let (None, Some(error)) = (load.get("jid"), load.get("error")) {
        return Err(Error::Refused(error.to_string()));
    }
    let published = Published::from_value(load).map_err(|error| Error::Answer(error.to_string()))?;
    // A load with an error beside an empty job id means that nobody matched.
    let held = published.extra.get("held").and_then(Held::of);
    Ok(published.jid.0.map(|jid| Ticket { jid, minions: published.minions, held }))
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn answers_are_tickets_or_reasons() {
        let good =
            map! { "enc" => "clear", "load" => map! { "jid" => "1", "minions" => list!["a"], "missing" => list![] } };
        assert_eq!(
            ticket(good.into()).unwrap(),
            Some(Ticket { jid: "1".into(), minions: vec!["a".into()], held: None })
        );
        let nobody = map! { "enc" => "clear", "load" => map! { "jid" => Value::Null, "minions" => list![], "error" => "Master could not resolve minions for target x" } };
        assert_eq!(ticket(nobody.into()).unwrap(), None);
        let refused =
            map! { "error" => map! { "name" => "AuthorizationError", "message" => "Authorization error occurred." } };
        assert_eq!(ticket(refused.into()).unwrap_err().to_string(), "Authorization error occurred.");
        assert!(matches!(ticket("".into()), Err(Error::Authentication)));
        assert_eq!(ticket("bad load".into()).unwrap_err().to_string(), "bad load");
        assert!(matches!(ticket(7.into()), Err(Error::Answer(_))));
    }
}
