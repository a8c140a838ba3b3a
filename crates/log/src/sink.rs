//! The outputs of lines: the console, a file, a log server.

use std::fs::File;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::unistd::User;
use rustix::fs::{Mode, OFlags};

use crate::Error;
use crate::level::Level;

/// A place for lines.
#[derive(Debug)]
pub(crate) enum Sink {
    Console { colours: bool },
    File(Mutex<LogFile>),
    Syslog(Mutex<Syslog>),
}

impl Sink {
    /// Writes a line. A place that fails is not allowed to stop the program; the console hears of it once.
    pub(crate) fn write(&self, level: Level, line: &str) {
        let result = match self {
            // In one write: lines of several threads and processes must not mix.
            Sink::Console { .. } => io::stderr().lock().write_all(format!("{line}\n").as_bytes()),
            Sink::File(file) => locked(file).write(line),
            Sink::Syslog(syslog) => locked(syslog).write(level, line),
        };
        if let Err(error) = result {
            self.complain(&error);
        }
    }

    fn complain(&self, error: &io::Error) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        if !matches!(self, Sink::Console { .. }) {
            // A closed console leaves no place to report the error.
            ONCE.call_once(|| drop(writeln!(io::stderr(), "[ERROR   ] Failed to write the log: {error}")));
        }
    }

    /// Returns whether a message may have several lines.
    pub(crate) fn takes_lines(&self) -> bool {
        !matches!(self, Sink::Syslog(_))
    }

    pub(crate) fn colours(&self) -> bool {
        matches!(self, Sink::Console { colours: true })
    }
}

/// A line is written whole or not, so a thread that died while writing left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl LogFile ===

/// A log file that is reopened when another program moves it away, and put aside when it grows too large.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    max_bytes: u64,
    backups: u32,
}

impl LogFile {
    /// Opens a file, making it and its directories as far as they miss; a new file is `0640` and belongs to the user.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, max_bytes: u64, backups: u32, user: Option<&str>) -> Result<Self, Error> {
        let fail = |source: io::Error| Error::Open { path: path.to_owned(), source };
        let missing = path.parent().filter(|directory| !directory.is_dir());
        if let Some(directory) = missing {
            create_directories(directory).map_err(fail)?;
        }
        let (file, is_link) = open(path).map_err(fail)?;
        if let Some(owner) = user.and_then(|user| User::from_name(user).ok().flatten()) {
            let owner = owner.uid.as_raw();
            // Only root may give files away; for others the file is theirs already. A directory made here goes along:
            // the user has to reopen the file when it was moved away.
            let _ = missing.map(|directory| rt::owned::give(directory, owner, None));
            if !is_link {
                let _ = rt::owned::give_open(&file, owner, None);
            }
        }
        // What a link leads to is not ours alone.
        if !is_link {
            close(&file);
        }
        let identity = identity(&file).map_err(fail)?;
        Ok(LogFile { path: path.to_owned(), file, identity, max_bytes, backups })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If it cannot be written, or the file was moved away and cannot be opened again.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        let text = format!("{line}\n");
        if self.max_bytes > 0 && self.backups > 0 {
            // As Python's handler: rotated before the line that would reach the limit.
            if self.file.metadata()?.len() + text.len() as u64 >= self.max_bytes {
                self.put_aside()?;
            }
        } else if self.was_moved() {
            // logrotate moves the file away without a notice, so each line checks.
            self.reopen()?;
        }
        self.file.write_all(text.as_bytes())
    }

    fn was_moved(&self) -> bool {
        match self.path.metadata() {
            Ok(found) => (found.dev(), found.ino()) != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?.0;
        self.identity = identity(&self.file)?;
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut path = self.path.as_os_str().to_owned();
            path.push(format!(".{number}"));
            PathBuf::from(path)
        };
        // From the oldest on, so that no rename overwrites a file that is needed.
        for number in (1..self.backups).rev() {
            let old = numbered(number);
            if old.exists() {
                std::fs::rename(old, numbered(number + 1))?;
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        self.reopen()
    }
}

/// Returns also whether the path is a link.
fn open(path: &Path) -> io::Result<(File, bool)> {
    // Returns, commands and names of hosts are in it.
    rt::owned::open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, Mode::from_raw_mode(0o640))
}

