//! What waits to be read by the model: reports and messages of all members, bounded for each member and lane.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use share::{Incoming, Lane, Node};
use tokio::sync::Notify;

/// Bytes of messages of one member and lane that wait. More stay with the sender.
pub const MAX_WAITING: usize = 2 << 20;

/// The number of reports of the lane `Talk` after which one of the lane `Bulk` is read, so that neither lane starves.
const TURNS: u32 = 16;

/// The queue between links and the model.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Reports, and messages in [`Lane::Talk`].
    small: VecDeque<Incoming>,
    /// Messages in [`Lane::Bulk`].
    large: VecDeque<Incoming>,
    turns: u32,
    /// The link of each member that is up: what came over another one is dropped.
    up: HashMap<Node, u64>,
    /// The members whose `Up` is not read yet.
    unread_up: HashSet<Node>,
    bytes: HashMap<(Node, Lane), usize>,
    overflowed: Vec<Node>,
    /// With whom a member is linked, if that is not read yet. The report in the queue is only its place.
    linked: HashMap<Node, Vec<Node>>,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that a member is reachable. `link` names the link in this process.
    pub fn up(&self, node: Node, link: u64) {
        let mut waiting = self.waiting();
        waiting.up.insert(node, link);
        waiting.unread_up.insert(node);
        waiting.small.push_back(Incoming::Up(node));
        self.filled.notify_one();
    }

    /// Reports that a member is not reachable any more. What it sent in [`Lane::Bulk`] and nobody has read is dropped.
    pub fn down(&self, node: Node, reason: &str) {
        let mut waiting = self.waiting();
        waiting.up.remove(&node);
        waiting.bytes.remove(&(node, Lane::Talk));
        waiting.bytes.remove(&(node, Lane::Bulk));
        waiting.overflowed.retain(|other| *other != node);
        waiting.large.retain(|report| about(report) != node);
        if waiting.linked.remove(&node).is_some() {
            waiting.small.retain(|report| !matches!(report, Incoming::Linked(other, _) if *other == node));
        }
        if waiting.unread_up.remove(&node) {
            // While nobody reads, a link may come and go for ever: of each member one `Down` and one `Up` are kept.
            waiting.small.retain(|report| about(report) != node || matches!(report, Incoming::Down(..)));
        } else {
            waiting.small.push_back(Incoming::Down(node, reason.to_owned()));
        }
        drop(waiting);
        self.filled.notify_one();
        self.emptied.notify_waiters();
    }

    /// Reports that messages to a member were lost.
    pub fn overflowed(&self, node: Node) {
        let mut waiting = self.waiting();
        // Once until it is read.
        if waiting.up.contains_key(&node) && !waiting.overflowed.contains(&node) {
            waiting.overflowed.push(node);
            waiting.small.push_back(Incoming::Overflowed(node));
            self.filled.notify_one();
        }
    }

    /// Reports with whom a member is linked.
    pub fn linked(&self, node: Node, link: u64, others: Vec<Node>) {
        let mut waiting = self.waiting();
        // Replaced in place: a member that says something else with each heartbeat costs no more than one that does not.
        if waiting.up.get(&node) == Some(&link) && waiting.linked.insert(node, others).is_none() {
            waiting.small.push_back(Incoming::Linked(node, Vec::new()));
            self.filled.notify_one();
        }
    }

    /// Hands over a message. Waits while too much of this member and lane is unread; meanwhile its sender has to wait.
    pub async fn message(&self, from: Node, link: u64, lane: Lane, message: Bytes) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Registered before looking: what is read meanwhile must not be missed.
            emptied.as_mut().enable();
            {
                let mut waiting = self.waiting();
                if waiting.up.get(&from) != Some(&link) {
                    return;
                }
                let unread = waiting.bytes.entry((from, lane)).or_default();
                if *unread == 0 || *unread + message.len() <= MAX_WAITING {
                    *unread += cost(&message);
                    let queue = if lane == Lane::Talk { &mut waiting.small } else { &mut waiting.large };
                    queue.push_back(Incoming::Message { from, lane, message });
                    self.filled.notify_one();
                    return;
                }
            }
            emptied.await;
        }
    }

    /// Hands over a message without waiting. Returns whether it is taken: whoever sends more than may be unread has to know.
    pub fn offer(&self, from: Node, link: u64, lane: Lane, message: Bytes) -> bool {
        let mut waiting = self.waiting();
        if waiting.up.get(&from) != Some(&link) {
            return false;
        }
        let unread = waiting.bytes.entry((from, lane)).or_default();
        let is_taken = *unread == 0 || *unread + cost(&message) <= MAX_WAITING;
        if is_taken {
            *unread += cost(&message);
            let queue = if lane == Lane::Talk { &mut waiting.small } else { &mut waiting.large };
            queue.push_back(Incoming::Message { from, lane, message });
            self.filled.notify_one();
        }
        is_taken
    }

    /// Returns how many bytes of a member are unread in each lane, as [`cost`] counts them.
    pub fn unread(&self, node: Node) -> [usize; 2] {
        let waiting = self.waiting();
        [Lane::Talk, Lane::Bulk].map(|lane| waiting.bytes.get(&(node, lane)).copied().unwrap_or_default())
    }

    /// Waits for the next report.
    pub async fn next(&self) -> Incoming {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Incoming> {
        let mut waiting = self.waiting();
        waiting.turns += 1;
        // The reader drops messages of a member that is not up.
        let up_first = waiting.large.front().is_some_and(|report| waiting.unread_up.contains(&about(report)));
        let large_first = waiting.turns >= TURNS && !waiting.large.is_empty() && !up_first;
        let mut report = match large_first {
            true => waiting.large.pop_front(),
            false => waiting.small.pop_front().or_else(|| waiting.large.pop_front()),
        }?;
        match &mut report {
            Incoming::Linked(node, others) => *others = waiting.linked.remove(node).unwrap_or_default(),
            Incoming::Message { from, lane, message } => {
                if *lane == Lane::Bulk {
                    waiting.turns = 0;
                }
                let unread = waiting.bytes.entry((*from, *lane)).or_default();
                *unread = unread.saturating_sub(cost(message));
                drop(waiting);
                self.emptied.notify_waiters();
            }
            Incoming::Overflowed(node) => waiting.overflowed.retain(|other| other != node),
            Incoming::Up(node) => {
                waiting.unread_up.remove(node);
            }
            Incoming::Down(..) => {}
        }
        Some(report)
    }
}

