//! Orchestrations on a master without minions: states, runners and wheel functions, its own files and pillar.

use std::path::Path;
use std::sync::Arc;

use exec::Call;
use rt::Rt;
use runners::{Events, Kind, Outcome, Request, RunnerContext, TABLES};
use saltern_runners as runners;
use value::{Map, Value, list, map};

const CATALOGUE: exec::Catalogue = exec::Catalogue { modules: modules::ALL, states: states::ALL };

const SLS: &str = "
changes:
  test.succeed_with_changes: []
told:
  test.show_notification:
    - text: {{ pillar['over'] }} {{ pillar['own'] }} {{ opts['__role'] }}
    - require:
      - test: changes
asks a runner:
  salt.runner:
    - name: test.arg
    - x: 1
asks the wheel:
  salt.wheel:
    - name: config.values
";

fn context(root: &Path) -> RunnerContext {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let shown = root.display();
    write(
        "etc/master",
        &format!("root_dir: {shown}\nfile_roots:\n  base: [{shown}/srv]\npillar_roots:\n  base: [{shown}/pillar]\n"),
    );
    write("srv/orch/deploy.sls", SLS);
    write("srv/broken.sls", "a:\n  no.such: []\n");
    write("pillar/top.sls", "base:\n  '*':\n    - own\n");
    write("pillar/own.sls", "own: mine\n");
    let source = config::Source { path: root.join("etc/master") };
    let config = Arc::new(config::Master::load(&source, &config::LoadOptions::default()).unwrap());
    let events = Events::of_master(&config, Rt::real());
    RunnerContext::new(config, Rt::real(), events, &TABLES, CATALOGUE)
}

async fn run(context: &RunnerContext, fun: &str, args: Value, kwargs: Map) -> Outcome {
    let call = Call { args: args.into_list().unwrap(), kwargs };
    let jid = runners::new_jid(context).await;
    runners::run(context, Request { store: false, ..Request::new(Kind::Runner, fun, call, jid, "root") }).await
}

#[tokio::test]
async fn states_runners_and_wheel_functions_run_on_the_master() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let kwargs = map! { "pillar" => map! { "over" => "given" } };
    let outcome = run(&context, "state.orchestrate", list!["orch.deploy"], kwargs).await;
    let ret = &outcome.ret;
    assert_eq!(outcome.out.as_deref(), Some("highstate"), "{ret}");
    assert_eq!(ret.get("retcode"), Some(&0.into()), "{ret}");
    let states = ret.get("data").and_then(|data| data.get(&context.config.id)).and_then(Value::as_map).unwrap();
    let state = |tag: &str| states.get(tag).unwrap_or_else(|| panic!("{tag} is not in {states:?}"));
    let told = state("test_|-told_|-told_|-show_notification");
    assert_eq!(told.get("comment"), Some(&"given mine master".into()));
    let runner = state("salt_|-asks a runner_|-test.arg_|-runner");
    assert_eq!(runner.get("comment"), Some(&"Runner function 'test.arg' executed.".into()));
    assert_eq!(runner.traverse("changes:return:kwargs:x", ":"), Some(&1.into()), "{runner}");
    let wheel = state("salt_|-asks the wheel_|-config.values_|-wheel");
    assert_eq!(wheel.get("comment"), Some(&"Wheel function 'config.values' executed.".into()), "{wheel}");
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let outcome = run(&context, "state.orch", list!["broken"], map! {}).await;
    assert_eq!(outcome.ret.get("retcode"), Some(&1.into()), "{}", outcome.ret);
    let outcome = run(&context, "state.orch", list!["none.such"], map! {}).await;
    assert!(outcome.ret.to_string().contains("none.such"), "{}", outcome.ret);
    let outcome = run(&context, "state.orch", list!["orch.deploy"], map! { "pillar" => 5 }).await;
    assert!(outcome.ret.to_string().contains("Pillar data must be formatted as a dictionary"), "{}", outcome.ret);
    let single = map! { "fun" => "test.nop", "name" => "x" };
    let outcome = run(&context, "state.orchestrate_single", list![], single).await;
    let done = outcome.ret.get(&context.config.id).and_then(|states| states.get("test_|-x_|-x_|-nop"));
    assert_eq!(done.and_then(|state| state.get("result")), Some(&true.into()), "{}", outcome.ret);
}

