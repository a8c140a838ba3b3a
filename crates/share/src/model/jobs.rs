//! Which of two jobs with one id counts, and who may say so.
//!
//! Records of jobs are not signed, and their stamps can be invented. So a job that another member published is never replaced by
//! what a third one says: whoever publishes a job says so itself, and its slot is at the end of the job id.

use std::collections::BTreeSet;

use super::staged::Origin;
use super::{Model, Moment};
use crate::records::Records;
use crate::{Class, Content, Key, Node, Record};

/// How many jobs there may be of which only others say that this member published them, and whose ids it may still use.
const MOST_RETOLD: usize = 10_000;

/// Jobs of which only others say that this member published them, with ids that it may still use.
///
/// They may be its own: lost with a disk or an old backup, and younger than the present run if the clock was set back since, or
/// ahead before. Or somebody invents them. So they are taken, and make way for what this member publishes itself.
#[derive(Default)]
pub(super) struct Retold(BTreeSet<Key>);

impl Retold {
    /// Returns whether there is room for another one.
    fn has_room(&mut self, minute: u32) -> bool {
        if self.0.len() >= MOST_RETOLD {
            self.0.retain(|key| key.minute() >= Some(minute));
        }
        self.0.len() < MOST_RETOLD
    }

    pub fn contains(&self, key: &Key) -> bool {
        self.0.contains(key)
    }

    pub fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

/// What becomes of a job of another member whose id is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobVerdict {
    /// The copy here stays.
    Keep,
    /// The other one counts.
    Replace,
    /// The order of records decides.
    Merge,
}

impl<R: Records> Model<R> {
    /// Returns whether a job may be taken that is known here or not.
    pub(super) fn is_believed_job(&mut self, from: Node, record: &Record, now: Moment) -> bool {
        let author = record.stamp.node;
        // Nobody keeps returns of others from being stored.
        let silences = matches!(record.content, Content::Job { nocache: true, .. })
            && (from != author || self.publisher(&record.key).is_some_and(|node| node != author));
        !silences && (author != self.node || self.takes_retold(record, now))
    }

    /// Returns whether a job is taken that this member is said to have published.
    fn takes_retold(&mut self, record: &Record, now: Moment) -> bool {
        let minute = |wall: u64| u32::try_from(wall / 60_000).unwrap_or(u32::MAX);
        let may_be_used = record.key.minute() >= self.began.map(minute);
        if !may_be_used || self.current(record.class(), &record.key).is_some() {
            return true;
        }
        let has_room = self.retold.has_room(minute(now.wall));
        if has_room {
            self.retold.0.insert(record.key.clone());
        }
        has_room
    }

    /// Returns whether records have a job as this member published it.
    pub fn has_published(&self, key: &Key) -> bool {
        let job = self.current(Class::Job, key);
        job.is_some_and(|job| self.is_of_this_member(&job) && job.content.is_published())
    }

    /// Returns whether a job that is written here is not in the records as this member published it. Of a batch, which publishes several
    /// times under one id, the latest part is, as in Salt's job cache.
    pub fn is_new_job(&self, key: &Key, content: &Content) -> bool {
        let job = self.current(Class::Job, key).filter(|job| self.is_of_this_member(job) && job.content.is_published());
        job.is_none_or(|job| job.content.is_of_same_batch(content))
    }

    /// Returns whether this member wrote a job, as far as it knows itself.
    fn is_of_this_member(&self, job: &Record) -> bool {
        job.stamp.node == self.node && !self.retold.contains(&job.key)
    }

    /// Returns the member that makes job ids like this one.
    fn publisher(&self, key: &Key) -> Option<Node> {
        self.members.with_slot(key.slot()?)
    }

    fn is_publisher(&self, node: Node, key: &Key) -> bool {
        self.publisher(key) == Some(node)
    }

    /// Returns which of two jobs with one id counts if `from` sends the second one.
    pub(super) fn judge_job(&self, from: Node, before: &Record, record: &Record) -> JobVerdict {
        let same = before.digest == record.digest;
        if !same {
            match (before.content.is_published(), record.content.is_published()) {
                (true, false) => return JobVerdict::Keep,
                (false, true) => return JobVerdict::Replace,
                (false, false) => return JobVerdict::Merge,
                (true, true) => {}
            }
        }
        let (author, known, key) = (record.stamp.node, before.stamp.node, &record.key);
        match () {
            // It was published here.
            () if known == self.node => JobVerdict::Keep,
            () if author != from => JobVerdict::Keep,
            // Somebody else passed it on before, perhaps with another content.
            () if author == known && !same => JobVerdict::Replace,
            () if author != known && self.is_publisher(author, key) && !self.is_publisher(known, key) => {
                JobVerdict::Replace
            }
            () => JobVerdict::Keep,
        }
    }

    /// Returns whether a job that is written here counts although the id is known: somebody else used an id of this member, or a
    /// minion did, or it is the next part of a batch.
    pub(super) fn is_own_job(&self, before: &Record, record: &Record) -> bool {
        let elsewhere = before.stamp.node != self.node && self.is_publisher(self.node, &record.key);
        let retold = self.retold.contains(&record.key);
        let next_part = || before.stamp.node == self.node && before.content.is_of_same_batch(&record.content);
        record.content.is_published() && (elsewhere || retold || !before.content.is_published() || next_part())
    }

    /// Puts a job or a return in the place of another one. Returns whether it says something else.
    pub(super) fn replace(&mut self, before: Record, record: Record, age: u64, now: Moment) -> bool {
        self.clock.observe(record.stamp.time);
        let changed = before.digest != record.digest;
        self.stage(Some(before), record, now.wall.saturating_sub(age), Origin::Remote);
        changed
    }
}
