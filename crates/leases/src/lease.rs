//! One lease as one process sees it: what it asks of the store next, and whether it holds the lease. No I/O.
//!
//! The entry under the name of the lease says who holds it, and expires a lease time T after it was stored. It is written only over
//! nothing or over the own last entry, so two processes never both have written the last one. The holder counts from before it sent
//! the entry and stops at T − 10 %, whatever became of later ones. A publication without an answer may have been stored, now or
//! later: the last entry is read before anything else is done, and an own one says when it was sent.

use bytes::Bytes;

use crate::bucket::{BucketError, Stored};
use crate::token::{Token, Who};

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

    /// How long to wait after a request that came to nothing.
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

#[derive(Clone, Copy, Debug)]
enum Asked {
    Publish(Token),
    Last,
    Delete,
}

/// A lease that a process wants or has given back.
#[derive(Clone, Debug)]
pub struct Lease {
    who: Who,
    times: LeaseTimes,
    chance: u64,
    wanted: bool,
    wish: u64,
    own: Option<Own>,
    /// The last entry must be read before the next publication.
    doubt: bool,
    /// An own entry that is of no use any more.
    waste: Option<u64>,
    asked: Option<Asked>,
    due: u64,
    holder: Option<Holder>,
}

impl Lease {
    /// Creates a lease that is not wanted. `seed` decides the waiting times that keep processes apart.
    pub fn new(who: Who, times: LeaseTimes, seed: u64) -> Lease {
        Lease {
            who,
            times,
            chance: seed | 1,
            wanted: false,
            wish: 0,
            own: None,
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
        let until = own.sent + self.times.usable();
        (now < until).then_some(Grant { fence: own.fence, until })
    }

    /// Returns who holds the lease, if somebody was seen within a lease time.
    pub fn holder(&self, now: u64) -> Option<Holder> {
        match self.held(now) {
            Some(_) => Some(Holder { node: self.who.node, seen: now }),
            None => self.holder.filter(|holder| now < holder.seen + self.times.lease),
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
                let token = Token { who: self.who, wish: self.wish, sent: now };
                let expected = self.own.map_or(0, |own| own.sequence);
                (Asked::Publish(token), Request::Publish { expected, value: token.pack() })
            }
        };
        self.asked = Some(asked);
        Some(request)
    }

    /// Takes what came of the request.
    pub fn answer(&mut self, answer: Answer, now: u64) {
        let asked = self.asked.take();
        match (asked, answer) {
            (Some(Asked::Publish(token)), Answer::Published(result)) => self.published(token, result, now),
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

    fn published(&mut self, token: Token, result: Result<u64, BucketError>, now: u64) {
        match result {
            Ok(sequence) => self.last_is(sequence, token, now),
            Err(BucketError::OtherSequence) => {
                self.doubt = true;
                self.due = now;
            }
            Err(BucketError::NoAnswer(_)) => {
                self.doubt = true;
                self.due = now + self.times.pause();
            }
            Err(BucketError::Gone(_) | BucketError::Refused(_)) => self.due = now + self.times.pause(),
        }
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
        match Token::unpack(&stored.value) {
            Some(token) if token.who == self.who => self.last_is(stored.sequence, token, now),
            other => {
                self.own = None;
                self.holder = other.map(|token| Holder { node: token.who.node, seen: now });
                self.due = now + self.patience();
            }
        }
    }

    /// Takes note that the last entry is an own one.
    fn last_is(&mut self, sequence: u64, token: Token, now: u64) {
        self.doubt = false;
        if !self.wanted || token.wish != self.wish {
            // Somebody may have asked to remove it, so it must never be held again.
            self.own = None;
            self.waste = Some(sequence);
            self.due = now;
            return;
        }
        let fence = self.held(now).map_or(sequence, |grant| grant.fence);
        self.own = Some(Own { sequence, sent: token.sent, fence });
        self.due = now.max(token.sent + self.times.renewal());
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
