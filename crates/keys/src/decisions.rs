//! Reports immediately that a key was accepted or rejected.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::watch::is_local;
use crate::{Bank, KeyStore};

/// Watches the key directories, whichever program moves a key: Saltern's, Salt's, or `mv`.
#[derive(Debug)]
pub struct Decisions {
    inotify: Inotify,
}

/// The keys that may have been decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// The keys of these minions.
    These(HashSet<String>),
    /// More keys than the kernel could report: any may have changed.
    Any,
}

impl Decisions {
    /// Starts to watch; `None` if the kernel cannot report changes: on network file systems, or when it has no more
    /// watches.
    pub fn watch(store: &KeyStore) -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        // A file counts when it is whole, so that no half of a key is compared.
        let decided = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        // Who writes the accepted key before the pending one is removed has decided with the second step. A key that only
        // starts to wait is no decision.
        let removed = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
        for (bank, flags) in [(Bank::Accepted, decided), (Bank::Rejected, decided), (Bank::Pending, removed)] {
            let path = store.bank_path(bank);
            if !is_local(&path) {
                return None;
            }
            inotify.add_watch(&path, flags | AddWatchFlags::IN_ONLYDIR).ok()?;
        }
        Some(Decisions { inotify })
    }

    /// Returns what was decided about since the last call, without waiting.
    pub fn take(&self) -> Decided {
        let mut names = HashSet::new();
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    for event in events {
                        match event.name {
                            Some(name) => {
                                names.insert(name.to_string_lossy().into_owned());
                            }
                            // An overflow, or a directory that went away.
                            None => return Decided::Any,
                        }
                    }
                }
                Err(Errno::EINTR) => {}
                // `EAGAIN`: all events are read.
                Err(_) => return Decided::These(names),
            }
        }
    }
}

impl AsFd for Decisions {
    /// Becomes readable when there is something to [take](Decisions::take).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Owner;

    #[test]
    fn a_decision_is_told_with_the_name_once_the_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::new(dir.path(), Owner::default());
        store.prepare().unwrap();
        let decisions = Decisions::watch(&store).unwrap();
        let these = |names: &[&str]| Decided::These(names.iter().map(|name| (*name).to_owned()).collect());
        let (pending, accepted) = (store.bank_path(Bank::Pending), store.bank_path(Bank::Accepted));
        fs::write(pending.join("web1"), "key").unwrap();
        assert_eq!(decisions.take(), these(&[]), "that is none");
        fs::rename(pending.join("web1"), accepted.join("web1")).unwrap();
        assert_eq!(decisions.take(), these(&["web1"]));
        let half = fs::File::create(accepted.join("web2")).unwrap();
        assert_eq!(decisions.take(), these(&[]), "it may still be written to");
        drop(half);
        fs::write(store.bank_path(Bank::Rejected).join("web3"), "key").unwrap();
        assert_eq!(decisions.take(), these(&["web2", "web3"]));
        fs::write(pending.join("web4"), "key").unwrap();
        fs::write(accepted.join("web4"), "key").unwrap();
        assert_eq!(decisions.take(), these(&["web4"]), "it still waits");
        fs::remove_file(pending.join("web4")).unwrap();
        assert_eq!(decisions.take(), these(&["web4"]));
    }
}
