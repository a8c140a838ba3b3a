//! `status` — how the machine is doing: load, memory, disks, network, processes, users, masters.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exec::{Context, Error, MasterState, Module, Result, VarArgs, function};
use regex::Regex;
use targeting::Glob;
use value::{Map, Value, map};

use crate::{cmd, config};

/// The module.
pub static MODULE: Module = Module::new(
    "status",
    "How the machine is doing.",
    &[
        &ALL_STATUS,
        &CPUINFO,
        &CPUSTATS,
        &CUSTOM,
        &DISKSTATS,
        &DISKUSAGE,
        &LOADAVG,
        &CONNECTED_TO,
        &MEMINFO,
        &NETDEV,
        &NETSTATS,
        &NPROC,
        &PID,
        &PING_MASTER,
        &PROCS,
        &PROXY_RECONNECT,
        &TIME,
        &UPTIME,
        &VERSION,
        &VMSTATS,
        &W,
    ],
);

/// Reads a file of the kernel. One that is not there reads as empty, as in Salt.
fn kernel_text(path: &str) -> String {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            tracing::debug!("failed to read {path}: {error}");
            String::new()
        }
    }
}

/// Makes the number of a text, if it is one.
fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<u64>() {
        return whole.into();
    }
    text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
}

fn numbers(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| number(text)).collect()
}

/// Returns everything this module knows about the machine's state.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.all_status
#[function]
async fn all_status(ctx: &Context) -> Result<Map> {
    Ok(map! {
        "cpuinfo" => cpuinfo()?,
        "cpustats" => cpustats()?,
        "diskstats" => diskstats()?,
        "diskusage" => diskusage(ctx, VarArgs::default()).await?,
        "loadavg" => loadavg()?,
        "meminfo" => meminfo()?,
        "netdev" => netdev()?,
        "netstats" => netstats()?,
        "uptime" => uptime(ctx).await?,
        "vmstats" => vmstats()?,
        "w" => w(ctx).await?,
    })
}

/// Returns the processors' description. Of several the last one's.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.cpuinfo
#[function]
fn cpuinfo() -> Result<Map> {
    Ok(parse_cpuinfo(&kernel_text("/proc/cpuinfo")))
}

fn parse_cpuinfo(text: &str) -> Map {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.trim(), words_or_text(name.trim(), value.trim()))).collect()
}

fn words_or_text(name: &str, value: &str) -> Value {
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
fn cpustats() -> Result<Map> {
    Ok(parse_cpustats(&kernel_text("/proc/stat")))
}

fn parse_cpustats(text: &str) -> Map {
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

/// Returns the disks' reads and writes since the machine started.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.diskstats
#[function]
fn diskstats() -> Result<Map> {
    Ok(parse_diskstats(&kernel_text("/proc/diskstats")))
}

fn parse_diskstats(text: &str) -> Map {
    const FIELDS: [&str; 14] = [
        "major",
        "minor",
        "device",
        "reads_issued",
        "reads_merged",
        "sectors_read",
        "ms_spent_reading",
        "writes_completed",
        "writes_merged",
        "sectors_written",
        "ms_spent_writing",
        "io_in_progress",
        "ms_spent_in_io",
        "weighted_ms_spent_in_io",
    ];
    let disk = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let device = *words.get(2)?;
        let entry: Map = FIELDS.into_iter().zip(words.iter().map(|word| number(word))).collect();
        Some((device.to_owned(), entry))
    };
    text.lines().filter_map(disk).collect()
}

/// Returns available and total bytes of file systems: all, those at the given paths, or those of the given kinds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.diskusage
///     salt '*' status.diskusage / /srv
///     salt '*' status.diskusage 'ext?' xfs
#[function]
async fn diskusage(ctx: &Context, args: VarArgs) -> Result<Map> {
    let words: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let mounts = kernel_text("/proc/mounts");
    let paths = mount_points(&words, &mounts);
    // A network file system whose server is gone would block.
    ctx.blocking(move || paths.into_iter().filter_map(|path| Some((path.clone(), usage(&path)?))).collect()).await
}

fn mount_points(words: &[String], mounts: &str) -> Vec<String> {
    let (mut paths, kinds): (Vec<String>, Vec<String>) = words.iter().cloned().partition(|word| word.starts_with('/'));
    let globs: Vec<Glob> = kinds.iter().map(|kind| Glob::new(kind)).collect();
    if words.is_empty() || !globs.is_empty() {
        for line in mounts.lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (Some(place), Some(kind)) = (fields.next(), fields.next()) else { continue };
            let place = unescaped(place);
            if (globs.is_empty() || globs.iter().any(|glob| glob.matches(kind))) && !paths.contains(&place) {
                paths.push(place);
            }
        }
    }
    paths
}

