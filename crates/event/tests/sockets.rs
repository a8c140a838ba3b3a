//! Programs on one host sharing a bus through its sockets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rt::Rt;
use saltern_event::{
    Bus, DEFAULT_MAX_SIZE, Endpoints, Filter, Form, FormChoice, Listening, Remote, RemoteError, ServeOptions, Server,
    serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use value::{Map, map};

struct Daemon {
    bus: Bus,
    endpoints: Endpoints,
    server: Server,
    dir: tempfile::TempDir,
}

async fn daemon(options: ServeOptions) -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    let endpoints = Endpoints::master(dir.path());
    let bus = Bus::new(Rt::real(), DEFAULT_MAX_SIZE);
    let server = serve(&bus, &endpoints, options).await.unwrap();
    Daemon { bus, endpoints, server, dir }
}

impl Daemon {
    fn remote(&self) -> Remote {
        Remote::new(Rt::real(), self.endpoints.clone())
    }

    /// Listens, and returns when the daemon knows about it.
    async fn listen(&self, filter: Filter) -> Listening {
        let before = self.bus.subscribers();
        let listening = self.remote().listen(filter).await.unwrap();
        self.until_subscribers(before + 1).await;
        listening
    }

    async fn until_subscribers(&self, count: usize) {
        let reached = async {
            while self.bus.subscribers() != count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached).await.expect("subscribers come and go");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn form(form: Form) -> ServeOptions {
    ServeOptions { form: FormChoice::Always(form), ..ServeOptions::default() }
}

#[tokio::test]
async fn events_go_out_in_either_form() {
    for options in [form(Form::Bare), form(Form::LengthPrefix), ServeOptions::default()] {
        let daemon = daemon(options).await;
        let mut jobs = daemon.listen(Filter::prefix("salt/job/")).await;
        let mut all = daemon.listen(Filter::all()).await;
        daemon.bus.fire("salt/auth", Map::new()).unwrap();
        daemon.bus.fire("salt/job/1/new", map! { "big" => "x".repeat(300_000), "n" => 1 }).unwrap();
        assert_eq!(all.next().await.unwrap().tag(), "salt/auth");
        let event = jobs.next().await.unwrap();
        assert_eq!(event.tag(), "salt/job/1/new");
        assert_eq!(event.data().get("n"), Some(&1.into()));
        assert_eq!(event.data().get_str("big").unwrap().len(), 300_000);
    }
}

#[tokio::test]
async fn who_has_connected_misses_nothing_that_is_fired_afterwards() {
    let daemon = daemon(ServeOptions::default()).await;
    // Blocking connections: this test has a single thread, so the daemon's tasks cannot run in between.
    let connect = || std::os::unix::net::UnixStream::connect(daemon.dir.path().join("master_event_pub.ipc")).unwrap();
    let _programs = [connect(), connect()];
    assert_eq!(daemon.bus.subscribers(), 0, "the daemon had no time yet");
    daemon.bus.fire("early", Map::new()).unwrap();
    assert_eq!(daemon.bus.subscribers(), 2);
    let bus = daemon.bus.clone();
    daemon.server.close().await;
    bus.fire("late", Map::new()).unwrap();
}

#[tokio::test]
async fn a_program_sees_what_it_fires_right_after_it_has_connected() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let unix = daemon(ServeOptions::default()).await;
    let bus = Bus::new(Rt::real(), DEFAULT_MAX_SIZE);
    let ports = Endpoints::tcp(free(), free(), false);
    let _server = serve(&bus, &ports, ServeOptions::default()).await.unwrap();
    for endpoints in [&unix.endpoints, &ports] {
        for number in 0..100 {
            let mut remote = Remote::new(Rt::real(), endpoints.clone());
            let mut listening = remote.listen(Filter::all()).await.unwrap();
            remote.fire("early", map! { "number" => number }).await.unwrap();
            let event = tokio::time::timeout(Duration::from_secs(10), listening.next()).await;
            assert_eq!(event.expect("it is not lost").unwrap().data().get("number"), Some(&number.into()));
        }
    }
}

/// More programs than a daemon accepts at once.
const CROWD: usize = 200;

#[tokio::test]
async fn who_has_connected_hears_what_another_program_fires_afterwards() {
    let daemon = daemon(ServeOptions::default()).await;
    let mut inside = daemon.bus.subscribe(Filter::all());
    let mut remote = daemon.remote();
    remote.fire("first", Map::new()).await.unwrap();
    inside.next().await.unwrap();
    let path = daemon.dir.path().join("master_event_pub.ipc");
    let _programs: Vec<_> = (0..CROWD).map(|_| std::os::unix::net::UnixStream::connect(&path).unwrap()).collect();
    remote.fire("second", Map::new()).await.unwrap();
    inside.next().await.unwrap();
    assert_eq!(daemon.bus.subscribers(), CROWD + 1, "all were in before the event went out");
}

#[tokio::test]
async fn events_come_in_in_either_form_and_reach_everybody() {
    let daemon = daemon(ServeOptions::default()).await;
    let mut outside = daemon.listen(Filter::all()).await;
    let mut inside = daemon.bus.subscribe(Filter::all());
    for form in [Form::Bare, Form::LengthPrefix] {
        let mut remote = daemon.remote().with_form(FormChoice::Always(form));
        for n in 0..3 {
            remote.fire("custom", map! { "n" => n }).await.unwrap();
            assert_eq!(inside.next().await.unwrap().data().get("n"), Some(&n.into()));
            let event = outside.next().await.unwrap();
            assert_eq!(event.data().text_keys().collect::<Vec<_>>(), ["n", "_stamp"]);
        }
    }
}

#[tokio::test]
async fn the_sockets_have_their_modes_and_go_away() {
    let daemon = daemon(ServeOptions::default()).await;
    assert_eq!(mode(&daemon.dir.path().join("master_event_pub.ipc")), 0o660);
    assert_eq!(mode(&daemon.dir.path().join("master_event_pull.ipc")), 0o600);
    let second = serve(&daemon.bus, &daemon.endpoints, ServeOptions::default()).await;
    assert!(second.unwrap_err().to_string().contains("master_event_pull.ipc"));
    daemon.server.close().await;
    assert_eq!(std::fs::read_dir(daemon.dir.path()).unwrap().count(), 0);
    let again = serve(&daemon.bus, &daemon.endpoints, ServeOptions::default()).await.unwrap();
    drop(again);
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_disconnected_and_harms_nobody() {
    let daemon = daemon(ServeOptions { write_buffer: 200_000, ..form(Form::Bare) }).await;
    let mut stuck = UnixStream::connect(daemon.dir.path().join("master_event_pub.ipc")).await.unwrap();
    daemon.until_subscribers(1).await;
    let mut good = daemon.listen(Filter::all()).await;
    for n in 0..200 {
        daemon.bus.fire("load", map! { "n" => n, "x" => "y".repeat(10_000) }).unwrap();
        assert_eq!(good.next().await.unwrap().data().get("n"), Some(&n.into()));
    }
    daemon.until_subscribers(1).await;
    let mut received = Vec::new();
    stuck.read_to_end(&mut received).await.unwrap();
    // The kernel's buffers hold more than the 200 kB of the queue, but far less than all two megabytes.
    assert!(received.len() < 1_500_000, "{}", received.len());
}

#[tokio::test]
async fn a_listener_that_leaves_is_forgotten() {
    let daemon = daemon(ServeOptions::default()).await;
    drop(daemon.listen(Filter::all()).await);
    daemon.until_subscribers(0).await;
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let daemon = daemon(ServeOptions::default()).await;
    let mut inside = daemon.bus.subscribe(Filter::all());
    let pull = daemon.dir.path().join("master_event_pull.ipc");
    // A length beyond the limit, a body beyond it, another protocol, and a frame that is not a map.
    for garbage in
        [&b"\x7f\xff\xff\xff"[..], b"\x82\xa4body\xc6\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x01\xc1"]
    {
        let mut stranger = UnixStream::connect(&pull).await.unwrap();
        stranger.write_all(garbage).await.unwrap();
        assert_eq!(stranger.read(&mut [0; 16]).await.unwrap(), 0, "{garbage:?}");
    }
    // A frame whose content is not an event is dropped; the connection lives on.
    let mut stranger = UnixStream::connect(&pull).await.unwrap();
    stranger.write_all(b"\x82\xa4head\x80\xa4body\xc4\x03xyz").await.unwrap();
    stranger.write_all(b"\x82\xa4head\x80\xa4body\xc4\x04t\n\n\x80").await.unwrap();
    assert_eq!(inside.next().await.unwrap().tag(), "t");
}

#[tokio::test]
async fn the_end_of_the_daemon_is_noticed_and_its_return_too() {
    let daemon = daemon(ServeOptions::default()).await;
    let mut remote = daemon.remote();
    let mut inside = daemon.bus.subscribe(Filter::all());
    remote.fire("first", Map::new()).await.unwrap();
    inside.next().await.unwrap();
    drop(inside);
    let mut listening = daemon.listen(Filter::all()).await;
    daemon.server.close().await;
    assert!(matches!(listening.next().await, Err(RemoteError::Closed { .. })));
    let failed = remote.fire("second", Map::new()).await.unwrap_err();
    assert!(matches!(failed, RemoteError::Connect { .. }), "{failed:?}");
    let _again = serve(&daemon.bus, &daemon.endpoints, ServeOptions::default()).await.unwrap();
    let mut inside = daemon.bus.subscribe(Filter::all());
    remote.fire("third", Map::new()).await.unwrap();
    assert_eq!(inside.next().await.unwrap().tag(), "third");
}

#[tokio::test]
async fn ports_serve_as_well() {
    // Ports that are free now; another process would have to be quick to take them.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoints = Endpoints::tcp(free(), free(), false);
    let bus = Bus::new(Rt::real(), DEFAULT_MAX_SIZE);
    let _server = serve(&bus, &endpoints, ServeOptions::default()).await.unwrap();
    let mut inside = bus.subscribe(Filter::all());
    Remote::new(Rt::real(), endpoints).fire("t", map! { "n" => 1 }).await.unwrap();
    assert_eq!(inside.next().await.unwrap().tag(), "t");
}
