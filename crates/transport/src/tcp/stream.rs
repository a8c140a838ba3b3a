//! Reading and writing frames.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rt::BoxStream;
use tokio::io::{AsyncReadExt, ReadHalf, WriteHalf};
use wire::tcp::{Decoder, Frame};

use crate::budget::Share;
use crate::serve::write_patiently;
use crate::{Budget, Error};

/// The half frames come from.
pub(super) struct FrameReader {
    stream: ReadHalf<BoxStream>,
    buffer: BytesMut,
    decoder: Decoder,
    share: Share,
}

/// The half frames go to.
pub(super) struct FrameWriter(WriteHalf<BoxStream>);

/// Cuts a stream into its halves.
pub(super) fn split(stream: BoxStream, limit: usize, budget: Option<Arc<Budget>>) -> (FrameReader, FrameWriter) {
    let (reader, writer) = tokio::io::split(stream);
    let (decoder, share) = (Decoder::new(limit), Share::of(budget));
    (FrameReader { stream: reader, buffer: BytesMut::new(), decoder, share }, FrameWriter(writer))
}

impl FrameReader {
    /// Waits for the next frame. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.buffer)? {
                self.share.hold(self.buffer.len())?;
                return Ok(frame);
            }
            if self.buffer.capacity() - self.buffer.len() < 256 {
                let room = if self.buffer.len() < 4096 { 1024 } else { 256 << 10 };
                self.buffer.reserve(room);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(Error::Closed);
            }
            self.share.hold(self.buffer.len())?;
        }
    }
}

impl FrameWriter {
    /// Writes an encoded frame.
    pub(super) async fn write(&mut self, frame: &Bytes) -> Result<(), Error> {
        write_patiently(&mut self.0, frame).await
    }
}
