//! Information about files: type, owner, size.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use exec::{Context, Error, Result, function};
use nix::unistd::{AccessFlags, Gid, Group, Uid, User};
use value::{Map, Value, list, map};

use super::hash;
use super::paths::{absolute, expand_user, glob, real, split};
use super::{must_be_absolute, os_error};

/// Returns the name of a user, or the number where there is none.
pub fn user_name(uid: u32) -> Value {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    // Salt shows the number of a user that was deleted.
    user.map_or_else(|| Value::from(uid), |user| Value::from(user.name))
}

/// Returns the name of a group, or the number where there is none.
pub fn group_name(gid: u32) -> Value {
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    group.map_or_else(|| Value::from(gid), |group| Value::from(group.name))
}

/// Returns the permissions as four octal digits, as Salt shows them.
pub fn mode_text(mode: u32) -> String {
    format!("{:0>4}", format!("{:o}", mode & 0o7777))
}

fn seconds(whole: i64, nanos: i64) -> f64 {
    // Python computes the float in the same way, so both give the same digits.
    whole as f64 + nanos as f64 * 1e-9
}

fn kind(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => "dir",
        () if kind.is_char_device() => "char",
        () if kind.is_block_device() => "block",
        () if kind.is_symlink() => "link",
        () if kind.is_fifo() => "pipe",
        () if kind.is_socket() => "socket",
        () => "file",
    }
}

/// Returns what `file.stats` returns.
pub fn of(path: &str, hash_type: Option<&str>, follow: bool) -> Result<Map> {
    let path = expand_user(path);
    let followed = if follow { fs::metadata(&path).ok() } else { None };
    let meta = match followed {
        Some(meta) => meta,
        // A link that leads nowhere is shown itself.
        None => fs::symlink_metadata(&path).map_err(|_| Error::execution(format!("Path not found: {path}")))?,
    };
    let mut found = map! {
        "inode" => meta.ino(),
        "uid" => meta.uid(),
        "gid" => meta.gid(),
        "group" => group_name(meta.gid()),
        "user" => user_name(meta.uid()),
        "atime" => seconds(meta.atime(), meta.atime_nsec()),
        "mtime" => seconds(meta.mtime(), meta.mtime_nsec()),
        "ctime" => seconds(meta.ctime(), meta.ctime_nsec()),
        "size" => meta.size(),
        "mode" => mode_text(meta.mode()),
    };
    if let Some(form) = hash_type.filter(|form| !form.is_empty()) {
        found.insert("sum", hash::of_file(&path, form)?);
    }
    found.insert("type", kind(&meta));
    // Salt sets it for every file, not only for links.
    found.insert("target", if follow { real(&path) } else { absolute(&path) });
    Ok(found)
}

/// Returns one entry of `file.stats`, or `missing`.
fn one(ctx: &Context, path: String, follow: bool, key: &'static str, missing: Value) -> Result<Value> {
    let found = ctx.blocking(move || of(&path, None, follow))?;
    Ok(found.get(key).cloned().unwrap_or(missing))
}

/// Returns whether this process may use a path: `f` that it exists, `r` read, `w` write, `x` run it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.access /etc/shadow r
#[function]
pub fn access(ctx: &Context, path: String, mode: String) -> Result<bool> {
    let path = expand_user(&path);
    must_be_absolute(&path, "Path to link must be absolute.")?;
    let flags = match mode.as_str() {
        "f" | "0" => AccessFlags::F_OK,
        "r" | "4" => AccessFlags::R_OK,
        "w" | "2" => AccessFlags::W_OK,
        "x" | "1" => AccessFlags::X_OK,
        _ => return Err(Error::invocation("Invalid mode specified.")),
    };
    Ok(ctx.blocking(move || nix::unistd::access(path.as_str(), flags).is_ok()))
}

