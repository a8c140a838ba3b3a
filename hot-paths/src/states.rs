//! From the text of an SLS file to chunks that can run.

use std::fmt::Write as _;
use std::sync::Arc;

use jinja::{Environment, Template, Vars};
use state::StateFunctions;
use state::low::{self, Settings};
use value::{Map, Value, map};

/// A file as people write them: twenty configuration files of a service.
const SLS: &str = r#"
{%- set app = {'user': 'app', 'root': '/etc/app', 'ports': [80, 443, 8080]} %}
{%- macro option(name, value) -%}{{ name|upper }}={{ value|default('none', true) }}{%- endmacro %}
{%- for number in range(20) %}
{{ app.root }}/{{ number }}.conf:
  file.managed:
    - user: {{ app.user }}
    - mode: '{{ '0644' if number is even else '0600' }}'
    - contents: |
        {{ option('port', app.ports[number % 3]) }}
        {{ option('hosts', hosts|join(', ')) }}
  {%- if loop.index > 1 %}
    - require:
      - file: {{ app.root }}/{{ number - 1 }}.conf
  {%- endif %}
{%- endfor %}
"#;

pub fn render_jinja(times: usize) {
    let env = Arc::new(Environment::new());
    for _ in 0..times {
        let template = Template::compile(&env, Some("app"), SLS).expect("the template is right");
        let mut vars = Vars::default();
        let hosts = (0..5).map(|number| jinja::Value::from(format!("web{number}").as_str())).collect();
        vars.insert("hosts".into(), jinja::Value::list(hosts));
        assert!(template.render(vars).expect("it renders").len() > 3000);
    }
}

struct Everything;

impl StateFunctions for Everything {
    fn has(&self, _: &str) -> bool {
        true
    }
}

/// A hundred files, each of which requires the one before it, from YAML to chunks in order.
pub fn compile(times: usize) {
    let mut text = String::new();
    for number in 0..100 {
        let before =
            if number > 0 { format!("\n    - require: [{{file: /etc/app/{}}}]", number - 1) } else { String::new() };
        let _ = writeln!(text, "/etc/app/{number}:\n  file.managed:\n    - mode: '0644'\n    - contents: text{before}");
    }
    let (nothing, everything) = (Map::new(), Everything);
    let settings = Settings::new(&nothing, &nothing, &everything);
    for _ in 0..times {
        let high = yaml::load(&text, "app.sls").expect("it is YAML").into_map().expect("it is a map");
        let chunks = low::compile(declared(high), &settings).expect("the states are right");
        assert_eq!(chunks.in_order().count(), 100);
    }
}

/// What the gathering makes of a file: states as lists, with where they come from.
fn declared(mut high: Map) -> Map {
    for (_, body) in high.iter_mut() {
        let Some(Value::List(mut arguments)) = body.as_map_mut().and_then(|body| body.remove("file.managed")) else {
            continue;
        };
        arguments.push("managed".into());
        *body = map! { "file" => arguments, "__sls__" => "app", "__env__" => "base" }.into();
    }
    high
}
