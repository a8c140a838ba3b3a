//! How many tokens a user has.
//!
//! The files of tokens are found by the token alone, so the tokens of each user are also remembered here. They are read from
//! the disk when the first token is made.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use store::tokens::TokenStore;
use value::{Map, Value};

/// The largest number of tokens of a user.
const MOST: usize = 1000;

/// The tokens of each user.
pub struct Owners {
    most: usize,
    /// `None` until they have been read.
    users: Mutex<Option<Users>>,
}

type Users = HashMap<String, BTreeSet<Token>>;

/// A token. The oldest one is the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    /// When it was made, in microseconds.
    start: u64,
    /// The second in which it expires.
    expire: u64,
    text: String,
}

impl Default for Owners {
    fn default() -> Self {
        Owners { most: MOST, users: Mutex::default() }
    }
}

impl Owners {
    /// Removes the oldest tokens of the user of a new one, if there are too many, and returns them.
    ///
    /// # Errors
    /// When a token cannot be removed.
    pub fn add(&self, tokens: &TokenStore, new: &Map, now: SystemTime) -> store::Result<Vec<String>> {
        self.read(tokens, now)?;
        let too_many = self.note(new, now);
        for old in &too_many {
            tokens.remove(old)?;
        }
        Ok(too_many)
    }

    /// Forgets tokens that have expired.
    pub fn forget_expired(&self, now: SystemTime) {
        if let Some(users) = self.users().as_mut() {
            users.retain(|_, tokens| {
                drop_expired(tokens, now);
                !tokens.is_empty()
            });
        }
    }

    fn users(&self) -> MutexGuard<'_, Option<Users>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tokens that there are, unless that was done before.
    fn read(&self, tokens: &TokenStore, now: SystemTime) -> store::Result<()> {
        if self.users().is_some() {
            return Ok(());
        }
        let mut found = Users::new();
        for text in tokens.list()? {
            if let Some((user, token)) = tokens.get(&text, now)?.as_ref().and_then(owned) {
                found.entry(user).or_default().insert(token);
            }
        }
        let mut users = self.users();
        // Another login may have done the same, and may have made tokens since.
        let known = users.get_or_insert_default();
        for (user, tokens) in found {
            known.entry(user).or_default().extend(tokens);
        }
        Ok(())
    }

    /// Remembers a token, and returns those that are too many.
    fn note(&self, new: &Map, now: SystemTime) -> Vec<String> {
        let Some((user, token)) = owned(new) else { return Vec::new() };
        let mut users = self.users();
        let tokens = users.get_or_insert_default().entry(user).or_default();
        drop_expired(tokens, now);
        tokens.insert(token);
        let too_many = tokens.len().saturating_sub(self.most);
        (0..too_many).filter_map(|_| tokens.pop_first()).map(|token| token.text).collect()
    }
}

fn drop_expired(tokens: &mut BTreeSet<Token>, now: SystemTime) {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    tokens.retain(|token| token.expire >= now);
}

/// Returns the user of a token.
fn owned(map: &Map) -> Option<(String, Token)> {
    let seconds = |name| map.get(name).and_then(Value::as_f64);
    let token = Token {
        start: (seconds("start")? * 1e6) as u64,
        expire: seconds("expire")? as u64,
        text: map.get_str("token")?.to_owned(),
    };
    Some((map.get_str("name")?.to_owned(), token))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store::Layout;
    use value::map;

    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    fn token(user: &str, number: u64) -> Map {
        let start = 1000.0 + number as f64;
        map! {
            "start" => start, "expire" => start + 100.0, "name" => user, "eauth" => "file",
            "token" => format!("{number:064x}"),
        }
    }

    #[test]
    fn the_oldest_token_of_a_user_goes() {
        let place = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(place.path(), Layout::Since3008);
        let add = |owners: &Owners, user, number| {
            assert!(tokens.store(&token(user, number)).unwrap());
            owners.add(&tokens, &token(user, number), at(1000 + number)).unwrap();
        };
        let left = || {
            let mut left = tokens.list().unwrap();
            left.sort();
            left.iter().map(|text| u64::from_str_radix(text, 16).unwrap()).collect::<Vec<_>>()
        };
        let owners = Owners { most: 3, ..Owners::default() };
        for number in [3, 1, 2] {
            add(&owners, "fred", number);
        }
        add(&owners, "ann", 4);
        assert_eq!(left(), [1, 2, 3, 4]);
        add(&owners, "fred", 5);
        assert_eq!(left(), [2, 3, 4, 5]);
        // The tokens of an earlier run of the master count.
        let restarted = Owners { most: 3, ..Owners::default() };
        add(&restarted, "fred", 6);
        add(&restarted, "ann", 7);
        assert_eq!(left(), [3, 4, 5, 6, 7]);
    }

    #[test]
    fn expired_tokens_do_not_count() {
        let place = tempfile::tempdir().unwrap();
        let tokens = TokenStore::new(place.path(), Layout::Since3008);
        let owners = Owners { most: 1, ..Owners::default() };
        assert!(tokens.store(&token("fred", 1)).unwrap());
        owners.add(&tokens, &token("fred", 1), at(1001)).unwrap();
        owners.add(&tokens, &token("fred", 200), at(1200)).unwrap();
        assert_eq!(tokens.list().unwrap().len(), 1, "maintenance removes it");
        owners.forget_expired(at(1400));
        assert!(owners.users().as_ref().unwrap().is_empty());
    }
}
