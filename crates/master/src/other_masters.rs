//! What the master's state, jobs and requests need of the other masters of the set. `sharing` provides it, and uses all of these.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use runners::Guard;
use share::duties::Occasion;
use value::Map;
use wire::{Jid, MinionId};

use crate::open_jobs::OpenJobs;

/// The other masters of the set.
pub trait OtherMasters: Send + Sync {
    /// Sends a job to those that are to deliver it to minions that are not connected here, and notes which of them. Never waits.
    fn forward(&self, job: &PublishedJob<'_>, open: &OpenJobs);

    /// Has them drop a held job. Returns the names of those that are away and hear nothing of it.
    fn drop_held(&self, jid: &Jid) -> Vec<String>;

    /// Returns whether a minion is connected to one of them and not to this master, or was before the link broke a moment ago.
    fn may_be_elsewhere(&self, id: &str) -> bool;

    /// Returns whether an event that a program on a minion sent here is to be fired: no member has sent it yet.
    fn is_first_copy(&self, minion: &str, event: &event::Event) -> bool;

    /// Returns whether this is the name of a member.
    fn is_member(&self, name: &str) -> bool;

    /// Waits until it is known whether this master does at an occasion what the set does once; `None` if it does not.
    fn turn(&self, occasion: Occasion) -> BoxFuture<'static, Option<Box<dyn Turn>>>;

    /// Returns the minions that are connected to this master, which are given, or to another one, sorted by id.
    fn with_those_elsewhere(&self, own: Vec<MinionId>) -> Vec<MinionId>;
}

/// What the set does once is this master's turn. Dropped when it has ended.
pub trait Turn: Send {
    /// Returns what says whether it still is.
    fn guard(&self) -> Arc<dyn Guard>;
}

/// A job that was published here.
pub struct PublishedJob<'a> {
    pub jid: &'a Jid,
    pub load: &'a Map,
    /// The minions that are expected to answer.
    pub targets: &'a [String],
    /// Only minions can decide whether they are targeted, so there may be others than the expected ones.
    pub judged_by_minions: bool,
    /// For how long it may be delivered.
    pub valid_for: Duration,
}
