//! A queue in which senders take turns, and the latest item of each is served first.
//!
//! When too many minions sign in at once, not all can be served in time. In the order of arrival, each would be served
//! when its timeout is about to expire. Here the latest are served at once, and the others later, if they still wait. Whoever
//! sends many items waits behind those who sent few: one host that floods the master delays its own sign-ins.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A limited number of threads, and the items of senders that wait for them.
pub struct LifoQueue<S, T> {
    threads: usize,
    room: usize,
    standing: Mutex<Standing<S, T>>,
}

struct Standing<S, T> {
    senders: HashMap<S, Line<T>>,
    /// The senders with waiting items, the next one first.
    order: BTreeSet<Turn<S>>,
    waiting: usize,
    arrivals: u64,
    working: usize,
}

/// The items of one sender.
struct Line<T> {
    /// The latest item is at the end.
    waiting: VecDeque<T>,
    /// How many of its items were served since the queue was last empty.
    served: u64,
    /// The number of its latest arrival.
    latest: u64,
}

/// Fewest served first, then the latest arrival.
type Turn<S> = (u64, Reverse<u64>, S);

/// The result of adding an item.
#[derive(Debug, PartialEq, Eq)]
pub struct Entered<T> {
    /// A thread must be started that calls [`LifoQueue::next`].
    pub start: bool,
    /// The oldest item of the sender with most items, which was removed to make room.
    pub passed_over: Option<T>,
}

impl<S: Clone + Eq + Hash + Ord, T> LifoQueue<S, T> {
    /// Creates a queue for `threads` threads with room for `room` waiting items.
    pub fn new(threads: usize, room: usize) -> Self {
        LifoQueue { threads, room, standing: Mutex::new(Standing::new()) }
    }

    /// Puts an item of a sender into the queue.
    #[must_use]
    pub fn enter(&self, sender: S, item: T) -> Entered<T> {
        let mut standing = self.standing();
        let passed_over = if standing.waiting >= self.room { standing.make_room() } else { None };
        if standing.senders.len() > 2 * self.room {
            // Served ones are only remembered for the order.
            standing.senders.retain(|_, line| !line.waiting.is_empty());
        }
        standing.push(sender, item);
        let start = standing.working < self.threads;
        standing.working += usize::from(start);
        Entered { start, passed_over }
    }

    /// Returns the next item for a thread. After `None` the thread is no longer counted and must not ask again.
    pub fn next(&self) -> Option<T> {
        let mut standing = self.standing();
        let next = standing.pop();
        standing.working -= usize::from(next.is_none());
        next
    }

    /// Returns how many items wait, and how many threads are running.
    pub fn counts(&self) -> (usize, usize) {
        let standing = self.standing();
        (standing.waiting, standing.working)
    }

    /// Returns whether more items wait than there are threads.
    pub fn is_crowded(&self) -> bool {
        self.standing().waiting > self.threads
    }

    /// Drops all waiting items.
    pub fn clear(&self) {
        let mut standing = self.standing();
        let working = standing.working;
        let waiting = std::mem::replace(&mut *standing, Standing { working, ..Standing::new() });
        drop(standing);
        // What is dropped may take its time.
        drop(waiting);
    }

    fn standing(&self) -> MutexGuard<'_, Standing<S, T>> {
        // Nothing in here panics between two changes that belong together.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Clone + Eq + Hash + Ord, T> Standing<S, T> {
    fn new() -> Self {
        Standing { senders: HashMap::new(), order: BTreeSet::new(), waiting: 0, arrivals: 0, working: 0 }
    }

