//! From a TCP connection to a proven member: TLS, `hello` both ways, and proofs if the two do not know each other.

use std::net::{IpAddr, SocketAddr};
use std::time::UNIX_EPOCH;

use crypto::MEMBER_KEY_LEN;
use rt::Connection;
use share::{Lane, Node};

use crate::first_bytes::{Peeked, peek};
use crate::frame::FrameReader;
use crate::host_port::split;
use crate::hub::Hub;
use crate::met::Met;
use crate::tls;
use peers::checks::{Facts, Hosts, Refusal, judge, judge_time};
use peers::failed::Failed;
use peers::kind::{FORMAT, Frame, Hello, MOST_ADDRESSES, OLDEST_FORMAT};
use peers::members::{Newcomer, Standing};
use peers::proof::{self, Transcript};
use peers::status::WaitingMember;

/// How this member dials.
#[derive(Clone, Copy)]
pub(crate) struct Dial {
    pub lane: Lane,
    /// The operator has named the address, so this member proves itself to whoever answers there.
    pub proves: bool,
}

/// Who the peer is, by its key.
struct Peer {
    node: Node,
    key: [u8; MEMBER_KEY_LEN],
    address: SocketAddr,
    dialled: bool,
    /// This member may prove itself to it.
    proves: bool,
}

