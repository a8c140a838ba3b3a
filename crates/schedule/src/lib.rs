//! Decides when scheduled jobs are due: definitions and the time go in; jobs that are due, and the next time to check, come out.
//!
//! Nothing here sleeps, runs a job or reads a clock. A [`Moment`] has two clocks: the time of day, in the machine's zone, for jobs
//! at times of day (`when`, `once`, `cron`), and a monotonic one for jobs at intervals. So setting the clock by an hour neither
//! fires nor delays an interval.
//!
//! Names, defaults and messages are those of Salt's `schedule` option.

pub mod cron;
mod definition;
mod job;
mod moment;
mod range;
mod schedule;

pub use definition::{Definition, Problem, function_of, interval_of};
pub use jiff;
pub use job::{Fire, Skipped};
pub use moment::{Moment, Zone, to_value};
pub use schedule::{Facts, HIDDEN, Schedule, Source, beside, is_internal};
