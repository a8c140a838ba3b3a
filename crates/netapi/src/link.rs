//! Requests to the master: tokens, jobs, runners, wheel functions.

mod batch;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::Ticket;
use client::gather::{Action, Gather, Return, Timeouts};
use event::Event;
use rt::Rt;
use targeting::TargetType;
use tokio::sync::broadcast;
use tokio::time::Instant;
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::PublishRequest;

use crate::bus::{self, Bus};
use crate::failure::Failure;
use crate::lanes::Lanes;
use crate::logins::{self, Attempt, Logins};
use crate::low::{Call, Command, Local, Work};
use crate::own_jobs::OwnJobs;

/// How long the master may take to answer about the fleet: it may have to compare files with other masters.
const FLEET_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a master that is well may take to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// The way to the master, for all HTTP clients.
pub struct Link {
    rt: Rt,
    lanes: Lanes,
    logins: Logins,
    /// The jobs that users have started here.
    pub own_jobs: OwnJobs,
    /// The event bus.
    pub bus: Bus,
    settings: client::Settings,
    nodegroups: Map,
    timeout: Duration,
    gather_timeout: Duration,
    /// How long syndics may take to name their minions, if there are any.
    syndics: Option<Duration>,
    runner_timeout: Duration,
    /// The master's option `failhard`, for batches.
    failhard: bool,
}

impl Link {
    /// Creates the link, without connecting.
    pub fn new(rt: Rt, config: &config::Master, runner_timeout: Duration) -> Self {
        let settings = client::settings::from_config(config);
        Link {
            lanes: Lanes::new(&rt, &settings.request_port),
            logins: Logins::default(),
            own_jobs: OwnJobs::new(),
            bus: Bus::new(rt.clone(), settings.bus.clone()),
            rt,
            settings,
            nodegroups: config.nodegroups.clone(),
            timeout: config.client.timeout,
            gather_timeout: config.client.gather_job_timeout,
            syndics: config.jobs.order_masters.then_some(config.client.syndic_wait),
            runner_timeout,
            failhard: config.raw.get("failhard").is_some_and(Value::truthy),
        }
    }

    /// Reads the master's events, for ever.
    pub async fn follow_bus(self: Arc<Self>) {
        self.bus.run(self.rt.clone(), self.settings.bus.clone()).await;
    }

    fn check_running(&self) -> Result<(), Failure> {
        match &self.settings.running_file {
            Some(path) if !path.exists() => Err(Failure::no_master()),
            _ => Ok(()),
        }
    }

    async fn ask(&self, load: Map, timeout: Duration) -> Result<Value, Failure> {
        self.check_running()?;
        if let Some(token) = self.own_jobs.unknown_token(&load) {
            // It is learnt by that. Whether it counts is the master's answer to the request itself.
            self.token(&token).await?;
        }
        let attempt = Attempt::of(&load);
        let mut load = load;
        if attempt.is_some() {
            Attempt::name_client(&mut load);
        }
        let _turn = match &attempt {
            Some(_) => Some(self.logins.turn(logins::client()).await?),
            None => None,
        };
        let starting = self.own_jobs.start(&load);
        let answer = self.lanes.ask(load, timeout).await?;
        if let Some(starting) = starting {
            starting.answered(&answer);
        }
        if let Some(attempt) = attempt {
            attempt.note_refusal(&answer);
        }
        match answer.get("error") {
            Some(Value::Map(error)) => Err(Failure::of_master(error)),
            _ => Ok(answer),
        }
    }

    /// Asks for a token. Returns `None` if the login is refused.
    pub async fn make_token(&self, login: Map) -> Result<Option<Map>, Failure> {
        let mut load = login;
        load.insert("cmd", "mk_token");
        self.asked_for_token(load).await
    }

    /// Asks for the content of a token. Returns `None` if it does not count.
    pub async fn token(&self, token: &str) -> Result<Option<Map>, Failure> {
        self.asked_for_token(map! { "cmd" => "get_token", "token" => token }).await
    }

    async fn asked_for_token(&self, load: Map) -> Result<Option<Map>, Failure> {
        // A future in a box, because a request with an unknown token asks for the token first.
        let answer = Box::pin(self.ask(load, self.settings.publish_timeout)).await?;
        let token = answer.into_map().filter(|token| token.contains_key("token"));
        if let Some(token) = &token {
            self.own_jobs.learn(token);
        }
        Ok(token)
    }

