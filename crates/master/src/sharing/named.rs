//! What programs on the hosts of the set run once under a name, as `salt-run saltern.once` does.
//!
//! Each master is asked at about the same time. Whoever gets the lease claims the run. The others hear of the claim and say so.

use std::collections::BTreeMap;

use share::duties::{Occasion, Skipped};
use share::member::Role;
use share::votes::{Ballot, ClaimError, Mode};
use share::{Record, Stamp};
use tokio::sync::oneshot;
use tracing::warn;
use value::Value;

use super::once::{Asker, Waiting};
use super::worker::Worker;
use crate::set_requests::times;

/// For how long a program waits for its lease, in milliseconds: less than its request does.
const PATIENCE: u64 = 20_000;

/// A program that has not said for this time that it goes on has ended.
const ABANDONED: u64 = 20_000;

/// What stands before the names, so that they are not those of jobs of the schedule.
const PREFIX: &str = "run/";

/// The longest name, in bytes.
const LONGEST_NAME: usize = 200;

/// The runs of programs on this host, by lease.
#[derive(Default)]
pub struct Named(BTreeMap<String, Run>);

struct Run {
    occasion: Occasion,
    fence: Ballot,
    /// Until when the program must say that it goes on.
    until: u64,
    /// When it began, in seconds since 1970.
    begun: u64,
}

impl Named {
    /// Takes note of a run that has begun, if it is one of a program.
    pub fn begun(&mut self, occasion: &Occasion, fence: Ballot, now: u64) {
        if occasion.duty.starts_with(PREFIX) {
            let run = Run { occasion: occasion.clone(), fence, until: now + ABANDONED, begun: occasion.due };
            self.0.insert(occasion.duty.clone(), run);
        }
    }

    /// Returns when something is due.
    pub fn next(&self) -> Option<u64> {
        self.0.values().map(|run| run.until).min()
    }
}

impl Worker {
    /// Answers a program that asks whether it may begin, when that is known.
    pub(super) fn begin_named(&mut self, name: &str, within: u64, answer: oneshot::Sender<Result<Value, String>>) {
        let (lease, now) = (format!("{PREFIX}{name}"), self.now());
        if name.is_empty() || name.len() > LONGEST_NAME {
            return drop(answer.send(Err(format!("a name of 1 to {LONGEST_NAME} bytes is needed"))));
        }
        let role = match self.settings.role {
            Role::Master => None,
            Role::Witness => Some("witness"),
            Role::Reader => Some("reader"),
        };
        if let Some(role) = role {
            let refused = format!("this master is a {role} and runs nothing that the set does once: ask the others");
            return drop(answer.send(Err(refused)));
        }
        let asker = Asker::Program(answer);
        if let Some(run) = self.once.named.0.get(&lease) {
            return asker.refused(&format!("this master runs it since {}", times::local_time(run.begun * 1_000)));
        }
        if self.once.waiting.iter().any(|waiting| waiting.occasion.duty == lease) {
            return asker.refused("another program on this host waits to run it");
        }
        let due = self.clock.read().present / 1_000;
        let occasion = Occasion { duty: lease.clone(), due, interval: Some(within), rerun: true };
        if let Some(reason) = self.skipped(&occasion) {
            return asker.refused(&reason);
        }
        let actions = self.once.leases.want(&lease, now.steady);
        self.follow_leases(actions);
        self.begin(occasion, asker);
        let started = self.once.waiting.iter_mut().find(|waiting| waiting.occasion.duty == lease);
        if let Some(waiting) = started {
            waiting.until = now.steady + PATIENCE;
        }
    }

    /// Returns why a run does not begin that another master began, as far as is known.
    fn skipped(&self, occasion: &Occasion) -> Option<String> {
        let begun = Stamp { time: self.clock.read().present << 16, node: self.model.node() };
        let skipped = occasion.begin(None, &self.once.runs, begun, self.now().steady).err()?;
        Some(self.skipped_in_words(&skipped))
    }

