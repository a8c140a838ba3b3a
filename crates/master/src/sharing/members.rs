//! The members of the set as links see them: a copy of what the model knows, renewed whenever that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use crypto::{MEMBER_KEY_LEN, MemberPublicKey};
use peers::members::{LeaseSource, Members, Newcomer, Refused, SelfReport, Standing};
use share::member::{Member, Right, Rights, Role};
use share::message::Put;
use share::{Class, Classes, Content, Entry, Key, Message, Model, Node, Record, Records, Stamp, State, distinct_slots};
use tokio::sync::mpsc::Sender;
use wire::Jid;

use super::lease_sources::{LeaseSources, in_words};
use super::worker::Work;
use crate::set_clock::Clock;

/// The maximum number of members: each has a slot of its own for its job ids.
const MOST_MEMBERS: usize = 99;

/// The maximum number of addresses at which a member is looked for.
const MOST_ADDRESSES: usize = 16;

/// What is known of the members.
pub struct MemberBook {
    known: Mutex<KnownMembers>,
    worker: Sender<Work>,
    /// What this member shares.
    classes: Classes,
    clock: Option<Arc<Clock>>,
    leases: Mutex<LeaseSources>,
}

#[derive(Default)]
struct KnownMembers {
    members: BTreeMap<Node, (Member, State)>,
    /// What people are shown in place of nodes.
    called: BTreeMap<Node, String>,
    /// Newcomers of whom the model does not know yet.
    new: BTreeMap<Node, Member>,
    /// The decisions about members, as they are sent to a member that is linked.
    packed: Vec<Bytes>,
}

