//! Frames: a length in four bytes, big endian, then a MessagePack list whose first element is the kind.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use peers::kind::{MAX_FRAME, MAX_STRANGER};
use tokio::io::{AsyncRead, AsyncReadExt};

const HEADER: usize = 4;

/// Takes frames from bytes as they arrive. Buffers grow with what has arrived, not with what was announced.
pub(crate) struct FrameReader {
    buffer: BytesMut,
    /// What a stranger may still send; `None` for members.
    allowance: Option<usize>,
}

impl FrameReader {
    /// Creates a reader of a stranger's bytes.
    pub fn of_stranger() -> Self {
        FrameReader { buffer: BytesMut::new(), allowance: Some(MAX_STRANGER) }
    }

    /// Notes that the peer has proven that it is a member.
    pub fn trust(&mut self) {
        self.allowance = None;
    }

    /// Waits for the next frame. Nothing is lost when the future is dropped.
    pub async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
        self.next_within(stream, None).await
    }

    /// Waits for the next frame. A peer that sends no byte for the whole of `silence` is an error; a slow one is not.
    pub async fn next_within(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        silence: Option<Duration>,
    ) -> io::Result<Bytes> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            // As much as one record of TLS brings.
            self.buffer.reserve(16 * 1024);
            let read = stream.read_buf(&mut self.buffer);
            let read = match silence {
                None => read.await?,
                Some(silence) => tokio::time::timeout(silence, read).await.map_err(|_| io::ErrorKind::TimedOut)??,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self) -> io::Result<Option<Bytes>> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let len = u32::from_be_bytes(*header) as usize;
        let most = self.allowance.map_or(MAX_FRAME, |left| left.saturating_sub(HEADER));
        // Before anything is waited for: the bytes of a frame that is too long are never buffered.
        if len > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame of {len} bytes is too long")));
        }
        if self.buffer.len() < HEADER + len {
            return Ok(None);
        }
        self.allowance = self.allowance.map(|left| left - HEADER - len);
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }
}

/// Appends a frame.
pub(crate) fn put(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_as_they_went_in() {
        let mut bytes = Vec::new();
        put(&mut bytes, b"hello");
        put(&mut bytes, b"");
        let mut input = &bytes[..];
        let mut reader = FrameReader::of_stranger();
        assert_eq!(reader.next(&mut input).await.unwrap(), &b"hello"[..]);
        assert_eq!(reader.next(&mut input).await.unwrap(), &b""[..]);
        assert_eq!(reader.next(&mut input).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn announced_lengths_are_bounded_and_reserve_nothing() {
        let mut reader = FrameReader::of_stranger();
        let long = ((MAX_FRAME + 1) as u32).to_be_bytes();
        assert_eq!(reader.next(&mut &long[..]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut reader = FrameReader::of_stranger();
        reader.trust();
        let announced = (MAX_FRAME as u32).to_be_bytes();
        assert_eq!(reader.next(&mut &announced[..]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(reader.buffer.capacity() < 64 * 1024);
    }

    #[tokio::test]
    async fn a_stranger_may_send_only_so_much_in_all_frames_together() {
        let mut bytes = Vec::new();
        (0..5).for_each(|_| put(&mut bytes, &[0; 15_000]));
        let mut input = &bytes[..];
        let mut reader = FrameReader::of_stranger();
        for _ in 0..4 {
            assert_eq!(reader.next(&mut input).await.unwrap().len(), 15_000);
        }
        assert_eq!(reader.next(&mut input).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
