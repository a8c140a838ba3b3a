use std::sync::Arc;

use jinja::{Environment, Error, Template, UndefinedKind, Value, Vars};

/// Runs a query as the filter does, and prints what it finds as Python does.
fn run(query: &str, data: &Value) -> Result<String, Error> {
    let mut env = Environment::new();
    env.undefined = UndefinedKind::Strict;
    env.add_filter("search", |call| {
        let [data, query] = call.bind("search", [("data", None), ("query", None)])?;
        super::search(call.state, query.as_str().unwrap_or_default(), &data)
    });
    let mut vars = Vars::default();
    vars.insert("data".into(), data.clone());
    vars.insert("query".into(), Value::str(query));
    Template::compile(&Arc::new(env), None, "{{ data|search(query) }}")?.render(vars)
}

fn recorded() -> value::Map {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/jmespath.json");
    python::json::loads(&std::fs::read_to_string(path).unwrap()).unwrap().into_map().unwrap()
}

#[test]
fn what_is_found_and_said_is_what_the_library_finds_and_says() {
    let recorded = recorded();
    let data = crate::convert::seen(recorded.get("data").unwrap());
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    let mut different = Vec::new();
    for case in cases {
        let [query, expected] = case.as_list().unwrap() else { panic!("{case}") };
        let query = query.as_str().unwrap();
        let found = match run(query, &data) {
            Ok(text) => value::map! { "text" => text },
            Err(error) => value::map! { "error" => error.message() },
        };
        if value::Value::from(found.clone()) != *expected {
            different.push(format!("{query}\n  found    {}\n  recorded {expected}", value::Value::from(found)));
        }
    }
    assert!(cases.len() > 250, "only {} cases", cases.len());
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), cases.len(), different.join("\n"));
}

#[test]
fn expressions_that_would_take_too_much_are_refused() {
    let data = Value::list(vec![Value::Int(1)]);
    for open in ["(", "[", "!", "foo(", "{a: ", "a.[", "[?"] {
        assert!(run(&open.repeat(100_000), &data).is_err(), "{open}");
    }
    // Each step doubles the list: 2^60 items, unless a limit ends it.
    let doubled = run(&"[@,@][]|".repeat(60), &data).unwrap_err();
    assert!(!doubled.message().is_empty());
    let grown = run(&format!("{}@", "[@,@][]|".repeat(60)), &data).unwrap_err();
    assert!(["MemoryError", "TimeoutError"].contains(&grown.kind().class()), "{}", grown.message());
    // A long row of alternatives is no depth.
    let row = vec!["x == 'y'"; 3_000].join(" || ");
    assert_eq!(run(&format!("[?{row}]"), &data).unwrap(), "[]");
    let piped = vec!["@"; 3_000].join(" | ");
    assert_eq!(run(&piped, &data).unwrap(), "[1]");
}
