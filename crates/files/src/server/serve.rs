//! Serves files in chunks.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::time::Instant;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use value::{Map, map};

use super::find::Source;
use super::reads::{Content, Reader};
use super::{FileServer, Found};
use crate::{Error, Result};

/// A request for a chunk of a file.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRequest<'a> {
    /// The path in the environment.
    pub path: &'a str,
    /// The environment.
    pub env: &'a str,
    /// The offset of the chunk in bytes.
    pub offset: u64,
    /// The gzip level, 1 to 9, if the chunk is to be compressed.
    pub gzip: Option<u32>,
    /// The reader, so that all chunks of a file in a repository are from one content.
    pub reader: Option<&'a str>,
}

/// A chunk of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The data; empty at the end of the file.
    pub data: Bytes,
    /// The path in the environment; empty if there is no such file.
    pub dest: String,
    /// The gzip level, if the data is compressed.
    pub gzip: Option<u32>,
}

impl FileServer {
    /// Returns a chunk of a file, of at most `file_buffer_size`. For a missing file it returns an empty chunk without a path.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn serve(&self, wanted: &ChunkRequest) -> Result<Chunk> {
        let Some(content) = self.content(wanted)? else { return Ok(Chunk::default()) };
        let data = self.read(&content.content.path, wanted.offset)?;
        // Files on disk are read as they are at each request, as in Salt.
        if let (Some(reader), true) = (reader(wanted), content.is_git) {
            let (len, now) = (data.len() as u64, Instant::now());
            self.reads().note(reader, &content.content, wanted.offset, len, now);
        }
        let dest = content.content.relative;
        match wanted.gzip {
            Some(level) if !data.is_empty() => Ok(Chunk { data: compress(&data, level), dest, gzip: Some(level) }),
            _ => Ok(Chunk { data: data.into(), dest, gzip: None }),
        }
    }

    /// Returns the content to read: that of the reader's first chunk, or the current one.
    fn content(&self, wanted: &ChunkRequest) -> Result<Option<Opened>> {
        if wanted.offset != 0
            && let Some(reader) = reader(wanted)
            && let Some(content) = self.reads().resume(&reader, wanted.offset)
            // The content may have been removed as unused while the reader paused.
            && content.path.exists()
        {
            return Ok(Some(Opened { content, is_git: true }));
        }
        Ok(self.find(wanted.path, wanted.env)?.map(Opened::from))
    }

    fn reads(&self) -> std::sync::MutexGuard<'_, super::Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, path: &std::path::Path, offset: u64) -> Result<Vec<u8>> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let mut data = Vec::with_capacity(self.piece_size(&file, offset));
        let mut reader = FileAtOffset { file, offset }.take(self.buffer_size as u64);
        reader.read_to_end(&mut data).map_err(Error::io("read", path))?;
        Ok(data)
    }

    /// Returns the number of bytes to read, to allocate the right size at once.
    fn piece_size(&self, file: &File, offset: u64) -> usize {
        let rest = file.metadata().map_or(0, |metadata| metadata.len().saturating_sub(offset));
        // One more byte, so that reading to the end needs no second allocation to find it.
        usize::try_from(rest).unwrap_or(usize::MAX).min(self.buffer_size) + 1
    }
}

/// A content that is opened for reading.
struct Opened {
    content: Content,
    is_git: bool,
}

impl From<Found> for Opened {
    fn from(found: Found) -> Self {
        let is_git = matches!(found.source, Source::Git { .. });
        Opened { content: Content { path: found.path, relative: found.relative }, is_git }
    }
}

fn reader(wanted: &ChunkRequest) -> Option<Reader> {
    let owned = |text: &str| text.to_owned();
    Some(Reader { who: owned(wanted.reader?), env: owned(wanted.env), path: owned(wanted.path) })
}

impl Chunk {
    /// Returns the answer to `_serve_file`.
    pub fn into_map(self) -> Map {
        let mut map = map! { "data" => self.data, "dest" => self.dest };
        if let Some(level) = self.gzip {
            map.insert("gzip", level);
        }
        map
    }
}

/// A file read from a place on, without a shared position.
struct FileAtOffset {
    file: File,
    offset: u64,
}

impl Read for FileAtOffset {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.file.read_at(buffer, self.offset)?;
        self.offset += len as u64;
        Ok(len)
    }
}

fn compress(data: &[u8], level: u32) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(data.len() / 4), Compression::new(level.clamp(1, 9)));
    encoder.write_all(data).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail").into()
}
