//! The file of shared records against records in memory, and what happens to it on a bad disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use share::{Content, MemoryRecords, Return, Stamp};

use super::*;

const JID: &str = "20240229131415678901";

fn place() -> (tempfile::TempDir, ShareFile) {
    let dir = tempfile::tempdir().unwrap();
    let file = ShareFile::open(dir.path()).unwrap();
    (dir, file)
}

fn record(key: &str, time: u64, content: Content) -> Record {
    Record::new(Key::new(key).unwrap(), Stamp { time, node: Node([1; 8]) }, content)
}

fn put(record: Record, arrived: u64) -> RecordChange {
    RecordChange::Put { record, arrived }
}

fn grains(minion: &str, time: u64, value: Option<&'static str>) -> Record {
    record(&format!("grains/{minion}"), time, Content::Data(value.map(|text| Bytes::from_static(text.as_bytes()))))
}

/// Returns a record of any class but those of decisions; few keys, so that records replace each other.
fn any_record(random: &mut StdRng) -> Record {
    let (number, time) = (random.random_range(0..12), random.random_range(1..1_000));
    let bytes = Bytes::from(vec![random.random::<u8>(); random.random_range(0..300)]);
    let minion = format!("web{number}");
    let jid = format!("202402291314{:02}678901", random.random_range(0..4));
    let (key, content) = match random.random_range(0..6) {
        0 => (minion, Content::Denied(bytes)),
        1 => (jid, Content::Job { load: bytes, nocache: random.random() }),
        2 => {
            let publisher = Node([random.random(); 8]);
            let returned = Return { packed: bytes, out: None, publisher, copy: random.random() };
            (format!("{jid}/{minion}"), Content::Return(returned))
        }
        3 => (jid, Content::End(time)),
        4 => (format!("grains/{minion}"), Content::Data(random.random::<bool>().then_some(bytes))),
        _ => (
            format!("5ec7e7{number}"),
            Content::Token { token: random.random::<bool>().then_some(bytes), expires: time },
        ),
    };
    record(&key, time, content)
}

fn any_changes(random: &mut StdRng) -> Vec<RecordChange> {
    let count = random.random_range(0..20);
    let mut change = || {
        let record = any_record(random);
        match random.random_range(0..4) {
            0 => RecordChange::Remove { class: record.class(), key: record.key },
            _ => put(record, random.random_range(0..1_000)),
        }
    };
    (0..count).map(|_| change()).collect()
}

fn assert_equal(disk: &ShareFile, memory: &MemoryRecords, random: &mut StdRng) {
    assert_eq!(disk.last_time(), memory.last_time());
    for class in Class::ALL {
        let all = 0..=u32::MAX;
        assert_eq!(disk.items(class, all.clone()), memory.items(class, all.clone()), "{class}");
        for level in [Level::Day, Level::Hour, Level::Minute, Level::Byte].into_iter().filter(|level| level.fits(class))
        {
            assert_eq!(disk.parts(class, level, all.clone()), memory.parts(class, level, all.clone()), "{class}");
        }
        let (one, other) = (random.random_range(0..300), random.random_range(0..300));
        // Also from a later part to an earlier one, which is none.
        assert_eq!(disk.items(class, one..=other), memory.items(class, one..=other), "{class} {one} {other}");
        assert_eq!(disk.root(class, one), memory.root(class, one), "{class}");
        for record in memory.all(class) {
            assert_eq!(disk.get(class, &record.key).as_ref(), Some(record));
            assert_eq!(disk.arrived(class, &record.key), memory.arrived(class, &record.key));
        }
        for until in [0, random.random_range(0..1_000), u64::MAX] {
            let mut found = disk.tombstones(class, until);
            found.sort();
            let mut expected = memory.tombstones(class, until);
            expected.sort();
            assert_eq!(found, expected, "{class} {until}");
        }
    }
}

#[test]
fn a_file_answers_like_records_in_memory() {
    for seed in 0..10 {
        let random = &mut StdRng::seed_from_u64(seed);
        let (dir, mut disk) = place();
        let mut memory = MemoryRecords::default();
        for step in 1..=20 {
            let changes = any_changes(random);
            disk.apply(changes.clone(), step).unwrap();
            memory.apply(changes, step).unwrap();
            if random.random_range(0..6) == 0 {
                drop(disk);
                disk = ShareFile::open(dir.path()).unwrap();
            }
            assert_equal(&disk, &memory, random);
        }
    }
}

