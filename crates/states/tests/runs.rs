//! State trees applied, compared with what the real Salt says of them (`testdata/runs/`).

use std::path::Path;
use std::sync::Arc;

use exec::{Call, Context, Job, testing};
use value::{Map, Value, list, map, python};

/// Trees whose answer differs on purpose, with the reason in `COMPATIBILITY.md`.
const DIFFERENT: &[&str] = &["turned off", "low", "subfilter"];

fn write(root: &Path, path: &str, text: &str) {
    let full = root.join("srv").join(path);
    std::fs::create_dir_all(full.parent().unwrap()).unwrap();
    std::fs::write(full, format!("#!yaml\n{}", text.replace("@DIR@", root.to_str().unwrap()))).unwrap();
}

fn context(root: &Path, tree: &Map) -> Context {
    let dir = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let opts = map! {
        "id" => "m1", "file_client" => "local", "cachedir" => dir("cache"), "root_dir" => dir(""), "local" => true,
        "file_roots" => map! { "base" => list![dir("srv")] }, "pillar_roots" => map! { "base" => list![dir("pillar")] },
        "__cli" => "salt-call", "state_auto_order" => true, "top_file_merging_strategy" => "merge", "default_top" => "base",
        "renderer" => "jinja|yaml", "state_top" => "top.sls",
    };
    let mut grains = map! {
        "id" => "m1", "os" => "Debian", "os_family" => "Debian", "kernel" => "Linux", "shell" => "/bin/sh",
    };
    grains.update(tree.get("grains").and_then(Value::as_map).cloned().unwrap_or_default());
    let (mut ctx, _) = testing::with_states(modules::ALL, saltern_states::ALL, opts, grains, Map::new());
    let fun = tree.get_str("fun").unwrap_or("state.sls");
    ctx.job = Arc::new(Job::new(map! { "jid" => "20240229131415678901", "fun" => fun }));
    ctx
}

/// Takes out what depends on time and place, as the recorder does.
fn tidy(value: &Value, root: &str) -> Value {
    match value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(key, _)| !matches!(key.as_str(), Some("start_time" | "duration" | "pid")));
            kept.map(|(key, value)| (tidy(key, root).to_string(), tidy(value, root))).collect::<Map>().into()
        }
        Value::List(items) => items.iter().map(|item| tidy(item, root)).collect(),
        Value::Str(text) => {
            let text = text.replace(root, "@DIR@");
            const MARK: &str = "An exception occurred in this state: ";
            match text.split_once(MARK) {
                Some((before, _)) => format!("{before}{MARK}…").into(),
                None => text.into(),
            }
        }
        other => other.clone(),
    }
}

fn answer(tree: &Map) -> Value {
    let root = tempfile::tempdir().unwrap();
    match tree.get("files").and_then(Value::as_map) {
        Some(files) => files.iter().for_each(|(path, text)| write(root.path(), &path.to_string(), &text.to_string())),
        None => write(root.path(), "t.sls", tree.get_str("sls").unwrap_or_default()),
    }
    std::fs::create_dir_all(root.path().join("cache")).unwrap();
    let ctx = context(root.path(), tree);
    let fun = tree.get_str("fun").unwrap_or("state.sls");
    let mut args = tree.get("args").and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default();
    if fun == "state.sls" && args.is_empty() {
        args.push("t".into());
    }
    let kwargs = tree.get("kwargs").and_then(Value::as_map).cloned().unwrap_or_default();
    let done = ctx.call_with(fun, Call { args, kwargs });
    let place = root.path().to_str().unwrap();
    let mut answer = match done {
        Ok(value) => map! { "return" => tidy(&value, place) },
        Err(error) => map! { "raised" => tidy(&error.to_string().into(), place) },
    };
    answer.insert("retcode", ctx.job.retcode());
    answer.into()
}

/// Returns whether two answers are the same. A failure of the real one has its Python class before the words.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours.get("raised"), theirs.get("raised")) {
        (Some(ours), Some(theirs)) => theirs.to_string().ends_with(&ours.to_string()),
        _ => python::equal(ours, theirs),
    }
}

/// Returns where two results differ.
fn difference(ours: &Value, theirs: &Value) -> String {
    let empty = Map::new();
    let results = |answer: &Value| answer.get("return").and_then(Value::as_map).unwrap_or(&empty).clone();
    let (mine, real) = (results(ours), results(theirs));
    if mine.is_empty() || real.is_empty() {
        return format!("  ours:   {ours}\n  theirs: {theirs}");
    }
    let mut lines = vec![format!("  retcodes {:?} and {:?}", ours.get("retcode"), theirs.get("retcode"))];
    for (tag, ret) in &mine {
        match real.get_value(tag) {
            Some(other) if python::equal(ret, other) => {}
            Some(other) => lines.push(format!("  {tag}\n    ours:   {ret}\n    theirs: {other}")),
            None => lines.push(format!("  {tag} is ours alone: {ret}")),
        }
    }
    lines.extend(
        real.iter()
            .filter(|(tag, _)| mine.get_value(tag).is_none())
            .map(|(tag, ret)| format!("  missing {tag}: {ret}")),
    );
    lines.join("\n")
}

#[test]
fn trees_come_to_what_the_real_salt_makes_of_them() {
    let recorded: Value = serde_json::from_str(include_str!("../testdata/runs/runs.json")).unwrap();
    let trees = recorded.into_list().unwrap();
    assert!(trees.len() > 90);
    let mut wrong = Vec::new();
    for tree in &trees {
        let tree = tree.as_map().unwrap();
        let name = tree.get_str("name").unwrap();
        let theirs = tree.get("answer").unwrap();
        let ours = answer(tree);
        if !same(&ours, theirs) && !DIFFERENT.contains(&name) {
            wrong.push(format!("{name}\n{}", difference(&ours, theirs)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} trees differ:\n{}", wrong.len(), trees.len(), wrong.join("\n"));
}

/// Salt loses the result of `mod_watch` of such a state; `COMPATIBILITY.md` says so.
#[test]
fn a_state_beside_the_others_reacts_to_changes_when_it_is_done() {
    let tree = map! { "sls" => "a: test.succeed_with_changes\n\
    b: {cmd.wait: [{name: echo said}, {parallel: true}, {watch: [{test: a}]}]}\n\
    c: {test.nop: [{onchanges: [{cmd: b}]}]}\n" };
    let answer = answer(&tree);
    let results = answer.get("return").and_then(Value::as_map).unwrap();
    assert_eq!(results.len(), 3, "{results:?}");
    let waited = results.get("cmd_|-b_|-echo said_|-wait").unwrap();
    assert_eq!(waited.get("changes").and_then(|changes| changes.get("stdout")), Some(&"said".into()), "{waited}");
    assert_eq!(waited.get("__run_num__"), Some(&2.into()), "{waited}");
    let after = results.get("test_|-c_|-c_|-nop").unwrap();
    assert_eq!(after.get("comment"), Some(&"Success!".into()), "{after}");
}
