//! TLS with certificates on both sides, and with wrong ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name};
use rt::Rt;
use saltern_transport::{Audience, CertReqs, Error, Limits, RequestServer, Requester, Target, Tls, TlsSettings, tcp};
use tokio::net::TcpStream;

use crate::common::*;

/// An authority and its certificates, as files.
struct Authority {
    dir: tempfile::TempDir,
    certificate: X509,
    key: PKey<Private>,
}

fn key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn begin(name: &str, key: &PKey<Private>) -> X509Builder {
    let mut subject = X509Name::builder().unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut builder = X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_issuer_name(&subject).unwrap();
    builder.set_serial_number(&Asn1Integer::from_bn(&BigNum::from_u32(1).unwrap()).unwrap()).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    builder.set_pubkey(key).unwrap();
    builder
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = key();
        let mut builder = begin(name, &key);
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        let authority = Authority { dir: tempfile::tempdir().unwrap(), certificate: builder.build(), key };
        std::fs::write(authority.file("ca.pem"), authority.certificate.to_pem().unwrap()).unwrap();
        authority
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a certificate for this name, in one file with its key.
    fn issue(&self, name: &str) -> PathBuf {
        let key = key();
        let mut builder = begin(name, &key);
        builder.set_issuer_name(self.certificate.subject_name()).unwrap();
        let names =
            SubjectAlternativeName::new().dns(name).build(&builder.x509v3_context(Some(&self.certificate), None));
        builder.append_extension(names.unwrap()).unwrap();
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        let pem = [builder.build().to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap()].concat();
        std::fs::write(self.file(name), pem).unwrap();
        self.file(name)
    }

    fn settings(&self, certfile: Option<PathBuf>) -> TlsSettings {
        TlsSettings { certfile, ca_certs: Some(self.file("ca.pem")), ..TlsSettings::default() }
    }
}

async fn server(settings: &TlsSettings, limits: Limits) -> RequestServer {
    tcp::serve(Rt::real(), loopback(), limits, Some(Tls::new(settings).unwrap())).await.unwrap()
}

/// Asks the server over TLS as the client of these settings, for a server of this name.
async fn asks(server: std::net::SocketAddr, settings: &TlsSettings, name: &str) -> Result<value::Value, Error> {
    let target = Target { tls: Some((Tls::new(settings).unwrap(), name.to_owned())), ..Target::plain(server) };
    tcp::TcpRequester::new(Rt::real(), target).ask(question(1), PATIENCE).await
}

#[tokio::test]
async fn both_sides_show_certificates() {
    let ours = Authority::new("ours");
    let server = server(&ours.settings(Some(ours.issue("master"))), Limits::default()).await;
    let address = server.address();
    let _answering = answer_all(server);
    let minion = ours.settings(Some(ours.issue("web1")));
    assert_eq!(asks(address, &minion, "master").await.unwrap(), echo(1));
    for version in ["PROTOCOL_TLSv1_2", "PROTOCOL_TLS_CLIENT"] {
        let settings = TlsSettings { ssl_version: Some(version.to_owned()), ..minion.clone() };
        assert_eq!(asks(address, &settings, "master").await.unwrap(), echo(1), "{version}");
    }
}

#[tokio::test]
async fn wrong_certificates_are_refused_by_whom_they_are_shown_to() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = server(&ours.settings(Some(ours.issue("master"))), Limits::default()).await;
    let address = server.address();
    let _answering = answer_all(server);
    let stranger = TlsSettings { ca_certs: Some(ours.file("ca.pem")), ..theirs.settings(Some(theirs.issue("web1"))) };
    let cases = [
        ("a server of another name", ours.settings(Some(ours.issue("web1"))), "other"),
        ("a server of an authority that is not ours", theirs.settings(Some(theirs.issue("web1"))), "master"),
        ("no certificate", ours.settings(None), "master"),
        ("a certificate of another authority", stranger, "master"),
    ];
    for (case, settings, name) in cases {
        let refused = asks(address, &settings, name).await;
        assert!(matches!(refused, Err(Error::Tls(_) | Error::Closed | Error::Io(_))), "{case}: {refused:?}");
    }
    // With TLS 1.3 the refusal comes after the handshake; whoever asks still learns of it.
    let (unnamed, mut told) = (ours.settings(None), false);
    for _ in 0..20 {
        told |= matches!(asks(address, &unnamed, "master").await, Err(Error::Tls(reason)) if reason.contains("certificate"));
    }
    assert!(told);
    // Plain bytes are no greeting.
    let plain = requester(saltern_transport::Kind::Tcp, address).ask(question(1), PATIENCE).await;
    assert!(plain.is_err());
    let good = ours.settings(Some(ours.issue("web1")));
    assert_eq!(asks(address, &good, "master").await.unwrap(), echo(1), "others are not harmed");
}

