//! Times a map file of 1,000 lines against the real Jinja2 in one run:
//! `cargo run --release --example speed -- PYTHON`, with Salt's Python.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use saltern_jinja::{Environment, Template, UndefinedKind, Value, Vars};

/// A map file as formulas have it: settings for many systems, merged and read.
fn map_file() -> String {
    let mut text = String::from("{%- set settings = {} -%}\n{%- set os = grains.os_family -%}\n");
    for number in 0..90 {
        text.push_str(&format!(
            "{{%- set pkg{number} = {{\n  'name': 'pkg-{number}', 'version': '1.{number}',\n  'files': ['/etc/{number}.conf', '/etc/default/{number}'],\n  'opts': {{'port': {number}, 'host': 'localhost'}},\n}} -%}}\n\
             {{%- do pkg{number}.update({{'enabled': {number} % 2 == 0, 'os': os|lower}}) -%}}\n\
             {{%- if os == 'Debian' and pkg{number}.enabled -%}}\n{{%-   do pkg{number}.files.append('/etc/' ~ os|lower ~ '.d') -%}}\n\
             {{%- elif os in ['RedHat', 'Suse'] -%}}\n{{%-   set _ = pkg{number}.pop('version', none) -%}}\n{{%- endif -%}}\n\
             {{%- do settings.update({{pkg{number}.name: pkg{number}}}) -%}}\n"
        ));
    }
    text.push_str(
        "{%- for name, pkg in settings|dictsort %}\n{{ name }}:\n  version: {{ pkg.version|default('none') }}\n  enabled: {{ 'yes' if pkg.enabled else 'no' }}\n  files:\n  {%- for file in pkg.files %}\n    - {{ file }}{% if not loop.last %},{% endif %}\n  {%- endfor %}\n  {%- for key, value in pkg.opts.items() %}\n  {{ key }}: {{ value }}\n  {%- endfor %}\n{%- endfor %}\n",
    );
    text
}

const PYTHON: &str = r"
import json, sys, time, jinja2.sandbox, jinja2
source = sys.stdin.read()
def once():
    env = jinja2.sandbox.SandboxedEnvironment(undefined=jinja2.StrictUndefined, extensions=['jinja2.ext.do', 'jinja2.ext.loopcontrols'])
    env.globals['grains'] = {'os_family': 'Debian'}
    start = time.process_time(); template = env.from_string(source); middle = time.process_time()
    text = template.render(); return middle - start, time.process_time() - middle, text
once()
runs = [once() for _ in range(10)]
print(json.dumps([min(r[0] for r in runs), min(r[1] for r in runs), runs[0][2]]))
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let python = std::env::args().nth(1).ok_or("name Salt's Python")?;
    let source = map_file();
    let mut child = Command::new(python).args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no input")?.write_all(source.as_bytes())?;
    let answer: serde_json::Value = serde_json::from_slice(&child.wait_with_output()?.stdout)?;
    let mut env = Environment::new();
    env.undefined = UndefinedKind::Strict;
    env.add_global("grains", Value::Dict([("os_family", "Debian")].into_iter().collect()));
    let env = Arc::new(env);
    let (mut compile, mut render, mut text) = (f64::MAX, f64::MAX, String::new());
    for _ in 0..30 {
        let start = Instant::now();
        let template = Template::compile(&env, None, &source)?;
        compile = compile.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        text = template.render(Vars::default())?;
        render = render.min(start.elapsed().as_secs_f64());
    }
    let theirs = [answer[0].as_f64().unwrap_or(0.0), answer[1].as_f64().unwrap_or(0.0)];
    println!("{} lines, the same text: {}", source.lines().count(), answer[2].as_str() == Some(&text));
    println!(
        "compile: Jinja2 {:.2} ms, ours {:.2} ms, {:.0} times",
        theirs[0] * 1e3,
        compile * 1e3,
        theirs[0] / compile
    );
    println!("render:  Jinja2 {:.2} ms, ours {:.2} ms, {:.0} times", theirs[1] * 1e3, render * 1e3, theirs[1] / render);
    Ok(())
}
