//! Whose questions are under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Refused;

/// The most questions with a target that one user may have under way.
const MOST_AT_ONCE: usize = 2;

/// Counts the questions with a target that each user has under way: they take time of the processor.
#[derive(Default)]
pub struct Turns(Arc<Mutex<HashMap<String, usize>>>);

/// A question under way, until it is dropped.
pub struct Turn {
    all: Arc<Mutex<HashMap<String, usize>>>,
    user: String,
}

impl Turns {
    /// Takes a turn for a question.
    ///
    /// # Errors
    /// When the user has too many under way.
    pub fn take(&self, user: &str) -> Result<Turn, Refused> {
        // Each change is complete or has not happened.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(user.to_owned()).or_default();
        if *count >= MOST_AT_ONCE {
            return Err(Refused::new(429, "You have too many questions with a target under way"));
        }
        *count += 1;
        Ok(Turn { all: self.0.clone(), user: user.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_few_questions_under_way() {
        let turns = Turns::default();
        let own = [(); MOST_AT_ONCE].map(|()| turns.take("fred").unwrap());
        assert_eq!(turns.take("fred").err().map(|refused| refused.status), Some(429));
        let other = turns.take("wilma").unwrap();
        drop(own);
        assert!(turns.take("fred").is_ok());
        drop(other);
        assert!(turns.0.lock().unwrap().is_empty());
    }
}
