//! Pillar: top file, matching, merging.
//!
//! A [`Compiler`] compiles the pillar of a minion from the files in `pillar_roots`: the top files say which SLS files the minion
//! gets; these are rendered, with their includes, and merged into one map. An error does not stop the rest; it is reported in
//! the list `_errors`, in Salt's words.
//!
//! Files go through the renderers of [`render`], so they may be templates; a [`World`] says which functions these may call.
//! External pillars add data before or after the files.
//!
//! Files that are the same for every minion are cached until they change on disk. Everything blocks.

mod compile;
mod decrypt;
mod ext;
mod files;
mod merge;
mod read;
mod sls;
mod top;
mod world;

use std::sync::Arc;

use config::{FileSettings, Master, Minion, PillarSettings, Roots};
use targeting::{Glob, PyRegex};
use value::Map;

pub use ext::{External, ExternalCall, GitExternal};
pub use merge::{Strategy, merge, merged};
pub use world::{Bare, World, world};

/// Compiles pillar.
pub struct Compiler {
    settings: PillarSettings,
    state_top: String,
    env_order: Vec<String>,
    nodegroups: Map,
    /// The renderers of a file that names none, joined by `|`.
    renderer: String,
    ignore_regex: Vec<PyRegex>,
    ignore_glob: Vec<Glob>,
    /// The environment of states if the minion names none.
    saltenv: Option<String>,
    excluded: Vec<String>,
    options: Map,
    limits: render::Limits,
    /// True if the options change Jinja's delimiters, so that a template cannot be recognised by the default ones.
    own_marks: bool,
    known: read::FileCache,
    world: Arc<dyn World>,
    externals: Vec<Arc<dyn External>>,
}

/// A request for the pillar of one minion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The minion's id.
    pub id: &'a str,
    /// Its grains.
    pub grains: Option<&'a Map>,
    /// The environment of its states.
    pub saltenv: Option<&'a str>,
    /// The environment of its pillar, if it wants only one.
    pub pillarenv: Option<&'a str>,
    /// Values from the command line, which override those in files.
    pub pillar_override: Option<&'a Map>,
    /// External pillars that the minion requests.
    pub ext: Option<&'a Map>,
    /// Additional data that the minion sent.
    pub extra_minion_data: Option<&'a Map>,
}

/// Invalid settings.
#[derive(Debug, thiserror::Error)]
#[error("failed to prepare pillar: file_ignore_regex")]
pub struct Error(#[from] targeting::Error);

impl Compiler {
    /// Returns a compiler for a master.
    pub fn new(master: &Master) -> Result<Self, Error> {
        Self::from_parts(&master.pillar, &master.files, &master.nodegroups, &master.raw)
    }

    /// Returns a compiler for a minion without a master.
    pub fn for_minion(minion: &Minion) -> Result<Self, Error> {
        let nodegroups = minion.raw.get("nodegroups").and_then(value::Value::as_map).cloned().unwrap_or_default();
        // As in Salt, a minion has no default for this option, and errors are then shown without details.
        let safe = minion.raw.get("pillar_safe_render_error").is_none_or(value::Value::truthy);
        let pillar = PillarSettings { pillar_safe_render_error: safe, ..minion.pillar.clone() };
        Self::from_parts(&pillar, &minion.files, &nodegroups, &minion.raw)
    }

    fn from_parts(pillar: &PillarSettings, files: &FileSettings, groups: &Map, options: &Map) -> Result<Self, Error> {
        let regexes = files.file_ignore_regex.iter().map(|pattern| PyRegex::search(pattern));
        let excluded = options.get("exclude_ext_pillar").and_then(value::Value::as_list).unwrap_or_default();
        Ok(Compiler {
            settings: pillar.clone(),
            state_top: files.state_top.clone(),
            env_order: files.env_order.clone(),
            saltenv: files.saltenv.clone(),
            nodegroups: groups.clone(),
            renderer: options.get_str("renderer").unwrap_or("jinja|yaml").to_owned(),
            ignore_regex: regexes.collect::<Result<_, _>>()?,
            ignore_glob: files.file_ignore_glob.iter().map(|pattern| Glob::new(pattern)).collect(),
            excluded: excluded.iter().map(value::Value::to_string).collect(),
            limits: render::Limits::of(options),
            own_marks: ["jinja_env", "jinja_sls_env"]
                .iter()
                .any(|name| options.get(name).is_some_and(value::Value::truthy)),
            options: options.clone(),
            known: read::FileCache::default(),
            world: Arc::new(world::bare),
            externals: Vec::new(),
        })
    }

    /// Sets the functions that templates and external pillars may call.
    pub fn with_world(mut self, world: Arc<dyn World>) -> Self {
        self.world = world;
        self
    }

    /// Adds an external pillar.
    pub fn with_external(mut self, external: Arc<dyn External>) -> Self {
        self.externals.push(external);
        self
    }

    /// Returns the pillar of a minion; errors are in `_errors`.
    pub fn compile(&self, request: &Request) -> Map {
        compile::Compilation::new(self, request).run()
    }

    /// Merges values from the command line into a compiled pillar.
    pub fn overridden(&self, pillar: Map, over: &Map) -> Map {
        let settings = &self.settings;
        let strategy = Strategy::from_name(&settings.pillar_source_merging_strategy, &self.renderer);
        merge(pillar, over, strategy, settings.pillar_merge_lists)
    }

    /// Returns the contents of all top files by environment and target: matcher and SLS files.
    ///
    /// # Errors
    /// The errors in them.
    pub fn show_top(&self, saltenv: Option<&str>) -> Result<Map, Vec<String>> {
        let wanted = top::RequestedEnvs { saltenv, pillarenv: self.settings.pillarenv.as_deref() };
        let files = files::Files::new(self, self.roots(wanted.pillarenv.or(saltenv)));
        let mut errors = Vec::new();
        let request = Request { saltenv, ..Request::default() };
        let compilation = compile::Compilation::new(self, &request);
        let top = compilation.top(&files, &wanted, &mut errors);
        if errors.is_empty() { Ok(top.to_map()) } else { Err(errors) }
    }

    /// Returns the directories of each environment for a request, with `__env__` replaced by the requested environment.
    fn roots(&self, env: Option<&str>) -> Roots {
        const ANY: &str = "__env__";
        let Some(template) = self.settings.pillar_roots.get(ANY) else { return self.settings.pillar_roots.clone() };
        let env = env.unwrap_or("base");
        // The minion names the environment, and it becomes part of a path on the master.
        let plain = env.split('/').all(|part| !matches!(part, "" | "." | "..")) && !env.contains('\0');
        let mut roots = Vec::new();
        for (name, directories) in self.settings.pillar_roots.iter().filter(|(name, _)| *name != ANY) {
            roots.push((name.to_owned(), directories.to_vec()));
        }
        if plain && self.settings.pillar_roots.get(env).is_none() {
            let named = template.iter().map(|directory| directory.to_string_lossy().replace(ANY, env).into());
            roots.push((env.to_owned(), named.collect()));
        }
        Roots::new(roots)
    }

    /// Returns whether a directory is ignored, by its bare name.
    fn is_ignored(&self, name: &str) -> bool {
        self.ignore_regex.iter().any(|regex| regex.is_match(name))
            || self.ignore_glob.iter().any(|glob| glob.matches(name))
    }

    /// Returns whether a text renders to the same for every minion.
    fn is_static(&self, text: &str) -> bool {
        !self.own_marks && read::is_static(text, &self.renderer, &self.limits)
    }
}

#[cfg(test)]
mod git_tests;
#[cfg(test)]
mod tests;
