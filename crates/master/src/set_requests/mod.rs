//! What programs on this host ask and tell a master that shares, as the runner `saltern` does.
//!
//! `sharing` answers. The types are here, below it, so that requests and the master's state need not know how it shares.

mod filter;
mod settlement;
pub mod times;

use std::time::SystemTime;

use share::drift::Kind;
use tokio::sync::{mpsc, oneshot};
use value::{Map, Value};
use wire::MinionId;

pub use filter::DecisionFilter;
pub use settlement::Settlement;
pub use times::Reader;

/// How many questions may wait.
const QUEUE: usize = 64;

/// What a program asks or tells the master.
pub enum SetRequest {
    /// The members and what they have in common.
    Masters(Reader),
    /// Keys about which members decided differently.
    Conflicts,
    /// Decisions about keys and members.
    Decisions(DecisionFilter),
    /// Decides about a key over all that members decided.
    Settle(Settlement),
    /// Decides over the decisions of a member, or shows what that would do.
    Undo { filter: DecisionFilter, user: Option<String> },
    /// A user is about to change the files of keys.
    Announce { ids: Vec<MinionId>, user: String },
    /// Key files have been changed, or `deleted`: the answer says what could not be stored.
    Confirm { ids: Vec<MinionId>, deleted: bool },
    /// The files of tokens have been changed.
    TokensChanged,
    /// A program has changed what the data cache says of these minions. The answer is how many parts were looked at.
    DataChanged(Vec<MinionId>),
    /// Masters that wait to be accepted.
    Waiting,
    /// The masters that a minion is connected to.
    Who(String),
    /// All minions that are connected to any member.
    Connected,
    /// What the set does once, and which of it this master does.
    Leases,
    /// Forgets the list of voters whose majority is gone for good, or shows what that would do.
    ForgetVoters { user: Option<String> },
    /// What differs between members that must be alike: in one kind, or at all. All files are looked at for the answer.
    Drift(Option<Kind>),
    /// Which kinds differ by the digests that are known, for a program.
    DriftOverview,
    /// Somebody wants to run what the set does once under a name, if no master began it `within` this many milliseconds.
    BeginOnce { name: String, within: u64 },
    /// Whether such a run, which has this fence, may go on.
    GoOnOnce { name: String, fence: u64 },
    /// Such a run has ended.
    EndOnce { name: String, fence: u64 },
    /// A master that waits becomes a member.
    Accept { name: Option<String>, fingerprint: Option<String>, user: String },
    /// A member leaves the set for good.
    Remove { name: String, user: String },
    /// Lost key files are written again.
    RestoreKeys,
    /// Lost key files are deletions.
    AdoptKeys,
}

impl SetRequest {
    /// Reads a request.
    pub fn of(load: &Map, user: &str, now: SystemTime) -> Result<SetRequest, String> {
        let text = |name: &str| load.get(name).filter(|value| **value != Value::Null).map(Value::to_string);
        let needed = |name: &'static str| text(name).ok_or_else(|| format!("{name} is missing"));
        // Runners and wheel functions decide for the user who called them.
        let user = || text("for").filter(|user| !user.is_empty()).unwrap_or_else(|| user.to_owned());
        match load.get_str("what").unwrap_or_default() {
            "masters" => Ok(SetRequest::Masters(Reader::Person)),
            "conflicts" => Ok(SetRequest::Conflicts),
            "decisions" => DecisionFilter::of(load, now).map(SetRequest::Decisions),
            "settle" => {
                let (id, state) = (needed("name")?, needed("state")?);
                Settlement::new(&id, &state, text("fingerprint"), user()).map(SetRequest::Settle)
            }
            "undo" => {
                let filter = DecisionFilter::of(load, now)?;
                match filter.by.is_some() && filter.since.is_some() {
                    true => Ok(SetRequest::Undo { filter, user: confirmed(load)?.then(user) }),
                    false => Err("by and since are needed: whose decisions, and from when on".to_owned()),
                }
            }
            "announce" => Ok(SetRequest::Announce { ids: ids(load), user: user() }),
            "confirm" => Ok(SetRequest::Confirm { ids: ids(load), deleted: load.get("deleted") == Some(&true.into()) }),
            "tokens_changed" => Ok(SetRequest::TokensChanged),
            "data_changed" => Ok(SetRequest::DataChanged(ids(load))),
            "waiting" => Ok(SetRequest::Waiting),
            "who" => Ok(SetRequest::Who(needed("minion")?)),
            "connected" => Ok(SetRequest::Connected),
            "leases" => Ok(SetRequest::Leases),
            "forget_voters" => Ok(SetRequest::ForgetVoters { user: confirmed(load)?.then(user) }),
            "drift" => text("kind").map(|kind| drift_kind(&kind)).transpose().map(SetRequest::Drift),
            "begin_once" => Ok(SetRequest::BeginOnce { name: needed("name")?, within: within(load)? }),
            "go_on_once" => Ok(SetRequest::GoOnOnce { name: needed("name")?, fence: fence(load)? }),
            "end_once" => Ok(SetRequest::EndOnce { name: needed("name")?, fence: fence(load)? }),
            "accept" => {
                let (name, fingerprint) = (text("name"), text("fingerprint"));
                Ok(SetRequest::Accept { name, fingerprint, user: user() })
            }
            "remove" => Ok(SetRequest::Remove { name: needed("name")?, user: user() }),
            "restore_keys" => Ok(SetRequest::RestoreKeys),
            "adopt_keys" => Ok(SetRequest::AdoptKeys),
            other => Err(format!("this master does not know the question {other:?}")),
        }
    }
}

