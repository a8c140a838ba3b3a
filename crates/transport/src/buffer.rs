//! Bytes that a connection has received and not yet decoded.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::budget::Share;
use crate::capacity::ConnectionRecord;
use crate::{Budget, Error};

/// How long a write may make no progress.
pub(crate) const STALLED: Duration = Duration::from_secs(60);

/// Room for an idle connection, in bytes.
const LEAST: usize = 1 << 10;

/// Room for a connection that sends many small messages, in bytes.
const BUSY: usize = 64 << 10;

/// The most memory that is reserved for a message because of its announced length, in bytes.
const ANNOUNCED: usize = 4 << 20;

/// After how many bytes of one connection others get their turn. Tokio counts reads and writes, not bytes: a peer on a fast
/// line could keep a thread for the 128 reads of a turn, which are many MiB.
const TURN: usize = 256 << 10;

/// The minimum number of bytes of a large message that must arrive per second, on average over a [`Pace`]: 64 kbit/s,
/// the rate of the slowest lines to minions.
const SLOWEST: usize = 8 << 10;

/// The time over which the rate at which a peer reads an answer is averaged.
const READING: Duration = Duration::from_secs(30);

/// The rate at which a large message arrives.
#[derive(Debug)]
struct Pace {
    until: Instant,
    bytes: usize,
}

impl Pace {
    /// Returns the time over which the pace is measured. It is shorter for unauthenticated peers.
    fn time(record: Option<&Arc<ConnectionRecord>>) -> Duration {
        Duration::from_secs(if record.is_none_or(|record| record.is_proven()) { 30 } else { 10 })
    }
}

/// Received bytes. The buffer is small while idle, and large enough for a whole message once its length is known.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    /// The bytes. The decoder removes them from the front.
    pub(crate) bytes: BytesMut,
    /// The largest capacity of `bytes` since it was last replaced. After a message was split off the front, the rest
    /// reports a small capacity but keeps the whole allocation alive.
    allocated: usize,
    room: usize,
    /// The bytes read in this turn.
    turn: usize,
    share: Share,
    pace: Option<Pace>,
}

impl ReadBuffer {
    pub(crate) fn new(budget: Option<(Arc<Budget>, Arc<ConnectionRecord>)>) -> Self {
        ReadBuffer { bytes: BytesMut::new(), allocated: 0, room: LEAST, turn: 0, share: Share::of(budget), pace: None }
    }

