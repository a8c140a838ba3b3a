//! Compares our results with those of the real scheduler, croniter and dateutil, recorded by `testdata/record.py`.

use std::time::Duration;

use jiff::civil::DateTime;
use python::dateutil;
use saltern_schedule::{Facts, Moment, Schedule, cron::Cron};
use serde_json::Value as Json;
use value::{Map, Value};

fn rows(text: &str) -> Vec<Json> {
    serde_json::from_str(text).unwrap()
}

fn at(text: &Json) -> DateTime {
    text.as_str().unwrap().parse().unwrap()
}

fn map(json: Option<&Json>) -> Map {
    json.map_or_else(Map::new, |json| serde_json::from_value::<Value>(json.clone()).unwrap().into_map().unwrap())
}

/// Plays a recorded case, sleeping from one time to wake up to the next.
fn play(case: &Json) -> (Vec<(DateTime, String)>, Option<String>) {
    let start = at(&case["start"]);
    let end = Duration::from_secs(case["seconds"].as_u64().unwrap());
    let options = Value::Map(map(Some(&case["schedule"])));
    let mut schedule = Schedule::new(&options, Duration::from_secs(1), start.date()).unwrap();
    schedule.set_pillar(&map(case.get("pillar")), &map(case.get("grains")), start.date()).unwrap();
    let runs = case["running"].as_array().map_or(0, Vec::len);
    let (mut fires, mut mono, mut looks) = (Vec::new(), Duration::ZERO, 0);
    while mono < end {
        looks += 1;
        let now = Moment { wall: start + mono, mono };
        let facts = Facts { now, pick: &|low, high| (low + high) / 2, running: &|_| runs };
        for fire in schedule.due(&facts) {
            fires.push((now.wall, fire.fun.unwrap_or_default()));
        }
        let Some(wait) = schedule.wake(now) else { break };
        // A scheduler that asks to be woken at once, again and again, would burn a processor.
        assert!(looks == 1 || !wait.is_zero() || mono == Duration::ZERO, "it does not sleep: {case}");
        mono += wait;
    }
    assert!(looks < 3 * end.as_secs(), "it looks {looks} times: {case}");
    let job = schedule.status("job", Moment { wall: start, mono });
    (fires, job.get_str("_error").map(str::to_owned))
}

/// The deliberate differences; COMPATIBILITY.md has the reasons.
fn differs_by_intent(case: &Json) -> bool {
    let (schedule, job) = (&case["schedule"], &case["schedule"]["job"]);
    let has = |name: &str| job.get(name).is_some();
    // In Salt, a job that is delayed until its splay has passed is tried each second.
    let held_up = has("range") || has("skip_during_range") || has("until") || has("after");
    // A skip function stays in place of the job for ever once it ran.
    let replaced = schedule.get("skip_function").is_some();
    // A splay that ends before it begins is said to be ignored, but stops the job.
    let bad_splay = job["splay"]["start"].as_i64() > job["splay"]["end"].as_i64();
    // A time of today that has passed keeps a job from running at the start.
    let over = job["when"] == "9:59pm" && has("run_on_start");
    (has("splay") && held_up) || replaced || bad_splay || over
}

/// Salt may run a job at one time in two seconds that follow each other.
fn without_doubles(case: &Json, mut fires: Vec<(DateTime, String)>) -> Vec<(DateTime, String)> {
    if case["schedule"]["job"].get("once").is_some() {
        fires.dedup_by(|later, earlier| later.0.duration_since(earlier.0).as_secs() == 1);
    }
    fires
}

#[test]
fn jobs_run_when_salt_runs_them() {
    let rows = rows(include_str!("../testdata/fires.json"));
    assert!(rows.len() > 200);
    let mut wrong = Vec::new();
    for case in rows.iter().filter(|case| !differs_by_intent(case)) {
        let theirs = case["fires"].as_array().unwrap().iter();
        let theirs: Vec<_> =
            theirs.map(|fire| (at(&fire[0]), fire[2].as_str().unwrap_or_default().to_owned())).collect();
        let theirs = without_doubles(case, theirs);
        let (ours, error) = play(case);
        let said = case["messages"][0].as_str().filter(|said| !said.contains("splay"));
        if error.as_deref() != said && !said.is_some_and(|said| said.starts_with("Exception")) {
            wrong.push(format!("{}: theirs {said:?}, ours {error:?}", case["schedule"]));
        }
        if ours != theirs {
            let short = |fires: &[(DateTime, String)]| {
                fires.iter().take(12).map(|(at, fun)| format!("{} {fun}", at.time())).collect::<Vec<_>>().join(", ")
            };
            wrong.push(format!(
                "{} from {}:\n  theirs {}\n  ours   {}",
                case["schedule"],
                case["start"],
                short(&theirs),
                short(&ours)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn cron_expressions_match_like_croniter() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("../testdata/cron.json")) {
        let text = row["cron"].as_str().unwrap();
        let ours = Cron::parse(text).ok().map(|cron| {
            let mut time = at(&row["start"]);
            let next = std::iter::from_fn(|| {
                time = cron.next(time)?;
                Some(time)
            });
            next.take(4).collect::<Vec<_>>()
        });
        let theirs = row["next"].as_array().map(|all| all.iter().map(at).collect::<Vec<_>>());
        if ours != theirs {
            wrong.push(format!("{text:?} from {}:\n  theirs {theirs:?}\n  ours   {ours:?}", row["start"]));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn dates_are_parsed_like_dateutil() {
    let today = jiff::civil::date(2024, 2, 28);
    let mut wrong = Vec::new();
    for row in rows(include_str!("../testdata/dates.json")) {
        let text = row["text"].as_str().unwrap();
        let theirs = row["date"].as_str().map(|_| at(&row["date"]));
        let ours = dateutil::parse(text, today).ok();
        if ours != theirs {
            wrong.push(format!("{text:?}: theirs {theirs:?}, ours {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
