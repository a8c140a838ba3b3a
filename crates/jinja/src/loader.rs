//! Loaders: the source of templates that others include, import or extend.

use crate::error::Error;
use crate::run::State;
use crate::template::Template;
use crate::value::{Str, Value};

/// A template that a loader found.
pub struct Loaded {
    /// The text, or a compiled template.
    pub source: Source,
    /// Variables that become globals for the rest of the rendering, such as the directory of this template.
    pub globals: Vec<(Str, Value)>,
}

/// A template as a loader returns it.
pub enum Source {
    /// The text.
    Text(String),
    /// A template that was compiled with the same environment.
    Compiled(Template),
}

/// Finds templates by name.
///
/// A rendering loads each name once and keeps the result until it ends.
pub trait Loader: Send + Sync {
    /// Finds a template; fails with [`Error::not_found`] if there is none.
    ///
    /// `parent` is the name of the requesting template; [`State::global`] returns the current globals.
    fn load(&self, state: &mut State, name: &str, parent: Option<&str>) -> Result<Loaded, Error>;
}

/// Templates by name in memory.
#[derive(Clone, Debug, Default)]
pub struct MapLoader(pub std::collections::HashMap<String, String>);

impl Loader for MapLoader {
    fn load(&self, _: &mut State, name: &str, _: Option<&str>) -> Result<Loaded, Error> {
        let text = self.0.get(name).ok_or_else(|| Error::not_found(name))?;
        Ok(Loaded { source: Source::Text(text.clone()), globals: Vec::new() })
    }
}
