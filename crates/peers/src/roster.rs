//! What is remembered of other members, of addresses and of newcomers, for people. Opens no socket and reads no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use share::Node;
use wire::Network;

use crate::failed::{Failed, Weight};
use crate::members::SelfReport;
use crate::status::{LinkState, LinkStatus, PeerInfo, WaitingMember};
use crate::target::Target;

/// Newcomers that are remembered. The oldest makes room.
const MOST_WAITING: usize = 100;

/// Newcomers of one network that are remembered, so that one host cannot push out all others.
const MOST_OF_NETWORK: usize = 10;

/// For how long a newcomer or a refused node is remembered after its last attempt.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// For how long a reason that says more counts before a later one: a master that has refused an address too often closes its
/// connections without a word, and the addresses of one member are dialled at different times.
const COUNTS: Duration = Duration::from_secs(120);

/// What is remembered.
#[derive(Default)]
pub struct Roster {
    members: BTreeMap<Node, Remembered>,
    addresses: BTreeMap<String, Address>,
    waiting: Vec<Waiting>,
    refused: Vec<Refused>,
}

/// A newcomer, and when it last tried to link.
struct Waiting {
    newcomer: WaitingMember,
    tried: Instant,
}

/// A node that is no member and is refused.
struct Refused {
    node: Node,
    info: PeerInfo,
    address: Option<IpAddr>,
    since: SystemTime,
    reason: String,
    tried: Instant,
}

/// A member that was linked once, or that was refused.
struct Remembered {
    info: Option<PeerInfo>,
    is_linked: bool,
    since: SystemTime,
    reason: Option<Reason>,
    dropped: u64,
}

/// An address that is dialled.
struct Address {
    /// The member that is to be found there, if the set says so.
    member: Option<Node>,
    /// Who has answered there, or the member that is to be found there.
    node: Option<Node>,
    is_own: bool,
    since: SystemTime,
    reason: Option<Reason>,
}

struct Reason {
    text: String,
    weight: Weight,
    at: Instant,
}

impl Reason {
    fn replace(reason: &mut Option<Reason>, failed: &Failed, at: Instant) {
        let counts = |old: &Reason| old.weight == Weight::Decided && at.saturating_duration_since(old.at) < COUNTS;
        if !(failed.is_wordless() && reason.as_ref().is_some_and(counts)) {
            *reason = Some(Reason { text: failed.short(), weight: failed.weight(), at });
        }
    }
}

impl Roster {
    /// Sets all addresses that are dialled.
    pub fn set_addresses(&mut self, targets: &[Target], now: SystemTime) {
        self.addresses.retain(|address, _| targets.iter().any(|target| target.address == *address));
        for target in targets {
            let fresh =
                || Address { member: target.member, node: target.member, is_own: false, since: now, reason: None };
            let known = self.addresses.entry(target.address.clone()).or_insert_with(fresh);
            // An address that the operator has named as well is no other one.
            known.member = known.member.and(target.member);
        }
    }

    /// Notes who has answered at an address.
    pub fn answered(&mut self, address: &str, node: Node) {
        if let Some(known) = self.addresses.get_mut(address).filter(|known| known.member.is_none()) {
            known.node = Some(node);
        }
    }

    /// Notes why an address that was dialled gave no link.
    pub fn failed(&mut self, address: &str, failed: &Failed, now: Instant) {
        if let Some(known) = self.addresses.get_mut(address) {
            known.is_own = matches!(failed, Failed::Myself);
            Reason::replace(&mut known.reason, failed, now);
        }
    }

    /// Notes why a member is not linked.
    pub fn refused(&mut self, node: Node, failed: &Failed, (now, time): (Instant, SystemTime)) {
        let member = self.member(node, time);
        if !member.is_linked {
            Reason::replace(&mut member.reason, failed, now);
        }
    }

    fn member(&mut self, node: Node, time: SystemTime) -> &mut Remembered {
        // It may have waited until it was accepted.
        let waited = self.waiting.iter().position(|waiting| waiting.newcomer.newcomer.node == node);
        let info = waited.map(|place| self.waiting.remove(place).newcomer.info);
        self.refused.retain(|refused| refused.node != node);
        let fresh = || Remembered { info, is_linked: false, since: time, reason: None, dropped: 0 };
        self.members.entry(node).or_insert_with(fresh)
    }

    /// Notes what a proven member says about itself.
    pub fn introduced(&mut self, node: Node, info: PeerInfo, time: SystemTime) {
        self.member(node, time).info = Some(info);
    }

