//! How many streams of events each user may have open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
use crate::own_jobs::Owner;

/// The largest number of streams of a user: half of all connections, so that one user cannot take those of the others.
const MOST: usize = 1000;

/// The open streams of all users.
#[derive(Default)]
pub struct OpenStreams(Arc<Mutex<HashMap<Owner, usize>>>);

/// An open stream, which counts until it is dropped.
pub struct OpenStream {
    streams: Arc<Mutex<HashMap<Owner, usize>>>,
    owner: Owner,
}

impl OpenStreams {
    /// Counts a stream of a user.
    ///
    /// # Errors
    /// When the user has too many.
    pub fn open(&self, owner: Owner) -> Result<OpenStream, Failure> {
        let mut streams = locked(&self.0);
        let count = streams.get(&owner).copied().unwrap_or_default();
        if count >= MOST {
            return Err(Failure::too_many("Too many streams of this user are open"));
        }
        streams.insert(owner.clone(), count + 1);
        Ok(OpenStream { streams: self.0.clone(), owner })
    }

    /// Returns the number of streams of all users.
    pub fn count(&self) -> usize {
        locked(&self.0).values().sum()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = locked(&self.streams);
        if let Some(count) = streams.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.owner);
            }
        }
    }
}

fn locked(streams: &Mutex<HashMap<Owner, usize>>) -> MutexGuard<'_, HashMap<Owner, usize>> {
    // Each change is complete or has not happened.
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_has_too_many_and_others_are_not_held_up() {
        let streams = OpenStreams::default();
        let owner = |user: &str| Owner { user: user.to_owned(), backend: "file".to_owned() };
        let open: Vec<OpenStream> = std::iter::from_fn(|| streams.open(owner("fred")).ok()).collect();
        assert_eq!((open.len(), streams.count()), (MOST, MOST));
        assert_eq!(streams.open(owner("fred")).err().unwrap().status, 429);
        assert!(streams.open(owner("ann")).is_ok());
        drop(open);
        assert!(streams.open(owner("fred")).is_ok());
        assert!(streams.0.lock().unwrap().is_empty());
    }
}