impl MemberBook {
    /// Nobody is known yet. What links report goes to the worker.
    pub fn new(worker: Sender<Work>, classes: Classes, clock: Option<Arc<Clock>>) -> Self {
        MemberBook { known: Mutex::default(), worker, classes, clock, leases: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, KnownMembers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the model knows now.
    pub fn renew<R: Records>(&self, model: &Model<R>) {
        let (decided, packed) = (decided(model), packed(model));
        let called = called(&decided);
        let members = without_stamps(decided);
        let mut known = self.known();
        known.new.retain(|node, _| !members.contains_key(node));
        (known.members, known.called, known.packed) = (members, called, packed);
    }

    /// Returns the members and those who were removed.
    pub fn all(&self) -> BTreeMap<Node, (Member, State)> {
        self.known().members.clone()
    }

    /// Returns whether any other member is known than the one with this node.
    pub fn knows_others(&self, own: Node) -> bool {
        self.known().members.iter().any(|(node, (_, state))| *node != own && *state == State::Accepted)
    }

    /// Returns what is decided about a node, and its key.
    pub fn key_of(&self, node: Node) -> Option<(State, Option<MemberPublicKey>)> {
        self.known().members.get(&node).map(|(member, state)| (*state, member.public_key()))
    }

    #[cfg(test)]
    pub fn know(&self, members: impl Iterator<Item = (Member, State)>) {
        self.known().members = members.map(|(member, state)| (member.node(), (member, state))).collect();
    }

    /// Returns the name of a member.
    pub fn name(&self, node: Node) -> Option<String> {
        self.known().members.get(&node).map(|(member, _)| member.name.clone())
    }

    /// Returns what people are shown in place of a node: its name, with the node if an earlier member has the same name.
    pub fn called(&self, node: Node) -> String {
        self.known().called.get(&node).cloned().unwrap_or_else(|| format!("{node:?}"))
    }

    /// Returns whether a node is a member that decides nothing.
    pub fn is_reader(&self, node: Node) -> bool {
        self.known().members.get(&node).is_some_and(|(member, _)| member.role == Role::Reader)
    }

    /// Returns whether a node is a member with this right.
    pub fn may(&self, node: Node, right: Right) -> bool {
        let known = self.known();
        let found = known.members.get(&node).filter(|(_, state)| *state == State::Accepted);
        found.is_some_and(|(member, _)| member.rights().contains(right))
    }

    /// Returns whether what a node says of the time counts: by it go the ids of jobs and the leases.
    fn tells_time(&self, node: Node) -> bool {
        let known = self.known();
        let accepted =
            known.members.get(&node).filter(|(_, state)| *state == State::Accepted).map(|(member, _)| member);
        let rights = accepted.or_else(|| known.new.get(&node)).map(Member::rights);
        rights.is_some_and(|rights| rights.contains(Right::Jobs) || rights.contains(Right::Lease))
    }

    /// Returns those of these nodes that are members with this right.
    pub fn that_may(&self, right: Right, nodes: Vec<Node>) -> Vec<Node> {
        nodes.into_iter().filter(|node| self.may(*node, right)).collect()
    }

    /// Returns whether a member gets what belongs to minions. A witness only votes.
    pub fn serves_minions(&self, node: Node) -> bool {
        self.known().members.get(&node).is_none_or(|(member, _)| member.gets().contains(Class::Data))
    }

    /// Returns the slot of a member, different from those of all others; `None` if it is no member.
    pub fn slot(&self, node: Node) -> Option<u8> {
        let known = self.known();
        let accepted = known.members.iter().filter(|(_, (_, state))| *state == State::Accepted);
        let slots = accepted.map(|(node, (member, _))| (*node, member.slot)).collect();
        distinct_slots(&slots).get(&node).copied()
    }

    /// Returns whether a job id may be one that this member made: it ends in its slot, or in that of nobody.
    pub fn makes(&self, node: Node, jid: &Jid) -> bool {
        let all = self.all();
        let accepted = all.iter().filter(|(_, (_, state))| *state == State::Accepted);
        let slots = distinct_slots(&accepted.map(|(node, (member, _))| (*node, member.slot)).collect());
        let slot = Key::new(jid.as_str()).and_then(|key| key.slot());
        let owner = slots.iter().find(|(_, taken)| Some(**taken) == slot);
        owner.is_none_or(|(owner, _)| *owner == node)
    }

    /// Returns whether this may mean a member: its name, what people are shown, or its node.
    pub fn is_called(&self, node: Node, text: &str) -> bool {
        let known = self.known();
        let name = known.members.get(&node).is_some_and(|(member, _)| member.name == text);
        name || known.called.get(&node).is_some_and(|called| called == text) || format!("{node:?}") == text
    }

    /// Returns the members that this may mean, but for removed ones.
    pub fn accepted(&self, text: &str) -> Vec<Node> {
        let all = self.all().into_iter().filter(|(_, (_, state))| *state == State::Accepted);
        all.map(|(node, _)| node).filter(|node| self.is_called(*node, text)).collect()
    }

    fn leases(&self) -> MutexGuard<'_, LeaseSources> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how this member takes leases, and tells the others with the next heartbeat.
    pub fn take_leases(&self, source: LeaseSource) {
        let others = self.leases().set_own(source);
        others.into_iter().for_each(|node| self.warn_of_leases(node));
    }

    /// Returns how another member takes leases, in words, and whether this one does it in the same way.
    pub fn leases_of(&self, node: Node) -> Option<(&'static str, bool)> {
        let leases = self.leases();
        leases.of(node).map(|source| (in_words(source), leases.differs(node).is_none()))
    }

    fn warn_of_leases(&self, node: Node) {
        let Some((theirs, own)) = self.leases().differs(node).filter(|_| self.may(node, Right::Lease)) else { return };
        tracing::warn!(
            "the master {} takes leases {} and this one {}, so both may run what the set does once: give all masters the same \
             cluster_once, and let all reach the same servers of cluster_bus",
            self.called(node),
            in_words(theirs),
            in_words(own)
        );
    }

    /// Forgets a newcomer that the model did not take.
    pub fn forget_new(&self, node: Node) {
        self.known().new.remove(&node);
    }
}

/// What was decided about a member, and when.
type Decided = (Member, State, Stamp);

/// Returns what was decided about each member.
pub fn all<R: Records>(model: &Model<R>) -> BTreeMap<Node, (Member, State)> {
    without_stamps(decided(model))
}

fn without_stamps(decided: BTreeMap<Node, Decided>) -> BTreeMap<Node, (Member, State)> {
    decided.into_iter().map(|(node, (member, state, _))| (node, (member, state))).collect()
}

/// Returns what people are shown in place of each node. Of several members with one name the earlier one keeps it, and one that
/// was removed does not.
fn called(decided: &BTreeMap<Node, Decided>) -> BTreeMap<Node, String> {
    let mut nodes: Vec<&Node> = decided.keys().collect();
    nodes.sort_by_key(|node| decided.get(*node).map(|(_, state, stamp)| (*state != State::Accepted, *stamp)));
    let (mut called, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for node in nodes {
        let Some((member, ..)) = decided.get(node) else { continue };
        let shown = match taken.insert(member.name.as_str()) {
            true => member.name.clone(),
            false => format!("{} ({node:?})", member.name),
        };
        called.insert(*node, shown);
    }
    called
}

fn decided<R: Records>(model: &Model<R>) -> BTreeMap<Node, Decided> {
    let mut members = BTreeMap::new();
    for record in records(model) {
        let Content::Decided(_, entry) = &record.content else { continue };
        let Some(visible) = entry.visible() else { continue };
        let visible = visible.decision();
        if let Ok(mut member) = Member::unpack(&visible.content)
            && record.key.node() == Some(member.node())
        {
            member.addresses = addresses(member.addresses, entry);
            members.insert(member.node(), (member, visible.state, visible.stamp));
        }
    }
    members
}

/// Returns where a member may be found: what counts, and where those saw it who let it into the set.
fn addresses(said: Vec<String>, entry: &Entry) -> Vec<String> {
    let seen = entry.decisions().iter().filter_map(|decision| Member::unpack(&decision.content).ok());
    seen.fold(said, |all, member| together(&all, &member.addresses))
}

/// Returns addresses and further ones.
pub fn together(first: &[String], more: &[String]) -> Vec<String> {
    let mut all = first.to_vec();
    for address in more {
        if all.len() < MOST_ADDRESSES && !all.contains(address) {
            all.push(address.clone());
        }
    }
    all
}

/// Packs the decisions about members, one message for each member.
fn packed<R: Records>(model: &Model<R>) -> Vec<Bytes> {
    let put = |record| Put { number: 0, records: vec![(record, 0)], served: None, unreadable: Vec::new() };
    let told = records(model).into_iter().filter(|record| model.is_for_others(record));
    told.map(|record| Message::Put(put(record)).encode()).collect()
}

/// Returns a newcomer as a member that may do everything.
pub fn member(newcomer: &Newcomer) -> Member {
    Member {
        name: newcomer.name.clone(),
        key: newcomer.key,
        addresses: newcomer.addresses.clone(),
        role: newcomer.role,
        may: Rights::ALL,
        // Members of one slot get different ones by their nodes.
        slot: 0,
    }
}

/// Reads what [`MemberBook::decisions`] of another member returned. What is damaged is left out and counted.
pub fn unpack(packed: &[Bytes]) -> (Vec<Record>, usize) {
    let (mut records, mut damaged) = (Vec::new(), 0);
    for message in packed {
        match Message::decode(message) {
            Ok(Some(Message::Put(put))) => {
                damaged += put.unreadable.len();
                let members = put.records.into_iter().map(|(record, _)| record);
                records.extend(members.filter(|record| record.class() == Class::Members));
            }
            // Of a later version.
            Ok(Some(_) | None) => {}
            Err(_) => damaged += 1,
        }
    }
    (records, damaged)
}

fn records<R: Records>(model: &Model<R>) -> Vec<Record> {
    let keys = model.records().items(Class::Members, 0..=u32::MAX);
    keys.into_iter().filter_map(|(key, _)| model.records().get(Class::Members, &key)).collect()
}

impl Members for MemberBook {
    fn standing(&self, node: Node) -> Standing {
        let known = self.known();
        match known.members.get(&node).map(|(_, state)| *state) {
            Some(State::Deleted) => Standing::Removed,
            Some(State::Accepted) => Standing::Member,
            _ if known.new.contains_key(&node) => Standing::Member,
            _ => Standing::Stranger,
        }
    }

    fn is_key_of(&self, node: Node, key: &[u8; MEMBER_KEY_LEN]) -> bool {
        let known = self.known();
        let decided = known.members.get(&node).map(|(member, _)| member);
        decided.or_else(|| known.new.get(&node)).is_some_and(|member| member.key == *key)
    }

    fn named(&self, name: &str) -> Option<Node> {
        let known = self.known();
        let members = known.members.iter().filter(|(_, (_, state))| *state == State::Accepted);
        let members = members.map(|(node, (member, _))| (node, member));
        members.chain(&known.new).find(|(_, member)| member.name == name).map(|(node, _)| *node)
    }

    fn present(&self, wall: u64) -> u64 {
        self.clock.as_ref().map_or(wall, |clock| clock.present(wall))
    }

    fn heard_time(&self, node: Node, theirs: u64) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.tells_time(node)) {
            clock.hear(node, theirs);
        }
    }

    fn heard_wall(&self, node: Node, theirs: u64) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.tells_time(node)) {
            clock.hear_wall(node, theirs, || self.called(node));
        }
    }

    fn heard_report(&self, node: Node, report: &SelfReport) {
        let is_news = self.leases().heard(node, report.leases);
        if is_news {
            self.warn_of_leases(node);
        }
    }

    fn admit(&self, newcomer: &Newcomer) -> Result<(), String> {
        let member = member(newcomer);
        let mut known = self.known();
        let accepted = known.members.values().filter(|(_, state)| *state == State::Accepted).count();
        if accepted + known.new.len() >= MOST_MEMBERS {
            return Err(format!("the set has {MOST_MEMBERS} members already"));
        }
        known.new.insert(newcomer.node, member.clone());
        drop(known);
        self.worker.try_send(Work::Newcomer(member)).map_err(|_| {
            self.forget_new(newcomer.node);
            "this member is busy".to_owned()
        })
    }

    fn decisions(&self) -> Vec<Bytes> {
        self.known().packed.clone()
    }

    fn learn(&self, from: Node, decisions: Vec<Bytes>) {
        // What is lost here is found by comparing.
        if self.worker.try_send(Work::Learned(from, decisions)).is_err() {
            tracing::debug!("decisions about members are not read: there is too much to do");
        }
    }

    fn waits(&self, newcomer: &Newcomer) {
        // `saltern.waiting` lists it, whether anybody hears of it now or not.
        if self.worker.try_send(Work::Waits(newcomer.clone())).is_err() {
            tracing::debug!("that {} waits is not told: there is too much to do", newcomer.name);
        }
    }

    fn refused(&self, refused: Refused) {
        // Both try again.
        if self.worker.try_send(Work::Refused(refused)).is_err() {
            tracing::debug!("that a master is refused is not noted: there is too much to do");
        }
    }

    fn self_report(&self, _peer: Node) -> SelfReport {
        SelfReport { classes: self.classes, leases: self.leases().own(), ..SelfReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use share::member::Role;

    use super::*;

    fn member(number: u8, may: Rights, slot: u8) -> Member {
        Member { name: format!("m{number}"), key: [number; 32], addresses: vec![], role: Role::Master, may, slot }
    }

    fn book(members: impl IntoIterator<Item = (Member, State)>) -> MemberBook {
        let (worker, _work) = tokio::sync::mpsc::channel(1);
        let book = MemberBook::new(worker, Classes::ALL, None);
        book.know(members.into_iter());
        book
    }

    #[test]
    fn rights_are_those_of_members_only() {
        let [all, some, gone] =
            [member(1, Rights::ALL, 0), member(2, Rights::only(&[Right::Keys]), 1), member(3, Rights::ALL, 2)];
        let book =
            book([(all.clone(), State::Accepted), (some.clone(), State::Accepted), (gone.clone(), State::Deleted)]);
        let may = |member: &Member| book.may(member.node(), Right::Jobs);
        assert_eq!([may(&all), may(&some), may(&gone)], [true, false, false]);
        assert!(!book.may(Node([9; 8]), Right::Jobs), "a stranger may do nothing");
        let tells = |member: &Member| book.tells_time(member.node());
        assert_eq!([tells(&all), tells(&some), tells(&gone)], [true, false, false]);
        assert!(!book.tells_time(Node([9; 8])), "a stranger moves no clock");
        let nodes = [&all, &some, &gone].map(Member::node);
        assert_eq!(book.that_may(Right::Jobs, nodes.to_vec()), [all.node()], "jobs are sent to nobody else");
    }

    #[test]
    fn a_witness_is_not_told_which_minions_are_connected() {
        let (master, witness) =
            (member(1, Rights::ALL, 0), Member { role: Role::Witness, ..member(2, Rights::ALL, 1) });
        let book = book([(master.clone(), State::Accepted), (witness.clone(), State::Accepted)]);
        assert!(book.serves_minions(master.node()) && !book.serves_minions(witness.node()));
    }

    #[test]
    fn each_member_has_a_slot_of_its_own() {
        let all = [member(1, Rights::ALL, 0), member(2, Rights::ALL, 0), member(3, Rights::ALL, 1)];
        let book = book(all.iter().map(|one| (one.clone(), State::Accepted)));
        let mut slots: Vec<u8> = all.iter().filter_map(|one| book.slot(one.node())).collect();
        assert_eq!(book.slot(all[2].node()), Some(1), "nobody takes a slot that another one has");
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2]);
        assert_eq!(book.slot(Node([9; 8])), None);
    }

    #[test]
    fn a_job_id_is_one_of_the_member_whose_slot_it_ends_in() {
        let all = [member(1, Rights::ALL, 0), member(2, Rights::ALL, 1)];
        let book = book(all.iter().map(|one| (one.clone(), State::Accepted)));
        let makes = |jid: &str| [0, 1].map(|number: usize| book.makes(all[number].node(), &Jid::new(jid).unwrap()));
        assert_eq!(makes("20240229131415678901"), [false, true]);
        assert_eq!(makes("20240229131415678900"), [true, false]);
        assert_eq!(makes("20240229131415678977"), [true, true], "nobody's");
    }

    #[test]
    fn members_with_one_name_do_not_hide_each_other() {
        let node = |number| Node([number; 8]);
        let one = |number: u8, name: &str, state, time| {
            let member = Member {
                name: name.into(),
                key: [number; 32],
                addresses: vec![],
                role: Role::Master,
                may: Rights::ALL,
                slot: 0,
            };
            (node(number), (member, state, Stamp { time, node: node(number) }))
        };
        let decided = BTreeMap::from([
            one(1, "m2", State::Accepted, 9),
            one(2, "m2", State::Accepted, 5),
            one(3, "m2", State::Deleted, 1),
            one(4, "m4", State::Deleted, 1),
        ]);
        let called = called(&decided);
        assert_eq!(called[&node(2)], "m2", "the earlier one");
        assert_eq!(called[&node(1)], "m2 (0101010101010101)");
        assert_eq!(called[&node(3)], "m2 (0303030303030303)");
        assert_eq!(called[&node(4)], "m4");
    }
}
