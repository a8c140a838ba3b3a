//! A reader in a set: it serves minions, and leaves it to others to decide about keys.

use channel::client::SignIn;
use crypto::PrivateKey;
use value::{Map, Value, list, map};

use crate::common::{Master, Minion, jobs};
use crate::sharing::{Pair, ask, becomes, delete, linked, until};

async fn start(pair: &Pair) -> (Master, Master) {
    let master = Master::start(pair.options(0, Map::new())).await;
    // Options of the whole set, one of which would decide.
    let options = map! { "cluster_role" => "reader", "auto_accept" => true };
    let reader = Master::start(pair.options(1, options)).await;
    linked(&master, "m2").await;
    linked(&reader, "m1").await;
    (master, reader)
}

fn has_key(master: &Master, id: &str) -> bool {
    ["minions", "minions_pre", "minions_rejected"].iter().any(|bank| master.path("pki").join(bank).join(id).exists())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_serves_minions_whose_keys_other_masters_have_accepted() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let (master, reader) = start(&pair).await;
    let masters = ask(&master, map! { "what" => "masters" }).await;
    let role = masters.get("sharing").and_then(|found| found.get("masters")?.get("m2")?.get("role").cloned());
    assert_eq!(role, Some("reader".into()), "{masters}");

    let key = PrivateKey::generate(2048).unwrap();
    let minion = reader.minion_of_ours_with("web1", key.clone(), place.path());
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Pending)), "nothing is accepted automatically");
    reader.accept("web1");
    becomes(&reader, "web1", &["minions_pre"]).await;
    let confirm = map! { "what" => "confirm", "ids" => list!["web1"], "deleted" => false };
    let refused = ask(&reader, confirm).await;
    assert!(refused.to_string().contains("reader (cluster_role): do it on another master"), "{refused}");
    assert!(!has_key(&master, "web1"), "a reader tells nobody of keys");

    std::fs::write(master.path("pki/minions/web1"), key.public().to_pem()).unwrap();
    becomes(&reader, "web1", &["minions"]).await;
    assert!(matches!(minion.channel.sign_in().await, Ok(SignIn::Accepted(_))));
    works_from(&reader, &master, &minion).await;
    works_from(&master, &reader, &minion).await;

    delete(&reader, "minions", "web1").await;
    becomes(&reader, "web1", &["minions"]).await;
    becomes(&master, "web1", &["minions"]).await;
    for request in [
        map! { "what" => "settle", "name" => "web1", "state" => "deleted" },
        map! { "what" => "remove", "name" => "m1" },
        map! { "what" => "begin_once", "name" => "backup" },
    ] {
        let refused = ask(&reader, request.clone()).await;
        assert!(
            refused.get("error").is_some_and(|error| error.to_string().contains("reader")),
            "{request:?}: {refused}"
        );
    }
    becomes(&master, "web1", &["minions"]).await;
    master.stop().await;
    reader.stop().await;
}

/// Publishes on a master, and returns to the reader: both have it.
async fn works_from(publisher: &Master, other: &Master, minion: &Minion) {
    let published = publisher.publish("web1", "test.ping").await;
    let jid = published.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).map(str::to_owned);
    let jid = jid.unwrap_or_else(|| panic!("{published}"));
    minion.answer(&jid, "kept").await;
    for master in [publisher, other] {
        let jobs = jobs(master);
        let there =
            || jobs.returns(&jid).unwrap().iter().any(|(id, _)| id == "web1") && jobs.load(&jid).unwrap().is_some();
        until(&format!("the job {jid} and its return are on both"), there).await;
    }
}
