//! Sources of SLS files.

use value::{Map, Value};

/// A rendered SLS file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sls {
    /// The data.
    pub data: Value,
    /// True if the file is an `init.sls`. Relative names in it start one level deeper.
    pub is_init: bool,
}

/// The reasons why an SLS file yields no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The file does not exist.
    NotFound,
    /// The file does not render. Contains the renderer's message.
    Render(String),
    /// The source of the files is unavailable.
    Unreachable(String),
}

/// A source of SLS files: the master's file server, directories, or a test.
pub trait Sources: Send + Sync {
    /// Returns the environments of the file server.
    fn envs(&self) -> Result<Vec<String>, String>;

    /// Returns the names of all SLS files of an environment.
    fn states(&self, saltenv: &str) -> Result<Vec<String>, String>;

    /// Renders an SLS file.
    fn render(&self, sls: &str, saltenv: &str) -> Result<Sls, Failed>;

    /// Renders the top file of an environment; `None` when it has none.
    fn top(&self, saltenv: &str) -> Result<Option<Value>, String>;

    /// Returns what `master_tops` adds to the top files: environments with SLS names.
    fn master_tops(&self) -> Result<Map, String>;
}
