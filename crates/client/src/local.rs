//! The client: connects [`crate::gather`] with the event bus and the request port.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use event::{Endpoint, Endpoints, Filter, Listening, Remote, RemoteError};
use rt::Rt;
use tokio::time::Instant;
use value::{Map, Value, map};
use wire::MinionId;
use wire::envelope::Envelope;
use wire::loads::{PublishRequest, Published};

use crate::answers::{Away, Held};
use crate::gather::{Action, Gather, Return, Step, Timeouts};
use crate::proof::Proof;
use crate::request_port::{RequestPort, RequestPortError};
use crate::user;

/// How to reach a master on this host.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The sockets of its event bus.
    pub bus: Endpoints,
    /// The file that exists while the master runs; `None` with `ipc_mode: tcp`.
    pub running_file: Option<PathBuf>,
    /// Its request port.
    pub request_port: crate::request_port::RequestPortSettings,
    /// The directory with the keys of local users (`cachedir`).
    pub cachedir: PathBuf,
    /// The user the master runs as.
    pub master_user: String,
    /// The directory of accepted keys.
    pub accepted_dir: PathBuf,
    /// The timeout of a publication (`publish_timeout`).
    pub publish_timeout: Duration,
    /// Returners that store every job (`ext_job_cache`); empty for none.
    pub ext_job_cache: String,
    /// True if lower masters are expected (`order_masters`).
    pub order_masters: bool,
    /// The master's job cache.
    pub jobs: Option<store::jobs::JobCache>,
}

/// A job to be published.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The target: a string, or a list of ids.
    pub target: Value,
    /// The type of the target.
    pub target_type: String,
    /// The function, or a list of functions.
    pub function: Value,
    /// The arguments; a list of lists for several functions.
    pub arguments: Vec<Value>,
    /// Returners, separated by commas.
    pub returners: String,
    /// The job id to use; empty to let the master choose.
    pub jid: String,
    /// Options of the publication: `delimiter`, `metadata`…
    pub options: Map,
    /// The timeout in seconds, for lower masters.
    pub timeout: i64,
}

/// A published job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// The job id.
    pub jid: String,
    /// The minions that are expected to answer.
    pub minions: Vec<String>,
    /// The confirmation of the hold, if one was requested and the master can hold jobs.
    pub held: Option<Held>,
}

/// Errors between this client and the master. Salt's texts are used where Salt has some.
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
    /// The request could not be sent.
    #[error("failed to send the job to the master: {0}")]
    RequestPort(#[from] RequestPortError),
    /// The connection to the event bus failed.
    #[error("{}", no_bus(.0))]
    Bus(#[from] event::RemoteError),
    /// The master does not accept this user's key.
    #[error(
        "Failed to authenticate! This is most likely because this user is not permitted to execute commands, but there \
         is a small possibility that a disk error occurred (check disk/inode usage)."
    )]
    Authentication,
    /// The master refused the request, with this reason.
    #[error("{0}")]
    Refused(String),
    /// The result of a runner did not come in time.
    #[error("RunnerClient job '{0}' timed out")]
    Runner(String),
    /// A Salt master, which cannot hold jobs.
    #[error("this master cannot hold jobs for minions that are away (--hold, job_hold): it is not one of Saltern")]
    CannotHold,
    /// The master's answer has an unexpected form.
    #[error("unexpected answer from the master: {0}")]
    Answer(String),
}

/// Describes why the event bus cannot be used. Salt's sentence stands first if the master does not run: a master that was killed
/// leaves its sockets.
fn no_bus(error: &RemoteError) -> String {
    match error {
        RemoteError::Connect { endpoint, source } if source.kind() == io::ErrorKind::PermissionDenied => {
            let group = match group_of(endpoint) {
                Some(group) => format!("be in the group {group}"),
                None => "have access to it".to_owned(),
            };
            format!("failed to listen to the master's events: this user must {group}, or use --async: {error}")
        }
        RemoteError::Connect { .. } => format!("{} {error}", Error::NotRunning),
        other => format!("failed to listen to the master's events: {other}"),
    }
}

/// Returns the group of a socket, if members of it may connect.
fn group_of(endpoint: &Endpoint) -> Option<String> {
    let Endpoint::Path(path) = endpoint else { return None };
    let about = std::fs::metadata(path).ok().filter(|about| about.mode() & 0o060 == 0o060)?;
    let group = nix::unistd::Group::from_gid(about.gid().into()).ok().flatten();
    group.map(|group| group.name).filter(|name| name != "root")
}

