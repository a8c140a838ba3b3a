//! The client's settings, from the master's configuration.

use event::Endpoints;
use store::jobs::JobCache;
use transport::CertReqs;
use transport::Kind;

use crate::gather::Timeouts;
use crate::local::Settings;
use crate::request_port::RequestPortSettings;

/// Returns how a client on the same host reaches a master with this configuration.
pub fn from_config(config: &config::Master) -> Settings {
    let tcp_ipc = config.network.ipc_mode == config::IpcMode::Tcp;
    let bus = if tcp_ipc {
        let ipv6 = config.network.ipv6.unwrap_or(false);
        Endpoints::tcp(config.network.tcp_master_pub_port, config.network.tcp_master_pull_port, ipv6)
    } else {
        Endpoints::master(&config.paths.sock_dir)
    };
    Settings {
        bus,
        // Salt's client checks the same file, and Saltern's master creates it.
        running_file: (!tcp_ipc).then(|| config.paths.sock_dir.join("publish_pull.ipc")),
        request_port: request_port(config),
        cachedir: config.paths.cachedir.clone(),
        master_user: config.user.clone(),
        accepted_dir: config.paths.pki_dir.join("minions"),
        publish_timeout: config.client.publish_timeout,
        ext_job_cache: config.jobs.ext_job_cache.clone(),
        order_masters: config.jobs.order_masters,
        jobs: jobs(config),
    }
}

fn jobs(config: &config::Master) -> Option<JobCache> {
    let hash = config.keys.hash_type.parse().ok()?;
    Some(JobCache::beside_master(&config.paths.cachedir, hash, &config.jobs.master_job_cache))
}

/// Returns the timeouts of a job.
pub fn patience(config: &config::Master, timeout: std::time::Duration) -> Timeouts {
    Timeouts {
        timeout,
        gather: config.client.gather_job_timeout,
        syndics: config.jobs.order_masters.then_some(config.client.syndic_wait),
    }
}

fn request_port(config: &config::Master) -> RequestPortSettings {
    RequestPortSettings {
        interface: config.network.interface.clone(),
        port: config.network.ret_port,
        kind: match config.network.transport {
            config::Transport::Tcp => Kind::Tcp,
            _ => Kind::Zeromq,
        },
        tls: config.network.tls.as_ref().map(tls),
    }
}

fn tls(option: &config::Tls) -> transport::TlsSettings {
    transport::TlsSettings {
        certfile: option.certfile.clone(),
        keyfile: option.keyfile.clone(),
        ca_certs: option.ca_certs.clone(),
        cert_reqs: Some(match option.cert_reqs {
            config::CertReqs::None => CertReqs::None,
            config::CertReqs::Optional => CertReqs::Optional,
            config::CertReqs::Required => CertReqs::Required,
        }),
        ssl_version: option.ssl_version.clone(),
        ciphers: option.ciphers.clone(),
    }
}
