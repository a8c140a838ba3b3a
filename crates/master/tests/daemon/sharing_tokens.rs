//! Two masters as one set: whoever has logged in at one of them is logged in at both.

use value::{Value, map};

use crate::common::Master;
use crate::logins::{RIGHT, call, login, make_token, options, token};
use crate::sharing::{Pair, ask, linked, until};
use crate::sharing_events::{fire, until_tag};

/// Returns whether a token permits its user what the user may do.
async fn counts(master: &Master, text: &str) -> bool {
    master.ask(call("runner", "jobs.list_jobs", token(text))).await.get("jid").is_some()
}

async fn new_token(master: &Master) -> String {
    let made = master.ask(make_token(login("fred", RIGHT))).await;
    made.get("token").and_then(Value::as_str).unwrap_or_else(|| panic!("{made}")).to_owned()
}

fn file(master: &Master, text: &str) -> std::path::PathBuf {
    master.path(&format!("cache/tokens/{text}.p"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_on_all_masters_until_it_is_deleted_on_one() {
    let (_place, access) = options();
    let pair = Pair::new();
    let one = Master::start(pair.options(0, access.clone())).await;
    // It is made before the other master is there.
    let early = new_token(&one).await;
    let two = Master::start(pair.options(1, access)).await;
    linked(&one, "m2").await;
    let late = new_token(&two).await;
    for (master, text) in [(&two, &early), (&one, &late)] {
        until("the token is on the other master", || file(master, text).exists()).await;
        assert!(counts(master, text).await);
    }
    // The other one stays.
    std::fs::remove_file(file(&two, &early)).unwrap();
    let told = ask(&two, map! { "what" => "tokens_changed" }).await;
    assert_eq!(told.get("sharing"), Some(&Value::from(1)));
    until("the token is revoked on the other master", || !file(&one, &early).exists()).await;
    assert!(!counts(&one, &early).await && counts(&one, &late).await);

    // A file that comes back, as from a backup, does not let anybody in again.
    let text = std::fs::read(file(&one, &late)).unwrap();
    std::fs::remove_file(file(&one, &late)).unwrap();
    ask(&one, map! { "what" => "tokens_changed" }).await;
    until("the token is revoked on the other master", || !file(&two, &late).exists()).await;
    std::fs::write(file(&one, &late), text).unwrap();
    ask(&one, map! { "what" => "tokens_changed" }).await;
    assert!(!file(&one, &late).exists());
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_neither_gets_tokens_nor_makes_them_for_others() {
    let (_place, access) = options();
    let pair = Pair::new();
    let one = Master::start(pair.options(0, access.clone())).await;
    let mut reads = access;
    reads.insert("cluster_role", "reader");
    let reader = Master::start(pair.options(1, reads)).await;
    linked(&one, "m2").await;
    linked(&reader, "m1").await;
    let (here, there) = (new_token(&one).await, new_token(&reader).await);
    assert!(counts(&one, &here).await && counts(&reader, &there).await);
    // What is sent later has arrived.
    for (from, to) in [(&one, &reader), (&reader, &one)] {
        let mut events = to.events().await;
        fire(from, "later").await;
        until_tag(&mut events, "later").await;
    }
    assert!(!file(&reader, &here).exists() && !counts(&reader, &here).await);
    assert!(!file(&one, &there).exists() && !counts(&one, &there).await);
    one.stop().await;
    reader.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_deleted_while_a_master_is_down_is_revoked_when_it_is_back() {
    let (_place, access) = options();
    let pair = Pair::new();
    let one = Master::start(pair.options(0, access.clone())).await;
    let two = Master::start(pair.options(1, access.clone())).await;
    linked(&one, "m2").await;
    let text = new_token(&one).await;
    until("the token is on the other master", || file(&two, &text).exists()).await;
    let directory = one.stop().await;
    std::fs::remove_file(directory.path().join(format!("cache/tokens/{text}.p"))).unwrap();
    let again = Master::start_in(directory, pair.options(0, access)).await;
    until("the token is revoked on the other master", || !file(&two, &text).exists()).await;
    assert!(!counts(&two, &text).await);
    again.stop().await;
    two.stop().await;
}
