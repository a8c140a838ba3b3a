//! States of the web server Apache: `apache` (its configuration) here, `apache_conf`, `apache_module` and `apache_site`
//! in separate files.

pub mod conf;
pub mod module;
pub mod site;
mod switch;

use std::path::Path;

use exec::{Context, Error, Module, Result, function};
use python::{strip, universal_newlines};
use value::{Map, Value, map};

use crate::support::{call, needs};
use crate::{Ret, args};

const NOT_LOADED: &str = "apache module could not be loaded";

/// The module.
pub static MODULE: Module = Module::new("apache", "The configuration of Apache.", &[&CONFIGFILE])
    .only_if(|grains| needs(&[modules::apache::program(grains)], NOT_LOADED));

/// Checks that the functions to enable and disable something exist.
fn switches(grains: &Map, families: &[&str]) -> std::result::Result<(), String> {
    match grains.get_str("os_family").is_some_and(|family| families.contains(&family)) {
        true => needs(&["apache2ctl"], NOT_LOADED),
        false => Err(NOT_LOADED.into()),
    }
}

fn read(path: &str) -> Result<String> {
    if !Path::new(path).exists() {
        return Ok(String::new());
    }
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    Ok(universal_newlines(&text).into_owned())
}

/// Makes sure that a file has a configuration, which is given as a list of maps. In a section the key ``this`` is the
/// argument of the section.
#[function]
fn configfile(ctx: &Context, name: String, config: Value) -> Result<Ret> {
    let ret = Ret::new(name.as_str());
    let wish = call(ctx, "apache.config", args![name.as_str(), config], map! { "edit" => false })?.to_string();
    let current = read(&name)?;
    if strip(&wish) == strip(&current) {
        return Ok(ret.ok("Configuration is up to date."));
    }
    let changes = map! { "old" => current, "new" => wish.as_str() };
    if ctx.is_test() {
        return Ok(ret.would("Configuration will update.").changed(changes));
    }
    Ok(match std::fs::write(&name, format!("{wish}\n")) {
        Ok(()) => ret.ok("Successfully created configuration.").changed(changes),
        Err(error) => {
            tracing::error!("failed to write {name}: {error}");
            ret.fail("Failed to create apache configuration.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    fn state(path: &str, test: bool) -> Ret {
        let module: &'static Module = Box::leak(Box::new(modules::apache::MODULE.clone().only_if(|_| Ok(()))));
        let (ctx, _agent) =
            exec::testing::with_states(&[module], &[&MODULE], map! { "test" => test }, map! {}, map! {});
        let config = list![map! { "Listen" => "80" }, map! { "If" => map! { "this" => "x", "Do" => "y" } }];
        let call = exec::Call { args: args![path, config], kwargs: map! {} };
        Ret::from_value(ctx.call_state("apache.configfile", call).unwrap())
    }

    #[test]
    fn files_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ports.conf");
        let name = path.to_str().unwrap();
        let text = "Listen 80\n<If x>\nDo y\n</If>\n";
        let changes = map! { "old" => "", "new" => text };
        let ret = Ret::new(name);
        let would = ret.clone().would("Configuration will update.").changed(changes.clone());
        assert_eq!(state(name, true), would);
        assert!(!path.exists());
        let done = ret.clone().ok("Successfully created configuration.").changed(changes);
        assert_eq!(state(name, false), done);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{text}\n"));
        std::fs::write(&path, text.replace('\n', "\r\n")).unwrap();
        assert_eq!(state(name, false), ret.ok("Configuration is up to date."));
        let missing = folder.path().join("none/ports.conf");
        let missing = missing.to_str().unwrap();
        assert_eq!(state(missing, false), Ret::new(missing).fail("Failed to create apache configuration."));
    }
}
