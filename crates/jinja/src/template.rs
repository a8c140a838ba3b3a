//! A compiled template.

use std::sync::Arc;

use crate::compile::{self, Code};
use crate::env::{Environment, Limits, Vars};
use crate::error::Error;
use crate::run::{self, State};
use crate::value::Str;

/// A compiled template: cheap to clone, shared between threads, rendered any number of times.
#[derive(Clone)]
pub struct Template {
    pub(crate) env: Arc<Environment>,
    pub(crate) code: Arc<Code>,
}

/// Options of one rendering.
#[derive(Default)]
pub struct RenderOptions {
    /// Variables that imported templates also see, on top of the environment's globals.
    pub globals: Vars,
    /// Limits that replace the environment's.
    pub limits: Option<Limits>,
}

impl Template {
    /// Compiles a text; `name` is the name in errors and in chains of `{% include %}`.
    pub fn compile(env: &Arc<Environment>, name: Option<&str>, source: &str) -> Result<Template, Error> {
        let code = compile::compile(env, name.map(Str::from), source)?;
        Ok(Template { env: env.clone(), code: Arc::new(code) })
    }

    /// Returns the name it was compiled with.
    pub fn name(&self) -> Option<&str> {
        self.code.name.as_deref()
    }

    /// Renders it with variables.
    pub fn render(&self, vars: Vars) -> Result<String, Error> {
        self.render_with(vars, RenderOptions::default())
    }

    /// Renders it with variables and options.
    pub fn render_with(&self, vars: Vars, options: RenderOptions) -> Result<String, Error> {
        let mut state = State::new(&self.env, options);
        run::render(&mut state, self, vars)
    }
}
