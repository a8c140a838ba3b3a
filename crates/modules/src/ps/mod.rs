//! `ps` — processes, memory, processors, from the kernel's own tables.

mod detail;
mod process;
mod sockets;
mod usage;
mod users;

use std::collections::BTreeMap;

use exec::{Context, Error, Module, Result, function};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use value::{Map, Value, map};

use crate::subprocess;
use process::Process;

/// The module.
pub static MODULE: Module = Module::new(
    "ps",
    "Functions that look at processes, memory and processors.",
    &[
        &BOOT_TIME,
        &usage::CPU_PERCENT,
        &CPU_TIMES,
        &usage::DISK_IO_COUNTERS,
        &DISK_PARTITION_USAGE,
        &DISK_PARTITIONS,
        &DISK_USAGE,
        &GET_PID_LIST,
        &users::GET_USERS,
        &KILL_PID,
        &sockets::LSOF,
        &sockets::NETSTAT,
        &NETWORK_IO_COUNTERS,
        &NUM_CPUS,
        &PGREP,
        &PKILL,
        &detail::PROC_INFO,
        &PSAUX,
        &sockets::SS,
        &detail::STATUS,
        &SWAP_MEMORY,
        &usage::TOP,
        &TOTAL_PHYSICAL_MEMORY,
        &VIRTUAL_MEMORY,
    ],
);

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))
}

/// Rounds to one digit behind the point, as shares are shown.
fn share(part: f64, whole: f64) -> f64 {
    // One decimal, as psutil rounds.
    if whole > 0.0 { (part / whole * 1000.0).round() / 10.0 } else { 0.0 }
}

/// Returns the boot time, in seconds since 1970, or in a format (see ``man strftime``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.boot_time
///     salt '*' ps.boot_time time_format='%Y-%m-%d %H:%M'
#[function]
fn boot_time(ctx: &Context, time_format: Option<String>) -> Result<Value> {
    let started = ctx.blocking(detail::started)?;
    let Some(format) = time_format.filter(|format| !format.is_empty()) else { return Ok(started.into()) };
    let said = crate::subprocess::quiet(ctx, &["date", "-d", &format!("@{started}"), &format!("+{format}")])?;
    match said.retcode {
        Some(0) => Ok(said.stdout.trim_end_matches('\n').into()),
        _ => Err(Error::invocation(format!("Invalid format string: {}", said.stderr.trim()))),
    }
}

/// The names of the columns of a `cpu` line.
const TIMES: [&str; 10] =
    ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

fn cpu_lines(text: &str, ticks: f64) -> Vec<Map> {
    let lines = text.lines().filter(|line| line.starts_with("cpu"));
    lines
        .map(|line| {
            let numbers = line.split_whitespace().skip(1).map(|word| word.parse::<f64>().unwrap_or(0.0) / ticks);
            TIMES.into_iter().zip(numbers).collect()
        })
        .collect()
}

/// Returns the seconds that the processors spent in each mode, in total or with ``per_cpu`` each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.cpu_times
#[function]
fn cpu_times(ctx: &Context, #[default(false)] per_cpu: bool) -> Result<Value> {
    let text = ctx.blocking(|| read("/proc/stat"))?;
    let mut lines = cpu_lines(&text, process::ticks());
    if lines.is_empty() {
        return Err(Error::execution("the kernel tells no processor times"));
    }
    let all = lines.remove(0);
    Ok(if per_cpu { Value::from(lines) } else { Value::Map(all) })
}

/// Mounted file systems with a device; with `all` every one.
fn partitions(mounts: &str, kinds: &str, all: bool) -> Vec<Map> {
    let real: Vec<&str> = kinds.lines().filter(|line| !line.starts_with("nodev")).map(str::trim).collect();
    let lines = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| {
            // Only kinds with a device behind them, as psutil decides. zfs is marked `nodev` though
            // it is one.
            fields.len() >= 4 && (all || (fields[0] != "none" && (real.contains(&fields[2]) || fields[2] == "zfs")))
        })
        .map(
            |f| map! { "device" => f[0], "mountpoint" => f[1].replace("\\040", " "), "fstype" => f[2], "opts" => f[3] },
        )
        .collect()
}

