//! Lets a plain function wait for a future, for some time, for work that blocks, for several things side by side.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use logscope::Scope;
use tokio::runtime::{Builder, Handle};

use crate::{Context, Error, Job, Result, kill};

impl Context {
    /// Waits for a future on this thread. If the job is killed during the wait, the function ends here.
    ///
    /// # Panics
    /// If there is something to wait for and this is the only thread of a runtime, which would never wake up.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.unless_killed();
        let waiting = async {
            tokio::select! {
                biased;
                () = self.job.cancel.cancelled() => None,
                output = future => Some(output),
            }
        };
        block_on(waiting).unwrap_or_else(|| self.end_killed())
    }

    /// Sleeps. If the job is killed during the sleep, the function ends here.
    pub fn sleep(&self, time: Duration) {
        // The timer is created inside, because there may be no runtime yet.
        self.wait(async move { tokio::time::sleep(time).await });
    }

    /// Does work that may take long, such as reading a slow disk, and cannot be interrupted. A killed job ends after it; the
    /// minion does not wait for that.
    pub fn blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        self.unless_killed();
        let done = work();
        self.unless_killed();
        done
    }

    /// Does several things at the same time, each on a thread, and returns what each returned, in order. What gets no thread is
    /// done on this one, after the others have begun.
    pub fn side_by_side<T: Send>(&self, work: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
        self.unless_killed();
        side_by_side_on(thread::Builder::new, work)
    }

    /// Ends the function here if its job was killed.
    pub fn unless_killed(&self) {
        if self.job.cancel.is_cancelled() {
            self.end_killed();
        }
    }

    /// Ends the function here, because its job was killed. Unwinding, unlike an error, cannot be mistaken for a failure that the
    /// caller may continue after: a killed run of states must not apply the next state.
    pub fn end_killed(&self) -> ! {
        kill::unwind()
    }

    /// Does work of plain functions for an asynchronous caller, on a thread for blocking work. Dropping the future
    /// before its end kills the job.
    ///
    /// # Errors
    /// Those of the work, or the message of its panic.
    pub async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (ctx, scope) = (self.clone(), Scope::current());
        let mut unless_done = KillOnDrop(Some(self.job.clone()));
        let done = tokio::task::spawn_blocking(move || scope.run(|| kill::caught(|| work(&ctx)))).await;
        unless_done.0 = None;
        done.map_err(|error| Error::Other(error.to_string()))?
    }
}

/// Does several things at the same time, on threads of this builder.
fn side_by_side_on<T: Send>(builder: impl Fn() -> thread::Builder, work: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    let (runtime, scope) = (Handle::try_current().ok(), Scope::current());
    // The thread that takes the work out does it: a thread that could not be started leaves it there.
    let places: Vec<_> = work.into_iter().map(|work| Mutex::new(Some(work))).collect();
    let do_one = |place: &Mutex<Option<_>>| {
        let work = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        scope.run(work.expect("nothing is done twice"))
    };
    thread::scope(|scope| {
        let start = |place| {
            let (do_one, runtime) = (&do_one, &runtime);
            builder().spawn_scoped(scope, move || {
                let _runtime = runtime.as_ref().map(Handle::enter);
                do_one(place)
            })
        };
        // All begin before the first is waited for.
        let threads: Vec<_> = places.iter().map(start).collect();
        let end = |(thread, place): (std::io::Result<thread::ScopedJoinHandle<'_, T>>, _)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => {
                tracing::warn!("failed to start a thread: {error}; its work is done one after the other");
                do_one(place)
            }
        };
        threads.into_iter().zip(&places).map(end).collect()
    })
}

/// Kills a job when it is dropped.
struct KillOnDrop(Option<Arc<Job>>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(job) = &self.0 {
            job.cancel.cancel();
        }
    }
}

/// Runs a future to its end. Most have their result at once and cost no more than a call.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let Ok(runtime) = Handle::try_current() else {
        // A program without a runtime, or a test.
        let alone = Builder::new_current_thread().enable_all().build();
        return alone.unwrap_or_else(|error| panic!("failed to start a runtime: {error}")).block_on(future);
    };
    match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        // On a worker of the runtime its other tasks move to another thread.
        Poll::Pending => tokio::task::block_in_place(|| runtime.block_on(future)),
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;
    use value::map;

    use super::*;
    use crate::testing::context;

    fn ctx() -> Context {
        context(&[], map! {}, map! {}, map! {}).0
    }

    async fn slow() -> i32 {
        tokio::task::yield_now().await;
        tokio::task::spawn_blocking(|| 8).await.unwrap()
    }

    #[test]
    fn a_future_is_waited_for_with_and_without_a_runtime() {
        assert_eq!(ctx().wait(async { 7 }), 7);
        assert_eq!(ctx().wait(slow()), 8);
        let shared = Runtime::new().unwrap();
        assert_eq!(shared.block_on(async { ctx().apart(|ctx| Ok(ctx.wait(slow()))).await.unwrap() }), 8);
        // A pillar is compiled where `salt-call --local` begins.
        assert_eq!(shared.block_on(async { ctx().wait(slow()) }), 8);
        let single = Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(single.block_on(async { ctx().apart(|ctx| Ok(ctx.wait(slow()))).await.unwrap() }), 8);
    }

    #[test]
    fn a_killed_job_ends_where_it_waits() {
        let ctx = ctx();
        let job = ctx.job.clone();
        let killer = thread::spawn(move || job.cancel.cancel());
        let ended = kill::caught(|| {
            ctx.sleep(Duration::from_secs(600));
            Ok(())
        });
        killer.join().unwrap();
        assert!(matches!(ended, Err(Error::Terminated)));
        assert!(matches!(kill::caught(|| Ok(ctx.blocking(|| 7))), Err(Error::Terminated)));
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_any_more_is_killed() {
        let ctx = ctx();
        let endless = ctx.apart(|ctx| {
            ctx.sleep(Duration::from_secs(600));
            Ok(())
        });
        tokio::select! {
            biased;
            _ = endless => unreachable!("it sleeps"),
            () = tokio::task::yield_now() => {}
        }
        // The runtime waits for the thread.
        assert!(ctx.job.cancel.is_cancelled());
    }

    #[test]
    fn things_are_done_side_by_side_and_returned_in_order() {
        let meeting = std::sync::Barrier::new(3);
        let meet = |number: i32| {
            let meeting = &meeting;
            move || {
                meeting.wait();
                number
            }
        };
        assert_eq!(ctx().side_by_side((0..3).map(meet).collect()), [0, 1, 2]);
    }

    #[test]
    fn what_gets_no_thread_is_done_all_the_same() {
        // No machine has memory for such a stack.
        let refused = || thread::Builder::new().stack_size(1 << 60);
        let caller = thread::current().id();
        let work = |number: i32| move || (number, thread::current().id());
        assert_eq!(side_by_side_on(refused, (0..3).map(work).collect()), [(0, caller), (1, caller), (2, caller)]);
    }
}
