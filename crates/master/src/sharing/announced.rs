//! Who is about to change key files.
//!
//! A changed file does not say who has changed it. So `salt-key` and the wheel functions name the keys and their user before they
//! change the files, and the decision that follows from the change has that user.

use std::collections::BTreeMap;

use share::{By, Change, Entry, FileVerdict, judge};
use wire::MinionId;

/// For how long a change is expected, in milliseconds.
const EXPECTED: u64 = 10_000;

/// The maximum number of keys that may be announced: whoever announces more of them decides as "files".
const MOST: usize = 100_000;

/// The keys that a user is about to change.
#[derive(Default)]
pub struct Announced(BTreeMap<MinionId, (String, u64)>);

impl Announced {
    /// Notes that a user is about to change keys.
    pub fn add(&mut self, ids: Vec<MinionId>, user: &str, now: u64) {
        self.0.retain(|_, (_, until)| *until > now);
        let room = MOST.saturating_sub(self.0.len());
        self.0.extend(ids.into_iter().take(room).map(|id| (id, (user.to_owned(), now + EXPECTED))));
    }

    /// Returns a change of key files as the decision of the user who has announced it, if somebody has.
    pub fn by(&self, id: &MinionId, change: Change, entry: &Entry, now: u64) -> Change {
        let user = self.0.get(id).filter(|(_, until)| *until > now).map(|(user, _)| By::User(user.clone()));
        let Some(by) = user else { return change };
        match change {
            Change::Key { id, state, public_key, by: By::Files } => Change::Key { id, state, public_key, by },
            Change::Files(key, files) => match judge(Some(entry), &files) {
                FileVerdict::Decide(state, public_key) => Change::Key { id: key, state, public_key, by },
                _ => Change::Files(key, files),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use share::{Key, KeyFile, State};

    use super::*;

    #[test]
    fn a_change_is_that_of_the_user_who_has_announced_it() {
        let (web1, web2) = (MinionId::new("web1").unwrap(), MinionId::new("web2").unwrap());
        let mut announced = Announced::default();
        announced.add(vec![web1.clone()], "alice", 5);
        let file = || KeyFile { state: State::Accepted, content: Bytes::from_static(b"key") };
        let files = |id: &MinionId| Change::Files(Key::new(id.as_str()).unwrap(), vec![file()]);
        let user = |id: &MinionId, change, now| match announced.by(id, change, &Entry::default(), now) {
            Change::Key { by: By::User(user), state, .. } => Some((user, state)),
            _ => None,
        };
        assert_eq!(user(&web1, files(&web1), 6), Some(("alice".into(), State::Accepted)));
        assert_eq!(user(&web2, files(&web2), 6), None, "of that nobody has said anything");
        assert_eq!(user(&web1, files(&web1), 5 + EXPECTED), None, "it comes too late");
        let registered =
            |by| Change::Key { id: Key::new("web1").unwrap(), state: State::Deleted, public_key: Bytes::new(), by };
        assert_eq!(user(&web1, registered(By::Files), 6), Some(("alice".into(), State::Deleted)));
        assert_eq!(user(&web1, registered(By::Auto), 6), None, "a sign-in is none of a user");
    }
}
