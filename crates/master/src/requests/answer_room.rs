//! Room for answers that minions have not read yet.
//!
//! A small request may have an answer of many megabytes, and its sender need not read it. So requests with large answers are
//! handled only when there is room: a request reserves what its answer may take, the answer keeps what it does take, and gives it
//! back when it is written or the connection has ended. The transport closes connections that read too slowly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::identified::Sender;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Bytes of answers one sender may leave unread.
pub const OF_ONE: usize = 16 * MIB;

/// Bytes of answers all senders together may leave unread.
const OF_ALL: usize = 256 * MIB;

/// What is reserved for a list of files or a pillar: a minion may ask for several at a time, and pillars take their time to make.
const LIST: usize = 4 * MIB;

/// Returns about how many bytes the answer to a request may have. 0 for requests with small answers, and for those that wait for
/// other minions: these might wait for the same room.
pub fn wanted(cmd: &str, file_buffer_size: usize) -> usize {
    match cmd {
        "_mine_get" | "pub_ret" => OF_ONE,
        "_pillar" | "_master_opts" | "_master_tops" | "saltern_missed" => LIST,
        "_file_list" | "_file_list_emptydirs" | "_dir_list" | "_symlink_list" => LIST,
        "_serve_file" => file_buffer_size.saturating_add(KIB),
        _ => 0,
    }
}

/// Returns whether a request only asks: nothing is lost when it is not handled, if nobody waits for the answer.
pub fn is_question(cmd: &str) -> bool {
    wanted(cmd, KIB) > 0
}

/// Counts the unread answers of each sender and of all.
pub struct AnswerRoom {
    all: Arc<Semaphore>,
    senders: Mutex<Senders>,
}

struct Senders {
    rooms: HashMap<Sender, Arc<Semaphore>>,
    /// At this number of senders, those that hold nothing are removed.
    most: usize,
}

/// The most requests of one sender that hold room or wait for it. Each waits with what it has sent.
const MOST_OF_ONE: usize = 64;

/// How many senders are remembered at least.
const REMEMBERED: usize = 64;

/// Room for one answer; given back when dropped.
#[derive(Debug)]
pub struct Room {
    of_one: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl AnswerRoom {
    pub fn new() -> Self {
        let senders = Senders { rooms: HashMap::new(), most: REMEMBERED };
        AnswerRoom { all: Arc::new(Semaphore::new(OF_ALL / KIB)), senders: Mutex::new(senders) }
    }

    /// Reserves room for an answer, if there is enough now.
    pub fn try_reserve(&self, sender: &Sender, bytes: usize) -> Option<Room> {
        let (own, count) = (self.own(sender), permits(bytes));
        let of_one = own.try_acquire_many_owned(count).ok()?;
        let of_all = self.all.clone().try_acquire_many_owned(count).ok()?;
        Some(Room { of_one, of_all })
    }

    /// Waits for room, in the order of arrival.
    pub async fn reserve(&self, sender: &Sender, bytes: usize) -> Option<Room> {
        let (own, count) = (self.own(sender), permits(bytes));
        // First its own: who leaves much unread waits for itself, and keeps nothing from others meanwhile.
        let of_one = own.acquire_many_owned(count).await.ok()?;
        let of_all = self.all.clone().acquire_many_owned(count).await.ok()?;
        Some(Room { of_one, of_all })
    }

    /// Returns whether a sender has too many requests that hold room or wait for it.
    pub fn is_crowded(&self, sender: &Sender) -> bool {
        // Every one of them holds the semaphore, and so do the map and this function.
        Arc::strong_count(&self.own(sender)) > MOST_OF_ONE + 2
    }

    fn own(&self, sender: &Sender) -> Arc<Semaphore> {
        let mut senders = self.senders();
        if let Some(own) = senders.rooms.get(sender) {
            return own.clone();
        }
        if senders.rooms.len() >= senders.most {
            // Whoever holds room or waits for it also holds the semaphore.
            senders.rooms.retain(|_, own| Arc::strong_count(own) > 1);
            senders.most = (senders.rooms.len() * 2).max(REMEMBERED);
        }
        senders.rooms.entry(sender.clone()).or_insert_with(|| Arc::new(Semaphore::new(OF_ONE / KIB))).clone()
    }

    fn senders(&self) -> MutexGuard<'_, Senders> {
        // Nothing in here panics between two changes that belong together.
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.min(OF_ONE).div_ceil(KIB)).unwrap_or(u32::MAX)
}