    /// Returns whether the master answers.
    pub async fn answers(&self) -> bool {
        self.ask(map! { "cmd" => "ping" }, PING_TIMEOUT).await.is_ok()
    }

    /// Asks for a part of what the master knows of the fleet, with the token of a user.
    ///
    /// # Errors
    /// When the token does not count, or the master does not answer.
    pub async fn fleet(&self, load: Map) -> Result<Value, Failure> {
        self.ask(load, FLEET_TIMEOUT).await
    }

    /// Returns a mistake of the client, unless the credentials do not count: facts are only for those who have logged in.
    async fn mistake(&self, failure: Failure, proof: &Map) -> Failure {
        let proven = match proof.get_str("token") {
            Some(token) => self.token(token).await,
            None => self.make_token(proof.clone()).await,
        };
        match proven {
            Ok(Some(_)) => failure,
            Ok(None) => Failure::new(401, "Authentication error occurred."),
            Err(failure) => failure,
        }
    }

    /// Carries out a command. A command in batches has an answer for each minion, the others have one.
    pub async fn run(&self, command: Command) -> Result<Vec<Value>, Failure> {
        let Command { proof, work } = command;
        let answer = match work {
            Work::Batch(job, how) => return self.batch(*job, how, proof).await,
            Work::Subset(job, count) => self.subset(*job, count, proof).await,
            Work::Local(job) => self.local(*job, proof).await,
            Work::Runner(call) => self.runner(call, proof).await,
            Work::Wheel(call) => {
                let detached = call.detached;
                let mut event = self.wheel(call, proof).await?;
                if detached {
                    // The function has ended already: the master answers then.
                    let jid = event.get("data").and_then(|data| data.get("jid")).cloned().unwrap_or_default();
                    let tag = event.remove("tag").unwrap_or_default();
                    return Ok(vec![map! { "tag" => tag, "jid" => jid }.into()]);
                }
                Ok(event.into())
            }
        };
        Ok(vec![answer?])
    }

    /// Calls a wheel function. Returns the tag and the data of its event.
    pub async fn wheel(&self, call: Call, proof: Map) -> Result<Map, Failure> {
        let timeout = call.timeout.unwrap_or(self.runner_timeout);
        let answer = self.ask(call.fields("wheel", proof), timeout).await?;
        let mut event = answer.into_map().ok_or_else(strange)?;
        let data = event.remove("data").and_then(Value::into_map).ok_or_else(strange)?;
        event.insert("data", in_order(data, &["fun", "jid", "tag", "user", "return", "success"]));
        Ok(event)
    }

    /// Calls a runner, and waits for its event unless the client does not want to.
    pub async fn runner(&self, call: Call, proof: Map) -> Result<Value, Failure> {
        let until = Instant::now() + call.timeout.unwrap_or(self.runner_timeout);
        let (detached, full, function) = (call.detached, call.full_return, call.function.clone());
        // Before the request: the runner may end before its answer arrives.
        let mut events = self.bus.subscribe().await?;
        let answer = self.ask(call.fields("runner", proof), self.settings.publish_timeout).await?;
        let tag = answer.get("tag").and_then(Value::as_str).ok_or_else(strange)?.to_owned();
        if detached {
            return Ok(map! { "tag" => tag, "jid" => answer.get("jid").cloned().unwrap_or_default() }.into());
        }
        let end = format!("{tag}/ret");
        let ended = async {
            while let Some(event) = bus::next(&mut events).await {
                if event.tag() == end {
                    return Some(event);
                }
            }
            None
        };
        let event = tokio::time::timeout_at(until, ended).await.map_err(|_| Failure::too_late())?;
        let data = event.ok_or_else(Failure::no_master)?.data().clone();
        if let Some(missing) = missing(&function, &data) {
            return Err(Failure::bad_request(missing));
        }
        if full {
            let data = in_order(data, &["fun", "jid", "user", "fun_args", "_stamp", "return", "success"]);
            return Ok(map! { "data" => data, "tag" => end }.into());
        }
        Ok(data.get("return").cloned().unwrap_or_default())
    }

