//! Cached grains: the option `grains_cache` and the file `grains.cache.p`.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use value::{Map, Value};
use wire::msgpack::{Decode, Packing, pack, unpack};

/// Returns the option `cachedir`.
pub fn directory(opts: &Map) -> &Path {
    Path::new(opts.get_str("cachedir").unwrap_or("/var/cache/salt/minion"))
}

fn path(opts: &Map) -> PathBuf {
    directory(opts).join("grains.cache.p")
}

/// Returns the cached grains, if the option is on and they are young enough.
pub fn load(opts: &Map) -> Option<Map> {
    let on = |name: &str| opts.get(name).is_some_and(Value::truthy);
    // `refresh_grains_cache` is the operator's way to look again without losing the cache.
    if !on("grains_cache") || on("refresh_grains_cache") {
        return None;
    }
    let path = path(opts);
    let expiration = opts.get("grains_cache_expiration").and_then(Value::as_i64).unwrap_or(300);
    let changed = std::fs::metadata(&path).ok()?.modified().ok()?;
    // A clock that went back makes the file look as if it came from the future; it counts as fresh.
    let age = SystemTime::now().duration_since(changed).unwrap_or(Duration::ZERO);
    if age > Duration::from_secs(u64::try_from(expiration).unwrap_or(0)) {
        tracing::debug!("the grains cached in {} are {}s old, refreshing them", path.display(), age.as_secs());
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    match unpack(&bytes, Decode::Default) {
        Ok(Value::Map(grains)) if !grains.is_empty() => Some(grains),
        _ => {
            tracing::debug!("the grains cached in {} cannot be read, refreshing them", path.display());
            None
        }
    }
}

/// Caches the grains, if the option is on, readable only by the owner.
pub fn store(opts: &Map, grains: &Map) {
    if !opts.get("grains_cache").is_some_and(Value::truthy) {
        return;
    }
    let path = path(opts);
    let bytes = pack(&Value::Map(grains.clone()), Packing::Bin);
    if let Err(error) = write(&path, &bytes) {
        tracing::error!("Unable to write to grains cache file {}: {error}", path.display());
    }
}

/// Writes a file of the cache.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    rt::disk::replace(path, bytes, 0o600, rt::disk::Durability::Process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::map;

    #[test]
    fn cached_grains_are_used_until_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let opts = |expiration: i64| {
            map! {
                "cachedir" => folder.path().to_str().unwrap(),
                "grains_cache" => true,
                "grains_cache_expiration" => expiration,
            }
        };
        assert_eq!(load(&opts(300)), None);
        let grains = map! { "os" => "Debian", "osrelease_info" => vec![12, 5] };
        store(&opts(300), &grains);
        assert_eq!(load(&opts(300)), Some(grains));
        assert_eq!(load(&opts(-1)), None);
        std::fs::write(folder.path().join("grains.cache.p"), b"\xc1garbage").unwrap();
        assert_eq!(load(&opts(300)), None);
    }
}
