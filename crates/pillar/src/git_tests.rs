//! Compares pillar from repositories with that of Salt.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use value::{Value, list, map};

use crate::tests::{plain, untyped};
use crate::*;

fn git(repository: &Path, arguments: &[&str], input: &str) {
    let mut command = Command::new("git");
    let mut child = command.env("GIT_DIR", repository).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{arguments:?}");
}

fn repositories(streams: &Map, root: &Path) {
    for (name, stream) in streams {
        let path = root.join(name.as_str().unwrap());
        std::fs::create_dir_all(&path).unwrap();
        git(&path, &["init", "--quiet", "--bare", "--initial-branch=master"], "");
        git(&path, &["fast-import", "--quiet"], stream.as_str().unwrap());
    }
}

fn compiler(options: Map) -> Compiler {
    let master = Master::from_options(options).unwrap();
    let git = GitExternal::of_master(&master).unwrap();
    Compiler::new(&master).unwrap().with_external(Arc::new(git))
}

fn options(remotes: &Value, own: &Map, root: &Path, cache: &str) -> Map {
    let place = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let files = own.contains_key("FILES").then(|| place("files"));
    let mut options = map! {
        "cachedir" => place(cache), "ext_pillar" => list![map! { "git" => filled(remotes, root) }],
        "pillar_roots" => map! { "base" => files.into_iter().collect::<Vec<_>>() },
    };
    options.update(
        own.iter().filter(|(name, _)| name.as_str() != Some("FILES")).map(|(k, v)| (k.clone(), v.clone())).collect(),
    );
    options
}

fn filled(value: &Value, root: &Path) -> Value {
    match value {
        Value::Str(text) => text.replace("ROOT", root.to_str().unwrap()).into(),
        Value::List(items) => items.iter().map(|item| filled(item, root)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (filled(key, root), filled(value, root))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

#[test]
fn repositories_give_the_recorded_pillar() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/git.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let part = |name: &str| recorded.get(name).unwrap().as_map().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    repositories(part("streams"), &root);
    std::fs::create_dir(root.join("files")).unwrap();
    std::fs::write(root.join("files/top.sls"), "base:\n  '*':\n    - own\n").unwrap();
    std::fs::write(root.join("files/own.sls"), "own: 1\ncommon: file\nlist: [9]\n").unwrap();
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    let mut differences = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let [name, remotes, own, request, expected] = case.as_list().unwrap() else { panic!("{case}") };
        let options = options(remotes, own.as_map().unwrap(), &root, &format!("cache{number}"));
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let pillar = compiler(options).compile(&Request {
            id: "web1",
            grains: Some(part("grains")),
            saltenv: text("saltenv"),
            pillarenv: text("pillarenv"),
            ..Request::default()
        });
        let (found, expected) = (plain(pillar.into(), root.to_str().unwrap()), untyped(expected));
        if value::python::repr(&found) != value::python::repr(&expected) {
            differences.push(format!("{name}:\n  {found}\n  recorded {expected}"));
        }
    }
    // A truncated recording must not pass.
    assert!(cases.len() > 40, "only {} cases", cases.len());
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}

#[test]
fn an_unreachable_remote_affects_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let stream = "commit refs/heads/master\ncommitter T <t@e> 1700000000 +0000\ndata 1\nm\nM 100644 inline top.sls\n\
                  data 20\nbase: {'*': [there]}\nM 100644 inline there.sls\ndata 9\nthere: 1\n\n";
    repositories(&map! { "alive" => stream }, &root);
    let remotes = list!["master file://ROOT/dead", "master file://ROOT/alive"];
    let compiler = compiler(options(&remotes, &Map::new(), &root, "cache"));
    let request = Request { id: "m", ..Request::default() };
    let dead = root.join("dead").display().to_string();
    let error = format!(
        "Failed to load ext_pillar git: remote 'master file://{dead}' could not be fetched. Please see master log for details."
    );
    let expected = map! { "there" => 1, "_errors" => list![error] };
    assert_eq!(compiler.compile(&request), expected);
    // The remote is gone, but what was fetched stays.
    std::fs::rename(root.join("alive"), root.join("gone")).unwrap();
    assert_eq!(compiler.compile(&request), expected);
}
