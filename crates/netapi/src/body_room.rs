//! The memory for bodies: those of each user, and those of all clients that have not logged in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;
use crate::own_jobs::Owner;
use crate::sessions::Session;

/// The largest size of the bodies of one user, and of those of all strangers, in bytes, beyond the first part of each.
const ROOM: usize = 16 << 20;

/// The first part of each body, which is always read: logins fit into it, so that large bodies cannot keep users out.
const FIRST: usize = 8 << 10;

/// The rooms of all clients.
pub struct BodyRooms {
    strangers: BodyRoom,
    /// Those that have bodies now.
    users: Mutex<HashMap<Owner, Weak<Semaphore>>>,
    /// The size of the room of a user.
    each: usize,
}

impl BodyRooms {
    /// Creates the rooms, all free. A body of the size `most` fits into that of a user.
    pub fn new(most: usize) -> Self {
        let each = ROOM.max(most).min(Semaphore::MAX_PERMITS);
        let strangers = BodyRoom { free: Arc::new(Semaphore::new(ROOM)), of_user: false };
        BodyRooms { strangers, users: Mutex::default(), each }
    }

    /// Returns the room for the body of a client.
    pub fn of(&self, session: Option<&Session>) -> BodyRoom {
        let Some(session) = session else { return self.strangers.clone() };
        let owner = Owner { user: session.user.clone(), backend: session.backend.clone() };
        // Each change is complete or has not happened.
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = users.get(&owner).and_then(Weak::upgrade) {
            return BodyRoom { free, of_user: true };
        }
        users.retain(|_, room| room.strong_count() > 0);
        let free = Arc::new(Semaphore::new(self.each));
        users.insert(owner, Arc::downgrade(&free));
        BodyRoom { free, of_user: true }
    }
}

/// The room for some bodies, in bytes.
#[derive(Clone)]
pub struct BodyRoom {
    free: Arc<Semaphore>,
    of_user: bool,
}

/// The room of one body. Free again when dropped.
#[derive(Default)]
pub struct Kept {
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl BodyRoom {
    /// Takes as much room as a body has bytes now.
    ///
    /// # Errors
    /// When there is not enough.
    pub fn keep(&self, kept: &mut Kept, bytes: usize) -> Result<(), Failure> {
        let needed = bytes.saturating_sub(FIRST).saturating_sub(kept.bytes);
        if needed == 0 {
            return Ok(());
        }
        let count = u32::try_from(needed).map_err(|_| self.full())?;
        let permit = self.free.clone().try_acquire_many_owned(count).map_err(|_| self.full())?;
        kept.bytes += needed;
        match &mut kept.permit {
            Some(own) => own.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }

    fn full(&self) -> Failure {
        match self.of_user {
            true => Failure::new(429, "You have too many large requests under way"),
            false => Failure::new(503, "Too many large requests without a session are under way"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_room_is_bounded_and_given_back() {
        let room = BodyRooms::new(1).of(None);
        let (mut large, mut small) = (Kept::default(), Kept::default());
        room.keep(&mut large, ROOM / 2).unwrap();
        room.keep(&mut large, ROOM + FIRST).unwrap();
        assert_eq!(room.keep(&mut small, FIRST + 1).unwrap_err().status, 503);
        room.keep(&mut small, FIRST).unwrap();
        drop(large);
        room.keep(&mut small, ROOM).unwrap();
        drop(small);
        assert_eq!(room.free.available_permits(), ROOM);
    }

    #[test]
    fn each_user_has_a_room() {
        let rooms = BodyRooms::new(2 * ROOM);
        let session = |user: &str| Session {
            token: String::new(),
            user: user.to_owned(),
            backend: "pam".to_owned(),
            groups: Vec::new(),
            expire: SystemTime::now(),
        };
        let (mut large, mut small, mut other) = (Kept::default(), Kept::default(), Kept::default());
        rooms.of(Some(&session("fred"))).keep(&mut large, 2 * ROOM).unwrap();
        // Another session of the same user.
        assert_eq!(rooms.of(Some(&session("fred"))).keep(&mut small, 2 * FIRST + 1).unwrap_err().status, 429);
        rooms.of(Some(&session("wilma"))).keep(&mut other, ROOM).unwrap();
        drop((large, other));
        rooms.of(Some(&session("fred"))).keep(&mut small, ROOM).unwrap();
        assert_eq!(rooms.users.lock().unwrap().len(), 1, "rooms without bodies are forgotten");
    }
}