    /// Reads once, with room for `missing` bytes if it is known that they will arrive. `elsewhere` bytes of the same
    /// message were already removed. Cancel safe: may be dropped and called again.
    pub(crate) async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        missing: usize,
        elsewhere: usize,
    ) -> Result<(), Error> {
        if self.turn >= TURN {
            self.turn = 0;
            tokio::task::yield_now().await;
        }
        self.make_room(missing);
        // At most `room` bytes beyond a large message: they are moved cheaply, and may be kept without a charge (`settle`).
        let most = missing.max(self.room).min(self.bytes.capacity() - self.bytes.len()).min(TURN);
        let count = if self.share.is_held() {
            // It needs timers, which idle connections by the thousand shall have no room for.
            Box::pin(self.read_in_time(stream, most)).await?
        } else {
            self.pace = None;
            stream.read_buf(&mut (&mut self.bytes).limit(most)).await?
        };
        self.turn += count;
        if missing == 0 {
            // Twice the room after a full read, back to the least after a short one: most connections are idle, and
            // there are thousands.
            self.room = if count == most { (self.room * 2).min(BUSY) } else { LEAST };
        }
        // Before the end of the stream is reported: a half message is given up together with its share.
        self.share.hold(self.bytes.len().saturating_add(elsewhere))?;
        if count == 0 { Err(Error::Closed) } else { Ok(()) }
    }

    /// Reads more of a large message, as long as it arrives fast enough and its memory is not needed for others.
    async fn read_in_time(&mut self, stream: &mut (impl AsyncRead + Unpin), most: usize) -> Result<usize, Error> {
        let record = self.share.record().cloned();
        let time = Pace::time(record.as_ref());
        loop {
            let now = Instant::now();
            // While nobody reads, which is not the peer's fault, no time passes.
            let pace = self.pace.take_if(|pace| pace.until > now).unwrap_or(Pace { until: now + time, bytes: 0 });
            let Pace { until, bytes } = self.pace.insert(pace);
            let over_budget = async {
                match &record {
                    Some(record) => record.is_over_budget.notified().await,
                    None => std::future::pending().await,
                }
            };
            let mut place = (&mut self.bytes).limit(most);
            tokio::select! {
                biased;
                () = over_budget => return Err(Error::Displaced),
                read = timeout_at(*until, stream.read_buf(&mut place)) => match read {
                    Ok(read) => {
                        let count = read?;
                        *bytes = bytes.saturating_add(count);
                        return Ok(count);
                    }
                    Err(_) if *bytes < SLOWEST * time.as_secs() as usize => return Err(Error::Slow(time)),
                    Err(_) => self.pace = None,
                },
            }
        }
    }

    fn make_room(&mut self, missing: usize) {
        if self.bytes.is_empty() && (self.bytes.capacity() < LEAST / 4 || self.allocated > self.room * 2) {
            // A new one, because the old one keeps the memory of past messages.
            self.replace(self.room);
        }
        let (len, spare) = (self.bytes.len(), self.bytes.capacity() - self.bytes.len());
        let short = match missing {
            0 => spare < LEAST / 4,
            // At once when the message begins; later only when all room is used up.
            _ => spare < missing && (spare < LEAST / 4 || (len < BUSY && spare < missing.min(ANNOUNCED / 2))),
        };
        if short {
            // Believe a peer that has sent much to send as much again.
            self.bytes.reserve(missing.clamp(self.room, ANNOUNCED.max(len)));
            self.allocated = self.allocated.max(self.bytes.capacity());
        }
    }

    /// Releases the budget of the message that was removed, and its memory if it was large.
    pub(crate) fn release_message(&mut self) {
        self.share.release();
        let rest = self.bytes.len();
        // Not while much of it is in use: many messages that arrive at once would be copied once for each of them.
        if self.allocated > self.room * 2 && rest < self.allocated / 2 {
            self.replace(rest);
        }
    }

    /// Moves the bytes to a new allocation of at least this size.
    fn replace(&mut self, size: usize) {
        let mut bytes = BytesMut::with_capacity(size);
        bytes.extend_from_slice(&self.bytes);
        self.allocated = bytes.capacity();
        self.bytes = bytes;
    }

    /// Returns the share of the budget under which complete messages are kept.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }
}

/// Writes all bytes, however long that takes, as long as the peer accepts some of them.
pub(crate) async fn write_patiently(stream: &mut (impl AsyncWrite + Unpin), mut bytes: impl Buf) -> Result<(), Error> {
    while bytes.has_remaining() {
        let before = bytes.remaining();
        write_once(stream, &mut bytes).await?;
        end_turn(before - bytes.remaining()).await;
    }
    Ok(stream.flush().await?)
}

/// Writes an answer, as long as the peer reads it fast enough: [`SLOWEST`] on average over [`READING`].
pub(crate) async fn write_in_time(stream: &mut (impl AsyncWrite + Unpin), mut bytes: impl Buf) -> Result<(), Error> {
    let mut pace = Pace { until: Instant::now() + READING, bytes: 0 };
    while bytes.has_remaining() {
        let now = Instant::now();
        if pace.until <= now {
            // Nobody wrote meanwhile, which is not the peer's fault.
            pace = Pace { until: now + READING, bytes: 0 };
        }
        match timeout_at(pace.until, stream.write_buf(&mut bytes)).await {
            Ok(written) => match written? {
                0 => return Err(Error::Closed),
                count => {
                    pace.bytes = pace.bytes.saturating_add(count);
                    end_turn(count).await;
                }
            },
            Err(_) if pace.bytes < SLOWEST * READING.as_secs() as usize => return Err(Error::SlowReader(READING)),
            Err(_) => {}
        }
    }
    timeout_at(Instant::now() + READING, stream.flush()).await.map_err(|_| Error::SlowReader(READING))??;
    Ok(())
}

/// Lets others have their turn after a large write.
async fn end_turn(written: usize) {
    if written >= TURN {
        tokio::task::yield_now().await;
    }
}

