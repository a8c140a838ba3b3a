//! The operating system's network, through tokio.

use std::io;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::net::{Connect, Connection, Keepalive, Listen, Listener, Net};

/// The operating system's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioNet;

impl Net for TokioNet {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
            // A name may resolve to nothing without an error; callers take the first address.
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
            }
            Ok(found)
        })
    }

    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let attempt = tokio::time::timeout(connect.timeout, open(connect));
            let stream = attempt.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            connection(stream, connect.keepalive)
        })
    }

    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let socket = socket_for(&listen.at)?;
            // A restarted master must get its port back at once, while old connections are still in TIME_WAIT.
            socket.set_reuseaddr(true)?;
            if listen.at.is_ipv6() {
                // An IPv6 wildcard takes both families, whatever `net.ipv6.bindv6only` says.
                SockRef::from(&socket).set_only_v6(false)?;
            }
            socket.bind(listen.at)?;
            let inner = socket.listen(listen.backlog)?;
            Ok(Box::new(TokioListener { inner, keepalive: listen.keepalive }) as Box<dyn Listener>)
        })
    }
}

struct TokioListener {
    inner: TcpListener,
    keepalive: Option<Keepalive>,
}

impl Listener for TokioListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(async move {
            let (stream, _) = self.inner.accept().await?;
            connection(stream, self.keepalive)
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

async fn open(connect: &Connect) -> io::Result<TcpStream> {
    let socket = socket_for(&connect.to)?;
    if let Some(from) = connect.from {
        match from.port() {
            // `connect` chooses the port: choosing it here would look at all ports in use.
            0 => setsockopt(&socket, IpBindAddressNoPort, &true)?,
            // A fixed source port (`source_ret_port`) is used again right after the last connection has ended.
            _ => socket.set_reuseaddr(true)?,
        }
        socket.bind(from)?;
    }
    socket.connect(connect.to).await
}

fn socket_for(address: &SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

fn connection(stream: TcpStream, keepalive: Option<Keepalive>) -> io::Result<Connection> {
    // Nagle's algorithm would hold a small message back until the one before is acknowledged.
    stream.set_nodelay(true)?;
    if let Some(settings) = keepalive {
        SockRef::from(&stream).set_tcp_keepalive(&settings.into())?;
    }
    let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
    Ok(Connection { stream: Box::new(stream), peer, local })
}

impl From<Keepalive> for TcpKeepalive {
    fn from(settings: Keepalive) -> Self {
        // An option that is not set keeps the system's value, as with ZeroMQ's -1.
        let mut out = TcpKeepalive::new();
        if let Some(idle) = settings.idle {
            out = out.with_time(idle);
        }
        if let Some(interval) = settings.interval {
            out = out.with_interval(interval);
        }
        if let Some(count) = settings.count {
            out = out.with_retries(count);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::{Connect, Listen, Rt};

    #[tokio::test]
    async fn a_connection_carries_bytes_and_has_addresses() {
        let rt = Rt::real();
        let listener = rt.net().listen(&Listen::at("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let mut to = Connect::to(listener.local_addr().unwrap());
        // The whole of 127/8 is local: a source address can be tested without a second interface.
        to.from = Some("127.0.0.9:0".parse().unwrap());
        let (near, far) = tokio::join!(rt.net().connect(&to), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_eq!((near.peer, near.local), (far.local, far.peer));
        assert_eq!(far.peer.ip().to_string(), "127.0.0.9");
        near.stream.write_all(b"hello").await.unwrap();
        let mut got = [0; 5];
        far.stream.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"hello");
    }

    #[tokio::test]
    async fn a_literal_address_needs_no_resolver() {
        let found = Rt::real().net().resolve("::1", 4506).await.unwrap();
        assert_eq!(found, ["[::1]:4506".parse().unwrap()]);
    }
}
