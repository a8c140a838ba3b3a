//! The memory for bodies of clients that have not logged in.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;

/// The largest size of all these bodies together, in bytes, beyond the first part of each.
const ROOM: usize = 16 << 20;

/// The first part of each body, which is always read: logins fit into it, so that large bodies cannot keep users out.
const FIRST: usize = 8 << 10;

/// The room, in bytes.
pub struct BodyRoom(Arc<Semaphore>);

/// The room of one body. Free again when dropped.
#[derive(Default)]
pub struct Kept {
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
}

impl BodyRoom {
    /// Creates the room, all free.
    pub fn new() -> Self {
        BodyRoom(Arc::new(Semaphore::new(ROOM)))
    }

    /// Takes as much room as a body has bytes now.
    ///
    /// # Errors
    /// When there is not enough.
    pub fn keep(&self, kept: &mut Kept, bytes: usize) -> Result<(), Failure> {
        let needed = bytes.saturating_sub(FIRST).saturating_sub(kept.bytes);
        if needed == 0 {
            return Ok(());
        }
        let full = || Failure::new(503, "Too many large requests without a session are under way");
        let count = u32::try_from(needed).map_err(|_| full())?;
        let permit = self.0.clone().try_acquire_many_owned(count).map_err(|_| full())?;
        kept.bytes += needed;
        match &mut kept.permit {
            Some(own) => own.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_bounded_and_given_back() {
        let room = BodyRoom::new();
        let (mut large, mut small) = (Kept::default(), Kept::default());
        room.keep(&mut large, ROOM / 2).unwrap();
        room.keep(&mut large, ROOM + FIRST).unwrap();
        assert_eq!(room.keep(&mut small, FIRST + 1).unwrap_err().status, 503);
        room.keep(&mut small, FIRST).unwrap();
        drop(large);
        room.keep(&mut small, ROOM).unwrap();
        drop(small);
        assert_eq!(room.0.available_permits(), ROOM);
    }
}
