//! Making, moving, copying and removing files, links and directories.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink as raw_symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use exec::{Context, Error, KwArgs, Result, function};
use nix::sys::stat::{Mode, SFlag, makedev, mknod as raw_mknod};
use value::{Map, Value, list, map};

use super::facts::{group_name, user_name};
use super::owners::{self, mode_of};
use super::paths::{expand_user, expand_vars, normalize, real, split};
use super::{must_be_absolute, os_error, python_text};

/// Copies a file, or with ``recurse`` a directory, with owner and permissions. ``remove_existing`` replaces the target
/// directory instead of copying into it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.copy /path/to/src /path/to/dst
///     salt '*' file.copy /path/to/src_dir /path/to/dst_dir recurse=True
#[function]
pub fn copy(
    ctx: &Context,
    src: String,
    dst: String,
    #[default(false)] recurse: bool,
    #[default(false)] remove_existing: bool,
) -> Result<bool> {
    let (src, dst) = (expand_user(&src), expand_user(&dst));
    must_be_absolute(&src, "File path must be absolute.")?;
    ctx.blocking(move || copied(&src, &dst, recurse, remove_existing))
}

pub(super) fn copied(src: &str, dst: &str, recurse: bool, remove_existing: bool) -> Result<bool> {
    let meta = fs::metadata(src).map_err(|_| Error::execution(format!("No such file or directory '{src}'")))?;
    // A directory on either side needs `recurse`, as in Salt.
    let directory = meta.is_dir() || Path::new(dst).is_dir();
    if directory && !recurse {
        return Err(Error::invocation("Cannot copy overwriting a directory without recurse flag set to true!"));
    }
    let done = match directory {
        true if remove_existing => {
            let gone = if Path::new(dst).exists() { fs::remove_dir_all(dst) } else { Ok(()) };
            gone.and_then(|()| copy_tree(Path::new(src), Path::new(dst)))
        }
        true => copy_tree(Path::new(src), Path::new(dst)),
        false => copy_content(Path::new(src), Path::new(dst)),
    };
    done.map_err(|_| Error::execution(format!("Could not copy '{src}' to '{dst}'")))?;
    // Salt gives the target the owner and mode of the source, but not its children.
    let (user, group) = (user_name(meta.uid()), group_name(meta.gid()));
    owners::apply(dst, &user, &group, Some(meta.mode() & 0o7777))?;
    Ok(true)
}

/// Copies the content of a file; an existing target keeps its permissions.
pub(super) fn copy_content(src: &Path, dst: &Path) -> std::io::Result<()> {
    // Opening the target for writing would empty the source.
    if fs::canonicalize(src).is_ok_and(|src| fs::canonicalize(dst).is_ok_and(|dst| dst == src)) {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "source and target are the same file"));
    }
    let mut from = fs::File::open(src)?;
    let mut to = fs::File::create(dst)?;
    std::io::copy(&mut from, &mut to).map(drop)
}

/// Copies a directory with permissions and times; links are copied as links.
pub(super) fn copy_tree(src: &Path, dst: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dst)?;
    for entry in fs::read_dir(src)? {
        let entry = entry?;
        let (from, to) = (entry.path(), dst.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&from, &to)?;
        } else if kind.is_symlink() {
            // A link cannot be created over an existing name.
            let _ = fs::remove_file(&to);
            raw_symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_file() {
            copy_content(&from, &to)?;
        }
        // Pipes, sockets and devices have no content to copy.
        if kind.is_dir() || kind.is_file() {
            fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
        }
    }
    Ok(())
}

/// Makes a hard link to a file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.link /path/to/file /path/to/link
#[function]
pub fn link(ctx: &Context, src: String, path: String) -> Result<bool> {
    let src = expand_user(&src);
    must_be_absolute(&src, "File path must be absolute.")?;
    ctx.blocking(move || match fs::hard_link(&src, &path) {
        Ok(()) => Ok(true),
        Err(error) => {
            let reason = python_text(&error, &src);
            Err(Error::execution(format!("Could not create '{path}': {reason} -> '{path}'")))
        }
    })
}

/// Makes the parent directories of a path. A path that ends with a slash is made itself.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.makedirs /opt/code/
#[function]
pub fn makedirs(
    ctx: &Context,
    path: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
) -> Result<Value> {
    ctx.blocking(move || {
        let path = expand_user(&path);
        // The last part is the file for which the directories are made.
        let directory = normalize(split(&path).0);
        if Path::new(&directory).is_dir() {
            // Salt returns this as text, and None when it made something.
            return Ok(Value::from(format!("Directory '{directory}' already exists")));
        }
        if Path::new(&directory).exists() {
            return Ok(Value::from(format!("The path '{directory}' already exists and is not a directory")));
        }
        make_parents(&path, &user, &group, &mode)?;
        Ok(Value::Null)
    })
}

