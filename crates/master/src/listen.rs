//! Opens the two ports of a master.

use std::net::SocketAddr;

use config::{CertReqs, Master, Transport};
use rt::{Keepalive, Listen, Rt};
use transport::{Heartbeat, Limits, Publisher, RequestServer, Tls, TlsSettings};

use crate::Error;

/// Opens both ports.
pub async fn open(config: &Master, rt: &Rt) -> Result<(RequestServer, Publisher), Error> {
    let network = &config.network;
    let publish = place(config, rt, network.publish_port).await?;
    let requests = place(config, rt, network.ret_port).await?;
    // Salt's high-water mark of zero means no bound; here a queue needs room for one publication.
    let limits = Limits { queue: network.pub_hwm.max(1), ..Limits::default() };
    let (published, served) = match network.transport {
        Transport::Zeromq => {
            if network.tls.is_some() {
                tracing::warn!("option 'ssl' has no effect with transport zeromq");
            }
            let beat = Some(Heartbeat::of_servers());
            let publisher = transport::zeromq::publish(rt.clone(), publish.clone(), limits, beat).await;
            (publisher, transport::zeromq::serve(rt.clone(), requests.clone(), limits, beat).await)
        }
        Transport::Tcp => {
            let tls = tls(config)?;
            let publisher = transport::tcp::publish(rt.clone(), publish.clone(), limits, tls.clone()).await;
            (publisher, transport::tcp::serve(rt.clone(), requests.clone(), limits, tls).await)
        }
    };
    let publisher = published.map_err(refused(&publish, "publications", "publish_port"))?;
    let requests = served.map_err(refused(&requests, "requests", "ret_port"))?;
    Ok((requests, publisher))
}

fn refused(listen: &Listen, purpose: &'static str, option: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let address = listen.at;
    move |source| Error::Listen { address, purpose, option, source }
}

async fn place(config: &Master, rt: &Rt, port: u16) -> Result<Listen, Error> {
    let at = address(&config.network.interface, config, rt, port).await?;
    Ok(Listen { backlog: config.network.zmq_backlog, keepalive: keepalive(config), ..Listen::at(at) })
}

/// Returns a port of an interface, such as the option of that name says.
pub async fn address(interface: &str, config: &Master, rt: &Rt, port: u16) -> Result<SocketAddr, Error> {
    let network = &config.network;
    let interface = match interface {
        // Salt's default interface, with its IPv6 counterpart.
        "0.0.0.0" if network.ipv6 == Some(true) => "::",
        bracketed => bracketed.trim_start_matches('[').trim_end_matches(']'),
    };
    match interface.parse() {
        Ok(address) => Ok(SocketAddr::new(address, port)),
        Err(_) => {
            let wrong = |source| Error::Interface { interface: interface.to_owned(), source };
            let found = rt.net().resolve(interface, port).await.map_err(wrong)?;
            found.into_iter().next().ok_or_else(|| wrong(std::io::ErrorKind::NotFound.into()))
        }
    }
}

/// Returns the keepalive settings. Salt's -1 means the system's value.
fn keepalive(config: &Master) -> Option<Keepalive> {
    let wanted = &config.keepalive;
    let seconds = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0).map(std::time::Duration::from_secs);
    wanted.tcp_keepalive.then(|| Keepalive {
        idle: seconds(wanted.tcp_keepalive_idle),
        interval: seconds(wanted.tcp_keepalive_intvl),
        count: u32::try_from(wanted.tcp_keepalive_cnt).ok().filter(|count| *count > 0),
    })
}

fn tls(config: &Master) -> Result<Option<Tls>, Error> {
    let Some(wanted) = &config.network.tls else { return Ok(None) };
    let settings = TlsSettings {
        certfile: wanted.certfile.clone(),
        keyfile: wanted.keyfile.clone(),
        ca_certs: wanted.ca_certs.clone(),
        cert_reqs: Some(match wanted.cert_reqs {
            CertReqs::None => transport::CertReqs::None,
            CertReqs::Optional => transport::CertReqs::Optional,
            CertReqs::Required => transport::CertReqs::Required,
        }),
        ssl_version: wanted.ssl_version.clone(),
        ciphers: wanted.ciphers.clone(),
    };
    Tls::new(&settings).map(Some).map_err(Error::Tls)
}
