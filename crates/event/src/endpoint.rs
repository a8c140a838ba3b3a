//! The sockets of a bus.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{self, FileStat};
use rt::{BoxStream, Connect, Listen, Listener, Rt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// One socket of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Path(PathBuf),
    /// A port of the loopback interface (`ipc_mode: tcp`).
    Port(SocketAddr),
}

/// The two sockets of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The socket that programs listen on.
    pub publish: Endpoint,
    /// The socket that programs send to.
    pub pull: Endpoint,
    /// The mode of the publish socket's file. The pull socket always has 0600.
    pub publish_mode: u32,
}

impl Endpoints {
    /// The sockets of a master: `master_event_pub.ipc` (0660) and `master_event_pull.ipc` (0600) in `sock_dir`.
    pub fn master(sock_dir: &Path) -> Self {
        Endpoints {
            publish: Endpoint::Path(sock_dir.join("master_event_pub.ipc")),
            pull: Endpoint::Path(sock_dir.join("master_event_pull.ipc")),
            // Members of the master's group may listen to events, but only the master's own user may send any.
            publish_mode: 0o660,
        }
    }

    /// The sockets of a minion, named with the first ten digits of the hash of its id: `hash_type`
    /// (sha256) in hexadecimal over the option `hash_id`, or `id` when there is none.
    pub fn minion(sock_dir: &Path, id_hash: &str) -> Self {
        // Salt shortens the hash to keep the path below the limit of Unix sockets.
        let hash = id_hash.get(..10).unwrap_or(id_hash);
        Endpoints {
            publish: Endpoint::Path(sock_dir.join(format!("minion_event_{hash}_pub.ipc"))),
            pull: Endpoint::Path(sock_dir.join(format!("minion_event_{hash}_pull.ipc"))),
            publish_mode: 0o600,
        }
    }

    /// The ports of `ipc_mode: tcp`: on `::1` with the option `ipv6`, on 127.0.0.1 otherwise. Masters use
    /// `tcp_master_pub_port` 4512 and `tcp_master_pull_port` 4513, minions `tcp_pub_port` 4510 and `tcp_pull_port`
    /// 4511.
    pub fn tcp(publish_port: u16, pull_port: u16, ipv6: bool) -> Self {
        let host = if ipv6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
        Endpoints {
            publish: Endpoint::Port(SocketAddr::new(host, publish_port)),
            pull: Endpoint::Port(SocketAddr::new(host, pull_port)),
            publish_mode: 0o600,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Path(path) => write!(f, "{}", path.display()),
            Endpoint::Port(address) => write!(f, "{address}"),
        }
    }
}

/// A connection, and the process at its other end if the system knows it.
pub(crate) struct Peer {
    pub(crate) stream: BoxStream,
    pub(crate) pid: Option<i32>,
}

impl Peer {
    fn unix(stream: UnixStream) -> Self {
        // A process outside this PID namespace has pid 0.
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0);
        Peer { stream: Box::new(stream), pid }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // Events are small, and waiting to fill a packet would delay each of them.
        stream.set_nodelay(true)?;
        Ok(Peer { stream: Box::new(stream), pid: None })
    }
}

/// Connects to a socket.
pub(crate) async fn connect(rt: &Rt, endpoint: &Endpoint) -> io::Result<Peer> {
    match endpoint {
        Endpoint::Path(path) => {
            check_length(path)?;
            UnixStream::connect(path).await.map(Peer::unix)
        }
        Endpoint::Port(address) => {
            let connection = rt.net().connect(&Connect { keepalive: None, ..Connect::to(*address) }).await?;
            Ok(Peer { stream: connection.stream, pid: None })
        }
    }
}

/// A listening socket; its file is removed with it.
pub(crate) enum ListeningSocket {
    Unix { listener: UnixListener, at_once: std::os::unix::net::UnixListener, _file: SocketFile },
    Tcp { listener: TcpListener, at_once: std::net::TcpListener },
    Simulated(Box<dyn Listener>),
}

