//! By how much the steady clock of a peer is ahead of the one here, from its pings. Opens no socket and reads no clock.
//!
//! A ping that is delayed makes the peer seem to be behind, so the largest difference of the last minute or two counts: after a
//! program stood still, it reads late what was sent in time. The difference changes slowly, for no clock of a host runs exactly.

use std::time::Duration;

use tokio::time::Instant;

/// How long a difference counts, and up to as long again.
const KEEP: Duration = Duration::from_secs(60);

/// The differences, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// The largest one since a time.
    latest: Option<(i64, Instant)>,
    /// The largest one of the minute before.
    earlier: Option<i64>,
}

impl Ahead {
    /// Notes what the steady clocks of both were when a ping arrived.
    pub fn note(&mut self, theirs: u64, ours: u64, now: Instant) {
        let ahead = (theirs as i64).saturating_sub(ours as i64);
        match &mut self.latest {
            Some((largest, since)) if now.saturating_duration_since(*since) < KEEP => *largest = ahead.max(*largest),
            latest => {
                self.earlier = latest.map(|(largest, _)| largest);
                *latest = Some((ahead, now));
            }
        }
    }

    /// Returns how long ago something was sent at a time of the peer's clock; `None` before the first ping.
    pub fn age(&self, sent: u64, ours: u64) -> Option<Duration> {
        let ahead = self.latest.map(|(largest, _)| largest).max(self.earlier)?;
        let age = i128::from(ours) - (i128::from(sent) - i128::from(ahead));
        Some(Duration::from_millis(u64::try_from(age.max(0)).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_late_is_old() {
        let (start, mut ahead) = (Instant::now(), Ahead::default());
        assert_eq!(ahead.age(1_000, 0), None);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // The peer has run for an hour longer.
        ahead.note(3_601_000, 1_000, at(1));
        assert_eq!(ahead.age(3_602_000, 2_500), Some(Duration::from_millis(500)));
        // This program stands still for 100 seconds, and then reads three pings and a job.
        for sent in [3_602_000, 3_602_500, 3_603_000] {
            ahead.note(sent, 102_000, at(102));
            assert_eq!(ahead.age(3_603_000, 102_000), Some(Duration::from_secs(99)));
        }
        assert_eq!(ahead.age(u64::MAX, 0), Some(Duration::ZERO));
        // After two minutes of such pings it is the way that is long.
        ahead.note(3_670_000, 169_000, at(169));
        ahead.note(3_731_000, 230_000, at(230));
        assert_eq!(ahead.age(3_731_000, 230_000), Some(Duration::ZERO));
    }
}