/// Makes the directories above a path that are missing.
///
/// # Errors
/// When the path is not absolute, or the system refuses.
pub fn make_parents(path: &str, user: &Value, group: &Value, mode: &Value) -> Result<()> {
    let directory = normalize(split(path).0);
    if Path::new(&directory).exists() {
        return Ok(());
    }
    // The parents of a relative path end at an empty text, which never exists.
    if !directory.starts_with('/') {
        return Err(Error::invocation(format!(
            "Recursive creation for path '{directory}' would result in an infinite loop. Please use an absolute path."
        )));
    }
    make_with_parents(&directory, user, group, mode)
}

/// Makes a directory and its parents, all with the same owner and permissions.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.makedirs_perms /opt/code mode=0750
#[function]
pub fn makedirs_perms(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0755")] mode: Value,
) -> Result<()> {
    ctx.blocking(move || {
        let path = expand_user(&name);
        if Path::new(&path).exists() {
            return Err(Error::Other(format!("[Errno 17] File exists: '{path}'")));
        }
        make_with_parents(path.trim_end_matches('/'), &user, &group, &mode)
    })
}

/// Makes a directory and those above it, all with the same owner and permissions.
pub fn make_with_parents(path: &str, user: &Value, group: &Value, mode: &Value) -> Result<()> {
    let parent = split(path).0;
    if !parent.is_empty() && !Path::new(parent).exists() {
        make_with_parents(parent, user, group, mode)?;
    }
    let wanted = match mode {
        Value::Null => None,
        given => Some(mode_of(given).ok_or_else(|| Error::invocation(format!("Invalid Mode {given}")))?),
    };
    // The mode is set at once, so that no other user gets in before the owner is set.
    match fs::DirBuilder::new().mode(wanted.unwrap_or(0o777)).create(path) {
        // Another process was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && Path::new(path).is_dir() => {}
        done => done.map_err(|error| os_error(&error, path))?,
    }
    owners::apply(path, user, group, wanted)
}

/// Makes a directory, and its missing parents.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.mkdir /opt/jetty/context
#[function]
pub fn mkdir(
    ctx: &Context,
    dir_path: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default(Value::Null)] mode: Value,
) -> Result<bool> {
    ctx.blocking(move || {
        let directory = normalize(&expand_user(&dir_path));
        if !Path::new(&directory).is_dir() {
            make_with_parents(&directory, &user, &group, &mode)?;
        }
        Ok(true)
    })
}

/// Makes a character device (`c`), a block device (`b`) or a named pipe (`p`).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.mknod /dev/chr c 180 31
///     salt '*' file.mknod /dev/fifo p
#[function]
pub fn mknod(
    ctx: &Context,
    name: String,
    ntype: String,
    #[default(0)] major: u64,
    #[default(0)] minor: u64,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0600")] mode: Value,
) -> Result<Map> {
    let kind = match ntype.as_str() {
        "c" => SFlag::S_IFCHR,
        "b" => SFlag::S_IFBLK,
        "p" => SFlag::S_IFIFO,
        _ => {
            return Err(Error::invocation(format!(
                "Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe ('p')."
            )));
        }
    };
    let node = Node { kind, device: makedev(major, minor), user, group, mode };
    let test = ctx.opt("test").is_some_and(Value::truthy);
    ctx.blocking(move || node.make(&expand_user(&name), test))
}

/// Makes a block device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.mknod_blkdev /dev/blk 8 999
#[function]
pub fn mknod_blkdev(
    ctx: &Context,
    name: String,
    major: u64,
    minor: u64,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0660")] mode: Value,
) -> Result<Map> {
    mknod(ctx, name, "b".into(), major, minor, user, group, mode)
}

/// Makes a character device.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.mknod_chrdev /dev/chr 180 31
#[function]
pub fn mknod_chrdev(
    ctx: &Context,
    name: String,
    major: u64,
    minor: u64,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0660")] mode: Value,
) -> Result<Map> {
    mknod(ctx, name, "c".into(), major, minor, user, group, mode)
}

