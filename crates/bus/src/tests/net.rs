//! A bus in memory, and members on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, MemberKey};
use peers::credentials::{Credentials, Secret};
use peers::members::{Members, Newcomer, Refused, Standing};
use rt::Rt;
use share::member::Role;
use share::{Incoming, Lane, Node};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::bus::{Bus, Reports};
use crate::connect::BusState;
use crate::envelope::Envelope;
use crate::options::Options;
use crate::wire::{Event, Place, Sending, Wire};

/// The members of a set, as one of them knows them.
#[derive(Default)]
pub struct Known {
    members: Mutex<BTreeMap<Node, (String, Standing)>>,
    pub waited: Mutex<Vec<String>>,
    /// Who does not link because one of the two refuses the other.
    pub refused: Mutex<Vec<Refused>>,
    /// The times that were told.
    pub times: Mutex<Vec<u64>>,
    /// Members whose key is another one than a greeting has, although the node is the same.
    pub other_keys: Mutex<BTreeSet<Node>>,
    /// How far the wall clock of this member is behind.
    pub behind: Mutex<u64>,
}

impl Known {
    pub fn set(&self, node: Node, name: &str, standing: Standing) {
        self.members.lock().unwrap().insert(node, (name.to_owned(), standing));
    }

    pub fn standing_of(&self, number: u8) -> Standing {
        self.standing(node(number))
    }
}

impl Members for Known {
    fn standing(&self, node: Node) -> Standing {
        self.members.lock().unwrap().get(&node).map_or(Standing::Stranger, |known| known.1)
    }

    fn is_key_of(&self, node: Node, _key: &[u8; MEMBER_KEY_LEN]) -> bool {
        !self.other_keys.lock().unwrap().contains(&node)
    }

    fn named(&self, name: &str) -> Option<Node> {
        let members = self.members.lock().unwrap();
        members.iter().find(|(_, known)| known.0 == name && known.1 == Standing::Member).map(|(node, _)| *node)
    }

    fn admit(&self, newcomer: &Newcomer) -> Result<(), String> {
        self.set(newcomer.node, &newcomer.name, Standing::Member);
        Ok(())
    }

    fn decisions(&self) -> Vec<Bytes> {
        vec![Bytes::from_static(b"a decision")]
    }

    fn waits(&self, newcomer: &Newcomer) {
        self.waited.lock().unwrap().push(newcomer.name.clone());
    }

    fn refused(&self, refused: Refused) {
        self.refused.lock().unwrap().push(refused);
    }

    fn present(&self, wall: u64) -> u64 {
        wall - *self.behind.lock().unwrap()
    }

    fn heard_time(&self, _node: Node, theirs: u64) {
        self.times.lock().unwrap().push(theirs);
    }

    fn learn(&self, _from: Node, _decisions: Vec<Bytes>) {}
}

/// The key of a member: of two numbers the lower one has the lower node.
pub fn key(number: u8) -> MemberKey {
    let mut keys: Vec<MemberKey> = (1..=9).map(|seed| MemberKey::from_random([seed; 32]).unwrap()).collect();
    keys.sort_by_key(|key| Node::of_key(&key.public()));
    keys.swap_remove(usize::from(number))
}

pub fn node(number: u8) -> Node {
    Node::of_key(&key(number).public())
}

pub fn options(number: u8) -> Options {
    Options {
        cluster_id: "prod".into(),
        name: format!("m{number}"),
        role: Role::Master,
        key: key(number),
        addresses: vec![],
        credentials: Credentials::default(),
        heartbeat: Duration::from_millis(500),
        queue: 4 << 20,
        servers: "nats://n1:4222".into(),
    }
}

pub fn secret(text: &str) -> Credentials {
    Credentials { secret: Some(Secret::new(text)), ..Credentials::default() }
}

/// Members that know each other.
pub fn acquainted(numbers: &[u8]) -> Arc<Known> {
    let known = Arc::new(Known::default());
    numbers.iter().for_each(|number| known.set(node(*number), &format!("m{number}"), Standing::Member));
    known
}

/// A bus in memory. Clones are the same bus.
#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    members: Vec<(Node, mpsc::UnboundedSender<Event>)>,
    cuts: BTreeSet<(Node, Node)>,
    seen: Vec<(Place, Bytes)>,
    /// The next message to this node in this lane is lost.
    loses: Option<(Node, Lane)>,
    is_down: bool,
}

