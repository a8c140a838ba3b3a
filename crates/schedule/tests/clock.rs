//! Clocks that are set, and jobs that are changed while they wait.

use std::time::Duration;

use jiff::civil::{DateTime, date};
use saltern_schedule::{Facts, Moment, Schedule, Source};
use value::{Map, Value, list, map};

const HOUR: i64 = 3600;

struct World {
    schedule: Schedule,
    start: DateTime,
    mono: Duration,
    /// Seconds by which the clock was set.
    moved: i64,
    running: usize,
}

impl World {
    fn new(jobs: Map) -> Self {
        let start = date(2024, 2, 28).at(12, 0, 30, 0);
        let schedule = Schedule::new(&jobs.into(), Duration::from_secs(1), start.date()).unwrap();
        World { schedule, start, mono: Duration::ZERO, moved: 0, running: 0 }
    }

    fn now(&self) -> Moment {
        let wall = self.start + self.mono;
        Moment { wall: wall + jiff::SignedDuration::from_secs(self.moved), mono: self.mono }
    }

    /// Advances the time and returns the runs: the times since the start, in seconds.
    fn pass(&mut self, seconds: u64) -> Vec<u64> {
        let end = self.mono + Duration::from_secs(seconds);
        let mut fired = Vec::new();
        loop {
            let now = self.now();
            let running = self.running;
            let facts = Facts { now, pick: &|low, _| low, running: &|_| running };
            fired.extend(self.schedule.due(&facts).iter().map(|_| now.mono.as_secs()));
            match self.schedule.wake(now) {
                Some(wait) if self.mono + wait < end => self.mono += wait,
                _ => break,
            }
        }
        self.mono = end;
        fired
    }
}

fn job(more: Map) -> Map {
    let mut job = map! { "function" => "test.ping", "run_on_start" => false };
    job.update(more);
    map! { "job" => job }
}

#[test]
fn setting_the_clock_does_not_affect_an_interval() {
    for moved in [HOUR, -HOUR, 25 * HOUR] {
        let mut world = World::new(job(map! { "minutes" => 5 }));
        assert_eq!(world.pass(400), [300]);
        world.moved = moved;
        assert_eq!(world.pass(1000), [600, 900, 1200], "moved by {moved}");
    }
}

#[test]
fn a_minutely_cron_continues_when_the_clock_is_set() {
    for (moved, runs) in [(HOUR, 4), (-HOUR, 3)] {
        let mut world = World::new(job(map! { "cron" => "* * * * *" }));
        assert_eq!(world.pass(100), [30, 90]);
        world.moved = moved;
        // Neither one run for each minute that was skipped, nor silence until the old time is reached.
        assert_eq!(world.pass(200).len(), runs, "moved by {moved}: no storm and no silence");
    }
}

#[test]
fn a_frequent_cron_continues_when_the_clock_was_ahead_for_a_while() {
    // Within that while it runs once, at a time an hour away from the one before: that makes it no hourly job.
    let mut world = World::new(job(map! { "cron" => "*/4 * * * *" }));
    assert_eq!(world.pass(300), [210]);
    world.moved = HOUR;
    assert_eq!(world.pass(60).len(), 1);
    world.moved = 0;
    assert_eq!(world.pass(600), [450, 690, 930]);
}

#[test]
fn a_daily_job_runs_once_when_the_clock_is_set_back() {
    for timing in [map! { "cron" => "1 12 * * *" }, map! { "when" => "12:01" }] {
        let mut world = World::new(job(timing));
        assert_eq!(world.pass(100), [30]);
        world.moved = -60;
        // It has run at 12:01 already, by the clock before.
        assert_eq!(world.pass(200), []);
        world.moved = 0;
        assert_eq!(world.pass(86400), [86430]);
    }
}

#[test]
fn skipped_times_run_once_and_late() {
    for timing in
        [map! { "cron" => "*/10 * * * *" }, map! { "once" => "2024-02-28T12:30:00" }, map! { "when" => "12:30" }]
    {
        let mut world = World::new(job(timing));
        assert_eq!(world.pass(10), []);
        world.moved = HOUR;
        let fired = world.pass(100);
        assert_eq!(fired.len(), 1);
        // `CLOCK`: nothing else notices that the clock was set.
        assert!(fired[0] <= 70, "it is noticed within a minute: {fired:?}");
    }
}

#[test]
fn a_time_without_a_day_repeats_daily() {
    let mut world = World::new(job(map! { "when" => list!["12:01", "Friday 6am"] }));
    let day = 86400;
    assert_eq!(world.pass(3 * day), [30, day + 30, day + 18 * 3600 - 30, 2 * day + 30]);
}

