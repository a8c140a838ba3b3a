//! Turns at the processors: who came last is served first.
//!
//! In a storm more come than can be served in time. In the order of arrival each would be served when it is about to give up;
//! this way those are served who have just come, and the others when the storm is over, if they still wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Some turns at a time, and those who wait for one.
#[derive(Debug)]
pub struct Turns {
    room: usize,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    free: usize,
    /// Who came last stands at the end.
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to be served until it is dropped.
#[derive(Debug)]
pub struct Turn(Option<Arc<Turns>>);

impl Turns {
    /// So many at a time, and room for so many who wait.
    pub fn new(at_a_time: usize, room: usize) -> Arc<Self> {
        Arc::new(Turns { room, line: Mutex::new(Line { free: at_a_time, waiting: VecDeque::new() }) })
    }

    /// Waits for a turn. `None` when there was no room any more: who came first had to go.
    pub async fn next(self: &Arc<Self>) -> Option<Turn> {
        let turn = {
            let mut line = self.line();
            if line.free > 0 {
                line.free -= 1;
                return Some(Turn(Some(self.clone())));
            }
            if line.waiting.len() >= self.room {
                line.waiting.pop_front();
            }
            let (given, turn) = oneshot::channel();
            line.waiting.push_back(given);
            turn
        };
        turn.await.ok()
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // Nothing in here panics between two changes that belong together.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next one who still waits, or nobody: then the turn is free.
    fn next_waiting(&self) -> Option<oneshot::Sender<Turn>> {
        let mut line = self.line();
        while let Some(waiting) = line.waiting.pop_back() {
            if !waiting.is_closed() {
                return Some(waiting);
            }
        }
        line.free += 1;
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        while let Some(waiting) = turns.next_waiting() {
            match waiting.send(Turn(Some(turns.clone()))) {
                Ok(()) => return,
                // It has gone in this moment. The turn that came back must not be given on twice.
                Err(mut back) => drop(back.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn who_came_last_is_served_first() {
        let turns = Turns::new(1, 10);
        let first = turns.next().now_or_never().unwrap().unwrap();
        let (mut second, mut third) = (Box::pin(turns.next()), Box::pin(turns.next()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.as_mut().now_or_never().is_none());
        let served = third.as_mut().now_or_never().unwrap().unwrap();
        drop(served);
        assert!(second.as_mut().now_or_never().unwrap().is_some());
    }

    #[test]
    fn a_turn_of_somebody_who_has_gone_goes_to_the_next() {
        let turns = Turns::new(1, 100_000);
        let first = turns.next().now_or_never().unwrap().unwrap();
        let mut waits = Box::pin(turns.next());
        assert!(waits.as_mut().now_or_never().is_none());
        for _ in 0..50_000 {
            assert!(turns.next().now_or_never().is_none());
        }
        // One is given the turn, and goes before it looks.
        let mut gone = Box::pin(turns.next());
        assert!(gone.as_mut().now_or_never().is_none());
        drop(first);
        drop(gone);
        let turn = waits.as_mut().now_or_never().unwrap();
        assert!(turn.is_some() && turns.next().now_or_never().is_none());
        drop(turn);
        assert!(turns.next().now_or_never().is_some());
    }

    #[test]
    fn who_came_first_makes_room() {
        let turns = Turns::new(1, 1);
        let served = turns.next().now_or_never().unwrap();
        let (mut second, mut third) = (Box::pin(turns.next()), Box::pin(turns.next()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().unwrap().is_none());
        drop(served);
        assert!(third.as_mut().now_or_never().unwrap().is_some());
    }
}
