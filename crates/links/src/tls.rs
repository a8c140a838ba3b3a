//! TLS 1.3 between members. Each shows a certificate made from its member key, and takes any certificate: who belongs to the
//! set is decided by the key in it, not by who signed it.

use std::pin::Pin;

use crypto::{MEMBER_KEY_LEN, MemberKey};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::Id;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslOptions, SslSessionCacheMode, SslVerifyMode, SslVersion};
use openssl::x509::{X509, X509NameBuilder};
use tokio_openssl::SslStream;

use crate::first_bytes::Peeked;
use peers::proof::LABEL;

pub(crate) type TlsStream = SslStream<Peeked>;

/// Creates the settings of all connections of a member.
pub(crate) fn context(key: &MemberKey) -> Result<SslContext, ErrorStack> {
    let mut builder = SslContext::builder(SslMethod::tls())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    builder.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    // Both lanes carry as much as the disk takes, and AES is in the processor.
    builder.set_ciphersuites("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384")?;
    builder.set_groups_list("X25519")?;
    // Member keys are of one kind. With others allowed a stranger could have costly RSA signatures checked.
    builder.set_sigalgs_list("ed25519")?;
    // A resumed session would skip the proof that the peer has the key.
    builder.set_num_tickets(0)?;
    builder.set_options(SslOptions::NO_TICKET);
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    let certificate = certificate(key)?;
    builder.set_certificate(&certificate)?;
    builder.set_private_key(key.openssl())?;
    // Nothing is computed for certificates that a stranger sends along.
    builder.set_verify_depth(0);
    builder.set_verify_callback(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT, |_, _| true);
    Ok(builder.build())
}

/// Makes the certificate. Nothing in it counts but the key, so that it is valid for ever.
fn certificate(key: &MemberKey) -> Result<X509, ErrorStack> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_text("CN", "saltern member")?;
    let name = name.build();
    let mut certificate = X509::builder()?;
    certificate.set_version(2)?;
    let serial = BigNum::from_u32(1)?.to_asn1_integer()?;
    certificate.set_serial_number(&serial)?;
    certificate.set_subject_name(&name)?;
    certificate.set_issuer_name(&name)?;
    let (first, last) = (Asn1Time::from_unix(0)?, Asn1Time::from_str_x509("99991231235959Z")?);
    certificate.set_not_before(&first)?;
    certificate.set_not_after(&last)?;
    certificate.set_pubkey(key.openssl())?;
    // Ed25519 has its digest inside.
    certificate.sign(key.openssl(), MessageDigest::null())?;
    Ok(certificate.build())
}

/// Begins TLS as the side that dialled, or as the listener.
pub(crate) async fn shake(
    context: &SslContext,
    stream: Peeked,
    dialled: bool,
) -> Result<TlsStream, openssl::ssl::Error> {
    let mut stream = SslStream::new(Ssl::new(context)?, stream)?;
    match dialled {
        true => Pin::new(&mut stream).connect().await?,
        false => Pin::new(&mut stream).accept().await?,
    }
    Ok(stream)
}

/// Returns the member key that the peer has shown, and of which it has the private half; `None` if it is of another kind.
pub(crate) fn peer_key(stream: &TlsStream) -> Option<[u8; MEMBER_KEY_LEN]> {
    let key = stream.ssl().peer_certificate()?.public_key().ok().filter(|key| key.id() == Id::ED25519)?;
    key.raw_public_key().ok()?.try_into().ok()
}

/// Returns 32 bytes that only the two ends of this connection know.
pub(crate) fn exporter(stream: &TlsStream) -> Result<[u8; 32], ErrorStack> {
    let mut bytes = [0; 32];
    stream.ssl().export_keying_material(&mut bytes, LABEL, None)?;
    Ok(bytes)
}
