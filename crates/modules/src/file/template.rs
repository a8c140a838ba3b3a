//! Contents that are templates.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result, function};
use render::Template;
use value::{Map, Value, map};

/// The settings of a rendering.
#[derive(Clone, Debug)]
pub struct RenderArgs<'a> {
    /// The engine's name.
    pub engine: &'a str,
    /// The environment.
    pub saltenv: &'a str,
    /// The names given by the user.
    pub context: Map,
    /// Additional variables of the template.
    pub known: Map,
}

/// The engines Salt has.
const ENGINES: [&str; 6] = ["jinja", "mako", "cheetah", "genshi", "wempy", "py"];

/// Returns whether Salt has such an engine.
pub fn is_known(engine: &str) -> bool {
    ENGINES.contains(&engine)
}

/// Renders a file. The inner error is the state's message about a template that cannot be rendered.
pub fn file(ctx: &Context, place: &Path, order: RenderArgs<'_>) -> Result<std::result::Result<String, String>> {
    if !is_known(order.engine) {
        return Ok(Err(format!("Specified template format {} is not supported", order.engine)));
    }
    let bytes = std::fs::read(place).map_err(|error| Error::io("read", place, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => run(ctx, text, Some(place.to_owned()), order),
        Err(error) => Ok(Err(crate::templates::no_text(place, error.as_bytes()))),
    }
}

/// Renders text.
pub fn source(ctx: &Context, text: &str, order: RenderArgs<'_>) -> Result<std::result::Result<String, String>> {
    run(ctx, text.to_owned(), None, order)
}

fn run(
    ctx: &Context,
    text: String,
    path: Option<PathBuf>,
    order: RenderArgs<'_>,
) -> Result<std::result::Result<String, String>> {
    let (engine, saltenv) = (order.engine.to_owned(), order.saltenv.to_owned());
    let mut context = order.known;
    // The user's names take precedence over those that Salt adds.
    context.update(order.context);
    let renderer = crate::templates::renderer(ctx);
    let rendered = ctx.blocking(move || {
        let template = Template {
            text: &text,
            path: path.as_deref(),
            engine: &engine,
            saltenv: &saltenv,
            context: Some(&context),
        };
        renderer.template(&template)
    });
    Ok(rendered.map_err(|error| error.to_string()))
}

/// Renders text as a template; a map with result and comment where there is no such engine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' file.apply_template_on_contents contents='This is a {{ template }} string.' template=jinja "context={}" "defaults={'template': 'cool'}" saltenv=base
#[function]
pub fn apply_template_on_contents(
    ctx: &Context,
    contents: Value,
    template: String,
    context: Value,
    defaults: Value,
    saltenv: Value,
) -> Result<Value> {
    if !is_known(&template) {
        let comment = format!("Specified template format {template} is not supported");
        return Ok(map! { "result" => false, "comment" => comment }.into());
    }
    let mut known = super::sources::given_map(&defaults);
    known.update(super::sources::given_map(&context));
    let saltenv = super::sources::environment(&saltenv);
    let order = RenderArgs { engine: &template, saltenv: &saltenv, context: known, known: Map::new() };
    source(ctx, &contents.to_string(), order)?.map(Value::from).map_err(Error::Other)
}
