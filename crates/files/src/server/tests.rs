use std::time::Duration;

use config::Master;
use value::{Map, Value, map};
use wire::MinionId;

use super::*;

fn recorded() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/roots.json");
    wire_json(&std::fs::read_to_string(path).unwrap())
}

fn wire_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Builds the tree the answers were recorded for.
fn build(tree: &Value, root: &Path) {
    for entry in tree.as_list().unwrap() {
        let entry = entry.as_list().unwrap();
        let full = root.join(text(&entry[1]));
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        match text(&entry[0]) {
            "dir" => std::fs::create_dir(&full).unwrap(),
            "link" => std::os::unix::fs::symlink(text(&entry[2]), &full).unwrap(),
            _ => std::fs::write(&full, text(&entry[2])).unwrap(),
        }
    }
}

fn server(root: &Path, roots: &Value, settings: &Map) -> FileServer {
    let mut options = settings.clone();
    let directory = |dir: &Value| Value::from(root.join(text(dir)).to_str().unwrap());
    let directories =
        |(env, dirs): (&Value, &Value)| (env.clone(), dirs.as_list().unwrap().iter().map(directory).collect::<Value>());
    options.insert("file_roots", roots.as_map().unwrap().iter().map(directories).collect::<Map>());
    options.insert("file_buffer_size", 4);
    let master = Master::from_options(options).unwrap();
    FileServer::new(&master.files, &master.raw, &root.join("cache")).unwrap()
}

/// Takes out what differs from run to run.
fn plain(value: Value, root: &str) -> Value {
    match value {
        Value::Map(map) => {
            let kept = map.into_iter().filter(|(key, _)| key.as_str() != Some("stat"));
            kept.map(|(key, value)| (key, plain(value, root))).collect::<Map>().into()
        }
        Value::List(items) => items.into_iter().map(|item| plain(item, root)).collect(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap().into(),
        Value::Str(text) => text.replace(root, "ROOT").into(),
        other => other,
    }
}

/// Where the real one errs: it lets the name of an environment lead anywhere, finds a file of the environment in the path
/// but does not serve it, and takes files of two directories with the same name and time for one.
fn is_known_difference(load: &Value) -> bool {
    let (cmd, path) =
        (load.get("cmd").and_then(Value::as_str), load.get("path").and_then(Value::as_str).unwrap_or_default());
    load.get("saltenv").and_then(Value::as_str) == Some("../outside")
        || (cmd == Some("_serve_file") && path.contains("?saltenv="))
        || (cmd == Some("_file_hash") && path.contains("?index=1"))
}

#[test]
fn requests_are_answered_as_recorded() {
    let recorded = recorded();
    let (mut asked, mut differences) = (0, Vec::new());
    for row in recorded.get("rows").unwrap().as_list().unwrap() {
        let [settings, questions] = row.as_list().unwrap() else { panic!("{row}") };
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        build(recorded.get("tree").unwrap(), &root);
        let server = server(&root, recorded.get("roots").unwrap(), settings.as_map().unwrap());
        for question in questions.as_list().unwrap() {
            let [load, expected] = question.as_list().unwrap() else { panic!("{question}") };
            if is_known_difference(load) {
                continue;
            }
            asked += 1;
            let answer = server.request(load.as_map().unwrap()).unwrap().unwrap();
            let answer = plain(answer, root.to_str().unwrap());
            if answer != *expected {
                differences.push(format!("{settings} {load}:\n  {answer:?}\n  recorded {expected:?}"));
            }
        }
    }
    assert!(asked > 1_000, "only {asked} questions");
    assert!(differences.is_empty(), "{} of {asked} differ:\n{}", differences.len(), differences.join("\n"));
}

/// A server with one directory that has these files.
fn small(files: &[(&str, &str)]) -> (tempfile::TempDir, FileServer) {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let full = dir.path().join("srv").join(name);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, content).unwrap();
    }
    let roots = Value::from(map! { "base" => vec!["srv"], "__env__" => vec!["any/__env__"] });
    let server = server(dir.path(), &roots, &Map::new());
    (dir, server)
}

#[test]
fn an_environment_cannot_lead_elsewhere() {
    let (dir, server) = small(&[("a", "a")]);
    std::fs::create_dir_all(dir.path().join("any")).unwrap();
    for env in ["../srv", "x/../../srv", "/srv", "", "..", "a\0b"] {
        assert_eq!(server.find("a", env).unwrap(), None, "{env:?}");
        assert_eq!(server.lists(env).unwrap(), Lists::default(), "{env:?}");
    }
}

#[test]
fn links_in_a_circle_end() {
    let (dir, server) = small(&[("a/x", "x")]);
    std::os::unix::fs::symlink("..", dir.path().join("srv/a/up")).unwrap();
    let files = server.lists("base").unwrap().files;
    assert!(files.contains("a/x") && files.len() < 5, "{files:?}");
}

