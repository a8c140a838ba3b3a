//! Fetches repositories: each remote independently, at the start and then at each `update_interval`.
//!
//! A remote that does not answer delays nothing else: it is fetched in its own thread, and until then the last state is
//! served.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use value::Value;

use crate::Shared;

/// Starts a task for each remote.
pub fn start(shared: &Arc<Shared>, stop: &CancellationToken) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let mut add = |interval: Duration, work: Work| {
        let (shared, stop) = (Arc::clone(shared), stop.clone());
        let rt = shared.stores.rt.clone();
        tasks.push(rt.spawn(repeat(shared, stop, interval, work)));
    };
    for (number, interval) in shared.stores.files.intervals().into_iter().enumerate() {
        add(interval, Arc::new(move |shared| fetch_files(shared, number)));
    }
    for source in shared.stores.git_pillar.sources() {
        for (number, repository) in source.group().repositories().iter().enumerate() {
            let (interval, source) = (Duration::from_secs(repository.remote.update_interval), Arc::clone(&source));
            let fetch = move |_: &_| {
                source.fetch(&source.group().repositories()[number]);
            };
            add(interval, Arc::new(fetch));
        }
    }
    tasks
}

/// The work of a task.
type Work = Arc<dyn Fn(&Shared) + Send + Sync>;

/// Repeats the work until told to stop.
async fn repeat(shared: Arc<Shared>, stop: CancellationToken, interval: Duration, work: Work) {
    loop {
        let (again, own) = (Arc::clone(&shared), Arc::clone(&work));
        let working = shared.stores.rt.blocking(move || own(&again));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            done = working => if let Err(failure) = done {
                tracing::error!("failed to bring a repository up to date: {failure}");
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            // After the work, so that a slow remote is not fetched all the time.
            () = tokio::time::sleep(interval) => {}
        }
    }
}

fn fetch_files(shared: &Shared, number: usize) {
    let Some(updated) = shared.stores.files.fetch(number) else { return };
    if shared.stores.config.raw.get("fileserver_events").is_some_and(Value::truthy) {
        shared.fire(updated.tag(), updated.event);
    }
}
