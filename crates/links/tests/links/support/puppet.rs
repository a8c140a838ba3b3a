//! A peer that speaks the protocol of links as a test wants, frame by frame.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslVerifyMode, SslVersion};
use rt::sim::Sim;
use rt::{BoxStream, Connect};
use share::Lane;
use share::fields::{number, packed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_openssl::SslStream;
use value::Value;
use wire::msgpack::{Decode, unpack_bytes};

use super::{PORT, key, node};

/// The number of the member whose key puppets have.
pub const PUPPET: u8 = 9;

/// Connects the host `stranger` to the first member.
pub async fn connect(sim: &Sim) -> BoxStream {
    let rt = sim.rt("stranger");
    let to = rt.net().resolve("m1", PORT).await.unwrap()[0];
    rt.net().connect(&Connect::to(to)).await.unwrap().stream
}

/// Returns after how long the other side has closed the connection.
pub async fn closed_after(stream: &mut (impl AsyncReadExt + Unpin)) -> Duration {
    let start = Instant::now();
    let mut all = Vec::new();
    // An end and a reset are the same here.
    let _ = timeout(Duration::from_secs(60), stream.read_to_end(&mut all)).await.expect("it is closed");
    start.elapsed()
}

/// A connection after TLS.
pub struct Puppet(pub SslStream<BoxStream>);

impl Puppet {
    /// Dials the first member from the host `stranger`.
    pub async fn dial(sim: &Sim) -> Puppet {
        let mut stream = SslStream::new(Ssl::new(&context()).unwrap(), connect(sim).await).unwrap();
        Pin::new(&mut stream).connect().await.unwrap();
        Puppet(stream)
    }

    /// Answers a member that has dialled.
    pub async fn answer(stream: BoxStream) -> Puppet {
        let mut stream = SslStream::new(Ssl::new(&context()).unwrap(), stream).unwrap();
        Pin::new(&mut stream).accept().await.unwrap();
        Puppet(stream)
    }

    pub async fn send(&mut self, fields: Vec<Value>) {
        let content = packed(fields);
        let len = (content.len() as u32).to_be_bytes();
        self.0.write_all(&[&len[..], &content].concat()).await.unwrap();
    }

    /// Returns the next frame; `None` if the connection is closed.
    pub async fn frame(&mut self) -> Option<Vec<Value>> {
        let len = timeout(Duration::from_secs(10), self.0.read_u32()).await.expect("something comes").ok()?;
        let mut content = vec![0; len as usize];
        self.0.read_exact(&mut content).await.ok()?;
        unpack_bytes(&content.into(), Decode::Default).unwrap().into_list()
    }

    /// Becomes a lane of a link to the first member, of which this one is a member.
    pub async fn link(sim: &Sim, lane: Lane) -> Puppet {
        let mut puppet = Puppet::dial(sim).await;
        puppet.send(hello("m9", lane, true, false)).await;
        assert_eq!(kind(&puppet.frame().await.unwrap()), "hello");
        if node(PUPPET) > node(1) {
            puppet.send(welcome(0)).await;
            assert_eq!(kind(&puppet.frame().await.unwrap()), "welcome");
        } else {
            assert_eq!(kind(&puppet.frame().await.unwrap()), "welcome");
            puppet.send(welcome(1)).await;
        }
        puppet
    }
}

fn context() -> SslContext {
    let key = key(PUPPET);
    let mut certificate = openssl::x509::X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_not_before(&openssl::asn1::Asn1Time::from_unix(0).unwrap()).unwrap();
    certificate.set_not_after(&openssl::asn1::Asn1Time::from_unix(1).unwrap()).unwrap();
    certificate.set_pubkey(key.openssl()).unwrap();
    certificate.sign(key.openssl(), openssl::hash::MessageDigest::null()).unwrap();
    let mut context = SslContext::builder(SslMethod::tls()).unwrap();
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
    context.set_certificate(&certificate.build()).unwrap();
    context.set_private_key(key.openssl()).unwrap();
    context.set_verify_callback(SslVerifyMode::PEER, |_, _| true);
    context.build()
}

pub fn kind(frame: &[Value]) -> &str {
    frame[0].as_str().expect("a kind is a text")
}

pub fn hello(name: &str, lane: Lane, knows_you: bool, has_secret: bool) -> Vec<Value> {
    let none = || Value::bytes(Bytes::new());
    vec![
        "hello".into(),
        number(1),
        number(1),
        "prod".into(),
        name.into(),
        number(lane as u64),
        number(77),
        Value::List(vec![number(0), number(0)]),
        knows_you.into(),
        number(1),
        Value::List(vec![]),
        has_secret.into(),
        none(),
        none(),
        number(1_577_836_800_000),
        "0.1.0".into(),
    ]
}

fn report() -> Value {
    Value::List(vec![Value::List(vec![]), number(0), number(0), number(0), number(0)])
}

fn welcome(link: u64) -> Vec<Value> {
    vec!["welcome".into(), number(link), Value::List(vec![]), report()]
}

pub fn ping(count: u64, linked: Vec<Value>) -> Vec<Value> {
    vec!["ping".into(), number(count), number(1_577_836_800_000), Value::List(linked), report()]
}
