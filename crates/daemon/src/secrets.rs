//! Keys and passwords in memory: no other process reads them, and no core dump holds them.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

/// Which programs a daemon starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Helpers of its own, which need no core dumps either.
    Own,
    /// Whatever operators want: services, builds, debuggers.
    Anything,
}

/// Keeps the memory of this process to itself. Call it after the user was switched, which undoes it.
///
/// The process is not dumpable: the kernel writes no core of it, whatever `core_pattern` says, and only root may attach a
/// debugger or read its memory. Programs it starts are dumpable again as soon as they begin. The limit of cores would go on
/// to them, and from a minion to each service an init script starts; so it is zero only where [`Children::Own`] are started.
pub fn keep_memory_private(children: Children) {
    if let Err(error) = set_dumpable(false) {
        tracing::warn!("a core dump of this process may hold keys: {error}");
    }
    if children == Children::Own
        && let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0)
    {
        tracing::warn!("the limit of core dumps cannot be set: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::prctl::get_dumpable;
    use nix::sys::resource::getrlimit;

    use super::*;

    /// The one test that does this to the process of the tests.
    #[test]
    fn a_daemon_leaves_no_core_and_its_children_may() {
        let before = getrlimit(Resource::RLIMIT_CORE).unwrap();
        keep_memory_private(Children::Anything);
        assert!(!get_dumpable().unwrap());
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), before);
        // The files in /proc of a process that is not dumpable belong to root.
        let child = Command::new("sh").args(["-c", "stat -c %u /proc/$$/environ; id -u; ulimit -c"]).output().unwrap();
        let said = String::from_utf8(child.stdout).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], lines[1], "a child is dumpable");
        keep_memory_private(Children::Own);
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        // What daemons read about themselves can still be read.
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 0);
        assert!(std::fs::read_to_string("/proc/self/maps").unwrap().contains("heap"));
        assert!(std::env::current_exe().is_ok());
    }
}
