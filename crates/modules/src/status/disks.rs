//! Disks and the space on them.

use std::path::Path;

use exec::{Context, Result, VarArgs, function};
use targeting::Glob;
use value::{Map, Value, map};

use super::{kernel_text, number};

/// Returns the disks' reads and writes since the machine started.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' status.diskstats
#[function]
pub(super) fn diskstats() -> Result<Map> {
    Ok(parse_diskstats(&kernel_text("/proc/diskstats")))
}

pub(super) fn parse_diskstats(text: &str) -> Map {
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
pub(super) fn diskusage(ctx: &Context, args: VarArgs) -> Result<Map> {
    let words: Vec<String> = args.0.iter().map(Value::to_string).collect();
    let mounts = kernel_text("/proc/mounts");
    let paths = mount_points(&words, &mounts);
    // A network file system whose server is gone would block.
    Ok(ctx.blocking(move || paths.into_iter().filter_map(|path| Some((path.clone(), usage(&path)?))).collect()))
}

pub(super) fn mount_points(words: &[String], mounts: &str) -> Vec<String> {
    let (mut paths, kinds): (Vec<String>, Vec<String>) = words.iter().cloned().partition(|word| word.starts_with('/'));
    let globs: Vec<Glob> = kinds.iter().map(|kind| Glob::new(kind)).collect();
    if words.is_empty() || !globs.is_empty() {
        for line in mounts.lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (Some(place), Some(kind)) = (fields.next(), fields.next()) else { continue };
            let place = unescaped(place);
            // Words that begin with a slash are paths, all others kinds of file systems.
            if (globs.is_empty() || globs.iter().any(|glob| glob.matches(kind))) && !paths.contains(&place) {
                paths.push(place);
            }
        }
    }
    paths
}

/// Decodes a path from the kernel, which writes white space and backslashes as octal numbers.
pub(super) fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

pub(super) fn usage(path: &str) -> Option<Map> {
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
