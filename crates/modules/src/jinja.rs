//! `jinja` — looking at what templates would import.

use exec::{Context, Error, Module, Result, function};
use python::json;
use value::Value;

use crate::templates::{self, Sls};

/// Registers the functions of `jinja`.
pub static MODULE: Module =
    Module::new("jinja", "Looking at what templates would import.", &[&IMPORT_JSON, &IMPORT_YAML, &LOAD_MAP]);

fn render(ctx: &Context, template: String) -> Result<Value> {
    let sls = Sls { text: template, path: Some("jinja".into()), saltenv: "base".into(), ..Sls::default() };
    let value = templates::data(ctx, sls)?;
    // As in Salt, the result goes through JSON: keys become text.
    let text = json::dumps(&value, &json::Style::default()).map_err(Error::Other)?;
    json::loads(&text).map_err(Error::Other)
}

/// Returns a value of a map file as templates see it when they import it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion jinja.load_map /path/to/map.jinja map_variable_name
#[function]
fn load_map(ctx: &Context, path: String, value: String) -> Result<Value> {
    render(ctx, format!("{{% from \"{path}\" import {value} with context %}}\n{{{{ {value} | tojson }}}}\n"))
}

/// Returns a file of YAML as templates see it when they import it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion jinja.import_yaml /path/to/file.yaml
#[function]
fn import_yaml(ctx: &Context, path: String) -> Result<Value> {
    render(ctx, format!("{{% import_yaml \"{path}\" as imported %}}\n{{{{ imported | tojson }}}}\n"))
}

/// Returns a file of JSON as templates see it when they import it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt myminion jinja.import_json /path/to/file.json
#[function]
fn import_json(ctx: &Context, path: String) -> Result<Value> {
    render(ctx, format!("{{% import_json \"{path}\" as imported %}}\n{{{{ imported | tojson }}}}\n"))
}
