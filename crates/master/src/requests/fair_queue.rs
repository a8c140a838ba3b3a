//! Costly requests, queued by sender: each sender has one request handled at a time, and senders take turns.
//!
//! So the requests of one sender wait for each other, and those of another sender wait at most until a thread has
//! finished one request.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::contained::contained;

/// A limited number of threads, and the requests that wait for them.
pub struct FairQueue<K, T>(Mutex<Turns<K, T>>);

/// The decisions of the queue.
#[derive(Debug)]
struct Turns<K, T> {
    threads: usize,
    working: usize,
    /// The largest number of waiting requests of one sender.
    most: usize,
    /// Senders with waiting requests of which none is being handled, in the order of their turns.
    ready: VecDeque<K>,
    /// Senders with requests that wait or are being handled.
    senders: HashMap<K, Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    /// The requests, with their lengths in bytes.
    requests: VecDeque<(T, usize)>,
    bytes: usize,
    in_hand: bool,
}

/// The position of a new request among those of its sender.
#[derive(Clone, Copy, Debug)]
enum Place {
    First,
    Last,
}

/// The result of putting a request into the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered<T> {
    /// It waits for a running thread.
    Waits,
    /// It waits, and a thread must be started that calls [`FairQueue::serve`].
    Start,
    /// Its sender already has too many waiting requests.
    Full(T),
}

impl<K: Clone + Eq + Hash, T> FairQueue<K, T> {
    /// Creates a queue for `threads` threads, in which each sender may have `most` requests waiting.
    pub fn new(threads: usize, most: usize) -> Self {
        let (ready, senders) = (VecDeque::new(), HashMap::new());
        FairQueue(Mutex::new(Turns { threads: threads.max(1), working: 0, most, ready, senders }))
    }

    /// Puts a request behind the others of its sender. `bytes` is its length.
    #[must_use]
    pub fn enter(&self, sender: K, request: T, bytes: usize) -> Entered<T> {
        self.turns().enter(sender, request, bytes)
    }

    /// Puts a request before the others of its sender, because it had its turn before and then had to wait for
    /// something else.
    #[must_use]
    pub fn enter_first(&self, sender: K, request: T, bytes: usize) -> Entered<T> {
        self.turns().put(sender, request, bytes, Place::First)
    }

    /// Handles one request after the other on this thread, as long as a sender has a turn.
    pub fn serve(&self, handle: impl Fn(T)) {
        let mut done = None;
        while let Some((sender, request)) = self.next(done) {
            contained(|| handle(request));
            done = Some(sender);
        }
    }

    /// Returns the next request for a thread that has finished a request of the sender `done`. After `None` the thread
    /// is no longer counted and must not ask again.
    fn next(&self, done: Option<K>) -> Option<(K, T)> {
        self.turns().next(done)
    }

    /// Returns the number of waiting bytes of a sender.
    pub fn waiting_bytes(&self, sender: &K) -> usize {
        self.turns().senders.get(sender).map_or(0, |waiting| waiting.bytes)
    }

    /// Returns how many requests wait, and how many threads are at work.
    pub fn counts(&self) -> (usize, usize) {
        let turns = self.turns();
        (turns.senders.values().map(|waiting| waiting.requests.len()).sum(), turns.working)
    }

    fn turns(&self) -> MutexGuard<'_, Turns<K, T>> {
        // Nothing in here panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash, T> Turns<K, T> {
    fn enter(&mut self, sender: K, request: T, bytes: usize) -> Entered<T> {
        self.put(sender, request, bytes, Place::Last)
    }

    fn put(&mut self, sender: K, request: T, bytes: usize, place: Place) -> Entered<T> {
        let new = || Waiting { requests: VecDeque::new(), bytes: 0, in_hand: false };
        let waiting = self.senders.entry(sender.clone()).or_insert_with(new);
        if waiting.requests.len() >= self.most {
            return Entered::Full(request);
        }
        if waiting.requests.is_empty() && !waiting.in_hand {
            self.ready.push_back(sender);
        }
        match place {
            Place::First => waiting.requests.push_front((request, bytes)),
            Place::Last => waiting.requests.push_back((request, bytes)),
        }
        waiting.bytes += bytes;
        // Whoever has something in hand goes on with it when that is done.
        if self.ready.is_empty() || self.working >= self.threads {
            return Entered::Waits;
        }
        self.working += 1;
        Entered::Start
    }

    fn next(&mut self, done: Option<K>) -> Option<(K, T)> {
        if let Some(sender) = done {
            self.finish(sender);
        }
        let next = self.ready.pop_front().and_then(|sender| {
            let waiting = self.senders.get_mut(&sender)?;
            let (request, bytes) = waiting.requests.pop_front()?;
            waiting.bytes -= bytes;
            waiting.in_hand = true;
            Some((sender, request))
        });
        self.working -= usize::from(next.is_none());
        next
    }

