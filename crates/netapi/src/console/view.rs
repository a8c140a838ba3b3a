//! What all pages share: the session's view of the fleet, the frame, times, and what could not be read.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::StatusCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use targeting::acl::Form;
use value::{Map, Value};

use super::Answer;
use super::form::Fields;
use super::layout::{self, Frame, Mark};
use super::text::{self, brief, inline};
use crate::api::{Api, Caller};
use crate::failure::Failure;
use crate::fleet::{Fleet, JobHead, JobState, MasterRow, Masters};
use crate::{low, pack};

/// By how many milliseconds a clock may be off before the strip says so.
const CLOCK: f64 = 1000.0;

/// What can be said after something was done, and how it begins.
const DONE: [(&str, &str); 8] = [
    ("accepted", "Accepted"),
    ("rejected", "Rejected"),
    ("deleted", "Deleted"),
    ("changed", "Some keys have changed since the page was loaded, and were left alone"),
    ("none", "Select a key first"),
    ("undone", "Undid the decisions about"),
    ("settled", "Settled"),
    ("kill", "The minions are told to end the job"),
];

/// The fleet, as the user of a request may see it.
pub struct View<'a> {
    /// The program.
    pub api: &'a Arc<Api>,
    /// Who asks.
    pub caller: &'a Caller,
    /// The address of the console.
    pub base: &'a str,
    /// Jobs, minions, keys, masters.
    pub fleet: Fleet<'a>,
    done: Option<(&'static str, String)>,
}

impl<'a> View<'a> {
    /// Creates the view of a request.
    pub fn new(api: &'a Arc<Api>, caller: &'a Caller, base: &'a str, query: &Fields) -> Self {
        View { api, caller, base, fleet: Fleet::of(api, &caller.session), done: done(query) }
    }

    /// Returns the time.
    pub fn now(&self) -> SystemTime {
        self.api.now()
    }

    /// Returns the frame of a page.
    pub fn frame(&self, title: impl Into<String>, place: &'static str) -> Frame {
        Frame {
            base: self.base.to_owned(),
            user: self.caller.session.user.clone(),
            title: title.into(),
            place,
            done: self.done.clone(),
            zone: self.zone(),
            own: !self.api.sees_all_events(&self.caller.session),
            ..Frame::default()
        }
    }

    /// Returns the frame of a page that concerns all masters, with their strip. Without the right to see them, there is none.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn frame_of_set(&self, title: impl Into<String>, place: &'static str) -> Result<Frame, Failure> {
        let mut frame = self.frame(title, place);
        match self.fleet.masters().await {
            Ok(masters) => {
                if masters.cluster_id.is_some()
                    && let Ok(drift) = self.fleet.drift(None).await
                {
                    frame.drift = drift.kinds.iter().filter(|row| row.state == "differs").count();
                }
                frame.masters = marks(&masters);
                let conflicts = masters.keys.get("conflicts").and_then(Value::as_i64).unwrap_or_default();
                frame.conflicts = usize::try_from(conflicts).unwrap_or_default();
                if let Some(("ok", words)) = &mut frame.done
                    && frame.masters.iter().any(|mark| mark.look == "bad")
                {
                    words.push_str(" Masters that are away take it over when they are linked again.");
                }
            }
            Err(failure) if concerns_page(&failure) => return Err(failure),
            Err(failure) => tracing::debug!("the page shows no masters: {}", failure.message),
        }
        Ok(frame)
    }

    /// Returns whether the user may call a runner or a wheel function.
    pub fn may(&self, form: Form, function: &str) -> bool {
        self.api.may_call(&self.caller.session, form, function)
    }

    /// Returns the page of a failure within the frame. A page that was only read is loaded again when the master answers.
    pub fn failed(&self, failure: &Failure, reads: bool) -> Answer {
        let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let title = pack::reason(failure.status);
        let mut frame = self.frame(title, "none");
        frame.returns = reads && is_away(failure);
        let body = html! {
            (layout::headline(&html! { (title) }, &html! {}))
            div.notice.bad role="alert" { (inline(&failure.message)) }
            a.button href={ (self.base) "/" } { "Overview" }
        };
        Answer::Page(status, layout::framed(&frame, &body))
    }

    /// Returns the address of a job.
    pub fn job(&self, jid: &str) -> String {
        format!("{}/jobs/{}", self.base, text::in_path(jid))
    }

    /// Returns the address of a minion.
    pub fn minion(&self, id: &str) -> String {
        format!("{}/minions/{}", self.base, text::in_path(id))
    }

    /// Calls a runner or wheel function with the rights of the user.
    ///
    /// # Errors
    /// 403 when the user may not; when the session has ended, or the master does not answer.
    pub async fn call(&self, client: &str, fun: &str, named: Map) -> Result<Value, Failure> {
        match self.api.call(&self.caller.session.token, client, fun, named).await {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.refused(forbidden_client(failure)).await?),
        }
    }

    /// Publishes a job with the rights of the user. Returns its id; `None` if its target means nobody.
    ///
    /// # Errors
    /// 403 when the user may not; when the session has ended, or the master does not answer.
    pub async fn publish(&self, command: Map) -> Result<Option<String>, Failure> {
        let clients = &self.api.options.clients;
        let command = low::read(command, Some(&self.caller.session.token), clients, "").map_err(forbidden_client)?;
        match self.api.link.run(command).await {
            Ok(answers) => Ok(answers.first().and_then(|job| job.get("jid")?.as_str()).map(str::to_owned)),
            Err(failure) => Err(self.refused(failure).await?),
        }
    }

    /// Tells the refusal of a job from a session that has ended.
    ///
    /// # Errors
    /// When the master cannot be asked about the session.
    pub async fn refused(&self, failure: Failure) -> Result<Failure, Failure> {
        Ok(match failure.status == 401 && self.api.is_confirmed(self.caller).await? {
            true => Failure::new(403, format!("You may not run that: {}", failure.message)),
            false => failure,
        })
    }

    /// Returns the name of the zone of all times, and the minutes it is ahead of UTC.
    fn zone(&self) -> (String, i32) {
        let now = Timestamp::try_from(self.now()).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system());
        (now.strftime("%Z").to_string(), now.offset().seconds() / 60)
    }

    /// Shows a point in time: the time of day if it is of today.
    pub fn when(&self, time: &str) -> Markup {
        let Ok(at) = time.parse::<Timestamp>() else { return inline(time) };
        let zone = TimeZone::system();
        let at = at.to_zoned(zone.clone());
        let now = Timestamp::try_from(self.now()).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone);
        let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
        html! {
            time.nowrap datetime=(text::attribute(time)) title=(at.strftime("%Y-%m-%d %H:%M:%S %Z").to_string()) {
                (at.strftime(form).to_string())
            }
        }
    }

    /// Shows how long ago a point in time is.
    pub fn ago(&self, time: &str) -> Markup {
        let Ok(at) = time.parse::<Timestamp>() else { return inline(time) };
        let since = self.now().duration_since(SystemTime::from(at)).unwrap_or_default();
        html! {
            time.nowrap datetime=(text::attribute(time)) title=(text::attribute(time)) { (ago(since)) }
        }
    }
}

