//! Options that forbid modules, from a state tree's point of view: each row was tried with the real minion of 3008.5.

use std::path::Path;
use std::sync::Arc;

use exec::{Call, Context, Job, testing};
use value::{Map, Value, list, map};

fn context(root: &Path, limits: Map) -> Context {
    let dir = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let mut opts = map! {
        "id" => "m1", "file_client" => "local", "cachedir" => dir("cache"), "root_dir" => dir(""), "local" => true,
        "file_roots" => map! { "base" => list![dir("srv")] }, "pillar_roots" => map! { "base" => list![dir("pillar")] },
        "__cli" => "salt-call", "state_auto_order" => true, "top_file_merging_strategy" => "merge", "default_top" => "base",
        "renderer" => "jinja|yaml", "state_top" => "top.sls",
    };
    opts.update(limits);
    let grains =
        map! { "id" => "m1", "os" => "Debian", "os_family" => "Debian", "kernel" => "Linux", "shell" => "/bin/sh" };
    let (mut ctx, _) = testing::with_states(modules::ALL, saltern_states::ALL, opts, grains, Map::new());
    ctx.job = Arc::new(Job::new(map! { "jid" => "20240229131415678901", "fun" => "state.sls" }));
    ctx
}

/// Returns the result of the only state of a tree, or why there is none.
fn applied(limits: &Map, sls: &str) -> (bool, String) {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("srv")).unwrap();
    std::fs::create_dir_all(root.path().join("cache")).unwrap();
    std::fs::write(root.path().join("srv/t.sls"), sls.replace("@DIR@", root.path().to_str().unwrap())).unwrap();
    let ctx = context(root.path(), limits.clone());
    let call = Call { args: vec!["t".into()], kwargs: Map::new() };
    match ctx.call_with("state.sls", call).unwrap() {
        Value::Map(states) => {
            let (_, state) = states.iter().next().unwrap();
            (state.get("result") == Some(&Value::Bool(true)), state.get("comment").unwrap().to_string())
        }
        errors => (false, errors.to_string()),
    }
}

const COMMAND: &str = "x:\n  cmd.run:\n    - name: echo hi\n";
const TEMPLATE: &str = "x:\n  test.nop:\n    - name: \"{{ salt['cmd.run']('echo hi') }}\"\n";
const ATTRIBUTE: &str = "x:\n  test.nop:\n    - name: \"{{ salt.cmd.run('echo hi') }}\"\n";
const LOOKED_UP: &str = "x:\n  test.nop:\n    - name: \"{{ salt.get('cmd.run')('echo hi') }}\"\n";
const MODULE: &str = "x:\n  module.run:\n    - cmd.run:\n      - cmd: echo hi\n";
const OLD_MODULE: &str = "x:\n  module.run:\n    - name: cmd.run\n    - cmd: echo hi\n";
const CHECK: &str = "x:\n  test.nop:\n    - onlyif: 'true'\n";
const CHECK_FUNCTION: &str = "x:\n  test.nop:\n    - onlyif:\n      - fun: cmd.run\n        cmd: 'true'\n";
const SLOT: &str = "x:\n  test.nop:\n    - name: __slot__:salt:cmd.run(\"echo hi\")\n";
const WAITING: &str =
    "x:\n  loop.until_no_eval:\n    - name: cmd.run\n    - expected: hi\n    - args: [echo hi]\n    - timeout: 0.1\n";
const FILE: &str = "@DIR@/out:\n  file.managed:\n    - contents: hi\n";
const NOTHING: &str = "x:\n  test.nop: []\n";

#[test]
fn names_from_outside_are_held_to_the_whitelist() {
    let limits = map! { "whitelist_modules" => list!["test", "state"] };
    let none = Map::new();
    for (tree, words) in [
        (TEMPLATE, "cmd.run"),
        (ATTRIBUTE, "cmd"),
        (LOOKED_UP, "None"),
        (MODULE, "Unavailable function: cmd.run."),
        (OLD_MODULE, "Module function cmd.run is not available"),
        (CHECK, "cmd.retcode"),
        (CHECK_FUNCTION, "cmd.run"),
        (WAITING, "cmd.run"),
    ] {
        let (done, text) = applied(&none, tree);
        assert!(done, "{tree} without limits: {text}");
        let (done, text) = applied(&limits, tree);
        assert!(!done && text.contains(words), "{tree} {text}");
    }
    let (_, text) = applied(&limits, SLOT);
    assert!(!text.contains("hi") || text.contains("Success"), "{text}");
    for tree in [COMMAND, FILE, NOTHING] {
        let (done, text) = applied(&limits, tree);
        assert!(done, "the states' own calls stay free: {tree} {text}");
    }
}

#[test]
fn a_disabled_module_is_there_for_nobody() {
    for name in ["cmd", "cmdmod"] {
        let limits = map! { "disable_modules" => list![name] };
        for tree in [COMMAND, TEMPLATE, ATTRIBUTE, MODULE, OLD_MODULE, CHECK, CHECK_FUNCTION] {
            let (done, text) = applied(&limits, tree);
            assert!(!done, "{name}: {tree} {text}");
        }
    }
}

#[test]
fn state_modules_are_forbidden_too() {
    let not_found = "State 'cmd.run' was not found in SLS 't'\nReason: 'cmd.run' is not available.\n";
    for limits in
        [map! { "disable_states" => list!["cmd"] }, map! { "whitelist_state_modules" => list!["test", "file"] }]
    {
        assert_eq!(applied(&limits, COMMAND), (false, not_found.to_owned()), "{limits:?}");
        for tree in [NOTHING, FILE] {
            let (done, text) = applied(&limits, tree);
            assert!(done, "{limits:?} {tree} {text}");
        }
    }
}
