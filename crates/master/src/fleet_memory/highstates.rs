//! The last highstate of each minion, from the events of its returns. Those from before the start of the master are read from the
//! job cache when somebody asks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use store::jobs::JobCache;
use value::{Map, Value, map};
use wire::{Jid, MinionId};

use super::rfc3339;

/// The most minions.
const MOST: usize = 100_000;

/// How many of the latest jobs are looked at for highstates from before the start, and how many such jobs are remembered.
const LOOKED_AT: usize = 500;
const MOST_EARLIER: usize = 50;

/// The last highstates by minion.
#[derive(Default)]
pub struct Highstates {
    last: Mutex<HashMap<Box<str>, Highstate>>,
    /// The jobs from before the start that were highstates, the latest first.
    earlier: OnceLock<Vec<Box<str>>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Highstate {
    jid: Box<str>,
    time: SystemTime,
    total: usize,
    failed: usize,
    changed: usize,
}

impl Highstates {
    fn all(&self) -> MutexGuard<'_, HashMap<Box<str>, Highstate>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a return, if it is that of a highstate that was no test.
    pub fn note(&self, id: &str, jid: &str, data: &Map, time: SystemTime) {
        if !is_highstate(data) {
            return;
        }
        let Some(highstate) = Highstate::of(jid, time, data.get("return")) else { return };
        let mut all = self.all();
        make_room(&mut all, id);
        all.insert(id.into(), highstate);
    }

