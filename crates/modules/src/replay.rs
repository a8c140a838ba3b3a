//! Replays what Salt's own execution functions were recorded to do (`testdata/record_calls.py`): ours must run the same
//! programs and call the same functions in the same order, with the same arguments, and come to the same result.

use std::path::Path;
use std::sync::Mutex;

use exec::{Body, Bound, Call, Context, Error, Function, Module};
use value::{Map, Value, map};

/// The recorded calls of other functions with their answers.
#[derive(Default)]
struct Tape {
    calls: Vec<Map>,
    next: usize,
    wrong: Vec<String>,
}

type Recorded = Mutex<Tape>;

fn error(failure: &Value) -> Error {
    let text = failure.get("text").unwrap().to_string();
    match failure.get("kind").and_then(Value::as_str) {
        Some("invocation") => Error::Invocation(text),
        Some("notfound") => Error::CommandNotFound(text),
        _ => Error::Execution(text),
    }
}

/// Returns whether an argument is as it was recorded; `{any}` matches any text.
fn fits(recorded: &Value, ours: &Value) -> bool {
    match (recorded, ours) {
        (Value::Str(recorded), Value::Str(ours)) => match recorded.split_once("{any}") {
            // `{any}` replaces random parts, such as the name of a temporary file.
            Some((start, end)) => ours.starts_with(start) && ours.ends_with(end),
            None => recorded == ours,
        },
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fits(a, b)),
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get_value(key).is_some_and(|b| fits(a, b)))
        }
        (recorded, ours) => recorded == ours,
    }
}

fn play(ctx: &Context, fun: &str, bound: Bound) -> exec::Result<Value> {
    let tape = ctx.memo.get::<Recorded>();
    let mut tape = tape.lock().unwrap();
    let (args, kwargs) = (Value::List(bound.varargs), Value::Map(bound.kwargs));
    let expected = tape.calls.get(tape.next).cloned();
    let same = |entry: &Map| {
        let part = |name: &str| entry.get(name).cloned().unwrap_or_default();
        entry.get_str("fun") == Some(fun) && fits(&part("args"), &args) && fits(&part("kwargs"), &kwargs)
    };
    match expected.filter(same) {
        Some(entry) => {
            tape.next += 1;
            // Fake functions set the return code as the real ones did.
            if let Some(code) = entry.get("retcode").and_then(Value::as_i64) {
                ctx.set_retcode(code);
            }
            match entry.get("raise") {
                Some(failure) => Err(error(failure)),
                None => Ok(entry.get("ret").cloned().unwrap_or_default()),
            }
        }
        None => {
            let wanted = Value::from(tape.calls.get(tape.next).cloned().map(Value::from));
            let text = format!("called {fun} {args:?} {kwargs:?}\n      not {wanted}");
            // The module may catch the error, so it is kept for the end.
            tape.wrong.push(text.clone());
            Err(Error::Other(text))
        }
    }
}

macro_rules! fakes {
    ($($name:literal)*) => {
        /// A fake of every function that the recordings call.
        static FAKES: &[(&str, fn(&Context, Bound) -> exec::Result<Value>)] =
            &[$(($name, |ctx, bound| play(ctx, $name, bound))),*];
    };
}

include!("replay_fakes.rs");

/// The modules of a case: fakes of what was recorded, and the real functions otherwise.
fn modules(own: &str) -> Vec<&'static Module> {
    let mut found: Vec<(&'static str, Vec<&'static Function>)> = Vec::new();
    for (name, call) in FAKES {
        let (module, name) = name.split_once('.').unwrap();
        let function: &'static Function = Box::leak(Box::new(Function {
            name,
            doc: "",
            params: &[],
            varargs: Some("args"),
            kwargs: Some("kwargs"),
            out: None,
            body: Body::Plain(*call),
        }));
        match found.iter_mut().find(|(known, _)| *known == module) {
            Some((_, functions)) => functions.push(function),
            None => found.push((module, vec![function])),
        }
    }
    let real = crate::ALL.iter().filter(|module| [own, "file", "config"].contains(&module.name)).copied();
    let real: Vec<&'static Module> = real.collect();
    let mut all = Vec::new();
    for (name, mut functions) in found {
        // A module of which some functions are faked keeps the others.
        for module in real.iter().filter(|module| module.name == name) {
            functions.extend(
                module
                    .functions
                    .iter()
                    .filter(|own| !functions.iter().any(|fake| fake.name == own.name))
                    .collect::<Vec<_>>(),
            );
        }
        all.push(&*Box::leak(Box::new(Module::new(name, "", Box::leak(functions.into_boxed_slice())))));
    }
    all.extend(real);
    all
}

/// The function that is tested, wherever its module works.
fn tested(fun: &str, grains: &Map) -> &'static Function {
    let (module, name) = fun.split_once('.').unwrap();
    let mut modules: Vec<_> = crate::ALL.iter().filter(|ours| ours.name == module).collect();
    if modules.len() > 1 {
        // Several modules have this name, and the grains of the case choose.
        modules.retain(|module| (module.virtual_)(grains).is_ok());
    }
    let found = modules.iter().find_map(|module| module.functions.iter().find(|function| function.name == name));
    found.unwrap_or_else(|| panic!("there is no {fun}"))
}