/// Makes a named pipe.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.mknod_fifo /dev/fifo
#[function]
pub fn mknod_fifo(
    ctx: &Context,
    name: String,
    #[default(Value::Null)] user: Value,
    #[default(Value::Null)] group: Value,
    #[default("0660")] mode: Value,
) -> Result<Map> {
    mknod(ctx, name, "p".into(), 0, 0, user, group, mode)
}

/// A special file to be made.
struct Node {
    kind: SFlag,
    device: u64,
    user: Value,
    group: Value,
    mode: Value,
}

impl Node {
    fn make(&self, name: &str, test: bool) -> Result<Map> {
        let word = match self.kind {
            SFlag::S_IFCHR => "Character device",
            SFlag::S_IFBLK => "Block device",
            _ => "Fifo pipe",
        };
        let mut report = owners::report(name);
        let mode = mode_of(&self.mode).ok_or_else(|| Error::invocation(format!("Invalid Mode {}", self.mode)))?;
        let changes = map! { "new" => format!("{word} {name} created.") };
        if test {
            report.insert("changes", changes);
            report.insert("result", Value::Null);
            return Ok(report);
        }
        let parent = split(name).0;
        if !parent.is_empty() && !Path::new(parent).is_dir() {
            make_with_parents(parent, &self.user, &self.group, &Value::Null)?;
        }
        match raw_mknod(name, self.kind, Mode::from_bits_truncate(mode), self.device) {
            Ok(()) => {
                report.insert("changes", changes);
                report.insert("result", true);
            }
            // An existing node is reported, and its owner and mode are still set.
            Err(nix::Error::EEXIST) => {
                report.insert("comment", format!("File {name} exists and cannot be overwritten"));
            }
            Err(errno) => return Err(os_error(&errno.into(), name)),
        }
        owners::apply(name, &self.user, &self.group, Some(mode))?;
        Ok(report)
    }
}

/// Moves a file or directory, also to another file system unless ``disallow_copy_and_unlink``. Into a directory that
/// exists it is moved under its own name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.move /path/to/src /path/to/dst
#[function(name = "move")]
pub fn move_(
    ctx: &Context,
    src: String,
    dst: String,
    #[default(false)] disallow_copy_and_unlink: bool,
) -> Result<Value> {
    if disallow_copy_and_unlink {
        return rename(ctx, src, dst).map(Value::from);
    }
    let (src, dst) = (expand_user(&src), expand_user(&dst));
    must_be_absolute(&src, "Source path must be absolute.")?;
    must_be_absolute(&dst, "Destination path must be absolute.")?;
    ctx.blocking(move || {
        moved(&src, &dst).map_err(|reason| Error::execution(format!("Unable to move '{src}' to '{dst}': {reason}")))?;
        Ok(Value::from(map! { "result" => true, "comment" => format!("'{src}' moved to '{dst}'") }))
    })
}

/// Moves a file or directory, also to another file system. Into an existing directory it is moved under its name.
///
/// # Errors
/// Python's message for the error.
pub fn moved(src: &str, dst: &str) -> std::result::Result<(), String> {
    let mut target = dst.to_owned();
    if Path::new(dst).is_dir() {
        target = format!("{}/{}", dst.trim_end_matches('/'), split(src.trim_end_matches('/')).1);
        // `shutil.move` refuses to overwrite within a directory.
        if Path::new(&target).exists() {
            return Err(format!("Destination path '{target}' already exists"));
        }
    }
    let text = |error: std::io::Error| python_text(&error, src);
    match fs::rename(src, &target) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            move_across(Path::new(src), Path::new(&target)).map_err(text)
        }
        done => done.map_err(text),
    }
}

pub(super) fn move_across(src: &Path, dst: &Path) -> std::io::Result<()> {
    let meta = fs::symlink_metadata(src)?;
    if meta.is_dir() {
        copy_tree(src, dst)?;
        fs::set_permissions(dst, meta.permissions())?;
        // Only after everything was copied: an error before leaves the source whole.
        return fs::remove_dir_all(src);
    }
    if meta.file_type().is_symlink() {
        raw_symlink(fs::read_link(src)?, dst)?;
    } else {
        fs::copy(src, dst)?;
        fs::File::options().write(true).open(dst)?.set_modified(meta.modified()?)?;
        // Only root may give files away; as anyone else the copy belongs to who made it.
        let _ = std::os::unix::fs::lchown(dst, Some(meta.uid()), Some(meta.gid()));
    }
    fs::remove_file(src)
}

