//! Records and offers of other members: who may send what, and what becomes of it.

use std::collections::BTreeSet;

use super::jobs::JobVerdict;
use super::returns::ReturnVerdict;
use super::staged::Origin;
use super::{Action, MOST_AHEAD, Model, Moment};
use crate::member::Right;
use crate::message::{Have, Put, Stored};
use crate::records::Records;
use crate::traffic::Way;
use crate::{Class, Content, Entry, Key, Lane, Message, Node, Record};

/// Why a record of another member is not stored.
pub(super) enum Refusal {
    /// It must not be believed, or the disk is full. Both members warn of it.
    Refused(String),
    /// The settings of this member say so.
    NotKept,
}

/// How many bytes of records answer one request.
pub(super) const MOST_SERVED: usize = 4 << 20;

/// The data of minions that are shared. Pillars of environments stay where they were compiled.
const KINDS: [&str; 3] = ["grains", "pillar", "mine"];

/// Returns the latest time in a record.
fn latest(record: &Record) -> u64 {
    match &record.content {
        Content::Decided(_, entry) => entry.latest().max(record.stamp.time),
        _ => record.stamp.time,
    }
}

fn tombstone(record: Option<&Record>) -> bool {
    record.is_some_and(Record::is_tombstone)
}

impl<R: Records> Model<R> {
    /// Takes records of another member and answers what became of them: all are stored in one step.
    pub(super) fn receive(&mut self, from: Node, put: Put, now: Moment, actions: &mut Vec<Action>) {
        let Put { number, records, unreadable, served } = put;
        let count = (records.len() + unreadable.len()) as u64;
        let (mut refused, mut not_kept, mut news) = (Vec::new(), Vec::new(), Vec::new());
        for (place, error) in &unreadable {
            match error {
                Some(error) => refused.push((*place, error.to_string())),
                None => not_kept.push(*place),
            }
        }
        let skipped: BTreeSet<u64> = unreadable.iter().map(|(place, _)| *place).collect();
        let places = (0..count).filter(|place| !skipped.contains(place));
        for (place, (record, age)) in places.zip(records) {
            let (class, key) = (record.class(), record.key.clone());
            let straight = record.stamp.node == from;
            self.counts.add(Way::Received, class);
            match self.receive_one(from, record, age, now, actions) {
                Ok(true) if straight => news.push(Some((class, key))),
                Ok(_) => {}
                Err(Refusal::Refused(reason)) => refused.push((place, reason)),
                Err(Refusal::NotKept) => not_kept.push(place),
            }
        }
        if let Err(error) = self.store_staged(now, actions) {
            news.clear();
            refused = (0..count).map(|place| (place, error.to_string())).collect();
            self.compare_when_stored(from, now);
        }
        if !news.is_empty() {
            self.pass_on(from, &news, now, actions);
        }
        if let Some((_, reason)) = refused.first() {
            let (count, name) = (refused.len(), self.members.called(from));
            actions.push(Action::Warn(format!("{count} records of {name} are refused: {reason}")));
        }
        self.send(from, Lane::Talk, &Message::Stored(Stored { number, refused, not_kept }), actions);
        if let Some((round, served)) = served {
            self.served(from, round, served, now, actions);
        }
    }

