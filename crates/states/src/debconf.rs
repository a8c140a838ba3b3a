//! `debconf`: answers to the questions that packages of Debian ask.

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::{Map, Value, list};

use crate::support::{call, needs};
use crate::{Ret, args};

/// The module.
pub static MODULE: Module =
    Module::new("debconf", "Questions of packages are answered.", &[&SET, &SET_FILE]).only_if(|grains| {
        match grains.get_str("os_family") {
            Some("Debian") => needs(&["debconf-get-selections"], "debconf module could not be loaded"),
            _ => Err("debconf state only runs on Debian systems".into()),
        }
    });

/// An argument that is a map, or was not given.
fn mapped(value: Value) -> Option<Map> {
    if value.is_null() { Some(Map::new()) } else { value.into_map() }
}

/// Applies the answers in a file, which may be a template.
#[function]
fn set_file(
    ctx: &Context,
    name: String,
    source: Value,
    template: Option<String>,
    #[default(Value::Null)] context: Value,
    #[default(Value::Null)] defaults: Value,
    kwargs: KwArgs,
) -> Result<Ret> {
    let ret = Ret::new(name);
    let Some(context) = mapped(context) else { return Ok(ret.fail("Context must be formed as a dict")) };
    let Some(defaults) = mapped(defaults) else { return Ok(ret.fail("Defaults must be formed as a dict")) };
    if ctx.is_test() {
        return Ok(ret.would("Debconf selections would have been set."));
    }
    let done = match template.filter(|template| !template.is_empty()) {
        Some(template) => {
            let place = args![source, template, context, defaults];
            call(ctx, "debconf.set_template", place, kwargs.given())?
        }
        None => call(ctx, "debconf.set_file", args![source], kwargs.given())?,
    };
    Ok(match done.truthy() {
        true => ret.ok("Debconf selections were set."),
        false => ret.fail("Unable to set debconf selections from file."),
    })
}

/// An answer: its type and value; booleans are words in small letters.
fn answer(question: &str, wish: &Value) -> Result<(Value, Value)> {
    let part = |name: &str| {
        wish.get(name).cloned().ok_or_else(|| Error::Other(format!("the answer to '{question}' has no '{name}'")))
    };
    let (kind, value) = (part("type")?, part("value")?);
    let boolean = kind.as_str() == Some("boolean");
    let word = if value.truthy() { "true" } else { "false" };
    Ok((kind, if boolean { word.into() } else { value }))
}

/// Answers questions of a package: a map of questions with `type` and `value`.
#[function]
fn set(ctx: &Context, name: String, data: Map, kwargs: KwArgs) -> Result<Ret> {
    let _ = kwargs;
    let mut ret = Ret { result: Some(true), ..Ret::new(name.as_str()) };
    let known = call(ctx, "debconf.show", args![name.as_str()], Map::new())?;
    let known = known.as_list().unwrap_or_default();
    for (question, wish) in &data {
        let (kind, value) = answer(&question.to_string(), wish)?;
        if known.contains(&list![question.clone(), kind.clone(), value.to_string()]) {
            let before = ret.comment.to_string();
            let before = if before.is_empty() { "Unchanged answers: ".to_owned() } else { before };
            ret.comment = format!("{before}{question} ").into();
            continue;
        }
        let secret = kind.as_str() == Some("password");
        let shown = if secret { "(password hidden)".to_owned() } else { value.to_string() };
        if ctx.is_test() {
            ret.result = None;
            ret.changes.insert(question.clone(), format!("New value: {shown}"));
            continue;
        }
        let place = args![name.as_str(), question.clone(), kind, value];
        if call(ctx, "debconf.set", place, Map::new())?.truthy() {
            ret.changes.insert(question.clone(), shown);
        } else {
            ret.result = Some(false);
            ret.comment = "Some settings failed to be applied.".into();
            ret.changes.insert(question.clone(), "Failed to set!");
        }
    }
    if ret.changes.is_empty() {
        ret.comment = "All specified answers are already set".into();
    }
    Ok(ret)
}
