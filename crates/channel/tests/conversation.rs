//! A minion and a master talk over both transports, with keys made for this test.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crypto::{Crypticle, Encryption, HashType, KeyString, PrivateKey, PublicKey, Signature};
use rt::{Listen, Rt};
use saltern_channel::client::{
    Error, FileTrust, MasterChannel, MinionIdentity, Settings, SignIn, Signatures, TrustSettings,
};
use saltern_channel::server::{
    self, Identity, KeyBook, MasterKeySignature, Offer, Opened, Rotation, Server, Session, SessionBook, Undecided,
};
use tokio_util::task::AbortOnDropHandle;
use transport::{Limits, RequestServer, Requester, Target};
use value::{Map, Value, map};
use wire::MinionId;
use wire::envelope::{Clear, Envelope, Sealed};
use wire::loads::{
    ABILITIES_FIELD, Abilities, Ability, AuthAnswer, AuthOutcome, AuthReply, PublicationMessage, Sender,
};
use wire::msgpack::Decode;

#[derive(Default)]
struct Keys {
    accepted: Mutex<HashMap<MinionId, Arc<PublicKey>>>,
    accept: AtomicBool,
    /// The disk is full.
    broken: AtomicBool,
}

impl KeyBook for Keys {
    fn sign_in(&self, offer: &Offer<'_>) -> Result<AuthOutcome, Undecided> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Undecided);
        }
        if !self.accept.load(Ordering::Relaxed) {
            return Ok(AuthOutcome::Pending);
        }
        let key = PublicKey::from_pem(offer.public.as_bytes()).unwrap();
        self.accepted.lock().unwrap().entry(offer.id.clone()).or_insert_with(|| Arc::new(key));
        Ok(AuthOutcome::Accepted)
    }

    fn accepted(&self, id: &MinionId) -> Option<Arc<PublicKey>> {
        self.accepted.lock().unwrap().get(id).cloned()
    }
}

#[derive(Default)]
struct Sessions(
    Mutex<HashMap<MinionId, Arc<Session>>>,
    Mutex<HashMap<MinionId, Arc<Session>>>,
    Mutex<HashSet<MinionId>>,
);

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

    fn forget(&self, id: &MinionId) {
        self.0.lock().unwrap().remove(id);
    }

    fn is_current(&self, id: &MinionId) -> bool {
        self.2.lock().unwrap().contains(id)
    }

    fn note_current(&self, id: &MinionId) {
        self.2.lock().unwrap().insert(id.clone());
    }
}

/// The address of all peers.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

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

/// A master that echoes encrypted loads, and answers `_pillar` so that only the sender can read it.
async fn master(key: PrivateKey, accept: bool, kind: transport::Kind) -> Master {
    master_with(settings(), key, accept, kind).await
}

fn settings() -> server::Settings {
    server::Settings {
        minimum_auth_version: 3,
        request_server_ttl: 60,
        publish_session: Duration::from_secs(60),
        publish_port: 4505,
        sign_pub_messages: true,
        publish_signing_algorithm: Signature::default(),
        abilities: Abilities::all("m1_master", "1"),
    }
}

async fn master_with(settings: server::Settings, key: PrivateKey, accept: bool, kind: transport::Kind) -> Master {
    let rt = Rt::real();
    let public_text = crypto::clean_key(&key.public().to_pem());
    let identity = Identity { key, public_text, signature: MasterKeySignature::None };
    let (keys, sessions) = (Arc::new(Keys { accept: accept.into(), ..Keys::default() }), Arc::new(Sessions::default()));
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
        Ok(Opened::SignIn(request)) => server.sign_in(&request, HERE).answer.into_value(),
        Ok(Opened::Clear(load)) => load.into(),
        Ok(Opened::Sealed(request)) if request.cmd == "in_the_clear" => Value::Null,
        Ok(Opened::Sealed(request)) if request.cmd == "_pillar" => {
            let pillar = map! { "role" => "web" };
            let id = request.id.as_ref().unwrap();
            server.pillar(id, &request.seal, pillar.into()).unwrap_or_else(|error| error).into_value()
        }
        Ok(Opened::Sealed(request)) => {
            let mut load = request.load.clone();
            load.insert("seen_sender", request.sender.to_value());
            request.seal.seal(&load.into()).into_value()
        }
    }
}

