//! The hashes archives had when they were last unpacked: `<cachedir>/archive_hash/…`, lines of type and hash.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result};
use value::{Map, map};

fn hash_type(ctx: &Context) -> String {
    ctx.opt_str("hash_type").unwrap_or("sha256").to_owned()
}

/// Returns the file with the hash of an archive.
fn place(ctx: &Context, archive: &str) -> PathBuf {
    let base = Path::new(ctx.cachedir());
    let inside = match Path::new(archive).strip_prefix(base) {
        // Salt's layout below its cache directory, so that its own records are found after a
        // migration.
        Ok(relative) => format!("{}.hash", relative.display()),
        Err(_) => format!("local/{}", archive.trim_start_matches('/')),
    };
    base.join("archive_hash").join(inside)
}

/// Returns the kept hash of a type, by default that of the option `hash_type`.
pub(super) fn read(ctx: &Context, archive: &str, form: Option<&str>) -> Option<Map> {
    let form = form.map_or_else(|| hash_type(ctx), str::to_owned);
    let text = std::fs::read_to_string(place(ctx, archive)).ok()?;
    let found = text.lines().find_map(|line| line.split_once(':').filter(|(kind, _)| *kind == form));
    found.map(|(kind, hash)| map! { "hash_type" => kind, "hsum" => hash })
}

/// Keeps the hash the archive has now.
///
/// # Errors
/// When it cannot be read; what cannot be written is only warned of.
pub(super) fn update(ctx: &Context, archive: &str) -> Result<()> {
    let kind = hash_type(ctx);
    let content = std::fs::read(archive).map_err(|error| Error::io("read", archive, &error))?;
    let hash = modules::hashutil::hex_digest(&kind, &content)?;
    let file = place(ctx, archive);
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    // Hashes of other types stay, in case `hash_type` is changed back.
    let others = old.lines().filter(|line| line.split_once(':').is_some_and(|(other, _)| other != kind));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{kind}:{hash}"));
    let written = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    // At worst the archive is unpacked once more next time.
    if let Err(error) = written.and_then(|()| std::fs::write(&file, lines.join("\n") + "\n")) {
        tracing::warn!("Failed to update checksum for {archive}: {error}");
    }
    Ok(())
}
