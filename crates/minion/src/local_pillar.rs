//! The pillar of a minion without a master.

use std::sync::Arc;

use pillar::{Compiler, GitExternal, Request};
use value::{Map, Value};

use crate::machine::Machine;

/// Compiles the pillar from `pillar_roots` on this machine. `extra` holds the parameters of the caller: `saltenv`,
/// `pillarenv`, `pillar_override`, `ext`.
///
/// # Errors
/// Why it cannot be compiled, in words.
pub fn compile(machine: &Machine, extra: &Map) -> Result<Map, String> {
    let (config, grains) = (&machine.config, machine.grains());
    let world = pillar::world(machine.catalogue, &config.raw);
    let git = GitExternal::new(&config.raw, &config.paths.cachedir).map_err(|error| error.to_string())?;
    let compiler = Compiler::for_minion(config).map_err(|error| error.to_string())?;
    let compiler = compiler.with_world(world).with_external(Arc::new(git.fetching()));
    let option = |name: &str| extra.get_str(name).or_else(|| config.raw.get_str(name));
    Ok(compiler.compile(&Request {
        id: &config.id,
        grains: Some(&grains),
        saltenv: option("saltenv"),
        pillarenv: option("pillarenv"),
        pillar_override: extra.get("pillar_override").and_then(Value::as_map),
        ext: extra.get("ext").and_then(Value::as_map),
        ..Request::default()
    }))
}