/// An older file may be open to all. A place that is not a file, such as `/dev/null`, is not ours.
fn close(file: &File) {
    use std::os::unix::fs::PermissionsExt;
    if let Ok(found) = file.metadata()
        && found.is_file()
        && found.mode() & 0o027 != 0
    {
        // Only its owner may; others write to it as before.
        let _ = file.set_permissions(std::fs::Permissions::from_mode(found.mode() & 0o750));
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino()))
}

/// Makes the directory of a log, which is closed to others, and those above it, which are not.
fn create_directories(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(above)?;
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path)
}

// === impl Syslog ===

/// A log server, in the old form of the protocol: `<priority>line` and a zero.
#[derive(Debug)]
pub(crate) struct Syslog {
    facility: u32,
    address: Address,
    /// None as long as no server receives messages at the address.
    socket: Option<Socket>,
    /// True if the warning that no server receives messages was printed.
    missed: bool,
}

/// Salt's words; people search for them.
const MISSING: &str =
    "[WARNING ] The log_file does not exist. Logging not setup correctly or syslog service not started.";

#[derive(Debug, PartialEq, Eq)]
enum Address {
    Path(PathBuf),
    Udp(String),
    Tcp(String),
}

#[derive(Debug)]
enum Socket {
    Datagram(UnixDatagram),
    Stream(UnixStream),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Syslog {
    /// Connects to `file:///dev/log`, `udp://host:514` or `tcp://host:514`, each with a facility after a slash or
    /// without.
    pub(crate) fn open(address: &str) -> Result<Self, Error> {
        let fail = |what: String| Error::Syslog { address: address.to_owned(), what };
        let (place, facility) = parse_address(address).map_err(fail)?;
        let socket = match connect(&place) {
            Ok(socket) => Some(socket),
            // As in Salt, a missing log server does not stop the program.
            Err(_) if matches!(place, Address::Path(_)) => None,
            Err(error) => return Err(fail(error.to_string())),
        };
        Ok(Syslog { facility, address: place, socket, missed: false })
    }

    fn write(&mut self, level: Level, line: &str) -> io::Result<()> {
        self.write_or_complain(level, line, &mut io::stderr())
    }

    /// Writes a line. Once per missing socket, complains to `console` instead.
    fn write_or_complain(&mut self, level: Level, line: &str, console: &mut dyn Write) -> io::Result<()> {
        let message = format!("<{}>{line}\0", self.facility << 3 | severity(level));
        if self.socket.as_mut().is_some_and(|socket| send(socket, message.as_bytes()).is_ok()) {
            return Ok(());
        }
        // The server may have been restarted.
        let sent = connect(&self.address).and_then(|socket| send(self.socket.insert(socket), message.as_bytes()));
        match &sent {
            // A missing socket is reported once, not with each line.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.socket = None;
                if !std::mem::replace(&mut self.missed, true) {
                    // A closed console leaves no place to report the error.
                    let _ = writeln!(console, "{MISSING}");
                }
                Ok(())
            }
            _ => {
                self.missed = false;
                sent
            }
        }
    }
}

fn parse_address(address: &str) -> Result<(Address, u32), String> {
    let (scheme, rest) = address.split_once("://").ok_or("no scheme")?;
    if scheme == "file" {
        return Ok(match rest.rsplit_once('/') {
            Some((path, last)) if last.to_uppercase().starts_with("LOG_") => {
                (Address::Path(path.into()), facility(last)?)
            }
            _ => (Address::Path(rest.into()), 1),
        });
    }
    let (host, number) = match rest.split_once('/') {
        Some((host, name)) if !name.is_empty() => (host, facility(name)?),
        Some((host, _)) => (host, 1),
        None => (rest, 1),
    };
    let ported =
        // The last colon of an IPv6 address without brackets is not that of a port.
        host.rsplit_once(':').is_some_and(|(before, port)| port.parse::<u16>().is_ok() && !before.ends_with(':'));
    let host = if ported { host.to_owned() } else { format!("{host}:514") };
    match scheme {
        "udp" => Ok((Address::Udp(host), number)),
        "tcp" => Ok((Address::Tcp(host), number)),
        other => Err(format!("the scheme '{other}' is not known")),
    }
}