/// An accepted connection. One that was accepted outside the runtime is registered with it later.
pub(crate) enum Accepted {
    Unix(std::os::unix::net::UnixStream),
    Tcp(std::net::TcpStream),
    Ready(Peer),
}

impl Accepted {
    /// Returns the connection. Must be called inside a runtime.
    pub(crate) fn into_peer(self) -> io::Result<Peer> {
        match self {
            Accepted::Unix(stream) => {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream).map(Peer::unix)
            }
            Accepted::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream).and_then(Peer::tcp)
            }
            Accepted::Ready(peer) => Ok(peer),
        }
    }
}

impl ListeningSocket {
    /// Opens a socket. A file left by a dead process is replaced, one with a listener is not.
    pub(crate) async fn open(rt: &Rt, endpoint: &Endpoint, mode: u32) -> io::Result<Self> {
        match endpoint {
            Endpoint::Path(path) => {
                refuse_living(path).await?;
                let (at_once, file) = bind_atomically(path, mode, |path| std::os::unix::net::UnixListener::bind(path))?;
                at_once.set_nonblocking(true)?;
                // The same socket twice: tokio's listener waits for connections, the plain one accepts them on any
                // thread, without a runtime.
                let listener = UnixListener::from_std(at_once.try_clone()?)?;
                Ok(ListeningSocket::Unix { listener, at_once, _file: file })
            }
            Endpoint::Port(address) if rt.is_simulated() => {
                rt.net().listen(&Listen::at(*address)).await.map(ListeningSocket::Simulated)
            }
            Endpoint::Port(address) => {
                let at_once = std::net::TcpListener::bind(address)?;
                at_once.set_nonblocking(true)?;
                let listener = TcpListener::from_std(at_once.try_clone()?)?;
                Ok(ListeningSocket::Tcp { listener, at_once })
            }
        }
    }

