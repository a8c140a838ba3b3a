//! The same code over simulated streams: silence is detected in time, and the link is restored.

use std::time::Duration;

use bytes::Bytes;
use rt::sim::Sim;
use rt::{Listen, Rt};
use saltern_transport::{
    Audience, Error, Heartbeat, Kind, Limits, Publisher, RequestServer, Requester, Subscription, Target, tcp, zeromq,
};
use tokio::time::Instant;
use value::{Value, map};
use wire::envelope::Envelope;

const BOUND: Duration = Duration::from_secs(5);

async fn open(rt: Rt, kind: Kind) -> std::io::Result<(RequestServer, Publisher)> {
    let (limits, beat) = (Limits::default(), Some(Heartbeat::default()));
    let at = |port| Listen::at(([0, 0, 0, 0], port).into());
    Ok(match kind {
        Kind::Zeromq => (
            zeromq::serve(rt.clone(), at(4506), limits, beat).await?,
            zeromq::publish(rt, at(4505), limits, beat).await?,
        ),
        Kind::Tcp => {
            (tcp::serve(rt.clone(), at(4506), limits, None).await?, tcp::publish(rt, at(4505), limits, None).await?)
        }
    })
}

/// Publishes a number ten times a second and answers each question with its own load.
async fn master(rt: Rt, kind: Kind) {
    let (mut requests, publisher) = open(rt, kind).await.unwrap();
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => drop(publisher.publish(&Bytes::from_static(b"tick").into(), &Audience::All)),
            Some(request) = requests.next() => {
                let Ok(Envelope::Clear(clear)) = request.envelope else { panic!("a sealed request") };
                request.reply.send(clear.load.into());
            }
        }
    }
}

async fn target(rt: &Rt, port: u16) -> Target {
    Target::plain(rt.net().resolve("master", port).await.unwrap()[0])
}

async fn subscribe(rt: &Rt, kind: Kind) -> Result<Box<dyn Subscription>, Error> {
    let target = target(rt, 4505).await;
    match kind {
        Kind::Zeromq => zeromq::subscribe(rt, &target, "web1", Vec::new()).await,
        Kind::Tcp => tcp::subscribe(rt, &target, &Envelope::clear(map! { "id" => "web1" })).await,
    }
}

async fn ask(requester: &dyn Requester, number: i64) -> Result<Value, Error> {
    requester.ask(Envelope::clear(map! { "number" => number }), Duration::from_secs(3)).await
}

async fn requester(rt: &Rt, kind: Kind) -> Box<dyn Requester> {
    let target = target(rt, 4506).await;
    match kind {
        Kind::Zeromq => Box::new(zeromq::ZmqRequester::new(rt.clone(), target)),
        Kind::Tcp => Box::new(tcp::TcpRequester::new(rt.clone(), target)),
    }
}

/// Retries until the link is restored.
async fn again(rt: &Rt, kind: Kind) -> Box<dyn Subscription> {
    loop {
        match subscribe(rt, kind).await {
            Ok(subscription) => return subscription,
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

/// A master, and the world of a minion.
fn hosts(sim: &Sim, kind: Kind) -> Rt {
    sim.add_host("master");
    sim.add_host("minion");
    sim.spawn("master", master(sim.rt("master"), kind));
    sim.rt("minion")
}

#[test]
fn a_partition_is_found_on_both_zeromq_links_and_survived() {
    Sim::run(5, async |sim| {
        let rt = hosts(&sim, Kind::Zeromq);
        let mut subscription = again(&rt, Kind::Zeromq).await;
        let requester = requester(&rt, Kind::Zeromq).await;
        let (watching, to) = (rt.clone(), target(&rt, 4506).await);
        let watched = rt.spawn(async move { (zeromq::watch(&watching, &to).await, Instant::now()) });
        assert_eq!(ask(&*requester, 1).await.unwrap(), map! { "number" => 1 }.into());
        for _ in 0..200 {
            assert_eq!(subscription.next().await.unwrap(), "tick");
        }
        sim.partition("minion", "master");
        let cut = Instant::now();
        let lost = loop {
            match subscription.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(lost, Error::Silent(_)), "{lost}");
        assert!(cut.elapsed() < BOUND, "found after {:?}", cut.elapsed());
        let (lost, found) = watched.await.unwrap();
        assert!(matches!(lost, Error::Silent(_)), "{lost}");
        assert!(found - cut < BOUND, "found after {:?}", found - cut);
        assert!(ask(&*requester, 2).await.is_err());

        sim.repair("minion", "master");
        assert_eq!(again(&rt, Kind::Zeromq).await.next().await.unwrap(), "tick");
        assert_eq!(ask(&*requester, 3).await.unwrap(), map! { "number" => 3 }.into());
    });
}

fn survives_a_crash(kind: Kind) {
    Sim::run(5, async |sim| {
        let rt = hosts(&sim, kind);
        let mut subscription = again(&rt, kind).await;
        let requester = requester(&rt, kind).await;
        assert_eq!(ask(&*requester, 1).await.unwrap(), map! { "number" => 1 }.into());
        assert_eq!(subscription.next().await.unwrap(), "tick");
        sim.kill("master");
        sim.spawn("master", master(sim.rt("master"), kind));
        while subscription.next().await.is_ok() {}
        assert_eq!(again(&rt, kind).await.next().await.unwrap(), "tick");
        assert_eq!(ask(&*requester, 2).await.unwrap(), map! { "number" => 2 }.into());
    });
}

#[test]
fn a_master_that_crashed_and_came_back_is_found_over_zeromq() {
    survives_a_crash(Kind::Zeromq);
}

#[test]
fn a_master_that_crashed_and_came_back_is_found_over_tcp() {
    survives_a_crash(Kind::Tcp);
}

#[test]
fn a_slow_link_is_not_taken_for_a_dead_one() {
    Sim::run(5, async |sim| {
        let rt = hosts(&sim, Kind::Zeromq);
        // Longer than silence may last, but heartbeats pass, late.
        sim.weaken("minion", "master", Duration::from_millis(1200), 0);
        let mut subscription = again(&rt, Kind::Zeromq).await;
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            assert_eq!(subscription.next().await.unwrap(), "tick");
        }
    });
}
