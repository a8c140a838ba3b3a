//! Reads questions, and says which function a user must be allowed to call for each.

use std::time::SystemTime;

use cache::Part;
use exec::Call;
use runners::Kind;
use share::drift;
use targeting::TargetType;
use value::{Map, Value, map};
use wire::{Jid, MinionId};

use super::Refused;
use crate::open_jobs::Target;
use crate::set_requests::times;

/// The most items of a page.
const MOST: i64 = 1000;

/// Which jobs.
#[derive(Debug, Default)]
pub struct JobFilter {
    pub limit: usize,
    pub before: Option<String>,
    pub fun: Option<String>,
    pub tgt: Option<String>,
    pub user: Option<String>,
    pub minion: Option<String>,
    /// In milliseconds since 1970.
    pub since: Option<u64>,
    /// In milliseconds since 1970.
    pub until: Option<u64>,
    pub state: Option<String>,
}

/// Which returns.
pub struct ReturnFilter {
    pub jid: Jid,
    pub limit: usize,
    pub after: Option<String>,
    pub failed: bool,
    /// Of large returns only the beginning is wanted.
    pub brief: bool,
}

/// Which minions.
pub struct MinionFilter {
    pub limit: usize,
    pub after: Option<String>,
    pub id: Option<String>,
    pub q: Option<String>,
    /// A compound target.
    pub target: Option<String>,
    pub status: Option<String>,
    pub reverse: bool,
}

/// Which keys.
pub struct KeyFilter {
    pub limit: usize,
    pub after: Option<String>,
    pub id: Option<String>,
    pub q: Option<String>,
    pub state: Option<String>,
}

/// A job that is not published.
pub struct PreviewedJob {
    pub tgt: Value,
    pub kind: TargetType,
    /// Empty if only the target is looked at.
    pub functions: Vec<String>,
    /// Those of each function.
    pub arguments: Vec<Vec<Value>>,
    /// The user may know all minions.
    pub sees_all: bool,
}

/// A question.
pub enum Question {
    Jobs(JobFilter),
    Job(Jid),
    /// The minions that have not returned, by whether they may still.
    Unfinished(Jid),
    Returns(ReturnFilter),
    Minions(MinionFilter),
    /// What the master has cached of a minion.
    Cached(Part, MinionId),
    Keys(KeyFilter),
    Masters,
    Drift(Option<drift::Kind>),
    Whoami,
    Preview(PreviewedJob),
}

impl Question {
    /// Reads a question: what it is about, and its fields.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(what: &str, load: &Map, now: SystemTime) -> Result<Self, Refused> {
        let text = |name: &str| load.get(name).filter(|value| **value != Value::Null).map(Value::to_string);
        let limit = load.get("limit").and_then(Value::as_i64).unwrap_or(50).clamp(1, MOST);
        let limit = usize::try_from(limit).unwrap_or(1);
        let flag = |name: &str| load.get(name) == Some(&true.into());
        let time = |name: &str| match load.get(name).filter(|value| **value != Value::Null) {
            Some(value) => times::since(value, now).map(Some).map_err(|reason| Refused::new(400, reason)),
            None => Ok(None),
        };
        match what {
            "jobs" => Ok(Question::Jobs(JobFilter {
                limit,
                before: text("before"),
                fun: text("fun"),
                tgt: text("tgt"),
                user: text("by"),
                minion: text("minion"),
                since: time("since")?,
                until: time("until")?,
                state: text("state"),
            })),
            "job" => jid(load).map(Question::Job),
            "unfinished" => jid(load).map(Question::Unfinished),
            "grains" => minion(load).map(|id| Question::Cached(Part::Grains, id)),
            "pillar" => minion(load).map(|id| Question::Cached(Part::Pillar, id)),
            "mine" => minion(load).map(|id| Question::Cached(Part::Mine, id)),
            "returns" => {
                let (after, failed, brief) = (text("after"), flag("failed"), flag("brief"));
                Ok(Question::Returns(ReturnFilter { jid: jid(load)?, limit, after, failed, brief }))
            }
            "minions" => Ok(Question::Minions(MinionFilter {
                limit,
                after: text("after"),
                id: text("id"),
                q: text("q"),
                target: text("target"),
                status: text("status"),
                reverse: flag("reverse"),
            })),
            "keys" => Ok(Question::Keys(KeyFilter {
                limit,
                after: text("after"),
                id: text("id"),
                q: text("q"),
                state: text("state"),
            })),
            "masters" => Ok(Question::Masters),
            "drift" => text("kind").map(|kind| drift_kind(&kind)).transpose().map(Question::Drift),
            "whoami" => Ok(Question::Whoami),
            "preview" => parse_preview(load).map(Question::Preview),
            other => {
                let other = value::escape::brief(other, 40);
                Err(Refused::new(400, format!("this master does not know the question {other:?}")))
            }
        }
    }

    /// Returns the function that shows what is asked for. `None` for what each user may ask.
    pub fn behind(&self) -> Option<(Kind, &'static str, Call)> {
        let (kind, fun) = match self {
            Question::Jobs(_) => (Kind::Runner, "jobs.list_jobs"),
            Question::Job(jid) | Question::Unfinished(jid) | Question::Returns(ReturnFilter { jid, .. }) => {
                let call = Call { args: Vec::new(), kwargs: map! { "jid" => jid.as_str() } };
                return Some((Kind::Runner, "jobs.list_job", call));
            }
            Question::Minions(_) => (Kind::Runner, SEES_MINIONS),
            Question::Cached(part, id) => {
                let call = Call { args: Vec::new(), kwargs: map! { "tgt" => id.as_str(), "tgt_type" => "list" } };
                let fun = match part {
                    Part::Grains => "cache.grains",
                    Part::Pillar => "cache.pillar",
                    Part::Mine => "cache.mine",
                };
                return Some((Kind::Runner, fun, call));
            }
            Question::Keys(_) => (Kind::Wheel, "key.list_all"),
            Question::Masters => (Kind::Runner, "saltern.masters"),
            Question::Drift(_) => (Kind::Runner, "saltern.drift"),
            Question::Whoami | Question::Preview(_) => return None,
        };
        Some((kind, fun, Call::default()))
    }
}

