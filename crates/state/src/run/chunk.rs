//! Runs chunks one after the other: requisites, the call, progress events.

use value::{Map, Value, map};

use super::pause::Pauses;
use super::requisites::{Status, status};
use super::stamp::Stamp;
use super::{Flow, Run};
use crate::keywords::Kind;
use crate::tag;

/// The largest depth of requisites that run on demand; a deeper chain is a cycle.
const DEEPEST: usize = 200;

/// The dependencies of a chunk: each kind with its chunks.
type Requisites = Vec<(Kind, Vec<usize>)>;

impl Run {
    /// Runs chunks in order, then waits for the parallel ones.
    pub(super) fn in_order(&mut self, order: &[usize]) {
        let mut pending: Vec<usize> = Vec::new();
        for index in order.iter().copied() {
            self.ctx.unless_killed();
            if self.run_pending(&mut pending) == Flow::Stop {
                self.join_all();
                return;
            }
            // Before the next chunk is judged, so that it sees the results of parallel states that have finished.
            self.reconcile();
            if self.running.contains_key(&self.tag_of(index)) {
                continue;
            }
            if !self.wait_while_paused(index) {
                break;
            }
            match self.chunk(index, 0) {
                Flow::Stop => {
                    self.join_all();
                    return;
                }
                Flow::Pending => pending.push(index),
                Flow::On => {}
            }
        }
        while !pending.is_empty() {
            if self.run_pending(&mut pending) == Flow::Stop {
                break;
            }
            if !pending.is_empty() {
                self.next_done();
            }
        }
        self.join_all();
    }

    fn run_pending(&mut self, pending: &mut Vec<usize>) -> Flow {
        let mut still = Vec::new();
        let waiting = std::mem::take(pending);
        for index in waiting {
            if self.running.contains_key(&self.tag_of(index)) {
                continue;
            }
            match self.chunk(index, 0) {
                Flow::Stop => return Flow::Stop,
                Flow::Pending => still.push(index),
                Flow::On => {}
            }
        }
        *pending = still;
        Flow::On
    }

    /// Waits while the operator has paused the run before a chunk. Returns false if the run ends here.
    fn wait_while_paused(&self, index: usize) -> bool {
        let Some(jid) = &self.how.jid else {
            return true;
        };
        let id = crate::high::text_of(self.chunks.graph.chunk(index), "__id__");
        Pauses::new(self.ctx.cachedir(), jid).wait(&self.ctx, &id)
    }

    fn tag_of(&self, index: usize) -> String {
        tag::of(self.chunks.graph.chunk(index))
    }

    /// Returns whether a finished chunk ends the run (`failhard`).
    fn fails_hard(&self, index: usize) -> bool {
        let low = self.chunks.graph.chunk(index);
        let asked = low.get("failhard").or_else(|| self.ctx.opt("failhard")).is_some_and(Value::truthy);
        let result = self.running.get(&tag::of(low)).and_then(|ret| ret.get("result"));
        // A test run shows what all states would do.
        asked && !self.ctx.is_test() && result.is_some_and(|result| !result.is_null() && !result.truthy())
    }

    /// Runs a chunk after its dependencies.
    pub(super) fn chunk(&mut self, index: usize, depth: usize) -> Flow {
        self.aggregate(index);
        let low = self.chunks.graph.shared(index);
        self.initialize(&low);
        let tag = tag::of(&low);
        let requisites = self.requisites_of(index);
        let pending = self.wait_for_required(&low, &requisites);
        match self.status_of(&requisites, pending) {
            Status::Unmet => return self.unmet(index, depth),
            Status::Pending => return Flow::Pending,
            status => self.act(index, &tag, status, requisites),
        }
        self.report(&tag, index);
        if self.fails_hard(index) { Flow::Stop } else { Flow::On }
    }

