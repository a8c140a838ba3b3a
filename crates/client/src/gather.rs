//! Decides from events and the time which minions have answered a job, which still run it, and which are silent.
//!
//! The rules are those of Salt's client. Returns are collected until every expected minion has answered. After `timeout` the
//! missing minions are asked with `saltutil.find_job` whether they still run the job; those that do get another `timeout`,
//! and so on. A round without an answer within `gather_job_timeout` is the last. One rule differs from Salt: a minion
//! that does not answer `find_job` is reported at once, not when the last of the others has finished.
//!
//! Nothing here waits, sends or prints. Times are durations since any fixed moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use value::{Map, Value};

/// The timeouts of a job.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long to wait for returns before asking the missing minions (`timeout`).
    pub timeout: Duration,
    /// How long to wait for answers to `find_job` (`gather_job_timeout`).
    pub gather: Duration,
    /// With `order_masters`: how long lower masters may take to name their minions (`syndic_wait`).
    pub syndics: Option<Duration>,
}

/// The return of a minion.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// The minion, or the resource it manages.
    pub id: String,
    /// The whole event: `return`, `retcode`, `out`, `success`, `jid`…
    pub data: Map,
}

/// Progress of a job: a state of a run has finished (option `state_events`).
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The minion.
    pub id: String,
    /// The state's result (`ret` of Salt's event): `name`, `__id__`, `result`, `changes`, `comment`, `duration`…
    pub done: Map,
    /// The number of states in the run.
    pub length: usize,
}

/// The next step of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Show the return of a minion.
    Answer(Return),
    /// Show the progress of a minion.
    Step(Step),
    /// Ask these minions whether they still run the job, and pass the job id of that question to [`Gather::question_published`].
    Ask(BTreeSet<String>),
    /// Report these minions as silent.
    Silent(BTreeSet<String>),
    /// Report that the master refused the job.
    Refused,
    /// Stop: nothing more will arrive.
    Finished,
}

/// The returns of one job.
#[derive(Debug)]
pub struct Gather {
    jid: String,
    patience: Timeouts,
    /// True if the master may add minions that were not expected at first.
    open: bool,
    expected: BTreeSet<String>,
    answered: BTreeSet<String>,
    /// Minions that were already reported as silent.
    reported: BTreeSet<String>,
    /// Expected minions that have neither answered nor been reported as silent. Checked after each event.
    waiting: BTreeSet<String>,
    /// Ids of a list target that the master does not know.
    missing: BTreeSet<String>,
    /// The deadline of each minion.
    deadlines: BTreeMap<String, Duration>,
    phase: Phase,
    started: Duration,
}

#[derive(Debug)]
enum Phase {
    /// Collecting returns; the missing minions are asked at this time.
    Waiting { until: Duration },
    /// The missing minions have been asked.
    Asking {
        until: Duration,
        question: Option<String>,
        asked: BTreeSet<String>,
        running: BTreeSet<String>,
        heard: BTreeSet<String>,
    },
    /// No minion runs the job any more; only the deadlines are still open.
    Closing,
    /// The job has ended.
    Done,
}

impl Gather {
    /// Starts to gather the returns of a job that was just published to these minions.
    pub fn new(
        jid: impl Into<String>,
        expected: impl IntoIterator<Item = String>,
        patience: Timeouts,
        now: Duration,
    ) -> Self {
        let expected: BTreeSet<String> = expected.into_iter().collect();
        let deadlines = expected.iter().map(|id| (id.clone(), now + patience.timeout)).collect();
        let jid: String = jid.into();
        tracing::debug!(
            target: "salt.client",
            "get_iter_returns for jid {jid} sent to {expected:?} will timeout after {} s",
            patience.timeout.as_secs_f32()
        );
        Gather {
            jid,
            patience,
            open: true,
            waiting: expected.clone(),
            expected,
            answered: BTreeSet::new(),
            reported: BTreeSet::new(),
            missing: BTreeSet::new(),
            deadlines,
            phase: Phase::Waiting { until: now + patience.timeout },
            started: now,
        }
    }

    /// Ignores minions that were not expected from the start, because a batch gathers several parts of one job.
    pub fn closed(mut self) -> Self {
        self.open = false;
        self
    }

