//! A stream after its handshake: messages and commands in, frames out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rt::BoxStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::zmtp::{Command, Decoder, Handshake, Incoming, Peer, SocketType, Step};

use crate::budget::Share;
use crate::pulse::Pulse;
use crate::serve::write_patiently;
use crate::{Budget, Error, Heartbeat};

/// A connection to a peer that has introduced itself.
pub(super) struct ZmtpStream {
    stream: BoxStream,
    buffer: BytesMut,
    decoder: Decoder,
    share: Share,
    pulse: Pulse,
    pub(super) peer: Peer,
}

/// What a stream is set up with.
pub(super) struct Setup {
    pub(super) socket: SocketType,
    pub(super) identity: Bytes,
    pub(super) limit: usize,
    pub(super) budget: Option<Arc<Budget>>,
    pub(super) heartbeat: Option<Heartbeat>,
    pub(super) timeout: Duration,
}

impl ZmtpStream {
    /// Exchanges greetings within the time.
    pub(super) async fn open(stream: BoxStream, setup: Setup) -> Result<Self, Error> {
        let timeout = setup.timeout;
        let shaken = tokio::time::timeout(timeout, shake_hands(stream, &setup)).await;
        let (stream, buffer, peer) = shaken.map_err(|_| Error::Timeout(timeout))??;
        // ZMTP 3.0 has no PING.
        let pulse = Pulse::new(setup.heartbeat.filter(|_| peer.minor > 0));
        let (decoder, share) = (Decoder::new(setup.limit), Share::of(setup.budget));
        Ok(ZmtpStream { stream, buffer, decoder, share, pulse, peer })
    }

    /// Waits for the next message or subscription. Heartbeats are sent and answered meanwhile. May be dropped and called
    /// again.
    pub(super) async fn next(&mut self) -> Result<Incoming, Error> {
        loop {
            while let Some(incoming) = self.decoder.decode(&mut self.buffer)? {
                self.share.hold(self.buffer.len())?;
                match incoming {
                    Incoming::Command(Command::Ping { context, .. }) => {
                        self.write(&Command::Pong { context }.encode()).await?;
                    }
                    Incoming::Command(Command::Pong { .. } | Command::Unknown(_)) => {}
                    Incoming::Command(Command::Error(reason)) => {
                        return Err(wire::zmtp::Error::Refused(reason).into());
                    }
                    other => return Ok(other),
                }
            }
            tokio::select! {
                read = read_some(&mut self.stream, &mut self.buffer) => {
                    read?;
                    self.pulse.heard();
                    self.share.hold(self.buffer.len())?;
                }
                due = self.pulse.due() => {
                    due?;
                    self.write(&Command::Ping { ttl: 0, context: Bytes::new() }.encode()).await?;
                }
            }
        }
    }

    /// Writes an encoded frame.
    pub(super) async fn write(&mut self, frame: &Bytes) -> Result<(), Error> {
        write_patiently(&mut self.stream, frame).await
    }
}

async fn shake_hands(mut stream: BoxStream, setup: &Setup) -> Result<(BoxStream, BytesMut, Peer), Error> {
    let (mut handshake, greeting) = Handshake::new(setup.socket, setup.identity.clone());
    let mut buffer = BytesMut::new();
    stream.write_all(&greeting).await?;
    loop {
        match handshake.advance(&mut buffer)? {
            Step::Read => read_some(&mut stream, &mut buffer).await?,
            Step::Send(bytes) => stream.write_all(&bytes).await?,
            Step::Done(peer) => return Ok((stream, buffer, peer)),
        }
    }
}

/// A small buffer for idle connections; it grows with what really arrives.
async fn read_some(stream: &mut BoxStream, buffer: &mut BytesMut) -> Result<(), Error> {
    if buffer.capacity() - buffer.len() < 256 {
        let room = if buffer.len() < 4096 { 1024 } else { 256 << 10 };
        buffer.reserve(room);
    }
    match stream.read_buf(buffer).await? {
        0 => Err(Error::Closed),
        _ => Ok(()),
    }
}
