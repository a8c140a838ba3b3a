//! The identity of this minion: `id`, `master`, `server_id`, `saltversion`, `saltpath`, and grains from options.

use value::{Map, Value, list, map};

/// The release of Salt that Saltern follows. Formulas compare it.
pub const SALT_VERSION: (i64, i64) = (3008, 5);

/// Returns the release of Salt that Saltern follows, as text.
pub fn salt_version() -> String {
    format!("{}.{}", SALT_VERSION.0, SALT_VERSION.1)
}

/// Returns the grains of the options and the program.
pub fn identity(opts: &Map) -> Map {
    let id = opts.get_str("id").unwrap_or_default();
    let mut grains = map! {
        "id" => id,
        "master" => opts.get("master").cloned().unwrap_or_else(|| Value::from("")),
        "server_id" => server_id(id),
        "saltversion" => salt_version(),
        "saltversioninfo" => list![SALT_VERSION.0, SALT_VERSION.1],
        "salternversion" => env!("CARGO_PKG_VERSION"),
        // Salt names its way of installation here, and has no value for others.
        "package" => Value::Null,
        "ca_truststore" => "os",
    };
    let program = std::env::current_exe().ok();
    if let Some(directory) = program.as_deref().and_then(std::path::Path::parent) {
        grains.insert("saltpath", directory.to_string_lossy());
    }
    if let Some(domain) = opts.get("append_domain").filter(|domain| domain.truthy()) {
        grains.insert("append_domain", domain.clone());
    }
    if let Some(resources) = opts.get("resources").filter(|resources| resources.truthy()) {
        grains.insert("salt_resources", resources.clone());
    }
    if opts.get("grain_opts").is_some_and(Value::truthy) {
        // Secrets and all: Salt does that, and the option is off by default.
        grains.insert("opts", opts.clone());
    }
    grains
}

/// Returns a number below 2³¹ derived from the id: its SHA-256 as a number, modulo 2³¹.
fn server_id(id: &str) -> i64 {
    let hash = openssl::sha::sha256(id.as_bytes());
    // Only the last four bytes count modulo a power of two.
    i64::from(u32::from_be_bytes([hash[28], hash[29], hash[30], hash[31]]) & 0x7fff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_ids_are_those_of_the_real_minion() {
        assert_eq!(server_id("modb"), 2_009_751_659);
    }

    #[test]
    fn options_become_grains() {
        let grains = identity(&map! { "id" => "web1", "master" => list!["a", "b"], "append_domain" => "example.org" });
        assert_eq!(grains.get("master"), Some(&list!["a", "b"]));
        assert_eq!(grains.get_str("append_domain"), Some("example.org"));
        assert!(!grains.contains_key("opts"));
    }
}
