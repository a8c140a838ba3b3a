//! States, files and pillar from several environments: through masters of both kinds, without a master, and from a git
//! repository. Saltern must give the same answers as the real Salt.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use interop::{Master, Minion, Salt, Sandbox, differences, missing, scenario};
use serde_json::{Value, json};

/// Files of the environments. Files with the same name have different contents.
const STATES: &[(&str, &str)] = &[
    (
        "base/top.sls",
        "base:\n  '*':\n    - common\n    - only_base\ndev:\n  '*':\n    - tools\nprod:\n  'nobody':\n    - tools\n",
    ),
    ("base/common.sls", "note:\n  test.show_notification:\n    - text: common of {{ saltenv }} for {{ env }}\n"),
    ("base/only_base.sls", "include:\n  - common\nbase notes:\n  test.configurable_test_state:\n    - changes: true\n"),
    ("base/note.txt", "a note of base\n"),
    ("dev/top.sls", "base:\n  '*':\n    - common\ndev:\n  '*':\n    - common\n    - tools.more\n"),
    ("dev/common.sls", "dev note:\n  test.show_notification:\n    - text: common of dev, {{ pillar.get('word') }}\n"),
    (
        "dev/tools/init.sls",
        "{% import_yaml 'tools/map.yaml' as map %}\ninclude:\n  - base: only_base\n  - .more\n\
         tools:\n  file.managed:\n    - name: ROOT/tools\n    - source: salt://note.txt\n    - template: jinja\n\
         \x20   - context: {{ map }}\n    - require:\n      - test: base notes\n",
    ),
    (
        "dev/tools/more.sls",
        "more:\n  file.managed:\n    - name: ROOT/more\n    - source: salt://note.txt?saltenv=base\n",
    ),
    ("dev/tools/map.yaml", "word: from a map\n"),
    ("dev/note.txt", "a note of {{ saltenv }}: {{ word }}\n"),
    ("prod/top.sls", "prod:\n  '*':\n    - tools\n"),
    ("prod/tools.sls", "prod tools:\n  test.nop\n"),
];

/// Pillar of the environments; `__env__` serves all that have no folder.
const PILLAR: &[(&str, &str)] = &[
    ("base/top.sls", "base:\n  '*':\n    - data\ndev:\n  '*':\n    - more\n"),
    ("base/data.sls", "word: of base\nlist: [1, 2]\ndeep: {base: true, both: base}\n"),
    ("dev/top.sls", "dev:\n  '*':\n    - data\n    - more\n"),
    ("dev/data.sls", "word: of dev\ndeep: {dev: true, both: dev}\n"),
    ("dev/more.sls", "more: '{{ saltenv }} and {{ opts.get('pillarenv') }}'\nlist: [3]\n"),
    ("rest/qa/top.sls", "'{{ saltenv }}':\n  '*':\n    - data\n"),
    ("rest/qa/data.sls", "word: of {{ saltenv }}\n"),
];

/// The calls on every minion, in this order.
const CALLS: &[&[&str]] = &[
    &["state.show_top"],
    &["state.show_top", "saltenv=dev"],
    &["state.show_states"],
    &["state.show_lowstate"],
    &["state.show_highstate"],
    &["state.show_sls", "common", "saltenv=dev"],
    &["state.show_low_sls", "tools", "saltenv=dev", "pillarenv=dev"],
    &["state.sls_exists", "tools", "saltenv=prod"],
    &["state.sls_exists", "tools.more", "saltenv=prod"],
    &["state.apply", "test=True"],
    &["state.apply", "saltenv=dev"],
    &["state.apply"],
    &["state.apply", "tools", "saltenv=dev"],
    &["state.apply", "tools", "saltenv=prod", "test=True"],
    &["state.apply", "tools", "saltenv=absent"],
    &["state.sls_id", "more", "tools", "saltenv=dev"],
    &["pillar.items"],
    &["pillar.items", "pillarenv=dev"],
    &["pillar.items", "saltenv=dev"],
    &["pillar.items", "pillarenv=absent"],
    &["cp.list_states"],
    &["cp.list_states", "saltenv=dev"],
    &["cp.list_master", "saltenv=dev"],
    &["cp.list_master_dirs", "saltenv=dev"],
    &["cp.get_file_str", "salt://note.txt?saltenv=dev"],
    &["cp.get_file_str", "salt://note.txt", "saltenv=prod"],
    &["cp.hash_file", "salt://note.txt", "saltenv=dev"],
    &["slsutil.renderer", "salt://common.sls", "saltenv=dev"],
];

