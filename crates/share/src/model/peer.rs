//! What the model knows of a member that is linked.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::Moment;
use crate::compare::Comparison;
use crate::message::{MAX_WHOLE, Part};
use crate::{Class, Digest, Key, Node};

/// How often two copies are compared, in milliseconds.
pub(super) const COMPARE_EVERY: u64 = 60_000;

/// How long an answer of a comparison may take, in milliseconds.
const ANSWER_WITHIN: u64 = 10_000;

/// How many bytes of records may be under way to a member without an answer.
pub(super) const MOST_UNANSWERED: usize = 8 << 20;

/// How many announcements of a member are remembered.
const MOST_ANNOUNCED: usize = 10_000;

/// What the questions of a member may cost at once, and in each millisecond later: sums and hashes that are looked at for it.
const MOST_CREDIT: u64 = 50_000_000;
const CREDIT: u64 = 200;

/// A member that is linked.
pub(super) struct Peer {
    /// When to compare next; `None` while the other side asks.
    pub compare_at: Option<u64>,
    /// This member asks in the pair.
    pub asks: bool,
    pub comparison: Option<Running>,
    /// Records that were sent and not answered, by the number of the message.
    pub unanswered: BTreeMap<u64, Sent>,
    /// With which members it is linked, as far as it said so.
    pub linked_with: Option<Vec<Node>>,
    /// What it said it has, so that it is not told the same.
    pub announced: BTreeMap<Key, Digest>,
    assembly: Option<Assembly>,
    /// What its questions may still cost, and when that was counted.
    credit: (u64, u64),
}

/// A comparison under way.
pub(super) struct Running {
    pub comparison: Comparison,
    /// When it is given up.
    pub until: u64,
    /// Records that the other side lacks.
    pub deliver: VecDeque<(Class, Key)>,
}

/// Records that were sent.
pub(super) struct Sent {
    pub bytes: usize,
    pub records: Vec<(Class, Key)>,
    pub until: u64,
}

/// A message of which not all parts are here.
struct Assembly {
    id: u64,
    next: u64,
    bytes: BytesMut,
}

impl Peer {
    pub fn new(asks: bool, now: Moment) -> Peer {
        Peer {
            compare_at: asks.then_some(now.steady),
            asks,
            comparison: None,
            unanswered: BTreeMap::new(),
            linked_with: None,
            announced: BTreeMap::new(),
            assembly: None,
            credit: (MOST_CREDIT, now.steady),
        }
    }

    /// Returns whether a question of this cost is answered now. A comparison of copies that differ much stays far below this.
    pub fn may_ask(&mut self, cost: u64, now: Moment) -> bool {
        let (left, at) = self.credit;
        let left = left.saturating_add(now.steady.saturating_sub(at).saturating_mul(CREDIT)).min(MOST_CREDIT);
        self.credit = (left.saturating_sub(cost), now.steady);
        left >= cost
    }

    /// Returns when something is due.
    pub fn next(&self) -> u64 {
        let running = self.comparison.as_ref().map(|running| running.until);
        // While a comparison runs only its own timeout is due, so that no second one begins beside it.
        let due = running.or(self.compare_at);
        due.into_iter().chain(self.unanswered.values().map(|sent| sent.until)).min().unwrap_or(u64::MAX)
    }

    /// Returns how many bytes are under way.
    pub fn unanswered_bytes(&self) -> usize {
        self.unanswered.values().map(|sent| sent.bytes).sum()
    }

    pub fn sent(&mut self, number: u64, bytes: usize, records: Vec<(Class, Key)>, now: Moment) {
        self.unanswered.insert(number, Sent { bytes, records, until: answer_by(now) });
    }

    /// Forgets what was sent and not answered in time. Returns whether there was any: it may be lost.
    pub fn forget_unanswered(&mut self, now: Moment) -> bool {
        let before = self.unanswered.len();
        self.unanswered.retain(|_, sent| sent.until > now.steady);
        self.unanswered.len() < before
    }

    /// Compares no later than this.
    pub fn compare_by(&mut self, when: u64) {
        self.compare_at = Some(self.compare_at.map_or(when, |at| at.min(when)));
    }

    /// Returns how many bytes of a message in parts are here.
    pub fn assembled_bytes(&self) -> usize {
        self.assembly.as_ref().map_or(0, |assembly| assembly.bytes.len())
    }

    /// Drops the parts of a message that are here.
    pub fn drop_assembly(&mut self) {
        self.assembly = None;
    }

    pub fn announced(&mut self, key: Key, digest: Digest) {
        // What is forgotten is at worst announced once more.
        if self.announced.len() >= MOST_ANNOUNCED {
            self.announced.clear();
        }
        self.announced.insert(key, digest);
    }

    /// Forgets what the member announced under a key, unless it is this value.
    pub fn keep_announced(&mut self, key: &Key, digest: Digest) {
        if self.announced.get(key).is_some_and(|announced| *announced != digest) {
            self.announced.remove(key);
        }
    }

    /// Adds a part, and returns the message once it is whole. Parts come in order, or one was lost.
    pub fn assemble(&mut self, part: Part) -> Option<Bytes> {
        // A new message takes the place of one that is not whole: there is one sender, and it finishes each.
        if part.place == 0 {
            self.assembly = Some(Assembly { id: part.id, next: 0, bytes: BytesMut::new() });
        }
        let assembly = self.assembly.as_mut()?;
        let fits = assembly.id == part.id && assembly.next == part.place && part.place < part.of;
        // Nothing is reserved by `of`: a member could announce gigabytes and send none.
        if !fits || assembly.bytes.len() + part.bytes.len() > MAX_WHOLE {
            self.assembly = None;
            return None;
        }
        assembly.bytes.extend_from_slice(&part.bytes);
        assembly.next += 1;
        if assembly.next < part.of { None } else { self.assembly.take().map(|assembly| assembly.bytes.freeze()) }
    }
}

pub(super) fn answer_by(now: Moment) -> u64 {
    now.steady + ANSWER_WITHIN
}
