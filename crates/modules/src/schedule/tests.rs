use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use exec::testing::{FakeAgent, context};
use exec::{Call, Context};
use value::{Map, Value, list, map};

use super::MODULE;

struct World {
    ctx: Context,
    agent: Arc<FakeAgent>,
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let opts = map! { "conf_file" => directory.path().join("minion").display().to_string() };
        let (ctx, agent) = context(&[&MODULE], opts, map! {}, map! {});
        World { ctx, agent, directory }
    }

    /// Sets the next answer of the minion.
    fn answer(&self, answer: Map) {
        let mut complete = map! { "complete" => true };
        complete.update(answer);
        self.agent.answers.lock().unwrap().push_back(complete.into());
    }

    /// The jobs it has.
    fn has(&self, jobs: Map) {
        self.answer(map! { "schedule" => jobs });
    }

    fn call(&self, fun: &str, args: Vec<Value>, kwargs: Map) -> Value {
        self.ctx.call_with(&format!("schedule.{fun}"), Call { args, kwargs }).unwrap()
    }

    /// The last request the minion got.
    fn last_request(&self) -> Map {
        self.agent.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn file(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("minion.d/_schedule.conf")).unwrap_or_default()
    }
}

fn job() -> Map {
    map! { "function" => "test.ping", "seconds" => 10, "_seconds" => 10, "_next_fire_time" => "x", "name" => "a", "splay" => () }
}

#[test]
fn a_list_shows_definitions_and_whether_they_are_saved() {
    let world = World::new();
    let jobs = || map! { "a" => job(), "__mine_interval" => map! { "minutes" => 60 }, "quiet" => map! { "enabled" => false }, "enabled" => true };
    world.has(jobs());
    let text = "schedule:\n  a:\n    enabled: true\n    function: test.ping\n    name: a\n    saved: false\n    seconds: 10\n  \
                enabled: true\n  quiet:\n    enabled: false\n    saved: false\n";
    assert_eq!(world.call("list", vec![], map! {}), text.into());
    world.has(jobs());
    let shown =
        world.call("list", vec![], map! { "show_disabled" => false, "return_yaml" => false, "show_all" => true });
    assert_eq!(shown.as_map().unwrap().text_keys().collect::<Vec<_>>(), ["a", "__mine_interval", "enabled"]);
    world.has(map! { "enabled" => false });
    assert_eq!(world.call("is_enabled", vec![], map! {}), false.into());
}

#[test]
fn a_job_is_added_once() {
    let world = World::new();
    world.has(map! {});
    world.has(map! { "a" => job() });
    let kwargs = map! { "function" => "test.ping", "seconds" => 10, "job_args" => list![1] };
    let added = world.call("add", vec!["a".into()], kwargs.clone());
    assert_eq!(
        added,
        map! { "comment" => "Added job: a to schedule.", "result" => true, "changes" => map! { "a" => "added" } }
            .into()
    );
    let definition = map! {
        "function" => "test.ping", "seconds" => 10, "args" => list![1], "maxrunning" => 1, "name" => "a", "enabled" => true,
        "jid_include" => true,
    };
    let request = map! { "local" => "manage_schedule", "name" => "a", "schedule" => map! { "a" => definition }, "func" => "add", "persist" => true };
    assert_eq!(world.last_request(), request);
    world.has(map! { "a" => job() });
    let again = world.call("add", vec!["a".into()], kwargs);
    assert_eq!(
        again,
        map! { "comment" => "Job a already exists in schedule.", "result" => false, "changes" => map! {} }.into()
    );
}

