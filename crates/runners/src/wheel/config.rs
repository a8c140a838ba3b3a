//! `config` — the master's configuration.

use std::path::Path;

use exec::{Error, Result, function};
use value::{Map, Value};

use crate::context::failed;
use crate::{Module, WheelContext, secrets};

/// The wheel functions `config.*`.
pub static MODULE: Module = Module::new("config", "The master's configuration.", &[&APPLY, &UPDATE_CONFIG, &VALUES]);

/// Returns the current options of the files. Passwords and other secrets are hidden.
#[function]
async fn values(ctx: &WheelContext) -> Result<Map> {
    ctx.blocking(|ctx| {
        // Fresh from the files: the running master's options may be older, and operators ask before a restart.
        let source = config::Source { path: ctx.config.paths.conf_file.clone() };
        let config = config::Master::load(&source, &config::LoadOptions::default()).map_err(failed)?;
        let mut options = config.raw;
        // The result is an event and a job, which more people may read than may call this.
        secrets::hide_options(&mut options);
        Ok(options)
    })
    .await
}

/// Sets one option in the main file of the configuration. Comments in the file are lost.
#[function]
async fn apply(ctx: &WheelContext, key: String, value: Value) -> Result<()> {
    ctx.blocking(move |ctx| {
        let mut path = ctx.config.paths.conf_file.clone();
        // `salt-run -c` names a directory.
        if path.is_dir() {
            path.push("master");
        }
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other.map_err(|error| Error::io("read", &path, &error))?,
        };
        // Salt writes every option with its default here. Only what the file has is kept, so that defaults stay
        // defaults.
        let mut options = match yaml::load(&text, &path.display().to_string()).map_err(failed)? {
            Value::Map(options) => options,
            Value::Null => Map::new(),
            other => return Err(Error::execution(format!("{} is a {}", path.display(), other.type_name()))),
        };
        options.insert(key, value);
        write(&path, &options.into())
    })
    .await
}

/// Writes options to a separate file in the directory of `default_include`.
#[function]
async fn update_config(ctx: &WheelContext, file_name: String, yaml_contents: Value) -> Result<String> {
    ctx.blocking(move |ctx| {
        let include = ctx.config.raw.get_str("default_include").unwrap_or("master.d/*.conf");
        let directory = ctx.config.config_dir.join(Path::new(include).parent().unwrap_or(Path::new("")));
        let name = format!("{file_name}.conf");
        // The name comes over the network. A slash would lead out of the directory.
        if file_name.is_empty() || name.contains(['/', '\0']) {
            return Ok("Invalid path".to_owned());
        }
        std::fs::create_dir_all(&directory).map_err(|error| Error::io("create", &directory, &error))?;
        write(&directory.join(&name), &yaml_contents)?;
        Ok(format!("Wrote {name}"))
    })
    .await
}

/// Replaces a file in one step, so that a master that starts at this moment reads the old one or the new one. Keeps
/// the mode.
fn write(path: &Path, content: &Value) -> Result<()> {
    let text = yaml::dump(content, yaml::Flow::Block);
    let writing = store::disk::Writing::SHARED;
    // Configuration with passwords is often readable by its owner only.
    let mode = std::fs::metadata(path).map(|state| state.permissions());
    store::disk::write(path, text.as_bytes(), writing).map_err(failed)?;
    match mode {
        Ok(mode) => std::fs::set_permissions(path, mode).map_err(|error| Error::io("set the mode of", path, &error)),
        Err(_) => Ok(()),
    }
}
