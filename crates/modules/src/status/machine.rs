//! Processors, memory and kernel counters.

use exec::{Error, Result, function};
use value::{Map, Value, map};

use super::{kernel_text, number, numbers};

/// Returns the processors' description. Of several the last one's.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.cpuinfo
#[function]
pub(super) fn cpuinfo() -> Result<Map> {
    Ok(parse_cpuinfo(&kernel_text("/proc/cpuinfo")))
}

pub(super) fn parse_cpuinfo(text: &str) -> Map {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.trim(), words_or_text(name.trim(), value.trim()))).collect()
}

pub(super) fn words_or_text(name: &str, value: &str) -> Value {
    // Only this line is a list. Of several processors the last one counts, as in Salt.
    if name == "flags" { value.split_whitespace().collect() } else { value.into() }
}

/// Returns the processors' time by use, interrupts, and processes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.cpustats
#[function]
pub(super) fn cpustats() -> Result<Map> {
    Ok(parse_cpustats(&kernel_text("/proc/stat")))
}

pub(super) fn parse_cpustats(text: &str) -> Map {
    let mut stats = Map::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let field = |place: usize| words.get(place).map_or(Value::Null, |text| number(text));
        let rest = || numbers(words.get(2..).unwrap_or_default());
        let value: Value = match words.first() {
            None => continue,
            Some(&"cpu") => map! {
                "idle" => field(4), "iowait" => field(5), "irq" => field(6), "nice" => field(2),
                "softirq" => field(7), "steal" => field(8), "system" => field(3), "user" => field(1),
            }
            .into(),
            Some(&"intr") => map! { "total" => field(1), "irqs" => rest() }.into(),
            Some(&"softirq") => map! { "total" => field(1), "softirqs" => rest() }.into(),
            Some(_) => field(1),
        };
        stats.insert(words[0], value);
    }
    stats
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.loadavg
#[function]
pub(super) fn loadavg() -> Result<Map> {
    let info = nix::sys::sysinfo::sysinfo()
        .map_err(|error| Error::execution(format!("failed to ask the kernel for the load: {error}")))?;
    let (one, five, fifteen) = info.load_average();
    Ok(map! { "1-min" => one, "5-min" => five, "15-min" => fifteen })
}

/// Returns the kernel's account of the memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.meminfo
#[function]
pub(super) fn meminfo() -> Result<Map> {
    Ok(parse_meminfo(&kernel_text("/proc/meminfo")))
}

pub(super) fn parse_meminfo(text: &str) -> Map {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.replace(':', "");
        let mut entry = map! { "value" => words.next()? };
        if let Some(unit) = words.next() {
            entry.insert("unit", unit);
        }
        Some((name, entry))
    };
    text.lines().filter_map(entry).collect()
}

/// Returns the kernel's counters of virtual memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.vmstats
#[function]
pub(super) fn vmstats() -> Result<Map> {
    let text = kernel_text("/proc/vmstat");
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(name, value)| (name, number(value.trim()))).collect())
}

/// Returns the number of processors this process may use.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.nproc
#[function]
pub(super) fn nproc() -> Result<u64> {
    Ok(std::thread::available_parallelism().map_or(0, |count| count.get() as u64))
}

/// Returns the kernel's version.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.version
#[function]
pub(super) fn version() -> Result<String> {
    Ok(kernel_text("/proc/version").trim().to_owned())
}
