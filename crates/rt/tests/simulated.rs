//! The seam holds a simulated network as well as the real one.

use std::io;
use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use saltern_rt::{Connect, Connection, Listen, Listener, Net, Rt, SeededRandom, WallClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct SimNet;

struct SimListener(turmoil::net::TcpListener);

impl Net for SimNet {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::new(turmoil::lookup(host), port)]) })
    }

    fn connect<'a>(&'a self, connect: &'a Connect) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let stream = turmoil::net::TcpStream::connect(connect.to).await?;
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

#[test]
fn two_simulated_hosts_talk() {
    let rt = || Rt::new(SimNet, WallClock, SeededRandom::new(7));
    let mut sim = turmoil::Builder::new().rng_seed(7).build();
    sim.host("master", move || async move {
        let listener = rt().net().listen(&Listen::at("0.0.0.0:4506".parse()?)).await?;
        let mut met = listener.accept().await?;
        met.stream.write_all(b"salt").await?;
        Ok(())
    });
    sim.client("minion", async move {
        let rt = rt();
        let to = rt.net().resolve("master", 4506).await?[0];
        let mut met = rt.net().connect(&Connect::to(to)).await?;
        let mut got = String::new();
        met.stream.read_to_string(&mut got).await?;
        assert_eq!(got, "salt");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_seed_gives_the_same_bytes() {
    let bytes = |seed| Rt::new(SimNet, WallClock, SeededRandom::new(seed)).bytes::<16>();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}
