//! Notices changes in the key directories.
//!
//! The kernel reports changes through inotify; reports wait in a file descriptor and are read when keys are requested,
//! so that nothing runs while nothing changes. On file systems that other hosts can write to (such as NFS), and when
//! the system has no more watches, the modification times of the directories are compared instead.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use nix::sys::statfs::statfs;

/// The changes in a set of directories since the last call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The directories (by index in the list) in which anything may be different.
    pub(crate) directories: Vec<usize>,
    /// Files that were touched, in any of the directories.
    pub(crate) names: Vec<String>,
    /// More happened than could be reported: every file may be different.
    pub(crate) all: bool,
}

/// Watches a list of directories. Each is identified by its index.
#[derive(Debug)]
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    how: How,
}

#[derive(Debug)]
enum How {
    Events(Events),
    Times(Vec<Option<Seen>>),
}

impl Watch {
    /// Starts to watch; the directories need not exist yet.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        // Inotify sees only what this kernel does, not what another host writes.
        let local = paths.iter().all(|path| is_local(path));
        let events = local.then(|| Events::new(&paths)).flatten();
        let how = events.map_or_else(|| How::Times(vec![None; paths.len()]), How::Events);
        Watch { paths, how }
    }

    /// Compares modification times, on any file system.
    #[cfg(test)]
    pub(crate) fn by_times(paths: Vec<PathBuf>) -> Self {
        let seen = vec![None; paths.len()];
        Watch { paths, how: How::Times(seen) }
    }

    /// Returns whether changes of a file's content are reported, not only those of the directory.
    pub(crate) fn reports_files(&self) -> bool {
        matches!(self.how, How::Events(_))
    }

    /// Becomes readable when something has changed; `None` if times are compared.
    pub(crate) fn readable(&self) -> Option<BorrowedFd<'_>> {
        match &self.how {
            How::Events(events) => Some(events.inotify.as_fd()),
            How::Times(_) => None,
        }
    }

    /// Returns the changes since the last call; on the first call, everything.
    pub(crate) fn changes(&mut self) -> Changes {
        match &mut self.how {
            How::Events(events) => events.changes(&self.paths),
            How::Times(seen) => compare_times(&self.paths, seen, SystemTime::now()),
        }
    }
}

// === By events ===

#[derive(Debug)]
struct Events {
    inotify: Inotify,
    places: HashMap<WatchDescriptor, usize>,
    /// Directories without a watch: new ones, and those that were removed and may be created again.
    unwatched: Vec<usize>,
}

impl Events {
    fn new(paths: &[PathBuf]) -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        let mut events = Events { inotify, places: HashMap::new(), unwatched: (0..paths.len()).collect() };
        events.watch(paths);
        // Nothing could be watched although it is there: the limit is reached.
        let useless = events.unwatched.iter().any(|place| paths[*place].is_dir());
        (!useless).then_some(events)
    }

    /// Tries to watch the unwatched directories. Returns those for which that succeeded.
    fn watch(&mut self, paths: &[PathBuf]) -> Vec<usize> {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let mut watched = Vec::new();
        // A watch that cannot be set is tried again at the next call: the directory may not exist yet.
        self.unwatched.retain(|place| match self.inotify.add_watch(&paths[*place], flags) {
            Ok(descriptor) => {
                self.places.insert(descriptor, *place);
                watched.push(*place);
                false
            }
            Err(_) => true,
        });
        watched
    }

    fn changes(&mut self, paths: &[PathBuf]) -> Changes {
        let mut changes = Changes::default();
        loop {
            match self.inotify.read_events() {
                Ok(events) => events.into_iter().for_each(|event| self.note(event, &mut changes)),
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        if !self.unwatched.is_empty() {
            let again = self.watch(paths);
            changes.all |= !again.is_empty();
            changes.directories.extend(again);
        }
        if changes.all {
            changes.directories = (0..paths.len()).collect();
        }
        changes.directories.sort_unstable();
        changes.directories.dedup();
        changes
    }

    fn note(&mut self, event: InotifyEvent, changes: &mut Changes) {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            changes.all = true;
            return;
        }
        let Some(place) = self.places.get(&event.wd).copied() else { return };
        changes.directories.push(place);
        if let Some(name) = event.name {
            // A name that is not UTF-8 is no id, so losing its bytes costs nothing.
            changes.names.push(name.to_string_lossy().into_owned());
            return;
        }
        // The directory itself was moved or removed. What is at its path now is another one.
        changes.all = true;
        self.places.remove(&event.wd);
        if event.mask.contains(AddWatchFlags::IN_MOVE_SELF) {
            // It may be gone already, which is as good.
            let _ = self.inotify.rm_watch(event.wd);
        }
        self.unwatched.push(place);
    }
}

// === By times ===

/// The state of a directory when it was last checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    file: u64,
    changed: (i64, i64),
    /// It had changed so recently that a second change could have the same time stamp.
    fresh: bool,
}

