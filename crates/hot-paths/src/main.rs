//! The paths every job and every return goes through, each so many times: `saltern-hot-paths PATH TIMES`.
//!
//! `cargo xtask instructions` runs this under valgrind, twice for each path with different times, so that what a start costs
//! falls out. Everything is made from fixed numbers: the same program does the same each time.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use client::gather::{Gather, Patience};
use crypto::{Crypticle, HashType, KeyString};
use store::jobs::{EMBEDDED, FILES, JobCache, JobReturn, Stored};
use targeting::{Checker, DEFAULT_DELIMITER, MinionData, TargetType};
use value::{Map, Value, list, map};
use wire::MinionId;
use wire::msgpack::{Decode, Packing, pack, unpack};

const JID: &str = "20240229131415678901";

/// All paths, by name; each gets how many times it is to be gone.
const PATHS: [(&str, fn(usize)); 8] = [
    ("decode_return", decode_return),
    ("gather_return", gather_return),
    ("match_glob", match_glob),
    ("match_grain", match_grain),
    ("open_return", open_return),
    ("seal_publication", seal_publication),
    ("store_return_embedded", store_return_embedded),
    ("store_return_files", store_return_files),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let found = match arguments.as_slice() {
        [name, times] => PATHS.iter().find(|(known, _)| known == name).zip(times.parse().ok()),
        _ => None,
    };
    let Some(((_, path), times)) = found else {
        for (name, _) in PATHS {
            println!("{name}");
        }
        return if arguments.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    };
    path(times);
    ExitCode::SUCCESS
}

fn id(number: usize) -> String {
    format!("web{number:05}.example.com")
}

/// What a minion sends back after a run of twenty states: about ten kilobytes.
fn returned(number: usize) -> Map {
    let state = |place: usize| {
        let chunk = map! {
            "__id__" => format!("file_{place}"), "name" => format!("/etc/app/{place}.conf"), "result" => true,
            "comment" => format!("File /etc/app/{place}.conf is in the correct state"), "changes" => Map::new(),
            "__run_num__" => place, "__sls__" => "app.config", "start_time" => "13:14:15.678901", "duration" => 1.25,
            "text" => "x".repeat(200),
        };
        (format!("file_|-file_{place}_|-/etc/app/{place}.conf_|-managed"), chunk)
    };
    let states: Map = (0..20).map(state).collect();
    map! {
        "cmd" => "_return", "id" => id(number), "jid" => JID, "fun" => "state.highstate", "fun_args" => list![],
        "retcode" => 0, "success" => true, "return" => states, "out" => "highstate",
    }
}

fn key() -> Crypticle {
    let key = KeyString::from_random([7; _]);
    Crypticle::new(&key).expect("a key of this length is a key")
}

fn decode_return(times: usize) {
    let packed = pack(&returned(1).into(), Packing::Wire);
    for _ in 0..times {
        assert!(unpack(&packed, Decode::Default).is_ok());
    }
}

fn open_return(times: usize) {
    let key = key();
    let sealed = key.seal_with_iv(&returned(1).into(), None, [1; _]);
    for _ in 0..times {
        assert!(key.open(&sealed, None, Decode::Default).is_ok());
    }
}

fn seal_publication(times: usize) {
    let key = key();
    let load: Value = map! {
        "fun" => "state.apply", "arg" => list!["app.config"], "tgt" => "web*", "jid" => JID, "ret" => "",
        "tgt_type" => "glob", "user" => "root",
    }
    .into();
    for _ in 0..times {
        assert!(!key.seal_with_iv(&load, None, [1; _]).is_empty());
    }
}

/// A thousand minions with thirty grains each.
struct Known(BTreeMap<String, Arc<Map>>);

impl Known {
    fn new() -> Self {
        let grains = |number: usize| {
            let mut grains: Map = (0..27).map(|place| (format!("grain{place}"), format!("value {place}"))).collect();
            grains.insert("os", if number.is_multiple_of(3) { "Debian" } else { "RedHat" });
            grains.insert("roles", list!["web", "cache"]);
            grains.insert("ipv4", list!["127.0.0.1", format!("10.0.{}.{}", number / 250, number % 250)]);
            (id(number), Arc::new(grains))
        };
        Known((0..1000).map(grains).collect())
    }

    fn matches(&self, target: &str, kind: TargetType) -> usize {
        let checker = Checker { minions: self, nodegroups: &Map::new(), data_cache: true };
        let expected = checker.expect(&target.into(), kind, DEFAULT_DELIMITER);
        expected.expect("the target can be read").minions.len()
    }
}

impl MinionData for Known {
    fn accepted(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn cached(&self) -> Vec<String> {
        self.accepted()
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        self.0.get(id).cloned()
    }

    fn pillar(&self, _: &str) -> Option<Arc<Map>> {
        None
    }
}

fn match_glob(times: usize) {
    let known = Known::new();
    for _ in 0..times {
        assert_eq!(known.matches("web00?[0-4]*", TargetType::Glob), 500);
    }
}

fn match_grain(times: usize) {
    let known = Known::new();
    for _ in 0..times {
        assert_eq!(known.matches("os:Debian", TargetType::Grain), 334);
    }
}

fn store_return_embedded(times: usize) {
    store_returns(times, EMBEDDED);
}

fn store_return_files(times: usize) {
    store_returns(times, FILES);
}

fn store_returns(times: usize, option: &str) {
    let directory = std::env::temp_dir().join(format!("saltern-hot-paths-{}", std::process::id()));
    {
        let jobs = JobCache::of_master(&directory, HashType::Sha256, option);
        jobs.prepare(JID, false).expect("the job can be made");
        let returned = JobReturn::from_load(&returned(1));
        for number in 0..times {
            let id = MinionId::new(id(number)).expect("it is an id");
            assert_eq!(jobs.store_return(JID, &id, &returned).ok(), Some(Stored::New));
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
}

/// What `salt` does with each return of a job of two thousand.
fn gather_return(times: usize) {
    let patience = Patience { timeout: Duration::from_secs(5), gather: Duration::from_secs(10), syndics: None };
    let mut gather = Gather::new(JID, (0..2000).map(id), patience, Duration::ZERO);
    let data = map! { "return" => true, "retcode" => 0, "success" => true, "jid" => JID, "fun" => "test.ping" };
    for number in 0..times.min(1999) {
        let id = id(number);
        let tag = format!("salt/job/{JID}/ret/{id}");
        let mut data = data.clone();
        data.insert("id", id);
        assert_eq!(gather.event(&tag, &data, Duration::from_secs(1)).len(), 1);
    }
}