    /// Notes a report of a member.
    pub fn reported(&mut self, node: Node, report: SelfReport) {
        if let Some(info) = self.members.get_mut(&node).and_then(|member| member.info.as_mut()) {
            info.report = Some(report);
        }
    }

    /// Notes that a member is linked.
    pub fn up(&mut self, node: Node, time: SystemTime) {
        let member = self.member(node, time);
        (member.is_linked, member.since, member.reason) = (true, time, None);
        for address in self.addresses.values_mut().filter(|address| address.node == Some(node)) {
            address.reason = None;
        }
    }

    /// Notes that a member is not linked any more.
    pub fn down(&mut self, node: Node, reason: &str, (now, time): (Instant, SystemTime)) {
        let reason = Reason { text: reason.to_owned(), weight: Weight::Silent, at: now };
        let member = self.member(node, time);
        (member.is_linked, member.since, member.reason) = (false, time, Some(reason));
    }

    /// Forgets a node that was removed from the set.
    pub fn forget(&mut self, node: Node) {
        self.members.remove(&node);
    }

    /// Notes that a message was lost.
    pub fn dropped(&mut self, node: Node) {
        if let Some(member) = self.members.get_mut(&node) {
            member.dropped += 1;
        }
    }

    /// Notes a newcomer that waits to be accepted. Returns whether it has begun to wait just now and is to be announced: of
    /// newcomers that push each other out of the list most are keys that somebody makes one after the other.
    pub fn waits(&mut self, new: WaitingMember, now: Instant) -> bool {
        let node = new.newcomer.node;
        self.waiting.retain(|waiting| is_recent(waiting.tried, now));
        self.refused.retain(|refused| refused.node != node);
        if let Some(known) = self.waiting.iter_mut().find(|waiting| waiting.newcomer.newcomer.node == node) {
            let since = known.newcomer.since;
            *known = Waiting { newcomer: WaitingMember { since, ..new }, tried: now };
            return false;
        }
        let pushes_out = make_room(&mut self.waiting, new.address, |waiting| waiting.newcomer.address);
        self.waiting.push(Waiting { newcomer: new, tried: now });
        !pushes_out
    }

    /// Notes that a node that is no member is refused, or refuses this one.
    pub fn turned_away(
        &mut self,
        node: Node,
        info: PeerInfo,
        address: Option<IpAddr>,
        failed: &Failed,
        (now, time): (Instant, SystemTime),
    ) {
        self.refused.retain(|refused| is_recent(refused.tried, now));
        let waits = |waiting: &Waiting| waiting.newcomer.newcomer.node == node && is_recent(waiting.tried, now);
        if !failed.is_decided() || self.waiting.iter().any(waits) {
            return;
        }
        let new = Refused { node, info, address, since: time, reason: failed.short(), tried: now };
        if let Some(known) = self.refused.iter_mut().find(|refused| refused.node == node) {
            let since = if known.reason == new.reason { known.since } else { time };
            *known = Refused { since, ..new };
            return;
        }
        make_room(&mut self.refused, address, |refused| refused.address);
        self.refused.push(new);
    }

    /// Returns the newcomers that wait.
    pub fn waiting(&self, now: Instant) -> Vec<WaitingMember> {
        let recent = self.waiting.iter().filter(|waiting| is_recent(waiting.tried, now));
        recent.map(|waiting| waiting.newcomer.clone()).collect()
    }

    /// Returns what a member has said about itself.
    pub fn info(&self, node: Node) -> Option<&PeerInfo> {
        self.members.get(&node)?.info.as_ref()
    }

    /// Returns all that is known: each node once. How links are at the moment is missing.
    pub fn statuses(&self, now: Instant) -> Vec<LinkStatus> {
        let refused = || self.refused.iter().filter(|refused| is_recent(refused.tried, now));
        // A member that was removed and calls again is listed once, as refused.
        let is_refused = |node: Node| refused().any(|refused| refused.node == node);
        let members = self.members.iter().filter(|(node, member)| member.is_linked || !is_refused(**node));
        let mut statuses: Vec<LinkStatus> = members.map(|(node, member)| self.of_member(*node, member)).collect();
        statuses.extend(self.waiting(now).iter().map(|waiting| self.of_waiting(waiting)));
        statuses.extend(refused().map(|refused| self.of_refused(refused)));
        let listed: BTreeSet<Node> = statuses.iter().filter_map(|status| status.node).collect();
        let dialled = || self.addresses.iter().filter(|(_, known)| !known.is_own);
        let silent: BTreeSet<Node> = dialled().filter_map(|(_, known)| known.node).collect();
        statuses.extend(silent.difference(&listed).map(|node| self.of_silent(*node)));
        let unknown = dialled().filter(|(_, known)| known.node.is_none());
        statuses.extend(unknown.map(|(address, known)| of_address(address, known)));
        statuses
    }