#[test]
fn environments_are_the_same_through_any_master() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("environments of masters", |sandbox| {
        let (ours, real) = (Salt::ours()?, Salt::real("3008.5").context("checked above")?);
        let mut heard: Vec<(String, Vec<Value>)> = Vec::new();
        for (name, salt) in [("theirs", &real), ("ours", &ours)] {
            let master = master(sandbox, name, salt)?;
            let minions = [("stock", &real), ("own", &ours)].map(|(kind, salt)| {
                let id = format!("{kind}-{name}");
                Ok::<_, anyhow::Error>((Minion::build(salt, &id).master(&master).start(sandbox)?, id))
            });
            let minions = minions.into_iter().collect::<Result<Vec<_>>>()?;
            let ids: Vec<&str> = minions.iter().map(|(_, id)| id.as_str()).collect();
            master.wait_answering(&ids)?;
            for id in ids {
                // All minions write the same files, so each one starts without them.
                wipe(&sandbox.folder("made")?)?;
                let answers: Result<Vec<Value>> =
                    CALLS.iter().map(|call| Ok(plain(&master.ask(id, call)?, id))).collect();
                heard.push((id.to_owned(), answers?));
            }
        }
        let (reference, others) = heard.split_first().context("four minions have answered")?;
        // Equal answers are not proof if all of them are empty or errors.
        ensure!(reference.1[0]["dev"] == json!(["tools"]), "tops: {}", reference.1[0]);
        let mut wrong = Vec::new();
        for (id, answers) in others {
            for ((call, expected), got) in CALLS.iter().zip(&reference.1).zip(answers) {
                wrong.extend(differences(expected, got).into_iter().map(|d| format!("{id}: {}: {d}", call.join(" "))));
            }
        }
        ensure!(wrong.is_empty(), "{} answers differ from {}'s:\n{}", wrong.len(), reference.0, wrong.join("\n"));
        Ok(())
    });
}

/// Options that decide which top file is used.
fn strategies() -> Vec<Vec<(&'static str, Value)>> {
    vec![
        vec![],
        vec![("top_file_merging_strategy", json!("same"))],
        vec![("top_file_merging_strategy", json!("same")), ("saltenv", json!("dev"))],
        vec![("top_file_merging_strategy", json!("same")), ("default_top", json!("dev"))],
        vec![("top_file_merging_strategy", json!("merge_all"))],
        vec![("top_file_merging_strategy", json!("merge_all")), ("env_order", json!(["prod", "dev", "base"]))],
        vec![("env_order", json!(["dev", "base"])), ("pillarenv", json!("dev"))],
        vec![("state_top_saltenv", json!("dev"))],
        vec![("saltenv", json!("dev")), ("pillarenv_from_saltenv", json!(true))],
        vec![("saltenv", json!("prod")), ("lock_saltenv", json!(true))],
        vec![("pillar_source_merging_strategy", json!("none")), ("pillar_merge_lists", json!(true))],
    ]
}