fn all_partitions(ctx: &Context, all: bool) -> Result<Vec<Map>> {
    ctx.blocking(move || Ok(partitions(&read("/proc/self/mounts")?, &read("/proc/filesystems")?, all)))
}

/// Returns the mounted partitions with their usage.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.disk_partition_usage
#[function]
fn disk_partition_usage(ctx: &Context, #[default(false)] all: bool) -> Result<Value> {
    let mut found = all_partitions(ctx, all)?;
    for partition in &mut found {
        let place = partition.get_str("mountpoint").unwrap_or_default().to_owned();
        partition.update(ctx.blocking(move || usage(&place))?);
    }
    Ok(Value::from(found))
}

/// Returns the mounted partitions, with ``all`` every mounted file system.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.disk_partitions
#[function]
fn disk_partitions(ctx: &Context, #[default(false)] all: bool) -> Result<Value> {
    all_partitions(ctx, all).map(Value::from)
}

fn usage(path: &str) -> Result<Map> {
    let found = nix::sys::statvfs::statvfs(path)
        .map_err(|errno| Error::Other(format!("[Errno {}] {}: '{path}'", errno as i32, errno.desc())))?;
    let block = found.fragment_size();
    let (total, free) = (found.blocks() * block, found.blocks_available() * block);
    let used = total - found.blocks_free() * block;
    // Space that only root may use counts neither as used nor as free, just as in `df`.
    let percent = share(used as f64, (used + free) as f64);
    Ok(map! { "total" => total, "used" => used, "free" => free, "percent" => percent })
}

/// Returns the usage of the file system of a path, in bytes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.disk_usage /home
#[function]
fn disk_usage(ctx: &Context, path: String) -> Result<Map> {
    ctx.blocking(move || usage(&path))
}

/// Returns the numbers of all processes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.get_pid_list
#[function]
fn get_pid_list(ctx: &Context) -> Result<Value> {
    Ok(ctx.blocking(|| Process::all().into_iter().map(|process| Value::from(process.0)).collect()))
}

/// Sends a signal to a process. Returns False if there is no such process.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.kill_pid 2000 signal=9
#[function]
fn kill_pid(pid: i64, #[default(15)] signal: i64) -> Result<bool> {
    let one = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    let pid = one.ok_or_else(|| Error::invocation(format!("{pid} is not the number of a process")))?;
    send(pid, signal)
}

fn send(pid: i32, signal: i64) -> Result<bool> {
    let number = i32::try_from(signal).unwrap_or(0);
    let unknown = |_| Error::invocation(format!("{signal} is not the number of a signal"));
    // Signal 0 only asks whether the process is there.
    let signal = if number == 0 { None } else { Some(Signal::try_from(number).map_err(unknown)?) };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(true),
        Err(nix::Error::ESRCH) => Ok(false),
        Err(errno) => Err(Error::execution(format!("failed to signal process {pid}: {}", errno.desc()))),
    }
}

/// The counters of an interface, and their places in `/proc/net/dev`.
const COUNTERS: [(&str, usize); 8] = [
    ("bytes_sent", 8),
    ("bytes_recv", 0),
    ("packets_sent", 9),
    ("packets_recv", 1),
    ("errin", 2),
    ("errout", 10),
    ("dropin", 3),
    ("dropout", 11),
];

fn counters(text: &str) -> BTreeMap<String, Vec<u64>> {
    let lines = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, numbers)| {
            let numbers = numbers.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
            (name.trim().to_owned(), numbers)
        })
        .collect()
}

/// Returns the network traffic, of all interfaces together or of one.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.network_io_counters
///     salt '*' ps.network_io_counters interface=eth0
#[function]
fn network_io_counters(ctx: &Context, interface: Option<String>) -> Result<Value> {
    let all = ctx.blocking(|| read("/proc/net/dev").map(|text| counters(&text)))?;
    if interface.as_ref().is_some_and(|name| !all.contains_key(name)) {
        return Ok(Value::Bool(false));
    }
    let chosen = || all.iter().filter(|(name, _)| interface.as_ref().is_none_or(|wanted| wanted == *name));
    let sum = |place: usize| chosen().filter_map(|(_, numbers)| numbers.get(place)).sum::<u64>();
    Ok(Value::Map(COUNTERS.into_iter().map(|(name, place)| (name, sum(place))).collect()))
}