#[tokio::test]
async fn functions_of_minions_run_on_the_master() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let told = run(&context, "salt.cmd", list!["test.arg", "x"], map! { "n" => 1 }).await.ret;
    assert_eq!(told.traverse("args:0", ":"), Some(&"x".into()), "{told}");
    assert_eq!(told.traverse("kwargs:n", ":"), Some(&1.into()), "{told}");
    assert_eq!(run(&context, "salt.cmd", list!["no.such"], map! {}).await.ret, "'no.such' is not available.".into());
    assert_eq!(run(&context, "salt.cmd", list!["pillar.get", "own"], map! {}).await.ret, "".into());
    let pillar = map! { "with_pillar" => true, "unmask" => true };
    assert_eq!(run(&context, "salt.cmd", list!["pillar.get", "own"], pillar).await.ret, "mine".into());
}

#[tokio::test]
async fn orchestrations_can_be_steered() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let jid = "20260101000000000000";
    let noted = || context.cachedir().join("state_pause").join(jid).is_file();
    let steer = |fun: &'static str| run(&context, fun, list![jid, "told"], map! {});
    assert_eq!(steer("state.pause").await.ret, Value::Null);
    assert!(noted());
    assert_eq!(steer("state.resume").await.ret, Value::Null);
    assert_eq!(steer("state.soft_kill").await.ret, Value::Null);
    // The run that is to end before this state ends there.
    let kwargs = map! { "orchestration_jid" => jid, "pillar" => map! { "over" => "given" } };
    let outcome = run(&context, "state.orch", list!["orch.deploy"], kwargs).await.ret;
    let told = outcome.get("data").and_then(|data| data.get(&context.config.id)).cloned().unwrap_or_default();
    assert!(told.get("test_|-changes_|-changes_|-succeed_with_changes").is_some(), "{outcome}");
    let ended = told.get("test_|-told_|-told_|-show_notification").and_then(|state| state.get("result"));
    assert_ne!(ended, Some(&true.into()), "{outcome}");
}

#[tokio::test]
async fn an_orchestration_is_known_by_the_jid_of_its_runner() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let jid = runners::new_jid(&context).await;
    let killed = run(&context, "state.soft_kill", list![jid.as_str()], map! {}).await;
    assert!(killed.success, "{killed:?}");
    let call = Call { args: vec!["orch.deploy".into()], kwargs: map! { "pillar" => map! { "over" => "given" } } };
    let request =
        Request { store: false, ..Request::new(Kind::Runner, "state.orchestrate", call, jid.as_str(), "root") };
    let outcome = runners::run(&context, request).await;
    let states = outcome.ret.get("data").and_then(Value::as_map).and_then(|data| data.values().next().cloned());
    assert_eq!(states, Some(Map::new().into()), "no state ran: {:?}", outcome.ret);
}

#[tokio::test]
async fn a_running_runner_is_noted_with_the_time() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let command = format!("grep -c _stamp {}/proc/*", context.config.paths.cachedir.display());
    let found = run(&context, "salt.cmd", list!["cmd.run", command], map! { "python_shell" => true }).await;
    assert_eq!(found.ret, "1".into(), "{found:?}");
}

#[tokio::test]
async fn plug_ins_are_brought_to_the_master() {
    let root = tempfile::tempdir().unwrap();
    let context = context(root.path());
    let at = |path: &str| root.path().join(path);
    std::fs::create_dir_all(at("srv/_modules/sub")).unwrap();
    for file in ["srv/_modules/hello.py", "srv/_modules/sub/other.py", "srv/_modules/words.txt"] {
        std::fs::write(at(file), "x").unwrap();
    }
    let modules = |outcome: &Outcome| outcome.ret.get("modules").cloned().unwrap();
    let first = run(&context, "saltutil.sync_all", list![], map! {}).await;
    assert_eq!(modules(&first), list!["modules.hello", "modules.sub.other"]);
    assert_eq!(first.ret.get("states"), Some(&list![]));
    let place = context.config.paths.extension_modules.join("modules");
    assert_eq!(std::fs::read_to_string(place.join("hello.py")).unwrap(), "x");
    assert_eq!(modules(&run(&context, "saltutil.sync_all", list![], map! {}).await), list![]);
    std::fs::remove_file(at("srv/_modules/hello.py")).unwrap();
    let only = map! { "extmod_blacklist" => list!["hello"] };
    assert_eq!(run(&context, "saltutil.sync_modules", list![], only).await.ret, list![]);
    assert!(!place.join("hello.py").exists() && place.join("sub/other.py").exists());
}