/// Returns the target of a symbolic link, or with ``canonicalize`` its final target.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.readlink /path/to/link
#[function]
pub fn readlink(ctx: &Context, path: String, #[default(false)] canonicalize: bool) -> Result<String> {
    let path = expand_vars(&expand_user(&path));
    must_be_absolute(&path, &format!("Path to link must be absolute: {path}"))?;
    ctx.blocking(move || {
        let target =
            fs::read_link(&path).map_err(|_| Error::invocation(format!("A valid link was not specified: {path}")))?;
        Ok(if canonicalize { real(&path) } else { target.to_string_lossy().into_owned() })
    })
}

/// Removes a file, a link, or a directory with all its contents. Returns False when there was nothing.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.remove /tmp/foo
#[function]
pub fn remove(ctx: &Context, path: String, kwargs: KwArgs) -> Result<bool> {
    let _ = kwargs;
    let path = expand_user(&path);
    must_be_absolute(&path, &format!("File path must be absolute: {path}"))?;
    ctx.blocking(move || {
        // A link is removed itself. Nothing to remove is not an error, but no success either.
        let Ok(meta) = fs::symlink_metadata(&path) else { return Ok(false) };
        let done = if meta.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        done.map_err(|error| Error::execution(format!("Could not remove '{path}': {}", python_text(&error, &path))))?;
        Ok(true)
    })
}

/// Renames a file or directory.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.rename /path/to/src /path/to/dst
#[function]
pub fn rename(ctx: &Context, src: String, dst: String) -> Result<bool> {
    let (src, dst) = (expand_user(&src), expand_user(&dst));
    must_be_absolute(&src, "File path must be absolute.")?;
    ctx.blocking(move || {
        fs::rename(&src, &dst).map_err(|_| Error::execution(format!("Could not rename '{src}' to '{dst}'")))?;
        Ok(true)
    })
}

/// Removes an empty directory, or with ``recurse`` all empty directories below it too; with ``older_than`` only those
/// that have not changed for that many days. ``verbose`` returns what was removed and what was not.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.rmdir /tmp/foo/
#[function]
pub fn rmdir(
    ctx: &Context,
    path: String,
    #[default(false)] recurse: bool,
    #[default(false)] verbose: bool,
    older_than: Option<i64>,
) -> Result<Value> {
    let path = expand_user(&path);
    must_be_absolute(&path, "File path must be absolute.")?;
    ctx.blocking(move || {
        if !Path::new(&path).is_dir() {
            return Err(Error::invocation(format!("A valid directory was not specified: {path}")));
        }
        // 0 and negative numbers mean no limit.
        let days = older_than.and_then(|days| u64::try_from(days).ok()).filter(|days| *days > 0);
        let limit = days.and_then(|days| SystemTime::now().checked_sub(Duration::from_secs(days * 86_400)));
        let mut sweep = Sweep { limit, deleted: Vec::new(), errors: Vec::new() };
        if recurse {
            sweep.below(Path::new(&path));
        }
        let clean = sweep.errors.is_empty();
        let gone = sweep.one(Path::new(&path));
        let result = clean && sweep.errors.is_empty() && (gone || recurse);
        if verbose {
            return Ok(Value::from(map! { "deleted" => sweep.deleted, "errors" => sweep.errors, "result" => result }));
        }
        Ok(Value::Bool(result))
    })
}

/// Removes empty directories.
struct Sweep {
    limit: Option<SystemTime>,
    deleted: Vec<String>,
    errors: Vec<Value>,
}

impl Sweep {
    fn below(&mut self, directory: &Path) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            // Children first, since only empty directories can be removed.
            self.below(&entry.path());
            self.one(&entry.path());
        }
    }

    /// Removes a directory if it is old enough. Returns whether it is gone.
    fn one(&mut self, directory: &Path) -> bool {
        let old =
            |limit: SystemTime| fs::metadata(directory).and_then(|meta| meta.modified()).is_ok_and(|at| at < limit);
        if !self.limit.is_none_or(old) {
            return false;
        }
        let path = directory.to_string_lossy().into_owned();
        match fs::remove_dir(directory) {
            Ok(()) => self.deleted.push(path),
            Err(error) => {
                tracing::error!("Could not remove '{path}': {error}");
                let reason = python_text(&error, &path);
                self.errors.push(list![path, reason]);
                return false;
            }
        }
        true
    }
}

