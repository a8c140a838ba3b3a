//! Members in memory, connected by a carrier that loses, repeats, delays and swaps messages.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::member::{Member, Rights, Role};
use crate::model::{Action, Change, Model, Moment, Settings};
use crate::{
    By, Class, Content, Entry, Incoming, Index, Key, Lane, MemoryRecords, Message, Node, Record, State, To, Wish,
};

/// 25 February 2026, 00:00 UTC, in milliseconds.
pub const START: u64 = 1_771_977_600_000;

pub struct Host {
    pub model: Model<MemoryRecords>,
    /// The key files, as the actions of the model and the people of the test left them.
    pub files: BTreeMap<Key, (State, Bytes)>,
    /// How far the wall clock is ahead, in milliseconds.
    pub ahead: u64,
    /// What the model wanted, but for messages.
    pub actions: Vec<Action>,
}

/// How the carrier treats messages.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub loss: f64,
    pub repeat: f64,
    /// The longest delay in milliseconds; the shortest is one.
    pub delay: u64,
}

pub struct Net {
    pub hosts: Vec<Host>,
    pub now: u64,
    pub random: StdRng,
    pub faults: Faults,
    /// How many messages of each kind were sent.
    pub sent: BTreeMap<&'static str, usize>,
    under_way: BTreeMap<(u64, u64), (usize, Node, Lane, Bytes)>,
    sequence: u64,
    links: BTreeSet<(usize, usize)>,
}

pub fn member_key(number: usize) -> crypto::MemberKey {
    crypto::MemberKey::from_random([number as u8 + 1; 32]).unwrap()
}

pub fn member(number: usize, may: Rights) -> Member {
    let key = member_key(number).public();
    let name = format!("m{number}");
    Member { name, key, addresses: Vec::new(), role: Role::Master, may, slot: (number % 99) as u8 }
}

/// The decision of the first member by which another one is a member.
pub fn welcome(number: usize, may: Rights) -> Record {
    decided(member(number, may), State::Accepted, number as u64)
}

/// A decision of the first member about another one.
pub fn decided(member: Member, state: State, time: u64) -> Record {
    let (key, content) = (Key::of_node(member.node()), member.pack());
    let by = By::User("root".into());
    let wish = Wish { class: Class::Members, key: key.clone(), state, content, by };
    let stamp = crate::Stamp { time: (START - 1_000) << 16 | time, node: Node::of_key(&member_key(0).public()) };
    let decision = crate::SignedDecision::sign(Entry::default().decide(wish, stamp).unwrap(), &member_key(0)).unwrap();
    Record::new(key, stamp, Content::Decided(Class::Members, Entry::new(vec![decision])))
}

impl Net {
    /// Members that know and reach each other.
    pub fn new(count: usize, seed: u64) -> Net {
        let mut net = Net::strangers(count, seed, Rights::ALL);
        for a in 0..count {
            for b in 0..a {
                net.link(a, b);
            }
        }
        net
    }

    /// Members that know each other and are not linked. The last one has these rights, the others all.
    pub fn strangers(count: usize, seed: u64, last: Rights) -> Net {
        let may = |number| if number + 1 == count { last } else { Rights::ALL };
        let members: Vec<Record> = (0..count).map(|number| welcome(number, may(number))).collect();
        let hosts = (0..count).map(|number| Host::new(number, members.clone())).collect();
        Net {
            hosts,
            now: 0,
            random: StdRng::seed_from_u64(seed),
            faults: Faults { delay: 1, ..Faults::default() },
            sent: BTreeMap::new(),
            under_way: BTreeMap::new(),
            sequence: 0,
            links: BTreeSet::new(),
        }
    }

    pub fn node(&self, host: usize) -> Node {
        self.hosts[host].model.node()
    }

    fn host_of(&self, node: Node) -> usize {
        self.hosts.iter().position(|host| host.model.node() == node).expect("a host")
    }

    pub fn moment(&self, host: usize) -> Moment {
        Moment { wall: START + self.now + self.hosts[host].ahead, steady: self.now }
    }

    /// Sets the wall clock of a host, which another one confirms.
    pub fn set_ahead(&mut self, host: usize, ahead: u64) {
        self.hosts[host].ahead = ahead;
        let now = self.moment(host);
        self.hosts[host].model.clock().hear(Node([0xff; 8]), now.wall, now);
    }

    pub fn link(&mut self, a: usize, b: usize) {
        if self.links.insert((a.min(b), a.max(b))) {
            self.report(a, Incoming::Up(self.node(b)));
            self.report(b, Incoming::Up(self.node(a)));
        }
    }

