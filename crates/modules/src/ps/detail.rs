//! All that is known of one process: the attributes of psutil's `Process.as_dict`, its tuples as lists.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, list};

use super::process::{Process, Stat, boot_time, page, place, ticks};
use super::read;
use crate::network::tables;

type Attribute = fn(Process) -> io::Result<Value>;

const ATTRIBUTES: [(&str, Attribute); 30] = [
    ("cmdline", |process| process.cmdline().map(Value::from)),
    ("cpu_affinity", |process| Ok(numbers(&process.noted("Cpus_allowed_list")?).into())),
    ("cpu_num", |process| Ok(process.stat()?.number(place::PROCESSOR).into())),
    // psutil measures since the last call; this is always the first one.
    ("cpu_percent", |_| Ok(0.0.into())),
    ("cpu_times", |process| Ok(cpu_times(&process.stat()?).into())),
    ("create_time", |process| {
        let started = std::fs::read_to_string("/proc/stat")?;
        Ok(process.stat()?.created(boot_time(&started).unwrap_or(0)).into())
    }),
    ("cwd", |process| link(process, "cwd")),
    ("environ", environ),
    ("exe", |process| link(process, "exe")),
    ("gids", |process| process.ids("Gid")),
    ("io_counters", io_counters),
    ("ionice", ionice),
    ("memory_full_info", memory_full_info),
    ("memory_info", |process| memory(process).map(Value::from)),
    ("memory_maps", memory_maps),
    ("memory_percent", memory_percent),
    ("name", |process| process.name().map(Value::from)),
    ("net_connections", connections),
    ("nice", |process| Ok(process.stat()?.number(place::NICE).into())),
    ("num_ctx_switches", |process| {
        let number = |name: &str| Ok::<_, io::Error>(process.noted(name)?.parse::<i64>().unwrap_or(0));
        Ok(list![number("voluntary_ctxt_switches")?, number("nonvoluntary_ctxt_switches")?])
    }),
    ("num_fds", |process| Ok(std::fs::read_dir(process.path("fd"))?.count().into())),
    ("num_threads", |process| Ok(process.stat()?.number(place::THREADS).into())),
    ("open_files", open_files),
    ("pid", |process| Ok(process.0.into())),
    ("ppid", |process| Ok(process.stat()?.number(place::PPID).into())),
    ("status", |process| Ok(process.stat()?.state().into())),
    ("terminal", terminal),
    ("threads", threads),
    ("uids", |process| process.ids("Uid")),
    ("username", Process::user),
];

/// Returns information about a process; ``attrs`` selects the attributes. An attribute that the minion may not read is
/// None.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.proc_info 2322
///     salt '*' ps.proc_info 2322 attrs='["pid", "name"]'
#[function]
fn proc_info(ctx: &Context, pid: i64, attrs: Option<Vec<String>>) -> Result<Map> {
    let gone = |_| Error::execution(format!("process PID not found (pid={pid})"));
    let process = Process(i32::try_from(pid).map_err(gone)?);
    ctx.blocking(move || info(process, attrs.as_deref().unwrap_or_default()))
}

fn info(process: Process, wanted: &[String]) -> Result<Map> {
    // psutil checks the names before anything else, in these words.
    let unknown = |name: &&String| !ATTRIBUTES.iter().any(|(known, _)| known == name);
    let wrong: Vec<String> = wanted.iter().filter(unknown).map(|name| format!("'{name}'")).collect();
    if !wrong.is_empty() {
        let many = if wrong.len() > 1 { "s" } else { "" };
        return Err(Error::Other(format!("invalid attr name{many} {}", wrong.join(", "))));
    }
    let gone = || Error::execution(format!("process PID not found (pid={})", process.0));
    if !process.is_there() {
        return Err(gone());
    }
    let mut found = Map::new();
    for (name, attribute) in ATTRIBUTES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let value = match attribute(process) {
            Ok(value) => value,
            // The process may end during the query.
            Err(_) if !process.is_there() => return Err(gone()),
            // psutil's `ad_value`, None.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Value::Null,
            Err(error) => return Err(Error::io("read", process.path(name), &error)),
        };
        found.insert(name, value);
    }
    Ok(found)
}

impl Process {
    /// A line of the file `status`.
    fn noted(self, name: &str) -> io::Result<String> {
        let text = self.read("status")?;
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(found.unwrap_or_default().trim().to_owned())
    }

