//! Templates that others include, import or extend.

use std::sync::Arc;

use super::context::{Context, Scope};
use super::exec;
use super::frame::Frame;
use super::state::State;
use crate::env::Vars;
use crate::error::{Error, ErrorKind};
use crate::python::{self, repr_str};
use crate::template::Template;
use crate::value::{Object, Str, Undefined, Value};

/// An imported template: its text and the names it exports.
pub(crate) struct Module {
    name: Option<Str>,
    text: String,
    exports: Vec<(Str, Value)>,
}

impl Module {
    fn get(&self, name: &str) -> Option<Value> {
        self.exports.iter().find(|(have, _)| &**have == name).map(|(_, value)| value.clone())
    }

    /// Returns an exported name, or the undefined value that says it is not exported.
    pub(super) fn export(&self, state: &State, frame: &Frame, name: &Str) -> Value {
        self.get(name).unwrap_or_else(|| {
            let mut position = format!("line {}", frame.line);
            if let Some(template) = &frame.template.code.name {
                position.push_str(&format!(" in {}", repr_str(template)));
            }
            let from = self.name.as_deref().map_or_else(|| "None".to_string(), repr_str);
            let hint = format!(
                "the template {from} (imported on {position}) does not export the requested name {}",
                repr_str(name)
            );
            Undefined::hint(state.env().undefined, hint, Value::Str(name.clone()))
        })
    }
}

impl Object for Module {
    fn type_name(&self) -> &str {
        "TemplateModule"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.environment")
    }

    fn get_attr(&self, _: &mut State, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.get(name))
    }

    fn str(&self, _: &mut State) -> Result<Option<String>, Error> {
        Ok(Some(self.text.clone()))
    }

    fn repr(&self, _: &mut State) -> Result<Option<String>, Error> {
        // Jinja prints an address for a template without a name.
        let name = self.name.as_deref().map_or_else(|| "memory:0".to_string(), repr_str);
        Ok(Some(format!("<TemplateModule {name}>")))
    }
}

fn make_module(state: &mut State, template: &Template, parent: Arc<Scope>) -> Result<Arc<Module>, Error> {
    let context = Context::new(template, parent);
    state.note(&context);
    let mut text = String::new();
    exec::root(state, template, &context, &mut text)?;
    Ok(Arc::new(Module { name: template.code.name.clone(), text, exports: context.exports() }))
}

/// Returns the module of a template without context, which runs once in a rendering.
fn default_module(state: &mut State, template: &Template) -> Result<Arc<Module>, Error> {
    let key: Str = template.code.name.clone().unwrap_or_else(|| "".into());
    // Jinja keeps this module on the template. A map file that ten templates import thus runs once in a rendering.
    if let Some(module) = state.modules.get(&key) {
        return Ok(module.clone());
    }
    // Globals only: without `with context` an imported template does not see the importing one's variables.
    let parent = Arc::new(Scope { vars: Vars::default(), next: Some(state.globals()) });
    let module = make_module(state, template, parent)?;
    state.modules.insert(key, module.clone());
    Ok(module)
}

/// Loads the template that an expression names.
pub(super) fn get_template(state: &mut State, frame: &Frame, name: &Value) -> Result<Template, Error> {
    match name {
        Value::Undefined(undefined) => Err(undefined.fail()),
        Value::Str(name) | Value::Markup(name) => {
            let name = name.clone();
            state.load(&name, frame.template.code.name.as_deref())
        }
        other => {
            // Jinja looks the name up in its cache first, where an unhashable one is a TypeError.
            crate::value::Key::new(other.clone())?;
            let text = state.str(other)?;
            state.load(&text, frame.template.code.name.as_deref())
        }
    }
}

fn select_template(state: &mut State, frame: &Frame, names: &Value) -> Result<Template, Error> {
    if let Value::Undefined(undefined) = names {
        return Err(undefined.fail());
    }
    let names = python::to_vec(state, names)?;
    if names.is_empty() {
        let text = "Tried to select from an empty list of templates.";
        return Err(Error::new(ErrorKind::NoneFound, text));
    }
    let mut parts = Vec::with_capacity(names.len());
    for name in &names {
        match get_template(state, frame, name) {
            Ok(template) => return Ok(template),
            Err(error) if is_missing(&error) => {}
            // An undefined name counts as missing. An error from inside a template has places and is reported.
            Err(error) if *error.kind() == ErrorKind::Undefined && error.places().is_empty() => {}
            Err(error) => return Err(error),
        }
        parts.push(match name {
            Value::Undefined(undefined) => undefined.message(),
            other => state.str(other)?,
        });
    }
    let text = format!("none of the templates given were found: {}", parts.join(", "));
    Err(Error::new(ErrorKind::NoneFound, text))
}

fn is_missing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NoneFound) && error.places().is_empty()
}

/// Includes a template, or the first of several that exists.
pub(super) fn include(
    state: &mut State,
    frame: &mut Frame,
    name: &Value,
    ignore_missing: bool,
    vars: Option<&[(Str, usize)]>,
    list: Option<bool>,
    out: &mut String,
) -> Result<(), Error> {
    let one = match list {
        // The compiler knows for literals; anything else is judged by its value.
        Some(list) => !list,
        None => matches!(name, Value::Str(_) | Value::Markup(_) | Value::Undefined(_)),
    };
    let found = if one { get_template(state, frame, name) } else { select_template(state, frame, name) };
    let template = match found {
        // Only a missing template is ignored: a missing include inside it is an error, as in Jinja.
        Err(error) if ignore_missing && is_missing(&error) => return Ok(()),
        other => other?,
    };
    match vars {
        Some(vars) => {
            let parent = frame.context.snapshot(frame.dump(vars));
            let context = Context::new(&template, parent);
            state.note(&context);
            exec::root(state, &template, &context, out)
        }
        None => {
            let module = default_module(state, &template)?;
            // The text was counted when the module ran, and counts again for each copy.
            state.wrote(module.text.len())?;
            out.push_str(&module.text);
            Ok(())
        }
    }
}

/// Imports a template; with `vars`, it sees the context and those variables.
pub(super) fn import(
    state: &mut State,
    frame: &mut Frame,
    name: &Value,
    vars: Option<&[(Str, usize)]>,
) -> Result<Arc<Module>, Error> {
    let template = get_template(state, frame, name)?;
    match vars {
        Some(vars) => {
            let parent = frame.context.snapshot(frame.dump(vars));
            make_module(state, &template, parent)
        }
        None => default_module(state, &template),
    }
}