    pub fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a.min(b), a.max(b))) {
            self.report(a, Incoming::Down(self.node(b), "cut".into()));
            self.report(b, Incoming::Down(self.node(a), "cut".into()));
        }
    }

    pub fn report(&mut self, host: usize, incoming: Incoming) {
        let now = self.moment(host);
        let actions = self.hosts[host].model.hear(incoming, now);
        self.act(host, actions);
    }

    pub fn change(&mut self, host: usize, change: Change) {
        let now = self.moment(host);
        if let Change::Key { id, state, public_key, .. } = &change {
            self.hosts[host].set_file(id, (*state != State::Deleted).then(|| (*state, public_key.clone())));
        }
        let actions = self.hosts[host].model.local(change, now);
        self.act(host, actions);
    }

    /// A person at a host decides about a key.
    pub fn decide(&mut self, host: usize, id: &str, state: State, key: &'static str) {
        let (id, public_key) = (Key::new(id).unwrap(), Bytes::from_static(key.as_bytes()));
        self.change(host, Change::Key { id, state, public_key, by: By::User("root".into()) });
    }

    pub fn write(&mut self, host: usize, key: &str, content: Content) {
        self.change(host, Change::Write(Key::new(key).unwrap(), content));
    }

    pub fn act(&mut self, host: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to: To::Member(node), lane, message } => self.send(host, node, lane, message),
                Action::Send { to: To::All, .. } => panic!("the model sends to each member"),
                Action::WriteKey { ref id, ref present, .. } => {
                    self.hosts[host].set_file(id, present.clone());
                    self.hosts[host].actions.push(action);
                }
                Action::SetAside { ref id, .. } => {
                    let id = id.clone();
                    self.hosts[host].actions.push(action);
                    self.set_aside(host, id);
                }
                Action::Unlink(node) => {
                    let other = self.host_of(node);
                    self.hosts[host].actions.push(action);
                    self.cut(host, other);
                }
                action => self.hosts[host].actions.push(action),
            }
        }
    }

    /// Moves a key file to those that wait, as a master does, which then takes it for a registration.
    fn set_aside(&mut self, host: usize, id: Key) {
        let entry = self.hosts[host].model.entry(Class::Keys, &id);
        if let Some((_, public_key)) = self.hosts[host].files.get(&id).cloned().filter(|_| entry.is_empty()) {
            self.change(host, Change::Key { id, state: State::Pending, public_key, by: By::Auto });
        }
    }

    fn send(&mut self, host: usize, to: Node, lane: Lane, message: Bytes) {
        assert!(message.len() <= crate::message::MAX_MESSAGE, "what a carrier takes");
        *self.sent.entry(kind(&message)).or_default() += 1;
        let (from, to) = (self.node(host), self.host_of(to));
        if self.random.random_bool(self.faults.loss) {
            return;
        }
        let copies = if self.random.random_bool(self.faults.repeat) { 2 } else { 1 };
        for _ in 0..copies {
            let at = self.now + self.random.random_range(1..=self.faults.delay);
            self.sequence += 1;
            self.under_way.insert((at, self.sequence), (to, from, lane, message.clone()));
        }
    }

    /// Lets time pass, in milliseconds.
    pub fn run(&mut self, millis: u64) {
        let end = self.now + millis;
        loop {
            let message = self.under_way.keys().next().map(|(at, _)| *at);
            let ticks = self.hosts.iter().filter_map(|host| host.model.next_tick());
            let next = ticks.chain(message).min().unwrap_or(end).max(self.now);
            if next > end {
                break;
            }
            self.now = next;
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, from, lane, message) = entry.remove();
                let other = self.host_of(from);
                if self.links.contains(&(to.min(other), to.max(other))) {
                    self.report(to, Incoming::Message { from, lane, message });
                }
            }
            for host in 0..self.hosts.len() {
                if self.hosts[host].model.next_tick().is_some_and(|at| at <= self.now) {
                    let now = self.moment(host);
                    let actions = self.hosts[host].model.tick(now);
                    self.act(host, actions);
                    let next = self.hosts[host].model.next_tick();
                    assert!(next.is_none_or(|at| at > self.now), "a tick does what is due");
                }
            }
        }
        self.now = end;
    }

    /// Checks that all copies are equal, and that key files say what was decided.
    pub fn check_equal(&self, what: &str) {
        for host in &self.hosts {
            for class in Class::ALL {
                let all = |host: &Host| host.model.records().all(class).cloned().collect::<Vec<_>>();
                let digests = |host| all(host).into_iter().map(|one| (one.key, one.digest)).collect::<Vec<_>>();
                assert_eq!(digests(host), digests(&self.hosts[0]), "{what}: {class}");
                assert_eq!(host.model.records().root(class, 0), self.hosts[0].model.records().root(class, 0));
            }
            assert_eq!(host.files, host.decided(), "{what}: key files");
        }
    }
}

impl Host {
    pub fn new(number: usize, members: Vec<Record>) -> Host {
        let mut model = Model::new(member_key(number), MemoryRecords::default(), Settings::default(), 0);
        let welcome = Change::Welcome { from: Node::of_key(&member_key(0).public()), decisions: members };
        let actions = model.local(welcome, Moment { wall: START, steady: 0 });
        assert!(actions.iter().all(|action| matches!(action, Action::Changed(_))), "{actions:?}");
        Host { model, files: BTreeMap::new(), ahead: 0, actions: Vec::new() }
    }

    pub fn set_file(&mut self, id: &Key, present: Option<(State, Bytes)>) {
        match present {
            Some(file) => self.files.insert(id.clone(), file),
            None => self.files.remove(id),
        };
    }

    fn decided(&self) -> BTreeMap<Key, (State, Bytes)> {
        let all = self.model.records().all(Class::Keys);
        let entries = all.map(|record| (record.key.clone(), self.model.entry(Class::Keys, &record.key)));
        let present = |entry: Entry| entry.present().map(|(state, key)| (state, key.clone()));
        entries.filter_map(|(key, entry)| Some((key, present(entry)?))).collect()
    }

    pub fn warnings(&self) -> Vec<&str> {
        let mut warnings = Vec::new();
        for action in &self.actions {
            if let Action::Warn(text) = action {
                warnings.push(text.as_str());
            }
        }
        warnings
    }
}

fn kind(message: &Bytes) -> &'static str {
    match Message::decode(message).expect("what we send can be read").expect("what we send is known") {
        Message::Put(put) if put.records.is_empty() => "served",
        Message::Put(_) => "put",
        Message::Stored(_) => "stored",
        Message::Have(_) => "have",
        Message::Want(_) => "want",
        Message::Root(_) => "root",
        Message::Part(_) => "part",
        _ => "other",
    }
}