/// Returns the number of processors.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.num_cpus
#[function]
fn num_cpus(ctx: &Context) -> Result<u64> {
    let text = ctx.blocking(|| read("/proc/stat"))?;
    Ok(cpu_lines(&text, 1.0).len().saturating_sub(1) as u64)
}

/// The conditions of `pgrep` and `pkill`.
struct Search {
    pattern: String,
    regex: Option<targeting::PyRegex>,
    user: Option<String>,
    full: bool,
}

impl Search {
    fn pids(&self) -> Vec<i32> {
        Process::all().into_iter().filter(|process| self.fits(*process)).map(|process| process.0).collect()
    }

    fn fits(&self, process: Process) -> bool {
        let line = if self.full { process.cmdline().map(|words| words.join(" ")) } else { process.name() };
        let Ok(line) = line else { return false };
        let named = match &self.regex {
            Some(regex) => regex.is_match(&line),
            None => line.contains(&self.pattern),
        };
        let owned = |wanted: &String| process.user().is_ok_and(|owner| owner == Value::from(wanted.as_str()));
        named && self.user.as_ref().is_none_or(owned)
    }
}

/// Returns the processes whose name (with ``full`` whose command line) has a text or matches a regular expression.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.pgrep httpd
#[function]
fn pgrep(
    ctx: &Context,
    pattern: String,
    user: Option<String>,
    #[default(false)] full: bool,
    #[default(false)] pattern_is_regex: bool,
) -> Result<Value> {
    let regex = if pattern_is_regex { Some(targeting::PyRegex::search(&pattern)) } else { None };
    let regex = regex.transpose().map_err(|error| Error::Other(error.to_string()))?;
    let search = Search { pattern, regex, user, full };
    let found = ctx.blocking(move || search.pids());
    Ok(if found.is_empty() { Value::Null } else { Value::from(found) })
}

/// Sends a signal to the processes whose name (with ``full`` whose command line) has a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.pkill httpd signal=SIGTERM
#[function]
fn pkill(
    ctx: &Context,
    pattern: String,
    user: Option<String>,
    #[default(15)] signal: i64,
    #[default(false)] full: bool,
) -> Result<Value> {
    if pattern.is_empty() {
        return Err(Error::invocation("an empty pattern would mean every process"));
    }
    let search = Search { pattern, regex: None, user, full };
    let mut killed = Vec::new();
    for pid in ctx.blocking(move || search.pids()) {
        if send(pid, signal)? {
            killed.push(pid);
        }
    }
    Ok(if killed.is_empty() { Value::Null } else { Value::from(map! { "killed" => killed }) })
}

/// Returns the lines of ``ps aux`` a regular expression matches, and how many they are.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.psaux www-data.+apache2
#[function]
fn psaux(ctx: &Context, name: String) -> Result<Value> {
    let regex = targeting::PyRegex::search(&name).map_err(|error| Error::Other(error.to_string()))?;
    let said = subprocess::quiet(ctx, &["ps", "aux"])?;
    // The call itself must not be in its answer.
    let own = |line: &&str| line.contains("salt") && line.contains("ps.psaux");
    let found: Vec<&str> = said.stdout.lines().filter(|line| regex.is_match(line) && !own(line)).collect();
    let count = format!("{} occurrence(s).", found.len());
    Ok(value::list![name, found, count])
}

/// The values of `/proc/meminfo`, in bytes.
fn meminfo(text: &str) -> BTreeMap<&str, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let number = |rest: &str| rest.split_whitespace().next()?.parse::<u64>().ok();
    lines.filter_map(|(name, rest)| Some((name, number(rest)? * 1024))).collect()
}