    /// Does not wait for these minions, but accepts their returns.
    pub fn passing_over(mut self, ids: impl IntoIterator<Item = String>) -> Self {
        for id in ids {
            self.waiting.remove(&id);
            self.reported.insert(id);
        }
        self
    }

    /// Returns the job id.
    pub fn jid(&self) -> &str {
        &self.jid
    }

    /// Returns the number of expected minions.
    pub fn expected(&self) -> usize {
        self.expected.len()
    }

    /// Returns the prefixes of the tags of this job's events.
    pub fn tags(&self) -> Vec<String> {
        let mut tags = vec![format!("salt/job/{}", self.jid)];
        if let Phase::Asking { question: Some(question), .. } = &self.phase {
            tags.push(format!("salt/job/{question}"));
        }
        tags
    }

    /// Returns whether the job has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// Notes the job id under which the question was published; `None` if it could not be published.
    pub fn question_published(&mut self, jid: Option<String>) {
        if let Phase::Asking { question, .. } = &mut self.phase {
            *question = jid;
        }
    }

    /// Processes an event of the bus.
    pub fn event(&mut self, tag: &str, data: &Map, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.is_done() {
            return actions;
        }
        match self.kind(tag) {
            Kind::Return => actions.extend(self.answer(data)),
            Kind::Job => actions.extend(self.job(data, now)),
            Kind::Step => actions.extend(step(tag, data).map(Action::Step)),
            Kind::Question => self.question(data, now),
            Kind::Other => {}
        }
        actions.extend(self.tick(now));
        actions
    }

