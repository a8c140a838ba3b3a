//! A master in a directory of its own, and a minion that talks to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use channel::client::{FileTrust, MasterChannel, MinionIdentity, Settings, Signatures, TrustSettings};
use crypto::{Encryption, HashType, PrivateKey, Signature};
use event::{Endpoints, Listening, Remote};
use futures_util::future::BoxFuture;
use rt::Rt;
use store::jobs::{EMBEDDED, JobCache};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use transport::tcp::TcpRequester;
use transport::zeromq::ZmqRequester;
use transport::{Requester, Subscription, Target};
use value::{Bytes, Map, Value, map};
use wire::MinionId;
use wire::envelope::Envelope;
use wire::loads::Sender;
use wire::zmtp::{Handshake, SocketType, Step, encode_message};

pub struct Master {
    pub directory: TempDir,
    pub requests: SocketAddr,
    pub publications: SocketAddr,
    tcp: bool,
    stop: CancellationToken,
    running: JoinHandle<Result<(), saltern_master::Error>>,
}

/// Returns a port that nothing listens on, over IPv4 or IPv6. Each port is returned once, and is outside the range that
/// the kernel uses for outgoing connections, so it stays free until it is used.
pub fn free_port() -> u16 {
    const FROM: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static GIVEN: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    // Several test programs run at the same time, each with another start.
    let own = std::process::id() as u16;
    loop {
        let given = GIVEN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let port = FROM + own.wrapping_mul(37).wrapping_add(given) % COUNT;
        let free = |address: &str| std::net::TcpListener::bind((address, port)).is_ok();
        // Some systems let both be bound at once, so one check does not replace the other.
        if free("::") && free("127.0.0.1") {
            return port;
        }
    }
}

/// The input of a master with all execution functions.
pub fn start(config: config::Master) -> saltern_master::Start {
    let catalogue = exec::Catalogue { modules: modules::ALL, ..Default::default() };
    saltern_master::Start { config, keys: None, keeper: None, catalogue }
}

impl Master {
    /// Starts a master with these options and waits until it is ready.
    pub async fn start(options: Map) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), options).await
    }

    pub async fn start_in(directory: TempDir, options: Map) -> Self {
        let (publish, requests) = (free_port(), free_port());
        let root = directory.path().to_str().unwrap().to_owned();
        let mut all = map! {
            "root_dir" => root, "interface" => "127.0.0.1", "publish_port" => publish, "ret_port" => requests,
            // Tests run as any user, who cannot switch to another one.
            "user" => nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name, "id" => "m_master",
            "pki_dir" => "/pki", "cachedir" => "/cache", "sock_dir" => "/sock", "token_dir" => "/cache/tokens",
        };
        let tcp = options.get_str("transport") == Some("tcp");
        all.update(options);
        let config_dir = directory.path().join("conf");
        std::fs::create_dir_all(&config_dir).unwrap();
        let path = config_dir.join("master");
        std::fs::write(&path, yaml::dump(&all.into(), yaml::Flow::Block)).unwrap();
        let config = config::Master::load(&config::Source { path }, &config::LoadOptions::default()).unwrap();
        let stop = CancellationToken::new();
        let (tell, ready) = tokio::sync::oneshot::channel();
        let running =
            tokio::spawn(saltern_master::run(start(config), Rt::real(), stop.clone(), move |_| tell.send(()).unwrap()));
        if ready.await.is_err() {
            panic!("the master did not start: {:?}", running.await);
        }
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Master { directory, requests: at(requests), publications: at(publish), tcp, stop, running }
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.directory.path().join(inside)
    }

    /// Stops the master and returns its directory.
    pub async fn stop(self) -> TempDir {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.directory
    }

    /// The key of the user who runs the tests.
    pub fn user_key(&self) -> String {
        let name = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
        std::fs::read_to_string(self.path(&format!("cache/.{name}_key"))).unwrap()
    }

    /// Sends an unencrypted request, as a program on this host does.
    pub async fn ask(&self, load: Map) -> Value {
        self.send(Envelope::clear(load)).await
    }

    pub async fn send(&self, envelope: Envelope) -> Value {
        self.requester().ask(envelope, Duration::from_secs(20)).await.unwrap()
    }

    fn requester(&self) -> Arc<dyn Requester> {
        let target = Target::plain(self.requests);
        match self.tcp {
            true => Arc::new(TcpRequester::new(Rt::real(), target)),
            false => Arc::new(ZmqRequester::new(Rt::real(), target)),
        }
    }

    /// Publishes like Saltern's `salt`.
    pub async fn publish(&self, tgt: &str, fun: &str) -> Value {
        let name = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
        self.ask(map! {
            "cmd" => "publish", "tgt" => tgt, "fun" => fun, "arg" => value::list![], "key" => self.user_key(),
            "tgt_type" => "glob", "ret" => "", "jid" => "", "kwargs" => Map::new(), "user" => name,
            "saltern" => true,
        })
        .await
    }

    /// Listens to the event bus.
    pub async fn events(&self) -> Listening {
        Remote::new(Rt::real(), Endpoints::master(&self.path("sock"))).listen(event::Filter::all()).await.unwrap()
    }

    pub fn accept(&self, id: &str) {
        std::fs::rename(self.path("pki/minions_pre").join(id), self.path("pki/minions").join(id)).unwrap();
    }

    pub fn minion(&self, id: &str, pki: &Path) -> Minion {
        let channel = self.channel(id, PrivateKey::generate(2048).unwrap(), pki);
        Minion { id: MinionId::new(id).unwrap(), channel }
    }

    /// Returns a minion that signs in as a Saltern minion.
    pub fn minion_of_ours(&self, id: &str, pki: &Path) -> Minion {
        self.minion_of_ours_with(id, PrivateKey::generate(2048).unwrap(), pki)
    }

    /// The same with a key that the minion had before.
    pub fn minion_of_ours_with(&self, id: &str, key: PrivateKey, pki: &Path) -> Minion {
        let sender = Sender::Minion(wire::loads::Abilities::all("", "1"));
        let channel = self.channel_with(id, key, pki, sender);
        Minion { id: MinionId::new(id).unwrap(), channel }
    }

    pub fn channel(&self, id: &str, key: PrivateKey, pki: &Path) -> MasterChannel {
        self.channel_with(id, key, pki, Sender::Stock)
    }

    /// Returns a channel that never reads its answers.
    pub fn unread_channel(&self, id: &str, key: PrivateKey, pki: &Path) -> MasterChannel {
        let usual = ZmqRequester::new(Rt::real(), Target::plain(self.requests));
        let requester = Unread { usual, to: self.requests, open: tokio::sync::Mutex::default() };
        self.channel_over(id, key, pki, Sender::Stock, Arc::new(requester))
    }

    fn channel_with(&self, id: &str, key: PrivateKey, pki: &Path, sender: Sender) -> MasterChannel {
        self.channel_over(id, key, pki, sender, self.requester())
    }

    fn channel_over(
        &self,
        id: &str,
        key: PrivateKey,
        pki: &Path,
        sender: Sender,
        requester: Arc<dyn Requester>,
    ) -> MasterChannel {
        let settings = Settings {
            encryption: Encryption::default(),
            signing: Signature::default(),
            signatures: Signatures::Announced,
            minion_sign_messages: false,
            hash_type: HashType::Sha256,
            autosign_grains: None,
            auth_timeout: Duration::from_secs(20),
            auth_tries: 1,
            reauth_delay: std::time::Duration::ZERO,
            request_timeout: Duration::from_secs(20),
            request_tries: 1,
            trust: TrustSettings::default(),
            sender,
        };
        let identity = Arc::new(MinionIdentity::new(MinionId::new(id).unwrap(), key));
        let trust = Arc::new(FileTrust::new(pki, "master_sign"));
        MasterChannel::new(settings, identity, trust, requester, Rt::real())
    }
}

