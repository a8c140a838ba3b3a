//! Publishes jobs as `salt` does, and notes what a master accepted.

use std::net::SocketAddr;
use std::time::Duration;

use transport::{Requester, Target};
use value::{Map, Value, map};
use wire::envelope::Envelope;

use crate::cluster::{Cluster, OPERATOR, user};

/// A job that a master accepted.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub jid: String,
    /// The master that published it.
    pub master: String,
    /// The minions it targets.
    pub targets: Vec<String>,
    /// The time at which it was accepted.
    pub accepted: Duration,
    /// The time for which a minion that reconnects may still begin it.
    pub valid: Duration,
}

/// The time for which an ordinary job may be begun (`job_grace`).
const GRACE: i64 = 30;

/// The timeout of `salt` for the master's answer.
const PATIENCE: Duration = Duration::from_secs(15);

impl Cluster {
    /// Publishes a job at a master; `None` if the master did not confirm it.
    pub async fn publish(&self, master: &str, tgt: &str, fun: &str, arg: Vec<Value>) -> Option<Job> {
        self.publish_held(master, tgt, fun, arg, 0).await
    }

    /// Publishes a job that is held for `hold` seconds for absent minions.
    pub async fn publish_held(&self, master: &str, tgt: &str, fun: &str, arg: Vec<Value>, hold: i64) -> Option<Job> {
        let kwargs = if hold > 0 {
            map! { "job_hold" => hold }
        } else {
            Map::new()
        };
        let order = map! { "tgt" => tgt, "fun" => fun, "arg" => Value::List(arg), "jid" => "", "kwargs" => kwargs };
        // A hold shorter than the grace period of every job does not shorten it.
        self.order(master, order, hold.max(GRACE)).await
    }

    /// Publishes a job under a given id.
    pub async fn publish_as(&self, jid: &str, master: &str, tgt: &str, fun: &str, arg: Vec<Value>) -> Option<Job> {
        let arg = Value::List(arg);
        let order = map! { "tgt" => tgt, "fun" => fun, "arg" => arg, "jid" => jid, "kwargs" => Map::new() };
        self.order(master, order, GRACE).await
    }

    /// Publishes a job that may be begun within `valid` seconds.
    async fn order(&self, master: &str, order: Map, valid: i64) -> Option<Job> {
        let fun = order.get_str("fun").unwrap_or_default().to_owned();
        let mut load = map! { "cmd" => "publish", "tgt_type" => "glob", "ret" => "", "saltern" => true };
        load.update(order);
        let answer = self.ask(master, load).await;
        let job = answer.as_ref().and_then(|answer| self.accepted(master, answer, valid));
        match &job {
            Some(job) => {
                self.sim.note(format_args!("job {} {fun} accepted by {master} for {:?}", job.jid, job.targets))
            }
            None => self.sim.note(format_args!("{master} did not take {fun}: {answer:?}")),
        }
        job
    }

    fn accepted(&self, master: &str, answer: &Value, valid: i64) -> Option<Job> {
        let load = answer.get("load")?;
        let targets = load.get("minions")?.as_list()?.iter().map(Value::to_string).collect();
        let jid = load.get("jid")?.as_str()?.to_owned();
        Some(Job {
            jid,
            master: master.to_owned(),
            targets,
            // The time of the answer. The true one is earlier, so all bounds counted from here are a little generous.
            accepted: self.sim.elapsed(),
            valid: Duration::from_secs(valid as u64),
        })
    }

    /// Drops a held job at a master, as `salt-run saltern.drop` does. Returns its answer.
    pub async fn drop_held(&self, master: &str, jid: &str) -> Option<Value> {
        let answer = self.ask(master, map! { "cmd" => "saltern_drop", "jid" => jid }).await;
        self.sim.note(format_args!("{master} is to drop {jid}: {answer:?}"));
        answer
    }

    /// Asks or tells a master that shares something, as the runner `saltern` does.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn ask_set(&self, master: &str, question: Map) -> Result<Value, String> {
        self.sim.note(format_args!("{master} is asked {question:?}"));
        let mut load = map! { "cmd" => "saltern_sharing" };
        load.update(question);
        let answer = self.ask(master, load).await;
        let answer = match answer.as_ref().map(|answer| (answer.get("sharing"), answer.get("error"))) {
            Some((Some(value), _)) => Ok(value.clone()),
            Some((_, Some(error))) => Err(error.get("message").map(Value::to_string).unwrap_or_default()),
            _ => Err(format!("no answer: {answer:?}")),
        };
        self.sim.note(format_args!("{master} answers {answer:?}"));
        answer
    }

    /// Sends a request of the user who runs the master.
    async fn ask(&self, master: &str, mut load: Map) -> Option<Value> {
        let rt = self.sim.rt(OPERATOR);
        // Read each time: a master that starts writes a new key.
        let key = std::fs::read_to_string(self.path(master).join(format!("cache/.{}_key", user()))).ok()?;
        load.update(map! { "key" => key, "user" => user() });
        let target = Target::plain(SocketAddr::new(self.sim.address(master), 4506));
        let requester: Box<dyn Requester> = match self.plan.transport {
            "tcp" => Box::new(transport::tcp::TcpRequester::new(rt.clone(), target)),
            _ => Box::new(transport::zeromq::ZmqRequester::new(rt.clone(), target)),
        };
        requester.ask(Envelope::clear(load), PATIENCE).await.ok()
    }
}
