//! Forgetting: what is too old to be kept, or to be taken from others.

use super::{Action, MOST_AHEAD, Model, Moment};
use crate::records::{RecordChange, Records};
use crate::{Class, Content, Level, Record};

/// How often old records are looked for, in milliseconds.
const SWEEP_EVERY: u64 = 600_000;

/// How many records of jobs are removed in one step. What is left is removed soon after, so that nothing waits for long.
const MOST_JOB_RECORDS: usize = 10_000;

/// How soon, in milliseconds.
const SWEEP_AGAIN: u64 = 1_000;

/// For how long claims are kept, in milliseconds.
const KEEP_CLAIMS: u64 = 86_400_000;

impl<R: Records> Model<R> {
    /// Returns whether a record that has been known for `age` is not kept any more.
    pub(super) fn is_over(&self, record: &Record, age: u64, now: Moment) -> bool {
        match &record.content {
            // A removed member never comes back, so its removal is never forgotten.
            Content::Decided(Class::Members, _) => false,
            Content::Token { expires, .. } => *expires <= now.wall,
            Content::Claim(_) => age >= KEEP_CLAIMS,
            content if content.class().is_timed() => record.key.minute().unwrap_or(0) < self.first_kept_minute(now),
            _ => record.is_tombstone() && age >= self.settings.keep_tombstones,
        }
    }

    /// Returns whether a record belongs to a job of the future. It would be kept until its time has passed, however far that is, and
    /// the job that gets this id then would lose its own record to it.
    pub(super) fn is_job_ahead(&self, record: &Record) -> bool {
        let last = self.latest.saturating_add(MOST_AHEAD) / 60_000;
        record.class().is_timed() && record.key.minute().is_some_and(|minute| u64::from(minute) > last)
    }

    /// Returns the first minute whose jobs are kept.
    fn first_kept_minute(&self, now: Moment) -> u32 {
        match self.settings.keep_jobs {
            0 => 0,
            keep => u32::try_from(now.wall.saturating_sub(keep) / 60_000).unwrap_or(u32::MAX),
        }
    }

    /// Returns removals of records of jobs that are not kept any more, some of them if there are many.
    fn old_jobs(&self, now: Moment) -> Vec<RecordChange> {
        let Some(last) = self.first_kept_minute(now).checked_sub(1) else { return Vec::new() };
        let mut removed = Vec::new();
        for class in Class::ALL.into_iter().filter(|class| class.is_timed()) {
            for (minute, _) in self.records.parts(class, Level::Minute, 0..=last) {
                if removed.len() >= MOST_JOB_RECORDS {
                    return removed;
                }
                let items = self.records.items(class, minute..=minute).into_iter();
                let room = MOST_JOB_RECORDS - removed.len();
                removed.extend(items.take(room).map(|(key, _)| RecordChange::Remove { class, key }));
            }
        }
        removed
    }

    /// Removes expired records.
    pub(super) fn sweep(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.sweep > now.steady {
            return;
        }
        self.sweep = now.steady + SWEEP_EVERY;
        let before = now.wall.saturating_sub(self.settings.keep_tombstones);
        let mut removed = self.old_jobs(now);
        if removed.len() >= MOST_JOB_RECORDS {
            self.sweep = now.steady + SWEEP_AGAIN;
        }
        let mut forgotten = Vec::new();
        for class in [Class::Keys, Class::Data] {
            let old = self.records.tombstones(class, before);
            if class == Class::Keys {
                let known = old.iter().filter_map(|id| self.records.get(class, id));
                forgotten.extend(known.map(|record| Action::Forgotten { id: record.key, digest: record.digest }));
            }
            removed.extend(old.into_iter().map(|key| RecordChange::Remove { class, key }));
        }
        for class in [Class::Token, Class::Claim] {
            for (key, _) in self.records.items(class, 0..=u32::MAX) {
                let Some(record) = self.records.get(class, &key) else { continue };
                if self.is_over(&record, self.age(&record, now), now) {
                    removed.push(RecordChange::Remove { class, key });
                }
            }
        }
        if removed.is_empty() {
            return;
        }
        match self.records.apply(removed, self.clock.last()) {
            Ok(()) => actions.append(&mut forgotten),
            Err(error) => actions.push(Action::Warn(format!("expired records are not removed: {error}"))),
        }
    }
}