/// Returns the size and usage of the swap space, in bytes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.swap_memory
#[function]
fn swap_memory(ctx: &Context) -> Result<Map> {
    let (memory, pages) = ctx.blocking(|| (read("/proc/meminfo"), read("/proc/vmstat").unwrap_or_default()));
    Ok(swap(&memory?, &pages))
}

fn swap(memory: &str, pages: &str) -> Map {
    let memory = meminfo(memory);
    let of = |name: &str| memory.get(name).copied().unwrap_or(0);
    let moved = |name: &str| {
        let number = pages.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        // The kernel counts pages. psutil takes 4 KiB for all of them.
        number.unwrap_or(0) * 4096
    };
    let (total, free) = (of("SwapTotal"), of("SwapFree"));
    let used = total.saturating_sub(free);
    map! {
        "total" => total,
        "used" => used,
        "free" => free,
        "percent" => share(used as f64, total as f64),
        "sin" => moved("pswpin "),
        "sout" => moved("pswpout "),
    }
}

/// Returns the size of the memory in bytes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.total_physical_memory
#[function]
fn total_physical_memory(ctx: &Context) -> Result<u64> {
    let text = ctx.blocking(|| read("/proc/meminfo"))?;
    Ok(meminfo(&text).get("MemTotal").copied().unwrap_or(0))
}

/// Returns the memory usage, in bytes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.virtual_memory
#[function]
fn virtual_memory(ctx: &Context) -> Result<Map> {
    let text = ctx.blocking(|| read("/proc/meminfo"))?;
    Ok(memory(&text))
}

fn memory(text: &str) -> Map {
    let memory = meminfo(text);
    let of = |name: &str| memory.get(name).copied().unwrap_or(0);
    let (total, available) = (of("MemTotal"), of("MemAvailable"));
    let used = total.saturating_sub(available);
    map! {
        "total" => total,
        "available" => available,
        "percent" => share(used as f64, total as f64),
        "used" => used,
        "free" => of("MemFree"),
        "active" => of("Active"),
        "inactive" => of("Inactive"),
        "buffers" => of("Buffers"),
        // As `free` does since procps 3.3.10.
        "cached" => of("Cached") + of("SReclaimable"),
        "shared" => of("Shmem"),
        "slab" => of("Slab"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_read() {
        let stat = "cpu  100 0 50 1000 0 0 0 0 0 0\ncpu0 100 0 50 1000 0 0 0 0 0 0\nintr 1\nbtime 5\n";
        let lines = cpu_lines(stat, 100.0);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].get("system"), Some(&Value::Float(0.5)));
        let info = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\nCached: 5 kB\nSReclaimable: 1 kB\n";
        let found = memory(info);
        assert_eq!(found.get("percent"), Some(&Value::Float(40.0)));
        assert_eq!(found.get("cached"), Some(&Value::Int(6 * 1024)));
        let found = swap("SwapTotal: 0 kB\n", "pswpin 2\npswpout 0\n");
        assert_eq!((found.get("percent"), found.get("sin")), (Some(&Value::Float(0.0)), Some(&Value::Int(8192))));
        let dev = "Inter-|\n face |\n  lo: 1 2 3 4 0 0 0 0 9 10 11 12 0 0 0 0\n";
        assert_eq!(counters(dev)["lo"][8], 9);
        let mounts = "/dev/vda / ext4 rw 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(partitions(mounts, "nodev\tproc\n\text4\n", false).len(), 1);
        assert_eq!(partitions(mounts, "nodev\tproc\n\text4\n", true).len(), 2);
    }

    #[test]
    fn processes_are_found_by_name() {
        let mut child = std::process::Command::new("sleep").arg("321").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // Until the new program is in place the child still has our name.
        while !std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep") {
            std::thread::yield_now();
        }
        let search = |pattern: &str, full: bool| Search { pattern: pattern.into(), regex: None, user: None, full };
        assert!(search("sleep", false).pids().contains(&pid));
        assert!(search("sleep 321", true).pids().contains(&pid));
        assert!(!search("321", false).pids().contains(&pid));
        assert!(send(pid, 9).unwrap());
        child.wait().unwrap();
        assert!(kill_pid(-1, 15).is_err());
        assert!(send(pid, 999).is_err());
    }
}
