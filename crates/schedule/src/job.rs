//! One job: when it is due next, and whether it may run then.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use value::{Map, Value};

use crate::dates;
use crate::definition::{Definition, Problem, Splay, Timing, When, Whens, function_of, read_splay};
use crate::moment::{Moment, micros, minus, plus, to_value};
use crate::range::{self, May};

/// Jobs further apart than this are not run twice when the clock is set back by less than [`SET_BACK`]; those that run more
/// often go by the new time.
const SELDOM: Duration = Duration::from_secs(3600);

/// A clock that is set back by this or more is a new time for all jobs.
const SET_BACK: Duration = Duration::from_secs(3 * 3600);

/// A job that is to be run now.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    /// Its name.
    pub name: String,
    /// The function; `None` when the definition names none.
    pub fun: Option<String>,
    /// Its definition.
    pub data: Map,
    /// How much later than planned it is.
    pub late: Duration,
}

/// Why a job was not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// The reason, one of Salt's words.
    pub reason: &'static str,
    /// When.
    pub at: DateTime,
}

/// What holds for all jobs of a schedule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    pub enabled: bool,
    pub splay: Option<Value>,
    pub skip_function: Option<String>,
    pub skip_during_range: Option<Value>,
    /// For so long after a time it is still that time (`loop_interval`).
    pub window: Duration,
}

/// When something is due, on one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Mono(Duration),
    Wall(DateTime),
}

impl At {
    /// Microseconds until then; negative when it is over.
    fn left(self, now: Moment) -> i128 {
        match self {
            At::Mono(at) => at.as_micros() as i128 - now.mono.as_micros() as i128,
            At::Wall(at) => micros(now.wall, at),
        }
    }

    fn plus(self, by: Duration) -> At {
        match self {
            At::Mono(at) => At::Mono(at + by),
            At::Wall(at) => At::Wall(plus(at, by)),
        }
    }