/// Returns whether there is a directory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.directory_exists /etc
#[function]
pub fn directory_exists(ctx: &Context, path: String) -> Result<bool> {
    Ok(ctx.blocking(move || Path::new(&expand_user(&path)).is_dir()))
}

/// Returns the number of bytes of all files below a path; a file with several names counts once.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.diskusage /var/log
#[function]
pub fn diskusage(ctx: &Context, path: String) -> Result<u64> {
    Ok(ctx.blocking(move || {
        let start = Path::new(&path);
        match fs::metadata(start) {
            Ok(meta) if meta.is_file() => meta.size(),
            _ => sum_below(start, &mut HashSet::new()),
        }
    }))
}

fn sum_below(directory: &Path, seen: &mut HashSet<u64>) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let mut total = 0;
    for path in entries.flatten().map(|entry| entry.path()) {
        // A link to a directory is not entered, as in `os.walk`; a link to a file counts with its target.
        let is_link = path.is_symlink();
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() && !is_link => total += sum_below(&path, seen),
            // A file with several hard links takes its space once.
            Ok(meta) if !meta.is_dir() && seen.insert(meta.ino()) => total += meta.size(),
            _ => {}
        }
    }
    total
}

/// Returns whether there is a file (a directory is none).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.file_exists /etc/passwd
#[function]
pub fn file_exists(ctx: &Context, path: String) -> Result<bool> {
    Ok(ctx.blocking(move || Path::new(&expand_user(&path)).is_file()))
}

/// Returns the major and minor number of a device; zeros for anything else.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_devmm /dev/null
#[function]
pub fn get_devmm(ctx: &Context, name: String) -> Result<Value> {
    let found = look(ctx, name)?;
    let device = found.filter(|meta| meta.file_type().is_char_device() || meta.file_type().is_block_device());
    let (major, minor) =
        device.map_or((0, 0), |meta| (nix::sys::stat::major(meta.rdev()), nix::sys::stat::minor(meta.rdev())));
    Ok(list![major, minor])
}

/// Returns the number of the group of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_gid /etc/passwd
#[function]
pub fn get_gid(ctx: &Context, path: String, #[default(true)] follow_symlinks: bool) -> Result<Value> {
    one(ctx, path, follow_symlinks, "gid", Value::Int(-1))
}

/// Returns the group of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_group /etc/passwd
#[function]
pub fn get_group(ctx: &Context, path: String, #[default(true)] follow_symlinks: bool) -> Result<Value> {
    one(ctx, path, follow_symlinks, "group", Value::Bool(false))
}

/// Returns the permissions of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_mode /etc/passwd
#[function]
pub fn get_mode(ctx: &Context, path: String, #[default(true)] follow_symlinks: bool) -> Result<Value> {
    one(ctx, path, follow_symlinks, "mode", Value::from(""))
}

/// Returns the number of the owner of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_uid /etc/passwd
#[function]
pub fn get_uid(ctx: &Context, path: String, #[default(true)] follow_symlinks: bool) -> Result<Value> {
    one(ctx, path, follow_symlinks, "uid", Value::Int(-1))
}

/// Returns the owner of a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.get_user /etc/passwd
#[function]
pub fn get_user(ctx: &Context, path: String, #[default(true)] follow_symlinks: bool) -> Result<Value> {
    one(ctx, path, follow_symlinks, "user", Value::Bool(false))
}

