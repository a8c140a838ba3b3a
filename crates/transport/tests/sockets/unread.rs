//! Peers that send requests and do not read the answers.

use std::time::Duration;

use bytes::Bytes;
use saltern_transport::{Kind, Limits, RequestServer, Requester, Target, tcp, zeromq};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use value::{Value, map};
use wire::envelope::{Envelope, Sealed};
use wire::tcp::Frame;
use wire::zmtp::{SocketType, encode_message};

use crate::common::*;

/// The time over which the rate at which a peer reads is averaged.
const READING: Duration = Duration::from_secs(30);

async fn serve(net: &MemoryNet, kind: Kind, limits: Limits) -> RequestServer {
    match kind {
        Kind::Zeromq => zeromq::serve(net.rt(), loopback(), limits, None).await.unwrap(),
        Kind::Tcp => tcp::serve(net.rt(), loopback(), limits, None).await.unwrap(),
    }
}

async fn connect(net: &MemoryNet, kind: Kind, server: &RequestServer) -> DuplexStream {
    let stream = net.dial(server.address()).unwrap();
    match kind {
        Kind::Zeromq => Peer::over(stream, SocketType::Dealer).await.stream,
        Kind::Tcp => stream,
    }
}

fn request(kind: Kind) -> Bytes {
    let envelope = Envelope::clear(map! { "number" => 1 });
    match kind {
        Kind::Zeromq => encode_message(&[Bytes::new(), envelope.encode()]),
        Kind::Tcp => Frame::with_mid("1", envelope.to_value()).encode(),
    }
}

fn large() -> Value {
    Value::bytes(vec![0xff; 2 << 20])
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_an_answer_is_asked_no_more_and_closed_after_a_while() {
    for kind in BOTH {
        let net = MemoryNet::default();
        let mut server = serve(&net, kind, Limits::default()).await;
        let mut peer = connect(&net, kind, &server).await;
        peer.write_all(&request(kind)).await.unwrap();
        let mut first = server.next().await.unwrap();
        let (guard, gone) = oneshot::channel::<()>();
        first.reply.keep_until_written(guard);
        first.reply.send(large());
        // As much as fits into the connection, and the server is in the middle of writing.
        peer.read_exact(&mut [0; 100]).await.unwrap();
        let began = Instant::now();
        for _ in 0..20 {
            peer.write_all(&request(kind)).await.unwrap();
        }
        let mut taken = 0;
        while timeout(Duration::from_secs(1), server.next()).await.is_ok() {
            taken += 1;
        }
        assert!(taken <= 1, "{kind:?}: {taken} requests were taken from a peer that does not read");
        gone.await.unwrap_err();
        let seconds = began.elapsed().as_secs();
        assert_eq!(seconds, READING.as_secs(), "{kind:?}");
        closed(&mut peer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn answers_count_until_they_are_read() {
    for kind in BOTH {
        let net = MemoryNet::default();
        let mut server = serve(&net, kind, Limits { unfinished: 1 << 20, ..Limits::default() }).await;
        let mut peer = connect(&net, kind, &server).await;
        peer.write_all(&request(kind)).await.unwrap();
        server.next().await.unwrap().reply.send(large());
        peer.read_exact(&mut [0; 100]).await.unwrap();
        let requester: Box<dyn Requester> = match kind {
            Kind::Zeromq => Box::new(zeromq::ZmqRequester::new(net.rt(), Target::plain(server.address()))),
            Kind::Tcp => Box::new(tcp::TcpRequester::new(net.rt(), Target::plain(server.address()))),
        };
        let answering = tokio::spawn(async move {
            while let Some(request) = server.next().await {
                request.reply.send(true.into());
            }
        });
        let sealed = Sealed { load: vec![7; 300 << 10].into(), version: 3, id: None, enc_algo: None, sig_algo: None };
        let much = || Envelope::Sealed(sealed.clone());
        let refused = requester.ask(much(), PATIENCE).await;
        assert!(refused.is_err(), "{kind:?}: the answer takes all the room");
        peer.read_exact(&mut vec![0; (2 << 20) - 100]).await.unwrap();
        let answer = requester.ask(much(), PATIENCE).await;
        assert!(answer.is_ok(), "{kind:?}: {answer:?}");
        answering.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_an_answer_slowly_gets_all_of_it() {
    for kind in BOTH {
        let net = MemoryNet::default();
        let mut server = serve(&net, kind, Limits::default()).await;
        let mut peer = connect(&net, kind, &server).await;
        peer.write_all(&request(kind)).await.unwrap();
        server.next().await.unwrap().reply.send(large());
        let mut read = 0;
        while read < 2 << 20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            read += peer.read(&mut [0; 12 << 10]).await.unwrap();
        }
        assert_eq!(timeout(PATIENCE, peer.write_all(&request(kind))).await.unwrap().ok(), Some(()), "{kind:?}");
        assert!(timeout(PATIENCE, server.next()).await.unwrap().is_some(), "{kind:?}: it may ask again");
    }
}