#[test]
fn a_process_that_dies_loses_nothing_that_was_applied() {
    let random = &mut StdRng::seed_from_u64(7);
    let (dir, mut disk) = place();
    let mut memory = MemoryRecords::default();
    for step in 1..=10 {
        let changes = any_changes(random);
        disk.apply(changes.clone(), step).unwrap();
        memory.apply(changes, step).unwrap();
        // What lies on the disk at this moment is all that a killed process leaves.
        let left = tempfile::tempdir().unwrap();
        fs::create_dir_all(left.path().join("saltern/share")).unwrap();
        let path = left.path().join("saltern/share/share.redb");
        fs::copy(disk.path(), &path).unwrap();
        let mut whole = Database::builder();
        let opened = whole.set_repair_callback(redb::RepairSession::abort).create(&path);
        drop(opened.expect("the file can be opened without reading all of it"));
        assert_equal(&ShareFile::open(left.path()).unwrap(), &memory, random);
    }
    drop(dir);
}

#[test]
fn decisions_come_back_with_their_signatures() {
    let (dir, mut disk) = place();
    let key = crypto::MemberKey::from_random([3; 32]).unwrap();
    let node = Node::of_key(&key.public());
    let minion = Key::new("web1").unwrap();
    let wish = share::Wish {
        class: Class::Keys,
        key: minion.clone(),
        state: share::State::Accepted,
        content: Bytes::from_static(b"a public key"),
        by: share::By::Files,
    };
    let stamp = Stamp { time: 9 << 16, node };
    let decision = share::Entry::default().decide(wish, stamp).unwrap();
    let entry = share::Entry::new(vec![share::SignedDecision::sign(decision, &key).unwrap()]);
    let written = Record::new(minion.clone(), stamp, Content::Decided(Class::Keys, entry));
    disk.apply(vec![put(written.clone(), 5)], stamp.time).unwrap();
    drop(disk);
    assert_eq!(ShareFile::open(dir.path()).unwrap().get(Class::Keys, &minion), Some(written));
}

#[test]
fn the_highest_stamp_never_goes_back() {
    let (dir, mut disk) = place();
    disk.apply(vec![], 9).unwrap();
    disk.apply(vec![], 4).unwrap();
    drop(disk);
    assert_eq!(ShareFile::open(dir.path()).unwrap().last_time(), 9);
}

#[test]
fn comparisons_are_written_down_once_an_hour() {
    let (dir, disk) = place();
    let (one, two) = (Node([1; 8]), Node([2; 8]));
    disk.set_compared(one, 1_000).unwrap();
    disk.set_compared(two, 2_000).unwrap();
    let content = fs::read(disk.path()).unwrap();
    disk.set_compared(one, 61_000).unwrap();
    assert_eq!(disk.compared(), BTreeMap::from([(one, 61_000), (two, 2_000)]));
    assert!(fs::read(disk.path()).unwrap() == content, "a minute later nothing is written");
    // An hour after the first time, not after the latest.
    disk.set_compared(one, 3_601_000).unwrap();
    drop(disk);
    assert_eq!(ShareFile::open(dir.path()).unwrap().compared(), BTreeMap::from([(one, 3_601_000), (two, 2_000)]));
}

#[test]
fn the_file_is_closed_to_others() {
    let (dir, disk) = place();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(disk.path()), mode(&dir.path().join("saltern/share"))), (0o600, 0o750));
}

fn refused(dir: &tempfile::TempDir) -> String {
    let error = ShareFile::open(dir.path()).err().expect("the file is refused");
    let text = chain(&error);
    assert!(text.contains("/saltern/share/share.redb"), "{text}");
    text
}

#[test]
fn a_file_that_is_open_elsewhere_is_refused() {
    let (dir, _disk) = place();
    assert!(refused(&dir).contains("another process has it open"));
}

