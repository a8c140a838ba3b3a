//! One lease as one process sees it: what it asks of the store next, and whether it holds the lease. No I/O.
//!
//! The entry under the name of the lease says who holds it, and expires a lease time T after it was stored. It is written only over
//! nothing or over the own last entry, so two processes never both have written the last one. The holder counts from before it sent
//! the entry and stops at T − 10 %, whatever became of later ones. A publication without an answer may have been stored, now or
//! later: the last entry is read before anything else is done. An own one is known by its nonce, and when it was sent is remembered
//! here: others may write to the store what they like.

use std::collections::VecDeque;

use bytes::Bytes;
use crypto::hmac_sha256;

use crate::bucket::{BucketError, Stored};
use crate::token::{Token, Who};

/// How many own entries are remembered. Before each but the first the last one was read, so more than a few are never of use.
const MOST_SENT: usize = 8;

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
    Last(Result<Option<Stored>, BucketError>),
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
}

/// An entry that was sent, and is or may be stored.
#[derive(Clone, Copy, Debug)]
struct Sent {
    nonce: u64,
    wish: u64,
    at: u64,
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
        }
    }

    /// Tries to take the lease from now on, and to keep it. No two wishes of a process have one number.
    pub fn want(&mut self, wish: u64, now: u64) {
        if !self.wanted {
            self.wanted = true;
            self.wish = wish;
            self.due = now;
        }
    }

    /// Gives the lease back: it is not held from now on, and the store hears of it as soon as it can.
    pub fn release(&mut self, now: u64) {
        if self.wanted {
            self.wanted = false;
            self.waste = self.own.take().map(|own| own.sequence).or(self.waste);
            self.due = now;
        }
    }

    /// Forgets what it knows of the store, which was made again or comes from a backup. Nothing is held any more.
    pub fn store_is_new(&mut self, now: u64) {
        (self.own, self.waste, self.holder, self.doubt) = (None, None, None, false);
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
        (now < until).then_some(Grant { fence: own.fence, until })
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
                let sent = Sent { nonce: self.nonce(), wish: self.wish, at: now };
                let token = Token { who: self.who, wish: sent.wish, nonce: sent.nonce };
                self.remember(sent);
                let expected = self.own.map_or(0, |own| own.sequence);
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
                self.due = now;
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

    fn read(&mut self, result: Result<Option<Stored>, BucketError>, now: u64) {
        let Ok(last) = result else {
            self.due = now + self.times.pause();
            // Who gave the lease back does not wait for a store that is away: it forgets by itself.
            self.doubt = self.wanted;
            return;
        };
        self.doubt = false;
        self.due = now;
        let Some(stored) = last else {
            self.own = None;
            self.holder = None;
            return;
        };
        let token = Token::unpack(&stored.value);
        let own = token.filter(|token| token.who == self.who);
        match own.and_then(|token| self.sent.iter().copied().find(|sent| sent.nonce == token.nonce)) {
            Some(sent) => self.last_is(stored.sequence, sent, now),
            None => {
                self.own = None;
                self.holder = token.map(|token| Holder { node: token.who.node, seen: now });
                self.due = now + self.patience();
            }
        }
    }

    /// Takes note that the last entry is an own one.
    fn last_is(&mut self, sequence: u64, sent: Sent, now: u64) {
        self.doubt = false;
        if !self.wanted || sent.wish != self.wish {
            // Somebody may have asked to remove it, so it must never be held again.
            self.own = None;
            self.waste = Some(sequence);
            self.due = now;
            return;
        }
        let fence = self.held(now).map_or(sequence, |grant| grant.fence);
        self.own = Some(Own { sequence, sent: sent.at, fence });
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
