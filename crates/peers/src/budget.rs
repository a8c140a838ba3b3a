//! How much may be spent within a time, whoever asks for it. Reads no clock.

use std::time::{Duration, Instant};

/// So much may be spent within each window.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    most: u32,
    window: Duration,
    /// How much was spent in the window that began then.
    spent: Option<(u32, Instant)>,
}

impl Budget {
    /// Creates a budget of which nothing is spent. A window begins when something is.
    pub const fn new(most: u32, window: Duration) -> Self {
        Budget { most, window, spent: None }
    }

    /// Returns whether nothing is left now.
    pub fn is_spent(&self, now: Instant) -> bool {
        self.spent
            .is_some_and(|(spent, since)| spent >= self.most && now.saturating_duration_since(since) < self.window)
    }

    /// Spends one.
    pub fn spend(&mut self, now: Instant) {
        let open = self.spent.filter(|(_, since)| now.saturating_duration_since(*since) < self.window);
        let (spent, since) = open.unwrap_or((0, now));
        self.spent = Some((spent.saturating_add(1), since));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_with_the_next_window() {
        let (mut budget, now) = (Budget::new(3, Duration::from_secs(10)), Instant::now());
        assert!(!budget.is_spent(now));
        (0..3).for_each(|second| budget.spend(now + Duration::from_secs(second)));
        assert!(budget.is_spent(now + Duration::from_secs(9)));
        assert!(!budget.is_spent(now + Duration::from_secs(10)));
        budget.spend(now + Duration::from_secs(10));
        assert!(!budget.is_spent(now + Duration::from_secs(10)));
    }
}
