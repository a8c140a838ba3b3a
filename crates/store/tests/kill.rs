//! A master that is killed in the middle of storing returns: whatever it acknowledged is there afterwards.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crypto::HashType;
use saltern_store::jobs::{EMBEDDED, FILES, JobCache, JobReturn, Stored};
use value::{Value, map};
use wire::MinionId;

const JID: &str = "20240229131415678901";
const OTHER: &str = "20240229131415678902";
const DIRECTORY: &str = "SALTERN_KILL_TEST_DIRECTORY";

fn returned(number: usize) -> JobReturn {
    let value = Value::from(map! { "number" => number, "text" => "x".repeat(5_000) });
    JobReturn { value, retcode: Some(0.into()), success: Some(true.into()), out: Some("nested".into()) }
}

fn id(number: usize) -> MinionId {
    MinionId::new(format!("minion{number}")).unwrap()
}

/// The process that is going to be killed: stores returns and names each on standard output once it is stored.
fn store_for_ever(directory: &Path, option: &str) {
    let jobs = JobCache::of_master(directory, HashType::Sha256, option);
    jobs.prepare(JID, false).unwrap();
    let mut out = std::io::stdout();
    for number in 0.. {
        assert_eq!(jobs.store_return(JID, &id(number), &returned(number)).unwrap(), Stored::New);
        if number % 100 == 99 {
            jobs.flush().unwrap();
        }
        writeln!(out, "stored {number}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn acknowledged_returns_survive_a_kill() {
    acknowledged_survive("acknowledged_returns_survive_a_kill", FILES);
}

#[test]
fn acknowledged_returns_in_one_file_survive_a_kill() {
    acknowledged_survive("acknowledged_returns_in_one_file_survive_a_kill", EMBEDDED);
}

fn acknowledged_survive(test: &str, option: &str) {
    // The test starts itself as the process to kill: threads cannot die the way a process does.
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return store_for_ever(Path::new(&directory), option);
    }
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
    let numbers = lines.filter_map(|line| line.strip_prefix("stored ")?.parse::<usize>().ok());
    let mut acknowledged = Vec::new();
    let beside = JobCache::beside_master(directory.path(), HashType::Sha256, option);
    for number in numbers {
        // Another program sees at once what was acknowledged, and keeps its own results beside it.
        if number % 60 == 59 {
            assert_eq!(beside.return_of(JID, &id(number)).unwrap(), Some(returned(number)), "{number}");
            beside.prepare(OTHER, false).unwrap();
            beside.store_return(OTHER, &id(number), &returned(number)).unwrap();
        }
        acknowledged.push(number);
        if acknowledged.len() == 300 {
            writer.kill().unwrap();
        }
    }
    writer.wait().unwrap();
    assert!(acknowledged.len() >= 300);
    let returns = beside.returns(JID).unwrap();
    assert!(acknowledged.iter().all(|number| returns.iter().any(|(known, _)| *known == id(*number).as_str())));
    drop(beside);
    let jobs = JobCache::of_master(directory.path(), HashType::Sha256, option);
    for number in &acknowledged {
        assert_eq!(jobs.return_of(JID, &id(*number)).unwrap(), Some(returned(*number)), "{number}");
    }
    assert!(jobs.count_returns(OTHER).unwrap() >= 5);
    // One return may be cut off; when it comes again it is taken.
    let next = acknowledged.len();
    assert_ne!(jobs.store_return(JID, &id(next), &returned(next)).unwrap(), Stored::UnknownJob);
    assert_eq!(jobs.return_of(JID, &id(next)).unwrap(), Some(returned(next)));
}
