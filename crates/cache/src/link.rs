//! Sends requests to a server from blocking threads, with a short timeout.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::banks::{Banks, Failure};
use crate::{Error, Result};

/// The time a request waits for the server.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time for which no request waits after one timed out.
const PAUSE: Duration = Duration::from_secs(5);

/// The minimum time between two warnings about the same failure.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// A server with the thread that talks to it.
pub(crate) struct Link {
    driver: &'static str,
    /// The option that names the server.
    option: &'static str,
    address: String,
    banks: Arc<dyn Banks>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    silent_until: Option<Instant>,
    warned: Option<Instant>,
}

impl Link {
    /// Starts the thread. Nothing is connected before the first request.
    pub(crate) fn new(
        driver: &'static str,
        option: &'static str,
        address: String,
        banks: Arc<dyn Banks>,
    ) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("cache").enable_all().build();
        let runtime = runtime.map_err(|error| Error::option("cache", format!("failed to start a thread: {error}")))?;
        Ok(Link { driver, option, address, banks, runtime: Some(runtime), state: Mutex::default() })
    }

    pub(crate) fn driver(&self) -> &'static str {
        self.driver
    }

    pub(crate) fn banks(&self) -> &dyn Banks {
        &*self.banks
    }

    /// Waits for an answer for at most two seconds.
    pub(crate) fn ask<T, F>(&self, question: impl FnOnce(Arc<dyn Banks>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
    {
        let (Some(runtime), false) = (&self.runtime, self.state().is_silent(Instant::now())) else {
            return Err(self.no_answer(None));
        };
        let (answered, answer) = mpsc::sync_channel(1);
        let question = question(self.banks.clone());
        runtime.spawn(async move {
            let outcome = tokio::time::timeout(PATIENCE, question).await;
            // The asking thread waits for exactly this.
            let _ = answered.send(outcome);
        });
        match answer.recv() {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(failure))) => Err(self.failed(failure)),
            Ok(Err(_)) => {
                self.banks.reconnect();
                self.state().silent_until = Some(Instant::now() + PAUSE);
                Err(self.failed(Failure::new(format!("no answer in {} seconds", PATIENCE.as_secs()))))
            }
            Err(mpsc::RecvError) => Err(self.failed(Failure::new("the request ended early"))),
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        if self.state().may_warn(Instant::now()) {
            let (driver, option, address) = (self.driver, self.option, &self.address);
            tracing::warn!(
                "the cache driver {driver} has no answer from {address} (option '{option}'), requests go on without its \
                 data: {failure}"
            );
        }
        self.no_answer(Some(failure))
    }

    fn no_answer(&self, source: Option<Failure>) -> Error {
        Error::NoAnswer { driver: self.driver, address: self.address.clone(), source }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_silent(&self, now: Instant) -> bool {
        self.silent_until.is_some_and(|until| now < until)
    }

    fn may_warn(&mut self, now: Instant) -> bool {
        let may = self.warned.is_none_or(|warned| now.duration_since(warned) >= BETWEEN_WARNINGS);
        if may {
            self.warned = Some(now);
        }
        may
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Waiting for the thread would panic inside an asynchronous task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_a_minute_and_no_waiting_in_a_pause() {
        let (mut state, start) = (State::default(), Instant::now());
        assert!(state.may_warn(start) && !state.may_warn(start + Duration::from_secs(59)));
        assert!(state.may_warn(start + Duration::from_secs(60)));
        assert!(!state.is_silent(start));
        state.silent_until = Some(start + PAUSE);
        assert!(state.is_silent(start) && !state.is_silent(start + PAUSE));
    }
}
