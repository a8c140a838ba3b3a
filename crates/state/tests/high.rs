//! High data in, chunks or errors out: the answers of the real Salt (`testdata/record_high.py`).

use std::collections::HashSet;

use saltern_state::low::{Settings, compile, compile_high_data};
use saltern_state::{StateFunctions, high};
use value::{Map, Value};

struct Functions(HashSet<String>);

impl StateFunctions for Functions {
    fn has(&self, fun: &str) -> bool {
        self.0.contains(fun)
    }
}

fn texts(errors: Vec<String>) -> Value {
    errors.into_iter().collect()
}

/// Takes the steps of a run one by one and returns where they end, as the recorder does.
fn answer(case: &Value, known: &Functions) -> Value {
    let empty = Map::new();
    let part = |key: &str| case.get(key).and_then(Value::as_map).unwrap_or(&empty);
    let settings = Settings::new(part("opts"), part("grains"), known);
    let mut data = case.get("high").cloned().unwrap_or_default();
    let mut errors = data.as_map_mut().map(|high| high::reconcile_extend(high, false)).unwrap_or_default();
    errors.extend(high::verify_high(&data));
    if !errors.is_empty() {
        return value::map! { "step" => "verify", "errors" => texts(errors) }.into();
    }
    let mut high = data.into_map().expect("verified");
    let errors = high::requisite_in(&mut high, &settings.disabled_requisites);
    high::apply_exclude(&mut high);
    if !errors.is_empty() {
        return value::map! { "step" => "requisites", "errors" => texts(errors) }.into();
    }
    let gathered = high.clone();
    let (chunks, errors) = compile_high_data(high, &settings);
    if !errors.is_empty() {
        return value::map! { "step" => "compile", "errors" => texts(errors), "high" => gathered }.into();
    }
    let lows: Value = chunks.in_order().cloned().collect();
    value::map! { "step" => "done", "high" => gathered, "chunks" => lows, "disabled" => chunks.disabled }.into()
}

#[test]
fn high_data_becomes_the_chunks_or_the_errors_of_the_real_salt() {
    let recorded: Value = serde_json::from_str(include_str!("../testdata/high.json")).unwrap();
    let known = recorded.get("known").unwrap().as_list().unwrap().iter().map(Value::to_string).collect();
    let known = Functions(known);
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    // A truncated recording must not pass.
    assert!(cases.len() > 800);
    let mut wrong = Vec::new();
    for case in cases {
        let (ours, theirs) = (answer(case, &known), case.get("answer").unwrap());
        let same = match theirs.get("step").and_then(Value::as_str) {
            // The real one ends with a traceback; ours says what is wrong.
            Some("raised") => ours.get("errors").is_some_and(Value::truthy),
            _ => value::python::equal(&ours, theirs),
        };
        if !same {
            wrong.push(format!("{}\n  ours:   {ours}\n  theirs: {theirs}", case.get("name").unwrap()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}

#[test]
fn the_whole_way_stops_at_the_first_step_that_finds_something() {
    let known = Functions(HashSet::new());
    let settings = Settings::new(&Map::new(), &Map::new(), &known);
    let high = value::map! { "x" => value::map! { "__sls__" => "a", "test" => "nop" } };
    assert_eq!(compile(high, &settings).unwrap_err(), ["State 'x' in SLS 'a' is not formed as a list"]);
    let high = value::map! { "x" => value::map! { "__sls__" => "a", "test" => value::list!["nop"] } };
    assert_eq!(compile(high, &settings).unwrap().in_order().count(), 1);
}

#[test]
fn an_id_must_be_text() {
    let body = value::map! { "__sls__" => "a", "test" => value::list!["nop"] };
    let high = Value::from(Map::from_iter([(Value::Int(5), Value::from(body))]));
    let text = "ID '5' in SLS 'a' is not formed as a string, but is type int. It may need to be quoted.";
    assert_eq!(high::verify_high(&high), [text]);
}
