//! Parallel states (`parallel: True`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use exec::{Bound, Context, Function};
use logscope::Scope;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use value::{Map, Value, map};

use super::call::{call_function, exception, pause_between};
use super::retry::{Retry, add_attempt};
use super::stamp::Stamp;
use super::{Run, unify};
use crate::tag;

const STARTED: &str = "Started in a separate process";

/// The size of the stack of a parallel state, which may apply states itself. Unused parts take no memory.
const STACK: usize = 16 << 20;

/// The work of a parallel state.
type Work = Box<dyn FnOnce() -> Map + Send>;

/// A parallel state: queued, or running on a separate thread.
pub enum Task {
    Waiting(Work),
    Working,
}

/// The tag of a parallel state that ended, and its result unless it panicked.
type Ended = (String, Option<Map>);

/// The place for the results of the threads of parallel states.
pub struct Done {
    leave: UnboundedSender<Ended>,
    take: UnboundedReceiver<Ended>,
}

impl Default for Done {
    fn default() -> Self {
        let (leave, take) = unbounded_channel();
        Done { leave, take }
    }
}

impl Run {
    /// Starts a parallel state, or queues it, and returns its placeholder result.
    pub(super) fn start_beside(&mut self, ctx: &Context, function: &'static Function, bound: Bound, low: &Map) -> Map {
        let work = work(ctx.clone(), function, bound, low.clone(), self.world.utc_offset());
        let tag = tag::of(low);
        let (task, comment) = match self.has_room() {
            true => (self.start(&tag, work), STARTED),
            false => (Task::Waiting(work), "Waiting to be started in a separate process, max_parallel hit"),
        };
        self.tasks.insert(tag, task);
        let name = low.get("name").cloned().unwrap_or_default();
        map! { "name" => name, "result" => Value::Null, "changes" => Map::new(), "comment" => comment }
    }

    fn start(&self, tag: &str, work: Work) -> Task {
        let (leave, tag) = (self.done.leave.clone(), tag.to_owned());
        let (runtime, scope) = (tokio::runtime::Handle::try_current().ok(), Scope::current());
        let unstarted = (leave.clone(), tag.clone());
        let thread = thread::Builder::new().stack_size(STACK);
        // A refused thread fails this state, as the panic of its work does, and not the run.
        let spawned = thread.spawn(move || {
            let _runtime = runtime.as_ref().map(tokio::runtime::Handle::enter);
            let ret = catch_unwind(AssertUnwindSafe(|| scope.run(work))).ok();
            // When the job was killed, the receiver of the result is gone.
            let _ = leave.send((tag, ret));
        });
        if let Err(error) = spawned {
            tracing::error!("failed to start a thread for a parallel state: {error}");
            let (leave, tag) = unstarted;
            let _ = leave.send((tag, None));
        }
        Task::Working
    }

    fn has_room(&self) -> bool {
        let most = self.ctx.opt("state_max_parallel").and_then(Value::as_i64).filter(|most| *most > 0);
        let working = self.tasks.values().filter(|task| matches!(task, Task::Working));
        most.is_none_or(|most| (working.count() as i64) < most)
    }

    /// Returns whether a parallel state is running or queued.
    pub(super) fn is_at_work(&self, tag: &str) -> bool {
        self.tasks.contains_key(tag)
    }

    /// Collects the results of finished states and starts queued ones.
    pub(super) fn reconcile(&mut self) {
        while let Ok(ended) = self.done.take.try_recv() {
            self.take_result(ended);
        }
        self.start_waiting();
    }

    fn start_waiting(&mut self) {
        while self.has_room() {
            let waiting = self.tasks.iter_mut().find(|(_, task)| matches!(task, Task::Waiting(_)));
            let Some((tag, task)) = waiting else { return };
            let tag = tag.clone();
            if let Task::Waiting(work) = std::mem::replace(task, Task::Working) {
                self.start(&tag, work);
            }
            if let Some(ret) = self.running.get_mut(&tag).and_then(Value::as_map_mut) {
                ret.insert("comment", STARTED);
            }
        }
    }

    fn take_result(&mut self, (tag, ret): Ended) {
        self.tasks.shift_remove(&tag);
        let ret = ret.unwrap_or_else(|| {
            tracing::error!("a state that ran beside the others ended abruptly");
            map! { "result" => false, "changes" => Map::new(), "comment" => "Parallel process failed to return" }
        });
        if let Value::Map(present) = self.running.entry_or_insert_with(&tag, || Map::new().into()) {
            present.update(ret);
        }
        self.show(&tag);
    }

    /// Waits until one of the running states finishes.
    pub(super) fn next_done(&mut self) {
        self.start_waiting();
        if !self.tasks.values().any(|task| matches!(task, Task::Working)) {
            return;
        }
        if let Some(ended) = self.ctx.wait(self.done.take.recv()) {
            self.take_result(ended);
        }
        self.start_waiting();
    }

    /// Waits for the parallel ones among these states.
    pub(super) fn join(&mut self, tags: &[String]) {
        while tags.iter().any(|tag| self.is_at_work(tag)) {
            self.next_done();
        }
    }

    /// Waits for all parallel states.
    pub(super) fn join_all(&mut self) {
        while !self.tasks.is_empty() {
            self.next_done();
        }
    }
}

/// Returns what runs a parallel state with its retries.
fn work(ctx: Context, function: &'static Function, bound: Bound, low: Map, utc_offset: i64) -> Work {
    Box::new(move || {
        let mut ret = once(&ctx, function, again(&bound), &low, utc_offset);
        ret.insert("__parallel__", true);
        let Some(retry) = low.get("retry").map(Retry::read) else { return ret };
        if ctx.is_test() {
            retry.report_test(&mut ret);
            return ret;
        }
        for number in 1..=retry.attempts.max(0) {
            let seconds = pause_between(&retry);
            if retry.is_reached(&ret) {
                break;
            }
            ctx.sleep(Duration::from_secs(seconds));
            let mut later = once(&ctx, function, again(&bound), &low, utc_offset);
            add_attempt(number, &ret, &mut later, seconds as f64 * 1000.0);
            ret = later;
        }
        ret
    })
}

/// Returns the arguments for another attempt.
fn again(bound: &Bound) -> Bound {
    Bound { values: bound.values.clone(), varargs: Vec::new(), kwargs: bound.kwargs.clone() }
}

fn once(ctx: &Context, function: &'static Function, bound: Bound, low: &Map, utc_offset: i64) -> Map {
    let stamp = Stamp::now(utc_offset);
    let mut ret = match call_function(ctx, function, bound, low) {
        Ok(ret) => unify::unify(ret),
        Err(error) => exception(low, &error.to_string()),
    };
    stamp.write(&mut ret);
    ret
}
