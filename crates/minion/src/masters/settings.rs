//! The options of each link.

use std::net::IpAddr;
use std::time::Duration;

use channel::client::{Settings as ChannelSettings, Signatures, TrustSettings};
use config::{MasterAddress, MasterType, Transport};
use crypto::{Encryption, HashType, Signature};
use rt::Keepalive;
use tracing::warn;
use transport::{CertReqs, Heartbeat, Kind, Tls, TlsSettings};
use value::Map;
use wire::loads::Sender;

use super::Backoff;
use crate::Error;

/// The settings of one link.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// The master.
    pub address: MasterAddress,
    /// The transport.
    pub transport: Kind,
    /// TLS, for the tcp transport.
    pub tls: Option<Tls>,
    /// TCP keepalive.
    pub keepalive: Option<Keepalive>,
    /// How a silent master is detected.
    pub heartbeat: Heartbeat,
    /// IPv6 is preferred (`Some(true)`), excluded (`Some(false)`), or used as the name resolves (`None`).
    pub ipv6: Option<bool>,
    /// The local addresses of connections.
    pub source: Source,
    /// The port of publications, instead of the one that the master names.
    pub publish_port: Option<u16>,
    /// The master sends only publications that target this minion.
    pub filtering: bool,
    /// The time between attempts if the name does not resolve.
    pub retry_dns: Duration,
    /// The number of consecutive attempts with that pause, if limited.
    pub retry_dns_count: Option<u32>,
    /// The wait after a lost connection.
    pub backoff: Backoff,
    /// The wait while our key is pending, and its maximum.
    pub acceptance_wait: (Duration, Duration),
    /// A rejected minion retries as often as a pending one.
    pub rejected_retry: bool,
    /// Sign-in, encryption, trust.
    pub channel: ChannelSettings,
}

/// The local addresses of connections.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The address; `None` for any.
    pub address: Option<IpAddr>,
    /// The local port of requests; 0 for any.
    pub ret_port: u16,
    /// The local port of the subscription; 0 for any.
    pub publish_port: u16,
}

/// The shortest interval of heartbeats; shorter ones would cost more than they are worth.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);

/// Returns whether one of this number of masters is followed at a time.
pub fn is_one_at_a_time(config: &config::Minion, masters: usize) -> bool {
    masters > 1 && matches!(config.links.master_type, MasterType::Failover | MasterType::Distributed)
}

/// Returns the settings of all links, in the configured order.
///
/// # Errors
/// When an option has an invalid value.
pub fn links(config: &config::Minion, masters: Vec<MasterAddress>, grains: &Map) -> Result<Vec<LinkSettings>, Error> {
    let mut channel = channel_settings(config, grains)?;
    if is_one_at_a_time(config, masters.len()) {
        // As in Salt, a dead master costs one sign-in, whatever `auth_tries` says.
        channel.auth_tries = 1;
    }
    let source = source(config)?;
    let tls = config.network.tls.as_ref().map(tls).transpose()?;
    let link = |address: MasterAddress| LinkSettings {
        address,
        transport: match config.network.transport {
            Transport::Tcp => Kind::Tcp,
            _ => Kind::Zeromq,
        },
        tls: tls.clone(),
        keepalive: keepalive(&config.keepalive),
        heartbeat: Heartbeat::every(config.links.master_heartbeat.max(SHORTEST_BEAT)),
        ipv6: config.network.ipv6,
        source: source.clone(),
        publish_port: config.links.publish_port,
        filtering: config.network.zmq_filtering,
        retry_dns: config.links.retry_dns,
        retry_dns_count: config.links.retry_dns_count,
        backoff: backoff(config),
        acceptance_wait: (config.login.acceptance_wait_time, config.login.acceptance_wait_time_max),
        rejected_retry: config.login.rejected_retry,
        channel: channel.clone(),
    };
    Ok(masters.into_iter().map(link).collect())
}

