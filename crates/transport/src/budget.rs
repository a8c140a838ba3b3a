//! A bound on what strangers make us keep: unfinished messages, and requests nobody has answered yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;

/// What a message may hold without asking.
const FREE: usize = 64 << 10;

/// Bytes that all connections together may hold.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0) })
    }
}

/// The part of the budget that one message uses; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Option<Arc<Budget>>,
    held: usize,
}

impl Share {
    /// A share of a budget, or of none, which has no bound.
    pub(crate) fn of(budget: Option<Arc<Budget>>) -> Self {
        Share { budget, held: 0 }
    }

    /// Another share of the same budget for bytes that are there already; so it may exceed the limit.
    pub(crate) fn another(&self, bytes: usize) -> Share {
        let mut share = Share::of(self.budget.clone());
        share.grow(bytes.saturating_sub(FREE));
        share
    }

    /// Says whether more is held than every message may.
    pub(crate) fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Notes that so many bytes are held now; an error when that exceeds the limit.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let wanted = bytes.saturating_sub(FREE);
        if wanted <= self.held {
            self.shrink(bytes);
            return Ok(());
        }
        let used = self.grow(wanted - self.held);
        match &self.budget {
            Some(budget) if used > budget.limit => Err(Error::Budget(budget.limit)),
            _ => Ok(()),
        }
    }

    /// Notes that no more than so many bytes are held any longer.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let back = self.held.saturating_sub(bytes.saturating_sub(FREE));
        if let Some(budget) = self.budget.as_ref().filter(|_| back > 0) {
            budget.used.fetch_sub(back, Ordering::Relaxed);
            self.held -= back;
        }
    }

    fn grow(&mut self, more: usize) -> usize {
        let Some(budget) = &self.budget else { return 0 };
        self.held += more;
        budget.used.fetch_add(more, Ordering::Relaxed) + more
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_message_gives_back_another_may_use() {
        let budget = Budget::new(1000);
        let (mut a, mut b) = (Share::of(Some(budget.clone())), Share::of(Some(budget.clone())));
        assert!(a.hold(FREE + 800).is_ok());
        assert!(matches!(b.hold(FREE + 300), Err(Error::Budget(1000))));
        drop(b);
        a.shrink(FREE + 100);
        assert_eq!(budget.used.load(Ordering::Relaxed), 100);
        let kept = a.another(FREE + 2000);
        assert!(matches!(a.hold(FREE + 101), Err(Error::Budget(1000))), "what is kept counts");
        drop(kept);
        assert!(a.hold(FREE + 102).is_ok());
        drop(a);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn small_messages_are_free_and_without_a_budget_all_are() {
        let mut small = Share::of(Some(Budget::new(0)));
        assert!(small.hold(FREE).is_ok() && !small.is_held());
        assert!(Share::of(None).hold(usize::MAX).is_ok());
    }
}