/// Returns the metadata of a path, with links followed; `None` when it does not exist.
fn look(ctx: &Context, name: String) -> Result<Option<Metadata>> {
    let path = expand_user(&name);
    let found = ctx.blocking(move || fs::metadata(&path).map_err(|error| (error, path)));
    match found {
        Ok(meta) => Ok(Some(meta)),
        Err((error, _)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err((error, path)) => Err(os_error(&error, &path)),
    }
}

/// Returns whether a path is a block device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.is_blkdev /dev/sda
#[function]
pub fn is_blkdev(ctx: &Context, name: String) -> Result<bool> {
    Ok(look(ctx, name)?.is_some_and(|meta| meta.file_type().is_block_device()))
}

/// Returns whether a path is a character device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.is_chrdev /dev/null
#[function]
pub fn is_chrdev(ctx: &Context, name: String) -> Result<bool> {
    Ok(look(ctx, name)?.is_some_and(|meta| meta.file_type().is_char_device()))
}

/// Returns whether a path is a named pipe.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.is_fifo /run/initctl
#[function]
pub fn is_fifo(ctx: &Context, name: String) -> Result<bool> {
    Ok(look(ctx, name)?.is_some_and(|meta| meta.file_type().is_fifo()))
}

/// Returns whether a file has more than one name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.is_hardlink /usr/bin/perl
#[function]
pub fn is_hardlink(ctx: &Context, path: String) -> Result<Value> {
    let found = lstat(ctx, path)?;
    // Python's `and`: for nothing the empty answer itself.
    Ok(found.get("st_nlink").map_or(Value::Map(Map::new()), |links| Value::Bool(links.as_i64() > Some(1))))
}

/// Returns whether a path is a symbolic link. With ``nostat`` only the directory is read.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.is_link /usr/bin/python3
#[function]
pub fn is_link(ctx: &Context, path: String, #[default(false)] nostat: bool) -> Result<bool> {
    ctx.blocking(move || {
        if !nostat {
            return Ok(Path::new(&expand_user(&path)).is_symlink());
        }
        let directory = split(&path).0;
        let entries = fs::read_dir(directory).map_err(|error| os_error(&error, directory))?;
        let found = entries.flatten().find(|entry| entry.path() == Path::new(&path));
        Ok(found.is_some_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())))
    })
}

/// Returns the raw stat of a path without following links; nothing if the path does not exist.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.lstat /etc/passwd
#[function]
pub fn lstat(ctx: &Context, path: String) -> Result<Map> {
    let path = expand_user(&path);
    must_be_absolute(&path, "Path to file must be absolute.")?;
    // Salt swallows the error: callers test whether the map is empty.
    let Ok(meta) = ctx.blocking(move || fs::symlink_metadata(path)) else { return Ok(Map::new()) };
    Ok(map! {
        "st_atime" => seconds(meta.atime(), meta.atime_nsec()),
        "st_ctime" => seconds(meta.ctime(), meta.ctime_nsec()),
        "st_gid" => meta.gid(),
        "st_mode" => meta.mode(),
        "st_mtime" => seconds(meta.mtime(), meta.mtime_nsec()),
        "st_nlink" => meta.nlink(),
        "st_size" => meta.size(),
        "st_uid" => meta.uid(),
    })
}

/// Returns which processes hold which files open, by file or, with ``by_pid``, by process.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.open_files
///     salt '*' file.open_files by_pid=True
#[function]
pub fn open_files(ctx: &Context, #[default(false)] by_pid: bool) -> Result<Map> {
    let held = ctx.blocking(held_files);
    if by_pid {
        return Ok(held.into_iter().map(|(pid, files)| (pid, files.into_iter().collect::<Vec<_>>())).collect());
    }
    let mut files: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (pid, names) in held {
        names.into_iter().for_each(|name| files.entry(name).or_default().push(pid));
    }
    Ok(files.into_iter().collect())
}

fn held_files() -> BTreeMap<i64, BTreeSet<String>> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    pids.map(|pid| (pid, files_of(pid))).collect()
}

