//! Runners and wheel functions that run in the master.

use std::time::Duration;

use event::{Filter, Listening};
use value::{Map, Value, map};
use wire::envelope::Envelope;

use crate::local::{Error, LocalClient, OnBus};

/// The tags of the results of runners.
const RESULTS: &str = "salt/run/";

/// A runner that the master has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Started {
    /// The job id.
    pub jid: String,
    /// The beginning of the tags of its events.
    pub tag: String,
}

impl LocalClient {
    /// Connects to the event bus for results of runners. Call it before one is started, so that no result is missed.
    ///
    /// # Errors
    /// When the master does not run, or this user may not listen.
    pub async fn listen_to_runners(&self) -> Result<Listening, Error> {
        self.listen_for(&Filter::prefix(RESULTS)).await
    }

    /// Starts a runner in the master.
    ///
    /// # Errors
    /// When the master refuses it, or cannot be asked.
    pub async fn start_runner(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Started, Error> {
        // As Salt's client sends it. A Salt master looks only into `kwarg`.
        let call = map! { "fun" => function, "kwarg" => map! { "arg" => args, "kwarg" => kwargs } };
        let answer = self.call("runner", call, Duration::ZERO).await?;
        let text = |name| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        match (text("jid"), text("tag")) {
            (Some(jid), Some(tag)) => Ok(Started { jid, tag }),
            _ => Err(unexpected(&answer)),
        }
    }

    /// Waits for the result of a runner: the map of its event, with `return` and `success`.
    ///
    /// # Errors
    /// When it does not come in time.
    pub async fn runner_result(&self, bus: &mut Listening, started: &Started, limit: Duration) -> Result<Map, Error> {
        let tag = format!("{}/ret", started.tag);
        let filter = Filter::prefix(RESULTS);
        let result = async {
            loop {
                match self.event_or_new_bus(bus, &filter).await {
                    // The runner was started here, so what another master says under its tag is not its result.
                    OnBus::Event(event) if event.tag() == tag && !event.data().contains_key(event::PEER) => {
                        return event.data().clone();
                    }
                    OnBus::Event(_) | OnBus::Reconnected | OnBus::WakeTime => {}
                }
            }
        };
        tokio::time::timeout(limit, result).await.map_err(|_| Error::Runner(started.jid.clone()))
    }

    /// Calls a wheel function in the master, and returns the map of its event, with `return` and `success`.
    ///
    /// # Errors
    /// When the master refuses it, or cannot be asked.
    pub async fn wheel(&self, function: &str, args: Vec<Value>, limit: Duration) -> Result<Map, Error> {
        let call = map! { "fun" => function, "arg" => args, "kwarg" => Map::new() };
        let answer = self.call("wheel", call, limit).await?;
        match answer.get("data").and_then(Value::as_map) {
            Some(data) => Ok(data.clone()),
            None => Err(unexpected(&answer)),
        }
    }

    async fn call(&self, cmd: &str, mut load: Map, limit: Duration) -> Result<Value, Error> {
        self.check_running()?;
        load.insert("cmd", cmd);
        match self.has_logged_in() {
            true => load.update(self.proof_fields()),
            false => load.update(map! { "user" => self.user(), "key" => self.key() }),
        }
        let answer = self.send_within(Envelope::clear(load), limit).await?;
        match answer.traverse("error:message", ":").and_then(Value::as_str) {
            Some(reason) => Err(Error::Refused(reason.to_owned())),
            None => Ok(answer),
        }
    }
}

fn unexpected(answer: &Value) -> Error {
    Error::Answer(value::escape::brief(&value::python::repr(answer), 100).into_owned())
}