fn channel(master: &Master, key: PrivateKey, pki: &std::path::Path, kind: transport::Kind) -> MasterChannel {
    channel_to(master.address, key, pki, kind)
}

fn channel_to(
    address: std::net::SocketAddr,
    key: PrivateKey,
    pki: &std::path::Path,
    kind: transport::Kind,
) -> MasterChannel {
    channel_of(address, web1(key), pki, kind)
}

fn web1(key: PrivateKey) -> (Settings, Arc<MinionIdentity>) {
    let settings = Settings {
        encryption: Encryption::default(),
        signing: Signature::default(),
        signatures: Signatures::Announced,
        minion_sign_messages: true,
        hash_type: HashType::Sha256,
        autosign_grains: None,
        auth_timeout: Duration::from_secs(5),
        auth_tries: 1,
        reauth_delay: std::time::Duration::ZERO,
        request_timeout: Duration::from_secs(5),
        request_tries: 1,
        trust: TrustSettings::default(),
        sender: Sender::Minion(Abilities::all("", "2")),
    };
    (settings, Arc::new(MinionIdentity::new(MinionId::new("web1").unwrap(), key)))
}

fn channel_of(
    address: std::net::SocketAddr,
    (settings, identity): (Settings, Arc<MinionIdentity>),
    pki: &std::path::Path,
    kind: transport::Kind,
) -> MasterChannel {
    let (rt, target) = (Rt::real(), Target::plain(address));
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
    assert_eq!(abilities, Some(Abilities::all("m1_master", "1")), "the minion knows what the master can");
    let sender = Sender::Minion(Abilities::all("", ""));
    assert_eq!(echoed.get("seen_sender"), sender.to_value().as_ref(), "and the master what the minion can");
    assert_eq!(echoed.get(ABILITIES_FIELD), None, "no handler sees the field");

    let pillar = minion.request_pillar(map! { "cmd" => "_pillar" }, None).await.unwrap();
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
async fn a_recorded_publication_is_old_on_later_connections_too() {
    let kind = transport::Kind::Zeromq;
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, kind).await;
    let (settings, identity) = web1(private_key());
    let job = || map! { "fun" => "test.ping" };
    let recorded = published(&master.server, job());
    for fresh in [true, false] {
        let minion = channel_of(master.address, (settings.clone(), identity.clone()), pki.path(), kind);
        minion.sign_in().await.unwrap();
        assert_eq!(minion.open(&recorded).await.unwrap().is_some(), fresh);
        let new = published(&master.server, job());
        assert_eq!(minion.open(&new).await.unwrap(), Some(job()), "what comes later runs");
    }
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
    let said = |server: &Server| server.seal_publication(word(), &server.number_notice()).unwrap();
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
    // Accepted again by this master's rule, so the request succeeds after another sign-in.
    assert!(minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await.is_ok());
}

#[tokio::test]
async fn a_refusal_is_remembered_when_the_key_is_accepted_again_at_once() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    // The key is deleted.
    master.keys.accept.store(false, Ordering::Relaxed);
    master.keys.accepted.lock().unwrap().clear();
    master.sessions.0.lock().unwrap().clear();
    let refused = minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await;
    assert!(matches!(refused, Err(Error::NotAccepted)), "{refused:?}");
    master.keys.accept.store(true, Ordering::Relaxed);
    minion.request(map! { "cmd" => "echo" }, None, Decode::Default).await.unwrap();
    // The master has lost the grains of this minion, so its session must begin again.
    tokio::time::timeout(Duration::from_secs(5), minion.refused()).await.unwrap();
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

#[tokio::test]
async fn a_refusal_by_a_key_that_is_not_on_record_names_the_remedy() {
    let pki = tempfile::tempdir().unwrap();
    let key = private_key();
    let pem = key.to_pem(None).unwrap();
    let first = master(private_key(), true, transport::Kind::Zeromq).await;
    channel(&first, key, pki.path(), transport::Kind::Zeromq).sign_in().await.unwrap();
    // A refusal tells nobody the master's key, so it cannot be checked.
    let second = master(private_key(), false, transport::Kind::Zeromq).await;
    let key = PrivateKey::from_pem(pem.as_bytes(), None).unwrap();
    let refused = channel(&second, key, pki.path(), transport::Kind::Zeromq).sign_in().await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Authentication(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("this minion's key is pending or denied there (see salt-key -L)"),
        "{refused}"
    );
}

