//! What becomes of returns on the master's disk and in `salt`.

use std::time::Duration;

use client::gather::{Gather, Timeouts};
use crypto::HashType;
use store::jobs::{EMBEDDED, FILES, JobCache, JobReturn, Stored};
use value::map;
use wire::MinionId;

use crate::{JID, id, returned};

pub fn embedded(times: usize) {
    store_returns(times, EMBEDDED);
}

pub fn files(times: usize) {
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
pub fn gather_return(times: usize) {
    let patience = Timeouts { timeout: Duration::from_secs(5), gather: Duration::from_secs(10), syndics: None };
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
