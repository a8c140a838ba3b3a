//! A minion and a master talk over both transports, with the keys only this test knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crypto::{Crypticle, Encryption, HashType, KeyString, PrivateKey, PublicKey, Signature};
use rt::{Listen, Rt};
use saltern_channel::client::{Error, FileTrust, MasterChannel, MinionIdentity, Settings, SignIn, TrustSettings};
use saltern_channel::server::{
    self, Identity, KeyBook, MasterKeySignature, Opened, Rotation, Server, Session, SessionBook, Verdict,
};
use tokio_util::task::AbortOnDropHandle;
use transport::{Limits, RequestServer, Requester, Target};
use value::{Map, Value, map};
use wire::MinionId;
use wire::loads::Abilities;
use wire::msgpack::Decode;

#[derive(Default)]
struct Keys {
    accepted: Mutex<HashMap<MinionId, Arc<PublicKey>>>,
    accept: bool,
}

impl KeyBook for Keys {
    fn sign_in(&self, id: &MinionId, public: &str, _grains: Option<&Map>) -> (Verdict, &'static str) {
        if !self.accept {
            return (Verdict::Pending, "pend");
        }
        let key = PublicKey::from_pem(public.as_bytes()).unwrap();
        self.accepted.lock().unwrap().entry(id.clone()).or_insert_with(|| Arc::new(key));
        (Verdict::Accepted, "accept")
    }

    fn accepted(&self, id: &MinionId) -> Option<Arc<PublicKey>> {
        self.accepted.lock().unwrap().get(id).cloned()
    }
}

#[derive(Default)]
struct Sessions(Mutex<HashMap<MinionId, Arc<Session>>>, Mutex<HashMap<MinionId, Arc<Session>>>);

impl SessionBook for Sessions {
    fn session(&self, id: &MinionId, _life: Duration) -> std::io::Result<Arc<Session>> {
        let mut sessions = self.0.lock().unwrap();
        let session = sessions.entry(id.clone()).or_insert_with(|| {
            let key = KeyString::generate();
            Arc::new(Session { crypticle: Crypticle::new(&key).unwrap(), key })
        });
        Ok(session.clone())
    }

    fn previous(&self, id: &MinionId) -> Option<Arc<Session>> {
        self.1.lock().unwrap().get(id).cloned()
    }
}

fn published(server: &Server, load: Map) -> bytes::Bytes {
    let number = server.number_publication();
    server.seal_publication(load, &number).unwrap()
}

struct Master {
    server: Arc<Server>,
    sessions: Arc<Sessions>,
    keys: Arc<Keys>,
    address: std::net::SocketAddr,
    _task: AbortOnDropHandle<()>,
}

fn private_key() -> PrivateKey {
    PrivateKey::generate(2048).unwrap()
}

/// A master that echoes sealed loads and answers `_pillar` for the sender's eyes only.
async fn master(key: PrivateKey, accept: bool, kind: transport::Kind) -> Master {
    let rt = Rt::real();
    let settings = server::Settings {
        minimum_auth_version: 3,
        request_server_ttl: 60,
        publish_session: Duration::from_secs(60),
        publish_port: 4505,
        sign_pub_messages: true,
        publish_signing_algorithm: Signature::default(),
        abilities: Abilities::all("m1_master", "1"),
    };
    let public_text = crypto::clean_key(&key.public().to_pem());
    let identity = Identity { key, public_text, signature: MasterKeySignature::None };
    let (keys, sessions) = (Arc::new(Keys { accept, ..Keys::default() }), Arc::new(Sessions::default()));
    let server = Arc::new(Server::new(settings, identity, keys.clone(), sessions.clone(), rt.clone()));
    let listen = Listen::at("127.0.0.1:0".parse().unwrap());
    let mut requests: RequestServer = match kind {
        transport::Kind::Zeromq => transport::zeromq::serve(rt, listen, Limits::default(), None).await.unwrap(),
        transport::Kind::Tcp => transport::tcp::serve(rt, listen, Limits::default(), None).await.unwrap(),
    };
    let (address, inside) = (requests.address(), server.clone());
    let task = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            request.reply.send(answer(&inside, request.envelope));
        }
    });
    Master { server, sessions, keys, address, _task: AbortOnDropHandle::new(task) }
}

