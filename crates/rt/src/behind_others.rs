//! Threads of lower priority.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

/// The nice value: a third of the processor time of a normal thread.
const NICE_VALUE: i32 = 5;

/// Runs work on a new thread of lower priority, which ends with it. One of the runtime's own threads could not raise its priority
/// again without privileges. If no thread can be created, the runtime's threads do the work.
pub(crate) fn behind_others(work: impl FnOnce() + Send + 'static) {
    // Shared, so that the work can be taken back if no thread is created.
    let (runtime, work) = (Handle::current(), Arc::new(Mutex::new(Some(work))));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (entered, taken) = (runtime.clone(), work.clone());
    let thread = std::thread::Builder::new().name("behind-others".to_owned()).spawn(move || {
        // On Linux the priority belongs to a thread, and a new thread inherits that of its creator, which may be such a thread
        // itself. So the value is relative to the main thread. If this fails, the work only gets more processor time.
        let _ = rustix::process::getpriority_process(Some(rustix::process::getpid()))
            .and_then(|priority| rustix::process::setpriority_process(None, priority + NICE_VALUE));
        crate::umask::start_thread();
        // The work may spawn tasks and sleep as on a thread of the runtime.
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
    use super::*;

    #[tokio::test]
    async fn work_behind_others_has_a_lower_priority() {
        let (done, is_done) = tokio::sync::oneshot::channel();
        let own = rustix::process::getpriority_process(None).unwrap();
        behind_others(move || {
            Handle::current();
            let first = rustix::process::getpriority_process(None).unwrap();
            // Work that starts more work does not make it wait longer and longer.
            behind_others(move || {
                let _ = done.send((first, rustix::process::getpriority_process(None).unwrap()));
            });
        });
        let lower = (own + NICE_VALUE).min(19);
        assert_eq!(is_done.await.unwrap(), (lower, lower));
        // The caller's own thread keeps its priority.
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), own);
    }
}
