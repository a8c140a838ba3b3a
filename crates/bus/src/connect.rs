//! The connection to the servers of the bus.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use config::bus::{Bus, BusLogin, CREDENTIALS};

/// The shortest pause before a server is tried again.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);

/// The client pings a silent server at this interval, in heartbeats. It disconnects when the third ping is due and none has been
/// answered: after 3 s with the default heartbeat.
const PING: u32 = 2;

/// How long a server may take to let this master in, before the next one is tried. A host that is cut off does not answer at all.
const PATIENCE: Duration = Duration::from_secs(3);

/// Messages of a lane that wait here to be read, so that a flood takes little memory. What does not fit is lost, and that is told.
const WAITING: usize = 4_096;

/// The maximum length of a file with a seed or a JWT, in bytes.
const MOST_FILE: u64 = 64 * 1024;

/// What becomes of the connection to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusState {
    /// A server has let this master in.
    Connected,
    /// The connection is lost, and servers are tried until one answers.
    Disconnected,
    /// Nobody has taken messages fast enough, and some are lost.
    Slow,
    /// A server, or the attempt to reach one, says what is wrong.
    Trouble(String),
}

/// An error: a file that `cluster_bus_credentials` names cannot be used, or what stands in it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("option '{CREDENTIALS}': failed to read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// The file says something else than is needed. What stands there is not shown.
    #[error("option '{CREDENTIALS}': {path} has no {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// The seed is wrong. It is not shown.
    #[error("option '{CREDENTIALS}': 'nkey' is neither the seed of a user nor a file")]
    Seed,
    /// The client refuses the settings.
    #[error("option 'cluster_bus': {0}")]
    Client(String),
}

/// Connects to the servers of the bus, and returns at once: servers are tried until one answers, with pauses from 0.1 to 2 s, and
/// again whenever the connection is lost, or the server is silent for six times `heartbeat`. `notify` is called with each change, from a
/// task of the client; it must not wait.
///
/// # Errors
/// When a file that the options name cannot be used. A server that cannot be reached is no error.
pub async fn connect(
    options: &Bus,
    heartbeat: Duration,
    notify: impl Fn(BusState) + Send + Sync + 'static,
) -> Result<Client, ConnectError> {
    let settings = settings(options, heartbeat, notify);
    let client = with_tls(with_login(settings, &options.login).await?, options).await?;
    let servers: Result<Vec<ServerAddr>, io::Error> =
        options.servers.iter().map(|server| server.to_string().parse()).collect();
    let servers = servers.map_err(|error| ConnectError::Client(error.to_string()))?;
    client.connect(servers).await.map_err(|error| ConnectError::Client(error.to_string()))
}

/// Returns the settings of a client that reads no file.
fn settings(options: &Bus, heartbeat: Duration, notify: impl Fn(BusState) + Send + Sync + 'static) -> ConnectOptions {
    ConnectOptions::new()
        .name("saltern")
        .retry_on_initial_connect()
        .max_reconnects(None)
        .reconnect_delay_callback(pause)
        .connection_timeout(PATIENCE)
        .ping_interval(heartbeat * PING)
        // Nobody needs to hear what he says himself.
        .no_echo()
        .subscription_capacity(WAITING)
        // The client takes servers that others name to it for servers without TLS: they would get the login in clear.
        .require_tls(options.requires_tls())
        .event_callback(move |event| {
            if let Some(state) = state(event) {
                notify(state);
            }
            std::future::ready(())
        })
}

/// Returns the pause before an attempt. The first follows at once.
fn pause(attempt: usize) -> Duration {
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => (SHORTEST * (1 << (attempt - 2).min(5))).min(LONGEST),
    }
}

fn state(event: Event) -> Option<BusState> {
    Some(match event {
        Event::Connected => BusState::Connected,
        Event::Disconnected | Event::Closed => BusState::Disconnected,
        Event::SlowConsumer(_) => BusState::Slow,
        Event::ServerError(error) => BusState::Trouble(error.to_string()),
        Event::ClientError(error) => BusState::Trouble(explained(&error.to_string())),
        // The server says that it will close the connection, which is told when it does.
        Event::LameDuckMode | Event::Draining => return None,
    })
}