fn files_of(pid: i64) -> BTreeSet<String> {
    let links_in =
        |directory: String| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut links: Vec<_> = links_in(format!("/proc/{pid}/fd")).collect();
    // Threads share the descriptors, but Salt lists them all, and the program with them.
    for task in links_in(format!("/proc/{pid}/task")) {
        links.push(task.join("exe"));
        links.extend(links_in(format!("{}/fd", task.display())));
    }
    // Sockets and pipes have no path that exists.
    let paths = links.iter().filter_map(|link| fs::canonicalize(link).ok());
    paths.map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Returns whether a shell pattern matches any path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.path_exists_glob '/etc/pam*/pass*'
#[function]
pub fn path_exists_glob(ctx: &Context, path: String) -> Result<bool> {
    Ok(ctx.blocking(move || !glob(&expand_user(&path)).is_empty()))
}

/// Returns the names in a directory, `.` and `..` included.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.readdir /etc
#[function]
pub fn readdir(ctx: &Context, path: String) -> Result<Value> {
    let path = expand_user(&path);
    must_be_absolute(&path, "Dir path must be absolute.")?;
    ctx.blocking(move || {
        if !Path::new(&path).is_dir() {
            return Err(Error::invocation(format!("A valid directory was not specified: {path}")));
        }
        let entries = fs::read_dir(&path).map_err(|error| os_error(&error, &path))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        // The function follows readdir(3), which lists both.
        Ok([".".to_owned(), "..".to_owned()].into_iter().chain(names).collect())
    })
}

/// Returns owner, permissions, size, times and kind of a path, and its checksum if a ``hash_type`` is given.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.stats /etc/passwd
///     salt '*' file.stats /etc/passwd hash_type=sha256
#[function]
pub fn stats(
    ctx: &Context,
    path: String,
    hash_type: Option<String>,
    #[default(true)] follow_symlinks: bool,
) -> Result<Map> {
    ctx.blocking(move || of(&path, hash_type.as_deref(), follow_symlinks))
}

/// Returns information about the file system that holds a path.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.statvfs /var
#[function]
pub fn statvfs(ctx: &Context, path: String) -> Result<Map> {
    let path = expand_user(&path);
    must_be_absolute(&path, "File path must be absolute.")?;
    let given = path.clone();
    let found = ctx.blocking(move || nix::sys::statvfs::statvfs(path.as_str()));
    let found = found.map_err(|_| Error::execution(format!("Could not statvfs '{given}'")))?;
    Ok(map! {
        "f_bavail" => found.blocks_available(),
        "f_bfree" => found.blocks_free(),
        "f_blocks" => found.blocks(),
        "f_bsize" => found.block_size(),
        "f_favail" => found.files_available(),
        "f_ffree" => found.files_free(),
        "f_files" => found.files(),
        "f_flag" => found.flags().bits(),
        "f_frsize" => found.fragment_size(),
        "f_namemax" => found.name_max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn facts_of_files_directories_and_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "hello").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
        let text = path.to_str().unwrap();
        let found = of(text, Some("md5"), true).unwrap();
        assert_eq!(found.get_str("mode"), Some("4640"));
        assert_eq!(found.get_str("type"), Some("file"));
        assert_eq!(found.get("size"), Some(&Value::Int(5)));
        assert_eq!(found.get_str("sum"), Some("5d41402abc4b2a76b9719d911017c592"));
        let link = folder.path().join("l");
        symlink("nowhere", &link).unwrap();
        assert_eq!(of(link.to_str().unwrap(), None, true).unwrap().get_str("type"), Some("link"));
        let missing = of("/no/such/file", None, true).unwrap_err().to_string();
        assert_eq!(missing, "Path not found: /no/such/file");
    }

    #[test]
    fn usage_counts_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/a"), "12345").unwrap();
        fs::hard_link(folder.path().join("d/a"), folder.path().join("b")).unwrap();
        fs::write(folder.path().join("c"), "1").unwrap();
        assert_eq!(sum_below(folder.path(), &mut HashSet::new()), 6);
    }

    #[test]
    fn permissions_are_four_digits() {
        assert_eq!(mode_text(0o100644), "0644");
        assert_eq!(mode_text(0o41777), "1777");
        assert_eq!(mode_text(0), "0000");
    }
}