    /// The time of day this will be at.
    fn wall(self, now: Moment) -> DateTime {
        match self {
            At::Wall(at) => at,
            At::Mono(at) if at >= now.mono => plus(now.wall, at - now.mono),
            At::Mono(at) => minus(now.wall, now.mono - at),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    begun: bool,
    next: Option<At>,
    /// When it runs, with a delay by chance.
    splayed: Option<At>,
    /// It runs at the start.
    start: bool,
    /// Times at which it is to be run beside its own.
    explicit: Vec<DateTime>,
    /// A job that waits for a range is looked at again then.
    again: Option<DateTime>,
    last_run: Option<DateTime>,
    /// The time of day it was last due.
    last_due: Option<DateTime>,
    skipped: Option<Skipped>,
    /// Its times have changed.
    plan_again: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub name: String,
    /// As it was given.
    pub given: Value,
    /// As Salt shows it, without what is only true now.
    pub data: Map,
    definition: Result<Definition, Problem>,
    /// An error that was found when it was due.
    error: Option<Problem>,
    state: State,
}

impl Job {
    pub fn new(name: &str, given: Value, whens: Whens, today: Date) -> Self {
        let mut data = given.as_map().cloned().unwrap_or_default();
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

    /// Reads the definition again after it was changed; what is known of the job stays.
    pub fn read_again(&mut self, whens: Whens, today: Date) {
        let read = Definition::read(&self.name, &self.data, whens, today);
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
        self.state.plan_again |= other_time && self.state.begun;
    }

    pub fn is_enabled(&self) -> bool {
        self.data.get("enabled").is_none_or(Value::truthy)
    }

    /// Whether it goes by the time of day.
    pub fn minds_the_clock(&self) -> bool {
        let by_wall = |at: &At| matches!(at, At::Wall(_));
        self.state.next.as_ref().is_some_and(by_wall) || !self.state.explicit.is_empty() || self.state.again.is_some()
    }

    fn seconds(&self) -> Option<Duration> {
        match self.definition.as_ref().ok()?.timing {
            Timing::Every(long) => Some(long),
            _ => None,
        }
    }

    /// The time until it has to be looked at.
    pub fn wake(&self, now: Moment) -> Option<Duration> {
        self.definition.as_ref().ok()?;
        if !self.state.begun || self.state.plan_again {
            return Some(Duration::ZERO);
        }
        let due = self.state.splayed.or(self.state.next);
        let due = due.filter(|_| self.state.again.is_none()).map(|at| at.left(now));
        let again = self.state.again.map(|at| micros(now.wall, at));
        let explicit = self.state.explicit.iter().map(|at| micros(now.wall, *at)).min();
        let least = [due, again, explicit].into_iter().flatten().min()?;
        Some(Duration::from_micros(u64::try_from(least.max(0)).unwrap_or(u64::MAX)))
    }

    /// Looks at the job: is it to be run now? `pick` draws a number between two, `running` counts its runs that are not over.
    pub fn look(
        &mut self,
        now: Moment,
        common: &Common,
        pick: &dyn Fn(i64, i64) -> i64,
        running: &dyn Fn(&str) -> usize,
    ) -> Option<Fire> {
        self.definition.as_ref().ok()?;
        self.state.skipped = None;
        self.begin(now, common);
        self.draw_splay(now, common, pick);
        let planned = self.state.splayed.or(self.state.next).filter(|at| at.left(now) <= 0);
        let told = self.take_explicit(now);
        let start = std::mem::take(&mut self.state.start);
        let waiting = self.state.again.take().filter(|again| *again > now.wall);
        if (planned.is_none() || waiting.is_some()) && !told && !start {
            self.state.again = waiting;
            self.note_disabled(now, common);
            return None;
        }
        let mut replaced = false;
        let may = if start { Ok(May::Run) } else { self.may_run(now, common, &mut replaced) };
        let may = match may {
            Ok(may) => self.count_runs(may, common, running),
            Err(problem) => {
                tracing::error!("{}", problem.0);
                self.error = Some(problem);
                self.settle(now, planned, false);
                return None;
            }
        };
        match may {
            May::Run => {}
            May::Skip(reason) => {
                self.state.skipped = Some(Skipped { reason, at: now.wall });
                self.settle(now, planned, false);
                return None;
            }
            May::Wait(reason, until) => {
                self.state.skipped = Some(Skipped { reason, at: now.wall });
                // An interval that is over waits for the range; a time of day is over.
                if self.seconds().is_some() && planned.is_some() {
                    self.state.again = Some(until);
                } else {
                    self.settle(now, planned, false);
                }
                return None;
            }
        }
        let late = planned.map_or(0, |at| -at.left(now));
        self.settle(now, planned, true);
        self.state.last_run = Some(now.wall);
        self.fill_in();
        let fun = if replaced { common.skip_function.clone() } else { function_of(&self.data).map(Value::to_string) };
        let late = Duration::from_micros(u64::try_from(late).unwrap_or(0));
        Some(Fire { name: self.name.clone(), fun, data: self.data.clone(), late })
    }

    /// A run out of turn.
    pub fn fire_now(&mut self, now: Moment) -> Fire {
        self.state.last_run = Some(now.wall);
        self.fill_in();
        let fun = function_of(&self.data).map(Value::to_string);
        Fire { name: self.name.clone(), fun, data: self.data.clone(), late: Duration::ZERO }
    }

    /// How many runs there may be at a time; `None` when they are not counted.
    pub fn most_running(&self) -> Option<usize> {
        let counted = self.data.get("jid_include").is_none_or(Value::truthy);
        let most = self.data.get("maxrunning").and_then(Value::as_i64).unwrap_or(1);
        counted.then(|| usize::try_from(most).unwrap_or(0))
    }

    fn count_runs(&self, may: May, common: &Common, running: &dyn Fn(&str) -> usize) -> May {
        if may != May::Run {
            return if common.enabled && self.is_enabled() { may } else { May::Skip("disabled") };
        }
        if !common.enabled || !self.is_enabled() {
            return May::Skip("disabled");
        }
        match self.most_running() {
            Some(most) if running(&self.name) >= most => {
                tracing::debug!(
                    "schedule.handle_func: The scheduled job {} was not started, {most} already running",
                    self.name
                );
                May::Skip("maxrunning")
            }
            _ => May::Run,
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
        let old = minus(now.wall, common.window);
        self.state.explicit = definition.run_explicit.iter().copied().filter(|time| *time > old).collect();
        self.state.next = self.first(now, common);
        if self.state.next.is_none() {
            // Nothing but times that are over: not even the start counts.
            self.state.start = false;
        }
        if !self.data.contains_key("splay")
            && let Some(splay) = &common.splay
        {
            self.data.insert("splay", splay.clone());
        }
    }

    fn first(&self, now: Moment, common: &Common) -> Option<At> {
        match &self.definition.as_ref().ok()?.timing {
            Timing::Every(long) => Some(At::Mono(now.mono + *long)),
            Timing::Cron(_) => self.after(now.wall),
            // What has just been is still now.
            _ => self.after(minus(minus(now.wall, common.window), Duration::from_micros(1))),
        }
    }

    /// The next time of day after one.
    fn after(&self, time: DateTime) -> Option<At> {
        let next = match &self.definition.as_ref().ok()?.timing {
            Timing::Once(once) => Some(*once).filter(|once| *once > time),
            Timing::Cron(cron) => cron.next(time),
            Timing::When(whens) => whens.iter().filter_map(|when| next_of(when, time)).min(),
            Timing::Every(_) | Timing::Never => None,
        };
        next.map(At::Wall)
    }

    fn splay(&self, common: &Common) -> Option<Splay> {
        let definition = self.definition.as_ref().ok()?;
        if matches!(definition.timing, Timing::Once(_)) {
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
        if splayed.left(now) > 0 {
            tracing::debug!("schedule.handle_func: Adding splay of {seconds} seconds to next run.");
            self.state.splayed = Some(splayed);
        }
    }

    fn take_explicit(&mut self, now: Moment) -> bool {
        let before = self.state.explicit.len();
        self.state.explicit.retain(|time| *time > now.wall);
        self.state.explicit.len() < before
    }

    fn may_run(&mut self, now: Moment, common: &Common, replaced: &mut bool) -> Result<May, Problem> {
        let can_replace = common.skip_function.is_some();
        let may = range::in_range(&self.name, &self.data, now.wall, replaced, can_replace)?;
        if may != May::Run {
            return Ok(may);
        }
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
        match reason {
            Some(_) if can_replace => *replaced = true,
            Some(reason) => return Ok(May::Skip(reason)),
            None => {}
        }
        range::in_time(&self.data, now.wall)
    }

    /// With `run_after_skip_range` a job that is due around such a range runs when the range is over.
    fn run_after(&mut self, end: DateTime, now: Moment, common: &Common) {
        let over = plus(end, common.window);
        let wanted = self.data.get("run_after_skip_range").is_some_and(Value::truthy);
        if wanted && over > now.wall && !self.state.explicit.contains(&over) {
            self.state.explicit.push(over);
        }
    }

    /// Plans the next run after one, or after it was passed over.
    fn settle(&mut self, now: Moment, planned: Option<At>, ran: bool) {
        if let Some(planned) = planned {
            self.state.last_due = Some(planned.wall(now));
        }
        let was_splayed = self.state.splayed.is_some();
        if ran || planned.is_some() {
            self.state.splayed = None;
        }
        match (self.seconds(), self.state.next) {
            (Some(long), Some(next)) if ran || next.left(now) <= 0 => {
                // A run that is on time does not move the following ones.
                let on_time =
                    planned.is_some() && !was_splayed && -next.left(now) < (long.as_micros() as i128).min(1_000_000);
                let from = if on_time { next } else { At::Mono(now.mono) };
                self.state.next = Some(from.plus(long));
            }
            (Some(_), _) => {}
            (None, Some(next)) if next.left(now) <= 0 || planned.is_some() => self.state.next = self.after(now.wall),
            (None, _) => {}
        }
    }

    /// The clock was set back.
    pub fn rewind(&mut self, now: Moment, by: Duration, window: Duration) {
        let Some(At::Wall(next)) = self.state.next else { return };
        let apart = self.state.last_due.map(|due| micros(due, next));
        let seldom = apart.is_some_and(|apart| apart >= SELDOM.as_micros() as i128);
        if seldom && by < SET_BACK {
            return;
        }
        self.state.splayed = None;
        self.state.next = self.after(minus(now.wall, window));
    }

    /// Salt notes its defaults in the definition of a job that runs.
    fn fill_in(&mut self) {
        if self.data.get("jid_include").is_none_or(Value::truthy) {
            self.data.insert("jid_include", true);
            if !self.data.contains_key("maxrunning") {
                tracing::info!(
                    "schedule: maxrunning parameter was not specified for job {}, defaulting to 1.",
                    self.name
                );
                self.data.insert("maxrunning", 1);
            }
        }
    }

    /// When it runs next, by the time of day.
    pub fn next_fire_time(&self, now: Moment) -> Option<DateTime> {
        let at = self.state.next?.wall(now);
        let by_when = matches!(self.definition.as_ref().map(|definition| &definition.timing), Ok(Timing::When(_)));
        let at = if by_when { self.state.splayed.map_or(at, |splayed| splayed.wall(now)) } else { at };
        Some(self.state.explicit.iter().copied().filter(|time| *time > now.wall).chain([at]).min().unwrap_or(at))
    }

    /// The definition with what is true now, under the names Salt has for it.
    pub fn shown(&self, now: Moment) -> Value {
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

/// The next time a `when` means, after a time. One that does not name a day comes again.
fn next_of(when: &When, after: DateTime) -> Option<DateTime> {
    let text = match when {
        When::At(time) => return Some(*time).filter(|time| *time > after),
        When::Text(text) => text,
    };
    let today = after.date();
    let month = today.first_of_month().checked_add(jiff::Span::new().months(1)).ok();
    let days = [Some(today), today.tomorrow().ok(), month, Date::new(today.year() + 1, 1, 1).ok()];
    days.into_iter().flatten().filter_map(|day| dates::parse(text, day).ok()).filter(|time| *time > after).min()
}
