//! The permissions that a thread takes from new files.

use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;

/// Does work under a umask. Programs that it starts inherit the umask; other threads do not see it.
///
/// The kernel keeps one umask for all threads of a process. `unshare(CLONE_FS)` gives this thread its own, for as long as the
/// thread lives. Some containers forbid this call (Docker's default seccomp profile does): there the umask is that of the whole
/// process until the work is done.
pub fn with<T>(mask: u32, work: impl FnOnce() -> T) -> T {
    struct Before(Mode);
    impl Drop for Before {
        fn drop(&mut self) {
            nix::sys::stat::umask(self.0);
        }
    }
    give_own_umask();
    // The guard restores it even after a panic.
    let _before = Before(nix::sys::stat::umask(Mode::from_bits_truncate(mask)));
    work()
}

fn give_own_umask() {
    static WARNED: std::sync::Once = std::sync::Once::new();
    if let Err(reason) = unshare(CloneFlags::CLONE_FS) {
        WARNED.call_once(|| {
            tracing::warn!(
                "a job cannot have a umask of its own here ({reason}): the umask of a state applies to all jobs"
            );
        });
    }
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
    fn programs_inherit_it() {
        // On a thread of its own: the others of this process keep their umask.
        let shown = std::thread::spawn(|| {
            with(0o027, || std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap().stdout)
        });
        assert_eq!(shown.join().unwrap(), b"0027\n");
    }
}
