//! The simulated network as programs see it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::life::Life;
use super::world::{End, Item, Listening, Syn, WINDOW, World};
use crate::{Connect, Connection, Listen, Listener, Net};

/// The network as the program of one host sees it.
pub(crate) struct SimNet {
    pub(crate) world: Arc<World>,
    pub(crate) life: Arc<Life>,
}

/// One end of a simulated connection.
pub(crate) struct SimStream {
    world: Arc<World>,
    pub(crate) inbound: u64,
    outbound: u64,
}

struct SimListener {
    world: Arc<World>,
    key: (usize, u16),
    life: u64,
    at: SocketAddr,
}

impl SimNet {
    fn end(&self) -> End {
        End { host: self.life.host, life: self.life.number }
    }

    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // Literal addresses need no resolver, as in the real network.
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let state = self.world.state();
        let known = state.host(host).map(|number| &state.hosts[number]).filter(|host| host.resolves);
        match known {
            Some(host) => Ok(vec![SocketAddr::new(host.ip, port)]),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("{host}: name or service not known"))),
        }
    }

    async fn connect_now(&self, connect: &Connect) -> io::Result<Connection> {
        let (answer, answered) = oneshot::channel();
        let port = match connect.from.map(|from| from.port()).filter(|port| *port > 0) {
            Some(port) => port,
            None => self.world.state().free_port(self.life.host),
        };
        // The peer sees the host's address; this end only needs its port.
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let syn = Syn { from: self.end(), local, to: connect.to, tries: 0, keepalive: connect.keepalive, answer };
        self.world.ask(syn);
        // The world is gone, or the packet was given up: both look like a timeout.
        let met = answered.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(Connection { stream: Box::new(met.stream), peer: met.peer, local: met.local })
    }

    fn listen_now(&self, listen: &Listen) -> io::Result<SimListener> {
        let mut state = self.world.state();
        let port = if listen.at.port() == 0 { state.free_port(self.life.host) } else { listen.at.port() };
        let (key, at) = ((self.life.host, port), SocketAddr::new(listen.at.ip(), port));
        // As the kernel: one listener per port.
        if state.listeners.contains_key(&key) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let life = self.life.number;
        let listening = Listening { at, life, keepalive: listen.keepalive, waiting: Default::default(), waker: None };
        state.listeners.insert(key, listening);
        Ok(SimListener { world: self.world.clone(), key, life, at })
    }
}

impl Net for SimNet {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            // A resolver is never instant: callers must not rely on it.
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.look_up(host, port)
        })
    }

    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let made = tokio::time::timeout(connect.timeout, self.connect_now(connect)).await;
            made.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        })
    }

    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move { Ok(Box::new(self.listen_now(listen)?) as Box<dyn Listener>) })
    }
}

impl Listener for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(std::future::poll_fn(|context| {
            let mut state = self.world.state();
            // A listener of a killed program never accepts again, even if the next run has the same port.
            let Some(listening) = state.listeners.get_mut(&self.key).filter(|known| known.life == self.life) else {
                return Poll::Pending;
            };
            match listening.waiting.pop_front() {
                Some((stream, peer, local)) => Poll::Ready(Ok(Connection { stream: Box::new(stream), peer, local })),
                None => {
                    listening.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.at)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.world.state();
        // The next run of the program may listen on this port already.
        let mine = state.listeners.get(&self.key).is_some_and(|known| known.life == self.life);
        let closed = if mine { state.listeners.remove(&self.key) } else { None };
        drop(state);
        // Connections that nobody accepted are closed, which needs the lock.
        drop(closed);
    }
}

impl SimStream {
    pub(crate) fn new(world: Arc<World>, inbound: u64, outbound: u64) -> Self {
        SimStream { world, inbound, outbound }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.world.state();
        // A forgotten connection has ended.
        let Some(pipe) = state.pipe(self.inbound) else { return Poll::Ready(Ok(())) };
        // Bytes that arrived before a reset are read first.
        if pipe.inbox.is_empty() {
            if let Some(kind) = pipe.broken {
                return Poll::Ready(Err(kind.into()));
            }
            if pipe.fin {
                return Poll::Ready(Ok(()));
            }
            pipe.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        while let Some(first) = pipe.inbox.front_mut().filter(|_| into.remaining() > 0) {
            let len = first.len().min(into.remaining());
            into.put_slice(&first[..len]);
            first.advance(len);
            pipe.in_flight -= len;
            if first.is_empty() {
                pipe.inbox.pop_front();
            }
        }
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.world.state();
        let broken = Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        // The connection is gone: the other end closed it, and nobody is left to read.
        let Some(pipe) = state.pipe(self.outbound) else { return broken };
        if pipe.broken.is_some() {
            return broken;
        }
        // Without a window a sender could fill the memory while the link is cut.
        let room = WINDOW.saturating_sub(pipe.in_flight);
        if room == 0 {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let len = bytes.len().min(room);
        pipe.in_flight += len;
        // `send` takes the lock itself.
        drop(state);
        self.world.send(self.outbound, Item::Data(Bytes::copy_from_slice(&bytes[..len])));
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.world.state().close_writer(self.outbound, Instant::now());
        self.world.wake_courier();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.world.state();
        state.close_writer(self.outbound, Instant::now());
        state.close_reader(self.inbound);
        drop(state);
        self.world.wake_courier();
    }
}
