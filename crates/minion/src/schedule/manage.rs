//! Requests about the schedule over the minion's bus, from `schedule.*` and from other programs.

use std::path::Path;
use std::sync::Arc;

use schedule::Source;
use store::disk::{self, Writing};
use tracing::{debug, error, warn};
use value::{Map, Value, map};
use yaml::Flow;

use super::{Timetable, run, with_facts};

const TIME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S";

/// Handles an event `manage_schedule`, and fires the event with which Salt answers.
pub fn manage(table: &Arc<Timetable>, data: &Map) {
    let func = data.get_str("func").unwrap_or_default();
    let tag = match func {
        // Salt reports a changed job like a deleted one.
        "delete" | "modify" => "delete_complete",
        "add" => "add_complete",
        "enable" => "enabled_complete",
        "disable" => "disabled_complete",
        "enable_job" => "enabled_job_complete",
        "disable_job" => "disabled_job_complete",
        "postpone_job" => "postpone_job_complete",
        "skip_job" => "skip_job_complete",
        _ => return tell(table, func, data),
    };
    if let Err(reason) = change(table, func, data) {
        return error!("{reason}");
    }
    if data.get("persist").is_some_and(Value::truthy) {
        persist(table);
    }
    let jobs = table.lock().list(None, table.moment());
    answer(table, tag, map! { "complete" => true, "schedule" => jobs });
}

fn name_in(data: &Map) -> String {
    data.get("name").map(Value::to_string).unwrap_or_default()
}

/// Changes the schedule.
///
/// # Errors
/// When the request is invalid, in Salt's words.
fn change(table: &Timetable, func: &str, data: &Map) -> Result<(), &'static str> {
    let (name, empty) = (name_in(data), Value::Null);
    let today = table.moment().wall.date();
    let given = data.get("schedule").unwrap_or(&empty);
    table.change(|all| {
        match func {
            "delete" => all.delete(&name),
            "modify" => all.modify(&name, given.clone(), today),
            "add" => {
                let jobs = given.as_map().ok_or("Scheduled jobs have to be of type dict.")?;
                if jobs.len() != 1 {
                    return Err("You can only schedule one new job at a time.");
                }
                all.add(jobs, today);
            }
            "enable" | "disable" => all.enable(func == "enable"),
            "enable_job" | "disable_job" => all.enable_job(&name, func == "enable_job"),
            _ => {
                let format = data.get_str("time_fmt").unwrap_or(TIME_FORMAT);
                let instead = data.get("new_time").filter(|_| func == "postpone_job");
                all.skip(&name, data.get("time").unwrap_or(&empty), instead, format, today);
            }
        }
        Ok(())
    })
}

/// Handles requests that do not change the schedule's definition.
fn tell(table: &Arc<Timetable>, func: &str, data: &Map) {
    let name = name_in(data);
    let now = table.moment();
    let (tag, told) = match func {
        "reload" => {
            let Some(jobs) = data.get("schedule").and_then(Value::as_map) else { return };
            return table.change(|all| all.reload(jobs, now.wall.date()));
        }
        "run_job" => {
            let fire = with_facts(table, now, |facts| table.change(|all| all.run_job(&name, facts)));
            return fire.into_iter().for_each(|fire| run::begin(table, fire));
        }
        "save_schedule" => ("saved", map! { "complete" => persist(table) }),
        "list" => {
            let source = match data.get_str("where") {
                Some("pillar") => Some(Source::Pillar),
                Some("opts") => Some(Source::Options),
                _ => None,
            };
            let jobs = table.lock().list(source, now);
            ("list_complete", map! { "complete" => true, "schedule" => jobs })
        }
        "get_next_fire_time" => {
            let next = table.lock().next_fire_time(&name, now).map(|time| time.strftime(TIME_FORMAT).to_string());
            ("next_fire_time_complete", map! { "complete" => true, "next_fire_time" => next })
        }
        // Salt has no other way to report it.
        "job_status" if !data.get("fire_event").is_some_and(Value::truthy) => return,
        "job_status" => {
            let job = table.lock().status(&name, now);
            ("job_status_complete", map! { "complete" => true, "data" => job })
        }
        other => return error!("Function \"{other}\" is unavailable in salt.utils.scheduler"),
    };
    answer(table, tag, told);
}

fn answer(table: &Timetable, what: &str, data: Map) {
    if let Err(reason) = table.machine().bus.fire(format!("/salt/minion/minion_schedule_{what}"), data) {
        warn!("an event was not fired: {reason}");
    }
}

/// Writes the schedule to `_schedule.conf`, where the next start finds it. Returns whether that worked.
fn persist(table: &Timetable) -> bool {
    debug!("Persisting schedule");
    let jobs = table.lock().persisted();
    let written = write(&schedule::beside(&table.machine().config.raw, "_schedule.conf"), jobs);
    written.inspect_err(|reason| error!("Failed to persist the updated schedule: {reason}")).is_ok()
}

fn write(path: &Path, jobs: Map) -> Result<(), store::Error> {
    if let Some(directory) = path.parent() {
        disk::make_directory(directory)?;
    }
    let text = yaml::dump(&map! { "schedule" => jobs }.into(), Flow::Leaves);
    // Synced: an operator who persists a job expects it to survive a power cut.
    disk::write(path, text.as_bytes(), Writing { sync: true, ..Writing::PRIVATE })
}
