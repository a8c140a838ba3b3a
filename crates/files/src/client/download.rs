//! Getting a file across.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures_util::{StreamExt, TryStreamExt, stream};
use tempfile::NamedTempFile;
use value::{Value, map};
use wire::loads::FileChunk;

use super::{FileClient, Push, Reply, blocking};
use crate::{Error, Result};

/// How many pieces are under way at once.
const IN_FLIGHT: usize = 8;

/// How often a piece is asked for when the answer makes no sense.
const TRIES: usize = 4;

/// The largest piece that is accepted, unpacked, in bytes.
const LARGEST_PIECE: u64 = 64 << 20;

/// A file that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    pub env: &'a str,
    pub gzip: Option<u32>,
    pub size: Option<u64>,
}

/// Where it is to lie.
pub(super) enum Target {
    /// In the cache: written beside its place and renamed.
    Cache(PathBuf),
    /// At a place somebody named: written there, as the real ones do, so that owner, mode and links stay.
    Place(PathBuf),
}

impl Target {
    pub fn path(&self) -> &Path {
        match self {
            Target::Cache(path) | Target::Place(path) => path,
        }
    }

    /// Makes the directories; says whether the file can be written.
    pub fn prepare(&self, makedirs: bool) -> Result<bool> {
        let directory = self.path().parent().unwrap_or(Path::new("/"));
        match self {
            Target::Cache(path) => {
                make_room(directory, path)?;
                private_directories(directory)?;
            }
            Target::Place(_) if directory.as_os_str().is_empty() || directory.is_dir() => {}
            Target::Place(_) if makedirs => std::fs::create_dir_all(directory).map_err(Error::io("make", directory))?,
            Target::Place(_) => return Ok(false),
        }
        Ok(true)
    }

    fn open(&self) -> Result<Output> {
        match self {
            Target::Place(path) => {
                let file = File::create(path).map_err(Error::io("write", path))?;
                Ok(Output { file: Arc::new(file), temporary: None })
            }
            Target::Cache(path) => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                let temporary = NamedTempFile::new_in(directory).map_err(Error::io("write", path))?;
                // A cached file keeps the mode it has, but is closed to others.
                let mode = std::fs::metadata(path).map_or(0o640, |state| state.permissions().mode());
                let permissions = std::fs::Permissions::from_mode(mode & 0o750);
                temporary.as_file().set_permissions(permissions).map_err(Error::io("write", path))?;
                let file = temporary.as_file().try_clone().map_err(Error::io("write", path))?;
                Ok(Output { file: Arc::new(file), temporary: Some(temporary) })
            }
        }
    }
}

/// The file being written.
struct Output {
    file: Arc<File>,
    temporary: Option<NamedTempFile>,
}

impl Output {
    fn finish(self, path: &Path) -> Result<()> {
        let Some(temporary) = self.temporary else { return Ok(()) };
        temporary.persist(path).map_err(|error| Error::io("write", path)(error.error)).map(drop)
    }
}

impl FileClient {
    /// Fetches a file. When its server is lost in the midst of it, it is fetched once more from the beginning: perhaps another
    /// one answers.
    pub(super) async fn download(&self, wanted: &Wanted<'_>, target: &Target) -> Result<()> {
        match self.download_once(wanted, target).await {
            Err(Error::Remote { what, source }) => {
                tracing::debug!("{what} is fetched once more: {source}");
                self.download_once(wanted, target).await
            }
            done => done,
        }
    }

    async fn download_once(&self, wanted: &Wanted<'_>, target: &Target) -> Result<()> {
        let output = target.open()?;
        let first = self.piece(wanted, 0).await?;
        let size = first.len() as u64;
        write(&output, target, first, 0).await?;
        let (done, ended) = match wanted.size {
            // The first piece tells how much the server sends at once.
            Some(total) if size > 0 && total > size => self.many(wanted, target, &output, size).await?,
            total => (size, size == 0 || total.is_some_and(|total| total <= size)),
        };
        // The rest, if the file grew, its size is unknown, or the pieces were of different sizes.
        if !ended {
            self.one_by_one(wanted, target, &output, done).await?;
        }
        output.finish(target.path())
    }

