//! Keeps messages until the log is open: only the configuration says how to log.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The logger whose early lines are kept: only the configuration is read before the log is open.
const LOGGER: &str = "salt.config";

/// The largest number of lines that are kept.
const MOST: usize = 1000;

static KEPT: Mutex<Vec<(tracing::Level, String)>> = Mutex::new(Vec::new());

/// Keeps what this thread logs, as long as it lives.
pub struct Early(#[expect(dead_code, reason = "held until the log is open")] DefaultGuard);

impl Early {
    /// Starts to keep lines.
    pub fn keep() -> Self {
        let subscriber = tracing_subscriber::registry().with(Keeper);
        // For this thread only: nothing else runs before the log is open.
        Early(tracing::subscriber::set_default(subscriber))
    }
}

/// Logs again, now that the log is open, what was kept.
pub fn replay() {
    // Taken out first: replaying logs, and the lock must not be held then.
    let kept = std::mem::take(&mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    // Filtered now, by the level that the configuration has set.
    for (level, line) in kept {
        match level {
            tracing::Level::ERROR => tracing::error!(target: LOGGER, "{line}"),
            tracing::Level::WARN => tracing::warn!(target: LOGGER, "{line}"),
            tracing::Level::INFO => tracing::info!(target: LOGGER, "{line}"),
            tracing::Level::DEBUG => tracing::debug!(target: LOGGER, "{line}"),
            tracing::Level::TRACE => tracing::trace!(target: LOGGER, "{line}"),
        }
    }
}

struct Keeper;

impl<S: Subscriber> Layer<S> for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // The level is not known yet, so all of this logger's lines are kept.
        metadata.target() == LOGGER
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST {
            kept.push((*event.metadata().level(), message.0));
        }
    }
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_configuration_are_kept_until_the_log_is_open() {
        let early = Early::keep();
        tracing::debug!(target: "salt.config", "Reading configuration from {}", "/etc/salt/minion");
        tracing::debug!(target: "salt.other", "not kept");
        drop(early);
        tracing::debug!(target: "salt.config", "said when nobody keeps");
        let kept = KEPT.lock().unwrap().clone();
        assert_eq!(kept, [(tracing::Level::DEBUG, "Reading configuration from /etc/salt/minion".to_owned())]);
    }
}