/// Pauses between attempts to reconnect to the bus.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A client of the master on this host.
pub struct LocalClient {
    rt: Rt,
    settings: Settings,
    request_port: RequestPort,
    user: String,
    key: String,
    proof: Proof,
    started: Instant,
}

/// What a wait for an event ended with.
pub(crate) enum OnBus {
    Event(event::Event),
    /// The bus was lost and is connected again. Events in between were missed.
    Reconnected,
    WakeTime,
}

impl LocalClient {
    /// Creates a client for the user of this process, without connecting.
    pub fn new(rt: Rt, settings: Settings) -> Self {
        let user = user::request_user();
        let path = user::key_path(&settings.cachedir, &user, &settings.master_user);
        let key = user::read_key(&path).unwrap_or_default();
        let request_port = RequestPort::new(rt.clone(), settings.request_port.clone());
        LocalClient { rt, settings, request_port, user, key, proof: Proof::Key, started: Instant::now() }
    }

    /// Proves in another way who the user is when jobs are published.
    pub fn set_proof(&mut self, proof: Proof) {
        self.proof = proof;
    }

    /// Returns whether the user proves with a token or a login who they are.
    pub fn has_logged_in(&self) -> bool {
        !self.proof.is_key()
    }

    pub(crate) fn proof_fields(&self) -> Map {
        self.proof.fields()
    }

    /// Returns the time to pass to [`Gather`].
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Reads the user's key again, because the master creates new keys when it starts. Returns whether the key has changed.
    pub(crate) fn read_key_again(&mut self) -> bool {
        let path = user::key_path(&self.settings.cachedir, &self.user, &self.settings.master_user);
        let key = user::read_key(&path).unwrap_or_default();
        let changed = key != self.key;
        self.key = key;
        changed
    }

    /// Sends a request to the master.
    pub(crate) async fn send(&self, request: Envelope) -> Result<Value, Error> {
        self.send_within(request, Duration::ZERO).await
    }

    /// Sends a request whose answer may take longer than that to a publication.
    pub(crate) async fn send_within(&self, request: Envelope, limit: Duration) -> Result<Value, Error> {
        let limit = limit.max(self.settings.publish_timeout);
        self.request_port.ask(request, limit).await.map_err(|error| match error {
            RequestPortError::TimedOut => Error::TimedOut,
            other => Error::RequestPort(other),
        })
    }

    /// Reads a minion's return from the job cache.
    pub(crate) fn stored_return(&self, jid: &str, id: &wire::MinionId) -> Option<Map> {
        let stored = self.settings.jobs.as_ref()?.return_of(jid, id);
        let stored = stored.inspect_err(|error| tracing::warn!("{error}")).ok()?;
        stored.map(|stored| stored.to_map())
    }

    /// Connects to the event bus. Call it before publishing, so that no return is missed.
    pub async fn listen(&self) -> Result<Listening, Error> {
        self.listen_for(&self.events_of_jobs()).await
    }

    fn events_of_jobs(&self) -> Filter {
        if self.settings.order_masters {
            Filter::prefixes(["salt/job/", "syndic/"])
        } else {
            Filter::prefix("salt/job/")
        }
    }

