//! The same code over simulated streams: silence is found within the bound, and the link is made again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rt::Listen;
use rt::sim::simulated;
use saltern_transport::{
    Audience, Error, Heartbeat, Kind, Limits, Publisher, RequestServer, Requester, Subscription, Target, tcp, zeromq,
};
use tokio::time::Instant;
use value::{Value, map};
use wire::envelope::Envelope;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const BOUND: Duration = Duration::from_secs(5);

async fn open(kind: Kind) -> std::io::Result<(RequestServer, Publisher)> {
    let (rt, limits, beat) = (simulated(1), Limits::default(), Some(Heartbeat::default()));
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
async fn master(kind: Kind) -> Outcome {
    let (mut requests, publisher) = open(kind).await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = ticks.tick() => drop(publisher.publish(&Bytes::from_static(b"tick"), &Audience::All)),
            Some(request) = requests.next() => {
                let Envelope::Clear(clear) = request.envelope? else { return Err("a sealed request".into()) };
                request.reply.send(clear.load.into());
            }
        }
    }
}

fn target(port: u16) -> Target {
    Target::plain((turmoil::lookup("master"), port).into())
}

async fn subscribe(kind: Kind) -> Result<Box<dyn Subscription>, Error> {
    let rt = simulated(2);
    match kind {
        Kind::Zeromq => zeromq::subscribe(&rt, &target(4505), "web1", Vec::new()).await,
        Kind::Tcp => tcp::subscribe(&rt, &target(4505), &Envelope::clear(map! { "id" => "web1" })).await,
    }
}

async fn ask(requester: &dyn Requester, number: i64) -> Result<Value, Error> {
    requester.ask(Envelope::clear(map! { "number" => number }), Duration::from_secs(3)).await
}

fn requester(kind: Kind) -> Box<dyn Requester> {
    match kind {
        Kind::Zeromq => Box::new(zeromq::ZmqRequester::new(simulated(3), target(4506))),
        Kind::Tcp => Box::new(tcp::TcpRequester::new(simulated(3), target(4506))),
    }
}

/// Tries until the link is there again.
async fn again(kind: Kind) -> Box<dyn Subscription> {
    loop {
        match subscribe(kind).await {
            Ok(subscription) => return subscription,
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}

fn simulation() -> turmoil::Sim<'static> {
    let mut builder = turmoil::Builder::new();
    builder.rng_seed(5).simulation_duration(Duration::from_secs(120)).tick_duration(Duration::from_millis(5));
    builder.build()
}

#[test]
fn a_partition_is_found_on_both_zeromq_links_and_survived() {
    let mut sim = simulation();
    sim.host("master", || master(Kind::Zeromq));
    sim.client("minion", async {
        let mut subscription = subscribe(Kind::Zeromq).await?;
        let requester = requester(Kind::Zeromq);
        let watched = tokio::spawn(async { (zeromq::watch(&simulated(4), &target(4506)).await, Instant::now()) });
        assert_eq!(ask(&*requester, 1).await?, map! { "number" => 1 }.into());
        for _ in 0..200 {
            assert_eq!(subscription.next().await?, "tick");
        }
        turmoil::partition("minion", "master");
        let cut = Instant::now();
        let lost = loop {
            match subscription.next().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(lost, Error::Silent(_)), "{lost}");
        assert!(cut.elapsed() < BOUND, "found after {:?}", cut.elapsed());
        let (lost, found) = watched.await?;
        assert!(matches!(lost, Error::Silent(_)), "{lost}");
        assert!(found - cut < BOUND, "found after {:?}", found - cut);
        assert!(ask(&*requester, 2).await.is_err());

        turmoil::repair("minion", "master");
        assert_eq!(again(Kind::Zeromq).await.next().await?, "tick");
        assert_eq!(ask(&*requester, 3).await?, map! { "number" => 3 }.into());
        Ok(())
    });
    sim.run().unwrap();
}

fn survives_a_crash(kind: Kind) {
    let mut sim = simulation();
    sim.host("master", move || master(kind));
    let crashed: Arc<Mutex<Option<&str>>> = Arc::default();
    let seen = crashed.clone();
    sim.client("minion", async move {
        let mut subscription = subscribe(kind).await?;
        let requester = requester(kind);
        assert_eq!(ask(&*requester, 1).await?, map! { "number" => 1 }.into());
        assert_eq!(subscription.next().await?, "tick");
        *seen.lock().unwrap() = Some("now");
        while subscription.next().await.is_ok() {}
        assert_eq!(again(kind).await.next().await?, "tick");
        assert_eq!(ask(&*requester, 2).await?, map! { "number" => 2 }.into());
        Ok(())
    });
    while !sim.step().unwrap() {
        if crashed.lock().unwrap().take().is_some() {
            sim.crash("master");
            sim.bounce("master");
        }
    }
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
    let mut sim = simulation();
    sim.host("master", || master(Kind::Zeromq));
    sim.client("minion", async {
        let mut subscription = subscribe(Kind::Zeromq).await?;
        // Longer than silence may last, but heartbeats pass, late.
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            assert_eq!(subscription.next().await?, "tick");
        }
        Ok(())
    });
    sim.set_link_latency("minion", "master", Duration::from_millis(1200));
    sim.run().unwrap();
}
