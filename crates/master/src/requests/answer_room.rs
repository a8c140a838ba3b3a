//! Limits the memory of answers that minions have not read yet.
//!
//! A small request may have an answer of many megabytes, and its sender need not read it. So requests with large
//! answers are handled only when there is room: a request reserves what its answer may take, the answer holds what it
//! really takes, until it is written or the connection has ended. The transport closes connections that read too
//! slowly.
//!
//! Nothing is reserved for a request that waits for its turn. Mines and returns have a pool of their own: each reserves the whole
//! share of its sender, which may still want files and its pillar.

use wire::Command;

use crate::pool::{Pool, Room};
use crate::senders::Sender;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Bytes of unread answers that one sender may have in each pool.
const OF_ONE: usize = 16 * MIB;

/// Bytes of unread mines and returns that all senders together may have.
const LARGE_OF_ALL: usize = 128 * MIB;

/// Bytes of other unread answers that all senders together may have.
const LISTS_OF_ALL: usize = 256 * MIB;

/// The reservation for a list of files or a pillar. It is less than a share, because a minion may request several at a
/// time, and compiling a pillar takes time.
const LIST: usize = 4 * MIB;

/// The reservation for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The whole share of the sender, in the pool for mines and returns.
    Large,
    /// This many bytes in the pool for lists of files, files and pillars.
    Listed(usize),
}

/// Returns the reservation for the answer to a request. `None` for requests with small answers, and for those that wait
/// for other minions, because these may need the same room.
pub fn reservation(cmd: &str, file_buffer_size: usize) -> Option<Reservation> {
    Some(match Command::from_name(cmd)? {
        Command::MineGet | Command::PeerReturns => Reservation::Large,
        Command::Pillar | Command::MasterOpts | Command::MasterTops | Command::MissedJobs => Reservation::Listed(LIST),
        Command::FileList | Command::FileListEmptyDirs | Command::DirList | Command::SymlinkList => {
            Reservation::Listed(LIST)
        }
        Command::ServeFile => Reservation::Listed(file_buffer_size.saturating_add(KIB)),
        _ => return None,
    })
}

/// Returns whether a request only reads. It need not be handled if its sender no longer waits for the answer.
pub fn is_question(cmd: &str) -> bool {
    reservation(cmd, KIB).is_some()
}

/// When a request is handled.
#[derive(Debug)]
pub enum Due {
    /// At once, with the room that was reserved for its answer.
    Now(Option<Room>),
    /// When its sender has its turn.
    InTurn,
    /// When there is room for its answer.
    WithRoom(Reservation),
}

/// Counts the unread answers of each sender and of all.
pub struct AnswerRoom {
    large: Pool,
    lists: Pool,
}

impl AnswerRoom {
    pub fn new() -> Self {
        AnswerRoom { large: Pool::new(OF_ONE, LARGE_OF_ALL), lists: Pool::new(OF_ONE, LISTS_OF_ALL) }
    }

    /// Decides when to handle a request that needs room for its answer. Reserves the room if the request is handled
    /// now.
    pub fn due(&self, sender: &Sender, wanted: Option<Reservation>, waits_for_turn: bool) -> Due {
        // What one sender has waiting must not take room that others need now.
        if waits_for_turn {
            return Due::InTurn;
        }
        let Some(wanted) = wanted else { return Due::Now(None) };
        let (pool, bytes) = self.pool(wanted);
        pool.try_reserve(sender, bytes).map_or(Due::WithRoom(wanted), |room| Due::Now(Some(room)))
    }

    /// Waits for room, in the order of arrival.
    pub async fn reserve(&self, sender: &Sender, wanted: Reservation) -> Option<Room> {
        let (pool, bytes) = self.pool(wanted);
        pool.reserve(sender, bytes).await
    }

    /// Returns whether a sender has too many requests that hold room of this kind or wait for it.
    pub fn is_crowded(&self, sender: &Sender, wanted: Reservation) -> bool {
        self.pool(wanted).0.is_crowded(sender)
    }

    fn pool(&self, wanted: Reservation) -> (&Pool, usize) {
        match wanted {
            Reservation::Large => (&self.large, OF_ONE),
            Reservation::Listed(bytes) => (&self.lists, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn sender(number: u8) -> Sender {
        Sender::Address(IpAddr::from([127, 0, 0, number]).into())
    }

    #[test]
    fn requests_that_wait_for_their_turn_take_no_room() {
        let (room, mine) = (AnswerRoom::new(), reservation("_mine_get", KIB));
        for number in 0..=255 {
            assert!(matches!(room.due(&sender(number), mine, true), Due::InTurn));
        }
        assert!(matches!(room.due(&sender(1), mine, false), Due::Now(Some(_))));
        assert!(matches!(room.due(&sender(1), reservation("_return", KIB), false), Due::Now(None)));
    }

    #[test]
    fn large_answers_leave_room_for_files_and_pillars() {
        let (room, mine, pillar) = (AnswerRoom::new(), reservation("_mine_get", KIB), reservation("_pillar", KIB));
        let held: Vec<_> = (0..=255).map(|number| room.due(&sender(number), mine, false)).collect();
        let reserved = held.iter().filter(|due| matches!(due, Due::Now(Some(_)))).count();
        assert_eq!(reserved, LARGE_OF_ALL / OF_ONE);
        assert!(matches!(room.due(&sender(255), mine, false), Due::WithRoom(Reservation::Large)));
        for number in [0, 255] {
            assert!(matches!(room.due(&sender(number), pillar, false), Due::Now(Some(_))), "sender {number}");
        }
    }
}
