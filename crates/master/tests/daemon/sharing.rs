//! Two masters as one set: keys, and what happens when one of them was down or does not belong to the set.

use std::path::Path;
use std::time::Duration;

use channel::client::SignIn;
use crypto::PrivateKey;
use event::{Endpoints, Remote};
use rt::Rt;
use tempfile::TempDir;
use value::{Map, Value, list, map};

use crate::common::{Master, event, free_port};
use crate::logged;

const SECRET: &str = "a secret of more than twenty characters";

/// Where two masters listen for each other.
pub struct Pair([u16; 2]);

impl Pair {
    pub fn new() -> Pair {
        Pair([free_port(), free_port()])
    }

    /// Returns the options of one of the two, with others over them.
    pub fn options(&self, number: usize, more: Map) -> Map {
        let mut all = map! {
            "cluster_id" => "prod", "cluster_secret" => SECRET, "cluster_pool_port" => self.0[number],
            "cluster_peers" => list![format!("127.0.0.1:{}", self.0[1 - number])], "id" => format!("m{}_master", number + 1),
        };
        all.update(more);
        all
    }

    pub async fn start(&self) -> (Master, Master) {
        let one = Master::start(self.options(0, Map::new())).await;
        let two = Master::start(self.options(1, Map::new())).await;
        linked(&one, "m2").await;
        linked(&two, "m1").await;
        (one, two)
    }
}

/// Waits for a condition on the file system.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

pub fn own_user() -> String {
    nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name
}

pub async fn ask(master: &Master, mut arguments: Map) -> Value {
    arguments.update(map! { "cmd" => "saltern_sharing", "key" => master.user_key(), "user" => own_user() });
    master.ask(arguments).await
}

fn state_of(answer: &Value, name: &str) -> Option<String> {
    let masters = answer.get("sharing")?.get("masters")?;
    masters.get(name)?.get("state").map(Value::to_string)
}

pub async fn linked(master: &Master, name: &str) {
    let wait = async {
        while state_of(&ask(master, map! { "what" => "masters" }).await, name).as_deref() != Some("linked") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{name} is not linked"));
}

/// Returns in which directories the key of an id is.
fn banks(root: &Path, id: &str) -> Vec<&'static str> {
    let banks = ["minions", "minions_pre", "minions_rejected"];
    banks.into_iter().filter(|bank| root.join("pki").join(bank).join(id).exists()).collect()
}

pub async fn becomes(master: &Master, id: &str, expected: &[&str]) {
    let root = master.directory.path();
    until(&format!("{id} becomes {expected:?}, and is {:?}", banks(root, id)), || banks(root, id) == expected).await;
}

fn public_key() -> String {
    PrivateKey::generate(2048).unwrap().public().to_pem()
}

fn put(directory: &TempDir, bank: &str, id: &str, text: &str) {
    std::fs::write(directory.path().join("pki").join(bank).join(id), text).unwrap();
}

