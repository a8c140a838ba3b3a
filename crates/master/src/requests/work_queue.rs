//! A queue of requests and its threads: a thread takes one request after the other, and ends when none is left.
//!
//! A running thread need not be woken for the next request, and no other thread is notified when a request is done.
//! With thousands of small requests at once, both would cost more than the requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::contained::contained;

/// A limited number of threads, and the items that wait for them.
pub struct WorkQueue<T> {
    threads: usize,
    size: u32,
    room: Arc<Semaphore>,
    standing: Mutex<Standing<T>>,
}

struct Standing<T> {
    waiting: VecDeque<(T, Place)>,
    working: usize,
}

/// Room in the queue. Released when a thread takes the item.
pub struct Place(#[expect(dead_code, reason = "held, and given back when it is dropped")] OwnedSemaphorePermit);

impl<T> WorkQueue<T> {
    /// Creates a queue for at most `threads` threads and `room` waiting items.
    pub fn new(threads: usize, room: u32) -> Self {
        let standing = Standing { waiting: VecDeque::new(), working: 0 };
        WorkQueue { threads, size: room, room: Arc::new(Semaphore::new(room as usize)), standing: Mutex::new(standing) }
    }

    /// Waits for `wanted` units of room. More than the whole room counts as all of it.
    pub async fn place(&self, wanted: usize) -> Option<Place> {
        let wanted = u32::try_from(wanted).map_or(self.size, |wanted| wanted.min(self.size));
        self.room.clone().acquire_many_owned(wanted).await.ok().map(Place)
    }

    /// Adds an item to the queue. Returns whether the caller must start a thread that calls [`WorkQueue::serve`].
    #[must_use]
    pub fn enter(&self, item: T, place: Place) -> bool {
        let mut standing = self.standing();
        standing.waiting.push_back((item, place));
        let needed = standing.working < self.threads;
        standing.working += usize::from(needed);
        needed
    }

    /// Handles one item after the other on this thread until none is left.
    pub fn serve(&self, handle: impl Fn(T)) {
        while let Some(item) = self.next() {
            contained(|| handle(item));
        }
    }

    /// Returns the next item for a thread. After `None` the thread is no longer counted and must not ask again.
    fn next(&self) -> Option<T> {
        let mut standing = self.standing();
        match standing.waiting.pop_front() {
            Some((item, _)) => Some(item),
            None => {
                standing.working -= 1;
                None
            }
        }
    }

    /// Returns how many items wait, and how many threads are running.
    pub fn counts(&self) -> (usize, usize) {
        let standing = self.standing();
        (standing.waiting.len(), standing.working)
    }

    fn standing(&self) -> MutexGuard<'_, Standing<T>> {
        // Nothing in here panics between two changes that belong together.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn place(queue: &WorkQueue<u32>, wanted: usize) -> Place {
        queue.place(wanted).now_or_never().flatten().expect("there is room")
    }

    #[test]
    fn a_thread_is_started_when_one_is_missing_and_takes_all_that_comes() {
        let queue = WorkQueue::new(2, 100);
        let started: Vec<_> = (0..4).map(|item| queue.enter(item, place(&queue, 1))).collect();
        assert_eq!(started, [true, true, false, false]);
        assert_eq!([queue.next(), queue.next(), queue.next(), queue.next()].map(Option::unwrap), [0, 1, 2, 3]);
        assert!(!queue.enter(4, place(&queue, 1)), "both threads are still there");
        assert_eq!((queue.next(), queue.next(), queue.next()), (Some(4), None, None));
        assert!(queue.enter(5, place(&queue, 1)), "both have gone");
    }

    #[test]
    fn a_panic_ends_one_item_and_not_the_thread() {
        let (queue, seen) = (WorkQueue::new(1, 100), Mutex::new(Vec::new()));
        let started: Vec<_> = (0..3).map(|item| queue.enter(item, place(&queue, 1))).collect();
        assert_eq!(started, [true, false, false]);
        queue.serve(|item| {
            assert!(item != 1, "this one has a bug");
            seen.lock().unwrap().push(item);
        });
        assert_eq!((seen.into_inner().unwrap(), queue.counts()), (vec![0, 2], (0, 0)));
    }

    #[test]
    fn room_is_given_back_when_something_is_taken() {
        let queue = WorkQueue::new(1, 10);
        let started = queue.enter(0, place(&queue, 10));
        assert!(started && queue.place(1).now_or_never().is_none());
        assert_eq!(queue.next(), Some(0));
        assert!(!queue.enter(1, place(&queue, 1_000_000)), "more than all is all");
        assert!(queue.place(1).now_or_never().is_none());
    }
}