    /// Publishes a job, and gathers its returns unless the client does not want to.
    async fn local(&self, job: Local, proof: Map) -> Result<Value, Failure> {
        let mut job = job;
        if let Err(failure) = self.prepare(&mut job).await {
            return Err(self.mistake(failure, &proof).await);
        }
        // Before the job: a minion may return before the answer arrives.
        let events = self.bus.subscribe().await?;
        let patience = self.patience(&job);
        let (detached, full, closed) =
            (job.detached, job.full_return, self.syndics.is_none() && names_ids(&job.target_type));
        let Some(ticket) = self.publish(self.request(job, &proof, patience.timeout)).await? else {
            return Ok(Map::new().into());
        };
        if detached {
            return Ok(map! { "jid" => ticket.jid, "minions" => ticket.minions }.into());
        }
        let gathering = Gathering { link: self, proof, full, closed, events, returns: Map::new(), lost: false };
        Ok(gathering.run(ticket, patience).await?.into())
    }

    fn patience(&self, job: &Local) -> Timeouts {
        Timeouts {
            timeout: job.timeout.unwrap_or(self.timeout),
            gather: job.gather_timeout.unwrap_or(self.gather_timeout),
            syndics: self.syndics,
        }
    }

    /// Finds the minions of groups, and checks the id.
    async fn prepare(&self, job: &mut Local) -> Result<(), Failure> {
        let resolved = client::resolve_nodegroups(&mut job.target, &mut job.target_type, &self.nodegroups);
        resolved.map_err(|error| Failure::bad_request(error.to_string()))?;
        self.check_jid(&job.jid).await
    }

    /// Refuses the id of a job that exists: its returns would be mixed.
    async fn check_jid(&self, jid: &str) -> Result<(), Failure> {
        let Some(jobs) = self.settings.jobs.clone().filter(|_| !jid.is_empty()) else { return Ok(()) };
        let wanted = jid.to_owned();
        match self.rt.blocking(move || jobs.contains(&wanted)).await {
            Ok(Ok(false)) => Ok(()),
            Ok(Ok(true)) => Err(Failure::bad_request("'jid' is the id of a job that exists")),
            Ok(Err(error)) => {
                tracing::error!("{error}");
                Err(Failure::unexpected())
            }
            Err(_) => Err(Failure::unexpected()),
        }
    }

    fn request(&self, job: Local, proof: &Map, timeout: Duration) -> PublishRequest {
        let returners = [job.returners.as_str(), &self.settings.ext_job_cache];
        let returners: Vec<&str> = returners.into_iter().filter(|name| !name.is_empty()).collect();
        let mut options = job.options;
        options.update(proof.clone());
        PublishRequest {
            tgt: job.target,
            fun: job.function,
            arg: Value::List(job.arguments),
            key: "".into(),
            tgt_type: Some(job.target_type),
            ret: Some(returners.join(",").into()),
            jid: Some(job.jid.into()),
            kwargs: Some(options),
            user: Some(client::user::request_user()),
            to: self.settings.order_masters.then(|| timeout.as_secs().into()),
            extra: Map::new(),
        }
    }

    async fn publish(&self, request: PublishRequest) -> Result<Option<Ticket>, Failure> {
        let answer = self.ask(request.into_map(), self.settings.publish_timeout).await?;
        Ticket::from_answer(answer).map_err(|error| match error {
            client::Error::Authentication => Failure::new(401, "Authentication error occurred."),
            error => {
                tracing::error!("failed to publish a job: {error}");
                Failure::unexpected()
            }
        })
    }

    /// Asks minions whether they still run the job. A question that is refused is one that nobody answers.
    ///
    /// # Errors
    /// When the master is away.
    async fn ask_running(&self, proof: &Map, jid: &str, ids: BTreeSet<String>) -> Result<Option<String>, Failure> {
        let accepted = &self.settings.accepted_dir;
        // The master would refuse the whole list for an id without a key.
        let known = |id: &String| MinionId::new(id.as_str()).is_ok() && accepted.join(id).exists();
        let ids: Vec<String> = ids.into_iter().filter(known).collect();
        if ids.is_empty() {
            return Ok(None);
        }
        let question = Local {
            target: ids.into(),
            target_type: "list".to_owned(),
            function: "saltutil.find_job".into(),
            arguments: vec![jid.into()],
            returners: String::new(),
            jid: String::new(),
            options: Map::new(),
            timeout: None,
            gather_timeout: None,
            full_return: false,
            detached: true,
        };
        let request = self.request(question, proof, self.gather_timeout);
        match self.publish(request).await {
            Ok(ticket) => Ok(ticket.map(|ticket| ticket.jid)),
            Err(failure) => {
                tracing::warn!("failed to ask whether job {jid} still runs: {}", failure.message);
                if failure == Failure::no_master() { Err(failure) } else { Ok(None) }
            }
        }
    }

