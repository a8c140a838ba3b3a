//! The contract of a job store: each test runs on all of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crypto::HashType;
use value::{Value, list, map};
use wire::MinionId;

use super::embedded::Embedded;
use super::*;

struct Fixture {
    name: &'static str,
    dir: tempfile::TempDir,
    jobs: JobCache,
    flush: Option<Arc<Embedded>>,
}

/// Salt's layout; the single file with everything in its journal; the same with everything in the database.
fn fixtures() -> Vec<Fixture> {
    let make = |name, option, settles: bool| {
        let dir = tempfile::tempdir().unwrap();
        let jobs = JobCache::of_master(dir.path(), HashType::Sha256, option);
        let flush = settles.then(|| jobs.embedded().unwrap().unwrap().clone());
        Fixture { name, dir, jobs, flush }
    };
    vec![make("files", FILES, false), make("journal", EMBEDDED, false), make("database", EMBEDDED, true)]
}

impl Fixture {
    /// Flushes between the steps of a test.
    fn flush(&self) {
        if let Some(embedded) = &self.flush {
            embedded.flush().unwrap();
            assert_eq!(embedded.waiting(), 0);
        }
    }

    /// Returns the same job cache as another program sees it.
    fn beside(&self) -> JobCache {
        let option = if self.name == "files" { FILES } else { EMBEDDED };
        JobCache::beside_master(self.dir.path(), HashType::Sha256, option)
    }
}

fn id(text: &str) -> MinionId {
    MinionId::new(text).unwrap()
}

fn returned(value: impl Into<Value>) -> JobReturn {
    JobReturn { value: value.into(), retcode: Some(0.into()), success: Some(true.into()), out: None }
}

const JID: &str = "20240229131415678901";

#[test]
fn a_job_is_read_back() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        f.jobs.save_load(JID, &map! { "fun" => "test.ping", "jid" => JID, "tgt" => "*" }).unwrap();
        f.flush();
        f.jobs.save_minions(JID, &["web1".into()], None).unwrap();
        f.flush();
        f.jobs.save_minions(JID, &["db1".into()], None).unwrap();
        f.flush();
        f.jobs.save_minions(JID, &["far1".into()], Some(&id("syndic1"))).unwrap();
        f.flush();
        f.jobs.store_return(JID, &id("web1"), &returned(true)).unwrap();
        f.flush();
        assert_eq!(f.jobs.load(JID).unwrap().unwrap().get("Minions"), Some(&list!["db1", "far1", "web1"]));
        assert_eq!(f.jobs.returns(JID).unwrap(), [("web1".to_owned(), returned(true))]);
        assert_eq!(f.jobs.returned(JID).unwrap(), ["web1"]);
        assert_eq!(f.jobs.count_returns(JID).unwrap(), 1);
        assert_eq!(f.jobs.heads().unwrap().len(), 1);
        assert_eq!(f.jobs.ids().unwrap(), [JID]);
        assert_eq!(f.jobs.load("20240229131415678902").unwrap(), None);
        assert_eq!(f.jobs.returns("20240229131415678902").unwrap(), []);
    }
}

#[test]
fn a_head_has_what_lists_show_and_no_return() {
    for f in fixtures() {
        let shown = map! {
            "jid" => JID, "fun" => "runner.jobs.list_jobs", "arg" => list![map! { "__kwarg__" => true, "metadata" => 1 }],
            "tgt" => "one_master", "tgt_type" => "list", "user" => "fred", "metadata" => "m", "kwargs" => map! { "a" => 1 },
        };
        let mut load =
            map! { "id" => "one_master", "return" => map! { "jid" => "another", "return" => "x".repeat(9) } };
        load.extend(shown.clone());
        load.insert("ret", "none");
        f.jobs.prepare(JID, false).unwrap();
        f.jobs.save_load(JID, &load).unwrap();
        f.flush();
        assert_eq!(f.jobs.head(JID).unwrap(), Some(shown.clone()), "{}", f.name);
        assert_eq!(summary(JID, &shown), summary(JID, &load));
        assert_eq!(f.jobs.heads().unwrap(), [(JID.to_owned(), shown.clone())]);
        f.jobs.save_minions(JID, &["web1".into()], None).unwrap();
        let minions = f.jobs.head(JID).unwrap().unwrap().get("Minions").cloned();
        assert_eq!(minions, Some(list!["web1"]));
        assert_eq!(f.jobs.head("20240229131415678902").unwrap(), None);
    }
}

