//! The connection to the master's request port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rt::Rt;
use tokio::sync::OnceCell;
use transport::zeromq::ZmqRequester;
use transport::{Kind, Requester, Target};
use value::Value;
use wire::envelope::Envelope;

/// The address of the request port.
#[derive(Clone, Debug)]
pub struct RequestPortSettings {
    /// The address the master listens on; a wildcard address means this host.
    pub interface: String,
    /// The port (`ret_port`).
    pub port: u16,
    /// The transport.
    pub kind: Kind,
    /// TLS of the tcp transport.
    pub tls: Option<transport::TlsSettings>,
}

/// Errors of a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestPortError {
    /// The master's address does not resolve.
    #[error("the master's interface '{0}' has no address")]
    Address(String),
    /// The answer did not come in time.
    #[error("no answer in time")]
    TimedOut,
    /// The connection failed.
    #[error(transparent)]
    Transport(transport::Error),
}

/// A connection to the request port, made on the first request.
pub struct RequestPort {
    rt: Rt,
    settings: RequestPortSettings,
    requester: OnceCell<Box<dyn Requester>>,
}

impl RequestPort {
    /// Creates the connection object, without connecting.
    pub fn new(rt: Rt, settings: RequestPortSettings) -> Self {
        RequestPort { rt, settings, requester: OnceCell::new() }
    }

    /// Sends an envelope and waits for the answer.
    pub async fn ask(&self, envelope: Envelope, timeout: Duration) -> Result<Value, RequestPortError> {
        let requester = self.requester.get_or_try_init(|| self.connect()).await?;
        requester.ask(envelope, timeout).await.map_err(|error| match error {
            transport::Error::Timeout(_) => RequestPortError::TimedOut,
            other => RequestPortError::Transport(other),
        })
    }

    async fn connect(&self) -> Result<Box<dyn Requester>, RequestPortError> {
        let RequestPortSettings { interface, port, kind, tls } = &self.settings;
        let host = this_host(interface);
        let no_address = || RequestPortError::Address(interface.clone());
        let addresses = self.rt.net().resolve(&host, *port).await.map_err(|_| no_address())?;
        let mut target = Target::plain(*addresses.first().ok_or_else(no_address)?);
        // A command ends before a heartbeat could report anything.
        target.heartbeat = None;
        match kind {
            Kind::Zeromq => Ok(Box::new(ZmqRequester::new(self.rt.clone(), target))),
            Kind::Tcp => {
                if let Some(settings) = tls {
                    let tls = transport::Tls::new(settings).map_err(RequestPortError::Transport)?;
                    target.tls = Some((tls, host));
                }
                Ok(Box::new(transport::tcp::TcpRequester::new(self.rt.clone(), target)))
            }
        }
    }
}

/// Returns the host to connect to: a master that listens on all addresses is reached over loopback.
fn this_host(interface: &str) -> String {
    // IPv6 addresses may be written with brackets in the option.
    let bare = interface.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(address)) if address.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        _ => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_interfaces_are_reached_over_loopback() {
        for (interface, host) in
            [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("[::]", "::1"), ("10.0.0.1", "10.0.0.1"), ("master", "master")]
        {
            assert_eq!(this_host(interface), host);
        }
    }
}
