//! Compiles the pillar of one minion.

use std::sync::Arc;

use config::Roots;
use targeting::Facts;
use value::{Map, Value};

use crate::ext::{self, ExternalCall};
use crate::files::Files;
use crate::merge::{Strategy, merge};
use crate::read::Reader;
use crate::sls::Renderer;
use crate::top::{RequestedEnvs, Top};
use crate::{Compiler, Request, decrypt};

/// The compilation of one minion's pillar.
pub(crate) struct Compilation<'a> {
    compiler: &'a Compiler,
    request: &'a Request<'a>,
    grains: Arc<Map>,
    roots: Roots,
    saltenv: Option<String>,
    pillarenv: Option<String>,
    strategy: Strategy,
}

impl<'a> Compilation<'a> {
    pub fn new(compiler: &'a Compiler, request: &'a Request<'a>) -> Self {
        let settings = &compiler.settings;
        let own = |text: &str| text.to_owned();
        let saltenv = request.saltenv.map(own).or_else(|| compiler.saltenv.clone());
        // An environment in the request always takes precedence. The option `pillarenv_from_saltenv` only fills a
        // missing one, and then hides the master's own `pillarenv`, even if there is no saltenv.
        let configured = if settings.pillarenv_from_saltenv && request.pillarenv.is_none() {
            request.saltenv.map(own)
        } else {
            settings.pillarenv.clone()
        };
        let pillarenv = request.pillarenv.map(own).or(configured).filter(|env| !env.is_empty());
        Compilation {
            compiler,
            request,
            grains: Arc::new(request.grains.cloned().unwrap_or_default()),
            roots: compiler.roots(pillarenv.as_deref().or(saltenv.as_deref())),
            saltenv,
            pillarenv,
            strategy: Strategy::from_name(&settings.pillar_source_merging_strategy, &compiler.renderer),
        }
    }

    /// Returns a compilation for other directories, such as a git checkout.
    pub fn of_roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Compiles the whole pillar.
    pub fn run(&self) -> Map {
        let empty = Map::new();
        let from_caller = self.request.pillar_override.unwrap_or(&empty);
        let first = self.compiler.settings.ext_pillar_first;
        let mut errors = Vec::new();
        // With `ext_pillar_first` the external data is already there when files are rendered and matched, so templates
        // and targets may use it. Otherwise external pillars see the data of the files.
        let before =
            if first { self.external(from_caller.clone(), &mut errors).unwrap_or_default() } else { Map::new() };
        let mut pillar = self.files(&before, first, &mut errors);
        if first {
            pillar = self.merged(before, &pillar);
        } else if let Some(with_external) = self.external(pillar.clone(), &mut errors) {
            // `external()` has merged the data of the files in already: replacing whole entries is enough.
            pillar.update(with_external);
        }
        self.finish(pillar, errors, from_caller)
    }

    /// Compiles the pillar from files only, without external pillars.
    pub fn run_files(&self) -> Map {
        let mut errors = Vec::new();
        let pillar = self.files(&Map::new(), false, &mut errors);
        let empty = Map::new();
        self.finish(pillar, errors, self.request.pillar_override.unwrap_or(&empty))
    }

    /// Compiles the part from files. Templates, and targets that match on pillar, see the data compiled `before`.
    fn files(&self, before: &Map, external_first: bool, errors: &mut Vec<String>) -> Map {
        let mut files = Files::new(self.compiler, self.roots.clone());
        let wanted = RequestedEnvs { saltenv: self.request.saltenv, pillarenv: self.pillarenv.as_deref() };
        let mut top_errors = Vec::new();
        // As in Salt, the templates of top files see no pillar, even with `ext_pillar_first`; only the targets do.
        let nothing = self.reader(Map::new());
        let top = Top::gather(self.compiler, &files, &nothing, &wanted, &mut top_errors);
        let facts = Facts { id: self.request.id, grains: &self.grains, pillar: before };
        let matches = top.matches(&facts, &self.compiler.nodegroups, &wanted, &mut top_errors);
        // If there is nothing more to see, the same reader is used again.
        let reader = if external_first { self.reader(before.clone()) } else { nothing };
        let mut renderer = Renderer::new(self.compiler, &mut files, &reader, self.strategy, &top.may_be_missing);
        let pillar = renderer.render(self.request.pillar_override.cloned().unwrap_or_default(), matches);
        errors.append(&mut renderer.errors);
        errors.extend(top_errors);
        pillar
    }

    /// Reads the top files without rendering the files they name.
    pub fn top(&self, files: &Files, wanted: &RequestedEnvs, errors: &mut Vec<String>) -> Top {
        Top::gather(self.compiler, files, &self.reader(Map::new()), wanted, errors)
    }