    pub(super) fn skipped_in_words(&self, skipped: &Skipped) -> String {
        match skipped {
            Skipped::RanElsewhere(node) => {
                format!("the master {} began it a short time ago", self.members.called(*node))
            }
            Skipped::Claimed(ClaimError::Done(node)) => {
                format!("the master {} has done it", self.members.called(*node))
            }
            Skipped::Claimed(ClaimError::Begun(node)) => format!("the master {} began it", self.members.called(*node)),
            Skipped::Claimed(other) => other.to_string(),
        }
    }

    /// Has a program not wait any longer for what another master began.
    pub(super) fn claimed_elsewhere(&mut self, record: &Record) {
        let Some((duty, _)) = record.key.parts() else { return };
        let is_meant = |waiting: &Waiting| {
            matches!(waiting.answer, Asker::Program(_)) && waiting.occasion.duty.replace('/', "\\") == duty
        };
        let Some(place) = self.once.waiting.iter().position(is_meant) else { return };
        let Some(reason) = self.once.waiting.get(place).and_then(|waiting| self.skipped(&waiting.occasion)) else {
            return;
        };
        let waiting = self.once.waiting.remove(place);
        waiting.answer.refused(&reason);
        self.release_unused(&waiting.occasion.duty);
    }

    /// Tells who waited for too long why nothing came of it.
    pub(super) fn not_named(&mut self, late: Waiting) {
        let holder = self.once.leases.holder(&late.occasion.duty, self.now().steady);
        let other = holder.filter(|(node, _)| *node != self.model.node());
        match (other, self.once.leases.mode()) {
            (Some((node, _)), Mode::Majority) => {
                late.answer.refused(&format!("the master {} runs it", self.members.called(node)));
            }
            (Some((node, _)), _) => late.answer.failed(format!(
                "the master {} is the one to run it, and has not begun it: was it asked as well?",
                self.members.called(node)
            )),
            (None, _) => late.answer.failed(format!("no master runs it: {}", self.once_in_words())),
        }
        self.release_unused(&late.occasion.duty);
    }

    /// Gives the lease of a program back that neither runs nor waits.
    pub(super) fn release_unused(&mut self, lease: &str) {
        let waits = self.once.waiting.iter().any(|waiting| waiting.occasion.duty == lease);
        if lease.starts_with(PREFIX) && !waits && !self.once.named.0.contains_key(lease) {
            let actions = self.once.leases.release(lease, self.now().steady);
            self.follow_leases(actions);
        }
    }

    /// Answers a program that asks whether its run may go on.
    pub(super) fn go_on_named(&mut self, name: &str, fence: u64) -> Result<bool, String> {
        let (lease, now) = (format!("{PREFIX}{name}"), self.now().steady);
        let held = self.once.leases.held(&lease, now);
        match self.once.named.0.get_mut(&lease) {
            Some(run) if run.fence.round == fence && held == Some(run.fence) => {
                run.until = now + ABANDONED;
                Ok(true)
            }
            _ => Err(format!("this master does not hold the lease of {name} any more, and another one may run it")),
        }
    }

    /// Takes note that a program has ended. Returns whether it ran.
    pub(super) fn end_named(&mut self, name: &str, fence: u64) -> bool {
        let lease = format!("{PREFIX}{name}");
        let Some(run) = self.once.named.0.get(&lease).filter(|run| run.fence.round == fence) else { return false };
        let occasion = run.occasion.clone();
        self.once.named.0.remove(&lease);
        self.ended(&occasion);
        self.release_unused(&lease);
        true
    }

    /// Gives leases back whose programs have ended without a word.
    pub(super) fn end_abandoned(&mut self, now: u64) {
        let gone: Vec<(String, Run)> = self.once.named.0.extract_if(.., |_, run| run.until <= now).collect();
        for (lease, run) in gone {
            let name = lease.trim_start_matches(PREFIX);
            warn!("the program that ran what the set does once as {name} has ended without saying so");
            self.finish_lease(&run.occasion.duty);
            self.release_unused(&lease);
        }
    }
}
