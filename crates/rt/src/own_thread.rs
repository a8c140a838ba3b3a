//! Threads that are there for one task.

use std::cell::Cell;

use tokio::task::JoinError;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as there for one task, while something runs on it.
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

/// Whether this thread is there for one task ([`Rt::spawn_on_thread`](crate::Rt::spawn_on_thread)): who blocks it for a
/// moment delays nobody else.
pub fn on_own_thread() -> bool {
    OWN.get()
}

/// Does work that waits for the disk a moment: here and now on a thread that is there for one task
/// ([`Rt::spawn_on_thread`](crate::Rt::spawn_on_thread)), elsewhere on a thread made for it. A change of threads costs
/// more than most such work.
///
/// # Errors
/// When the work panics on the other thread, or the program ends meanwhile.
pub async fn brief<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if OWN.get() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{brief, own};

    #[tokio::test]
    async fn brief_work_stays_on_a_thread_of_its_own_only() {
        let here = || thread::current().id();
        assert_ne!(brief(here).await.unwrap(), here());
        let handle = tokio::runtime::Handle::current();
        let same = move || own(|| handle.block_on(async { brief(here).await.unwrap() == here() }));
        assert!(tokio::task::spawn_blocking(same).await.unwrap());
        assert_ne!(brief(here).await.unwrap(), here());
    }
}