/// Says how long ago something was.
pub fn ago(since: Duration) -> String {
    match since.as_secs() {
        0..10 => "now".to_owned(),
        seconds @ 10..60 => format!("{seconds} s ago"),
        seconds @ 60..3600 => format!("{} min ago", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

/// Reads what was done before this page, from its address. Only known words are shown: anybody can make an address.
fn done(query: &Fields) -> Option<(&'static str, String)> {
    let (code, words) = DONE.into_iter().find(|(code, _)| query.get("done") == Some(code))?;
    let count = query.get("count").and_then(|count| count.parse::<u32>().ok());
    Some(match (code, count) {
        ("kill", _) => ("ok", format!("{words}.")),
        ("none", _) => ("warn", format!("{words}.")),
        ("changed", _) => ("warn", format!("{words}. Compare the fingerprints again.")),
        (_, Some(1)) => ("ok", format!("{words} 1 key.")),
        (_, count) => ("ok", format!("{words} {} keys.", count.unwrap_or_default())),
    })
}

/// Returns the masters for the strip: none for a master alone.
pub fn marks(masters: &Masters) -> Vec<Mark> {
    if masters.cluster_id.is_none() && masters.masters.len() < 2 {
        return Vec::new();
    }
    let mark = |row: &MasterRow| {
        let clock = row.clock_ms.filter(|clock| clock.abs() > CLOCK);
        let look = match (row.state.as_str(), clock) {
            ("here" | "linked", None) => "ok",
            ("here" | "linked", Some(_)) => "warn",
            _ => "bad",
        };
        let mut words = row.state.clone();
        if let Some(minions) = row.minions {
            words = format!(
                "{words} · {} {}",
                text::count(minions as usize),
                if minions == 1 { "minion" } else { "minions" }
            );
        }
        if let Some(clock) = clock {
            words = format!("{words} · clock {:+.1} s", clock / 1000.0);
        }
        Mark { name: row.name.clone().or_else(|| row.node.clone()).unwrap_or_default(), look, words }
    };
    sorted(&masters.masters).into_iter().map(mark).collect()
}

/// Returns the masters by name. This one comes first.
pub fn sorted(rows: &[MasterRow]) -> Vec<&MasterRow> {
    let mut rows: Vec<&MasterRow> = rows.iter().collect();
    rows.sort_by_key(|row| (row.state != "here", &row.name));
    rows
}

/// A client that the operator has not enabled is no mistake of the user.
pub fn forbidden_client(failure: Failure) -> Failure {
    match failure.message.starts_with("Client disabled") {
        true => Failure::new(403, failure.message),
        false => failure,
    }
}

/// Returns whether the master does not answer.
fn is_away(failure: &Failure) -> bool {
    matches!(failure.status, 503 | 504)
}

/// Returns whether a failure concerns the whole page: the session has ended, or the master does not answer.
pub fn concerns_page(failure: &Failure) -> bool {
    failure.status == 401 || is_away(failure)
}

/// Shows a part of a page, or why it cannot be shown.
///
/// # Errors
/// When the session has ended, or the master does not answer.
pub fn part<T>(read: Result<T, Failure>, show: impl FnOnce(T) -> Markup) -> Result<Markup, Failure> {
    match read {
        Ok(read) => Ok(show(read)),
        Err(failure) if concerns_page(&failure) => Err(failure),
        // What is not granted is no mistake.
        Err(failure) if failure.status == 403 => Ok(html! { div.empty { (inline(&failure.message)) } }),
        Err(failure) => Ok(html! { div.body { div.notice.bad role="alert" { (inline(&failure.message)) } } }),
    }
}

/// Shows the function and the arguments of a job.
pub fn call(job: &JobHead) -> Markup {
    let fun = function(&job.fun);
    let arguments = text::arguments(job.arg.as_list().unwrap_or_default());
    html! { span.fun { (brief(&fun, 80)) } @if !arguments.is_empty() { " " span.args { (brief(&arguments, 80)) } } }
}

/// Returns the name of a function, or of several.
pub fn function(fun: &Value) -> String {
    match fun {
        Value::List(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        one => one.to_string(),
    }
}

/// Returns a target as people write it.
pub fn target(tgt: &Value) -> String {
    match tgt {
        Value::List(ids) => ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        one => one.to_string(),
    }
}

/// Shows the state of a job.
pub fn state(job: &JobHead) -> Markup {
    let counts = &job.counts;
    match job.state {
        JobState::Running => layout::tag("info", "running"),
        JobState::Done => layout::tag("ok", "done"),
        JobState::Failed if counts.failed > 0 => {
            layout::tag("bad", &format!("{} failed", text::count(counts.failed as usize)))
        }
        JobState::Failed => layout::tag("warn", &format!("{} silent", text::count(counts.silent as usize))),
    }
}

/// Shows how many minions have returned, as numbers and as a bar. A runner has none.
pub fn progress(job: &JobHead) -> Markup {
    let counts = &job.counts;
    html! {
        @if counts.expected == 0 { span.muted { "–" } }
        @else {
            (text::count(counts.returned as usize)) span.muted { " / " (text::count(counts.expected as usize)) }
            (layout::bar(&parts(job), false))
        }
    }
}

/// Returns the parts of the bar of a job: good, failed, silent, running.
pub fn parts(job: &JobHead) -> [(&'static str, usize); 4] {
    let counts = &job.counts;
    [
        ("ok", counts.returned.saturating_sub(counts.failed) as usize),
        ("bad", counts.failed as usize),
        ("warn", counts.silent as usize),
        ("none", counts.running as usize),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_said_in_known_words() {
        let done = |query: &str| done(&Fields::parse(query.as_bytes()).unwrap());
        assert_eq!(done("done=accepted&count=1"), Some(("ok", "Accepted 1 key.".to_owned())));
        assert_eq!(done("done=undone&count=1"), Some(("ok", "Undid the decisions about 1 key.".to_owned())));
        assert_eq!(done("done=none"), Some(("warn", "Select a key first.".to_owned())));
        assert_eq!(done("done=<b>&count=1"), None);
        assert_eq!(done("done=deleted&count=<b>").unwrap().1, "Deleted 0 keys.");
    }

    #[test]
    fn times_are_short() {
        let said = |seconds| ago(Duration::from_secs(seconds));
        assert_eq!([0, 12, 90, 7200, 200_000].map(said), ["now", "12 s ago", "1 min ago", "2 h ago", "2 days ago"]);
    }

    #[test]
    fn a_master_alone_has_no_strip() {
        let row = |state: &str, clock_ms| MasterRow {
            name: Some("m1".into()),
            state: state.into(),
            minions: Some(1),
            clock_ms,
            ..MasterRow::default()
        };
        let masters = |cluster_id, rows| Masters {
            cluster_id,
            masters: rows,
            others: Vec::new(),
            keys: Value::Null,
            once: Value::Null,
        };
        assert!(marks(&masters(None, vec![row("here", None)])).is_empty());
        let marks =
            marks(&masters(Some("a".into()), vec![row("linked", Some(-2500.0)), row("here", None), row("away", None)]));
        assert_eq!(marks.iter().map(|mark| mark.look).collect::<Vec<_>>(), ["ok", "warn", "bad"]);
        assert_eq!(marks[1].words, "linked · 1 minion · clock -2.5 s");
    }
}
