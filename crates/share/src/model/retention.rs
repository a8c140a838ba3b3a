//! Forgetting: what is too old to be kept, or to be taken from others.

use super::{Action, Model, Moment};
use crate::records::{RecordChange, Records};
use crate::{Class, Content, Record};

/// How often old records are looked for, in milliseconds.
const SWEEP_EVERY: u64 = 600_000;

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
            content if content.class().is_timed() => {
                let keep = self.settings.keep_jobs;
                let minute = record.key.minute().unwrap_or(0);
                keep > 0 && u64::from(minute) < now.wall.saturating_sub(keep) / 60_000
            }
            _ => record.is_tombstone() && age >= self.settings.keep_tombstones,
        }
    }

    /// Removes expired records, except those of jobs: they are removed with the job cache.
    pub(super) fn sweep(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.sweep > now.steady {
            return;
        }
        self.sweep = now.steady + SWEEP_EVERY;
        let before = now.wall.saturating_sub(self.settings.keep_tombstones);
        let mut removed = Vec::new();
        for class in [Class::Keys, Class::Data] {
            let old = self.records.tombstones(class, before);
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
        if let Err(error) = self.records.apply(removed, self.clock.last()) {
            actions.push(Action::Warn(format!("expired records are not removed: {error}")));
        }
    }
}