    pub(crate) async fn listen_for(&self, filter: &Filter) -> Result<Listening, Error> {
        self.check_running()?;
        Ok(Remote::new(self.rt.clone(), self.settings.bus.clone()).listen(filter.clone()).await?)
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

    /// Publishes a job. Returns `None` if the target matches no minion.
    pub async fn publish(&mut self, job: &Job) -> Result<Option<Ticket>, Error> {
        self.check_running()?;
        let mut answer = self.ask(job).await?;
        if !answer.truthy() {
            // With the same key a second attempt would fail as well.
            if self.has_logged_in() || !self.read_key_again() {
                return Err(Error::Authentication);
            }
            answer = self.ask(job).await?;
        }
        Ticket::from_answer(answer)
    }

    async fn ask(&self, job: &Job) -> Result<Value, Error> {
        let load = self.request(job).into_map();
        // A user who gives a long timeout expects a busy master.
        let timeout = self.settings.publish_timeout.max(Duration::from_secs(job.timeout.max(0) as u64));
        self.request_port.ask(Envelope::clear(load), timeout).await.map_err(|error| match error {
            RequestPortError::TimedOut => Error::TimedOut,
            other => Error::RequestPort(other),
        })
    }

    fn request(&self, job: &Job) -> PublishRequest {
        let returners: Vec<&str> = [job.returners.as_str(), &self.settings.ext_job_cache]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        let mut options = job.options.clone();
        options.update(self.proof.fields());
        PublishRequest {
            tgt: job.target.clone(),
            fun: job.function.clone(),
            arg: Value::List(job.arguments.clone()),
            // Who has logged in needs no key.
            key: if self.proof.is_key() { self.key.as_str() } else { "" }.into(),
            tgt_type: Some(job.target_type.clone()),
            ret: Some(returners.join(",").into()),
            jid: Some(job.jid.as_str().into()),
            // Salt's client leaves the field out when it is empty.
            kwargs: (!options.is_empty()).then_some(options),
            user: Some(self.user.clone()),
            to: self.settings.order_masters.then(|| job.timeout.into()),
            extra: self.abilities(),
        }
    }

    /// Informs a Saltern master that this client can read its single-file job cache.
    fn abilities(&self) -> Map {
        match store::jobs::Embedded::exists(&self.settings.cachedir) {
            true => map! { wire::loads::ABILITIES_FIELD => true },
            false => Map::new(),
        }
    }

    /// Waits for the next event; `None` at `wake_at`.
    ///
    /// Reconnects if the bus closes, so a restart of the master loses no returns.
    pub async fn next_event(
        &self,
        bus: &mut Listening,
        wake_at: Option<Duration>,
    ) -> Result<Option<event::Event>, Error> {
        loop {
            match self.next_on_bus(bus, wake_at).await {
                OnBus::Event(event) => return Ok(Some(event)),
                OnBus::Reconnected => {}
                OnBus::WakeTime => return Ok(None),
            }
        }
    }

    /// Waits for the next event, for a new connection in place of a lost one, or until `wake_at`.
    pub(crate) async fn next_on_bus(&self, bus: &mut Listening, wake_at: Option<Duration>) -> OnBus {
        let filter = self.events_of_jobs();
        let wait = self.event_or_new_bus(bus, &filter);
        let Some(wake_at) = wake_at else { return wait.await };
        // A timeout drops only the wait; the connection stays usable.
        tokio::time::timeout_at(self.started + wake_at, wait).await.unwrap_or(OnBus::WakeTime)
    }

    pub(crate) async fn event_or_new_bus(&self, bus: &mut Listening, filter: &Filter) -> OnBus {
        match bus.next().await {
            Ok(event) => return OnBus::Event(event),
            Err(error) => tracing::warn!("lost the connection to the master's event bus: {error}"),
        }
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            // A restarting master is back within a second or two; more than one attempt per second is useless.
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.listen_for(filter).await {
                Ok(new) => {
                    *bus = new;
                    return OnBus::Reconnected;
                }
                // At the level of debugging: the loss itself was logged, and there may be many attempts.
                Err(error) => tracing::debug!("failed to reconnect to the master's event bus: {error}"),
            }
        }
    }

    /// Asks minions with `find_job` whether they still run a job. Returns the job id of the question.
    ///
    /// Ids without an accepted key (resources, keys deleted in the meantime) are left out, because the master would
    /// refuse the whole list. A question that cannot be published is treated as one that no minion answers.
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

    /// Gathers the returns of one job to its end and passes each to the callback.
    pub async fn gather(
        &mut self,
        bus: &mut Listening,
        ticket: &Ticket,
        patience: Timeouts,
        on: impl FnMut(Outcome),
    ) -> Result<(), Error> {
        let gather = Gather::new(&ticket.jid, ticket.minions.iter().cloned(), patience, self.now());
        // A Salt master would log this unknown command as an anomaly.
        // Who has logged in may not ask about all minions.
        let check = match self.abilities().is_empty() || self.has_logged_in() {
            true => AwayCheck::never(),
            false => AwayCheck::new(ticket, patience, self.now()),
        };
        self.gather_to_the_end(bus, gather, check, on).await
    }

