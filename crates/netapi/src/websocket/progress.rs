//! What a client sees with `?format_events`: all jobs and minions that events have told of so far, after each event that changes them.
//!
//! The maps are those of Salt's `rest_cherrypy`. Unlike there, they have bounds, and no job is started to ask new minions for their
//! grains.

use std::collections::{HashMap, HashSet};

use event::Event;
use value::{Map, Value, map};

/// The largest number of jobs. The oldest one goes first.
const MOST_JOBS: usize = 200;

/// The most bytes of returns and of grains, each. Beyond that the oldest jobs go, and the grains of the oldest minions.
const MOST_BYTES: usize = 1 << 20;

/// The jobs and minions so far.
#[derive(Default)]
pub struct Progress {
    jobs: Entries,
    minions: Entries,
}

impl Progress {
    /// Takes an event. Returns what the client is told.
    pub fn take(&mut self, event: &Event) -> Vec<Value> {
        let (data, size) = (event.data(), event.bytes().len());
        let parts: Vec<&str> = event.tag().split('/').collect();
        match parts.as_slice() {
            ["salt", "job", jid, "new", ..] => self.begin(jid, data, size),
            ["salt", "job", jid, "ret", id] => self.end(jid, id, data, size),
            ["salt", "key", ..] => self.decide(data),
            ["salt", "presence", "present"] => self.appear(data),
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, jid: &str, data: &Map, size: usize) -> Vec<Value> {
        let field = |name| data.get(name).cloned().unwrap_or_default();
        let ids = data.get("minions").and_then(Value::as_list).unwrap_or_default();
        let minions: Map = ids.iter().map(|id| (id.clone(), Value::from(map! { "success" => false }))).collect();
        self.jobs.remove(jid);
        *self.jobs.entry(jid, size) = map! {
            "jid" => field("jid"),
            "start_time" => field("_stamp"),
            "minions" => minions,
            "fun" => field("fun"),
            "tgt" => field("tgt"),
            "tgt_type" => field("tgt_type"),
            "state" => "running",
        }
        .into();
        self.jobs.keep(MOST_JOBS, MOST_BYTES);
        let told = vec![self.jobs()];
        // A job that fetches all grains resets the list of minions, as in Salt.
        if data.get_str("fun") == Some("grains.items") {
            self.minions = Entries::default();
        }
        told
    }

    fn end(&mut self, jid: &str, id: &str, data: &Map, size: usize) -> Vec<Value> {
        let field = |name| data.get(name).cloned().unwrap_or_default();
        let Some(job) = self.jobs.entry(jid, size).as_map_mut() else { return Vec::new() };
        let minions = job.entry_or_insert_with("minions", || Map::new().into()).as_map_mut();
        let Some(minions) = minions else { return Vec::new() };
        if let Some(minion) = minions.entry_or_insert_with(id, || Map::new().into()).as_map_mut() {
            for name in ["return", "retcode", "success"] {
                minion.insert(name, field(name));
            }
        }
        if minions.values().all(|minion| minion.get("success").is_some_and(Value::truthy)) {
            job.insert("state", "complete");
        }
        self.jobs.keep(MOST_JOBS, MOST_BYTES);
        let mut told = vec![self.jobs()];
        if data.get_str("fun") == Some("grains.items") {
            self.minions.remove(id);
            *self.minions.entry(id, size) = map! { "grains" => field("return") }.into();
            self.bound_grains();
            told.push(self.minions());
        }
        told
    }

    fn decide(&mut self, data: &Map) -> Vec<Value> {
        let Some(id) = data.get_str("id") else { return Vec::new() };
        match data.get_str("act") {
            Some("delete") => self.minions.remove(id),
            Some("accept") => self.minions.list(id),
            _ => {}
        }
        vec![self.minions()]
    }

    fn appear(&mut self, data: &Map) -> Vec<Value> {
        let present = data.get("present").and_then(Value::as_list).unwrap_or_default();
        let present: Vec<&str> = present.iter().filter_map(Value::as_str).collect();
        let wanted: HashSet<&str> = present.iter().copied().collect();
        let known: Vec<String> = self.minions.entries.text_keys().map(str::to_owned).collect();
        let gone: Vec<&String> = known.iter().filter(|id| !wanted.contains(id.as_str())).collect();
        let come: Vec<&str> = present.into_iter().filter(|id| !self.minions.entries.contains_key(id)).collect();
        if gone.is_empty() && come.is_empty() {
            return Vec::new();
        }
        gone.into_iter().for_each(|id| self.minions.remove(id));
        come.into_iter().for_each(|id| self.minions.list(id));
        vec![self.minions()]
    }

    /// Forgets the grains of the oldest minions, which are still listed.
    fn bound_grains(&mut self) {
        let ids: Vec<String> = self.minions.entries.text_keys().map(str::to_owned).collect();
        for id in ids {
            if self.minions.bytes <= MOST_BYTES {
                return;
            }
            if let Some(minion) = self.minions.entry(&id, 0).as_map_mut() {
                minion.clear();
            }
            self.minions.shrink(&id);
        }
    }

    fn jobs(&self) -> Value {
        map! { "jobs" => self.jobs.entries.clone() }.into()
    }

    fn minions(&self) -> Value {
        let minions = self.minions.entries.iter().map(|(id, fields)| {
            let mut fields = fields.as_map().cloned().unwrap_or_default();
            fields.insert("id", id.clone());
            Value::from(fields)
        });
        map! { "minions" => minions.collect::<Vec<_>>() }.into()
    }
}

/// Maps by name, in the order in which they came, and how many bytes they have.
#[derive(Default)]
struct Entries {
    entries: Map,
    sizes: HashMap<String, usize>,
    bytes: usize,
}

impl Entries {
    /// Returns an entry, which is created if it is missing, and adds `more` bytes to its size.
    fn entry(&mut self, name: &str, more: usize) -> &mut Value {
        *self.sizes.entry(name.to_owned()).or_default() += more;
        self.bytes += more;
        self.entries.entry_or_insert_with(name, || Map::new().into())
    }

