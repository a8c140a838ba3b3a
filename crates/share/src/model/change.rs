//! Changes that this member makes itself.

use bytes::Bytes;

use super::members::described;
use super::staged::Origin;
use super::{Action, KeptRecord, Model, Moment};
use crate::files::{self, FileVerdict, judge};
use crate::member::{self, Member};
use crate::records::Records;
use crate::{By, Class, Content, Decision, Entry, Key, KeyFile, Lost, Node, Record, SignedDecision, State, Wish};

/// Something that happened on this member.
#[derive(Clone, Debug)]
pub enum Change {
    /// Somebody here decided about a minion key.
    Key {
        /// The minion id.
        id: Key,
        /// The decided state.
        state: State,
        /// The public key; may be empty for a deletion.
        public_key: Bytes,
        /// Who or what decided.
        by: By,
    },
    /// Somebody here decided about a member.
    Member(Member, State, By),
    /// A record of another class was written here.
    Write(Key, Content),
    /// Key files changed, and not by this master: these are the files of the id now.
    Files(Key, Vec<KeyFile>),
    /// Several changes, which are stored in one step.
    Together(Vec<Change>),
    /// Key files of these ids were gone when the master started. `holding` are the directories that were there before the start
    /// and hold other keys.
    GoneAtStart {
        /// The minion ids.
        ids: Vec<Key>,
        /// The directories, by the state that their files have.
        holding: Vec<State>,
    },
    /// A whole key directory is gone.
    DirectoryGone,
    /// The key directory is there again.
    DirectoryBack,
    /// The lost key files were written again, so nothing is decided.
    LossRestored,
    /// The lost key files were meant to be deleted.
    LossAdopted,
    /// Decisions about members that came with the welcome into the set. Their signatures are checked with the keys in them, and
    /// whoever sent them must be a member by them.
    Welcome {
        /// The member that sent them.
        from: Node,
        /// The decisions.
        decisions: Vec<Record>,
    },
    /// Decisions that were kept outside the set. They are checked as if whoever had them kept had passed them on.
    Kept(Vec<KeptRecord>),
}

impl<R: Records> Model<R> {
    /// Takes a change that was made here.
    pub fn local(&mut self, change: Change, now: Moment) -> Vec<Action> {
        let now = self.read_clock(now);
        let mut actions = Vec::new();
        self.change(change, now, &mut actions);
        // What is not stored is reported with the reason.
        let _reported = self.store_staged(now, &mut actions);
        actions
    }

    fn change(&mut self, change: Change, now: Moment, actions: &mut Vec<Action>) {
        match change {
            Change::Together(all) => all.into_iter().for_each(|one| self.change(one, now, actions)),
            Change::Key { id, state, public_key, by } => {
                let content = files::clean(&public_key);
                let wish = Wish { class: Class::Keys, key: id, state, content, by };
                self.decide(wish, now, actions);
            }
            Change::Member(member, state, by) => {
                let key = Key::of_node(member.node());
                let once = member::once_allowed(&self.entry(Class::Members, &key));
                let content = member.pack_with(once);
                self.decide(Wish { class: Class::Members, key, state, content, by }, now, actions);
            }
            Change::Write(key, content) => self.write(key, content, now, actions),
            Change::Files(id, files) => self.files(id, &files, now, actions),
            Change::GoneAtStart { ids, holding } => self.gone_at_start(ids, &holding, now, actions),
            Change::DirectoryGone => self.losses.directory_gone(),
            Change::DirectoryBack => self.losses.directory_back(),
            Change::LossRestored => drop(self.losses.release()),
            Change::LossAdopted => {
                let lost = self.losses.release();
                self.delete(lost, now, actions);
            }
            Change::Welcome { from, decisions } => self.welcomed(from, decisions, now, actions),
            Change::Kept(decisions) => self.kept(decisions, now, actions),
        }
    }

    fn decide(&mut self, wish: Wish, now: Moment, actions: &mut Vec<Action>) {
        let (class, key) = (wish.class, wish.key.clone());
        if !key.fits(class) {
            let reason = format!("this is no key of {class}");
            actions.push(Action::NotStored { class, key, reason });
            return;
        }
        let wished = (wish.state != State::Deleted).then(|| (wish.state, wish.content.clone()));
        let entry = self.entry(class, &key);
        let same = wished.is_some() && entry.present().map(|(state, content)| (state, content.clone())) == wished;
        match class {
            // A sign-in writes nothing if the file of an accepted key is there.
            Class::Keys if wish.by == By::Auto && same => self.losses.made_again(&key, now.steady),
            // Whoever decides about a key, and be it what was decided before, knows what its files say.
            Class::Keys => self.losses.back(&key),
            _ => {}
        }
        if self.leaves_to_others(&wish, &entry, actions) {
            if class == Class::Keys {
                self.follow_others(&key, &entry, wished, actions);
            }
            return;
        }
        self.clock.observe(entry.latest());
        let stamp = self.stamp(now);
        let Some(decision) = entry.decide(wish, stamp) else {
            // The files may say something else than what was decided before.
            self.write_key(class, &key, &entry, wished, actions);
            return;
        };
        let before = self.current(class, &key);
        if let Err(reason) = self.refuse_own(&decision, before.as_ref()) {
            actions.push(Action::NotStored { class, key, reason });
            return;
        }
        let decision = match SignedDecision::sign(decision, &self.key) {
            Ok(decision) => decision,
            Err(error) => {
                let reason = format!("it could not be signed: {error}");
                return actions.push(Action::NotStored { class, key, reason });
            }
        };
        let decided = entry.merge(&Entry::new(vec![decision]));
        let record = Record::new(key, stamp, Content::Decided(class, decided));
        self.stage(before, record, now.wall, Origin::Decided(wished));
    }

