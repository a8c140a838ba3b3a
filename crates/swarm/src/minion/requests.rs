//! The requests of a minion, counted and timed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use channel::client::{Error, MasterChannel};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};
use transport::Requester;
use value::{Map, Value, map};
use wire::envelope::Envelope;
use wire::loads::{Ability, FileChunk, command};
use wire::msgpack::Decode;

use super::Minion;
use super::jobs::{AGAIN, TRIES};
use crate::chance::Purpose;
use crate::grains::grains;
use crate::stats::{Request, Stats};

/// The maximum number of known job ids that are sent to a Saltern master.
const KNOWN: usize = 50;

/// Counts and times sign-ins, which a channel may start on its own.
pub(super) struct Counted {
    pub(super) ask: Arc<dyn Requester>,
    pub(super) stats: Arc<Stats>,
}

impl Requester for Counted {
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, transport::Error>> {
        Box::pin(async move {
            let sign_in = matches!(&envelope, Envelope::Clear(clear) if command(&clear.load) == Some("_auth"));
            let began = Instant::now();
            let answer = self.ask.ask(envelope, timeout).await?;
            // Only sign-ins: the other requests are counted by `note`, which also knows if the answer could be
            // decrypted.
            if sign_in {
                self.stats.answered(Request::SignIn, began.elapsed());
            }
            Ok(answer)
        })
    }
}

impl Minion {
    /// Counts a failure by its type.
    pub(super) fn failed(&self, request: Request, error: &Error) {
        self.shared.stats.failed(request, kind(error), error.to_string());
    }

    pub(super) fn malformed(&self, request: Request, error: &impl ToString) {
        self.shared.stats.failed(request, "malformed", error.to_string());
    }

    /// Sends a request and returns the answer. A failure is counted.
    pub(super) async fn ask(
        &self,
        channel: &MasterChannel,
        request: Request,
        load: Map,
        decode: Decode,
    ) -> Option<Value> {
        let began = Instant::now();
        let patience = self.shared.behaviour().request_timeout;
        self.note(request, began, channel.request(load, Some(patience), decode).await)
    }

    fn note(&self, request: Request, began: Instant, answer: Result<Value, Error>) -> Option<Value> {
        match answer {
            Ok(answer) => {
                self.shared.stats.answered(request, began.elapsed());
                Some(answer)
            }
            Err(error) => {
                self.failed(request, &error);
                None
            }
        }
    }

    /// Sends the requests that follow a connection.
    pub(super) async fn introduce(&self, channel: &MasterChannel) {
        if self.shared.behaviour().start_event {
            let id = self.id();
            let data = format!("Minion {id} started");
            let tag = format!("salt/minion/{id}/start");
            let load =
                // The fields of a Salt minion's start event.
                map! { "id" => id, "cmd" => "_minion_event", "pretag" => Value::Null, "data" => data, "tag" => tag };
            self.ask(channel, Request::Event, load, Decode::Default).await;
        }
        for _ in 0..TRIES {
            if self.fetch_all(channel).await {
                // A minion that reconnects introduces itself again, but must not be counted as ready twice.
                if !self.introduced.swap(true, Ordering::Relaxed) {
                    self.shared.stats.count(|counts| counts.ready += 1);
                }
                break;
            }
            sleep(self.between(Purpose::Backoff, AGAIN.0, AGAIN.1)).await;
        }
    }

    /// Fetches the pillar and the files, as configured, and returns whether all of it arrived.
    pub(super) async fn fetch_all(&self, channel: &MasterChannel) -> bool {
        let behaviour = self.shared.behaviour();
        let mut all = true;
        // A minion has no request just for its grains. The master learns them from the pillar request.
        if behaviour.pillar || behaviour.grains {
            // `&=` and not `&&`: after one failure the other requests are still sent, or a failing pillar would hide
            // the load of the files.
            all &= self.fetch_pillar(channel).await.is_some();
        }
        for path in &behaviour.files {
            all &= self.fetch_file(channel, &path.to_string_lossy()).await.is_some();
        }
        all
    }

    async fn fetch_pillar(&self, channel: &MasterChannel) -> Option<Value> {
        let load = map! {
            "id" => self.id(),
            "grains" => grains(self.id(), self.number, self.shared.behaviour().grains),
            "saltenv" => Value::Null,
            "pillarenv" => Value::Null,
            "pillar_override" => Value::Null,
            "extra_minion_data" => map! {},
            "ver" => "2",
            "cmd" => "_pillar",
        };
        let (began, patience) = (Instant::now(), self.shared.behaviour().request_timeout);
        let answer = timeout(patience * 2, channel.request_pillar(load, Some(patience))).await;
        self.note(Request::Pillar, began, answer.unwrap_or(Err(Error::Timeout(patience * 2))))
    }

    /// Fetches a file in chunks, like `cp.get_file`. A missing file counts as a failure.
    async fn fetch_file(&self, channel: &MasterChannel, path: &str) -> Option<()> {
        let hash = map! { "path" => path, "saltenv" => "base", "cmd" => "_file_hash" };
        let hash = self.ask(channel, Request::FileHash, hash, Decode::Default).await?;
        // A master answers an unknown path without a hash, not with an error.
        if hash.get("hsum").is_none() {
            self.shared.stats.failed(Request::FileHash, "missing", format!("the master has no file {path}"));
            return None;
        }
        let mut loc = 0;
        loop {
            let load = map! { "path" => path, "saltenv" => "base", "cmd" => "_serve_file", "loc" => loc as i64 };
            let piece = FileChunk::from_raw(self.ask(channel, Request::FileChunk, load, Decode::Raw).await?);
            let malformed = |error: &_| self.malformed(Request::FileChunk, error);
            let data = piece.inspect_err(malformed).ok()?.data;
            // Salt's protocol has no length in advance. An empty chunk is the end of the file, so even an exact
            // multiple of the chunk size takes one more request.
            if data.is_empty() {
                return Some(());
            }
            loc += data.len();
            self.shared.stats.fetched(Request::FileChunk, data.len());
        }
    }

    /// Asks a Saltern master for missed jobs.
    pub(super) async fn missed(&self, channel: &MasterChannel) -> Vec<Map> {
        // A Salt master would log an error for the unknown command.
        if !channel.master_can(Ability::Missed) {
            return Vec::new();
        }
        // The master leaves out these jobs, so that none is delivered twice.
        let known = self.ledger().recent_jids(KNOWN);
        let load = map! { "cmd" => "saltern_missed", "known" => known };
        let answer = self.ask(channel, Request::Missed, load, Decode::Default).await.unwrap_or_default();
        let jobs = answer.get("jobs").and_then(Value::as_list).unwrap_or_default();
        jobs.iter().filter_map(|job| job.get("load")?.as_map().cloned()).collect()
    }
}

/// Returns the type of a failure.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Timeout(_) => "timeout",
        Error::Transport(_) => "connection",
        Error::Authentication(_) => "authentication",
        Error::Malformed(_) => "malformed",
        Error::Algorithm(_) => "algorithm",
        Error::Distrust(_) => "distrust",
        Error::NotAccepted => "not_accepted",
        Error::Crypto { .. } => "crypto",
        Error::Forged(_) => "forged",
        Error::TryAgain => "try_again",
    }
}
