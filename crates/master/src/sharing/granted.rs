//! Leases that the servers of the bus grant, in place of those by votes or by rank.
//!
//! The option `cluster_once` decides: `jetstream` always; `auto` if the servers have JetStream. A member that has found it once never
//! votes under `auto` again, whatever the servers say later: others may still hold what JetStream has granted. Without an answer
//! nobody holds anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leases::{Bucket as _, Change, Health, JetStreamBucket, Leases, OpenError, Stranger, Who};
use peers::members::LeaseSource;
use rt::Rt;
use share::member::Role;
use share::votes::{Ballot, Mode, SetAction, SetLeases, Voters};
use share::{Node, State};
use store::disk::{self, Writing};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::lease_proof::LeaseProof;
use super::worker::{Work, Worker};
use crate::set_clock::STARTED;

/// How long to wait before the servers are asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// How many answers in a row must say that there is no JetStream: a server that has just started may say so once.
const ABSENCES: u32 = 3;

/// For how long a master that stops waits until the servers know what it gives back.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who grants leases by the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grants {
    /// The members, by votes or by rank.
    Members,
    /// The servers of the bus if they have JetStream, else the members.
    IfThere,
    /// The servers of the bus.
    Servers,
}

impl Grants {
    pub fn of(cluster: &config::Cluster) -> Grants {
        match cluster.once {
            config::Once::JetStream => Grants::Servers,
            config::Once::Auto if cluster.bus.is_some() => Grants::IfThere,
            _ => Grants::Members,
        }
    }

    /// Returns how this member takes leases by the options; `None` if it depends on the servers.
    pub fn source(self, once: config::Once) -> Option<LeaseSource> {
        match self {
            Grants::Servers => Some(LeaseSource::JetStream),
            Grants::IfThere => None,
            Grants::Members if once == config::Once::Off => Some(LeaseSource::Off),
            Grants::Members => Some(LeaseSource::Members),
        }
    }
}

/// The leases of this member that servers grant.
#[derive(Clone)]
pub struct Granted {
    pub leases: Leases,
    node: Node,
    /// When the steady clock of this master began.
    started: Instant,
    wanted: BTreeSet<Box<str>>,
    /// This member has the right to hold leases: the servers do not know.
    may: bool,
}

impl Granted {
    pub fn new(node: Node, lease_time: Duration, started: Instant, rt: &Rt) -> Granted {
        let who = Who { node: node.0, boot: rt.below(u64::MAX) };
        let leases = Leases::new(who, lease_time, rt.below(u64::MAX));
        Granted { leases, node, started, wanted: BTreeSet::new(), may: false }
    }

    fn fence(&self, sequence: u64) -> Ballot {
        Ballot { round: sequence, node: self.node }
    }

    fn want(&mut self, lease: &str) {
        self.wanted.insert(lease.into());
        if self.may {
            self.leases.want(lease);
        }
    }

    fn release(&mut self, lease: &str) {
        self.wanted.remove(lease);
        self.leases.release(lease);
    }

    pub(super) fn set_right(&mut self, may: bool) {
        if may != self.may {
            self.may = may;
            self.wanted.iter().for_each(|lease| if may { self.leases.want(lease) } else { self.leases.release(lease) });
        }
    }

    /// Forgets what is wanted, after a restart of the worker.
    fn afresh(mut self) -> Granted {
        self.wanted.iter().for_each(|lease| self.leases.release(lease));
        self.wanted.clear();
        self.may = false;
        self
    }

    /// Returns how it is, in words, for `saltern.masters`.
    pub fn in_words(&self, lease_time: u64) -> String {
        match self.leases.health() {
            Health::Opening => {
                "JetStream: the servers have not answered yet: nobody here runs anything of it".to_owned()
            }
            Health::New => {
                format!("JetStream: its bucket is new: nothing is run for {} s", lease_time as f64 / 1_000.0)
            }
            Health::Sound(1) => "JetStream: one server keeps the leases".to_owned(),
            Health::Sound(replicas) => format!("JetStream: {replicas} servers keep the leases"),
            Health::NoAnswer(reason) => format!("no quorum: nobody runs it until JetStream answers ({reason})"),
            Health::Unusable(reason) => format!("JetStream: nobody here runs it: {reason}"),
        }
    }
}

/// The leases of this member, whoever grants them.
pub struct DutyLeases {
    votes: SetLeases,
    pub granted: Option<Granted>,
}

impl DutyLeases {
    /// Creates the leases of a member. If servers grant them, the one by votes must be off.
    pub fn new(votes: SetLeases, granted: Option<Granted>) -> DutyLeases {
        DutyLeases { votes, granted: granted.map(Granted::afresh) }
    }

