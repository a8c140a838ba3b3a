//! One process, from its folder in `/proc` (proc(5)).

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use value::Value;

use crate::file::facts;

/// A process by its number. It may be gone at any time; then its files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process(pub i32);

/// The content of the file `stat`.
pub(super) struct Stat {
    name: String,
    /// The fields behind the name. The first one is the letter of the state.
    fields: Vec<String>,
}

/// Places in [`Stat`], less the two fields before the state.
pub(super) mod place {
    pub const PPID: usize = 1;
    pub const TERMINAL: usize = 4;
    pub const USER: usize = 11;
    pub const NICE: usize = 16;
    pub const THREADS: usize = 17;
    pub const STARTED: usize = 19;
    pub const PROCESSOR: usize = 36;
    pub const WAITED: usize = 39;
}

/// The states by the kernel's letters, as Python's psutil names them.
const STATES: [(char, &str); 13] = [
    ('R', "running"),
    ('S', "sleeping"),
    ('D', "disk-sleep"),
    ('T', "stopped"),
    ('t', "tracing-stop"),
    ('Z', "zombie"),
    ('X', "dead"),
    ('x', "dead"),
    ('K', "wake-kill"),
    ('W', "waking"),
    ('I', "idle"),
    ('H', "locked"),
    ('P', "parked"),
];

/// Returns the ticks of the kernel's clock per second.
pub(super) fn ticks() -> f64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64
}

/// The size of a page in bytes.
pub(super) fn page() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).unwrap_or(4096)
}

/// When the system was started, in seconds since 1970.
pub(super) fn boot_time(stat: &str) -> Option<i64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may hold anything, parentheses too.
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        Some(Stat { name, fields: after.split_whitespace().map(str::to_owned).collect() })
    }

    /// The number at a place; 0 where older kernels have none.
    pub fn number(&self, place: usize) -> i64 {
        self.fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(0)
    }

    /// Seconds on processors: own in programs and in the kernel, the same of children that ended.
    pub fn times(&self) -> [f64; 4] {
        [0, 1, 2, 3].map(|more| self.number(place::USER + more) as f64 / ticks())
    }

    /// The state, in psutil's words.
    pub fn state(&self) -> &'static str {
        let letter = self.fields.first().and_then(|field| field.chars().next());
        STATES.iter().find(|(known, _)| Some(*known) == letter).map_or("?", |(_, name)| name)
    }

    /// When the process was started, in seconds since 1970.
    pub fn created(&self, boot_time: i64) -> f64 {
        boot_time as f64 + self.number(place::STARTED) as f64 / ticks()
    }
}

impl Process {
    /// All processes, by number.
    pub fn all() -> Vec<Process> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids.into_iter().map(Process).collect()
    }

    /// A file or folder of the process.
    pub fn path(self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.0.to_string()).join(name)
    }

    /// Returns whether it still exists.
    pub fn is_there(self) -> bool {
        self.0 > 0 && self.path("").exists()
    }

    /// Returns one of the files of the process as text.
    pub fn read(self, name: &str) -> io::Result<String> {
        std::fs::read(self.path(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn stat(self) -> io::Result<Stat> {
        let text = self.read("stat")?;
        Stat::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the kernel's line makes no sense"))
    }

    /// The words it was started with; none for a thread of the kernel and for one that ended.
    pub fn cmdline(self) -> io::Result<Vec<String>> {
        let text = self.read("cmdline")?;
        let text = text.strip_suffix('\0').unwrap_or(&text);
        Ok(if text.is_empty() { Vec::new() } else { text.split('\0').map(str::to_owned).collect() })
    }

    /// Its name; the kernel cuts names at fifteen letters, the command may know the rest.
    pub fn name(self) -> io::Result<String> {
        let name = self.stat()?.name;
        // The kernel keeps 15 characters. A longer name is taken from the command line.
        if name.len() < 15 {
            return Ok(name);
        }
        let words = self.cmdline().unwrap_or_default();
        let longer = words.first().and_then(|word| Path::new(word).file_name()?.to_str());
        Ok(longer.filter(|long| long.starts_with(&name)).map_or(name, str::to_owned))
    }

    /// The user it runs as.
    pub fn user(self) -> io::Result<Value> {
        std::fs::metadata(self.path("")).map(|found| facts::user_name(found.uid()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_anything() {
        let text = "7 (a) R (b) S 1 7 7 34816 0 0 0 0 0 0 150 50 0 0 20 5 3 0 400 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state()), ("a) R (b", "sleeping"));
        assert_eq!((stat.number(place::PPID), stat.number(place::NICE), stat.number(place::THREADS)), (1, 5, 3));
        assert_eq!(stat.number(place::WAITED), 0);
        assert_eq!(stat.times()[0], 150.0 / ticks());
        assert_eq!(stat.created(100), 100.0 + 400.0 / ticks());
        assert!(Stat::parse("nothing").is_none());
    }
}
