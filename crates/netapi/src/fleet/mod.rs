//! What a session may know of the fleet: jobs, returns, minions, keys, masters, drift. `/v1` and the console show it.
//!
//! The master answers from its stores and its memory, and no minion is asked. It decides by the token of the session, so that a
//! user sees exactly what the runners and wheel functions behind these questions would show.

mod query;

use serde::de::DeserializeOwned;
use value::{Map, Value};

use crate::api::Api;
use crate::failure::Failure;
use crate::low;
use crate::sessions::Session;

pub use crate::rows::*;
pub use query::{Fields, JobQuery, KeyQuery, MinionQuery, PreviewQuery};

/// The fleet, as one session may see it.
pub struct Fleet<'a> {
    api: &'a Api,
    session: &'a Session,
}

impl<'a> Fleet<'a> {
    /// Returns the fleet that a session may see.
    pub fn of(api: &'a Api, session: &'a Session) -> Self {
        Fleet { api, session }
    }

    /// Returns jobs, the latest first. Needs the right to the runner `jobs.list_jobs`.
    ///
    /// # Errors
    /// When the user may not see them, a filter cannot be read, or the master does not answer.
    pub async fn jobs(&self, query: &JobQuery) -> Result<Page<JobHead>, Failure> {
        self.ask("jobs", "runner", query.fields()).await
    }

    /// Returns the head of a job. Needs the right to the runner `jobs.list_job`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`]; 404 for an unknown job.
    pub async fn job(&self, jid: &str) -> Result<JobHead, Failure> {
        self.ask("job", "runner", value::map! { "jid" => checked(jid)? }).await
    }

    /// Returns the returns of a job in the order of the minions' ids, those behind `after`; with `failed` only those of minions that
    /// failed. Needs the right to the runner `jobs.list_job`.
    ///
    /// # Errors
    /// As [`Fleet::job`].
    pub async fn returns(
        &self,
        jid: &str,
        after: Option<&str>,
        limit: usize,
        failed: bool,
    ) -> Result<Page<ReturnRow>, Failure> {
        let fields = value::map! {
            "jid" => checked(jid)?, "after" => after, "limit" => limit, "failed" => failed,
        };
        self.ask("returns", "runner", fields).await
    }

    /// As [`Fleet::returns`], with only the beginning of large returns.
    ///
    /// # Errors
    /// As [`Fleet::returns`].
    pub async fn brief_returns(
        &self,
        jid: &str,
        after: Option<&str>,
        limit: usize,
        failed: bool,
    ) -> Result<Page<ReturnRow>, Failure> {
        let fields = value::map! {
            "jid" => checked(jid)?, "after" => after, "limit" => limit, "failed" => failed, "brief" => true,
        };
        self.ask("returns", "runner", fields).await
    }

    /// Returns minions in the order of their ids. Needs the right to the runner `manage.status`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn minions(&self, query: &MinionQuery) -> Result<Page<MinionRow>, Failure> {
        self.ask("minions", "runner", query.fields()).await
    }

    /// Returns a minion; `None` if no master has a key of it. Needs the right to the runner `manage.status`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn minion(&self, id: &wire::MinionId) -> Result<Option<MinionRow>, Failure> {
        let query = MinionQuery { limit: 1, id: Some(id.to_string()), ..MinionQuery::default() };
        Ok(self.minions(&query).await?.items.pop())
    }

    /// Returns the grains, the pillar or the mine of a minion, as the master has cached them. Needs the right to the runner
    /// `cache.grains`, `cache.pillar` or `cache.mine`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn cached(&self, part: &str, id: &wire::MinionId) -> Result<Map, Failure> {
        let known: Value = self.ask(part, "runner", value::map! { "id" => id.as_str() }).await?;
        Ok(known.into_map().unwrap_or_default())
    }

    /// Returns the minions of a job that have not returned, by whether they may still. Needs the right to the runner
    /// `jobs.list_job`.
    ///
    /// # Errors
    /// As [`Fleet::job`].
    pub async fn unfinished(&self, jid: &str) -> Result<Unfinished, Failure> {
        self.ask("unfinished", "runner", value::map! { "jid" => checked(jid)? }).await
    }

    /// Returns keys of minions in the order of their ids. Needs the right to the wheel function `key.list_all`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn keys(&self, query: &KeyQuery) -> Result<Page<KeyRow>, Failure> {
        self.ask("keys", "wheel", query.fields()).await
    }

    /// Returns the masters of the set: this one alone if it shares nothing. Needs the right to the runner `saltern.masters`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn masters(&self) -> Result<Masters, Failure> {
        self.ask("masters", "runner", Map::new()).await
    }

    /// Returns in what masters differ that should be alike, or which paths and options of one kind. Needs the right to the runner
    /// `saltern.drift`.
    ///
    /// # Errors
    /// As [`Fleet::jobs`].
    pub async fn drift(&self, kind: Option<&str>) -> Result<Drift, Failure> {
        self.ask("drift", "runner", value::map! { "kind" => kind }).await
    }

    /// Returns who the user is and what they may do.
    ///
    /// # Errors
    /// When the token does not count any more, or the master does not answer.
    pub async fn whoami(&self) -> Result<Whoami, Failure> {
        let granted: crate::rows::Granted = self.answer("whoami", Map::new()).await?;
        Ok(Whoami {
            user: self.session.user.clone(),
            eauth: self.session.backend.clone(),
            groups: self.session.groups.clone(),
            expires: crate::rows::time(self.session.expire),
            all_events: self.api.sees_all_events(self.session),
            grants: granted.list.into_iter().map(Grant::of).collect(),
        })
    }

    /// Returns which minions a job would reach, and which of them the user may command. Whoever lacks the right to the runner
    /// `manage.status` sees only minions that an entry of their list names.
    ///
    /// # Errors
    /// When the target cannot be read, or the master does not answer.
    pub async fn preview(&self, query: &PreviewQuery) -> Result<Preview, Failure> {
        self.answer("preview", query.fields()).await
    }

    /// Asks for what a runner or wheel function shows. It must be enabled as any client.
    async fn ask<T: DeserializeOwned>(&self, what: &str, client: &str, fields: Map) -> Result<T, Failure> {
        low::check_enabled(client, &self.api.options.clients).map_err(|failure| Failure::new(403, failure.message))?;
        self.answer(what, fields).await
    }

    async fn answer<T: DeserializeOwned>(&self, what: &str, fields: Map) -> Result<T, Failure> {
        // The question is apart from the request: of a request the fields `id` and `jid` say who sends it, and for which job.
        let token = self.session.token.as_str();
        let load = value::map! { "cmd" => "saltern_status", "of" => what, "token" => token, "question" => fields };
        read(what, self.api.link.fleet(load).await?)
    }
}

