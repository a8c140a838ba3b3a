//! Replays what Salt's own state functions were recorded to do (`testdata/record_calls.py`): ours must make the same calls
//! in the same order, with the same arguments, and come to the same result.

use std::sync::Mutex;

use exec::{Body, Bound, Context, Error, Function, Module, StateCall};
use value::{Map, Value, map};

/// The recorded calls of execution functions with their answers.
#[derive(Default)]
struct Tape {
    calls: Vec<Map>,
    pure: Vec<Map>,
    next: usize,
    wrong: Vec<String>,
}

type Recorded = Mutex<Tape>;

fn answer(entry: &Map) -> exec::Result<Value> {
    let Some(failure) = entry.get("raise") else { return Ok(entry.get("ret").cloned().unwrap_or_default()) };
    let text = failure.get("text").unwrap().to_string();
    Err(match (failure.get("kind").and_then(Value::as_str), failure.get("info").and_then(Value::as_map)) {
        (Some("invocation"), _) => Error::Invocation(text),
        (Some("notfound"), _) => Error::CommandNotFound(text),
        (_, Some(info)) => Error::detailed(text, info.clone()),
        _ => Error::Execution(text),
    })
}

fn same_call(entry: &Map, fun: &str, args: &Value, kwargs: &Value) -> bool {
    entry.get_str("fun") == Some(fun) && entry.get("args") == Some(args) && entry.get("kwargs") == Some(kwargs)
}

fn play(ctx: &Context, fun: &str, bound: Bound) -> exec::Result<Value> {
    let tape = ctx.memo.get::<Recorded>();
    let mut tape = tape.lock().unwrap();
    let (args, kwargs) = (Value::List(bound.varargs), Value::Map(bound.kwargs));
    if let Some(entry) = tape.pure.iter().find(|entry| same_call(entry, fun, &args, &kwargs)) {
        return answer(entry);
    }
    let expected = tape.calls.get(tape.next).cloned();
    match expected {
        Some(entry) if same_call(&entry, fun, &args, &kwargs) => {
            tape.next += 1;
            answer(&entry)
        }
        other => {
            let text = format!("called {fun} {args:?} {kwargs:?}\n      not {}", Value::from(other.map(Value::from)));
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

/// Modules with fakes of these functions alone.
fn modules(available: &[String]) -> Vec<&'static Module> {
    let mut found: Vec<(&'static str, Vec<&'static Function>)> = Vec::new();
    for name in available {
        let (name, call) = FAKES.iter().find(|(known, _)| known == name).unwrap_or_else(|| {
            panic!("{name} has no fake: add it to replay_fakes.rs");
        });
        let (module, function) = name.split_once('.').unwrap();
        let function: &'static Function = Box::leak(Box::new(Function {
            name: function,
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
    let leak = |(name, functions): (&'static str, Vec<&'static Function>)| -> &'static Module {
        Box::leak(Box::new(Module::new(name, "", Box::leak(functions.into_boxed_slice()))))
    };
    let mut all: Vec<&'static Module> = found.into_iter().map(leak).collect();
    all.push(&modules::pkg_resource::MODULE);
    all
}

fn grains(case: &Map) -> Map {
    let mut grains = map! {
        "os" => "Debian", "os_family" => "Debian", "kernel" => "Linux", "osarch" => "amd64", "osmajorrelease" => 12,
        "init" => "systemd", "cpuarch" => "x86_64", "osfinger" => "Debian-12", "oscodename" => "bookworm",
    };
    if let Some(more) = case.get("grains").and_then(Value::as_map) {
        grains.update(more.clone());
    }
    grains
}

/// Returns the differences between a recording and our code, or None if there are none.
fn differences(case: &Map) -> Option<String> {
    let list = |name: &str| case.get(name).and_then(Value::as_list).unwrap_or_default().to_vec();
    let maps = |name: &str| list(name).into_iter().filter_map(Value::into_map).collect::<Vec<_>>();
    let available: Vec<String> = list("available").iter().map(Value::to_string).collect();
    let mut opts = map! { "cachedir" => "/nonexistent" };
    opts.update(case.get("opts").unwrap().as_map().unwrap().clone());
    opts.insert("__booted_with_systemd", case.get("booted").cloned().unwrap_or(true.into()));
    let (mut ctx, agent) = exec::testing::with_states(&modules(&available), crate::ALL, opts, grains(case), Map::new());
    let low = map! { "__env__" => case.get("env").cloned().unwrap() };
    ctx.state = Some(std::sync::Arc::new(StateCall { low, ..StateCall::default() }));
    *ctx.memo.get::<Recorded>().lock().unwrap() = Tape { calls: maps("calls"), pure: maps("pure"), ..Tape::default() };
    let state = case.get_str("state").unwrap();
    let call = exec::Call { args: list("args"), kwargs: case.get("kwargs").unwrap().as_map().unwrap().clone() };
    let _ = &agent;
    let ours = ctx.call_state(state, call);
    let tape = ctx.memo.get::<Recorded>();
    let tape = tape.lock().unwrap();
    let mut wrong = tape.wrong.clone();
    if wrong.is_empty() {
        wrong.extend(compare(case, ours));
    }
    if wrong.is_empty() && tape.next < tape.calls.len() {
        wrong.push(format!("not called: {:?}", &tape.calls[tape.next..]));
    }
    (!wrong.is_empty()).then(|| {
        format!(
            "{state} {:?} {:?} {:?}\n      {}",
            case.get("args"),
            case.get("kwargs"),
            case.get("opts"),
            wrong.join("\n      ")
        )
    })
}

fn compare(case: &Map, ours: exec::Result<Value>) -> Option<String> {
    match (case.get("result"), ours) {
        (Some(salt), Ok(ours)) => (ours != *salt).then(|| format!("ours {ours:?}\n      Salt {salt:?}")),
        (Some(salt), Err(error)) => Some(format!("ours failed: {error}\n      Salt {salt:?}")),
        (None, Err(error)) => {
            let salt = case.get_str("raises").unwrap_or_default();
            (error.to_string() != salt).then(|| format!("ours failed: {error}\n      Salt {salt}"))
        }
        (None, Ok(ours)) => Some(format!("ours {ours:?}\n      Salt failed: {:?}", case.get("raises"))),
    }
}

fn replay(file: &str, at_least: usize) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/calls").join(file);
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = cases.into_list().unwrap();
    assert!(cases.len() >= at_least, "{file} has {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(differences(case.as_map().unwrap()));
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
    account_cases 150
    acl_cases 500
    alternatives_cases 40
    apache_cases 60
    at_cases 150
    debconf_cases 40
    disk_cases 150
    firewall_cases 10
    firewalld_cases 100
    host_cases 150
    iptables_cases 150
    logrotate_cases 300
    mount_cases 200
    nftables_cases 100
    pip_cases 90
    pkg_cases 400
    pkgrepo_cases 100
    postgres_cases 400
    rabbitmq_cases 400
    saltutil_cases 90
    selinux_cases 150
    service_cases 200
    sysfs_cases 150
    system_cases 400
    virtualenv_cases 40
}
