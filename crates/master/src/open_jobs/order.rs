//! The order in which publications are sent.
//!
//! A minion drops a publication whose number is not higher than the last one: it may be a replay. Encrypting needs an
//! operation with the private key and runs in parallel. So each publication takes a turn when it is numbered, and waits
//! for that turn before it is sent.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Hands out turns.
#[derive(Debug, Default)]
pub struct PublicationOrder {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    serving: u64,
}

/// A place in the order. The holder must use or drop it, since all later ones wait for it.
#[derive(Debug)]
pub struct Turn<'a> {
    order: &'a PublicationOrder,
    place: u64,
}

impl PublicationOrder {
    /// Takes the next turn and, under the same lock, calls `numbered`, whose numbers must be in the same order.
    pub fn take<T>(&self, numbered: impl FnOnce() -> T) -> (Turn<'_>, T) {
        let mut state = self.lock();
        let place = state.next;
        state.next += 1;
        let turn = Turn { order: self, place };
        (turn, numbered())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one addition.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Waits for all earlier turns to end, then does the work. Blocks the thread.
    pub fn pass<T>(self, work: impl FnOnce() -> T) -> T {
        self.wait();
        work()
    }

    fn wait(&self) {
        let state = self.order.lock();
        let waited = self.order.moved.wait_while(state, |state| state.serving != self.place);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Even after a failure: a turn that ends too early would let a later one pass.
        self.wait();
        self.order.lock().serving += 1;
        self.order.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn work_is_done_in_the_order_of_the_numbers_also_when_some_fail() {
        let (order, count) = (PublicationOrder::default(), AtomicU64::new(0));
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (order, count, done) = (&order, &count, &done);
                scope.spawn(move || {
                    for round in 0..200 {
                        let (turn, number) = order.take(|| count.fetch_add(1, Ordering::Relaxed));
                        // A publication that fails after it was numbered must not stop all later ones.
                        if (round + thread) % 7 == 0 {
                            drop(turn);
                        } else {
                            turn.pass(|| done.lock().unwrap().push(number));
                        }
                    }
                });
            }
        });
        let done = done.into_inner().unwrap();
        assert!(done.len() > 1000 && done.is_sorted(), "{} numbers", done.len());
    }
}
