//! Handles a job: matches the target, waits as long as it would run, and sends the return until it is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use channel::client::MasterChannel;
use targeting::{Compiled, Context, Facts, TargetType};
use tokio::time::{Instant, sleep};
use value::{Map, Value};
use wire::loads::{Publication, Return};
use wire::msgpack::Decode;

use super::Minion;
use crate::chance::Purpose;
use crate::functions::{Answer, Question, answer, takes_time};
use crate::grains::grains;
use crate::stats::Request;

/// The number of job ids that a minion remembers, so that none runs twice.
const REMEMBERED: usize = 50;

/// How often a request is sent until it is acknowledged or answered.
pub(super) const TRIES: u32 = 3;

/// The pause before a retry, from and to.
pub(super) const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// How long a lossy minion waits before it cuts its connection.
// Long enough for the return to reach the master: it must get the same return a second time.
const CUT: Duration = Duration::from_millis(20);

/// Targets that were parsed lately. All minions match the same ones.
#[derive(Default)]
pub(crate) struct Targets(Mutex<VecDeque<(String, Arc<Compiled>)>>);

/// The number of cached targets.
const TARGETS: usize = 32;

impl Targets {
    /// Returns the target of a job; `None` for an invalid one, which matches nobody.
    fn of(&self, job: &Publication) -> Option<Arc<Compiled>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // By job id rather than by expression: comparing ids is cheap, and all minions receive the same job at about
        // the same time.
        if let Some((_, compiled)) = known.iter().find(|(jid, _)| *jid == job.jid) {
            return Some(compiled.clone());
        }
        let kind = TargetType::from_name(job.tgt_type.as_deref().unwrap_or("glob")).ok()?;
        let delimiter = job.delimiter.as_deref().unwrap_or(targeting::DEFAULT_DELIMITER);
        // Nodegroups are expanded by the master before it publishes, so a minion needs none.
        let compiled = Arc::new(Compiled::new(&job.tgt, kind, &Context { delimiter, nodegroups: None }).ok()?);
        known.push_front((job.jid.clone(), compiled.clone()));
        known.truncate(TARGETS);
        Some(compiled)
    }
}

/// A job for this minion whose return is not acknowledged yet.
pub(super) struct Owed {
    job: Publication,
    heard: Instant,
    /// When it is done.
    done: Instant,
}

/// The jobs that a minion knows, and the returns that are not acknowledged.
#[derive(Default)]
pub(super) struct Ledger {
    recent: VecDeque<Box<str>>,
    owed: Vec<Arc<Owed>>,
}

impl Ledger {
    /// Notes a job, and returns whether it is new.
    fn admit(&mut self, jid: &str) -> bool {
        if self.recent.iter().any(|known| **known == *jid) {
            return false;
        }
        self.recent.push_front(jid.into());
        self.recent.truncate(REMEMBERED);
        true
    }

    /// Returns the latest job ids.
    pub(super) fn recent_jids(&self, most: usize) -> Vec<Value> {
        self.recent.iter().take(most).map(|jid| Value::from(&**jid)).collect()
    }

    /// Returns the jobs whose returns are not acknowledged.
    pub(super) fn owed(&self) -> Vec<Arc<Owed>> {
        self.owed.clone()
    }

    /// Returns the jobs that run now.
    fn running(&self) -> Vec<Map> {
        let now = Instant::now();
        self.owed.iter().filter(|owed| owed.done > now).map(|owed| owed.job.clone().into_map()).collect()
    }

    fn forget(&mut self, owed: &Arc<Owed>) {
        self.owed.retain(|other| !Arc::ptr_eq(owed, other));
    }
}

