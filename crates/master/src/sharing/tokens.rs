//! Tokens of people who have logged in, as records and in the directory of tokens.
//!
//! The directory is the truth, as it is for Salt's programs: a token whose file is gone is revoked on all masters. Whoever deletes
//! files of tokens wants to log people out.

use std::collections::BTreeSet;

use bytes::Bytes;
use share::{Change, Class, Content, Index as _, Key, Records as _};
use tracing::{info, warn};
use value::{Map, Value};
use wire::msgpack::{Packing, pack_map_into};

use super::jobs::NotWritten;
use super::worker::Worker;
use crate::outgoing::{ChangedTokens, unpacked};

impl Worker {
    /// Makes records of all tokens that were made or removed. Returns how many.
    pub(super) fn look_at_tokens(&mut self) -> usize {
        let changes = self.token_changes(&ChangedTokens { any: true, ..ChangedTokens::default() });
        let count = changes.len();
        // What is not stored is found by the next look.
        self.write_records(changes);
        count
    }

    /// Returns the changes of records that the files of tokens ask for.
    pub(super) fn token_changes(&self, changed: &ChangedTokens) -> Vec<Change> {
        let mut texts = changed.texts.clone();
        if changed.any {
            match self.different_tokens() {
                Ok(different) => texts.extend(different),
                Err(error) => warn!("tokens are not compared with other masters: {}", crate::chain(&error)),
            }
        }
        let changes: Vec<Change> = texts.iter().filter_map(|text| self.token_change(text)).collect();
        let revoked = changes.iter().filter(|change| is_removal(change)).count();
        if revoked > 0 {
            info!("{revoked} tokens without a file are revoked on all masters");
        }
        changes
    }

    /// Returns the tokens of which only a file or only a record is there.
    fn different_tokens(&self) -> store::Result<Vec<String>> {
        let files: BTreeSet<String> = self.shared.stores.tokens.list()?.into_iter().collect();
        let mut recorded = BTreeSet::new();
        for (key, _) in self.model.records().items(Class::Token, 0..=u32::MAX) {
            if self.model.records().get(Class::Token, &key).is_some_and(|record| !record.is_tombstone()) {
                recorded.insert(key.as_str().to_owned());
            }
        }
        Ok(files.symmetric_difference(&recorded).cloned().collect())
    }

    fn token_change(&self, text: &str) -> Option<Change> {
        let key = Key::new(text).filter(|key| key.fits(Class::Token))?;
        let stores = &self.shared.stores;
        let file = stores.tokens.get(text, stores.rt.now());
        let file = file.inspect_err(|error| warn!("a token is not shared: {}", crate::chain(error))).ok()?;
        let record = self.model.records().get(Class::Token, &key).map(|record| record.content);
        match (file, record) {
            (Some(token), None) => {
                let expires = expiry(&token)?;
                let mut packed = Vec::new();
                pack_map_into(&mut packed, &token, Packing::Bin);
                Some(Change::Write(key, Content::Token { token: Some(packed.into()), expires }))
            }
            // It comes from a backup, or could not be removed when it was revoked.
            (Some(_), Some(Content::Token { token: None, .. })) => {
                if let Err(error) = stores.tokens.remove(text) {
                    warn!("a token that another master has revoked is still valid here: {}", crate::chain(&error));
                }
                None
            }
            (None, Some(Content::Token { token: Some(_), expires })) => {
                let revoked = expires > self.clock.read().present && !self.caches.lack(Class::Token, &key);
                revoked.then(|| Change::Write(key, Content::Token { token: None, expires }))
            }
            _ => None,
        }
    }

    /// Writes or removes the file of a token that another master has made or revoked.
    pub(super) fn write_token(&self, key: &Key, token: Option<&Bytes>, expires: u64) -> Result<(), NotWritten> {
        let tokens = &self.shared.stores.tokens;
        let Some(packed) = token else { return Ok(tokens.remove(key.as_str()).map(drop)?) };
        let token = unpacked(packed).filter(|token| is_token(token, key, expires)).ok_or(NotWritten::Malformed)?;
        if tokens.store(&token)? {
            self.shared.logins.owners.add(tokens, &token, self.shared.stores.rt.now())?;
        }
        Ok(())
    }
}

fn is_removal(change: &Change) -> bool {
    matches!(change, Change::Write(_, Content::Token { token: None, .. }))
}

/// Returns when a token expires, in milliseconds since 1970.
fn expiry(token: &Map) -> Option<u64> {
    let seconds = token.get("expire").and_then(Value::as_f64)?;
    (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1_000.0) as u64)
}

/// Returns whether what another master sent is a token that this one could have made.
fn is_token(token: &Map, key: &Key, expires: u64) -> bool {
    let is_text = |name| token.get_str(name).is_some_and(|text| !text.is_empty());
    let start = token.get("start").and_then(Value::as_f64).is_some_and(f64::is_finite);
    token.get_str("token") == Some(key.as_str())
        && expiry(token) == Some(expires)
        && start
        && is_text("name")
        && is_text("eauth")
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    #[test]
    fn only_what_a_login_makes_is_a_token() {
        let text = "5ec7e7".repeat(10);
        let key = Key::new(&text).unwrap();
        let made =
            map! { "start" => 1.0, "expire" => 2.5, "name" => "fred", "eauth" => "file", "token" => text.as_str() };
        assert!(is_token(&made, &key, 2_500));
        assert!(!is_token(&made, &Key::new("abc").unwrap(), 2_500) && !is_token(&made, &key, 2_501));
        for (name, value) in [
            ("expire", Value::from(f64::NAN)),
            ("expire", "2.5".into()),
            ("start", Value::Null),
            ("name", 7.into()),
            ("eauth", "".into()),
        ] {
            let mut wrong = made.clone();
            wrong.insert(name, value);
            assert!(!is_token(&wrong, &key, 2_500), "{name}");
        }
    }
}
