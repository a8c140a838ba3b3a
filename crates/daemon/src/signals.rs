//! The end of a daemon: SIGTERM and SIGINT.

use std::fmt;

use tokio::signal::unix::{SignalKind, signal};

use crate::Error;

/// What told us to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Term => "SIGTERM",
            Signal::Int => "SIGINT",
        })
    }
}

/// Listens to the signals that end a daemon.
#[derive(Debug)]
pub struct Shutdown {
    first: tokio::sync::oneshot::Receiver<Signal>,
}

impl Shutdown {
    /// Begins to listen. The second signal ends the process at once with status 1, whatever still runs.
    ///
    /// `daemon` is the word in the log line, `Master` or `Minion`. Must be called within a runtime.
    pub fn listen(daemon: &'static str) -> Result<Self, Error> {
        let mut term = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        let (tell, first) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let got = next(&mut term, &mut int).await;
            tracing::warn!(target: "salt.utils.parsers", "{daemon} received a {got}. Exiting.");
            // Nobody listens any more when the daemon ends by itself.
            let _ = tell.send(got);
            let again = next(&mut term, &mut int).await;
            tracing::warn!(target: "salt.utils.parsers", "{daemon} received a second {again}. Exiting at once.");
            std::process::exit(1);
        });
        Ok(Shutdown { first })
    }

    /// Waits for the first signal.
    pub async fn wait(self) -> Signal {
        match self.first.await {
            Ok(signal) => signal,
            // The listening task lives as long as the runtime; without it there is nothing left to wait for.
            Err(_) => Signal::Term,
        }
    }
}

async fn next(term: &mut tokio::signal::unix::Signal, int: &mut tokio::signal::unix::Signal) -> Signal {
    tokio::select! {
        _ = term.recv() => Signal::Term,
        _ = int.recv() => Signal::Int,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal as Number, raise};

    #[tokio::test]
    async fn the_first_signal_is_told() {
        let shutdown = Shutdown::listen("Master").unwrap();
        raise(Number::SIGTERM).unwrap();
        assert_eq!(shutdown.wait().await, Signal::Term);
    }
}