fn drift_kind(name: &str) -> Result<Kind, String> {
    Kind::from_name(name).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        format!("unknown kind {name}; the kinds are {known}")
    })
}

fn ids(load: &Map) -> Vec<MinionId> {
    let ids = load.get("ids").and_then(Value::as_list).unwrap_or_default().iter();
    ids.filter_map(|id| MinionId::new(id.as_str()?).ok()).collect()
}

/// Runs of one occasion are told from those of the next by the time between them, in milliseconds.
fn within(load: &Map) -> Result<u64, String> {
    let seconds = match load.get("within") {
        None | Some(Value::Null) => Some(60.0),
        Some(given) => given.as_f64(),
    };
    let seconds = seconds.filter(|seconds| (60.0..=86_400.0).contains(seconds));
    seconds.map(|seconds| (seconds * 1_000.0) as u64).ok_or_else(|| "within must be 60 to 86400 seconds".to_owned())
}

fn fence(load: &Map) -> Result<u64, String> {
    let fence = load.get("fence").and_then(Value::as_i64).and_then(|fence| u64::try_from(fence).ok());
    fence.ok_or_else(|| "fence is missing".to_owned())
}

/// Returns whether `yes` is true. Words that are neither true nor false, such as `no` in quotes, confirm nothing.
fn confirmed(load: &Map) -> Result<bool, String> {
    match load.get("yes") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(yes)) => Ok(*yes),
        Some(other) => Err(format!("yes={other} is neither True nor False")),
    }
}

/// A question with the place for its answer.
pub type SetQuestion = (SetRequest, oneshot::Sender<Result<Value, String>>);

/// Takes questions to the part of the master that shares.
#[derive(Clone)]
pub struct SetHandle(mpsc::Sender<SetQuestion>);

impl SetHandle {
    /// Returns a handle, and where its questions arrive.
    pub fn channel() -> (SetHandle, mpsc::Receiver<SetQuestion>) {
        let (sender, questions) = mpsc::channel(QUEUE);
        (SetHandle(sender), questions)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The reason in words, if the request is refused or the master shares nothing at the moment.
    pub async fn ask(&self, request: SetRequest) -> Result<Value, String> {
        let (tell, answer) = oneshot::channel();
        let stopped = || "this master shares nothing at the moment: see its log".to_owned();
        self.0.send((request, tell)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use value::map;

    use super::*;

    #[test]
    fn the_credential_of_who_asks_is_not_the_key_that_is_asked_about() {
        let about = |load: Map| match SetRequest::of(&load, "root", UNIX_EPOCH) {
            Ok(SetRequest::Decisions(filter)) => filter.about,
            _ => panic!("no question about decisions"),
        };
        assert_eq!(about(map! { "what" => "decisions", "key" => "credential" }), None);
        let load = map! { "what" => "decisions", "key" => "credential", "about" => "web1" };
        assert_eq!(about(load).as_deref(), Some("web1"));
    }

    #[test]
    fn who_decides_is_who_called_the_runner() {
        let by = |load: Map| match SetRequest::of(&load, "root", UNIX_EPOCH) {
            Ok(SetRequest::Remove { user, .. }) => user,
            _ => panic!("no removal"),
        };
        let asked = map! { "what" => "remove", "name" => "m2" };
        assert_eq!(by(asked.clone()), "root");
        let of_runner = |user: &str| {
            let mut of_runner = asked.clone();
            of_runner.insert("for", user);
            of_runner
        };
        assert_eq!((by(of_runner("fred")).as_str(), by(of_runner("")).as_str()), ("fred", "root"));
    }

    #[test]
    fn decisions_are_undone_only_with_yes_and_never_all_of_them() {
        let undo = |load: Map| SetRequest::of(&load, "root", UNIX_EPOCH);
        let asked = map! { "what" => "undo", "by" => "m2", "since" => "1h" };
        assert!(matches!(undo(asked.clone()), Ok(SetRequest::Undo { user: None, .. })));
        let sure = {
            let mut sure = asked;
            sure.insert("yes", true);
            sure
        };
        assert!(matches!(undo(sure), Ok(SetRequest::Undo { user: Some(_), .. })));
        for word in ["no", "n", "maybe", ""] {
            let unsure = map! { "what" => "undo", "by" => "m2", "since" => "1h", "yes" => word };
            assert!(undo(unsure).is_err_and(|reason| reason.contains("neither True nor False")), "{word}");
        }
        for missing in [map! { "what" => "undo", "by" => "m2" }, map! { "what" => "undo", "since" => "1h" }] {
            assert!(undo(missing).is_err_and(|reason| reason.contains("by and since")));
        }
    }
}