/// Proves both sides to each other. Says why to a peer that is refused.
/// `found` learns who the peer is, also if it is refused.
pub(crate) async fn meet(
    hub: &Hub,
    connection: Connection,
    dial: Option<Dial>,
    found: impl FnOnce(Node),
) -> Result<Met, Failed> {
    let Connection { stream, peer: address, local } = connection;
    let dialled = dial.is_some();
    let stream = match dialled {
        // Only what calls this member is looked at: a stock Salt master dials its peers and says something first.
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
    let peer = Peer { node, key, address, dialled, proves: dial.is_none_or(|dial| dial.proves) };
    let hello = Hello { lane: dial.map_or(Lane::Talk, |dial| dial.lane), ..own_hello(hub, node, knows(hub, &peer)) };
    let mut met = Met { stream, reader: FrameReader::of_stranger(), node, hello, dialled, address: address.ip() };
    if key == hub.options.key.public() {
        return Err(same_key(hub, &mut met, local.ip()).await);
    }
    let has_key = has_whole_key(hub, &peer);
    if has_key {
        found(node);
    }
    let greeted = if has_key { greet(hub, &mut met, &peer).await } else { Err(Failed::OtherKey) };
    match greeted {
        Ok(()) => {
            met.trust();
            Ok(met)
        }
        Err(failed) => {
            // What somebody else does under its node is no reason why a member is not linked.
            if hub.members.standing(node) == Standing::Member && !matches!(failed, Failed::OtherKey) {
                hub.refused(node, &failed);
            }
            let frame = match &failed {
                Failed::Refuse(refusal) => {
                    Some(Frame::Refused { reason: refusal.to_string(), word: refusal.word().to_owned() })
                }
                Failed::OtherKey => Some(Frame::Refused { reason: failed.to_string(), word: failed.word().to_owned() }),
                // Both try again, and each may have heard of the other by then.
                Failed::NotNamed => Some(Frame::Bye(failed.to_string())),
                _ => None,
            };
            if let Some(frame) = frame {
                // Why it was refused says more than why it could not be told.
                let _ = met.send(&frame).await;
            }
            Err(failed)
        }
    }
}

/// Returns whether the peer has the whole key of the member with its node, if that is one. A node has 64 bits of a digest of the key,
/// so another key for it can be found.
fn has_whole_key(hub: &Hub, peer: &Peer) -> bool {
    match hub.members.standing(peer.node) {
        Standing::Member => hub.members.is_key_of(peer.node, &peer.key),
        Standing::Stranger | Standing::Removed => peer.node != hub.node,
    }
}

/// Finds out who has the key of this member: itself, where it dials its own address, or a copy of its host.
async fn same_key(hub: &Hub, met: &mut Met, local: IpAddr) -> Failed {
    let exchanged = async {
        if met.dialled {
            met.send(&Frame::Hello(met.hello.clone())).await?;
        }
        let Frame::Hello(theirs) = met.receive().await? else { return Err(Failed::Unexpected("frame before hello")) };
        if !met.dialled {
            met.send(&Frame::Hello(met.hello.clone())).await?;
        }
        Ok(theirs)
    };
    match exchanged.await {
        Ok(theirs) if theirs.boot == hub.boot => Failed::Myself,
        Ok(theirs) => Failed::Refuse(Refusal::Copied { name: theirs.name, hosts: Hosts::At([local, met.address]) }),
        Err(failed) => failed,
    }
}

/// Exchanges `hello` and proofs. The dialler begins: whoever only listens shows nothing to strangers.
async fn greet(hub: &Hub, met: &mut Met, peer: &Peer) -> Result<(), Failed> {
    if peer.dialled {
        met.send(&Frame::Hello(met.hello.clone())).await?;
    }
    let Frame::Hello(theirs) = met.receive().await? else { return Err(Failed::Unexpected("frame before hello")) };
    let info = theirs.info();
    let introduced = introduce(hub, met, peer, theirs).await;
    if let Err(failed) = &introduced
        && hub.members.standing(peer.node) != Standing::Member
    {
        hub.turned_away(peer.node, info, peer.address.ip(), failed);
    }
    introduced
}

/// Decides about the `hello` of the peer, and exchanges proofs if the two do not know each other.
async fn introduce(hub: &Hub, met: &mut Met, peer: &Peer, theirs: Hello) -> Result<(), Failed> {
    let mut own = met.hello.clone();
    let standing = hub.members.standing(peer.node);
    let facts = Facts {
        cluster_id: &hub.options.cluster_id,
        own_name: &hub.options.name,
        node: peer.node,
        standing,
        named: hub.members.named(&theirs.name),
        copied: hub.copied_host(peer.node, theirs.boot).map(|other| Hosts::At([peer.address.ip(), other])),
    };
    judge(&theirs, &facts).map_err(Failed::Refuse)?;
    // It may have become a member since the connection began, by another one of its own or of somebody with the same node.
    if !has_whole_key(hub, peer) {
        return Err(Failed::OtherKey);
    }
    // TLS has proven the key of a member. What a stranger says of the time counts only after its proof.
    if standing == Standing::Member {
        hub.members.heard_time(peer.node, theirs.now);
    }
    judge_time(&theirs, now(hub)).map_err(Failed::Refuse)?;
    own.lane = if peer.dialled { own.lane } else { theirs.lane };
    if !peer.dialled {
        met.send(&Frame::Hello(own.clone())).await?;
    }
    if !own.knows_you || !theirs.knows_you {
        exchange_proofs(hub, met, peer, &theirs).await?;
    }
    if standing == Standing::Stranger {
        let refused = |reason| Failed::Refuse(Refusal::Admission { name: theirs.name.clone(), reason });
        hub.members.admit(&newcomer(hub, peer, &theirs)).map_err(refused)?;
        hub.members.heard_time(peer.node, theirs.now);
    }
    met.hello = Hello { lane: own.lane, ..theirs };
    Ok(())
}

fn newcomer(hub: &Hub, peer: &Peer, hello: &Hello) -> Newcomer {
    let name = hello.name.clone();
    let mut addresses: Vec<String> = hello.addresses.iter().take(MOST_ADDRESSES - 1).cloned().collect();
    let seen = seen_at(peer, hello, hub.options.listen.port());
    if !addresses.contains(&seen) {
        addresses.push(seen);
    }
    Newcomer { node: peer.node, name, key: peer.key, addresses, role: hello.role }
}

async fn exchange_proofs(hub: &Hub, met: &mut Met, peer: &Peer, theirs: &Hello) -> Result<(), Failed> {
    if !peer.proves {
        return Err(Failed::NotNamed);
    }
    let credentials = &hub.options.credentials;
    // Both sides compute this from both greetings, so they agree on the kind without asking.
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
    let (name, own_name) = (theirs.name.clone(), hub.options.name.clone());
    if met.hello.knows_you {
        return Failed::Refuse(Refusal::NotAccepted { name, own_name });
    }
    let newcomer = newcomer(hub, peer, theirs);
    hub.waits(WaitingMember { newcomer, info: theirs.info(), address: Some(peer.address.ip()), since: hub.rt.now() });
    Failed::Refuse(Refusal::NoProof { name, own_name })
}

/// Returns where the peer was seen. A connection that it has dialled does not show its port, but what it says about itself does.
fn seen_at(peer: &Peer, hello: &Hello, default: u16) -> String {
    if peer.dialled {
        return peer.address.to_string();
    }
    let port = hello.addresses.first().map_or(default, |address| split(address, default).1);
    SocketAddr::new(peer.address.ip(), port).to_string()
}

/// Returns the time by which this member goes, in milliseconds since 1970.
fn now(hub: &Hub) -> u64 {
    hub.members.present(hub.rt.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
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