    fn dialled(&self, node: Node) -> impl Iterator<Item = (&String, &Address)> {
        self.addresses.iter().filter(move |(_, known)| known.node == Some(node))
    }

    fn of_member(&self, node: Node, member: &Remembered) -> LinkStatus {
        let state = match member.is_linked {
            true => LinkState::Linked { since: member.since },
            false => LinkState::Away { since: member.since },
        };
        let reasons = self.dialled(node).filter_map(|(_, known)| known.reason.as_ref());
        let reasons: Vec<&Reason> = reasons.chain(&member.reason).collect();
        let reason = telling(&reasons).filter(|_| !member.is_linked);
        LinkStatus {
            node: Some(node),
            info: member.info.clone(),
            dialled: self.dialled(node).map(|(address, _)| address.clone()).collect(),
            reason: reason.map(|reason| reason.text.clone()),
            dropped: member.dropped,
            ..nothing(state)
        }
    }

    fn of_waiting(&self, waiting: &WaitingMember) -> LinkStatus {
        let newcomer = &waiting.newcomer;
        LinkStatus {
            node: Some(newcomer.node),
            info: Some(waiting.info.clone()),
            dialled: self.dialled(newcomer.node).map(|(address, _)| address.clone()).collect(),
            seen_at: waiting.address,
            reason: Some("waiting to be accepted".to_owned()),
            ..nothing(LinkState::Waiting { since: waiting.since })
        }
    }

    fn of_refused(&self, refused: &Refused) -> LinkStatus {
        LinkStatus {
            node: Some(refused.node),
            info: Some(refused.info.clone()),
            dialled: self.dialled(refused.node).map(|(address, _)| address.clone()).collect(),
            seen_at: refused.address,
            reason: Some(refused.reason.clone()),
            ..nothing(LinkState::Refused { since: refused.since })
        }
    }

    /// Returns what is known of a node by its addresses alone.
    fn of_silent(&self, node: Node) -> LinkStatus {
        let since = self.dialled(node).map(|(_, known)| known.since).min().unwrap_or(SystemTime::UNIX_EPOCH);
        let reasons: Vec<&Reason> = self.dialled(node).filter_map(|(_, known)| known.reason.as_ref()).collect();
        LinkStatus {
            node: Some(node),
            dialled: self.dialled(node).map(|(address, _)| address.clone()).collect(),
            reason: telling(&reasons).map(|reason| reason.text.clone()),
            ..nothing(LinkState::Away { since })
        }
    }
}

fn is_recent(tried: Instant, now: Instant) -> bool {
    now.saturating_duration_since(tried) < FORGOTTEN_AFTER
}

/// Forgets the oldest entry of a full list: one of the same network first. Returns whether the list was full.
fn make_room<T>(list: &mut Vec<T>, address: Option<IpAddr>, of: impl Fn(&T) -> Option<IpAddr>) -> bool {
    let network = address.map(Network::from);
    let near = |one: &T| network.is_some() && of(one).map(Network::from) == network;
    if list.iter().filter(|one| near(one)).count() >= MOST_OF_NETWORK {
        let oldest = list.iter().position(near);
        oldest.map(|place| list.remove(place));
        return true;
    }
    let full = list.len() >= MOST_WAITING;
    if full {
        list.remove(0);
    }
    full
}

/// Returns the reason that says most about what to mend, of those about as young as the latest one.
fn telling<'a>(reasons: &[&'a Reason]) -> Option<&'a Reason> {
    let latest = reasons.iter().map(|reason| reason.at).max()?;
    let counts = |reason: &&Reason| latest.saturating_duration_since(reason.at) < COUNTS;
    reasons.iter().copied().filter(counts).max_by_key(|reason| (reason.weight, reason.at))
}

fn of_address(address: &str, known: &Address) -> LinkStatus {
    LinkStatus {
        node: known.node,
        dialled: vec![address.to_owned()],
        reason: known.reason.as_ref().map(|reason| reason.text.clone()),
        ..nothing(LinkState::Away { since: known.since })
    }
}

