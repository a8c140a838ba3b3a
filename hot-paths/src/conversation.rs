//! What the master and its minions say to each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use channel::server::{
    Identity, KeyBook, MasterKeySignature, Offer, Server, Session, SessionBook, Settings, Undecided,
};
use crypto::{Crypticle, Encryption, KeyString, PrivateKey, PublicKey, Signature};
use value::{Map, Value, list, map};
use wire::MinionId;
use wire::envelope::Clear;
use wire::loads::{Abilities, AuthOutcome, PublicationMessage};
use wire::msgpack::{Decode, Packing, pack, unpack};

use crate::{JID, id, returned};

/// Key pairs of the recorded conversations.
const KEYS: &str = include_str!("../../crates/crypto/testdata/keys.json");

fn pem(owner: &str, half: &str) -> String {
    let keys: Value = serde_json::from_str(KEYS).expect("the recorded keys are JSON");
    let text = ["keys", owner, half].iter().try_fold(&keys, |value, name| value.get(name)).and_then(Value::as_str);
    text.expect("the recorded keys have this one").to_owned()
}

fn key() -> Crypticle {
    let key = KeyString::from_random([7; _]);
    Crypticle::new(&key).expect("a key of this length is a key")
}

pub fn decode_return(times: usize) {
    let packed = pack(&returned(1).into(), Packing::Wire);
    for _ in 0..times {
        assert!(unpack(&packed, Decode::Default).is_ok());
    }
}

pub fn open_return(times: usize) {
    let key = key();
    let sealed = key.seal_with_iv(&returned(1).into(), None, [1; _]);
    for _ in 0..times {
        assert!(key.open(&sealed, None, Decode::Default).is_ok());
    }
}

pub fn seal_publication(times: usize) {
    let key = key();
    let load: Value = publication().into();
    for _ in 0..times {
        assert!(!key.seal_with_iv(&load, None, [1; _]).is_empty());
    }
}

fn publication() -> Map {
    map! {
        "fun" => "state.apply", "arg" => list!["app.config"], "tgt" => "web*", "jid" => JID, "ret" => "",
        "tgt_type" => "glob", "user" => "root",
    }
}

/// Accepts everybody.
struct Keys(Arc<PublicKey>);

impl KeyBook for Keys {
    fn sign_in(&self, _: &Offer<'_>) -> Result<AuthOutcome, Undecided> {
        Ok(AuthOutcome::Accepted)
    }

    fn accepted(&self, _: &MinionId) -> Option<Arc<PublicKey>> {
        Some(self.0.clone())
    }
}

#[derive(Default)]
struct Sessions(Mutex<HashMap<MinionId, Arc<Session>>>);

impl SessionBook for Sessions {
    fn session(&self, id: &MinionId, _: Duration) -> std::io::Result<Arc<Session>> {
        let mut sessions = self.0.lock().expect("nobody panics with it");
        let new = || Arc::new(Session { key: KeyString::from_random([7; _]), crypticle: key() });
        Ok(sessions.entry(id.clone()).or_insert_with(new).clone())
    }

    fn previous(&self, _: &MinionId) -> Option<Arc<Session>> {
        None
    }

    fn forget(&self, _: &MinionId) {}

    fn is_current(&self, _: &MinionId) -> bool {
        true
    }

    fn note_current(&self, _: &MinionId) {}
}

fn server() -> Server {
    let settings = Settings {
        minimum_auth_version: 3,
        request_server_ttl: 0,
        publish_session: Duration::from_secs(86400),
        publish_port: 4505,
        sign_pub_messages: true,
        publish_signing_algorithm: Signature::default(),
        abilities: Abilities::all("m1_master", "1"),
    };
    let key = PrivateKey::from_pem(pem("master", "private_pem").as_bytes(), None).expect("the recorded key is one");
    let public_text = pem("master", "clean_public_pem");
    let identity = Identity { key, public_text, signature: MasterKeySignature::None };
    let minion = PublicKey::from_pem(pem("minion", "public_pem").as_bytes()).expect("the recorded key is one");
    Server::new(settings, identity, Arc::new(Keys(Arc::new(minion))), Arc::new(Sessions::default()), rt::Rt::real())
}

/// From a job to the frame all connections share: packed, sealed, signed and framed.
pub fn publish(times: usize) {
    let server = server();
    for _ in 0..times {
        let number = server.number_publication();
        let payload = server.seal_publication(publication(), &number).expect("the key can sign");
        assert!(!wire::zmtp::encode_message(&[payload]).is_empty());
    }
}

/// The minion's part of a publication: unpacked, its seal and its signature checked, opened.
pub fn open_publication(times: usize) {
    let server = server();
    let payload = server.seal_publication(publication(), &server.number_publication()).expect("the key can sign");
    let master = PublicKey::from_pem(pem("master", "public_pem").as_bytes()).expect("the recorded key is one");
    let generation = server.aes().current();
    for _ in 0..times {
        let message = PublicationMessage::decode(&payload).expect("it is a publication");
        let signature = message.sig.as_ref().expect("it is signed");
        assert!(generation.crypticle().is_seal_of(&message.load));
        assert!(master.verify(Signature::default(), &message.load, signature));
        assert!(generation.crypticle().open(&message.load, None, Decode::Default).is_ok());
    }
}

/// The master's part of a sign-in.
pub fn sign_in(times: usize) {
    let server = server();
    let master = PublicKey::from_pem(pem("master", "public_pem").as_bytes()).expect("the recorded key is one");
    let token = master.encrypt(Encryption::default(), b"token").expect("it can be encrypted");
    let load = map! {
        "cmd" => "_auth", "id" => id(1), "nonce" => "5f3d0b4c9d1e4c1f8b6a7e2d3c4b5a69", "pub" => pem("minion", "clean_public_pem"),
        "token" => bytes::Bytes::from(token), "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
    };
    let request = Clear { load, version: 3 };
    for _ in 0..times {
        let here = std::net::Ipv4Addr::LOCALHOST.into();
        assert!(server.sign_in(&request, here).decided.is_some_and(|decided| decided.outcome.result()));
    }
}
