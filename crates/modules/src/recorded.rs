//! Replays what Salt's own execution modules asked programs and did with their answers
//! (`testdata/record_programs.py`): ours must change the machine by the same commands, in the same order, ask it nothing
//! that Salt does not ask, and come to the same result.

use exec::{Call, Module, Registry, Result};
use value::{Map, Value, map};

use crate::subprocess::tape::{Recorded, Tape};
use crate::util;

fn list(map: &Map, name: &str) -> Vec<Value> {
    map.get(name).and_then(Value::as_list).unwrap_or_default().to_vec()
}

/// Puts the directory of this test in the place of the recorded one.
fn located(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(from, to).into(),
        Value::List(items) => items.iter().map(|item| located(item, from, to)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (located(key, from, to), located(value, from, to))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

const ROOT: &str = "/@root@";

/// The modules a provider works with.
fn modules(provider: &str) -> Vec<&'static Module> {
    let named = crate::ALL.iter().copied().filter(|module| module.provider == Some(provider));
    // The modules that others call. All the rest is left out, so that a case depends on nothing
    // else.
    let helpers = crate::ALL.iter().copied().filter(|module| {
        ["pkg_resource", "config", "file", "cp"].contains(&module.name)
            || (module.name == "lowpkg" && module.provider == Some("rpm_lowpkg") && provider != "rpm_lowpkg")
    });
    named.chain(helpers).collect()
}

fn write_files(root: &str, files: &Map) {
    for (path, content) in files {
        let path = std::path::PathBuf::from(format!("{root}{path}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Scripts must be executable.
        let mode = if content.to_string().starts_with("#!") { 0o755 } else { 0o644 };
        util::replace_file(&path, content.to_string().as_bytes(), mode).unwrap();
    }
}

fn read_files(root: &str, files: &Map) -> Map {
    let content = |path: &Value| std::fs::read_to_string(format!("{root}{path}")).ok();
    files.keys().map(|path| (path.clone(), Value::from(content(path)))).collect()
}

/// Returns the differences between a recording and our code, or None if there are none.
fn difference(case: &Map) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap().to_owned();
    let case = located(&case.clone().into(), ROOT, &root).into_map().unwrap();
    let part = |name: &str| case.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
    write_files(&root, &part("files"));
    let provider = case.get_str("provider").unwrap();
    let mut opts = map! { "systemd.scope" => false, "cachedir" => root.as_str(), "__root" => root.as_str() };
    opts.update(part("opts"));
    let modules = modules(provider);
    let always: Vec<&'static Module> = modules
        .into_iter()
        // The machine of the test is not the recorded one, so every module is taken as fitting.
        .map(|module| -> &'static Module { Box::leak(Box::new(module.clone().only_if(|_| Ok(())))) })
        .collect();
    let (ctx, _agent) = exec::testing::context(&always, opts, part("grains"), part("pillar"));
    let answers = list(&case, "answers").into_iter().filter_map(Value::into_map).collect();
    *ctx.memo.get::<Recorded>().lock().unwrap() = Some(Tape { answers, ..Tape::default() });
    let fun = case.get_str("fun").unwrap();
    let call = Call { args: list(&case, "args"), kwargs: part("kwargs") };
    let ours = ctx.call_with(fun, call);
    let tape = ctx.memo.get::<Recorded>();
    let tape = tape.lock().unwrap().take().unwrap();
    let mut wrong = tape.strange;
    wrong.extend(compare(&case, ours));
    let made = Value::List(tape.made);
    // A first difference explains the others, so only that is shown.
    if wrong.is_empty() && Some(&made) != case.get("made") {
        wrong.push(format!("did {made}\n      Salt {}", case.get("made").cloned().unwrap_or_default()));
    }
    let after = part("after");
    let found = read_files(&root, &after);
    if wrong.is_empty() && found != after {
        wrong.push(format!("files {}\n      Salt {}", Value::from(found), Value::from(after)));
    }
    let shown = |name: &str| case.get(name).cloned().unwrap_or_default();
    let title = format!("{provider} {fun} {} {} {}", shown("args"), shown("kwargs"), shown("opts"));
    (!wrong.is_empty()).then(|| format!("{title}\n      {}", wrong.join("\n      ")))
}

fn compare(case: &Map, ours: Result<Value>) -> Option<String> {
    match (case.get_str("raises"), ours) {
        (None, Ok(ours)) => {
            let salt = case.get("result").cloned().unwrap_or_default();
            (ours != salt).then(|| format!("ours {ours}\n      Salt {salt}"))
        }
        (Some(salt), Err(error)) => {
            let text = error.to_string();
            (text != salt).then(|| format!("ours failed: {text}\n      Salt failed: {salt}"))
        }
        (None, Err(error)) => Some(format!("ours failed: {error}\n      Salt {:?}", case.get("result"))),
        (Some(salt), Ok(ours)) => Some(format!("ours {ours}\n      Salt failed: {salt}")),
    }
}

fn replay(file: &str, at_least: usize) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/programs").join(file);
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases.into_list().unwrap();
    // A truncated file of cases must not pass.
    assert!(cases.len() >= at_least, "{file} has {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(difference(case.as_map().unwrap()));
    }
    let count = wrong.len();
    wrong.truncate(25);
    assert!(count == 0, "{count} of {} differ:\n{}", cases.len(), wrong.join("\n"));
}

macro_rules! recordings {
    ($($name:ident $least:literal)*) => {
        $(#[test]
        fn $name() {
            replay(concat!(stringify!($name), ".json"), $least);
        })*
    };
}

recordings! {
    alpine_cases 140
    pacman_cases 50
    service_program_cases 250
    yum_cases 280
    zypper_cases 80
}

#[test]
fn providers_are_chosen_by_grains_or_by_name() {
    let chosen = |grains: Map, providers: Map| {
        let registry = Registry::limited(crate::ALL, &grains, exec::Limits::default(), &providers);
        registry.modules().find(|module| module.name == "pkg").and_then(|module| module.provider)
    };
    assert_eq!(chosen(map! { "os_family" => "Debian" }, Map::new()), Some("aptpkg"));
    assert_eq!(chosen(map! { "os_family" => "Other" }, map! { "pkg" => "aptpkg" }), Some("aptpkg"));
}
