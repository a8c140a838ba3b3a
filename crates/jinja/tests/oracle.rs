//! Each hand-made template gives the text or the error, with its lines, that the real Jinja2 gave.

mod support;

use std::io::Read;

use serde_json::Value as Json;

/// Compares cases; prints those that differ and returns their number, and that of the known differences.
fn compare(cases: &[Json], context: &Json) -> (usize, usize) {
    let (mut different, mut known) = (0, 0);
    for case in cases {
        let ours = support::run(case, context);
        let theirs = &case["result"];
        if support::same(&ours, theirs) {
            continue;
        }
        if support::known_difference(case, &ours, theirs).is_some() {
            known += 1;
            continue;
        }
        different += 1;
        println!("{}\n  ours   {ours}\n  theirs {theirs}", case["source"].as_str().unwrap_or_default());
    }
    (different, known)
}

fn testdata(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

#[test]
fn hand_made_cases() {
    let text = std::fs::read_to_string(testdata("cases.json")).expect("the cases are there");
    let recorded: Json = serde_json::from_str(&text).expect("JSON");
    let cases = recorded["cases"].as_array().expect("a list of cases");
    // Guards against a truncated file, with which every test would pass.
    assert!(cases.len() >= 500, "only {} cases", cases.len());
    let (different, known) = compare(cases, &recorded["context"]);
    assert_eq!(different, 0, "of {} cases", cases.len());
    assert!(known <= 8, "{known} known differences");
}

/// Reads what `generate.py` wrote: another file than the committed one if `JINJA_GENERATED` names it.
#[test]
fn generated_cases() {
    let path = std::env::var_os("JINJA_GENERATED").map_or_else(|| testdata("generated.jsonl.gz"), Into::into);
    let bytes = std::fs::read(&path).expect("the cases are there");
    let mut text = String::new();
    if path.extension().is_some_and(|end| end == "gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
    } else {
        text = String::from_utf8(bytes).expect("UTF-8");
    }
    let mut lines = text.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let head = lines.next().expect("a first line");
    let cases: Vec<Json> = lines
        .map(|mut case| {
            case["templates"] = head["templates"].clone();
            case
        })
        .collect();
    assert!(cases.len() >= 3_000, "only {} cases", cases.len());
    let (different, known) = compare(&cases, &head["context"]);
    println!("{} cases, {known} known differences", cases.len());
    assert_eq!(different, 0, "of {} cases", cases.len());
    // The list of known differences must not become the place where new bugs hide.
    assert!(known * 20 <= cases.len(), "{known} known differences");
}
