//! The events that streams read, each at its own pace.
//!
//! All readers share one log. Events that all have read leave it at once; beyond a number of events or of bytes the oldest leave it
//! unread. A reader that wanted them lags behind and ends. The others notice nothing: whoever does not read must not end the streams
//! of those who do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event::Event;
use tokio::sync::watch;

use crate::stream_event::StreamEvent;

/// Events on their way to streams.
pub struct StreamLog {
    state: Mutex<State>,
    /// The number of the next event.
    tail: watch::Sender<u64>,
    most_events: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    bytes: usize,
    readers: usize,
}

struct Entry {
    /// `None` where events are missing.
    event: Option<Arc<StreamEvent>>,
    bytes: usize,
    /// The number of readers that have not read it.
    unread: usize,
}

/// One stream's place in the log.
pub struct Reader {
    log: Arc<StreamLog>,
    next: u64,
    tail: watch::Receiver<u64>,
    ended: bool,
}

/// Why a reader gets no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The number of events it missed because it read too slowly.
    Behind(u64),
    /// Events are missing: the connection to the master was lost.
    CutOff,
}

impl StreamLog {
    /// Creates a log with limits on the number and the size in bytes of unread events.
    pub fn new(most_events: usize, most_bytes: usize) -> Arc<Self> {
        Arc::new(StreamLog { state: Mutex::default(), tail: watch::Sender::new(0), most_events, most_bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete or has not happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all events from now on.
    pub fn subscribe(self: &Arc<Self>) -> Reader {
        let mut state = self.state();
        state.readers += 1;
        Reader { log: self.clone(), next: state.end(), tail: self.tail.subscribe(), ended: false }
    }

    /// Adds an event.
    pub fn send(&self, event: &Event) {
        // Without readers nothing is made.
        if self.state().readers > 0 {
            self.push(Some(Arc::new(StreamEvent::new(event.clone()))), event.bytes().len());
        }
    }

    /// Ends all readers, once they have read what is there.
    pub fn end(&self) {
        self.push(None, 0);
    }

    fn push(&self, event: Option<Arc<StreamEvent>>, bytes: usize) {
        let mut state = self.state();
        let unread = state.readers;
        state.entries.push_back(Entry { event, bytes, unread });
        state.bytes += bytes;
        while state.entries.len() > self.most_events || (state.bytes > self.most_bytes && state.entries.len() > 1) {
            state.forget_first();
        }
        state.forget_read();
        let end = state.end();
        drop(state);
        self.tail.send_replace(end);
    }
}

impl State {
    /// Returns the number of the next entry.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn forget_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            self.bytes -= entry.bytes;
        }
    }

    fn forget_read(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.unread == 0) {
            self.forget_first();
        }
    }
}

impl Reader {
    /// Waits for the next event. Nothing is lost if the caller stops waiting.
    ///
    /// # Errors
    /// If events are missing here.
    pub async fn next(&mut self) -> Result<Arc<StreamEvent>, Lost> {
        loop {
            if let Some(outcome) = self.take() {
                return outcome;
            }
            if self.tail.changed().await.is_err() {
                return Err(Lost::CutOff);
            }
        }
    }

    /// Returns the next event if it is there.
    fn take(&mut self) -> Option<Result<Arc<StreamEvent>, Lost>> {
        if self.ended {
            return Some(Err(Lost::CutOff));
        }
        let mut state = self.log.state();
        let Some(index) = self.next.checked_sub(state.first) else {
            let missed = state.first - self.next;
            self.next = state.first;
            return Some(Err(Lost::Behind(missed)));
        };
        let entry = state.entries.get_mut(index as usize)?;
        entry.unread -= 1;
        let event = entry.event.clone();
        state.forget_read();
        self.next += 1;
        self.ended = event.is_none();
        Some(event.ok_or(Lost::CutOff))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.log.state();
        let read = self.next.saturating_sub(state.first) as usize;
        state.entries.iter_mut().skip(read).for_each(|entry| entry.unread -= 1);
        state.readers -= 1;
        state.forget_read();
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn event(number: usize, bytes: usize) -> Event {
        Event::new(format!("a/{number}"), map! { "x" => "x".repeat(bytes) }, 1 << 20).unwrap()
    }

    fn tags(reader: &mut Reader) -> Vec<String> {
        std::iter::from_fn(|| reader.take()?.ok()).map(|shown| shown.event.tag().to_owned()).collect()
    }

    fn lost(reader: &mut Reader) -> Option<Lost> {
        reader.take()?.err()
    }

    #[test]
    fn readers_get_the_events_since_they_began_until_the_end() {
        let log = StreamLog::new(10, 1000);
        log.send(&event(0, 1));
        let mut early = log.subscribe();
        log.send(&event(1, 1));
        let mut late = log.subscribe();
        log.send(&event(2, 1));
        log.end();
        assert_eq!(tags(&mut early), ["a/1", "a/2"]);
        assert_eq!(tags(&mut late), ["a/2"]);
        assert_eq!((lost(&mut early), lost(&mut late)), (Some(Lost::CutOff), Some(Lost::CutOff)));
        let mut again = log.subscribe();
        assert!(again.take().is_none());
        log.send(&event(3, 1));
        assert_eq!(tags(&mut again), ["a/3"]);
    }

    #[test]
    fn a_reader_that_is_slow_ends_and_no_other() {
        let log = StreamLog::new(1000, 10_000);
        let (mut slow, mut quick) = (log.subscribe(), log.subscribe());
        for number in 0..100 {
            log.send(&event(number, 1000));
            assert_eq!(tags(&mut quick).len(), 1);
            assert!(log.state().bytes <= 10_000);
        }
        assert!(matches!(lost(&mut slow), Some(Lost::Behind(missed)) if missed > 80));
        // The same by their number.
        let log = StreamLog::new(10, 1 << 20);
        let (mut slow, mut quick) = (log.subscribe(), log.subscribe());
        for number in 0..20 {
            log.send(&event(number, 1));
            assert_eq!(tags(&mut quick).len(), 1);
        }
        assert_eq!(lost(&mut slow), Some(Lost::Behind(10)));
    }

    #[test]
    fn what_nobody_will_read_is_not_kept() {
        let log = StreamLog::new(10, 1000);
        log.send(&event(0, 1));
        assert!(log.state().entries.is_empty(), "there is no reader");
        let (mut one, two) = (log.subscribe(), log.subscribe());
        log.send(&event(1, 1));
        assert_eq!(tags(&mut one).len(), 1);
        assert_eq!(log.state().entries.len(), 1);
        drop(two);
        let left = |state: &State| (state.entries.len(), state.bytes, state.readers);
        assert_eq!(left(&log.state()), (0, 0, 1));
        log.end();
        drop(one);
        assert!(log.state().entries.is_empty());
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let log = StreamLog::new(10, 1000);
        let mut reader = log.subscribe();
        let waiting = tokio::spawn(async move { reader.next().await.map(|shown| shown.event.tag().to_owned()) });
        log.send(&event(7, 1));
        assert_eq!(waiting.await.unwrap(), Ok("a/7".to_owned()));
    }
}
