//! Certificates: a server with TLS that wants a certificate of its clients.

use std::path::{Path, PathBuf};

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::symm::Cipher;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name};
use saltern_cache::Cache;
use value::{Map, map};

use crate::conformity::{cache, id, stored};
use crate::servers::etcd::Etcd;
use crate::servers::mysql::MySql;

/// What a server says that wants a certificate. Its number depends on the release of etcd.
const WANTED: &str = "SSL alert number";

/// An authority, and a certificate for the address of this host with its key.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ca_key, own_key) = (key(), key());
        let mut ca = begin("ca", &ca_key);
        ca.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        ca.sign(&ca_key, MessageDigest::sha256()).unwrap();
        let ca: X509 = ca.build();
        let mut own = begin("127.0.0.1", &own_key);
        own.set_issuer_name(ca.subject_name()).unwrap();
        let names = SubjectAlternativeName::new().ip("127.0.0.1").build(&own.x509v3_context(Some(&ca), None)).unwrap();
        own.append_extension(names).unwrap();
        own.sign(&ca_key, MessageDigest::sha256()).unwrap();
        let own = own.build().to_pem().unwrap();
        let files = Files { folder };
        std::fs::write(files.path("ca.pem"), ca.to_pem().unwrap()).unwrap();
        let locked = own_key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_128_cbc(), b"secret").unwrap();
        for (name, key) in [
            ("own.pem", own_key.private_key_to_pem_pkcs8().unwrap()),
            ("own-sec1.pem", own_key.ec_key().unwrap().private_key_to_pem().unwrap()),
            ("locked.pem", locked),
            ("other.pem", ca_key.private_key_to_pem_pkcs8().unwrap()),
        ] {
            std::fs::write(files.path(name), [own.clone(), key].concat()).unwrap();
        }
        std::fs::write(files.path("own.key"), own_key.ec_key().unwrap().private_key_to_pem().unwrap()).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
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

