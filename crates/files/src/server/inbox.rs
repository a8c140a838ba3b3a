//! Files pushed by minions: `minions/<id>/files/` in the master's cache.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::FileSettings;
use wire::MinionId;

use crate::{Error, Result, path};

/// Accepts files pushed by minions, if the master allows that.
#[derive(Clone, Debug)]
pub struct Inbox {
    cachedir: PathBuf,
    enabled: bool,
    /// The maximum size of a file in bytes.
    max_size: u64,
}

/// A chunk of a pushed file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The minion that pushes it.
    pub id: &'a MinionId,
    /// The parts of the path.
    pub path: &'a [String],
    /// The offset of the chunk in bytes.
    pub offset: i64,
    /// The data.
    pub data: &'a [u8],
}

impl Inbox {
    /// Returns the inbox in a master's `cachedir`.
    pub fn new(settings: &FileSettings, cachedir: &Path) -> Self {
        Inbox {
            cachedir: cachedir.to_owned(),
            enabled: settings.file_recv,
            max_size: settings.file_recv_max_size.saturating_mul(1024 * 1024),
        }
    }

    /// Stores a chunk, and returns whether it was accepted. It is refused if pushing is disabled, the file grows too large, or the
    /// path leads elsewhere. A chunk at offset 0 starts the file over.
    pub fn receive(&self, piece: &Piece) -> Result<bool> {
        let Ok(offset) = u64::try_from(piece.offset) else {
            tracing::error!(minion = %piece.id, "Invalid file pointer: load[loc] < 0");
            return Ok(false);
        };
        if !self.enabled {
            return Ok(false);
        }
        if offset.saturating_add(piece.data.len() as u64) > self.max_size {
            let (name, limit) = (piece.path.join("/"), self.max_size >> 20);
            tracing::error!(
                minion = %piece.id,
                "file_recv_max_size limit of {limit} MB exceeded! {name} will be truncated. \
                 To successfully push this file, adjust file_recv_max_size to an integer (in MB) large enough to \
                 accommodate it."
            );
            return Ok(false);
        }
        let Some(target) = self.target(piece) else {
            tracing::warn!(minion = %piece.id, "refused a pushed file: its path leads out of the minion's directory or has control characters");
            return Ok(false);
        };
        write(&target, offset, piece.data).map(|()| true)
    }

    fn target(&self, piece: &Piece) -> Option<PathBuf> {
        // The names are for people, who list the directory in a terminal.
        if piece.path.iter().any(|part| part.contains(char::is_control)) {
            return None;
        }
        // The first part of an absolute path is empty.
        let relative = piece.path.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("/");
        let base = self.cachedir.join("minions").join(piece.id.as_str()).join("files");
        let target = path::join(&base, &relative).ok()?;
        // The inbox creates no links, but an operator may have.
        path::is_inside(&base, &target, true).then_some(target)
    }
}

fn write(target: &Path, offset: u64, data: &[u8]) -> Result<()> {
    let failed = Error::io;
    store::disk::make_directory(target.parent().unwrap_or(target))?;
    let append = offset != 0 && target.is_file();
    // A file that an earlier release left readable by others is closed when it is pushed again.
    let mut file = store::disk::private_file()
        .write(true)
        .create(true)
        .truncate(!append)
        .open(target)
        .map_err(failed("open", target))?;
    if !append {
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed("close to other users", target))?;
    }
    // Like Python's append mode: later chunks go to the end, whatever their offset.
    let end = if append { SeekFrom::End(0) } else { SeekFrom::Start(offset) };
    file.seek(end).map_err(failed("write", target))?;
    file.write_all(data).map_err(failed("write", target))
}
