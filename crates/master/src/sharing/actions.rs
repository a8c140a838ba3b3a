//! Carries out what the model wants.

use bytes::Bytes;
use share::{Action, Carrier as _, Class, Index as _, Key, KeyFile, Message, Node, State};
use tracing::{debug, error, info, warn};
use value::{Value, map};
use wire::MinionId;

use super::jobs::is_cached;
use super::keys::{self as files, Written};
use super::log::{decider, word};
use super::worker::Worker;
use crate::outgoing::Outgoing;

/// How long lost key files are gathered until they are reported, in milliseconds.
const GATHER_LOST: u64 = 500;

/// How many warnings about keys are remembered, so that none is repeated.
const MOST_WARNED: usize = 10_000;

/// How many ids of lost keys an event names.
const MOST_NAMED: usize = 100;

impl Worker {
    pub(super) fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, lane, message } => {
                    if let Some(links) = &self.links {
                        // What is lost is found by comparing; the links report it.
                        links.send(to, lane, message);
                    }
                }
                Action::WriteKey { id, present, denied } => {
                    self.note_unkept_key(&id);
                    self.recheck_conflict(&id);
                    if let Ok(id) = MinionId::new(id.as_str()) {
                        self.write_key(&id, present.as_ref(), denied.as_ref());
                    }
                }
                Action::SetAside { id, reason } => self.set_aside(&id, reason),
                Action::CopyBeside { id, accepted, copy } => self.copy_beside(&id, &accepted, &copy),
                Action::KeyDeleted(id) => self.key_deleted(&id),
                Action::KeysLost(ids) => {
                    self.note_lost(&ids);
                    let at = self.now().steady + GATHER_LOST;
                    self.lost.report_at.get_or_insert(at);
                }
                Action::Conflict { class, key } => self.conflict(class, &key),
                Action::NotStored { class, reason, .. } if is_cached(class) => self.record_not_stored(reason),
                Action::NotStored { class: Class::Claim, key, reason } => {
                    error!("other masters do not hear of the run {key}, and may repeat it: {reason}");
                }
                Action::NotStored { class, key, reason } => {
                    error!("a decision about {class} {key} is not stored, and other masters are not told: {reason}");
                    if let Some(id) = MinionId::new(key.as_str()).ok().filter(|_| class == Class::Keys) {
                        self.not_stored.insert(id, (self.again(), reason));
                    }
                }
                Action::Forgotten { id, digest } => self.note_forgotten(&id, digest),
                Action::Unlink(_) => self.renew_members(),
                Action::Warn(text) => self.warn_of_member(&text),
                Action::Compared { node, at } => self.note_compared(node, at),
                Action::Changed(record) if record.class() == Class::Claim => self.note_claim(&record),
                Action::Changed(record) => {
                    self.note_unkept(&record);
                    if record.class() == Class::Keys {
                        self.recheck_conflict(&record.key);
                    }
                    self.cache_record(&record);
                }
                Action::Received { from, message } => self.received(from, message),
                Action::Safe { records, .. } => self.copied(&records),
            }
        }
    }

    /// Takes note that another member has records on its disk.
    fn copied(&self, records: &[(Class, Key)]) {
        if let Some(copies) = self.shared.outgoing.as_ref().and_then(Outgoing::copies) {
            let returns = records.iter().filter(|(class, _)| *class == Class::Return);
            copies.arrived(returns.map(|(_, key)| key));
        }
    }

    /// Takes a message of another member that is not about records.
    fn received(&mut self, from: Node, message: Message) {
        match message {
            Message::Here(here) => self.hear_presence(from, here),
            Message::Digests(digests) => {
                self.compare_presence(from, &digests);
                self.drift.digests(from, &digests);
            }
            Message::Ask(ask) => {
                self.answer_presence_question(from, &ask);
                self.drift.ask(from, &ask);
            }
            Message::Answer(answer) => self.drift.answer(from, answer),
            Message::Job(job) => self.take_job(from, job),
            Message::Drop(jid) => self.take_drop(from, &jid),
            Message::Events(events) => self.take_events(from, events),
            Message::Vote(packed) => self.take_vote(from, &packed),
            // Later versions send more.
            _ => {}
        }
    }

    fn note_compared(&self, node: Node, at: u64) {
        debug!("this master and {} have equal copies", self.members.called(node));
        self.notes.note_compared(node, at);
        if let Err(error) = self.model.records().inner().set_compared(node, at) {
            warn!("{}", crate::chain(&error));
        }
    }

    /// Writes the key files of an id as the set has decided.
    pub(super) fn write_entry(&mut self, id: &MinionId) {
        let Some(key) = Key::new(id.as_str()) else { return };
        let entry = self.model.entry(Class::Keys, &key);
        if entry.is_empty() {
            return self.set_aside(&key, "what was decided about it does not count any more");
        }
        let present = entry.present().map(|(state, content)| (state, content.clone()));
        self.write_key(id, present.as_ref(), entry.denied());
    }

    fn write_key(&mut self, id: &MinionId, present: Option<&(State, Bytes)>, denied: Option<&Bytes>) {
        // A member may have signed anything.
        if present.is_some_and(|(_, content)| !files::is_key(content)) {
            self.failed.remove(id);
            return warn!("a decision about the key of {id} is not obeyed: it has no valid key");
        }
        let denied = denied.filter(|content| files::is_key(content));
        let Some(key) = Key::new(id.as_str()) else { return };
        let entry = self.model.entry(Class::Keys, &key);
        let written = match files::write(self.store(), id, present, denied, &entry) {
            Ok(written) => written,
            Err(error) => {
                error!("what was decided about the key of {id} is not written: {}", crate::chain(&error));
                self.failed.insert(id.clone(), self.again());
                return;
            }
        };
        self.failed.remove(id);
        let (act, text) = match written {
            Written::Kept(own) => return self.kept(id, &own, present),
            Written::Same | Written::Now(keys::KeyState::Pending) => return,
            Written::Gone => ("delete", None),
            Written::Now(state) => {
                (state.bank().word(), present.map(|(_, text)| String::from_utf8_lossy(text).into_owned()))
            }
        };
        let entry = Key::new(id.as_str()).map(|key| self.model.entry(Class::Keys, &key)).unwrap_or_default();
        let by = entry.visible().map_or_else(String::new, |visible| decider(visible, &self.members));
        info!("the key of {id} is {} now, as decided by {by}", if act == "delete" { "deleted" } else { act });
        if act != "accepted" {
            self.rotates = true;
            self.forget_data(id, act);
            if act == "delete" {
                self.forget_shared_data(&Key::new(id.as_str()).into_iter().collect::<Vec<_>>());
            }
        }
        // Salt's event. This master ends the session of a minion whose key is gone when it sees it.
        let mut data = map! { "result" => true, "act" => act, "id" => id.as_str() };
        if let Some(text) = text {
            data.insert("pub", text);
        }
        self.shared.fire("salt/key", data);
    }

    /// Ends what a minion may still do here whose key file was deleted by hand: `salt-key -d` does that itself.
    fn key_deleted(&mut self, key: &Key) {
        let Ok(id) = MinionId::new(key.as_str()) else { return };
        if self.model.entry(Class::Keys, key).present().is_some() {
            // The deletion could not be stored, or does not count.
            return;
        }
        info!("the key of {id} is deleted now, as its file has vanished");
        self.rotates = true;
        self.forget_shared_data(std::slice::from_ref(key));
        self.shared.fire("salt/key", map! { "result" => true, "act" => "delete", "id" => id.as_str() });
        if self.vanished.is_registered(&id) {
            self.changed_key(&id);
        }
    }

    /// Removes cached data of a minion whose key is gone, as `salt-key -d` does.
    fn forget_data(&self, id: &MinionId, act: &str) {
        let stores = &self.shared.stores;
        if act != "delete" || stores.config.keys.preserve_minion_cache {
            return;
        }
        if let Err(error) = stores.data.remove(id) {
            warn!(minion = %id, "failed to remove the data of {id}: {}", crate::chain(&error));
        }
    }

    fn set_aside(&mut self, id: &Key, reason: &str) {
        let Ok(minion) = MinionId::new(id.as_str()) else { return };
        let entry = self.model.entry(Class::Keys, id);
        warn!("the file of the key of {minion} is not obeyed: {reason}");
        if entry.present().is_some() {
            // Beside it another file counts, which says what was decided.
            self.write_entry(&minion);
        } else {
            if let Err(error) = files::set_aside(self.store(), &minion) {
                warn!("{}", crate::chain(&error));
            }
            // It may have signed in with the file.
            self.rotates = true;
        }
        let data = map! { "id" => minion.as_str(), "reason" => reason };
        self.shared.fire(format!("saltern/key/{minion}/aside"), data);
    }

    fn copy_beside(&mut self, id: &Key, accepted: &[u8], copy: &KeyFile) {
        let finger = |key: &[u8]| self.finger(key).unwrap_or_default();
        let (accepted, other) = (finger(accepted), finger(&copy.content));
        let warning = format!(
            "beside the accepted key file of {id} ({accepted}) lies a {} one ({other}), which this master obeys and \
             other masters are not told: remove one of the two",
            word(copy.state)
        );
        self.warn_once(id.as_str(), warning);
    }

    /// Says that a key that waits here is not replaced by the one that waits on other masters.
    fn kept(&mut self, id: &MinionId, own: &[u8], present: Option<&(State, Bytes)>) {
        let finger = |key: &[u8]| self.finger(key).unwrap_or_default();
        let (own, other) = (finger(own), present.map(|(_, other)| finger(other)).unwrap_or_default());
        let warning = format!(
            "the pending key of {id} is {own} on this master and {other} on others: compare both with that of the \
             minion, then accept the right one on a master that shows it"
        );
        if self.warn_once(id.as_str(), warning) {
            let data = map! { "id" => id.as_str(), "here" => own, "elsewhere" => other };
            self.shared.fire(format!("saltern/key/{id}/differs"), data);
        }
    }

    /// Warns of something about a key that stays as it is until somebody changes it. Returns whether that is news.
    fn warn_once(&mut self, id: &str, warning: String) -> bool {
        if self.warned.get(id) == Some(&warning) {
            return false;
        }
        // What is forgotten is said once more.
        if self.warned.len() >= MOST_WARNED {
            self.warned.clear();
        }
        warn!("{warning}");
        self.warned.insert(id.to_owned(), warning);
        true
    }

    /// Returns the ids whose key files are gone, although nobody has decided so.
    pub(super) fn missing(&self) -> Vec<MinionId> {
        let known = self.model.records().items(Class::Keys, 0..=u32::MAX);
        let missing = known.into_iter().filter_map(|(key, _)| {
            let id = MinionId::new(key.as_str()).ok()?;
            let gone = files::read(self.store(), &id).is_ok_and(|found| self.vanished.is_gone(&id, &found));
            let entry = self.model.entry(Class::Keys, &key);
            (gone && entry.present().is_some_and(|(_, content)| files::is_key(content))).then_some(id)
        });
        missing.collect()
    }

    /// Returns how many keys are lost and wait for somebody to restore or adopt them.
    pub(super) fn lost_keys(&self) -> usize {
        let waits = self.lost.reported > 0 || self.lost.report_at.is_some();
        // Their files are looked for, which takes long if there are many, and is only needed then.
        if waits { self.missing().len() } else { 0 }
    }

    /// Writes down which keys are lost, for the next start.
    pub(super) fn note_lost(&self, ids: &[Key]) {
        if let Err(error) = self.lost_file.write(ids) {
            error!("a restart may take lost keys for deleted ones: {}", crate::chain(&error));
        }
    }

    /// Reports lost key files, once no more of them are expected.
    pub(super) fn report_lost(&mut self) {
        if self.lost.report_at.is_none_or(|at| at > self.now().steady) {
            return;
        }
        self.lost.report_at = None;
        let ids = self.missing();
        if std::mem::replace(&mut self.lost.reported, ids.len()) == ids.len() || ids.is_empty() {
            return;
        }
        error!(
            "the key files of {} minions vanished at once, which other masters are not told. Write them again with \
             'salt-run saltern.keys restore', or delete these keys everywhere with 'salt-run saltern.keys adopt'",
            ids.len()
        );
        let named: Vec<Value> = ids.iter().take(MOST_NAMED).map(|id| id.as_str().into()).collect();
        self.shared.fire("saltern/key/lost", map! { "count" => ids.len(), "ids" => named });
    }

    fn conflict(&self, class: Class, key: &Key) {
        if class != Class::Keys {
            return debug!("members decided differently about the member {key}");
        }
        self.notes.note_conflict(key);
        warn!(
            "masters decided differently about the key of {key} at the same time; the safer decision counts: \
             salt-run saltern.conflicts"
        );
        self.shared.fire(format!("saltern/key/{key}/conflict"), map! { "id" => key.as_str() });
    }
}
