//! The heartbeats of one link that this member has sent, and what their answers say about the round trip.

use std::time::Duration;

use peers::kind::Answer;
use tokio::time::Instant;

/// For how many heartbeats the time of sending is known. An answer comes with the peer's next heartbeat.
const KNOWN: usize = 4;

/// Numbered heartbeats, the first one 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beats {
    sent: u64,
    times: [Option<Instant>; KNOWN],
    answered: u64,
    rtt: Option<Duration>,
}

impl Beats {
    /// Returns the number of a heartbeat that is sent now.
    pub fn send(&mut self, now: Instant) -> u64 {
        self.sent += 1;
        self.times[self.sent as usize % KNOWN] = Some(now);
        self.sent
    }

    /// Takes an answer of the peer.
    pub fn answered(&mut self, answer: Answer, now: Instant) {
        let Answer { number, held } = answer;
        if number <= self.answered || number > self.sent {
            return;
        }
        self.answered = number;
        let sent = self.times[number as usize % KNOWN].filter(|_| self.sent - number < KNOWN as u64);
        if let Some(sent) = sent {
            self.rtt = Some(now.duration_since(sent).saturating_sub(held));
        }
    }

    /// Returns how long the latest heartbeat that was answered in time took there and back.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Returns how many heartbeats the peer has not answered, without the latest one: its answer may be on its way.
    pub fn unanswered(&self) -> u64 {
        self.sent.saturating_sub(self.answered + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn answer(number: u64, held: u32) -> Answer {
        Answer { number, held: MS * held }
    }

    #[test]
    fn the_round_trip_is_without_the_time_that_the_peer_held_the_answer() {
        let (start, mut beats) = (Instant::now(), Beats::default());
        assert_eq!((beats.send(start), beats.send(start + 500 * MS)), (1, 2));
        beats.answered(answer(1, 497), start + 501 * MS);
        assert_eq!((beats.rtt(), beats.unanswered()), (Some(4 * MS), 0));
        beats.answered(answer(2, 9_000), start + 502 * MS);
        assert_eq!(beats.rtt(), Some(Duration::ZERO), "a peer that lies");
    }

    #[test]
    fn an_answer_that_comes_late_or_never_was_asked_for_says_nothing_about_the_round_trip() {
        let (start, mut beats) = (Instant::now(), Beats::default());
        assert_eq!((0..5).map(|_| beats.send(start)).last(), Some(5));
        assert_eq!(beats.unanswered(), 4);
        for number in [0, 6, u64::MAX] {
            beats.answered(answer(number, 0), start + MS);
            assert_eq!((beats.rtt(), beats.unanswered()), (None, 4));
        }
        beats.answered(answer(1, 0), start + MS);
        assert_eq!((beats.rtt(), beats.unanswered()), (None, 3), "the fifth has taken its place");
        beats.answered(answer(3, 0), start + MS);
        beats.answered(answer(2, 0), start + 9 * MS);
        assert_eq!((beats.rtt(), beats.unanswered()), (Some(MS), 1), "answers that are out of order");
    }
}
