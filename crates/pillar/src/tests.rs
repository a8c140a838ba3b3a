use std::path::Path;
use std::sync::Arc;

use exec::{KwArgs, Module, Registry, function};
use value::{Value, map};

use super::*;

/// Returns what a command prints.
#[function]
fn run(cmd: String, kwargs: KwArgs) -> exec::Result<String> {
    let _ignored = kwargs;
    let output = std::process::Command::new("sh").args(["-c", &cmd]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The same.
#[function]
fn run_stdout(cmd: String, kwargs: KwArgs) -> exec::Result<String> {
    let _ignored = kwargs;
    let output = std::process::Command::new("sh").args(["-c", &cmd]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

static CMD: Module = Module::new("cmd", "For tests.", &[&RUN, &RUN_STDOUT]);

fn world() -> Arc<dyn World> {
    Arc::new(|grains: &Map| -> Arc<dyn exec::Agent> { Arc::new(Bare::new(Registry::new(&[&CMD], grains))) })
}

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
    Compiler::new(&Master::from_options(options).unwrap()).unwrap().with_world(world())
}

/// Turns `{"map": [[key, value], …]}` back into a map, whose keys need not be text and whose order counts.
pub(crate) fn untyped(value: &Value) -> Value {
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
pub(crate) fn plain(value: Value, root: &str) -> Value {
    match value {
        Value::Map(map) => map.into_iter().map(|(key, value)| (key, plain(value, root))).collect::<Map>().into(),
        Value::List(items) => items.into_iter().map(|item| plain(item, root)).collect(),
        Value::Str(text) => without_line(&text.replace(root, "ROOT")).into(),
        other => other,
    }
}

/// Salt's own YAML reader is built with libyaml and leaves the line of what the scanner finds out.
fn without_line(text: &str) -> &str {
    let problems = [
        "are not allowed in this context",
        "unknown directive name",
        "unexpected end of stream",
        "cannot start any token",
    ];
    let place = problems.iter().find_map(|problem| Some(text.find(&format!("{problem}; line "))? + problem.len()));
    &text[..place.unwrap_or(text.len())]
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
            ..Request::default()
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
    // A truncated recording must not pass.
    assert!(cases.len() > 100, "only {} cases", cases.len());
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}

/// A tree of `file_tree` with the pillar of a node group, of the minion, and of another.
#[test]
fn files_below_a_directory_become_values() {
    let dir = tempfile::tempdir().unwrap();
    let tree = map! {
        "ext/hosts/web1/plain" => "text\n", "ext/hosts/web1/deep/kept" => "line\n", "ext/hosts/web2/secret" => "no",
        "ext/nodegroups/webs/shared" => "group", "ext/nodegroups/others/no" => "no", "base/none.sls" => "a: 1",
    };
    write(&tree, dir.path());
    let root = dir.path().join("ext");
    let options = |template: bool| {
        let arguments = map! {
            "root_dir" => root.to_str().unwrap(), "keep_newline" => vec!["deep/*"], "template" => template,
            "render_default" => "jinja",
        };
        map! { "ext_pillar" => vec![Value::from(map! { "file_tree" => arguments })] }
    };
    let groups = map! { "webs" => "web*", "others" => "db*" };
    let request = Request { id: "web1", ..Request::default() };
    let bytes = |text: &str| Value::bytes(text.as_bytes().to_vec());
    let expected = map! {
        "shared" => bytes("group"), "deep" => map! { "kept" => bytes("line\n") }, "plain" => bytes("text"),
    };
    assert_eq!(compiler(dir.path(), &options(false), &groups).compile(&request), expected);
    let rendered = compiler(dir.path(), &options(true), &groups).compile(&request);
    assert_eq!(rendered.get("plain"), Some(&"text".into()), "{rendered:?}");
}

/// The result of the real Salt for the same files.
#[test]
fn listed_files_are_laid_over_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let list = "{%- set os = __grains__['os'] %}\ncore/*.yml\n{{ os }}.yml\n\
                {{ __stack__.traverse(pillar, 'a:b', 'none') }}.yml\n{%- if missing %}\nx.yml\n{%- endif %}\n\
                minions/{{ minion_id }}.yml\n";
    let one = "users: {root: {uid: 0}}\nlist: [1, 2]\n\
               who: {{ minion_id }} {{ __salt__['cmd.run']('echo hi') }} {{ missing }}\n";
    let two = "users: {tom: {uid: 1}, __: merge-first, root: {uid: 9}}\nlist: [{__: merge-first}, 0]\n\
               prev: {{ stack.users.root.uid }}\n";
    let tree = map! {
        "stack.cfg" => list, "core/1.yml" => one, "core/2.yml" => two, "Debian.yml" => "k: debian", "none.yml" => "tr: 1",
        "x.yml" => "x: 1", "second.cfg" => "third.yml\n", "third.yml" => "third: {{ 1 + 2 }}",
        "fourth.cfg" => "fourth.yml\n", "fourth.yml" => "fourth: {{ __opts__.id }} {{ __opts__.minion_id }}", "base/none.sls" => "a: 1",
    };
    write(&tree, dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let cases = map! { "Debian" => vec![at("second.cfg")], "Other" => "/x" };
    let own = map! { "web1" => at("stack.cfg"), "master1" => at("fourth.cfg") };
    let sources = vec![
        Value::from(map! { "stack" => at("stack.cfg") }),
        map! { "stack" => map! { "grains:os" => cases, "opts:id" => own } }.into(),
    ];
    let grains = map! { "os" => "Debian" };
    let request = Request { id: "web1", grains: Some(&grains), ..Request::default() };
    let pillar = compiler(dir.path(), &map! { "id" => "master1", "ext_pillar" => sources }, &map! {}).compile(&request);
    let expected = map! {
        "users" => map! { "root" => map! { "uid" => 0 }, "tom" => map! { "uid" => 1 } },
        "list" => vec![0, 1, 2], "who" => "web1 hi", "prev" => 0, "k" => "debian", "tr" => 1, "third" => 3,
        "fourth" => "master1 web1",
    };
    assert_eq!(pillar, expected);
}

#[test]
fn a_minion_gets_only_the_external_pillars_it_may_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let asked = map! { "nodegroups" => map! { "pillar_name" => "mine" } };
    let request = Request { id: "web1", ext: Some(&asked), ..Request::default() };
    let groups = map! { "webs" => "web*" };
    let refused = compiler(dir.path(), &map! {}, &groups).compile(&request);
    assert_eq!(refused, map! {});
    let options = map! { "on_demand_ext_pillar" => vec!["nodegroups"] };
    let allowed = compiler(dir.path(), &options, &groups).compile(&request);
    assert_eq!(allowed, map! { "mine" => vec!["webs"] });
}

/// Stands in for git: files of another directory, with their own top file.
struct Checkout(std::path::PathBuf);

impl External for Checkout {
    fn name(&self) -> &str {
        "git"
    }

    fn load(&self, call: &ExternalCall) -> Result<Map, String> {
        Ok(call.compile(config::Roots::new([("base".to_owned(), vec![self.0.clone()])]), None))
    }
}

#[test]
fn an_external_pillar_may_compile_other_directories() {
    let dir = tempfile::tempdir().unwrap();
    let tree =
        map! { "git/top.sls" => "base: {'*': [x]}", "git/x.sls" => "from: {{ grains.id }}", "base/none.sls" => "" };
    write(&tree, dir.path());
    let options = map! { "ext_pillar" => vec![Value::from(map! { "git" => vec!["anything"] })] };
    let without = compiler(dir.path(), &options, &map! {});
    let grains = map! { "id" => "web1" };
    let request = Request { id: "web1", grains: Some(&grains), ..Request::default() };
    let why = without.compile(&request).get("_errors").unwrap().to_string();
    assert!(why.contains("not supported: the external pillar 'git'"), "{why}");
    let with = without.with_external(Arc::new(Checkout(dir.path().join("git"))));
    assert_eq!(with.compile(&request), map! { "from" => "web1" });
}

#[test]
fn a_minion_that_makes_its_own_pillar_keeps_details_of_errors_back_too() {
    let root = tempfile::tempdir().unwrap();
    write(&map! { "base/top.sls" => "base:\n  '*': [twice]\n", "base/twice.sls" => "a: secret\na: 2\n" }, root.path());
    let roots = map! { "base" => vec![root.path().join("base").to_str().unwrap()] };
    let errors = |options: Map| {
        let options = options.into_iter().chain(map! { "id" => "m", "pillar_roots" => roots.clone() }).collect();
        let compiler = Compiler::for_minion(&Minion::from_options(options).unwrap()).unwrap();
        let pillar = compiler.compile(&Request { id: "m", ..Request::default() });
        pillar.get("_errors").and_then(Value::as_list).unwrap()[0].to_string()
    };
    assert_eq!(errors(Map::new()), "Rendering SLS 'twice' failed. Please see master log for details.");
    assert!(errors(map! { "pillar_safe_render_error" => false }).contains("found conflicting ID 'a'"));
}
