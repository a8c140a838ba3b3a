//! Watches for the drop file `.dfn` with inotify.

use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rt::Rt;
use tokio::net::unix::pipe::Receiver;
use tracing::debug;

/// How the names of drop files begin.
const NAME: &[u8] = b".dfn";

/// Watches a directory for drop files.
pub struct DropFileWatch(Option<Receiver>);

impl DropFileWatch {
    /// Starts to watch. If that is impossible, the file is found at the next `loop_interval`.
    pub fn new(rt: &Rt, cachedir: &Path) -> Self {
        if rt.is_simulated() {
            return DropFileWatch(None);
        }
        DropFileWatch(open(cachedir).inspect_err(|error| debug!("{} is not watched: {error}", cachedir.display())).ok())
    }

    /// Waits until a file with such a name is written or moved there.
    pub async fn changed(&mut self) {
        let Some(reports) = &self.0 else { return std::future::pending().await };
        let mut buffer = [0; 4096];
        loop {
            if reports.readable().await.is_err() {
                return std::future::pending().await;
            }
            // The names stand as plain bytes in the reports; one too many costs a look at the disk.
            let len = reports.try_read(&mut buffer).unwrap_or(0);
            if buffer[..len].windows(NAME.len()).any(|bytes| bytes == NAME) {
                return;
            }
        }
    }
}

/// Opens the inotify descriptor as a pipe, so that tokio can wait until it is readable.
fn open(cachedir: &Path) -> std::io::Result<Receiver> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    // Attributes as well: the file is accepted only with the right mode, which may be set last.
    let wanted = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ATTRIB;
    inotify.add_watch(cachedir, wanted)?;
    Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_drop_file_is_noticed_and_others_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut watch = DropFileWatch::new(&Rt::real(), directory.path());
        std::fs::write(directory.path().join("other"), "").unwrap();
        let other = tokio::time::timeout(std::time::Duration::from_millis(50), watch.changed()).await;
        assert!(other.is_err());
        std::fs::write(directory.path().join(".dfn"), "").unwrap();
        tokio::time::timeout(std::time::Duration::from_secs(10), watch.changed()).await.unwrap();
    }
}
