//! Notices the drop file `.dfn` when it comes, through inotify.

use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rt::Rt;
use tokio::net::unix::pipe::Receiver;
use tracing::debug;

/// What the names of drop files begin with.
const NAME: &[u8] = b".dfn";

/// Watches a directory for the drop file.
pub struct DropFileWatch(Option<Receiver>);

impl DropFileWatch {
    /// Starts to watch. Where that is not possible the file is found at the next `loop_interval`.
    pub fn new(rt: &Rt, cachedir: &Path) -> Self {
        if rt.is_simulated() {
            return DropFileWatch(None);
        }
        DropFileWatch(open(cachedir).inspect_err(|error| debug!("{} is not watched: {error}", cachedir.display())).ok())
    }

    /// Waits until a file of that name was written or moved there.
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

/// The reports of the kernel are read like a pipe, which tokio can wait for.
fn open(cachedir: &Path) -> std::io::Result<Receiver> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
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
