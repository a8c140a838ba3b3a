//! Downloads a file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures_util::{StreamExt, TryStreamExt, stream};
use tempfile::NamedTempFile;
use value::{Map, Value};
use wire::loads::{FileChunk, ServeFile};

use super::{FileClient, Reply};
use crate::{Error, Result};

/// The number of chunks that are requested at once.
const IN_FLIGHT: usize = 8;

/// The number of requests for a chunk if the answer is malformed.
const ATTEMPTS: usize = 4;

/// The largest accepted chunk, unpacked, in bytes.
const MAX_CHUNK: u64 = 64 << 20;

/// A file to download.
#[derive(Clone, Copy)]
pub(super) struct FileRequest<'a> {
    pub name: &'a str,
    pub env: &'a str,
    pub gzip: Option<u32>,
    pub size: Option<u64>,
}

/// The place to write the file to.
pub(super) enum Target {
    /// Into the cache: written under a temporary name and renamed.
    Cache(PathBuf),
    /// To a path that the caller named: written in place, as Salt does, so that owner, mode and links stay.
    Place(PathBuf),
}

impl Target {
    pub fn path(&self) -> &Path {
        match self {
            Target::Cache(path) | Target::Place(path) => path,
        }
    }

    /// Makes the directories, and returns whether the file can be written.
    pub fn prepare(&self, makedirs: bool) -> Result<bool> {
        let directory = self.path().parent().unwrap_or(Path::new("/"));
        match self {
            Target::Cache(path) => {
                // A path that was a directory in the last version of the tree may be a file now, and the other way
                // round.
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
                // Not through a temporary file: a new inode would lose the owner and mode of a file that the operator
                // chose.
                let file = File::create(path).map_err(Error::io("write", path))?;
                Ok(Output { file, temporary: None })
            }
            Target::Cache(path) => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                let temporary = NamedTempFile::new_in(directory).map_err(Error::io("write", path))?;
                // A cached file keeps its mode, but is closed to other users.
                let mode = std::fs::metadata(path).map_or(0o640, |state| state.permissions().mode());
                // Files of a state tree often contain secrets.
                let permissions = std::fs::Permissions::from_mode(mode & 0o750);
                temporary.as_file().set_permissions(permissions).map_err(Error::io("write", path))?;
                let file = temporary.as_file().try_clone().map_err(Error::io("write", path))?;
                Ok(Output { file, temporary: Some(temporary) })
            }
        }
    }
}

/// The file being written.
struct Output {
    file: File,
    temporary: Option<NamedTempFile>,
}

impl Output {
    fn finish(self, path: &Path) -> Result<()> {
        let Some(temporary) = self.temporary else { return Ok(()) };
        temporary.persist(path).map_err(|error| Error::io("write", path)(error.error)).map(drop)
    }
}

impl FileClient {
    /// Downloads a file. If its server is lost during the download, it starts over once, perhaps from another server.
    pub(super) async fn download(&self, wanted: &FileRequest<'_>, target: &Target) -> Result<()> {
        match self.download_once(wanted, target).await {
            Err(Error::Remote { what, source }) => {
                tracing::debug!("{what} is fetched once more: {source}");
                self.download_once(wanted, target).await
            }
            done => done,
        }
    }

    async fn download_once(&self, wanted: &FileRequest<'_>, target: &Target) -> Result<()> {
        let output = target.open()?;
        // Alone: only its length shows which offsets the others have. Salt's masters do not report their chunk size.
        let first = self.piece(wanted, 0).await?;
        let size = first.len() as u64;
        write(&output, target, first, 0)?;
        let (done, ended) = match wanted.size {
            // The size of the first chunk is the chunk size of the server.
            Some(total) if size > 0 && total > size => self.many(wanted, target, &output, size).await?,
            total => (size, size == 0 || total.is_some_and(|total| total <= size)),
        };
        // The rest, if the file grew, its size is unknown, or the chunks had different sizes.
        if !ended {
            self.one_by_one(wanted, target, &output, done).await?;
        }
        output.finish(target.path())
    }

    /// Requests several chunks at a time. Returns how many bytes are complete and whether the file ends there: only a chunk shorter
    /// than the others shows the end, since the file may have grown.
    async fn many(&self, wanted: &FileRequest<'_>, target: &Target, output: &Output, size: u64) -> Result<(u64, bool)> {
        let total = wanted.size.unwrap_or(size);
        let offsets = (1..).map(|number| number * size).take_while(|offset| *offset < total);
        // `buffered` keeps the order, so the end of the file is noticed at the right chunk.
        let mut pieces = stream::iter(offsets.map(|offset| self.piece(wanted, offset))).buffered(IN_FLIGHT);
        let mut done = size;
        while let Some(piece) = pieces.try_next().await? {
            let len = piece.len() as u64;
            write(output, target, piece, done)?;
            done += len;
            if len < size {
                return Ok((done, done >= total));
            }
        }
        Ok((done, false))
    }

    async fn one_by_one(&self, wanted: &FileRequest<'_>, target: &Target, output: &Output, from: u64) -> Result<()> {
        let mut offset = from;
        loop {
            let piece = self.piece(wanted, offset).await?;
            if piece.is_empty() {
                return Ok(());
            }
            let len = piece.len() as u64;
            write(output, target, piece, offset)?;
            offset += len;
        }
    }

    async fn piece(&self, wanted: &FileRequest<'_>, offset: u64) -> Result<Bytes> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.ask_piece(wanted, offset).await?;
            match FileChunk::from_raw(answer).map_err(|error| error.to_string()).and_then(unpack) {
                Ok(data) => return Ok(data),
                // Salt's client retries malformed answers three times.
                Err(reason) if tries < ATTEMPTS => {
                    tracing::warn!("Data transport is broken, got: {reason}, attempt {tries} of 3");
                }
                Err(reason) => return Err(Error::Answer { what: wanted.name.to_owned(), reason }),
            }
        }
    }

    async fn ask_piece(&self, wanted: &FileRequest<'_>, offset: u64) -> Result<Value> {
        let request = ServeFile {
            path: wanted.name.into(),
            saltenv: Some(wanted.env.into()),
            loc: i64::try_from(offset).ok(),
            gzip: wanted.gzip.map(Value::from),
            extra: Map::new(),
        };
        let answer = self.remote.call(request.into_map(), Reply::Raw).await;
        answer.map_err(|source| Error::Remote { what: wanted.name.to_owned(), source })
    }
}

fn write(output: &Output, target: &Target, data: Bytes, offset: u64) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    output.file.write_all_at(&data, offset).map_err(Error::io("write", target.path()))
}

fn unpack(chunk: FileChunk) -> std::result::Result<Bytes, String> {
    if !chunk.gzip.is_some_and(|level| level.truthy()) || chunk.data.is_empty() {
        return Ok(chunk.data);
    }
    let mut plain = Vec::with_capacity(chunk.data.len() * 3);
    // A small compressed chunk can unpack to gigabytes.
    let mut reader = MultiGzDecoder::new(&chunk.data[..]).take(MAX_CHUNK + 1);
    reader.read_to_end(&mut plain).map_err(|error| error.to_string())?;
    if plain.len() as u64 > MAX_CHUNK { Err("the piece is too large".into()) } else { Ok(plain.into()) }
}

/// Removes a directory in the place of the file, and a file in the place of its directory.
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
