//! The schedule of a minion or of a master.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use jiff::civil::{Date, DateTime};
use value::{Map, Value, map};

use crate::definition::Whens;
use crate::job::{Common, Fire, Job};
use crate::moment::{Moment, micros};

/// Keys of a schedule that are options of all jobs.
pub const HIDDEN: [&str; 4] = ["enabled", "skip_function", "skip_during_range", "splay"];

/// The longest pause between checks if there are jobs at times of day: nothing reports that the clock was set.
const CLOCK: Duration = Duration::from_secs(60);

/// A smaller difference of the clocks does not count as setting the clock.
const DRIFT: i128 = 1_000_000;

/// The source of a job's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the options, or added at runtime.
    Options,
    /// In the pillar.
    Pillar,
}

/// The facts that a schedule needs from outside.
pub struct Facts<'a> {
    /// The time.
    pub now: Moment,
    /// Draws a random number between two, inclusive.
    pub pick: &'a dyn Fn(i64, i64) -> i64,
    /// Counts the running jobs of a name.
    pub running: &'a dyn Fn(&str) -> usize,
}

/// All jobs, and their common options.
#[derive(Clone, Debug)]
pub struct Schedule {
    options: Group,
    pillar: Group,
    whens_of_pillar: Option<Value>,
    whens_of_grains: Option<Value>,
    window: Duration,
    /// The time of day minus the other clock, at the last check.
    offset: Option<(DateTime, Duration)>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    jobs: IndexMap<String, Job>,
    common: Map,
}

/// Returns whether a job is one that Salt's programs create for themselves.
pub fn is_internal(name: &str) -> bool {
    name.starts_with("__")
}

/// Returns the path of a file beside those of the option `default_include`, such as `_schedule.conf` and `beacons.conf`.
pub fn beside(opts: &Map, name: &str) -> PathBuf {
    let conf_dir = opts.get_str("conf_dir").map(PathBuf::from);
    let beside = || opts.get_str("conf_file").and_then(|file| Some(Path::new(file).parent()?.to_owned()));
    let directory = conf_dir.or_else(beside).unwrap_or_else(|| "/etc/salt".into());
    let include = opts.get_str("default_include").unwrap_or("minion.d/*.conf");
    directory.join(Path::new(include).parent().unwrap_or(Path::new(""))).join(name)
}

impl Schedule {
    /// Creates the schedule of the option `schedule`. `window` is the option `loop_interval`: how long a time counts as reached.
    ///
    /// # Errors
    /// If it is not a map, in Salt's words.
    pub fn new(options: &Value, window: Duration, today: Date) -> Result<Self, String> {
        let mut schedule = Schedule {
            options: Group::default(),
            pillar: Group::default(),
            whens_of_pillar: None,
            whens_of_grains: None,
            window,
            offset: None,
        };
        schedule.options = schedule.read(options, Group::default(), today)?;
        Ok(schedule)
    }

    /// Takes `schedule` and `whens` of the pillar, and `whens` of the grains. Unchanged jobs keep their state.
    ///
    /// # Errors
    /// If the schedule of the pillar is not a map; it is ignored then.
    pub fn set_pillar(&mut self, pillar: &Map, grains: &Map, today: Date) -> Result<(), String> {
        let whens = (pillar.get("whens").cloned(), grains.get("whens").cloned());
        let changed = whens != (self.whens_of_pillar.clone(), self.whens_of_grains.clone());
        // Jobs that use these names must be parsed again, whatever source they are from.
        (self.whens_of_pillar, self.whens_of_grains) = whens;
        let known = std::mem::take(&mut self.pillar);
        let empty = Value::Map(Map::new());
        self.pillar = self.read(pillar.get("schedule").unwrap_or(&empty), known, today)?;
        if changed {
            let whens = Whens { pillar: self.whens_of_pillar.as_ref(), grains: self.whens_of_grains.as_ref() };
            for job in self.options.jobs.values_mut().chain(self.pillar.jobs.values_mut()) {
                if job.data.contains_key("when") {
                    job.read_again(whens, today);
                }
            }
        }
        Ok(())
    }