fn nothing(state: LinkState) -> LinkStatus {
    LinkStatus {
        node: None,
        info: None,
        dialled: Vec::new(),
        seen_at: None,
        state,
        reason: None,
        rtt: None,
        clock: None,
        queue_bytes: 0,
        dropped: 0,
        unanswered: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use share::member::Role;

    use super::*;
    use crate::checks::Refusal;
    use crate::members::Newcomer;

    const NODE: Node = Node([1; 8]);

    fn moment(seconds: u64) -> (Instant, SystemTime) {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let after = Duration::from_secs(seconds);
        (*START.get_or_init(Instant::now) + after, SystemTime::UNIX_EPOCH + after)
    }

    fn newcomer(number: u32) -> WaitingMember {
        let mut node = [0; 8];
        node[..4].copy_from_slice(&number.to_be_bytes());
        let newcomer = Newcomer {
            node: Node(node),
            name: format!("m{number}"),
            key: [0; 32],
            addresses: vec![],
            role: Role::Master,
        };
        let address = Some(IpAddr::from((0x0a00_0000 | number).to_be_bytes()));
        WaitingMember { info: info(), newcomer, address, since: moment(u64::from(number)).1 }
    }

    fn info() -> PeerInfo {
        PeerInfo {
            name: "m2".into(),
            version: "0.1.0".into(),
            boot: 1,
            role: Role::Master,
            addresses: vec![],
            master_key: None,
            sign_key: None,
            report: None,
        }
    }

    fn closed() -> Failed {
        Failed::Connection(io::ErrorKind::UnexpectedEof.into())
    }

    fn reason(roster: &Roster) -> Option<String> {
        roster.statuses(moment(1).0)[0].reason.clone()
    }

    #[test]
    fn an_address_is_listed_until_its_member_is() {
        let mut roster = Roster::default();
        roster.set_addresses(&[Target::named("m2"), Target::named("self")], moment(1).1);
        roster.failed("self", &Failed::Myself, moment(1).0);
        let failed =
            Failed::Unreachable { to: "10.0.0.2:4520".parse().unwrap(), error: io::ErrorKind::TimedOut.into() };
        roster.failed("m2", &failed, moment(2).0);
        let statuses = roster.statuses(moment(1).0);
        assert_eq!((statuses.len(), statuses[0].node), (1, None));
        assert_eq!(statuses[0].state, LinkState::Away { since: moment(1).1 });
        assert_eq!(reason(&roster).unwrap(), "no answer on 10.0.0.2:4520");
        roster.answered("m2", NODE);
        roster.introduced(NODE, info(), moment(3).1);
        roster.up(NODE, moment(3).1);
        let statuses = roster.statuses(moment(1).0);
        assert_eq!(
            (statuses.len(), statuses[0].node, &statuses[0].dialled[..]),
            (1, Some(NODE), &["m2".to_owned()][..])
        );
        assert_eq!(statuses[0].state, LinkState::Linked { since: moment(3).1 });
        assert_eq!(reason(&roster), None);
        roster.set_addresses(&[], moment(4).1);
        assert_eq!(roster.statuses(moment(1).0).len(), 1);
        roster.forget(NODE);
        assert_eq!(roster.statuses(moment(1).0), []);
    }

    #[test]
    fn a_refusal_says_more_than_the_silence_that_follows_it() {
        let mut roster = Roster::default();
        roster.set_addresses(&[Target::named("m2")], moment(1).1);
        roster.answered("m2", NODE);
        roster.introduced(NODE, info(), moment(1).1);
        roster.down(NODE, "no answer", moment(1));
        roster.failed("m2", &Failed::Refuse(Refusal::Proof { name: "m2".into() }), moment(2).0);
        roster.failed("m2", &closed(), moment(3).0);
        roster.refused(NODE, &closed(), moment(4));
        assert_eq!(reason(&roster).unwrap(), "wrong secret");
        roster.failed("m2", &closed(), moment(200).0);
        assert_eq!(reason(&roster).unwrap(), "it closed the connection");
        roster.failed("m2", &Failed::Refused { reason: "x".into(), word: "removed".into() }, moment(201).0);
        assert_eq!(reason(&roster).unwrap(), "refused there: removed");
    }

    #[test]
    fn newcomers_that_wait_are_bounded_and_no_network_pushes_out_the_others() {
        let mut roster = Roster::default();
        let now = moment(900).0;
        assert!(roster.waits(newcomer(1), now));
        let again = WaitingMember { since: moment(900).1, ..newcomer(1) };
        assert!(!roster.waits(again, now));
        assert_eq!(roster.waiting(now), [newcomer(1)]);
        let near = |number| WaitingMember { address: "2001:db8::1".parse().ok(), ..newcomer(number) };
        let announced = (1_000..1_500).filter(|number| roster.waits(near(*number), now)).count();
        assert_eq!(announced, MOST_OF_NETWORK, "nobody fills the event bus with keys");
        assert_eq!(roster.waiting(now).len(), 1 + MOST_OF_NETWORK);
        assert_eq!(roster.waiting(now)[0], newcomer(1));
        let announced = (2..500).filter(|number| roster.waits(newcomer(*number), now)).count();
        assert_eq!(announced, MOST_WAITING - 1 - MOST_OF_NETWORK);
        assert_eq!(roster.waiting(now).len(), MOST_WAITING);
        assert_eq!(roster.waiting(now)[0], newcomer(400));
        roster.introduced(newcomer(400).newcomer.node, info(), moment(900).1);
        assert!(roster.waiting(now).iter().all(|waiting| *waiting != newcomer(400)));
    }

    #[test]
    fn a_newcomer_that_does_not_try_any_more_is_forgotten() {
        let mut roster = Roster::default();
        roster.waits(newcomer(1), moment(0).0);
        roster.waits(newcomer(2), moment(0).0);
        roster.waits(newcomer(2), moment(599).0);
        let named = |at| roster.waiting(moment(at).0).iter().map(|one| one.newcomer.name.clone()).collect::<Vec<_>>();
        assert_eq!(named(599), ["m1", "m2"]);
        assert_eq!(named(600), ["m2"]);
        assert_eq!(roster.statuses(moment(600).0).len(), 1);
        assert_eq!(named(1_199), [""; 0]);
    }

    #[test]
    fn whoever_is_refused_is_listed_with_the_reason_while_it_tries() {
        let mut roster = Roster::default();
        let address: Option<IpAddr> = "10.0.0.9".parse().ok();
        let wrong = Failed::Refuse(Refusal::Proof { name: "m2".into() });
        roster.turned_away(NODE, info(), address, &closed(), moment(1));
        assert_eq!(roster.statuses(moment(1).0), [], "that says nothing");
        (1..9).for_each(|at| roster.turned_away(NODE, info(), address, &wrong, moment(at)));
        let statuses = roster.statuses(moment(9).0);
        assert_eq!((statuses.len(), statuses[0].state), (1, LinkState::Refused { since: moment(1).1 }));
        assert_eq!((statuses[0].reason.as_deref(), statuses[0].seen_at), (Some("wrong secret"), address));
        assert_eq!(roster.statuses(moment(700).0), []);
        roster.up(NODE, moment(9).1);
        assert_eq!(roster.statuses(moment(9).0).len(), 1);
        assert!(roster.refused.is_empty());
    }

    #[test]
    fn a_member_is_listed_once_however_many_addresses_it_has() {
        let mut roster = Roster::default();
        let of = |address: &str| Target { address: address.into(), member: Some(NODE) };
        roster.set_addresses(&[of("m2"), of("10.0.0.2:4520")], moment(1).1);
        roster.answered("m2", Node([7; 8]));
        let failed =
            Failed::Unreachable { to: "10.0.0.2:4520".parse().unwrap(), error: io::ErrorKind::TimedOut.into() };
        roster.failed("10.0.0.2:4520", &failed, moment(2).0);
        let statuses = roster.statuses(moment(2).0);
        assert_eq!((statuses.len(), statuses[0].node, statuses[0].dialled.len()), (1, Some(NODE), 2));
        assert_eq!(statuses[0].reason.as_deref(), Some("no answer on 10.0.0.2:4520"));
    }

    #[test]
    fn of_several_addresses_the_most_telling_reason_is_shown() {
        let mut roster = Roster::default();
        let addresses = ["10.0.0.1:4520", "10.0.0.2:4520", "10.0.0.3:4520"];
        let targets = addresses.map(|address| Target { address: address.into(), member: Some(NODE) });
        roster.set_addresses(&targets, moment(1).1);
        let unreachable = |place: usize, kind: io::ErrorKind| Failed::Unreachable {
            to: addresses[place].parse().unwrap(),
            error: kind.into(),
        };
        roster.failed(addresses[0], &unreachable(0, io::ErrorKind::ConnectionRefused), moment(2).0);
        roster.failed(addresses[1], &unreachable(1, io::ErrorKind::TimedOut), moment(3).0);
        assert_eq!(reason(&roster).unwrap(), "nothing listens on 10.0.0.1:4520");
        roster.failed(addresses[2], &Failed::Refuse(Refusal::Proof { name: "m2".into() }), moment(4).0);
        roster.failed(addresses[0], &unreachable(0, io::ErrorKind::ConnectionRefused), moment(5).0);
        assert_eq!(reason(&roster).unwrap(), "wrong secret");
        roster.failed(addresses[1], &unreachable(1, io::ErrorKind::TimedOut), moment(200).0);
        assert_eq!(reason(&roster).unwrap(), "no answer on 10.0.0.2:4520", "what was long ago says nothing of now");
    }
}
