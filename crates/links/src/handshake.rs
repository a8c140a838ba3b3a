//! From a TCP connection to a proven member: TLS, `hello` both ways, and proofs if the two do not know each other.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use crypto::MEMBER_KEY_LEN;
use rt::BoxStream;
use share::{Lane, Malformed, Node};
use tokio::io::AsyncWriteExt;

use crate::checks::{Facts, Refusal, judge};
use crate::first_bytes::{Peeked, peek};
use crate::frame::{self, FrameReader};
use crate::hub::Hub;
use crate::kind::{FORMAT, Frame, Hello, OLDEST_FORMAT};
use crate::members::{Newcomer, Standing};
use crate::options::Credentials;
use crate::proof::{self, Transcript};
use crate::tls::{self, TlsStream};

/// How long a stranger may take until it is known.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a connection became no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("{0}")]
    Connection(#[from] io::Error),
    #[error("no TLS: {0}")]
    Tls(#[from] openssl::ssl::Error),
    #[error("no TLS: {0}")]
    Library(#[from] openssl::error::ErrorStack),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    NoTls(&'static str),
    #[error("the peer has no member key")]
    NoKey,
    #[error("the address is that of this member")]
    Myself,
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    /// This member refuses the peer.
    #[error("{0}")]
    Refuse(Refusal),
    /// The peer refuses this member.
    #[error("refused there: {0:?}")]
    Refused(String),
    /// The peer has a connection for this lane.
    #[error("there is a link already")]
    Linked,
    #[error("no answer in {} s", PATIENCE.as_secs())]
    Slow,
}

impl Failed {
    /// Returns the reason in one word, by which repeated lines of the log are found.
    pub fn word(&self) -> &'static str {
        match self {
            Failed::Connection(_) => "connection",
            Failed::Tls(_) | Failed::Library(_) => "tls",
            Failed::Malformed(_) | Failed::Unexpected(_) => "malformed",
            Failed::NoTls(reason) => reason,
            Failed::NoKey => "key",
            Failed::Myself => "myself",
            Failed::Refuse(refusal) => refusal.word(),
            Failed::Refused(_) => "refused",
            Failed::Linked => "linked",
            Failed::Slow => "slow",
        }
    }
}

/// A connection whose peer is a proven member.
pub(crate) struct Met {
    pub stream: TlsStream,
    pub reader: FrameReader,
    pub node: Node,
    pub hello: Hello,
    pub dialled: bool,
}

/// Who the peer is, by its key.
struct Peer {
    node: Node,
    key: [u8; MEMBER_KEY_LEN],
    address: SocketAddr,
    dialled: bool,
}

impl Met {
    /// Writes a frame.
    pub async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut out = Vec::new();
        frame::put(&mut out, &frame.encode());
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// Waits for the next frame of a kind that this version knows.
    pub async fn receive(&mut self) -> Result<Frame, Failed> {
        receive(&mut self.stream, &mut self.reader).await
    }
}

async fn receive(stream: &mut TlsStream, reader: &mut FrameReader) -> Result<Frame, Failed> {
    loop {
        let packed = reader.next(stream).await?;
        match Frame::decode(&packed)? {
            Some(Frame::Refused(reason)) => return Err(Failed::Refused(reason)),
            Some(Frame::Bye(_)) => return Err(Failed::Linked),
            Some(frame) => return Ok(frame),
            None => {}
        }
    }
}

/// Proves both sides to each other. Says why to a peer that is refused.
pub(crate) async fn meet(hub: &Hub, stream: BoxStream, address: SocketAddr, dial: Option<Lane>) -> Result<Met, Failed> {
    let dialled = dial.is_some();
    let stream = match dialled {
        true => Peeked::whole(stream),
        false => {
            let (peer, stream) = peek(stream).await?;
            if let Some(reason) = peer.refusal() {
                return Err(Failed::NoTls(reason));
            }
            stream
        }
    };
    let stream = tls::shake(&hub.tls, stream, dialled).await?;
    let key = tls::peer_key(&stream).ok_or(Failed::NoKey)?;
    let node = Node::of_key(&key);
    if node == hub.node {
        return Err(Failed::Myself);
    }
    let peer = Peer { node, key, address, dialled };
    let hello = Hello { lane: dial.unwrap_or(Lane::Talk), ..own_hello(hub, node) };
    let mut met = Met { stream, reader: FrameReader::of_stranger(), node, hello, dialled };
    match greet(hub, &mut met, &peer).await {
        Ok(()) => {
            met.reader.trust();
            Ok(met)
        }
        Err(Failed::Refuse(refusal)) => {
            met.send(&Frame::Refused(refusal.to_string())).await?;
            Err(Failed::Refuse(refusal))
        }
        Err(failed) => Err(failed),
    }
}

/// Exchanges `hello` and proofs. The dialler begins: whoever only listens shows nothing to strangers.
async fn greet(hub: &Hub, met: &mut Met, peer: &Peer) -> Result<(), Failed> {
    let mut own = met.hello.clone();
    if peer.dialled {
        met.send(&Frame::Hello(own.clone())).await?;
    }
    let Frame::Hello(theirs) = met.receive().await? else { return Err(Failed::Unexpected("frame before hello")) };
    let standing = hub.members.standing(peer.node);
    let facts = Facts {
        cluster_id: &hub.options.cluster_id,
        own_name: &hub.options.name,
        node: peer.node,
        standing,
        named: hub.members.named(&theirs.name),
        now: now(hub),
    };
    judge(&theirs, &facts).map_err(Failed::Refuse)?;
    own.lane = if peer.dialled { own.lane } else { theirs.lane };
    if !peer.dialled {
        met.send(&Frame::Hello(own.clone())).await?;
    }
    if !own.knows_you || !theirs.knows_you {
        exchange_proofs(hub, met, peer, &theirs).await?;
    }
    if standing == Standing::Stranger {
        let newcomer = Newcomer {
            node: peer.node,
            name: theirs.name.clone(),
            key: peer.key,
            addresses: theirs.addresses.clone(),
            role: theirs.role,
        };
        let refused = |reason| Failed::Refuse(Refusal::Admission { name: theirs.name.clone(), reason });
        hub.members.admit(&newcomer).map_err(refused)?;
    }
    met.hello = Hello { lane: own.lane, ..theirs };
    Ok(())
}

async fn exchange_proofs(hub: &Hub, met: &mut Met, peer: &Peer, theirs: &Hello) -> Result<(), Failed> {
    let credentials = &hub.options.credentials;
    let name = || theirs.name.clone();
    let how = proof::common(credentials, theirs).ok_or_else(|| Failed::Refuse(Refusal::NoProof { name: name() }))?;
    let (dialler, listener) = if peer.dialled { (hub.node, peer.node) } else { (peer.node, hub.node) };
    let transcript = Transcript { exporter: tls::exporter(&met.stream)?, dialler, listener };
    let own = proof::make(credentials, how, &transcript, peer.dialled);
    let own = own.ok_or_else(|| Failed::Refuse(Refusal::NoProof { name: name() }))?;
    let own = Frame::Proof { how, bytes: own };
    if peer.dialled {
        met.send(&own).await?;
    }
    let Frame::Proof { how, bytes } = met.receive().await? else {
        return Err(Failed::Unexpected("frame before proof"));
    };
    if !proof::is_right(credentials, (how, &bytes), &transcript, !peer.dialled) {
        // Addresses that this member dials are its own choice: they are not refused because they answer wrongly.
        if !peer.dialled {
            hub.wrong_proof(peer.address.ip());
        }
        return Err(Failed::Refuse(Refusal::Proof { name: name() }));
    }
    if !peer.dialled {
        met.send(&own).await?;
    }
    Ok(())
}

fn now(hub: &Hub) -> u64 {
    hub.rt.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn own_hello(hub: &Hub, peer: Node) -> Hello {
    let options = &hub.options;
    Hello {
        format: FORMAT,
        oldest_format: OLDEST_FORMAT,
        cluster_id: options.cluster_id.clone(),
        name: options.name.clone(),
        lane: Lane::Talk,
        boot: hub.boot,
        lost: hub.lost(peer),
        knows_you: hub.members.standing(peer) == Standing::Member,
        role: options.role,
        addresses: options.addresses.clone(),
        master_key: hub.fingers.0.clone(),
        sign_key: hub.fingers.1.clone(),
        now: now(hub),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Returns the digests of the keys that members may have in common.
pub(crate) fn fingers(own: &Credentials) -> (Bytes, Bytes) {
    (proof::finger(own.master_key.as_ref()), proof::finger(own.sign_key.as_ref()))
}
