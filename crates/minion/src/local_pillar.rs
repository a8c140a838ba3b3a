//! The pillar of a minion without a master.

use pillar::{Compiler, Request};
use value::{Map, Value};

/// Compiles the pillar from `pillar_roots` on this machine. `extra` holds what the caller asks for: `saltenv`, `pillarenv`,
/// `pillar_override`.
///
/// # Errors
/// Why it cannot be compiled, in words.
pub fn compile(config: &config::Minion, grains: &Map, extra: &Map) -> Result<Map, String> {
    let compiler = Compiler::for_minion(config).map_err(|error| error.to_string())?;
    let option = |name: &str| extra.get_str(name).or_else(|| config.raw.get_str(name));
    Ok(compiler.compile(&Request {
        id: &config.id,
        grains: Some(grains),
        saltenv: option("saltenv"),
        pillarenv: option("pillarenv"),
        pillar_override: extra.get("pillar_override").and_then(Value::as_map),
        ext: None,
    }))
}