    /// Real, effective and saved ids.
    fn ids(self, name: &str) -> io::Result<Value> {
        let noted = self.noted(name)?;
        Ok(noted.split_whitespace().take(3).filter_map(|id| id.parse::<i64>().ok()).map(Value::from).collect())
    }
}

/// Reads `0-3,8`.
fn numbers(ranges: &str) -> Vec<i64> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<i64>().ok()?..=last.trim().parse::<i64>().ok()?)
    };
    ranges.split(',').filter_map(range).flatten().collect()
}

/// The names of what [`cpu_times`] returns.
pub(super) const CPU_TIMES: [&str; 5] = ["user", "system", "children_user", "children_system", "iowait"];

/// Seconds on processors and waiting for disks.
pub(super) fn cpu_times(stat: &Stat) -> Vec<Value> {
    stat.times().into_iter().chain([stat.number(place::WAITED) as f64 / ticks()]).map(Value::from).collect()
}

/// The names of what [`memory`] returns.
pub(super) const MEMORY: [&str; 7] = ["rss", "vms", "shared", "text", "lib", "data", "dirty"];

/// Memory in bytes: resident, mapped, shared, code, libraries, data, and what was changed.
pub(super) fn memory(process: Process) -> io::Result<Vec<Value>> {
    let text = process.read("statm")?;
    let mut pages: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    pages.resize(MEMORY.len(), 0);
    // The kernel lists the virtual size first, psutil the resident one.
    pages.swap(0, 1);
    Ok(pages.into_iter().map(|pages| (pages * page()).into()).collect())
}

/// Lines such as `Pss: 12 kB` of one mapping or of all, in bytes.
fn amount(text: &str, name: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(':')).filter(|(found, _)| *found == name);
    lines.filter_map(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok()).sum::<u64>() * 1024
}

fn memory_full_info(process: Process) -> io::Result<Value> {
    // The sum is quicker, but kernels before 4.14 have no such file.
    let all = process.read("smaps_rollup").or_else(|_| process.read("smaps"))?;
    let own = amount(&all, "Private_Clean") + amount(&all, "Private_Dirty") + amount(&all, "Private_Hugetlb");
    let mut full = memory(process)?;
    full.extend([own, amount(&all, "Pss"), amount(&all, "Swap")].map(Value::from));
    Ok(full.into())
}

/// The numbers of a mapping, in psutil's order.
const MAPPED: [&str; 10] = [
    "Rss",
    "Size",
    "Pss",
    "Shared_Clean",
    "Shared_Dirty",
    "Private_Clean",
    "Private_Dirty",
    "Referenced",
    "Anonymous",
    "Swap",
];

fn memory_maps(process: Process) -> io::Result<Value> {
    Ok(mapped(&process.read("smaps")?).into())
}

/// Adds up the mappings of each file.
fn mapped(smaps: &str) -> Vec<Value> {
    let mut files: indexmap::IndexMap<String, [u64; MAPPED.len()]> = indexmap::IndexMap::new();
    let mut current = String::new();
    for line in smaps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        match first.strip_suffix(':') {
            // A line with a colon behind its first word is a number of the current mapping, any
            // other begins a new one.
            Some(name) => {
                let Some(place) = MAPPED.iter().position(|known| *known == name) else { continue };
                files.entry(current.clone()).or_default()[place] += amount(line, name);
            }
            None => {
                let path = line.splitn(6, char::is_whitespace).nth(5).unwrap_or_default().trim();
                current = if path.is_empty() { "[anon]".to_owned() } else { path.to_owned() };
            }
        }
    }
    let row = |(path, sizes): (String, [u64; MAPPED.len()])| {
        std::iter::once(Value::from(path)).chain(sizes.map(Value::from)).collect()
    };
    files.into_iter().map(row).collect()
}

fn memory_percent(process: Process) -> io::Result<Value> {
    let total = amount(&std::fs::read_to_string("/proc/meminfo")?, "MemTotal");
    let resident = memory(process)?[0].as_f64().unwrap_or(0.0);
    Ok(if total == 0 { 0.0 } else { resident / total as f64 * 100.0 }.into())
}