impl Room {
    /// Adjusts the reservation to the size of the answer. A larger answer takes what is left: it exists already.
    pub fn settle(&mut self, bytes: usize) {
        let wanted = permits(bytes) as usize;
        for permit in [&mut self.of_one, &mut self.of_all] {
            let held = permit.num_permits();
            drop(permit.split(held.saturating_sub(wanted)));
            let semaphore = permit.semaphore().clone();
            let more = wanted.saturating_sub(held).min(semaphore.available_permits());
            if let Ok(more) = semaphore.try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX)) {
                permit.merge(more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt as _;

    use super::*;

    fn sender(number: u8) -> Sender {
        Sender::Address(IpAddr::from([127, 0, 0, number]).into())
    }

    #[test]
    fn the_unread_answers_of_one_sender_are_bounded() {
        let room = AnswerRoom::new();
        let mut first = room.try_reserve(&sender(1), OF_ONE).expect("there is room");
        assert!(room.try_reserve(&sender(1), KIB).is_none(), "the answer may take all of it");
        first.settle(10 * MIB);
        let second = room.try_reserve(&sender(1), 6 * MIB);
        assert!(second.is_some() && room.try_reserve(&sender(1), KIB).is_none());
        assert!(room.try_reserve(&sender(2), OF_ONE).is_some(), "others are not concerned");
        drop(first);
        assert!(room.try_reserve(&sender(1), 10 * MIB).is_some());
    }

    #[test]
    fn the_requests_of_one_sender_that_wait_are_bounded() {
        let room = AnswerRoom::new();
        let _held = room.try_reserve(&sender(1), OF_ONE).unwrap();
        let (one, two) = (sender(1), sender(2));
        let waiting: Vec<_> = (1..MOST_OF_ONE)
            .map(|_| {
                let mut waiting = Box::pin(room.reserve(&one, KIB));
                assert!(waiting.as_mut().now_or_never().is_none());
                waiting
            })
            .collect();
        assert!(!room.is_crowded(&one));
        let mut last = Box::pin(room.reserve(&one, KIB));
        assert!(last.as_mut().now_or_never().is_none());
        assert!(room.is_crowded(&one) && !room.is_crowded(&two));
        drop((waiting, last));
        assert!(!room.is_crowded(&one));
    }

    #[test]
    fn the_unread_answers_of_all_senders_are_bounded() {
        let room = AnswerRoom::new();
        let held: Vec<_> = (0..=255).map_while(|number| room.try_reserve(&sender(number), OF_ONE)).collect();
        assert_eq!(held.len(), OF_ALL / OF_ONE);
        assert!(room.try_reserve(&sender(255), 0).is_some(), "small answers need no room");
        drop(held);
        assert_eq!(room.all.available_permits(), OF_ALL / KIB);
    }

    #[test]
    fn who_waits_gets_room_in_turn_and_an_answer_that_grew_counts_in_full() {
        let room = AnswerRoom::new();
        let mut first = room.try_reserve(&sender(1), LIST).unwrap();
        first.settle(100 * MIB);
        assert!(room.try_reserve(&sender(1), KIB).is_none());
        let (one, two) = (sender(1), sender(2));
        let (mut waiting, mut next) = (Box::pin(room.reserve(&one, OF_ONE)), Box::pin(room.reserve(&one, KIB)));
        assert!((&mut waiting).now_or_never().is_none() && (&mut next).now_or_never().is_none());
        assert!(room.reserve(&two, OF_ONE).now_or_never().flatten().is_some());
        drop(first);
        assert!((&mut next).now_or_never().is_none(), "another was first");
        let mut got = waiting.now_or_never().flatten().expect("it is its turn");
        got.settle(0);
        assert!(next.now_or_never().flatten().is_some());
    }

    #[test]
    fn senders_that_hold_nothing_are_forgotten() {
        let room = AnswerRoom::new();
        let kept = room.try_reserve(&sender(0), KIB);
        for number in 0..=255 {
            assert!(room.try_reserve(&sender(number), KIB).is_some());
        }
        assert!(room.senders().rooms.len() <= REMEMBERED + 1);
        drop(kept);
    }
}
