//! Receives the files of `salt-cp`, which are inside the job itself.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use exec::{Context, Result, function};
use flate2::read::MultiGzDecoder;
use value::{Map, Value};

/// The largest size of a decompressed piece, in bytes. `salt-cp` sends far smaller ones.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Writes the files ``salt-cp`` sends in one job: a map of names and contents.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.recv '{/root/motd: hello}' /etc/motd
#[function]
pub fn recv(files: Map, dest: String) -> Result<Value> {
    let mut written = Map::new();
    for (name, content) in &files {
        // Salt gives up at the first file that has no place; those before it are written.
        let Some(place) = place_for(&name.to_string(), &dest) else {
            return Ok("Destination unavailable".into());
        };
        let text = content.to_string();
        let done = std::fs::write(&place, content.as_bytes().unwrap_or(text.as_bytes()));
        if let Err(error) = &done {
            tracing::error!("failed to write {place}: {error}");
        }
        written.insert(place, done.is_ok());
    }
    Ok(written.into())
}

/// Returns the target path: `dest` itself, or a file inside of it when it is a directory; `None` when there is no
/// directory to write into.
fn place_for(name: &str, dest: &str) -> Option<String> {
    // Only the last part of the name counts: the sender cannot choose another directory.
    let base = Path::new(name).file_name().unwrap_or_default();
    // A slash at the end means a directory, which `Path::parent` would drop.
    let (parent, last) = dest.rsplit_once('/').unwrap_or(("", dest));
    let parent = if dest.starts_with('/') && parent.is_empty() { "/" } else { parent };
    if Path::new(dest).is_dir() {
        Some(Path::new(dest).join(base).to_string_lossy().into_owned())
    } else if base == last || Path::new(parent).is_dir() {
        Some(dest.to_owned())
    } else {
        None
    }
}

/// Writes a piece of a file ``salt-cp --chunked`` sends, or makes an empty directory when there is no piece.
///
/// Returns True, or an error message.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' cp.recv_chunked /tmp/hello chunk=aGVsbG8K compressed=False
#[function]
pub fn recv_chunked(
    ctx: &Context,
    dest: String,
    chunk: Value,
    #[default(false)] append: bool,
    #[default(true)] compressed: bool,
    mode: Option<u64>,
) -> Result<Value> {
    let piece = Piece { append, compressed, mode };
    let done = ctx.blocking(move || match chunk {
        // `salt-cp` sends an empty directory as a piece of nothing.
        Value::Null => make_directory(Path::new(&dest)),
        chunk => piece.write(Path::new(&dest), &chunk),
    });
    match done {
        Ok(()) => Ok(true.into()),
        Err(why) => {
            // The text alone would look like an answer; `salt-cp` reads the return code.
            ctx.set_retcode(1);
            Ok(why.into())
        }
    }
}

fn make_directory(dest: &Path) -> std::result::Result<(), String> {
    if dest.is_file() {
        return Err("Path exists and is a file".into());
    }
    std::fs::create_dir_all(dest).map_err(|error| worded(&error, dest))
}

struct Piece {
    append: bool,
    compressed: bool,
    mode: Option<u64>,
}

impl Piece {
    fn write(&self, dest: &Path, chunk: &Value) -> std::result::Result<(), String> {
        let encoded = chunk.as_bytes().ok_or("the piece is not text")?;
        // White space inside of base64 is not an error, as in Python's decoder.
        let lines: Vec<u8> = encoded.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let engine = base64::engine::general_purpose::STANDARD;
        let packed = engine.decode(lines).map_err(|error| format!("the piece is not base64: {error}"))?;
        let plain = if self.compressed { unpacked(&packed)? } else { packed };
        self.put(dest, &plain).map_err(|error| worded(&error, dest))
    }

    fn put(&self, dest: &Path, plain: &[u8]) -> std::io::Result<()> {
        let mut how = std::fs::OpenOptions::new();
        how.create(true).write(true).append(self.append).truncate(!self.append);
        let mut file = match how.open(dest) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Only after the first attempt failed: most files have their directory already.
                std::fs::create_dir_all(dest.parent().unwrap_or(Path::new("/")))?;
                how.open(dest)?
            }
            opened => opened?,
        };
        file.write_all(plain)?;
        match self.mode {
            // The first piece sets the mode; later ones would only repeat it.
            Some(mode) if !self.append => file.set_permissions(std::fs::Permissions::from_mode(mode as u32 & 0o7777)),
            _ => Ok(()),
        }
    }
}

fn unpacked(packed: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    // One byte more than allowed, to distinguish a piece of exactly that size from a larger one.
    let mut reader = MultiGzDecoder::new(packed).take(LARGEST + 1);
    reader.read_to_end(&mut plain).map_err(|error| format!("the piece cannot be unpacked: {error}"))?;
    if plain.len() as u64 > LARGEST { Err(format!("the piece is larger than {LARGEST} bytes")) } else { Ok(plain) }
}

fn worded(error: &std::io::Error, path: &Path) -> String {
    crate::subprocess::os_text(error, &path.to_string_lossy())
}