/// Like `salt-key -d`: the file first, then the event.
pub async fn delete(master: &Master, bank: &str, id: &str) {
    std::fs::remove_file(master.path("pki").join(bank).join(id)).unwrap();
    let mut bus = Remote::new(Rt::real(), Endpoints::master(&master.path("sock")));
    bus.fire("salt/key", map! { "result" => true, "act" => "delete", "id" => id }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_decided_about_on_one_master_is_decided_about_on_both() {
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = Pair::new().start().await;
    let key = PrivateKey::generate(2048).unwrap();
    let minion = one.channel("web1", key.clone(), here.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    becomes(&two, "web1", &["minions_pre"]).await;
    // As salt-key says before it moves the file.
    let announced = map! { "what" => "announce", "ids" => list!["web1"], "for" => "alice" };
    assert_eq!(ask(&one, announced).await.get("sharing"), Some(&Value::from(true)));
    one.accept("web1");
    becomes(&two, "web1", &["minions"]).await;
    let decided = ask(&two, map! { "what" => "decisions", "about" => "web1" }).await;
    let decided = decided.get("sharing").map(Value::to_string).unwrap_or_default();
    assert!(decided.contains("'by': 'alice'") && decided.contains("'master': 'm1'"), "{decided}");
    let there = two.channel("web1", key, elsewhere.path());
    assert!(matches!(there.sign_in().await, Ok(SignIn::Accepted(_))));

    let mut events = one.events().await;
    std::fs::rename(two.path("pki/minions/web1"), two.path("pki/minions_rejected/web1")).unwrap();
    becomes(&one, "web1", &["minions_rejected"]).await;
    assert_eq!(event(&mut events, "salt/key").await.data().get_str("act"), Some("rejected"));
    delete(&two, "minions_rejected", "web1").await;
    becomes(&one, "web1", &[]).await;
    assert_eq!(event(&mut events, "salt/key").await.data().get_str("act"), Some("delete"));
    // It comes again, and waits on both.
    assert!(matches!(there.sign_in().await, Ok(SignIn::Pending)));
    becomes(&one, "web1", &["minions_pre"]).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_key_files_that_is_confirmed_is_decided() {
    let pair = Pair::new();
    let one = Master::start(pair.options(0, Map::new())).await;
    let text = public_key();
    for (id, bank) in [("web1", "minions"), ("web2", "minions_pre")] {
        put(&one.directory, bank, id, &text);
    }
    let states = async |expected: &str| {
        let decided = ask(&one, map! { "what" => "decisions", "about" => "web1" }).await;
        let decided = decided.get("sharing").map(Value::to_string).unwrap_or_default();
        assert!(decided.contains(expected), "{decided}");
    };
    let confirm = async |deleted: bool| {
        let question = map! { "what" => "confirm", "ids" => list!["web1", "web2"], "deleted" => deleted };
        assert_eq!(ask(&one, question).await.get("sharing"), Some(&Map::new().into()));
    };
    // No condition is awaited: the answer is the confirmation.
    confirm(false).await;
    states("'state': 'accepted'").await;
    std::fs::remove_file(one.path("pki/minions/web1")).unwrap();
    confirm(true).await;
    states("'state': 'deleted'").await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_file_is_removed_is_pending_on_both_after_the_next_sign_in() {
    let here = tempfile::tempdir().unwrap();
    let (one, two) = Pair::new().start().await;
    let minion = one.channel("web1", PrivateKey::generate(2048).unwrap(), here.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    one.accept("web1");
    becomes(&two, "web1", &["minions"]).await;
    let mut events = one.events().await;
    std::fs::remove_file(one.path("pki/minions/web1")).unwrap();
    // Before anybody knows whether the file was deleted or lost.
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    becomes(&two, "web1", &["minions_pre"]).await;
    assert_eq!(banks(one.directory.path(), "web1"), ["minions_pre"]);
    // By this the master ends the session of the minion.
    let gone = async { while event(&mut events, "salt/key").await.data().get_str("act") != Some("delete") {} };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the deletion is told");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_while_a_master_was_down_is_made_up_for() {
    let pair = Pair::new();
    let (one, two) = pair.start().await;
    let text = public_key();
    for id in ["web1", "web2", "web3"] {
        put(&one.directory, "minions_pre", id, &text);
        becomes(&two, id, &["minions_pre"]).await;
    }
    let directory = two.stop().await;
    one.accept("web1");
    std::fs::rename(one.path("pki/minions_pre/web2"), one.path("pki/minions_rejected/web2")).unwrap();
    delete(&one, "minions_pre", "web3").await;
    // The other one decides as well, without knowing of the deletion.
    std::fs::rename(directory.path().join("pki/minions_pre/web3"), directory.path().join("pki/minions/web3")).unwrap();
    put(&directory, "minions", "web4", &text);
    let two = Master::start_in(directory, pair.options(1, Map::new())).await;
    becomes(&two, "web1", &["minions"]).await;
    becomes(&two, "web2", &["minions_rejected"]).await;
    becomes(&two, "web3", &[]).await;
    becomes(&one, "web4", &["minions"]).await;
    becomes(&one, "web3", &[]).await;
    let conflicts = ask(&one, map! { "what" => "conflicts" }).await;
    let conflict = conflicts.get("sharing").and_then(|found| found.get("web3")).expect("it is listed");
    let ways = conflict.get("settle").map(Value::to_string).unwrap_or_default();
    assert!(ways.contains("salt-run saltern.settle web3 accepted"), "{conflict:?}");
    // There is no file that salt-key could accept.
    let settled = ask(&one, map! { "what" => "settle", "name" => "web3", "state" => "accepted" }).await;
    let user = settled.get("sharing").and_then(|settled| settled.get("by")).map(Value::to_string);
    assert_eq!(user.as_deref(), Some(own_user().as_str()), "{settled:?}");
    becomes(&one, "web3", &["minions"]).await;
    becomes(&two, "web3", &["minions"]).await;
    let conflicts = ask(&two, map! { "what" => "conflicts" }).await;
    assert_eq!(conflicts.get("sharing"), Some(&Value::from(Map::new())));
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_key_directory_deletes_nothing_elsewhere() {
    let (one, two) = Pair::new().start().await;
    let text = public_key();
    let ids: Vec<String> = (0..20).map(|number| format!("web{number}")).collect();
    ids.iter().for_each(|id| put(&one.directory, "minions", id, &text));
    for id in &ids {
        becomes(&two, id, &["minions"]).await;
    }
    let mut events = one.events().await;
    ids.iter().for_each(|id| std::fs::remove_file(one.path("pki/minions").join(id)).unwrap());
    let lost = event(&mut events, "saltern/key/lost").await;
    assert_eq!(lost.data().get("count"), Some(&Value::from(20)));
    assert!(ids.iter().all(|id| banks(two.directory.path(), id) == ["minions"]), "nothing is told the other master");
    let restored = ask(&one, map! { "what" => "restore_keys" }).await;
    assert_eq!(restored.get("sharing"), Some(&Value::from(20)));
    assert!(ids.iter().all(|id| banks(one.directory.path(), id) == ["minions"]));
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_in_a_directory_that_is_gone_at_a_start_are_lost_and_not_deleted() {
    logged::keep();
    let here = tempfile::tempdir().unwrap();
    let pair = Pair::new();
    let (one, two) = pair.start().await;
    let key = PrivateKey::generate(2048).unwrap();
    let ids = ["web1", "web2", "web3"];
    put(&two.directory, "minions", "web1", &key.public().to_pem());
    ids[1..].iter().for_each(|id| put(&two.directory, "minions", id, &public_key()));
    for id in ids {
        becomes(&one, id, &["minions"]).await;
    }
    let directory = two.stop().await;
    std::fs::remove_dir_all(directory.path().join("pki/minions")).unwrap();
    let two = Master::start_in(directory, pair.options(1, Map::new())).await;
    // A live minion, which does not bring its file back by this.
    let minion = two.channel("web1", key, here.path());
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    logged::line(&["the key files of 3 minions vanished at once"]).await;
    // Another start finds only few of them, beside other keys. They are lost still.
    put(&two.directory, "minions", "web2", &std::fs::read_to_string(one.path("pki/minions/web2")).unwrap());
    put(&two.directory, "minions", "web4", &public_key());
    becomes(&one, "web4", &["minions"]).await;
    let two = Master::start_in(two.stop().await, pair.options(1, Map::new())).await;
    logged::line(&["the key files of 2 minions vanished at once"]).await;
    let restored = ask(&two, map! { "what" => "restore_keys" }).await;
    assert_eq!(restored.get("sharing"), Some(&Value::from(2)));
    assert!(!two.path("cache/saltern/share/lost").exists());
    for id in ids {
        assert_eq!(
            (banks(one.directory.path(), id), banks(two.directory.path(), id)),
            (vec!["minions"], vec!["minions"])
        );
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_beside_an_accepted_key_file_decides_nothing() {
    logged::keep();
    let (one, two) = Pair::new().start().await;
    let (text, old) = (public_key(), public_key());
    put(&one.directory, "minions", "beside1", &text);
    becomes(&two, "beside1", &["minions"]).await;
    put(&one.directory, "minions_rejected", "beside1", &old);
    let finger = |text: &str| crypto::pem_finger(text.as_bytes(), crypto::HashType::Sha256);
    logged::line(&["key file of beside1", &finger(&text), "rejected", &finger(&old)]).await;
    // What is decided afterwards reaches the other one, and that was not.
    put(&one.directory, "minions", "beside2", &text);
    becomes(&two, "beside2", &["minions"]).await;
    assert_eq!(banks(two.directory.path(), "beside1"), ["minions"]);
    assert_eq!(banks(one.directory.path(), "beside1"), ["minions", "minions_rejected"]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_key_is_not_replaced_by_the_earlier_one_of_another_master() {
    let pair = Pair::new();
    let (first, compared) = (public_key(), public_key());
    let mut directories = Vec::new();
    // The two do not run at the same time, so neither hears of the other.
    for (number, text) in [(1, &first), (0, &compared)] {
        let master = Master::start(pair.options(number, Map::new())).await;
        put(&master.directory, "minions_pre", "web1", text);
        let decided = || async { ask(&master, map! { "what" => "decisions", "about" => "web1" }).await };
        while decided().await.get("sharing") == Some(&Value::List(Vec::new())) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        directories.push(master.stop().await);
    }
    let one = Master::start_in(directories.pop().unwrap(), pair.options(0, Map::new())).await;
    let mut events = one.events().await;
    let two = Master::start_in(directories.pop().unwrap(), pair.options(1, Map::new())).await;
    let finger = |text: &str| crypto::pem_finger(text.as_bytes(), crypto::HashType::Sha256);
    let differs = event(&mut events, "saltern/key/web1/differs").await;
    assert_eq!(differs.data().get_str("here"), Some(&finger(&compared)[..]));
    assert_eq!(differs.data().get_str("elsewhere"), Some(&finger(&first)[..]));
    one.accept("web1");
    becomes(&two, "web1", &["minions"]).await;
    let accepted = std::fs::read_to_string(two.path("pki/minions/web1")).unwrap();
    assert_eq!(crypto::clean_key(&accepted), crypto::clean_key(&compared), "the one that the operator saw");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_with_another_secret_or_set_is_no_member() {
    logged::keep();
    let pair = Pair::new();
    let one = Master::start(pair.options(0, Map::new())).await;
    for (options, words, reason) in [
        (
            map! { "cluster_secret" => "another secret of more than twenty" },
            "cluster_secret or keys differ",
            "wrong secret",
        ),
        (map! { "cluster_id" => "other" }, "cluster_id is", "another cluster_id"),
    ] {
        let two = Master::start(pair.options(1, options)).await;
        logged::line(&["no link with the master", words]).await;
        put(&two.directory, "minions", "web1", &public_key());
        let found = ask(&one, map! { "what" => "masters" }).await;
        assert_eq!(state_of(&found, "m1").as_deref(), Some("here"));
        assert_eq!(state_of(&found, "m2"), None);
        let others = found.get("sharing").and_then(|found| found.get("others")).map(Value::to_string);
        assert!(others.is_some_and(|others| others.contains("'m2'") && others.contains(reason)), "{found:?}");
        two.stop().await;
    }
    assert_eq!(banks(one.directory.path(), "web1"), [""; 0]);
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_master_is_told_nothing_more() {
    let (one, two) = Pair::new().start().await;
    put(&two.directory, "minions", "db1", &public_key());
    becomes(&one, "db1", &["minions"]).await;
    let mut events = two.events().await;
    let removed = ask(&one, map! { "what" => "remove", "name" => "m2" }).await;
    let removed = removed.get("sharing").expect("it is removed");
    let accepted = map! { "count" => 1, "first" => list!["db1"] };
    assert_eq!(removed.get("accepted_keys"), Some(&Value::from(accepted)));
    assert!(removed.get("next").is_some_and(|next| next.to_string().contains("Change cluster_secret")));
    event(&mut events, "saltern/member/m1/away").await;
    put(&one.directory, "minions", "web1", &public_key());
    let decided = ask(&one, map! { "what" => "decisions", "about" => "nobody" }).await;
    assert_eq!(decided.get("sharing"), Some(&Value::List(Vec::new())), "{decided:?}");
    assert_eq!(banks(two.directory.path(), "web1"), [""; 0]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_master_that_knows_one_member_is_linked_with_all() {
    let (pair, third) = (Pair::new(), free_port());
    let (one, two) = pair.start().await;
    let peers = list![format!("127.0.0.1:{}", pair.0[0])];
    let options = map! { "cluster_pool_port" => third, "cluster_peers" => peers, "id" => "m3_master" };
    let three = Master::start(pair.options(0, options)).await;
    for other in ["m1", "m2"] {
        linked(&three, other).await;
    }
    linked(&two, "m3").await;
    one.stop().await;
    two.stop().await;
    three.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_have_nothing_in_common_wait_until_both_are_accepted() {
    let pair = Pair::new();
    let no_secret = || map! { "cluster_secret" => Value::Null };
    let one = Master::start(pair.options(0, no_secret())).await;
    let mut events = one.events().await;
    let two = Master::start(pair.options(1, no_secret())).await;
    let waiting = event(&mut events, "saltern/member/m2/waiting").await;
    let fingerprint = waiting.data().get_str("fingerprint").expect("it is told").to_owned();
    let listed = ask(&one, map! { "what" => "waiting" }).await;
    let listed = listed.get("sharing").and_then(|waiting| waiting.get("m2")).expect("it is listed");
    assert_eq!(listed.get("fingerprint"), Some(&Value::from(fingerprint.as_str())));
    let masters = ask(&one, map! { "what" => "masters" }).await;
    let others = masters.get("sharing").and_then(|found| found.get("others")).map(Value::to_string);
    assert!(others.is_some_and(|others| others.contains("waiting to be accepted")), "{masters:?}");

    let other = map! { "what" => "accept", "name" => "m2", "fingerprint" => "00".repeat(32) };
    assert!(ask(&one, other).await.get("error").is_some(), "that is another one");
    let accepted = ask(&one, map! { "what" => "accept", "fingerprint" => fingerprint }).await;
    assert_eq!(accepted.get("sharing").and_then(|accepted| accepted.get("accepted")), Some(&Value::from("m2")));
    let both = async {
        while ask(&two, map! { "what" => "accept", "name" => "m1" }).await.get("error").is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("the first waits at the second");
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_know_each_others_fingerprints_need_no_secret() {
    let pair = Pair::new();
    let no_secret = || map! { "cluster_secret" => Value::Null };
    let one = Master::start(pair.options(0, no_secret())).await;
    let masters = ask(&one, map! { "what" => "masters" }).await;
    let shown = masters.get("sharing").and_then(|found| found.get("masters")?.get("m1")?.get("fingerprint").cloned());
    let first = shown.and_then(|shown| shown.as_str().map(str::to_owned)).expect("a master shows its own");
    let mut events = one.events().await;
    let pins = map! { "cluster_secret" => Value::Null, "cluster_pub_fingerprint" => first.to_uppercase() };
    let two = Master::start(pair.options(1, pins)).await;
    let waiting = event(&mut events, "saltern/member/m2/waiting").await;
    let second = waiting.data().get_str("fingerprint").expect("it is told").replace(':', "");
    let directory = one.stop().await;

    let other = map! { "cluster_secret" => Value::Null, "cluster_pub_fingerprint" => list!["00".repeat(32)] };
    let one = Master::start_in(directory, pair.options(0, other)).await;
    let mut events = one.events().await;
    event(&mut events, "saltern/member/m2/waiting").await;
    let directory = one.stop().await;

    let pins = map! { "cluster_secret" => Value::Null, "cluster_pub_fingerprint" => list!["00".repeat(32), second] };
    let one = Master::start_in(directory, pair.options(0, pins)).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_master_decided_can_be_undone_on_another_one() {
    let (one, two) = Pair::new().start().await;
    put(&two.directory, "minions", "web1", &public_key());
    becomes(&one, "web1", &["minions"]).await;
    let undo = |yes: bool| map! { "what" => "undo", "by" => "m2", "since" => "1h", "yes" => yes };
    let shown = ask(&one, undo(false)).await;
    let becoming = map! { "web1" => map! { "is" => "accepted", "becomes" => "pending" } };
    assert_eq!(shown.get("sharing").and_then(|shown| shown.get("keys")), Some(&Value::from(becoming)), "{shown:?}");
    assert_eq!(banks(one.directory.path(), "web1"), ["minions"], "nothing is done yet");
    ask(&one, undo(true)).await;
    becomes(&one, "web1", &["minions_pre"]).await;
    becomes(&two, "web1", &["minions_pre"]).await;
    let decided = ask(&two, map! { "what" => "decisions", "about" => "web1", "by" => "m1", "since" => "10m" }).await;
    let decided = decided.get("sharing").map(Value::to_string).unwrap_or_default();
    assert!(decided.contains("'pending'") && decided.contains("'m1'"), "{decided}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_cluster_id_nothing_is_shared() {
    let port = free_port();
    let master = Master::start(map! { "cluster_pool_port" => port }).await;
    assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(), "nothing listens there");
    assert!(!master.path("cache/saltern/share").exists() && !master.path("pki/saltern").exists());
    let answer = ask(&master, map! { "what" => "masters" }).await;
    let text = answer.get("error").and_then(|error| error.get("message")).map(Value::to_string).unwrap_or_default();
    assert!(text.contains("cluster_id is not set"), "{answer:?}");
    master.stop().await;
}
