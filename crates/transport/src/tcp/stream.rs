//! Reads and writes frames.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use rt::BoxStream;
use tokio::io::{ReadHalf, WriteHalf};
use wire::envelope::MOST_FOREIGN_VALUES;
use wire::msgpack::most_values;
use wire::tcp::{Decoder, Frame, RawFrame, body_start};

use crate::budget::Share;
use crate::buffer::{ReadBuffer, write_in_time, write_patiently};
use crate::capacity::ConnectionRecord;
use crate::open::check_start;
use crate::{Budget, Error};

/// The read half of a connection.
pub(super) struct FrameReader {
    stream: ReadHalf<BoxStream>,
    buffer: ReadBuffer,
    decoder: Decoder,
    /// For a server of requests: true if the peer is on another host.
    foreign: Option<bool>,
}

/// Limits of what a peer may send.
pub(super) struct Bounds {
    /// Largest frame in bytes.
    limit: usize,
    values: usize,
    budget: Option<(Arc<Budget>, Arc<ConnectionRecord>)>,
    foreign: bool,
}

impl Bounds {
    /// The limits of frames that are decoded at once.
    pub(super) fn of_peer(limit: usize) -> Self {
        Bounds { limit, values: most_values(limit), budget: None, foreign: false }
    }

    /// The limits of publications, which are bytes or a map that contains them.
    pub(super) fn of_publications(limit: usize) -> Self {
        Bounds { values: 1024, ..Bounds::of_peer(limit) }
    }

    /// The limits of requests.
    pub(super) fn of_requests(limit: usize, budget: (Arc<Budget>, Arc<ConnectionRecord>), foreign: bool) -> Self {
        // The frame has a head beside the request.
        let values = if foreign { MOST_FOREIGN_VALUES + 64 } else { most_values(limit) };
        Bounds { limit, values, budget: Some(budget), foreign }
    }
}

/// The write half of a connection.
pub(super) struct FrameWriter(WriteHalf<BoxStream>);

/// Splits a stream into its halves.
pub(super) fn split(stream: BoxStream, bounds: Bounds) -> (FrameReader, FrameWriter) {
    let (reader, writer) = tokio::io::split(stream);
    let foreign = bounds.budget.as_ref().map(|_| bounds.foreign);
    let (decoder, buffer) = (Decoder::new(bounds.limit, bounds.values), ReadBuffer::new(bounds.budget));
    (FrameReader { stream: reader, buffer, decoder, foreign }, FrameWriter(writer))
}

impl FrameReader {
    /// Waits for the next frame. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Frame, Error> {
        Ok(Frame::decode(&self.document().await?)?)
    }

    /// Waits for the next frame. `bounds` returns how many bytes and values it may have now. Cancel safe.
    pub(super) async fn next_within(&mut self, bounds: impl Fn() -> (usize, usize)) -> Result<Frame, Error> {
        loop {
            let (limit, values) = bounds();
            self.decoder.set_bounds(limit, values);
            if let Some(document) = self.next_document()? {
                return Ok(Frame::decode(&document)?);
            }
            self.read().await?;
        }
    }

    /// Waits for the next frame and splits it without decoding the body.
    pub(super) async fn next_raw(&mut self) -> Result<RawFrame, Error> {
        let document = self.document().await?;
        Ok(RawFrame::read(&document, most_values(document.len()))?)
    }

    /// Returns the share of the budget to which complete messages are charged.
    pub(super) fn share(&self) -> &Share {
        self.buffer.share()
    }

    async fn document(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(document) = self.next_document()? {
                return Ok(document);
            }
            self.read().await?;
        }
    }

    fn next_document(&mut self) -> Result<Option<Bytes>, Error> {
        let document = self.decoder.next_document(&mut self.buffer.bytes)?;
        if document.is_some() {
            self.buffer.release_message();
        }
        Ok(document)
    }

    async fn read(&mut self) -> Result<(), Error> {
        let missing = self.decoder.missing();
        if let Some(foreign) = self.foreign
            && let Some(body) = body_start(&self.buffer.bytes)
        {
            check_start(&self.buffer.bytes[body..], self.buffer.bytes.len().saturating_add(missing), foreign)?;
        }
        self.buffer.fill(&mut self.stream, missing, 0).await
    }
}

impl FrameWriter {
    /// Writes an encoded frame. Not cancel safe.
    pub(super) async fn write(&mut self, frame: impl Buf) -> Result<(), Error> {
        write_patiently(&mut self.0, frame).await
    }

    /// Writes an answer, if the peer reads it fast enough. Not cancel safe.
    pub(super) async fn write_in_time(&mut self, answer: impl Buf) -> Result<(), Error> {
        write_in_time(&mut self.0, answer).await
    }
}
