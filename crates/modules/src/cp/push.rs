//! Files from this machine to the master, which must allow it (`file_recv`).

use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use exec::{Context, Error, Result, function};
use value::{Value, map};

/// Sends a file to the master, which keeps it below its cache directory. ``upload_path`` is its name there.
/// ``remove_source=True`` removes it here afterwards. Returns whether it arrived.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.push /etc/fstab
///     salt '*' cp.push /etc/system-release keep_symlinks=True
///     salt '*' cp.push /etc/fstab upload_path='/new/path/fstab'
#[function]
pub fn push(
    ctx: &Context,
    path: String,
    #[default(false)] keep_symlinks: bool,
    upload_path: Option<String>,
    #[default(false)] remove_source: bool,
) -> Result<Value> {
    let Some(file) = source(&path, keep_symlinks) else { return Ok(false.into()) };
    let name = upload_path.filter(|name| !name.is_empty()).unwrap_or_else(|| file.to_string_lossy().into_owned());
    let Some(parts) = parts(&name) else { return Ok(false.into()) };
    let arrived = send(ctx, &file, parts)?;
    // Only a plain True: any other answer means that the master may not have the file.
    if arrived == Value::Bool(true) && remove_source {
        std::fs::remove_file(&file).map_err(|error| Error::io("remove", &file, &error))?;
    }
    Ok(arrived)
}

/// Returns the file to send; `None` unless the path is absolute and names a file.
fn source(path: &str, keep_symlinks: bool) -> Option<PathBuf> {
    let given = Path::new(path);
    // The master checks this too; here it saves sending a file that would be refused.
    if path.contains("../") || !given.is_absolute() {
        tracing::debug!("{path} is not sent: the path must be absolute");
        return None;
    }
    let file = if keep_symlinks { given.to_owned() } else { given.canonicalize().ok()? };
    file.is_file().then_some(file)
}

/// Splits the name into its parts, which is the form the master expects.
fn parts(name: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    // A list of parts, so that the master need not know the separator of the minion's system.
    for part in Path::new(name.trim_start_matches('/')).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                tracing::debug!("Bad path: {name}");
                return None;
            }
        }
    }
    Some(parts)
}

/// Sends the file in pieces. The first answer that is not True ends the transfer and is returned.
fn send(ctx: &Context, file: &Path, parts: Vec<String>) -> Result<Value> {
    let size = ctx.opt("file_buffer_size").and_then(Value::as_i64).and_then(|size| u64::try_from(size).ok());
    // With a size of 0 the loop would never advance.
    let size = size.filter(|size| *size > 0).unwrap_or(262_144);
    let total = file.metadata().map_err(|error| Error::io("read", file, &error))?.len();
    let mut offset = 0;
    loop {
        let path = file.to_owned();
        let piece = ctx.blocking(move || piece(&path, offset, size));
        let piece = piece.map_err(|error| Error::io("read", file, &error))?;
        // An empty file still sends one piece: without it the master would not create the file.
        if piece.is_empty() && offset > 0 {
            return Ok(true.into());
        }
        let len = piece.len() as u64;
        let load = map! {
            "cmd" => "_file_recv",
            "id" => ctx.id(),
            "path" => parts.clone(),
            "size" => total,
            "loc" => offset,
            "data" => Value::bytes(piece),
        };
        let answer = ctx.wait(ctx.agent.request(load, None))?;
        if !answer.truthy() {
            tracing::error!(
                "cp.push Failed transfer failed. Ensure master has 'file_recv' set to 'True' and that the file is not \
                 larger than the 'file_recv_max_size' setting on the master."
            );
            return Ok(answer);
        }
        if len == 0 {
            return Ok(true.into());
        }
        offset += len;
    }
}

fn piece(path: &Path, offset: u64, size: u64) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut piece = Vec::new();
    file.take(size).read_to_end(&mut piece)?;
    Ok(piece)
}

/// Sends the files below a directory to the master, all or those whose names match a glob.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.push_dir /usr/lib/mysql
///     salt '*' cp.push_dir /etc/modprobe.d/ glob='*.conf' upload_path='/new/path'
#[function]
pub fn push_dir(ctx: &Context, path: String, glob: Option<String>, upload_path: Option<String>) -> Result<Value> {
    if path.contains("../") || !Path::new(&path).is_absolute() {
        return Ok(false.into());
    }
    let Ok(top) = Path::new(&path).canonicalize() else { return Ok(false.into()) };
    if top.is_file() {
        return push(ctx, path, false, upload_path, false);
    }
    let mut files = Vec::new();
    // Files are listed before the first one is sent, so that a file created during the transfer is not sent in part.
    collect(&top, &mut files);
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        glob.as_ref().is_none_or(|glob| targeting::fnmatch(&name, glob))
    });
    if files.is_empty() {
        return Ok(false.into());
    }
    for file in files {
        let below = file.strip_prefix(&top).unwrap_or(&file).to_string_lossy().into_owned();
        let name = upload_path.as_ref().map(|upload| format!("/{}/{below}", upload.trim_matches('/')));
        let sent = push(ctx, file.to_string_lossy().into_owned(), false, name, false)?;
        if !sent.truthy() {
            return Ok(sent);
        }
    }
    Ok(true.into())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.collect();
    // A fixed order makes the log and a broken transfer repeatable.
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type() {
            // `file_type` does not follow links, so a link to a parent directory cannot make an endless walk.
            Ok(kind) if kind.is_dir() => collect(&entry.path(), files),
            Ok(_) => files.push(entry.path()),
            Err(error) => tracing::warn!("failed to look at {}: {error}", entry.path().display()),
        }
    }
}
