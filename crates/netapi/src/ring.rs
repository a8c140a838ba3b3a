//! The latest events, so that a client that was away for a moment misses none.
//!
//! Each event has a number. Readers read from a number on, so a slow one keeps nothing in memory: it learns that it has missed
//! something when its number has left the ring. The same holds for what happened while this program was not connected to the bus.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event::Event;
use tokio::sync::watch;
use tokio::time::Instant;
use value::{Value, map};

use crate::pack;

/// The most bytes in the ring, and the longest time that an event stays there.
const MOST: usize = 16 << 20;
const LONGEST: Duration = Duration::from_secs(3600);

/// What an event costs beside its text, in bytes.
const OVERHEAD: usize = 256;

/// An event, as a stream shows it.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// The tag.
    pub tag: String,
    /// The minion that it is about.
    pub minion: Option<String>,
    /// The data, packed once for all streams.
    pub data: String,
}

impl Item {
    /// Packs an event; `None` if that is impossible.
    pub fn of(event: &Event) -> Option<Self> {
        let minion = event.data().get("id").and_then(Value::as_str).map(str::to_owned);
        let packed = pack::json(&map! { "tag" => event.tag(), "data" => event.data().clone() }.into());
        Some(Item { tag: event.tag().to_owned(), minion, data: packed.ok()? })
    }

    /// Returns the job, runner or wheel function of the event.
    pub fn jid(&self) -> Option<&str> {
        jid_of(&self.tag)
    }

    fn size(&self) -> usize {
        2 * self.tag.len() + self.data.len() + OVERHEAD
    }
}

/// What a reader finds.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// These events, and the number after the last one.
    Items(Vec<(u64, Arc<Item>)>),
    /// Events are missing. The reader goes on from this number.
    Missed(u64),
    /// Nothing yet.
    Nothing,
}

/// The latest events.
pub struct Ring {
    /// Names this run of the program: numbers of another one mean nothing here.
    node: String,
    state: Mutex<State>,
    latest: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    items: VecDeque<(Instant, Arc<Item>)>,
    /// The number of the first item.
    first: u64,
    bytes: usize,
    /// Somebody has read: until then nothing is kept.
    used: bool,
}

impl Ring {
    /// Creates an empty ring, whose numbers have this name before them.
    pub fn new(node: String) -> Self {
        // From one on: who has read nothing has read up to zero.
        let state = State { first: 1, ..State::default() };
        Ring { node, state: Mutex::new(state), latest: watch::Sender::new(1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn push(&self, event: &Event) {
        if !self.state().used {
            return;
        }
        let Some(item) = Item::of(event) else { return self.break_off() };
        let mut state = self.state();
        state.bytes += item.size();
        state.items.push_back((Instant::now(), Arc::new(item)));
        state.prune();
        let next = state.next();
        drop(state);
        self.latest.send_replace(next);
    }

    /// Notes that events may be missing from here on.
    pub fn break_off(&self) {
        let mut state = self.state();
        // A number that no event has: who has read all before it has missed something.
        state.first = state.next() + 1;
        state.items.clear();
        state.bytes = 0;
        let next = state.next();
        drop(state);
        self.latest.send_replace(next);
    }

    /// Returns the number of the next event, and keeps events from now on.
    pub fn begin(&self) -> u64 {
        let mut state = self.state();
        state.used = true;
        state.next()
    }

    /// Returns events from a number on, a few at a time.
    pub fn from(&self, number: u64, count: usize) -> Next {
        let mut state = self.state();
        state.prune();
        let next = state.next();
        if number < state.first || number > next {
            return Next::Missed(next);
        }
        let skip = usize::try_from(number - state.first).unwrap_or(usize::MAX);
        let items = state.items.iter().skip(skip).take(count).zip(number..);
        let items: Vec<_> = items.map(|((_, item), number)| (number, item.clone())).collect();
        if items.is_empty() { Next::Nothing } else { Next::Items(items) }
    }

    /// Returns the latest events with their ages, the newest first.
    pub fn latest(&self, count: usize) -> Vec<(Duration, Arc<Item>)> {
        let mut state = self.state();
        state.prune();
        state.items.iter().rev().take(count).map(|(at, item)| (at.elapsed(), item.clone())).collect()
    }

    /// Returns a receiver that notices further events.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Writes the id of an event.
    pub fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.node)
    }

    /// Reads the id of the last event that a client has seen. Returns the number from which it wants to read; `None` for an id that
    /// is not of this run of the program.
    pub fn after(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix(self.node.as_str())?.strip_prefix('-')?;
        // A number has one form only.
        let parsed: u64 = number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)?;
        parsed.checked_add(1)
    }
}