    /// Returns the minions that are to return, from the job cache.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn expected(&self, jid: &str) -> Result<Vec<String>, Failure> {
        let jid = jid.to_owned();
        self.of_jobs(move |jobs| jobs.minions(&jid)).await
    }

    /// Returns whether the job cache has a job.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn has_job(&self, jid: &str) -> Result<bool, Failure> {
        let jid = jid.to_owned();
        self.of_jobs(move |jobs| jobs.contains(&jid)).await
    }

    /// Returns the minions of a job that have not returned; `None` for an unknown job.
    ///
    /// # Errors
    /// When the job cache cannot be read.
    pub async fn missing(&self, jid: &str) -> Result<Option<Vec<String>>, Failure> {
        let jid = jid.to_owned();
        self.of_jobs(move |jobs| {
            if !jobs.has_load(&jid)? {
                return Ok(None);
            }
            let mut missing = Vec::new();
            for id in jobs.minions(&jid)? {
                let returned = match MinionId::new(id.as_str()) {
                    Ok(minion) => jobs.return_of(&jid, &minion)?.is_some(),
                    Err(_) => false,
                };
                if !returned {
                    missing.push(id);
                }
            }
            Ok(Some(missing))
        })
        .await
    }

    /// Reads the job cache. Without one nothing is known.
    async fn of_jobs<T: Default + Send + 'static>(
        &self,
        read: impl FnOnce(&store::jobs::JobCache) -> store::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(jobs) = self.settings.jobs.clone() else { return Ok(T::default()) };
        match self.rt.blocking(move || read(&jobs)).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                tracing::error!("{error}");
                Err(Failure::unexpected())
            }
            Err(_) => Err(Failure::unexpected()),
        }
    }

    /// Returns the return of a minion in the job cache: the event may have been missed.
    pub async fn stored(&self, jid: &str, id: &str) -> Option<Map> {
        let (jobs, minion) = (self.settings.jobs.clone()?, MinionId::new(id).ok()?);
        let wanted = jid.to_owned();
        let stored = self.rt.blocking(move || jobs.return_of(&wanted, &minion)).await.ok()?;
        let stored = stored.inspect_err(|error| tracing::warn!("{error}")).ok()??;
        let mut data = stored.to_map();
        data.insert("id", id);
        data.insert("jid", jid);
        Some(data)
    }
}

/// Puts the entries of a map in Salt's order; further ones follow.
fn in_order(mut map: Map, names: &[&str]) -> Map {
    let mut ordered = Map::new();
    for name in names {
        if let Some(value) = map.remove(name) {
            ordered.insert(*name, value);
        }
    }
    ordered.update(map);
    ordered
}

/// Returns whether a target means minions by their ids alone. Then nobody else has a return: any minion may send one for any job. With
/// other targets only minions know whether they are meant, for the master may have old grains of them.
fn names_ids(target_type: &str) -> bool {
    TargetType::from_name(target_type).is_ok_and(|kind| !kind.needs_data())
}

/// Returns what the event of a runner says if there is no such function.
fn missing(function: &str, event: &Map) -> Option<String> {
    let failed = event.get("success").and_then(Value::as_bool) == Some(false);
    let missing = format!("'{function}' is not available.");
    let text = event.get("return").and_then(Value::as_str)?;
    (failed && text.starts_with("Exception occurred in runner") && text.ends_with(&missing)).then_some(missing)
}

fn strange() -> Failure {
    tracing::error!("the master's answer has an unexpected form");
    Failure::unexpected()
}

/// The gathering of one job's returns.
struct Gathering<'a> {
    link: &'a Link,
    proof: Map,
    full: bool,
    /// True if others than the expected minions cannot be meant.
    closed: bool,
    events: broadcast::Receiver<Event>,
    returns: Map,
    /// True if the master was away when it should have asked the minions that have not returned.
    lost: bool,
}