pub struct Minion {
    pub id: MinionId,
    pub channel: MasterChannel,
}

impl Minion {
    pub async fn ask(&self, load: Map) -> Value {
        self.channel.request(load, None, wire::msgpack::Decode::Default).await.unwrap()
    }

    pub async fn answer(&self, jid: &str, value: impl Into<Value>) -> Value {
        let load = map! {
            "cmd" => "_return", "id" => &self.id, "success" => true, "return" => value, "retcode" => 0, "jid" => jid,
            "fun" => "test.ping", "fun_args" => value::list![],
        };
        self.ask(load).await
    }
}

/// Sends sign-ins as usual. Sends each encrypted request over its own connection, waits until the answer begins to
/// arrive, and leaves it unread.
struct Unread {
    usual: ZmqRequester,
    to: SocketAddr,
    open: tokio::sync::Mutex<Vec<TcpStream>>,
}

impl Requester for Unread {
    fn ask(&self, envelope: Envelope, timeout: Duration) -> BoxFuture<'_, Result<Value, transport::Error>> {
        Box::pin(async move {
            if matches!(envelope, Envelope::Clear(_)) {
                return self.usual.ask(envelope, timeout).await;
            }
            let mut stream = TcpStream::connect(self.to).await?;
            let (mut handshake, greeting) = Handshake::new(SocketType::Req, Bytes::new());
            stream.write_all(&greeting).await?;
            let mut buffer = bytes::BytesMut::new();
            loop {
                match handshake.advance(&mut buffer).unwrap() {
                    Step::Read => assert_ne!(stream.read_buf(&mut buffer).await?, 0),
                    Step::Send(bytes) => stream.write_all(&bytes).await?,
                    Step::Done(_) => break,
                }
            }
            stream.write_all(&encode_message(&[Bytes::new(), envelope.encode()])).await?;
            stream.readable().await?;
            self.open.lock().await.push(stream);
            Err(transport::Error::Closed)
        })
    }
}

/// Waits for an event whose tag begins with a text.
pub async fn event(events: &mut Listening, prefix: &str) -> event::Event {
    let wanted = async {
        loop {
            let event = events.next().await.unwrap();
            if event.tag().starts_with(prefix) {
                return event;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wanted).await.unwrap_or_else(|_| panic!("no event {prefix}"))
}

/// Subscribes to the publications of a master like the minion of this id.
pub async fn subscribe(master: &Master, id: &str) -> Box<dyn Subscription> {
    transport::zeromq::subscribe(&Rt::real(), &Target::plain(master.publications), id, vec![]).await.unwrap()
}

/// Options of a master that accepts every key.
pub fn open_house() -> Map {
    map! { "auto_accept" => true }
}

/// Opens the job cache as another program does.
pub fn jobs(master: &Master) -> JobCache {
    JobCache::beside_master(&master.path("cache"), HashType::Sha256, EMBEDDED)
}
