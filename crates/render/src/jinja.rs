//! Salt's templates: Jinja with the names, filters, tests and tags of Salt.

mod environment;
mod failure;
mod filters;
mod globals;
mod names;
pub(crate) mod salt;
mod session;
mod stack;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use exec::Context;
use jinja::{RenderOptions, Str, Value, Vars};
use value::Map;

use crate::{Error, Loader, Request, Template, convert};
use environment::Kind;
use session::{Names, Session};

/// A text and the names it is rendered with.
struct Job<'a> {
    text: &'a str,
    path: Option<&'a Path>,
    saltenv: &'a str,
    /// Additional names.
    context: Option<&'a Map>,
    /// The name of the SLS, if the text has one; it may be empty.
    sls: Option<&'a str>,
}

/// The templates of one minion: what they see, and where their files come from.
pub(crate) struct Templates {
    pub ctx: Context,
    loader: Arc<dyn Loader>,
    names: OnceLock<Arc<Names>>,
}

impl Templates {
    /// Templates that see the options, grains, pillar and functions of a context.
    pub fn new(ctx: Context, loader: Arc<dyn Loader>) -> Self {
        Templates { ctx, loader, names: OnceLock::new() }
    }

    /// Returns what all templates see.
    fn names(&self) -> &Names {
        self.names.get_or_init(|| Names::shared(&self.ctx))
    }

    /// Renders the text of an SLS file.
    pub fn sls(&self, text: &str, request: &Request) -> Result<String, Error> {
        let Request { path, saltenv, context, sls, .. } = *request;
        self.render(&Job { text, path, saltenv, context, sls: Some(sls) })
    }

    /// Renders a text for a file.
    pub fn file(&self, template: &Template) -> Result<String, Error> {
        let Template { text, path, saltenv, context, .. } = *template;
        let text = match path {
            // Salt opens template files in text mode, but takes text from other sources as it is.
            Some(_) => python::universal_newlines(text),
            None => text.into(),
        };
        let sls = context.and_then(|context| context.get_str("sls"));
        self.render(&Job { text: &text, path, saltenv, context, sls })
    }

    fn render(&self, job: &Job) -> Result<String, Error> {
        // Salt also asks whether the name is empty: a file that is rendered without an SLS gets the options for files.
        let kind = if job.sls.is_some_and(|sls| !sls.is_empty()) { Kind::Sls } else { Kind::File };
        let opts = &self.ctx.opts;
        let (header, body) = environment::header(job.text);
        let env = environment::get(opts, kind, header.as_ref());
        let session = Arc::new(Session::new(self, job.saltenv, job.path));
        let globals = self.variables(job, &session);
        // The names of a template's own place stay, whatever it imports.
        let own = ["tplfile", "tpldir", "tpldot"];
        let vars: Vars = own.iter().filter_map(|name| Some((Str::from(*name), globals.get(*name)?.clone()))).collect();
        let options = RenderOptions { globals, ..RenderOptions::default() };
        let rendered = env.template(None, &body).and_then(|template| template.render_with(vars, options));
        let mut output = rendered.map_err(|error| failure::in_salts_words(&error, &body, job.sls, &session))?;
        if job.text.ends_with('\n') {
            // Jinja drops the last newline; Salt puts it back.
            output.push('\n');
        }
        Ok(output)
    }

    /// Returns all names that a template sees.
    fn variables(&self, job: &Job, session: &Arc<Session>) -> Vars {
        let mut vars = Vars::default();
        let mut add = |name: &str, value: Value| drop(vars.insert(Str::from(name), value));
        let shared = self.names();
        add("salt", Value::object(salt::Functions::new(session)));
        add("grains", shared.grains.clone());
        add("pillar", shared.pillar.clone());
        add("opts", shared.opts.clone());
        add("saltenv", Value::str(job.saltenv));
        add(session::NAME, Value::object(session::Holder(Arc::clone(session))));
        if let Some(sls) = job.sls {
            add("sls", Value::str(sls));
        }
        // After Salt's own names: an explicit context hides them.
        for (name, value) in job.context.into_iter().flatten() {
            add(&name.to_string(), convert::seen(value));
        }
        // Only the external pillar `stack` passes this, and only its templates see the two names.
        if let Some(path) = job.context.and_then(|context| context.get("__stack__")?.get("cfg_path")?.as_str()) {
            vars.insert(Str::from("__salt__"), Value::object(salt::Functions::new(session)));
            vars.insert(Str::from("__stack__"), Value::object(stack::Stack::new(path)));
        }
        if let Some(sls) = job.sls {
            for (name, value) in names::of(job.path, sls) {
                // The caller's values win over those derived from the name of the SLS.
                vars.entry(Str::from(name)).or_insert_with(|| Value::from(value));
            }
        }
        vars
    }
}
