//! Scheduled jobs. They belong to the minion and not to a link: each runs once when it is due, whatever the number of
//! masters.
//!
//! The crate `schedule` decides what is due when. This module has the task that sleeps until then ([`start`]), runs
//! jobs ([`run`]), and handles requests of functions and programs on this host over the bus ([`manage()`]).

mod manage;
mod pillar;
mod run;

pub use manage::manage;
pub use run::{begin_apart, context_apart as context};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select_all;
use rt::Rt;
use schedule::{Facts, Moment, Schedule, Zone};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::error;
use value::{Map, Value};

use crate::masters::Link;
use crate::world::World;

/// The longest sleep; checking once a day does no harm.
const DAY: Duration = Duration::from_secs(86400);

/// The scheduled jobs of a minion.
pub struct Timetable {
    schedule: Mutex<Schedule>,
    changed: Arc<Notify>,
    zone: Zone,
    begun: Instant,
    running: AtomicBool,
}

impl Timetable {
    /// Reads the schedule of the options. Nothing runs yet.
    pub fn new(config: &config::Minion, rt: &Rt) -> Self {
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
            running: AtomicBool::new(false),
        }
    }

    /// Returns whether this is the minion that runs scheduled jobs, and not a call beside it.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Returns the time on both clocks.
    fn moment(&self, rt: &Rt) -> Moment {
        Moment { wall: self.zone.wall(rt.now()), mono: self.begun.elapsed() }
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
pub fn start(world: &Arc<World>) {
    world.schedule.running.store(true, Ordering::Relaxed);
    world.rt.spawn(keep(world.clone()));
}

async fn keep(world: Arc<World>) {
    let at_once = world.config.raw.get("scheduler_before_connect").is_some_and(Value::truthy);
    tokio::select! {
        biased;
        () = world.stop.cancelled() => return,
        () = first_master(&world, at_once) => {}
    }
    pillar::take(&world);
    for link in &world.links {
        world.rt.spawn(watch(world.clone(), link.clone()));
    }
    loop {
        let wait = look(&world);
        tokio::select! {
            biased;
            () = world.stop.cancelled() => return,
            () = world.schedule.changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Waits until there is a master to return to, unless the options say that jobs do not wait for one.
pub async fn first_master(world: &World, at_once: bool) {
    if !world.links.is_empty() && !at_once {
        select_all(world.links.iter().map(|link| Box::pin(link.live()))).await;
    }
}

/// Takes the schedule of a master's pillar whenever it was compiled, and when the master comes or goes.
async fn watch(world: Arc<World>, link: Arc<Link>) {
    let (mut state, mut compiled) = (link.watch(), link.watch_pillar());
    compiled.mark_changed();
    loop {
        let more = tokio::select! {
            biased;
            () = world.stop.cancelled() => return,
            more = compiled.changed() => more,
            more = state.changed() => more,
        };
        if more.is_err() {
            return;
        }
        pillar::take(&world);
    }
}

/// Starts what is due. Returns how long nothing else is.
fn look(world: &Arc<World>) -> Duration {
    let now = world.schedule.moment(&world.rt);
    let mut schedule = world.schedule.lock();
    let fires = with_facts(world, now, |facts| schedule.due(facts));
    let wait = schedule.wake(now).unwrap_or(DAY).min(DAY);
    drop(schedule);
    for fire in fires {
        run::begin(world, fire);
    }
    wait
}

/// Calls a function with what the schedule needs from outside.
fn with_facts<T>(world: &World, now: Moment, act: impl FnOnce(&Facts) -> T) -> T {
    let runs: Vec<String> =
        world.running.list().iter().filter_map(|job| Some(job.load.get_str("schedule")?.to_owned())).collect();
    let running = |name: &str| runs.iter().filter(|run| *run == name).count();
    let pick = |low: i64, high: i64| {
        let bound = u64::try_from(high.saturating_sub(low)).unwrap_or(0).saturating_add(1);
        low.saturating_add(i64::try_from(world.rt.below(bound)).unwrap_or(0))
    };
    act(&Facts { now, pick: &pick, running: &running })
}
