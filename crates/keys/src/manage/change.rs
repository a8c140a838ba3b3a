//! Accepting, rejecting and deleting keys.

use std::collections::HashSet;

use crypto::PublicKey;
use tracing::error;
use value::map;
use wire::MinionId;

use super::selection::ids;
use super::{Changed, KeyManager, Selection};
use crate::{Bank, KeyError, request_rotation};

impl KeyManager {
    /// `key.accept`, `key.accept_dict`: accepts pending keys, and those in the directories `also`.
    pub fn accept(&self, selection: Selection<'_>, also: &[Bank]) -> Result<Changed, KeyError> {
        self.change(selection, Bank::Accepted, also)
    }

    /// `key.reject`, `key.reject_dict`: rejects pending keys, and those in the directories `also`.
    pub fn reject(&self, selection: Selection<'_>, also: &[Bank]) -> Result<Changed, KeyError> {
        let mut changed = self.change(selection, Bank::Rejected, also)?;
        changed.not_rotated = self.after_loss(HashSet::new())?;
        Ok(changed)
    }

    /// `key.delete`, `key.delete_dict`: deletes keys in all directories. With `revoke_auth`, notifies their minions
    /// first.
    pub fn delete(&self, selection: Selection<'_>, revoke_auth: bool) -> Result<Changed, KeyError> {
        let selected = self.selected(&selection)?;
        let mut changed = Changed::default();
        // Salt's order, which decides the order of the events.
        for bank in Bank::LISTED {
            for id in ids(&selected, bank) {
                if revoke_auth && self.options.rotate_aes_key {
                    // Before the key is gone, or the minion could not be addressed any more.
                    self.effects.revoke_auth(&id);
                }
                if !self.is_replaced(&id, bank)? && self.store.remove(&id, bank)? {
                    self.fire("delete", &id, None);
                    changed.done.push((id, bank));
                }
            }
        }
        let kept = if self.options.preserve_minions { ids(&selected, Bank::Accepted) } else { Vec::new() };
        changed.not_rotated = self.after_loss(kept.into_iter().collect())?;
        changed.result = self.now(&selection)?;
        Ok(changed)
    }

    fn change(&self, selection: Selection<'_>, to: Bank, also: &[Bank]) -> Result<Changed, KeyError> {
        let selected = self.selected(&selection)?;
        let mut changed = Changed::default();
        let sources = std::iter::once(Bank::Pending).chain(also.iter().copied());
        for bank in sources.filter(|bank| *bank != to) {
            for id in ids(&selected, bank) {
                self.change_one(id, (bank, to), &mut changed)?;
            }
        }
        changed.result = self.now(&selection)?;
        Ok(changed)
    }

    fn change_one(&self, id: MinionId, (from, to): (Bank, Bank), changed: &mut Changed) -> Result<(), KeyError> {
        let Some(text) = self.store.read(from, &id)? else { return Ok(()) };
        let expected = self.is_expected(&id, &text);
        if expected == Some(false) {
            return Ok(());
        }
        // Accepted, such a file would only produce errors at each sign-in.
        if to == Bank::Accepted && PublicKey::from_pem(text.as_bytes()).is_err() {
            error!("Invalid RSA public key: {id}");
            changed.invalid.push(id);
            return Ok(());
        }
        let moved = match expected {
            Some(_) => self.store.move_text(&id, (from, to), &text)?,
            None => self.store.move_key(&id, from, to)?,
        };
        if moved {
            self.fire(to.word(), &id, Some(text.trim()));
            changed.done.push((id, from));
        }
        Ok(())
    }

    fn is_replaced(&self, id: &MinionId, bank: Bank) -> Result<bool, KeyError> {
        if self.expected.is_empty() {
            return Ok(false);
        }
        let text = self.store.read(bank, id)?;
        Ok(text.and_then(|text| self.is_expected(id, &text)) == Some(false))
    }

    fn fire(&self, act: &str, id: &MinionId, public_key: Option<&str>) {
        let mut data = map! { "result" => true, "act" => act, "id" => id.as_str() };
        if let Some(text) = public_key {
            data.insert("pub", text);
        }
        self.effects.fire("salt/key", data);
    }

    /// Cleans up after keys were rejected or deleted: removes the cached data of minions without a key, and requests a
    /// new AES key, because those minions know the current one. Returns the reason if the request fails.
    fn after_loss(&self, mut keep: HashSet<MinionId>) -> Result<Option<String>, KeyError> {
        if !self.options.preserve_minion_cache {
            let listing = self.store.list()?;
            Bank::ALL.into_iter().for_each(|bank| keep.extend(listing.ids(bank).iter().cloned()));
            self.effects.clean_minion_data(&keep);
        }
        if !self.options.rotate_aes_key {
            return Ok(None);
        }
        // The keys have already been changed, so a failure is reported and not returned as an error.
        let asked = request_rotation(&self.options.cachedir, &self.options.master.id, self.store.owner());
        let Err(refused) = asked else { return Ok(None) };
        let cause = std::error::Error::source(&refused).map_or_else(String::new, |cause| format!(": {cause}"));
        let text = format!(
            "The master could not be asked for a new AES key, so minions whose keys were changed can read its jobs until \
             it makes one: {refused}{cause}"
        );
        Ok(Some(text))
    }
}