    /// Reads the last highstates of minions from the job cache, of whom none has returned one since the master has started.
    ///
    /// # Errors
    /// When the job cache cannot be read.
    pub fn recall<'a>(&self, ids: impl IntoIterator<Item = &'a MinionId>, jobs: &JobCache) -> store::Result<()> {
        let unknown: Vec<&MinionId> = {
            let all = self.all();
            ids.into_iter().filter(|id| !all.contains_key(id.as_str())).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let earlier = match self.earlier.get() {
            Some(earlier) => earlier,
            None => {
                let found = earlier_highstates(jobs)?;
                self.earlier.get_or_init(|| found)
            }
        };
        for id in unknown {
            for jid in earlier {
                let Some(returned) = jobs.return_of(jid, id)? else { continue };
                let time = Jid::new(&**jid).ok().and_then(|jid| jid.time()).unwrap_or(SystemTime::UNIX_EPOCH);
                if let Some(highstate) = Highstate::of(jid, time, Some(&returned.value)) {
                    let mut all = self.all();
                    make_room(&mut all, id.as_str());
                    // A later one may have come meanwhile.
                    all.entry(id.as_str().into()).or_insert(highstate);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the last one of a minion.
    pub fn of(&self, id: &str) -> Option<Map> {
        let all = self.all();
        let last = all.get(id)?;
        Some(map! {
            "jid" => &*last.jid, "time" => rfc3339(last.time), "total" => last.total, "failed" => last.failed,
            "changed" => last.changed,
        })
    }
}

impl Highstate {
    fn of(jid: &str, time: SystemTime, returned: Option<&Value>) -> Option<Self> {
        let (total, failed, changed) = summed(returned)?;
        Some(Highstate { jid: jid.into(), time, total, failed, changed })
    }
}

fn make_room(all: &mut HashMap<Box<str>, Highstate>, id: &str) {
    if all.len() >= MOST && !all.contains_key(id) {
        // Ids without a key are never shown, and the others come again.
        all.clear();
    }
}

/// Returns which of the latest jobs were highstates, the latest first.
fn earlier_highstates(jobs: &JobCache) -> store::Result<Vec<Box<str>>> {
    let mut ids = jobs.ids()?;
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let mut found = Vec::new();
    for jid in ids.into_iter().take(LOOKED_AT) {
        let Some(mut head) = jobs.head(&jid)? else { continue };
        let arguments = head.remove("arg").unwrap_or_default();
        head.insert("fun_args", arguments);
        if is_highstate(&head) {
            found.push(jid.into_boxed_str());
        }
        if found.len() == MOST_EARLIER {
            break;
        }
    }
    Ok(found)
}

/// Returns whether a return is that of a whole highstate: `state.apply` with names of states is none.
fn is_highstate(data: &Map) -> bool {
    let arguments = data.get("fun_args").and_then(Value::as_list).unwrap_or_default();
    // As the minion tells them, keywords are maps or texts with an equals sign.
    let keyword = |argument: &Value| match argument {
        Value::Map(_) => true,
        Value::Str(text) => text.contains('='),
        _ => false,
    };
    let is_test = |argument: &Value| match argument {
        Value::Map(map) => map.get("test").is_some_and(Value::truthy),
        Value::Str(text) => text.strip_prefix("test=").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        _ => false,
    };
    let whole = match data.get_str("fun") {
        Some("state.highstate") => true,
        Some("state.apply") => arguments.iter().all(keyword),
        _ => false,
    };
    whole && !arguments.iter().any(is_test)
}

/// Returns how many states there were, have failed, and have changed something. A list of errors is one that has failed.
fn summed(returned: Option<&Value>) -> Option<(usize, usize, usize)> {
    match returned? {
        Value::Map(states) => {
            let failed = |state: &&Value| state.get("result").and_then(Value::as_bool) == Some(false);
            let changed = |state: &&Value| state.get("changes").is_some_and(Value::truthy);
            let states: Vec<&Value> = states.iter().map(|(_, state)| state).collect();
            let count = |is: &dyn Fn(&&Value) -> bool| states.iter().filter(|state| is(state)).count();
            Some((states.len(), count(&failed), count(&changed)))
        }
        Value::List(_) => Some((0, 1, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use store::jobs::JobReturn;
    use value::list;

    use super::*;

    #[test]
    fn only_whole_highstates_count() {
        let is = |fun: &str, arguments: Value| is_highstate(&map! { "fun" => fun, "fun_args" => arguments });
        assert!(is("state.highstate", list![]) && is("state.apply", list![]));
        assert!(is("state.apply", list!["saltenv=dev"]) && is("state.apply", list![map! { "pillar" => map! {} }]));
        for (fun, arguments) in [
            ("state.apply", list!["web"]),
            ("state.sls", list![]),
            ("test.ping", list![]),
            ("state.highstate", list!["test=True"]),
            ("state.apply", list![map! { "test" => true }]),
        ] {
            assert!(!is(fun, arguments.clone()), "{fun} {arguments}");
        }
    }

    #[test]
    fn the_last_one_is_shown() {
        let highstates = Highstates::default();
        let states = map! {
            "a" => map! { "result" => true, "changes" => map! { "x" => 1 } },
            "b" => map! { "result" => false, "changes" => map! {} },
            "c" => map! { "result" => true, "changes" => map! {} },
        };
        let data = map! { "fun" => "state.apply", "fun_args" => list![], "return" => states };
        highstates.note("web1", "20261126160511953300", &data, SystemTime::UNIX_EPOCH);
        let last = highstates.of("web1").unwrap();
        assert_eq!(last.get_str("jid"), Some("20261126160511953300"));
        let numbers = ["total", "failed", "changed"].map(|name| last.get(name).and_then(Value::as_i64));
        assert_eq!(numbers, [Some(3), Some(1), Some(1)]);
        assert_eq!(highstates.of("web2"), None);
        assert_eq!(summed(Some(&list!["Rendering SLS failed"])), Some((0, 1, 0)));
        assert_eq!(summed(Some(&"text".into())), None);
    }

    #[test]
    fn those_from_before_the_start_are_in_the_job_cache() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = JobCache::new(dir.path(), crypto::HashType::Sha256);
        let [web1, web2] = ["web1", "web2"].map(|id| MinionId::new(id).unwrap());
        let ids = ["20261126160511953303", "20261126160511953302", "20261126160511953301", "20261126160511953300"];
        let jobs_of = ids.iter().zip(["test.ping", "state.highstate", "state.sls", "state.apply"]);
        for (number, (jid, fun)) in jobs_of.enumerate() {
            jobs.prepare(jid, false).unwrap();
            jobs.save_load(jid, &map! { "jid" => *jid, "fun" => fun, "arg" => list![], "tgt" => "*" }).unwrap();
            let states: Map = (0..=number).map(|state| (state.to_string(), map! { "result" => true })).collect();
            let returned = JobReturn::from_load(&map! { "return" => states });
            jobs.store_return(jid, &web1, &returned).unwrap();
        }
        let highstates = Highstates::default();
        highstates.recall([&web1, &web2], &jobs).unwrap();
        let last = highstates.of("web1").unwrap();
        assert_eq!((last.get_str("jid"), last.get("total")), (Some(ids[1]), Some(&2.into())));
        assert_eq!(last.get_str("time"), Some("2026-11-26T16:05:11.953302Z"));
        assert_eq!(highstates.of("web2"), None);
        // What has come since then is newer.
        let data = map! { "fun" => "state.highstate", "fun_args" => list![], "return" => list!["failed"] };
        highstates.note("web1", "20261126170000000000", &data, SystemTime::UNIX_EPOCH);
        highstates.recall([&web1], &jobs).unwrap();
        assert_eq!(highstates.of("web1").unwrap().get_str("jid"), Some("20261126170000000000"));
    }
}