/// The runner of whoever may know all minions.
pub const SEES_MINIONS: &str = "manage.status";

fn jid(load: &Map) -> Result<Jid, Refused> {
    let text = load.get_str("jid").unwrap_or_default();
    Jid::new(text).map_err(|_| Refused::new(400, "this is not a job id"))
}

fn minion(load: &Map) -> Result<MinionId, Refused> {
    let text = load.get_str("id").unwrap_or_default();
    MinionId::new(text).map_err(|_| Refused::new(400, "this is not the id of a minion"))
}

fn drift_kind(name: &str) -> Result<drift::Kind, Refused> {
    drift::Kind::from_name(name).ok_or_else(|| {
        let known = drift::Kind::ALL.map(drift::Kind::name).join(", ");
        Refused::new(404, format!("unknown kind {}; the kinds are {known}", value::escape::brief(name, 40)))
    })
}

fn parse_preview(load: &Map) -> Result<PreviewedJob, Refused> {
    let target = Target::of(load);
    let kind = target.kind.ok_or_else(|| Refused::new(400, "the type of the target is unknown"))?;
    let none = load.get("fun").is_none_or(|fun| *fun == Value::Null);
    let functions = match none {
        true => Vec::new(),
        false => crate::named_functions::functions(load).ok_or_else(|| Refused::new(400, "'fun' names no function"))?,
    };
    let arguments = crate::named_functions::arguments(load);
    Ok(PreviewedJob { tgt: target.tgt, kind, functions, arguments, sees_all: false })
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use value::list;

    use super::*;

    fn of(load: Map) -> Result<Question, Refused> {
        Question::of(load.get_str("of").unwrap_or_default(), &load, UNIX_EPOCH)
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (load, status) in [
            (map! {}, 400),
            (map! { "of" => "passwords" }, 400),
            (map! { "of" => "job", "jid" => "../x" }, 400),
            (map! { "of" => "job" }, 400),
            (map! { "of" => "grains", "id" => "../x" }, 400),
            (map! { "of" => "jobs", "since" => "yesterday-ish" }, 400),
            (map! { "of" => "drift", "kind" => "weather" }, 404),
            (map! { "of" => "preview", "tgt" => "*", "tgt_type" => "odd" }, 400),
            (map! { "of" => "preview", "tgt" => "*", "fun" => 7 }, 400),
        ] {
            assert_eq!(of(load.clone()).err().map(|refused| refused.status), Some(status), "{load:?}");
        }
    }

    #[test]
    fn each_question_needs_the_right_to_a_function() {
        let behind = |load: Map| of(load).unwrap().behind().map(|(_, fun, _)| fun);
        assert_eq!(behind(map! { "of" => "jobs" }), Some("jobs.list_jobs"));
        assert_eq!(behind(map! { "of" => "returns", "jid" => "20261126160511953300" }), Some("jobs.list_job"));
        assert_eq!(behind(map! { "of" => "minions" }), Some("manage.status"));
        assert_eq!(behind(map! { "of" => "keys" }), Some("key.list_all"));
        assert_eq!(behind(map! { "of" => "grains", "id" => "web1" }), Some("cache.grains"));
        assert_eq!(behind(map! { "of" => "pillar", "id" => "web1" }), Some("cache.pillar"));
        assert_eq!(behind(map! { "of" => "whoami" }), None);
    }

    #[test]
    fn pages_are_bounded() {
        let limit = |limit: Value| match of(map! { "of" => "jobs", "limit" => limit }) {
            Ok(Question::Jobs(filter)) => filter.limit,
            _ => panic!("no question about jobs"),
        };
        assert_eq!([limit(0.into()), limit(i64::MAX.into()), limit("x".into()), limit(7.into())], [1, 1000, 50, 7]);
    }

    #[test]
    fn a_preview_may_have_no_function() {
        let Ok(Question::Preview(job)) = of(map! { "of" => "preview", "tgt" => list!["web1"], "tgt_type" => "list" })
        else {
            panic!("no preview")
        };
        assert!(job.functions.is_empty() && !job.sees_all);
    }
}
