//! The state of one job: when it is due, and whether it may run.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use python::dateutil;
use value::{Map, Value};

use crate::definition::{Definition, Problem, Splay, Timing, When, Whens, function_of, read_splay};
use crate::moment::{Moment, micros, minus, plus, to_value};
use crate::range::{self, Verdict};

/// Jobs with a longer interval than this do not run twice when the clock is set back by less than [`SET_BACK`]; more
/// frequent jobs follow the new time.
const RARE_INTERVAL: Duration = Duration::from_secs(3600);

/// If the clock is set back by this or more, all jobs follow the new time.
const SET_BACK: Duration = Duration::from_secs(3 * 3600);

/// A job that must run now.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    /// Its name.
    pub name: String,
    /// The function; `None` if the definition has none.
    pub fun: Option<String>,
    /// Its definition.
    pub data: Map,
    /// The delay.
    pub late: Duration,
}

/// A skipped run.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// The reason, one of Salt's words.
    pub reason: &'static str,
    /// When it was skipped.
    pub at: DateTime,
}

/// Options of all jobs of a schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub enabled: bool,
    pub splay: Option<Value>,
    pub skip_function: Option<String>,
    pub skip_during_range: Option<Value>,
    /// The time for which a time of day counts as reached (`loop_interval`).
    pub window: Duration,
}

/// When something is due, on one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DueTime {
    Mono(Duration),
    Wall(DateTime),
}

impl DueTime {
    /// Returns the microseconds until then; negative if it is past.
    fn left(self, now: Moment) -> i128 {
        match self {
            // Signed and wide: times far away must not wrap around.
            DueTime::Mono(at) => at.as_micros() as i128 - now.mono.as_micros() as i128,
            DueTime::Wall(at) => micros(now.wall, at),
        }
    }

    fn plus(self, by: Duration) -> DueTime {
        match self {
            DueTime::Mono(at) => DueTime::Mono(at + by),
            DueTime::Wall(at) => DueTime::Wall(plus(at, by)),
        }
    }

    /// Returns the time of day of this moment.
    fn wall(self, now: Moment) -> DateTime {
        match self {
            DueTime::Wall(at) => at,
            DueTime::Mono(at) if at >= now.mono => plus(now.wall, at - now.mono),
            DueTime::Mono(at) => minus(now.wall, now.mono - at),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    begun: bool,
    next: Option<DueTime>,
    /// When it runs, including the random delay.
    splayed: Option<DueTime>,
    /// It runs at the start.
    start: bool,
    /// Times at which it runs in addition to its own.
    explicit: Vec<DateTime>,
    /// When a job that waits for a range is checked again.
    again: Option<DateTime>,
    last_run: Option<DateTime>,
    skipped: Option<Skipped>,
    /// Its times have changed.
    plan_again: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub name: String,
    /// The original definition.
    pub given: Value,
    /// The definition as Salt shows it, without its current state.
    pub data: Map,
    definition: Result<Definition, Problem>,
    /// An error that was found when it was due.
    error: Option<Problem>,
    state: State,
}

impl Job {
    pub fn new(name: &str, given: Value, whens: Whens, today: Date) -> Self {
        let mut data = given.as_map().cloned().unwrap_or_default();
        // Names with an underscore are Salt's current state of the job, not its definition.
        data.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with('_')));
        if given.as_map().is_some() && !data.contains_key("name") {
            data.insert("name", name);
        }
        let definition = match &given {
            Value::Map(_) => Definition::read(name, &data, whens, today),
            other => Err(not_a_map(name, other)),
        };
        if let Err(problem) = &definition {
            tracing::error!("{}", problem.0);
        }
        Job { name: name.to_owned(), given, data, definition, error: None, state: State::default() }
    }

