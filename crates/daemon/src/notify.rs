//! Notifies systemd of the state of a daemon: the datagram protocol of `sd_notify`.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells the service manager, if there is one, that the daemon is ready. `systemctl status` shows `status`.
pub fn notify_ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={}\nMAINPID={}", status.replace('\n', " "), std::process::id()));
}

/// Tells the service manager, if there is one, that the daemon is stopping.
pub fn notify_stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else { return };
    if let Err(error) = send(address.as_bytes(), state) {
        tracing::warn!(target: "salt.utils.process", "failed to notify systemd at {}: {error}", address.display());
    }
}

fn send(address: &[u8], state: &str) -> io::Result<()> {
    let address = match address.strip_prefix(b"@") {
        // An `@` represents the zero byte of Linux's abstract names.
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(address))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_gets_the_state() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        let mut buffer = [0; 32];
        let size = manager.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..size], b"READY=1");
    }

    #[test]
    fn abstract_names_work_too() {
        let name = format!("saltern-notify-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        let mut buffer = [0; 32];
        assert_eq!(manager.recv(&mut buffer).unwrap(), 10);
        assert!(send(b"/not/there", "x").is_err());
    }
}
