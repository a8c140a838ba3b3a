//! Where SLS files come from.

use futures_util::future::BoxFuture;
use value::{Map, Value};

/// What an SLS file renders to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sls {
    /// The data.
    pub data: Value,
    /// Whether the file is an `init.sls`: relative names start one level deeper then.
    pub is_init: bool,
}

/// Why there is no data of an SLS file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// There is no such file.
    NotFound,
    /// It does not render; the words of the renderer.
    Render(String),
    /// The files cannot be had at all.
    Unreachable(String),
}

/// Where SLS files come from: the master's file server, directories, or a test.
pub trait Sources: Send + Sync {
    /// Returns the environments the file server has.
    fn envs(&self) -> BoxFuture<'_, Result<Vec<String>, String>>;

    /// Returns the names of all SLS files of an environment.
    fn states<'a>(&'a self, saltenv: &'a str) -> BoxFuture<'a, Result<Vec<String>, String>>;

    /// Renders an SLS file.
    fn render<'a>(&'a self, sls: &'a str, saltenv: &'a str) -> BoxFuture<'a, Result<Sls, Failed>>;

    /// Renders the top file of an environment; `None` when it has none.
    fn top<'a>(&'a self, saltenv: &'a str) -> BoxFuture<'a, Result<Option<Value>, String>>;

    /// Returns what the master names beside top files (`master_tops`): environments with SLS names.
    fn master_tops(&self) -> BoxFuture<'_, Result<Map, String>>;
}
