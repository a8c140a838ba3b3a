//! Settings of block devices, and making file systems on them.

use exec::{Call, Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::util;

/// The facts that `dump` queries, in the order `blockdev` prints them.
const FACTS: [&str; 12] = [
    "getro",
    "getsz",
    "getss",
    "getpbsz",
    "getiomin",
    "getioopt",
    "getalignoff",
    "getmaxsect",
    "getsize",
    "getsize64",
    "getra",
    "getfra",
];

/// Runs a command without a shell, and returns the result of `cmd.run_all`.
fn run(ctx: &Context, line: String) -> Result<Map> {
    let call = Call { args: vec![line.into()], kwargs: map! { "python_shell" => false } };
    Ok(ctx.call_with("cmd.run_all", call)?.into_map().unwrap_or_default())
}

fn failed(said: &Map) -> bool {
    said.get("retcode").is_some_and(Value::truthy)
}

fn text(said: &Map, name: &str) -> String {
    said.get(name).map(Value::to_string).unwrap_or_default()
}

/// Returns the wanted facts, or False when there is no such device.
fn facts(ctx: &Context, device: &str, wanted: &[String]) -> Result<Value> {
    // One call for all: `blockdev` prints a line for each option, in the order of the options.
    let options = FACTS.map(|fact| format!("--{fact}")).join(" ");
    let said = run(ctx, format!("blockdev {options} {device}"))?;
    if failed(&said) {
        return Ok(false.into());
    }
    let stdout = text(&said, "stdout");
    let found: Map = FACTS.into_iter().zip(stdout.lines().filter(|line| !line.is_empty())).collect();
    if wanted.is_empty() {
        return Ok(found.into());
    }
    let unknown = |name: &str| Error::execution(format!("blockdev does not tell '{name}' of {device}"));
    let picked = wanted.iter().map(|name| Ok((name.as_str(), found.get(name).cloned().ok_or_else(|| unknown(name))?)));
    Ok(picked.collect::<Result<Map>>()?.into())
}

/// Returns the facts of ``blockdev`` about a device, all or some of them; False if there are none.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.dump /dev/sda1
#[function]
fn dump(ctx: &Context, device: String, #[default(Value::Null)] args: Value) -> Result<Value> {
    let wanted: Vec<String> = match args {
        Value::List(names) => names.iter().map(Value::to_string).collect(),
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    };
    facts(ctx, &device, &wanted)
}

/// Changes settings of a device and returns them: ``read-ahead``, ``filesystem-read-ahead``, ``read-only`` and
/// ``read-write``; the last two can only be True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.tune /dev/sda1 read-ahead=1024 read-write=True
#[function]
fn tune(ctx: &Context, device: String, kwargs: KwArgs) -> Result<Value> {
    let (mut options, mut wanted, mut invalid) = (String::new(), Vec::new(), Vec::new());
    for (name, value) in &kwargs.given() {
        let yes = *value == Value::Bool(true) || value.as_str() == Some("True");
        let (option, fact) = match name.as_str() {
            Some("read-ahead") => (format!("--setra {value} "), "getra"),
            Some("filesystem-read-ahead") => (format!("--setfra {value} "), "getfra"),
            // A false value is reported as invalid, as in Salt: `read-only=False` does not mean `read-write`.
            Some("read-only") if yes => ("--setro ".to_owned(), "getro"),
            Some("read-write") if yes => ("--setrw ".to_owned(), "getro"),
            _ => {
                invalid.push(format!("{name}={value}"));
                continue;
            }
        };
        options.push_str(&option);
        wanted.push(fact.to_owned());
    }
    if !invalid.is_empty() {
        return Err(Error::invocation(format!("Invalid keyword arguments: {}", invalid.join(", "))));
    }
    let said = run(ctx, format!("blockdev {options}{device}"))?;
    if failed(&said) {
        return Err(Error::execution(text(&said, "stderr")));
    }
    facts(ctx, &device, &wanted)
}

/// Wipes the signatures of file systems from a device; returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.wipe /dev/sda1
#[function]
fn wipe(ctx: &Context, device: String) -> Result<bool> {
    let said = run(ctx, format!("wipefs -a {device}"))?;
    if failed(&said) {
        tracing::error!("Error wiping device {device}: {}", text(&said, "stderr"));
    }
    Ok(!failed(&said))
}

/// Grows a file system of the ext family to fill its device; True when it worked, None when not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.resize2fs /dev/sda1
#[function]
fn resize2fs(ctx: &Context, device: String) -> Result<Option<bool>> {
    let said = run(ctx, format!("resize2fs {device}"))?;
    Ok((!failed(&said)).then_some(true))
}

fn worked(ctx: &Context, command: Value) -> Result<bool> {
    let call = Call { args: vec![command], kwargs: map! { "ignore_retcode" => true } };
    Ok(!ctx.call_with("cmd.retcode", call)?.truthy())
}

/// Makes a file system on a device; returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' disk.format /dev/sdX1
#[function]
fn format(
    ctx: &Context,
    device: String,
    #[default("ext4")] fs_type: String,
    #[default(Value::Null)] inode_size: Value,
    #[default(Value::Null)] lazy_itable_init: Value,
    #[default(Value::Null)] fat: Value,
    #[default(false)] force: bool,
) -> Result<bool> {
    for program in ["mkfs", "sync"] {
        util::needs(ctx, program)?;
    }
    let (ext, xfs) = (fs_type.starts_with("ext"), fs_type == "xfs");
    let mut words: Vec<Value> = vec!["mkfs".into(), "-t".into(), fs_type.as_str().into()];
    if !inode_size.is_null() && (ext || xfs) {
        let size = if ext { inode_size.to_string() } else { format!("size={inode_size}") };
        words.extend(["-i".into(), size.into()]);
    }
    if !lazy_itable_init.is_null() && ext {
        words.extend(["-E".into(), format!("lazy_itable_init={lazy_itable_init}").into()]);
    }
    // mkfs.fat accepts no other sizes.
    if matches!(fat.as_i64(), Some(12 | 16 | 32)) && fs_type.ends_with("fat") {
        words.extend(["-F".into(), fat]);
    }
    if force && (ext || xfs) {
        // The two families of tools use different letters for the same thing.
        words.push(if ext { "-F" } else { "-f" }.into());
    }
    words.push(device.into());
    let made = worked(ctx, words.into())?;
    // A file system that is still in the page cache would not survive a reset.
    let flushed = worked(ctx, "sync".into())?;
    Ok(made && flushed)
}
