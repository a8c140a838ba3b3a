//! The directories of a daemon: existing, with the right owner, closed to others.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User, getgrouplist, getuid};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};

use crate::Error;
use crate::user::find;

/// The directories of a daemon.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    /// All directories.
    pub all: Vec<PathBuf>,
    /// Those that contain keys: 0700, or 0750 if they have that mode already.
    pub keys: Vec<PathBuf>,
    /// The user who must own them.
    pub user: String,
    /// True if a directory may keep a group that the user is in.
    pub permissive: bool,
}

/// Creates missing directories (0750) and, as root, gives all of them with their contents to the user. Job data is skipped: it is
/// large, and the daemon writes it itself.
pub fn verify_env(directories: &Directories) -> Result<(), Error> {
    let user = find(&directories.user)?;
    let owner = Owner::new(&user, directories.permissive);
    for path in directories.all.iter().filter(|path| !path.as_os_str().is_empty()) {
        let fail = |source: io::Error| Error::Directory { path: path.clone(), source };
        if !path.is_dir() {
            let mode = if directories.keys.contains(path) { 0o700 } else { 0o750 };
            make(path, mode).map_err(fail)?;
        }
        // Only root can give directories away.
        if getuid().is_root() {
            owner.take(path).map_err(fail)?;
            owner.take_content(path);
        }
        if directories.keys.contains(path) {
            close(path);
        }
    }
    Ok(())
}

/// Creates a directory with exactly this mode. Missing parents let the daemon's user through, whatever the caller's umask, and
/// belong to the caller. A directory that another daemon creates at this moment is left to it.
fn make(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty() && !above.is_dir()) {
        // Asked again: another daemon may have created it since.
        if above.exists() && !above.is_dir() {
            // The exit status of the daemon is that of Salt.
            return Err(nix::Error::ENOTDIR.into());
        }
        make(above, 0o755)?;
    }
    // Closed until it has its final mode: the umask of the caller may be anything.
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| rt::owned::set_mode(path, mode)),
    }
}

/// Keys are for their owner, readable at most by a group.
fn close(path: &Path) {
    let closed = open_directory(path).and_then(|directory| match directory.metadata()?.mode() & 0o7777 {
        0o700 | 0o750 => Ok(()),
        _ => directory.set_permissions(fs::Permissions::from_mode(0o700)),
    });
    if closed.is_err() {
        tracing::error!(
            target: "salt.utils.verify",
            critical = true,
            "Unable to securely set the permissions of \"{}\".",
            path.display()
        );
    }
}

struct Owner {
    uid: Uid,
    gid: Gid,
    /// The groups that a file may also belong to.
    groups: Vec<Gid>,
}

impl Owner {
    fn new(user: &User, permissive: bool) -> Self {
        let name = CString::new(user.name.clone()).unwrap_or_default();
        let groups = if permissive { getgrouplist(&name, user.gid).unwrap_or_default() } else { Vec::new() };
        Owner { uid: user.uid, gid: user.gid, groups }
    }

    /// Links are left alone. Following them would let any user who can write there choose which files change their owner.
    fn take(&self, path: &Path) -> io::Result<()> {
        let file = rustix::fs::open(path, NAME, Mode::empty())?;
        self.take_open(&file)
    }

    fn take_open(&self, file: &OwnedFd) -> io::Result<()> {
        let found = fstat(file)?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        if is_link || self.groups.contains(&Gid::from_raw(found.st_gid)) {
            return Ok(());
        }
        rt::owned::give_open(file, self.uid.as_raw(), Some(self.gid.as_raw()))
    }

    /// Collects what is two or more levels below, except hidden files and jobs. An entry may vanish in the meantime.
    fn take_content(&self, path: &Path) {
        let Ok(directory) = open_directory(path) else { return };
        for name in names(&directory).iter().filter(|name| !name.to_string_lossy().contains("jobs")) {
            self.take_tree(&directory, name, path);
        }
    }

