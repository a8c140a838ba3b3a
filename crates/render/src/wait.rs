//! Waiting for an execution function on a thread that may block.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::RuntimeFlavor;

/// Runs a future to its end while this thread waits. Most functions have their result at once, and cost no more than a call;
/// the others are waited for on a thread of their own, because this one may be driving tasks, and then must not.
///
/// # Panics
/// When there is something to wait for on the only thread of a runtime; call it on a thread for blocking work.
pub fn wait<F>(future: F) -> F::Output
where
    F: Future + Send,
    F::Output: Send,
{
    let mut future = pin!(future);
    let runtime = tokio::runtime::Handle::try_current();
    let Ok(handle) = runtime else {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return match alone {
            Ok(runtime) => runtime.block_on(future),
            Err(error) => panic!("failed to start a runtime: {error}"),
        };
    };
    // One poll without a waker: most functions are done already. A pending one is polled again by whoever waits below.
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        // There is no other thread that could drive the future.
        Poll::Pending if handle.runtime_flavor() == RuntimeFlavor::CurrentThread => handle.block_on(future),
        Poll::Pending => {
            let apart = || handle.block_on(future);
            std::thread::scope(|scope| {
                scope.spawn(apart).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futures_end_with_and_without_a_runtime() {
        assert_eq!(wait(async { 7 }), 7);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let slow = || async {
            tokio::task::yield_now().await;
            tokio::task::spawn_blocking(|| 8).await.unwrap()
        };
        assert_eq!(wait(slow()), 8);
        let waited = runtime.block_on(async move { tokio::task::spawn_blocking(move || wait(slow())).await.unwrap() });
        assert_eq!(waited, 8);
        // A pillar is compiled where `salt-call --local` begins.
        assert_eq!(runtime.block_on(async { wait(slow()) }), 8);
    }
}