#[test]
fn strategies_pick_the_same_top_files_without_a_master() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("environments without a master", |sandbox| {
        let salts = [Salt::real("3008.5").context("checked above")?, Salt::ours()?];
        let (states, pillar) = trees(sandbox)?;
        let mut wrong = Vec::new();
        for (at, options) in strategies().into_iter().enumerate() {
            let ask = |salt: &Salt| -> Result<Vec<Value>> {
                let built = Minion::build(salt, &format!("{}{at}", if salt.is_ours() { "ours" } else { "real" }));
                let built = built.option("file_client", "local").option("file_roots", states.clone());
                let built = built.option("pillar_roots", pillar.clone());
                let minion = options.iter().fold(built, |minion, (name, value)| minion.option(name, value.clone()));
                let minion = minion.prepare(sandbox)?;
                let calls: [&[&str]; 4] = [
                    &["state.show_top"],
                    &["state.show_lowstate"],
                    &["pillar.items"],
                    &["state.show_sls", "tools", "saltenv=dev"],
                ];
                calls.iter().map(|arguments| call(&minion, arguments)).collect()
            };
            let [expected, got] = [ask(&salts[0])?, ask(&salts[1])?];
            ensure!(expected[0].is_object(), "the real Salt tells no tops: {}", expected[0]);
            let words = options.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ");
            for (expected, got) in expected.iter().zip(&got) {
                wrong.extend(differences(expected, got).into_iter().map(|d| format!("with {words}: {d}")));
            }
        }
        ensure!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
        Ok(())
    });
}

#[test]
fn a_repository_serves_a_minion_without_a_master() {
    if missing(&["3008.5"]) {
        return;
    }
    scenario("a repository without a master", |sandbox| {
        let source = repository(sandbox)?;
        let url = format!("file://{}", source.display());
        let (_, pillar) = trees(sandbox)?;
        let calls: [&[&str]; 9] = [
            &["cp.list_master"],
            &["cp.list_master", "saltenv=dev"],
            &["cp.list_master", "saltenv=v1"],
            &["cp.list_states", "saltenv=dev"],
            &["cp.get_file_str", "salt://mnt/note.txt", "saltenv=dev"],
            &["cp.hash_file", "salt://mnt/note.txt", "saltenv=v1"],
            &["state.show_top"],
            &["state.apply", "mnt.common", "saltenv=dev"],
            &["pillar.items"],
        ];
        let ask = |salt: &Salt, name: &str| -> Result<Vec<Value>> {
            let minion = Minion::build(salt, name)
                .option("file_client", "local")
                .option("fileserver_backend", json!(["git"]))
                .option("gitfs_remotes", json!([{ &url: [{"root": "tree"}, {"mountpoint": "salt://mnt"}] }]))
                .option("gitfs_base", "main")
                // Salt would use pygit2 if it is installed, with other messages.
                .option("gitfs_provider", "gitpython")
                .option("git_pillar_provider", "gitpython")
                .option("pillar_roots", pillar.clone())
                .option(
                    "ext_pillar",
                    json!([{"git": [{ format!("main {url}"): [{"root": "pillar"}, {"env": "base"}] }]}]),
                )
                .prepare(sandbox)?;
            calls.iter().map(|arguments| call(&minion, arguments)).collect()
        };
        let expected = ask(&Salt::real("3008.5").context("checked above")?, "real")?;
        let got = ask(&Salt::ours()?, "ours")?;
        let mut wrong = Vec::new();
        for ((call, expected), got) in calls.iter().zip(&expected).zip(&got) {
            wrong.extend(differences(expected, got).into_iter().map(|d| format!("{}: {d}", call.join(" "))));
        }
        ensure!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
        // Only files below `root` are served, under `mountpoint`: `outside.txt` must not appear.
        ensure!(expected[0] == json!(["mnt/note.txt"]), "the repository is not served: {}", expected[0]);
        Ok(())
    });
}