fn answer(server: &Server, envelope: Result<wire::envelope::Envelope, wire::envelope::Error>) -> Value {
    match server.open(envelope) {
        Err(refused) => refused.answer.into_value(),
        Ok(Opened::SignIn(request)) => server.sign_in(&request).answer.into_value(),
        Ok(Opened::Clear(load)) => load.into(),
        Ok(Opened::Sealed(request)) if request.cmd == "_pillar" => {
            let pillar = map! { "role" => "web" };
            let id = request.id.as_ref().unwrap();
            server.private(id, &request.seal, "pillar", pillar.into()).unwrap_or_else(|error| error).into_value()
        }
        Ok(Opened::Sealed(request)) => request.seal.seal(&request.load.clone().into()).into_value(),
    }
}

fn channel(master: &Master, key: PrivateKey, pki: &std::path::Path, kind: transport::Kind) -> MasterChannel {
    let settings = Settings {
        encryption: Encryption::default(),
        signing: Signature::default(),
        sign_pub_messages: true,
        minion_sign_messages: true,
        hash_type: HashType::Sha256,
        autosign_grains: None,
        auth_timeout: Duration::from_secs(5),
        auth_tries: 1,
        reauth_delay: std::time::Duration::ZERO,
        request_timeout: Duration::from_secs(5),
        request_tries: 1,
        trust: TrustSettings::default(),
        abilities: Some(Abilities::all("", "2")),
    };
    let identity = Arc::new(MinionIdentity::new(MinionId::new("web1").unwrap(), key));
    let (rt, target) = (Rt::real(), Target::plain(master.address));
    let requester: Arc<dyn Requester> = match kind {
        transport::Kind::Zeromq => Arc::new(transport::zeromq::ZmqRequester::new(rt.clone(), target)),
        transport::Kind::Tcp => Arc::new(transport::tcp::TcpRequester::new(rt.clone(), target)),
    };
    MasterChannel::new(settings, identity, Arc::new(FileTrust::new(pki, "master_sign")), requester, rt)
}

async fn converse(kind: transport::Kind) {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, kind).await;
    let minion = channel(&master, private_key(), pki.path(), kind);
    let echoed = minion.request(map! { "cmd" => "echo", "text" => "hello" }, None, Decode::Default).await.unwrap();
    assert_eq!((echoed.get("text"), echoed.get("id")), (Some(&"hello".into()), Some(&"web1".into())));
    assert_eq!((echoed.get("tok"), echoed.get("nonce")), (None, None));
    let abilities = minion.credentials().unwrap().abilities.clone();
    assert_eq!(abilities, Some(Abilities::all("m1_master", "1")), "peers of ours know each other");

    let pillar = minion.request_private(map! { "cmd" => "_pillar" }, "pillar", None).await.unwrap();
    assert_eq!(pillar, map! { "role" => "web" }.into());

    // A second sign-in shows the token and keeps the keys.
    let before = minion.credentials().unwrap();
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Accepted(_))));
    assert!(Arc::ptr_eq(&before, &minion.credentials().unwrap()));
}

#[tokio::test]
async fn a_minion_signs_in_and_asks_over_zeromq() {
    converse(transport::Kind::Zeromq).await;
}

#[tokio::test]
async fn a_minion_signs_in_and_asks_over_tcp() {
    converse(transport::Kind::Tcp).await;
}

#[tokio::test]
async fn publications_open_once_and_survive_a_rotation() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let job = || map! { "fun" => "test.ping" };
    let payload = published(&master.server, job());
    assert_eq!(minion.open(&payload).await.unwrap(), Some(job()));
    assert_eq!(minion.open(&payload).await.unwrap(), None, "a replay");
    master.server.rotate(Rotation::LockOut);
    let payload = published(&master.server, job());
    assert_eq!(minion.open(&payload).await.unwrap(), Some(job()), "signed in again for the new key");
}

