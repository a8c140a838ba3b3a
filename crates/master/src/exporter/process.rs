//! The resources of this process, as Linux reports them.

/// The numbers of this process; unknown ones are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Processor time, in seconds.
    pub cpu: f64,
    /// The number of open files and connections.
    pub open_files: u64,
    /// The limit of open files and connections.
    pub most_files: u64,
    /// Threads.
    pub threads: u64,
}

impl Process {
    /// Reads the numbers.
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
        };
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        Process {
            memory: field("VmRSS").unwrap_or_default() * 1024,
            cpu: cpu().unwrap_or_default(),
            open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
            most_files: limit.map_or(0, |(soft, _)| soft),
            threads: field("Threads").unwrap_or_default(),
        }
    }
}

fn cpu() -> Option<f64> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        let process = Process::now();
        assert!(process.memory > 100_000 && process.threads > 0 && process.open_files > 2, "{process:?}");
        assert!(process.most_files >= process.open_files && process.cpu >= 0.0, "{process:?}");
    }
}
