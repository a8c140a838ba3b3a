//! The state runs of this machine: one at a time, whichever master asked for it.
//!
//! Each run holds a lock on a file below the cache directory. So runs of other processes count too, and a run that
//! crashed stops counting.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use exec::{Context, Error, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use value::{Map, Value, map};

/// The interval of checks of the queue.
// The lock of another process cannot be awaited together with the queue, so it is checked in intervals.
const LOOK: Duration = Duration::from_millis(100);

/// The prefix of the names of waiting runs, which sorts them by the time they came.
const WAITING: &str = "waiting_";

/// The place of a run among those of this machine, as long as it lives.
pub struct Held {
    /// None for a run within another one of the same job, which has its place already.
    _file: Option<Own>,
}

struct Own {
    path: PathBuf,
    /// Released when dropped, after the file is gone.
    _lock: Flock<File>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // Removed before the lock is dropped, so that no run finds a file without an owner.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("failed to remove {}: {error}", self.path.display());
        }
    }
}

/// The outcome of an attempt to start a run.
pub enum Place {
    /// The run may begin.
    Mine(Held),
    /// Other runs are active; the messages about them.
    Taken(Vec<String>),
}

/// The argument `queue`: what to do while another run is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Fail at once.
    No,
    /// Wait, however many others do.
    Wait,
    /// Wait only if fewer than this number are ahead of it. 0 is no bound.
    AtMost(u64),
}

impl Queue {
    /// Reads the argument `queue`, else the option `state_queue`.
    pub fn read(given: Option<&Value>, option: Option<&Value>) -> Self {
        match given.filter(|given| !given.is_null()).or(option) {
            Some(Value::Bool(true)) => Queue::Wait,
            // A number limits how many runs may wait.
            Some(Value::Int(most)) if *most >= 0 => Queue::AtMost(*most as u64),
            Some(Value::Str(word)) if word.eq_ignore_ascii_case("true") => Queue::Wait,
            _ => Queue::No,
        }
    }
}

/// The directory of the runs.
pub struct Runs(PathBuf);

impl Runs {
    /// Those of the machine whose cache this is.
    pub fn new(cachedir: &str) -> Self {
        Runs(Path::new(cachedir).join("state_runs"))
    }

    /// Registers a run, waits until it may start, or returns the active runs. With `concurrent` others are no
    /// hindrance.
    pub fn take(&self, ctx: &Context, queue: Queue, concurrent: bool) -> Result<Place> {
        let me = me(ctx);
        // A ticket fixes the place in the queue when the run is requested. Without it, the run that checks first would
        // go first.
        let ticket = match queue {
            Queue::No => None,
            Queue::Wait | Queue::AtMost(_) => Some(self.ticket(&me)?),
        };
        let mut first = true;
        loop {
            match self.once(&me, concurrent, ticket.as_ref().map(|(name, _)| name.as_str()))? {
                Ok(held) => return Ok(Place::Mine(held)),
                Err(others) => {
                    let gives_up = match queue {
                        Queue::No => true,
                        Queue::Wait => false,
                        // Only decided on arrival: who waits already is not turned away later.
                        Queue::AtMost(most) => first && most > 0 && others.len() as u64 >= most,
                    };
                    if gives_up {
                        return Ok(Place::Taken(others.iter().map(sentence).collect()));
                    }
                }
            }
            first = false;
            ctx.sleep(LOOK);
        }
    }

    /// Returns the active runs, except that of this job.
    pub fn others(&self, ctx: &Context) -> Result<Vec<String>> {
        let me = me(ctx);
        let _gate = self.gate()?;
        Ok(self.at_work(&name_of(&me))?.iter().map(sentence).collect())
    }

    /// Tries to register the run once. `ticket` is that of a waiting run: those that came before it go first.
    fn once(&self, me: &Map, concurrent: bool, ticket: Option<&str>) -> Result<std::result::Result<Held, Vec<Map>>> {
        let _gate = self.gate()?;
        let name = name_of(me);
        // A state that applies other states runs within its own job and must not wait for itself.
        if self.is_locked(&self.0.join(&name))? {
            return Ok(Ok(Held { _file: None }));
        }
        let mut others = self.at_work(&name)?;
        if let Some(ticket) = ticket {
            others.extend(self.before(ticket)?);
        }
        if !others.is_empty() && !concurrent {
            return Ok(Err(others));
        }
        Ok(Ok(Held { _file: Some(self.own(&name, me)?) }))
    }

    fn ticket(&self, me: &Map) -> Result<(String, Own)> {
        let _gate = self.gate()?;
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Padded with zeros, so that the names sort by time.
        let name = format!("{WAITING}{:020}_{}", since.as_micros(), name_of(me));
        let own = self.own(&name, me)?;
        Ok((name, own))
    }

    /// Returns the runs that are ahead in the queue.
    fn before(&self, ticket: &str) -> Result<Vec<Map>> {
        self.locked(|name| name.starts_with(WAITING) && name < ticket)
    }

    fn at_work(&self, me: &str) -> Result<Vec<Map>> {
        self.locked(|name| !name.starts_with(WAITING) && name != me)
    }