struct MemoryWire(Net);

impl Wire for MemoryWire {
    fn publish(&self, place: Place, envelope: Bytes) -> Sending<'_> {
        self.0.put(place, envelope);
        Box::pin(std::future::ready(()))
    }

    fn flush(&self) -> Sending<'_> {
        Box::pin(std::future::ready(()))
    }
}

/// Returns who says that he has sent an envelope.
fn sender(envelope: &Bytes) -> Option<Node> {
    match Envelope::decode(envelope).ok()?? {
        Envelope::Beat { from, .. } => Some(from),
        Envelope::Greeting(greeting) => Some(greeting.from),
        Envelope::Sealed(sealed) => Some(sealed.from),
    }
}

impl Net {
    /// Puts an envelope on the bus, as anybody can.
    pub fn put(&self, place: Place, envelope: Bytes) {
        let mut state = self.0.lock().unwrap();
        state.seen.push((place, envelope.clone()));
        let from = sender(&envelope);
        if let Place::To(node, lane) = place
            && state.loses == Some((node, lane))
            && matches!(Envelope::decode(&envelope), Ok(Some(Envelope::Sealed(_))))
        {
            state.loses = None;
            return;
        }
        for (node, member) in &state.members {
            let is_meant = match place {
                Place::To(to, _) => to == *node,
                Place::Beat => from != Some(*node),
            };
            let is_cut = from.is_some_and(|from| state.cuts.contains(&(from, *node)));
            if is_meant && !is_cut && !state.is_down {
                // A member that was dropped hears nothing.
                let _ = member.send(Event::Envelope(place, envelope.clone()));
            }
        }
    }

    pub fn cut(&self, from: Node, to: Node, cut: bool) {
        let mut state = self.0.lock().unwrap();
        match cut {
            true => state.cuts.insert((from, to)),
            false => state.cuts.remove(&(from, to)),
        };
    }

    /// Loses the next sealed message.
    pub fn lose(&self, to: Node, lane: Lane) {
        self.0.lock().unwrap().loses = Some((to, lane));
    }

    /// Stops the server, or starts it.
    pub fn set_down(&self, is_down: bool) {
        let mut state = self.0.lock().unwrap();
        state.is_down = is_down;
        let told = || if is_down { BusState::Disconnected } else { BusState::Connected };
        state.members.iter().for_each(|(_, member)| _ = member.send(Event::State(told())));
    }

    /// Returns all that was put on the bus so far, and forgets it.
    pub fn seen(&self) -> Vec<(Place, Bytes)> {
        std::mem::take(&mut self.0.lock().unwrap().seen)
    }

    pub fn start(&self, options: Options, known: Arc<Known>) -> Member {
        let (sender, mut events) = mpsc::unbounded_channel();
        let node = Node::of_key(&options.key.public());
        let (bus, reports) = Bus::over(Rt::real(), options, known.clone(), Arc::new(MemoryWire(self.clone()))).unwrap();
        sender.send(Event::State(BusState::Connected)).unwrap();
        self.0.lock().unwrap().members.push((node, sender));
        let hub = Arc::downgrade(bus.hub());
        tokio::spawn(async move {
            while let (Some(event), Some(hub)) = (events.recv().await, hub.upgrade()) {
                hub.heard(event);
            }
        });
        Member { bus, reports, known }
    }
}

/// A running member.
pub struct Member {
    pub bus: Bus,
    pub reports: Reports,
    pub known: Arc<Known>,
}

impl Member {
    /// Returns the next report but for those about others' links; `None` if none comes in 20 seconds.
    pub async fn next(&mut self) -> Option<Incoming> {
        let next = async {
            loop {
                match self.reports.next().await {
                    Incoming::Linked(..) => {}
                    report => return report,
                }
            }
        };
        timeout(Duration::from_secs(20), next).await.ok()
    }

    /// Returns why the only other member that is known is not linked.
    pub fn reason(&self) -> String {
        let status = self.bus.status();
        assert_eq!(status.len(), 1, "{status:?}");
        status[0].reason.clone().expect("it is not linked")
    }
}
