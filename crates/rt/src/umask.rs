//! The permissions that a thread takes from new files.

use std::sync::{Mutex, Once, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};

/// Does work under a umask. Programs that it starts inherit the umask; other threads do not see it.
///
/// The kernel keeps one umask for all threads of a process. `unshare(CLONE_FS)` gives this thread its own, for as long as the
/// thread lives. Some containers forbid this call (Docker's default seccomp profile does): there the umask is that of the whole
/// process until the last such work is done.
pub fn with<T>(mask: u32, work: impl FnOnce() -> T) -> T {
    let mask = Mode::from_bits_truncate(mask);
    // The guards restore the umask even after a panic.
    match unshare(CloneFlags::CLONE_FS) {
        Ok(()) => {
            let before = umask(mask);
            // A pool thread that is born during the work would inherit the mask.
            OF_PROCESS.get_or_init(|| before);
            let _before = Before(before);
            work()
        }
        Err(reason) => {
            warn_once(reason);
            let _shared = SharedMask::set(mask);
            work()
        }
    }
}

/// The umask of the process, known from the first work under another one.
static OF_PROCESS: OnceLock<Mode> = OnceLock::new();

/// Gives a new thread the umask of the process, for a pool whose threads outlive the work that needs them. A thread inherits the
/// umask of the one that starts it, and shares it: while that one does work under another umask, the new thread would do other
/// work under it.
pub fn start_thread() {
    // Until the first such work all threads have the umask of the process.
    let Some(of_process) = OF_PROCESS.get() else { return };
    // Where this fails, work changes the umask of all threads, and restores it.
    if unshare(CloneFlags::CLONE_FS).is_ok() {
        umask(*of_process);
    }
}

/// The umask of a thread before its work.
struct Before(Mode);

impl Drop for Before {
    fn drop(&mut self) {
        umask(self.0);
    }
}

/// A umask of the whole process. Work that overlaps does not end in the order in which it began, so the last one restores the
/// umask from before the first one.
struct SharedMask;

/// The number of users of a shared umask, and the umask from before them.
static SHARED: Mutex<(usize, Mode)> = Mutex::new((0, Mode::empty()));

impl SharedMask {
    fn set(mask: Mode) -> Self {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let before = umask(mask);
        if shared.0 == 0 {
            shared.1 = before;
        }
        shared.0 += 1;
        SharedMask
    }
}

impl Drop for SharedMask {
    fn drop(&mut self) {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.0 -= 1;
        if shared.0 == 0 {
            umask(shared.1);
        }
    }
}

fn warn_once(reason: Errno) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "a thread cannot have a umask of its own here ({reason}): the umask of a state or of git applies to the \
             whole process while it runs"
        );
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;

    fn mode_of_new_file(path: &std::path::Path) -> u32 {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).unwrap();
        file.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn two_jobs_at_once_have_each_their_umask() {
        assert_eq!(unshare(CloneFlags::empty()), Ok(()), "this test needs the system call unshare");
        let dir = tempfile::tempdir().unwrap();
        let common = mode_of_new_file(&dir.path().join("before"));
        let both_set = Barrier::new(2);
        let job = |mask: u32| {
            let path = dir.path().join(format!("{mask:o}"));
            let inside = with(mask, || {
                both_set.wait();
                let inside = mode_of_new_file(&path);
                both_set.wait();
                inside
            });
            (inside, mode_of_new_file(&path.with_extension("after")))
        };
        std::thread::scope(|scope| {
            let (strict, open) = (scope.spawn(|| job(0o077)), scope.spawn(|| job(0o002)));
            assert_eq!(strict.join().unwrap(), (0o600, common));
            assert_eq!(open.join().unwrap(), (0o664, common));
        });
        assert_eq!(mode_of_new_file(&dir.path().join("after")), common);
    }

    #[test]
    fn a_thread_of_a_pool_starts_with_the_umask_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let common = mode_of_new_file(&dir.path().join("before"));
        let new = |name: &str| {
            let path = dir.path().join(name);
            move || mode_of_new_file(&path)
        };
        // On a thread of its own, as each job is.
        let job = || {
            with(0o077, || {
                let pool = tokio::runtime::Builder::new_current_thread().on_thread_start(start_thread).build().unwrap();
                let within = pool.block_on(pool.spawn_blocking(new("pool"))).unwrap();
                // The umask of the job is not that of the thread, and the other way round.
                (within, new("job")(), pool)
            })
        };
        std::thread::scope(|scope| {
            let (within, of_job, pool) = scope.spawn(job).join().unwrap();
            assert_eq!((within, of_job), (common, 0o600));
            let nested = pool.spawn_blocking({
                let new = new("nested");
                move || with(0o027, new)
            });
            assert_eq!(pool.block_on(nested).unwrap(), 0o640);
            assert_eq!(pool.block_on(pool.spawn_blocking(new("after"))).unwrap(), common);
        });
    }

    #[test]
    fn the_last_user_of_a_shared_umask_restores_the_first_one() {
        // On a thread with a umask of its own: the other tests create files meanwhile.
        let masks = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_FS).unwrap();
            let current = || {
                let mask = umask(Mode::empty());
                umask(mask);
                mask.bits()
            };
            let before = current();
            let (first, second) = (SharedMask::set(Mode::from_bits_truncate(0o077)), SharedMask::set(Mode::S_IWOTH));
            drop(first);
            let between = current();
            drop(second);
            (before, between, current())
        });
        let (before, between, after) = masks.join().unwrap();
        assert_eq!((between, after), (0o002, before));
    }

    #[test]
    fn programs_inherit_it() {
        // On a thread of its own: the others of this process keep their umask.
        let shown = std::thread::spawn(|| {
            with(0o027, || std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout)
        });
        assert_eq!(shown.join().unwrap(), b"0027\n");
    }
}