#[test]
fn without_a_minion_the_file_is_changed() {
    let world = World::new();
    let offline = map! { "offline" => true };
    let mut kwargs = offline.clone();
    kwargs.update(map! { "function" => "test.ping", "hours" => 1 });
    assert_eq!(world.call("add", vec!["a".into()], kwargs).get("result"), Some(&true.into()));
    assert!(world.file().starts_with("schedule:\n  a: {enabled: true, function: test.ping"), "{}", world.file());
    let others = |name: &str| world.directory.path().join(name).metadata().unwrap().mode() & 0o027;
    assert_eq!((others("minion.d"), others("minion.d/_schedule.conf")), (0, 0), "arguments may be passwords");
    let mut kwargs = offline.clone();
    kwargs.insert("hours", 2);
    let modified = world.call("modify", vec!["a".into()], kwargs);
    assert_eq!(modified.get("comment"), Some(&"Modified job: a in schedule.".into()));
    assert!(world.file().contains("hours: 2"), "{}", world.file());
    let purged = world.call("purge", vec![], offline.clone());
    assert_eq!(purged.get("changes"), Some(&map! { "a" => "removed" }.into()));
    let gone = world.call("delete", vec!["a".into()], offline);
    assert_eq!(gone.get("comment"), Some(&"Job a does not exist.".into()));
    assert!(world.agent.asked.lock().unwrap().is_empty());
}

#[test]
fn jobs_are_switched_run_and_passed_over() {
    let world = World::new();
    let on = |enabled: bool| map! { "a" => map! { "function" => "test.ping", "enabled" => enabled } };
    world.has(on(true));
    world.has(on(false));
    let off = world.call("disable_job", vec!["a".into()], map! {});
    assert_eq!(
        off,
        map! { "comment" => "Disabled Job a in schedule.", "result" => true, "changes" => map! { "a" => "disabled" } }
            .into()
    );
    world.has(on(false));
    assert_eq!(world.call("run_job", vec!["a".into()], map! {}).get("comment"), Some(&"Job a is disabled.".into()));
    world.has(on(false));
    let forced = world.call("run_job", vec!["a".into()], map! { "force" => true });
    assert_eq!(forced, map! { "comment" => "Scheduling Job a on minion.", "result" => true }.into());
    world.has(on(true));
    world.has(on(true));
    let skipped = world.call("skip_job", vec!["a".into(), "2024-02-28T12:00:00".into()], map! {});
    assert_eq!(skipped, map! { "comment" => "Added Skip Job a in schedule.", "result" => true }.into());
    let bad = world.call("postpone_job", vec!["a".into(), "noon".into(), "1".into()], map! {});
    assert_eq!(bad, map! { "comment" => "Date string could not be parsed.", "result" => false }.into());
    world.answer(map! { "schedule" => map! { "enabled" => false } });
    let all = world.call("disable", vec![], map! {});
    assert_eq!(all.get("comment"), Some(&"Disabled schedule on minion.".into()));
}

#[test]
fn times_are_told_in_the_wanted_form() {
    let world = World::new();
    let time =
        Value::DateTime(value::DateTime { year: 2024, month: 2, day: 28, hour: 12, minute: 0, second: 5, micros: 7 });
    world.answer(map! { "data" => map! { "name" => "a", "_next_fire_time" => time } });
    let status = world.call("job_status", vec!["a".into()], map! { "time_fmt" => "%d.%m.%Y %H:%M:%S" });
    assert_eq!(status, map! { "name" => "a", "_next_fire_time" => "28.02.2024 12:00:05" }.into());
    world.answer(map! { "next_fire_time" => () });
    let next = world.call("show_next_fire_time", vec!["a".into()], map! {});
    assert_eq!(next, map! { "result" => true, "next_fire_time" => () }.into());
}

#[test]
fn definitions_are_checked() {
    let world = World::new();
    let build = |kwargs: Map| {
        let mut all = map! { "function" => "test.ping" };
        all.update(kwargs);
        world.call("build_schedule_item", vec!["a".into()], all).get("comment").cloned()
    };
    let text = "Unable to use \"seconds\", \"minutes\", \"hours\", or \"days\" with \"when\" or \"cron\" options.";
    assert_eq!(build(map! { "seconds" => 1, "cron" => "x" }), Some(text.into()));
    assert_eq!(build(map! { "when" => "tomorrow" }), Some("Schedule item tomorrow for \"when\" in invalid.".into()));
    assert_eq!(build(map! { "job_args" => 1 }), Some("job_args is not a list. please correct and try again.".into()));
    assert_eq!(build(map! { "when" => list!["5pm"] }), None);
}
