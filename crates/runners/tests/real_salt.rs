//! Runners and wheel functions called in the real Salt and here, on equal directories: the results are equal.
//!
//! `SALTERN_SALT_DIR` (by default `~/.cache/saltern/salt`) has a directory per release (`<release>/bin/python`). Without
//! one there is nothing to compare with, and the test says so; with `CI=true` that is a failure. No master runs here.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use exec::Call;
use rt::Rt;
use runners::{Events, Kind, Request, RunnerContext, TABLES};
use saltern_runners as runners;
use store::Layout;
use store::jobs::{JobCache, JobReturn};
use store::minion_data::MinionDataCache;
use value::{Map, Value, list, map};
use wire::MinionId;

const CATALOGUE: exec::Catalogue = exec::Catalogue { modules: modules::ALL, states: states::ALL };

/// The release whose behaviour is followed where the lines differ.
const RELEASE: &str = "3008.5";

const JID: &str = "20240229131415678901";
const LATER: &str = "20240301000000000000";
/// A job of the master itself, which expects no minion.
const ALONE: &str = "20240301000000000001";

fn python() -> Option<PathBuf> {
    let root = std::env::var_os("SALTERN_SALT_DIR").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache/saltern/salt")
    });
    let python = root.join(RELEASE).join("bin/python");
    if python.exists() {
        return Some(python);
    }
    let sentence = format!("no Salt {RELEASE} is installed below {}", root.display());
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{sentence}; `cargo xtask test` installs it");
    println!("skipped: {sentence}; `cargo xtask test` installs it");
    None
}

/// Reads calls from standard input and prints what they return, all as JSON. What a call prints goes elsewhere.
const SCRIPT: &str = r#"
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import salt.config, salt.runner, salt.utils.event, salt.wheel
opts = salt.config.master_config(sys.argv[1])
opts.update(runnerclient_returns=False, wheelclient_returns=False, config_dir=os.path.dirname(sys.argv[1]))
# Without a master each event would be waited for.
salt.utils.event.SaltEvent.fire_event = lambda *args, **kwargs: False
clients = {"runner": salt.runner.RunnerClient(opts), "wheel": salt.wheel.WheelClient(opts)}
for kind, fun, args, kwargs in json.load(sys.stdin):
    low = {"arg": args, "kwarg": kwargs}
    result = clients[kind].low(fun, low, print_event=False)
    answers.write(json.dumps(result, default=str) + "\n")
answers.close()
os._exit(0)
"#;

/// Makes the directory both sides work on; `root` is in all paths.
fn lay_out(root: &Path) {
    let write = |name: &str, content: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let at = root.display();
    let config = format!(
        "root_dir: {at}\nuser: {user}\nid: tester\npki_dir: {at}/pki\nfile_roots:\n  base: [{at}/srv]\n  dev: [{at}/dev]\n\
         pillar_roots:\n  base: [{at}/pillar]\nnodegroups:\n  web: 'web*'\nrunner_returns: false\n",
        user = client::user::request_user().trim_start_matches("sudo_"),
    );
    write("etc/master", config.as_bytes());
    write("srv/top.sls", b"base: {}\n");
    write("srv/sub/file.txt", b"text\n");
    write("srv/sub/data.bin", &[0, 1, 2, 255]);
    fs::create_dir_all(root.join("srv/empty")).unwrap();
    write("dev/only.txt", b"dev\n");
    write("pillar/top.sls", b"base:\n  '*': [common]\n  'web*':\n    - match: glob\n    - special\n");
    write("pillar/common.sls", b"a: {b: 1}\n");
    write("pillar/special.sls", b"special: true\n");
    let key = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/minion.pub")).unwrap();
    for name in ["minions/web1", "minions/db1", "minions_pre/new1", "minions_pre/new2", "minions_rejected/bad1"] {
        write(&format!("pki/{name}"), key.trim().as_bytes());
    }
    fs::create_dir_all(root.join("pki/minions_denied")).unwrap();
    write("pki/tester.pub", key.as_bytes());
    std::os::unix::fs::symlink("tester.pub", root.join("pki/master.pub")).unwrap();
    let cachedir = root.join("var/cache/salt/master");
    fs::create_dir_all(cachedir.join("proc")).unwrap();
    remember(&cachedir);
}

