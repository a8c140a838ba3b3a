//! The simulated world: hosts that talk, and everything that may happen to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use saltern_rt::sim::{EPOCH, Sim};
use saltern_rt::{Connect, Connection, Keepalive, Listen, Rt, SeededRandom, TokioNet, WallClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// Answers each byte with the next one.
async fn count_up(rt: Rt) {
    let listener = rt.net().listen(&Listen::at("0.0.0.0:4506".parse().unwrap())).await.unwrap();
    loop {
        let mut met = listener.accept().await.unwrap();
        rt.spawn(async move {
            let mut byte = [0];
            while met.stream.read_exact(&mut byte).await.is_ok() {
                byte[0] += 1;
                if met.stream.write_all(&byte).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn two_hosts(sim: &Sim) -> Rt {
    sim.add_host("master");
    sim.add_host("minion");
    sim.spawn("master", count_up(sim.rt("master")));
    sim.rt("minion")
}

async fn connect(rt: &Rt) -> std::io::Result<Connection> {
    let to = rt.net().resolve("master", 4506).await?[0];
    rt.net().connect(&Connect { keepalive: None, ..Connect::to(to) }).await
}

async fn ask(met: &mut Connection, number: u8) -> std::io::Result<u8> {
    met.stream.write_all(&[number]).await?;
    met.stream.read_u8().await
}

#[test]
fn two_hosts_communicate_and_time_jumps() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let mut met = connect(&rt).await.unwrap();
        assert_eq!((met.peer.to_string(), met.local.ip().to_string()), ("10.0.0.1:4506".into(), "10.0.0.2".into()));
        // An hour passes in no time: the clock jumps to the next timer.
        let before = rt.unix_seconds();
        for _ in 0..10 {
            assert_eq!(ask(&mut met, 1).await.unwrap(), 2);
            tokio::time::sleep(360 * SECOND).await;
        }
        assert!((3600..3602).contains(&(rt.unix_seconds() - before)));
        assert!(sim.elapsed() > 3600 * SECOND && before.abs_diff(EPOCH.as_secs() as i64) <= 1);
    });
}

#[test]
fn data_sent_into_a_cut_arrives_after_it() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let mut met = connect(&rt).await.unwrap();
        sim.cut("minion", "master");
        assert!(timeout(60 * SECOND, ask(&mut met, 1)).await.is_err());
        assert!(connect(&rt).await.is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut));
        sim.mend("minion", "master");
        // The byte that was sent into the cut was not lost.
        assert_eq!(timeout(60 * SECOND, met.stream.read_u8()).await.unwrap().unwrap(), 2);
        sim.cut("master", "minion");
        assert!(timeout(60 * SECOND, ask(&mut met, 5)).await.is_err());
        sim.mend("master", "minion");
        assert_eq!(timeout(60 * SECOND, met.stream.read_u8()).await.unwrap().unwrap(), 6);
    });
}

#[test]
fn a_killed_program_closes_its_connections_and_refuses_new_ones() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let mut met = connect(&rt).await.unwrap();
        sim.kill("master");
        assert!(timeout(SECOND, ask(&mut met, 1)).await.unwrap().is_err());
        // Refused, not timed out: the host's kernel is alive.
        assert!(connect(&rt).await.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused));
        sim.spawn("master", count_up(sim.rt("master")));
        assert_eq!(ask(&mut connect(&rt).await.unwrap(), 1).await.unwrap(), 2);
    });
}

#[test]
fn a_host_without_power_is_silent_and_resets_old_connections_later() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let mut met = connect(&rt).await.unwrap();
        sim.power_off("master");
        assert!(timeout(60 * SECOND, ask(&mut met, 1)).await.is_err());
        // Timed out, not refused: there is nobody to refuse.
        assert!(connect(&rt).await.is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut));
        sim.power_on("master");
        sim.spawn("master", count_up(sim.rt("master")));
        let denied = timeout(60 * SECOND, met.stream.read_u8()).await.unwrap();
        // The rebooted host does not know the old connection.
        assert!(denied.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
        assert_eq!(ask(&mut connect(&rt).await.unwrap(), 1).await.unwrap(), 2);
    });
}

#[test]
fn a_stopped_program_accepts_connections_but_does_not_answer() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        drop(connect(&rt).await.unwrap());
        sim.pause("master");
        // The kernel of a stopped program completes handshakes.
        let mut met = connect(&rt).await.unwrap();
        assert!(timeout(60 * SECOND, ask(&mut met, 1)).await.is_err());
        sim.resume("master");
        assert_eq!(timeout(SECOND, met.stream.read_u8()).await.unwrap().unwrap(), 2);
    });
}

#[test]
fn the_tasks_of_a_killed_program_are_gone() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let count = Arc::new(AtomicU32::new(0));
        let counter = count.clone();
        let inside = rt.clone();
        rt.spawn(async move {
            loop {
                inside
                    .blocking({
                        let counter = counter.clone();
                        move || counter.fetch_add(1, Ordering::Relaxed)
                    })
                    .await
                    .unwrap();
                tokio::time::sleep(SECOND).await;
            }
        });
        tokio::time::sleep(10 * SECOND).await;
        sim.kill("minion");
        let seen = count.load(Ordering::Relaxed);
        tokio::time::sleep(10 * SECOND).await;
        assert!(seen >= 10);
        assert_eq!(count.load(Ordering::Relaxed), seen);
        // A leaked task would hold the world of the simulation for ever.
        assert_eq!(sim.tasks("minion"), 0);
    });
}

#[test]
fn keepalive_detects_a_silent_peer() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        let to = rt.net().resolve("master", 4506).await.unwrap()[0];
        let keepalive = Keepalive { idle: Some(SECOND), interval: Some(SECOND), count: Some(3) };
        let mut met = rt.net().connect(&Connect { keepalive: Some(keepalive), ..Connect::to(to) }).await.unwrap();
        assert!(timeout(600 * SECOND, met.stream.read_u8()).await.is_err(), "a quiet connection stays");
        sim.cut("master", "minion");
        // Three probes, one second apart, after one second of silence.
        let lost = timeout(6 * SECOND, met.stream.read_u8()).await.unwrap();
        assert!(lost.is_err_and(|error| error.kind() == std::io::ErrorKind::TimedOut));
    });
}

#[test]
fn names_links_and_clocks_can_be_changed() {
    Sim::run(7, async |sim| {
        let rt = two_hosts(&sim);
        sim.set_resolves("master", false);
        assert!(connect(&rt).await.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound));
        sim.set_resolves("master", true);
        let mut met = connect(&rt).await.unwrap();
        sim.weaken("minion", "master", SECOND, 0);
        let before = sim.elapsed();
        ask(&mut met, 1).await.unwrap();
        assert!(sim.elapsed() - before >= 2 * SECOND);
        sim.weaken("minion", "master", Duration::ZERO, 50);
        let before = sim.elapsed();
        for _ in 0..20 {
            ask(&mut met, 1).await.unwrap();
        }
        assert!(sim.elapsed() - before >= 2 * SECOND, "what was lost was sent again");
        let before = rt.unix_seconds();
        sim.move_clock("minion", -3600);
        assert!((-3600..-3595).contains(&(rt.unix_seconds() - before)));
    });
}

#[test]
fn a_seed_gives_the_same_bytes() {
    let bytes = |seed| Rt::new(TokioNet, WallClock, SeededRandom::new(seed)).bytes::<16>();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}