impl State {
    fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn prune(&mut self) {
        while let Some((at, item)) = self.items.front()
            && (self.bytes > MOST || at.elapsed() > LONGEST)
        {
            self.bytes -= item.size();
            self.items.pop_front();
            self.first += 1;
        }
    }
}

/// Returns the job id in a tag.
pub fn jid_of(tag: &str) -> Option<&str> {
    let mut parts = tag.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("salt"), Some("job" | "run" | "wheel"), Some(jid), Some(_)) => Some(jid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tag: &str, size: usize) -> Event {
        Event::new(tag, map! { "id" => "web1", "x" => "x".repeat(size) }, 64 << 20).unwrap()
    }

    fn numbers(next: Next) -> Vec<u64> {
        match next {
            Next::Items(items) => items.iter().map(|(number, _)| *number).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn used() -> Ring {
        let ring = Ring::new("ab".to_owned());
        ring.begin();
        ring
    }

    #[tokio::test]
    async fn a_reader_goes_on_where_it_was() {
        let ring = Ring::new("ab".to_owned());
        ring.push(&event("a/b", 1));
        assert_eq!(ring.begin(), 1, "nobody had asked");
        let changes = ring.changes();
        for _ in 0..3 {
            ring.push(&event("a/b", 1));
        }
        assert!(changes.has_changed().unwrap());
        assert_eq!(numbers(ring.from(1, 2)), [1, 2]);
        assert_eq!(numbers(ring.from(3, 9)), [3]);
        assert_eq!(ring.from(4, 9), Next::Nothing);
        assert_eq!(ring.latest(2).len(), 2);
        assert_eq!(ring.from(5, 9), Next::Missed(4), "that has not happened");
    }

    #[tokio::test]
    async fn old_and_large_events_leave() {
        let ring = used();
        for _ in 0..5 {
            ring.push(&event("a/b", MOST / 3));
        }
        assert_eq!(ring.from(1, 9), Next::Missed(6));
        assert_eq!(numbers(ring.from(4, 9)), [4, 5]);
        tokio::time::pause();
        tokio::time::advance(LONGEST + Duration::from_secs(1)).await;
        assert_eq!(ring.from(4, 9), Next::Missed(6));
        assert_eq!(ring.from(6, 9), Next::Nothing);
        assert_eq!(ring.state().bytes, 0);
    }

    #[tokio::test]
    async fn a_gap_is_noticed_by_whoever_had_read_all() {
        let ring = used();
        ring.push(&event("a/b", 1));
        ring.break_off();
        assert_eq!(ring.from(2, 9), Next::Missed(3));
        ring.push(&event("a/b", 1));
        assert_eq!(ring.from(1, 9), Next::Missed(4));
        assert_eq!(numbers(ring.from(3, 9)), [3]);
    }

    #[test]
    fn only_ids_of_this_run_are_read() {
        let ring = used();
        assert_eq!(ring.after(&ring.id(7)), Some(8));
        for forged in ["", "ab", "ab-", "ab--1", "ab-+1", "ab-07", "ab-x", "cd-7", "7", &format!("ab-{}", u64::MAX)] {
            assert_eq!(ring.after(forged), None, "{forged}");
        }
    }

    #[test]
    fn an_item_knows_minion_and_job() {
        let item = Item::of(&event("salt/job/20261126160511953300/ret/web1", 1)).unwrap();
        assert_eq!((item.jid(), item.minion.as_deref()), (Some("20261126160511953300"), Some("web1")));
        assert!(item.data.starts_with("{\"tag\": \"salt/job/"), "{}", item.data);
    }
}