/// The kernel writes white space in paths as octal numbers.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn usage(path: &str) -> Option<Map> {
    if !Path::new(path).exists() {
        return None;
    }
    match nix::sys::statvfs::statvfs(path) {
        Ok(stats) => {
            let bytes = |blocks: u64| blocks.saturating_mul(stats.block_size());
            Some(map! { "available" => bytes(stats.blocks_available()), "total" => bytes(stats.blocks()) })
        }
        Err(error) => {
            tracing::warn!("Cannot get stats from '{path}': {error}");
            Some(map! { "available" => (), "total" => () })
        }
    }
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.loadavg
#[function]
fn loadavg() -> Result<Map> {
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
fn meminfo() -> Result<Map> {
    Ok(parse_meminfo(&kernel_text("/proc/meminfo")))
}

fn parse_meminfo(text: &str) -> Map {
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

/// Returns what the network interfaces sent and received.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.netdev
#[function]
fn netdev() -> Result<Map> {
    Ok(parse_netdev(&kernel_text("/proc/net/dev")))
}

fn parse_netdev(text: &str) -> Map {
    const FIELDS: [&str; 16] = [
        "rx_bytes",
        "rx_packets",
        "rx_errs",
        "rx_drop",
        "rx_fifo",
        "rx_frame",
        "rx_compressed",
        "rx_multicast",
        "tx_bytes",
        "tx_packets",
        "tx_errs",
        "tx_drop",
        "tx_fifo",
        "tx_colls",
        "tx_carrier",
        "tx_compressed",
    ];
    let mut interfaces = Map::new();
    for (name, counters) in text.lines().filter_map(|line| line.rsplit_once(':')) {
        let mut fields: Vec<(&str, Value)> = FIELDS.into_iter().zip(counters.split_whitespace().map(number)).collect();
        fields.sort_by_key(|(name, _)| *name);
        let mut entry = map! { "iface" => name.trim() };
        entry.extend(fields);
        interfaces.insert(name.trim(), entry);
    }
    interfaces
}

/// Returns the network stack's counters.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.netstats
#[function]
fn netstats() -> Result<Map> {
    Ok(parse_netstats(&kernel_text("/proc/net/netstat")))
}

/// Lines come in pairs: names, then values, both behind the name of the group.
fn parse_netstats(text: &str) -> Map {
    let mut groups = Map::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(group) = words.first() else { continue };
        if names.first() == Some(group) {
            let row: Map = names.iter().skip(1).copied().zip(words.iter().skip(1).map(|word| number(word))).collect();
            groups.insert(group.replace(':', ""), row);
        } else {
            names = words;
        }
    }
    groups
}

/// Returns the kernel's counters of virtual memory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.vmstats
#[function]
fn vmstats() -> Result<Map> {
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
fn nproc() -> Result<u64> {
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
fn version() -> Result<String> {
    Ok(kernel_text("/proc/version").trim().to_owned())
}

/// Returns since when the machine runs and how many users are logged in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.uptime
#[function]
async fn uptime(ctx: &Context) -> Result<Map> {
    let text = std::fs::read_to_string("/proc/uptime")
        .map_err(|error| Error::execution(format!("File /proc/uptime was not found. ({error})")))?;
    let seconds = text.split('.').next().and_then(|whole| whole.trim().parse().ok());
    let seconds: u64 = seconds.ok_or_else(|| Error::execution(format!("failed to read /proc/uptime: {text:?}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut result = since(now.saturating_sub(Duration::from_secs(seconds)), seconds);
    match cmd::quiet(ctx, &["who", "-s"]).await {
        Ok(outcome) => drop(result.insert("users", outcome.stdout.lines().count())),
        Err(Error::CommandNotFound(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(result)
}

fn since(boot: Duration, seconds: u64) -> Map {
    let of_day = seconds % 86_400;
    map! {
        "seconds" => seconds,
        "since_iso" => iso(boot),
        "since_t" => boot.as_secs(),
        "days" => seconds / 86_400,
        "time" => format!("{}:{}", of_day / 3600, of_day % 3600 / 60),
    }
}

/// A point in time as Python's `isoformat()` writes it, in UTC.
pub(crate) fn iso(time: Duration) -> String {
    let (days, of_day) = ((time.as_secs() / 86_400) as i64, time.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    let micros = time.subsec_micros();
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}")
}

/// The date of a number of days since 1970, by Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the time of the machine, in the given form (see ``man strftime``).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.time
///     salt '*' status.time '%s'
#[function]
async fn time(ctx: &Context, #[default("%A, %d. %B %Y %I:%M%p")] format: String) -> Result<String> {
    let outcome = cmd::quiet(ctx, &["date", &format!("+{format}")]).await?;
    match outcome.retcode {
        Some(0) => Ok(outcome.stdout.trim_end_matches('\n').to_owned()),
        _ => Err(Error::execution(format!("failed to write the time as '{format}': {}", outcome.stderr.trim()))),
    }
}

/// Returns who is logged in and what they do.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.w
#[function]
async fn w(ctx: &Context) -> Result<Vec<Map>> {
    match cmd::quiet(ctx, &["w", "-fh"]).await {
        Ok(outcome) => Ok(outcome.stdout.lines().filter_map(login).collect()),
        Err(Error::CommandNotFound(program)) => {
            tracing::warn!("there is no program '{program}' to tell who is logged in");
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

fn login(line: &str) -> Option<Map> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [user, tty, login, idle, jcpu, pcpu, what @ ..] = words.as_slice() else { return None };
    Some(map! {
        "idle" => *idle, "jcpu" => *jcpu, "login" => *login, "pcpu" => *pcpu, "tty" => *tty, "user" => *user,
        "what" => what.join(" "),
    })
}

/// The lines of the process list, with the names of the columns first.
async fn process_lines(ctx: &Context) -> Result<Vec<String>> {
    let command = ctx.grains.get_str("ps").filter(|command| !command.is_empty()).unwrap_or("ps -efHww");
    let outcome = cmd::quiet(ctx, &["/bin/sh", "-c", command]).await?;
    if outcome.retcode != Some(0) {
        return Err(Error::execution(format!("failed to list processes with '{command}': {}", outcome.stderr.trim())));
    }
    Ok(outcome.stdout.lines().map(str::to_owned).collect())
}

/// Returns the processes with their users and commands.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.procs
#[function]
async fn procs(ctx: &Context) -> Result<Map> {
    Ok(parse_procs(&process_lines(ctx).await?))
}

fn parse_procs(lines: &[String]) -> Map {
    let Some((head, lines)) = lines.split_first() else { return Map::new() };
    let columns: Vec<&str> = head.split_whitespace().collect();
    let column = |names: [&str; 2]| names.iter().find_map(|name| columns.iter().position(|column| column == name));
    let user = column(["USER", "UID"]).unwrap_or_default();
    let pid = column(["PID", "PID"]).unwrap_or_default();
    let command = column(["COMMAND", "CMD"]).unwrap_or_default();
    let process = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let entry = map! { "user" => *words.get(user)?, "cmd" => words.get(command..)?.join(" ") };
        Some(((*words.get(pid)?).to_owned(), entry))
    };
    lines.iter().filter_map(process).collect()
}

/// Returns the ids of the processes whose line in the process list fits a regular expression, one a line.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.pid 'sshd'
#[function]
async fn pid(ctx: &Context, sig: String) -> Result<String> {
    let pattern = Regex::new(&sig).map_err(|error| Error::invocation(format!("'{sig}' is no pattern: {error}")))?;
    let me = std::process::id().to_string();
    Ok(matching_pids(&process_lines(ctx).await?, &pattern, &me).join("\n"))
}

/// Leaves out this process and what it started to look around.
fn matching_pids(lines: &[String], pattern: &Regex, me: &str) -> Vec<String> {
    let ours = |words: &[&str]| words.iter().skip(1).take(2).any(|word| *word == me);
    let found = lines.iter().skip(1).filter(|line| pattern.is_match(line)).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if ours(&words) { None } else { words.get(1).map(|pid| (*pid).to_owned()) }
    });
    found.collect()
}

/// Returns the values the options ``status.<function>.custom`` name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.custom
#[function]
async fn custom(ctx: &Context) -> Result<Map> {
    let mut result = Map::new();
    for (option, wanted) in config::starting_with(ctx, "status.") {
        let Some((function, _)) = option.rsplit_once('.') else { continue };
        if function == "status.custom" || function == "status" {
            continue;
        }
        let values = match ctx.call(function, Vec::new()).await {
            Ok(values) => values,
            Err(Error::Terminated) => return Err(Error::Terminated),
            Err(error) => {
                tracing::warn!("custom status {function} failed: {error}");
                continue;
            }
        };
        for name in wanted.as_list().unwrap_or_default() {
            let found = values.as_map().and_then(|values| values.get_value(name)).cloned();
            if found.is_none() {
                tracing::warn!("val {name} not in return of {function}");
            }
            result.insert(name.clone(), found.unwrap_or_else(|| "UNKNOWN".into()));
        }
    }
    Ok(result)
}

/// Says whether the minion is connected to a master, which is named by address. Where that is not as expected an
/// event says so on the minion's bus.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.master master=salt1.example.com
#[function(name = "master")]
async fn connected_to(ctx: &Context, master: Option<String>, #[default(true)] connected: bool) -> Result<Option<bool>> {
    let Some(master) = master.filter(|master| !master.is_empty()) else { return Ok(None) };
    let masters = ctx.agent.masters();
    let is_live = masters.iter().any(|status| {
        let named = status.host == master
            || status.address == master
            || status.ip.is_some_and(|ip| master.parse().is_ok_and(|wanted: std::net::IpAddr| wanted == ip));
        named && status.state == MasterState::Live
    });
    if is_live != connected {
        let tag = if is_live { "__master_connected" } else { "__master_disconnected" };
        ctx.agent.fire_local(tag, map! { "master" => &master }).await?;
    }
    Ok(Some(is_live))
}

/// Says whether a master answers, whether the minion is connected to it or not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.ping_master salt1.example.com
#[function]
async fn ping_master(ctx: &Context, master: Value) -> Result<bool> {
    if !master.truthy() {
        return Ok(false);
    }
    let master = master.to_string();
    let limit = ctx.opt("auth_timeout").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0).unwrap_or(60.0);
    let limit = Duration::try_from_secs_f64(limit).unwrap_or(Duration::from_secs(60));
    let answered = ctx.agent.ping_master(&master, limit).await;
    if answered {
        ctx.agent.fire_local("__master_failback", map! { "master" => &master }).await?;
    }
    Ok(answered)
}

/// Returns False: there are no proxy minions here.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.proxy_reconnect rest_sample
#[function]
fn proxy_reconnect(proxy_name: String, opts: Option<Value>) -> Result<bool> {
    let _ = (proxy_name, opts);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing::{FakeAgent, context};
    use exec::{MasterRole, MasterStatus};
    use std::sync::Arc;
    use value::list;

    #[test]
    fn the_kernels_tables_are_read() {
        let stat = "cpu  62353 1 11437 141462 845 2 95 37 0 0\ncpu0 25635 0 0\nintr 9 1 2\nctxt 5\nsoftirq 3 1 2\n";
        let cpu = map! {
            "idle" => 141462, "iowait" => 845, "irq" => 2, "nice" => 1, "softirq" => 95, "steal" => 37,
            "system" => 11437, "user" => 62353,
        };
        let expected = map! {
            "cpu" => cpu, "cpu0" => 25635, "intr" => map! { "total" => 9, "irqs" => list![1, 2] }, "ctxt" => 5,
            "softirq" => map! { "total" => 3, "softirqs" => list![1, 2] },
        };
        assert_eq!(parse_cpustats(stat), expected);
        let memory = parse_meminfo("MemTotal:  24684092 kB\nHugePages_Total:  0\n");
        let entry = map! { "value" => "24684092", "unit" => "kB" };
        assert_eq!(memory, map! { "MemTotal" => entry, "HugePages_Total" => map! { "value" => "0" } });
        let cpuinfo = parse_cpuinfo("processor\t: 0\nflags\t\t: fpu vme\npower management:\n\nprocessor\t: 1\n");
        assert_eq!(cpuinfo, map! { "processor" => "1", "flags" => list!["fpu", "vme"], "power management" => "" });
        let disks = parse_diskstats(" 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13\n");
        assert_eq!(disks.get("vda").unwrap().get("weighted_ms_spent_in_io"), Some(&11.into()));
        let net = parse_netdev("Inter-| x\n face |bytes\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        let eth0 = net.get("eth0").unwrap();
        assert_eq!(
            (eth0.get("rx_multicast"), eth0.get("tx_carrier"), eth0.get("iface")),
            (Some(&8.into()), Some(&15.into()), Some(&"eth0".into()))
        );
        let groups = parse_netstats("TcpExt: A B\nTcpExt: 1 2\nIpExt: C\nIpExt: 3\n");
        assert_eq!(groups, map! { "TcpExt" => map! { "A" => 1, "B" => 2 }, "IpExt" => map! { "C" => 3 } });
    }

    #[test]
    fn processes_are_read_by_column() {
        let lines: Vec<String> =
            ["UID  PID PPID C CMD", "root 1 0 0 /sbin/init -x", "me 7 1 0 salt", "me 8 7 0 ps salt"]
                .map(str::to_owned)
                .into();
        let procs = parse_procs(&lines);
        assert_eq!(procs.get("1"), Some(&map! { "user" => "root", "cmd" => "/sbin/init -x" }.into()));
        assert_eq!(matching_pids(&lines, &Regex::new("salt|init").unwrap(), "7"), ["1"]);
        assert_eq!(login("anna pts/0 10:00 1:02 0.1s 0.2s vi a b").unwrap().get("what"), Some(&"vi a b".into()));
    }

    #[test]
    fn file_systems_are_chosen_by_place_and_kind() {
        let mounts = "/dev/a / ext4 rw 0 0\nproc /proc proc rw 0 0\n/dev/b /my\\040disk xfs rw 0 0\n";
        let chosen =
            |words: &[&str]| mount_points(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), mounts);
        assert_eq!(chosen(&[]), ["/", "/proc", "/my disk"]);
        assert_eq!(chosen(&["ext?"]), ["/"]);
        assert_eq!(chosen(&["/srv"]), ["/srv"]);
        assert_eq!(chosen(&["/srv", "xfs"]), ["/srv", "/my disk"]);
    }

    #[test]
    fn points_in_time_are_written_as_python_writes_them() {
        assert_eq!(iso(Duration::from_micros(1_795_170_513_686_637)), "2026-11-20T10:28:33.686637");
        assert_eq!(iso(Duration::ZERO), "1970-01-01T00:00:00");
        assert_eq!(iso(Duration::from_secs(951_782_400)), "2000-02-29T00:00:00");
        let since = since(Duration::from_secs(100), 90_061);
        assert_eq!((since.get("days"), since.get("time")), (Some(&1.into()), Some(&"1:1".into())));
    }

    #[tokio::test]
    async fn the_whole_is_there() {
        let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
        let all = all_status(&ctx).await.unwrap();
        let names = [
            "cpuinfo",
            "cpustats",
            "diskstats",
            "diskusage",
            "loadavg",
            "meminfo",
            "netdev",
            "netstats",
            "uptime",
            "vmstats",
            "w",
        ];
        assert_eq!(all.text_keys().collect::<Vec<_>>(), names);
        assert!(all.get("loadavg").unwrap().get("1-min").unwrap().as_f64().is_some());
        assert!(procs(&ctx).await.unwrap().contains_key(&std::process::id().to_string()));
        assert!(nproc().unwrap() > 0);
        assert!(time(&ctx, "%Y".into()).await.unwrap().parse::<u32>().unwrap() > 2000);
    }

    #[tokio::test]
    async fn chosen_values_are_gathered() {
        let opts = map! { "status.cpustats.custom" => list!["ctxt", "nope"], "status.custom" => list!["x"] };
        let (ctx, _) = context(&[&MODULE], opts, map! {}, map! {});
        let chosen = custom(&ctx).await.unwrap();
        assert_eq!(chosen.get("nope"), Some(&"UNKNOWN".into()));
        assert!(chosen.get("ctxt").unwrap().as_i64().is_some());
        assert_eq!(chosen.len(), 2);
    }

    fn status(host: &str, state: MasterState) -> MasterStatus {
        MasterStatus {
            address: format!("{host}:4506"),
            id: None,
            role: MasterRole::Hot,
            host: host.to_owned(),
            ip: Some("10.0.0.1".parse().unwrap()),
            state,
            since: SystemTime::now(),
            last_heard: None,
            round_trip: None,
            fingerprint: None,
            jobs: 0,
            returns_waiting: 0,
            asking: false,
        }
    }

    #[tokio::test]
    async fn masters_are_asked_for_by_name_or_address() {
        let (ctx, _) = context(&[&MODULE], map! {}, map! {}, map! {});
        let masters = vec![status("a", MasterState::Live), status("b", MasterState::Backoff)];
        let agent = Arc::new(FakeAgent { masters, ..FakeAgent::default() });
        let ctx = Context { agent: agent.clone(), ..ctx };
        assert_eq!(connected_to(&ctx, None, true).await.unwrap(), None);
        assert_eq!(connected_to(&ctx, Some("a".into()), true).await.unwrap(), Some(true));
        assert_eq!(connected_to(&ctx, Some("10.0.0.1".into()), true).await.unwrap(), Some(true));
        assert!(agent.asked.lock().unwrap().is_empty());
        assert_eq!(connected_to(&ctx, Some("b".into()), true).await.unwrap(), Some(false));
        assert_eq!(agent.asked.lock().unwrap()[0], map! { "local" => "__master_disconnected", "master" => "b" });
        assert!(ping_master(&ctx, "a".into()).await.unwrap());
        assert!(!ping_master(&ctx, "c".into()).await.unwrap());
        assert!(!ping_master(&ctx, Value::Null).await.unwrap());
    }
}