/// Twice the coarsest resolution of time stamps on file systems in use.
const STEP: Duration = Duration::from_secs(2);

fn compare_times(paths: &[PathBuf], known: &mut [Option<Seen>], now: SystemTime) -> Changes {
    let mut changes = Changes::default();
    for (place, (path, known)) in paths.iter().zip(known).enumerate() {
        let found = see(path, now);
        let same = match (&known, &found) {
            (Some(known), Some(found)) => known == found && !known.fresh,
            // A directory that is missing, or is seen for the first time, counts as changed.
            _ => false,
        };
        if !same {
            changes.directories.push(place);
            changes.all = true;
        }
        *known = found;
    }
    changes
}

fn see(path: &Path, now: SystemTime) -> Option<Seen> {
    let directory = fs::metadata(path).ok()?;
    let modified = directory.modified().ok()?;
    // A time from the future belongs to another host's clock and cannot be trusted to grow.
    let fresh = now.duration_since(modified).is_ok_and(|age| age < STEP) || modified > now;
    Some(Seen { file: directory.ino(), changed: (directory.ctime(), directory.ctime_nsec()), fresh })
}

/// Returns whether only this kernel writes to the file system of a path.
pub(crate) fn is_local(path: &Path) -> bool {
    // NFS, SMB, CIFS, SMB2, FUSE, 9P, Ceph, AFS (two kinds), Coda, GFS2, OCFS2, Lustre; see statfs(2).
    const REMOTE: [u64; 13] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x6b41_4653,
        0x7375_7245,
        0x0116_1970,
        0x7461_636f,
        0x0bd0_0bd0,
    ];
    // A directory that does not exist yet will be on the file system of its parent.
    let Some(found) = path.ancestors().find_map(|path| statfs(path).ok()) else { return true };
    !REMOTE.contains(&(found.filesystem_type().0 as u64 & 0xffff_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        watch: Watch,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = ["a", "b"].iter().map(|name| dir.path().join(name)).collect();
        fs::create_dir(&paths[0]).unwrap();
        fs::create_dir(&paths[1]).unwrap();
        let mut watch = Watch::new(paths);
        assert!(watch.reports_files());
        watch.changes();
        Place { dir, watch }
    }

    #[test]
    fn events_tell_directory_and_name() {
        let Place { dir, mut watch } = place();
        assert_eq!(watch.changes(), Changes::default());
        fs::write(dir.path().join("a/one"), "x").unwrap();
        let changes = watch.changes();
        assert_eq!((changes.directories, changes.all), (vec![0], false));
        assert!(changes.names.iter().all(|name| name == "one") && !changes.names.is_empty());
        fs::rename(dir.path().join("a/one"), dir.path().join("b/one")).unwrap();
        assert_eq!(watch.changes().directories, [0, 1]);
        assert_eq!(watch.changes(), Changes::default());
    }

    #[test]
    fn a_directory_that_is_replaced_is_watched_again() {
        let Place { dir, mut watch } = place();
        for replace in [
            || -> fn(&Path) { |path| fs::rename(path, path.with_extension("old")).unwrap() },
            || -> fn(&Path) { |path| fs::remove_dir_all(path).unwrap() },
        ] {
            let path = dir.path().join("a");
            replace()(&path);
            assert!(watch.changes().all);
            fs::create_dir(&path).unwrap();
            assert!(watch.changes().all);
            fs::write(path.join("one"), "x").unwrap();
            assert_eq!(watch.changes().directories, [0]);
            assert_eq!(watch.changes(), Changes::default());
        }
    }

    #[test]
    fn more_changes_than_the_kernel_remembers_are_a_change_of_all() {
        let Place { dir, mut watch } = place();
        let limit: usize =
            fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
        let (one, two) = (dir.path().join("a/one"), dir.path().join("b/two"));
        fs::write(&one, "x").unwrap();
        for _ in 0..limit / 4 + 10 {
            fs::rename(&one, &two).unwrap();
            fs::rename(&two, &one).unwrap();
        }
        assert!(watch.changes().all);
    }

    #[test]
    fn times_are_compared_where_there_are_no_events() {
        let dir = tempfile::tempdir().unwrap();
        let paths = vec![dir.path().join("a"), dir.path().join("b")];
        let mut seen = vec![None; 2];
        fs::create_dir(&paths[0]).unwrap();
        let now = SystemTime::now();
        let later = now + Duration::from_secs(10);
        assert_eq!(compare_times(&paths, &mut seen, now).directories, [0, 1]);
        // Still fresh at the last look, so it counts as changed once more.
        assert_eq!(compare_times(&paths, &mut seen, later).directories, [0, 1]);
        assert_eq!(compare_times(&paths, &mut seen, later).directories, [1]);
        fs::write(paths[0].join("one"), "x").unwrap();
        assert_eq!(compare_times(&paths, &mut seen, later).directories, [0, 1]);
        let mut watch = Watch::by_times(paths);
        assert!(!watch.reports_files() && watch.changes().all);
    }
}
