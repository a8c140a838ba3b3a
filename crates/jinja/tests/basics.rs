//! Templates in a few words: what each part of the language does.

use std::collections::HashMap;
use std::sync::Arc;

use saltern_jinja::{
    Environment, Error, Key, Limits, MapLoader, Object, RenderOptions, Set, Template, UndefinedKind, Value, Vars,
};

fn environment(templates: &[(&str, &str)]) -> Arc<Environment> {
    let mut env = Environment::new();
    env.undefined = UndefinedKind::Strict;
    let templates: HashMap<String, String> =
        templates.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    env.loader = Some(Arc::new(MapLoader(templates)));
    Arc::new(env)
}

fn render_with(templates: &[(&str, &str)], source: &str) -> Result<String, Error> {
    Template::compile(&environment(templates), None, source)?.render(Vars::default())
}

fn render(source: &str) -> String {
    match render_with(&[], source) {
        Ok(text) => text,
        Err(error) => format!("{error}"),
    }
}

#[test]
fn values_are_shared() {
    assert_eq!(render("{% set a = [] %}{% set b = a %}{% do b.append(1) %}{{ a }}"), "[1]");
    // A value that contains itself must print and not recurse for ever.
    assert_eq!(render("{% set a = {} %}{% do a.update({'x': a}) %}{{ a }}"), "{'x': {...}}");
    assert_eq!(render("{{ {1: 'a'}[True] }} {{ {1: 'a'}[1.0] }}"), "a a");
}

/// A value that counts its living copies.
struct Probe {
    _copy: Arc<()>,
}

impl Object for Probe {
    fn type_name(&self) -> &str {
        "Probe"
    }
}

#[test]
fn nothing_of_a_rendering_with_macros_is_left_behind() {
    // Each source makes a different kind of cycle: through the context, a shared cell, a loop, an import, a scoped
    // block.
    let library = "{% set kept = probe %}{% macro shout() %}{{ kept and 'x' }}{% endmacro %}";
    let env = environment(&[("lib", library)]);
    for source in [
        "{% macro m() %}{{ probe and 'x' }}{% endmacro %}{{ m() }}",
        "{% set kept = probe %}{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{{ kept and 'x' }}{% endmacro %}{{ m(2) }}",
        "{% for i in [1, 2] %}{% set kept = probe %}{% macro m() %}{{ kept and m and 'x' }}{% endmacro %}{{ m() }}{% endfor %}",
        "{% import 'lib' as lib with context %}{{ lib.shout() }}",
        "{% include 'lib' with context %}{% block b scoped %}{% macro m() %}{{ probe and 'x' }}{% endmacro %}{{ m() }}{% endblock %}",
    ] {
        let count = Arc::new(());
        let vars = Vars::from_iter([("probe".into(), Value::object(Probe { _copy: count.clone() }))]);
        let text = Template::compile(&env, None, source).and_then(|template| template.render(vars)).unwrap();
        assert!(text.contains('x'), "{source}: {text}");
        assert_eq!(Arc::strong_count(&count), 1, "{source}");
    }
}

