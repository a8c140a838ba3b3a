//! From a TCP connection to a proven member: TLS, `hello` both ways, and proofs if the two do not know each other.

use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use crypto::MEMBER_KEY_LEN;
use rt::BoxStream;
use share::{Lane, Node};

use crate::checks::{Facts, Refusal, judge};
use crate::failed::Failed;
use crate::first_bytes::{Peeked, peek};
use crate::frame::FrameReader;
use crate::hub::Hub;
use crate::kind::{FORMAT, Frame, Hello, OLDEST_FORMAT};
use crate::members::{Newcomer, Standing};
use crate::met::Met;
use crate::proof::{self, Transcript};
use crate::status::WaitingMember;
use crate::tls;

/// Who the peer is, by its key.
struct Peer {
    node: Node,
    key: [u8; MEMBER_KEY_LEN],
    address: SocketAddr,
    dialled: bool,
}

/// Proves both sides to each other. Says why to a peer that is refused.
/// `found` learns who the peer is, also if it is refused.
pub(crate) async fn meet(
    hub: &Hub,
    stream: BoxStream,
    address: SocketAddr,
    dial: Option<Lane>,
    found: impl FnOnce(Node),
) -> Result<Met, Failed> {
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
    found(node);
    let peer = Peer { node, key, address, dialled };
    let hello = Hello { lane: dial.unwrap_or(Lane::Talk), ..own_hello(hub, node, knows(hub, &peer)) };
    let mut met = Met { stream, reader: FrameReader::of_stranger(), node, hello, dialled };
    match greet(hub, &mut met, &peer).await {
        Ok(()) => {
            met.trust();
            Ok(met)
        }
        Err(failed) => {
            if hub.members.standing(node) == Standing::Member {
                hub.refused(node, &failed);
            }
            if let Failed::Refuse(refusal) = &failed {
                let frame = Frame::Refused { reason: refusal.to_string(), word: refusal.word().to_owned() };
                // Why it was refused says more than why it could not be told.
                let _ = met.send(&frame).await;
            }
            Err(failed)
        }
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
        let refused = |reason| Failed::Refuse(Refusal::Admission { name: theirs.name.clone(), reason });
        hub.members.admit(&newcomer(peer, &theirs)).map_err(refused)?;
    }
    met.hello = Hello { lane: own.lane, ..theirs };
    Ok(())
}

fn newcomer(peer: &Peer, hello: &Hello) -> Newcomer {
    let (name, addresses) = (hello.name.clone(), hello.addresses.clone());
    Newcomer { node: peer.node, name, key: peer.key, addresses, role: hello.role }
}

async fn exchange_proofs(hub: &Hub, met: &mut Met, peer: &Peer, theirs: &Hello) -> Result<(), Failed> {
    let credentials = &hub.options.credentials;
    let common = proof::common(credentials.secret.is_some(), &hub.fingers, theirs);
    let how = common.ok_or_else(|| nothing_in_common(hub, met, peer, theirs))?;
    let (dialler, listener) = if peer.dialled { (hub.node, peer.node) } else { (peer.node, hub.node) };
    let transcript = Transcript { exporter: tls::exporter(&met.stream)?, dialler, listener };
    let own = || {
        let bytes =
            proof::make(credentials, how, &transcript, peer.dialled).ok_or(Failed::Unexpected("kind of proof"))?;
        Ok::<_, Failed>(Frame::Proof { how, bytes })
    };
    if peer.dialled {
        met.send(&own()?).await?;
    }
    let Frame::Proof { how: shown, bytes } = met.receive().await? else {
        return Err(Failed::Unexpected("frame before proof"));
    };
    if shown != how || !proof::is_right(credentials, (how, &bytes), &transcript, !peer.dialled) {
        // Addresses that this member dials are its own choice: they are not refused because they answer wrongly.
        if !peer.dialled {
            hub.wrong_proof(peer.address.ip());
        }
        return Err(Failed::Refuse(Refusal::Proof { name: theirs.name.clone() }));
    }
    // A signature takes long: it is made only for a dialler that has proven itself.
    if !peer.dialled {
        met.send(&own()?).await?;
    }
    Ok(())
}

/// Lets a newcomer wait until a person accepts it. Returns why there is no link yet.
fn nothing_in_common(hub: &Hub, met: &Met, peer: &Peer, theirs: &Hello) -> Failed {
    let name = theirs.name.clone();
    if met.hello.knows_you {
        return Failed::Refuse(Refusal::NotAccepted { name });
    }
    let newcomer = newcomer(peer, theirs);
    hub.waits(WaitingMember { newcomer, info: theirs.info(), address: peer.address.ip(), since: hub.rt.now() });
    Failed::Refuse(Refusal::NoProof { name })
}

fn now(hub: &Hub) -> u64 {
    hub.rt.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Returns whether this member believes the peer without a proof.
fn knows(hub: &Hub, peer: &Peer) -> bool {
    match hub.members.standing(peer.node) {
        Standing::Member => true,
        Standing::Stranger => hub.options.credentials.pins(&peer.key),
        Standing::Removed => false,
    }
}

/// Returns what this member says first on a connection.
pub(crate) fn own_hello(hub: &Hub, peer: Node, knows_you: bool) -> Hello {
    let options = &hub.options;
    Hello {
        format: FORMAT,
        oldest_format: OLDEST_FORMAT,
        cluster_id: options.cluster_id.clone(),
        name: options.name.clone(),
        lane: Lane::Talk,
        boot: hub.boot,
        lost: hub.lost(peer),
        knows_you,
        role: options.role,
        addresses: options.addresses.clone(),
        secret: options.credentials.secret.is_some(),
        master_key: hub.fingers.master_key.clone(),
        sign_key: hub.fingers.sign_key.clone(),
        now: now(hub),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
