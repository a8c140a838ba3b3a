//! A connection whose peer is known by its key.

use std::io;
use std::net::IpAddr;

use share::Node;
use tokio::io::AsyncWriteExt;

use crate::frame::{self, FrameReader};
use crate::tls::TlsStream;
use peers::failed::Failed;
use peers::kind::{Frame, Hello};

/// A connection whose peer has the private half of its member key. After the handshake it is a proven member.
pub(crate) struct Met {
    pub stream: TlsStream,
    pub reader: FrameReader,
    pub node: Node,
    pub hello: Hello,
    pub dialled: bool,
    /// The host of the peer.
    pub address: IpAddr,
}

impl Met {
    /// Notes that the peer has proven that it is a member.
    pub fn trust(&mut self) {
        self.stream.get_mut().trust();
        self.reader.trust();
    }

    /// Writes a frame.
    pub async fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let mut out = Vec::new();
        frame::put(&mut out, &frame.encode());
        self.stream.write_all(&out).await?;
        self.stream.flush().await
    }

    /// Waits for the next frame of a kind that this version knows.
    pub async fn receive(&mut self) -> Result<Frame, Failed> {
        loop {
            let packed = self.reader.next(&mut self.stream).await?;
            match Frame::decode(&packed)? {
                Some(Frame::Refused { reason, word }) => return Err(Failed::Refused { reason, word }),
                Some(Frame::Bye(_)) => return Err(Failed::Linked),
                Some(frame) => return Ok(frame),
                None => {}
            }
        }
    }
}
