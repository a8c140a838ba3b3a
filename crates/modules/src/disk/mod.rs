//! `disk` — file systems, their usage, and their devices.

mod devices;
mod hdparm;
mod iostat;
mod smart;

use exec::{Call, Context, Error, Module, Result, function};
use value::{BigInt, Map, Value, map};

use crate::util;

/// Registers the functions of `disk`.
pub static MODULE: Module = Module::new(
    "disk",
    "Functions that look at file systems and block devices, and change these.",
    &[
        &BLKID,
        &devices::DUMP,
        &devices::FORMAT,
        &FSTYPE,
        &GET_FSTYPE_FROM_PATH,
        &hdparm::HDPARMS,
        &hdparm::HPA,
        &INODEUSAGE,
        &iostat::IOSTAT,
        &PERCENT,
        &devices::RESIZE2FS,
        &smart::SMART_ATTRIBUTES,
        &devices::TUNE,
        &USAGE,
        &devices::WIPE,
    ],
);

/// The flags of `df` that a caller may use.
const FLAGS: &str = "aBhHiklPtTxv";

/// Reads a whole number.
fn integer(text: &str) -> Option<Value> {
    text.trim().parse::<BigInt>().ok().map(Value::from)
}

fn flags(args: &Value, caller: &str) -> Result<Option<String>> {
    let letters = match args {
        Value::Null => return Ok(None),
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        other => other.to_string(),
    };
    if letters.chars().any(|letter| !FLAGS.contains(letter)) {
        return Err(Error::execution(format!("Invalid flag passed to {caller}")));
    }
    // An empty list of flags would leave a lone dash, which `df` takes for a file.
    Ok(Some(format!("-{letters}")).filter(|flags| flags.len() > 1))
}

fn df(ctx: &Context, format: &str, flags: Option<&str>) -> Result<String> {
    let line: Vec<&str> = ["df", format].into_iter().chain(flags).collect();
    let call = Call { args: vec![line.join(" ").into()], kwargs: map! { "python_shell" => false } };
    Ok(ctx.call_with("cmd.run", call)?.to_string())
}

/// Reads the output of `df`. Names of file systems may hold blanks; the second field is a number.
fn rows(text: &str) -> Vec<[&str; 6]> {
    text.lines().filter(|line| !line.starts_with("Filesystem")).filter_map(row).collect()
}

fn row(line: &str) -> Option<[&str; 6]> {
    let mut end = 0;
    let words: Vec<(usize, &str)> = line
        .split_whitespace()
        .map(|word| {
            let start = end + line[end..].find(word).unwrap_or(0);
            end = start + word.len();
            (start, word)
        })
        .collect();
    // File systems without a size, such as those of containers, have a dash there.
    let number = |word: &str| word == "-" || word.chars().all(|c| c.is_ascii_digit());
    // The name of a share may hold blanks, so the first number shows where it ends.
    let first = (1..words.len()).find(|place| number(words[*place].1))?;
    let (place, mount) = (words.get(first)?.0, words.get(first + 4)?.0);
    let field = |offset: usize| words.get(first + offset).map(|(_, word)| *word);
    Some([line[..place].trim_end(), field(0)?, field(1)?, field(2)?, field(3)?, line[mount..].trim_end()])
}

/// Returns the attributes that `blkid` prints of block devices: of all, of one, or of those with a token such as
/// ``TYPE=ext4``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.blkid
///     salt '*' disk.blkid /dev/sda
#[function]
fn blkid(ctx: &Context, device: Option<String>, token: Option<String>) -> Result<Map> {
    util::needs(ctx, "blkid")?;
    let mut words = vec!["blkid".to_owned()];
    match (device.filter(|name| !name.is_empty()), token.filter(|token| !token.is_empty())) {
        (Some(device), _) => words.push(device),
        (None, Some(token)) => words.extend(["-t".to_owned(), token]),
        (None, None) => {}
    }
    let call = Call { args: vec![words.into()], kwargs: map! { "python_shell" => false } };
    let said = ctx.call_with("cmd.run_all", call)?.into_map().unwrap_or_default();
    if said.get("retcode").is_some_and(Value::truthy) {
        return Ok(Map::new());
    }
    Ok(block_devices(said.get_str("stdout").unwrap_or_default()))
}

/// Reads lines such as `/dev/vda: UUID="…" TYPE="ext4"`.
fn block_devices(text: &str) -> Map {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(device, rest)| {
            let mut info = Map::new();
            // Values are quoted and may hold blanks, so the line is cut at the quotes.
            let mut parts = rest.split('"');
            while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                info.insert(name.trim_matches([' ', '=']), value);
            }
            (device, info)
        })
        .collect()
}

/// Returns the type of the file system on a device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.fstype /dev/sdX1
#[function]
fn fstype(ctx: &Context, device: String) -> Result<String> {
    kind_of_file_system(ctx, &device)
}