/// Returns the options for sign-in, encryption and trust.
///
/// # Errors
/// When an algorithm has an unknown name.
pub fn channel_settings(config: &config::Minion, grains: &Map) -> Result<ChannelSettings, Error> {
    let trust = &config.trust;
    let wrong = |option: &'static str, value: &str| Error::Option { option, value: value.to_owned() };
    let encryption = &trust.encryption_algorithm;
    let signing = &trust.signing_algorithm;
    let sent = trust.autosign_grains.iter().filter_map(|name| Some((name.as_str(), grains.get(name)?.clone())));
    Ok(ChannelSettings {
        encryption: encryption.parse::<Encryption>().map_err(|_| wrong("encryption_algorithm", encryption))?,
        signing: signing.parse::<Signature>().map_err(|_| wrong("signing_algorithm", signing))?,
        signatures: if trust.sign_pub_messages { Signatures::Demanded } else { Signatures::Announced },
        minion_sign_messages: trust.minion_sign_messages,
        hash_type: trust.hash_type.parse::<HashType>().map_err(|_| wrong("hash_type", &trust.hash_type))?,
        autosign_grains: (!trust.autosign_grains.is_empty()).then(|| sent.collect()),
        auth_timeout: config.login.auth_timeout,
        auth_tries: config.login.auth_tries.max(1),
        request_timeout: config.login.request_channel_timeout,
        request_tries: config.login.request_channel_tries.max(1),
        trust: TrustSettings {
            verify_signature: trust.verify_master_pubkey_sign,
            always_verify: trust.always_verify_signature,
            open_mode: trust.open_mode,
            finger: trust.master_finger.clone().filter(|finger| !finger.is_empty()),
        },
        reauth_delay: reauth_delay(config),
        sender: Sender::Caller,
    })
}

/// Returns the random delay before sign-ins. Salt's default of 10 s has no effect in Salt, so only a configured value
/// counts.
fn reauth_delay(config: &config::Minion) -> Duration {
    let set = config.origins.contains_key("random_reauth_delay");
    if set { config.login.random_reauth_delay } else { Duration::ZERO }
}

fn source(config: &config::Minion) -> Result<Source, Error> {
    let network = &config.network;
    let interface = network.source_interface_name.as_deref().filter(|name| !name.is_empty());
    let address = interface.and_then(|name| address_of(name, network.ipv6));
    let configured = network.source_address.as_deref().filter(|address| !address.is_empty());
    let address = match (address, configured) {
        (Some(address), _) => Some(address),
        (None, Some(text)) => {
            let wrong = |_| Error::Option { option: "source_address", value: text.to_owned() };
            Some(text.parse().map_err(wrong)?)
        }
        (None, None) => None,
    };
    Ok(Source { address, ret_port: network.source_ret_port, publish_port: network.source_publish_port })
}

/// Returns the first address of an interface.
fn address_of(name: &str, ipv6: Option<bool>) -> Option<IpAddr> {
    let fits = |address: &IpAddr| address.is_ipv6() == ipv6.unwrap_or(false);
    let found = nix::ifaddrs::getifaddrs().ok()?.filter(|interface| interface.interface_name == name);
    let addresses = found.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    let first = addresses.into_iter().find(fits);
    if first.is_none() {
        warn!("source_interface_name: {name} has no usable address and is ignored");
    }
    first
}

fn keepalive(settings: &config::Keepalive) -> Option<Keepalive> {
    // -1 keeps the system's value: it is no number of seconds.
    let seconds = |number: i64| u64::try_from(number).ok().map(Duration::from_secs);
    settings.tcp_keepalive.then(|| Keepalive {
        idle: seconds(settings.tcp_keepalive_idle),
        interval: seconds(settings.tcp_keepalive_intvl),
        count: u32::try_from(settings.tcp_keepalive_cnt).ok(),
    })
}

/// Returns the wait after a lost connection. Without randomness (`recon_randomize: False`), libzmq's pause of 100 ms
/// applies.
fn backoff(config: &config::Minion) -> Backoff {
    let network = &config.network;
    if config.network.transport == Transport::Tcp {
        return Backoff { least: network.tcp_reconnect_backoff, spread: Duration::ZERO };
    }
    if !network.recon_randomize {
        return Backoff { least: Duration::from_millis(100), spread: Duration::ZERO };
    }
    Backoff { least: Duration::from_millis(network.recon_default), spread: Duration::from_millis(network.recon_max) }
}

