//! Writes key files atomically: no reader sees a partial file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use nix::unistd::{Gid, Uid, User, fchown, geteuid};

/// The account that should own key files: the option `user` of the daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner(Option<(Uid, Gid)>);

impl Owner {
    /// No account: files belong to the user that writes them.
    pub const NOBODY: Owner = Owner(None);

    /// Returns the account with this name. Only root can change the owner of a file. For other users, and for an
    /// unknown name, new files belong to the user that writes them.
    pub fn of_user(name: &str) -> Self {
        // Only root may give files away. For other accounts the attempt would fail at each write.
        if name.is_empty() || !geteuid().is_root() {
            return Owner(None);
        }
        let user = User::from_name(name).ok().flatten().filter(|user| user.uid != geteuid());
        Owner(user.map(|user| (user.uid, user.gid)))
    }

    /// Returns whether the account has this user id.
    pub(crate) fn is(self, uid: u32) -> bool {
        self.0.is_some_and(|(own, _)| own.as_raw() == uid)
    }

    fn apply(self, file: &File) -> io::Result<()> {
        match self.0 {
            Some((uid, _)) => fchown(file, Some(uid), None).map_err(io::Error::from),
            None => Ok(()),
        }
    }

    /// Changes the owner and group of a new directory to the account.
    pub(crate) fn apply_to_directory(self, path: &Path) -> io::Result<()> {
        match self.0 {
            // Not through a link, which the account could have placed there since.
            Some((uid, gid)) => std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw())),
            None => Ok(()),
        }
    }
}

/// How a key file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) mode: u32,
    pub(crate) owner: Owner,
    /// Sync the file: for content that cannot be created again.
    pub(crate) durable: bool,
}

/// Writes a file under a temporary name that key lists ignore, and renames it.
pub(crate) fn write(path: &Path, content: &[u8], manner: Manner) -> io::Result<()> {
    passing_file(path, content, manner)?.persist(path)?;
    Ok(())
}

/// The same, but fails with `AlreadyExists` if the file exists.
pub(crate) fn write_new(path: &Path, content: &[u8], manner: Manner) -> io::Result<()> {
    passing_file(path, content, manner)?.persist_noclobber(path)?;
    Ok(())
}

fn passing_file(path: &Path, content: &[u8], manner: Manner) -> io::Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("."));
    // The temporary file is created with mode 0600. It gets its final mode before its final name, so nobody finds it
    // open or half written. The leading dot hides it from key lists, here and in Salt.
    let mut passing = tempfile::Builder::new().prefix(".key-").tempfile_in(directory)?;
    passing.write_all(content)?;
    passing.as_file().set_permissions(fs::Permissions::from_mode(manner.mode))?;
    manner.owner.apply(passing.as_file())?;
    if manner.durable {
        passing.as_file().sync_all()?;
    }
    Ok(passing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_appears_whole_with_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        for content in ["one", "two"] {
            write(&path, content.as_bytes(), Manner { mode: 0o400, owner: Owner::default(), durable: true }).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o400);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
