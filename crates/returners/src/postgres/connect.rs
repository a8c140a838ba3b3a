//! Connects to a PostgreSQL server.

use std::time::Duration;

use openssl::ssl::{SslConnector, SslFiletype, SslMethod, SslVerifyMode};
use postgres_openssl::MakeTlsConnector;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};
use tracing::debug;

use crate::{Error, Options, Result, World};

/// The default timeout of a connection.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Connects and logs in. `password` is the name of that option.
///
/// # Errors
/// If an option is invalid, or the server is unreachable or refuses the login.
pub async fn connect(world: &World, options: &Options, password: &str) -> Result<Client> {
    let (host, port) = (options.required("host")?, options.number("port")?.unwrap_or(5432));
    let tls = Tls::of(options)?;
    // libpq takes 0 for "wait without end". A minion must not, so the default applies.
    let patience = options.number::<u32>("connect_timeout")?.filter(|seconds| *seconds > 0);
    let patience = patience.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.into()));
    let mut config = Config::new();
    config.host(&host).port(port).user(options.required("user")?).dbname(options.required("db")?);
    config.connect_timeout(patience).ssl_mode(tls.mode);
    if let Some(password) = options.text(password) {
        config.password(password);
    }
    let unreachable =
        |reason: String| Error::Unreachable { server: format!("the PostgreSQL server {host}:{port}"), reason };
    // The timeout covers the login as well: a server that accepts and then says nothing would block the return for
    // ever.
    let connecting = tokio::time::timeout(patience, config.connect(tls.connector()?)).await;
    let connected = connecting.map_err(|_| unreachable("it does not answer".into()))?;
    let (client, connection) = connected.map_err(|error| unreachable(words(&error)))?;
    // The crate's protocol needs the connection to be driven by a task of its own. The task ends when the client is
    // dropped.
    world.rt.spawn(async move {
        if let Err(error) = connection.await {
            debug!("the connection to PostgreSQL has ended: {}", words(&error));
        }
    });
    Ok(client)
}

/// Returns an error with the server's message.
pub fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        // Only the server's text: the error's own would repeat the severity and the code.
        Some(told) => match told.detail() {
            Some(detail) => format!("{}: {detail}", told.message()),
            None => told.message().to_owned(),
        },
        None => value::error::chain(error),
    }
}

/// How the connection is protected; libpq defines the meaning of the options.
#[derive(Debug)]
struct Tls {
    mode: SslMode,
    /// The checks of the server's certificate: its signature, and the name in it.
    verify: (bool, bool),
    root: Option<String>,
    certificate: Option<(String, String)>,
}

impl Tls {
    fn of(options: &Options) -> Result<Self> {
        // Salt's documentation writes `None` for options that are not set, which is a string in YAML.
        let text = |name: &str| options.text(name).filter(|text| text != "None");
        if text("sslcrl").is_some() {
            return Err(Error::option("not supported: returner.pgjsonb.sslcrl (lists of revoked certificates)"));
        }
        let root = text("sslrootcert");
        let mode = text("sslmode").unwrap_or_else(|| "prefer".to_owned());
        let (mode, verify) = match mode.as_str() {
            "disable" => (SslMode::Disable, (false, false)),
            // `allow` prefers a connection without TLS, which the library cannot express. Trying TLS first is the
            // safer half.
            "allow" | "prefer" => (SslMode::Prefer, (false, false)),
            // With a root certificate, libpq checks against it.
            "require" => (SslMode::Require, (root.is_some(), false)),
            "verify-ca" => (SslMode::Require, (true, false)),
            "verify-full" => (SslMode::Require, (true, true)),
            other => return Err(Error::option(format!("invalid sslmode value: \"{other}\""))),
        };
        // libpq would look for `~/.postgresql/root.crt`. A daemon's home is a place where nobody expects it.
        if verify.0 && root.is_none() {
            return Err(Error::option("option 'sslrootcert' is missing: there is nothing to check certificates with"));
        }
        let certificate = match (text("sslcert"), text("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::option("options 'sslcert' and 'sslkey' belong together")),
        };
        Ok(Tls { mode, verify, root, certificate })
    }

    fn connector(&self) -> Result<MakeTlsConnector> {
        let at = |path: &str| {
            let path = path.to_owned();
            move |error: openssl::error::ErrorStack| Error::option(format!("{path} cannot be used: {error}"))
        };
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(Error::failed)?;
        if let Some(root) = &self.root {
            builder.set_ca_file(root).map_err(at(root))?;
        }
        if let Some((certificate, key)) = &self.certificate {
            builder.set_certificate_chain_file(certificate).map_err(at(certificate))?;
            builder.set_private_key_file(key, SslFiletype::PEM).map_err(at(key))?;
        }
        let (verify, name) = self.verify;
        builder.set_verify(if verify { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
        let mut connector = MakeTlsConnector::new(builder.build());
        connector.set_callback(move |config, _| {
            // `verify-ca` checks the chain only.
            config.set_verify_hostname(name);
            Ok(())
        });
        Ok(connector)
    }
}

#[cfg(test)]
mod tests {
    use value::{Map, map};

    use super::*;
    use crate::testing;

    fn tls(opts: Map) -> Result<Tls> {
        let names = ["sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl"];
        Tls::of(&Options::find(&testing::world(map! { "p" => opts }), "p", &names, map! {}, None)?)
    }

    #[test]
    fn ssl_modes_are_those_of_libpq() {
        let of =
            |mode: &str| tls(map! { "sslmode" => mode, "sslrootcert" => "/ca.pem" }).map(|tls| (tls.mode, tls.verify));
        assert_eq!(of("disable").unwrap(), (SslMode::Disable, (false, false)));
        assert_eq!(of("require").unwrap(), (SslMode::Require, (true, false)));
        assert_eq!(of("verify-full").unwrap(), (SslMode::Require, (true, true)));
        assert_eq!(tls(map! { "sslmode" => "None" }).unwrap().mode, SslMode::Prefer);
        assert_eq!(tls(map! { "sslmode" => "require" }).unwrap().verify, (false, false));
        assert_eq!(of("maybe").unwrap_err().to_string(), "invalid sslmode value: \"maybe\"");
    }

    #[test]
    fn unsupported_checks_are_refused() {
        assert!(tls(map! { "sslmode" => "verify-ca" }).is_err());
        assert!(tls(map! { "sslcrl" => "/x" }).is_err());
        assert!(tls(map! { "sslcert" => "/x" }).is_err());
    }
}
