//! Pausing and ending runs. A file per job in the minion's cache holds the requests, in Salt's own format.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exec::Context;
use rt::disk::Durability;
use value::{Map, Value};
use wire::msgpack::{self, Decode, Packing};

/// The entry that applies to every state.
const ALL: &str = "__all__";

/// How often a paused run checks whether it may continue.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the directory of the files in the cache.
pub fn pauses_path(cachedir: &str) -> PathBuf {
    Path::new(cachedir).join("state_pause")
}

/// The pause file of a job.
pub struct Pauses(PathBuf);

impl Pauses {
    /// Returns the file of a job, which need not exist. A jid cannot name a file in another directory.
    pub fn new(cachedir: &str, jid: &str) -> Self {
        let name: String = jid.chars().map(|letter| if letter == '/' { '_' } else { letter }).collect();
        Pauses(pauses_path(cachedir).join(if name.starts_with('.') { "_" } else { &name }))
    }

    /// Reads the requests: state ids with `duration` (seconds) or `kill`; `None` without a file.
    pub fn read(&self) -> std::io::Result<Option<Map>> {
        let bytes = match std::fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let value = msgpack::unpack(&bytes, Decode::Default).map_err(std::io::Error::other)?;
        Ok(Some(value.into_map().unwrap_or_default()))
    }

    /// Writes the requests.
    pub fn write(&self, data: Map) -> std::io::Result<()> {
        if let Some(directory) = self.0.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o750).create(directory)?;
        }
        rt::disk::replace(&self.0, &msgpack::pack(&data.into(), Packing::Bin), 0o600, Durability::Process)
    }

    /// Removes the file, if there is one.
    pub fn forget(&self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("the pauses of a job cannot be removed: {}: {error}", self.0.display());
        }
    }

    /// Waits while a state is paused. Returns false if the run must end before it.
    pub fn wait(&self, ctx: &Context, id: &str) -> bool {
        let begin = Instant::now();
        loop {
            let data = match self.read() {
                Ok(Some(data)) => data,
                Ok(None) => return true,
                Err(error) => {
                    // As in Salt, an unreadable file does not stop the run.
                    tracing::error!("Failed to read in pause data for file located at: {}: {error}", self.0.display());
                    return true;
                }
            };
            match verdict(&data, id, begin.elapsed()) {
                Verdict::Run => return true,
                Verdict::Kill => return false,
                Verdict::Wait => {}
            }
            ctx.sleep(LOOK);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Run,
    Wait,
    Kill,
}

fn verdict(data: &Map, id: &str, waited: Duration) -> Verdict {
    let Some(entry) = data.get(id).or_else(|| data.get(ALL)) else {
        return Verdict::Run;
    };
    let duration = entry.get("duration").and_then(Value::as_f64);
    if duration.is_some_and(|duration| waited.as_secs_f64() > duration) {
        return Verdict::Run;
    }
    if entry.get("kill").is_some() { Verdict::Kill } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn an_entry_pauses_ends_or_lets_go() {
        let second = Duration::from_secs(1);
        assert_eq!(verdict(&map! {}, "a", second), Verdict::Run);
        assert_eq!(verdict(&map! { "a" => map! {} }, "a", second), Verdict::Wait);
        assert_eq!(verdict(&map! { "b" => map! {} }, "a", second), Verdict::Run);
        assert_eq!(verdict(&map! { "__all__" => map! { "kill" => true } }, "a", second), Verdict::Kill);
        assert_eq!(verdict(&map! { "a" => map! { "duration" => 2 } }, "a", second), Verdict::Wait);
        assert_eq!(verdict(&map! { "a" => map! { "duration" => 2 } }, "a", 3 * second), Verdict::Run);
    }
}