/// Asks `lsblk` for the file system on a device, then `df` for the line of its mount; empty when neither knows it.
fn kind_of_file_system(ctx: &Context, device: &str) -> Result<String> {
    let tools = [("lsblk", "-o fstype"), ("df", "-T")].map(|tool| util::program(ctx, tool.0).map(|_| tool));
    if tools == [None; 2] {
        let text = "None of provided binaries([\"'lsblk'\", \"'df'\"]) were found in $PATH.";
        return Err(Error::CommandNotFound(text.into()));
    }
    for (program, option) in tools.into_iter().flatten() {
        let line = format!("{program} {option} {device}");
        let said = ctx.call_with("cmd.run", Call { args: vec![line.into()], ..Call::default() })?.to_string();
        let second = said.lines().nth(1).unwrap_or_default();
        // `lsblk` prints the type alone; from `df` Salt takes the whole line, and so does this.
        let kind = if program == "lsblk" { second.trim() } else { second };
        if !kind.is_empty() {
            return Ok(kind.to_owned());
        }
    }
    Ok(String::new())
}

/// Returns the type of the file system that holds a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.get_fstype_from_path /root
#[function]
fn get_fstype_from_path(ctx: &Context, path: String) -> Result<String> {
    let call = Call { args: vec![path.into()], ..Call::default() };
    let device = ctx.call_with("mount.get_device_from_path", call)?;
    kind_of_file_system(ctx, &device.to_string())
}

/// Returns the inode usage of each file system.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.inodeusage
#[function]
fn inodeusage(ctx: &Context, #[default(Value::Null)] args: Value) -> Result<Map> {
    let flags = flags(&args, "disk.inodeusage")?;
    let text = df(ctx, "-iP", flags.as_deref())?;
    let shown = |[filesystem, inodes, used, free, share, mount]: [&str; 6]| {
        let row =
            map! { "inodes" => inodes, "used" => used, "free" => free, "use" => share, "filesystem" => filesystem };
        (mount.to_owned(), row)
    };
    Ok(rows(&text).into_iter().map(shown).collect())
}

/// Returns the usage of each file system, or of the one at a mount point, in percent.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.percent /var
#[function]
fn percent(ctx: &Context, args: Option<String>) -> Result<Value> {
    let text = df(ctx, "-P", None)?;
    let mut found: Map = rows(&text).into_iter().map(|row| (row[5], row[4])).collect();
    match args.filter(|mount| !mount.is_empty()) {
        None => Ok(Value::Map(found)),
        Some(mount) => Ok(found.remove(&mount).unwrap_or_else(|| {
            tracing::error!("Problem parsing disk usage information: Partition '{mount}' does not exist!");
            Value::Map(Map::new())
        })),
    }
}

/// Returns the size of each file system and how much is used and free.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.usage
#[function]
fn usage(ctx: &Context, #[default(Value::Null)] args: Value) -> Result<Map> {
    let flags = flags(&args, "disk.usage")?;
    let text = df(ctx, "-P", flags.as_deref())?;
    let shown = |[filesystem, blocks, used, available, capacity, mount]: [&str; 6]| {
        let row = map! {
            "filesystem" => filesystem, "1K-blocks" => blocks, "used" => used, "available" => available,
            "capacity" => capacity,
        };
        (mount.to_owned(), row)
    };
    Ok(rows(&text).into_iter().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_df_are_read() {
        let text = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                    /dev/vda         263113760 18000000 231000000       8% /\n\
                    map auto home            0        0         0     100% /mnt/a b\n\
                    none - - - - /x\nbroken\n";
        let found = rows(text);
        assert_eq!(found[0], ["/dev/vda", "263113760", "18000000", "231000000", "8%", "/"]);
        // A device of macOS: both the first and the last column may hold blanks.
        assert_eq!(found[1], ["map auto home", "0", "0", "0", "100%", "/mnt/a b"]);
        assert_eq!(found[2][5], "/x");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn only_known_flags_pass() {
        assert_eq!(flags(&"hT".into(), "disk.usage").unwrap().as_deref(), Some("-hT"));
        assert_eq!(flags(&Value::Null, "disk.usage").unwrap(), None);
        // The flags become part of a command line.
        assert_eq!(flags(&"; rm".into(), "disk.usage").unwrap_err().to_string(), "Invalid flag passed to disk.usage");
    }

    #[test]
    fn block_devices_are_read() {
        let text = "/dev/vda: LABEL=\"a b\" UUID=\"1-2\" TYPE=\"ext4\"\n";
        let expected = map! { "/dev/vda" => map! { "LABEL" => "a b", "UUID" => "1-2", "TYPE" => "ext4" } };
        assert_eq!(block_devices(text), expected);
    }
}
