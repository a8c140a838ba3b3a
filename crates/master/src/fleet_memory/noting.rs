//! How far the events of jobs are noted. They are noted in batches, but who asks for jobs must find those of a moment ago.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The longest that a question waits for events to be noted.
const LONGEST: Duration = Duration::from_secs(1);

/// Requests to note all pending events: the number sent, and the number of the last one that is complete.
#[derive(Default)]
pub struct Noting {
    asked: watch::Sender<u64>,
    done: watch::Sender<u64>,
}

impl Noting {
    /// Waits until all events from before this call are noted.
    pub async fn catch_up(&self) {
        let mut own = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            own = *asked;
        });
        let mut done = self.done.subscribe();
        if timeout(LONGEST, done.wait_for(|done| *done >= own)).await.is_err() {
            tracing::warn!(
                "the events of jobs are not noted within {LONGEST:?}: the latest jobs may be missing in a list"
            );
        }
    }

    /// Returns the number of requests, which changes with each.
    pub fn requests(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    /// Marks all requests up to this number as complete.
    pub fn done(&self, requests: u64) {
        self.done.send_replace(requests);
    }
}
