//! Questions and answers over loopback, on both transports.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use futures_util::future::join_all;
use rt::{Listen, Rt};
use saltern_transport::{Error, Incoming, Kind, Limits, Target, tcp, zeromq};
use tokio::io::AsyncWriteExt;
use value::{Value, map};
use wire::envelope::Envelope;
use wire::msgpack::{Packing, pack, unpack};
use wire::tcp::Frame;
use wire::zmtp::{SocketType, encode_message};

#[tokio::test]
async fn several_questions_at_a_time_find_their_answers() {
    for kind in BOTH {
        let mut server = serve(kind).await;
        let requester = requester(kind, server.address());
        let answering = tokio::spawn(async move {
            // Eight come before the first is answered; then the last one first.
            let mut waiting: Vec<Incoming> = Vec::new();
            for _ in 0..8 {
                waiting.push(server.next().await.unwrap());
            }
            for request in waiting.into_iter().rev() {
                let load = load(request.envelope.as_ref().unwrap());
                request.reply.send(load.into());
            }
            answer_all(server).await.unwrap();
        });
        let asked = join_all((0..40).map(|number| ask(&*requester, number))).await;
        for (number, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.unwrap(), echo(number as i64), "{kind:?}");
        }
        answering.abort();
    }
}

#[tokio::test]
async fn a_late_answer_never_reaches_another_question() {
    for kind in BOTH {
        let mut server = serve(kind).await;
        let requester = requester(kind, server.address());
        let (timed_out, first) = tokio::join!(requester.ask(question(1), Duration::from_millis(100)), async {
            server.next().await.unwrap()
        });
        assert!(matches!(timed_out, Err(Error::Timeout(_))), "{kind:?}: {timed_out:?}");
        let (answer, ()) = tokio::join!(ask(&*requester, 2), async {
            let second = server.next().await.unwrap();
            first.reply.send("late".into());
            second.reply.send("right".into());
        });
        assert_eq!(answer.unwrap(), "right".into(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_requester_finds_a_server_that_was_started_again() {
    for kind in BOTH {
        let server = serve(kind).await;
        let address = server.address();
        let requester = requester(kind, address);
        let answering = answer_all(server);
        assert_eq!(ask(&*requester, 1).await.unwrap(), echo(1));
        drop(answering);
        until("the listener is gone", || std::net::TcpStream::connect(address).is_err()).await;
        assert!(ask(&*requester, 2).await.is_err(), "{kind:?}: nobody is there");
        let _answering = answer_all(serve_at(kind, Listen::at(address), Limits::default()).await);
        assert_eq!(ask(&*requester, 3).await.unwrap(), echo(3), "{kind:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_closes_its_connections() {
    for kind in BOTH {
        let mut server = serve(kind).await;
        let requester = requester(kind, server.address());
        let (answer, ()) = tokio::join!(requester.ask(question(1), PATIENCE), async {
            let _request = server.next().await.unwrap();
            drop(server);
        });
        assert!(matches!(answer, Err(Error::Closed | Error::Io(_))), "{kind:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_request_nobody_answers_keeps_no_other_waiting() {
    for kind in BOTH {
        let mut server = serve(kind).await;
        let requester = requester(kind, server.address());
        let (first, second, ()) = tokio::join!(
            requester.ask(question(1), Duration::from_millis(300)),
            requester.ask(question(2), PATIENCE),
            async {
                for _ in 0..2 {
                    let request = server.next().await.unwrap();
                    if load(request.envelope.as_ref().unwrap()) == map! { "number" => 2 } {
                        request.reply.send(true.into());
                    }
                }
            }
        );
        assert!(matches!(first, Err(Error::Timeout(_))), "{kind:?}");
        assert_eq!(second.unwrap(), true.into(), "{kind:?}");
    }
}

#[tokio::test]
async fn large_answers_and_questions_arrive_whole() {
    for kind in BOTH {
        let _answering;
        let mut server = serve(kind).await;
        let requester = requester(kind, server.address());
        let sizes = [0, 200, 255, 256, 65_535, 65_536, 1 << 20, 5_000_000];
        _answering = tokio::spawn(async move {
            while let Some(request) = server.next().await {
                let answer = load(request.envelope.as_ref().unwrap()).remove("data").unwrap();
                request.reply.send(answer);
            }
        });
        for size in sizes {
            let data: Bytes = (0..size).map(|place| (place % 251) as u8).collect();
            let envelope = wire::envelope::Envelope::clear(map! { "data" => data.clone() });
            let answer = requester.ask(envelope, PATIENCE).await.unwrap();
            // Bytes that are text become text, as for Salt's programs.
            let same = answer == Value::bytes(data.clone()) || answer.as_str().map(str::as_bytes) == Some(&data[..]);
            assert!(same, "{kind:?}: {size} bytes");
        }
    }
}

#[tokio::test]
async fn a_dealer_may_ask_ahead_and_gets_its_answers_in_order() {
    let mut server = serve(Kind::Zeromq).await;
    let mut dealer = Peer::connect(server.address(), SocketType::Dealer).await;
    let body = |number: i64| {
        Bytes::from(pack(
            &map! { "enc" => "clear", "load" => map!{ "number" => number }, "version" => 3 }.into(),
            Packing::Wire,
        ))
    };
    for number in 0..40 {
        dealer.send(&encode_message(&[Bytes::from_static(b"tag"), Bytes::new(), body(number)])).await;
    }
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(server.next().await.unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(50), server.next()).await;
    assert!(more.is_err(), "a connection is sixteen ahead at most");
    for (number, request) in held.into_iter().enumerate().rev() {
        request.reply.send((number as i64).into());
    }
    let _rest = tokio::spawn(async move {
        for number in 16..40 {
            server.next().await.unwrap().reply.send(number.into());
        }
        server.next().await
    });
    for number in 0..40_i64 {
        let frames = dealer.message().await;
        assert_eq!(&frames[..2], [Bytes::from_static(b"tag"), Bytes::new()]);
        assert_eq!(unpack(&frames[2], wire::msgpack::Decode::Default).unwrap(), number.into());
    }
}

#[tokio::test]
async fn a_peer_that_sends_much_keeps_no_other_from_its_turn() {
    let mut server = serve(Kind::Zeromq).await;
    let flood =
        pack(&map! { "enc" => "clear", "load" => map!{ "flood" => true }, "version" => 3 }.into(), Packing::Wire);
    let message = encode_message(&[Bytes::new(), flood.into()]);
    let mut dealers = Vec::new();
    for _ in 0..20 {
        let mut dealer = Peer::connect(server.address(), SocketType::Dealer).await;
        for _ in 0..100 {
            dealer.send(&message).await;
        }
        dealers.push(dealer);
    }
    let requester = requester(Kind::Zeromq, server.address());
    let (answer, before) = tokio::join!(ask(&*requester, 7), async {
        let mut before = 0;
        loop {
            let request = server.next().await.unwrap();
            let mine = load(request.envelope.as_ref().unwrap()).get("number").is_some();
            request.reply.send(mine.into());
            if mine {
                return before;
            }
            before += 1;
        }
    });
    assert_eq!(answer.unwrap(), true.into());
    assert!(before < 1024, "{before} others were first");
}

#[tokio::test]
async fn numbers_tell_answers_of_one_tcp_connection_apart() {
    let mut server = serve(Kind::Tcp).await;
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    for mid in ["a", "b", "c"] {
        let body = map! { "enc" => "clear", "load" => map!{ "mid" => mid }, "version" => 3 };
        stream.write_all(&Frame::with_mid(mid, body).encode()).await.unwrap();
    }
    let mut held = BTreeMap::new();
    for _ in 0..3 {
        let request = server.next().await.unwrap();
        held.insert(load(request.envelope.as_ref().unwrap()).get_str("mid").unwrap().to_owned(), request.reply);
    }
    let (mut decoder, mut buffer) = (wire::tcp::Decoder::new(1000, 1000), bytes::BytesMut::new());
    for mid in ["b", "c", "a"] {
        held.remove(mid).unwrap().send(format!("to {mid}").into());
        let frame = loop {
            match decoder.decode(&mut buffer).unwrap() {
                Some(frame) => break frame,
                None => assert_ne!(tokio::io::AsyncReadExt::read_buf(&mut stream, &mut buffer).await.unwrap(), 0),
            }
        };
        assert_eq!((frame.mid(), frame.body.as_str()), (Some(mid), Some(&*format!("to {mid}"))));
    }
}

#[tokio::test]
async fn garbage_in_a_request_is_reported_and_harms_no_other_request() {
    let mut server = serve(Kind::Zeromq).await;
    let mut req = Peer::connect(server.address(), SocketType::Req).await;
    req.send(&encode_message(&[&b""[..], b"\xc1garbage"])).await;
    let request = server.next().await.unwrap();
    assert!(request.envelope.is_err());
    request.reply.send("bad load".into());
    assert_eq!(req.message().await[1], pack(&"bad load".into(), Packing::Wire));
}

#[tokio::test]
async fn all_families_and_source_ports_work() {
    for kind in BOTH {
        let any = serve_at(kind, Listen::at("[::]:0".parse().unwrap()), Limits::default()).await;
        let port = any.address().port();
        let (sender, mut peers) = tokio::sync::mpsc::unbounded_channel();
        let mut any = any;
        let answering = tokio::spawn(async move {
            while let Some(request) = any.next().await {
                sender.send(request.peer).unwrap();
                request.reply.send(true.into());
            }
        });
        for to in ["127.0.0.1", "::1"] {
            let to: std::net::IpAddr = to.parse().unwrap();
            ask(&*requester(kind, (to, port).into()), 1).await.unwrap();
            assert_eq!(peers.recv().await.unwrap().ip(), to, "{kind:?}: shown as it is");
        }
        // A port that was free a moment ago.
        let from = std::net::TcpListener::bind("127.0.0.7:0").unwrap().local_addr().unwrap();
        let target = Target { from: Some(from), ..Target::plain(([127, 0, 0, 1], port).into()) };
        let requester = requester_to(kind, target);
        let (first, second) = tokio::join!(ask(&*requester, 1), ask(&*requester, 2));
        assert_eq!((first.unwrap(), second.unwrap()), (true.into(), true.into()));
        assert_eq!((peers.recv().await.unwrap(), peers.recv().await.unwrap()), (from, from), "{kind:?}");
        answering.abort();
    }
}

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = Target::plain(nobody);
    assert!(zeromq::ZmqRequester::new(Rt::real(), target.clone()).connect().await.is_err());
    assert!(tcp::TcpRequester::new(Rt::real(), target.clone()).connect().await.is_err());
    assert!(zeromq::subscribe(&Rt::real(), &target, "web1", Vec::new()).await.is_err());
    let error = ask(&*requester(Kind::Tcp, nobody), 1).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn the_watch_ends_with_the_server() {
    let server = serve(Kind::Zeromq).await;
    let target = Target::plain(server.address());
    let watched = tokio::spawn(async move { zeromq::watch(&Rt::real(), &target).await });
    let requester = requester(Kind::Zeromq, server.address());
    let answering = answer_all(server);
    ask(&*requester, 1).await.unwrap();
    assert!(!watched.is_finished());
    drop(answering);
    let error = tokio::time::timeout(PATIENCE, watched).await.unwrap().unwrap();
    assert!(matches!(error, Error::Closed | Error::Io(_)), "{error}");
}

/// A master that answers each request with a text of this size.
async fn talkative(kind: Kind, bytes: usize) -> (std::net::SocketAddr, tokio_util::task::AbortOnDropHandle<()>) {
    let mut server = serve(kind).await;
    let address = server.address();
    let answering = tokio::spawn(async move {
        while let Some(request) = server.next().await {
            request.reply.send("x".repeat(bytes).into());
        }
    });
    (address, tokio_util::task::AbortOnDropHandle::new(answering))
}

#[tokio::test]
async fn the_answer_to_a_sign_in_is_at_most_a_mebibyte() {
    for kind in BOTH {
        let (address, _answering) = talkative(kind, 2 << 20).await;
        let requester = requester(kind, address);
        let sign_in = Envelope::clear(map! { "cmd" => "_auth" });
        let refused = requester.ask(sign_in, PATIENCE).await;
        assert!(!matches!(refused, Ok(_) | Err(Error::Timeout(_))), "{kind:?}: {refused:?}");
        // A later request may have a long answer.
        assert!(ask(&*requester, 1).await.is_ok(), "{kind:?}");
    }
}
