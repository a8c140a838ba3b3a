//! Runs the renderers of a text.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use exec::Context;
use value::{Map, Value};

use crate::jinja::Templates;
use crate::pipe::{Limits, Step, pipeline};
use crate::steps::{self, gpg::Gpg};
use crate::{Error, Loader, Request, Template};

/// Renders texts for one minion: with its options, grains and pillar, and the functions its templates may call. What all
/// templates of a run see is made once for the run ([`exec::Memo`]).
pub struct Renderer {
    templates: Templates,
    limits: Limits,
}

/// Engines of Salt that are not here.
const OTHER_ENGINES: [&str; 6] = ["cheetah", "genshi", "mako", "py", "wempy", "file_pattern"];

impl Renderer {
    /// Renders with the options, grains, pillar and functions of a context.
    pub fn new(ctx: Context, loader: Arc<dyn Loader>) -> Self {
        let limits = Limits::of(&ctx.opts);
        Renderer { templates: Templates::new(ctx, loader), limits }
    }

    /// Returns the context it renders with.
    pub fn context(&self) -> &Context {
        &self.templates.ctx
    }

    /// Runs a text through its renderers. Returns data, or text if no renderer produced data.
    ///
    /// # Errors
    /// The error in the text, in Salt's words.
    pub fn render(&self, request: &Request) -> Result<Value, Error> {
        let text = match request.path {
            Some(_) => python::universal_newlines(request.text),
            None => request.text.into(),
        };
        let source = request.path.map_or_else(|| ":string:".into(), Path::to_string_lossy);
        tracing::debug!(target: "salt.template", "compile template: {source}");
        let blank = python::strip(&text).is_empty();
        if blank && request.path.is_some() {
            tracing::debug!(target: "salt.template", "Template is an empty file: {source}");
            return Ok(Map::new().into());
        }
        let first_line = match request.path {
            Some(_) => text.lines().next().unwrap_or_default(),
            // For a text that is not a file, Salt checks the first word only, and fails when there is none.
            None if blank => return Err(Error::new("list index out of range")),
            None => python::strip(&text).split(python::is_space).next().unwrap_or_default(),
        };
        let default = request.default.or_else(|| self.context().opt_str("renderer")).unwrap_or("jinja|yaml");
        let pipe = pipeline(first_line, default, &self.limits)?;
        // Asked before the first renderer, because most of them normalize line ends.
        let windows = text.contains("\r\n");
        let mut data = match pipe.is_empty() {
            true => Map::new().into(),
            false => Value::Str(text.into_owned()),
        };
        for (step, left) in pipe.iter().zip((0..pipe.len()).rev()) {
            let began = Instant::now();
            data = self.step(step, data, request)?;
            let (name, took) = (&step.name, began.elapsed().as_secs_f64());
            tracing::debug!(
                target: "salt.template",
                profile = true,
                "Time (in seconds) to render '{source}' using '{name}' renderer: {took}"
            );
            if let (Value::Str(text), 1..) = (&data, left) {
                tracing::debug!(target: "salt.template", "Rendered data from file: {source}:\n{text}");
            }
        }
        match data {
            Value::Str(text) if windows && !text.contains("\r\n") => Ok(text.replace('\n', "\r\n").into()),
            data => Ok(data),
        }
    }

    fn step(&self, step: &Step, data: Value, request: &Request) -> Result<Value, Error> {
        let refuse_argument = || match step.argline.as_str() {
            // `-s` says that the input is text instead of a path. Here it always is.
            "" | "-s" => Ok(()),
            other => Err(Error::new(format!("Unknown renderer option: {other}"))),
        };
        match step.name.as_str() {
            "jinja" => {
                refuse_argument()?;
                let text = steps::text(data)?;
                self.templates.sls(&text, request).map(Value::Str)
            }
            "yaml" => steps::yaml::render(&steps::text(data)?).inspect(|data| {
                tracing::debug!(target: "salt.loaded.int.render.yaml", "Results of YAML rendering: \n{data}");
            }),
            "json" => steps::json::render(&steps::text(data)?),
            "stateconf" => {
                let run = |step: &Step, data, request: &Request| self.step(step, data, request);
                steps::stateconf::render(&run, &self.context().memo, data, &step.argline, request)
            }
            "gpg" => self.gpg().render(data, request.translate_newlines),
            other => Err(Error::unsupported(format!("the renderer '{other}'"))),
        }
    }

    /// Returns what decrypts with the options of the context.
    pub fn gpg(&self) -> Gpg {
        let ctx = self.context();
        Gpg::of(&ctx.opts, &ctx.grains, &ctx.pillar)
    }

    /// Runs a text through a template engine.
    ///
    /// # Errors
    /// The error in the text, in Salt's words.
    pub fn template(&self, template: &Template) -> Result<String, Error> {
        match template.engine {
            "jinja" => self.templates.file(template),
            engine if OTHER_ENGINES.contains(&engine) => {
                Err(Error::unsupported(format!("the template engine '{engine}'")))
            }
            engine => Err(Error::new(format!("Specified template format {engine} is not supported"))),
        }
    }
}
