//! Writes stored returns to the database of the job cache, in batches.

use std::sync::Arc;
use std::time::Duration;

use store::jobs::JobCache;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::Stores;

/// How long returns are collected before they are written. Until then they can be read and survive a crash of the
/// process; only a power failure can lose them.
const GATHER: Duration = Duration::from_secs(1);

/// The pause after the disk has failed.
const AGAIN: Duration = Duration::from_secs(10);

/// Writes whenever there is something to write, until told to stop, and then one last time. Jobs in Salt's layout do
/// not need this.
pub async fn run(stores: Arc<Stores>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    if let Ok(Some(embedded)) = stores.jobs.embedded() {
        let changed = changed.clone();
        // Something may be there from the start.
        changed.notify_one();
        embedded.when_changed(move || changed.notify_one());
    }
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = changed.notified() => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // It has become much meanwhile.
            () = changed.notified() => {}
            () = tokio::time::sleep(GATHER) => {}
        }
        while !flush(&stores).await {
            if tokio::time::timeout(AGAIN, stop.cancelled()).await.is_ok() {
                break;
            }
        }
    }
    // The last returns, which arrived while the master was stopping.
    flush(&stores).await;
}

async fn flush(stores: &Stores) -> bool {
    let jobs: JobCache = stores.jobs.clone();
    match stores.rt.blocking(move || jobs.flush()).await {
        Ok(Ok(())) => true,
        Ok(Err(failure)) => {
            error!(
                "the job cache could not be written, what was stored stays in its journal: {}",
                crate::chain(&failure)
            );
            false
        }
        Err(failure) => {
            error!("the job cache could not be written: {failure}");
            false
        }
    }
}
