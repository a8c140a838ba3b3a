use std::sync::Arc;
use std::time::SystemTime;

use exec::testing::{FakeAgent, context};
use exec::{Call, Context, Job, Refresh, RunningJob};
use value::{Map, Value, list, map};
use wire::msgpack::{self, Packing};

use super::MODULE;

struct Place {
    dir: tempfile::TempDir,
    ctx: Context,
    agent: Arc<FakeAgent>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (srv, cache) = (dir.path().join("srv"), dir.path().join("cache"));
        for (name, content) in [
            ("_modules/foo.py", "1"),
            ("_modules/sub/bar.py", "2"),
            ("_modules/notes.txt", "no"),
            ("_grains/g.py", "3"),
        ] {
            std::fs::create_dir_all(srv.join(name).parent().unwrap()).unwrap();
            std::fs::write(srv.join(name), content).unwrap();
        }
        let opts = map! {
            "id" => "m",
            "file_client" => "local",
            "cachedir" => cache.to_str().unwrap(),
            "file_roots" => map! { "base" => list![srv.to_str().unwrap()] },
        };
        let (ctx, agent) = context(&[&MODULE, &crate::test::MODULE, &crate::config::MODULE], opts, map! {}, map! {});
        let ctx = Context { job: Arc::new(Job::new(map! { "jid" => "9" })), ..ctx };
        Place { dir, ctx, agent }
    }

    fn call(&self, fun: &str, args: Value, kwargs: Map) -> Value {
        let call = Call { args: args.into_list().unwrap(), kwargs };
        self.ctx.call_with(&format!("saltutil.{fun}"), call).unwrap()
    }

    fn runs(&self, jid: &str, fun: &str) {
        let load = map! { "pid" => 42, "jid" => jid, "fun" => fun };
        self.agent.jobs.lock().unwrap().push(RunningJob { load, since: SystemTime::now() });
    }
}

#[test]
fn jobs_are_found_and_ended() {
    let place = Place::new();
    assert_eq!(place.call("running", list![], map! {}), list![]);
    assert_eq!(place.call("find_job", list!["1"], map! {}), map! {}.into());
    assert_eq!(place.call("kill_job", list!["1"], map! {}), "".into());
    place.runs("1", "test.sleep");
    place.runs("9", "saltutil.running");
    let job = Value::from(map! { "pid" => 42, "jid" => "1", "fun" => "test.sleep" });
    assert_eq!(place.call("running", list![], map! {}), list![job.clone()]);
    assert_eq!(place.call("is_running", list!["test.*"], map! {}), list![job.clone()]);
    assert_eq!(place.call("is_running", list!["cmd.*"], map! {}), list![]);
    assert_eq!(place.call("find_job", list![1], map! {}), job);
    assert_eq!(place.call("kill_job", list!["1"], map! {}), "Signal 9 sent to job 1 at pid 42".into());
    assert_eq!(place.call("term_all_jobs", list![], map! {}), list!["Signal 15 sent to job 1 at pid 42"]);
    assert_eq!(place.call("signal_job", list!["1", 10], map! {}), "Signal 10 sent to job 1 at pid 42".into());
    let sent = [("1".to_owned(), 9), ("1".to_owned(), 15), ("1".to_owned(), 10)];
    assert_eq!(place.agent.signals.lock().unwrap().as_slice(), sent);
    assert!(place.ctx.call("saltutil.signal_job", vec!["1".into(), 1000.into()]).is_err());
}

#[test]
fn a_job_in_a_queue_is_found() {
    let place = Place::new();
    let queue = place.dir.path().join("cache/queues/master1/state_queue");
    std::fs::create_dir_all(&queue).unwrap();
    let load = msgpack::pack(&map! { "jid" => "7", "fun" => "state.apply" }.into(), Packing::Bin);
    std::fs::write(queue.join("queued_123_7.p"), load).unwrap();
    let found =
        map! { "jid" => "7", "fun" => "state.apply", "pid" => 0, "queued" => true, "queue_type" => "state_queue" };
    assert_eq!(place.call("find_job", list!["7"], map! {}), found.into());
}