/// Puts data of minions and two jobs into the caches.
fn remember(cachedir: &Path) {
    let id = |id: &str| MinionId::new(id).unwrap();
    let data = MinionDataCache::new(cachedir, Layout::Since3008);
    let grains = map! { "os" => "Debian", "role" => "web", "num_cpus" => 2 };
    data.store(&id("web1"), grains, map! { "secret" => map! { "x" => 1 } }, None).unwrap();
    let guarded = |allow: Map| {
        let mut guarded = map! { "__saltmine_acl__" => 1, "__data__" => "guarded" };
        guarded.update(allow);
        guarded
    };
    let mine = map! {
        "test.ping" => true,
        "open" => guarded(map! {}),
        "others" => guarded(map! { "allow_tgt" => "db1" }),
    };
    data.store_mine(&id("web1"), mine).unwrap();
    data.store(&id("db1"), map! { "os" => "Debian" }, map! {}, None).unwrap();
    let jobs = JobCache::new(cachedir, "sha256".parse().unwrap());
    for (jid, fun, tgt) in
        [(JID, "test.ping", "*"), (LATER, "state.apply", "web1"), (ALONE, "runner.test.arg", "tester")]
    {
        let arg = list!["x", map! { "__kwarg__" => true, "metadata" => map! { "foo" => fun } }];
        let load =
            map! { "fun" => fun, "tgt" => tgt, "tgt_type" => "glob", "jid" => jid, "user" => "root", "arg" => arg };
        jobs.prepare(jid, false).unwrap();
        jobs.save_load(jid, &load).unwrap();
        let expected: &[String] = if jid == ALONE { &[] } else { &["web1".into(), "db1".into()] };
        jobs.save_minions(jid, expected, None).unwrap();
    }
    let returned = |value: Value, out: Option<&str>| JobReturn {
        value,
        retcode: Some(0.into()),
        success: Some(true.into()),
        out: out.map(Value::from),
    };
    jobs.store_return(JID, &id("web1"), &returned(true.into(), None)).unwrap();
    let state = map! { "test_|-a_|-a_|-nop" => map! { "result" => true } };
    jobs.store_return(LATER, &id("web1"), &returned(state.into(), Some("highstate"))).unwrap();
}

