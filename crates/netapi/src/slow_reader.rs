//! A connection whose client must read: one that does not is closed.
//!
//! Without a limit, a client that sends requests and reads no answer would hold its place for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a client may take to read what waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The slowest client, in bytes per second. Each byte that it reads gives it more time, up to [`PATIENCE`].
const SLOWEST: u32 = 1024;

/// A stream that fails with [`io::ErrorKind::TimedOut`] if its peer does not read.
pub struct SlowReader<S> {
    stream: S,
    /// The end of the client's time, while something waits for it.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> SlowReader<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
        SlowReader { stream, until: None }
    }

    /// Decides what the result of a write means: the client has all, has read a part, or reads nothing.
    fn judge<T>(&mut self, result: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            return result;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers")))
    }

    /// Gives a client that reads more time. A full buffer alone must not: one byte each 30 seconds would last for ever.
    fn extend(&mut self, written: usize) {
        let Some(until) = &mut self.until else { return };
        let more = Duration::from_secs(1) * u32::try_from(written).unwrap_or(u32::MAX) / SLOWEST;
        let end = (until.deadline() + more.min(PATIENCE)).min(Instant::now() + PATIENCE);
        until.as_mut().reset(end);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowReader<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = result {
            self.extend(written);
        }
        self.judge(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        if let Poll::Ready(Ok(written)) = result {
            self.extend(written);
        }
        self.judge(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        // The server flushes when the client has been sent all that waited.
        if result.is_ready() {
            self.until = None;
        }
        self.judge(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(result, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_or_next_to_nothing_is_given_up() {
        let (_silent, stream) = tokio::io::duplex(16);
        let error = SlowReader::new(stream).write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (mut slow, stream) = tokio::io::duplex(16);
        let reading = tokio::spawn(async move {
            while slow.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
        });
        let error = SlowReader::new(stream).write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "a byte now and then is not enough");
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_gets_all() {
        let (mut slow, stream) = tokio::io::duplex(4096);
        let reading = tokio::spawn(async move {
            let (mut all, mut part) = (0, vec![0; 4096]);
            while let Ok(count @ 1..) = slow.read(&mut part).await {
                all += count;
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            all
        });
        let mut stream = SlowReader::new(stream);
        for _ in 0..3 {
            stream.write_all(&vec![0; 100_000]).await.unwrap();
            stream.flush().await.unwrap();
            tokio::time::sleep(PATIENCE * 2).await;
        }
        drop(stream);
        assert_eq!(reading.await.unwrap(), 300_000);
    }
}
