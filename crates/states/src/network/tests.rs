//! The states as the real Salt was recorded with its own modules `ip` (`testdata/record_network.py`).

use std::sync::Mutex;

use exec::{Call, Context, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use super::MODULE;
use crate::support::items;

type RecordedCalls = Mutex<Vec<Value>>;

/// Notes what the machine was asked to do.
fn note(ctx: &Context, words: impl IntoIterator<Item = Value>) {
    ctx.memo.get::<RecordedCalls>().lock().unwrap().push(words.into_iter().collect());
}

#[function]
fn run(ctx: &Context, args: VarArgs, kwargs: KwArgs) -> Result<String> {
    let _ = kwargs;
    note(ctx, [Value::from("cmd.run")].into_iter().chain(items(&args.0[0])));
    Ok(String::new())
}

#[function]
fn install(name: String) -> Result<Map> {
    Ok(map! { name => Value::Null })
}

#[function]
fn load(name: String) -> Result<Vec<String>> {
    Ok(vec![name])
}

#[function]
fn start(ctx: &Context, name: String) -> Result<bool> {
    note(ctx, ["service.start".into(), name.into()]);
    Ok(true)
}

#[function]
fn restart(ctx: &Context, name: String) -> Result<bool> {
    note(ctx, ["service.restart".into(), name.into()]);
    Ok(true)
}

#[function]
fn stop(ctx: &Context, name: String) -> Result<bool> {
    note(ctx, ["service.stop".into(), name.into()]);
    Ok(true)
}

#[function]
fn refresh_grains(ctx: &Context) -> Result<bool> {
    note(ctx, ["saltutil.refresh_grains".into()]);
    Ok(true)
}

#[function]
fn interfaces(ctx: &Context) -> Result<Value> {
    Ok(ctx.opts.get("__interfaces").cloned().unwrap_or_default())
}

static CMD: Module = Module::new("cmd", "Notes.", &[&RUN]);
static PKG: Module = Module::new("pkg", "Installs nothing.", &[&INSTALL]);
static KMOD: Module = Module::new("kmod", "Loads nothing.", &[&LOAD]);
static SERVICE: Module = Module::new("service", "Notes.", &[&RESTART, &START, &STOP]);
static SALTUTIL: Module = Module::new("saltutil", "Notes.", &[&REFRESH_GRAINS]);
static NETWORK: Module = Module::new("network", "Interfaces as a test has them.", &[&INTERFACES]);

/// A machine's files, below a directory.
fn machine(case: &Map) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for folder in case.get("folders").map(items).unwrap() {
        std::fs::create_dir_all(root.path().join("etc").join(folder.to_string())).unwrap();
    }
    for (name, text) in case.get("files").and_then(Value::as_map).unwrap() {
        std::fs::write(root.path().join("etc").join(name.to_string()), text.to_string()).unwrap();
    }
    root
}

fn differences(case: &Map) -> Vec<String> {
    let root = machine(case);
    let grains = case.get("grains").and_then(Value::as_map).unwrap();
    let ip = match case.get_str("family") {
        Some("RedHat") => &modules::ip::redhat::MODULE,
        _ => &modules::ip::debian::MODULE,
    };
    let modules = [ip, &CMD, &PKG, &KMOD, &SERVICE, &SALTUTIL, &NETWORK];
    let mut wrong = Vec::new();
    for step in case.get("steps").and_then(Value::as_list).unwrap() {
        let part = |name: &str| step.get(name).cloned().unwrap_or_default();
        let opts = map! {
            "__root" => root.path().to_str().unwrap(), "test" => part("test"),
            "__interfaces" => case.get("interfaces").cloned().unwrap(),
        };
        let (ctx, _agent) = exec::testing::with_states(&modules, &[&MODULE], opts, grains.clone(), Map::new());
        let run = Call { args: vec![part("name")], kwargs: part("kwargs").into_map().unwrap() };
        let ours = ctx.call_state(&format!("network.{}", part("fun")), run).unwrap();
        let asked = Value::List(std::mem::take(&mut *ctx.memo.get::<RecordedCalls>().lock().unwrap()));
        if ours != part("salt") || asked != part("asked") {
            wrong.push(format!("{step}\n  ours {ours} asked {asked}"));
        }
    }
    wrong
}

/// Recorded from the real Salt over its own module (`testdata/record_network.py`).
#[test]
fn all_comes_to_what_salt_comes_to() {
    let recording: Value = serde_json::from_str(include_str!("../../testdata/network.json")).unwrap();
    let cases = recording.as_list().unwrap();
    // An empty recording would make the test pass without checking anything.
    assert!(cases.len() > 25, "only {} cases were recorded", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        wrong.extend(differences(case.as_map().unwrap()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
