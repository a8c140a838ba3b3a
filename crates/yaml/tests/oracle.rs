//! Our YAML against what the real Salt made of the same texts and values (`testdata/make_fixtures.py`).

use saltern_yaml::args::{condition_input, parse_cli_arg, parse_input, parse_kwarg};
use saltern_yaml::{Flow, Style, UNNAMED, dump_with, load};
use serde_json::Value as Json;
use value::python::repr;
use value::{BigInt, Bytes, Map, Value};

fn rows(text: &str) -> Vec<Json> {
    let rows: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect("a row of JSON")).collect();
    // An empty fixture would make every test below pass.
    assert!(rows.len() > 100, "the fixture is nearly empty");
    rows
}

fn text<'a>(row: &'a Json, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} in {row}"))
}

/// Fails with the first differences of a whole table.
fn report(what: &str, total: usize, different: Vec<String>) {
    let shown = different.iter().take(25).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(different.is_empty(), "{} of {total} {what} differ:\n{shown}", different.len());
}

/// Ours may add the line to what Salt says, which for characters YAML forbids has only an offset.
fn says_the_same(row: &Json, ours: &str) -> bool {
    let Some(salt) = row["error"].as_str() else { return false };
    let more = ours.strip_prefix(salt);
    more.is_some_and(|more| more.is_empty() || (more.starts_with("\n  in ") && more.contains(", line ")))
}

#[test]
fn texts_give_the_values_and_errors_of_salt() {
    let rows = rows(include_str!("../testdata/load.jsonl"));
    let mut different = Vec::new();
    for row in &rows {
        let source = text(row, "in");
        let ours = load(source, UNNAMED);
        let same = match &ours {
            // A Python set has no order.
            Ok(Value::List(items)) if row["set"].is_array() => {
                let mut items: Vec<String> = items.iter().map(repr).collect();
                items.sort();
                row["set"] == Json::from(items)
            }
            Ok(value) => row["value"] == repr(value).as_str(),
            Err(error) if row["recursive"] == true => error.problem == "found unconstructable recursive node",
            Err(error) => says_the_same(row, &error.to_string()) || row["python"] == error.problem.as_str(),
        };
        if !same {
            let ours = ours.map(|value| repr(&value)).unwrap_or_else(|error| error.to_string());
            different.push(format!("{source:?}\n  salt {row}\n  ours {ours}"));
        }
    }
    report("texts", rows.len(), different);
}

#[test]
fn parsed_values_round_trip() {
    let mut values = 0;
    for row in rows(include_str!("../testdata/load.jsonl")) {
        let Ok(value) = load(text(&row, "in"), UNNAMED) else { continue };
        for flow in [Flow::Block, Flow::Leaves, Flow::All] {
            let written = dump_with(&value, Style { sort_keys: false, ..Style::from(flow) }).expect("written");
            assert_eq!(load(&written, UNNAMED).as_ref(), Ok(&value), "{written:?}");
        }
        values += 1;
    }
    assert!(values > 1000, "few texts can be read");
}

fn decode(json: &Json) -> Value {
    let content = &json[1];
    let word = || content.as_str().expect("text");
    match json[0].as_str().expect("a type letter") {
        "n" => Value::Null,
        "t" => Value::from(content.as_bool()),
        "i" => Value::from(word().parse::<BigInt>().expect("an integer")),
        "f" => Value::from(word().parse::<f64>().expect("a float")),
        "s" => Value::from(word()),
        "b" => {
            let digits = word();
            let byte = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).expect("hex");
            Value::bytes(Bytes::from((0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>()))
        }
        "l" => content.as_array().expect("a list").iter().map(decode).collect(),
        _ => {
            let entries = content.as_array().expect("a list").iter();
            Value::from(entries.map(|pair| (decode(&pair[0]), decode(&pair[1]))).collect::<Map>())
        }
    }
}

#[test]
fn values_are_written_as_salt_writes_them() {
    let rows = rows(include_str!("../testdata/dump.jsonl"));
    let mut different = Vec::new();
    for row in &rows {
        let value = decode(&row["value"]);
        let flow = match text(row, "flow") {
            "block" => Flow::Block,
            "all" => Flow::All,
            _ => Flow::Leaves,
        };
        let style = Style { sort_keys: row["sort"] == true, ..Style::from(flow) };
        let ours = dump_with(&value, style).expect("a value that can be written");
        if ours != text(row, "out") {
            different.push(format!("{value:?}\n  salt {}\n  ours {ours:?}", row["out"]));
        }
    }
    report("values", rows.len(), different);
}

#[test]
fn written_values_read_back() {
    for row in rows(include_str!("../testdata/dump.jsonl")) {
        let value = decode(&row["value"]);
        let written = dump_with(&value, Style { sort_keys: false, ..Style::default() }).expect("written");
        // Keys that Python takes for equal, and line breaks a plain style folds, are the exceptions.
        if let Ok(read) = load(&written, UNNAMED) {
            assert_eq!(read, value, "{written}");
        }
    }
}

