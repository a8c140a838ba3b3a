//! Two masters as one set: jobs, returns and data of minions.

use std::path::PathBuf;
use std::time::Duration;

use cache::Cache;
use event::Listening;
use tempfile::TempDir;
use value::{Map, Value, list, map};

use crate::common::{Master, Minion, event, jobs};
use crate::logged;
use crate::sharing::{Pair, ask, becomes, delete, linked, own_user, until};

/// Starts two masters that accept every key.
async fn start(pair: &Pair) -> (Master, Master) {
    let one = Master::start(open(pair, 0)).await;
    let two = Master::start(open(pair, 1)).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    (one, two)
}

fn open(pair: &Pair, number: usize) -> Map {
    pair.options(number, map! { "auto_accept" => true })
}

/// Returns a minion of a master, once both know it.
async fn minion(master: &Master, other: &Master, place: &TempDir) -> Minion {
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    becomes(other, "web1", &["minions"]).await;
    minion
}

async fn publish(master: &Master) -> String {
    let published = master.publish("*", "test.ping").await;
    published.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).unwrap().to_owned()
}

async fn returned(master: &Master, jid: &str, value: &Value) {
    let jobs = jobs(master);
    let there = || jobs.returns(jid).unwrap().iter().any(|(id, kept)| id == "web1" && kept.value == *value);
    until(&format!("the return of {jid} is on the other master"), there).await;
}

