//! `disk` — file systems, how full they are, and the devices they lie on.

mod devices;

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

use crate::cmd;

/// The module.
pub static MODULE: Module = Module::new(
    "disk",
    "Functions that look at file systems and block devices, and change these.",
    &[
        &BLKID,
        &devices::DUMP,
        &devices::FORMAT,
        &FSTYPE,
        &INODEUSAGE,
        &PERCENT,
        &devices::RESIZE2FS,
        &devices::TUNE,
        &USAGE,
        &devices::WIPE,
    ],
);

/// Letters that may be handed to `df`.
const FLAGS: &str = "aBhHiklPtTxv";

fn flags(args: &Value, caller: &str) -> Result<Option<String>> {
    let letters = match args {
        Value::Null => return Ok(None),
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        other => other.to_string(),
    };
    if letters.chars().any(|letter| !FLAGS.contains(letter)) {
        return Err(Error::execution(format!("Invalid flag passed to {caller}")));
    }
    Ok(Some(format!("-{letters}")).filter(|flags| flags.len() > 1))
}

async fn df(ctx: &Context, format: &str, flags: Option<&str>) -> Result<String> {
    let mut words = vec!["df", format];
    words.extend(flags);
    Ok(cmd::quiet(ctx, &words).await?.stdout)
}

/// Reads lines of `df`: the name of the file system may hold blanks, the second field is a number.
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
    let number = |word: &str| word == "-" || word.chars().all(|c| c.is_ascii_digit());
    let first = (1..words.len()).find(|place| number(words[*place].1))?;
    let (place, mount) = (words.get(first)?.0, words.get(first + 4)?.0);
    let field = |offset: usize| words.get(first + offset).map(|(_, word)| *word);
    Some([line[..place].trim_end(), field(0)?, field(1)?, field(2)?, field(3)?, line[mount..].trim_end()])
}

/// Returns what `blkid` knows of block devices: of all, of one, or of those with a token such as ``TYPE=ext4``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.blkid
///     salt '*' disk.blkid /dev/sda
#[function]
async fn blkid(ctx: &Context, device: Option<String>, token: Option<String>) -> Result<Map> {
    let mut words = vec!["blkid"];
    match (device.as_deref(), token.as_deref()) {
        (Some(device), _) => words.push(device),
        (None, Some(token)) => words.extend(["-t", token]),
        (None, None) => {}
    }
    let said = cmd::quiet(ctx, &words).await?;
    Ok(if said.retcode == Some(0) { block_devices(&said.stdout) } else { Map::new() })
}

/// Reads lines such as `/dev/vda: UUID="…" TYPE="ext4"`.
fn block_devices(text: &str) -> Map {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(device, rest)| {
            let mut info = Map::new();
            let mut parts = rest.split('"');
            while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                info.insert(name.trim_matches([' ', '=']), value);
            }
            (device, info)
        })
        .collect()
}

/// Returns the kind of the file system on a device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.fstype /dev/sdX1
#[function]
async fn fstype(ctx: &Context, device: String) -> Result<String> {
    if crate::util::which("lsblk").is_some() {
        let said = cmd::quiet(ctx, &["lsblk", "-o", "fstype", &device]).await?.stdout;
        if let Some(kind) = said.lines().nth(1).map(str::trim).filter(|kind| !kind.is_empty()) {
            return Ok(kind.to_owned());
        }
    }
    let said = cmd::quiet(ctx, &["df", "-T", &device]).await?.stdout;
    Ok(said.lines().nth(1).unwrap_or_default().to_owned())
}

/// Returns how many files each file system has and can have.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.inodeusage
#[function]
async fn inodeusage(ctx: &Context, #[default(Value::Null)] args: Value) -> Result<Map> {
    let flags = flags(&args, "disk.inodeusage")?;
    let text = df(ctx, "-iP", flags.as_deref()).await?;
    let shown = |[filesystem, inodes, used, free, share, mount]: [&str; 6]| {
        let row =
            map! { "inodes" => inodes, "used" => used, "free" => free, "use" => share, "filesystem" => filesystem };
        (mount.to_owned(), row)
    };
    Ok(rows(&text).into_iter().map(shown).collect())
}

/// Returns how full each file system is, or one named by where it is mounted.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.percent /var
#[function]
async fn percent(ctx: &Context, args: Option<String>) -> Result<Value> {
    let text = df(ctx, "-P", None).await?;
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
async fn usage(ctx: &Context, #[default(Value::Null)] args: Value) -> Result<Map> {
    let flags = flags(&args, "disk.usage")?;
    let text = df(ctx, "-P", flags.as_deref()).await?;
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
        assert_eq!(found[1], ["map auto home", "0", "0", "0", "100%", "/mnt/a b"]);
        assert_eq!(found[2][5], "/x");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn only_known_flags_pass() {
        assert_eq!(flags(&"hT".into(), "disk.usage").unwrap().as_deref(), Some("-hT"));
        assert_eq!(flags(&Value::Null, "disk.usage").unwrap(), None);
        assert_eq!(flags(&"; rm".into(), "disk.usage").unwrap_err().to_string(), "Invalid flag passed to disk.usage");
    }

    #[test]
    fn block_devices_are_read() {
        let text = "/dev/vda: LABEL=\"a b\" UUID=\"1-2\" TYPE=\"ext4\"\n";
        let expected = map! { "/dev/vda" => map! { "LABEL" => "a b", "UUID" => "1-2", "TYPE" => "ext4" } };
        assert_eq!(block_devices(text), expected);
    }
}