    /// Processes the passing of time. Call it when [`Gather::wake_at`] has come, and after every event.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        if self.is_done() {
            return Vec::new();
        }
        // First: a return that arrives at the very deadline still counts.
        if self.complete(now) {
            return self.finish();
        }
        match self.phase {
            Phase::Waiting { until } if now >= until => self.ask(now),
            Phase::Asking { until, .. } if now >= until => self.end_of_question(now),
            Phase::Closing if self.expired(now) => self.finish(),
            _ => Vec::new(),
        }
    }

    /// Returns when to call [`Gather::tick`] next.
    pub fn wake_at(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Done => None,
            Phase::Waiting { until } | Phase::Asking { until, .. } => Some(self.before_syndics(*until)),
            Phase::Closing => {
                self.pending().filter_map(|id| self.deadlines.get(id)).max().copied().or(Some(self.started))
            }
        }
    }

    /// When all have answered, the job still stays open until the lower masters have had their time.
    fn before_syndics(&self, until: Duration) -> Duration {
        match self.patience.syndics {
            Some(wait) if self.all_answered() && self.started + wait < until => self.started + wait,
            _ => until,
        }
    }

    fn kind(&self, tag: &str) -> Kind {
        if let Some(rest) = tag.strip_prefix("salt/job/") {
            let (jid, rest) = rest.split_once('/').unwrap_or((rest, ""));
            if jid == self.jid {
                return match rest.split_once('/') {
                    Some(("ret", _)) => Kind::Return,
                    Some(("prog", _)) => Kind::Step,
                    _ => Kind::Job,
                };
            }
            let question = match &self.phase {
                Phase::Asking { question, .. } => question.as_deref(),
                _ => None,
            };
            // Answers to an older question are ignored: the minion is asked once more anyway.
            return if question == Some(jid) { Kind::Question } else { Kind::Other };
        }
        // Lower masters name their minions under `syndic/<id>/<jid>`.
        let syndic = self.patience.syndics.is_some() && tag.starts_with("syndic/");
        if syndic && tag.rsplit('/').next() == Some(&self.jid) { Kind::Job } else { Kind::Other }
    }

    fn answer(&mut self, data: &Map) -> Option<Action> {
        let id = return_id(data)?;
        // A minion's events under the job's tag look like returns, but have none.
        if !data.contains_key("return") {
            tracing::warn!(minion = id, jid = self.jid, "Malformed event return");
            return None;
        }
        // In a batch, several gatherings listen to the same job. Each return must be shown by one of them only.
        if !self.open && !self.expected.contains(&id) {
            return None;
        }
        // A return may arrive twice, for instance from a relay master.
        self.note(&id).then(|| Action::Answer(Return { id, data: data.clone() }))
    }

    /// Notes that a minion has answered. Returns whether this is the first time.
    pub fn note(&mut self, id: &str) -> bool {
        tracing::debug!(target: "salt.client", "jid {} return from {id}", self.jid);
        self.waiting.remove(id);
        self.answered.insert(id.to_owned())
    }

    /// Stops waiting for minions that did not get the job because they are not connected. Returns those that were waited for
    /// until now. If one of them answers after all, its return is shown.
    pub fn give_up(&mut self, ids: &BTreeSet<String>) -> BTreeSet<String> {
        let given_up: BTreeSet<String> = ids.iter().filter(|id| self.waiting.remove(*id)).cloned().collect();
        self.reported.extend(given_up.iter().cloned());
        given_up
    }

    /// Returns the minions that are waited for.
    pub fn waiting(&self) -> &BTreeSet<String> {
        &self.waiting
    }

    /// Processes another event of the job: the master names the minions it expects, or refuses the job.
    fn job(&mut self, data: &Map, now: Duration) -> Option<Action> {
        if data.contains_key("error") {
            return Some(Action::Refused);
        }
        if self.open {
            for id in texts(data.get("minions")) {
                self.expect(id, now);
            }
            self.missing.extend(texts(data.get("missing")));
        }
        None
    }

    fn expect(&mut self, id: String, now: Duration) {
        if self.expected.insert(id.clone()) {
            if !self.answered.contains(&id) && !self.reported.contains(&id) {
                self.waiting.insert(id.clone());
            }
            // A late minion has its whole timeout from now on.
            self.deadlines.insert(id, now + self.patience.timeout);
        }
    }

    /// Processes an answer to `find_job`.
    fn question(&mut self, data: &Map, now: Duration) {
        if self.open {
            for id in texts(data.get("minions")) {
                // The announcement of `find_job` itself names the minions it went to, which are expected anyway.
                self.expect(id, now);
            }
        }
        let Some(id) = return_id(data) else { return };
        // As in Salt: a minion that cannot answer `find_job` is not waited for any longer.
        if data.get("retcode").and_then(Value::as_i64).is_some_and(|code| code > 0) {
            tracing::error!(minion = id, "saltutil returning errors on minion");
            self.expected.remove(&id);
            self.waiting.remove(&id);
            return;
        }
        let Phase::Asking { running, heard, .. } = &mut self.phase else { return };
        match data.get("return") {
            None => return,
            Some(Value::Str(_)) => tracing::error!(minion = id, "unexpected return from minion"),
            Some(state) if is_running(state) => {
                running.insert(id.clone());
                // It answers after all, so wait for it again.
                self.reported.remove(&id);
                self.deadlines.insert(id.clone(), now + self.patience.timeout);
                if self.open {
                    self.expected.insert(id.clone());
                }
                if self.expected.contains(&id) && !self.answered.contains(&id) {
                    self.waiting.insert(id.clone());
                }
            }
            Some(_) => {}
        }
        heard.insert(id);
    }

    fn pending(&self) -> impl Iterator<Item = &String> {
        self.expected.difference(&self.answered)
    }

    /// Returns whether every minion has answered or been reported as silent.
    fn all_answered(&self) -> bool {
        self.waiting.is_empty()
    }

    fn complete(&self, now: Duration) -> bool {
        match self.patience.syndics {
            None => self.all_answered(),
            // With lower masters no minion may be expected at first: they name their minions only later.
            Some(wait) => self.all_answered() && !self.expected.is_empty() && now > self.started + wait,
        }
    }

    fn expired(&self, now: Duration) -> bool {
        self.pending().all(|id| self.deadlines.get(id).is_none_or(|deadline| now >= *deadline))
    }

    fn ask(&mut self, now: Duration) -> Vec<Action> {
        let asked: BTreeSet<String> = self.pending().cloned().collect();
        // Questions and answers pass through the lower masters, which takes them longer.
        let until = now + self.patience.gather + self.patience.syndics.unwrap_or_default();
        self.phase = Phase::Asking {
            until,
            question: None,
            asked: asked.clone(),
            running: BTreeSet::new(),
            heard: BTreeSet::new(),
        };
        if asked.is_empty() { Vec::new() } else { vec![Action::Ask(asked)] }
    }

    fn end_of_question(&mut self, now: Duration) -> Vec<Action> {
        let Phase::Asking { asked, running, heard, .. } = &self.phase else { return Vec::new() };
        let still_running = !running.is_empty();
        // With lower masters, answers arrive late and under other ids, so silent minions are reported only at the end.
        let silent: BTreeSet<String> = if still_running && self.patience.syndics.is_none() {
            let unheard = asked.iter().filter(|id| !heard.contains(*id) && !self.answered.contains(*id));
            unheard.filter(|id| !self.reported.contains(*id)).cloned().collect()
        } else {
            BTreeSet::new()
        };
        let mut actions = Vec::new();
        if !silent.is_empty() {
            self.waiting.retain(|id| !silent.contains(id));
            self.reported.extend(silent.iter().cloned());
            actions.push(Action::Silent(silent));
        }
        if still_running {
            actions.extend(self.ask(now));
        } else {
            self.phase = Phase::Closing;
            actions.extend(self.tick(now));
        }
        actions
    }

    fn finish(&mut self) -> Vec<Action> {
        self.phase = Phase::Done;
        let mut actions = Vec::new();
        let silent: BTreeSet<String> = self.pending().filter(|id| !self.reported.contains(*id)).cloned().collect();
        // Ids of a list without a key. Salt reports them like silent minions.
        let unknown = self.missing.iter().filter(|id| !self.answered.contains(*id) && !self.reported.contains(*id));
        let unknown: BTreeSet<String> = unknown.filter(|id| !silent.contains(*id)).cloned().collect();
        if silent.is_empty() {
            tracing::debug!(target: "salt.client", "jid {} found all minions {:?}", self.jid, self.answered);
        } else {
            tracing::info!(target: "salt.client", "jid {} minions {silent:?} did not return in time", self.jid);
        }
        for ids in [silent, unknown] {
            if !ids.is_empty() {
                actions.push(Action::Silent(ids));
            }
        }
        // Last, since nothing may follow it.
        actions.push(Action::Finished);
        actions
    }
}