    fn reader(&self, pillar: Map) -> Reader<'_> {
        let pillar = Arc::new(pillar);
        Reader::new(self.compiler, self.roots.clone(), move || self.context(Arc::clone(&pillar)))
    }

    /// Returns the context of templates and external pillars.
    fn context(&self, pillar: Arc<Map>) -> exec::Context {
        self.compiler.world.context(Arc::new(self.options()), Arc::clone(&self.grains), pillar)
    }

    fn finish(&self, mut pillar: Map, errors: Vec<String>, from_caller: &Map) -> Map {
        // Off by default: this sends the whole configuration of the master, with its passwords, to every minion.
        if self.compiler.settings.pillar_opts {
            let mut options = self.options();
            options.insert("saltversion", exec::VERSION);
            pillar.insert("master", options);
        }
        if !errors.is_empty() {
            for error in &errors {
                tracing::error!(critical = true, minion = self.request.id, "Pillar render error: {error}");
            }
            // A minion refuses to apply states while this entry exists. Otherwise it would configure itself from half a
            // pillar.
            pillar.insert("_errors", errors);
        }
        if !from_caller.is_empty() {
            pillar = self.merged(pillar, from_caller);
        }
        self.decrypted(pillar)
    }

    /// Decrypts the values that the option `decrypt_pillar` lists.
    fn decrypted(&self, mut pillar: Map) -> Map {
        let Some(wanted) = self.compiler.options.get("decrypt_pillar").filter(|wanted| wanted.truthy()) else {
            return pillar;
        };
        // After everything else, so that values from external pillars and from the command line are decrypted too.
        let gpg = render::Gpg::of(&self.compiler.options, &self.grains, &pillar);
        let errors = decrypt::decrypt(&mut pillar, wanted, &self.compiler.options, &gpg);
        if errors.is_empty() {
            return pillar;
        }
        errors.iter().for_each(|error| tracing::error!(minion = self.request.id, "{error}"));
        let known = pillar.entry_or_insert_with("_errors", || Value::List(Vec::new()));
        if let Value::List(known) = known {
            known.extend(errors.into_iter().map(Value::from));
        }
        pillar
    }

    /// Merges the external pillars into a pillar; `None` if there are none, or if the option is malformed.
    fn external(&self, mut pillar: Map, errors: &mut Vec<String>) -> Option<Map> {
        let asked = self.on_demand().map(Value::Map);
        let entries: Vec<&Value> = self.compiler.settings.ext_pillar.iter().chain(&asked).collect();
        if let Some(from_caller) = self.request.pillar_override.filter(|given| !given.is_empty()) {
            pillar = self.merged(pillar, from_caller);
        }
        for entry in entries {
            let Value::Map(entry) = entry else {
                errors.push("The \"ext_pillar\" option is malformed".into());
                return None;
            };
            // As in Salt, only the first name in an entry can be excluded.
            let first = entry.keys().next().map(Value::to_string).unwrap_or_default();
            if self.compiler.excluded.contains(&first) {
                continue;
            }
            let mut found = None;
            for (name, arguments) in entry {
                let name = name.to_string();
                match self.one_external(&name, arguments, &pillar) {
                    Ok(Some(more)) => found = Some(more),
                    Ok(None) => {}
                    // One source that fails does not take the data of the others away, but the minion has to learn that
                    // data is missing.
                    Err(why) => errors.push(format!("Failed to load ext_pillar {name}: {why}")),
                }
            }
            if let Some(more) = found.filter(|more| !more.is_empty()) {
                pillar = self.merged(pillar, &more);
            }
        }
        Some(pillar)
    }

    fn one_external(&self, name: &str, arguments: &Value, pillar: &Map) -> Result<Option<Map>, String> {
        let ctx = self.context(Arc::new(pillar.clone()));
        let call = ExternalCall {
            id: self.request.id,
            ctx: &ctx,
            arguments,
            roots: &self.roots,
            saltenv: self.saltenv.as_deref(),
            pillarenv: self.pillarenv.as_deref(),
            extra_minion_data: self.request.extra_minion_data,
            compiler: self.compiler,
            request: self.request,
        };
        ext::load(name, &call)
    }

    /// Returns the external pillars that the minion requests; `None` if there are none or one of them is not allowed.
    fn on_demand(&self) -> Option<Map> {
        let asked = self.request.ext.filter(|asked| !asked.is_empty())?;
        let allowed = &self.compiler.settings.on_demand_ext_pillar;
        let mut refused: Vec<String> =
            asked.keys().map(Value::to_string).filter(|name| !allowed.contains(name)).collect();
        if refused.is_empty() {
            return Some(asked.clone());
        }
        // One refused name rejects the whole request, as in Salt: part of the data could mislead the minion's states.
        refused.sort();
        tracing::error!(
            "The following ext_pillar modules are not allowed for on-demand pillar data: {}. Valid on-demand ext_pillar \
             modules are: {}. The valid modules can be adjusted by setting the 'on_demand_ext_pillar' config option.",
            refused.join(", "),
            allowed.join(", ")
        );
        None
    }

    fn merged(&self, first: Map, second: &Map) -> Map {
        merge(first, second, self.strategy, self.compiler.settings.pillar_merge_lists)
    }

    /// Returns the master's options for this minion.
    fn options(&self) -> Map {
        let mut options = self.compiler.options.clone();
        options.insert("id", self.request.id);
        options.insert("minion_id", self.request.id);
        options.insert("grains", (*self.grains).clone());
        options.insert("saltenv", self.saltenv.clone());
        options.insert("pillarenv", self.pillarenv.clone());
        // Templates are rendered on the master, which reads included files from its own directories.
        options.insert("file_client", "local");
        options.insert("state_top", top_address(&self.compiler.state_top));
        options
    }
}

/// Returns the URL of the top file, which the option may give as a path.
fn top_address(top: &str) -> String {
    if top.starts_with("salt://") { top.to_owned() } else { format!("salt://{}", top.trim_start_matches('/')) }
}

impl ExternalCall<'_> {
    /// Compiles a pillar from the files in other directories, with their own top files, and without external pillars.
    pub fn compile(&self, roots: Roots, pillarenv: Option<&str>) -> Map {
        // Values from the command line are merged once, by the compilation around this one.
        let request = Request { pillarenv, pillar_override: None, ext: None, ..*self.request };
        Compilation::new(self.compiler, &request).of_roots(roots).run_files()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_becomes_a_url() {
        for (top, address) in
            [("top.sls", "salt://top.sls"), ("/a/top.sls", "salt://a/top.sls"), ("salt://x.sls", "salt://x.sls")]
        {
            assert_eq!(super::top_address(top), address);
        }
    }
}