    /// See [`SetLeases::set_eligible`].
    pub fn set_eligible(&mut self, eligible: Voters, now: u64) -> Vec<SetAction> {
        self.votes.set_eligible(eligible, now)
    }

    /// See [`SetLeases::want`].
    pub fn want(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        match &mut self.granted {
            Some(granted) => {
                granted.want(lease);
                Vec::new()
            }
            None => self.votes.want(lease, now),
        }
    }

    /// See [`SetLeases::release`].
    pub fn release(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        match &mut self.granted {
            Some(granted) => {
                granted.release(lease);
                Vec::new()
            }
            None => self.votes.release(lease, now),
        }
    }

    /// See [`SetLeases::begin`].
    pub fn begin(&mut self, lease: &str, now: u64) -> Option<Ballot> {
        match &self.granted {
            Some(_) => self.held(lease, now),
            None => self.votes.begin(lease, now),
        }
    }

    /// See [`SetLeases::finish`].
    pub fn finish(&mut self, lease: &str, now: u64) -> Vec<SetAction> {
        match &self.granted {
            Some(_) => Vec::new(),
            None => self.votes.finish(lease, now),
        }
    }

    /// See [`SetLeases::held`].
    pub fn held(&self, lease: &str, now: u64) -> Option<Ballot> {
        match &self.granted {
            Some(granted) => granted.leases.held(lease).map(|(sequence, _)| granted.fence(sequence)),
            None => self.votes.held(lease, now),
        }
    }

    /// See [`SetLeases::hold`].
    pub fn hold(&self, lease: &str, now: u64) -> Option<(Ballot, Option<u64>)> {
        let Some(granted) = &self.granted else { return self.votes.hold(lease, now) };
        let (sequence, until) = granted.leases.held(lease)?;
        let until = until.saturating_duration_since(granted.started).as_millis() as u64 + STARTED;
        Some((granted.fence(sequence), Some(until)))
    }

    /// See [`SetLeases::holder`]. How long another one holds what servers grant is not known.
    pub fn holder(&self, lease: &str, now: u64) -> Option<(Node, Option<u64>)> {
        match &self.granted {
            Some(granted) => {
                let left = self.hold(lease, now).and_then(|(_, until)| until).map(|until| until.saturating_sub(now));
                granted.leases.holder(lease).map(|holder| (Node(holder.node), left))
            }
            None => self.votes.holder(lease, now),
        }
    }

    /// See [`SetLeases::mode`]. What servers grant has one holder, as what a majority grants.
    pub fn mode(&self) -> Mode {
        if self.granted.is_some() { Mode::Majority } else { self.votes.mode() }
    }

    /// What only the members decide.
    pub fn votes(&self) -> &SetLeases {
        &self.votes
    }

    /// What only the members decide.
    pub fn votes_mut(&mut self) -> &mut SetLeases {
        &mut self.votes
    }
}

/// Says that JetStream was found once.
pub struct Found(PathBuf);

impl Found {
    /// Returns the file beside that of the shared records.
    pub fn beside(records: &Path) -> Found {
        Found(records.with_file_name("jetstream"))
    }

    /// Returns whether this master takes leases from JetStream whatever the servers say.
    pub fn is_noted(&self) -> bool {
        self.0.exists()
    }

    fn note(&self) -> store::Result<()> {
        disk::write(&self.0, b"", Writing { sync: true, ..Writing::PRIVATE })
    }
}

/// Counts the answers in a row by which the servers have no JetStream.
#[derive(Default)]
struct Absences(u32);

impl Absences {
    /// Takes an answer. Returns whether it is believed that there is none.
    fn are_enough(&mut self, is_absent: bool) -> bool {
        self.0 = if is_absent { self.0 + 1 } else { 0 };
        self.0 >= ABSENCES
    }
}

/// What the task needs that takes the leases.
pub struct Taking {
    pub leases: Leases,
    pub bucket: JetStreamBucket,
    pub grants: Grants,
    pub found: Found,
    pub worker: Sender<Work>,
    pub stop: CancellationToken,
}