enum Kind {
    Return,
    Step,
    Job,
    Question,
    Other,
}

/// Reads `salt/job/<jid>/prog/<id>/<number>`. Functions that produce their result in parts fire it too; that is not
/// progress of states.
fn step(tag: &str, data: &Map) -> Option<Step> {
    let (before, _number) = tag.rsplit_once('/')?;
    let (_, id) = before.rsplit_once('/')?;
    let told = data.get("data").and_then(Value::as_map).unwrap_or(data);
    let done = told.get("ret")?.as_map()?.clone();
    let length = usize::try_from(told.get("len")?.as_i64()?).ok()?;
    Some(Step { id: id.to_owned(), done, length })
}

/// Returns the id of a managed resource if the return is of one, or else that of the minion.
fn return_id(data: &Map) -> Option<String> {
    let text = |key| data.get_str(key).filter(|id| !id.is_empty());
    text("resource_id").or_else(|| text("id")).map(str::to_owned)
}

fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_list).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `find_job` answers with the job's map, or with an empty one.
fn is_running(state: &Value) -> bool {
    // Salt also looks for an empty answer that is nested in another `return`.
    let inner_empty = state.get("return").and_then(Value::as_map).is_some_and(Map::is_empty);
    state.truthy() && !inner_empty
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    const PATIENCE: Timeouts =
        Timeouts { timeout: Duration::from_secs(5), gather: Duration::from_secs(10), syndics: None };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ids(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn gather(expected: &[&str]) -> Gather {
        Gather::new("1", ids(expected), PATIENCE, at(0))
    }

    fn ret(gather: &mut Gather, id: &str, now: u64) -> Vec<Action> {
        gather.event(&format!("salt/job/1/ret/{id}"), &map! { "id" => id, "return" => true, "jid" => "1" }, at(now))
    }

    fn find_job(gather: &mut Gather, id: &str, state: Map, now: u64) -> Vec<Action> {
        gather.event(&format!("salt/job/2/ret/{id}"), &map! { "id" => id, "return" => state, "retcode" => 0 }, at(now))
    }

    fn answered(actions: &[Action]) -> Vec<&str> {
        let ids = actions.iter().filter_map(|action| match action {
            Action::Answer(answer) => Some(answer.id.as_str()),
            _ => None,
        });
        ids.collect()
    }

    #[test]
    fn all_answers_end_the_job_at_once() {
        let mut gather = gather(&["a", "b"]);
        assert_eq!(answered(&ret(&mut gather, "b", 1)), ["b"]);
        let last = ret(&mut gather, "a", 1);
        assert_eq!(answered(&last), ["a"]);
        assert_eq!(last.last(), Some(&Action::Finished));
        assert_eq!(gather.wake_at(), None);
    }

    #[test]
    fn the_progress_of_a_state_run_is_reported() {
        let mut gather = gather(&["a"]);
        let told = |data| map! { "data" => data, "tag" => "salt/job/1/prog/a/3", "id" => "a" };
        let event = told(map! { "ret" => map! { "name" => "x", "result" => true }, "len" => 40 });
        let step = Step { id: "a".into(), done: map! { "name" => "x", "result" => true }, length: 40 };
        assert_eq!(gather.event("salt/job/1/prog/a/3", &event, at(1)), [Action::Step(step)]);
        // Results in parts have the same tag.
        assert_eq!(gather.event("salt/job/1/prog/a/3", &told(map! { "return" => 7 }), at(1)), []);
    }

    #[test]
    fn an_answer_counts_once() {
        let mut gather = gather(&["a", "b"]);
        ret(&mut gather, "a", 1);
        assert_eq!(ret(&mut gather, "a", 2), []);
    }

    #[test]
    fn a_return_from_the_job_cache_counts_as_an_answer() {
        let mut gather = gather(&["a", "b"]);
        assert!(gather.note("a"));
        assert!(!gather.note("a"));
        assert_eq!(ret(&mut gather, "a", 1), []);
        assert_eq!(ret(&mut gather, "b", 1).last(), Some(&Action::Finished));
    }

    #[test]
    fn silent_minions_are_asked_and_then_reported() {
        let mut gather = gather(&["a", "b"]);
        ret(&mut gather, "a", 1);
        assert_eq!(gather.wake_at(), Some(at(5)));
        assert_eq!(gather.tick(at(5)), [Action::Ask(ids(&["b"]))]);
        gather.question_published(Some("2".into()));
        assert_eq!(gather.wake_at(), Some(at(15)));
        assert_eq!(gather.tick(at(15)), [Action::Silent(ids(&["b"])), Action::Finished]);
    }

    #[test]
    fn a_minion_that_still_works_is_waited_for() {
        let mut gather = gather(&["a"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        assert_eq!(find_job(&mut gather, "a", map! { "pid" => 7 }, 6), []);
        assert_eq!(gather.tick(at(15)), [Action::Ask(ids(&["a"]))]);
        gather.question_published(Some("3".into()));
        let end = ret(&mut gather, "a", 17);
        assert_eq!(answered(&end), ["a"]);
        assert_eq!(end.last(), Some(&Action::Finished));
    }

    #[test]
    fn a_silent_minion_is_reported_while_another_still_works() {
        let mut gather = gather(&["dead", "slow"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "slow", map! { "pid" => 7 }, 6);
        let round = gather.tick(at(15));
        assert_eq!(round, [Action::Silent(ids(&["dead"])), Action::Ask(ids(&["dead", "slow"]))]);
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "slow", map! { "pid" => 7 }, 16);
        assert_eq!(gather.tick(at(25)), [Action::Ask(ids(&["dead", "slow"]))]);
        let end = ret(&mut gather, "slow", 26);
        assert_eq!(answered(&end), ["slow"]);
        // The dead minion is neither reported again nor waited for.
        assert_eq!(end.last(), Some(&Action::Finished));
        assert_eq!(end.len(), 2);
    }

    #[test]
    fn a_minion_reported_too_early_is_waited_for_again() {
        let mut gather = gather(&["busy", "slow"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "slow", map! { "pid" => 7 }, 6);
        assert_eq!(gather.tick(at(15))[0], Action::Silent(ids(&["busy"])));
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "busy", map! { "pid" => 8 }, 16);
        assert_eq!(answered(&ret(&mut gather, "slow", 17)), ["slow"]);
        assert!(!gather.is_done());
        assert_eq!(ret(&mut gather, "busy", 18).last(), Some(&Action::Finished));
    }

    #[test]
    fn a_minion_reported_too_early_may_still_answer() {
        let mut gather = gather(&["late", "slow"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "slow", map! { "pid" => 7 }, 6);
        gather.tick(at(15));
        assert_eq!(answered(&ret(&mut gather, "late", 16)), ["late"]);
    }

    #[test]
    fn a_minion_that_is_known_to_be_away_is_not_waited_for() {
        let mut gather = gather(&["a", "away"]);
        ret(&mut gather, "a", 1);
        assert_eq!(gather.give_up(&ids(&["a", "away", "stranger"])), ids(&["away"]));
        assert_eq!(gather.tick(at(1)), [Action::Finished]);
    }

    #[test]
    fn a_minion_that_was_given_up_may_still_answer() {
        let mut gather = gather(&["a", "away"]);
        gather.give_up(&ids(&["away"]));
        assert_eq!(answered(&ret(&mut gather, "away", 1)), ["away"]);
        assert_eq!(ret(&mut gather, "a", 2).last(), Some(&Action::Finished));
    }

    #[test]
    fn not_running_any_more_is_no_reason_to_wait() {
        let mut gather = gather(&["a"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        find_job(&mut gather, "a", map! {}, 6);
        assert_eq!(gather.tick(at(15)), [Action::Silent(ids(&["a"])), Action::Finished]);
    }

    #[test]
    fn a_minion_without_find_job_is_given_up() {
        let mut gather = gather(&["a"]);
        gather.tick(at(5));
        gather.question_published(Some("2".into()));
        let answer = map! { "id" => "a", "return" => "no such function", "retcode" => 254 };
        assert_eq!(gather.event("salt/job/2/ret/a", &answer, at(6)), [Action::Finished]);
    }

    #[test]
    fn the_master_may_expect_more_minions_and_miss_some() {
        let mut gather = gather(&["a"]);
        let new = map! { "minions" => vec!["a", "b"], "missing" => vec!["ghost"] };
        assert_eq!(gather.event("salt/job/1/new", &new, at(0)), []);
        ret(&mut gather, "a", 1);
        let end = ret(&mut gather, "b", 1);
        assert_eq!(end[1..], [Action::Silent(ids(&["ghost"])), Action::Finished]);
    }

    #[test]
    fn a_closed_gather_ignores_other_minions() {
        let mut gather = Gather::new("1", ids(&["a"]), PATIENCE, at(0)).closed();
        assert_eq!(gather.event("salt/job/1/new", &map! { "minions" => vec!["a", "b"] }, at(0)), []);
        assert_eq!(ret(&mut gather, "b", 1), []);
        assert_eq!(ret(&mut gather, "a", 1).last(), Some(&Action::Finished));
    }

    #[test]
    fn minions_passed_over_are_not_waited_for_but_may_answer() {
        let mut gather = gather(&["away", "here"]).passing_over(ids(&["away"]));
        assert_eq!(gather.event("salt/job/1/new", &map! { "minions" => vec!["away", "here"] }, at(0)), []);
        assert_eq!(answered(&ret(&mut gather, "away", 1)), ["away"]);
        assert_eq!(ret(&mut gather, "here", 2).last(), Some(&Action::Finished));
        let mut nobody = Gather::new("1", ids(&["away"]), PATIENCE, at(0)).passing_over(ids(&["away"]));
        assert_eq!(nobody.tick(at(0)), [Action::Finished]);
    }

    #[test]
    fn lower_masters_get_their_syndic_wait() {
        let patience = Timeouts { syndics: Some(at(5)), ..PATIENCE };
        let mut gather = Gather::new("1", ids(&[]), patience, at(0));
        assert_eq!(gather.event("syndic/relay/1", &map! { "minions" => vec!["far"] }, at(1)), []);
        assert_eq!(answered(&ret(&mut gather, "far", 2)), ["far"]);
        assert!(!gather.is_done());
        assert_eq!(gather.tick(at(6)), [Action::Finished]);
    }

    #[test]
    fn a_refusal_is_reported() {
        let mut gather = gather(&["a"]);
        let actions = gather.event("salt/job/1/error", &map! { "error" => "no" }, at(0));
        assert_eq!(actions, [Action::Refused]);
    }

    #[test]
    fn foreign_and_malformed_events_are_ignored() {
        let mut gather = gather(&["a"]);
        assert_eq!(gather.event("salt/job/9/ret/a", &map! { "id" => "a", "return" => 1 }, at(0)), []);
        assert_eq!(gather.event("salt/job/1/ret/a", &map! { "id" => "a" }, at(0)), []);
        assert_eq!(gather.event("salt/job/1/ret/a", &map! { "return" => 1 }, at(0)), []);
    }
}
