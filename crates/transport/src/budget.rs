//! A limit on the memory that peers can make us use: unfinished messages, unanswered requests, and answers that are not
//! read.
//!
//! There are two bounds: one for all connections together, and a smaller one for unauthenticated connections, so that
//! strangers cannot use up the memory of minions. When a bound is reached, the largest unfinished message of the
//! address that holds the most is dropped, so a few peers that never finish their messages cannot keep others out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Network;

use crate::Error;
use crate::capacity::ConnectionRecord;

/// The number of bytes of a message that are not counted.
const FREE: usize = 64 << 10;

/// The number of bytes of an unencrypted request or an answer that are not counted. Thousands of them may wait, and a
/// sign-in has two kilobytes.
const FREE_CLEAR: usize = 4 << 10;

/// The number of bytes that all connections together may hold.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    unproven: usize,
    holdings: Mutex<Holdings>,
}

#[derive(Debug, Default)]
struct Holdings {
    all: usize,
    unproven: usize,
    next: u64,
    /// Unfinished messages.
    holders: BTreeMap<u64, Holder>,
}

#[derive(Debug)]
struct Holder {
    record: Arc<ConnectionRecord>,
    bytes: usize,
    unproven: bool,
}

impl Budget {
    /// Creates a budget of `limit` bytes. Unauthenticated connections may hold `unproven` of them.
    pub fn new(limit: usize, unproven: usize) -> Arc<Self> {
        Arc::new(Budget { limit, unproven: unproven.min(limit), holdings: Mutex::default() })
    }

    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        // Nothing in here panics between two changes that belong together.
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops unfinished messages until the rest is within the limit. Returns an error if the message with this number
    /// must be dropped, or if complete messages alone exceed the limit.
    fn make_room(&self, holdings: &mut Holdings, number: Option<u64>) -> Result<(), Error> {
        while let Some((limit, only_unproven)) = self.exceeded(holdings) {
            let unfinished: usize = holdings.of(only_unproven).map(|(_, holder)| holder.bytes).sum();
            let held = if only_unproven { holdings.unproven } else { holdings.all };
            // What is complete stays until it is answered, so there must be room beside it.
            let victim = (held - unfinished <= limit).then(|| holdings.largest(only_unproven, number)).flatten();
            match victim {
                Some(victim) if Some(victim) != number => {
                    if let Some(holder) = holdings.remove(victim) {
                        holder.record.is_over_budget.notify_one();
                    }
                }
                _ => return Err(Error::Budget(limit)),
            }
        }
        Ok(())
    }

    fn exceeded(&self, holdings: &Holdings) -> Option<(usize, bool)> {
        if holdings.unproven > self.unproven {
            return Some((self.unproven, true));
        }
        (holdings.all > self.limit).then_some((self.limit, false))
    }
}

impl Holdings {
    fn of(&self, only_unproven: bool) -> impl Iterator<Item = (&u64, &Holder)> {
        self.holders.iter().filter(move |(_, holder)| holder.unproven || !only_unproven)
    }

    /// Returns the largest message of the address that holds the most; the one with this number if no other is larger.
    fn largest(&self, only_unproven: bool, number: Option<u64>) -> Option<u64> {
        let mut by_network = HashMap::<Network, usize>::new();
        for (_, holder) in self.of(only_unproven) {
            *by_network.entry(holder.record.network).or_default() += holder.bytes;
        }
        let weight = |holder: &Holder| by_network.get(&holder.record.network).copied().unwrap_or_default();
        let of = self.of(only_unproven);
        of.max_by_key(|(other, holder)| (weight(holder), holder.bytes, Some(**other) == number))
            .map(|(number, _)| *number)
    }

    fn add(&mut self, bytes: usize, unproven: bool) {
        self.all += bytes;
        self.unproven += if unproven { bytes } else { 0 };
    }

    fn subtract(&mut self, bytes: usize, unproven: bool) {
        self.all -= bytes;
        self.unproven -= if unproven { bytes } else { 0 };
    }

    fn remove(&mut self, number: u64) -> Option<Holder> {
        let holder = self.holders.remove(&number)?;
        self.subtract(holder.bytes, holder.unproven);
        Some(holder)
    }
}

/// The part of the budget that the unfinished message of one connection uses. Released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Option<(Arc<Budget>, Arc<ConnectionRecord>)>,
    /// The number among the holdings, if the message exceeds the size that is not counted.
    number: Option<u64>,
}

impl Share {
    /// Creates a share of a budget. Without a budget there is no limit.
    pub(crate) fn of(budget: Option<(Arc<Budget>, Arc<ConnectionRecord>)>) -> Self {
        Share { of: budget, number: None }
    }

