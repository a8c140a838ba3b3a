//! The state of one rendering.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use exec::Context;
use jinja::value::Object;
use jinja::{Error, Key, Loaded, State, Str, Value};

use super::Templates;
use crate::convert;
use crate::{Loader, Source};
use value::Map;

/// The name, which no template can write, under which a rendering keeps its session.
pub(super) const NAME: &str = "\0session";

/// Values shared by all renderings of a run; a template that changes one changes it for later ones.
pub(super) struct Names {
    pub grains: Value,
    pub pillar: Value,
    pub opts: Value,
    /// The data they were made from. A run that uses other data, such as a new pillar, gets other names.
    made_of: [Arc<Map>; 3],
}

/// The names of a run, one entry for each of the few sets of data it uses.
#[derive(Default)]
struct OfRun(Mutex<Vec<Arc<Names>>>);

/// The number of entries kept: enough for states with specific options and for nested calls.
const MAX_NAMES: usize = 8;

impl Names {
    /// Returns the names of the run that a context belongs to.
    pub fn shared(ctx: &Context) -> Arc<Self> {
        let of_run = ctx.memo.get::<OfRun>();
        let mut known = of_run.0.lock().unwrap_or_else(PoisonError::into_inner);
        // By identity of the maps: comparing a whole pillar for each template would cost more than converting it.
        if let Some(names) = known.iter().find(|names| names.fit(ctx)) {
            return Arc::clone(names);
        }
        if known.len() >= MAX_NAMES {
            // The oldest goes first; those in use live on in their renderers.
            known.remove(0);
        }
        let names = Arc::new(Names::new(ctx));
        known.push(Arc::clone(&names));
        names
    }

    fn new(ctx: &Context) -> Self {
        let dict = |map| Value::Dict(convert::seen_map(map));
        let made_of = [&ctx.grains, &ctx.pillar, &ctx.opts].map(Arc::clone);
        let (grains, pillar) = (dict(&ctx.grains), dict(&ctx.pillar));
        // In Salt both are options too.
        let opts = convert::seen_map(&ctx.opts);
        opts.insert(Key::str("grains"), grains.clone());
        opts.insert(Key::str("pillar"), pillar.clone());
        Names { grains, pillar, opts: Value::Dict(opts), made_of }
    }

    fn fit(&self, ctx: &Context) -> bool {
        self.made_of.iter().zip([&ctx.grains, &ctx.pillar, &ctx.opts]).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// One rendering: the functions it may call and the files it can load.
pub(super) struct Session {
    pub ctx: Context,
    loader: Arc<dyn Loader>,
    saltenv: String,
    /// Without an environment, files are those beside the template.
    beside: Option<PathBuf>,
    /// The pillar as templates see it, shared with the renderings before and after this one.
    pub pillar: Value,
    /// The runtime, which threads of the engine do not know by themselves.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Files that were loaded, by the name templates gave.
    loaded: Mutex<HashMap<String, Source>>,
}

/// The session as a value.
pub(super) struct Holder(pub Arc<Session>);

impl Object for Holder {
    fn type_name(&self) -> &str {
        "object"
    }
}

impl Session {
    pub fn new(templates: &Templates, saltenv: &str, path: Option<&Path>) -> Self {
        Session {
            ctx: templates.ctx.clone(),
            loader: Arc::clone(&templates.loader),
            saltenv: saltenv.to_owned(),
            // Salt falls back to the template's own directory when there is no environment.
            beside: path.filter(|_| saltenv.is_empty()).and_then(Path::parent).map(Path::to_owned),
            pillar: templates.names().pillar.clone(),
            runtime: tokio::runtime::Handle::try_current().ok(),
            loaded: Mutex::default(),
        }
    }

    /// Returns the session of a rendering.
    pub fn of(state: &State) -> Option<Arc<Session>> {
        Some(Arc::clone(&state.global(NAME)?.downcast::<Holder>()?.0))
    }

    /// Returns a file that was loaded under a name.
    pub fn source(&self, name: &str) -> Option<Source> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn find(&self, path: &str) -> Result<Option<Source>, String> {
        // A whole path is a file of this machine, never one of the file server.
        if path.starts_with('/') && !self.saltenv.is_empty() {
            return crate::loader::file(Path::new(path));
        }
        if crate::loader::plain(path).is_none() {
            return Ok(None);
        }
        // Deep templates run on threads of the engine, which belong to no runtime.
        let _inside = self.runtime.as_ref().map(tokio::runtime::Handle::enter);
        if !self.saltenv.is_empty() {
            return self.loader.load(path, &self.saltenv);
        }
        match self.beside.clone() {
            Some(directory) => crate::Roots::new(move |_| vec![directory.clone()]).load(path, ""),
            None => Ok(None),
        }
    }
}

/// The engine's loader, which delegates to the session of the current rendering.
pub(super) struct FromSession;

impl jinja::Loader for FromSession {
    fn load(&self, state: &mut State, name: &str, _parent: Option<&str>) -> Result<Loaded, Error> {
        let session = Session::of(state).ok_or_else(|| Error::not_found(name))?;
        // Salt's rule: only a leading `.` or `..` makes a path relative to the importing file.
        let relative = matches!(name.split('/').next(), Some("." | ".."));
        let here = state.global("tpldir").and_then(|value| value.as_shared_str().cloned());
        let path = match (relative, &here) {
            (false, _) => name.to_owned(),
            // As in Salt, a path that leaves the roots counts as missing.
            (true, Some(here)) => below(here, name).ok_or_else(|| {
                tracing::warn!("Discarded template path \"{name}\": attempts to ascend outside of salt://");
                Error::not_found(name)
            })?,
            (true, None) => {
                tracing::warn!("Relative path \"{name}\" cannot be resolved without an environment");
                return Err(Error::not_found(name));
            }
        };
        let source = session.find(&path).map_err(|why| Error::other("SaltRenderError", why))?;
        let source = source.ok_or_else(|| Error::not_found(name))?;
        let directory = path.rsplit_once('/').map(|(directory, _)| directory).unwrap_or_default();
        let (file, directory) = match (relative, &here) {
            // Salt leaves `tpldir` as it was for a relative import.
            (true, Some(here)) => (name, &**here),
            _ => (path.as_str(), directory),
        };
        let shown = if directory.is_empty() { "." } else { directory };
        let globals =
            [("tplfile", file.to_owned()), ("tpldir", shown.to_owned()), ("tpldot", directory.replace('/', "."))]
                .map(|(name, value)| (Str::from(name), Value::from(value)));
        let text = source.text.to_string();
        // Before compiling: an error in the file must show its lines.
        session.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), source);
        let compiled = super::environment::compiled(state.env(), name, &text)?;
        Ok(Loaded { source: compiled, globals: globals.into() })
    }
}

/// Resolves a path that begins with dots; `None` if it leaves the roots. For a template outside the file server, the
/// result is absolute.
fn below(directory: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    let root = if directory.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn relative_paths_stay_below_the_roots() {
        assert_eq!(below("a/b", "./x").as_deref(), Some("a/b/x"));
        assert_eq!(below("a/b", "../x").as_deref(), Some("a/x"));
        assert_eq!(below(".", "./x").as_deref(), Some("x"));
        assert_eq!(below("a", "../../x"), None);
        assert_eq!(below("/srv/a", "../x").as_deref(), Some("/srv/x"));
    }
}