    fn requisites_of(&self, index: usize) -> Requisites {
        let mut kinds: Requisites = Vec::new();
        for (kind, other) in self.chunks.graph.dependencies(index) {
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, others)) => others.push(other),
                None => kinds.push((kind, vec![other])),
            }
        }
        kinds
    }

    /// Waits for required parallel chunks. A chunk that is itself parallel does not wait here but returns that it must.
    fn wait_for_required(&mut self, low: &Map, requisites: &Requisites) -> bool {
        let tags: Vec<String> =
            requisites.iter().flat_map(|(_, others)| others).map(|other| self.tag_of(*other)).collect();
        if low.get("parallel").is_some_and(Value::truthy) {
            self.reconcile();
            return tags.iter().any(|tag| self.is_at_work(tag));
        }
        self.join(&tags);
        false
    }

    fn status_of(&self, requisites: &Requisites, pending: bool) -> Status {
        let kinds: Vec<(Kind, Vec<Option<&Map>>)> = requisites
            .iter()
            .map(|(kind, others)| {
                let results = others.iter().map(|other| {
                    let tag = self.tag_of(*other);
                    // The results of test runs are kept apart: the target of a `prereq` has both.
                    match kind.base() {
                        Kind::Prereq => self.trials.get(&tag),
                        _ => self.running.get(&tag).and_then(Value::as_map),
                    }
                });
                (*kind, results.collect())
            })
            .collect();
        status(&kinds, pending)
    }

    /// Carries out the verdict about the requisites: calls the chunk, or records why it did not run.
    fn act(&mut self, index: usize, tag: &str, status: Status, requisites: Requisites) {
        let trial = self.is_trial(index);
        match status {
            Status::SkipReq => {
                self.not_run(
                    index,
                    tag,
                    true,
                    "State was not run because requisites were skipped by another state".into(),
                );
            }
            Status::SkipWatch if !trial => {
                let mut ret = self.call_chunk(index);
                let comment = format!(
                    "{} mod_watch was not run because requisites were skipped by another state",
                    ret.get("comment").map(Value::to_string).unwrap_or_default()
                );
                ret.insert("comment", comment);
                self.running.insert(tag, ret);
            }
            Status::Fail => self.failed(index, tag, &requisites),
            Status::Change if !trial => {
                let ret = self.call_and_watch(index, tag, requisites);
                self.running.insert(tag, ret);
            }
            Status::Pre => self.not_run(index, tag, true, "No changes detected".into()),
            Status::Onfail => {
                self.not_run(index, tag, true, "State was not run because onfail req did not change".into());
            }
            Status::Onchanges => {
                let comment = "State was not run because none of the onchanges reqs changed";
                self.not_run(index, tag, true, comment.into());
            }
            _ => {
                let ret = self.call_chunk(index);
                match trial {
                    true => drop(self.trials.insert(tag.to_owned(), ret)),
                    false => drop(self.running.insert(tag, ret)),
                }
            }
        }
    }

    fn is_trial(&self, index: usize) -> bool {
        self.chunks.graph.chunk(index).get("__prereq__").is_some_and(Value::truthy)
    }

    fn call_chunk(&mut self, index: usize) -> Map {
        let mut low = self.chunks.graph.chunk(index).clone();
        let ret = self.call(&mut low);
        // Most calls do not modify their chunk, so no second copy is kept.
        if low != *self.chunks.graph.chunk(index) {
            self.chunks.graph.set_chunk(index, low);
        }
        ret
    }

    /// Calls a chunk. If that makes no changes, calls `mod_watch` for the changes of what it watches. A parallel chunk
    /// is waited for: its changes are not known earlier, and it must not react while it is still running.
    fn call_and_watch(&mut self, index: usize, tag: &str, requisites: Requisites) -> Map {
        let mut ret = self.call_chunk(index);
        if self.is_at_work(tag) {
            self.running.insert(tag, ret.clone());
            self.join(&[tag.to_owned()]);
            ret = self.running.get(tag).and_then(Value::as_map).cloned().unwrap_or(ret);
        }
        let quiet = ret.get("changes").is_some_and(Value::truthy) || ret.get("skip_watch").is_some_and(Value::truthy);
        if quiet {
            return ret;
        }
        let mut low = self.chunks.graph.chunk(index).clone();
        // The run waits for the reaction itself, so no separate thread is needed.
        low.remove("parallel");
        let function = low.insert("fun", "mod_watch").unwrap_or_default();
        low.insert("sfun", function);
        let reqs: Map = requisites
            .into_iter()
            .map(|(kind, others)| {
                let lows: Value = others.into_iter().map(|other| self.chunks.graph.chunk(other).clone()).collect();
                (kind.word(), lows)
            })
            .collect();
        low.insert("__reqs__", reqs);
        self.call(&mut low)
    }

    /// Records a chunk whose requisite failed.
    fn failed(&mut self, index: usize, tag: &str, requisites: &Requisites) {
        if let Some(trial) = self.trials.get_mut(tag) {
            // The test run predicted changes, but there were none.
            trial.insert("changes", Map::new());
            let mut ret = trial.clone();
            ret.insert("__run_num__", self.next_number());
            self.add_place(index, &mut ret);
            self.running.insert(tag, ret);
            return;
        }
        let mut failed: Vec<String> = Vec::new();
        for other in requisites.iter().flat_map(|(_, others)| others) {
            let low = self.chunks.graph.chunk(*other);
            let tag = tag::of(low);
            let ret = self.trials.get(&tag).or_else(|| self.running.get(&tag).and_then(Value::as_map));
            if ret.is_some_and(|ret| ret.get("result") == Some(&Value::Bool(false))) {
                let text = |key: &str| low.get(key).cloned().unwrap_or_default();
                let key = format!("{}.{}", text("__sls__"), text("__id__"));
                if !failed.contains(&key) {
                    failed.push(key);
                }
            }
        }
        self.not_run(index, tag, false, format!("One or more requisite failed: {}", failed.join(", ")));
    }

    fn add_place(&self, index: usize, ret: &mut Map) {
        let low = self.chunks.graph.chunk(index);
        for key in ["__sls__", "__id__", "name"] {
            ret.insert(key, low.get(key).cloned().unwrap_or_default());
        }
    }

    /// Records the result of a chunk that was not called.
    fn not_run(&mut self, index: usize, tag: &str, result: bool, comment: String) {
        let ret = self.without_call(index, result, comment);
        if self.is_trial(index) {
            self.trials.insert(tag.to_owned(), ret.clone());
        }
        self.running.insert(tag, ret);
    }

    fn without_call(&mut self, index: usize, result: bool, comment: String) -> Map {
        let mut ret =
            map! { "changes" => Map::new(), "result" => result, "comment" => comment, "__state_ran__" => false };
        Stamp::now(self.world.utc_offset()).write(&mut ret);
        ret.insert("__run_num__", self.next_number());
        self.add_place(index, &mut ret);
        ret
    }

    /// Runs the dependencies of a chunk that have not run yet, then the chunk.
    fn unmet(&mut self, index: usize, depth: usize) -> Flow {
        for (_, other) in self.chunks.graph.dependencies(index) {
            if self.running.contains_key(&self.tag_of(other)) {
                continue;
            }
            // Cycles are found when the chunks are ordered; this is the last resort if a run still meets one.
            if depth >= DEEPEST {
                break;
            }
            match self.chunk(other, depth + 1) {
                Flow::On => {}
                flow => return flow,
            }
        }
        if self.is_trial(index) {
            self.trial_after_requisites(index);
        } else if depth >= DEEPEST || self.is_still_unmet(index) {
            tracing::error!("Recursive requisite found");
            let tag = self.tag_of(index);
            let mut ret = map! { "changes" => Map::new(), "result" => false, "comment" => "Recursive requisite found" };
            ret.insert("__run_num__", self.next_number());
            self.add_place(index, &mut ret);
            self.running.insert(tag, ret);
        } else {
            return self.chunk(index, depth + 1);
        }
        if self.fails_hard(index) { Flow::Stop } else { Flow::On }
    }

    fn is_still_unmet(&self, index: usize) -> bool {
        self.status_of(&self.requisites_of(index), false) == Status::Unmet
    }

    /// Runs the test run of a chunk that is the target of a `prereq`, after its dependencies have run or were tested.
    fn trial_after_requisites(&mut self, index: usize) {
        let tag = self.tag_of(index);
        let requisites = self.requisites_of(index);
        let status = self.status_of(&requisites, false);
        if status == Status::Pre {
            let ret = self.without_call(index, true, "No changes detected".into());
            self.trials.insert(tag, ret);
            return;
        }
        let mut ret = self.call_chunk(index);
        if status == Status::Change && !ret.get("changes").is_some_and(Value::truthy) {
            // Salt's placeholder: the state itself would change nothing, but `mod_watch` would run, so a `prereq` on it
            // has to act.
            ret.insert("changes", map! { "watch" => "watch" });
            ret.insert("result", Value::Null);
        }
        self.trials.insert(tag, ret);
    }

    /// Lets a state module aggregate several chunks (`mod_aggregate`) before the first of them runs.
    fn aggregate(&mut self, index: usize) {
        let low = self.chunks.graph.chunk(index);
        if low.get("__agg__").is_some_and(Value::truthy) {
            return;
        }
        let group = self.chunks.graph.aggregated_with(index);
        if group.is_empty() {
            return;
        }
        let mut low = low.clone();
        low.insert("__agg__", true);
        let lows: Value = group.iter().map(|member| self.chunks.graph.chunk(*member).clone()).collect();
        let fun = format!("{}.mod_aggregate", crate::high::text_of(&low, "state"));
        let ctx = self.state_context(low.clone(), false);
        let args = vec![low.clone().into(), lows, self.running.clone().into()];
        match ctx.call_state(&fun, exec::Call { args, kwargs: Map::new() }) {
            Ok(Value::Map(aggregated)) => {
                self.mark_aggregated(&group, &aggregated);
                low = aggregated;
            }
            Ok(_) => tracing::error!("Failed to execute aggregate for state {fun}: it returned no chunk"),
            Err(error) => tracing::error!("Failed to execute aggregate for state {fun}: {error}"),
        }
        low.insert("__agg__", true);
        self.chunks.graph.set_chunk(index, low);
    }

    /// Marks the chunks that an aggregated one replaces, so that they are not aggregated again.
    fn mark_aggregated(&mut self, group: &[usize], by: &Map) {
        for member in group {
            let low = self.chunks.graph.chunk_mut(*member);
            if low.get("fun") == by.get("fun") {
                low.insert("__agg__", true);
            }
        }
    }
}
