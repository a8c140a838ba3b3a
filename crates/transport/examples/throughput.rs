//! Measures how many megabytes of large replies one connection carries per second, over loopback and through the
//! whole stack of this crate: `cargo run --release -p saltern-transport --example throughput [replies] [bytes per
//! reply]`.

use std::time::{Duration, Instant};

use rt::{Listen, Rt};
use saltern_transport::{Limits, RequestServer, Requester, Target, tcp, zeromq};
use value::{Value, map};
use wire::envelope::Envelope;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let replies: usize = arguments.next().map_or(Ok(2000), |text| text.parse())?;
    let size: usize = arguments.next().map_or(Ok(1 << 20), |text| text.parse())?;
    let (rt, listen) = (Rt::real(), Listen::at("127.0.0.1:0".parse()?));
    let server = zeromq::serve(rt.clone(), listen.clone(), Limits::default(), None).await?;
    let requester = zeromq::ZmqRequester::new(rt.clone(), Target::plain(server.address()));
    measure("zeromq", server, &requester, replies, size).await?;
    let server = tcp::serve(rt.clone(), listen, Limits::default(), None).await?;
    let requester = tcp::TcpRequester::new(rt, Target::plain(server.address()));
    measure("tcp", server, &requester, replies, size).await
}

async fn measure(
    name: &str,
    mut server: RequestServer,
    requester: &dyn Requester,
    replies: usize,
    size: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    // Bytes that are not UTF-8, so that they do not arrive as text.
    let body = Value::bytes(vec![0xff; size]);
    let answering = tokio::spawn(async move {
        while let Some(request) = server.next().await {
            request.reply.send(body.clone());
        }
    });
    let mut began = Instant::now();
    for round in 0..=replies {
        if round == 1 {
            // The first brings the connection up.
            began = Instant::now();
        }
        let answer = requester.ask(Envelope::clear(map! { "cmd" => "chunk" }), Duration::from_secs(10)).await?;
        assert!(matches!(answer, Value::Bytes(bytes) if bytes.len() == size));
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {:.0} MB/s ({replies} replies of {size} bytes)", (replies * size) as f64 / 1e6 / seconds);
    answering.abort();
    Ok(())
}
