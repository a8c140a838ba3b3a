//! Waits for changes of a state.
//!
//! `tokio::sync::watch` would do the same, but wakes its receivers in a random order. In a simulation what happens must follow
//! from the seed alone.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts the changes of a state, and wakes those who wait for one in the order in which they began to wait.
#[derive(Default)]
pub struct Changes {
    count: AtomicU64,
    wake: Notify,
}

impl Changes {
    /// Notes a change.
    pub fn note(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_waiters();
    }

    /// Returns the number of changes so far.
    pub fn seen(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there are other changes than those seen.
    pub async fn after(&self, seen: u64) {
        self.until(|| self.seen() != seen).await;
    }

    /// Waits until something is true, which can only become so by a change that is noted.
    pub async fn until(&self, is: impl Fn() -> bool) {
        loop {
            let mut changed = pin!(self.wake.notified());
            // Registered before looking: what changes meanwhile must not be missed.
            changed.as_mut().enable();
            if is() {
                return;
            }
            changed.await;
        }
    }
}

/// Something that becomes true once.
#[derive(Default)]
pub struct Flag {
    raised: AtomicBool,
    changes: Changes,
}

impl Flag {
    /// Makes it true.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.changes.note();
    }

    /// Waits until it is true.
    pub async fn raised(&self) {
        self.changes.until(|| self.raised.load(Ordering::Acquire)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Returns whether a future is ready at once.
    async fn is_ready(future: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn those_who_wait_are_woken_in_their_order() {
        let (changes, woken) = (Arc::new(Changes::default()), Arc::new(Mutex::new(Vec::new())));
        let mut tasks = Vec::new();
        for number in 0..50 {
            let (changes, woken) = (changes.clone(), woken.clone());
            tasks.push(tokio::spawn(async move {
                changes.after(0).await;
                woken.lock().unwrap().push(number);
            }));
        }
        tokio::task::yield_now().await;
        changes.note();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let changes = Changes::default();
        let seen = changes.seen();
        assert!(!is_ready(changes.after(seen)).await);
        changes.note();
        assert!(is_ready(changes.after(seen)).await);
        let flag = Flag::default();
        assert!(!is_ready(flag.raised()).await);
        flag.raise();
        assert!(is_ready(flag.raised()).await);
    }
}