impl Taking {
    /// Takes leases and tells the worker what is held, until the master stops or the servers have no JetStream.
    /// `proof` makes what proves that this member wrote a value.
    pub async fn run(self, proof: impl Future<Output = Result<LeaseProof, String>> + Send) {
        let made = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            made = proof => made,
        };
        let proof = match made {
            Ok(proof) => proof,
            Err(reason) => {
                error!("this master takes no leases from JetStream: {reason}");
                return self.leases.cannot_open(&OpenError::Settings(reason));
            }
        };
        tokio::select! {
            biased;
            () = self.stop_all() => {}
            () = self.take(&proof) => {}
            () = self.tell() => {}
        }
    }

    async fn take(&self, proof: &LeaseProof) {
        if self.grants == Grants::IfThere && !self.found.is_noted() {
            let mut absences = Absences::default();
            loop {
                let opened = self.bucket.open().await;
                let is_absent = absences.are_enough(matches!(opened, Err(OpenError::Absent(_))));
                match opened {
                    Ok(_) => break self.note(),
                    Err(OpenError::Absent(reason)) if is_absent => {
                        info!(
                            "the servers of the option cluster_bus have no JetStream ({reason}): masters vote on what the set does once"
                        );
                        return drop(self.worker.send(Work::NoJetStream).await);
                    }
                    Err(OpenError::Absent(_)) => {}
                    Err(error) => self.leases.cannot_open(&error),
                }
                sleep(AGAIN).await;
            }
        }
        self.leases.run(&self.bucket, proof).await;
    }

    fn note(&self) {
        if let Err(error) = self.found.note() {
            warn!(
                "if JetStream is gone at the next start, this master may vote although others do not: {}",
                crate::chain(&error)
            );
        }
    }

    async fn tell(&self) {
        loop {
            let changes = self.leases.changed().await;
            if self.worker.send(Work::Granted(changes)).await.is_err() {
                return;
            }
        }
    }

    /// Waits until the master stops, and gives everything back.
    async fn stop_all(&self) {
        self.stop.cancelled().await;
        if timeout(FAREWELL, self.leases.stop()).await.is_err() {
            warn!("JetStream has not heard in time that this master stops: its leases expire by themselves");
        }
    }
}

impl Worker {
    /// Takes note of what servers have granted.
    pub(super) fn granted(&mut self, changes: Vec<Change>) {
        let Some(granted) = &self.once.leases.granted else { return };
        let node = granted.node;
        let mut actions = Vec::new();
        for change in changes {
            match change {
                Change::Taken { name, fence } => {
                    actions.push(SetAction::Taken { lease: name, fence: Ballot { round: fence, node } });
                }
                Change::Lost { name } => actions.push(SetAction::Lost { lease: name }),
                Change::Health(health) => {
                    // Others that vote hear of it.
                    if matches!(health, Health::New | Health::Sound(_)) {
                        self.take_leases(LeaseSource::JetStream);
                    }
                    report(&health);
                }
                Change::Stranger(stranger) => self.report_stranger(stranger),
            }
        }
        self.follow_leases(actions);
    }

    /// Says who writes into the lease bucket what does not count.
    fn report_stranger(&self, stranger: Stranger) {
        let node = stranger.node.map(Node);
        let called = node.map(|node| match self.members.name(node) {
            Some(name) => format!("the node {node:?} ({name})"),
            None => format!("the node {node:?}"),
        });
        let called = called.unwrap_or_else(|| "somebody".to_owned());
        let is_member = node.is_some_and(|node| matches!(self.members.key_of(node), Some((State::Accepted, _))));
        match (stranger.is_replaced, is_member) {
            (true, true) => warn!(
                "a lease of {called} in JetStream has no proof that this member took it, so it is taken from it: the member runs an \
                 earlier version, or somebody writes there in its name, whose NATS login must be revoked"
            ),
            (true, false) => warn!(
                "{called} takes leases of this set in JetStream and is no member, so they are taken from it: revoke its NATS login"
            ),
            (false, _) => warn!(
                "{called} holds a lease in JetStream, and this master cannot tell whether it is a member: revoke its NATS login if it is \
                 none. If it is one, the cluster_secret or the keys of this master differ from those of the set"
            ),
        }
    }

    /// Tells the others how this member takes leases.
    pub(super) fn take_leases(&self, source: LeaseSource) {
        if self.settings.role != Role::Reader {
            self.members.take_leases(source);
        }
    }

    /// Has the members decide from now on.
    pub(super) fn no_jetstream(&mut self) {
        self.settings.grants = Grants::Members;
        self.take_leases(LeaseSource::Members);
        self.once.held.grant_by(None);
        self.once.leases.granted = None;
        self.restart_duties();
    }
}

fn report(health: &Health) {
    match health {
        Health::Opening => {}
        Health::New => info!("the bucket of leases in JetStream is new: it is used after a lease time"),
        Health::Sound(1) => info!("JetStream grants what the set does once; one server keeps it"),
        Health::Sound(replicas) => info!("JetStream grants what the set does once; {replicas} servers keep it"),
        Health::NoAnswer(reason) => warn!("nobody here runs what the set does once until JetStream answers: {reason}"),
        Health::Unusable(reason) => error!("JetStream cannot grant what the set does once: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_that_there_is_no_jetstream_is_not_enough() {
        let mut absences = Absences::default();
        let answers = [true, true, false, true, true, true];
        assert_eq!(answers.map(|absent| absences.are_enough(absent)), [false, false, false, false, false, true]);
    }
}
