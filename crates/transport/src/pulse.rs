//! Heartbeats of one connection: when to send a PING, and when the peer counts as dead.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Error, Heartbeat};

/// The heartbeat of one connection. Without settings no PING is sent.
///
/// A peer that sends something gets no PING. It counts as dead only if nothing follows a PING, never just because we
/// have not read for a long time: this process may have been stopped, or busy with writing.
#[derive(Debug)]
pub(crate) struct Pulse {
    settings: Option<Heartbeat>,
    /// The peer sends PINGs.
    asks: bool,
    heard: Instant,
    asked: Option<Unanswered>,
    /// One timer for many messages. It may expire before something is due, never after.
    timer: Option<Pin<Box<Sleep>>>,
}

/// PINGs after which nothing was received.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    first: Instant,
    last: Instant,
}

impl Pulse {
    pub(crate) fn new(settings: Option<Heartbeat>) -> Self {
        Pulse { settings, asks: false, heard: Instant::now(), asked: None, timer: None }
    }

    /// Notes that something was received from the peer.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Notes that the peer has sent a PING. A peer that sends PINGs is itself checked at the shorter interval.
    pub(crate) fn was_asked(&mut self) {
        if !self.asks {
            self.asks = true;
            // The shorter interval counts at once.
            self.timer = None;
        }
    }

    /// Waits until a PING is due. Fails if the peer was silent for too long. Call it only if no received bytes wait to
    /// be read. Cancel safe.
    pub(crate) async fn due(&mut self) -> Result<(), Error> {
        let Some(settings) = self.settings else { return std::future::pending().await };
        let slower = if self.asks { 1 } else { settings.slower };
        let (every, dead_after) = (settings.every * slower, settings.dead_after * slower);
        let patience = dead_after.saturating_sub(every);
        self.pass(every, patience).await;
        let now = Instant::now();
        let first = self.asked.map_or(now, |asked| asked.first);
        // The patience is measured from our first unanswered PING, so our own pause never makes the peer look dead.
        if now - first >= patience && now > first {
            return Err(Error::Silent(now - self.heard));
        }
        self.asked = Some(Unanswered { first, last: now });
        Ok(())
    }

    /// Waits until something is due.
    async fn pass(&mut self, every: Duration, patience: Duration) {
        let due = match self.asked {
            None => self.heard + every,
            Some(asked) => (asked.last + every).min(asked.first + patience),
        };
        while due > Instant::now() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.is_elapsed() || timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            timer.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_given_up_after_three_beats() {
        let start = Instant::now();
        let mut pulse = Pulse::new(Some(Heartbeat::every(Duration::from_secs(1))));
        pulse.due().await.unwrap();
        pulse.heard();
        pulse.due().await.unwrap();
        pulse.due().await.unwrap();
        assert!(matches!(pulse.due().await, Err(Error::Silent(_))));
        assert_eq!(start.elapsed(), Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn the_usual_settings_find_silence_in_under_five_seconds() {
        let start = Instant::now();
        let mut pulse = Pulse::new(Some(Heartbeat::default()));
        while pulse.due().await.is_ok() {}
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_is_heard_is_not_asked() {
        let mut pulse = Pulse::new(Some(Heartbeat::every(Duration::from_secs(3))));
        for _ in 0..10 {
            assert!(tokio::time::timeout(Duration::from_secs(2), pulse.due()).await.is_err());
            pulse.heard();
        }
        let heard = Instant::now();
        pulse.due().await.unwrap();
        assert_eq!(heard.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_asks_who_never_asks_seldom_and_finds_the_silence_of_others_soon() {
        let start = Instant::now();
        let mut pulse = Pulse::new(Some(Heartbeat::of_servers()));
        pulse.due().await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        pulse.heard();
        // A wait for the later time was begun.
        assert!(tokio::time::timeout(Duration::from_millis(1), pulse.due()).await.is_err());
        pulse.was_asked();
        let heard = Instant::now();
        pulse.due().await.unwrap();
        assert!(heard.elapsed() <= Duration::from_secs(2), "{:?}", heard.elapsed());
        while pulse.due().await.is_ok() {}
        assert!(heard.elapsed() < Duration::from_secs(5), "{:?}", heard.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_was_not_asked_for_long_is_asked_first() {
        let mut pulse = Pulse::new(Some(Heartbeat::default()));
        tokio::time::advance(Duration::from_secs(100)).await;
        pulse.due().await.expect("a PING first");
        let asked = Instant::now();
        while pulse.due().await.is_ok() {}
        assert_eq!(asked.elapsed(), Duration::from_secs(3));
    }
}
