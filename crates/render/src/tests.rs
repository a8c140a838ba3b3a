use std::path::Path;
use std::sync::Arc;

use value::{Map, list, map};

use crate::{NoFiles, Renderer, Request, Template};

fn renderer(opts: Map) -> Renderer {
    let (ctx, _) = exec::testing::context(&[], opts, map! {}, map! {});
    Renderer::new(ctx, Arc::new(NoFiles))
}

/// Returns a text that shows that the function was called.
#[exec::function]
fn get(key: String, kwargs: exec::KwArgs) -> exec::Result<String> {
    let _ignored = (key, kwargs);
    Ok("asked".into())
}

static PILLAR: exec::Module = exec::Module::new("pillar", "For tests.", &[&GET]);

fn rendered(opts: Map, text: &str, path: Option<&Path>) -> String {
    let request = Request { text, path, saltenv: "base", ..Request::default() };
    match renderer(opts).render(&request) {
        Ok(value) => value.to_string(),
        Err(error) => format!("ERROR {error}"),
    }
}

#[test]
fn a_text_goes_through_the_renderers_it_names() {
    let file = Some(Path::new("/srv/x.sls"));
    for (text, expected) in [
        ("a: 1", "{'a': 1}"),
        ("#!yaml\na: '{{ x }}'", "{'a': '{{ x }}'}"),
        ("#!json\n{\"a\": [1]}", "{'a': [1]}"),
        ("#!json\n  ", "{}"),
        ("#!jinja\na: 1\n", "#!jinja\na: 1\n"),
        ("#!gpg|yaml\na: b", "{'a': 'b'}"),
        ("#!yaml|gpg\na: b", "{'a': 'b'}"),
        (" \n", "{}"),
        ("# nothing", "{}"),
        // An unknown renderer must not fall back to the default.
        ("#!unheard|of\na: 1", "{}"),
        ("#!yaml|json\na: 1", "ERROR 'dict' object has no attribute 'read'"),
        ("#!json\n{]", "ERROR Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (
            "\ta: 1",
            "ERROR found character that cannot start any token; line 1\n\n---\n\ta: 1    <======================\n---",
        ),
        ("#!jinja x|yaml\na: 1", "ERROR Unknown renderer option: x"),
        ("#!py\ndef run(): pass", "ERROR not supported: the renderer 'py'"),
    ] {
        assert_eq!(rendered(map! {}, text, file), expected, "{text}");
    }
}

#[test]
fn options_name_the_default_and_what_is_allowed() {
    assert_eq!(rendered(map! { "renderer" => "json" }, "[1]", Some(Path::new("x"))), "[1]");
    let opts = map! { "renderer_blacklist" => vec!["jinja"] };
    assert_eq!(rendered(opts, "a: '{{ x }}'", Some(Path::new("x"))), "{'a': '{{ x }}'}");
}

#[test]
fn a_text_that_is_no_file_keeps_its_ends_of_lines() {
    assert_eq!(rendered(map! {}, "#!jinja\r\na\r\n", None), "#!jinja\r\na\r\n");
    assert_eq!(rendered(map! {}, "#!jinja\r\na\r\n", Some(Path::new("x"))), "#!jinja\na\n");
    assert_eq!(rendered(map! {}, "  ", None), "ERROR list index out of range");
    assert_eq!(rendered(map! {}, "#!yaml a: 1", None), "{}");
}

#[test]
fn engines_that_are_not_here_are_refused() {
    let template = |engine| renderer(map! {}).template(&Template { text: "x", engine, ..Template::default() });
    assert_eq!(template("jinja").unwrap(), "x");
    assert_eq!(template("mako").unwrap_err().to_string(), "not supported: the template engine 'mako'");
    assert_eq!(template("ninja").unwrap_err().to_string(), "Specified template format ninja is not supported");
}

#[test]
fn grains_and_pillar_are_among_the_options() {
    let (ctx, _) =
        exec::testing::context(&[], map! { "id" => "m1" }, map! { "os" => "Debian" }, map! { "who" => "world" });
    let text = "{% do pillar.update({'n': 1}) %}{{ opts.id }} {{ opts.grains.os }} {{ opts['pillar']['who'] }} {{ opts.pillar.n }}";
    let template = Template { text, engine: "jinja", ..Template::default() };
    assert_eq!(Renderer::new(ctx, Arc::new(NoFiles)).template(&template).unwrap(), "m1 Debian world 1");
}

#[test]
fn a_template_may_change_the_pillar_for_those_after_it() {
    let pillar = map! { "web" => map! { "sites" => map! { "a" => 1 }, "port" => 80 } };
    let (ctx, _) = exec::testing::context(&[&PILLAR], map! {}, map! {}, pillar);
    let renderer = Renderer::new(ctx, Arc::new(NoFiles));
    let rendered = |text| {
        let request = Request { text, path: Some(Path::new("/srv/x.sls")), saltenv: "base", ..Request::default() };
        renderer.render(&request).unwrap().to_string()
    };
    rendered("{% do salt['pillar.get']('web:sites').update({'b': 2}) %}\nx: y");
    assert_eq!(rendered("{{ salt['pillar.get']('web:sites', {}) }}"), "{'a': 1, 'b': 2}");
    assert_eq!(rendered("x: {{ pillar.web.sites.b }}"), "{'x': 2}");
    // Anything else is asked of the function.
    assert_eq!(rendered("x: {{ salt['pillar.get']('web:port') }}"), "{'x': 'asked'}");
    assert_eq!(rendered("x: {{ salt['pillar.get']('web:sites', merge=True) }}"), "{'x': 'asked'}");
}

const WITH_SETTINGS: &str = "\
#!stateconf -s yaml . jinja
.params:
  stateconf.set:
    - port: 80
# --- end of state config ---
include:
  - .other
.web:
  cmd.run:
    - require:
      - pkg: .package
    - port: {{ params.port }}
    - dir: {{ sls_dir }}
";

#[test]
fn stateconf_gives_ids_to_a_file_and_settings_to_its_templates() {
    let path = Some(Path::new("/srv/site/web/front.sls"));
    let request = Request { text: WITH_SETTINGS, path, sls: "site.web.front", saltenv: "base", ..Request::default() };
    let found = renderer(map! {}).render(&request).unwrap();
    let set = |args: value::Value| map! { "stateconf.set" => list![args] };
    let run = list![
        map! { "name" => "web" },
        map! { "require" => list![map! { "pkg" => "site.web.front::package" }] },
        map! { "port" => 80 },
        map! { "dir" => "site/web" },
    ];
    let all = list![
        map! { "stateconf" => "site.web.front::params" },
        map! { "cmd" => "site.web.front::web" },
        map! { "stateconf" => "site.web.front::start" },
    ];
    let expected = map! {
        "include" => list![map! { "base" => "site.web.other" }],
        "site.web.front::params" => set(map! { "port" => 80 }.into()),
        "site.web.front::web" => map! { "cmd.run" => run },
        "site.web.front::start" =>
            set(map! { "require_in" => list![map! { "stateconf" => "site.web.front::params" }] }.into()),
        "site.web.front::goal" => set(map! { "require" => all }.into()),
    };
    assert_eq!(value::python::repr(&found), value::python::repr(&expected.into()));
}
