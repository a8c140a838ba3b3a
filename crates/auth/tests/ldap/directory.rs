//! A `slapd` of its own, with people, groups, a computer, and TLS.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Name};
use tempfile::TempDir;

pub const BASE: &str = "dc=example,dc=com";

const SLAPD: &str = "/usr/sbin/slapd";

/// A directory server, which is stopped at the end of the test.
pub struct Directory {
    server: Child,
    ports: [u16; 2],
    _place: TempDir,
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Directory {
    /// Starts the server. `None` if there is none on this host; the test is skipped then.
    pub fn start() -> Option<Self> {
        if !Path::new(SLAPD).exists() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "slapd is not installed");
            eprintln!("skipped: slapd is not installed");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let configuration = root.join("slapd.conf");
        fs::create_dir(root.join("data")).unwrap();
        fs::write(&configuration, configured(root)).unwrap();
        fs::write(root.join("data.ldif"), DATA).unwrap();
        let mut adding = Command::new("/usr/sbin/slapadd");
        let added = adding.arg("-f").arg(&configuration).arg("-l").arg(root.join("data.ldif")).output().unwrap();
        assert!(added.status.success(), "slapadd: {added:?}");
        let ports = free_ports();
        let [plain, protected] = ports;
        // All addresses of this host: the certificate has one of them.
        let addresses = format!("ldap://0.0.0.0:{plain} ldaps://0.0.0.0:{protected}");
        // With a level of debugging, it stays in the foreground.
        let mut command = Command::new(SLAPD);
        command.args(["-d", "0", "-h", &addresses, "-f"]).arg(&configuration).stderr(Stdio::null());
        let mut directory = Directory { server: command.spawn().unwrap(), ports, _place: place };
        while TcpStream::connect(("127.0.0.1", protected)).is_err() {
            assert_eq!(directory.server.try_wait().unwrap(), None, "slapd has ended");
            std::thread::yield_now();
        }
        Some(directory)
    }

    pub fn plain(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.ports[0])
    }

    pub fn protected(&self) -> String {
        format!("ldaps://127.0.0.1:{}", self.ports[1])
    }
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn configured(root: &Path) -> String {
    let (root, tls) = (root.display(), tls().path().display());
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
objectclass ( 1.3.6.1.4.1.99999.1 NAME 'computer' SUP device STRUCTURAL )
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload ppolicy
pidfile {root}/slapd.pid
TLSCACertificateFile {tls}/authority.pem
TLSCertificateFile {tls}/server.pem
TLSCertificateKeyFile {tls}/server.key
database mdb
suffix \"{BASE}\"
directory {root}/data
access to attrs=userPassword by anonymous auth by * none
access to * by users read by * none
overlay ppolicy
ppolicy_default \"cn=policy,{BASE}\"
"
    )
}

const DATA: &str = "dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: Example

dn: cn=salt,dc=example,dc=com
objectClass: organizationalRole
objectClass: simpleSecurityObject
userPassword: hush

dn: cn=policy,dc=example,dc=com
objectClass: device
objectClass: pwdPolicy
pwdAttribute: userPassword
pwdLockout: TRUE

dn: ou=People,dc=example,dc=com
objectClass: organizationalUnit

dn: ou=Groups,dc=example,dc=com
objectClass: organizationalUnit

dn: ou=Computers,dc=example,dc=com
objectClass: organizationalUnit

dn: uid=fred,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Fred
sn: Smith
userPassword: correct horse

dn: uid=ann,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Ann
sn: Smith
userPassword: battery

dn: uid=locked,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Locked
sn: Smith
userPassword: correct horse
pwdAccountLockedTime: 000001010000Z

dn: uid=odd (one)\\, two,ou=People,dc=example,dc=com
objectClass: inetOrgPerson
cn: Odd
sn: Smith
userPassword: staple

dn: cn=admins,ou=Groups,dc=example,dc=com
objectClass: posixGroup
gidNumber: 1001
memberUid: fred

dn: cn=dba,ou=Groups,dc=example,dc=com
objectClass: posixGroup
gidNumber: 1002
memberUid: ann
memberUid: fred

dn: cn=team,ou=Groups,dc=example,dc=com
objectClass: groupOfNames
member: uid=fred,ou=People,dc=example,dc=com
member: uid=odd (one)\\, two,ou=People,dc=example,dc=com

dn: cn=WEB1.example.com,ou=Computers,dc=example,dc=com
objectClass: computer
";

/// Returns the file with the certificate that the tests trust.
pub fn authority() -> PathBuf {
    tls().path().join("authority.pem")
}

/// A folder with an authority, and a server that it knows as 127.0.0.1.
fn tls() -> &'static TempDir {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: Vec<u8>| fs::write(folder.path().join(name), content).unwrap();
        let (authority_key, server_key) = (key(), key());
        let authority = certificate("authority", &authority_key, None);
        let server = certificate("server", &server_key, Some((&authority, &authority_key)));
        write("authority.pem", authority.to_pem().unwrap());
        write("server.pem", server.to_pem().unwrap());
        write("server.key", server_key.private_key_to_pem_pkcs8().unwrap());
        folder
    })
}

fn key() -> PKey<Private> {
    let group = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(openssl::ec::EcKey::generate(&group).unwrap()).unwrap()
}

fn certificate(name: &str, key: &PKey<Private>, issuer: Option<(&X509, &PKey<Private>)>) -> X509 {
    let mut subject = X509Name::builder().unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut certificate = X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    let serial = BigNum::from_u32(if issuer.is_some() { 2 } else { 1 }).unwrap();
    certificate.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    certificate.set_subject_name(&subject).unwrap();
    certificate.set_issuer_name(issuer.map_or(&subject, |(issuer, _)| issuer.subject_name())).unwrap();
    certificate.set_pubkey(key).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    let extension = match issuer {
        None => BasicConstraints::new().critical().ca().build().unwrap(),
        Some((issuer, _)) => {
            let context = certificate.x509v3_context(Some(issuer), None);
            SubjectAlternativeName::new().ip("127.0.0.1").build(&context).unwrap()
        }
    };
    certificate.append_extension(extension).unwrap();
    certificate.sign(issuer.map_or(key, |(_, key)| key), MessageDigest::sha256()).unwrap();
    certificate.build()
}
