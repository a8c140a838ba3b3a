//! The seam holds a simulated world as well as the real one.

use std::time::{Duration, SystemTime};

use saltern_rt::sim::simulated;
use saltern_rt::{Connect, Listen, Rt, SeededRandom, TokioNet, WallClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn two_simulated_hosts_talk() {
    let mut sim = turmoil::Builder::new().rng_seed(7).build();
    sim.host("master", || async {
        let listener = simulated(7).net().listen(&Listen::at("0.0.0.0:4506".parse()?)).await?;
        let mut met = listener.accept().await?;
        met.stream.write_all(b"salt").await?;
        Ok(())
    });
    sim.client("minion", async {
        let rt = simulated(8);
        let to = rt.net().resolve("master", 4506).await?[0];
        let mut met = rt.net().connect(&Connect::to(to)).await?;
        let mut got = String::new();
        met.stream.read_to_string(&mut got).await?;
        assert_eq!(got, "salt");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn the_simulated_clock_goes_on_with_simulated_time() {
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let mut sim = turmoil::Builder::new().epoch(epoch).simulation_duration(Duration::from_secs(100)).build();
    sim.client("minion", async {
        let rt = simulated(1);
        let before = rt.unix_seconds();
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!((before, rt.unix_seconds()), (1_000_000, 1_000_050));
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_seed_gives_the_same_bytes() {
    let bytes = |seed| Rt::new(TokioNet, WallClock, SeededRandom::new(seed)).bytes::<16>();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}
