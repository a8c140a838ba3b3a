//! `saltern.masters`: who is in the set, and who is not, and why.

use crypto::{HashType, fingerprint};
use peers::status::{LinkState, LinkStatus};
use share::{Class, Index as _, Node, State};
use value::{Map, Value, map};

use super::super::worker::Worker;
use crate::set_requests::{Reader, times};

/// How many hosts are listed that called this master and are no members: somebody may call with one new key after another.
const MOST_STRANGERS: usize = 20;

impl Worker {
    pub(super) fn masters(&self, reader: Reader) -> Map {
        let links = self.links.as_ref().map(|links| links.status()).unwrap_or_default();
        let mut rows = Vec::new();
        let compared = self.model.records().inner().compared();
        let (all, minions) = (self.members.all(), self.fleet.counts());
        let is_member = |node: Node| all.get(&node).is_some_and(|(_, state)| *state == State::Accepted);
        for (node, (member, _)) in all.iter().filter(|(node, _)| is_member(**node)) {
            let link = links.iter().find(|link| link.node == Some(*node));
            let linked = link.is_some_and(|link| matches!(link.state, LinkState::Linked { .. }));
            let word = match (*node == self.model.node(), linked) {
                (true, _) => "here",
                (_, true) => "linked",
                _ => "away",
            };
            let role = match member.role {
                share::member::Role::Master => "master",
                share::member::Role::Witness => "witness",
                share::member::Role::Reader => "reader",
            };
            let mut shown = map! { "state" => word, "node" => format!("{node:?}"), "role" => role };
            if let Some(link) = link {
                describe(link, reader, &mut shown);
            }
            if let Some(count) = minions.get(node) {
                shown.insert("minions", *count);
            }
            if let Some((source, is_same)) = self.members.leases_of(*node).filter(|_| linked) {
                shown.insert("leases", source);
                if !is_same {
                    shown.insert("problem", "it takes leases in another way than this master (cluster_once)");
                }
            }
            if let Some(at) = self.model.compared(*node).or_else(|| compared.get(node).copied()) {
                shown.insert("compared", reader.time(at));
            }
            shown.insert("fingerprint", fingerprint(&member.key, HashType::Sha256));
            if !member.addresses.is_empty() {
                shown.insert("addresses", member.addresses.clone());
            }
            rows.push((self.members.called(*node), shown));
        }
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        let members: Map = rows.into_iter().map(|(name, shown)| (Value::from(name), Value::from(shown))).collect();
        let others = links.iter().filter(|link| !link.node.is_some_and(is_member));
        let (looked_for, mut strangers): (Vec<_>, Vec<_>) = others.partition(|link| !link.dialled.is_empty());
        let more = strangers.len().saturating_sub(MOST_STRANGERS);
        strangers.truncate(MOST_STRANGERS);
        let others: Vec<Value> =
            looked_for.into_iter().chain(strangers).map(|link| self.other(link, reader).into()).collect();
        let conflicts = self.conflicts().len();
        let known = self.model.records().root(Class::Keys, 0).count;
        let mut keys = map! { "decided" => known, "conflicts" => conflicts };
        if conflicts > 0 {
            keys.insert("settle", "salt-run saltern.conflicts");
        }
        let lost = self.lost_keys();
        if lost > 0 {
            keys.insert("lost", lost);
            keys.insert("restore", "salt-run saltern.keys restore");
            keys.insert("adopt", "salt-run saltern.keys adopt");
        }
        let mut shown = map! {
            "cluster_id" => self.settings.cluster_id.as_str(), "masters" => members, "keys" => keys,
            "once" => self.once_in_words(),
        };
        if let Some(bus) = self.links.as_ref().and_then(|links| links.bus()) {
            let word = if bus.problem.is_none() { "connected" } else { "no connection" };
            let mut line = map! { "servers" => bus.servers, "state" => word };
            if let Some(reason) = bus.problem.filter(|reason| !reason.is_empty()) {
                line.insert("reason", reason);
            }
            shown.insert("bus", line);
        }
        let drift = self.drift.lines();
        if !drift.is_empty() {
            shown.insert("drift", drift);
        }
        if !others.is_empty() {
            shown.insert("others", others);
        }
        if more > 0 {
            // `saltern.waiting` lists those that wait.
            shown.insert("more_strangers", more);
        }
        shown
    }

    /// Returns what is known of somebody who is no member, or of an address where nobody has answered.
    fn other(&self, link: &LinkStatus, reader: Reader) -> Map {
        let was_removed = |node| self.members.all().get(&node).is_some_and(|(_, state)| *state == State::Deleted);
        let word = match link.state {
            LinkState::Waiting { .. } => "waiting",
            LinkState::Refused { .. } => "refused",
            LinkState::Away { .. } if link.node.is_none() => "no answer",
            LinkState::Away { .. } if link.node.is_some_and(was_removed) => "removed",
            LinkState::Away { .. } | LinkState::Linked { .. } => "away",
        };
        let mut shown = map! { "state" => word };
        match &link.info {
            Some(info) => shown.insert("name", info.name.as_str()),
            None => link.node.and_then(|node| self.members.name(node)).and_then(|name| shown.insert("name", name)),
        };
        if let Some(node) = link.node {
            shown.insert("node", format!("{node:?}"));
        }
        if let Some(address) = link.seen_at {
            shown.insert("address", address.to_string());
        }
        describe(link, reader, &mut shown);
        shown
    }
}

/// Adds what is known of a link.
fn describe(link: &LinkStatus, reader: Reader, shown: &mut Map) {
    let (LinkState::Linked { since }
    | LinkState::Away { since }
    | LinkState::Waiting { since }
    | LinkState::Refused { since }) = link.state;
    shown.insert("since", reader.time(times::milliseconds(since)));
    if let Some(info) = &link.info {
        shown.insert("version", info.version.as_str());
    }
    if !link.dialled.is_empty() {
        shown.insert("dialled", link.dialled.clone());
    }
    if let Some(reason) = &link.reason {
        shown.insert("reason", reason.as_str());
    }
    if let Some(rtt) = link.rtt {
        // To a hundredth: further digits say nothing about the link.
        shown.insert("rtt_ms", (rtt.as_secs_f64() * 100_000.0).round() / 100.0);
    }
    if let Some(clock) = link.clock {
        shown.insert("clock_ms", clock);
    }
    if matches!(link.state, LinkState::Linked { .. }) {
        shown.insert("queue_bytes", link.queue_bytes);
        shown.insert("dropped", link.dropped);
        shown.insert("unanswered", link.unanswered);
    }
}