impl Minion {
    /// Accepts a job if it is new and its target matches.
    pub(super) fn admit(&self, load: Map) -> Option<Arc<Owed>> {
        let heard = Instant::now();
        let job = match Publication::from_map(load) {
            Ok(job) => job,
            Err(error) => {
                self.malformed(Request::Publication, &error);
                return None;
            }
        };
        // Counted as a failure: in a test without faults no job may arrive twice.
        if !self.ledger().admit(&job.jid) {
            self.shared.stats.failed(Request::Publication, "repeated", format!("job {} was repeated", job.jid));
            return None;
        }
        // In Salt every minion receives every publication and matches the target on its own, so the swarm must do so
        // too to have realistic costs.
        let meant = self.is_meant(&job);
        self.shared.stats.count(|counts| counts.heard += 1);
        self.shared.stats.jobs().heard(&job.jid, &function_text(&job.fun), meant);
        if !meant {
            return None;
        }
        // The end is fixed now. If the connection breaks meanwhile, the job goes on and its return is sent over the
        // next one.
        let owed = Arc::new(Owed { done: heard + self.delay(&job), job, heard });
        self.ledger().owed.push(owed.clone());
        Some(owed)
    }

    fn is_meant(&self, job: &Publication) -> bool {
        let Some(target) = self.shared.targets.of(job) else { return false };
        let needs_grains =
            TargetType::from_name(job.tgt_type.as_deref().unwrap_or("glob")).is_ok_and(TargetType::needs_data);
        // Made-up grains cost an allocation for each minion and job; most targets are globs or lists, which need none.
        let (grains, pillar) = (if needs_grains { self.grains() } else { Map::new() }, Map::new());
        target.matches(&Facts { id: self.id(), grains: &grains, pillar: &pillar })
    }

    fn grains(&self) -> Map {
        grains(self.id(), self.number, self.shared.behaviour().grains)
    }

    /// Returns how long a job runs.
    fn delay(&self, job: &Publication) -> Duration {
        let behaviour = self.shared.behaviour();
        if job.fun.as_str().is_some_and(|fun| !takes_time(fun)) {
            return Duration::ZERO;
        }
        let (least, most) = behaviour.return_delay;
        let slow = if self.slow { behaviour.slow_by } else { Duration::ZERO };
        self.between(Purpose::Delay, least, most) + slow
    }

    /// Waits until a job is done, and sends its return until it is acknowledged or all attempts are used up.
    pub(super) async fn give_back(&self, channel: &MasterChannel, owed: Arc<Owed>) {
        tokio::time::sleep_until(owed.done).await;
        // Made only now: `saltutil.running` and the like describe the moment at which a job ends.
        let load = self.return_of(&owed.job);
        let mut tries = 0;
        loop {
            // Drawn for each attempt, so a return may be lost several times. A lost attempt does not count as one of
            // `TRIES`: it was this minion's fault.
            if self.happens(Purpose::LostReturn, self.shared.behaviour().loss) {
                self.send_and_lose(channel, load.clone()).await;
            } else if self.ask(channel, Request::Return, load.clone(), Decode::Default).await.is_some() {
                self.shared.stats.jobs().returned(&owed.job.jid, owed.heard.elapsed());
                break;
            } else {
                tries += 1;
                if tries == TRIES {
                    self.shared.stats.failed(
                        Request::Return,
                        "given_up",
                        format!("the return of job {}", owed.job.jid),
                    );
                    break;
                }
            }
            // Random, so that minions refused together by an overloaded master do not all retry together.
            sleep(self.between(Purpose::Backoff, AGAIN.0, AGAIN.1)).await;
        }
        // Given up as well: a return that is kept forever would be sent again after every reconnection.
        self.ledger().forget(&owed);
    }

    /// Sends a return, and closes the connection before its acknowledgement could arrive.
    async fn send_and_lose(&self, channel: &MasterChannel, load: Map) {
        // If an answer arrives in this short time after all, it still counts as lost.
        let _ = channel.request(load, Some(CUT), Decode::Default).await;
        self.shared.stats.failed(Request::Return, "lost_on_purpose", String::new());
    }