#[tokio::test]
async fn cert_none_asks_for_nothing_on_its_own_side() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let none = |settings| TlsSettings { cert_reqs: Some(CertReqs::None), ..settings };
    let lenient = server(&none(ours.settings(Some(ours.issue("master")))), Limits::default()).await;
    let address = lenient.address();
    let _answering = answer_all(lenient);
    assert_eq!(asks(address, &ours.settings(None), "master").await.unwrap(), echo(1), "without a certificate");
    assert!(asks(address, &theirs.settings(None), "master").await.is_err(), "the client checks for itself");
    assert_eq!(asks(address, &none(theirs.settings(None)), "any").await.unwrap(), echo(1), "unless told not to");

    let optional = TlsSettings { cert_reqs: Some(CertReqs::Optional), ..ours.settings(Some(ours.issue("master"))) };
    let optional = server(&optional, Limits::default()).await;
    let address = optional.address();
    let _answering = answer_all(optional);
    assert_eq!(asks(address, &ours.settings(None), "master").await.unwrap(), echo(1));
    let wrong = TlsSettings { ca_certs: Some(ours.file("ca.pem")), ..theirs.settings(Some(theirs.issue("web1"))) };
    assert!(asks(address, &wrong, "master").await.is_err(), "what is shown must be good");
}

#[tokio::test]
async fn publications_pass_through_tls() {
    let ours = Authority::new("ours");
    let tls = Tls::new(&ours.settings(Some(ours.issue("master")))).unwrap();
    let publisher = tcp::publish(Rt::real(), loopback(), Limits::default(), Some(tls)).await.unwrap();
    let minion = Tls::new(&ours.settings(Some(ours.issue("web1")))).unwrap();
    let target = Target { tls: Some((minion, "master".to_owned())), ..Target::plain(publisher.address()) };
    let mut subscription = tcp::subscribe(&Rt::real(), &target, &question(1)).await.unwrap();
    let payload = bytes::Bytes::from(vec![7; 3 << 20]);
    until("it listens", || publisher.publish(&payload.clone().into(), &Audience::All).queued == 1).await;
    assert_eq!(tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().unwrap(), payload);
}

#[tokio::test]
async fn who_does_not_finish_the_handshake_is_sent_away() {
    let ours = Authority::new("ours");
    let limits = Limits { handshake: Duration::from_millis(200), ..Limits::default() };
    let settings = ours.settings(Some(ours.issue("master")));
    let requests = server(&settings, limits).await;
    let tls = Tls::new(&settings).unwrap();
    let publisher = tcp::publish(Rt::real(), loopback(), limits, Some(tls)).await.unwrap();
    for address in [requests.address(), publisher.address()] {
        closed(&mut TcpStream::connect(address).await.unwrap()).await;
    }
    assert!(publisher.subscribers().is_empty());
    // A client gives up too.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = Some((Tls::new(&ours.settings(None)).unwrap(), "master".to_owned()));
    let target = Target { tls, timeout: Duration::from_millis(200), ..Target::plain(silent.local_addr().unwrap()) };
    let error = tcp::TcpRequester::new(Rt::real(), target).connect().await.unwrap_err();
    assert!(matches!(error, Error::Timeout(_)), "{error}");
}

#[test]
fn errors_name_the_file_or_the_setting() {
    let missing = |path: &str| Some(Path::new(path).to_owned());
    let cases = [
        (TlsSettings { certfile: missing("/nowhere/cert.pem"), ..TlsSettings::default() }, "/nowhere/cert.pem"),
        (TlsSettings { ca_certs: missing("/nowhere/ca.pem"), ..TlsSettings::default() }, "/nowhere/ca.pem"),
        (TlsSettings { ciphers: Some("NO-SUCH".to_owned()), ..TlsSettings::default() }, "ciphers"),
        (TlsSettings { ssl_version: Some("PROTOCOL_SSLv2".to_owned()), ..TlsSettings::default() }, "PROTOCOL_SSLv2"),
    ];
    for (settings, named) in cases {
        let error = Tls::new(&settings).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
