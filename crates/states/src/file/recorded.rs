//! Replays what real Salt 3008.5 did (`testdata/record_file.py`) and compares results and files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use exec::testing::with_states;
use exec::{Call, Context, StateCall};
use modules::file::facts::{group_name, user_name};
use modules::file::owners::{gid_of, uid_of};
use value::{Map, Value, list, map};

const MARK: &str = "@DIR@";

fn expand(value: &Value, dir: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(MARK, dir).into(),
        Value::List(items) => items.iter().map(|item| expand(item, dir)).collect(),
        Value::Map(map) => match map.get_str("$bytes") {
            Some(text) => Value::bytes(STANDARD.decode(text).unwrap()),
            None => map.iter().map(|(key, item)| (expand(key, dir), expand(item, dir))).collect::<Map>().into(),
        },
        other => other.clone(),
    }
}

fn hide(value: Value, dir: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(dir, MARK).into(),
        Value::Bytes(bytes) => map! { "$bytes" => STANDARD.encode(&bytes[..]) }.into(),
        Value::List(items) => items.into_iter().map(|item| hide(item, dir)).collect(),
        Value::Map(map) => map.into_iter().map(|(key, item)| (hide(key, dir), hide(item, dir))).collect::<Map>().into(),
        other => other,
    }
}

/// Removes random parts of a text: names of temporary files.
fn without_chance(text: &str) -> String {
    let pattern = regex::Regex::new(r"(/tmp/[A-Za-z0-9_.\-]+)+(/[a-z]+)?").unwrap();
    let pid = regex::Regex::new(r"pid:\s+\d+").unwrap();
    pid.replace_all(&pattern.replace_all(text, "TMP"), "PID").into_owned()
}

/// Sorts lines of comments and lists of paths that Salt leaves unsorted, so that they can be compared.
fn canonical(value: Value, unordered: bool) -> Value {
    match value {
        Value::Str(text) if unordered => {
            let text = without_chance(&text);
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n").into()
        }
        Value::Str(text) => without_chance(&text).into(),
        Value::List(items) => {
            let mut items: Vec<Value> = items.into_iter().map(|item| canonical(item, unordered)).collect();
            items.sort_by_key(|item| item.to_string());
            items.into()
        }
        Value::Map(map) => {
            let kept = map.into_iter().filter(|(key, _)| key.as_str() != Some("pid"));
            kept.map(|(key, item)| (key, canonical(item, unordered))).collect::<Map>().into()
        }
        other => other,
    }
}

fn make(root: &str, entry: &Map) {
    let path = format!("{root}/{}", entry.get_str("path").unwrap());
    fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    if let Some(target) = entry.get_str("link") {
        symlink(target.replace(MARK, root), &path).unwrap();
        return;
    }
    if let Some(other) = entry.get_str("hard") {
        fs::hard_link(format!("{root}/{other}"), &path).unwrap();
        return;
    }
    let is_dir = entry.contains_key("dir");
    if is_dir {
        fs::create_dir_all(&path).unwrap();
    } else if entry.contains_key("fifo") {
        nix::unistd::mkfifo(path.as_str(), nix::sys::stat::Mode::from_bits_truncate(0o644)).unwrap();
    } else if let Some(bytes) = entry.get_str("bytes") {
        fs::write(&path, STANDARD.decode(bytes).unwrap()).unwrap();
    } else {
        fs::write(&path, entry.get_str("text").unwrap_or_default().replace(MARK, root)).unwrap();
    }
    let mode = entry.get_str("mode").unwrap_or(if is_dir { "0755" } else { "0644" });
    fs::set_permissions(&path, fs::Permissions::from_mode(u32::from_str_radix(mode, 8).unwrap())).unwrap();
    if let Some(user) = entry.get("user") {
        chown(&path, uid_of(user), gid_of(entry.get("group").unwrap_or(user))).unwrap();
    }
    let days = entry.get("days").and_then(Value::as_i64);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as f64;
    let time = days.map(|days| now - days as f64 * 86_400.0).or(entry.get("time").and_then(Value::as_f64));
    if let Some(time) = time {
        modules::file::content::touched(&path, Some(time), Some(time)).unwrap();
    }
}

fn tree(root: &str) -> Map {
    let mut found = Map::new();
    look(root, Path::new(root), &mut found);
    found
}

fn look(root: &str, directory: &Path, found: &mut Map) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if ["cache", "srv", "srv-dev", "root"].contains(&relative.as_str()) {
            continue;
        }
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let mut facts = map! { "mode" => format!("{:04o}", meta.mode() & 0o7777) };
        if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap().to_str().unwrap().replace(root, MARK);
            facts = map! { "link" => target };
        }
        let owner = format!("{}:{}", user_name(meta.uid()), group_name(meta.gid()));
        if owner != "root:root" {
            facts.insert("owner", owner);
        }
        if kind.is_dir() {
            facts.insert("dir", true);
        } else if kind.is_fifo() {
            facts.insert("fifo", true);
        } else if kind.is_file() {
            match String::from_utf8(fs::read(&path).unwrap()) {
                Ok(text) => facts.insert("text", text.replace(root, MARK)),
                Err(error) => facts.insert("bytes", STANDARD.encode(error.as_bytes())),
            };
        } else if !kind.is_symlink() {
            let (major, minor) = (nix::sys::stat::major(meta.rdev()), nix::sys::stat::minor(meta.rdev()));
            facts.insert("device", format!("{major}:{minor}"));
        }
        found.insert(relative, facts);
        if kind.is_dir() {
            look(root, &path, found);
        }
    }
}

