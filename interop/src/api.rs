//! salt-api beside a master, and the passwords of its users.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, iter};

use anyhow::{Result, ensure};

use crate::{Daemon, Master, until};

/// The longest that salt-api may take to start.
const LONGEST: Duration = Duration::from_secs(60);

impl Master {
    /// Starts salt-api of the master's installation, and waits until it listens at the place that `rest_cherrypy` names.
    ///
    /// # Errors
    /// When it ends, or does not listen in time.
    pub fn start_api(&self, place: SocketAddr) -> Result<Daemon> {
        let mut api = self.program("salt-api").start(&self.root().join("api.out"))?;
        until("salt-api to listen", LONGEST, || !api.alive() || TcpStream::connect(place).is_ok())?;
        ensure!(api.alive(), "salt-api of {} has ended: {}", self.name(), api.printed());
        Ok(api)
    }
}

/// Writes the file of the backend `file`: users who all have one password. Returns its path.
///
/// # Errors
/// When it cannot be written.
pub fn password_file(path: &Path, users: &[&str], password: &str) -> Result<PathBuf> {
    let lines = users.iter().flat_map(|user| [user, ":", password, "\n"]);
    fs::write(path, lines.chain(iter::once("")).collect::<String>())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(path.to_owned())
}