    /// Refuses a decision of this member that others would refuse, or for which there is no room.
    fn refuse_own(&self, decision: &Decision, before: Option<&Record>) -> Result<(), String> {
        decision.check().map_err(|error| error.to_string())?;
        if decision.class == Class::Members && described(&decision.key, decision).is_none() {
            return Err("it does not describe the member".to_owned());
        }
        self.room(decision.class, before, decision.state == State::Deleted)
    }

    /// Has the key files written if they are not what somebody here just made of them.
    pub(super) fn write_key(
        &self,
        class: Class,
        id: &Key,
        entry: &Entry,
        files: Option<(State, Bytes)>,
        actions: &mut Vec<Action>,
    ) {
        let present = entry.present().map(|(state, content)| (state, content.clone()));
        if class == Class::Keys && present != files {
            let (id, denied) = (id.clone(), entry.denied().cloned());
            actions.push(Action::WriteKey { id, present, denied });
        }
    }

    fn write(&mut self, key: Key, content: Content, now: Moment, actions: &mut Vec<Action>) {
        let class = content.class();
        if class.is_decided() || !key.fits(class) {
            let reason = format!("this is no key of {class}");
            actions.push(Action::NotStored { class, key, reason });
            return;
        }
        let record = Record::new(key, self.stamp(now), content);
        if self.is_job_ahead(&record) {
            let reason = "the job id is more than a day ahead".to_owned();
            actions.push(Action::NotStored { class, key: record.key, reason });
            return;
        }
        let before = self.current(class, &record.key);
        let is_first = self.retold.contains(&record.key) && record.content.is_published();
        let room = self.room(class, before.as_ref(), record.is_tombstone());
        if let Err(reason) = record.check().map_err(|error| error.to_string()).and(room) {
            actions.push(Action::NotStored { class, key: record.key, reason });
            return;
        }
        let merged = match &before {
            None => record,
            Some(before) if before.contradicts(&record) && self.is_own_job(before, &record) => record,
            Some(before) => {
                if before.contradicts(&record) {
                    let key = &before.key;
                    actions.push(Action::Warn(format!("there are two jobs with the id {key}; the first counts")));
                }
                before.merge(&record)
            }
        };
        if is_first {
            self.retold.forget(&merged.key);
        }
        if is_first || before.as_ref().is_none_or(|before| before.digest != merged.digest) {
            self.stage(before, merged, now.wall, Origin::Written);
        }
    }

    fn files(&mut self, id: Key, files: &[KeyFile], now: Moment, actions: &mut Vec<Action>) {
        let entry = self.entry(Class::Keys, &id);
        if !files.is_empty() {
            self.losses.back(&id);
        }
        match judge(Some(&entry), files) {
            FileVerdict::Nothing => {}
            FileVerdict::Decide(state, content) => {
                self.decide(Wish { class: Class::Keys, key: id, state, content, by: By::Files }, now, actions);
            }
            FileVerdict::SetAside(_, reason) => actions.push(Action::SetAside { id, reason }),
            FileVerdict::Beside { accepted, copy } => actions.push(Action::CopyBeside { id, accepted, copy }),
            FileVerdict::Gone => self.losses.gone(id, now.steady),
        }
        self.decide_losses(now, actions);
    }

    fn gone_at_start(&mut self, ids: Vec<Key>, holding: &[State], now: Moment, actions: &mut Vec<Action>) {
        let state = |id: &Key| self.entry(Class::Keys, id).present().map(|(state, _)| state);
        let gone: Vec<State> = ids.iter().filter_map(state).collect();
        match files::deleted_while_down(&gone, holding) {
            true => ids.into_iter().for_each(|id| self.losses.gone(id, now.steady)),
            false => self.losses.lost(ids, now.steady),
        }
        self.decide_losses(now, actions);
    }

    pub(super) fn decide_losses(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.losses.is_empty() {
            return;
        }
        match self.losses.decide(now.steady, self.live_keys) {
            None => {}
            Some(Lost::Deleted(ids)) => self.delete(ids, now, actions),
            Some(Lost::TooMany(ids)) => actions.push(Action::KeysLost(ids)),
        }
    }

    fn delete(&mut self, ids: Vec<Key>, now: Moment, actions: &mut Vec<Action>) {
        for key in ids {
            let Some((_, content)) = self.entry(Class::Keys, &key).present().map(|(state, key)| (state, key.clone()))
            else {
                continue;
            };
            let wish = Wish { class: Class::Keys, key: key.clone(), state: State::Deleted, content, by: By::Files };
            self.decide(wish, now, actions);
            actions.push(Action::KeyDeleted(key));
        }
    }
}
