//! Rotation of the AES key, and the end of the master, as minions see them.

use value::map;

use crate::common::{Master, event, open_house, subscribe};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropfile_rotates_the_key_and_no_job_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let mut publications = subscribe(&master, "web1").await;
    let mut events = master.events().await;
    keys::request_rotation(&master.path("cache"), "m_master", keys::Owner::NOBODY).unwrap();
    let rotated = event(&mut events, "key").await;
    assert_eq!(rotated.data().get("rotate_aes_key"), Some(&true.into()));
    master.publish("web1", "test.ping").await;
    let job = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(job.get_str("fun"), Some("test.ping"));
    master.stop().await;
    let end = publications.next().await;
    // A goodbye would be a publication that it cannot understand.
    assert!(end.is_err(), "a minion of Salt gets nothing that is no job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saltern_minion_hears_of_rotation_and_shutdown() {
    let place = tempfile::tempdir().unwrap();
    let master = Master::start(open_house()).await;
    let minion = master.minion_of_ours("web1", place.path());
    minion.ask(map! { "cmd" => "_file_envs" }).await;
    let mut publications = subscribe(&master, "web1").await;
    let mut events = master.events().await;
    keys::request_rotation(&master.path("cache"), "m_master", keys::Owner::NOBODY).unwrap();
    event(&mut events, "key").await;
    let word = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(word.get("saltern").and_then(|word| word.get("rotated")), Some(&true.into()), "sealed with the old key");
    minion.channel.sign_in().await.unwrap();
    master.stop().await;
    let word = minion.channel.open(&publications.next().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(word.get("saltern").and_then(|word| word.get("goodbye")), Some(&true.into()));
    assert_eq!(word.get("jid"), None, "no job for anybody");
}
