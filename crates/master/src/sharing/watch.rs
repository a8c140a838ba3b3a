//! Waits for changes of key files.

use std::os::fd::OwnedFd;
use std::time::Duration;

use keys::{ChangedKeys, KeyChanges, KeyStore};
use rt::Rt;
use tokio::io::unix::AsyncFd;

/// How often the directories are looked at where the kernel reports nothing.
const LOOK: Duration = Duration::from_millis(200);

/// The key files, with a way to wait for their changes.
pub struct KeyWatch {
    changes: KeyChanges,
    readable: Option<AsyncFd<OwnedFd>>,
}

impl KeyWatch {
    /// Starts to watch.
    pub fn new(rt: &Rt, store: &KeyStore) -> Self {
        let changes = KeyChanges::watch(store);
        // A simulation has no reports of the kernel.
        let descriptor = changes.readable().filter(|_| !rt.is_simulated());
        let owned = descriptor.and_then(|descriptor| descriptor.try_clone_to_owned().ok());
        let readable = owned.and_then(crate::awaiting::registered);
        KeyWatch { changes, readable }
    }

    /// Waits until something has changed.
    pub async fn changed(&mut self) -> ChangedKeys {
        loop {
            match &self.readable {
                Some(readable) => match readable.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(error) => {
                        tracing::debug!("polling the key directories: inotify failed: {error}");
                        self.readable = None;
                    }
                },
                None => tokio::time::sleep(LOOK).await,
            }
            match self.changes.take() {
                ChangedKeys::These(ids) if ids.is_empty() => {}
                changed => return changed,
            }
        }
    }
}