    /// Creates an entry if it is missing.
    fn list(&mut self, name: &str) {
        self.entry(name, 0);
    }

    fn remove(&mut self, name: &str) {
        self.entries.remove(name);
        self.bytes -= self.sizes.remove(name).unwrap_or_default();
    }

    /// Notes that an entry has no bytes any more.
    fn shrink(&mut self, name: &str) {
        if let Some(size) = self.sizes.get_mut(name) {
            self.bytes -= std::mem::take(size);
        }
    }

    /// Removes the oldest entries beyond these bounds.
    fn keep(&mut self, most: usize, most_bytes: usize) {
        while self.entries.len() > most || (self.bytes > most_bytes && self.entries.len() > 1) {
            let Some(oldest) = self.entries.text_keys().next().map(str::to_owned) else { return };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use value::list;

    use super::*;
    use crate::pack;

    fn told(progress: &mut Progress, tag: &str, data: Map) -> Vec<String> {
        let event = Event::new(tag, data, 1 << 24).unwrap();
        progress.take(&event).iter().map(|value| pack::json(value).unwrap()).collect()
    }

    fn began(jid: &str, fun: &str) -> Map {
        map! { "jid" => jid, "_stamp" => "2026-11-26T12:00:00", "fun" => fun, "tgt" => "*", "tgt_type" => "glob",
        "minions" => list!["a", "b"] }
    }

    fn returned(fun: &str, value: impl Into<Value>) -> Map {
        map! { "fun" => fun, "return" => value.into(), "retcode" => 0, "success" => true }
    }

    #[test]
    fn a_job_is_complete_when_all_its_minions_are() {
        let mut progress = Progress::default();
        assert_eq!(
            told(&mut progress, "salt/job/1/new", began("1", "test.ping")),
            [
                r#"{"jobs": {"1": {"jid": "1", "start_time": "2026-11-26T12:00:00", "minions": {"a": {"success": false}, "b": {"success": false}}, "fun": "test.ping", "tgt": "*", "tgt_type": "glob", "state": "running"}}}"#
            ]
        );
        let first = told(&mut progress, "salt/job/1/ret/a", returned("test.ping", true));
        assert!(first[0].contains(r#""a": {"success": true, "return": true, "retcode": 0}"#), "{first:?}");
        assert!(first[0].contains(r#""state": "running""#), "{first:?}");
        let last = told(&mut progress, "salt/job/1/ret/b", returned("test.ping", true));
        assert!(last[0].contains(r#""state": "complete""#), "{last:?}");
        // A job of which only a return was seen.
        let other = told(&mut progress, "salt/job/2/ret/a", returned("test.ping", 1));
        assert!(
            other[0].ends_with(
                r#""2": {"minions": {"a": {"return": 1, "retcode": 0, "success": true}}, "state": "complete"}}}"#
            ),
            "{other:?}"
        );
    }

    #[test]
    fn minions_come_and_go() {
        let mut progress = Progress::default();
        let mut key = |act: &str| told(&mut progress, "salt/key", map! { "act" => act, "id" => "a", "result" => true });
        assert_eq!(key("accept"), [r#"{"minions": [{"id": "a"}]}"#]);
        assert_eq!(key("delete"), [r#"{"minions": []}"#]);
        let grains = told(&mut progress, "salt/job/1/ret/a", returned("grains.items", map! { "os" => "Debian" }));
        assert_eq!(grains[1], r#"{"minions": [{"grains": {"os": "Debian"}, "id": "a"}]}"#);
        let present = |ids: Value| map! { "present" => ids };
        let seen = told(&mut progress, "salt/presence/present", present(list!["b"]));
        assert_eq!(seen, [r#"{"minions": [{"id": "b"}]}"#]);
        assert!(told(&mut progress, "salt/presence/present", present(list!["b"])).is_empty());
        told(&mut progress, "salt/job/2/new", began("2", "grains.items"));
        let asked = told(&mut progress, "salt/key", map! { "act" => "pend", "id" => "c" });
        assert_eq!(asked, [r#"{"minions": []}"#]);
        assert!(told(&mut progress, "minion_start", Map::new()).is_empty());
    }

    #[test]
    fn what_is_kept_has_bounds() {
        let mut progress = Progress::default();
        for number in 0..MOST_JOBS + 3 {
            told(&mut progress, &format!("salt/job/{number}/new"), began(&number.to_string(), "test.ping"));
        }
        assert_eq!(progress.jobs.entries.len(), MOST_JOBS);
        assert!(!progress.jobs.entries.contains_key("2") && progress.jobs.entries.contains_key("3"));
        let large = "x".repeat(MOST_BYTES / 4);
        for number in 0..9 {
            let id = format!("m{number}");
            told(&mut progress, &format!("salt/job/g{number}/ret/{id}"), returned("grains.items", large.as_str()));
        }
        assert!(progress.jobs.bytes <= MOST_BYTES && progress.minions.bytes <= MOST_BYTES);
        assert_eq!(progress.minions.entries.len(), 9, "all are listed");
        let with_grains = progress.minions.entries.values().filter(|minion| minion.get("grains").is_some()).count();
        assert_eq!(with_grains, 3);
    }
}
