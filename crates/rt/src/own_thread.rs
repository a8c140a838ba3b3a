//! Threads of a single task.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::JoinError;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as that of a single task, while the task is polled.
pub(crate) fn own<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _before = Before(OWN.replace(true));
    work()
}

/// Whether this thread belongs to a single task ([`Rt::spawn_on_thread`](crate::Rt::spawn_on_thread)): blocking it for a moment
/// delays nobody else.
pub fn on_own_thread() -> bool {
    OWN.get()
}

/// Runs work that waits for the disk for a moment: directly if the thread belongs to a single task
/// ([`Rt::spawn_on_thread`](crate::Rt::spawn_on_thread)), otherwise on a blocking thread. Switching threads costs more than most
/// such work.
///
/// # Errors
/// If the work panics on the other thread, or the program stops meanwhile.
pub async fn brief<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if OWN.get() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

/// The nice value: a third of the processor time of a normal thread.
const NICE_VALUE: i32 = 5;

/// Runs work on a new thread of lower priority, which ends with it. One of the runtime's own threads could not raise its priority
/// again without privileges. If no thread can be created, the runtime's threads do the work.
pub(crate) fn behind_others(work: impl FnOnce() + Send + 'static) {
    let (runtime, work) = (Handle::current(), Arc::new(Mutex::new(Some(work))));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (entered, taken) = (runtime.clone(), work.clone());
    let thread = std::thread::Builder::new().name("behind-others".to_owned()).spawn(move || {
        // On Linux the priority belongs to a thread. If this fails, the work only gets more processor time.
        let _ = rustix::process::getpriority_process(None)
            .and_then(|priority| rustix::process::setpriority_process(None, priority + NICE_VALUE));
        let _runtime = entered.enter();
        if let Some(work) = take(&taken) {
            work();
        }
    });
    if thread.is_err()
        && let Some(work) = take(&work)
    {
        runtime.spawn_blocking(work);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn brief_work_stays_on_a_single_task_thread() {
        let here = || thread::current().id();
        assert_ne!(brief(here).await.unwrap(), here());
        let handle = tokio::runtime::Handle::current();
        let same = move || own(|| handle.block_on(async { brief(here).await.unwrap() == here() }));
        assert!(tokio::task::spawn_blocking(same).await.unwrap());
        assert_ne!(brief(here).await.unwrap(), here());
    }

    #[tokio::test]
    async fn work_behind_others_has_a_lower_priority() {
        let (done, is_done) = tokio::sync::oneshot::channel();
        let own = rustix::process::getpriority_process(None).unwrap();
        behind_others(move || {
            Handle::current();
            let _ = done.send(rustix::process::getpriority_process(None).unwrap());
        });
        assert_eq!(is_done.await.unwrap(), (own + NICE_VALUE).min(19));
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), own);
    }
}