    /// Parses the changed definition. The state of the job stays.
    pub fn read_again(&mut self, whens: Whens, today: Date) {
        let read = Definition::read(&self.name, &self.data, whens, today);
        // A run added with `postpone_job` is new; those that were planned before stay planned.
        if let Ok(new) = &read
            && self.state.begun
        {
            let known = self.definition.as_ref().map(|old| old.run_explicit.clone()).unwrap_or_default();
            self.state.explicit.extend(new.run_explicit.iter().filter(|time| !known.contains(time)));
        }
        let other_time = match (&read, &self.definition) {
            (Ok(new), Ok(old)) => new.timing != old.timing,
            _ => true,
        };
        self.definition = read;
        // Only a job whose timing is another one starts over: a changed argument must not delay it.
        self.state.plan_again |= other_time && self.state.begun;
    }

    pub fn is_enabled(&self) -> bool {
        self.data.get("enabled").is_none_or(Value::truthy)
    }

    /// Returns whether it follows the time of day.
    pub fn minds_the_clock(&self) -> bool {
        let by_wall = |at: &DueTime| matches!(at, DueTime::Wall(_));
        self.state.next.as_ref().is_some_and(by_wall) || !self.state.explicit.is_empty() || self.state.again.is_some()
    }

    fn seconds(&self) -> Option<Duration> {
        match self.definition.as_ref().ok()?.timing {
            Timing::Every(long) => Some(long),
            _ => None,
        }
    }

    /// Returns the time until it must be checked.
    pub fn wake(&self, now: Moment) -> Option<Duration> {
        // A broken definition never wakes anybody.
        self.definition.as_ref().ok()?;
        if !self.state.begun || self.state.plan_again {
            return Some(Duration::ZERO);
        }
        let due = self.state.splayed.or(self.state.next);
        let due = due.filter(|_| self.state.again.is_none()).map(|at| at.left(now));
        let again = self.state.again.map(|at| micros(now.wall, at));
        let explicit = self.state.explicit.iter().map(|at| micros(now.wall, *at)).min();
        // A run may be planned for several reasons; the first one counts.
        let least = [due, again, explicit].into_iter().flatten().min()?;
        Some(Duration::from_micros(u64::try_from(least.max(0)).unwrap_or(u64::MAX)))
    }

    /// Decides whether the job runs now. `pick` draws a random number between two, `running` counts its running jobs.
    pub fn look(
        &mut self,
        now: Moment,
        common: &Common,
        pick: &dyn Fn(i64, i64) -> i64,
        running: &dyn Fn(&str) -> usize,
    ) -> Option<Fire> {
        self.definition.as_ref().ok()?;
        // The reason is shown until the next check, as in Salt.
        self.state.skipped = None;
        self.begin(now, common);
        self.draw_splay(now, common, pick);
        let planned = self.state.splayed.or(self.state.next).filter(|at| at.left(now) <= 0);
        let told = self.take_explicit(now);
        let start = std::mem::take(&mut self.state.start);
        // A waiting job is left alone until its time.
        let waiting = self.state.again.take().filter(|again| *again > now.wall);
        if (planned.is_none() || waiting.is_some()) && !told && !start {
            self.state.again = waiting;
            self.note_disabled(now, common);
            return None;
        }
        let mut replaced = false;
        // As in Salt, no range keeps a job from running at the start.
        let may = if start { Ok(Verdict::Run) } else { self.may_run(now, common, &mut replaced) };
        let may = match may {
            Ok(may) => self.count_runs(may, common, running),
            Err(problem) => {
                tracing::error!("{}", problem.0);
                self.error = Some(problem);
                // Planned again: without that, the job would be due again at once.
                self.plan_next(now, planned, false);
                return None;
            }
        };
        match may {
            Verdict::Run => {}
            Verdict::Skip(reason) => {
                self.state.skipped = Some(Skipped { reason, at: now.wall });
                self.plan_next(now, planned, false);
                return None;
            }
            Verdict::Wait(reason, until) => {
                self.state.skipped = Some(Skipped { reason, at: now.wall });
                // An expired interval waits for the end of the range; a time of day does not.
                if self.seconds().is_some() && planned.is_some() {
                    self.state.again = Some(until);
                } else {
                    self.plan_next(now, planned, false);
                }
                return None;
            }
        }
        // The caller logs a job that is very late.
        let late = planned.map_or(0, |at| -at.left(now));
        self.plan_next(now, planned, true);
        self.state.last_run = Some(now.wall);
        self.fill_in();
        let fun = if replaced { common.skip_function.clone() } else { function_of(&self.data).map(Value::to_string) };
        let late = Duration::from_micros(u64::try_from(late).unwrap_or(0));
        Some(Fire { name: self.name.clone(), fun, data: self.data.clone(), late })
    }

