//! The signals that stop a daemon: SIGTERM, SIGINT and SIGHUP.

use std::fmt;

use nix::libc::SIGHUP;
use tokio::signal::unix::{Signal as Listening, SignalKind, signal};

use crate::Error;

/// The signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGHUP.
    Hup,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Term => "SIGTERM",
            Signal::Int => "SIGINT",
            Signal::Hup => "SIGHUP",
        })
    }
}

/// Waits for the signals that stop a daemon.
#[derive(Debug)]
pub struct Shutdown {
    first: tokio::sync::oneshot::Receiver<Signal>,
}

impl Shutdown {
    /// Installs the handlers. The second signal ends the process at once with status 1, whatever still runs.
    ///
    /// `daemon` is the word in the log line, `Master` or `Minion`. Must be called within a runtime.
    pub fn listen(daemon: &'static str) -> Result<Self, Error> {
        let mut term = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        let mut int = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        // With `nohup`, a daemon survives the end of the terminal.
        let mut hup =
            if is_ignored(SIGHUP) { None } else { Some(signal(SignalKind::hangup()).map_err(Error::Signals)?) };
        let (tell, first) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let got = next(&mut term, &mut int, &mut hup).await;
            tracing::warn!(target: "salt.utils.parsers", "{daemon} received a {got}. Exiting.");
            // If the daemon stops by itself, the receiver of the signal is gone.
            let _ = tell.send(got);
            let again = next(&mut term, &mut int, &mut hup).await;
            tracing::warn!(target: "salt.utils.parsers", "{daemon} received a second {again}. Exiting at once.");
            // A user who sends a second signal does not want to wait.
            std::process::exit(1);
        });
        Ok(Shutdown { first })
    }

    /// Waits for the first signal.
    pub async fn wait(self) -> Signal {
        match self.first.await {
            Ok(signal) => signal,
            // The task ends only with the runtime, and then there is nothing left to wait for.
            Err(_) => Signal::Term,
        }
    }
}

async fn next(term: &mut Listening, int: &mut Listening, hup: &mut Option<Listening>) -> Signal {
    let hung_up = async {
        match hup {
            Some(hup) => hup.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = term.recv() => Signal::Term,
        _ = int.recv() => Signal::Int,
        _ = hung_up => Signal::Hup,
    }
}

/// Returns whether the parent of this process had a signal ignored.
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, number)
}

fn ignores(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| (mask >> (number - 1)) & 1 == 1)
}

/// Keeps SIGUSR1 and SIGUSR2 from ending a daemon whose handlers are not installed yet.
#[expect(unsafe_code, reason = "a handler may do harm; to ignore a signal does not")]
pub fn spare() {
    use nix::sys::signal::{SigHandler, Signal as Number, signal};
    for number in [Number::SIGUSR1, Number::SIGUSR2] {
        // SAFETY: no handler is run.
        if let Err(error) = unsafe { signal(number, SigHandler::SigIgn) } {
            tracing::warn!("{number} may end the daemon: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal as Number, raise};

    #[test]
    fn a_signal_that_is_ignored_from_the_start_is_known() {
        assert!(ignores("Name:\tx\nSigIgn:\t0000000000001001\n", SIGHUP));
        assert!(!ignores("SigIgn:\t0000000000001000\n", SIGHUP));
        assert!(!ignores("", SIGHUP));
    }

    #[tokio::test]
    async fn the_first_signal_is_returned() {
        let shutdown = Shutdown::listen("Master").unwrap();
        raise(Number::SIGTERM).unwrap();
        assert_eq!(shutdown.wait().await, Signal::Term);
    }
}
