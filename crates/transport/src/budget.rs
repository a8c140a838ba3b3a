//! A bound on the unfinished messages of all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;

/// What a connection may hold without asking.
const FREE: usize = 64 << 10;

/// Bytes that all connections together may hold of messages that are not complete.
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

/// The part of the budget one connection uses.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Option<Arc<Budget>>,
    held: usize,
}

impl Share {
    pub(crate) fn of(budget: Option<Arc<Budget>>) -> Self {
        Share { budget, held: 0 }
    }

    /// Notes that the connection's buffer holds so many bytes now.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let wanted = bytes.saturating_sub(FREE);
        if wanted > self.held {
            let more = wanted - self.held;
            let used = budget.used.fetch_add(more, Ordering::Relaxed) + more;
            self.held = wanted;
            if used > budget.limit {
                return Err(Error::Budget(budget.limit));
            }
        } else if wanted < self.held {
            budget.used.fetch_sub(self.held - wanted, Ordering::Relaxed);
            self.held = wanted;
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.used.fetch_sub(self.held, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_connection_gives_back_another_may_use() {
        let budget = Budget::new(1000);
        let (mut a, mut b) = (Share::of(Some(budget.clone())), Share::of(Some(budget.clone())));
        assert!(a.hold(FREE + 800).is_ok());
        assert!(matches!(b.hold(FREE + 300), Err(Error::Budget(1000))));
        drop(b);
        a.hold(0).unwrap();
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