    /// A run on request.
    pub fn fire_now(&mut self, now: Moment) -> Fire {
        self.state.last_run = Some(now.wall);
        self.fill_in();
        let fun = function_of(&self.data).map(Value::to_string);
        Fire { name: self.name.clone(), fun, data: self.data.clone(), late: Duration::ZERO }
    }

    /// Returns the maximum number of concurrent runs; `None` if they are not counted.
    pub fn most_running(&self) -> Option<usize> {
        // Without `jid_include` Salt counts no running jobs.
        let counted = self.data.get("jid_include").is_none_or(Value::truthy);
        let most = self.data.get("maxrunning").and_then(Value::as_i64).unwrap_or(1);
        counted.then(|| usize::try_from(most).unwrap_or(0))
    }

    fn count_runs(&self, may: Verdict, common: &Common, running: &dyn Fn(&str) -> usize) -> Verdict {
        // Salt checks this last, so it replaces any other reason.
        if may != Verdict::Run {
            return if common.enabled && self.is_enabled() { may } else { Verdict::Skip("disabled") };
        }
        if !common.enabled || !self.is_enabled() {
            return Verdict::Skip("disabled");
        }
        match self.most_running() {
            Some(most) if running(&self.name) >= most => {
                tracing::debug!(
                    "schedule.handle_func: The scheduled job {} was not started, {most} already running",
                    self.name
                );
                Verdict::Skip("maxrunning")
            }
            _ => Verdict::Run,
        }
    }

    fn note_disabled(&mut self, now: Moment, common: &Common) {
        if !common.enabled || !self.is_enabled() {
            self.state.skipped = Some(Skipped { reason: "disabled", at: now.wall });
        }
    }

    fn begin(&mut self, now: Moment, common: &Common) {
        let Ok(definition) = &self.definition else { return };
        if std::mem::take(&mut self.state.plan_again) {
            (self.state.next, self.state.splayed) = (self.first(now, common), None);
        }
        if self.state.begun {
            return;
        }
        self.state.begun = true;
        self.state.start = definition.run_on_start;
        // A time that was reached within the window before the start still counts.
        let old = minus(now.wall, common.window);
        self.state.explicit = definition.run_explicit.iter().copied().filter(|time| *time > old).collect();
        self.state.next = self.first(now, common);
        if self.state.next.is_none() {
            // All its times are past: not even the start counts.
            self.state.start = false;
        }
        // As in Salt, the common splay becomes part of the job's definition, and `schedule.list` shows it there.
        if !self.data.contains_key("splay")
            && let Some(splay) = &common.splay
        {
            self.data.insert("splay", splay.clone());
        }
    }

    fn first(&self, now: Moment, common: &Common) -> Option<DueTime> {
        match &self.definition.as_ref().ok()?.timing {
            Timing::Every(long) => Some(DueTime::Mono(now.mono + *long)),
            Timing::Cron(_) => self.after(now.wall),
            // A time that has just been reached still counts.
            _ => self.after(minus(minus(now.wall, common.window), Duration::from_micros(1))),
        }
    }

    /// Returns the next time of day after one.
    fn after(&self, time: DateTime) -> Option<DueTime> {
        let next = match &self.definition.as_ref().ok()?.timing {
            Timing::Once(once) => Some(*once).filter(|once| *once > time),
            Timing::Cron(cron) => cron.next(time),
            Timing::When(whens) => whens.iter().filter_map(|when| next_of(when, time)).min(),
            Timing::Every(_) | Timing::Never => None,
        };
        next.map(DueTime::Wall)
    }

