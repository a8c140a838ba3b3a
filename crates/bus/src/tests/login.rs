//! How members log in to a real server: TLS by rustls, and each kind of credentials.

use std::path::Path;
use std::time::Duration;

use config::bus::Bus as Servers;
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Name};
use tokio::sync::mpsc;
use tokio::time::timeout;
use value::{Map, map};

use super::server::Server;
use crate::connect::{BusState, connect};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate and its key.
struct Pair {
    certificate: X509,
    key: PKey<Private>,
}

impl Pair {
    /// Makes a certificate for a name, signed by an authority, or by itself as one.
    fn new(name: &str, by: Option<&Pair>) -> Pair {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut builder = X509::builder().unwrap();
        let mut subject = X509Name::builder().unwrap();
        subject.append_entry_by_text("CN", name).unwrap();
        let subject = subject.build();
        builder.set_version(2).unwrap();
        let serial = BigNum::from_u32(1 + u32::from(by.is_some())).unwrap();
        builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(by.map_or(&subject, |by| by.certificate.subject_name())).unwrap();
        builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
        builder.set_pubkey(&key).unwrap();
        match by {
            None => builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap(),
            Some(by) => {
                let context = builder.x509v3_context(Some(&by.certificate), None);
                let names = SubjectAlternativeName::new().ip("127.0.0.1").build(&context).unwrap();
                builder.append_extension(names).unwrap();
            }
        }
        builder.sign(by.map_or(&key, |by| &by.key), MessageDigest::sha256()).unwrap();
        Pair { certificate: builder.build(), key }
    }

    /// Writes both, and returns where.
    fn write(&self, dir: &Path, name: &str) -> [String; 2] {
        let write = |end: &str, pem: Vec<u8>| {
            let path = dir.join(format!("{name}.{end}"));
            std::fs::write(&path, pem).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let key = self.key.private_key_to_pem_pkcs8().unwrap();
        [write("crt", self.certificate.to_pem().unwrap()), write("key", key)]
    }
}

/// Returns what becomes of a connection: connected, or the first trouble.
async fn first_state(server: &Server, scheme: &str, credentials: Map) -> BusState {
    let servers = format!("{scheme}://127.0.0.1:{}", server.port);
    let options = Servers::read(&servers.into(), &credentials.into()).unwrap().unwrap();
    // Once it listens, the first word is about the login.
    let listens = async { while tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.is_err() {} };
    timeout(PATIENCE, listens).await.expect("the server listens");
    let (told, mut states) = mpsc::unbounded_channel();
    let _client =
        connect(&options, std::time::Duration::from_millis(500), move |state| _ = told.send(state)).await.unwrap();
    timeout(PATIENCE, states.recv()).await.expect("something becomes of it").expect("the client runs")
}

#[tokio::test]
async fn members_log_in_over_tls_with_their_certificate_and_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Pair::new("authority", None);
    let [ca, _] = authority.write(dir.path(), "ca");
    let [cert, key] = Pair::new("server", Some(&authority)).write(dir.path(), "server");
    let [own_cert, own_key] = Pair::new("m1", Some(&authority)).write(dir.path(), "m1");
    let [other, _] = Pair::new("other", None).write(dir.path(), "other");
    let tls = ["--tls", "--tlscert", &cert, "--tlskey", &key, "--tlsverify", "--tlscacert", &ca];
    let Some(server) = Server::with(&[&tls[..], &["--user", "m1", "--pass", "hunter2"]].concat()) else { return };
    let credentials = |ca: &str, password: &str| {
        map! { "user" => "m1", "password" => password, "ca" => ca, "cert" => own_cert.as_str(), "key" => own_key.as_str() }
    };
    assert_eq!(first_state(&server, "tls", credentials(&ca, "hunter2")).await, BusState::Connected);
    let BusState::Trouble(words) = first_state(&server, "tls", credentials(&ca, "hunter3")).await else {
        panic!("a wrong password is let in");
    };
    assert!(words.contains("authorization") && !words.contains("hunter"), "{words}");
    let strange = first_state(&server, "tls", credentials(&other, "hunter2")).await;
    assert!(matches!(&strange, BusState::Trouble(_)), "a certificate of somebody else is believed: {strange:?}");
}
