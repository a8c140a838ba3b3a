//! Limits on the disk space that a minion may fill, because an accepted minion may still be faulty or compromised.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use config::Master;
use tracing::{debug, error};
use value::{Map, Value};
use wire::MinionId;
use wire::msgpack::VALUE_COST;

/// The largest numbers of minions' publications that wait for returns, of one minion and of all. Each of them sees every event.
pub const WAITING_OF_ONE: usize = 64;
pub const WAITING_OF_ALL: usize = 1024;

/// The bounds, and how much minions have used.
pub struct Bounds {
    /// The largest return, in bytes; 0 for no bound, here and below.
    returned: u64,
    /// The largest size of a minion's grains, and of its mine, in bytes.
    data: u64,
    /// How many bytes a minion may store per hour for jobs that this master did not publish.
    own_jobs: u64,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    hour: u64,
    bytes: HashMap<MinionId, u64>,
}

/// The disk space of a job in addition to its return, for files and directories.
const JOB: u64 = 4096;

impl Bounds {
    /// Reads the options.
    pub fn new(config: &Master) -> Self {
        let jobs = &config.jobs;
        Bounds {
            returned: jobs.return_max_size,
            data: jobs.minion_data_max_size,
            own_jobs: jobs.own_jobs_max_size,
            used: Mutex::default(),
        }
    }

    /// Replaces a return that is too large with a message, so that its readers learn why it is missing.
    pub fn cut_return(&self, id: &MinionId, load: &mut Map) {
        let size = load.get("return").map_or(0, size);
        if self.returned == 0 || size <= self.returned {
            return;
        }
        let jid = load.get_str("jid").unwrap_or_default();
        error!(minion = %id, "the return of {id} for job {jid} has {size} bytes and is not kept: option 'return_max_size' allows {}", self.returned);
        let text = format!(
            "The return has {size} bytes and was not kept: the master's option return_max_size allows {}.",
            self.returned
        );
        // The signature was for the return that is not stored.
        load.remove("sig");
        load.insert("return", text);
        load.insert("success", false);
        load.insert("retcode", 1);
    }

    /// Returns whether the grains or the mine of a minion may be stored.
    pub fn may_keep(&self, id: &MinionId, what: &str, data: &Map) -> bool {
        let size = map_size(data);
        let may = self.data == 0 || size <= self.data;
        if !may {
            error!(minion = %id, "the {what} of {id} would have {size} bytes and is not kept: option 'minion_data_max_size' allows {}", self.data);
        }
        may
    }

    /// Returns whether a minion may store another job that this master did not publish.
    pub fn may_add_job(&self, id: &MinionId, load: &Map, now: SystemTime) -> bool {
        if self.own_jobs == 0 {
            return true;
        }
        let hour = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 3600;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // By the clock's hour: a counter and no list of times for each minion.
        if used.hour != hour {
            *used = Used { hour, bytes: HashMap::new() };
        }
        let bytes = used.bytes.entry(id.clone()).or_default();
        let before = *bytes;
        // Counted even if refused: the log then has one error per hour, not one per job.
        *bytes = before.saturating_add(JOB).saturating_add(map_size(load));
        if *bytes <= self.own_jobs {
            return true;
        }
        if before <= self.own_jobs {
            error!(minion = %id, "minion {id} has stored more than {} bytes of jobs of its own in this hour (option 'own_jobs_max_size'); the next are not kept", self.own_jobs);
        } else {
            debug!("one more job of {id} is not kept");
        }
        false
    }
}

/// Estimates the bytes of memory that a map occupies.
pub fn memory(map: &Map) -> usize {
    map.iter().map(|(key, value)| memory_of(key) + memory_of(value)).sum()
}

fn memory_of(value: &Value) -> usize {
    VALUE_COST
        + match value {
            Value::Str(text) => text.len(),
            Value::List(items) => items.iter().map(memory_of).sum(),
            Value::Map(map) => memory(map),
            other => other.as_bytes().map_or(0, <[u8]>::len),
        }
}

/// Estimates the size of a map when it is packed.
pub fn map_size(map: &Map) -> u64 {
    map.iter().map(|(key, value)| size(key) + size(value)).sum::<u64>() + 5
}

/// Estimates the size of a value when it is packed.
pub fn size(value: &Value) -> u64 {
    match value {
        Value::Str(text) => text.len() as u64 + 5,
        Value::List(items) => items.iter().map(size).sum::<u64>() + 5,
        Value::Map(map) => map_size(map),
        other => other.as_bytes().map_or(9, |bytes| bytes.len() as u64 + 5),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use value::map;

    use super::*;

    fn bounds() -> Bounds {
        let options = map! { "return_max_size" => 100, "minion_data_max_size" => 100, "own_jobs_max_size" => 10_000 };
        Bounds::new(&Master::from_options(options).unwrap())
    }

    fn id(name: &str) -> MinionId {
        MinionId::new(name).unwrap()
    }

    #[test]
    fn small_values_occupy_more_than_they_take_when_packed() {
        let many = map! { "x" => Value::List(vec![Value::Null; 10_000]) };
        assert!(
            memory(&many) > 10_000 * 50
                && wire::msgpack::pack(&many.into(), wire::msgpack::Packing::Wire).len() < 11_000
        );
        assert!((5_000..6_000).contains(&memory(&map! { "x" => "y".repeat(5_000) })));
    }

    #[test]
    fn a_return_that_is_too_large_is_told_of_instead() {
        let mut small = map! { "return" => "x".repeat(50), "success" => true };
        bounds().cut_return(&id("web1"), &mut small);
        assert_eq!(small.get("success"), Some(&true.into()));
        let mut large =
            map! { "return" => value::list!["x".repeat(50), "y".repeat(50)], "success" => true, "sig" => "s" };
        bounds().cut_return(&id("web1"), &mut large);
        assert!(large.get_str("return").unwrap().contains("return_max_size"));
        assert_eq!((large.get("success"), large.get("retcode")), (Some(&false.into()), Some(&1.into())));
        assert!(!large.contains_key("sig"));
    }

    #[test]
    fn a_minion_fills_its_own_share_and_no_more() {
        let (bounds, now, load) = (bounds(), UNIX_EPOCH + Duration::from_secs(1_000_000_000), map! { "return" => 1 });
        let may = |name: &str, now| bounds.may_add_job(&id(name), &load, now);
        assert_eq!([may("a", now), may("a", now), may("a", now), may("b", now)], [true, true, false, true]);
        assert!(may("a", now + Duration::from_secs(3600)), "the next hour");
        assert!(bounds.may_keep(&id("a"), "mine", &map! { "x" => "y" }));
        assert!(!bounds.may_keep(&id("a"), "mine", &map! { "x" => "y".repeat(100) }));
        let unbounded = Bounds::new(&Master::from_options(map! { "own_jobs_max_size" => 0 }).unwrap());
        assert!((0..10).all(|_| unbounded.may_add_job(&id("a"), &load, now)));
    }
}
