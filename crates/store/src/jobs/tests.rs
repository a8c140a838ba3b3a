use std::time::{Duration, SystemTime};

use value::{list, map};

use super::files::{COPY, END_TIME, LOAD, MINIONS, OUT, RETURN};
use super::*;

struct Fixture {
    _dir: tempfile::TempDir,
    cachedir: PathBuf,
    jobs: JobCache,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let cachedir = dir.path().to_owned();
    let jobs = JobCache::new(&cachedir, HashType::Sha256);
    Fixture { _dir: dir, cachedir, jobs }
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../testdata/jid.json")).unwrap()
}

fn id(text: &str) -> MinionId {
    MinionId::new(text).unwrap()
}

fn returned(value: impl Into<Value>) -> JobReturn {
    JobReturn { value: value.into(), retcode: Some(0.into()), success: Some(true.into()), out: None }
}

const JID: &str = "20240229131415678901";

#[test]
fn directories_are_named_as_recorded() {
    let cache = |hash| JobCache::new(Path::new(""), hash);
    for row in vectors().get("jids").unwrap().as_list().unwrap() {
        let jid = row.get("jid").unwrap().as_str().unwrap();
        for (hash, key) in [(HashType::Sha256, "dir_sha256"), (HashType::Md5, "dir_md5")] {
            let recorded = row.get(key).unwrap().as_str().unwrap();
            assert_eq!(Path::new("/").join(cache(hash).directory(jid)), Path::new(recorded));
        }
    }
}

#[test]
fn files_have_the_recorded_bytes() {
    let f = fixture();
    let vectors = vectors();
    let recorded = vectors.get("job_cache").unwrap();
    let load = recorded.get("load_object").unwrap().as_map().unwrap();
    f.jobs.prepare(JID, false).unwrap();
    f.jobs.save_load(JID, load).unwrap();
    f.jobs.save_minions(JID, &["web2".into(), "web1".into()], None).unwrap();
    f.jobs.set_end_time(JID, "2024, Feb 29 13:14:16.000001").unwrap();
    let returned = JobReturn { out: Some("highstate".into()), ..returned(true) };
    assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned).unwrap(), Stored::New);
    let directory = f.jobs.directory(JID);
    for (file, key) in
        [("jid", "jid_file_hex"), (LOAD, LOAD), (MINIONS, MINIONS), ("web1/return.p", RETURN), ("web1/out.p", OUT)]
    {
        let written = hex::encode(std::fs::read(directory.join(file)).unwrap());
        assert_eq!(written, recorded.get(key).unwrap().as_str().unwrap(), "{file}");
    }
    assert_eq!(f.jobs.end_time(JID).unwrap().as_deref(), recorded.get(END_TIME).unwrap().as_str());
}

#[test]
fn a_return_interrupted_by_a_crash_can_be_retried() {
    let f = fixture();
    f.jobs.prepare(JID, false).unwrap();
    std::fs::create_dir(f.jobs.directory(JID).join("web1")).unwrap();
    // The remains of a process that was killed between the directory and the rename.
    std::fs::write(f.jobs.directory(JID).join("web1/.tmpXYZ"), "half").unwrap();
    assert_eq!(f.jobs.returns(JID).unwrap(), []);
    assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::New);
}

#[test]
fn bare_and_broken_returns_are_tolerated() {
    let f = fixture();
    f.jobs.prepare(JID, false).unwrap();
    for (minion, content) in [("old1", &b"\xc3"[..]), ("broken1", b"\x92\x01"), ("empty1", b"")] {
        let directory = f.jobs.directory(JID).join(minion);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join(RETURN), content).unwrap();
    }
    let bare = JobReturn { value: true.into(), ..JobReturn::default() };
    assert_eq!(f.jobs.returns(JID).unwrap(), [("old1".to_owned(), bare)]);
}