    /// Takes a record of another member, to be stored with the others of its message. Returns whether it is new here.
    pub(super) fn receive_one(
        &mut self,
        from: Node,
        record: Record,
        age: u64,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Result<bool, Refusal> {
        let class = record.class();
        if !self.settings.shared.and(self.members.gets(self.node)).contains(class) {
            return Err(Refusal::NotKept);
        }
        if let Some(reason) = self.far_ahead(&record) {
            return Err(Refusal::Refused(reason));
        }
        let (record, refusal) = match record.content {
            Content::Decided(_, entry) => {
                let (entry, refusal) = self.checked(from, class, &record.key, entry);
                let refusal = refusal.map_or(Ok(false), |reason| Err(Refusal::Refused(reason)));
                if entry.decisions().is_empty() {
                    return refusal;
                }
                (Record::new(record.key, record.stamp, Content::Decided(class, entry)), refusal)
            }
            _ => {
                let right = Right::of_class(class);
                if !self.members.rights(from).contains(right) {
                    return Err(Refusal::Refused(format!("its sender lacks the right {}", right.name())));
                }
                (record, Ok(false))
            }
        };
        let unknown = class == Class::Data && !self.is_of_known_minion(&record);
        if unknown || self.is_over(&record, age, now) || self.is_job_ahead(&record) {
            return Err(Refusal::NotKept);
        }
        if class == Class::Job && !self.is_believed_job(from, &record, now) {
            return Err(Refusal::NotKept);
        }
        if class == Class::Job
            && let Some(before) = self.current(class, &record.key)
        {
            match self.judge_job(from, &before, &record) {
                JobVerdict::Merge => {}
                JobVerdict::Replace => return Ok(self.replace(before, record, age, now)),
                JobVerdict::Keep if before.digest == record.digest => return Ok(false),
                // A return that is faster than its publication makes such a job.
                JobVerdict::Keep if !record.content.is_published() => return Err(Refusal::NotKept),
                // The publisher says itself which part of a batch is the latest.
                JobVerdict::Keep if before.content.is_of_same_batch(&record.content) => return Err(Refusal::NotKept),
                JobVerdict::Keep => {
                    let (name, key) = (self.members.called(from), &record.key);
                    actions.push(Action::Warn(format!("{name} sent another job for the id {key}, which is not taken")));
                    return Err(Refusal::NotKept);
                }
            }
        }
        if class == Class::Return
            && let Some(before) = self.current(class, &record.key)
        {
            match self.judge_return(from, &before, &record) {
                ReturnVerdict::Merge => {}
                ReturnVerdict::Replace => return Ok(self.replace(before, record, age, now)),
                ReturnVerdict::Keep { differs } => {
                    if differs {
                        let (name, key) = (self.members.called(from), &record.key);
                        let what = "which is a reader, sent another return for";
                        actions.push(Action::Warn(format!("{name}, {what} {key}; the one that is here stays")));
                    }
                    return Err(Refusal::NotKept);
                }
            }
        }
        let new = self.merge(record, age, now, actions).map_err(Refusal::Refused)?;
        refusal.map(|_| new)
    }

    /// Returns whether data belong to a minion whose key is known and not deleted, so that there are no more than keys. A tombstone
    /// may also be of a key that is deleted.
    fn is_of_known_minion(&self, record: &Record) -> bool {
        if !self.settings.shared.contains(Class::Keys) {
            return true;
        }
        let Some((kind, id)) = record.key.parts() else { return false };
        let entry = Key::new(id).map(|id| self.entry(Class::Keys, &id)).unwrap_or_default();
        let known = if record.is_tombstone() { !entry.is_empty() } else { entry.present().is_some() };
        known && KINDS.contains(&kind)
    }

    /// Returns why a record is refused for its stamps, if they are so far ahead that the clock must not follow them.
    pub(super) fn far_ahead(&self, record: &Record) -> Option<String> {
        let (latest, wall) = (latest(record) >> 16, self.latest);
        let ahead = latest > wall.saturating_add(MOST_AHEAD);
        ahead.then(|| format!("it is stamped {} days ahead", (latest - wall) / MOST_AHEAD))
    }

    /// Returns the decisions of an entry that count, and why others do not. Decisions that are here already were checked then.
    fn checked(&self, from: Node, class: Class, key: &Key, entry: Entry) -> (Entry, Option<String>) {
        let own = self.entry(class, key);
        let (mut good, mut refusal) = (Vec::new(), None);
        for decision in entry.decisions() {
            let known = own.decisions().contains(decision);
            match if known { None } else { self.members.refuse(decision, from) } {
                None => good.push(decision.clone()),
                Some(reason) => refusal = Some(reason),
            }
        }
        (Entry::new(good), refusal)
    }

    /// Merges a record from elsewhere into the copy here, to be stored later. Returns whether that made something new of it.
    pub(super) fn merge(
        &mut self,
        record: Record,
        age: u64,
        now: Moment,
        actions: &mut Vec<Action>,
    ) -> Result<bool, String> {
        let class = record.class();
        self.clock.observe(latest(&record));
        let before = self.current(class, &record.key);
        if let Some(before) = before.as_ref().filter(|before| before.contradicts(&record)) {
            actions.push(Action::Warn(format!("there are two jobs with the id {}; the first counts", before.key)));
        }
        let merged = before.as_ref().map_or_else(|| record.clone(), |before| before.merge(&record));
        let merged = self.without_vain(merged);
        if before.as_ref() == Some(&merged) {
            return Ok(false);
        }
        self.room(class, before.as_ref(), merged.is_tombstone())?;
        let changed = before.as_ref().is_none_or(|before| before.digest != merged.digest);
        let (tombstones, first_known) =
            (tombstone(before.as_ref()) && merged.is_tombstone(), now.wall.saturating_sub(age));
        let arrived = match self.arrived(class, &merged.key) {
            Some(arrived) if !changed => arrived,
            // Both are remembered for as long as the younger one.
            Some(arrived) if tombstones => arrived.max(first_known),
            _ => first_known,
        };
        self.stage(before, merged, arrived, Origin::Remote);
        Ok(changed)
    }

    /// Reports what another member changed.
    pub(super) fn changed_elsewhere(&mut self, before: Option<&Record>, record: Record, actions: &mut Vec<Action>) {
        if let Content::Decided(class, entry) = &record.content {
            let empty = Entry::default();
            let earlier = match before.map(|before| &before.content) {
                Some(Content::Decided(_, entry)) => entry,
                _ => &empty,
            };
            let key = &record.key;
            if *class == Class::Keys && (earlier.present() != entry.present() || earlier.denied() != entry.denied()) {
                // The file is written again or stays away: either way its loss decides nothing any more.
                self.losses.back(key);
                let (id, present) = (key.clone(), entry.present().map(|(state, content)| (state, content.clone())));
                actions.push(match entry.is_empty() {
                    // Nobody has deleted it, and what was decided before may come back.
                    true => Action::SetAside { id, reason: "a master decided about it after its removal" },
                    false => Action::WriteKey { id, present, denied: entry.denied().cloned() },
                });
            }
            if entry.conflicts().len() > earlier.conflicts().len() {
                actions.push(Action::Conflict { class: *class, key: key.clone() });
            }
        }
        actions.push(Action::Changed(record));
    }

    /// Takes note that records are safe at another member, or were refused.
    pub(super) fn stored(&mut self, from: Node, stored: Stored, now: Moment, actions: &mut Vec<Action>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(sent) = peer.unanswered.remove(&stored.number) else { return };
        let refused = stored.refused.iter().map(|(place, _)| *place);
        let places: BTreeSet<u64> = refused.chain(stored.not_kept).collect();
        let safe = sent.records.into_iter().enumerate().filter(|(place, _)| !places.contains(&(*place as u64)));
        let records: Vec<(Class, Key)> = safe.map(|(_, key)| key).collect();
        if let Some((_, reason)) = stored.refused.first() {
            let (count, name) = (stored.refused.len(), self.members.called(from));
            actions.push(Action::Warn(format!("{name} refused {count} records: {reason}")));
        }
        if !records.is_empty() {
            actions.push(Action::Safe { node: from, records });
        }
        self.deliver(from, now, actions);
    }

    /// Takes announcements of another member and asks for what is newer than the copy here.
    pub(super) fn offered(&mut self, from: Node, all: Vec<Have>, actions: &mut Vec<Action>) {
        let mut wanted = Vec::new();
        for Have { class, key, digest, stamp } in all {
            if let Some(peer) = self.peers.get_mut(&from)
                && class == Class::Data
            {
                peer.announced(key.clone(), digest);
            }
            let own = (key.fits(class) && self.settings.shared.contains(class)).then(|| self.records.get(class, &key));
            if own.is_some_and(|own| own.is_none_or(|own| own.digest != digest && own.stamp < stamp)) {
                wanted.push((class, key));
            }
        }
        if !wanted.is_empty() {
            self.send(from, Lane::Talk, &Message::Want(wanted), actions);
        }
    }

    /// Sends records that another member asks for.
    pub(super) fn send_requested(
        &mut self,
        from: Node,
        keys: Vec<(Class, Key)>,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let keys: Vec<Option<(Class, Key)>> = keys
            .into_iter()
            .filter(|(class, key)| key.fits(*class) && self.settings.shared.contains(*class))
            .map(Some)
            .collect();
        // What does not fit is found by comparing.
        self.send_keys(from, &keys, MOST_SERVED, now, actions);
    }

    /// Announces data that changed here, to whoever did not announce the same.
    pub(super) fn announce(&mut self, now: Moment, actions: &mut Vec<Action>) {
        let due: Vec<Key> =
            self.announcements.iter().filter(|(_, one)| one.due <= now.steady).map(|(key, _)| key.clone()).collect();
        if due.is_empty() {
            return;
        }
        let due: Vec<_> = due.into_iter().filter_map(|key| self.announcements.remove_entry(&key)).collect();
        for node in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(peer) = self.peers.get(&node).filter(|_| self.members.gets(node).contains(Class::Data)) else {
                continue;
            };
            let unknown = due.iter().filter(|(key, one)| peer.announced.get(key) != Some(&one.digest));
            let all: Vec<Have> = unknown
                .map(|(key, one)| Have { class: Class::Data, key: key.clone(), digest: one.digest, stamp: one.stamp })
                .collect();
            for some in all.chunks(1_000) {
                self.send(node, Lane::Talk, &Message::Have(some.to_vec()), actions);
            }
        }
    }
}