fn tls(settings: &config::Tls) -> Result<Tls, Error> {
    let settings = TlsSettings {
        certfile: settings.certfile.clone(),
        keyfile: settings.keyfile.clone(),
        ca_certs: settings.ca_certs.clone(),
        cert_reqs: Some(match settings.cert_reqs {
            config::CertReqs::None => CertReqs::None,
            config::CertReqs::Optional => CertReqs::Optional,
            config::CertReqs::Required => CertReqs::Required,
        }),
        ssl_version: settings.ssl_version.clone(),
        ciphers: settings.ciphers.clone(),
    };
    Tls::new(&settings).map_err(|error| Error::Tls(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Value, list, map};

    const SECOND: Duration = Duration::from_secs(1);

    fn config(options: Map) -> config::Minion {
        let mut all = map! { "id" => "web1", "master" => list!["a", "b", "c"], "master_type" => "failover" };
        all.update(options);
        config::Minion::from_options(all).unwrap()
    }

    fn link(options: Map) -> LinkSettings {
        let config = config(options);
        let masters = config.masters.clone();
        links(&config, masters, &map! {}).unwrap().remove(0)
    }

    #[test]
    fn a_sign_in_is_tried_as_often_as_the_options_say_and_once_when_others_may_do() {
        let tries = |options: Map| link(options).channel.auth_tries;
        assert_eq!(tries(map! { "auth_tries" => 4 }), 1);
        assert_eq!(tries(map! { "auth_tries" => 4, "master_type" => "str" }), 4);
        // Zero tries would never reach the master.
        assert_eq!(tries(map! { "auth_tries" => 0, "master_type" => "str" }), 1);
        assert_eq!(link(map! { "auth_timeout" => 9 }).channel.auth_timeout, 9 * SECOND);
    }

    #[test]
    fn a_lost_connection_is_made_again_as_the_options_say() {
        let backoff = |options: Map| {
            let Backoff { least, spread } = link(options).backoff;
            (least.as_millis(), spread.as_millis())
        };
        assert_eq!(backoff(map! {}), (1000, 10_000));
        assert_eq!(backoff(map! { "recon_default" => 50, "recon_max" => 70 }), (50, 70));
        assert_eq!(backoff(map! { "recon_randomize" => false }), (100, 0));
        assert_eq!(backoff(map! { "transport" => "tcp", "tcp_reconnect_backoff" => 2 }), (2000, 0));
    }

    #[test]
    fn ports_addresses_and_names_go_into_each_link() {
        let all = map! {
            "master" => list!["10.0.0.1", "::1"], "master_uri_format" => "ip_only", "master_port" => 99,
            "publish_port" => 98, "retry_dns" => 3, "retry_dns_count" => 2, "source_address" => "127.0.0.2",
            "source_ret_port" => 97, "source_publish_port" => 96,
        };
        let link = link(all);
        assert_eq!(link.address.to_string(), "10.0.0.1:99");
        assert_eq!((link.publish_port, link.retry_dns, link.retry_dns_count), (Some(98), 3 * SECOND, Some(2)));
        let from = link.source;
        assert_eq!((from.address, from.ret_port, from.publish_port), ("127.0.0.2".parse().ok(), 97, 96));
        let names = map! { "id" => "m", "master" => list!["a"], "master_uri_format" => "ip_only" };
        let refused = config::Minion::from_options(names).unwrap_err().to_string();
        assert!(refused.contains("master_uri_format is ip_only"), "{refused}");
        let wrong = map! { "id" => "m", "master" => "a", "master_type" => Value::from("hot") };
        let refused = config::Minion::from_options(wrong).unwrap_err().to_string();
        assert!(refused.contains("must be str, failover, distributed"), "{refused}");
    }

    #[test]
    fn only_a_delay_that_was_set_counts() {
        assert_eq!(link(map! {}).channel.reauth_delay, Duration::ZERO);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("minion");
        // From a file: options from elsewhere do not show whether a value was set.
        std::fs::write(&file, "id: m\nmaster: a\nrandom_reauth_delay: 6\n").unwrap();
        let config = config::Minion::load(&config::Source { path: file }, &config::LoadOptions::default()).unwrap();
        assert_eq!(channel_settings(&config, &map! {}).unwrap().reauth_delay, 6 * SECOND);
    }
}
