//! Reading and writing frames.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use rt::BoxStream;
use tokio::io::{ReadHalf, WriteHalf};
use wire::tcp::{Decoder, Frame};

use crate::budget::Share;
use crate::buffer::{ReadBuffer, write_patiently};
use crate::{Budget, Error};

/// The half frames come from.
pub(super) struct FrameReader {
    stream: ReadHalf<BoxStream>,
    buffer: ReadBuffer,
    decoder: Decoder,
}

/// The half frames go to.
pub(super) struct FrameWriter(WriteHalf<BoxStream>);

/// Cuts a stream into its halves.
pub(super) fn split(stream: BoxStream, limit: usize, budget: Option<Arc<Budget>>) -> (FrameReader, FrameWriter) {
    let (reader, writer) = tokio::io::split(stream);
    let (decoder, buffer) = (Decoder::new(limit), ReadBuffer::new(budget));
    (FrameReader { stream: reader, buffer, decoder }, FrameWriter(writer))
}

impl FrameReader {
    /// Waits for the next frame. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Frame, Error> {
        Ok(Frame::decode(&self.document().await?)?)
    }

    /// Waits for the next frame, and holds its bytes until the share is dropped.
    pub(super) async fn next_kept(&mut self) -> Result<(Frame, Share), Error> {
        let document = self.document().await?;
        let share = self.buffer.keep(document.len());
        Ok((Frame::decode(&document)?, share))
    }

    async fn document(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(document) = self.decoder.next_document(&mut self.buffer.bytes)? {
                self.buffer.settle();
                return Ok(document);
            }
            self.buffer.fill(&mut self.stream, self.decoder.missing()).await?;
        }
    }
}

impl FrameWriter {
    /// Writes an encoded frame. Not to be dropped halfway.
    pub(super) async fn write(&mut self, frame: impl Buf) -> Result<(), Error> {
        write_patiently(&mut self.0, frame).await
    }
}