    fn whens(&self) -> Whens<'_> {
        Whens { pillar: self.whens_of_pillar.as_ref(), grains: self.whens_of_grains.as_ref() }
    }

    fn read(&self, given: &Value, mut known: Group, today: Date) -> Result<Group, String> {
        let given = match given {
            Value::Map(given) => given,
            Value::Null => return Ok(Group::default()),
            _ => return Err("Schedule must be of type dict.".to_owned()),
        };
        let mut group = Group::default();
        for (name, data) in given.iter() {
            let name = name.to_string();
            if HIDDEN.contains(&name.as_str()) {
                group.common.insert(name, data.clone());
                continue;
            }
            // An unchanged job keeps its state: a refreshed pillar must not restart its interval.
            let same = known.jobs.swap_remove(&name).filter(|job| job.given == *data);
            let job = same.unwrap_or_else(|| Job::new(&name, data.clone(), self.whens(), today));
            group.jobs.insert(name, job);
        }
        Ok(group)
    }

    /// Jobs of the options override those of the pillar.
    fn common(&self) -> Common {
        let find = |name: &str| self.options.common.get(name).or_else(|| self.pillar.common.get(name));
        Common {
            enabled: find("enabled").is_none_or(Value::truthy),
            splay: find("splay").filter(|splay| splay.truthy()).cloned(),
            skip_function: find("skip_function").and_then(Value::as_str).map(str::to_owned),
            skip_during_range: find("skip_during_range").filter(|range| range.truthy()).cloned(),
            window: self.window,
        }
    }

    fn jobs(&self) -> impl Iterator<Item = &Job> {
        // A job of the options hides the pillar's job of the same name.
        let pillar = self.pillar.jobs.values().filter(|job| !self.options.jobs.contains_key(&job.name));
        pillar.chain(self.options.jobs.values())
    }

    fn job(&self, name: &str) -> Option<&Job> {
        self.options.jobs.get(name).or_else(|| self.pillar.jobs.get(name))
    }

    /// Returns the jobs that must run now. Each is returned once for a time, however often this is called.
    pub fn due(&mut self, facts: &Facts) -> Vec<Fire> {
        let now = facts.now;
        self.mind_the_clock(now);
        let common = self.common();
        let Schedule { options, pillar, .. } = self;
        let hidden: Vec<String> = options.jobs.keys().cloned().collect();
        let pillar = pillar.jobs.values_mut().filter(|job| !hidden.contains(&job.name));
        let all = pillar.chain(options.jobs.values_mut());
        all.filter_map(|job| job.look(now, &common, facts.pick, facts.running)).collect()
    }

    /// Detects whether the clock was set since the last check.
    fn mind_the_clock(&mut self, now: Moment) {
        let Some((wall, mono)) = self.offset.replace((now.wall, now.mono)) else { return };
        let shift = micros(wall, now.wall) - (now.mono.saturating_sub(mono).as_micros() as i128);
        // Small differences are the kernel's slow corrections.
        if shift.abs() <= DRIFT {
            return;
        }
        tracing::debug!("the clock was set by {} seconds", shift / 1_000_000);
        // Set forward: jobs at times of day are just due. Only a clock that was set back needs care.
        if shift > 0 {
            return;
        }
        let back = Duration::from_micros(u64::try_from(-shift).unwrap_or(u64::MAX));
        for job in self.options.jobs.values_mut().chain(self.pillar.jobs.values_mut()) {
            job.rewind(now, back, self.window);
        }
    }

    /// Returns how long nothing is due; `None` means for ever.
    pub fn wake(&self, now: Moment) -> Option<Duration> {
        let least = self.jobs().filter_map(|job| job.wake(now)).min()?;
        // The kernel does not report that the clock was set; jobs at times of day need to check.
        let by_day = self.jobs().any(Job::minds_the_clock);
        Some(if by_day { least.min(CLOCK) } else { least })
    }

    /// Runs a job on request; `None` if there is no such job.
    pub fn run_job(&mut self, name: &str, facts: &Facts) -> Option<Fire> {
        let job = self.options.jobs.get_mut(name).or_else(|| self.pillar.jobs.get_mut(name))?;
        // Salt checks this also for a run on request.
        if job.most_running().is_some_and(|most| (facts.running)(name) >= most) {
            tracing::debug!("schedule.handle_func: The scheduled job {name} was not started, it is already running");
            return None;
        }
        tracing::info!("Running Job: {name}");
        Some(job.fire_now(facts.now))
    }

    /// Adds or updates jobs. Those of the pillar cannot be updated.
    pub fn add(&mut self, jobs: &Map, today: Date) {
        for (name, data) in jobs.iter() {
            let name = name.to_string();
            if self.pillar.jobs.contains_key(&name) {
                tracing::warn!("Cannot update job {name}, it's in the pillar!");
                continue;
            }
            if self.options.jobs.contains_key(&name) {
                tracing::info!("Updating job settings for scheduled job: {name}");
            } else {
                tracing::info!("Added new job {name} to scheduler");
            }
            let mut data = data.clone();
            // Salt enables a job that is added, and shows that.
            if let Value::Map(data) = &mut data
                && !data.contains_key("enabled")
            {
                data.insert("enabled", true);
            }
            let job = Job::new(&name, data, self.whens(), today);
            self.options.jobs.insert(name, job);
        }
    }

    /// Replaces the definition of a job.
    pub fn modify(&mut self, name: &str, data: Value, today: Date) {
        if !self.options.jobs.contains_key(name) && self.pillar.jobs.contains_key(name) {
            tracing::warn!("Cannot modify job {name}, it's in the pillar!");
            return;
        }
        // Moved to the end, as a Python dict does when a key is removed and set.
        self.options.jobs.shift_remove(name);
        let job = Job::new(name, data, self.whens(), today);
        self.options.jobs.insert(name.to_owned(), job);
    }

    /// Deletes a job.
    pub fn delete(&mut self, name: &str) {
        if self.options.jobs.shift_remove(name).is_none() && self.pillar.jobs.contains_key(name) {
            tracing::warn!("Cannot delete job {name}, it's in the pillar!");
        }
    }

    /// Enables or disables a job.
    pub fn enable_job(&mut self, name: &str, enabled: bool) {
        if let Some(job) = self.options.jobs.get_mut(name) {
            job.data.insert("enabled", enabled);
            let verb = if enabled { "Enabling" } else { "Disabling" };
            tracing::info!("{verb} job {name} in scheduler");
        } else if self.pillar.jobs.contains_key(name) {
            tracing::warn!("Cannot modify job {name}, it's in the pillar!");
        }
    }

    /// Enables or disables all jobs.
    pub fn enable(&mut self, enabled: bool) {
        self.options.common.insert("enabled", enabled);
    }

    /// Adds jobs in the form of a file with `schedule`.
    pub fn reload(&mut self, given: &Map, today: Date) {
        let jobs = given.get("schedule").and_then(Value::as_map).unwrap_or(given);
        for (name, data) in jobs.iter() {
            let name = name.to_string();
            if HIDDEN.contains(&name.as_str()) {
                // Salt's file has the common options between the jobs.
                self.options.common.insert(name, data.clone());
            } else {
                let job = Job::new(&name, data.clone(), self.whens(), today);
                self.options.jobs.insert(name, job);
            }
        }
    }

    /// Skips a job at a time, and runs it at another one instead, if given.
    pub fn skip(&mut self, name: &str, time: &Value, instead: Option<&Value>, format: &str, today: Date) {
        let whens = Whens { pillar: self.whens_of_pillar.as_ref(), grains: self.whens_of_grains.as_ref() };
        let Some(job) = self.options.jobs.get_mut(name) else {
            if self.pillar.jobs.contains_key(name) {
                tracing::warn!("Cannot modify job {name}, it's in the pillar!");
            }
            return;
        };
        for (key, time) in [("skip_explicit", Some(time)), ("run_explicit", instead)] {
            let Some(time) = time else { continue };
            let times = job.data.entry_or_insert_with(key, || Value::List(Vec::new()));
            if let Value::List(times) = times {
                times.push(map! { "time" => time.clone(), "time_fmt" => format }.into());
            }
        }
        job.read_again(whens, today);
    }

    /// Returns the options of all jobs, and the jobs of one source or of both, with their current state.
    pub fn list(&self, source: Option<Source>, now: Moment) -> Map {
        let mut all = Map::new();
        for (from, group) in [(Source::Pillar, &self.pillar), (Source::Options, &self.options)] {
            // The options come later, so their jobs replace the pillar's.
            if source.is_none_or(|source| source == from) {
                all.update(group.common.clone());
                all.update(group.jobs.values().map(|job| (job.name.as_str(), job.to_value(now))).collect());
            }
        }
        all
    }

    /// Returns a job with its current state; empty if there is none.
    pub fn status(&self, name: &str, now: Moment) -> Map {
        self.job(name).and_then(|job| job.to_value(now).into_map()).unwrap_or_default()
    }

    /// Returns when a job runs next; `None` if that is unknown.
    pub fn next_fire_time(&self, name: &str, now: Moment) -> Option<DateTime> {
        self.job(name)?.next_fire_time(now)
    }

    /// Returns what is written to `_schedule.conf` below `schedule`: everything except the pillar's jobs.
    pub fn persisted(&self) -> Map {
        self.options.written_form()
    }
}

impl Group {
    fn written_form(&self) -> Map {
        let mut all = self.common.clone();
        for job in self.jobs.values() {
            // A value that was not a map is written back unchanged.
            let data = if job.given.as_map().is_some() { Value::Map(job.data.clone()) } else { job.given.clone() };
            all.insert(job.name.as_str(), data);
        }
        all
    }
}
