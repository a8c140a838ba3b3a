//! Putting content in the place of a file in one step.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use exec::{Context, Result};
use tempfile::TempPath;
use value::Value;

use super::{backups, paths};
use crate::{config, subprocess, util};

/// The prefix of the names of temporary files.
pub const PREFIX: &str = "__salt.tmp.";

/// The treatment of the old file.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    root: Option<PathBuf>,
}

impl Keep {
    /// Reads the argument `backup`, or without it the option `backup_mode`.
    pub fn of(ctx: &Context, backup: &Value) -> Self {
        let mode =
            if backup.truthy() { Some(backup.clone()) } else { config::merged_option(ctx, "backup_mode", [false; 3]) };
        let kept = mode.is_some_and(|mode| matches!(mode.as_str(), Some("minion" | "both")));
        Keep { root: kept.then(|| Path::new(ctx.cachedir()).join("file_backup")) }
    }
}

/// The content to write.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The content of another file.
    Of(&'a Path),
    /// These bytes.
    Bytes(&'a [u8]),
}

/// Writes a temporary file in the same directory and renames it. Owner and permissions of an existing file are kept; a
/// new one is readable for its owner alone. A symbolic link at the path is itself replaced.
///
/// # Errors
/// Python's text for the system's error.
pub fn put(content: Content<'_>, dest: &Path, keep: &Keep) -> std::result::Result<(), String> {
    let text = |error: io::Error, path: &Path| super::python_text(&error, &path.to_string_lossy());
    // Checked before the temporary file is made, with Python's words.
    if let Content::Of(source) = content
        && !source.is_file()
    {
        return Err(format!("[Errno 2] No such file or directory: {}", source.display()));
    }
    let folder = dest.parent().filter(|folder| folder.is_dir());
    let folder = folder.ok_or_else(|| format!("[Errno 2] No such file or directory: {}", dest.display()))?;
    // In the same directory, since a rename must not cross file systems.
    let (mut file, beside) = beside(folder, dest).map_err(|error| text(error, folder))?;
    fill(content, &mut file).map_err(|error| text(error, dest))?;
    // The old file is copied before the new one takes its place, and only when there is an old one.
    if let Some(root) = keep.root.as_ref().filter(|_| dest.exists()) {
        backups::keep(root, &dest.to_string_lossy()).map_err(|error| error.to_string())?;
    }
    if let Ok(before) = fs::metadata(dest) {
        // Before the rename, so that the file never has another owner under its real name. The mode follows, as chown
        // clears the special bits.
        chown(&beside, Some(before.uid()), Some(before.gid())).map_err(|error| text(error, dest))?;
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777)).map_err(|error| text(error, dest))?;
        copy_attributes(dest, &file).map_err(|error| text(error, dest))?;
    }
    beside.persist(dest).map_err(|error| text(error.error, dest))
}

fn beside(folder: &Path, dest: &Path) -> io::Result<(File, TempPath)> {
    let name = dest.file_name().unwrap_or_default();
    tempfile::Builder::new().prefix(name).tempfile_in(folder).map(tempfile::NamedTempFile::into_parts)
}

fn fill(content: Content<'_>, file: &mut File) -> io::Result<()> {
    match content {
        Content::Of(source) => io::copy(&mut File::open(source)?, file).map(drop),
        Content::Bytes(bytes) => file.write_all(bytes),
    }
}

/// Copies access control lists and other extended attributes, as far as the file systems have them.
fn copy_attributes(from: &Path, to: &File) -> io::Result<()> {
    use rustix::fs::{XattrFlags, fsetxattr, getxattr, listxattr};
    let mut names = vec![0; 64 << 10];
    // The file system may know no attributes.
    let Ok(length) = listxattr(from, &mut names[..]) else { return Ok(()) };
    names.truncate(length);
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // The kernel's limit for the value of an attribute.
        let mut value = vec![0; 64 << 10];
        let Ok(length) = getxattr(from, name, &mut value[..]) else { continue };
        if let Err(errno) = fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            // The kernel keeps some for itself; the file is right without them.
            tracing::debug!("an extended attribute of {} is not kept: {errno}", from.display());
        }
    }
    Ok(())
}

/// Like [`put`], and restores the SELinux context where SELinux is enforcing.
pub fn commit(
    ctx: &Context,
    content: Content<'_>,
    dest: &Path,
    keep: &Keep,
) -> Result<std::result::Result<(), String>> {
    let done = put(content, dest, keep);
    let enforcing = || fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text.trim() == "1");
    // A new file has the context of the process that wrote it.
    if done.is_ok() && enforcing() && util::which("restorecon").is_some() {
        subprocess::quiet(ctx, &["restorecon", &dest.to_string_lossy()])?;
    }
    Ok(done)
}

/// Creates a temporary file, named as Salt names them.
pub fn temporary(content: &[u8]) -> io::Result<TempPath> {
    let mut file = tempfile::Builder::new().prefix(PREFIX).tempfile()?;
    file.write_all(content)?;
    Ok(file.into_temp_path())
}

/// Removes a temporary file; other paths are ignored.
pub fn clean(path: &str) {
    let ours = std::env::temp_dir().join(PREFIX);
    if path.starts_with(&*ours.to_string_lossy())
        && let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("failed to remove {path}: {error}");
    }
}

/// Follows the links of a path (as `os.path.realpath`), if they are to be followed.
pub fn behind(name: &str, follow: bool) -> String {
    if follow && Path::new(name).is_symlink() { paths::real(name) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        put(Content::Bytes(b"one"), &place, &Keep::default()).unwrap();
        // A new file is private until its permissions are set.
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o600);
        fs::set_permissions(&place, Permissions::from_mode(0o640)).unwrap();
        let root = folder.path().join("kept");
        put(Content::Bytes(b"two"), &place, &Keep { root: Some(root.clone()) }).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"two");
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o640);
        let kept = root.join(folder.path().strip_prefix("/").unwrap());
        assert_eq!(fs::read_dir(kept).unwrap().count(), 1);
        let missing = put(Content::Of(Path::new("/no/such")), &place, &Keep::default());
        assert_eq!(missing, Err("[Errno 2] No such file or directory: /no/such".into()));
    }

    #[test]
    fn a_link_in_the_place_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("t"), folder.path().join("l"));
        fs::write(&target, "target").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        put(Content::Bytes(b"new"), &link, &Keep::default()).unwrap();
        assert!(!link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"target");
    }

    #[test]
    fn only_our_own_files_are_cleaned() {
        let ours = temporary(b"x").unwrap().keep().unwrap();
        clean(&ours.to_string_lossy());
        assert!(!ours.exists());
        let folder = tempfile::tempdir().unwrap();
        // Not one of our temporary files, so it must stay.
        let other = folder.path().join("x");
        fs::write(&other, "").unwrap();
        clean(&other.to_string_lossy());
        assert!(other.exists());
    }
}