#[test]
fn a_file_of_a_later_version_is_refused_and_kept() {
    let (dir, disk) = place();
    disk.write(|transaction| {
        transaction.open_table(STATE)?.insert("format", FORMAT + 1)?;
        Ok(())
    })
    .unwrap();
    drop(disk);
    for _ in 0..2 {
        assert!(refused(&dir).contains("later version (format 2, and this version knows 1)"));
    }
}

#[test]
fn a_damaged_file_is_refused_and_kept() {
    let (dir, mut disk) = place();
    disk.apply(vec![put(grains("web1", 1, Some("a")), 1)], 1).unwrap();
    let path = disk.path().to_owned();
    drop(disk);
    let whole = fs::read(&path).unwrap();
    let cut = whole[..whole.len() / 2].to_vec();
    let mut mixed = whole.clone();
    mixed[..64].fill(0xff);
    for damaged in [b"no database".to_vec(), cut, mixed, vec![0; 8_192], Vec::new()] {
        fs::write(&path, &damaged).unwrap();
        refused(&dir);
        assert!(path.exists() && !path.with_extension("redb.damaged-1").exists());
    }
    fs::write(&path, whole).unwrap();
    assert_eq!(ShareFile::open(dir.path()).unwrap().root(Class::Data, 0).count, 1);
}

#[test]
fn a_record_that_cannot_be_read_counts_as_absent_and_is_replaced() {
    let (dir, mut disk) = place();
    let old = grains("web1", 1, Some("old"));
    disk.apply(vec![put(old.clone(), 1)], 1).unwrap();
    let (_, row) = rows::key(Class::Data, &old.key);
    disk.write(|transaction| {
        let mut broken = rows::pack(&old, 1);
        broken.truncate(40);
        transaction.open_table(RECORDS)?.insert(&row[..], &broken[..])?;
        Ok(())
    })
    .unwrap();
    assert_eq!(disk.get(Class::Data, &old.key), None);
    let new = grains("web1", 2, Some("new"));
    disk.apply(vec![put(new.clone(), 2)], 2).unwrap();
    assert_eq!(disk.get(Class::Data, &new.key), Some(new.clone()));
    let mut memory = MemoryRecords::default();
    memory.apply(vec![put(new, 2)], 2).unwrap();
    assert_equal(&disk, &memory, &mut StdRng::seed_from_u64(1));
    drop(dir);
}

#[test]
fn after_a_failed_read_nothing_is_replaced_and_the_file_is_opened_again() {
    let (dir, mut disk) = place();
    let old = grains("web1", 1, Some("old"));
    disk.apply(vec![put(old.clone(), 1)], 1).unwrap();
    // As after an error of the disk.
    disk.database = None;
    assert_eq!(disk.get(Class::Data, &old.key), None, "nothing can be read");
    let error = disk.apply(vec![put(grains("web1", 2, Some("new")), 2)], 2).unwrap_err();
    assert!(error.0.contains("share.redb"), "{error}");
    assert_eq!(disk.get(Class::Data, &old.key), Some(old), "it is open again");
    disk.apply(vec![put(grains("web1", 2, Some("new")), 2)], 2).unwrap();
    assert_eq!((disk.last_time(), disk.root(Class::Data, 0).count), (2, 1));
    drop(dir);
}

#[cfg(feature = "sim")]
#[test]
fn a_full_disk_refuses_all_changes_and_keeps_what_there_is() {
    let (dir, mut disk) = place();
    let old = grains("web1", 1, Some("old"));
    disk.apply(vec![put(old.clone(), 1)], 1).unwrap();
    disk::refusing::set(dir.path(), true);
    let changes = vec![put(grains("web1", 2, None), 2), put(record(JID, 2, Content::End(2)), 2)];
    let error = disk.apply(changes.clone(), 2).unwrap_err();
    assert!(error.0.contains("failed to write") && error.0.contains("share.redb"), "{error}");
    assert_eq!((disk.get(Class::Data, &old.key), disk.last_time()), (Some(old), 1));
    assert_eq!(disk.root(Class::End, 0).count, 0);
    disk::refusing::set(dir.path(), false);
    disk.apply(changes, 2).unwrap();
    assert_eq!((disk.root(Class::End, 0).count, disk.last_time()), (1, 2));
}
