//! Parallel states (`parallel: True`).

use std::sync::{Mutex, PoisonError};

use exec::{Bound, Context, Function};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use tokio::task::JoinHandle;
use value::{Map, Value, map};

use super::call::{call_function, exception, pause_between, wait};
use super::retry::{Retry, add_attempt};
use super::stamp::Stamp;
use super::{Run, unify};
use crate::tag;

const STARTED: &str = "Started in a separate process";

/// A parallel state: queued, or running on a thread of its own.
pub enum Task {
    /// The lock only makes the type `Sync`; it is never contended.
    Waiting(Mutex<BoxFuture<'static, Map>>),
    Working(JoinHandle<Map>),
}

impl Task {
    fn start(work: BoxFuture<'static, Map>) -> Self {
        let handle = tokio::runtime::Handle::current();
        // State functions may block for minutes, which the threads of the runtime must not.
        Task::Working(tokio::task::spawn_blocking(move || handle.block_on(work)))
    }
}

impl Run {
    /// Starts a parallel state, or queues it, and returns its placeholder result.
    pub(super) fn start_beside(&mut self, ctx: &Context, function: &'static Function, bound: Bound, low: &Map) -> Map {
        let work = work(ctx.clone(), function, bound, low.clone(), self.world.utc_offset());
        let (task, comment) = match self.has_room() {
            true => (Task::start(work), STARTED),
            false => (Task::Waiting(Mutex::new(work)), "Waiting to be started in a separate process, max_parallel hit"),
        };
        self.tasks.insert(tag::of(low), task);
        let name = low.get("name").cloned().unwrap_or_default();
        map! { "name" => name, "result" => Value::Null, "changes" => Map::new(), "comment" => comment }
    }

    fn has_room(&self) -> bool {
        let most = self.ctx.opt("state_max_parallel").and_then(Value::as_i64).filter(|most| *most > 0);
        let working = self.tasks.values().filter(|task| matches!(task, Task::Working(handle) if !handle.is_finished()));
        most.is_none_or(|most| (working.count() as i64) < most)
    }

    /// Returns whether a parallel state is running or queued.
    pub(super) fn is_at_work(&self, tag: &str) -> bool {
        self.tasks.contains_key(tag)
    }

    /// Collects the results of finished states and starts queued ones.
    pub(super) async fn reconcile(&mut self) {
        let done: Vec<String> = self
            .tasks
            .iter()
            .filter(|(_, task)| matches!(task, Task::Working(handle) if handle.is_finished()))
            .map(|(tag, _)| tag.clone())
            .collect();
        for tag in done {
            if let Some(Task::Working(handle)) = self.tasks.shift_remove(&tag) {
                let ret = handle.await;
                self.take_result(&tag, ret);
            }
        }
        self.start_waiting();
    }

    fn start_waiting(&mut self) {
        while self.has_room() {
            let Some((tag, task)) = self.tasks.iter_mut().find(|(_, task)| matches!(task, Task::Waiting(_))) else {
                return;
            };
            // The placeholder is replaced immediately.
            let waiting = std::mem::replace(task, Task::Waiting(Mutex::new(Box::pin(async { Map::new() }))));
            if let Task::Waiting(work) = waiting {
                *task = Task::start(work.into_inner().unwrap_or_else(PoisonError::into_inner));
            }
            let tag = tag.clone();
            if let Some(ret) = self.running.get_mut(&tag).and_then(Value::as_map_mut) {
                ret.insert("comment", STARTED);
            }
        }
    }

    fn take_result(&mut self, tag: &str, ret: Result<Map, tokio::task::JoinError>) {
        let ret = ret.unwrap_or_else(|error| {
            tracing::error!("a state that ran beside the others ended abruptly: {error}");
            map! { "result" => false, "changes" => Map::new(), "comment" => "Parallel process failed to return" }
        });
        // Merged into the placeholder, which has the number of the state and its place in the files.
        if let Value::Map(present) = self.running.entry_or_insert_with(tag, || Map::new().into()) {
            present.update(ret);
        }
        self.show(tag);
    }

    /// Waits until one of the running states finishes.
    pub(super) async fn next_done(&mut self) {
        self.start_waiting();
        let (mut tags, mut handles) = (Vec::new(), Vec::new());
        for (tag, task) in &mut self.tasks {
            if let Task::Working(handle) = task {
                tags.push(tag.clone());
                handles.push(handle);
            }
        }
        if handles.is_empty() {
            return;
        }
        let (ret, place, _) = select_all(handles).await;
        self.tasks.shift_remove(&tags[place]);
        self.take_result(&tags[place], ret);
        self.start_waiting();
    }

    /// Waits for the parallel ones among these states.
    pub(super) async fn join(&mut self, tags: &[String]) {
        while tags.iter().any(|tag| self.is_at_work(tag)) {
            self.next_done().await;
        }
    }

    /// Waits for all parallel states, unless the job is killed.
    pub(super) async fn join_all(&mut self) {
        let cancel = self.ctx.job.cancel.clone();
        while !self.tasks.is_empty() {
            tokio::select! {
                () = self.next_done() => {}
                () = cancel.cancelled() => {
                    // The threads cannot be stopped, but nobody waits for their results any longer.
                    self.tasks.clear();
                }
            }
        }
    }
}

/// Runs a parallel state with its retries.
fn work(ctx: Context, function: &'static Function, bound: Bound, low: Map, utc_offset: i64) -> BoxFuture<'static, Map> {
    async move {
        let mut ret = once(&ctx, function, again(&bound), &low, utc_offset).await;
        ret.insert("__parallel__", true);
        let Some(retry) = low.get("retry").map(Retry::read) else { return ret };
        if ctx.is_test() {
            retry.report_test(&mut ret);
            return ret;
        }
        for number in 1..=retry.attempts.max(0) {
            let seconds = pause_between(&retry);
            if retry.is_reached(&ret) || !wait(&ctx, seconds).await {
                break;
            }
            let mut later = once(&ctx, function, again(&bound), &low, utc_offset).await;
            add_attempt(number, &ret, &mut later, seconds as f64 * 1000.0);
            ret = later;
        }
        ret
    }
    .boxed()
}

/// Returns the arguments for another attempt.
fn again(bound: &Bound) -> Bound {
    Bound { values: bound.values.clone(), varargs: Vec::new(), kwargs: bound.kwargs.clone() }
}

async fn once(ctx: &Context, function: &'static Function, bound: Bound, low: &Map, utc_offset: i64) -> Map {
    let stamp = Stamp::now(utc_offset);
    let mut ret = match call_function(ctx, function, bound, low).await {
        Ok(ret) => unify::unify(ret),
        Err(error) => exception(low, &error.to_string()),
    };
    stamp.write(&mut ret);
    ret
}
