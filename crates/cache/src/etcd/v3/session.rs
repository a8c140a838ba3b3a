//! The token of the user, which all requests share.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::HeaderValue;
use tokio::sync::OnceCell;

/// A login, and the token that it brings; none from a server without users.
pub(super) type Session = OnceCell<Option<HeaderValue>>;

/// The logins, one after the other.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Arc<Session>>);

impl Sessions {
    /// Returns the session that requests use.
    pub(super) fn current(&self) -> Arc<Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the session that follows one whose token is refused. Another request may have begun it already.
    pub(super) fn after(&self, refused: &Arc<Session>) -> Arc<Session> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&current, refused) {
            *current = Arc::default();
        }
        current.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_refused_together_begin_one_session() {
        let sessions = Sessions::default();
        let refused = sessions.current();
        let next = sessions.after(&refused);
        assert!(!Arc::ptr_eq(&refused, &next));
        assert!(Arc::ptr_eq(&sessions.after(&refused), &next) && Arc::ptr_eq(&sessions.current(), &next));
    }
}