    /// Counts the bytes of a complete message. They may exceed the limit, because they are already in memory.
    pub(crate) fn keep(&self, bytes: usize) -> Kept {
        self.keep_beyond(FREE, bytes, |_, _| Ok(())).unwrap_or_default()
    }

    /// Counts the bytes of an answer until it is written. They may exceed the limit, too.
    pub(crate) fn keep_answer(&self, bytes: usize) -> Kept {
        self.keep_beyond(FREE_CLEAR, bytes, |_, _| Ok(())).unwrap_or_default()
    }

    /// Returns another, empty share of the same budget for the same peer.
    pub(crate) fn another(&self) -> Share {
        Share::of(self.of.clone())
    }

    /// Counts the bytes of an unencrypted request and of its decoded form. Drops unfinished messages to make room for
    /// it.
    ///
    /// # Errors
    /// When unauthenticated connections hold too much already.
    pub(crate) fn keep_clear(&self, bytes: usize) -> Result<Kept, Error> {
        self.keep_beyond(FREE_CLEAR, bytes, |budget, holdings| budget.make_room(holdings, None))
    }

    fn keep_beyond(
        &self,
        free: usize,
        bytes: usize,
        make_room: impl Fn(&Budget, &mut Holdings) -> Result<(), Error>,
    ) -> Result<Kept, Error> {
        let Some((budget, record)) = &self.of else { return Ok(Kept::default()) };
        let (bytes, unproven) = (bytes.saturating_sub(free), !record.is_proven());
        if bytes == 0 {
            return Ok(Kept::default());
        }
        let mut holdings = budget.holdings();
        holdings.add(bytes, unproven);
        if let Err(error) = make_room(budget, &mut holdings) {
            holdings.subtract(bytes, unproven);
            return Err(error);
        }
        drop(holdings);
        Ok(Kept { budget: Some(budget.clone()), bytes, unproven })
    }

    /// Returns whether the message exceeds the size that is not counted.
    pub(crate) fn is_held(&self) -> bool {
        self.number.is_some()
    }

    /// Returns the connection to which the share belongs, if there is a budget.
    pub(crate) fn record(&self) -> Option<&Arc<ConnectionRecord>> {
        self.of.as_ref().map(|(_, record)| record)
    }