/// Adds to an error of the client what may be wrong: it says little, and never which option is meant.
fn explained(words: &str) -> String {
    let hint = match words {
        words if words.ends_with("IO error") => {
            "nothing listens there, or the connection is ended: only one side speaks TLS, or one does not believe the certificate \
             of the other, see ca, cert and key in cluster_bus_credentials"
        }
        words if words.ends_with("DNS error") => "a host in cluster_bus has no address",
        words if words.ends_with("timed out") => "it does not answer as a server of NATS does",
        words if words.contains("authorization violation") => "see cluster_bus_credentials",
        words if words.contains("TLS error") => {
            "see tls:// in cluster_bus, and ca, cert and key in cluster_bus_credentials"
        }
        _ => return words.to_owned(),
    };
    format!("{words} ({hint})")
}

async fn with_login(client: ConnectOptions, login: &BusLogin) -> Result<ConnectOptions, ConnectError> {
    Ok(match login {
        BusLogin::None => client,
        BusLogin::Password { user, password } => client.user_and_password(user.clone(), password.expose().to_owned()),
        BusLogin::Token(token) => client.token(token.expose().to_owned()),
        BusLogin::Seed(seed) => with_seed(client, seed.expose()).ok_or(ConnectError::Seed)?,
        BusLogin::SeedFile(path) => {
            let text = read(path).await?;
            let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU"));
            let missing = || ConnectError::Content { path: path.clone(), what: "seed of a user" };
            seed.and_then(|seed| with_seed(client, seed)).ok_or_else(missing)?
        }
        BusLogin::Creds(path) => {
            let text = read(path).await?;
            let missing = |_| ConnectError::Content { path: path.clone(), what: "JWT with a seed" };
            client.credentials(&text).map_err(missing)?
        }
    })
}

/// Adds a seed, if it is one: the client would find out only when a server asks.
fn with_seed(client: ConnectOptions, seed: &str) -> Option<ConnectOptions> {
    nkeys::KeyPair::from_seed(seed).ok()?;
    Some(client.nkey(seed.to_owned()))
}

async fn with_tls(mut client: ConnectOptions, options: &Bus) -> Result<ConnectOptions, ConnectError> {
    if let Some(ca) = &options.ca {
        pem(ca, "-----BEGIN CERTIFICATE-----", "certificate").await?;
        client = client.add_root_certificates(ca.clone());
    }
    if let Some((cert, key)) = &options.cert {
        pem(cert, "-----BEGIN CERTIFICATE-----", "certificate").await?;
        pem(key, "PRIVATE KEY-----", "private key").await?;
        client = client.add_client_certificate(cert.clone(), key.clone());
    }
    Ok(client)
}

/// Checks that a file has what it should have: the client would try for ever.
async fn pem(path: &Path, mark: &str, what: &'static str) -> Result<(), ConnectError> {
    match read(path).await?.contains(mark) {
        true => Ok(()),
        false => Err(ConnectError::Content { path: path.to_owned(), what }),
    }
}

