//! What a stranger may cost: garbage, silence, drops of bytes and long frames end its connection, and links go on meanwhile.

use std::pin::Pin;
use std::time::Duration;

use openssl::ssl::{Ssl, SslContext, SslMethod, SslVersion};
use rt::sim::Sim;
use share::{Carrier, Incoming, Lane, SendResult, To};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_openssl::SslStream;

use crate::support::puppet::{Puppet, closed_after, connect};
use crate::support::{Log, pair};

/// Two linked members and a stranger's host. Afterwards the link has to be as it was.
fn beside_a_link(stranger: impl AsyncFnOnce(&Sim, &Log)) {
    let log = Log::start();
    Sim::run(1, async |sim| {
        sim.add_host("stranger");
        let (one, mut two) = pair(&sim).await;
        stranger(&sim, &log).await;
        assert_eq!(one.links.send(To::All, Lane::Talk, "still here".into()), SendResult::Queued);
        assert!(matches!(two.next().await, Some(Incoming::Message { message, .. }) if message == "still here"));
    });
}

#[test]
fn what_is_no_tls_is_closed_and_named_once() {
    beside_a_link(async |sim, log| {
        for (bytes, words) in [
            (&b"\0\0\0\x14\x82\xa4head\x80\xa4body\xa4join"[..], "a stock Salt master cannot be a member"),
            (b"\xff\0\0\0\0\0\0\0\x01\x7f", "speaks ZeroMQ"),
            (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        ] {
            for _ in 0..3 {
                let mut stream = connect(sim).await;
                stream.write_all(bytes).await.unwrap();
                assert!(closed_after(&mut stream).await < Duration::from_secs(1));
            }
            assert_eq!(log.count(words), 1, "{words}");
        }
    });
}

#[test]
fn garbage_in_place_of_tls_is_closed() {
    beside_a_link(async |sim, _| {
        let mut stream = connect(sim).await;
        stream.write_all(&[&[0x16][..], &[0xa5; 3_000]].concat()).await.unwrap();
        assert!(closed_after(&mut stream).await < Duration::from_secs(1));
    });
}

#[test]
fn silence_and_drops_of_bytes_end_after_five_seconds() {
    beside_a_link(async |sim, log| {
        let mut silent = connect(sim).await;
        let mut dripping = connect(sim).await;
        let drip = async {
            for byte in [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0] {
                if dripping.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            panic!("a stranger may drip for ever");
        };
        let (after, ()) = tokio::join!(closed_after(&mut silent), drip);
        assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&after));
        assert_eq!(log.count("no answer in 5 s"), 1);
    });
}

#[test]
fn strangers_are_bounded_and_their_places_become_free() {
    beside_a_link(async |sim, _| {
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(connect(sim).await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut ninth = connect(sim).await;
        assert!(closed_after(&mut ninth).await < Duration::from_millis(100));
        drop(held);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut served = connect(sim).await;
        assert!(closed_after(&mut served).await > Duration::from_secs(4));
    });
}

#[test]
fn long_and_malformed_frames_of_strangers_are_closed() {
    beside_a_link(async |sim, _| {
        for frame in [
            &b"\xff\xff\xff\xff"[..],
            b"\0\x01\0\x00",
            b"\0\0\0\x01\xc1",
            b"\0\0\0\x05\xdd\xff\xff\xff\xff",
            b"\0\0\0\x06\x91\xa4ping",
        ] {
            let mut stream = Puppet::dial(sim).await.0;
            stream.write_all(frame).await.unwrap();
            assert!(closed_after(&mut stream).await < Duration::from_secs(1), "{frame:?}");
        }
    });
}

#[test]
fn a_half_open_handshake_ends_after_five_seconds() {
    beside_a_link(async |sim, _| {
        let mut stream = Puppet::dial(sim).await.0;
        stream.write_all(b"\0\0\x10\0half of a frame").await.unwrap();
        let after = closed_after(&mut stream).await;
        assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&after));
    });
}

#[test]
fn drops_of_a_frame_end_after_five_seconds() {
    beside_a_link(async |sim, _| {
        let (mut read, mut write) = tokio::io::split(Puppet::dial(sim).await.0);
        let drip = async {
            for byte in [0, 0, 0, 100].into_iter().chain([0x91; 100]) {
                if write.write_all(&[byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            panic!("a stranger may drip for ever");
        };
        let (after, ()) = tokio::join!(closed_after(&mut read), drip);
        assert!((Duration::from_secs(4)..Duration::from_secs(6)).contains(&after), "{after:?}");
    });
}

#[test]
fn garbage_after_the_handshake_is_closed() {
    beside_a_link(async |sim, _| {
        let mut stream = Puppet::dial(sim).await.0;
        stream.get_mut().write_all(&[0xa5; 3_000]).await.unwrap();
        assert!(closed_after(stream.get_mut()).await < Duration::from_secs(1));
    });
}

#[test]
fn kinds_that_nobody_knows_count_for_what_a_stranger_may_send() {
    beside_a_link(async |sim, _| {
        let (mut read, mut write) = tokio::io::split(Puppet::dial(sim).await.0);
        let frame = share::fields::packed(vec!["later".into(), "x".repeat(8_000).as_str().into()]);
        let frame = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
        let flood = async {
            let mut sent = 0;
            while write.write_all(&frame).await.is_ok() {
                sent += frame.len();
                tokio::task::yield_now().await;
            }
            sent
        };
        let (after, sent) = tokio::join!(closed_after(&mut read), flood);
        // What is on the way when the other side closes counts here, too.
        assert!(after < Duration::from_secs(1) && sent < 10 * 64 * 1024, "{sent} bytes in {after:?}");
    });
}

#[test]
fn a_thousand_idle_connections_cost_no_more_than_eight() {
    beside_a_link(async |sim, _| {
        let before = sim.tasks("m1");
        let mut held = Vec::new();
        for _ in 0..1_000 {
            held.push(connect(sim).await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let tasks = sim.tasks("m1") - before;
        assert!(tasks <= 8, "{tasks} tasks for strangers");
        let mut closed = 0;
        for stream in &mut held {
            closed += usize::from(timeout(Duration::ZERO, closed_after(stream)).await.is_ok());
        }
        assert!(closed >= 992, "{closed} of 1,000 were closed");
    });
}

#[test]
fn tls_of_another_version_is_refused() {
    beside_a_link(async |sim, _| {
        let mut context = SslContext::builder(SslMethod::tls()).unwrap();
        context.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
        let mut stream = SslStream::new(Ssl::new(&context.build()).unwrap(), connect(sim).await).unwrap();
        assert!(Pin::new(&mut stream).connect().await.is_err());
    });
}
