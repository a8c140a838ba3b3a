//! Compares the returns of the real Salt 3008.5 with ours: `testdata/NAME.json`, recorded by `testdata/record.py`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use exec::testing::with_states;
use exec::{Call, Context, Error, Module, StateCall};
use value::{Map, Value, map};

/// Set in the process that replays: its home directory is a scratch one.
const INSIDE: &str = "SALTERN_REPLAY";

/// Replays a file in a separate process, since the home directory of a process cannot be changed safely.
fn replay_apart(test: &str, file: &str) {
    if std::env::var_os(INSIDE).is_some() {
        return replay(file);
    }
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .env("RUST_BACKTRACE", "0")
        .env("HOME", home.path())
        // As where the cases were recorded: the shell that commands are run by when none is named, and how texts are quoted.
        .env("SHELL", "/bin/bash")
        .env("LC_ALL", "C.UTF-8")
        .envs(git_environment())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn git_environment() -> Vec<(&'static str, &'static str)> {
    vec![
        ("GIT_AUTHOR_NAME", "Ann"),
        ("GIT_AUTHOR_EMAIL", "ann@example.org"),
        ("GIT_COMMITTER_NAME", "Ann"),
        ("GIT_COMMITTER_EMAIL", "ann@example.org"),
        ("GIT_AUTHOR_DATE", "2024-05-01T10:00:00Z"),
        ("GIT_COMMITTER_DATE", "2024-05-01T10:00:00Z"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]
}

fn replay(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file).with_extension("json");
    let cases: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_list().unwrap() {
        replay_case(case, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} steps differ\n{}", wrong.len(), wrong.join("\n"));
}

fn replay_case(case: &Value, wrong: &mut Vec<String>) {
    let scratch = tempfile::Builder::new().prefix("saltern-case-").tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap().join("d");
    std::fs::create_dir(&root).unwrap();
    let dir = root.to_str().unwrap().to_owned();
    if let Some(commands) = case.get("setup").and_then(Value::as_str) {
        shell(commands, &dir);
    }
    let ctx = context(case, &dir);
    let fakes = fill(case.get("fakes"), &dir);
    *ctx.memo.get::<Fakes>().answers.lock().unwrap() = fakes.into_map().unwrap_or_default();
    for step in case.get("steps").unwrap().as_list().unwrap() {
        if let Some(commands) = step.get("do").and_then(Value::as_str) {
            shell(commands, &dir);
        }
        let outcome = call(&ctx, step, &dir);
        let masks = masks(step);
        let mut ours = neutral(&answer(outcome), &dir, &masks);
        let asked = std::mem::take(&mut *ctx.memo.get::<Fakes>().asked.lock().unwrap());
        if case.get("fakes").is_some() {
            ours.as_map_mut().unwrap().insert("asked", neutral(&asked.into(), &dir, &masks));
        }
        if let Some(commands) = step.get("show").and_then(Value::as_str) {
            let shown = Value::from(shell(commands, &dir));
            ours.as_map_mut().unwrap().insert("shown", neutral(&shown, &dir, &masks));
        }
        let salts = expected(step);
        if !same(&ours, &salts) {
            let name = case.get("case").unwrap();
            let json = |value: &Value| serde_json::to_string(value).unwrap();
            let arguments = json(step.get("args").unwrap_or(&Value::Null));
            let fun = step.get("call").or(step.get("exec")).unwrap();
            let test = step.get("test").unwrap();
            wrong.push(format!(
                "== {name}: {fun} {arguments} test={test}\n  ours {}\n  Salt {}",
                json(&ours),
                json(&salts)
            ));
        }
    }
}

fn context(case: &Value, dir: &str) -> Context {
    let mut opts = map! {
        "id" => "recorder", "file_client" => "local", "cachedir" => format!("{dir}.cache"), "root_dir" => dir,
        "conf_file" => format!("{dir}/minion"), "file_roots" => map! { "base" => value::list![format!("{dir}/roots")] },
        "hash_type" => "sha256", "enable_fqdns_grains" => false, "enable_gpu_grains" => false,
    };
    let part = |name: &str| fill(case.get(name), dir).into_map().unwrap_or_default();
    opts.update(part("opts"));
    let mut grains = grains::collect(&opts);
    grains.update(part("grains"));
    let fakes: &[&'static Module] = if case.get("fakes").is_some() { fakes::ALL } else { &[] };
    let functions: Vec<&'static Module> = fakes.iter().chain(modules::ALL).copied().collect();
    with_states(&functions, saltern_states::ALL, opts, grains, part("pillar")).0
}

fn call(ctx: &Context, step: &Value, dir: &str) -> exec::Result<Value> {
    let mut ctx = ctx.clone();
    let mut opts = (*ctx.opts).clone();
    opts.insert("test", step.get("test").cloned().unwrap_or_default());
    ctx.opts = Arc::new(opts);
    let low = fill(step.get("low"), dir).into_map().unwrap_or_default();
    let running = fill(step.get("running"), dir).into_map().unwrap_or_default();
    let with_changes = running.iter().filter(|(_, ret)| ret.get("changes").is_some_and(Value::truthy));
    let changed = with_changes.map(|(tag, _)| tag.to_string()).collect();
    ctx.state = Some(Arc::new(StateCall {
        chunks: Arc::new(vec![Arc::new(low.clone())]),
        low,
        changed: Arc::new(std::sync::Mutex::new(changed)),
    }));
    let kwargs = fill(step.get("args"), dir).into_map().unwrap_or_default();
    let args = fill(step.get("pos"), dir).into_list().unwrap_or_default();
    let call = Call { args, kwargs };
    match step.get("exec").and_then(Value::as_str) {
        Some(fun) => ctx.call_with(fun, call),
        None => ctx.call_state(step.get("call").unwrap().as_str().unwrap(), call),
    }
}

fn answer(outcome: exec::Result<Value>) -> Value {
    let (kind, text) = match outcome {
        Ok(result) => return map! { "result" => result }.into(),
        Err(Error::Execution(text)) => ("CommandExecutionError", text),
        Err(Error::Invocation(text)) => ("SaltInvocationError", text),
        Err(Error::CommandNotFound(text)) => ("CommandNotFoundError", text),
        Err(other) => ("Exception", other.to_string()),
    };
    map! { "exception" => kind, "text" => text }.into()
}

/// The result of Salt, or ours where it differs on purpose.
fn expected(step: &Value) -> Value {
    let mut map = step.get("ours").unwrap_or(step).as_map().unwrap().clone();
    map.retain(|key, _| ["result", "exception", "text", "shown"].contains(&key.as_str().unwrap()));
    for key in ["shown", "asked"] {
        if let Some(value) = step.get(key) {
            map.insert(key, value.clone());
        }
    }
    map.into()
}

/// Exceptions that are not Salt's own have Python's words, which no caller depends on.
fn same(ours: &Value, salts: &Value) -> bool {
    let named = ["CommandExecutionError", "SaltInvocationError", "CommandNotFoundError"];
    match salts.get("exception").and_then(Value::as_str) {
        Some(kind) if !named.contains(&kind) => ours.get("exception").is_some(),
        _ => value::python::equal(ours, salts),
    }
}

fn fill(value: Option<&Value>, dir: &str) -> Value {
    replaced(value.unwrap_or(&Value::Null), &|text| text.replace("{dir}", dir))
}

fn masks(step: &Value) -> Vec<regex::Regex> {
    let list = step.get("mask").and_then(Value::as_list).unwrap_or_default();
    list.iter().map(|mask| regex::Regex::new(mask.as_str().unwrap()).unwrap()).collect()
}

fn neutral(value: &Value, dir: &str, masks: &[regex::Regex]) -> Value {
    let plain = |text: &str| {
        let text = text.replace(dir, "{dir}");
        masks.iter().fold(text, |text, mask| mask.replace_all(&text, "…").into_owned())
    };
    numbers_gone(replaced(value, &plain))
}

/// Numbers that differ from run to run become 0, and keys become text as in JSON.
fn numbers_gone(value: Value) -> Value {
    match value {
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| {
                let volatile =
                    ["pid", "inode", "atime", "mtime", "ctime"].iter().any(|name| key.as_str() == Some(name));
                let number = matches!(value, Value::Int(_) | Value::Float(_));
                let value = if volatile && number { Value::Int(0) } else { numbers_gone(value.clone()) };
                (key.to_string(), value)
            });
            entries.collect::<Map>().into()
        }
        Value::List(items) => items.into_iter().map(numbers_gone).collect(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        other => other,
    }
}

fn replaced(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::Str(text) => change(text).into(),
        Value::List(items) => items.iter().map(|item| replaced(item, change)).collect(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| (replaced(key, change), replaced(value, change))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

/// The output of shell commands, errors among it.
fn shell(commands: &str, dir: &str) -> String {
    let home = Path::new(dir).with_file_name("home");
    std::fs::create_dir_all(&home).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-ec", &format!("exec 2>&1\n{commands}")])
        .current_dir(dir)
        .envs(git_environment())
        .env("dir", dir)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The answers of mocked functions, and their calls.
#[derive(Default)]
struct Fakes {
    answers: std::sync::Mutex<Map>,
    asked: std::sync::Mutex<Vec<Value>>,
}

/// Functions with the answers of the case; they hide the real modules.
mod fakes {
    use exec::{Body, Context, Error, Function, KwArgs, Module, Result, VarArgs};
    use value::{Value, map};

    fn answer(ctx: &Context, fun: &str, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
        let fakes = ctx.memo.get::<super::Fakes>();
        let asked = map! { "fun" => fun, "args" => args.0, "kwargs" => kwargs.given() };
        fakes.asked.lock().unwrap().push(asked.into());
        let answer = fakes.answers.lock().unwrap().get(fun).cloned().unwrap_or_default();
        match answer.get("raises") {
            Some(text) => Err(Error::execution(text.to_string())),
            None => Ok(answer),
        }
    }

    macro_rules! fakes {
        ($($module:ident { $($fun:ident),+ })+) => {
            $(mod $module {
                use super::*;
                pub static MODULE: Module = Module::new(stringify!($module), "", &[$(&$fun::CALL),+]);
                $(mod $fun {
                    use super::*;
                    pub static CALL: Function = Function {
                        name: stringify!($fun),
                        doc: "",
                        params: &[],
                        varargs: Some("args"),
                        kwargs: Some("kwargs"),
                        out: None,
                        body: Body::Plain(|ctx, mut bound| {
                            let (args, kwargs) = (bound.take_varargs(), bound.take_kwargs());
                            let fun = concat!(stringify!($module), ".", stringify!($fun));
                            answer(ctx, fun, args, kwargs)
                        }),
                    };
                })+
            })+
            pub static ALL: &[&Module] = &[$(&$module::MODULE),+];
        };
    }

    fakes! {
        saltutil { cmd, runner, wheel }
        schedule { list, build_schedule_item, modify, add, delete, enable_job, disable_job }
        beacons { list, modify, add, delete, enable_beacon, disable_beacon, save }
    }
}

macro_rules! replays {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            replay_apart(stringify!($name), stringify!($name));
        }
    )+};
}

replays!(
    alias, archive, cmd, environ, event, extracted, git, grains, http, ini, loops, module, saltmod, schedule, status,
    test
);
