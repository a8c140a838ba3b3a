//! The limit of open files.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Files besides the connections: the runtime's, the report, `/proc`.
const OTHERS: u64 = 200;

/// The limit is too low and could not be raised.
#[derive(Debug, thiserror::Error)]
#[error(
    "{needed} open files are needed and {allowed} are allowed: raise the limit (ulimit -n {needed}, or LimitNOFILE={needed} in a \
     unit), or ask for fewer minions"
)]
pub struct LimitError {
    /// The number of files that the minions need.
    pub needed: u64,
    /// The number of files that are allowed.
    pub allowed: u64,
}

/// Raises the limit of open files of this process to fit this number of connections, and the hard limit too if that is
/// permitted. Returns the limit in force.
///
/// # Errors
/// If the limit is too low and may not be raised.
pub fn raise_open_files(connections: u64) -> Result<u64, LimitError> {
    let needed = connections + OTHERS;
    let failed = |allowed| LimitError { needed, allowed };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|_| failed(0))?;
    // Checked before the minions start: otherwise the swarm would run into `EMFILE` halfway, and the failures would
    // look like those of the master.
    let Some((new_soft, new_hard)) = new_limits(needed, soft, hard) else { return Ok(soft) };
    if setrlimit(Resource::RLIMIT_NOFILE, new_soft, new_hard).is_ok() {
        return Ok(new_soft);
    }
    Err(failed(hard))
}

/// Returns the limits to set; `None` if the current ones suffice.
fn new_limits(needed: rlim_t, soft: rlim_t, hard: rlim_t) -> Option<(rlim_t, rlim_t)> {
    // The hard limit is never lowered: an unprivileged process cannot raise it again.
    (soft < needed).then(|| (needed, hard.max(needed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_raised_only_when_they_are_too_low() {
        assert_eq!(new_limits(300, 1024, 4096), None);
        assert_eq!(new_limits(3000, 1024, 4096), Some((3000, 4096)));
        assert_eq!(new_limits(30_000, 1024, 4096), Some((30_000, 30_000)));
    }

    #[test]
    fn an_impossible_limit_names_both_numbers() {
        // More than Linux's fs.nr_open allows anybody.
        let refused = raise_open_files(1 << 40).unwrap_err().to_string();
        assert!(refused.contains("ulimit -n 1099511627976") && refused.contains("are allowed"), "{refused}");
    }
}