/// A minion that builds its requests by hand.
struct ByHand {
    key: PrivateKey,
    pem: String,
}

impl ByHand {
    fn new() -> Self {
        let key = private_key();
        let pem = crypto::clean_key(&key.public().to_pem());
        ByHand { key, pem }
    }

    fn sign_in(&self, server: &Server, nonce: impl Into<Value>, version: i64) -> Value {
        let load = map! { "cmd" => "_auth", "id" => "web1", "pub" => self.pem.as_str(), "nonce" => nonce };
        server.sign_in(&Clear { load, version }, HERE).answer.into_value()
    }

    /// A request of version 3, or of version 2, which is encrypted with the master's AES key.
    fn request(&self, master: &Master, version: i64, fields: Map) -> Value {
        let mut load = map! { "id" => "web1", "ts" => Rt::real().unix_seconds(), "nonce" => Rt::real().nonce() };
        if version > 2 {
            load.insert("tok", bytes::Bytes::from(self.key.tok().unwrap()));
        }
        load.update(fields);
        let id = MinionId::new(load.get_str("id").unwrap()).unwrap();
        let load = match version > 2 {
            true => master.sessions.session(&id, Duration::ZERO).unwrap().crypticle.seal(&load.into(), None),
            false => master.server.aes().current().crypticle().seal(&load.into(), None),
        };
        let (id, sealed) = ((version > 2).then(|| id.as_str().into()), load);
        let envelope = Sealed { load: sealed, version, id, enc_algo: None, sig_algo: None };
        answer(&master.server, Ok(Envelope::Sealed(envelope)))
    }
}

fn refused(answer: &Value) -> bool {
    answer.as_str() == Some("bad load")
}

#[tokio::test]
async fn nothing_is_signed_that_a_stranger_chose() {
    let master = master(private_key(), false, transport::Kind::Zeromq).await;
    let minion = ByHand::new();
    for nonce in
        [Value::from("x".repeat(400)), "5f3d".into(), "é".repeat(16).into(), Value::bytes("0".repeat(32)), Value::Null]
    {
        for version in [2, 3] {
            assert!(refused(&minion.sign_in(&master.server, nonce.clone(), version)), "{nonce} {version}");
        }
    }
    let signed = minion.sign_in(&master.server, Rt::real().nonce(), 3);
    assert!(matches!(AuthReply::from_value(signed), AuthReply::Signed { .. }));
}

#[tokio::test]
async fn nothing_is_sealed_or_signed_with_a_nonce_of_another_form() {
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = ByHand::new();
    minion.sign_in(&master.server, Rt::real().nonce(), 3);
    for cmd in ["echo", "_pillar"] {
        for nonce in [Value::from("x".repeat(33)), "5f3d".into(), 7.into(), Value::Null] {
            assert!(refused(&minion.request(&master, 3, map! { "cmd" => cmd, "nonce" => nonce })), "{cmd}");
        }
        assert!(!refused(&minion.request(&master, 3, map! { "cmd" => cmd })), "{cmd}");
    }
}

#[tokio::test]
async fn a_failure_of_the_master_is_no_rejection() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    master.keys.broken.store(true, Ordering::Relaxed);
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    assert!(matches!(minion.sign_in().await, Err(Error::TryAgain)));
    master.keys.broken.store(false, Ordering::Relaxed);
    assert!(matches!(minion.sign_in().await, Ok(SignIn::Accepted(_))));
}

#[tokio::test]
async fn an_answer_in_the_clear_is_no_answer() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    let answer = minion.request(map! { "cmd" => "in_the_clear" }, None, Decode::Default).await;
    assert!(matches!(answer, Err(Error::Malformed(_))), "{answer:?}");
}

#[tokio::test]
async fn a_minion_acts_on_what_the_master_signed_only() {
    let pki = tempfile::tempdir().unwrap();
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    // Another minion has the key that publications are sealed with.
    let job = map! { "fun" => "cmd.run", "serial" => 1_000_000 };
    let sealed = master.server.aes().current().crypticle().seal(&job.into(), None);
    let unsigned = PublicationMessage::unsigned(sealed.clone());
    let mut forged = unsigned.clone();
    forged.sig = Some(private_key().sign(Signature::default(), &sealed).unwrap().into());
    forged.sig_algo = Some(Signature::default().name().to_owned());
    for message in [unsigned, forged] {
        let opened = minion.open(&message.encode()).await;
        assert!(matches!(opened, Err(Error::Forged(_))), "{opened:?}");
    }
    let real = minion.open(&published(&master.server, map! { "fun" => "test.ping" })).await.unwrap();
    assert_eq!(real, Some(map! { "fun" => "test.ping" }), "the forged serial number does not count");
}