    fn splay(&self, common: &Common) -> Option<Splay> {
        let definition = self.definition.as_ref().ok()?;
        if matches!(definition.timing, Timing::Once(_)) {
            // A job for one exact time is not delayed.
            return None;
        }
        if self.data.contains_key("splay") {
            read_splay(self.data.get("splay")?)
        } else {
            read_splay(common.splay.as_ref()?)
        }
    }

    fn draw_splay(&mut self, now: Moment, common: &Common, pick: &dyn Fn(i64, i64) -> i64) {
        let (Some(next), None) = (self.state.next, self.state.splayed) else { return };
        let Some(splay) = self.splay(common) else { return };
        let seconds = u64::try_from(pick(splay.least, splay.most)).unwrap_or(0);
        let splayed = next.plus(Duration::from_secs(seconds));
        // As in Salt, only a run that is still in the future is delayed: an overdue one starts at once.
        if splayed.left(now) > 0 {
            tracing::debug!("schedule.handle_func: Adding splay of {seconds} seconds to next run.");
            self.state.splayed = Some(splayed);
        }
    }

    fn take_explicit(&mut self, now: Moment) -> bool {
        // All past ones at once: after a pause the job runs once, not once for each.
        let before = self.state.explicit.len();
        self.state.explicit.retain(|time| *time > now.wall);
        self.state.explicit.len() < before
    }

    fn may_run(&mut self, now: Moment, common: &Common, replaced: &mut bool) -> Result<Verdict, Problem> {
        let can_replace = common.skip_function.is_some();
        let may = range::in_range(&self.name, &self.data, now.wall, replaced, can_replace)?;
        if may != Verdict::Run {
            return Ok(may);
        }
        // The job's own range comes before the common one.
        let skip = self.data.get("skip_during_range").or(common.skip_during_range.as_ref());
        let mut reason = None;
        if let Some(skip) = skip.filter(|skip| skip.truthy()).cloned() {
            let ends = range::ends(&self.name, &skip, (" in skip_during_range", " "), now.wall)?;
            self.run_after(ends.end, now, common);
            if ends.start <= now.wall && now.wall <= ends.end {
                reason = Some("in_skip_range");
            }
        }
        let definition = self.definition.as_ref().map_err(Problem::clone)?;
        if range::is_passed_over(&definition.skip_explicit, now.wall, common.window) {
            reason = Some("skip_explicit");
        }
        // With `skip_function` another function runs in place of the job, so the job runs after all.
        match reason {
            Some(_) if can_replace => *replaced = true,
            Some(reason) => return Ok(Verdict::Skip(reason)),
            None => {}
        }
        range::in_time(&self.data, now.wall)
    }

    /// With `run_after_skip_range`, a job that is due in such a range runs at its end.
    fn run_after(&mut self, end: DateTime, now: Moment, common: &Common) {
        let over = plus(end, common.window);
        let wanted = self.data.get("run_after_skip_range").is_some_and(Value::truthy);
        if wanted && over > now.wall && !self.state.explicit.contains(&over) {
            self.state.explicit.push(over);
        }
    }

    /// Plans the next run after one that ran or was skipped.
    fn plan_next(&mut self, now: Moment, planned: Option<DueTime>, ran: bool) {
        let was_splayed = self.state.splayed.is_some();
        if ran || planned.is_some() {
            self.state.splayed = None;
        }
        match (self.seconds(), self.state.next) {
            (Some(long), Some(next)) if ran || next.left(now) <= 0 => {
                // A run that is on time does not move the following ones.
                let on_time =
                    planned.is_some() && !was_splayed && -next.left(now) < (long.as_micros() as i128).min(1_000_000);
                let from = if on_time { next } else { DueTime::Mono(now.mono) };
                self.state.next = Some(from.plus(long));
            }
            (Some(_), _) => {}
            (None, Some(next)) if next.left(now) <= 0 || planned.is_some() => self.state.next = self.after(now.wall),
            (None, _) => {}
        }
    }

