//! The mounts that states made, with their options: the kernel does not show all of them.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};
use yaml::Flow;

use crate::util;

fn file(ctx: &Context) -> PathBuf {
    Path::new(ctx.cachedir()).join("mounts")
}

fn read(path: &Path) -> Result<Map> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(Error::io("read", path, &error)),
        Ok(text) => {
            let name = path.to_string_lossy();
            let found = yaml::load(&text, &name).map_err(|error| Error::execution(error.to_string()))?;
            // An empty file is not a map, and no error.
            Ok(found.into_map().unwrap_or_default())
        }
    }
}

/// Writes the cache, readable for its owner alone: options may be passwords.
fn write(path: &Path, cache: Map) -> Result<()> {
    let text = yaml::dump(&cache.into(), Flow::Leaves);
    util::replace_file(path, text.as_bytes(), 0o600).map_err(|error| {
        tracing::error!("Failed to cache mounts: {error}");
        Error::execution("Unable to write mount cache.")
    })
}

/// Returns the cached mount of a place.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.read_mount_cache /mnt/share
#[function]
fn read_mount_cache(ctx: &Context, name: String) -> Result<Value> {
    let path = file(ctx);
    ctx.blocking(move || {
        let cache = read(&path)?;
        let entry = cache.get("mounts").and_then(|mounts| mounts.get(&name)).cloned();
        Ok(entry.unwrap_or_else(|| Map::new().into()))
    })
}

/// Caches the mount of a place; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.write_mount_cache /mnt/share /dev/sda1 False ext4 defaults,nosuid
#[function]
fn write_mount_cache(
    ctx: &Context,
    real_name: String,
    device: Value,
    mkmnt: Value,
    fstype: Value,
    mount_opts: Value,
) -> Result<bool> {
    let path = file(ctx);
    let entry = map! { "device" => device, "fstype" => fstype, "mkmnt" => mkmnt, "opts" => mount_opts };
    ctx.blocking(move || {
        let mut cache = read(&path)?;
        let mounts = cache.entry_or_insert_with("mounts", || Map::new().into());
        match mounts.as_map_mut() {
            Some(mounts) => drop(mounts.insert(real_name, entry)),
            // A cache that something else has damaged starts again with this entry.
            None => *mounts = map! { real_name => entry }.into(),
        }
        write(&path, cache).map(|()| true)
    })
}

/// Deletes the cached mount of a place; returns True.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' mount.delete_mount_cache /mnt/share
#[function]
fn delete_mount_cache(ctx: &Context, real_name: String) -> Result<bool> {
    let path = file(ctx);
    ctx.blocking(move || {
        let mut cache = read(&path)?;
        let mounts = cache.get_mut("mounts").and_then(Value::as_map_mut);
        // Nothing to remove, nothing to write: the file keeps its time.
        if mounts.and_then(|mounts| mounts.remove(&real_name)).is_some() {
            write(&path, cache)?;
        }
        Ok(true)
    })
}