    /// Returns the content of the locked files. Unlocked ones belong to ended processes and are removed.
    fn locked(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<Map>> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .map_err(|error| Error::io("read", &self.0, &error))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && wanted(name))
            .collect();
        names.sort();
        let mut found = Vec::new();
        for path in names.iter().map(|name| self.0.join(name)) {
            // The lock ends with its process, even with one that was killed. A file without a lock
            // is left over.
            if !self.is_locked(&path)? {
                let _ = std::fs::remove_file(&path);
                continue;
            }
            let mut text = String::new();
            let read = File::open(&path).and_then(|mut file| file.read_to_string(&mut text));
            let about = read.ok().and_then(|_| serde_json::from_str(&text).ok()).and_then(Value::into_map);
            found.push(about.unwrap_or_default());
        }
        Ok(found)
    }

    fn is_locked(&self, path: &Path) -> Result<bool> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::io("open", path, &error)),
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // The lock taken for the question is dropped at once. The gate keeps others from seeing
            // it.
            Ok(_) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, errno)) => Err(Error::io("lock", path, &errno.into())),
        }
    }

    fn own(&self, name: &str, me: &Map) -> Result<Own> {
        let path = self.0.join(name);
        let file = store::disk::private_file().create(true).truncate(true).write(true).open(&path);
        let file = file.map_err(|error| Error::io("write", &path, &error))?;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let mut lock = locked.map_err(|(_, errno)| Error::io("lock", &path, &errno.into()))?;
        let text = serde_json::to_string(&Value::from(me.clone())).map_err(|error| Error::Other(error.to_string()))?;
        lock.write_all(text.as_bytes()).map_err(|error| Error::io("write", &path, &error))?;
        Ok(Own { path, _lock: lock })
    }

    /// Keeps others from looking and taking at the same time; held for moments.
    fn gate(&self) -> Result<Flock<File>> {
        store::disk::make_directories(&self.0).map_err(|error| Error::io("make", &self.0, &error))?;
        let path = self.0.join(".gate");
        let file = store::disk::private_file().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| Error::io("open", &path, &error))?;
        // Held only while the directory is read, so waiting here is short.
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| Error::io("lock", &path, &errno.into()))
    }
}

/// Describes the run of this job for others.
fn me(ctx: &Context) -> Map {
    let fun = ctx.job.load.get("fun").map_or_else(|| "state".to_owned(), Value::to_string);
    let jid = match ctx.job.jid() {
        // salt-call without a master has no job id.
        "" => format!("local-{}", std::process::id()),
        jid => jid.to_owned(),
    };
    let mut me = map! { "fun" => fun, "pid" => std::process::id(), "jid" => jid };
    if let Some(master) = ctx.opt("master").filter(|_| !ctx.is_local() && ctx.job.load.contains_key("tgt")) {
        me.insert("master", master.to_string());
    }
    me
}

fn name_of(me: &Map) -> String {
    let jid = me.get_str("jid").unwrap_or_default();
    // The jid comes from the network and becomes a file name.
    jid.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect()
}

/// Describes a run in Salt's words, and the master that asked for it.
fn sentence(run: &Map) -> String {
    let part = |key: &str| run.get(key).map(Value::to_string).unwrap_or_default();
    let jid = part("jid");
    let master = run.get("master").map(|master| format!(" for the master {master}")).unwrap_or_default();
    format!(
        "The function \"{}\" is running as PID {} and was started at {} with jid {jid}{master}",
        part("fun"),
        part("pid"),
        wire::jid::display_time(&jid),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::testing;
    use std::sync::Arc;

    fn job(cachedir: &Path, jid: &str, fun: &str) -> Context {
        let opts = map! { "cachedir" => cachedir.to_str().unwrap(), "master" => "m1.example" };
        let (mut ctx, _) = testing::context(&[], opts, Map::new(), Map::new());
        ctx.job = Arc::new(exec::Job::new(map! { "jid" => jid, "fun" => fun, "tgt" => "*" }));
        ctx
    }

    fn take(ctx: &Context, queue: Queue, concurrent: bool) -> Place {
        Runs::new(ctx.cachedir()).take(ctx, queue, concurrent).unwrap()
    }

    #[test]
    fn the_second_run_is_told_who_has_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let first = job(dir.path(), "20240229131415678901", "state.apply");
        let second = job(dir.path(), "20240229131416000000", "state.highstate");
        let Place::Mine(held) = take(&first, Queue::No, false) else { panic!("the place is free") };
        let Place::Taken(texts) = take(&second, Queue::No, false) else { panic!("the place is taken") };
        let pid = std::process::id();
        let text = format!(
            "The function \"state.apply\" is running as PID {pid} and was started at 2024, Feb 29 13:14:15.678901 with jid \
             20240229131415678901 for the master m1.example"
        );
        assert_eq!(texts, [text]);
        assert!(matches!(take(&first, Queue::No, false), Place::Mine(_)), "a run within the same job");
        assert!(matches!(take(&second, Queue::No, true), Place::Mine(_)), "concurrent runs ask for nobody");
        drop(held);
        assert!(matches!(take(&second, Queue::No, false), Place::Mine(_)));
    }

    #[test]
    fn those_that_wait_go_in_the_order_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let first = job(dir.path(), "20240229131415678901", "state.apply");
        let Place::Mine(held) = take(&first, Queue::No, false) else { panic!("the place is free") };
        let second = job(dir.path(), "20240229131416000000", "state.apply");
        assert!(matches!(take(&second, Queue::AtMost(1), false), Place::Taken(_)), "one is before it already");
        let waiting = std::thread::spawn(move || take(&second, Queue::Wait, false));
        drop(held);
        assert!(matches!(waiting.join().unwrap(), Place::Mine(_)));
    }

    #[test]
    fn the_argument_wins_over_the_option() {
        assert_eq!(Queue::read(None, None), Queue::No);
        assert_eq!(Queue::read(Some(&Value::Null), Some(&true.into())), Queue::Wait);
        assert_eq!(Queue::read(Some(&false.into()), Some(&true.into())), Queue::No);
        assert_eq!(Queue::read(Some(&3.into()), None), Queue::AtMost(3));
    }
}