fn failure(options: Map) -> String {
    format!("{:?}", cache(options).grains(&id("web1")).unwrap_err())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn certificates_are_checked_on_both_sides() {
    let files = Files::make();
    let (ca, own) = (files.path("ca.pem"), files.path("own.pem"));
    let Some(etcd) = Etcd::start_with_tls(&ca, &own) else { return };
    let mut options = etcd.options();
    let refused = failure(options.clone());
    assert!(refused.contains("certificate verify failed"), "{refused}");
    options.insert("etcd.ca_cert", text(&ca));
    let refused = failure(options.clone());
    assert!(refused.contains(WANTED), "{refused}");
    // The key may be in any form that has no password.
    for own in ["own.pem", "own-sec1.pem"].map(|name| files.path(name)) {
        options.insert("etcd.cert", text(&own));
        let cache = cache(options.clone());
        stored(&cache, &id("web1"));
        assert!(cache.grains(&id("web1")).unwrap().is_some());
    }
}

#[test]
fn certificates_are_checked_on_both_sides_of_etcd3() {
    let files = Files::make();
    let (ca, own, key) = (files.path("ca.pem"), files.path("own.pem"), files.path("own.key"));
    let Some(etcd) = Etcd::start_with_tls(&ca, &own) else { return };
    let mut options = etcd.options_v3();
    options.insert("etcd.protocol", "https");
    let refused = failure(options.clone());
    assert!(refused.contains("certificate verify failed"), "{refused}");
    options.remove("etcd.protocol");
    options.insert("etcd.ca", text(&ca));
    let refused = failure(options.clone());
    assert!(refused.contains(WANTED), "{refused}");
    options.insert("etcd.client_cert", text(&own));
    options.insert("etcd.client_key", text(&key));
    let cache = cache(options);
    stored(&cache, &id("web1"));
    assert!(cache.grains(&id("web1")).unwrap().is_some());
}

#[test]
fn a_key_that_cannot_be_used_stops_the_start() {
    let files = Files::make();
    let (ca, locked) = (files.path("ca.pem"), files.path("locked.pem"));
    for (own, why) in [(&ca, "no private key"), (&locked, "no private key"), (&files.path("other.pem"), "not that of")]
    {
        let options = map! { "cache" => "etcd", "etcd.protocol" => "https", "etcd.cert" => text(own) };
        let refused = Cache::of_master(&config::Master::from_options(options).unwrap()).err().unwrap().to_string();
        assert!(refused.contains("'etcd.cert'") && refused.contains(text(own)) && refused.contains(why), "{refused}");
    }
}

#[test]
fn consul_is_verified_unless_the_option_says_otherwise() {
    let files = Files::make();
    let (ca, own) = (files.path("ca.pem"), files.path("own.pem"));
    let Some(etcd) = Etcd::start_with_tls(&ca, &own) else { return };
    let mut options = map! {
        "cache" => "consul", "consul.scheme" => "https", "consul.port" => etcd.options().get("etcd.port").unwrap().clone(),
    };
    let refused = failure(options.clone());
    assert!(refused.contains("certificate verify failed"), "{refused}");
    // The server wants a certificate, which there is none of for Consul: the connection comes as far as that.
    for verify in [value::Value::from(text(&ca)), false.into()] {
        options.insert("consul.verify", verify);
        let refused = failure(options.clone());
        assert!(refused.contains(WANTED), "{refused}");
    }
}

#[test]
fn mysql_is_verified_with_its_name_unless_the_options_say_otherwise() {
    let (files, others) = (Files::make(), Files::make());
    let (ca, own) = (files.path("ca.pem"), files.path("own.pem"));
    let Some(mysql) = MySql::start_with_tls(&ca, &own) else { return };
    let plain = mysql.options_of_port("ours");
    let with = |more: Map| {
        let mut options = plain.clone();
        options.extend(more);
        options
    };
    let works = |options: Map| {
        let cache = cache(options);
        stored(&cache, &id("web1"));
        assert!(cache.grains(&id("web1")).unwrap().is_some());
    };
    let (ca, own, other) = (text(&ca), text(&own), others.path("ca.pem"));
    let refused = failure(plain.clone());
    assert!(refused.contains("Access denied"), "{refused}");
    for options in [map! { "mysql.ssl_verify_cert" => true }, map! { "mysql.ssl_ca" => text(&other) }] {
        let refused = failure(with(options));
        assert!(refused.contains("certificate verify failed"), "{refused}");
    }
    works(with(map! { "mysql.ssl_ca" => ca }));
    works(with(map! { "mysql.ssl_ca" => ca, "mysql.fresh_connection" => true }));
    works(with(map! { "mysql.ssl_ca" => text(&other), "mysql.ssl_verify_cert" => false }));
    // The certificate is for the address.
    let refused = failure(with(map! { "mysql.ssl_ca" => ca, "mysql.host" => "localhost" }));
    assert!(refused.contains("certificate verify failed") && refused.contains("mismatch"), "{refused}");
    works(with(map! { "mysql.ssl_ca" => ca, "mysql.host" => "localhost", "mysql.ssl_verify_identity" => false }));
    mysql.run("ALTER USER salt@'%' REQUIRE X509");
    let refused = failure(with(map! { "mysql.ssl_ca" => ca }));
    assert!(refused.contains("Access denied"), "{refused}");
    works(with(map! { "mysql.ssl_ca" => ca, "mysql.ssl_cert" => own, "mysql.ssl_key" => own }));
}

#[test]
fn mysql_without_tls_is_refused_by_options_that_want_it() {
    let files = Files::make();
    let Some(mysql) = MySql::start() else { return };
    let mut options = mysql.options_of_port("ours");
    options.insert("mysql.ssl_ca", text(&files.path("ca.pem")));
    let refused = failure(options.clone());
    assert!(refused.contains("the server has no TLS"), "{refused}");
    options.insert("mysql.ssl_ca", text(&files.path("none.pem")));
    let refused = Cache::of_master(&config::Master::from_options(options).unwrap()).err().unwrap().to_string();
    assert!(refused.contains("'mysql.ssl_ca'") && refused.contains("none.pem"), "{refused}");
}