#[test]
fn pieces_compressed_or_not_make_the_file() {
    let (_dir, server) = small(&[("f", "hello, world")]);
    for gzip in [None, Some(9)] {
        let (mut content, mut offset) = (Vec::new(), 0);
        loop {
            let chunk = server.serve(&ChunkRequest { path: "f", env: "base", offset, gzip, reader: None }).unwrap();
            assert_eq!(chunk.dest, "f");
            if chunk.data.is_empty() {
                break;
            }
            assert_eq!(chunk.gzip, gzip);
            let before = content.len();
            match gzip {
                None => content.extend_from_slice(&chunk.data),
                Some(_) => {
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&chunk.data[..]), &mut content)
                        .unwrap();
                }
            }
            offset += (content.len() - before) as u64;
        }
        assert_eq!(content, b"hello, world");
    }
}

#[test]
fn a_changed_file_gets_another_hash() {
    let (dir, server) = small(&[("f", "one")]);
    let hash = |server: &FileServer| server.hash(&server.find("f", "base").unwrap().unwrap()).unwrap();
    let first = hash(&server);
    assert_eq!(first, HashType::Sha256.hex(b"one"));
    assert!(dir.path().join("cache/roots/hash/base/f.hash.sha256").is_file());
    let file = std::fs::File::options().write(true).open(dir.path().join("srv/f")).unwrap();
    std::io::Write::write_all(&mut &file, b"two").unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).unwrap();
    assert_eq!(hash(&server), HashType::Sha256.hex(b"two"));
}

#[test]
fn updates_report_changes_and_remove_old_hashes() {
    let (dir, server) = small(&[("keep", "1"), ("change", "1"), ("go", "1")]);
    assert_eq!(server.update_roots().unwrap().unwrap().added.len(), 3);
    assert!(server.update_roots().unwrap().unwrap().is_empty());
    server.hash(&server.find("go", "base").unwrap().unwrap()).unwrap();
    let at = |name: &str| dir.path().join("srv").join(name);
    std::fs::remove_file(at("go")).unwrap();
    std::fs::write(at("new"), "1").unwrap();
    let file = std::fs::File::options().write(true).open(at("change")).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_secs(5)).unwrap();
    let update = server.update_roots().unwrap().unwrap();
    let name = |name: &str| vec![at(name).to_str().unwrap().to_owned()];
    assert_eq!(update, Update { changed: name("change"), added: name("new"), removed: name("go") });
    assert_eq!(update.to_event().get("changed"), Some(&Value::Bool(true)));
    assert!(!dir.path().join("cache/roots/hash/base/go.hash.sha256").exists());
}

#[test]
fn an_invalid_ignore_expression_is_an_error() {
    let mut settings = Master::from_options(Map::new()).unwrap().files;
    settings.file_ignore_regex = vec!["(".into()];
    assert!(FileServer::new(&settings, &Map::new(), Path::new("/none")).is_err());
}

fn inbox(dir: &Path, options: Map) -> Inbox {
    Inbox::new(&Master::from_options(options).unwrap().files, dir)
}

#[test]
fn pushed_files_are_kept_below_their_minion() {
    let dir = tempfile::tempdir().unwrap();
    let id = MinionId::new("web1").unwrap();
    let push = |inbox: &Inbox, path: &[&str], offset: i64, data: &[u8]| {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        inbox.receive(&Piece { id: &id, path: &path, offset, data }).unwrap()
    };
    let off = inbox(dir.path(), Map::new());
    assert!(!push(&off, &["etc", "hosts"], 0, b"x"));
    let on = inbox(dir.path(), map! { "file_recv" => true, "file_recv_max_size" => 1 });
    assert!(push(&on, &["etc", "hosts"], 0, b"hello "));
    assert!(push(&on, &["etc", "hosts"], 6, b"world"));
    let file = dir.path().join("minions/web1/files/etc/hosts");
    assert_eq!(std::fs::read(&file).unwrap(), b"hello world");
    assert!(push(&on, &["etc", "hosts"], 0, b"anew"));
    assert_eq!(std::fs::read(&file).unwrap(), b"anew");
    for path in
        [&["..", "x"][..], &["a", "../../../x"], &[".."], &[], &["a\0b"], &["a\u{1b}[2Jb"], &["a\nb"], &["a", ".", "b"]]
    {
        assert!(!push(&on, path, 0, b"x"), "{path:?}");
    }
    assert!(!push(&on, &["big"], 1 << 20, b"x"));
    assert!(!push(&on, &["neg"], -1, b"x"));
    assert!(!push(&on, &["max"], i64::MAX, b"x"));
}