    /// Adjusts the job after the clock was set back.
    pub fn rewind(&mut self, now: Moment, by: Duration, window: Duration) {
        // Intervals are on the monotonic clock and do not notice.
        let Some(DueTime::Wall(next)) = self.state.next else { return };
        // Not from the run before: that one is an hour away as well if the clock was set ahead by an hour and came back.
        let following = self.after(next).map(|following| micros(next, following.wall(now)));
        let rare = following.is_some_and(|apart| apart >= RARE_INTERVAL.as_micros() as i128);
        // Otherwise a daily job would run twice on the day the clock is corrected.
        if rare && by < SET_BACK {
            return;
        }
        self.state.splayed = None;
        self.state.next = self.after(minus(now.wall, window));
    }

    /// As in Salt, defaults are added to the definition of a job that runs.
    fn fill_in(&mut self) {
        if self.data.get("jid_include").is_none_or(Value::truthy) {
            self.data.insert("jid_include", true);
            // Salt writes the default into the definition, where `schedule.list` shows it.
            if !self.data.contains_key("maxrunning") {
                tracing::info!(
                    "schedule: maxrunning parameter was not specified for job {}, defaulting to 1.",
                    self.name
                );
                self.data.insert("maxrunning", 1);
            }
        }
    }

    /// Returns when it runs next, as a time of day.
    pub fn next_fire_time(&self, now: Moment) -> Option<DateTime> {
        // As Salt shows it: the splay is in the time of `when` jobs only.
        let at = self.state.next?.wall(now);
        let by_when = matches!(self.definition.as_ref().map(|definition| &definition.timing), Ok(Timing::When(_)));
        let at = if by_when { self.state.splayed.map_or(at, |splayed| splayed.wall(now)) } else { at };
        Some(self.state.explicit.iter().copied().filter(|time| *time > now.wall).chain([at]).min().unwrap_or(at))
    }

    /// Returns the definition with the current state, under Salt's names.
    pub fn to_value(&self, now: Moment) -> Value {
        if self.given.as_map().is_none() {
            return self.given.clone();
        }
        let mut shown = self.data.clone();
        let problem = self.definition.as_ref().err().or(self.error.as_ref());
        if let Some(problem) = problem {
            shown.insert("_error", problem.0.as_str());
        }
        if !self.state.begun {
            return shown.into();
        }
        let time = |time: Option<DateTime>| time.map_or(Value::Null, to_value);
        shown.insert("_next_fire_time", time(self.next_fire_time(now)));
        shown.insert("_splay", time(self.state.splayed.map(|at| at.wall(now))));
        if let Some(seconds) = self.seconds() {
            shown.insert("_seconds", seconds.as_secs() as i64);
        }
        shown.insert("_run_on_start", self.state.start);
        if let Some(last) = self.state.last_run {
            shown.insert("_last_run", to_value(last));
        }
        if let Some(skipped) = &self.state.skipped {
            shown.insert("_skip_reason", skipped.reason);
            shown.insert("_skipped_time", to_value(skipped.at));
            shown.insert("_skipped", true);
        }
        shown.into()
    }
}

fn not_a_map(name: &str, given: &Value) -> Problem {
    // Python's names, as Salt prints the type.
    let kind = match given {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Float(_) => "float",
        Value::Str(_) => "str",
        Value::Bytes(_) => "bytes",
        Value::DateTime(_) => "datetime.datetime",
        _ => "list",
    };
    Problem(format!("Scheduled job \"{name}\" should have a dict value, not <class '{kind}'>"))
}

/// Returns the next time of a `when` after a time. One without a day repeats.
fn next_of(when: &When, after: DateTime) -> Option<DateTime> {
    let text = match when {
        When::At(time) => return Some(*time).filter(|time| *time > after),
        When::Text(text) => text,
    };
    let today = after.date();
    let month = today.first_of_month().checked_add(jiff::Span::new().months(1)).ok();
    // The same text means another time on another day: candidates are today, tomorrow, and the first of the next
    // month and year.
    let days = [Some(today), today.tomorrow().ok(), month, Date::new(today.year() + 1, 1, 1).ok()];
    days.into_iter().flatten().filter_map(|day| dateutil::parse(text, day).ok()).filter(|time| *time > after).min()
}