    /// Carries out the actions of a [`Gather`] until it is done.
    pub(crate) async fn gather_to_the_end(
        &mut self,
        bus: &mut Listening,
        mut gather: Gather,
        mut check: AwayCheck,
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
                    // Salt's words, whatever the master's reason was.
                    Action::Refused => return Err(Error::Refused("Authorization error occurred".into())),
                    Action::Ask(ids) => {
                        let silent = self.hand_over_stored(&mut gather, ids, &mut on);
                        // A return from the job cache may have completed the job. Then there is no event to wait for.
                        handed_over = silent.is_empty();
                        gather.question_published(self.ask_running(&jid, silent.iter()).await);
                    }
                    Action::Finished => return Ok(()),
                }
            }
            if check.is_due(self.now()) && !gather.is_done() {
                let away = self.check_for_absent(&mut gather, &mut check).await;
                if !away.is_empty() {
                    on(Outcome::Away(away));
                    handed_over = true;
                }
            }
            actions = match handed_over {
                true => gather.tick(self.now()),
                false => {
                    let wake_at = gather.wake_at().into_iter().chain(check.at).min();
                    match self.next_event(bus, wake_at).await? {
                        Some(event) => gather.event(event.tag(), event.data(), self.now()),
                        None => gather.tick(self.now()),
                    }
                }
            };
        }
    }

    /// Asks the master which minions did not get the job, stops waiting for those and returns them.
    async fn check_for_absent(&mut self, gather: &mut Gather, check: &mut AwayCheck) -> Vec<Away> {
        let jid = gather.jid().to_owned();
        let mut away = match self.away(&jid).await {
            Ok(away) => away,
            Err(error) => {
                // A user who may not ask this waits as with a Salt master.
                tracing::debug!("the master does not say which minions are away: {error}");
                Vec::new()
            }
        };
        let waited = self.now() - check.published;
        // A minion that disconnected after the publication may have received the job.
        away.retain(|it| gather.waiting().contains(&it.id) && it.gone > waited);
        let wait = away.iter().map(|it| it.wait).filter(|wait| !wait.is_zero()).min();
        check.at = wait.map(|wait| self.now() + wait);
        let certain: BTreeSet<String> = away.iter().filter(|it| it.wait.is_zero()).map(|it| it.id.clone()).collect();
        let given_up = gather.give_up(&certain);
        away.retain(|it| given_up.contains(&it.id));
        away
    }

    /// Hands over returns from the job cache that this program missed, because it is slower than the master or was disconnected.
    /// Returns the minions that are really silent.
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
            // A cache that cannot be read means only that the minion is reported as silent.
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

    /// Sorts the ids as Salt does: those with an accepted key first.
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

/// When to ask the master which minions are away.
pub(crate) struct AwayCheck {
    published: Duration,
    at: Option<Duration>,
}

/// Most jobs have ended by then, and the master need not be asked.
const AWAY_CHECK_DELAY: Duration = Duration::from_millis(500);

impl AwayCheck {
    /// Never asks: every minion is waited for.
    pub(crate) fn never() -> Self {
        AwayCheck { published: Duration::ZERO, at: None }
    }

    /// Does not ask for held jobs, whose minions may be away, nor with lower masters, whose minions this master does not know.
    fn new(ticket: &Ticket, patience: Timeouts, now: Duration) -> Self {
        let asks = ticket.held.is_none() && patience.syndics.is_none();
        AwayCheck { published: now, at: asks.then(|| now + AWAY_CHECK_DELAY) }
    }

    fn is_due(&self, now: Duration) -> bool {
        self.at.is_some_and(|at| now >= at)
    }
}

/// A result of gathering.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The return of a minion.
    Answer(Return),
    /// A minion's progress in a state run.
    Step(Step),
    /// Minions that did not answer.
    Silent(Vec<String>),
    /// Minions that did not get the job because they are not connected.
    Away(Vec<Away>),
    /// Minions that are away, and for which the job is held.
    Waiting(Vec<String>),
}

