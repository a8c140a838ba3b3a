//! Running functions on minions and waiting for what they return.

use std::time::Duration;

use client::gather::Return;
use client::{LocalClient, Outcome, settings};
use exec::{Error, Result};
use targeting::expand_nodegroup;
use value::{Map, Value, map};

use crate::RunnerContext;
use value::error::chain;

/// A function to run on minions.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The job: target, function, arguments.
    pub job: client::Job,
    /// The time limit for returns (`timeout`).
    pub timeout: Duration,
    /// The time limit for the answer whether a silent minion still runs the job (`gather_job_timeout`).
    pub gather: Duration,
}

/// The returns of the minions.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The job id; empty when the target matched no minion.
    pub jid: String,
    /// The returns, in the order of their arrival.
    pub returned: Vec<Return>,
    /// The minions that did not answer.
    pub silent: Vec<String>,
}

impl Ask {
    /// A function without arguments for all minions a target means.
    pub fn new(ctx: &RunnerContext, target: impl Into<Value>, target_type: &str, function: &str) -> Self {
        let job = client::Job {
            target: target.into(),
            target_type: target_type.to_owned(),
            function: function.into(),
            ..client::Job::default()
        };
        Ask { job, timeout: ctx.config.client.timeout, gather: ctx.config.client.gather_job_timeout }
    }

    /// The same, with arguments.
    pub fn with(mut self, args: Vec<Value>, kwargs: Map) -> Self {
        self.job.arguments = yaml::args::condition_input(args, kwargs);
        self
    }

    /// Publishes the job and gathers its returns. Returns at once when the target matched no minion.
    ///
    /// # Errors
    /// When there is no master, or it refuses.
    pub async fn run(&self, ctx: &RunnerContext) -> std::result::Result<Answers, client::Error> {
        ctx.may_publish(&self.job.function).await?;
        let mut client = LocalClient::new(ctx.rt.clone(), settings::from_config(&ctx.config));
        // Subscribed before the job is published: a fast minion's return would be missed otherwise.
        let mut bus = client.listen().await?;
        let Some(ticket) = client.publish(&self.resolved(ctx)?).await? else {
            ctx.sink.print("No minions matched the target. No command was sent, no jid was assigned.");
            return Ok(Answers::default());
        };
        let mut patience = settings::patience(&ctx.config, self.timeout);
        patience.gather = self.gather;
        let mut answers = Answers { jid: ticket.jid.clone(), ..Answers::default() };
        let take = |outcome| match outcome {
            Outcome::Answer(answer) => answers.returned.push(answer),
            Outcome::Silent(ids) => answers.silent.extend(ids),
            Outcome::Away(away) => answers.silent.extend(away.into_iter().map(|it| it.id)),
            // Nothing is held for runners.
            Outcome::Step(_) | Outcome::Waiting(_) => {}
        };
        client.gather(&mut bus, &ticket, patience, take).await?;
        Ok(answers)
    }

    /// Replaces node groups by their definitions: minions do not know the master's groups.
    fn resolved(&self, ctx: &RunnerContext) -> std::result::Result<client::Job, client::Error> {
        let mut job = self.job.clone();
        let groups = &ctx.config.nodegroups;
        let unknown = |name: &str| {
            let file = ctx.config.paths.conf_file.display();
            client::Error::Refused(format!("Node group {name} unavailable in {file}"))
        };
        let expand = |name: &str| expand_nodegroup(name, groups).map_err(|_| unknown(name));
        match (job.target_type.as_str(), job.target.as_str()) {
            ("nodegroup", Some(name)) => {
                job.target = expand(name)?.join(" ").into();
                job.target_type = "compound".into();
            }
            ("compound", Some(target)) if target.contains("N@") => {
                let mut words = Vec::new();
                for word in target.split_whitespace() {
                    match word.strip_prefix("N@").filter(|name| !name.is_empty()) {
                        Some(name) => words.extend(expand(name)?),
                        None => words.push(word.to_owned()),
                    }
                }
                job.target = words.join(" ").into();
            }
            _ => {}
        }
        Ok(job)
    }

    /// As [`Ask::run`], but prints the reason if there is no master, as Salt's runners do, and returns `None`.
    pub async fn run_or_print(&self, ctx: &RunnerContext) -> Option<Answers> {
        match self.run(ctx).await {
            Ok(answers) => Some(answers),
            Err(error) => {
                ctx.sink.print(&chain(&error));
                None
            }
        }
    }

    /// As [`Ask::run`], with a failure as the failure of the function.
    pub async fn run_or_fail(&self, ctx: &RunnerContext) -> Result<Answers> {
        self.run(ctx).await.map_err(|error| Error::Other(format!("SaltClientError: {}", chain(&error))))
    }
}

impl Answers {
    /// Returns the results by id, and a sentence for each minion that did not answer.
    pub fn results(self, ctx: &RunnerContext) -> Map {
        let silent = self.silent_texts(ctx);
        let mut results: Map = self.returned.into_iter().map(|answer| (answer.id, result(answer.data))).collect();
        results.extend(silent);
        results
    }

    fn silent_texts(&self, ctx: &RunnerContext) -> Vec<(String, String)> {
        if self.silent.is_empty() {
            return Vec::new();
        }
        let connected = crate::connected(ctx, None).unwrap_or_default();
        let data = ctx.data().ok().and_then(|data| data.ids().ok()).unwrap_or_default();
        // Salt adds "Not connected" only when it can know: some minion is connected, and this one has been connected
        // before.
        let away = |id: &String| {
            !connected.is_empty() && data.contains(id) && !connected.iter().any(|(connected, _)| connected == id)
        };
        let text = |id: &String| match away(id) {
            true => "Minion did not return. [Not connected]".to_owned(),
            false => format!(
                "Minion did not return. [No response]\nThe minions may not have all finished running and any remaining \
                 minions will return upon completion. To look up the return data for this job later, run the following \
                 command:\n\nsalt-run jobs.lookup_jid {}",
                self.jid
            ),
        };
        self.silent.iter().map(|id| (id.clone(), text(id))).collect()
    }
}

fn result(mut data: Map) -> Value {
    // Where a minion's answer has no `return`, Salt's client shows an empty map, not null.
    data.remove("return").unwrap_or_else(|| map! {}.into())
}