#[test]
fn old_returns_are_found_and_removed() {
    let place = Place::new();
    let hint = "Local jobs cache directory not found; you may need to enable cache_jobs on this minion";
    assert_eq!(place.call("find_cached_job", list!["5"], map! {}), hint.into());
    let folder = place.dir.path().join("cache/minion_jobs/5");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("return.p"), msgpack::pack(&map! { "return" => 1 }.into(), Packing::Wire)).unwrap();
    assert_eq!(place.call("find_cached_job", list![5], map! {}), map! { "return" => 1 }.into());
    // A jid must not lead out of the cache.
    assert!(place.ctx.call("saltutil.find_cached_job", vec!["../x".into()]).is_err());
    assert_eq!(place.call("clear_job_cache", list![], map! {}), true.into());
    assert!(folder.exists());
    assert_eq!(place.call("clear_job_cache", list![0], map! {}), true.into());
    assert!(!folder.exists());
    let spooled = place.dir.path().join("cache/saltern/returns/1.p");
    std::fs::create_dir_all(spooled.parent().unwrap()).unwrap();
    for file in [place.dir.path().join("cache/x"), spooled.clone()] {
        std::fs::write(file, "").unwrap();
    }
    assert_eq!(place.call("clear_cache", list![], map! {}), true.into());
    assert!(!place.dir.path().join("cache/x").exists());
    assert!(spooled.exists(), "no master has acknowledged it");
}

#[test]
fn custom_modules_are_kept_like_the_servers() {
    let place = Place::new();
    let sync = |kwargs: Map| place.call("sync_modules", list![], kwargs);
    assert_eq!(sync(map! { "extmod_blacklist" => "foo" }), list!["modules.sub.bar"]);
    assert_eq!(sync(map! {}), list!["modules.foo"]);
    assert_eq!(sync(map! {}), list![]);
    let kept = place.dir.path().join("cache/extmods/modules");
    assert_eq!(std::fs::read_to_string(kept.join("sub/bar.py")).unwrap(), "2");
    assert!(!kept.join("notes.txt").exists());
    assert_eq!(place.call("list_extmods", list![], map! {}), map! { "modules" => list!["bar", "foo"] }.into());
    assert_eq!(sync(map! { "extmod_whitelist" => "foo" }), list![]);
    assert!(!kept.join("sub").exists());
    assert_eq!(place.agent.refreshed.lock().unwrap().first(), Some(&Refresh::Modules));
    let all = place.call("sync_all", list![], map! {}).into_map().unwrap();
    assert_eq!(all.len(), 21);
    assert_eq!((all.get("modules"), all.get("grains")), (Some(&list!["modules.sub.bar"]), Some(&list!["grains.g"])));
    assert_eq!(place.agent.refreshed.lock().unwrap().last(), Some(&Refresh::Pillar { clean: false }));
    place.call("sync_all", list![], map! { "clean_pillar_cache" => true });
    assert_eq!(place.agent.refreshed.lock().unwrap().last(), Some(&Refresh::Pillar { clean: true }));
    for (kwargs, clean) in [(map! {}, true), (map! { "clean_cache" => false }, false)] {
        place.call("refresh_pillar", list![], kwargs);
        assert_eq!(place.agent.refreshed.lock().unwrap().last(), Some(&Refresh::Pillar { clean }));
    }
}

#[test]
fn masters_modules_are_for_masterless_minions() {
    let (ctx, _) = context(&[&MODULE], map! { "id" => "m" }, map! {}, map! {});
    let refused = ctx.call("saltutil.sync_pillar", vec![]).unwrap_err().to_string();
    assert_eq!(refused, "Pillar modules can only be synced to masterless minions");
}

#[test]
fn things_are_loaded_anew() {
    let place = Place::new();
    for fun in
        ["refresh_grains", "refresh_pillar", "pillar_refresh", "refresh_modules", "refresh_beacons", "refresh_matchers"]
    {
        assert_eq!(place.call(fun, list![], map! {}), true.into(), "{fun}");
    }
    use Refresh::{Beacons, Grains, Matchers, Modules};
    let new_pillar = Refresh::Pillar { clean: true };
    assert_eq!(
        place.agent.refreshed.lock().unwrap().as_slice(),
        [Grains, new_pillar, new_pillar, Modules, Beacons, Matchers]
    );
    let wrong = Call { args: vec![], kwargs: map! { "nope" => 1 } };
    assert!(place.ctx.call_with("saltutil.refresh_grains", wrong).is_err());
    assert_eq!(place.call("revoke_auth", list![], map! {}), true.into());
    let load = map! { "cmd" => "revoke_auth", "id" => "m", "preserve_minion_cache" => false };
    assert_eq!(place.agent.asked.lock().unwrap().last(), Some(&load));
}

#[test]
fn a_function_runs_in_another_environment() {
    let place = Place::new();
    let env = place.call("mmodule", list!["dev", "config.get", "saltenv"], map! {});
    assert_eq!(env, "dev".into());
}

#[test]
fn keys_are_removed_to_be_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("minion.pem"), "").unwrap();
    let (ctx, _) = context(&[&MODULE], map! { "pki_dir" => dir.path().to_str().unwrap() }, map! {}, map! {});
    assert_eq!(ctx.call("saltutil.regen_keys", vec![]).unwrap(), Value::Null);
    assert!(!dir.path().join("minion.pem").exists());
}