    /// Accepts a waiting connection; `WouldBlock` if there is none. Needs no runtime.
    pub(crate) fn try_accept(&self) -> io::Result<Accepted> {
        if !self.has_waiting()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match self {
            ListeningSocket::Unix { at_once, .. } => at_once.accept().map(|(stream, _)| Accepted::Unix(stream)),
            ListeningSocket::Tcp { at_once, .. } => at_once.accept().map(|(stream, _)| Accepted::Tcp(stream)),
            // A simulated network has no backlog that could be emptied at once.
            ListeningSocket::Simulated(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Returns whether a connection waits. Asked for each event: `accept` makes a socket before it looks, and costs several
    /// times as much.
    fn has_waiting(&self) -> io::Result<bool> {
        let socket = match self {
            ListeningSocket::Unix { at_once, .. } => at_once.as_fd(),
            ListeningSocket::Tcp { at_once, .. } => at_once.as_fd(),
            ListeningSocket::Simulated(_) => return Ok(false),
        };
        let mut asked = [PollFd::new(socket, PollFlags::POLLIN)];
        Ok(poll(&mut asked, PollTimeout::ZERO)? > 0)
    }

    /// Waits for a connection and calls `attend` for it. `guard` is held while a connection is accepted and attended to.
    /// Cancel-safe.
    pub(crate) async fn wait<G>(&self, guard: impl Fn() -> G, attend: impl Fn(Accepted)) -> io::Result<()> {
        if let ListeningSocket::Simulated(listener) = self {
            let connection = listener.accept().await?;
            attend(Accepted::Ready(Peer { stream: connection.stream, pid: None }));
            return Ok(());
        }
        std::future::poll_fn(|context| {
            let _guard = guard();
            self.poll_accept(context).map_ok(|peer| attend(Accepted::Ready(peer)))
        })
        .await
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Peer>> {
        match self {
            ListeningSocket::Unix { listener, .. } => {
                listener.poll_accept(context).map_ok(|(stream, _)| Peer::unix(stream))
            }
            ListeningSocket::Tcp { listener, .. } => {
                listener.poll_accept(context).map(|accepted| Peer::tcp(accepted?.0))
            }
            ListeningSocket::Simulated(_) => Poll::Pending,
        }
    }
}

/// The maximum length of a Unix socket's path in bytes.
const MAX_PATH: usize = 107;

/// The system's own message does not say what to do.
fn check_length(path: &Path) -> io::Result<()> {
    let len = path.as_os_str().len();
    if len <= MAX_PATH {
        return Ok(());
    }
    let problem = format!(
        "the path has {len} bytes, and that of a Unix socket may have {MAX_PATH}: choose a shorter 'sock_dir', or set \
         'ipc_mode: tcp'"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// A socket file that only has to exist: Salt's command line refuses to talk to a master whose `publish_pull.ipc` is
/// missing, but never connects to it. No other program can either, because nothing listens.
#[derive(Debug)]
pub struct PlaceholderSocket {
    _socket: std::os::unix::net::UnixDatagram,
    _file: SocketFile,
}

impl PlaceholderSocket {
    /// Creates the file with mode 0600. It is removed when this is dropped.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (socket, file) = bind_atomically(path, 0o600, |path| std::os::unix::net::UnixDatagram::bind(path))?;
        Ok(PlaceholderSocket { _socket: socket, _file: file })
    }
}

/// A socket's file. It is removed on drop, if it is still the same one.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if stat::lstat(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            // If this fails it leaves a file without a listener, which the next start replaces.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(file: &FileStat) -> (u64, u64) {
    (file.st_dev, file.st_ino)
}

/// Binds under a temporary name, sets the mode and renames, so that the socket never appears with a wrong mode, and a
/// stale file is replaced atomically.
fn bind_atomically<T>(
    path: &Path,
    mode: u32,
    bind: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<(T, SocketFile)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    check_length(path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    // Shorter than the names of the sockets, so it fits wherever they do.
    let passing = directory.join(format!(".{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let _ = fs::remove_file(&passing);
    let socket = bind(&passing)?;
    let placed = fs::set_permissions(&passing, Permissions::from_mode(mode))
        .and_then(|()| stat::lstat(&passing).map_err(io::Error::from))
        .and_then(|file| fs::rename(&passing, path).map(|()| identity(&file)));
    match placed {
        Ok(identity) => Ok((socket, SocketFile { path: path.to_owned(), identity })),
        Err(error) => {
            let _ = fs::remove_file(&passing);
            Err(error)
        }
    }
}

async fn refuse_living(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket is in the way"))
        }
        // A file alone proves nothing: a killed daemon leaves it. Only a living one accepts.
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process is listening on it"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn socket_names_are_those_of_salt() {
        let dir = Path::new("/run");
        assert_eq!(Endpoints::master(dir).pull.to_string(), "/run/master_event_pull.ipc");
        let minion = Endpoints::minion(dir, "0123456789abcdef");
        assert_eq!(minion.publish.to_string(), "/run/minion_event_0123456789_pub.ipc");
        assert_eq!(Endpoints::tcp(4512, 4513, true).pull.to_string(), "[::1]:4513");
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.ipc");
        let endpoint = Endpoint::Path(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let first = ListeningSocket::open(&Rt::real(), &endpoint, 0o660).await.unwrap();
        assert_eq!(mode(&path), 0o660);
        let second = ListeningSocket::open(&Rt::real(), &endpoint, 0o660).await;
        assert_eq!(second.err().unwrap().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_is_reported_with_a_hint() {
        let endpoint = Endpoint::Path(format!("/{}/s.ipc", "d".repeat(110)).into());
        for error in [
            ListeningSocket::open(&Rt::real(), &endpoint, 0o600).await.err().unwrap(),
            connect(&Rt::real(), &endpoint).await.err().unwrap(),
        ] {
            assert!(error.to_string().contains("sock_dir"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_ordinary_file_in_the_way_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.ipc");
        fs::write(&path, "mine").unwrap();
        assert!(ListeningSocket::open(&Rt::real(), &Endpoint::Path(path.clone()), 0o600).await.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn the_placeholder_exists_while_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("publish_pull.ipc");
        let first = PlaceholderSocket::create(&path).unwrap();
        let second = PlaceholderSocket::create(&path).unwrap();
        drop(first);
        assert_eq!(mode(&path), 0o600);
        drop(second);
        assert!(!path.exists());
    }
}