impl Gathering<'_> {
    /// Gathers until the job has ended.
    ///
    /// # Errors
    /// When minions have not returned, and nobody knows whether they still run the job because the master was away.
    async fn run(mut self, ticket: Ticket, patience: Timeouts) -> Result<Map, Failure> {
        let started = Instant::now();
        let mut gather = Gather::new(&ticket.jid, ticket.minions, patience, Duration::ZERO);
        if self.closed {
            gather = gather.closed();
        }
        let mut actions = gather.tick(Duration::ZERO);
        loop {
            for action in actions {
                match action {
                    Action::Answer(answer) => self.add(answer),
                    Action::Silent(ids) => self.silent(&mut gather, ids).await?,
                    Action::Ask(ids) => {
                        let question = self.link.ask_running(&self.proof, gather.jid(), ids).await;
                        self.lost = question.is_err();
                        gather.question_published(question.ok().flatten());
                    }
                    // The master has answered the request with the reason already.
                    Action::Step(_) | Action::Refused => {}
                    Action::Finished => return Ok(self.returns),
                }
            }
            let next = bus::next(&mut self.events);
            let event = match gather.wake_at() {
                Some(at) => tokio::time::timeout_at(started + at, next).await.ok(),
                None => Some(next.await),
            };
            actions = match event {
                Some(Some(event)) => gather.event(event.tag(), event.data(), started.elapsed()),
                Some(None) => return Ok(self.returns),
                None => gather.tick(started.elapsed()),
            };
        }
    }

    fn add(&mut self, answer: Return) {
        let Return { id, mut data } = answer;
        let returned = data.remove("return").unwrap_or_default();
        if !self.full {
            self.returns.insert(id, returned);
            return;
        }
        let mut whole = map! { "ret" => returned };
        for name in ["out", "retcode", "jid"] {
            if let Some(value) = data.remove(name) {
                whole.insert(name, value);
            }
        }
        self.returns.insert(id, whole);
    }

    async fn silent(&mut self, gather: &mut Gather, ids: BTreeSet<String>) -> Result<(), Failure> {
        for id in ids {
            if let Some(data) = self.link.stored(gather.jid(), &id).await {
                if gather.note(&id) {
                    self.add(Return { id, data });
                }
                continue;
            }
            if self.lost {
                return Err(Failure::lost_master(gather.jid()));
            }
            self.returns.insert(id, no_return(gather.jid(), self.full));
        }
        Ok(())
    }
}

/// The outputter that whole returns name for a silent minion.
const NO_RETURN: &str = "no_return";

/// Returns what Salt says instead of the return of a silent minion.
fn no_return(jid: &str, full: bool) -> Value {
    let text = format!(
        "Minion did not return. [No response]\nThe minions may not have all finished running and any remaining minions \
         will return upon completion. To look up the return data for this job later, run the following command:\n\n\
         salt-run jobs.lookup_jid {jid}"
    );
    match full {
        true => map! { "out" => NO_RETURN, "ret" => text, "retcode" => 1 }.into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_order_of_salt() {
        let event = map! { "fun" => 1, "success" => true, "tag" => 2, "jid" => 3, "more" => 4 };
        let ordered = in_order(event, &["fun", "jid", "tag", "user", "success"]);
        assert_eq!(ordered.text_keys().collect::<Vec<_>>(), ["fun", "jid", "tag", "success", "more"]);
    }

    #[test]
    fn only_targets_by_id_are_closed() {
        assert!(["glob", "list", "pcre"].into_iter().all(names_ids));
        assert!(!["grain", "compound", "pillar", "nodegroup", "ipcidr", "odd"].into_iter().any(names_ids));
    }

    #[test]
    fn a_silent_minion_has_failed() {
        let full = no_return("20261126000000000000", true);
        assert_eq!(full.get("retcode"), Some(&1.into()), "programs that read only the codes notice it");
        assert_eq!(full.get("out"), Some(&"no_return".into()));
        assert_eq!(full.get("ret"), Some(&no_return("20261126000000000000", false)));
    }

    #[test]
    fn a_runner_that_is_missing_is_a_mistake_of_the_client() {
        let text = "Exception occurred in runner a.b: salt.exceptions.CommandExecutionError: 'a.b' is not available.";
        let event = |success| map! { "success" => success, "return" => text };
        assert_eq!(missing("a.b", &event(false)).as_deref(), Some("'a.b' is not available."));
        assert_eq!(missing("a.c", &event(false)), None);
        assert_eq!(missing("a.b", &event(true)), None);
    }
}
