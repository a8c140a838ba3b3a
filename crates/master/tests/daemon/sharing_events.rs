//! Events that are born on one master of a set, on the buses of the others.

use std::time::Duration;

use event::{Endpoints, Listening, Remote};
use rt::Rt;
use tempfile::TempDir;
use value::{Map, Value, list, map};

use crate::common::{Master, Minion, event, subscribe};
use crate::sharing::{Pair, ask, becomes, linked, until};

pub async fn fire(master: &Master, tag: &str) {
    let mut bus = Remote::new(Rt::real(), Endpoints::master(&master.path("sock")));
    bus.fire(tag, map! { "n" => 1 }).await.unwrap();
}

/// Fires an event like `event.send` of a minion.
async fn send(minion: &Minion, tag: &str) {
    let data = map! { "n" => 1 };
    minion.ask(map! { "cmd" => "_minion_event", "id" => &minion.id, "tag" => tag, "data" => data, "pretag" => Value::Null }).await;
}

/// Fires an event like `event.send` of `salt-call`.
async fn call(minion: &Minion, tag: &str) {
    let data = map! { "n" => 1 };
    minion.ask(map! { "id" => &minion.id, "tag" => tag, "data" => data, "cmd" => "_minion_event" }).await;
}

async fn signed_in(master: &Master, place: &TempDir) -> Minion {
    let minion = master.minion("web1", place.path());
    minion.channel.sign_in().await.unwrap();
    minion
}

