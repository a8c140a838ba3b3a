//! A member waits for room on its disk before it starts: without its records it cannot share, and if it served minions meanwhile,
//! they would not go to members that can. An end with an error would not help either: who starts programs gives up after a few tries.

use std::path::PathBuf;
use std::time::Duration;

use config::Master;
use rt::Rt;
use store::disk::{self, Writing};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// About as much as a start writes.
const ROOM: usize = 256 << 10;

/// Between two attempts: nothing tells when a disk has room.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits until a master that shares can write to its disk. Returns false if it was told to stop before.
pub async fn wait(config: &Master, rt: &Rt, stop: &CancellationToken) -> bool {
    if config.cluster.is_none() {
        return true;
    }
    let directory = config.paths.cachedir.join("saltern").join("share");
    let mut waits = false;
    loop {
        let directory = directory.clone();
        // An attempt that could not be made ends the wait: what is wrong shows when the master starts.
        let full = rt.blocking(move || lacks_room(directory)).await.unwrap_or_default();
        match full {
            None if waits => info!("The disk has room again: the start goes on"),
            None => {}
            Some(ref reason) if waits => tracing::debug!("no room yet: {reason}"),
            Some(ref reason) => error!("This master serves no minions until its disk has room: {reason}"),
        }
        if full.is_none() {
            return true;
        }
        waits = true;
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// Returns what the system says about a full disk; nothing about other errors.
fn lacks_room(directory: PathBuf) -> Option<String> {
    let path = directory.join("room");
    let attempt = || -> store::Result<()> {
        disk::make_directory(&directory)?;
        disk::write(&path, &vec![0; ROOM], Writing::PRIVATE)?;
        disk::remove(&path).map(drop)
    };
    attempt().err().filter(store::Error::is_full).map(|error| crate::chain(&error))
}
