//! The steps from a request to a pillar.

use targeting::Facts;
use value::{Map, Value};

use crate::files::Files;
use crate::merge::{Strategy, merge};
use crate::sls::Renderer;
use crate::top::{Top, Wanted};
use crate::{Compiler, Request};

/// The pillar of one minion in the making.
pub(crate) struct Compilation<'a> {
    compiler: &'a Compiler,
    request: &'a Request<'a>,
    saltenv: Option<String>,
    pillarenv: Option<String>,
    strategy: Strategy,
}

impl<'a> Compilation<'a> {
    pub fn new(compiler: &'a Compiler, request: &'a Request<'a>) -> Self {
        let settings = &compiler.settings;
        let own = |text: &str| text.to_owned();
        let saltenv = request.saltenv.map(own).or_else(|| compiler.saltenv.clone());
        let configured = if settings.pillarenv_from_saltenv && request.pillarenv.is_none() {
            request.saltenv.map(own)
        } else {
            settings.pillarenv.clone()
        };
        Compilation {
            compiler,
            request,
            saltenv,
            pillarenv: request.pillarenv.map(own).or(configured).filter(|env| !env.is_empty()),
            strategy: Strategy::from_name(&settings.pillar_source_merging_strategy, &compiler.renderer),
        }
    }

    pub fn run(&self) -> Map {
        let empty = Map::new();
        let from_caller = self.request.pillar_override.unwrap_or(&empty);
        let wanted = Wanted { saltenv: self.request.saltenv, pillarenv: self.pillarenv.as_deref() };
        let mut files =
            Files::new(self.compiler, self.compiler.roots(self.pillarenv.as_deref().or(self.saltenv.as_deref())));
        let mut top_errors = Vec::new();
        let top = Top::gather(self.compiler, &files, &wanted, &mut top_errors);

        // Targets by pillar see what is there before the files: only what external sources and the caller gave.
        let first = self.compiler.settings.ext_pillar_first;
        let seen = if first { from_caller } else { &empty };
        let facts = Facts { id: self.request.id, grains: self.request.grains.unwrap_or(&empty), pillar: seen };
        let matches = top.matches(&facts, &self.compiler.nodegroups, &wanted, &mut top_errors);
        let mut renderer = Renderer::new(self.compiler, &mut files, self.strategy, &top.may_be_missing);
        let mut pillar = renderer.render(from_caller.clone(), matches);
        let mut errors = std::mem::take(&mut renderer.errors);

        if self.name_external(&mut errors) && !from_caller.is_empty() {
            pillar = self.merged(pillar, from_caller);
        }
        errors.extend(top_errors);
        self.finish(pillar, errors, from_caller)
    }

    fn finish(&self, mut pillar: Map, mut errors: Vec<String>, from_caller: &Map) -> Map {
        if self.compiler.settings.pillar_opts {
            pillar.insert("master", self.options());
        }
        if self.compiler.decrypts {
            errors.push("not supported: decrypt_pillar".into());
        }
        if !errors.is_empty() {
            for error in &errors {
                tracing::error!(minion = self.request.id, "Pillar render error: {error}");
            }
            pillar.insert("_errors", errors);
        }
        if from_caller.is_empty() { pillar } else { self.merged(pillar, from_caller) }
    }

    /// Names each external pillar in the log; says whether the option makes sense.
    fn name_external(&self, errors: &mut Vec<String>) -> bool {
        let asked = self.request.ext.map(|ext| Value::Map(ext.clone()));
        for entry in self.compiler.settings.ext_pillar.iter().chain(&asked) {
            let Value::Map(entry) = entry else {
                errors.push("The \"ext_pillar\" option is malformed".into());
                return false;
            };
            for name in entry.keys().map(Value::to_string) {
                if !self.compiler.excluded.contains(&name) {
                    self.compiler.warn_once(&name);
                }
            }
        }
        true
    }

    fn merged(&self, first: Map, second: &Map) -> Map {
        merge(first, second, self.strategy, self.compiler.settings.pillar_merge_lists)
    }

    /// The options of the master as they are for this minion.
    fn options(&self) -> Map {
        let mut options = self.compiler.options.clone();
        options.insert("id", self.request.id);
        options.insert("minion_id", self.request.id);
        options.insert("grains", self.request.grains.cloned().unwrap_or_default());
        options.insert("saltenv", self.saltenv.clone());
        options.insert("pillarenv", self.pillarenv.clone());
        options.insert("file_client", "local");
        options.insert("saltversion", env!("CARGO_PKG_VERSION"));
        options
    }
}