/// Makes a symbolic link at ``path`` that leads to ``src``. An existing path is replaced only with ``force``, or with
/// ``atomic`` in one step.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.symlink /path/to/file /path/to/link
#[function]
pub fn symlink(
    ctx: &Context,
    src: String,
    path: String,
    #[default(false)] force: bool,
    #[default(false)] atomic: bool,
    #[default(true)] follow_symlinks: bool,
) -> Result<bool> {
    let path = expand_user(&path);
    must_be_absolute(&path, &format!("Link path must be absolute: {path}"))?;
    ctx.blocking(move || {
        let place = Path::new(&path);
        let exists = if follow_symlinks { place.exists() } else { place.symlink_metadata().is_ok() };
        if let Ok(target) = fs::read_link(place) {
            // Written in another way the target may still be the same.
            if normalize(&target.to_string_lossy()) == normalize(&src) {
                return Ok(true);
            }
            if !force && !atomic {
                return Err(Error::execution(format!("Found existing symlink: {path}")));
            }
        }
        if exists && !force && !atomic {
            return Err(Error::execution(format!("Existing path is not a symlink: {path}")));
        }
        if force && !atomic && place.symlink_metadata().is_ok() {
            fs::remove_file(place).map_err(|error| os_error(&error, &path))?;
        }
        linked(&src, place, force, atomic).map_err(|_| Error::execution(format!("Could not create '{path}'")))?;
        Ok(true)
    })
}

pub(super) fn linked(src: &str, place: &Path, force: bool, atomic: bool) -> std::io::Result<()> {
    if atomic {
        let directory = place.parent().unwrap_or(Path::new("/"));
        // A link cannot be changed, but a rename replaces it in one step.
        let beside = tempfile::Builder::new().make_in(directory, |path| raw_symlink(src, path))?;
        return beside.into_temp_path().persist(place).map_err(|error| error.error);
    }
    if force && place.symlink_metadata().is_ok() {
        fs::remove_file(place)?;
    }
    raw_symlink(src, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn trees_are_copied_and_moved() {
        let (_folder, root) = folder();
        let at = |name: &str| format!("{root}/{name}");
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/x"), "1").unwrap();
        raw_symlink("b/x", at("a/l")).unwrap();
        assert!(copied(&at("a"), &at("c"), false, false).is_err());
        assert!(copied(&at("a"), &at("c"), true, false).unwrap());
        assert_eq!(fs::read_to_string(at("c/l")).unwrap(), "1");
        fs::create_dir(at("d")).unwrap();
        moved(&at("c"), &at("d")).unwrap();
        assert_eq!(fs::read_to_string(at("d/c/b/x")).unwrap(), "1");
        fs::create_dir(at("c")).unwrap();
        assert_eq!(moved(&at("c"), &at("d")), Err(format!("Destination path '{}' already exists", at("d/c"))));
        // The fallback where `rename` cannot help, between file systems.
        move_across(Path::new(&at("d/c")), Path::new(&at("e"))).unwrap();
        assert!(Path::new(&at("e/b/x")).exists() && !Path::new(&at("d/c")).exists());
    }

    #[test]
    fn directories_get_their_permissions() {
        let (_folder, root) = folder();
        let path = format!("{root}/x/y");
        make_with_parents(&path, &Value::Null, &Value::Null, &Value::from("0750")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
        // The parents get the same permissions, not the default ones.
        assert_eq!(fs::metadata(format!("{root}/x")).unwrap().mode() & 0o7777, 0o750);
    }

    #[test]
    fn links_are_replaced_in_one_step() {
        let (_folder, root) = folder();
        let path = format!("{root}/l");
        linked("a", Path::new(&path), false, false).unwrap();
        assert!(linked("b", Path::new(&path), false, false).is_err());
        linked("b", Path::new(&path), false, true).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("b"));
        linked("c", Path::new(&path), true, false).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("c"));
    }

    #[test]
    fn empty_directories_are_swept() {
        let (_folder, root) = folder();
        fs::create_dir_all(format!("{root}/t/a/b")).unwrap();
        fs::create_dir_all(format!("{root}/t/c")).unwrap();
        fs::write(format!("{root}/t/c/x"), "").unwrap();
        let mut sweep = Sweep { limit: None, deleted: Vec::new(), errors: Vec::new() };
        sweep.below(Path::new(&format!("{root}/t")));
        assert_eq!(sweep.deleted, [format!("{root}/t/a/b"), format!("{root}/t/a")]);
        assert_eq!(sweep.errors.len(), 1);
        let reason = format!("[Errno 39] Directory not empty: '{root}/t/c'");
        assert_eq!(sweep.errors[0], list![format!("{root}/t/c"), reason]);
    }
}
