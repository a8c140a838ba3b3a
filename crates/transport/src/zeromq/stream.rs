//! A stream after its handshake: messages and commands in, frames out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use rt::{BoxStream, Rt};
use tokio::io::AsyncWriteExt;
use wire::zmtp::{Command, Decoder, Handshake, Incoming, Peer, SocketType, Step};

use crate::budget::Share;
use crate::buffer::{ReadBuffer, write_in_time, write_once, write_patiently};
use crate::capacity::ConnectionRecord;
use crate::open::check_start;
use crate::pulse::Pulse;
use crate::{Budget, Error, Heartbeat, OnHeard, Target};

/// A connection to a peer that has introduced itself.
pub(super) struct ZmtpStream {
    stream: BoxStream,
    buffer: ReadBuffer,
    decoder: Decoder,
    pulse: Pulse,
    /// For a server of requests: true if the peer is on another host.
    foreign: Option<bool>,
    /// The unwritten rest of a PING or PONG.
    outbox: Bytes,
    /// Called whenever something is received.
    pub(super) on_heard: Option<OnHeard>,
}

/// The settings of a stream.
pub(super) struct Setup {
    pub(super) socket: SocketType,
    pub(super) identity: Bytes,
    pub(super) limit: usize,
    /// For a server of requests: the budget of unfinished messages, and the connection that uses it.
    pub(super) budget: Option<(Arc<Budget>, Arc<ConnectionRecord>)>,
    /// Requests come from another host.
    pub(super) foreign: bool,
    pub(super) heartbeat: Option<Heartbeat>,
}

/// Connects and exchanges greetings, each within the target's timeout.
pub(super) async fn dial(rt: &Rt, target: &Target, socket: SocketType, identity: &str) -> Result<ZmtpStream, Error> {
    let made = rt.net().connect(&target.connect()).await?;
    let setup = Setup {
        socket,
        identity: Bytes::copy_from_slice(identity.as_bytes()),
        limit: target.message_limit,
        budget: None,
        foreign: false,
        heartbeat: target.heartbeat,
    };
    let opened = tokio::time::timeout(target.timeout, ZmtpStream::open(made.stream, setup)).await;
    let (stream, _) = opened.map_err(|_| Error::Timeout(target.timeout))??;
    Ok(stream)
}

impl ZmtpStream {
    /// Exchanges greetings. Also returns what the peer said about itself.
    pub(super) async fn open(mut stream: BoxStream, setup: Setup) -> Result<(Self, Peer), Error> {
        let foreign = setup.budget.as_ref().map(|_| setup.foreign);
        let mut buffer = ReadBuffer::new(setup.budget);
        let peer = shake_hands(&mut stream, &mut buffer, setup.socket, setup.identity).await?;
        // ZMTP 3.0 has no PING.
        let pulse = Pulse::new(setup.heartbeat.filter(|_| peer.minor > 0));
        // In front of a request are the names of the proxies it passed.
        let decoder = Decoder::new(setup.limit).with_prefix(if foreign.is_some() { MAX_ROUTE } else { setup.limit });
        Ok((ZmtpStream { stream, buffer, decoder, pulse, foreign, outbox: Bytes::new(), on_heard: None }, peer))
    }

    /// Waits for the next message or subscription. Sends and answers heartbeats while it waits. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Incoming, Error> {
        loop {
            // One answer at a time, so that a peer that sends PINGs and reads nothing fills no memory.
            self.empty_outbox().await?;
            match self.decoder.decode(&mut self.buffer.bytes)? {
                None => self.wait().await?,
                Some(Incoming::Command(Command::Ping { context, .. })) => {
                    self.pulse.was_asked();
                    self.outbox = Command::Pong { context }.encode();
                }
                Some(Incoming::Command(Command::Pong { .. } | Command::Unknown(_))) => {}
                Some(Incoming::Command(Command::Error(reason))) => {
                    return Err(wire::zmtp::Error::Refused(reason).into());
                }
                Some(incoming) => {
                    self.buffer.release_message();
                    return Ok(incoming);
                }
            }
        }
    }

    /// Waits for bytes, or until a PING is due. Received bytes are handled first, because they may show that the peer
    /// is alive.
    async fn wait(&mut self) -> Result<(), Error> {
        let (missing, held) = (self.decoder.missing(&self.buffer.bytes), self.decoder.held());
        if let Some(foreign) = self.foreign
            && let Some((start, len)) = self.decoder.last_frame(&self.buffer.bytes)
        {
            check_start(start, len, foreign)?;
        }
        // `biased` makes that order certain.
        tokio::select! {
            biased;
            read = self.buffer.fill(&mut self.stream, missing, held) => {
                read?;
                self.pulse.heard();
                if let Some(on_heard) = &self.on_heard {
                    on_heard();
                }
            }
            due = self.pulse.due() => {
                due?;
                self.outbox = Command::Ping { ttl: 0, context: Bytes::new() }.encode();
            }
        }
        Ok(())
    }

    /// Sets the largest size of messages from now on, in bytes.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.decoder.set_limit(limit);
    }

    /// Writes an encoded message. Not cancel safe.
    pub(super) async fn write(&mut self, message: impl Buf) -> Result<(), Error> {
        // Part of a PING may be written already; a message in its middle would break the stream.
        self.empty_outbox().await?;
        write_patiently(&mut self.stream, message).await
    }

    /// Writes an answer, if the peer reads it fast enough. Not cancel safe.
    pub(super) async fn write_in_time(&mut self, answer: impl Buf) -> Result<(), Error> {
        self.empty_outbox().await?;
        write_in_time(&mut self.stream, answer).await
    }

    /// Returns the share of the budget to which complete messages are charged.
    pub(super) fn share(&self) -> &Share {
        self.buffer.share()
    }

    async fn empty_outbox(&mut self) -> Result<(), Error> {
        while self.outbox.has_remaining() {
            write_once(&mut self.stream, &mut self.outbox).await?;
        }
        Ok(())
    }
}

/// The largest number of bytes of the frames before a request: an empty frame, and a name of at most 255 bytes for each
/// proxy.
const MAX_ROUTE: usize = 4 << 10;

async fn shake_hands(
    stream: &mut BoxStream,
    buffer: &mut ReadBuffer,
    socket: SocketType,
    identity: Bytes,
) -> Result<Peer, Error> {
    let (mut handshake, greeting) = Handshake::new(socket, identity);
    stream.write_all(&greeting).await?;
    loop {
        match handshake.advance(&mut buffer.bytes)? {
            Step::Read => buffer.fill(stream, 0, 0).await?,
            Step::Send(bytes) => stream.write_all(&bytes).await?,
            Step::Done(peer) => return Ok(peer),
        }
    }
}

/// Does the handshake of an accepted connection, within `time`.
pub(super) async fn admit(
    stream: BoxStream,
    place: crate::accept::Place,
    setup: Setup,
    time: Duration,
) -> Result<(ZmtpStream, Peer), Error> {
    place.during(time, ZmtpStream::open(stream, setup)).await
}