    fn return_of(&self, job: &Publication) -> Map {
        let running = self.ledger().running();
        let ask = |fun: &str, arg: &[Value]| {
            let grains = || self.grains();
            let return_size = self.shared.behaviour().return_size;
            answer(&Question { fun, arg, grains: &grains, running: &running, return_size })
        };
        let arg = job.arg.as_list().unwrap_or_default();
        let (ret, retcode, success, out) = match &job.fun {
            Value::List(names) => many(names, arg, ask),
            fun => one(ask(fun.as_str().unwrap_or_default(), arg)),
        };
        Return {
            id: self.identity.id.clone(),
            success: Some(success),
            ret,
            retcode: Some(retcode),
            jid: job.jid.clone(),
            fun: Some(job.fun.clone()),
            fun_args: Some(job.arg.clone()),
            user: job.user.clone(),
            master_id: job.master_id.clone(),
            metadata: job.metadata.clone(),
            out,
            ret_config: None,
            ret_kwargs: None,
            extra: Map::new(),
        }
        .into_map()
    }
}

type Parts = (Value, Value, Value, Option<Value>);

fn one(answer: Answer) -> Parts {
    let out = answer.out.map(Value::from);
    (answer.value, answer.retcode.into(), (answer.retcode == 0).into(), out)
}

/// The results of several functions of one job: maps by function.
// Salt's form for `salt '*' test.ping,test.echo`: `arg` is a list of argument lists, and `return`, `retcode` and
// `success` are maps. No outputter fits all of them.
fn many(names: &[Value], arg: &[Value], ask: impl Fn(&str, &[Value]) -> Answer) -> Parts {
    let (mut values, mut codes, mut successes) = (Map::new(), Map::new(), Map::new());
    for (place, name) in names.iter().enumerate() {
        let own = arg.get(place).and_then(Value::as_list).unwrap_or_default();
        let answer = ask(name.as_str().unwrap_or_default(), own);
        values.insert(name.clone(), answer.value);
        codes.insert(name.clone(), answer.retcode);
        successes.insert(name.clone(), answer.retcode == 0);
    }
    (values.into(), codes.into(), successes.into(), None)
}

fn function_text(fun: &Value) -> String {
    match fun.as_list() {
        None => fun.as_str().unwrap_or("?").to_owned(),
        Some(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{list, map};

    #[test]
    fn a_repeated_job_is_recognised() {
        let mut ledger = Ledger::default();
        assert!(ledger.admit("1") && ledger.admit("2") && !ledger.admit("1"));
        assert_eq!(ledger.recent_jids(1), [Value::from("2")]);
        for jid in 10..10 + REMEMBERED {
            ledger.admit(&jid.to_string());
        }
        assert!(ledger.admit("1"), "only the latest are remembered");
    }

    #[test]
    fn targets_are_parsed_once_and_invalid_ones_match_nobody() {
        let job = |jid: &str, tgt: &str, kind: &str| {
            let load = map! { "fun" => "test.ping", "arg" => list![], "tgt" => tgt, "jid" => jid, "tgt_type" => kind };
            Publication::from_map(load).unwrap()
        };
        let targets = Targets::default();
        let first = targets.of(&job("1", "swarm-*", "glob")).unwrap();
        assert!(Arc::ptr_eq(&first, &targets.of(&job("1", "swarm-*", "glob")).unwrap()));
        assert!(targets.of(&job("2", "x", "crystal")).is_none());
        let empty = Map::new();
        assert!(first.matches(&Facts { id: "swarm-7", grains: &empty, pillar: &empty }));
    }

    #[test]
    fn several_functions_return_maps() {
        let names = ["test.ping".into(), "no.such".into()];
        let ask = |fun: &str, _: &[Value]| match fun {
            "test.ping" => Answer { value: true.into(), retcode: 0, out: None },
            _ => Answer { value: "no".into(), retcode: 1, out: None },
        };
        let (values, codes, successes, _) = many(&names, &[], ask);
        assert_eq!(values, map! { "test.ping" => true, "no.such" => "no" }.into());
        assert_eq!(codes, map! { "test.ping" => 0, "no.such" => 1 }.into());
        assert_eq!(successes, map! { "test.ping" => true, "no.such" => false }.into());
    }
}