fn replaced(value: &Value, old: &str, new: &str) -> Value {
    match value {
        Value::Str(text) => text.replace(old, new).into(),
        Value::List(items) => items.iter().map(|item| replaced(item, old, new)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (replaced(key, old, new), replaced(value, old, new))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

fn files_below(folder: &Path, root: &Path, found: &mut Map) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, root, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns the files that changed. Those that are gone are None, as in the recording.
fn changed(root: &Path, before: &Map) -> Map {
    let mut now = Map::new();
    files_below(root, root, &mut now);
    let gone = before.keys().filter(|name| now.get_value(name).is_none()).map(|name| (name.clone(), Value::Null));
    let gone: Vec<_> = gone.collect();
    now.retain(|name, text| before.get_value(name) != Some(text));
    now.extend(gone);
    now
}

/// Returns the differences between a recording and our code, or None if there are none.
fn differences(recorded: &Map) -> Option<String> {
    let scratch = tempfile::tempdir().unwrap();
    // The recorded paths are without links.
    let root = scratch.path().canonicalize().unwrap();
    let case = replaced(&recorded.clone().into(), "{dir}", root.to_str().unwrap()).into_map().unwrap();
    let part = |name: &str| case.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
    let list = |name: &str| case.get(name).and_then(Value::as_list).unwrap_or_default().to_vec();
    let files = part("files");
    for (name, text) in &files {
        let path = root.join(name.to_string());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.to_string()).unwrap();
    }
    let mut grains = map! {
        "os" => "Debian", "os_family" => "Debian", "kernel" => "Linux", "osarch" => "amd64", "osmajorrelease" => 12,
        "init" => "systemd", "cpuarch" => "x86_64", "osfinger" => "Debian-12", "oscodename" => "bookworm",
        "osrelease" => "12", "virtual" => "physical",
    };
    grains.update(part("grains"));
    let fun = case.get_str("fun").unwrap();
    let function = tested(fun, &grains);
    let mut opts = map! { "test" => false };
    opts.update(part("opts"));
    opts.insert("__missing_programs", list("missing"));
    let own = fun.split('.').next().unwrap();
    let (ctx, _agent) = exec::testing::context(&modules(own), opts, grains, Map::new());
    let calls = list("calls").into_iter().filter_map(Value::into_map).collect();
    *ctx.memo.get::<Recorded>().lock().unwrap() = Tape { calls, ..Tape::default() };
    let call = Call { args: list("args"), kwargs: part("kwargs") };
    let ours = match exec::bind(function, call, &Map::new()) {
        Ok(bound) => function.call(&ctx, bound),
        Err(error) => Err(error),
    };
    let tape = ctx.memo.get::<Recorded>();
    let tape = tape.lock().unwrap();
    let mut wrong = tape.wrong.clone();
    wrong.extend(compare(&case, ours).filter(|_| tape.wrong.is_empty()));
    // Cases that end early never make their last calls.
    if wrong.is_empty() && tape.next < tape.calls.len() && case.get_str("ends").is_none() {
        wrong.push(format!("not called: {:?}", &tape.calls[tape.next..]));
    }
    let (before, after) = (recorded.get("files").and_then(Value::as_map).cloned().unwrap_or_default(), part("after"));
    let now = replaced(&changed(&root, &before).into(), root.to_str().unwrap(), "{dir}");
    let after = replaced(&after.into(), root.to_str().unwrap(), "{dir}");
    if wrong.is_empty() && now != after {
        wrong.push(format!("files {now:?}\n      Salt {after:?}"));
    }
    let asked = |name: &str| case.get(name).cloned().unwrap_or_default();
    (!wrong.is_empty())
        .then(|| format!("{fun} {} {}\n      {}", asked("args"), asked("kwargs"), wrong.join("\n      ")))
}

/// Returns the value as the recording has it: in JSON all keys are text.
fn with_keys_of_text(value: &Value) -> Value {
    match value {
        Value::List(items) => items.iter().map(with_keys_of_text).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (key.to_string(), with_keys_of_text(value))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

fn compare(case: &Map, ours: exec::Result<Value>) -> Option<String> {
    let Some(failure) = case.get("raises") else {
        let salt = case.get("result").cloned().unwrap_or_default();
        return match ours {
            Ok(ours) => (with_keys_of_text(&ours) != salt).then(|| format!("ours {ours:?}\n      Salt {salt:?}")),
            Err(error) => Some(format!("ours failed: {error}\n      Salt {salt:?}")),
        };
    };
    // Exceptions that are not Salt's own have Python's words, which no caller depends on.
    let unforeseen = failure.get("kind").and_then(Value::as_str) == Some("exception");
    match ours {
        Err(_) if unforeseen => None,
        Err(ours) => {
            let salt = error(failure);
            let same =
                ours.to_string() == salt.to_string() && std::mem::discriminant(&ours) == std::mem::discriminant(&salt);
            (!same).then(|| format!("ours failed: {ours:?}\n      Salt {salt:?}"))
        }
        Ok(ours) => Some(format!("ours {ours:?}\n      Salt failed: {failure}")),
    }
}

fn replay(file: &str, at_least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/calls").join(file);
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases.into_list().unwrap();
    assert!(cases.len() >= at_least, "{file} has {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(differences(case.as_map().unwrap()));
    }
    let count = wrong.len();
    wrong.truncate(20);
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
    acl_cases 80
    alternatives_cases 40
    apache_cases 200
    at_cases 50
    debconf_cases 20
    dig_cases 40
    disk_cases 50
    firewalld_cases 100
    iptables_cases 200
    keyboard_cases 40
    logrotate_cases 30
    mount_cases 100
    nftables_cases 500
    out_cases 80
    postgres_cases 300
    rabbitmq_cases 450
    selinux_cases 100
}