#[tokio::test]
async fn what_was_published_before_a_sign_in_with_new_keys_is_read_after_it() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let job = || map! { "fun" => "test.ping" };
    let on_its_way = published(&master.server, job());
    master.server.rotate(Rotation::Age(Duration::from_secs(60)));
    minion.sign_in().await.unwrap();
    assert_eq!(minion.open(&on_its_way).await.unwrap(), Some(job()));
    assert_eq!(minion.open(&on_its_way).await.unwrap(), None, "a replay");
}

#[tokio::test]
async fn a_word_after_a_rotation_opens_with_either_key() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let first = minion.credentials().unwrap();
    let word = || map! { "saltern" => map! { "goodbye" => true } };
    let said = |server: &Server| server.seal_publication(word(), &server.number_word()).unwrap();
    master.server.rotate(Rotation::Age(Duration::from_secs(60)));
    assert_eq!(minion.open(&said(&master.server)).await.unwrap(), Some(word()));
    assert!(Arc::ptr_eq(&first, &minion.credentials().unwrap()), "it was opened without the new key");
    minion.sign_in().await.unwrap();
    assert_eq!(minion.open(&said(&master.server)).await.unwrap(), Some(word()));
}

#[tokio::test]
async fn a_word_without_a_number_may_be_read_after_the_next_publication() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let word = || map! { "saltern" => map! { "renewed" => true } };
    let numbered = published(&master.server, word());
    let unnumbered = master.server.seal_publication(word(), &master.server.unnumbered()).unwrap();
    let job = published(&master.server, map! { "fun" => "test.ping" });
    assert!(minion.open(&job).await.unwrap().is_some());
    assert_eq!(minion.open(&numbered).await.unwrap(), None, "it counts as a replay");
    assert_eq!(minion.open(&unnumbered).await.unwrap(), Some(word()));
}

#[tokio::test]
async fn requests_with_the_old_keys_count_after_a_rotation_by_age_only() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let before = minion.credentials().unwrap();
    let old = master.sessions.0.lock().unwrap().drain().collect::<HashMap<_, _>>();
    *master.sessions.1.lock().unwrap() = old;
    minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await.unwrap();
    assert!(Arc::ptr_eq(&before, &minion.credentials().unwrap()), "the session before still counts");

    let first = master.server.aes().current();
    master.server.rotate(Rotation::Age(Duration::from_secs(60)));
    assert!(Arc::ptr_eq(&master.server.aes().previous().unwrap(), &first));
    master.server.rotate(Rotation::LockOut);
    assert!(master.server.aes().previous().is_none());
}

#[tokio::test]
async fn a_lost_session_key_is_replaced_by_signing_in_again() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    master.sessions.0.lock().unwrap().clear();
    assert!(minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await.is_ok());
    master.keys.accepted.lock().unwrap().clear();
    // Accepted anew by this master's rule, so the request succeeds after another sign-in.
    assert!(minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await.is_ok());
}

#[tokio::test]
async fn a_pending_minion_is_told_and_asks_nothing() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), false, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Pending)));
    let refused = minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await;
    assert!(matches!(refused, Err(Error::NotAccepted)), "{refused:?}");
    assert!(!pki.path().join("minion_master.pub").exists());
}

#[tokio::test]
async fn another_master_in_the_place_of_the_known_one_is_refused() {
    let pki = tempfile::tempdir().unwrap();
    let key = private_key();
    let pem = key.to_pem(None).unwrap();
    let first = master(private_key(), true, transport::Kind::Zeromq).await;
    channel(&first, key, pki.path(), transport::Kind::Zeromq).sign_in().await.unwrap();
    let second = master(private_key(), true, transport::Kind::Zeromq).await;
    let key = PrivateKey::from_pem(pem.as_bytes(), None).unwrap();
    let minion = channel(&second, key, pki.path(), transport::Kind::Zeromq);
    assert!(matches!(minion.sign_in().await, Err(Error::Distrust(_))));
    assert!(minion.credentials().is_none());
}