async fn read(path: &Path) -> Result<String, ConnectError> {
    let failed = |source| ConnectError::File { path: path.to_owned(), source };
    let len = tokio::fs::metadata(path).await.map_err(failed)?.len();
    if len > MOST_FILE {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "it is too long")));
    }
    tokio::fs::read_to_string(path).await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use value::{Value, map};

    use super::*;

    const BEAT: Duration = Duration::from_millis(500);

    const INFO: &str = "INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"max_payload\":1048576,\"proto\":1}\r\n";

    fn options(credentials: impl Into<Value>) -> Bus {
        Bus::read(&"nats://127.0.0.1:1".into(), &credentials.into()).unwrap().unwrap()
    }

    async fn refused(credentials: impl Into<Value>) -> String {
        connect(&options(credentials), BEAT, |_| {}).await.unwrap_err().to_string()
    }

    #[test]
    fn errors_of_the_client_name_what_may_be_wrong() {
        assert!(explained("nats: IO error").starts_with("nats: IO error (nothing listens there"));
        assert!(explained("nats: authorization violation").ends_with("(see cluster_bus_credentials)"));
        assert_eq!(explained("nats: something else"), "nats: something else");
    }

    #[test]
    fn pauses_grow_from_a_tenth_of_a_second_to_two() {
        let pauses: Vec<u128> = (1..9).map(|attempt| pause(attempt).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert_eq!(pause(usize::MAX), LONGEST);
    }

    #[tokio::test]
    async fn files_are_looked_at_before_a_server_is_and_their_content_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let missing = refused(map! { "creds" => "/nowhere/x.creds" }).await;
        assert_eq!(missing, "option 'cluster_bus_credentials': failed to read /nowhere/x.creds");
        let (creds, seed) = (file("a.creds", "hunter2"), file("a.nk", "hunter2"));
        assert!(refused(map! { "creds" => creds }).await.ends_with("a.creds has no JWT with a seed"));
        assert!(refused(map! { "nkey" => seed }).await.ends_with("a.nk has no seed of a user"));
        assert!(
            refused(map! { "nkey" => "SUhunter2" }).await.ends_with("'nkey' is neither the seed of a user nor a file")
        );
        let ca = file("ca.pem", "hunter2");
        assert!(refused(map! { "ca" => ca }).await.ends_with("ca.pem has no certificate"));
    }

    #[test]
    fn servers_that_others_name_need_tls_as_those_of_the_options_do() {
        let required = |servers: &str, credentials: Value| {
            let options = Bus::read(&servers.into(), &credentials).unwrap().unwrap();
            format!("{:?}", settings(&options, BEAT, |_| {})).contains("\"tls_required\": true")
        };
        assert!(required("tls://h1,h2", Value::Null));
        assert!(required("nats://h1", map! { "ca" => "/ca.pem" }.into()));
        assert!(required("nats://h1", map! { "cert" => "/c.pem", "key" => "/k.pem" }.into()));
        assert!(!required("nats://h1", map! { "token" => "t" }.into()));
    }

    #[tokio::test]
    async fn no_login_goes_in_clear_to_a_server_that_wants_no_tls() {
        let ca = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, ca).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = format!("nats://{}", listener.local_addr().unwrap());
        let credentials = map! { "token" => "hunter2", "ca" => path.to_str().unwrap() };
        let options = Bus::read(&servers.into(), &credentials.into()).unwrap().unwrap();
        let _client = connect(&options, BEAT, |_| {}).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(INFO.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        // It ends here: the certificates of the file are none.
        let _ = stream.read_buf(&mut said).await;
        assert!(said.is_empty() || said[0] == 0x16, "{said:?}");
    }

    /// Lets a client in, as a server does, and says nothing more.
    async fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(INFO.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        while !said.ends_with(b"PING\r\n") {
            assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0, "the client left");
        }
        stream.write_all(b"PONG\r\n").await.unwrap();
        stream
    }

    #[tokio::test]
    async fn a_server_that_falls_silent_without_closing_the_connection_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = format!("nats://{}", listener.local_addr().unwrap());
        let options = Bus::read(&servers.into(), &Value::Null).unwrap().unwrap();
        let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
        let notify = move |state| _ = told.send(state);
        let _client = connect(&options, Duration::from_millis(5), notify).await.unwrap();
        // It stays open, as that of a host does whose packets vanish.
        let _silent = let_in(&listener).await;
        let _next = let_in(&listener).await;
        let states = [tells.recv().await, tells.recv().await, tells.recv().await].map(Option::unwrap);
        assert_eq!(states, [BusState::Connected, BusState::Disconnected, BusState::Connected]);
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_no_error_and_is_told() {
        let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
        let client = connect(&options(Value::Null), BEAT, move |state| _ = told.send(state)).await.unwrap();
        let state = tells.recv().await.unwrap();
        assert!(matches!(&state, BusState::Trouble(text) if !text.is_empty()), "{state:?}");
        drop(client);
    }
}