#[test]
fn a_minion_that_is_called_like_a_file_of_the_job_harms_no_other_one() {
    let f = fixture();
    f.jobs.prepare(JID, false).unwrap();
    for name in ["nocache", "endtime", "jid"] {
        assert_eq!(f.jobs.store_return(JID, &id(name), &returned(1)).unwrap(), Stored::NotKept, "{name}");
    }
    assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap(), Stored::New);
    f.jobs.set_end_time(JID, "2024, Feb 29 13:14:16.000001").unwrap();
    // What an earlier version has left.
    std::fs::create_dir(f.jobs.directory(JID).join("nocache")).unwrap();
    assert_eq!(f.jobs.store_return(JID, &id("web2"), &returned(1)).unwrap(), Stored::New);
}

#[test]
fn syndics_with_the_longest_ids_name_their_minions() {
    let f = fixture();
    f.jobs.prepare(JID, false).unwrap();
    for (syndic, minion) in [("s".repeat(253), "web1"), ("t".repeat(244), "web2"), ("u".repeat(245), "web3")] {
        f.jobs.save_minions(JID, &[minion.to_owned()], Some(&id(&syndic))).unwrap();
    }
    assert_eq!(f.jobs.minions(JID).unwrap(), ["web1", "web2", "web3"]);
}

#[test]
fn only_old_jobs_are_removed() {
    let f = fixture();
    let keep = Duration::from_secs(86_400);
    f.jobs.prepare(JID, false).unwrap();
    let broken = f.cachedir.join("jobs/ab/cdef");
    std::fs::create_dir_all(&broken).unwrap();
    let now = SystemTime::now();
    assert_eq!(f.jobs.clean(Duration::ZERO, now + keep * 2).unwrap(), Cleaned::default());
    assert_eq!(f.jobs.clean(keep, now).unwrap(), Cleaned::default(), "a job is made in two steps");
    assert_eq!(f.jobs.clean(keep, now + Duration::from_secs(61)).unwrap(), Cleaned { old: 0, broken: 1 });
    assert!(f.jobs.contains(JID).unwrap());
    assert_eq!(f.jobs.clean(keep, now + keep * 2).unwrap(), Cleaned { old: 1, broken: 0 });
    assert!(!f.jobs.contains(JID).unwrap());
    f.jobs.clean(keep, now + keep * 2).unwrap();
    assert!(!f.cachedir.join("jobs/ab").exists());
}

#[test]
fn summaries_contain_the_fields_of_list_jobs() {
    let load = map! {
        "fun" => "test.arg", "jid" => JID, "tgt" => "web*", "tgt_type" => "glob", "user" => "root",
        "arg" => list![1, map! { "__kwarg__" => true, "metadata" => map! { "ticket" => 7 } }],
    };
    let summary = summary(JID, &load);
    assert_eq!(summary.get_str("StartTime"), Some("2024, Feb 29 13:14:15.678901"));
    assert_eq!(summary.get_str("Target-type"), Some("glob"));
    assert_eq!(summary.get("Metadata").and_then(|metadata| metadata.get("ticket")), Some(&Value::Int(7)));
    assert_eq!(super::summary(JID, &Map::new()).get_str("Function"), Some("unknown-function"));
}

#[test]
fn a_copy_after_the_original_gets_no_mark() {
    let f = fixture();
    f.jobs.prepare(JID, false).unwrap();
    f.jobs.store_return(JID, &id("web1"), &returned(1)).unwrap();
    assert_eq!(f.jobs.store_copy(JID, &id("web1"), &returned(1)).unwrap(), Stored::Duplicate { same: true });
    assert!(!f.jobs.take_copy_mark(JID, &id("web1")).unwrap());
    // A mark that a crash left without its return is removed when the job's own return arrives.
    let directory = f.jobs.directory(JID).join("web2");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join(COPY), "").unwrap();
    assert_eq!(f.jobs.store_return(JID, &id("web2"), &returned(2)).unwrap(), Stored::New);
    assert!(!f.jobs.take_copy_mark(JID, &id("web2")).unwrap());
}

