//! `saltern.leases` and `saltern.forget_voters`: who does what the set does once, and who decides on it.

use share::votes::{Mode, OncePolicy};
use tracing::warn;
use value::{Map, Value, map};

use super::super::worker::Worker;

impl Worker {
    /// Forgets the list of voters, if its majority is gone and a user has confirmed it.
    pub(super) fn forget_voters(&mut self, user: Option<String>) -> Result<Map, String> {
        let (voters, linked) = (self.once.leases.votes().voters(), self.once.leases.votes().linked_voters());
        if voters.is_empty() {
            let now = self.once_in_words();
            return Err(format!(
                "there is no list of voters to forget: fewer than three masters do not vote (now: {now})"
            ));
        }
        if linked >= voters.majority() {
            return Err(format!(
                "{linked} of {} voters are linked. They are the majority and change the list by themselves: salt-run \
                 saltern.remove takes out those that are gone for good",
                voters.len()
            ));
        }
        let names = self.voter_names();
        let Some(user) = user else {
            let next = "if the masters that are away run anywhere, do not do this: they and those here would both run what the set \
                        does once. Remove those that are gone for good (salt-run saltern.remove), and then: salt-run \
                        saltern.forget_voters yes=True";
            return Ok(map! { "would_forget" => names, "linked" => linked, "next" => next });
        };
        warn!("{user} has this set forget the voters {}: {linked} of them are linked", names.join(", "));
        let now = self.now().steady;
        let actions = self.once.leases.votes_mut().forget_voters(now);
        self.follow_leases(actions);
        Ok(map! { "forgotten" => names, "once" => self.once_in_words() })
    }

    /// Returns what a person has to do about the voters after a member was removed, if anything.
    pub(super) fn voters_to_forget(&self, removed: share::Node) -> Option<String> {
        let voters = self.once.leases.votes().voters();
        let linked = self.once.leases.votes().linked_voters();
        (voters.contains(removed) && linked < voters.majority()).then(|| {
            format!(
                "{linked} of {} voters are linked, too few to take it out of their list, so nobody runs what the set does once. If \
                 the others are gone for good: salt-run saltern.forget_voters",
                voters.len()
            )
        })
    }

    /// Returns what `saltern.leases` shows.
    pub(super) fn leases(&self) -> Map {
        let now = self.now().steady;
        let shown = |duty: &String| {
            let held = self.once.leases.held(duty, now);
            let mut shown = map! { "held" => held.is_some() };
            if let Some((node, left)) = self.once.leases.holder(duty, now) {
                shown.insert("holder", self.members.called(node));
                if let Some(left) = left {
                    shown.insert("seconds_left", left as f64 / 1_000.0);
                }
            }
            if let Some(fence) = held {
                shown.insert("fence", fence.round);
            }
            if let Some((node, at)) = self.once.runs.of_duty(duty) {
                let at = crate::set_requests::times::local_time(at);
                shown.insert("last", map! { "master" => self.members.called(node), "begun" => at });
            }
            (duty.clone(), shown)
        };
        let leases = self.once.leases.votes();
        let mode = match leases.mode() {
            _ if self.once.leases.granted.is_some() => "jetstream",
            Mode::Majority => "majority",
            Mode::Available => "available",
            Mode::Off => "off",
        };
        let voters = if leases.voters().is_empty() { leases.eligible().clone() } else { leases.voters() };
        let masters: Vec<Value> = voters.nodes().map(|node| self.members.called(node).into()).collect();
        let mut all = Map::new();
        self.once.duties.iter().map(shown).for_each(|(duty, shown)| drop(all.insert(duty, shown)));
        let is_member = |name: &str| !self.members.accepted(name).is_empty();
        let placed = crate::schedule::placed(&self.shared.stores.config, is_member);
        let mut shown = map! { "mode" => mode, "masters" => masters, "duties" => all };
        if !placed.is_empty() {
            shown.insert("not shared", placed);
        }
        shown
    }

    /// Returns how the set decides who does what it does once, in words, for `saltern.masters`.
    pub(in super::super) fn once_in_words(&self) -> String {
        if let Some(granted) = &self.once.leases.granted {
            let outside = self.outside_in_words().map(|reason| format!("JetStream: {reason}"));
            return outside.unwrap_or_else(|| granted.in_words(self.settings.lease_time));
        }
        if self.settings.once != OncePolicy::Off
            && let Some(reason) = self.outside_in_words()
        {
            return reason;
        }
        let leases = self.once.leases.votes();
        let (voters, eligible) = (leases.voters(), leases.eligible());
        let others: Vec<String> = leases.not_voting().into_iter().map(|node| self.members.called(node)).collect();
        let others = others.join(", ");
        match leases.mode() {
            Mode::Off => "off: this master runs everything by itself".to_owned(),
            Mode::Majority if leases.has_lost_voters() => {
                "majority: this master has lost its file and does not vote until more than half of the voters have told it the list"
                    .to_owned()
            }
            Mode::Majority if !voters.is_empty() => {
                let (linked, all) = (leases.linked_voters(), voters.len());
                let has_removed = voters.nodes().any(|node| !eligible.contains(node));
                let more = match () {
                    () if linked >= voters.majority() => "",
                    () if has_removed => {
                        ", which is no majority: this master runs nothing of it. If the others are gone for good: salt-run \
                         saltern.forget_voters"
                    }
                    () => ", which is no majority: this master runs nothing of it",
                };
                format!("majority: {linked} of {all} voters{more}")
            }
            Mode::Majority if eligible.len() >= 3 && self.settings.once == OncePolicy::Auto && !leases.sees_most() => {
                "majority: fewer than half of the masters are linked: this one runs nothing of it".to_owned()
            }
            Mode::Majority if eligible.len() < 3 => {
                format!("majority: needs three voters and there are {}, so nobody runs it", eligible.len())
            }
            Mode::Majority => format!("majority: nobody runs it until these vote, too: {others}"),
            Mode::Available => {
                let later = !others.is_empty() && eligible.len() >= 3 && self.settings.once == OncePolicy::Auto;
                let later =
                    if later { format!(", and votes begin when these vote, too: {others}") } else { String::new() };
                format!("available: the first by name that is there{later}")
            }
        }
    }
}