/// Writes the trees and gives the values of `file_roots` and `pillar_roots`.
fn trees(sandbox: &Sandbox) -> Result<(Value, Value)> {
    let (states, pillar, made) = (sandbox.folder("states")?, sandbox.folder("pillar")?, sandbox.folder("made")?);
    for (folder, files) in [(&states, STATES), (&pillar, PILLAR)] {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            fs::write(path, text.replace("ROOT", &made.to_string_lossy()))?;
        }
    }
    let below = |folder: &Path, name: &str| json!([folder.join(name)]);
    let states = json!({"base": below(&states, "base"), "dev": below(&states, "dev"), "prod": below(&states, "prod")});
    let pillar = json!({
        "base": below(&pillar, "base"), "dev": below(&pillar, "dev"), "__env__": below(&pillar, "rest/__env__"),
    });
    Ok((states, pillar))
}

fn master(sandbox: &Sandbox, name: &str, salt: &Salt) -> Result<Master> {
    let (states, pillar) = trees(sandbox)?;
    let built = Master::build(salt, name).option("auto_accept", true);
    built.option("file_roots", states).option("pillar_roots", pillar).start(sandbox)
}

/// Calls a function on a minion without a master. An error counts as the answer.
fn call(minion: &Minion, arguments: &[&str]) -> Result<Value> {
    let program = minion.program("salt-call").args(["--local", "--out", "json", "--log-level", "quiet"]);
    let output = program.args(arguments).run()?;
    let answer = match output.json() {
        Ok(answer) => answer["local"].clone(),
        Err(_) => json!({"error": output.stderr.trim()}),
    };
    Ok(plain(&answer, minion.id()))
}

/// Removes values that differ from run to run, and the minion's name.
fn plain(answer: &Value, id: &str) -> Value {
    match answer {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, _)| !matches!(key.as_str(), "duration" | "start_time"));
            kept.map(|(key, value)| (key.clone(), plain(value, id))).collect()
        }
        Value::Array(items) => items.iter().map(|item| plain(item, id)).collect(),
        Value::String(text) => text.replace(id, "ID").into(),
        other => other.clone(),
    }
}

fn wipe(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder)?;
    Ok(fs::create_dir(folder)?)
}

/// A repository with two branches and a tag.
fn repository(sandbox: &Sandbox) -> Result<PathBuf> {
    let source = sandbox.folder("source.git")?;
    let git = |arguments: &[&str], input: &str| -> Result<()> {
        let mut child = Command::new("git").env("GIT_DIR", &source).args(arguments).stdin(Stdio::piped()).spawn()?;
        child.stdin.take().context("it was asked for")?.write_all(input.as_bytes())?;
        ensure!(child.wait()?.success(), "git {arguments:?} failed");
        Ok(())
    };
    git(&["init", "--quiet", "--bare", "--initial-branch=main"], "")?;
    let commit = |branch: &str, files: &[(&str, &str)]| -> Result<()> {
        let mut stream =
            format!("commit refs/heads/{branch}\ncommitter T <t@e> 1700000000 +0000\ndata 1\nm\ndeleteall\n");
        for (name, content) in files {
            stream += &format!("M 100644 inline {name}\ndata {}\n{content}\n", content.len());
        }
        git(&["fast-import", "--quiet", "--force"], &stream)
    };
    commit("main", &[("tree/note.txt", "old"), ("outside.txt", "never served")])?;
    git(&["tag", "v1", "main"], "")?;
    let pillar = [("pillar/top.sls", "base:\n  '*':\n    - data\n"), ("pillar/data.sls", "from_git: true\n")];
    commit("main", &[&[("tree/note.txt", "new")], &pillar[..]].concat())?;
    let common = "a note:\n  test.show_notification:\n    - text: {{ salt['cp.get_file_str']('salt://mnt/note.txt', saltenv=saltenv) }}\n";
    commit(
        "dev",
        &[("tree/note.txt", "of dev"), ("tree/common.sls", common), ("tree/top.sls", "dev: {'*': [mnt.common]}\n")],
    )?;
    Ok(source)
}