#[test]
fn a_job_for_salts_programs_uses_salts_layout() {
    let Fixture { _dir, cachedir, .. } = fixture();
    let jobs = JobCache::of_master(&cachedir, HashType::Sha256, EMBEDDED);
    jobs.prepare_for_salt(JID, false).unwrap();
    jobs.save_load(JID, &map! { "fun" => "test.ping" }).unwrap();
    jobs.store_return(JID, &id("web1"), &returned(true)).unwrap();
    let files = Files::new(&cachedir, HashType::Sha256);
    assert!(files.directory(JID).join("web1").join(RETURN).exists());
    assert_eq!(jobs.returns(JID).unwrap().len(), 1);
    let other = "20240229131415678902";
    jobs.prepare(other, false).unwrap();
    jobs.prepare_for_salt(other, false).unwrap();
    assert!(!files.contains(other).unwrap(), "a known job stays where it is");
}

#[test]
fn jobs_stored_while_the_single_file_was_unusable_are_found() {
    let f = fixture();
    let one_file = || JobCache::of_master(&f.cachedir, HashType::Sha256, EMBEDDED);
    let load = map! { "jid" => JID, "fun" => "test.ping" };
    let before = one_file();
    before.prepare(JID, false).unwrap();
    before.save_load(JID, &load).unwrap();
    before.save_minions(JID, &["web1".into(), "web2".into()], None).unwrap();
    assert_eq!(before.store_return(JID, &id("web1"), &returned("first")).unwrap(), Stored::New);
    drop(before);
    // The disk was full when the master started.
    f.jobs.prepare(JID, false).unwrap();
    f.jobs.save_load(JID, &load).unwrap();
    assert_eq!(f.jobs.store_return(JID, &id("web1"), &returned("again")).unwrap(), Stored::New);
    assert_eq!(f.jobs.store_return(JID, &id("web2"), &returned("late")).unwrap(), Stored::New);
    f.jobs.set_end_time(JID, "2024, Feb 29 13:14:16.000001").unwrap();
    let after = one_file();
    let values = |returns: Vec<(String, JobReturn)>| returns.into_iter().map(|(id, kept)| (id, kept.value));
    let wanted = [("web1".to_owned(), Value::from("first")), ("web2".to_owned(), "late".into())];
    assert_eq!(values(after.returns(JID).unwrap()).collect::<Vec<_>>(), wanted);
    assert_eq!(after.count_returns(JID).unwrap(), 2);
    assert_eq!(after.return_of(JID, &id("web2")).unwrap().unwrap().value, "late".into());
    assert_eq!(after.minions(JID).unwrap(), ["web1", "web2"]);
    assert!(after.end_time(JID).unwrap().is_some());
    assert_eq!(after.heads().unwrap().len(), 1);
}

#[test]
fn a_return_is_stored_once_however_often_the_file_was_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = Embedded::open(dir.path()).unwrap();
    let store = |minion: &str| jobs.store(JID, &id(minion), &returned(1), false).unwrap();
    let same = Stored::Duplicate { same: true };
    jobs.prepare(JID, false).unwrap();
    assert_eq!([store("web1"), store("web1")], [Stored::New, same], "both before the file is written");
    jobs.flush().unwrap();
    assert_eq!([store("web1"), store("web2"), store("web2")], [same, Stored::New, same]);
    // Published once more, as orchestration does: what has returned stays known.
    jobs.prepare(JID, false).unwrap();
    assert_eq!([store("web1"), store("web2")], [same, same]);
    jobs.flush().unwrap();
    assert_eq!([store("web1"), store("web2"), store("web3")], [same, same, Stored::New]);
    assert_eq!(jobs.returned(JID).unwrap(), ["web1", "web2", "web3"]);
}