#[test]
fn a_running_job_is_skipped() {
    let mut world = World::new(job(map! { "seconds" => 10 }));
    world.running = 1;
    assert_eq!(world.pass(35), []);
    assert_eq!(world.schedule.status("job", world.now()).get_str("_skip_reason"), Some("maxrunning"));
    world.running = 0;
    assert_eq!(world.pass(10), [40]);
}

#[test]
fn a_changed_job_restarts_and_the_others_continue() {
    let mut world = World::new(job(map! { "seconds" => 100 }));
    assert_eq!(world.pass(50), []);
    world.schedule.add(
        &map! { "other" => map! { "function" => "test.ping", "seconds" => 70, "run_on_start" => false } },
        world.start.date(),
    );
    world.schedule.enable_job("job", true);
    assert_eq!(world.pass(100), [100, 120]);
    world.schedule.modify(
        "job",
        map! { "function" => "test.ping", "seconds" => 20, "run_on_start" => false }.into(),
        world.start.date(),
    );
    world.schedule.delete("other");
    assert_eq!(world.pass(50), [170, 190]);
    world.schedule.enable(false);
    assert_eq!(world.pass(50), []);
    let persisted = world.schedule.persisted();
    assert_eq!(persisted.get("enabled"), Some(&false.into()));
    assert!(persisted.get("job").is_some_and(|job| job.as_map().unwrap().text_keys().all(|key| !key.starts_with('_'))));
}

#[test]
fn an_unchanged_pillar_changes_no_job() {
    let mut world = World::new(Map::new());
    let pillar = map! { "schedule" => job(map! { "seconds" => 60 }) };
    world.schedule.set_pillar(&pillar, &Map::new(), world.start.date()).unwrap();
    assert_eq!(world.pass(50), []);
    // The interval continues from where it was.
    world.schedule.set_pillar(&pillar, &Map::new(), world.start.date()).unwrap();
    assert_eq!(world.pass(50), [60]);
    let listed = |source| world.schedule.list(Some(source), world.now()).contains_key("job");
    assert_eq!((listed(Source::Pillar), listed(Source::Options)), (true, false));
    let wrong = map! { "schedule" => Value::from("often") };
    assert_eq!(
        world.schedule.set_pillar(&wrong, &Map::new(), world.start.date()),
        Err("Schedule must be of type dict.".to_owned())
    );
    assert_eq!(world.pass(1000), []);
}

#[test]
fn a_postponed_run_is_skipped_and_made_up_for() {
    let mut world = World::new(job(map! { "cron" => "*/2 * * * *" }));
    world.schedule.skip(
        "job",
        &"2024-02-28T12:02:00".into(),
        Some(&"2024-02-28T12:03:00".into()),
        "%Y-%m-%dT%H:%M:%S",
        world.start.date(),
    );
    assert_eq!(world.pass(300), [150, 210]);
    assert_eq!(
        world.schedule.next_fire_time("job", world.now()).map(|at| at.to_string()),
        Some("2024-02-28T12:06:00".to_owned())
    );
}

#[test]
fn a_job_runs_on_request_unless_it_is_running() {
    let mut world = World::new(job(map! { "hours" => 5 }));
    let facts = |running: &'static dyn Fn(&str) -> usize, now| Facts { now, pick: &|low, _| low, running };
    let now = world.now();
    assert_eq!(
        world.schedule.run_job("job", &facts(&|_| 0, now)).and_then(|fire| fire.fun),
        Some("test.ping".to_owned())
    );
    assert_eq!(world.schedule.run_job("job", &facts(&|_| 1, now)), None);
    assert_eq!(world.schedule.run_job("nobody", &facts(&|_| 0, now)), None);
}

#[test]
fn invalid_definitions_are_reported_and_affect_no_other_job() {
    let mut world = World::new(map! {
        "text" => "x", "cron" => map! { "function" => "test.ping", "cron" => "often" },
        "good" => map! { "function" => "test.ping", "seconds" => 10, "run_on_start" => false },
    });
    assert_eq!(world.pass(25), [10, 20]);
    assert_eq!(
        world.schedule.status("cron", world.now()).get_str("_error"),
        Some("Invalid cron string. Ignoring job cron.")
    );
    assert!(world.schedule.status("text", world.now()).is_empty());
    assert!(Schedule::new(&"x".into(), Duration::from_secs(1), world.start.date()).is_err());
}