    /// Sets the number of bytes that are held. Returns an error if this message must be dropped.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let Some((budget, record)) = &self.of else { return Ok(()) };
        let wanted = bytes.saturating_sub(FREE);
        if wanted == 0 {
            self.release();
            return Ok(());
        }
        let mut holdings = budget.holdings();
        let number = *self.number.get_or_insert_with(|| {
            holdings.next += 1;
            let (number, unproven) = (holdings.next, !record.is_proven());
            holdings.holders.insert(number, Holder { record: record.clone(), bytes: 0, unproven });
            number
        });
        // Somebody else needed the place.
        let Some(holder) = holdings.holders.get_mut(&number) else { return Err(Error::Budget(budget.limit)) };
        let (held, was_unproven) = (holder.bytes, holder.unproven);
        (holder.bytes, holder.unproven) = (wanted, !record.is_proven());
        let unproven = holder.unproven;
        holdings.subtract(held, was_unproven);
        holdings.add(wanted, unproven);
        if wanted > held { budget.make_room(&mut holdings, Some(number)) } else { Ok(()) }
    }

    /// Releases all bytes.
    pub(crate) fn release(&mut self) {
        if let (Some((budget, _)), Some(number)) = (&self.of, self.number.take()) {
            budget.holdings().remove(number);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

/// The part of the budget that a complete request uses until it is answered, or an answer until it is written. Released
/// when dropped.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    budget: Option<Arc<Budget>>,
    bytes: usize,
    unproven: bool,
}

impl Kept {
    /// Returns whether it uses a part of the budget.
    pub(crate) fn is_charged(&self) -> bool {
        self.budget.is_some() && self.bytes > 0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.holdings().subtract(self.bytes, self.unproven);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn record(last: u8) -> Arc<ConnectionRecord> {
        ConnectionRecord::new([127, 0, 0, last].into())
    }

    fn share(budget: &Arc<Budget>, record: &Arc<ConnectionRecord>) -> Share {
        Share::of(Some((budget.clone(), record.clone())))
    }

    /// Returns the bytes that all connections hold, and those that unauthenticated connections hold.
    fn held(budget: &Budget) -> (usize, usize) {
        let holdings = budget.holdings();
        (holdings.all, holdings.unproven)
    }

    fn was_sent_away(record: &ConnectionRecord) -> bool {
        record.is_over_budget.notified().now_or_never().is_some()
    }

    #[test]
    fn what_one_message_gives_back_another_may_use() {
        let (budget, record) = (Budget::new(1000, 1000), record(1));
        let (mut a, mut b) = (share(&budget, &record), share(&budget, &record));
        assert!(a.hold(FREE + 400).is_ok());
        assert!(matches!(b.hold(FREE + 700), Err(Error::Budget(1000))), "it is the larger one");
        drop(b);
        assert!(a.hold(FREE + 100).is_ok());
        assert_eq!(budget.holdings().all, 100);
        let kept = a.keep(FREE + 1000);
        assert!(matches!(a.hold(FREE + 101), Err(Error::Budget(1000))), "what is kept counts");
        drop(kept);
        assert!(a.hold(FREE + 102).is_ok());
        drop(a);
        assert_eq!(held(&budget), (0, 0));
    }

    #[test]
    fn the_address_that_holds_the_most_makes_room() {
        let budget = Budget::new(10_000, 1000);
        // One host has all addresses of its network.
        let drip = |last: u16| ConnectionRecord::new([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into());
        let (drips, honest) = ([drip(1), drip(2), drip(3), drip(4)], record(2));
        let mut dripping: Vec<_> = drips.iter().map(|record| share(&budget, record)).collect();
        for share in &mut dripping {
            assert!(share.hold(FREE + 250).is_ok());
        }
        let mut large = share(&budget, &honest);
        for bytes in [100, 300, 500] {
            assert!(large.hold(FREE + bytes).is_ok(), "{bytes}");
        }
        assert_eq!(drips.iter().filter(|record| was_sent_away(record)).count(), 2);
        assert!(!was_sent_away(&honest));
        let refused = dripping.iter_mut().map(|share| share.hold(FREE + 250)).filter(Result::is_err).count();
        assert_eq!(refused, 2);
        assert!(large.hold(FREE + 1001).is_err(), "more than all strangers may hold together");
    }

    #[test]
    fn who_has_proved_something_does_not_need_the_room_of_strangers() {
        let budget = Budget::new(10_000, 1000);
        let (stranger, minion) = (record(1), record(2));
        let mut dripping = share(&budget, &stranger);
        assert!(dripping.hold(FREE + 1000).is_ok());
        let mut large = share(&budget, &minion);
        assert!(large.hold(FREE + 10).is_ok(), "the stranger is sent away for it");
        minion.prove();
        assert!(large.hold(FREE + 9000).is_ok());
        assert_eq!(held(&budget), (9000, 0));
    }

    #[test]
    fn clear_requests_that_wait_are_bounded_sealed_ones_are_there_already() {
        let (budget, record) = (Budget::new(10_000, 1000), record(1));
        let share = share(&budget, &record);
        let waiting = share.keep_clear(FREE_CLEAR + 900).unwrap();
        assert!(matches!(share.keep_clear(FREE_CLEAR + 200), Err(Error::Budget(1000))));
        assert!(share.keep_clear(FREE_CLEAR).is_ok(), "an ordinary sign-in");
        let drip = self::record(2);
        let mut dripping = self::share(&budget, &drip);
        assert!(dripping.hold(FREE + 100).is_ok());
        assert!(share.keep_clear(FREE_CLEAR + 50).is_ok() && was_sent_away(&drip), "what is complete goes first");
        drop((dripping, share.keep(FREE + 200)));
        drop(waiting);
        assert!(share.keep_clear(FREE_CLEAR + 200).is_ok());
        assert_eq!(held(&budget), (0, 0));
    }

    #[test]
    fn answers_count_until_they_are_written() {
        let (budget, record) = (Budget::new(1000, 1000), record(1));
        let share = share(&budget, &record).another();
        let (first, second) = (share.keep_answer(FREE_CLEAR + 700), share.keep_answer(FREE_CLEAR + 700));
        assert_eq!(held(&budget), (1400, 1400));
        assert!(share.keep_clear(FREE_CLEAR + 1).is_err(), "no room for large requests meanwhile");
        drop(first);
        assert!(share.keep_clear(FREE_CLEAR + 1).is_ok());
        drop((second, share.keep_answer(FREE_CLEAR)));
        assert_eq!(held(&budget), (0, 0));
    }

    #[test]
    fn small_messages_are_free_and_without_a_budget_all_are() {
        let mut small = share(&Budget::new(0, 0), &record(1));
        assert!(small.hold(FREE).is_ok() && !small.is_held());
        assert!(Share::of(None).hold(usize::MAX).is_ok());
    }
}
