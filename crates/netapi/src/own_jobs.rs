//! Which jobs users have started here.
//!
//! The events of a job name its user, but not with which backend the user has logged in: `root` of one backend may be
//! somebody else than `root` of this host. So a job counts as a user's own only if this program has started it for them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use value::{Map, Value};

use crate::lanes;

/// The number of jobs of each user that are remembered, of users, and of tokens.
const MOST_JOBS: usize = 1000;
const MOST_USERS: usize = 1000;
const MOST_TOKENS: usize = 10_000;

/// A user of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user.
    pub user: String,
    /// The backend.
    pub backend: String,
}

/// The jobs of all users.
pub struct OwnJobs {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    tokens: HashMap<String, Owner>,
    owners: HashMap<String, Owner>,
    /// The jobs of each user, the latest last.
    jobs: HashMap<Owner, VecDeque<String>>,
    /// The number of requests under way that may start a job.
    starting: HashMap<Owner, usize>,
}

/// What is known about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The user has started it.
    Own,
    /// A request of the user is under way, and may have started it.
    Unknown,
    /// Somebody else has started it.
    Other,
}

/// A request under way that may start a job.
pub struct Starting<'a> {
    jobs: &'a OwnJobs,
    owner: Owner,
}

impl OwnJobs {
    /// Creates an empty list.
    pub fn new() -> Self {
        OwnJobs { state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// Returns a receiver that notices when a request has ended.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Learns whose token it is, from its content.
    pub fn learn(&self, token: &Map) {
        let text = |name| token.get_str(name).map(str::to_owned);
        if let (Some(id), Some(user), Some(backend)) = (text("token"), text("name"), text("eauth")) {
            let mut state = self.state();
            if state.tokens.len() >= MOST_TOKENS {
                // The master is asked about a token that is not here.
                state.tokens.clear();
            }
            state.tokens.insert(id, Owner { user, backend });
        }
    }

    /// Returns the token of a request if it may start a job and nobody knows whose it is.
    pub fn unknown_token(&self, load: &Map) -> Option<String> {
        let token = proof(load)?.get_str("token")?;
        (!self.state().tokens.contains_key(token)).then(|| token.to_owned())
    }

    /// Notes that a request is under way. Returns `None` if it cannot start a job of a known user.
    pub fn start(&self, load: &Map) -> Option<Starting<'_>> {
        let proof = proof(load)?;
        let mut state = self.state();
        let owner = match proof.get_str("token") {
            Some(token) => state.tokens.get(token)?.clone(),
            None => {
                let login = lanes::login(load)?;
                Owner { user: login.get_str("username")?.to_owned(), backend: login.get_str("eauth")?.to_owned() }
            }
        };
        *state.starting.entry(owner.clone()).or_default() += 1;
        Some(Starting { jobs: self, owner })
    }

    /// Returns whose job it is, for a user.
    pub fn whose(&self, jid: &str, user: &Owner) -> Whose {
        let state = self.state();
        match state.owners.get(jid) {
            Some(owner) if owner == user => Whose::Own,
            Some(_) => Whose::Other,
            None if state.starting.contains_key(user) => Whose::Unknown,
            None => Whose::Other,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete or has not happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Starting<'_> {
    /// Notes the job that an answer of the master names. An answer that names none has started none.
    pub fn answered(&self, answer: &Value) {
        let jid = ["jid", "load:jid", "data:jid"].into_iter().find_map(|path| answer.traverse(path, ":")?.as_str());
        let Some(jid) = jid.filter(|jid| !jid.is_empty()) else { return };
        let mut state = self.jobs.state();
        // All parts of a job in batches have one id. A job id that somebody else uses again does not make their job another's.
        if state.owners.contains_key(jid) {
            return;
        }
        if state.jobs.len() >= MOST_USERS && !state.jobs.contains_key(&self.owner) {
            // They see no more of their jobs of now; those that they start later they see.
            state.jobs.clear();
            state.owners.clear();
        }
        let own = state.jobs.entry(self.owner.clone()).or_default();
        own.push_back(jid.to_owned());
        let oldest = if own.len() > MOST_JOBS { own.pop_front() } else { None };
        if let Some(oldest) = oldest {
            state.owners.remove(&oldest);
        }
        state.owners.insert(jid.to_owned(), self.owner.clone());
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let mut state = self.jobs.state();
        if let Some(count) = state.starting.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                state.starting.remove(&self.owner);
            }
        }
        drop(state);
        self.jobs.changed.send_replace(());
    }
}

/// Returns the fields that prove who sends a request that may start a job.
fn proof(load: &Map) -> Option<&Map> {
    match load.get_str("cmd")? {
        "publish" => load.get("kwargs")?.as_map(),
        "runner" | "wheel" => Some(load),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use value::map;

    use super::*;

    fn owner(user: &str, backend: &str) -> Owner {
        Owner { user: user.into(), backend: backend.into() }
    }

    #[test]
    fn a_job_belongs_to_the_user_of_the_backend_that_started_it() {
        let jobs = OwnJobs::new();
        let (pam, file) = (owner("root", "pam"), owner("root", "file"));
        jobs.learn(&map! { "token" => "aa", "name" => "root", "eauth" => "pam" });
        let publish = map! { "cmd" => "publish", "kwargs" => map! { "token" => "aa" } };
        assert_eq!(jobs.unknown_token(&publish), None);
        let starting = jobs.start(&publish).unwrap();
        assert_eq!((jobs.whose("1", &pam), jobs.whose("1", &file)), (Whose::Unknown, Whose::Other));
        starting.answered(&map! { "enc" => "clear", "load" => map! { "jid" => "1" } }.into());
        drop(starting);
        assert_eq!((jobs.whose("1", &pam), jobs.whose("1", &file)), (Whose::Own, Whose::Other));
        assert_eq!(jobs.whose("2", &pam), Whose::Other);
        let runner = map! { "cmd" => "runner", "eauth" => "file", "username" => "root" };
        let starting = jobs.start(&runner).unwrap();
        starting.answered(&map! { "error" => map! { "name" => "EauthAuthenticationError" } }.into());
        starting.answered(&map! { "tag" => "salt/run/3", "jid" => "3" }.into());
        assert_eq!((jobs.whose("3", &pam), jobs.whose("3", &file)), (Whose::Other, Whose::Own));
        // Whoever names the id of another's job does not get to see its events.
        let starting = jobs.start(&publish).unwrap();
        starting.answered(&map! { "load" => map! { "jid" => "3" } }.into());
        drop(starting);
        assert_eq!((jobs.whose("3", &pam), jobs.whose("3", &file)), (Whose::Other, Whose::Own));
        let unknown = map! { "cmd" => "wheel", "token" => "bb" };
        assert!(jobs.start(&unknown).is_none());
        assert_eq!(jobs.unknown_token(&unknown).as_deref(), Some("bb"));
    }

    #[test]
    fn the_list_is_bounded() {
        let jobs = OwnJobs::new();
        let load = map! { "cmd" => "runner", "eauth" => "file", "username" => "ann" };
        let starting = jobs.start(&load).unwrap();
        for number in 0..=MOST_JOBS {
            starting.answered(&map! { "jid" => number.to_string() }.into());
        }
        drop(starting);
        let ann = owner("ann", "file");
        assert_eq!((jobs.whose("0", &ann), jobs.whose("1", &ann)), (Whose::Other, Whose::Own));
        assert_eq!(jobs.state().owners.len(), MOST_JOBS);
        assert!(jobs.state().starting.is_empty());
    }
}
