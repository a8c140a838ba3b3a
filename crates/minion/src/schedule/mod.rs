//! Scheduled jobs. They belong to the minion and not to a link: each runs once when it is due, not once for each
//! master.
//!
//! The crate `schedule` decides what is due when. This module has the task that sleeps until then ([`start`]), runs
//! jobs ([`run`]), and handles requests of functions and programs on this host over the bus ([`manage()`]).

mod manage;
mod pillar;
mod run;

pub use manage::manage;
pub use run::begin_apart;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedule::{Facts, Moment, Schedule, Zone};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::error;
use value::{Map, Value};

use crate::beacons::Beacons;
use crate::machine::Machine;
use crate::masters::{Link, Masters};
use crate::returns::Returns;

/// The longest sleep; checking once a day does no harm.
const DAY: Duration = Duration::from_secs(86400);

/// The scheduled jobs of a minion.
pub struct Timetable {
    masters: Arc<Masters>,
    returns: Arc<Returns>,
    beacons: Arc<Beacons>,
    schedule: Mutex<Schedule>,
    changed: Arc<Notify>,
    zone: Zone,
    begun: Instant,
}

impl Timetable {
    /// Reads the schedule of the options. Nothing runs yet.
    pub fn new(masters: Arc<Masters>, returns: Arc<Returns>, beacons: Arc<Beacons>) -> Self {
        let (config, rt) = (&masters.machine.config, &masters.machine.rt);
        let zone = if rt.is_simulated() { Zone::Utc } else { Zone::Machine };
        let window = config.jobs.loop_interval.max(Duration::from_secs(1));
        let given = config.raw.get("schedule").cloned().unwrap_or_default();
        // Without jobs no date is needed: finding the machine's zone reads a directory of hundreds of zones.
        let planned = given.as_map().is_some_and(|jobs| !jobs.is_empty());
        let today = if planned { &zone } else { &Zone::Utc }.wall(rt.now()).date();
        let schedule = Schedule::new(&given, window, today).unwrap_or_else(|reason| {
            error!("the option 'schedule' is not used: {reason}");
            Schedule::new(&Value::Map(Map::new()), window, today).expect("a map is a schedule")
        });
        Timetable {
            schedule: Mutex::new(schedule),
            changed: Arc::default(),
            zone,
            begun: Instant::now(),
            masters,
            returns,
            beacons,
        }
    }

    fn machine(&self) -> &Arc<Machine> {
        &self.masters.machine
    }

    /// Returns the time on both clocks.
    fn moment(&self) -> Moment {
        Moment { wall: self.zone.wall(self.machine().rt.now()), mono: self.begun.elapsed() }
    }

    fn lock(&self) -> MutexGuard<'_, Schedule> {
        // A panic while it is held leaves at worst one job as it was.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the schedule and wakes the task that runs it.
    fn change<T>(&self, change: impl FnOnce(&mut Schedule) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.notify_one();
        changed
    }
}

/// Starts to run jobs when they are due.
pub fn start(table: &Arc<Timetable>) {
    table.machine().rt.spawn(keep(table.clone()));
}

async fn keep(table: Arc<Timetable>) {
    let at_once = table.machine().config.raw.get("scheduler_before_connect").is_some_and(Value::truthy);
    tokio::select! {
        biased;
        () = table.machine().stop.cancelled() => return,
        () = table.masters.first_live(at_once) => {}
    }
    pillar::take(&table);
    for link in &table.masters.links {
        table.machine().rt.spawn(watch(table.clone(), link.clone()));
    }
    loop {
        let wait = look(&table);
        tokio::select! {
            biased;
            () = table.machine().stop.cancelled() => return,
            () = table.changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Reads the schedule in a master's pillar whenever the pillar was compiled, and when the master connects or is lost.
async fn watch(table: Arc<Timetable>, link: Arc<Link>) {
    let (mut state, mut compiled) = (link.watch(), link.watch_pillar());
    compiled.mark_changed();
    loop {
        let more = tokio::select! {
            biased;
            () = table.machine().stop.cancelled() => return,
            more = compiled.changed() => more,
            more = state.changed() => more,
        };
        if more.is_err() {
            return;
        }
        pillar::take(&table);
    }
}

/// Starts what is due. Returns the time until something else is due.
fn look(table: &Arc<Timetable>) -> Duration {
    let now = table.moment();
    let mut schedule = table.lock();
    let fires = with_facts(table, now, |facts| schedule.due(facts));
    let wait = schedule.wake(now).unwrap_or(DAY).min(DAY);
    drop(schedule);
    for fire in fires {
        run::begin(table, fire);
    }
    wait
}

/// Calls a function with the facts that the schedule needs.
fn with_facts<T>(table: &Timetable, now: Moment, act: impl FnOnce(&Facts) -> T) -> T {
    let runs: Vec<String> = table
        .machine()
        .running
        .list()
        .iter()
        .filter_map(|job| Some(job.load.get_str("schedule")?.to_owned()))
        .collect();
    let running = |name: &str| runs.iter().filter(|run| *run == name).count();
    let pick = |low: i64, high: i64| {
        let bound = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(table.machine().rt.below(bound)).unwrap_or(0))
    };
    act(&Facts { now, pick: &pick, running: &running })
}
