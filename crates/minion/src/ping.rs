//! Checks whether a master answers.

use std::net::SocketAddr;
use std::time::Duration;

use config::{Transport, UriFormat};
use rt::Rt;
use transport::{Requester, Target};
use value::map;
use wire::envelope::Envelope;

/// Sends an unencrypted `ping` to a master, which is given as in the option `master`. Any answer counts, since it shows
/// that the peer speaks the protocol.
pub async fn ping(rt: &Rt, config: &config::Minion, master: &str, timeout: Duration) -> bool {
    let Ok(address) = config::parse_master(master, UriFormat::Default, config.links.master_port) else { return false };
    let asking = async {
        // `select_ok` panics without any future.
        let addresses = rt.net().resolve(&address.host, address.port).await.ok().filter(|all| !all.is_empty())?;
        let asked = addresses.into_iter().map(|address| Box::pin(ping_address(rt, config, address, timeout)));
        futures_util::future::select_ok(asked).await.ok()
    };
    tokio::time::timeout(timeout, asking).await.is_ok_and(|answer| answer.is_some())
}

async fn ping_address(
    rt: &Rt,
    config: &config::Minion,
    address: SocketAddr,
    timeout: Duration,
) -> Result<(), transport::Error> {
    let target = Target { timeout, heartbeat: None, ..Target::plain(address) };
    let requester: Box<dyn Requester> = match config.network.transport {
        Transport::Tcp => Box::new(transport::tcp::TcpRequester::new(rt.clone(), target)),
        _ => Box::new(transport::zeromq::ZmqRequester::new(rt.clone(), target)),
    };
    requester.ask(Envelope::clear(map! { "cmd" => "ping" }), timeout).await.map(drop)
}