/// What a message counts: empty ones take memory, too.
pub fn cost(message: &Bytes) -> usize {
    message.len() + 64
}

fn about(report: &Incoming) -> Node {
    match report {
        Incoming::Up(node) | Incoming::Down(node, _) | Incoming::Linked(node, _) | Incoming::Overflowed(node) => *node,
        Incoming::Message { from, .. } => *from,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NODE: Node = Node([1; 8]);

    fn unread(inbox: &Inbox) -> Vec<Incoming> {
        std::iter::from_fn(|| inbox.take()).collect()
    }

    #[tokio::test]
    async fn nothing_of_a_link_is_read_after_it_is_down() {
        let inbox = Inbox::default();
        inbox.up(NODE, 1);
        assert_eq!(unread(&inbox), [Incoming::Up(NODE)]);
        inbox.message(NODE, 1, Lane::Bulk, Bytes::from_static(b"old")).await;
        inbox.down(NODE, "cut");
        inbox.message(NODE, 1, Lane::Talk, Bytes::from_static(b"late")).await;
        inbox.up(NODE, 2);
        inbox.message(NODE, 1, Lane::Talk, Bytes::from_static(b"later")).await;
        assert_eq!(unread(&inbox), [Incoming::Down(NODE, "cut".into()), Incoming::Up(NODE)]);
    }

    #[test]
    fn what_does_not_fit_is_not_taken_and_what_is_read_makes_room() {
        let inbox = Inbox::default();
        let large = Bytes::from(vec![0; MAX_WAITING / 2]);
        assert!(!inbox.offer(NODE, 1, Lane::Bulk, large.clone()), "there is no link");
        inbox.up(NODE, 1);
        assert!(inbox.offer(NODE, 1, Lane::Bulk, large.clone()));
        assert!(!inbox.offer(NODE, 1, Lane::Bulk, large.clone()) && inbox.offer(NODE, 1, Lane::Talk, Bytes::new()));
        assert_eq!(inbox.unread(NODE), [cost(&Bytes::new()), cost(&large)]);
        assert_eq!(unread(&inbox).len(), 3);
        assert_eq!(inbox.unread(NODE), [0, 0]);
        assert!(inbox.offer(NODE, 1, Lane::Bulk, large));
    }

    #[tokio::test]
    async fn reports_that_nobody_reads_do_not_pile_up() {
        let inbox = Inbox::default();
        for link in 0..100 {
            inbox.up(NODE, link);
            inbox.overflowed(NODE);
            inbox.overflowed(NODE);
            inbox.linked(NODE, link, vec![]);
            inbox.linked(NODE, link, vec![NODE]);
            inbox.down(NODE, "cut");
        }
        assert_eq!(unread(&inbox), []);
        inbox.up(NODE, 100);
        inbox.overflowed(NODE);
        assert_eq!(unread(&inbox), [Incoming::Up(NODE), Incoming::Overflowed(NODE)]);
        (0..100).for_each(|link| {
            inbox.down(NODE, "cut");
            inbox.up(NODE, link);
        });
        assert_eq!(unread(&inbox), [Incoming::Down(NODE, "cut".into()), Incoming::Up(NODE)]);
    }

    #[tokio::test]
    async fn the_first_message_of_a_link_is_read_after_its_up() {
        let inbox = Inbox::default();
        // Nothing large was read for so long that it goes first.
        (0..2 * TURNS).for_each(|_| assert_eq!(inbox.take(), None));
        inbox.up(NODE, 1);
        inbox.message(NODE, 1, Lane::Bulk, Bytes::from_static(b"compare")).await;
        let message = |lane, text| Incoming::Message { from: NODE, lane, message: Bytes::from_static(text) };
        assert_eq!(unread(&inbox), [Incoming::Up(NODE), message(Lane::Bulk, b"compare")]);
        (0..2 * TURNS).for_each(|_| assert_eq!(inbox.take(), None));
        inbox.message(NODE, 1, Lane::Talk, Bytes::from_static(b"small")).await;
        inbox.message(NODE, 1, Lane::Bulk, Bytes::from_static(b"large")).await;
        assert_eq!(unread(&inbox), [message(Lane::Bulk, b"large"), message(Lane::Talk, b"small")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_nobody_reads_makes_its_sender_wait_and_no_other() {
        let inbox = Inbox::default();
        inbox.up(NODE, 1);
        let large = Bytes::from(vec![0; MAX_WAITING / 2]);
        inbox.message(NODE, 1, Lane::Bulk, large.clone()).await;
        let second = inbox.message(NODE, 1, Lane::Bulk, large.clone());
        tokio::pin!(second);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err());
        inbox.message(NODE, 1, Lane::Talk, Bytes::from_static(b"small")).await;
        assert_eq!(inbox.next().await, Incoming::Up(NODE));
        assert!(matches!(inbox.next().await, Incoming::Message { lane: Lane::Talk, .. }));
        assert!(matches!(inbox.next().await, Incoming::Message { lane: Lane::Bulk, .. }));
        second.await;
        assert_eq!(unread(&inbox).len(), 1);
    }
}
