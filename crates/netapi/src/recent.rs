//! An answer that is dear to find, kept for a moment.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The last answer.
#[derive(Debug)]
pub struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Recent(Mutex::new(None))
    }
}

impl<T: Clone> Recent<T> {
    fn locked(&self) -> MutexGuard<'_, Option<(Instant, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer, unless it is older than `most`.
    pub fn within(&self, most: Duration) -> Option<T> {
        self.locked().as_ref().filter(|(at, _)| at.elapsed() < most).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer.
    pub fn keep(&self, answer: T) {
        *self.locked() = Some((Instant::now(), answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_a_moment() {
        let recent = Recent::default();
        assert_eq!(recent.within(Duration::from_secs(60)), None);
        recent.keep(7);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(recent.within(Duration::from_secs(60)), Some(7));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(recent.within(Duration::from_secs(60)), None);
    }
}
