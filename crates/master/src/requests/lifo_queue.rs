//! A queue that serves the latest item first.
//!
//! When too many minions sign in at once, not all can be served in time. In the order of arrival, each would be served
//! when its timeout is about to expire. Here the latest are served at once, and the others later, if they still wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A limited number of threads, and the items that wait for them.
pub struct LifoQueue<T> {
    threads: usize,
    room: usize,
    standing: Mutex<Standing<T>>,
}

struct Standing<T> {
    /// The latest item is at the end.
    waiting: VecDeque<T>,
    working: usize,
}

/// The result of adding an item.
#[derive(Debug, PartialEq, Eq)]
pub struct Entered<T> {
    /// A thread must be started that calls [`LifoQueue::next`].
    pub start: bool,
    /// The oldest item, which was removed to make room.
    pub passed_over: Option<T>,
}

impl<T> LifoQueue<T> {
    /// Creates a queue for `threads` threads with room for `room` waiting items.
    pub fn new(threads: usize, room: usize) -> Self {
        LifoQueue { threads, room, standing: Mutex::new(Standing { waiting: VecDeque::new(), working: 0 }) }
    }

    /// Puts an item into the queue.
    #[must_use]
    pub fn enter(&self, item: T) -> Entered<T> {
        let mut standing = self.standing();
        let passed_over = if standing.waiting.len() >= self.room { standing.waiting.pop_front() } else { None };
        standing.waiting.push_back(item);
        let start = standing.working < self.threads;
        standing.working += usize::from(start);
        Entered { start, passed_over }
    }

    /// Returns the next item for a thread. After `None` the thread is no longer counted and must not ask again.
    pub fn next(&self) -> Option<T> {
        let mut standing = self.standing();
        let next = standing.waiting.pop_back();
        standing.working -= usize::from(next.is_none());
        next
    }

    /// Returns how many items wait, and how many threads are running.
    pub fn counts(&self) -> (usize, usize) {
        let standing = self.standing();
        (standing.waiting.len(), standing.working)
    }

    /// Returns whether more items wait than there are threads.
    pub fn is_crowded(&self) -> bool {
        self.standing().waiting.len() > self.threads
    }

    /// Drops all waiting items.
    pub fn clear(&self) {
        // What is dropped may take its time.
        let waiting = std::mem::take(&mut self.standing().waiting);
        drop(waiting);
    }

    fn standing(&self) -> MutexGuard<'_, Standing<T>> {
        // Nothing in here panics between two changes that belong together.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_last_is_served_first() {
        let latest = LifoQueue::new(1, 10);
        let started: Vec<_> = (0..3).map(|item| latest.enter(item).start).collect();
        assert_eq!(started, [true, false, false]);
        assert_eq!([latest.next(), latest.next()], [Some(2), Some(1)]);
        assert!(!latest.enter(3).start, "the thread is still there");
        assert!(latest.is_crowded());
        assert_eq!([latest.next(), latest.next(), latest.next()], [Some(3), Some(0), None]);
        assert!(latest.enter(4).start && !latest.is_crowded(), "it has gone");
    }

    #[test]
    fn who_is_sent_away_is_not_served() {
        let latest = LifoQueue::new(1, 10);
        assert!(latest.enter(0).start && !latest.enter(1).start);
        latest.clear();
        assert_eq!(latest.next(), None);
        assert!(latest.enter(2).start && latest.next() == Some(2));
    }

    #[test]
    fn who_came_first_makes_room() {
        let latest = LifoQueue::new(1, 2);
        let passed_over: Vec<_> = (0..4).map(|item| latest.enter(item).passed_over).collect();
        assert_eq!(passed_over, [None, None, Some(0), Some(1)]);
        assert_eq!([latest.next(), latest.next(), latest.next()], [Some(3), Some(2), None]);
    }
}
