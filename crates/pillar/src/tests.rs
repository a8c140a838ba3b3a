use std::path::Path;

use value::{Value, map};

use super::*;

fn recorded() -> Map {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cases.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<Value>(&text).unwrap().into_map().unwrap()
}

/// Writes a tree of files below a directory.
fn write(tree: &Map, root: &Path) {
    for (path, content) in tree {
        let full = root.join(path.as_str().unwrap());
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, content.as_str().unwrap()).unwrap();
    }
}

fn compiler(root: &Path, options: &Map, groups: &Map) -> Compiler {
    let mut options = options.clone();
    let roots = options.remove("pillar_roots").unwrap_or_else(|| map! { "base" => vec!["base"] }.into());
    let directory = |name: &Value| Value::from(root.join(name.as_str().unwrap()).to_str().unwrap());
    let directories = |(env, names): (&Value, &Value)| {
        (env.clone(), names.as_list().unwrap().iter().map(directory).collect::<Value>())
    };
    options.insert("pillar_roots", roots.as_map().unwrap().iter().map(directories).collect::<Map>());
    options.insert("nodegroups", groups.clone());
    Compiler::new(&Master::from_options(options).unwrap()).unwrap()
}

/// Turns `{"map": [[key, value], …]}` back into a map, whose keys need not be text and whose order counts.
fn untyped(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let pairs = map.get("map").unwrap().as_list().unwrap().iter();
            pairs
                .map(|pair| (untyped(&pair.as_list().unwrap()[0]), untyped(&pair.as_list().unwrap()[1])))
                .collect::<Map>()
                .into()
        }
        Value::List(items) => items.iter().map(untyped).collect(),
        other => other.clone(),
    }
}

/// Texts of errors may name the directory of the tree.
fn plain(value: Value, root: &str) -> Value {
    match value {
        Value::Map(map) => map.into_iter().map(|(key, value)| (key, plain(value, root))).collect::<Map>().into(),
        Value::List(items) => items.into_iter().map(|item| plain(item, root)).collect(),
        Value::Str(text) => text.replace(root, "ROOT").into(),
        other => other,
    }
}

#[test]
fn trees_become_the_recorded_pillar() {
    let recorded = recorded();
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    let part = |name: &str| recorded.get(name).unwrap().as_map().unwrap();
    let mut differences = Vec::new();
    for case in cases {
        let [name, tree, options, request, expected] = case.as_list().unwrap() else { panic!("{case}") };
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(tree.as_map().unwrap(), &root);
        let compiler = compiler(&root, options.as_map().unwrap(), part("nodegroups"));
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let pillar = compiler.compile(&Request {
            id: "web1",
            grains: Some(part("grains")),
            saltenv: text("saltenv"),
            pillarenv: text("pillarenv"),
            pillar_override: request.get("pillar_override").and_then(Value::as_map),
            ext: None,
        });
        if let Some(failure) = expected.get("__failed__") {
            // Where Python fails there is at least an error.
            assert!(pillar.contains_key("_errors"), "{name}: {failure}, but {pillar:?}");
            continue;
        }
        let (found, expected) = (plain(pillar.into(), root.to_str().unwrap()), untyped(expected));
        if value::python::repr(&found) != value::python::repr(&expected) {
            differences.push(format!("{name}:\n  {found:?}\n  recorded {expected:?}"));
        }
    }
    assert!(cases.len() > 100, "only {} cases", cases.len());
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}
