//! Heartbeats of one connection: when to send one, when to give the peer up.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Error, Heartbeat};

/// The heartbeat of one connection. Without settings it never beats.
#[derive(Debug)]
pub(crate) struct Pulse {
    settings: Option<Heartbeat>,
    heard: Instant,
    next: Instant,
}

impl Pulse {
    pub(crate) fn new(settings: Option<Heartbeat>) -> Self {
        let now = Instant::now();
        let next = now + settings.map_or(Duration::ZERO, |settings| settings.every);
        Pulse { settings, heard: now, next }
    }

    /// Notes that the peer lives.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Waits until a PING is due; an error when the peer was silent for too long.
    pub(crate) async fn due(&mut self) -> Result<(), Error> {
        let Some(settings) = self.settings else { return std::future::pending().await };
        tokio::time::sleep_until(self.next).await;
        let now = Instant::now();
        if now.duration_since(self.heard) >= settings.dead_after {
            return Err(Error::Silent(now.duration_since(self.heard)));
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
}
