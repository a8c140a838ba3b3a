//! How long to wait before an address is dialled again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses between attempts at one address.
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub fn new() -> Self {
        Backoff(FIRST)
    }

    /// Returns between which durations the next pause is drawn: members that were cut off at once must not dial at once.
    pub fn next(&mut self) -> (Duration, Duration) {
        let longest = self.0;
        self.0 = (longest * 2).min(LONGEST);
        // Half at least: an attempt costs the other side a handshake.
        (longest / 2, longest)
    }

    /// Begins again with the shortest pause.
    pub fn reset(&mut self) {
        self.0 = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_seconds() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..8).map(|_| backoff.next().1.as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        backoff.reset();
        assert_eq!(backoff.next(), (FIRST / 2, FIRST));
    }
}
