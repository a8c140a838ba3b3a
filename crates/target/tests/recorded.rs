//! Everything the real Salt was asked about targets, with its answers (`testdata/record.py`).

use std::collections::BTreeMap;
use std::sync::Arc;

use saltern_target::acl::{self, Call, Form, Publication};
use saltern_target::{
    Checker, Compare, Compiled, Context, DEFAULT_DELIMITER, Facts, Glob, MinionData, PyRegex, TargetType,
    expand_nodegroup, expr_match, subdict_match,
};
use value::{Map, Value, list, map};

/// Reads a fixture: a JSON list with one row per line.
fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("cannot parse {path}: {error}"))
}

fn items(value: &Value) -> &[Value] {
    value.as_list().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}"))
}

fn texts(value: &Value) -> Vec<&str> {
    items(value).iter().map(text).collect()
}

/// Fails with every row that differs, not only the first.
fn assert_none(differences: Vec<String>, asked: usize) {
    assert!(asked > 20, "only {asked} questions were asked");
    assert!(differences.is_empty(), "{} of {asked} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn globs_match_as_recorded() {
    let rows = rows("globs");
    let (all, rows) = rows.split_first().unwrap();
    let mut differences = Vec::new();
    for row in rows {
        let [pattern, expected] = items(row) else { panic!("{row}") };
        let glob = Glob::new(text(pattern));
        let found: Vec<&str> = texts(all).into_iter().filter(|text| glob.matches(text)).collect();
        if found != texts(expected) {
            differences.push(format!("{pattern:?}: {found:?}, recorded {expected:?}"));
        }
    }
    assert_none(differences, rows.len());
}

#[test]
fn regexes_match_as_recorded() {
    let rows = rows("regexes");
    let (all, rows) = rows.split_first().unwrap();
    // Python knows characters by their names.
    let unsupported = ["\\N{LATIN SMALL LETTER A}"];
    let mut differences = Vec::new();
    for row in rows {
        let [pattern, expected] = items(row) else { panic!("{row}") };
        match (PyRegex::new(text(pattern)), expected) {
            (Err(_), Value::Null) => {}
            (Err(_), _) if unsupported.contains(&text(pattern)) => {}
            (Err(error), _) => differences.push(format!("{pattern:?}: {error}, recorded {expected:?}")),
            (Ok(_), Value::Null) => differences.push(format!("{pattern:?}: taken, recorded as an error")),
            (Ok(regex), _) => {
                let found: Vec<&str> = texts(all).into_iter().filter(|text| regex.is_match(text)).collect();
                if found != texts(expected) {
                    differences.push(format!("{pattern:?}: {found:?}, recorded {expected:?}"));
                }
            }
        }
    }
    assert_none(differences, rows.len());
}

/// Turns `{"map": [[key, value], …]}` back into a map whose keys need not be text.
fn untyped(value: &Value) -> Value {
    match value {
        Value::Map(map) => items(map.get("map").unwrap())
            .iter()
            .map(|pair| (untyped(&items(pair)[0]), untyped(&items(pair)[1])))
            .collect::<Map>()
            .into(),
        Value::List(items) => items.iter().map(untyped).collect(),
        other => other.clone(),
    }
}

#[test]
fn paths_match_as_recorded() {
    let rows = rows("subdict");
    let trees: Vec<Map> = items(&rows[0]).iter().map(|tree| untyped(tree).into_map().unwrap()).collect();
    let mut differences = Vec::new();
    let mut asked = 0;
    for row in &rows[3..] {
        let [Value::Int(tree), mode, delimiter, expected] = items(row) else { panic!("{row}") };
        let compare = match text(mode) {
            "glob" => Compare::Glob,
            "regex" => Compare::Regex,
            _ => Compare::Exact,
        };
        let expressions = if text(delimiter) == ":" { &rows[1] } else { &rows[2] };
        for expression in texts(expressions) {
            asked += 1;
            let found = subdict_match(&trees[*tree as usize], expression, text(delimiter), compare);
            if found != texts(expected).contains(&expression) {
                differences.push(format!("tree {tree}, {mode} {expression:?}: {found}"));
            }
        }
    }
    assert_none(differences, asked);
}

fn kind(value: &Value) -> TargetType {
    TargetType::from_name(text(value)).unwrap()
}

#[test]
fn minions_match_as_recorded() {
    let rows = rows("minion_side");
    let minions = rows[0].as_map().unwrap();
    let context = Context { nodegroups: rows[1].as_map(), ..Context::default() };
    let mut differences = Vec::new();
    for row in &rows[2..] {
        let [kind_name, target, expected] = items(row) else { panic!("{row}") };
        let compiled = Compiled::new(target, kind(kind_name), &context);
        let meant = |id: &str, data: &Value| {
            let facts =
                Facts { id, grains: items(data)[0].as_map().unwrap(), pillar: items(data)[1].as_map().unwrap() };
            compiled.as_ref().is_ok_and(|compiled| compiled.matches(&facts))
        };
        let found: Vec<&str> =
            minions.iter().filter(|(id, data)| meant(text(id), data)).map(|(id, _)| text(id)).collect();
        if found != texts(expected) {
            differences
                .push(format!("{kind_name} {target:?}: {found:?}, recorded {expected:?} ({:?})", compiled.err()));
        }
    }
    assert_none(differences, rows.len());
}

#[test]
fn nodegroups_expand_as_recorded() {
    let all = rows("minion_side");
    let groups = all[1].as_map().unwrap();
    for row in rows("nodegroups") {
        let [name, expected] = items(&row) else { panic!("{row}") };
        let found = expand_nodegroup(text(name), groups).ok().filter(|words| !words.is_empty());
        assert_eq!(found.map(Value::from).unwrap_or_default(), *expected, "{name}");
    }
}

/// The minions of the fixture; the last was never accepted.
struct Recorded(BTreeMap<String, Option<Data>>);

/// Grains and pillar.
type Data = (Arc<Map>, Arc<Map>);

impl Recorded {
    fn new() -> Self {
        let rows = rows("master_side");
        let part = |data: &Value, place: usize| Arc::new(items(data)[place].as_map().unwrap().clone());
        let minion = |(id, data): (&Value, &Value)| {
            (text(id).to_owned(), (!data.is_null()).then(|| (part(data, 0), part(data, 1))))
        };
        Recorded(rows[0].as_map().unwrap().iter().map(minion).collect())
    }
}

impl MinionData for Recorded {
    fn accepted(&self) -> Vec<String> {
        self.0.keys().filter(|id| *id != "gone").cloned().collect()
    }

    fn cached(&self) -> Vec<String> {
        self.0.iter().filter(|(_, data)| data.is_some()).map(|(id, _)| id.clone()).collect()
    }

    fn grains(&self, id: &str) -> Option<Arc<Map>> {
        self.0.get(id)?.as_ref().map(|data| data.0.clone())
    }

    fn pillar(&self, id: &str) -> Option<Arc<Map>> {
        self.0.get(id)?.as_ref().map(|data| data.1.clone())
    }
}

fn groups() -> Map {
    rows("minion_side")[1].as_map().unwrap().clone()
}

/// Compares with the rows of one recording that `counts` is true for: data cache, target.
fn masters_expect(recording: &str, counts: impl Fn(bool, &str) -> bool) {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let rows = rows(recording);
    let (mut differences, mut asked) = (Vec::new(), 0);
    for row in &rows[1..] {
        let [cache, greedy, kind_name, target, expected, missing] = items(row) else { panic!("{row}") };
        if !counts(cache.truthy(), &target.to_string()) {
            continue;
        }
        asked += 1;
        let checker = Checker::new(&minions, &nodegroups, cache.truthy());
        let ask = if greedy.truthy() { Checker::expect } else { Checker::known };
        let found = ask(&checker, target, kind(kind_name), ":").unwrap_or_default();
        let mut ids = found.minions.clone();
        ids.sort();
        if ids != texts(expected) || found.missing != texts(missing) {
            differences.push(format!("{row}: {found:?}"));
        }
    }
    assert_none(differences, asked);
}

#[test]
fn masters_expect_whom_3008_expects() {
    // Resources do not exist here, and 3008 takes a glob with a comma for a list, which its minions do not.
    masters_expect("master_side", |cache, target| cache && target != "T@ssh:web1" && target != "web1,web2");
}

#[test]
fn masters_expect_whom_3006_expects() {
    masters_expect("master_side_3006", |_, target| !target.contains("T@") && !target.contains("M@"));
}

#[test]
fn lists_grant_publications_as_recorded() {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let checker = Checker::new(&minions, &nodegroups, true);
    let rows = rows("acls");
    let mut differences = Vec::new();
    for row in &rows {
        let [list, function, arguments, target, kind_name, expected] = items(row) else { panic!("{row}") };
        let wanted = Publication {
            functions: &[text(function).to_owned()],
            arguments: &[items(arguments).to_vec()],
            target,
            kind: kind(kind_name),
            delimiter: DEFAULT_DELIMITER,
            minions: None,
        };
        if acl::publish_allowed(items(list), &wanted, &checker) != expected.truthy() {
            differences.push(row.to_string());
        }
    }
    assert_none(differences, rows.len());
}

#[test]
fn a_compound_command_needs_a_grant_for_each_function() {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let checker = Checker::new(&minions, &nodegroups, true);
    let target = Value::from("web1");
    let functions = ["test.ping".to_owned(), "cmd.run".to_owned()];
    let wanted = Publication {
        functions: &functions,
        arguments: &[],
        target: &target,
        kind: TargetType::Glob,
        delimiter: DEFAULT_DELIMITER,
        minions: None,
    };
    assert!(!acl::publish_allowed(items(&list!["test.ping"]), &wanted, &checker));
    assert!(acl::publish_allowed(items(&list!["test.ping", "cmd.*"]), &wanted, &checker));
    assert!(!acl::publish_allowed(items(&list![".*"]), &Publication { functions: &[], ..wanted }, &checker));
}

/// Compiling an expression or expanding a target for each function took minutes.
#[test]
fn many_functions_cost_little() {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let checker = Checker::new(&minions, &nodegroups, true);
    let (target, functions) = (Value::from("web1"), vec!["test.ping".to_owned(); 50_000]);
    let mut entries: Vec<Value> = (0..20).map(|number| format!("cmd{number}.*").into()).collect();
    entries.push(map! { "web* or G@os:none" => list![map! { "test.ping" => map! { "args" => list![] } }] }.into());
    let wanted = Publication {
        functions: &functions,
        arguments: &[],
        target: &target,
        kind: TargetType::Glob,
        delimiter: DEFAULT_DELIMITER,
        minions: None,
    };
    assert!(acl::functions_allowed(&entries, &functions) && acl::publish_allowed(&entries, &wanted, &checker));
    entries.pop();
    assert!(!acl::publish_allowed(&entries, &wanted, &checker));
}

/// Minions decide what is a keyword argument, so a condition must look at the same ones.
#[test]
fn conditions_are_about_the_arguments_that_the_function_gets() {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let checker = Checker::new(&minions, &nodegroups, true);
    let target = Value::from("web1");
    let granted = |conditions: Map, arguments: Value| {
        let list = list![map! { "*" => list![map! { "state.sls" => conditions }] }];
        let wanted = Publication {
            functions: &["state.sls".to_owned()],
            arguments: &[items(&arguments).to_vec()],
            target: &target,
            kind: TargetType::Glob,
            delimiter: DEFAULT_DELIMITER,
            minions: None,
        };
        acl::publish_allowed(items(&list), &wanted, &checker)
    };
    let named = |mark: Value, value: &str| map! { "__kwarg__" => mark, "test" => value };
    let (yes, no) = (|| named(true.into(), "True"), || named(true.into(), "False"));
    let only_tests = || map! { "args" => list!["web"], "kwargs" => map! { "test" => "True" } };
    for good in [list!["web", yes()], list![no(), "web", yes()], list!["web", "pillar={}", yes()]] {
        assert!(granted(only_tests(), good.clone()), "{good}");
    }
    for bad in [
        list!["web"],
        list!["web", (), named(false.into(), "True")],
        list!["web", (), named(1.into(), "True")],
        list!["web", yes(), no()],
        list!["web", yes(), "test=False"],
        list!["web", "test=True"],
    ] {
        assert!(!granted(only_tests(), bad.clone()), "{bad}");
    }
    let second = || map! { "args" => list![(), "safe"] };
    assert!(granted(second(), list!["x", "safe", "a=b", map! { "__kwarg__" => true, "c" => 1 }]));
    assert!(granted(second(), list!["a==b", "safe"]));
    for shifted in [
        list!["a=b", "safe", "harmful"],
        list![yes(), "safe", "harmful"],
        // A name for some minions, and not for others.
        list!["a\u{300}=b", "safe", "harmful"],
        list!["x", "safe=1"],
    ] {
        assert!(!granted(second(), shifted.clone()), "{shifted}");
    }
    assert!(granted(map! {}, list!["a\u{300}=b"]), "without a condition nothing is compared");
}

#[test]
fn lists_grant_calls_as_recorded() {
    let rows = rows("calls");
    let mut differences = Vec::new();
    for row in &rows {
        let [list, form, function, arguments, keywords, expected] = items(row) else { panic!("{row}") };
        let form = if text(form) == "runner" { Form::Runner } else { Form::Wheel };
        let call = Call { form, function: text(function), arguments: items(arguments), keywords: keywords.as_map() };
        let found = acl::call_allowed(items(list), &call).map_or(Value::from("syntax"), Value::from);
        if found != *expected {
            differences.push(format!("{row}: {found}"));
        }
    }
    assert_none(differences, rows.len());
}

#[test]
fn users_and_groups_are_granted_what_is_recorded() {
    let rows = rows("granted");
    let mut differences = Vec::new();
    for row in &rows {
        let [provider, user, user_groups, permissive, expected] = items(row) else { panic!("{row}") };
        let user_groups: Vec<String> = texts(user_groups).into_iter().map(str::to_owned).collect();
        let found = acl::entries_for(provider.as_map().unwrap(), text(user), &user_groups, permissive.truthy());
        if found != items(expected) {
            differences.push(format!("{row}: {found:?}"));
        }
    }
    assert_none(differences, rows.len());
}

#[test]
fn guessing_at_pillar_is_noticed_as_recorded() {
    let (minions, nodegroups) = (Recorded::new(), groups());
    let checker = Checker::new(&minions, &nodegroups, true);
    for row in rows("exact") {
        let [target, kind_name, expected] = items(&row) else { panic!("{row}") };
        let wanted = Publication {
            functions: &[],
            arguments: &[],
            target,
            kind: kind(kind_name),
            delimiter: DEFAULT_DELIMITER,
            minions: None,
        };
        assert_eq!(acl::pillar_is_exact(&wanted, &checker), expected.truthy(), "{row}");
    }
}

#[test]
fn expressions_match_as_recorded() {
    let rows = rows("expressions");
    let differences = rows.iter().filter(|row| {
        let [line, expression, expected] = items(row) else { panic!("{row}") };
        expr_match(text(line), text(expression)) != expected.truthy()
    });
    assert_none(differences.map(Value::to_string).collect(), rows.len());
}

/// Ten thousand minions, each with grains; the time limit is generous for a build without optimisation.
#[test]
fn ten_thousand_minions_are_matched_at_once() {
    struct Many(Arc<Map>);
    impl MinionData for Many {
        fn accepted(&self) -> Vec<String> {
            (0..10_000).map(|number| format!("web{number}.example.com")).collect()
        }
        fn cached(&self) -> Vec<String> {
            self.accepted()
        }
        fn grains(&self, _: &str) -> Option<Arc<Map>> {
            Some(self.0.clone())
        }
        fn pillar(&self, _: &str) -> Option<Arc<Map>> {
            None
        }
    }
    let minions = Many(Arc::new(value::map! { "os" => "Debian", "roles" => vec!["web", "db"] }));
    let nodegroups = Map::new();
    let checker = Checker::new(&minions, &nodegroups, true);
    let started = std::time::Instant::now();
    let target = Value::from("G@os:Deb* and not E@web1\\d+ and web*");
    let found = checker.expect(&target, TargetType::Compound, ":").unwrap();
    let took = started.elapsed();
    assert_eq!(found.minions.len(), 10_000 - 1_110);
    assert!(took.as_millis() < 2_000, "matching took {took:?}");
}