impl Ticket {
    /// Parses the master's answer to a publication. Returns `None` if the target matches no minion.
    ///
    /// # Errors
    /// If the master refused the job, or the answer has an unexpected form.
    pub fn from_answer(answer: Value) -> Result<Option<Ticket>, Error> {
        let map = match answer {
            Value::Map(map) => map,
            // Salt's masters answer a wrong key with an empty string.
            Value::Str(text) if text.is_empty() => return Err(Error::Authentication),
            Value::Str(text) => return Err(Error::Refused(text)),
            other if !other.truthy() => return Err(Error::Authentication),
            other => return Err(Error::Answer(format!("{} instead of a map", other.type_name()))),
        };
        if let Some(error) = map.get("error") {
            let text = error.get("message").unwrap_or(error).to_string();
            return Err(Error::Refused(text));
        }
        let load = map.get("load").cloned().ok_or_else(|| Error::Answer("it has no load".into()))?;
        if let (None, Some(error)) = (load.get("jid"), load.get("error")) {
            return Err(Error::Refused(error.to_string()));
        }
        let published = Published::from_value(load).map_err(|error| Error::Answer(error.to_string()))?;
        // A load with an error and an empty job id means that the target matched no minion.
        let held = published.extra.get("held").and_then(Held::of);
        Ok(published.jid.0.map(|jid| Ticket { jid, minions: published.minions, held }))
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn a_bus_that_cannot_be_used_is_explained() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("master_event_pub.ipc");
        std::fs::write(&path, "").unwrap();
        let told = |kind: io::ErrorKind| {
            let endpoint = Endpoint::Path(path.clone());
            value::error::chain(&Error::Bus(RemoteError::Connect { endpoint, source: kind.into() }))
        };
        let refused = told(io::ErrorKind::ConnectionRefused);
        let begins = "The salt master could not be contacted. Is master running? cannot connect to event bus /";
        assert!(refused.starts_with(begins) && refused.ends_with("ipc: connection refused"), "{refused}");
        let denied = told(io::ErrorKind::PermissionDenied);
        assert!(denied.contains("or use --async") && denied.matches("permission denied").count() == 1, "{denied}");
    }

    #[test]
    fn an_answer_is_a_ticket_or_an_error() {
        let good =
            map! { "enc" => "clear", "load" => map! { "jid" => "1", "minions" => list!["a"], "missing" => list![] } };
        assert_eq!(
            Ticket::from_answer(good.into()).unwrap(),
            Some(Ticket { jid: "1".into(), minions: vec!["a".into()], held: None })
        );
        let nobody = map! { "enc" => "clear", "load" => map! { "jid" => Value::Null, "minions" => list![], "error" => "Master could not resolve minions for target x" } };
        assert_eq!(Ticket::from_answer(nobody.into()).unwrap(), None);
        let refused =
            map! { "error" => map! { "name" => "AuthorizationError", "message" => "Authorization error occurred." } };
        assert_eq!(Ticket::from_answer(refused.into()).unwrap_err().to_string(), "Authorization error occurred.");
        assert!(matches!(Ticket::from_answer("".into()), Err(Error::Authentication)));
        assert_eq!(Ticket::from_answer("bad load".into()).unwrap_err().to_string(), "bad load");
        assert!(matches!(Ticket::from_answer(7.into()), Err(Error::Answer(_))));
    }

    /// Events that were fired in between are lost, so a caller must hear of the gap even if nothing follows it.
    #[tokio::test]
    async fn a_new_connection_to_the_bus_is_announced_without_an_event() {
        let dir = tempfile::tempdir().unwrap();
        let bus = event::Bus::new(Rt::real(), event::DEFAULT_MAX_SIZE);
        let endpoints = Endpoints::master(dir.path());
        let client = client(dir.path(), &endpoints);
        let server = event::serve(&bus, &endpoints, event::ServeOptions::default()).await.unwrap();
        let mut listening = client.listen().await.unwrap();
        server.close().await;
        let _restarted = event::serve(&bus, &endpoints, event::ServeOptions::default()).await.unwrap();
        assert!(matches!(client.next_on_bus(&mut listening, None).await, OnBus::Reconnected));
        bus.fire("salt/job/1/held", Map::new()).unwrap();
        assert!(matches!(client.next_on_bus(&mut listening, None).await, OnBus::Event(_)));
        let now = client.now();
        assert!(matches!(client.next_on_bus(&mut listening, Some(now)).await, OnBus::WakeTime));
    }

    fn client(dir: &std::path::Path, endpoints: &Endpoints) -> LocalClient {
        let request_port = crate::request_port::RequestPortSettings {
            interface: "127.0.0.1".into(),
            port: 4506,
            kind: transport::Kind::Zeromq,
            tls: None,
        };
        let settings = Settings {
            bus: endpoints.clone(),
            running_file: None,
            request_port,
            cachedir: dir.join("cache"),
            master_user: "root".into(),
            accepted_dir: dir.join("minions"),
            publish_timeout: Duration::from_secs(1),
            ext_job_cache: String::new(),
            order_masters: false,
            jobs: None,
        };
        LocalClient::new(Rt::real(), settings)
    }
}
