//! What waits to be sent to a member in one lane: bounded, and never waited for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use share::message::MAX_MESSAGE;
use share::{Node, SendResult};
use tokio::sync::Notify;

/// The maximum number of messages that wait.
const MOST: usize = 100_000;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It waits.
    Queued,
    /// It is lost. `first` is set once until the queue has been empty.
    Full {
        /// It is the first one that is lost.
        first: bool,
    },
}

/// The queue of a lane.
pub struct LaneQueue {
    max_bytes: usize,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Bytes>,
    bytes: usize,
    overflowed: bool,
    goodbye: Option<String>,
}

/// Queues a message for each member that is linked, in the queue of the lane. Never waits. `dropped` gets each member whose queue is
/// full, and whether this is its first loss until the queue has been empty.
pub fn push_to_each<'a>(
    queues: impl Iterator<Item = (Node, &'a LaneQueue)>,
    message: &Bytes,
    mut dropped: impl FnMut(Node, bool),
) -> SendResult {
    let mut result = SendResult::Away;
    for (node, queue) in queues {
        match queue.push(message.clone()) {
            Pushed::Queued if result == SendResult::Away => result = SendResult::Queued,
            Pushed::Queued => {}
            Pushed::Full { first } => {
                dropped(node, first);
                result = SendResult::Full;
            }
        }
    }
    result
}

/// What is to be written next.
pub enum Next {
    /// Messages, one at least.
    Messages(Vec<Bytes>),
    /// The last thing that is written.
    Bye(String),
}

impl LaneQueue {
    /// Creates a queue that holds up to this number of bytes.
    pub fn new(max_bytes: usize) -> Self {
        LaneQueue { max_bytes, waiting: Mutex::default(), filled: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message, if there is room.
    pub fn push(&self, message: Bytes) -> Pushed {
        let mut waiting = self.waiting();
        let bytes = waiting.bytes + message.len();
        if message.len() > MAX_MESSAGE || bytes > self.max_bytes || waiting.messages.len() >= MOST {
            return Pushed::Full { first: !std::mem::replace(&mut waiting.overflowed, true) };
        }
        waiting.bytes = bytes;
        waiting.messages.push_back(message);
        drop(waiting);
        self.filled.notify_one();
        Pushed::Queued
    }

    /// Returns how many bytes wait.
    pub fn bytes(&self) -> usize {
        self.waiting().bytes
    }

    /// Ends the queue after what waits in it.
    pub fn say_goodbye(&self, reason: &str) {
        self.waiting().goodbye = Some(reason.to_owned());
        self.filled.notify_one();
    }

    /// Waits for messages, and takes up to `most` bytes of them, one at least.
    pub async fn next(&self, most: usize) -> Next {
        loop {
            if let Some(next) = self.take(most) {
                return next;
            }
            // A notification is kept while nobody waits, so that none is missed.
            self.filled.notified().await;
        }
    }

    fn take(&self, most: usize) -> Option<Next> {
        let mut waiting = self.waiting();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(message) = waiting.messages.pop_front_if(|next| bytes == 0 || bytes + next.len() <= most) {
            bytes += message.len().max(1);
            waiting.bytes -= message.len();
            taken.push(message);
        }
        waiting.overflowed &= !waiting.messages.is_empty();
        match taken.is_empty() {
            true => waiting.goodbye.take().map(Next::Bye),
            false => Some(Next::Messages(taken)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_bounded_and_an_overflow_is_reported_once_until_the_queue_is_empty() {
        let queue = LaneQueue::new(10);
        let push = || queue.push(Bytes::from_static(b"12345"));
        assert_eq!((push(), push()), (Pushed::Queued, Pushed::Queued));
        assert_eq!((push(), push()), (Pushed::Full { first: true }, Pushed::Full { first: false }));
        let Next::Messages(taken) = queue.next(5).await else { panic!("messages come first") };
        assert_eq!(taken.len(), 1);
        assert_eq!((push(), push()), (Pushed::Queued, Pushed::Full { first: false }));
        queue.next(100).await;
        assert_eq!((push(), push(), push()), (Pushed::Queued, Pushed::Queued, Pushed::Full { first: true }));
    }

    #[test]
    fn the_number_of_messages_is_bounded_and_no_message_is_too_long() {
        let queue = LaneQueue::new(64 << 20);
        let taken = (0..MOST + 5).filter(|_| queue.push(Bytes::from_static(b"x")) == Pushed::Queued).count();
        assert_eq!(taken, MOST);
        let long = LaneQueue::new(64 << 20).push(vec![0; MAX_MESSAGE + 1].into());
        assert_eq!(long, Pushed::Full { first: true });
    }

    #[tokio::test]
    async fn goodbye_is_said_after_what_waits() {
        let queue = LaneQueue::new(10);
        queue.push(Bytes::from_static(b"last"));
        queue.say_goodbye("stopping");
        assert!(matches!(queue.next(100).await, Next::Messages(messages) if messages == [&b"last"[..]]));
        assert!(matches!(queue.next(100).await, Next::Bye(reason) if reason == "stopping"));
    }
}