/// Writes some bytes and removes them from the front. May be dropped and called again.
pub(crate) async fn write_once(stream: &mut (impl AsyncWrite + Unpin), bytes: &mut impl Buf) -> Result<(), Error> {
    let written = tokio::time::timeout(STALLED, stream.write_buf(bytes)).await;
    match written.map_err(|_| Error::Stalled(STALLED))?? {
        // A stream that takes nothing has ended.
        0 => Err(Error::Closed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use wire::zmtp::{Decoder, Incoming, encode_message};

    use super::*;

    #[tokio::test]
    async fn a_large_message_is_read_into_one_place_that_is_given_up_afterwards() {
        let mut buffer = ReadBuffer::new(None);
        let (message, mut far) = (vec![7; 1 << 20], tokio::io::duplex(1 << 21));
        far.1.write_all(&message).await.unwrap();
        buffer.fill(&mut far.0, 0, 0).await.unwrap();
        assert!(buffer.bytes.capacity() <= 2 * LEAST, "nothing is known yet");
        buffer.fill(&mut far.0, message.len() - buffer.bytes.len(), 0).await.unwrap();
        let place = buffer.bytes.as_ptr();
        while buffer.bytes.len() < message.len() {
            buffer.fill(&mut far.0, message.len() - buffer.bytes.len(), 0).await.unwrap();
        }
        assert_eq!((buffer.bytes.as_ptr(), buffer.bytes == message), (place, true));
        buffer.bytes.clear();
        far.1.write_all(b"x").await.unwrap();
        buffer.fill(&mut far.0, 0, 0).await.unwrap();
        assert!(buffer.bytes.capacity() <= 2 * BUSY);
    }

    /// Receives these bytes in two pieces, the second of this length, and waits for more. Returns the buffer, and the
    /// messages that were complete.
    async fn received(bytes: &[u8], second: usize) -> (ReadBuffer, Vec<Bytes>) {
        let (mut near, mut far) = tokio::io::duplex(bytes.len());
        let (mut buffer, mut decoder, mut messages) = (ReadBuffer::new(None), Decoder::new(bytes.len()), Vec::new());
        let (first, second) = bytes.split_at(bytes.len() - second);
        let mut pieces = [first, second].into_iter();
        loop {
            while let Some(Incoming::Message(mut frames)) = decoder.decode(&mut buffer.bytes).unwrap() {
                buffer.release_message();
                assert!(buffer.bytes.len() <= BUSY, "{} bytes after a message", buffer.bytes.len());
                messages.extend(frames.pop());
            }
            let missing = decoder.missing(&buffer.bytes);
            // Unconstrained, because Tokio interrupts a task that reads much, which would look like the end of a piece.
            let mut fill =
                || tokio::task::unconstrained(buffer.fill(&mut near, missing, decoder.held())).now_or_never();
            // The first one may only have ended a turn.
            match fill().or_else(&mut fill) {
                Some(read) => read.unwrap(),
                None => match pieces.next() {
                    Some(piece) => far.write_all(piece).await.unwrap(),
                    None => return (buffer, messages),
                },
            }
        }
    }

    #[tokio::test]
    async fn an_open_connection_keeps_nothing_of_a_large_message() {
        // Those that just fit leave some room behind them, which is enough for the next message.
        for size in [1 << 20, (5 << 20) + 1, (8 << 20) - 1000, 8 << 20, (8 << 20) + 1000, (8 << 20) + 2000] {
            let message = encode_message(&[vec![7; size]]);
            for (follows, second) in [(&b""[..], 0), (b"", 500), (&[0], 0), (&[0], 500), (&[0, 200, 7, 7], 500)] {
                let (mut buffer, messages) = received(&[&message[..], follows].concat(), second).await;
                assert_eq!((messages.len(), &buffer.bytes[..]), (1, follows));
                drop(messages);
                // This allocates nothing, so it succeeds only if the memory of the message is still there.
                assert!(!buffer.bytes.try_reclaim(4 * BUSY), "{size} bytes, {second} of them late, and {follows:?}");
            }
        }
    }

    #[tokio::test]
    async fn small_messages_keep_nothing_of_a_large_one_before_them() {
        let (large, small) = (encode_message(&[vec![7; (5 << 20) + 1]]), encode_message(&[[7; 1000]]));
        let (buffer, mut messages) = received(&[&large[..], &small.repeat(3000)].concat(), 0).await;
        assert_eq!((messages.len(), messages[0].len(), messages[3000].len()), (3001, (5 << 20) + 1, 1000));
        let first = messages.swap_remove(1);
        drop((buffer, messages));
        assert!(!first.try_into_mut().unwrap().try_reclaim(4 * BUSY));
    }

    #[tokio::test]
    async fn an_announcement_alone_costs_little() {
        let mut buffer = ReadBuffer::new(None);
        let (mut near, mut far) = tokio::io::duplex(64);
        far.write_all(b"x").await.unwrap();
        buffer.fill(&mut near, 2 << 30, 0).await.unwrap();
        assert!(buffer.bytes.capacity() <= ANNOUNCED + LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_that_drips_is_given_up() {
        for (proven, seconds) in [(false, 10), (true, 30)] {
            let (mut near, mut far) = tokio::io::duplex(1 << 20);
            let record = ConnectionRecord::new([127, 0, 0, 1].into());
            if proven {
                record.prove();
            }
            let mut buffer = ReadBuffer::new(Some((Budget::new(8 << 20, 8 << 20), record)));
            far.write_all(&vec![0; 100 << 10]).await.unwrap();
            while buffer.bytes.len() < 100 << 10 {
                buffer.fill(&mut near, 1 << 20, 0).await.unwrap();
            }
            let began = Instant::now();
            // Fast enough for a while, and then no more.
            for _ in 0..4 * seconds {
                far.write_all(&[0; SLOWEST + 10]).await.unwrap();
                buffer.fill(&mut near, 1 << 20, 0).await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let dripping = tokio::spawn(async move {
                while far.write_all(&[0]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(900)).await;
                }
            });
            let slow = loop {
                if let Err(error) = buffer.fill(&mut near, 1 << 20, 0).await {
                    break error;
                }
            };
            dripping.abort();
            assert!(matches!(slow, Error::Slow(time) if time.as_secs() == seconds), "{slow}");
            assert!(began.elapsed().as_secs() < 4 * seconds + 2 * seconds + 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_that_stops_coming_is_given_up() {
        let record = ConnectionRecord::new([127, 0, 0, 1].into());
        let mut buffer = ReadBuffer::new(Some((Budget::new(1 << 20, 1 << 20), record)));
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        far.write_all(&vec![0; 100 << 10]).await.unwrap();
        while buffer.bytes.len() < 100 << 10 {
            buffer.fill(&mut near, 1 << 20, 0).await.unwrap();
        }
        let given_up = loop {
            if let Err(error) = buffer.fill(&mut near, 1 << 20, 0).await {
                break error;
            }
        };
        assert!(matches!(given_up, Error::Slow(_)));
    }

    /// Writes an answer to a peer that reads `bytes` per second for some seconds, then nothing. Returns the time at
    /// which the write ended.
    async fn written(answer: usize, bytes: usize, seconds: u64) -> (Result<(), Error>, Duration) {
        let (mut near, mut far) = tokio::io::duplex(64);
        let reading = tokio::spawn(async move {
            let mut place = vec![0; bytes];
            for _ in 0..seconds {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if far.read_exact(&mut place).await.is_err() {
                    return far;
                }
            }
            std::future::pending::<()>().await;
            far
        });
        let began = Instant::now();
        let written = write_in_time(&mut near, &vec![7; answer][..]).await;
        reading.abort();
        (written, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_written_to_a_slow_reader_and_given_up_with_one_that_is_too_slow() {
        let (slow, time) = written(1 << 20, SLOWEST + 500, 200).await;
        assert!(slow.is_ok() && time > 3 * READING, "{slow:?} after {time:?}");
        let (too_slow, time) = written(1 << 20, SLOWEST - 100, 200).await;
        assert!(matches!(too_slow, Err(Error::SlowReader(READING))), "{too_slow:?}");
        assert_eq!(time.as_secs(), READING.as_secs());
        let (stopped, time) = written(1 << 20, 2 * SLOWEST, 40).await;
        assert!(matches!(stopped, Err(Error::SlowReader(READING))), "{stopped:?}");
        assert_eq!(time.as_secs(), 2 * READING.as_secs(), "too little was read in the second window");
        let (none, time) = written(100, 1, 0).await;
        assert!(matches!(none, Err(Error::SlowReader(READING))), "{none:?}");
        assert_eq!(time.as_secs(), READING.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(64);
        assert!(matches!(write_patiently(&mut near, &[0; 100][..]).await, Err(Error::Stalled(STALLED))));
    }
}