    /// Each directory is opened in the one above it: with paths, the user could exchange a directory for a link on the way.
    fn take_tree(&self, above: impl AsFd, name: &CStr, path: &Path) {
        let Ok(directory) = openat(above, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) else { return };
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        for name in names(&directory) {
            let entry = || openat(&directory, &name, NAME, Mode::empty()).map_err(io::Error::from);
            if !name.to_bytes().starts_with(b".")
                && let Err(error) = entry().and_then(|entry| self.take_open(&entry))
            {
                let name = name.to_string_lossy();
                tracing::debug!(target: "salt.utils.verify", "{}/{name} stays with its owner: {error}", path.display());
            }
            self.take_tree(&directory, &name, &path);
        }
    }
}

const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_directory(path: &Path) -> io::Result<fs::File> {
    Ok(rt::owned::open(path, DIRECTORY, Mode::empty())?.0)
}

fn names(directory: impl AsFd) -> Vec<CString> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_owned());
    names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::current_user;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o777
    }

    #[test]
    fn daemons_that_start_at_once_share_parent_directories() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let made: Vec<io::Result<()>> = std::thread::scope(|scope| {
                let start = |name: &'static str| {
                    scope.spawn({
                        let path = dir.path().join("var/run/salt").join(name);
                        move || make(&path, 0o755)
                    })
                };
                let all = ["master", "minion", "api", "syndic"].map(start);
                all.map(|one| one.join().unwrap()).into()
            });
            assert!(made.iter().all(Result::is_ok), "{made:?}");
        }
    }

    #[test]
    fn directories_are_made_and_keys_closed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("old")).unwrap();
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o755)).unwrap();
        let wanted = Directories {
            all: vec![at("pki/minions"), at("pki"), at("cache/jobs"), at("old"), at("above/keys"), PathBuf::new()],
            keys: vec![at("pki"), at("old"), at("above/keys")],
            user: current_user(),
            permissive: false,
        };
        verify_env(&wanted).unwrap();
        assert_eq!((mode(&at("pki")), mode(&at("pki/minions")), mode(&at("old"))), (0o700, 0o750, 0o700));
        assert_eq!((mode(&at("above")), mode(&at("above/keys"))), (0o755, 0o700), "another user gets to its keys");
        fs::set_permissions(at("pki"), fs::Permissions::from_mode(0o750)).unwrap();
        verify_env(&wanted).unwrap();
        assert_eq!(mode(&at("pki")), 0o750);
    }

    #[test]
    fn what_links_lead_to_keeps_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let [cache, outside] = ["cache", "outside"].map(|name| dir.path().join(name));
        fs::create_dir_all(cache.join("minions/web1")).unwrap();
        fs::create_dir_all(outside.join("below")).unwrap();
        for file in [outside.join("below/secret"), cache.join("minions/own"), outside.join("twin")] {
            fs::write(file, "").unwrap();
        }
        for (target, link) in [("below", "minions/link"), ("below/secret", "minions/file"), ("", "link")] {
            std::os::unix::fs::symlink(outside.join(target), cache.join(link)).unwrap();
        }
        fs::hard_link(outside.join("twin"), cache.join("minions/twin")).unwrap();
        let Some(nobody) = User::from_name("nobody").unwrap().filter(|_| getuid().is_root()) else {
            return eprintln!("skipped: only root gives files away");
        };
        let wanted = Directories { all: vec![cache.clone()], user: "nobody".into(), ..Directories::default() };
        verify_env(&wanted).unwrap();
        let owner = |path: PathBuf| Uid::from_raw(path.metadata().unwrap().uid());
        for path in [cache.clone(), cache.join("minions/own"), cache.join("minions/web1")] {
            assert_eq!(owner(path), nobody.uid);
        }
        for path in [outside.clone(), outside.join("below"), outside.join("below/secret"), outside.join("twin")] {
            assert_eq!(owner(path), getuid());
        }
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let path = dir.path().join("file/below");
        let wanted = Directories { all: vec![path.clone()], user: current_user(), ..Directories::default() };
        let error = verify_env(&wanted).unwrap_err();
        assert!(error.to_string().contains(&format!("\"{}\"", path.display())), "{error}");
        assert_eq!(error.exit_status(), nix::libc::ENOTDIR);
        let nobody = Directories { user: "no-such-user-here".into(), ..Directories::default() };
        assert!(matches!(verify_env(&nobody), Err(Error::NoUser { .. })));
    }
}
