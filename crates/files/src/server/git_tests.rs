//! Compares `gitfs` and `minionfs` with recorded answers of Salt, and checks invariants while branches move.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use config::Master;
use value::{Map, Value, list, map};

use super::*;

fn git(repository: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("git");
    command.env("GIT_DIR", repository).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn repository(path: &Path, stream: &str) {
    std::fs::create_dir_all(path).unwrap();
    git(path, &["init", "--quiet", "--bare", "--initial-branch=master"], "");
    git(path, &["fast-import", "--quiet", "--force"], stream);
}

fn commit(path: &Path, branch: &str, files: &[(String, String)]) {
    let mut stream = format!("commit refs/heads/{branch}\ncommitter T <t@e> 1700000000 +0000\ndata 1\nm\ndeleteall\n");
    for (name, content) in files {
        stream += &format!("M 100644 inline {name}\ndata {}\n{content}\n", content.len());
    }
    git(path, &["fast-import", "--quiet", "--force"], &stream);
}

fn server(options: Map, cachedir: &Path) -> FileServer {
    let master = Master::from_options(options).unwrap();
    FileServer::new(&master.files, &master.raw, cachedir).unwrap()
}

fn fetched(options: Map, cachedir: &Path) -> FileServer {
    let server = server(options, cachedir);
    server.update(&server.choose(&["git".into()]), &[]).unwrap();
    server
}

/// Replaces the recording's placeholders by this run's paths and commits.
fn fill(value: &Value, root: &str, sha: &str) -> Value {
    match value {
        Value::Str(text) if &**text == "SHA" => sha.into(),
        Value::Str(text) if &**text == "SHORT" => sha[..10].into(),
        Value::Str(text) => text.replace("file://ROOT", &format!("file://{root}")).into(),
        Value::List(items) => items.iter().map(|item| fill(item, root, sha)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (fill(key, root, sha), fill(value, root, sha))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

/// Removes what differs from run to run, and the order where Salt's is arbitrary.
fn plain(value: Value, sorted: bool) -> Value {
    match value {
        Value::Map(map) => {
            // A file of this machine has ten numbers, one of a repository its mode.
            let of_disk = |value: &Value| value.as_list().is_some_and(|numbers| numbers.len() == 10);
            let kept = map.into_iter().filter(|(key, value)| match key.as_str() {
                Some("path") => false,
                Some("stat") => !of_disk(value),
                _ => true,
            });
            let mut kept: Vec<_> = kept.map(|(key, value)| (key, plain(value, false))).collect();
            kept.sort_by_key(|(key, _)| key.to_string());
            kept.into_iter().collect::<Map>().into()
        }
        Value::List(mut items) => {
            if sorted {
                items.sort_by_key(Value::to_string);
            }
            items.into_iter().map(|item| plain(item, false)).collect()
        }
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap().into(),
        other => other,
    }
}

/// Salt's errors: it fails if one of several remotes lacks a commit, shows links of the last backend only, and finds a file of
/// the environment in the path, but serves nothing and hashes the one of the other environment.
fn is_known_difference(options: &Value, load: &Map, recorded: &Value) -> bool {
    let cmd = load.get_str("cmd").unwrap_or_default();
    recorded.get("raised").is_some()
        || (cmd == "_symlink_list" && options.get("fileserver_backend").is_some())
        || (matches!(cmd, "_serve_file" | "_file_hash")
            && load.get_str("path").is_some_and(|path| path.contains("?saltenv=")))
}

#[test]
fn requests_are_answered_as_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/gitfs.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (name, stream) in recorded.get("streams").unwrap().as_map().unwrap().iter() {
        repository(&root.join(name.as_str().unwrap()), stream.as_str().unwrap());
    }
    let sha = git(&root.join("one"), &["rev-parse", "dev"], "");
    std::fs::create_dir(root.join("srv")).unwrap();
    for name in ["roots.txt", "top.sls"] {
        std::fs::write(root.join("srv").join(name), "from roots").unwrap();
    }
    let answers = recorded.get("answers").unwrap().as_list().unwrap();
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    let (mut asked, mut differences) = (0, Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let [options, row] = case.as_list().unwrap() else { panic!("{case}") };
        let mut given = map! {
            "fileserver_backend" => list!["gitfs"], "file_buffer_size" => 16, "fileserver_list_cache_time" => 0,
            "file_roots" => map! { "base" => list![root.join("srv").to_str().unwrap()] },
        };
        given.update(fill(options, root.to_str().unwrap(), &sha).into_map().unwrap());
        let server = fetched(given, &root.join(format!("cache{number}")));
        for index in row.as_list().unwrap() {
            let [load, expected] = answers[index.as_i64().unwrap() as usize].as_list().unwrap() else { panic!() };
            let load = fill(load, root.to_str().unwrap(), &sha).into_map().unwrap();
            if is_known_difference(options, &load, expected) {
                continue;
            }
            asked += 1;
            let envs = load.get_str("cmd") == Some("_file_envs");
            let answer = plain(server.request(&load).unwrap().unwrap(), envs);
            let expected = plain(fill(expected, root.to_str().unwrap(), &sha), envs);
            if answer != expected {
                differences.push(format!("{options} {load:?}:\n  {answer}\n  recorded {expected}"));
            }
        }
    }
    assert!(asked > 25_000 && cases.len() >= 60, "only {asked} questions in {} cases", cases.len());
    let shown = differences.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {asked} differ:\n{shown}", differences.len());
}

struct Small {
    _dir: tempfile::TempDir,
    root: PathBuf,
    options: Map,
}

impl Small {
    fn new(files: &[(String, String)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        repository(&root.join("r"), "");
        commit(&root.join("r"), "master", files);
        let options = map! {
            "fileserver_backend" => list!["gitfs"], "gitfs_remotes" => list![format!("file://{}/r", root.display())],
            "file_buffer_size" => 1000,
        };
        Small { _dir: dir, root, options }
    }
}

fn piece(server: &FileServer, reader: &str, path: &str, offset: usize) -> Vec<u8> {
    let wanted = ChunkRequest { path, env: "base", offset: offset as u64, gzip: None, reader: Some(reader) };
    server.serve(&wanted).unwrap().data.to_vec()
}

#[test]
fn all_chunks_of_a_file_are_from_one_commit() {
    let content = |round: usize, file: usize| {
        // Longer each time, so that a mixture would always show.
        let line = format!("round {round} of file {file}\n");
        line.repeat(200 + round * 40)
    };
    let files = |round: usize| -> Vec<(String, String)> {
        (0..20).map(|file| (format!("d/f{file}"), content(round, file))).collect()
    };
    let small = Small::new(&files(0));
    // Two masters share a cache: one fetches, both serve.
    let (serves, fetches) = (
        fetched(small.options.clone(), &small.root.join("cache")),
        server(small.options.clone(), &small.root.join("cache")),
    );
    let mut parts: Vec<Vec<u8>> = vec![Vec::new(); 20];
    let mut done = [false; 20];
    let mut round = 0;
    while done.contains(&false) {
        for (file, part) in parts.iter_mut().enumerate() {
            if !done[file] {
                let more = piece(&serves, "minion", &format!("d/f{file}"), part.len());
                done[file] = more.is_empty();
                part.extend(more);
            }
        }
        if round < 3 {
            round += 1;
            commit(&small.root.join("r"), "master", &files(round));
            assert!(fetches.fetch(0).unwrap().changed);
        }
    }
    for (file, part) in parts.iter().enumerate() {
        let text = String::from_utf8(part.clone()).unwrap();
        assert!((0..=3).any(|round| text == content(round, file)), "file {file} is a mixture");
    }
    assert_eq!(piece(&serves, "other", "d/f0", 0)[..20], content(3, 0).as_bytes()[..20]);
}

#[test]
fn runners_choose_backends_as_salt_does() {
    let small = Small::new(&[("f".into(), "x".into())]);
    let mut options = small.options.clone();
    options.insert("fileserver_backend", list!["roots", "git", "minion", "hg"]);
    options.insert("file_recv", true);
    let server = server(options, &small.root.join("cache"));
    let names = |asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        server.choose(&asked).names().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["roots", "gitfs", "minionfs"]);
    assert_eq!(names(&["-git"]), ["roots", "minionfs"]);
    assert_eq!(names(&["-gitfs", "-roots"]), ["minionfs"]);
    assert_eq!(names(&["git", "-roots"]), ["git"]);
    assert_eq!(names(&["minionfs", "none", "roots"]), ["minionfs", "roots"]);
}

#[test]
fn pushed_files_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (path, content) in [("web1/files/etc/hosts", "one"), ("web1/files/top.sls", "no"), ("db1/files/log", "two")] {
        let full = root.join("minions").join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, content).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("minions/web1/files/link")).unwrap();
    let options = |more: Map| {
        let mut options = map! { "fileserver_backend" => list!["minion"], "file_recv" => true };
        options.update(more);
        server(options, &root)
    };
    let files = |server: &FileServer, env: &str| server.lists(env).unwrap().files.into_iter().collect::<Vec<_>>();
    let plain = options(Map::new());
    assert_eq!(plain.envs(), ["base"]);
    assert_eq!(files(&plain, "base"), ["db1/log", "web1/etc/hosts", "web1/top.sls"]);
    let found = plain.find("web1/etc/hosts", "base").unwrap().unwrap();
    assert_eq!((found.back, &*found.relative), ("minionfs", "web1/etc/hosts"));
    assert_eq!(plain.hash(&found).unwrap(), HashType::Sha256.hex(b"one"));
    assert!(root.join("minionfs/hash/base/web1/etc/hosts.hash.sha256").exists());
    for hidden in ["web1/top.sls", "web1/link", "web1", "web1/", "web1/etc", "../x", "web1/..", "none/x"] {
        assert_eq!(plain.find(hidden, "base").unwrap(), None, "{hidden}");
    }
    assert_eq!(plain.find("db1/log", "dev").unwrap(), None);
    let mounted = options(map! {
        "minionfs_env" => "minions", "minionfs_mountpoint" => "salt://from", "minionfs_blacklist" => list!["db*"],
    });
    assert_eq!(mounted.envs(), ["minions"]);
    assert_eq!(files(&mounted, "minions"), ["from/web1/etc/hosts", "from/web1/top.sls"]);
    let found = mounted.find("from/web1/etc/hosts", "minions").unwrap().unwrap();
    assert_eq!(found.relative, "web1/etc/hosts");
    for hidden in ["web1/etc/hosts", "from/db1/log"] {
        assert_eq!(mounted.find(hidden, "minions").unwrap(), None, "{hidden}");
    }
    let listed = options(map! { "minionfs_whitelist" => list!["web.*"] });
    assert!(listed.find("web1/etc/hosts", "base").unwrap().is_some());
    assert_eq!(listed.find("db1/log", "base").unwrap(), None);
    assert!(server(map! { "fileserver_backend" => list!["minion"] }, &root).envs().is_empty());
}

#[test]
fn thousands_of_requests_start_no_program() {
    let files: Vec<_> = (0..200).map(|file| (format!("f{file}"), format!("content {file}"))).collect();
    let small = Small::new(&files);
    let server = fetched(small.options.clone(), &small.root.join("cache"));
    let ask_all = || {
        for (name, content) in &files {
            assert_eq!(piece(&server, "m", name, 0), content.as_bytes());
        }
    };
    ask_all();
    // The extracted files suffice now: the repository itself may be gone.
    let mut places = std::fs::read_dir(small.root.join("cache/gitfs")).unwrap().map(|entry| entry.unwrap().path());
    let place = places.find(|path| path.join("_/HEAD").exists()).unwrap();
    std::fs::rename(&place, small.root.join("away")).unwrap();
    for _ in 0..10 {
        ask_all();
    }
    assert_eq!(server.lists("base").unwrap().files.len(), 200);
}

#[test]
fn invalid_remotes_stop_the_start_unless_verification_is_off() {
    let dir = tempfile::tempdir().unwrap();
    let open = |verify: bool| {
        let remotes = list![map! { "file:///a" => list![map! { "nonsense" => 1 }] }];
        let options = map! {
            "fileserver_backend" => list!["roots", "git"], "gitfs_remotes" => remotes, "fileserver_verify_config" => verify,
        };
        let master = Master::from_options(options).unwrap();
        FileServer::new(&master.files, &master.raw, dir.path())
            .map(|server| server.all().names().into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let error = open(true).unwrap_err().to_string();
    assert!(error.contains("Invalid gitfs configuration parameter 'nonsense' in remote 'file:///a'."), "{error}");
    assert_eq!(open(false).unwrap(), ["roots"]);
}