#[test]
fn arguments_are_read_as_salt_reads_them() {
    let rows = rows(include_str!("../testdata/args.jsonl"));
    let mut different = Vec::new();
    for row in &rows {
        let arg = text(row, "in");
        let pair = parse_kwarg(arg);
        let (positional, named) = parse_input([arg], &[]);
        let ours = [
            repr(&parse_cli_arg(arg)),
            pair.map(|(name, _)| name.to_owned()).unwrap_or_default(),
            pair.map(|(_, text)| text.to_owned()).unwrap_or_default(),
            repr(&Value::List(condition_input(positional, named))),
        ];
        let theirs = ["value", "name", "text", "list"].map(|key| row[key].as_str().unwrap_or_default());
        if ours != theirs {
            different.push(format!("{arg:?}\n  salt {theirs:?}\n  ours {ours:?}"));
        }
    }
    report("arguments", rows.len(), different);
}

#[test]
fn hostile_texts_are_refused_quickly() {
    // The parser takes quadratic time in the depth of flow maps.
    let deep = "{a: ".repeat(2000);
    assert!(load(&deep, UNNAMED).unwrap_err().to_string().contains("nested deeper than 256 levels"));
    // Ten references per level: twelve levels stand for 10^12 values.
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        laughs.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert!(load(&laughs, UNNAMED).unwrap_err().to_string().contains("grows too large"));
    // One long text, many times: as a value, and as a key of maps that are merged.
    let text = "x".repeat(300_000);
    let many = |item: &str| vec![item; 300].join(", ");
    for long in [
        format!("a: &a {text}\nb: [{}]", many("*a")),
        format!("a: &a [{text}]\nb: [{}]", many("*a")),
        format!("a: &a {{? {text} : 1}}\nb: [{}]", many("{<<: *a}")),
        format!("a: &a !!set {{? {text} }}\nb: [{}]", many("*a")),
    ] {
        let refused = load(&long, UNNAMED).map(drop).unwrap_err().to_string();
        assert!(refused.contains("grows too large"), "{}: {refused}", &long[..20]);
    }
    // A long document without aliases, and one with some.
    let plain = format!("[{}]", many(&format!("{{a: {}, b: 1}}", &text[..3_000])));
    assert!(load(&plain, UNNAMED).is_ok() && load(&format!("a: &a {text}\nb: [*a, *a, *a, *a]"), UNNAMED).is_ok());
    // As a key, the whole structure would be printed in the message.
    let as_key = laughs.replace("a11: &a11 [", "? [");
    let message = load(&as_key, UNNAMED).unwrap_err().to_string();
    assert!(message.contains("found unacceptable key") && message.len() < 10_000, "{}", message.len());
    assert_eq!(load("a: \u{0}", UNNAMED).unwrap_err().kind, saltern_yaml::Kind::Reader);
}

/// Damaged texts of all kinds, from a small generator of numbers: none may panic, whatever becomes of them.
#[test]
fn damaged_texts_never_panic() {
    let texts: Vec<String> =
        rows(include_str!("../testdata/load.jsonl")).iter().map(|row| text(row, "in").to_owned()).collect();
    let pieces = [
        "&a ", "*a", "<<: ", "- ", ": ", "!!set ", "!!omap ", "{", "}", "[", "]", "\u{0}", "? ", "|\n", "\t", "0x",
        "=: ",
    ];
    // A fixed seed (xorshift), so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut read = 0;
    for _ in 0..20_000 {
        let (one, two) = (&texts[next(texts.len())], &texts[next(texts.len())]);
        let mut mixed: Vec<char> = one.chars().take(next(60)).collect();
        mixed.extend(pieces[next(pieces.len())].chars());
        mixed.extend(two.chars().skip(next(10)));
        let mixed: String = mixed.into_iter().collect();
        match load(&mixed, UNNAMED) {
            Ok(value) => {
                read += 1;
                dump_with(&value, Style::default()).expect("what was read can be written");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    // If the mixture gets so wild that nothing parses, the test no longer reaches the constructor.
    assert!(read > 1000, "only {read} texts could be read");
}

#[test]
fn lines_of_entries_are_recorded() {
    let marked = saltern_yaml::load_with_marks("# x\na: 1\nb:\n  c:\n    d: 1\n  e: 2\n", UNNAMED).unwrap();
    assert_eq!(marked.line(&["a"]), Some(2));
    assert_eq!(marked.line(&["b", "c", "d"]), Some(5));
    assert_eq!(marked.line(&["b", "e"]), Some(6));
    assert_eq!(marked.line(&["c"]), None);
}
