//! Files of root in directories that another user may write to: no link there decides what root opens or gives away.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Uid, chownat, fstat, fstatfs, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The largest number of links that lead to one file.
const LINKS: usize = 8;

/// Gives the file at a path to a user, and to a group if there is one.
///
/// # Errors
/// When the path is a link, or a file with several names, and belongs to somebody else.
pub fn give(path: &Path, uid: u32, gid: Option<u32>) -> Result<()> {
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    give_open(&file, uid, gid)
}

/// Does the same with an open file.
///
/// # Errors
/// As [`give`].
pub fn give_open(file: impl AsFd, uid: u32, gid: Option<u32>) -> Result<()> {
    let found = fstat(&file)?;
    if found.st_uid == uid && gid.is_none_or(|gid| found.st_gid == gid) {
        return Ok(());
    }
    // Whoever can write to the directory can place a link there to a file of somebody else.
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Symlink => return Err(Error::other("it is a link")),
        FileType::RegularFile if found.st_nlink > 1 => return Err(Error::other("the file has several names")),
        _ => {}
    }
    // An empty path is the descriptor itself, which cannot be exchanged any more.
    Ok(chownat(file, "", Some(Uid::from_raw(uid)), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)?)
}

/// Opens a file. Links are followed only if they belong to root or to the user of this process. Returns also whether the path
/// is a link.
///
/// # Errors
/// The system's, and when the path is a link of another user.
pub fn open(path: &Path, flags: OFlags, mode: Mode) -> Result<(File, bool)> {
    let flags = flags | OFlags::CLOEXEC;
    let mut place = path.to_owned();
    for links in 0..=LINKS {
        match rustix::fs::open(&place, flags | OFlags::NOFOLLOW, mode) {
            Ok(file) => return Ok((file.into(), links > 0)),
            // The first for a link, the second if it should be a directory.
            Err(error @ (Errno::LOOP | Errno::NOTDIR)) => match follow(&place, error)? {
                Some(target) => place = target,
                None => return Ok((rustix::fs::open(&place, flags, mode)?.into(), true)),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens a file to read it.
///
/// # Errors
/// As [`open`].
pub fn open_to_read(path: &Path) -> Result<File> {
    // A pipe in place of the file must not stop the caller for ever.
    Ok(open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.0)
}

/// Sets the permission bits of a file or directory. Changes nothing if it has them already.
///
/// # Errors
/// As [`open`].
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    let file = open_to_read(path)?;
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(PermissionsExt::from_mode(mode)),
    }
}

/// Returns where a link leads. `None` for a link of the kernel, such as `/proc/self/fd/1`: nobody can exchange it, and its
/// text is no path.
fn follow(place: &Path, error: Errno) -> Result<Option<PathBuf>> {
    let link = rustix::fs::open(place, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&link)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Err(error.into());
    }
    if found.st_uid != 0 && found.st_uid != geteuid().as_raw() {
        let text = format!("{} is a link of the user with the id {}", place.display(), found.st_uid);
        return Err(Error::new(ErrorKind::PermissionDenied, text));
    }
    if fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
        return Ok(None);
    }
    let target = readlinkat(&link, "", Vec::new())?;
    let target: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(target.as_bytes());
    Ok(Some(place.parent().unwrap_or(Path::new("")).join(target)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    const OTHER: u32 = 65_534;

    fn as_root() -> bool {
        let root = geteuid().is_root();
        if !root {
            eprintln!("skipped: only root gives files away");
        }
        root
    }

    #[test]
    fn what_a_link_leads_to_is_not_given_away() {
        let dir = tempfile::tempdir().unwrap();
        let [secret, link, second, own] = ["secret", "link", "second", "own"].map(|name| dir.path().join(name));
        std::fs::write(&secret, "").unwrap();
        symlink(&secret, &link).unwrap();
        let uid = secret.metadata().unwrap().uid();
        assert!(give(&link, uid + 1, None).unwrap_err().to_string().contains("it is a link"));
        std::fs::hard_link(&secret, &second).unwrap();
        assert!(give(&second, uid + 1, None).unwrap_err().to_string().contains("several names"));
        assert_eq!((secret.metadata().unwrap().uid(), link.symlink_metadata().unwrap().uid()), (uid, uid));
        if as_root() {
            std::fs::write(&own, "").unwrap();
            give(&own, OTHER, Some(OTHER)).unwrap();
            give(dir.path(), OTHER, None).unwrap();
            assert_eq!((own.metadata().unwrap().gid(), dir.path().metadata().unwrap().uid()), (OTHER, OTHER));
        }
    }

    #[test]
    fn modes_are_not_set_through_links_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| dir.path().join(name));
        std::fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        let mode = || target.metadata().unwrap().mode() & 0o7777;
        set_mode(&target, 0o750).unwrap();
        assert_eq!(mode(), 0o750);
        set_mode(&link, 0o700).unwrap();
        assert_eq!(mode(), 0o700);
        if as_root() {
            lchown(&link, Some(OTHER), None).unwrap();
            assert_eq!(set_mode(&link, 0o755).unwrap_err().kind(), ErrorKind::PermissionDenied);
            assert_eq!(mode(), 0o700);
        }
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let [target, link, chain, folder] = ["target", "link", "chain", "folder"].map(|name| dir.path().join(name));
        symlink("target", &link).unwrap();
        symlink(&link, &chain).unwrap();
        symlink(dir.path(), &folder).unwrap();
        let create = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let opened = |path: &Path| open(path, create, Mode::from_raw_mode(0o640)).map(|(_, is_link)| is_link);
        assert!(opened(&chain).unwrap());
        assert!(target.is_file());
        assert!(!opened(&target).unwrap());
        assert!(open(&folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap().1);
        assert_eq!(opened(dir.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(opened(&target.join("below")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(opened(Path::new("/proc/self/fd/2")).unwrap());
        if as_root() {
            lchown(&link, Some(OTHER), None).unwrap();
            chown(dir.path(), Some(OTHER), None).unwrap();
            for path in [&link, &chain] {
                let error = opened(path).unwrap_err().to_string();
                assert_eq!(error, format!("{} is a link of the user with the id {OTHER}", link.display()));
            }
        }
    }
}
