//! Protects keys and passwords in memory: other processes cannot read them, and no core dump contains them.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

/// The programs that a daemon starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// Only its own helpers, which need no core dumps either.
    Own,
    /// Any program of the operator: services, builds, debuggers.
    Anything,
}

/// Makes the memory of this process private. Call it after switching the user, which undoes it.
///
/// The process is not dumpable: the kernel writes no core of it, whatever `core_pattern` says, and only root may attach a
/// debugger or read its memory. Its child programs are dumpable again. They would inherit the core limit, and so would each
/// service that a minion starts through an init script, so the limit is zero only with [`Children::Own`].
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

    /// The only test that does this to the test process.
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
        // Daemons can still read the files in /proc about themselves.
        assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() > 0);
        assert!(std::fs::read_to_string("/proc/self/maps").unwrap().contains("heap"));
        assert!(std::env::current_exe().is_ok());
    }
}