    /// Ends the turn of a sender. If it has more requests, it goes to the end of the queue.
    fn finish(&mut self, sender: K) {
        let Some(waiting) = self.senders.get_mut(&sender) else { return };
        waiting.in_hand = false;
        if waiting.requests.is_empty() {
            self.senders.remove(&sender);
        } else {
            self.ready.push_back(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Random numbers from a seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }
    }

    fn turns(threads: usize) -> Turns<char, u32> {
        Turns { threads, working: 0, most: 1000, ready: VecDeque::new(), senders: HashMap::new() }
    }

    #[test]
    fn senders_take_turns() {
        let mut turns = turns(1);
        let entered: Vec<_> = (0..4).map(|number| turns.enter('a', number, 1)).collect();
        assert_eq!(entered[..2], [Entered::Start, Entered::Waits]);
        assert_eq!(turns.next(None), Some(('a', 0)));
        assert_eq!(
            [turns.enter('b', 10, 1), turns.enter('c', 20, 1), turns.enter('b', 11, 1)],
            [Entered::Waits, Entered::Waits, Entered::Waits]
        );
        let mut order = Vec::new();
        let mut done = 'a';
        while let Some((sender, number)) = turns.next(Some(done)) {
            order.push(number);
            done = sender;
        }
        assert_eq!(order, [10, 20, 1, 11, 2, 3]);
        assert_eq!((turns.working, turns.senders.len()), (0, 0));
    }

    #[test]
    fn one_sender_has_one_thread_and_leaves_the_others_to_others() {
        let mut turns = turns(2);
        assert_eq!(turns.enter('a', 0, 1), Entered::Start);
        assert_eq!(turns.next(None), Some(('a', 0)));
        for number in 1..10 {
            assert_eq!(turns.enter('a', number, 1), Entered::Waits, "no second thread for it");
        }
        assert_eq!(turns.enter('b', 100, 1), Entered::Start);
        assert_eq!(turns.next(None), Some(('b', 100)));
        assert_eq!(turns.next(Some('b')), None, "what waits is not for this thread");
        assert_eq!(turns.next(Some('a')), Some(('a', 1)));
    }

    #[test]
    fn the_waiting_requests_of_a_sender_are_bounded() {
        let queue = FairQueue::new(1, 2);
        assert_eq!(queue.enter('a', 0, 10), Entered::Start);
        assert_eq!([queue.enter('a', 1, 10), queue.enter('a', 2, 10)], [Entered::Waits, Entered::Full(2)]);
        assert_eq!((queue.waiting_bytes(&'a'), queue.counts()), (20, (2, 1)));
        assert_eq!(queue.enter('b', 3, 10), Entered::Waits, "others are not concerned");
    }

    #[test]
    fn what_had_its_turn_is_next_and_a_panic_ends_one_request_only() {
        let (queue, seen) = (FairQueue::new(1, 10), Mutex::new(Vec::new()));
        assert_eq!([queue.enter('a', 0, 1), queue.enter('a', 1, 1)], [Entered::Start, Entered::Waits]);
        assert_eq!(queue.enter_first('a', 2, 1), Entered::Waits);
        queue.serve(|request| {
            assert!(request != 2, "this one has a bug");
            seen.lock().unwrap().push(request);
        });
        assert_eq!((seen.into_inner().unwrap(), queue.counts()), (vec![0, 1], (0, 0)));
        assert_eq!([queue.enter('a', 3, 1), queue.enter_first('a', 4, 1)], [Entered::Start, Entered::Waits]);
        assert_eq!([queue.next(None), queue.next(Some('a'))], [Some(('a', 4)), Some(('a', 3))]);
    }

    /// A queue whose requests arrive and finish in random order, with its invariants.
    struct Trial {
        turns: Turns<char, u32>,
        in_hand: Vec<char>,
        /// Threads that were started and have not asked yet.
        started: usize,
        served: HashMap<char, Vec<u32>>,
        /// Senders that wait for a turn, and the senders that had one in the meantime.
        overtaken: HashMap<char, HashSet<char>>,
    }

    impl Trial {
        fn enter(&mut self, sender: char, request: u32) {
            if !self.in_hand.contains(&sender) {
                self.overtaken.entry(sender).or_default();
            }
            self.started += usize::from(self.turns.enter(sender, request, 1) == Entered::Start);
        }

        /// A thread takes its next request: a new thread, or one that has finished a request.
        fn ask(&mut self, dice: &mut Dice) {
            let finishes = !self.in_hand.is_empty() && (self.started == 0 || dice.roll(2) == 0);
            let done = finishes.then(|| self.in_hand.swap_remove(dice.roll(self.in_hand.len())));
            self.started -= usize::from(done.is_none());
            if let Some(sender) = done.filter(|sender| !self.turns.senders[sender].requests.is_empty()) {
                self.overtaken.entry(sender).or_default();
            }
            let Some((sender, request)) = self.turns.next(done) else { return };
            assert!(!self.in_hand.contains(&sender), "two of {sender} at a time");
            self.overtaken.remove(&sender);
            for meanwhile in self.overtaken.values_mut() {
                assert!(meanwhile.insert(sender), "{sender} overtakes another twice");
            }
            self.served.entry(sender).or_default().push(request);
            self.in_hand.push(sender);
        }

        fn check(&self) {
            assert_eq!(self.turns.working, self.in_hand.len() + self.started);
            assert!(self.turns.working <= self.turns.threads);
        }
    }

    #[test]
    fn whatever_comes_is_served_once_in_order_and_nobody_is_overtaken_twice_by_the_same() {
        for seed in 0..300 {
            let mut dice = Dice(seed);
            let (threads, senders, overtaken) = (1 + dice.roll(3), 1 + dice.roll(5), HashMap::new());
            let mut trial =
                Trial { turns: turns(threads), in_hand: Vec::new(), started: 0, served: HashMap::new(), overtaken };
            let mut entered = 0;
            while entered < 100 || trial.started + trial.in_hand.len() > 0 {
                if entered < 100 && dice.roll(2) == 0 {
                    trial.enter(char::from(b'a' + dice.roll(senders) as u8), entered);
                    entered += 1;
                } else if trial.started + trial.in_hand.len() > 0 {
                    trial.ask(&mut dice);
                }
                trial.check();
            }
            assert!(trial.served.values().all(|requests| requests.is_sorted()), "seed {seed}: out of order");
            assert_eq!(trial.served.values().map(Vec::len).sum::<usize>(), 100, "seed {seed}: something was left");
            assert!(trial.turns.senders.is_empty() && trial.turns.ready.is_empty(), "seed {seed}");
        }
    }
}
