//! A simulated world, under turmoil (feature `sim`): hosts of one process whose network, clock and randomness follow from a
//! seed. Only for tests.

use std::io;
use std::net::SocketAddr;
use std::time::SystemTime;

use futures_util::future::BoxFuture;

use crate::{Clock, Connect, Connection, Listen, Listener, Net, Rt, SeededRandom};

/// Turmoil's network. Names are those of its hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimNet;

/// Turmoil's time of day, which starts at its `epoch` and goes on with the simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimClock;

struct SimListener(turmoil::net::TcpListener);

/// Returns a handle to the simulated world for one host. Hosts with the same seed have the same random bytes.
pub fn simulated(seed: u64) -> Rt {
    Rt::new(SimNet, SimClock, SeededRandom::new(seed))
}

impl Net for SimNet {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::new(turmoil::lookup(host), port)]) })
    }

    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let attempt = tokio::time::timeout(connect.timeout, turmoil::net::TcpStream::connect(connect.to));
            let stream = attempt.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
            Ok(Connection { stream: Box::new(stream), peer, local })
        })
    }

    fn listen<'a>(&'a self, listen: &'a Listen) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = turmoil::net::TcpListener::bind(listen.at).await?;
            Ok(Box::new(SimListener(listener)) as Box<dyn Listener>)
        })
    }
}

impl Listener for SimListener {
    fn accept(&self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(async move {
            let (stream, peer) = self.0.accept().await?;
            let local = stream.local_addr()?;
            Ok(Connection { stream: Box::new(stream), peer, local })
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Clock for SimClock {
    fn now(&self) -> SystemTime {
        turmoil::since_epoch().map_or(SystemTime::UNIX_EPOCH, |since| SystemTime::UNIX_EPOCH + since)
    }
}
