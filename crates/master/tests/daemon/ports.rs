//! The ports and sockets of a master.

use std::time::Duration;

use event::{Endpoints, Remote};
use rt::Rt;
use transport::Target;
use value::{Map, map};
use wire::envelope::Envelope;

use crate::common::{Master, free_port, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_names_the_port_in_use() {
    let master = Master::start(Map::new()).await;
    let options = map! { "interface" => "127.0.0.1", "publish_port" => master.publications.port(), "user" => "" };
    let place = tempfile::tempdir().unwrap();
    let mut config = config::Master::from_options(options).unwrap();
    let paths = &mut config.paths;
    (paths.pki_dir, paths.cachedir) = (place.path().join("pki"), place.path().join("cache"));
    (paths.sock_dir, paths.token_dir) = (place.path().join("sock"), place.path().join("tokens"));
    let stop = tokio_util::sync::CancellationToken::new();
    let error = saltern_master::run(start(config), Rt::real(), stop, |_| panic!("it is not ready")).await.unwrap_err();
    assert!(error.to_string().contains("publish_port"), "{error}");
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bus_over_tcp_and_ipv6_interface_are_reachable() {
    let ports = [free_port(), free_port()];
    let options = map! {
        "ipc_mode" => "tcp", "tcp_master_pub_port" => ports[0], "tcp_master_pull_port" => ports[1], "ipv6" => true,
        "interface" => "::",
    };
    let master = Master::start(options).await;
    let mut bus = Remote::new(Rt::real(), Endpoints::tcp(ports[0], ports[1], true));
    let mut events = bus.listen(event::Filter::all()).await.unwrap();
    bus.fire("my/tag", map! { "n" => 1 }).await.unwrap();
    assert_eq!(events.next().await.unwrap().data().get("n"), Some(&1.into()));
    let address = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, master.requests.port()));
    let requester = transport::zeromq::ZmqRequester::new(Rt::real(), Target::plain(address));
    let ping = Envelope::clear(map! { "cmd" => "ping" });
    let pong = transport::Requester::ask(&requester, ping, Duration::from_secs(20)).await.unwrap();
    assert_eq!(pong, map! { "cmd" => "ping" }.into());
    assert!(!master.path("sock/publish_pull.ipc").exists());
    master.stop().await;
}