/// Returns the tags of a job's events until its return of a job comes.
async fn tags_until(events: &mut Listening, last: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let wait = async {
        loop {
            let tag = events.next().await.unwrap().tag().to_owned();
            tags.push(tag.clone());
            if tag == last {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("no event {last}"));
    tags
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_that_one_master_stores_is_looked_up_and_announced_on_both() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = start(&Pair::new()).await;
    let minion = minion(&one, &two, &place).await;
    let (mut here, mut there) = (one.events().await, two.events().await);
    let jid = publish(&one).await;
    let new = event(&mut there, &format!("salt/job/{jid}/new")).await;
    let meant = ["minions", "fun", "tgt", "user"].map(|name| new.data().get(name).cloned());
    let told = event(&mut here, &format!("salt/job/{jid}/new")).await;
    assert_eq!(meant, ["minions", "fun", "tgt", "user"].map(|name| told.data().get(name).cloned()));
    assert_eq!(meant[0], Some(list!["web1"]));
    minion.answer(&jid, "first").await;
    let news = event(&mut there, &format!("salt/job/{jid}/ret/web1")).await;
    for name in ["return", "fun", "fun_args", "id", "jid", "success", "retcode", "cmd"] {
        assert!(news.data().get(name).is_some(), "{name} in {:?}", news.data());
    }
    // Equal ones and later ones change nothing.
    minion.answer(&jid, "first").await;
    minion.answer(&jid, "second").await;
    let last = publish(&one).await;
    minion.answer(&last, true).await;
    let end = format!("salt/job/{last}/ret/web1");
    let tags = tags_until(&mut there, &end).await;
    assert!(!tags.iter().any(|tag| tag.contains(&jid)), "announced once: {tags:?}");
    returned(&two, &jid, &"first".into()).await;
    let [mine, theirs] = [&one, &two].map(|master| {
        let jobs = jobs(master);
        (jobs.load(&jid).unwrap(), jobs.minions(&jid).unwrap(), jobs.returns(&jid).unwrap())
    });
    assert_eq!(mine, theirs);
    // What a minion ran by itself was not published.
    let own = map! {
        "cmd" => "_return", "id" => "web1", "return" => "own", "jid" => "req", "fun" => "test.ping", "fun_args" => list![],
    };
    minion.ask(own).await;
    let tags = async {
        let mut tags = Vec::new();
        loop {
            let event = there.next().await.unwrap();
            tags.push(event.tag().to_owned());
            if event.data().get("return") == Some(&"own".into()) {
                return tags;
            }
        }
    };
    let tags = tokio::time::timeout(Duration::from_secs(30), tags).await.expect("its return");
    assert!(!tags.iter().any(|tag| tag.ends_with("/new")), "{tags:?}");
    let tags = tags_until(&mut here, &end).await;
    let count = |wanted: &str| tags.iter().filter(|tag| **tag == wanted).count();
    // The second return of one job is announced as it always was. Nothing comes back from the other master.
    assert_eq!([count(&format!("salt/job/{jid}/ret/web1")), count(&end)], [2, 1], "{tags:?}");
    one.stop().await;
    two.stop().await;
}

/// Publishes a part of a batch.
async fn publish_part(master: &Master, jid: &str, minion: &str) -> String {
    let part = map! {
        "cmd" => "publish", "tgt" => list![minion], "fun" => "test.ping", "arg" => list![], "key" => master.user_key(),
        "tgt_type" => "list", "ret" => "", "jid" => jid, "kwargs" => Map::new(), "user" => own_user(),
    };
    let published = master.ask(part).await;
    published.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_both_masters_show_the_latest_part_and_all_minions() {
    let (places, pair) = ([tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()], Pair::new());
    let (one, two) = start(&pair).await;
    let _web1 = minion(&one, &two, &places[0]).await;
    let db1 = one.minion("db1", places[1].path());
    db1.channel.sign_in().await.unwrap();
    becomes(&two, "db1", &["minions"]).await;
    let mut there = two.events().await;
    let jid = publish_part(&one, "", "db1").await;
    event(&mut there, &format!("salt/job/{jid}/new")).await;
    assert_eq!(publish_part(&one, &jid, "web1").await, jid);
    let shown = |master: &Master| {
        let jobs = jobs(master);
        (jobs.load(&jid).unwrap(), jobs.minions(&jid).unwrap())
    };
    let is_last = || shown(&two).0.is_some_and(|load| load.get("tgt") == Some(&list!["web1"]));
    until("the latest part is on the other master", is_last).await;
    until("so are the minions of both", || shown(&one) == shown(&two) && shown(&two).1.len() == 2).await;
    // Parts that follow one another at once, and one after a restart.
    for minion in ["db1", "web1", "db1"] {
        publish_part(&one, &jid, minion).await;
    }
    until("the last of them is", || !is_last() && shown(&one) == shown(&two)).await;
    let one = Master::start_in(one.stop().await, open(&pair, 0)).await;
    publish_part(&one, &jid, "web1").await;
    until("that is the latest part", || is_last() && shown(&one) == shown(&two)).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_master_missed_is_found_by_comparing() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let (one, two) = start(&pair).await;
    let minion = minion(&one, &two, &place).await;
    let directory = two.stop().await;
    let jids = [publish(&one).await, publish(&one).await];
    for jid in &jids {
        minion.answer(jid, jid.as_str()).await;
    }
    let two = Master::start_in(directory, open(&pair, 1)).await;
    for jid in &jids {
        returned(&two, jid, &jid.as_str().into()).await;
        assert_eq!(jobs(&two).load(jid).unwrap(), jobs(&one).load(jid).unwrap());
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_master_has_not_shared_before_a_crash_is_shared_after_it() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    // Without a set, as after a crash: the job cache has what no record says.
    let alone = Master::start(map! { "auto_accept" => true, "id" => "m1_master" }).await;
    let minion = alone.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    let jid = publish(&alone).await;
    minion.answer(&jid, "kept").await;
    let directory = alone.stop().await;
    let share = directory.path().join("cache/saltern/share");
    std::fs::create_dir_all(&share).unwrap();
    let named = format!("4 {jid}\n5 {jid}\n6 {jid}/web1\n6 20240229131415678901/web1\n6 {jid}/we");
    std::fs::write(share.join("unshared.7"), named).unwrap();
    let one = Master::start_in(directory, open(&pair, 0)).await;
    let two = Master::start(open(&pair, 1)).await;
    returned(&two, &jid, &"kept".into()).await;
    assert_eq!(jobs(&two).load(&jid).unwrap(), jobs(&one).load(&jid).unwrap());
    until("the file is removed", || !share_files(&one).iter().any(|name| name == "unshared.7")).await;
    one.stop().await;
    two.stop().await;
}

fn share_files(master: &Master) -> Vec<String> {
    let names = std::fs::read_dir(master.path("cache/saltern/share")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_a_crash_kept_from_the_job_cache_are_written_at_the_next_start() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let (one, two) = start(&pair).await;
    let minion = minion(&one, &two, &place).await;
    let jid = publish(&one).await;
    minion.answer(&jid, "kept").await;
    returned(&two, &jid, &"kept".into()).await;
    let directory = two.stop().await;
    // As if it had been killed before the job cache was written.
    std::fs::remove_dir_all(directory.path().join("cache/saltern/jobs")).unwrap();
    let named = format!("4 {jid}\n5 {jid}\n6 {jid}/web1\n");
    std::fs::write(directory.path().join("cache/saltern/share/arriving"), named).unwrap();
    one.stop().await;
    let two = Master::start_in(directory, open(&pair, 1)).await;
    returned(&two, &jid, &"kept".into()).await;
    assert_eq!(jobs(&two).minions(&jid).unwrap(), ["web1"]);
    let arriving: PathBuf = two.path("cache/saltern/share/arriving");
    until("the names are forgotten", || std::fs::metadata(&arriving).is_ok_and(|file| file.len() == 0)).await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_a_minion_are_on_both_masters_until_its_key_is_deleted() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = start(&Pair::new()).await;
    let minion = minion(&one, &two, &place).await;
    let request = map! {
        "cmd" => "_pillar", "id" => "web1", "grains" => map! { "os" => "Debian" }, "saltenv" => Value::Null, "ver" => "2",
        "pillarenv" => Value::Null, "clean_cache" => false,
    };
    minion.channel.request_pillar(request, None).await.unwrap();
    assert_eq!(minion.ask(map! { "cmd" => "_mine", "data" => map! { "a" => 1 } }).await, true.into());
    let [here, there] = [&one, &two].map(|master| Cache::in_directory(master.path("cache")));
    let mine = || there.mine(&minion.id).unwrap().is_some_and(|mine| *mine == map! { "a" => 1 });
    until("the mine is on the other master", mine).await;
    until("the grains are on the other master", || there.grains(&minion.id).unwrap().is_some()).await;
    assert_eq!(there.grains(&minion.id).unwrap(), here.grains(&minion.id).unwrap());
    until("the pillar is on the other master", || there.pillar(&minion.id).unwrap().is_some()).await;
    minion.ask(map! { "cmd" => "_mine", "data" => map! { "b" => 2 } }).await;
    let both = || there.mine(&minion.id).unwrap().is_some_and(|mine| *mine == map! { "a" => 1, "b" => 2 });
    until("the mine changes on the other master", both).await;
    // As `cache.clear_grains` does.
    there.remove_part(cache::Part::Grains, &minion.id).unwrap();
    let told = ask(&two, map! { "what" => "data_changed", "ids" => list!["web1", "unknown"] }).await;
    assert!(told.get("sharing").is_some(), "{told}");
    until("the grains are cleared on the other master", || here.grains(&minion.id).unwrap().is_none()).await;
    assert!(here.pillar(&minion.id).unwrap().is_some());

    delete(&one, "minions", "web1").await;
    becomes(&two, "web1", &[]).await;
    until("the grains are gone", || there.grains(&minion.id).unwrap().is_none()).await;
    until("the mine is gone", || there.mine(&minion.id).unwrap().is_none()).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_stay_here_if_a_returner_keeps_them() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let options = pair.options(0, map! { "auto_accept" => true, "master_job_cache" => "pgjsonb" });
    let one = Master::start(options).await;
    let two = Master::start(open(&pair, 1)).await;
    linked(&one, "m2").await;
    let minion = minion(&one, &two, &place).await;
    let jid = publish(&one).await;
    minion.answer(&jid, true).await;
    // The mine is shared later than the return would be.
    minion.ask(map! { "cmd" => "_mine", "data" => map! { "a" => 1 } }).await;
    let there = Cache::in_directory(two.path("cache"));
    until("the mine is on the other master", || there.mine(&minion.id).unwrap().is_some()).await;
    // The job itself may be there: its minion could connect to that master.
    assert_eq!(jobs(&two).return_of(&jid, &minion.id).unwrap(), None);
    assert_eq!(share_files(&one).iter().filter(|name| name.starts_with("unshared.")).count(), 1);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_minion_ran_under_an_id_takes_the_place_of_no_publication() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = start(&Pair::new()).await;
    let minion = minion(&two, &one, &place).await;
    // A minion may know the next ids.
    let jid = wire::Jid::at(std::time::SystemTime::now() + Duration::from_secs(3_600)).to_string();
    minion.answer(&jid, "too early").await;
    until("the minion's job is on the other master", || jobs(&one).has_load(&jid).unwrap()).await;
    one.ask(map! {
        "cmd" => "publish", "tgt" => "*", "fun" => "test.ping", "arg" => list![], "key" => one.user_key(),
        "tgt_type" => "glob", "ret" => "", "jid" => jid.as_str(), "kwargs" => Map::new(), "user" => own_user(),
        "saltern" => true,
    })
    .await;
    for master in [&one, &two] {
        let published = || jobs(master).load(&jid).unwrap().is_some_and(|load| load.get_str("tgt") == Some("*"));
        until("the publication counts", published).await;
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_publishes_nothing_for_others_that_its_blacklist_forbids() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let one = Master::start(open(&pair, 0)).await;
    let blacklist = map! { "modules" => list!["test.ping"] };
    let two =
        Master::start(pair.options(1, map! { "auto_accept" => true, "publisher_acl_blacklist" => blacklist })).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    minion(&one, &two, &place).await;
    let mut there = two.events().await;
    let forbidden = publish(&one).await;
    let allowed = one.publish("*", "test.echo").await;
    let allowed = allowed.get("load").and_then(|load| load.get("jid")).and_then(Value::as_str).unwrap();
    let tags = tags_until(&mut there, &format!("salt/job/{allowed}/publish")).await;
    assert!(!tags.contains(&format!("salt/job/{forbidden}/publish")), "{tags:?}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_return_is_acknowledged_when_another_master_has_it_too() {
    logged::keep();
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let options = |number| {
        let mut all = open(&pair, number);
        all.insert("cluster_return_copies", 2);
        all
    };
    let (one, two) = (Master::start(options(0)).await, Master::start(options(1)).await);
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    let minion = minion(&one, &two, &place).await;
    let jid = publish(&one).await;
    minion.answer(&jid, "kept").await;
    // Whatever becomes of the first one now.
    let directory = two.stop().await;
    let shared = store::share::ShareFile::open(&directory.path().join("cache")).unwrap();
    let key = share::Key::of_parts(&jid, "web1").unwrap();
    let found = share::Records::get(&shared, share::Class::Return, &key);
    assert!(found.is_some(), "it is on the disk of the second");
    drop(shared);
    assert!(!logged::has("is acknowledged with one copy"), "no return has waited in vain");

    let alone = publish(&one).await;
    minion.answer(&alone, "alone").await;
    logged::line(&["a return is acknowledged with one copy (cluster_return_copies)"]).await;
    assert!(jobs(&one).returns(&alone).unwrap().iter().any(|(id, _)| id == "web1"));
    let two = Master::start_in(directory, options(1)).await;
    returned(&two, &alone, &"alone".into()).await;
    one.stop().await;
    two.stop().await;
}
