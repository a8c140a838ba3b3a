//! One lease as one process sees it: what it asks of the store next, and whether it holds the lease. No I/O.
//!
//! The entry under the name of the lease says who holds it, and expires a lease time T after it was stored. It is written only over
//! nothing or over the own last entry, so two processes never both have written the last one. The holder counts from before it sent
//! the entry and stops at T − 10 %, whatever became of later ones. A publication without an answer may have been stored, now or
//! later: the last entry is read before anything else is done. An own one is known by its nonce, and when it was sent is remembered
//! here: others may write to the store what they like.
//!
//! An entry that counts for nobody ([`Verdict`]) is written over once such entries have been there in a row for T. It may have been
//! written over that of a holder, who counts for up to T. So the one who replaces it holds nothing before T has passed since it read
//! that entry, and does not remove its own before that either: two never hold the lease, whatever is written over.

use std::collections::VecDeque;

use bytes::Bytes;
use crypto::hmac_sha256;

use crate::bucket::BucketError;
use crate::proof::{Entry, Verdict};
use crate::token::{Token, Who};

/// How many own entries are remembered. Before each but the first the last one was read, so more than a few are never of use.
const MOST_SENT: usize = 8;

/// For how many lease times an entry counts whose writer may become known: as long as it may take until records arrive.
const UNKNOWN_COUNTS: u64 = 10;

/// What a lease needs to know of time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    lease: u64,
}

impl LeaseTimes {
    /// Returns the times for the option `cluster_lease_time`, in milliseconds.
    pub fn new(lease: u64) -> LeaseTimes {
        LeaseTimes { lease: lease.clamp(1_000, 3_600_000) }
    }

    /// How long an entry lasts in the store.
    pub fn lease(self) -> u64 {
        self.lease
    }

    /// How much of that its holder uses: clocks differ by a few percent.
    fn usable(self) -> u64 {
        self.lease - self.lease / 10
    }

    /// How often a holder renews.
    fn renewal(self) -> u64 {
        self.lease / 3
    }

    /// How long to wait after a failed request.
    fn pause(self) -> u64 {
        self.lease / 24
    }

    /// For how long entries of this kind must have been there in a row before one is replaced; `None` if it never is.
    fn counts_for(self, verdict: Verdict) -> Option<u64> {
        match verdict {
            Verdict::Nobodys => Some(self.lease),
            Verdict::Unknown => Some(self.lease.saturating_mul(UNKNOWN_COUNTS)),
            Verdict::Counts | Verdict::Unsure => None,
        }
    }

