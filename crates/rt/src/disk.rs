//! Files that appear whole: written beside their place, then renamed into it.

use std::fs::{File, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Whether a file is to survive a power failure. What the program can make again need not; a configuration file of the
/// machine, a key or an acknowledged return must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It survives the end of the process.
    Process,
    /// It is synced to the disk, with the name of the file.
    Disk,
}

/// Replaces a file, or makes a new one: a reader sees the old or the new content, never a part of it. The file has these
/// permission bits whatever the umask.
pub fn replace(path: &Path, content: &[u8], mode: u32, durability: Durability) -> Result<()> {
    beside(path, content, mode, durability)?.persist(path)?;
    sync_name(path, durability)
}

/// Writes a file under a hidden name in the directory of a path, to be renamed to the path by the caller. It is readable by
/// the owner alone until it has all its content.
pub fn beside(path: &Path, content: &[u8], mode: u32, durability: Durability) -> Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tmp").permissions(Permissions::from_mode(0o600));
    let mut file = builder.tempfile_in(directory(path))?;
    file.write_all(content)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    if durability == Durability::Disk {
        file.as_file().sync_all()?;
    }
    Ok(file)
}

/// Syncs the directory of a path, so that the name of a renamed file is on the disk, if the file is to be there.
pub fn sync_name(path: &Path, durability: Durability) -> Result<()> {
    match durability {
        Durability::Process => Ok(()),
        Durability::Disk => File::open(directory(path))?.sync_all(),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for (content, mode, durability) in [("one", 0o640, Durability::Process), ("two", 0o666, Durability::Disk)] {
            crate::umask::with(0o077, || replace(&path, content.as_bytes(), mode, durability)).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, mode);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
