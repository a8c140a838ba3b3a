//! Heartbeats of one connection: when to send one, when to give the peer up.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Error, Heartbeat};

/// The heartbeat of one connection. Without settings it never beats.
///
/// A peer is dead when a PING of ours stays without any sign of life, never only because we did not listen for long: we may
/// have been stopped, or busy with writing.
#[derive(Debug)]
pub(crate) struct Pulse {
    settings: Option<Heartbeat>,
    heard: Instant,
    /// When the first PING was due that nothing followed.
    asked: Option<Instant>,
    next: Instant,
}

impl Pulse {
    pub(crate) fn new(settings: Option<Heartbeat>) -> Self {
        let now = Instant::now();
        let next = now + settings.map_or(Duration::ZERO, |settings| settings.every);
        Pulse { settings, heard: now, asked: None, next }
    }

    /// Notes that the peer lives.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Waits until a PING is due; an error when the peer was silent for too long. Only to be asked when nothing that has
    /// arrived waits to be read. May be dropped and called again.
    pub(crate) async fn due(&mut self) -> Result<(), Error> {
        let Some(settings) = self.settings else { return std::future::pending().await };
        tokio::time::sleep_until(self.next).await;
        let now = Instant::now();
        let asked = *self.asked.get_or_insert(now);
        if now - asked >= settings.dead_after.saturating_sub(settings.every) && now > asked {
            return Err(Error::Silent(now - self.heard));
        }
        self.next = now + settings.every;
        Ok(())
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
    async fn a_peer_that_was_not_asked_for_long_is_asked_first() {
        let mut pulse = Pulse::new(Some(Heartbeat::default()));
        tokio::time::advance(Duration::from_secs(100)).await;
        pulse.due().await.expect("a PING first");
        let asked = Instant::now();
        while pulse.due().await.is_ok() {}
        assert_eq!(asked.elapsed(), Duration::from_secs(3));
    }
}