#[test]
fn sets_change_in_place() {
    let with_set = |source: &str| {
        let numbers = [1, 2, 3].map(|number| Key::new(Value::Int(number)).expect("a number is a key"));
        let mut vars = Vars::default();
        vars.insert("s".into(), Value::Set(Set::new(numbers)));
        let template = Template::compile(&environment(&[]), None, source).expect("well-formed");
        template.render(vars).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(with_set("{{ s.difference_update([1, 1], [9]) }} {{ s }}"), "None {2, 3}");
    assert_eq!(with_set("{% do s.intersection_update([3, 2], [2]) %}{{ s }}"), "{2}");
    // Items that occur twice in the argument count once.
    assert_eq!(with_set("{% do s.symmetric_difference_update([3, 3, 4]) %}{{ s }}"), "{1, 2, 4}");
    assert_eq!(with_set("{{ s.symmetric_difference([3, 3]) }} {{ s.issubset([1, 2, 3, 4]) }}"), "{1, 2} True");
    let refused = with_set("{{ s.difference_update(x=1) }}");
    assert!(refused.contains("difference_update() takes no keyword arguments"), "{refused}");
    let refused = render("{{ range(3).index() }}");
    assert!(refused.contains("range.index() takes exactly one argument (0 given)"), "{refused}");
}

#[test]
fn python_prints() {
    assert_eq!(
        render("{{ [1.0, 'it\\'s', None, True, (1,), {'a': 2 ** 70}] }}"),
        "[1.0, \"it's\", None, True, (1,), {'a': 1180591620717411303424}]"
    );
    assert_eq!(render("{{ '%05.1f|%-4s|%x' % (3.14159, 'ab', 255) }}"), "003.1|ab  |ff");
    assert_eq!(render("{{ '{0:>5}|{a[b]}'.format(1, a={'b': 2}) }}"), "    1|2");
    assert_eq!(render("{{ {'a': 1}.items() }} {{ range(3) }}"), "dict_items([('a', 1)]) range(0, 3)");
}

#[test]
fn loops() {
    assert_eq!(
        render("{% for a, b in {'x': 1}.items() %}{{ loop.index }}{{ a }}{{ b }}{% else %}-{% endfor %}"),
        "1x1"
    );
    assert_eq!(render("{% for x in [1, 2, 3] if x > 1 %}{{ x }}{{ loop.last }}{% endfor %}"), "2False3True");
    assert_eq!(
        render(
            "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}"
        ),
        "1(2(3))"
    );
    assert_eq!(
        render(
            "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}{% endif %}{{ x }}{% endfor %}"
        ),
        "013"
    );
}

#[test]
fn macros() {
    assert_eq!(
        render("{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}"),
        "12(3,){'x': 4}"
    );
    assert_eq!(render("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}"), "<1>");
    assert_eq!(render("{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}"), "5");
}

#[test]
fn templates_together() {
    let templates = [
        ("base", "[{% block a %}base{% endblock %}]"),
        ("lib", "{% set v = 3 %}{% macro m(x) %}{{ x }}{{ v }}{{ y is defined }}{% endmacro %}"),
        ("part", "{{ y }}"),
    ];
    let show = |source: &str| render_with(&templates, source).unwrap_or_else(|error| error.to_string());
    assert_eq!(show("{% extends 'base' %}{% block a %}{{ super() }}!{% endblock %}"), "[base!]");
    assert_eq!(show("{% from 'lib' import m, v as w %}{{ m(1) }}{{ w }}"), "13False3");
    assert_eq!(show("{% set y = 1 %}{% import 'lib' as lib with context %}{{ lib.m(1) }}"), "13True");
    assert_eq!(show("{% for y in [1, 2] %}{% include 'part' %}{% endfor %}{% include 'none' ignore missing %}"), "12");
    assert_eq!(show("{% include 'none' %}"), "TemplateNotFound: none (line 1)");
}

#[test]
fn errors_have_places() {
    assert_eq!(render("a\n{{ x }}"), "UndefinedError: 'x' is undefined (line 2)");
    assert_eq!(render("{{ {}.x.y }}"), "UndefinedError: 'dict object' has no attribute 'x' (line 1)");
    assert_eq!(
        render("{{ ''.__class__ }}"),
        "SecurityError: access to attribute '__class__' of 'str' object is unsafe. (line 1)"
    );
    assert_eq!(
        render("{% if %}"),
        "TemplateSyntaxError: Expected an expression, got 'end of statement block' (line 1)"
    );
    assert_eq!(render("{{ 1 + 'a' }}"), "TypeError: unsupported operand type(s) for +: 'int' and 'str' (line 1)");
}

#[test]
fn bounds_hold() {
    let env = environment(&[]);
    let limited = |source: &str| {
        let limits = Limits { steps: 10_000, output_bytes: 10_000, depth: 60, value_bytes: 10_000, items: 1_000 };
        let options = RenderOptions { limits: Some(limits), ..RenderOptions::default() };
        let rendered = Template::compile(&env, None, source).and_then(|t| t.render_with(Vars::default(), options));
        rendered.map_err(|error| error.kind().class().to_string())
    };
    // Each of these would take the machine's memory before the process noticed.
    for source in ["{{ 'x' * 10**9 }}", "{{ [1] * 10**9 }}", "{{ 10 ** (10 ** 10) }}", "{{ '%999999999d' % 1 }}"] {
        assert_eq!(limited(source), Err("MemoryError".to_string()), "{source}");
    }
    // A list that grows item by item is bounded whichever method adds the items.
    for added in ["l.append(a)", "l.insert(0, a)", "l.extend([a])"] {
        let source = format!("{{% set l = [] %}}{{% for a in range(1100) %}}{{% set _ = {added} %}}{{% endfor %}}");
        assert_eq!(limited(&source), Err("MemoryError".to_string()), "{source}");
    }
    assert_eq!(limited("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Err("RecursionError".to_string()));
    assert_eq!(
        limited("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}"),
        Err("TimeoutError".to_string())
    );
    assert_eq!(limited("{{ range(10 ** 9) }}"), Err("OverflowError".to_string()));
    // The parser must refuse this before its own recursion overflows the stack, which no test could catch.
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(limited(&format!("{{{{ {deep} }}}}")), Err("TemplateSyntaxError".to_string()));
}

#[test]
fn depth_costs_no_stack() {
    for source in [
        "{% set ns = namespace(x=1) %}{% for i in range(20000) %}{% set ns.x = [ns.x] %}{% endfor %}done",
        "{% set ns = namespace(x=1) %}{% for i in range(20000) %}{% set ns.x = {'k': (ns.x,)} %}{% endfor %}done",
        "{% set ns = namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x = ns.x|map('upper') %}{% endfor %}done",
    ] {
        assert_eq!(render(source), "done");
    }
    // Just below the limits: what is allowed must really work.
    let nested = format!("{{{{ {}1{} }}}}", "[".repeat(140), "]".repeat(140));
    assert_eq!(render(&nested), nested.trim_matches(['{', '}', ' ']));
    let chain = format!("{{{{ 1{} }}}}", " + 1".repeat(240));
    assert_eq!(render(&chain), "241");
    let walked = "{% set ns = namespace(x=[1]) %}{% for i in range(2000) %}{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}";
    assert!(render(walked).starts_with("RecursionError"));
}

#[test]
fn rendered_from_many_threads() {
    let template = Template::compile(&environment(&[]), None, "{% for x in items %}{{ x }}{% endfor %}");
    let template = template.expect("it compiles");
    // A template is compiled once and then shared by the jobs of a minion.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut vars = Vars::default();
                vars.insert("items".into(), Value::list(vec![Value::from(1), Value::from("a")]));
                assert_eq!(template.render(vars).expect("it renders"), "1a");
            });
        }
    });
}
