//! Files and results of Salt's own modules (`testdata/record_debian_ip.py`, `testdata/record_rh_ip.py`): ours write the same
//! bytes.

use std::path::Path;
use std::sync::Mutex;

use exec::{Call, Context, Module, Result, function};
use value::{Map, Value, map};

#[function]
fn install(name: String) -> Result<Map> {
    let _ = name;
    Ok(Map::new())
}

#[function]
fn version(name: String) -> Result<String> {
    let _ = name;
    Ok(String::new())
}

#[function]
fn load(name: String) -> Result<Vec<String>> {
    Ok(vec![name])
}

type RecordedCalls = Mutex<Vec<Value>>;

#[function]
fn persist(ctx: &Context, name: String, value: i64) -> Result<String> {
    ctx.memo.get::<RecordedCalls>().lock().unwrap().push(Value::List(vec![name.into(), value.into()]));
    Ok("Updated".into())
}

#[function]
fn interfaces() -> Result<Map> {
    Ok(map! { "eth0" => map! { "up" => true, "hwaddr" => "aa:bb:cc:dd:ee:ff" }, "eth5" => map! { "up" => false } })
}

static PKG: Module = Module::new("pkg", "Installs nothing.", &[&INSTALL, &VERSION]);
static KMOD: Module = Module::new("kmod", "Loads nothing.", &[&LOAD]);
static SYSCTL: Module = Module::new("sysctl", "Notes.", &[&PERSIST]);
static NETWORK: Module = Module::new("network", "Two interfaces.", &[&INTERFACES]);

fn write_files(root: &str, files: &Map) {
    for (path, text) in files {
        let path = format!("{root}{path}");
        std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        super::util::replace_file(Path::new(&path), text.to_string().as_bytes(), 0o644).unwrap();
    }
}

/// All files below a directory, with their modes.
fn read_files(root: &Path, folder: &Path, found: &mut Map) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_files(root, &path, found);
        } else if path.file_name().unwrap() != ".keep" {
            let mode = format!("0o{:o}", path.metadata().unwrap().permissions().mode() & 0o777);
            let text = std::fs::read_to_string(&path).unwrap();
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            found.insert(name, [text, mode].into_iter().collect::<Value>());
        }
    }
}

fn difference(module: &'static Module, case: &Map) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let part = |name: &str| case.get(name).and_then(Value::as_map).cloned().unwrap_or_default();
    write_files(root, &part("files"));
    let modules = [module, &PKG, &KMOD, &SYSCTL, &NETWORK];
    let (ctx, _agent) = exec::testing::context(&modules, map! { "__root" => root }, part("grains"), Map::new());
    let args = case.get("args").and_then(Value::as_list).unwrap_or_default().to_vec();
    let (fun, kwargs) = (format!("ip.{}", case.get_str("fun")?), part("kwargs"));
    let (shown, files) = (Value::from(args.clone()), Value::from(part("files")));
    let title = format!("{fun} {shown} {} {files}", Value::from(kwargs.clone()));
    let ours = ctx.call_with(&fun, Call { args, kwargs });
    let wrong = match (case.get("raises").and_then(Value::as_list), ours) {
        (None, Ok(ours)) => {
            let salt = case.get("result").cloned().unwrap_or_default();
            (ours != salt).then(|| format!("ours {ours}\n  Salt {salt}"))
        }
        (Some([_, salt]), Err(error)) => {
            let (ours, salt) = (error.to_string().replace(root, ""), salt.to_string());
            // Missing calls are reported, too.
            (!ours.starts_with(&salt)).then(|| format!("ours failed: {ours}\n  Salt failed: {salt}"))
        }
        (None, Err(error)) => Some(format!("ours failed: {error}\n  Salt {}", case.get("result")?)),
        (Some(salt), Ok(ours)) => Some(format!("ours {ours}\n  Salt failed: {}", Value::from(salt.to_vec()))),
        (Some(_), Err(_)) => Some("the recording is broken".into()),
    };
    let mut found = Map::new();
    read_files(folder.path(), folder.path(), &mut found);
    let other = (found != part("after"))
        .then(|| format!("files {}\n  Salt  {}", Value::from(found), Value::from(part("after"))));
    let asked = Value::List(std::mem::take(&mut *ctx.memo.get::<RecordedCalls>().lock().unwrap()));
    let unasked = case.get("asked").filter(|salt| **salt != asked).map(|salt| format!("asked {asked}\n  Salt {salt}"));
    wrong.or(other).or(unasked).map(|wrong| format!("{title}\n  {wrong}"))
}

/// Runs all cases, except those that differ on purpose: the function, and a word of the case.
fn compare(module: &'static Module, recording: &str, different: &[(&str, &str)]) {
    let recording: Value = serde_json::from_str(recording).unwrap();
    let cases = recording.as_list().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let told = difference(module, case.as_map().unwrap());
        let known = |text: &String| different.iter().any(|(of, word)| text.starts_with(of) && text.contains(word));
        wrong.extend(told.filter(|text| !known(text)));
    }
    assert!(cases.len() > 150, "only {} cases were recorded", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn files_of_debian_are_salts() {
    // Where a directory is missing, ours names the file, too.
    let different = [("ip.build_interface", "/no/such/file")];
    compare(&super::debian::MODULE, include_str!("../../testdata/debian_ip.json"), &different);
}

#[test]
fn files_of_red_hat_are_salts() {
    compare(&super::redhat::MODULE, include_str!("../../testdata/rh_ip.json"), &[]);
}
