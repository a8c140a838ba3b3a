use std::path::Path;
use std::sync::Arc;

use exec::{Context, Error, KwArgs, Module, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::{Renderer, Request, Roots};

/// Returns its argument.
#[function]
fn echo(text: Value) -> Result<Value> {
    Ok(text)
}

/// Returns the arguments it was given by name.
#[function]
fn kwarg(kwargs: KwArgs) -> Result<Map> {
    Ok(kwargs.given())
}

/// Fails.
#[function]
fn exception(#[default("Test Exception")] message: String) -> Result<Value> {
    Err(Error::Other(message))
}

/// Fails as a class says.
#[function]
fn fail(class: String, message: String, rest: VarArgs) -> Result<Value> {
    let _none = rest;
    Err(if class == "SaltInvocationError" { Error::invocation(message) } else { Error::execution(message) })
}

/// Hands the default back.
#[function]
fn get(key: String, default: Value) -> Result<Value> {
    let _none = key;
    Ok(default)
}

static ENVIRON: Module = Module::new("environ", "Knows no variable.", &[&GET]);
static TEST: Module = Module::new("test", "For tests.", &[&ECHO, &EXCEPTION, &FAIL, &KWARG]);

/// Returns the recorded results of `record.py`, from the file that `RENDER_RECORDED` names or else the committed one.
fn recorded() -> Map {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/jinja.json");
    let text = std::fs::read_to_string(std::env::var_os("RENDER_RECORDED").unwrap_or(path.into())).unwrap();
    python::json::loads(&text).unwrap().into_map().unwrap()
}

fn context(grains: Map, pillar: Map, opts: Map) -> Context {
    exec::testing::context(&[&ENVIRON, &TEST], opts, grains, pillar).0
}

/// Returns whether a template differs on purpose; each has its reason.
fn is_different(template: &str) -> bool {
    const KNOWN: [&str; 5] = [
        // The texts of errors about patterns are those of our engine.
        "regex_replace('(', 'y')",
        // A text of digits is a number of seconds, as the documentation says; a library for dates makes something else of it.
        "'1457456400' | strftime",
        // A text that is not a number is refused as such.
        "'2 3' | random_hash",
        // Functions get lists for tuples.
        "[1, (2, 3)]",
        // The function behind it differs.
        "test.raise_exception",
    ];
    KNOWN.iter().any(|known| template.contains(known))
}

#[test]
fn templates_become_the_recorded_texts_and_errors() {
    // Times are shown in the zone they were recorded in.
    assert!(
        std::env::var("TZ").is_ok_and(|zone| zone == "UTC") || std::fs::read("/etc/localtime").is_err() || is_utc()
    );
    let recorded = recorded();
    let part = |name: &str| recorded.get(name).unwrap().as_map().unwrap().clone();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (path, text) in &part("files") {
        let full = root.join(path.as_str().unwrap());
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text.as_str().unwrap()).unwrap();
    }
    let opts = map! { "id" => "web1", "file_client" => "local", "renderer" => "jinja" };
    let place = root.clone();
    let loader = Arc::new(Roots::new(move |_| vec![place.clone()]));
    let cases = recorded.get("cases").unwrap().as_list().unwrap();
    let mut differences = Vec::new();
    for case in cases {
        let [template, expected] = case.as_list().unwrap() else { panic!("{case}") };
        let template = template.as_str().unwrap();
        if is_different(template) {
            continue;
        }
        let ctx = context(part("grains"), part("pillar"), opts.clone());
        let request =
            Request { sls: "a.b", saltenv: "base", path: Some(Path::new("/srv/salt/a/b.sls")), ..Request::default() };
        let found = match super::Templates::new(ctx, loader.clone()).sls(template, &request) {
            Ok(text) => map! { "text" => text },
            Err(error) => map! { "error" => error.to_string().replace(root.to_str().unwrap(), "ROOT") },
        };
        if Value::from(found.clone()) != *expected {
            let shown = |value: &Value| value.as_map().and_then(|map| map.values().next()).unwrap().to_string();
            differences.push(format!(
                "{template}\n  found    {}\n  recorded {}",
                shown(&found.into()),
                shown(expected)
            ));
        }
    }
    // A truncated recording must not pass as success.
    assert!(cases.len() > 1_300, "only {} cases", cases.len());
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}

fn is_utc() -> bool {
    python::time::Local::at(0.0).is_some_and(|local| local.hour == 0 && local.day == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_an_ordered_dictionary_counts_behind_functions_too() {
    let text = "{% set d = odict([('b', 1), ('a', {'d': 1, 'c': 2})]) %}{{ salt['test.echo'](d) | yaml(False) }}";
    let found = tokio::task::spawn_blocking(move || {
        let renderer = Renderer::new(context(map! {}, map! {}, map! {}), Arc::new(crate::NoFiles));
        renderer.template(&crate::Template { text, engine: "jinja", ..crate::Template::default() }).unwrap()
    });
    assert_eq!(found.await.unwrap(), "b: 1\na:\n  c: 2\n  d: 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undefined_default_of_a_look_up_comes_back_undefined() {
    let found = tokio::task::spawn_blocking(move || {
        let renderer = Renderer::new(context(map! {}, map! {}, map! {}), Arc::new(crate::NoFiles));
        let render = |expression: &str| {
            let text = format!("{{{{ {expression} }}}}");
            renderer.template(&crate::Template { text: &text, engine: "jinja", ..crate::Template::default() })
        };
        assert_eq!(render("salt['environ.get']('a', {}.b) | default('c')").unwrap(), "c");
        assert_eq!(render("salt.environ.get('a', default={}.b) is defined").unwrap(), "False");
        assert_eq!(render("salt['environ.get']('a', 'b')").unwrap(), "b");
        render("salt['environ.get']('a', {}.b)").unwrap_err().to_string()
    });
    assert!(found.await.unwrap().starts_with("Jinja variable 'dict object' has no attribute 'b'"));
}