fn context(root: &str, pillar: Map) -> Context {
    let opts = map! {
        "id" => "minion", "user" => "root", "file_client" => "local", "cachedir" => format!("{root}/cache"),
        "test" => false, "hash_type" => "sha256", "fileserver_list_cache_time" => 0,
        "file_roots" => map! { "base" => list![format!("{root}/srv")], "dev" => list![format!("{root}/srv-dev")] },
    };
    let grains = map! {
        "kernel" => "Linux", "os" => "Debian", "os_family" => "Debian", "shell" => "/bin/sh", "id" => "minion",
        "cpuarch" => "x86_64", "roles" => list!["web"], "deep" => map! { "er" => "grain text" },
    };
    with_states(modules::ALL, crate::ALL, opts, grains, pillar).0
}

/// Applies one state as the engine does.
fn apply(ctx: &Context, run: &Map, root: &str) -> exec::Result<Value> {
    let fun = run.get_str("fun").unwrap();
    let args = expand(run.get("args").unwrap(), root).into_map().unwrap();
    let mut opts = (*ctx.opts).clone();
    opts.insert("test", run.contains_key("test"));
    let mut low = map! {
        "state" => "file", "fun" => fun.trim_start_matches("file."), "__sls__" => "sls", "__env__" => "base",
        "__id__" => run.get_str("id").unwrap_or("id"), "order" => 1,
    };
    low.update(args.clone());
    low.update(run.get("low").map(|low| expand(low, root)).and_then(Value::into_map).unwrap_or_default());
    let chunks = run.get("chunks").map(|chunks| expand(chunks, root)).and_then(Value::into_list).unwrap_or_default();
    let mut chunks: Vec<Map> = chunks.into_iter().filter_map(Value::into_map).collect();
    chunks.push(low.clone());
    let state = Arc::new(StateCall {
        low,
        chunks: Arc::new(chunks.into_iter().map(Arc::new).collect()),
        ..StateCall::default()
    });
    let ctx = Context { opts: Arc::new(opts), state: Some(state), ..ctx.clone() };
    ctx.call_state(fun, Call { args: Vec::new(), kwargs: args })
}

/// The differences of one case.
fn replay(case: &Map) -> Vec<String> {
    let folder = tempfile::Builder::new().prefix("file-states-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = folder.path().to_str().unwrap();
    ["srv", "cache"].iter().for_each(|name| fs::create_dir(format!("{root}/{name}")).unwrap());
    for entry in case.get("setup").and_then(Value::as_list).unwrap() {
        make(root, entry.as_map().unwrap());
    }
    let pillar = case.get("pillar").map(|pillar| expand(pillar, root)).and_then(Value::into_map).unwrap_or_default();
    let ctx = context(root, pillar);
    let runs = case.get("runs").and_then(Value::as_list).unwrap();
    let outcomes = case.get("outcomes").and_then(Value::as_list).unwrap();
    let mut wrong = Vec::new();
    for (number, (run, outcome)) in runs.iter().zip(outcomes).enumerate() {
        let run = run.as_map().unwrap();
        let unordered = ["file.directory", "file.recurse"].contains(&run.get_str("fun").unwrap());
        let ours = match apply(&ctx, run, root) {
            Ok(Value::Map(ret)) => map! { "ret" => hide(ret.into(), root) },
            Ok(other) => map! { "ret" => map! { "value" => other } },
            Err(error) => map! { "raised" => error.to_string().replace(root, MARK) },
        };
        for part in ["ret", "raised"] {
            let theirs = outcome.get(part).cloned().unwrap_or_default();
            let theirs = if part == "raised" { worded(theirs) } else { theirs };
            let (ours, theirs) =
                (canonical(ours.get(part).cloned().unwrap_or_default(), unordered), canonical(theirs, unordered));
            if !value::python::equal(&ours, &theirs) {
                wrong.push(format!("  run {number} {part}\n    ours {ours}\n    Salt {theirs}"));
            }
        }
        let (ours, theirs) = (tree(root), outcome.get("tree").and_then(Value::as_map).unwrap());
        if ours != *theirs {
            wrong.push(format!(
                "  run {number} tree\n    ours {}\n    Salt {}",
                Value::from(ours),
                Value::from(theirs.clone())
            ));
        }
    }
    wrong
}

/// Salt's own errors by their words; of Python's only that there is one.
fn worded(raised: Value) -> Value {
    match raised.as_str().and_then(|raised| raised.split_once(": ")) {
        Some((_, text)) => text.into(),
        None => raised,
    }
}

/// The cases that COMPATIBILITY.md names as different.
fn known() -> BTreeSet<String> {
    let text = include_str!("../../../../COMPATIBILITY.md");
    let section = text.split("\n## ").find(|section| section.starts_with("File states")).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| {
        let last = row.trim_matches('|').rsplit('|').next().unwrap_or_default();
        last.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn states_do_what_salts_do() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: the recordings are those of root");
        return;
    }
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/file.json");
    let cases: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases.into_list().unwrap();
    assert!(cases.len() >= 400, "only {} cases", cases.len());
    let only = std::env::var("FILE_CASES").unwrap_or_default();
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in cases.iter().filter_map(Value::as_map) {
        let name = case.get_str("name").unwrap();
        if !name.starts_with(&only) {
            continue;
        }
        let found = replay(case);
        if !found.is_empty() {
            wrong.insert(name.to_owned(), found);
        }
    }
    let known = known();
    let stale: Vec<&String> = known.iter().filter(|name| !wrong.contains_key(*name) && only.is_empty()).collect();
    let new: Vec<String> = (wrong.iter().filter(|(name, _)| !known.contains(*name)))
        .map(|(name, found)| format!("{name}\n{}", found.join("\n")))
        .collect();
    assert!(new.is_empty(), "{} of {} cases differ:\n{}", new.len(), cases.len(), new.join("\n"));
    assert!(stale.is_empty(), "COMPATIBILITY.md names cases that do not differ: {stale:?}");
}