/// Returns a job id that can be one.
fn checked(jid: &str) -> Result<&str, Failure> {
    match wire::Jid::is_valid(jid) {
        true => Ok(jid),
        false => Err(Failure::bad_request("The path has no valid job id")),
    }
}

/// Reads the answer of the master.
fn read<T: DeserializeOwned>(what: &str, answer: Value) -> Result<T, Failure> {
    if let Some(refused) = answer.get("refused") {
        let status = refused.get("status").and_then(Value::as_i64).and_then(|status| u16::try_from(status).ok());
        let reason = refused.get("reason").map(ToString::to_string).unwrap_or_default();
        return Err(Failure::new(status.unwrap_or(500), reason));
    }
    let fleet = answer.get("fleet").map(serde_json::to_value);
    let read = fleet.map(|fleet| fleet.and_then(serde_json::from_value));
    match read {
        Some(Ok(read)) => Ok(read),
        Some(Err(error)) => {
            tracing::error!("the master's answer about {what} has an unexpected form: {error}");
            Err(Failure::unexpected())
        }
        None => {
            tracing::error!("the master does not answer questions about {what}: is it as new as salt-api?");
            Err(Failure::unexpected())
        }
    }
}

#[cfg(test)]
mod tests {
    use value::{list, map};

    use super::*;

    #[test]
    fn an_answer_of_the_master_is_read() {
        let job = map! {
            "jid" => "20261126160511953300", "fun" => "test.ping", "arg" => list![], "tgt" => "*", "tgt_type" => "glob",
            "user" => "fred", "start" => "2026-11-26T16:05:11.9533Z", "end" => Value::Null, "state" => "running",
            "counts" => map! { "expected" => 3, "returned" => 1, "failed" => 0, "running" => 1, "silent" => 1 },
        };
        let answer = map! { "fleet" => map! { "items" => list![job], "next" => "20261126160511953300" } };
        let page: Page<JobHead> = read("jobs", answer.into()).unwrap();
        assert_eq!(page.next.as_deref(), Some("20261126160511953300"));
        assert_eq!(page.items[0].counts, Counts { expected: 3, returned: 1, failed: 0, running: 1, silent: 1 });
        assert_eq!(page.items[0].state, JobState::Running);
    }

    #[test]
    fn a_refusal_keeps_its_status_and_other_answers_are_failures() {
        let refused = map! { "refused" => map! { "status" => 403, "reason" => "no" } };
        let status = |answer: Map| read::<Page<KeyRow>>("keys", answer.into()).unwrap_err().status;
        assert_eq!(status(refused), 403);
        // A master that is older than this program answers with its metrics.
        assert_eq!(status(map! { "status" => map! {} }), 500);
        assert_eq!(status(map! { "fleet" => map! { "items" => 1 } }), 500);
        assert_eq!(status(map! { "refused" => map! { "status" => -1 } }), 500);
    }

    #[test]
    fn a_path_with_something_else_asks_nobody() {
        assert_eq!(checked("..").unwrap_err().status, 400);
        assert!(checked("20261126160511953300").is_ok());
    }
}
