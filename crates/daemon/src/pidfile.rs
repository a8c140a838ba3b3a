//! The pid file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::signal::kill;
use nix::unistd::{Pid, User, getuid};
use rustix::fs::{Mode, OFlags};

use crate::Error;

/// The pid file of this daemon. Dropping this removes the file, if it still contains the pid of this process.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    pid: i32,
}

impl PidFile {
    /// Fails if another daemon of the same program runs with this pid file.
    ///
    /// The pid alone is not enough: after a crash or a reboot it may belong to any process.
    pub fn check(path: &Path) -> Result<(), Error> {
        let Some(pid) = read(path) else { return Ok(()) };
        let own = pid == std::process::id() as i32 || pid == Pid::parent().as_raw();
        if !own && is_alive(pid) && is_same_program(pid) {
            return Err(Error::Running { path: path.to_owned(), pid });
        }
        Ok(())
    }

    /// Writes the pid, creates the directory if it is missing, and gives the file to the daemon's user.
    pub fn write(path: &Path, user: &str) -> Result<Self, Error> {
        let fail = |source: io::Error| Error::PidFile { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(fail)?;
        }
        let pid = std::process::id() as i32;
        let owner = User::from_name(user).ok().flatten().filter(|_| getuid().is_root());
        write(path, pid, owner.as_ref()).map_err(fail)?;
        tracing::debug!(target: "salt.utils.process", "Created pidfile: {}", path.display());
        Ok(PidFile { path: path.to_owned(), pid })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // After a fork the parent drops this value too, and another daemon may have replaced the file.
        if self.pid != std::process::id() as i32 || read(&self.path) != Some(self.pid) {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            let path = self.path.display();
            // The directory often belongs to root, which we no longer are. The next start overwrites the file.
            tracing::info!(target: "salt.utils.parsers", "PIDfile({path}) could not be deleted: {error}");
        }
    }
}

/// The directory may belong to the daemon's user, who must not choose with a link which file of root is overwritten.
fn write(path: &Path, pid: i32, owner: Option<&User>) -> io::Result<()> {
    let options = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
    let (mut file, _) = rt::owned::open(path, options, Mode::from_raw_mode(0o644))?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("it is not a regular file with one name"));
    }
    file.set_len(0)?;
    file.write_all(pid.to_string().as_bytes())?;
    // Readable by all whatever the umask: the pid is no secret, and monitoring without root reads it.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    match owner {
        Some(owner) => rt::owned::give_open(&file, owner.uid.as_raw(), Some(owner.gid.as_raw())),
        None => Ok(()),
    }
}

fn read(path: &Path) -> Option<i32> {
    fs::read_to_string(path).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
}

fn is_alive(pid: i32) -> bool {
    matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(nix::Error::EPERM))
}

/// Compares the command line of the other process: all our names are links to one program.
fn is_same_program(pid: i32) -> bool {
    let words = |pid: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
        words
    };
    same_program(&words("self"), &words(&pid.to_string()))
}

/// The name of a daemon is one of the first words: `/usr/bin/salt-master`, `saltern salt-master`,
/// `python /usr/bin/salt-master`.
fn same_program(ours: &[String], theirs: &[String]) -> bool {
    let name = |words: &[String]| {
        let names = words.iter().take(3).map(|word| word.rsplit('/').next().unwrap_or_default().to_owned());
        names.into_iter().find(|name| name.starts_with("salt-")).or_else(|| words.first().cloned())
    };
    name(ours).is_some_and(|name_of_ours| name(theirs) == Some(name_of_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lives_as_long_as_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/salt.pid");
        let file = PidFile::write(&path, "nobody-of-this-name").unwrap();
        assert_eq!(read(&path), Some(std::process::id() as i32));
        PidFile::check(&path).unwrap();
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_second_name_of_a_file_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let [secret, path] = ["secret", "salt.pid"].map(|name| dir.path().join(name));
        fs::write(&secret, "secret").unwrap();
        fs::hard_link(&secret, &path).unwrap();
        let error = PidFile::write(&path, "nobody-of-this-name").unwrap_err();
        assert!(error.to_string().contains("salt.pid"), "{error}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    }

    #[test]
    fn a_pid_file_of_another_process_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("salt.pid");
        let file = PidFile::write(&path, "nobody-of-this-name").unwrap();
        fs::write(&path, "1").unwrap();
        drop(file);
        assert_eq!(read(&path), Some(1));
        // Process 1 runs but is not one of our daemons; a damaged file has no pid.
        PidFile::check(&path).unwrap();
        fs::write(&path, "x").unwrap();
        PidFile::check(&path).unwrap();
    }

    #[test]
    fn a_running_instance_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("salt.pid");
        // Started under the same name as this program.
        let own = fs::read_to_string("/proc/self/cmdline").unwrap();
        let own = own.split('\0').next().unwrap();
        let mut twin = std::process::Command::new("sh");
        use std::os::unix::process::CommandExt as _;
        let mut twin = twin.arg0(own).args(["-c", "read x"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        fs::write(&path, twin.id().to_string()).unwrap();
        // The name is set shortly after the process starts.
        let named = || fs::read_to_string(format!("/proc/{}/cmdline", twin.id())).unwrap().starts_with(own);
        while !named() {
            std::thread::yield_now();
        }
        let error = PidFile::check(&path).unwrap_err();
        assert!(error.to_string().starts_with("An instance is already running. Exiting"), "{error}");
        twin.kill().unwrap();
        twin.wait().unwrap();
        PidFile::check(&path).unwrap();
    }

    #[test]
    fn daemons_are_distinguished_by_name() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let ours = words("saltern salt-master -c /x");
        assert!(same_program(&ours, &words("/usr/bin/salt-master -d")));
        assert!(same_program(&ours, &words("/opt/bin/python3.11 /usr/bin/salt-master -d")));
        assert!(!same_program(&ours, &words("salt-minion -d")));
        assert!(!same_program(&ours, &words("sh")));
        assert!(!same_program(&ours, &[]));
    }
}