fn facility(name: &str) -> Result<u32, String> {
    let name = name.to_uppercase();
    let known = [
        "KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV", "FTP", "NTP",
        "SECURITY", "CONSOLE", "SOLCRON", "LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6",
        "LOCAL7",
    ];
    let found = name.strip_prefix("LOG_").and_then(|short| known.iter().position(|known| *known == short));
    found.map(|place| place as u32).ok_or_else(|| format!("The syslog facility '{name}' is not known"))
}

/// Levels Python's handler does not know count as warnings.
fn severity(level: Level) -> u32 {
    match level {
        Level::CRITICAL => 2,
        Level::ERROR => 3,
        Level::INFO => 6,
        Level::DEBUG => 7,
        _ => 4,
    }
}

fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Path(path) => {
            let datagram = UnixDatagram::unbound()?;
            // Some log daemons listen on a stream at this path.
            match datagram.connect(path) {
                Ok(()) => Ok(Socket::Datagram(datagram)),
                Err(_) => UnixStream::connect(path).map(Socket::Stream),
            }
        }
        Address::Udp(host) => {
            let local = if host.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(local)?;
            socket.connect(host)?;
            Ok(Socket::Udp(socket))
        }
        Address::Tcp(host) => TcpStream::connect(host).map(Socket::Tcp),
    }
}

fn send(socket: &mut Socket, message: &[u8]) -> io::Result<()> {
    match socket {
        Socket::Datagram(socket) => socket.send(message).map(drop),
        Socket::Stream(socket) => socket.write_all(message),
        Socket::Udp(socket) => socket.send(message).map(drop),
        Socket::Tcp(socket) => socket.write_all(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_log_servers_are_read() {
        for (text, address, facility) in [
            ("file:///dev/log", Address::Path("/dev/log".into()), 1),
            ("file:///dev/log/LOG_DAEMON", Address::Path("/dev/log".into()), 3),
            ("udp://loghost", Address::Udp("loghost:514".into()), 1),
            ("udp://loghost:5145/LOG_KERN", Address::Udp("loghost:5145".into()), 0),
            ("tcp://10.0.0.1:514/log_local7", Address::Tcp("10.0.0.1:514".into()), 23),
        ] {
            assert_eq!(parse_address(text), Ok((address, facility)), "{text}");
        }
        assert!(parse_address("udp://h/LOG_NOPE").unwrap_err().contains("LOG_NOPE"));
        assert!(parse_address("http://h").is_err());
    }

    #[test]
    fn a_server_gets_priority_line_and_zero() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut syslog = Syslog::open(&format!("file://{}", path.display())).unwrap();
        syslog.write(Level::ERROR, "oh").unwrap();
        let mut buffer = [0; 16];
        let size = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..size], b"<11>oh\0");
    }

    #[test]
    fn a_server_that_starts_later_gets_what_comes_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut syslog = Syslog::open(&format!("file://{}", path.display())).unwrap();
        let mut console = Vec::new();
        for _ in 0..2 {
            syslog.write_or_complain(Level::ERROR, "lost", &mut console).unwrap();
        }
        let complaint =
            "[WARNING ] The log_file does not exist. Logging not setup correctly or syslog service not started.\n";
        assert_eq!(String::from_utf8(console).unwrap(), complaint, "it is said once that nobody listens");
        let server = UnixDatagram::bind(&path).unwrap();
        syslog.write(Level::ERROR, "oh").unwrap();
        let mut buffer = [0; 16];
        let size = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..size], b"<11>oh\0");
    }

    #[test]
    fn a_file_that_was_open_to_all_is_closed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for (before, after) in [(0o644, 0o640), (0o600, 0o600), (0o664, 0o640)] {
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
            drop(LogFile::open(&path, 0, 0, None).unwrap());
            assert_eq!(path.metadata().unwrap().mode() & 0o777, after);
        }
    }

    #[test]
    fn a_moved_file_is_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/log");
        let mut log = LogFile::open(&path, 0, 0, None).unwrap();
        log.write("one").unwrap();
        // As logrotate does.
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        log.write("two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_large_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile::open(&path, 10, 2, None).unwrap();
        for line in ["aaaa", "bbbb", "cccc", "dddd"] {
            log.write(line).unwrap();
        }
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((text("log"), text("log.1"), text("log.2")), ("dddd\n".into(), "cccc\n".into(), "bbbb\n".into()));
        assert!(!dir.path().join("log.3").exists());
    }
}
