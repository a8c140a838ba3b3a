//! Templates: any text compiles and renders or fails, within its bounds.

#![no_main]

use std::sync::Arc;

use jinja::{Environment, Limits, RenderOptions, TagKind, Template, UndefinedKind, Value, Vars};
use libfuzzer_sys::fuzz_target;

fn environment(choice: u8) -> Environment {
    let mut env = Environment::new();
    // Each bit turns one option on, so that the corpus covers their combinations.
    env.undefined = if choice & 1 == 0 { UndefinedKind::Strict } else { UndefinedKind::Chainable };
    env.syntax.trim_blocks = choice & 2 != 0;
    env.syntax.lstrip_blocks = choice & 4 != 0;
    env.autoescape = choice & 8 != 0;
    if choice & 16 != 0 {
        env.syntax.line_statement_prefix = Some("#".into());
        env.syntax.line_comment_prefix = Some("##".into());
    }
    env.tags.insert("load_text".into(), TagKind::Load { filter: "string".into(), end: &["endload"] });
    env.limits =
        // Far below the real limits: a target has to try thousands of inputs a second.
        Limits { steps: 20_000, output_bytes: 1 << 20, depth: 40, value_bytes: 1 << 16, items: 1 << 12 };
    env
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let env = Arc::new(environment(*choice));
    let Ok(template) = Template::compile(&env, Some("fuzz"), text) else { return };
    let mut vars = Vars::default();
    vars.insert("a".into(), Value::list(vec![Value::from(1), Value::from("text"), Value::None]));
    vars.insert("b".into(), Value::dict());
    vars.insert("c".into(), Value::from(7));
    let _ = template.render_with(vars, RenderOptions::default());
});