    /// Asks for several pieces at a time, and says how far the file is whole and whether that is its end: only a piece shorter
    /// than others is, since the file may have grown.
    async fn many(&self, wanted: &Wanted<'_>, target: &Target, output: &Output, size: u64) -> Result<(u64, bool)> {
        let total = wanted.size.unwrap_or(size);
        let offsets = (1..).map(|number| number * size).take_while(|offset| *offset < total);
        let mut pieces = stream::iter(offsets.map(|offset| self.piece(wanted, offset))).buffered(IN_FLIGHT);
        let mut done = size;
        while let Some(piece) = pieces.try_next().await? {
            let len = piece.len() as u64;
            write(output, target, piece, done).await?;
            done += len;
            if len < size {
                return Ok((done, done >= total));
            }
        }
        Ok((done, false))
    }

    async fn one_by_one(&self, wanted: &Wanted<'_>, target: &Target, output: &Output, from: u64) -> Result<()> {
        let mut offset = from;
        loop {
            let piece = self.piece(wanted, offset).await?;
            if piece.is_empty() {
                return Ok(());
            }
            let len = piece.len() as u64;
            write(output, target, piece, offset).await?;
            offset += len;
        }
    }

    async fn piece(&self, wanted: &Wanted<'_>, offset: u64) -> Result<Bytes> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.ask_piece(wanted, offset).await?;
            match FileChunk::from_raw(answer).map_err(|error| error.to_string()).and_then(unpack) {
                Ok(data) => return Ok(data),
                Err(reason) if tries < TRIES => {
                    tracing::warn!("Data transport is broken, got: {reason}, attempt {tries} of 3");
                }
                Err(reason) => return Err(Error::Answer { what: wanted.name.to_owned(), reason }),
            }
        }
    }

    async fn ask_piece(&self, wanted: &Wanted<'_>, offset: u64) -> Result<Value> {
        let mut load = map! { "path" => wanted.name, "saltenv" => wanted.env, "cmd" => "_serve_file", "loc" => offset };
        if let Some(level) = wanted.gzip {
            load.insert("gzip", level);
        }
        let answer = self.remote.call(load, Reply::Raw).await;
        answer.map_err(|source| Error::Remote { what: wanted.name.to_owned(), source })
    }
}

async fn write(output: &Output, target: &Target, data: Bytes, offset: u64) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let (file, path) = (Arc::clone(&output.file), target.path().to_owned());
    blocking(move || file.write_all_at(&data, offset).map_err(Error::io("write", &path))).await
}

fn unpack(chunk: FileChunk) -> std::result::Result<Bytes, String> {
    if !chunk.gzip.is_some_and(|level| level.truthy()) || chunk.data.is_empty() {
        return Ok(chunk.data);
    }
    let mut plain = Vec::with_capacity(chunk.data.len() * 3);
    let mut reader = MultiGzDecoder::new(&chunk.data[..]).take(LARGEST_PIECE + 1);
    reader.read_to_end(&mut plain).map_err(|error| error.to_string())?;
    if plain.len() as u64 > LARGEST_PIECE { Err("the piece is too large".into()) } else { Ok(plain.into()) }
}

/// Reads a piece of a file that is pushed.
pub(super) async fn read_piece(file: &Arc<File>, push: &Push<'_>, offset: u64) -> Result<Bytes> {
    let (file, path, len) = (Arc::clone(file), push.file.to_owned(), push.piece.max(1));
    blocking(move || {
        let mut piece = vec![0; len];
        let read = file.read_at(&mut piece, offset).map_err(Error::io("read", &path))?;
        piece.truncate(read);
        Ok(piece.into())
    })
    .await
}

/// Removes a directory where the file is to lie, and a file where its directory is to be.
fn make_room(directory: &Path, path: &Path) -> Result<()> {
    if directory.is_file() {
        store::disk::remove(directory)?;
    }
    if path.is_dir() {
        store::disk::remove_tree(path)?;
    }
    Ok(())
}

fn private_directories(directory: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(Error::io("create directory", directory))
}