#[test]
fn the_first_return_wins() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        let store = |value: i64| f.jobs.store_return(JID, &id("web1"), &returned(value)).unwrap();
        assert_eq!(store(1), Stored::New);
        f.flush();
        assert_eq!(store(1), Stored::Duplicate { same: true });
        f.flush();
        assert_eq!(store(2), Stored::Duplicate { same: false });
        f.flush();
        assert_eq!(f.jobs.return_of(JID, &id("web1")).unwrap(), Some(returned(1)));
    }
}

#[test]
fn one_of_many_concurrent_writers_wins() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        let store = |value: i64| f.jobs.store_return(JID, &id("web1"), &returned(value)).unwrap();
        let outcomes: Vec<Stored> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|value| scope.spawn(move || store(value))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Stored::New).count(), 1);
    }
}

#[test]
fn returns_for_unknown_and_for_unkept_jobs_differ() {
    for f in fixtures() {
        assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::UnknownJob);
        f.flush();
        f.jobs.prepare(JID, true).unwrap();
        f.flush();
        assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::NotKept);
        f.flush();
    }
}

#[test]
fn a_copy_is_marked_until_the_original_arrives() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        assert_eq!(f.jobs.store_copy(JID, &id("web1"), &returned(1)).unwrap(), Stored::New);
        f.flush();
        assert_eq!(f.jobs.store_copy(JID, &id("web1"), &returned(1)).unwrap(), Stored::Duplicate { same: true });
        f.flush();
        assert_eq!(f.jobs.returns(JID).unwrap(), [("web1".to_owned(), returned(1))]);
        assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::Duplicate { same: true });
        f.flush();
        assert!(f.jobs.take_copy_mark(JID, &id("web1")).unwrap());
        assert!(!f.jobs.take_copy_mark(JID, &id("web1")).unwrap());
    }
}

#[test]
fn a_repeated_return_with_nan_is_the_same() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        f.jobs.store_return(JID, &id("web1"), &returned(f64::NAN)).unwrap();
        f.flush();
        let again = f.jobs.store_return(JID, &id("web1"), &returned(f64::NAN)).unwrap();
        assert_eq!(again, Stored::Duplicate { same: true });
    }
}

#[test]
fn a_job_of_ten_thousand_is_read_in_order() {
    for f in fixtures() {
        f.jobs.prepare(JID, false).unwrap();
        f.jobs.prepare("20240229131415678902", false).unwrap();
        // Enough to need several pages of a scan; in Salt's layout there are none, and files are slow to make.
        let many = if f.name == "files" { 200 } else { 10_000 };
        for number in (0..many).rev() {
            let out = Some("nested".into());
            let value = JobReturn { out, ..returned("x".repeat(900)) };
            assert_eq!(f.jobs.store_return(JID, &id(&format!("m{number:05}")), &value).unwrap(), Stored::New);
        }
        f.flush();
        f.jobs.store_return("20240229131415678902", &id("other"), &returned(1)).unwrap();
        let returns = f.jobs.returns(JID).unwrap();
        assert_eq!((returns.len(), f.jobs.count_returns(JID).unwrap()), (many, many));
        assert!(returns.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(returns[7].1.out, Some("nested".into()));
    }
}

#[test]
fn metadata_of_a_job_is_kept() {
    for f in fixtures() {
        assert!(!f.jobs.contains(JID).unwrap() && !f.jobs.has_load(JID).unwrap());
        f.jobs.save_load(JID, &map! { "fun" => "test.ping", "jid" => JID }).unwrap();
        f.flush();
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        f.jobs.set_end_time(JID, "2024, Feb 29 13:14:16.000001\n").unwrap();
        f.flush();
        assert!(f.jobs.contains(JID).unwrap() && f.jobs.has_load(JID).unwrap());
        assert_eq!(f.jobs.end_time(JID).unwrap().as_deref(), Some("2024, Feb 29 13:14:16.000001"));
        assert_eq!(f.jobs.load(JID).unwrap(), Some(map! { "fun" => "test.ping", "jid" => JID }));
        assert_eq!(f.jobs.end_time("20240229131415678902").unwrap(), None);
    }
}

#[test]
fn old_jobs_are_removed_completely() {
    for f in fixtures() {
        let (keep, now, other) = (Duration::from_secs(86_400), SystemTime::now(), "20240229131415678902");
        f.jobs.prepare(JID, false).unwrap();
        f.jobs.save_minions(JID, &["web1".into()], None).unwrap();
        for number in 0..50 {
            f.jobs.store_return(JID, &id(&format!("web{number}")), &returned(number)).unwrap();
        }
        f.flush();
        assert_eq!(f.jobs.clean(keep, now).unwrap(), Cleaned::default());
        assert_eq!(f.jobs.clean(Duration::ZERO, now + keep * 2).unwrap(), Cleaned::default());
        assert_eq!(f.jobs.clean(keep, now + keep * 2).unwrap(), Cleaned { old: 1, broken: 0 });
        assert!(!f.jobs.contains(JID).unwrap());
        assert_eq!((f.jobs.returns(JID).unwrap(), f.jobs.minions(JID).unwrap()), (vec![], vec![]));
        assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::UnknownJob);
        f.jobs.prepare(other, false).unwrap();
        assert_eq!(f.jobs.store_return(other, &id("web1"), &returned(1)).unwrap(), Stored::New);
    }
}

