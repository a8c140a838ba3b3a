//! Configuration files: a map of options, written as YAML.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Options in the order they were set; a later value of the same name replaces the earlier.
#[derive(Debug, Clone, Default)]
pub struct Settings(Vec<(String, Value)>);

impl Settings {
    /// Sets an option.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.into()));
        self
    }

    /// Adds all of `other`, whose values win.
    pub fn extend(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            self.set(name, value.clone());
        }
    }

    /// Writes one `name: value` line per option; a JSON value is a YAML value.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines: String = self.0.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        fs::write(path, lines).with_context(|| format!("failed to write {}", path.display()))
    }
}