/// Returns the target of a link. It is empty for threads of the kernel.
fn link(process: Process, name: &str) -> io::Result<Value> {
    match std::fs::read_link(process.path(name)) {
        // The kernel adds this to files that no longer exist.
        Ok(path) => Ok(path.to_string_lossy().trim_end_matches(" (deleted)").into()),
        // Threads of the kernel have no program.
        Err(error) if error.kind() == io::ErrorKind::NotFound && process.is_there() => Ok("".into()),
        Err(error) => Err(error),
    }
}

fn environ(process: Process) -> io::Result<Value> {
    let text = process.read("environ")?;
    Ok(Value::Map(text.split('\0').filter_map(|pair| pair.split_once('=')).collect()))
}

fn io_counters(process: Process) -> io::Result<Value> {
    let text = process.read("io")?;
    let of = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    Ok(["syscr", "syscw", "read_bytes", "write_bytes", "rchar", "wchar"].into_iter().map(of).map(Value::from).collect())
}

/// Class and level for disks.
#[expect(unsafe_code, reason = "no library asks the kernel for it")]
fn ionice(process: Process) -> io::Result<Value> {
    const OF_A_PROCESS: nix::libc::c_int = 1;
    // SAFETY: the call takes two numbers and returns one.
    let found = unsafe { nix::libc::syscall(nix::libc::SYS_ioprio_get, OF_A_PROCESS, process.0) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // The class is in the upper bits, the level in the lower ones.
    Ok(list![found >> 13, found & 0x1fff])
}

/// Descriptor, family, type, the two ends, and the state of each socket of the internet's protocols.
fn connections(process: Process) -> io::Result<Value> {
    const STREAM: i64 = 1;
    const DATAGRAM: i64 = 2;
    let mut held = std::collections::HashMap::new();
    for (number, target) in descriptors(process)? {
        // The tables of sockets name inodes, and only the descriptors show their processes.
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        held.extend(inode.and_then(|inode| inode.parse::<u64>().ok()).map(|inode| (inode, number)));
    }
    let end = |(address, port): (std::net::IpAddr, u16)| {
        if port == 0 { list![] } else { list![address.to_string(), port] }
    };
    let shown = |socket: &tables::Socket| {
        let number = *held.get(&socket.inode)?;
        let family = if socket.local.0.is_ipv4() { 2 } else { 10 };
        let stream = socket.proto.starts_with("tcp");
        let state = if stream { tables::state(socket.state) } else { "NONE" };
        let kind = if stream { STREAM } else { DATAGRAM };
        Some(list![number, family, kind, end(socket.local), end(socket.remote), state])
    };
    Ok(tables::all_sockets().iter().filter_map(shown).collect())
}

/// The descriptors of a process, by number, and where they lead.
fn descriptors(process: Process) -> io::Result<Vec<(i64, String)>> {
    let folder = process.path("fd");
    let entries = std::fs::read_dir(&folder)?.flatten();
    let mut found: Vec<(i64, String)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            // A descriptor that was closed in the meantime leads nowhere.
            let target = std::fs::read_link(entry.path()).ok()?;
            Some((number, target.to_string_lossy().into_owned()))
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Path, descriptor, position, mode and flags of each open file.
fn open_files(process: Process) -> io::Result<Value> {
    let shown = |(number, path): (i64, String)| {
        // Pipes, sockets and devices are not files to psutil.
        if !path.starts_with('/') || !Path::new(&path).is_file() {
            return None;
        }
        let notes = process.read(&format!("fdinfo/{number}")).ok()?;
        let of = |name: &str| notes.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        // The kernel prints the flags in octal.
        let flags = i64::from_str_radix(of("flags:")?, 8).ok()?;
        Some(list![path, number, of("pos:")?.parse::<i64>().ok()?, mode(flags), flags])
    };
    Ok(descriptors(process)?.into_iter().filter_map(shown).collect())
}

/// Returns Python's mode for the flags of an open file.
fn mode(flags: i64) -> &'static str {
    let appended = flags & i64::from(nix::libc::O_APPEND) != 0;
    match (flags & i64::from(nix::libc::O_ACCMODE), appended) {
        (0, _) => "r",
        (1, true) => "a",
        (1, false) => "w",
        (_, true) => "a+",
        // Python's `r+`, which psutil names so.
        (_, false) => "r+",
    }
}

/// The terminal it is controlled from.
fn terminal(process: Process) -> io::Result<Value> {
    let wanted = process.stat()?.number(place::TERMINAL);
    if wanted == 0 {
        return Ok(Value::Null);
    }
    let named = |folder: &str, start: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        paths.find_map(|entry| {
            let device = std::fs::metadata(entry.path()).ok()?.rdev();
            (i64::try_from(device).ok()? == wanted).then(|| entry.path().to_string_lossy().into_owned())
        })
    };
    Ok(named("/dev/pts", "").or_else(|| named("/dev", "tty")).into())
}