/// Returns the events until one with this tag comes.
pub async fn until_tag(events: &mut Listening, last: &str) -> Vec<event::Event> {
    let mut all = Vec::new();
    let wait = async {
        loop {
            let event = events.next().await.unwrap();
            let tag = event.tag().to_owned();
            all.push(event);
            if tag == last {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("no event {last}"));
    all
}

/// Waits until a master knows to which masters the minion is connected.
async fn connected_to(master: &Master, names: &[&str]) {
    let connected = async || {
        let who = ask(master, map! { "what" => "who", "minion" => "web1" }).await;
        let mut who: Vec<String> =
            who.get("sharing").and_then(Value::as_list).unwrap_or_default().iter().map(Value::to_string).collect();
        who.sort_unstable();
        who
    };
    let wait = async {
        while connected().await != names {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("not connected to {names:?}"));
}

fn count(events: &[event::Event], tag: &str) -> usize {
    events.iter().filter(|event| event.tag() == tag).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_minion_or_a_program_is_on_both_masters_once() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let one = Master::start(pair.options(0, map! { "auto_accept" => true })).await;
    let two = Master::start(pair.options(1, map! { "cluster_events" => list!["!quiet/*"] })).await;
    linked(&one, "m2").await;
    linked(&two, "m1").await;
    let minion = signed_in(&one, &place).await;
    let (mut here, mut there) = (one.events().await, two.events().await);
    send(&minion, "my/own").await;
    let [born, told] = [event(&mut here, "my/own").await, event(&mut there, "my/own").await];
    assert_eq!(told.data().get_str("__peer_id"), Some("m1"));
    let mut wanted = born.data().clone();
    wanted.update(map! { "__peer_id" => "m1" });
    assert_eq!(*told.data(), wanted, "data and stamp are those of the first master");

    // What a master makes itself stays there.
    for tag in ["salt/auth", "saltern/x", "salt/job/20240229131415678901/ret/web1", "of/a/program"] {
        fire(&one, tag).await;
    }
    let told = until_tag(&mut there, "of/a/program").await;
    // The decision about the key of the minion may come only now.
    assert!(told.iter().all(|event| ["of/a/program", "salt/key"].contains(&event.tag())), "{told:?}");

    // In the other direction, without an echo, and without what cluster_events leaves out.
    fire(&two, "quiet/x").await;
    fire(&two, "back").await;
    let told = until_tag(&mut here, "back").await;
    assert_eq!([count(&told, "my/own"), count(&told, "quiet/x"), count(&told, "of/a/program")], [0, 0, 1], "{told:?}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_announces_no_results_of_runners() {
    let pair = Pair::new();
    let one = Master::start(pair.options(0, Map::new())).await;
    let reader = Master::start(pair.options(1, map! { "cluster_role" => "reader" })).await;
    linked(&one, "m2").await;
    linked(&reader, "m1").await;
    let (mut here, mut there) = (one.events().await, reader.events().await);
    for tag in ["salt/run/20240229131415678901/ret", "salt/wheel/20240229131415678901/ret", "of/a/program"] {
        fire(&reader, tag).await;
        fire(&one, tag).await;
    }
    let told = |events: Vec<event::Event>| {
        let others = events.into_iter().filter(|event| event.data().contains_key("__peer_id"));
        others.map(|event| event.tag().to_owned()).collect::<Vec<_>>()
    };
    let mut at_one = told(until_tag(&mut here, "of/a/program").await);
    if at_one.is_empty() {
        // That was its own one.
        at_one = told(until_tag(&mut here, "of/a/program").await);
    }
    assert_eq!(at_one, ["of/a/program"]);
    let mut at_reader = told(until_tag(&mut there, "of/a/program").await);
    at_reader.extend(told(until_tag(&mut there, "of/a/program").await));
    assert_eq!(at_reader.len(), 3, "the reader sees those of a master: {at_reader:?}");
    one.stop().await;
    reader.stop().await;
}

/// Three masters of a set, and a minion whose daemon is connected to two of them.
struct Hot {
    masters: [Master; 3],
    /// The minion at the first two.
    minion: [Minion; 2],
    connections: Vec<Box<dyn transport::Subscription>>,
    places: Vec<TempDir>,
}

impl Hot {
    async fn start(pair: &Pair) -> Hot {
        let open = || map! { "auto_accept" => true };
        let one = Master::start(pair.options(0, open())).await;
        let two = Master::start(pair.options(1, open())).await;
        let mut third = open();
        third.update(map! { "id" => "m3_master", "cluster_pool_port" => crate::common::free_port() });
        let three = Master::start(pair.options(0, third)).await;
        for (master, others) in [(&one, ["m2", "m3"]), (&two, ["m1", "m3"]), (&three, ["m1", "m2"])] {
            for other in others {
                linked(master, other).await;
            }
        }
        let places = vec![tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let key = crypto::PrivateKey::generate(2048).unwrap();
        let at_one = one.minion_of_ours_with("web1", key.clone(), places[0].path());
        at_one.channel.sign_in().await.unwrap();
        becomes(&two, "web1", &["minions"]).await;
        let at_two = two.minion_of_ours_with("web1", key, places[1].path());
        at_two.channel.sign_in().await.unwrap();
        let mut connections = Vec::new();
        for (minion, master) in [(&at_one, &one), (&at_two, &two)] {
            minion.ask(map! { "cmd" => "_file_envs" }).await;
            connections.push(subscribe(master, "web1").await);
        }
        for master in [&one, &two, &three] {
            connected_to(master, &["m1", "m2"]).await;
        }
        Hot { masters: [one, two, three], minion: [at_one, at_two], connections, places }
    }

    /// Returns what has come over these buses of the masters since they were subscribed to.
    async fn so_far(&self, buses: &mut [Listening]) -> Vec<Vec<event::Event>> {
        for master in &self.masters {
            fire(master, &format!("end/{}", master.publications.port())).await;
        }
        let mut all = Vec::new();
        for bus in buses {
            let mut told = Vec::new();
            for master in &self.masters {
                let end = format!("end/{}", master.publications.port());
                if count(&told, &end) == 0 {
                    told.extend(until_tag(bus, &end).await);
                }
            }
            all.push(told);
        }
        all
    }

    async fn buses(&self) -> Vec<Listening> {
        let mut buses = Vec::new();
        for master in &self.masters {
            buses.push(master.events().await);
        }
        buses
    }

    async fn stop(self) {
        drop((self.connections, self.minion));
        for master in self.masters {
            master.stop().await;
        }
        drop(self.places);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_minion_of_two_masters_is_on_all_three_once() {
    let pair = Pair::new();
    let hot = Hot::start(&pair).await;
    let mut buses = hot.buses().await;
    for minion in &hot.minion {
        send(minion, "hot/1").await;
    }
    for told in hot.so_far(&mut buses).await {
        assert_eq!(count(&told, "hot/1"), 1, "{told:?}");
    }
    hot.stop().await;
}

/// Like events of `salt-call`, which does not send them to all masters of the minion beside which it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_a_program_beside_a_minion_is_on_all_masters_once() {
    let pair = Pair::new();
    let hot = Hot::start(&pair).await;
    let mut buses = hot.buses().await;
    let [one, two] = &hot.minion;
    call(one, "to/one").await;
    for minion in [one, two] {
        call(minion, "to/both").await;
    }
    // Twice at each, with nothing by which to tell them apart.
    for minion in [one, two, two, one] {
        call(minion, "twice").await;
    }
    // Such events stay where they were sent, so each is fired.
    for _ in 0..2 {
        call(one, "salt/fileserver/x").await;
    }
    let all = hot.so_far(&mut buses).await;
    for told in &all {
        let counts = ["to/one", "to/both", "twice"].map(|tag| count(told, tag));
        assert_eq!(counts, [1, 1, 2], "{told:?}");
    }
    assert_eq!([0, 1, 2].map(|at| count(&all[at], "salt/fileserver/x")), [2, 0, 0]);
    hot.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_stored_by_the_master_on_which_it_was_born() {
    let (pair, place) = (Pair::new(), tempfile::tempdir().unwrap());
    let stored = place.path().join("events");
    let store = map! { "event_return" => "rawfile_json", "rawfile_json.filename" => stored.to_str().unwrap() };
    let one = Master::start(pair.options(0, Map::new())).await;
    let two = Master::start(pair.options(1, store)).await;
    linked(&one, "m2").await;
    let mut there = two.events().await;
    fire(&one, "of/the/first").await;
    until_tag(&mut there, "of/the/first").await;
    fire(&two, "of/the/second").await;
    let text = || std::fs::read_to_string(&stored).unwrap_or_default();
    until("the event is stored", || text().contains("of/the/second")).await;
    two.stop().await;
    let text = text();
    assert!(!text.contains("of/the/first"), "{text}");
    one.stop().await;
}