    fn push(&mut self, sender: S, item: T) {
        self.arrivals += 1;
        let line = self.senders.entry(sender.clone()).or_insert_with(Line::new);
        self.order.remove(&line.turn(&sender));
        line.latest = self.arrivals;
        line.waiting.push_back(item);
        self.order.insert(line.turn(&sender));
        self.waiting += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let Some((.., sender)) = self.order.pop_first() else {
            // Nobody waits, so nobody is behind others.
            self.senders.clear();
            return None;
        };
        let line = self.senders.get_mut(&sender)?;
        let item = line.waiting.pop_back()?;
        line.served += 1;
        if !line.waiting.is_empty() {
            self.order.insert(line.turn(&sender));
        }
        self.waiting -= 1;
        Some(item)
    }

    /// Removes the oldest item of the sender with most items.
    fn make_room(&mut self) -> Option<T> {
        let longest = self.senders.iter().max_by_key(|(_, line)| (line.waiting.len(), Reverse(line.latest)));
        let sender = longest.map(|(sender, _)| sender.clone())?;
        let line = self.senders.get_mut(&sender)?;
        let oldest = line.waiting.pop_front()?;
        if line.waiting.is_empty() {
            self.order.remove(&line.turn(&sender));
        }
        self.waiting -= 1;
        Some(oldest)
    }
}

impl<T> Line<T> {
    fn new() -> Self {
        Line { waiting: VecDeque::new(), served: 0, latest: 0 }
    }

    fn turn<S: Clone>(&self, sender: &S) -> Turn<S> {
        (self.served, Reverse(self.latest), sender.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_last_is_served_first() {
        let latest = LifoQueue::new(1, 10);
        // Each from a host of its own.
        let started: Vec<_> = (0..3).map(|item| latest.enter(item, item).start).collect();
        assert_eq!(started, [true, false, false]);
        assert_eq!([latest.next(), latest.next()], [Some(2), Some(1)]);
        assert!(!latest.enter(3, 3).start, "the thread is still there");
        assert!(latest.is_crowded());
        assert_eq!([latest.next(), latest.next(), latest.next()], [Some(3), Some(0), None]);
        assert!(latest.enter(4, 4).start && !latest.is_crowded(), "it has gone");
    }

    #[test]
    fn the_latest_of_one_sender_is_served_first() {
        let latest = LifoQueue::new(1, 10);
        assert!((0..3).map(|item| latest.enter("one", item).start).eq([true, false, false]));
        assert_eq!([latest.next(), latest.next(), latest.next(), latest.next()], [Some(2), Some(1), Some(0), None]);
    }

    #[test]
    fn who_sends_much_waits_behind_others() {
        let latest = LifoQueue::new(1, 100);
        let enter = |sender, item| drop(latest.enter(sender, item));
        (0..50).for_each(|item| enter("flood", item));
        assert_eq!([latest.next(), latest.next()], [Some(49), Some(48)]);
        enter("honest", 1000);
        (50..60).for_each(|item| enter("flood", item));
        assert_eq!(latest.next(), Some(1000), "although others came later");
        enter("honest", 1001);
        assert_eq!([latest.next(), latest.next()], [Some(1001), Some(59)]);
        while latest.next().is_some() {}
        (0..2).for_each(|item| enter("honest", item));
        enter("flood", 2);
        assert_eq!(latest.next(), Some(2), "an empty queue forgets who sent much");
    }

    #[test]
    fn who_is_sent_away_is_not_served() {
        let latest = LifoQueue::new(1, 10);
        assert!(latest.enter(0, 0).start && !latest.enter(0, 1).start);
        latest.clear();
        assert_eq!(latest.next(), None);
        assert!(latest.enter(0, 2).start && latest.next() == Some(2));
    }

    #[test]
    fn the_sender_with_most_items_makes_room() {
        let latest = LifoQueue::new(1, 3);
        let passed_over: Vec<_> = [("a", 0), ("b", 1), ("b", 2), ("c", 3), ("c", 4)]
            .map(|(sender, item)| latest.enter(sender, item).passed_over)
            .into();
        assert_eq!(passed_over, [None, None, None, Some(1), Some(0)]);
        assert_eq!([latest.next(), latest.next(), latest.next(), latest.next()], [Some(4), Some(2), Some(3), None]);
    }
}