type FunctionCall = (Kind, &'static str, Value, Map);

/// Calls in the order they are made; later ones see what earlier ones changed.
fn calls() -> Vec<FunctionCall> {
    [runner_calls(), wheel_calls()].concat()
}

fn runner_calls() -> Vec<FunctionCall> {
    let runner = |fun, args: Value, kwargs: Map| (Kind::Runner, fun, args, kwargs);
    let metadata = map! { "foo" => "test.ping" };
    vec![
        runner("jobs.list_jobs", list![], map! {}),
        runner("jobs.list_jobs", list![], map! { "search_metadata" => metadata.clone() }),
        runner("jobs.list_jobs", list![], map! { "search_function" => "state.*,nope" }),
        runner("jobs.list_jobs", list![], map! { "search_target" => list!["web*"] }),
        runner("jobs.list_jobs", list![], map! { "start_time" => "2024-03-01" }),
        runner("jobs.list_jobs", list![], map! { "end_time" => "2024, Feb 29 23:00", "outputter" => "yaml" }),
        runner("jobs.list_jobs_filter", list![1], map! {}),
        runner("jobs.list_job", list![JID], map! {}),
        runner("jobs.list_job", list!["20000101000000000000"], map! {}),
        runner("jobs.print_job", list![LATER], map! {}),
        runner("jobs.print_job", list![ALONE], map! {}),
        runner("jobs.exit_success", list![ALONE], map! {}),
        runner("jobs.lookup_jid", list![JID], map! { "missing" => true }),
        runner("jobs.lookup_jid", list![JID], map! { "missing" => true, "returned" => false }),
        runner("jobs.lookup_jid", list![LATER], map! {}),
        runner("jobs.exit_success", list![LATER], map! {}),
        runner("jobs.last_run", list![], map! {}),
        runner("jobs.last_run", list![], map! { "metadata" => metadata }),
        runner("jobs.last_run", list![], map! { "function" => "nope" }),
        runner("cache.grains", list!["*"], map! {}),
        runner("cache.grains", list!["G@role:web"], map! { "tgt_type" => "compound" }),
        runner("cache.pillar", list![], map! {}),
        runner("cache.pillar", list!["*"], map! {}),
        runner("cache.mine", list!["*"], map! {}),
        runner("mine.get", list!["*", "test.ping"], map! {}),
        runner("mine.get", list!["*", "test.ping,open"], map! {}),
        runner("mine.get", list!["*", list!["open"]], map! {}),
        runner("mine.get", list!["*", "others"], map! {}),
        runner("mine.get", list!["I@secret:x:1", "open"], map! { "tgt_type" => "compound" }),
        runner("mine.get", list!["secret:x:*", "open"], map! { "tgt_type" => "pillar" }),
        runner("mine.get", list!["web1,nobody", "none"], map! { "tgt_type" => "list" }),
        runner("mine.get", list!["*", 1], map! {}),
        runner("network.wol", list!["08:00:27:13:69:77"], map! { "bcast" => "127.0.0.1", "destport" => 9 }),
        runner("network.wollist", list!["/no/such/file"], map! {}),
        runner("network.wolmatch", list!["nobody"], map! {}),
        runner("cache.store", list!["bank/one", "key", map! { "a" => list![1] }], map! {}),
        runner("cache.fetch", list!["bank/one", "key"], map! {}),
        runner("cache.fetch", list!["bank/one", "none"], map! {}),
        runner("cache.list", list!["bank/one"], map! {}),
        runner("cache.flush", list!["bank/one", "key"], map! {}),
        runner("cache.flush", list!["bank/one", "key"], map! {}),
        runner("cache.flush", list!["bank/one"], map! {}),
        runner("cache.clear_mine_func", list!["*"], map! { "clear_mine_func_flag" => "test.ping" }),
        runner("cache.mine", list!["web1"], map! {}),
        runner("cache.clear_grains", list!["db1"], map! {}),
        runner("cache.grains", list!["db1"], map! {}),
        runner("cache.clear_pillar", list![], map! {}),
        runner("cache.clear_git_lock", list!["gitfs"], map! {}),
        runner("fileserver.envs", list![], map! {}),
        runner("fileserver.file_list", list![], map! {}),
        runner("fileserver.file_list", list!["dev"], map! { "backend" => "roots" }),
        runner("fileserver.dir_list", list![], map! {}),
        runner("fileserver.empty_dir_list", list![], map! {}),
        runner("fileserver.symlink_list", list![], map! {}),
        runner("fileserver.clear_file_list_cache", list!["base"], map! {}),
        runner("fileserver.clear_file_list_cache", list![], map! {}),
        runner("fileserver.update", list![], map! {}),
        runner("fileserver.clear_lock", list![], map! {}),
        runner("config.get", list!["file_roots:base:0"], map! {}),
        runner("config.get", list!["none"], map! { "default" => 1 }),
        runner("match.compound_matches", list!["G@os:Deb* and N@web", "web1"], map! {}),
        runner("match.compound_matches", list!["I@secret:x:1", "web1"], map! {}),
        runner("match.compound_matches", list!["I@secret:x:*", "web1"], map! {}),
        runner("match.compound_matches", list!["*", "../x"], map! {}),
        runner("pillar.show_top", list![], map! {}),
        runner("pillar.show_pillar", list!["web1"], map! {}),
        runner("pillar.show_pillar", list![], map! {}),
        runner("pillar.show_pillar_cache", list!["web1"], map! {}),
        runner("test.arg", list!["a", 1], map! { "b" => list![2] }),
        runner("test.metasyntactic", list!["uk"], map! {}),
        runner("manage.present", list![], map! {}),
        runner("manage.not_present", list![], map! {}),
        runner("saltutil.sync_all", list![], map! {}),
        runner("error.error", list![], map! {}),
    ]
}

fn wheel_calls() -> Vec<FunctionCall> {
    let wheel = |fun, args: Value, kwargs: Map| (Kind::Wheel, fun, args, kwargs);
    let pending = map! { "minions_pre" => list!["new2"] };
    vec![
        wheel("key.list", list!["acc"], map! {}),
        wheel("key.list", list!["all"], map! {}),
        wheel("key.list_all", list![], map! {}),
        wheel("key.glob_match", list!["new*"], map! {}),
        wheel("key.accept", list!["new1"], map! {}),
        wheel("key.accept_dict", list![pending], map! {}),
        wheel("key.accept", list!["bad1"], map! {}),
        wheel("key.accept", list!["bad1"], map! { "include_rejected" => true }),
        wheel("key.reject", list!["new1"], map! { "include_accepted" => true }),
        wheel("key.delete_dict", list![map! { "minions" => list!["new2", "nobody"] }], map! {}),
        wheel("key.print", list!["web1"], map! {}),
        wheel("key.finger_master", list![], map! {}),
        wheel("key.delete", list!["bad*"], map! {}),
        wheel("key.list_all", list![], map! {}),
        wheel("file_roots.find", list!["sub/file.txt"], map! {}),
        wheel("file_roots.find", list!["sub/data.bin"], map! {}),
        wheel("file_roots.find", list!["../etc/master"], map! {}),
        wheel("file_roots.list_env", list![], map! {}),
        wheel("file_roots.list_roots", list![], map! {}),
        wheel("file_roots.read", list!["sub/file.txt"], map! {}),
        wheel("file_roots.write", list!["new\n", "made/here.txt"], map! {}),
        wheel("file_roots.write", list!["new\n", "/abs"], map! {}),
        wheel("file_roots.write", list!["new\n", "x", "none"], map! {}),
        wheel("file_roots.write", list!["new\n", "x"], map! { "index" => 3 }),
        wheel("file_roots.read", list!["made/here.txt"], map! {}),
        wheel("pillar_roots.list_env", list![], map! {}),
        wheel("pillar_roots.read", list!["common.sls"], map! {}),
        wheel("config.update_config", list!["extra", map! { "timeout" => 7 }], map! {}),
        wheel("minions.connected", list![], map! {}),
        wheel("error.error", list![], map! {}),
    ]
}

/// Returns the results of the real Salt, and its log.
fn real(python: &Path, root: &Path, calls: &[(Kind, &str, Value, Map)]) -> (Vec<Value>, String) {
    let asked: Vec<Value> =
        calls.iter().map(|(kind, fun, args, kwargs)| list![kind.word(), *fun, args.clone(), kwargs.clone()]).collect();
    let mut process = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(root.join("etc/master"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(&serde_json::to_vec(&asked).unwrap()).unwrap();
    let output = process.wait_with_output().unwrap();
    let answers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(answers.len(), calls.len(), "the real Salt stopped early: {log}");
    (answers, log)
}

fn ours(root: &Path, calls: &[(Kind, &str, Value, Map)]) -> Vec<Value> {
    let source = config::Source { path: root.join("etc/master") };
    let config = Arc::new(config::Master::load(&source, &config::LoadOptions::default()).unwrap());
    let events = Events::of_master(&config, Rt::real());
    let context = RunnerContext::new(config, Rt::real(), events, &TABLES, CATALOGUE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |(kind, fun, args, kwargs): &(Kind, &str, Value, Map)| {
        let call = Call { args: args.as_list().unwrap().to_vec(), kwargs: kwargs.clone() };
        let jid = runtime.block_on(runners::new_jid(&context));
        let request = Request { store: false, ..Request::new(*kind, *fun, call, jid, "root") };
        runtime.block_on(runners::run(&context, request)).ret
    };
    calls.iter().map(run).collect()
}

/// Both sides work in directories of different names.
fn plain(value: &Value, root: &Path) -> Value {
    let text = serde_json::to_string(value).unwrap().replace(root.to_str().unwrap(), "ROOT");
    sorted(serde_json::from_str(&text).unwrap())
}

/// Salt lists a directory in the order the system has its names in.
fn sorted(value: Value) -> Value {
    match value {
        Value::List(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(ToString::to_string);
            Value::List(items)
        }
        Value::Map(map) => map.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map>().into(),
        other => other,
    }
}

#[test]
fn results_are_those_of_the_real_salt() {
    let Some(python) = python() else { return };
    let (theirs, mine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    lay_out(theirs.path());
    lay_out(mine.path());
    let calls = calls();
    let ((expected, log), found) = (real(&python, theirs.path(), &calls), ours(mine.path(), &calls));
    let mut wrong = Vec::new();
    for (((kind, fun, args, kwargs), expected), found) in calls.iter().zip(&expected).zip(&found) {
        let (expected, found) = (plain(expected, theirs.path()), plain(found, mine.path()));
        if expected != found {
            wrong.push(format!("{} {fun} {args} {kwargs:?}\n  real {expected}\n  ours {found}", kind.word()));
        }
    }
    let (differ, calls) = (wrong.len(), calls.len());
    assert!(wrong.is_empty(), "{differ} of {calls} differ:\n{}\nlog of the real Salt:\n{log}", wrong.join("\n"));
}
