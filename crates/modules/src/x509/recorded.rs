//! Compares with the module of the real Salt (`testdata/record_x509.py`): ours makes the same bytes of the same keys
//! and arguments, reads the same in all files, and fails with the same words.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use exec::{Call, Context, Error};
use value::{Map, Value, map};

// Paths in the recording begin with this in place of Salt's temporary directory.
const ROOT: &str = "/@root@";

/// Differences on purpose, by the function and a word of its arguments.
const DIFFERENT: &[(&str, &str)] = &[
    // Salt complains about an argument its own helper lacks.
    ("sign_remote_certificate", "['www', {'CN': 'x'}]"),
];

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

/// Bytes in the form the recording has.
fn plain(value: Value) -> Value {
    match value {
        // Python's bytes are not JSON. The script that recorded them chose between these two forms in the same way.
        Value::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) if text.is_ascii() => map! { "bytes" => text }.into(),
            _ => map! { "base64" => BASE64_STANDARD.encode(&**bytes) }.into(),
        },
        Value::List(items) => items.into_iter().map(plain).collect(),
        Value::Map(map) => map.into_iter().map(|(key, value)| (key, plain(value))).collect::<Map>().into(),
        other => other,
    }
}

fn difference(ctx: &Context, case: &Map, root: &str) -> Option<String> {
    let case = located(&case.clone().into(), ROOT, root).into_map()?;
    let fun = format!("x509.{}", case.get_str("fun")?);
    let args = case.get("args").and_then(Value::as_list)?.to_vec();
    let kwargs = case.get("kwargs").and_then(Value::as_map)?.clone();
    let title = format!("{fun} {} {}", Value::from(args.clone()), Value::from(kwargs.clone()));
    if DIFFERENT.iter().any(|(of, word)| fun.ends_with(of) && title.contains(word)) {
        return None;
    }
    let ours = ctx.call_with(&fun, Call { args, kwargs });
    let wrong = match (case.get("raises").and_then(Value::as_list), ours) {
        (None, Ok(ours)) => {
            let (ours, salt) = (plain(ours), case.get("result").cloned().unwrap_or_default());
            (ours != salt).then(|| format!("ours {ours}\n  Salt {salt}"))
        }
        (Some([kind, salt]), Err(error)) => {
            // Errors that Salt does not catch have Python's words.
            let told = matches!(error, Error::Execution(_) | Error::Invocation(_));
            let planned = kind.as_str().is_some_and(|kind| kind.starts_with("Salt") || kind.starts_with("Command"));
            (told && planned && error.to_string() != salt.to_string())
                .then(|| format!("ours failed: {error}\n  Salt failed: {salt}"))
        }
        (None, Err(error)) => Some(format!("ours failed: {error}\n  Salt {}", case.get("result")?)),
        (Some(salt), Ok(ours)) => Some(format!("ours {ours}\n  Salt failed: {}", Value::from(salt.to_vec()))),
        (Some(_), Err(_)) => Some("the recording is broken".into()),
    };
    wrong.map(|wrong| format!("{title}\n  {wrong}"))
}

fn write_files(folder: &Path, files: &Map) {
    for (name, content) in files {
        let content = BASE64_STANDARD.decode(content.to_string()).unwrap();
        std::fs::write(folder.join(name.to_string()), content).unwrap();
    }
}

#[test]
fn all_is_made_and_read_as_salt_does() {
    let recording: Value = serde_json::from_str(include_str!("../../testdata/x509.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    write_files(folder.path(), recording.get("files").and_then(Value::as_map).unwrap());
    let opts = located(recording.get("opts").unwrap(), ROOT, root).into_map().unwrap();
    let modules = [&super::MODULE, &crate::pillar::MODULE, &crate::config::MODULE, &crate::match_::MODULE];
    let (ctx, _agent) = exec::testing::context(&modules, opts, Map::new(), Map::new());
    let cases = recording.get("cases").and_then(Value::as_list).unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        wrong.extend(difference(&ctx, case.as_map().unwrap(), root));
    }
    // A recording that was cut short must not pass for success.
    assert!(cases.len() > 400, "only {} cases were recorded", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