    /// How long to wait before a lease of another one is tried again: between this and twice this.
    fn patience(self) -> u64 {
        (self.lease / 8).min(700)
    }
}

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Bucket::publish`](crate::Bucket::publish).
    Publish {
        /// The expected last sequence.
        expected: u64,
        /// The value.
        value: Bytes,
    },
    /// [`Bucket::last`](crate::Bucket::last).
    Last,
    /// [`Bucket::delete`](crate::Bucket::delete).
    Delete {
        /// The entry.
        sequence: u64,
    },
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was stored, and has this sequence.
    Published(Result<u64, BucketError>),
    /// The last entry.
    Last(Result<Option<Entry>, BucketError>),
    /// It was removed.
    Deleted(Result<(), BucketError>),
}

/// A lease that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Higher than the fences of earlier holders: the sequence of the entry with which it was taken.
    pub fence: u64,
    /// Until when it is held, unless it is renewed.
    pub until: u64,
}

/// Who holds a lease, as far as this process has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The member.
    pub node: [u8; 8],
    /// When its entry was read.
    pub seen: u64,
}

/// The own entry that was the last one of its name.
#[derive(Clone, Copy, Debug)]
struct Own {
    sequence: u64,
    sent: u64,
    fence: u64,
    /// See [`Sent::held_from`].
    held_from: u64,
}

/// The last entry of the name, if it does not count.
#[derive(Clone, Copy, Debug)]
struct Nobodys {
    sequence: u64,
    /// When this one was read first.
    seen: u64,
    /// When the first one was read of those in a row that do not count.
    since: u64,
    /// From when on it may be replaced.
    replaced_from: u64,
}

/// An entry that was sent, and is or may be stored.
#[derive(Clone, Copy, Debug)]
struct Sent {
    nonce: u64,
    wish: u64,
    at: u64,
    /// Before this time the lease is not held: the entry replaces one that may have been written over that of a holder.
    held_from: u64,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Publish(Sent),
    Last,
    Delete,
}

/// A lease that a process wants or has given back.
#[derive(Clone, Debug)]
pub struct Lease {
    who: Who,
    times: LeaseTimes,
    /// What nonces are made from. It is secret.
    seed: u64,
    /// How many were made.
    nonces: u64,
    chance: u64,
    wanted: bool,
    wish: u64,
    own: Option<Own>,
    /// The last ones, the oldest first.
    sent: VecDeque<Sent>,
    /// The last entry must be read before the next publication.
    doubt: bool,
    /// An own entry that is of no use any more.
    waste: Option<u64>,
    asked: Option<Asked>,
    due: u64,
    holder: Option<Holder>,
    nobodys: Option<Nobodys>,
}

impl Lease {
    /// Creates a lease that is not wanted. `seed` decides the waiting times that keep processes apart, and nonces: nobody else may know
    /// it.
    pub fn new(who: Who, times: LeaseTimes, seed: u64) -> Lease {
        Lease {
            who,
            times,
            seed,
            nonces: 0,
            chance: seed | 1,
            wanted: false,
            wish: 0,
            own: None,
            sent: VecDeque::new(),
            doubt: false,
            waste: None,
            asked: None,
            due: 0,
            holder: None,
            nobodys: None,
        }
    }

    /// Tries to take the lease from now on, and to keep it. No two wishes of a process have one number.
    pub fn want(&mut self, wish: u64, now: u64) {
        if !self.wanted {
            self.wanted = true;
            self.wish = wish;
            self.nobodys = None;
            self.due = now;
        }
    }

    /// Gives the lease back: it is not held from now on, and the store hears of it as soon as it can.
    pub fn release(&mut self, now: u64) {
        if self.wanted {
            self.wanted = false;
            // One that is not held yet stays until it expires: it keeps others out while an earlier holder may still count.
            let own = self.own.take().filter(|own| now >= own.held_from);
            self.waste = own.map(|own| own.sequence).or(self.waste);
            self.due = now;
        }
    }

    /// Forgets what it knows of the store, which was made again or comes from a backup. Nothing is held any more.
    pub fn store_is_new(&mut self, now: u64) {
        (self.own, self.waste, self.holder, self.nobodys, self.doubt) = (None, None, None, None, false);
        self.sent.clear();
        self.due = now;
    }

    /// Returns whether this process wants the lease.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Returns whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        !self.wanted && !self.doubt && self.waste.is_none() && self.asked.is_none()
    }

    /// Returns the grant if this process holds the lease.
    pub fn held(&self, now: u64) -> Option<Grant> {
        let own = self.own.filter(|_| self.wanted)?;
        let until = own.sent.saturating_add(self.times.usable());
        (now >= own.held_from && now < until).then_some(Grant { fence: own.fence, until })
    }

    /// Returns when this process begins to hold the lease, if that is to come without any further answer.
    pub fn begins(&self, now: u64) -> Option<u64> {
        self.own.filter(|_| self.wanted).map(|own| own.held_from).filter(|from| *from > now)
    }

    /// Returns whether the last entry counts for nobody and is to be replaced.
    pub fn replaces(&self, now: u64) -> bool {
        self.replaced(now).is_some()
    }

    fn replaced(&self, now: u64) -> Option<Nobodys> {
        self.nobodys.filter(|entry| now >= entry.replaced_from)
    }

    /// Returns who holds the lease, if somebody was seen within a lease time.
    pub fn holder(&self, now: u64) -> Option<Holder> {
        match self.held(now) {
            Some(_) => Some(Holder { node: self.who.node, seen: now }),
            None => self.holder.filter(|holder| now < holder.seen.saturating_add(self.times.lease)),
        }
    }

    /// Returns when [`Lease::next`] has something to ask; `None` while an answer is awaited or nothing is to do.
    pub fn due(&self) -> Option<u64> {
        (self.asked.is_none() && !self.is_idle()).then_some(self.due)
    }

    /// Returns the request to send now, if one is due. `now` must be read before it is sent.
    pub fn next(&mut self, now: u64) -> Option<Request> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let (asked, request) = match self.waste {
            Some(sequence) => (Asked::Delete, Request::Delete { sequence }),
            None if self.doubt => (Asked::Last, Request::Last),
            None => {
                let (expected, held_from) = match (self.own, self.replaced(now)) {
                    (Some(own), _) => (own.sequence, own.held_from),
                    (None, Some(entry)) => (entry.sequence, entry.seen.saturating_add(self.times.lease)),
                    (None, None) => (0, now),
                };
                let sent = Sent { nonce: self.nonce(), wish: self.wish, at: now, held_from };
                let token = Token { who: self.who, wish: sent.wish, nonce: sent.nonce };
                self.remember(sent);
                (Asked::Publish(sent), Request::Publish { expected, value: token.pack() })
            }
        };
        self.asked = Some(asked);
        Some(request)
    }

    /// Takes what came of the request.
    pub fn answer(&mut self, answer: Answer, now: u64) {
        let asked = self.asked.take();
        match (asked, answer) {
            (Some(Asked::Publish(sent)), Answer::Published(result)) => self.published(sent, result, now),
            (Some(Asked::Last), Answer::Last(result)) => self.read(result, now),
            (Some(Asked::Delete), Answer::Deleted(result)) => {
                // What is not removed now expires.
                self.waste = None;
                self.due = now + if result.is_ok() { 0 } else { self.times.pause() };
            }
            // Nobody asked for that.
            (asked, _) => self.asked = asked,
        }
    }

    fn published(&mut self, sent: Sent, result: Result<u64, BucketError>, now: u64) {
        match result {
            Ok(sequence) => self.last_is(sequence, sent, now),
            Err(BucketError::OtherSequence) => {
                self.forget(sent);
                self.doubt = true;
                // Whoever writes all the time what does not count must not have this process write as fast.
                self.due = now + if self.nobodys.is_some() { self.times.pause() } else { 0 };
            }
            Err(BucketError::NoAnswer(_)) => {
                self.doubt = true;
                self.due = now + self.times.pause();
            }
            Err(BucketError::Gone(_) | BucketError::Refused(_)) => {
                self.forget(sent);
                self.due = now + self.times.pause();
            }
        }
    }

    fn remember(&mut self, sent: Sent) {
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(sent);
    }

    /// Forgets an entry that was not stored: if it is ever found, somebody else has written it.
    fn forget(&mut self, sent: Sent) {
        self.sent.retain(|one| one.nonce != sent.nonce);
    }

    fn nonce(&mut self) -> u64 {
        self.nonces += 1;
        let code = hmac_sha256(&self.seed.to_be_bytes(), &self.nonces.to_be_bytes());
        code.into_iter().take(8).fold(0, |nonce, byte| nonce << 8 | u64::from(byte))
    }

    fn read(&mut self, result: Result<Option<Entry>, BucketError>, now: u64) {
        let Ok(last) = result else {
            self.due = now + self.times.pause();
            // Who gave the lease back does not wait for a store that is away: it forgets by itself.
            self.doubt = self.wanted;
            return;
        };
        self.doubt = false;
        self.due = now;
        let Some(entry) = last else {
            (self.own, self.holder, self.nobodys) = (None, None, None);
            return;
        };
        let own = entry.token.filter(|token| token.who == self.who);
        match own.and_then(|token| self.sent.iter().copied().find(|sent| sent.nonce == token.nonce)) {
            Some(sent) => self.last_is(entry.sequence, sent, now),
            None => {
                self.own = None;
                self.nobodys = self.does_not_count(&entry, now);
                let shown = entry.token.filter(|_| entry.verdict != Verdict::Nobodys && !self.replaces(now));
                self.holder = shown.map(|token| Holder { node: token.who.node, seen: now });
                self.due = now + if self.replaces(now) { 0 } else { self.patience() };
            }
        }
    }

    /// Returns what is to be remembered of an entry of another one, if it does not count.
    fn does_not_count(&self, entry: &Entry, now: u64) -> Option<Nobodys> {
        let counts_for = self.times.counts_for(entry.verdict)?;
        let since = self.nobodys.map_or(now, |earlier| earlier.since);
        let seen = self.nobodys.filter(|earlier| earlier.sequence == entry.sequence).map_or(now, |same| same.seen);
        let replaced_from = since.saturating_add(counts_for);
        Some(Nobodys { sequence: entry.sequence, seen, since, replaced_from })
    }

    /// Takes note that the last entry is an own one.
    fn last_is(&mut self, sequence: u64, sent: Sent, now: u64) {
        (self.doubt, self.nobodys) = (false, None);
        if !self.wanted || sent.wish != self.wish {
            // Somebody may have asked to remove it, so it must never be held again.
            self.own = None;
            match now < sent.held_from {
                // It keeps others out for as long as an earlier holder may still count.
                true => self.due = now + self.patience(),
                false => (self.waste, self.due) = (Some(sequence), now),
            }
            return;
        }
        let fence = self.held(now).map_or(sequence, |grant| grant.fence);
        self.own = Some(Own { sequence, sent: sent.at, fence, held_from: sent.held_from });
        self.due = now.max(sent.at.saturating_add(self.times.renewal()));
    }

    fn patience(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let patience = self.times.patience();
        patience + self.chance % (patience + 1)
    }
}

#[cfg(test)]
mod storms;
#[cfg(test)]
mod tests;