/// Number and seconds on processors of each thread.
fn threads(process: Process) -> io::Result<Value> {
    let mut ids: Vec<i32> = std::fs::read_dir(process.path("task"))?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable();
    // A thread's folder is found among the processes, too.
    let shown = |id: i32| {
        let times = Process(id).stat().ok()?.times();
        Some(list![id, times[0], times[1]])
    };
    Ok(ids.into_iter().filter_map(shown).collect())
}

/// Returns the processes in a state such as `sleeping` or `zombie`, with number and name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.status STATUS
#[function]
fn status(ctx: &Context, status: String) -> Result<Vec<Map>> {
    if status.is_empty() {
        return Err(Error::invocation("Filter is required for ps.status"));
    }
    let fits = move |process: &Process| process.stat().is_ok_and(|stat| stat.state() == status);
    let named = |process: Process| Some(value::map! { "pid" => process.0, "name" => process.name().ok()? });
    Ok(ctx.blocking(move || Process::all().into_iter().filter(fits).filter_map(named).collect()))
}

/// The seconds since 1970 at which the system was started.
pub(super) fn started() -> Result<i64> {
    let text = read("/proc/stat")?;
    boot_time(&text).ok_or_else(|| Error::execution("the kernel does not tell when it was started"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_known_of_oneself() {
        let own = Process(i32::try_from(std::process::id()).unwrap());
        let found = info(own, &[]).unwrap();
        assert_eq!(found.len(), ATTRIBUTES.len());
        assert_eq!(found.get("pid"), Some(&Value::from(own.0)));
        assert!(found.get("memory_full_info").and_then(Value::as_list).is_some_and(|all| all.len() == 10));
        let parent = i64::from(nix::unistd::getppid().as_raw());
        assert_eq!(found.get("ppid"), Some(&Value::from(parent)));
        let named = info(own, &["name".into(), "status".into()]).unwrap();
        assert_eq!(named.len(), 2);
        assert!(info(own, &["nothing".into()]).unwrap_err().to_string().contains("invalid attr name 'nothing'"));
        assert!(info(Process(0), &[]).unwrap_err().to_string().contains("process PID not found (pid=0)"));
    }

    #[test]
    fn sockets_and_files_are_found_by_their_descriptors() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = Process(i32::try_from(std::process::id()).unwrap());
        let port = i64::from(socket.local_addr().unwrap().port());
        let rows = connections(own).unwrap();
        let row = rows.as_list().unwrap().iter().find(|row| row.as_list().unwrap()[3] == list!["127.0.0.1", port]);
        assert_eq!(row.unwrap().as_list().unwrap()[5], Value::from("LISTEN"));
        let files = open_files(own).unwrap();
        let path = Value::from(file.path().to_str().unwrap());
        let row = files.as_list().unwrap().iter().find(|row| row.as_list().unwrap()[0] == path);
        assert_eq!(row.unwrap().as_list().unwrap()[3], Value::from("r+"));
    }

    #[test]
    fn mappings_of_a_file_are_added_up() {
        let text = "00-10 r-xp 00000000 fe:00 7                          /bin/a b\nSize:  4 kB\nRss:   4 kB\nVmFlags: rd\n\
                    10-20 rw-p 00001000 fe:00 7                          /bin/a b\nSize:  8 kB\nRss:   4 kB\n\
                    20-30 rw-p 00000000 00:00 0 \nSize:  4 kB\nRss:   0 kB\n";
        let rows = mapped(text);
        assert_eq!(rows[0].as_list().unwrap()[..3], [Value::from("/bin/a b"), Value::from(8192), Value::from(12288)]);
        assert_eq!(rows[1].as_list().unwrap()[0], Value::from("[anon]"));
        assert_eq!((numbers("0-2,8"), mode(0o100_002), mode(0o2001)), (vec![0, 1, 2, 8], "r+", "a"));
    }
}