#[tokio::test]
async fn a_master_that_does_not_sign_says_so() {
    let pki = tempfile::tempdir().unwrap();
    let abilities = Abilities::all("m1_master", "1").without(Ability::SignedPublications);
    let settings = server::Settings { sign_pub_messages: false, abilities, ..settings() };
    let master = master_with(settings, private_key(), true, transport::Kind::Zeromq).await;
    let minion = channel(&master, private_key(), pki.path(), transport::Kind::Zeromq);
    minion.sign_in().await.unwrap();
    let job = map! { "fun" => "test.ping" };
    assert_eq!(minion.open(&published(&master.server, job.clone())).await.unwrap(), Some(job));
}

#[tokio::test]
async fn the_answer_tells_what_the_master_can_also_when_the_request_lost_the_question() {
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let reply = ByHand::new().sign_in(&master.server, Rt::real().nonce(), 3);
    let AuthReply::Signed { load, .. } = AuthReply::from_value(reply) else { panic!("it is signed") };
    let AuthAnswer::Accepted(accepted) = AuthAnswer::decode(&load).unwrap() else { panic!("it is accepted") };
    let abilities = Abilities::find(&accepted.extra).unwrap();
    assert!(abilities.can(Ability::SignedPublications), "{:?}", accepted.extra.get(ABILITIES_FIELD));
}

#[tokio::test]
async fn a_request_counts_once() {
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = ByHand::new();
    minion.sign_in(&master.server, Rt::real().nonce(), 3);
    let once = || map! { "cmd" => "_minion_event", "nonce" => "0123456789abcdef0123456789abcdef" };
    assert!(!refused(&minion.request(&master, 3, once())));
    assert!(refused(&minion.request(&master, 3, once())));
}

#[tokio::test]
async fn a_clock_that_was_set_back_costs_a_sign_in() {
    let master = master(private_key(), true, transport::Kind::Zeromq).await;
    let minion = ByHand::new();
    minion.sign_in(&master.server, Rt::real().nonce(), 3);
    let now = Rt::real().unix_seconds();
    let event = |ts: i64| minion.request(&master, 3, map! { "cmd" => "_minion_event", "ts" => ts });
    assert!(!refused(&event(now + 3600)));
    assert!(refused(&event(now)), "as a replay would be");
    minion.sign_in(&master.server, Rt::real().nonce(), 3);
    assert!(!refused(&event(now)), "with a new session key");
}

#[tokio::test]
async fn old_minions_speak_for_themselves() {
    let settings = server::Settings { minimum_auth_version: 2, ..settings() };
    let master = master_with(settings, private_key(), true, transport::Kind::Zeromq).await;
    let minion = ByHand::new();
    minion.sign_in(&master.server, Rt::real().nonce(), 2);
    let ask = |cmd: &str, fields: Map| {
        let mut all = map! { "cmd" => cmd };
        all.update(fields);
        minion.request(&master, 2, all)
    };
    for cmd in ["_minion_event", "_mine", "_mine_get", "minion_pub", "saltern_return", "revoke_auth", "_file_recv"] {
        assert!(refused(&ask(cmd, Map::new())), "{cmd} without a token");
        let forged = map! { "tok" => bytes::Bytes::from(private_key().tok().unwrap()) };
        assert!(refused(&ask(cmd, forged)), "{cmd} with the token of another");
        let own = map! { "tok" => bytes::Bytes::from(minion.key.tok().unwrap()) };
        assert!(!refused(&ask(cmd, own)), "{cmd} with a token");
    }
    for cmd in ["_return", "_pillar"] {
        assert!(!refused(&ask(cmd, Map::new())), "{cmd} comes without a token");
    }
    minion.request(&master, 3, map! { "cmd" => "echo" });
    for cmd in ["_return", "_pillar"] {
        assert!(refused(&ask(cmd, Map::new())), "{cmd} of a minion that uses version 3");
    }
}
