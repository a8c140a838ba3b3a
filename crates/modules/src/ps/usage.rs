//! The usage of processors and disks.

use std::time::Duration;

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

use super::process::{Process, boot_time};
use super::{TIMES, cpu_lines, detail, read};

/// The interval in seconds if none is given.
// psutil compares with the last call when there is no interval, but here every call is the first one.
const MOMENT: f64 = 0.1;

fn times(ctx: &Context) -> Result<Vec<Map>> {
    let text = ctx.blocking(|| read("/proc/stat"))?;
    let lines = cpu_lines(&text, super::process::ticks());
    if lines.is_empty() { Err(Error::execution("the kernel tells no processor times")) } else { Ok(lines) }
}

/// Waits for that number of seconds.
fn pause(ctx: &Context, seconds: f64) -> Result<()> {
    let wait = Duration::try_from_secs_f64(seconds);
    let wait = wait.map_err(|_| Error::Other(format!("interval is not positive (got {seconds})")))?;
    ctx.sleep(wait);
    Ok(())
}

/// The share of the time between two looks in which a processor had something to do, in percent.
fn busy(before: &Map, after: &Map) -> f64 {
    let of = |name: &str| {
        let number = |map: &Map| map.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        // Counters may go back when a processor is removed.
        (number(after) - number(before)).max(0.0)
    };
    // Guests' time is part of the users'.
    let all: f64 = TIMES.iter().filter(|name| !name.starts_with("guest")).map(|name| of(name)).sum();
    super::share(all - of("idle") - of("iowait"), all)
}

/// Returns the load of the processors, in percent: in total or with ``per_cpu`` each. Measures for ``interval``
/// seconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.cpu_percent
#[function]
fn cpu_percent(ctx: &Context, #[default(MOMENT)] interval: f64, #[default(false)] per_cpu: bool) -> Result<Value> {
    let before = times(ctx)?;
    pause(ctx, if interval == 0.0 { MOMENT } else { interval })?;
    let after = times(ctx)?;
    let mut shares = before.iter().zip(&after).map(|(before, after)| busy(before, after));
    Ok(if per_cpu { shares.skip(1).collect() } else { shares.next().unwrap_or(0.0).into() })
}

/// The counters of a disk and their places in a line of `/proc/diskstats` behind the name; sectors have 512 bytes.
const COUNTERS: [(&str, usize, u64); 9] = [
    ("read_count", 0, 1),
    ("write_count", 4, 1),
    // Sectors are 512 bytes here, whatever the disk has.
    ("read_bytes", 2, 512),
    ("write_bytes", 6, 512),
    ("read_time", 3, 1),
    ("write_time", 7, 1),
    ("read_merged_count", 1, 1),
    ("write_merged_count", 5, 1),
    ("busy_time", 9, 1),
];

/// Adds up the counters of the disks that are wanted; nothing without any.
fn disk_counters(text: &str, wanted: impl Fn(&str) -> bool) -> Option<Map> {
    let mut sums = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() < 14 || !wanted(words[2]) {
            continue;
        }
        let sums = sums.get_or_insert([0u64; COUNTERS.len()]);
        for (sum, (_, place, size)) in sums.iter_mut().zip(COUNTERS) {
            *sum += words[3 + place].parse::<u64>().unwrap_or(0) * size;
        }
    }
    Some(COUNTERS.iter().zip(sums?).map(|((name, ..), sum)| (*name, sum)).collect())
}

/// Returns the traffic of disks, of all together or of one disk or partition; False when there is no such disk.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.disk_io_counters
///     salt '*' ps.disk_io_counters device=sda1
#[function]
fn disk_io_counters(ctx: &Context, device: Option<String>) -> Result<Value> {
    ctx.blocking(move || -> Result<Value> {
        let text = read("/proc/diskstats")?;
        match device.filter(|name| !name.is_empty()) {
            Some(name) => Ok(disk_counters(&text, |disk| disk == name).map_or(Value::Bool(false), Value::Map)),
            None => {
                // Partitions are counted with their disk.
                let whole = |disk: &str| std::path::Path::new("/sys/block").join(disk.replace('/', "!")).exists();
                disk_counters(&text, whole).map(Value::Map).ok_or_else(|| Error::execution("there are no disks"))
            }
        }
    })
}

/// Returns the processes that used the most processor time within ``interval`` seconds, the busiest first.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.top
///
///     salt '*' ps.top 5 10
#[function]
fn top(ctx: &Context, #[default(5)] num_processes: i64, #[default(3)] interval: f64) -> Result<Vec<Map>> {
    let used = |process: Process| process.stat().ok().map(|stat| stat.times()[..2].iter().sum::<f64>());
    let look = move || Process::all().into_iter().filter_map(|one| Some((one, used(one)?))).collect();
    let before: Vec<(Process, f64)> = ctx.blocking(look);
    pause(ctx, interval)?;
    let wanted = usize::try_from(num_processes).unwrap_or(0).max(1);
    Ok(ctx.blocking(move || {
        let now = before.into_iter().filter_map(|(one, before)| Some((one, used(one)? - before)));
        let mut now: Vec<(Process, f64)> = now.collect();
        now.sort_by(|one, other| other.1.total_cmp(&one.1));
        let started = read("/proc/stat").ok().and_then(|text| boot_time(&text)).unwrap_or(0);
        now.into_iter().filter_map(|(one, _)| process_map(one, started).ok()).take(wanted).collect()
    }))
}

fn process_map(process: Process, boot_time: i64) -> std::io::Result<Map> {
    let stat = process.stat()?;
    let words = process.cmdline().unwrap_or_default();
    let command = if words.is_empty() { process.name()?.into() } else { Value::from(words) };
    let names = |names: &[&'static str], values: Vec<Value>| names.iter().copied().zip(values).collect::<Map>();
    Ok(map! {
        "cmd" => command,
        "user" => process.user()?,
        "status" => stat.state(),
        "pid" => process.0,
        "create_time" => stat.created(boot_time),
        "cpu" => names(&detail::CPU_TIMES, detail::cpu_times(&stat)),
        "mem" => names(&detail::MEMORY, detail::memory(process)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_no_work() {
        let at = |user: f64, guest: f64, idle: f64| map! { "user" => user, "guest" => guest, "idle" => idle };
        assert_eq!(busy(&at(1.0, 1.0, 1.0), &at(2.0, 2.0, 4.0)), 25.0);
        assert_eq!(busy(&at(1.0, 1.0, 1.0), &at(1.0, 1.0, 1.0)), 0.0);
    }

    #[test]
    fn disks_are_added_up() {
        let text =
            " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n 254 1 vda1 1 2 3 4 5 6 7 8 9 10 11\n 8 0 sda 1 0 0 0 0 0 0 0 0 0 0\n";
        let both = disk_counters(text, |disk| disk != "vda1").unwrap();
        assert_eq!(
            (both.get("read_count"), both.get("read_bytes")),
            (Some(&Value::Int(2)), Some(&Value::Int(3 * 512)))
        );
        assert_eq!(
            (both.get("write_bytes"), both.get("busy_time")),
            (Some(&Value::Int(7 * 512)), Some(&Value::Int(10)))
        );
        assert!(disk_counters(text, |_| false).is_none());
    }
}