#[test]
fn other_programs_see_what_the_master_stored() {
    for f in fixtures() {
        let beside = f.beside();
        f.jobs.prepare(JID, false).unwrap();
        f.flush();
        f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap();
        f.flush();
        assert_eq!(beside.returns(JID).unwrap(), [("web1".to_owned(), returned(1))]);
    }
}

#[test]
fn jobs_in_the_other_layout_are_found_and_stay_there() {
    let dir = tempfile::tempdir().unwrap();
    let cache = |option| JobCache::of_master(dir.path(), HashType::Sha256, option);
    let (old, new) = (JID, "20240301131415678901");
    let before = cache(FILES);
    before.prepare(old, false).unwrap();
    before.save_load(old, &map! { "jid" => old, "fun" => "test.ping" }).unwrap();
    let after = cache(EMBEDDED);
    after.store_return(old, &id("web1"), &returned(1)).unwrap();
    after.prepare(new, false).unwrap();
    after.save_load(new, &map! { "jid" => new, "fun" => "test.ping" }).unwrap();
    after.store_return(new, &id("web1"), &returned(2)).unwrap();
    assert!(after.directory(old).join("web1/return.p").exists() && !after.directory(new).exists());
    for cache in [after, cache(FILES)] {
        let mut jids: Vec<String> = cache.heads().unwrap().into_iter().map(|(jid, _)| jid).collect();
        jids.sort();
        assert_eq!(jids, [old, new]);
        assert_eq!(cache.returns(old).unwrap(), [("web1".to_owned(), returned(1))]);
        assert_eq!(cache.returns(new).unwrap(), [("web1".to_owned(), returned(2))]);
    }
}

#[test]
fn an_invalid_database_is_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("saltern/jobs");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::write(below.join("jobs.redb"), "no database at all").unwrap();
    let jobs = JobCache::of_master(dir.path(), HashType::Sha256, EMBEDDED);
    jobs.prepare(JID, false).unwrap();
    assert_eq!(jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::New);
    assert!(!jobs.directory(JID).exists());
    assert_eq!(std::fs::read(below.join("jobs.redb.damaged-1")).unwrap(), b"no database at all");
}

#[test]
fn an_unwritable_directory_falls_back_to_salts_layout() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("saltern"), "in the way").unwrap();
    let jobs = JobCache::of_master(dir.path(), HashType::Sha256, EMBEDDED);
    jobs.prepare(JID, false).unwrap();
    assert_eq!(jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::New);
    assert!(jobs.directory(JID).join("web1/return.p").exists());
}
