//! `cert_info` — certificates that expire soon.

use openssl::asn1::{Asn1Time, Asn1TimeRef};
use openssl::nid::Nid;
use openssl::x509::{X509, X509NameRef};
use value::{Map, Value, map};

use crate::config::{flat, list};
use crate::{Found, Kind, looking};

pub const KIND: Kind = Kind {
    name: "cert_info",
    validate: |config, _| match list(config, "cert_info")?.get("files") {
        Some(_) => Ok(()),
        None => Err("Configuration for cert_info beacon must contain files option.".to_owned()),
    },
    watch: |config| looking(config, look),
};

/// The number of days before its expiry from which a certificate is reported.
const USUAL_DAYS: i64 = 45;

fn look(config: &Value, (): &mut ()) -> Found {
    let config = flat(config);
    let usual = config.get("notify_days").and_then(Value::as_i64).unwrap_or(USUAL_DAYS);
    let mut found: Vec<Value> = Vec::new();
    for entry in config.get("files").and_then(Value::as_list).unwrap_or_default() {
        let (path, days) = match entry {
            Value::Map(entry) => {
                let Some((path, settings)) = entry.iter().next() else { continue };
                (path.to_string(), settings.get("notify_days").and_then(Value::as_i64).unwrap_or(usual))
            }
            path => (path.to_string(), usual),
        };
        match std::fs::read(&path).map_err(|error| error.to_string()).and_then(|pem| days_left(&path, &pem, days)) {
            Ok(certificate) => found.extend(certificate.map(Value::Map)),
            Err(reason) => tracing::error!("Unable to load certificate {path} ({reason})"),
        }
    }
    Ok(if found.is_empty() { Vec::new() } else { vec![map! { "certificates" => found }] })
}

fn days_left(path: &str, pem: &[u8], days: i64) -> Result<Option<Map>, String> {
    let text = |error: openssl::error::ErrorStack| error.to_string();
    let certificate = X509::from_pem(pem).map_err(text)?;
    let now = Asn1Time::days_from_now(0).map_err(text)?;
    let left = now.diff(certificate.not_after()).map_err(text)?;
    // OpenSSL splits a past time into negative days and seconds; Python rounds towards the past.
    let whole_days = if left.secs < 0 { left.days - 1 } else { left.days };
    // A negative number of days reports the certificate always.
    if days >= 0 && i64::from(whole_days) > days {
        return Ok(None);
    }
    let (end, begin) = (Stamp::of(certificate.not_after())?, Stamp::of(certificate.not_before())?);
    let (issuer, issuer_map) = name(certificate.issuer_name());
    let (subject, subject_map) = name(certificate.subject_name());
    let serial =
        // Serial numbers have up to twenty bytes.
        certificate.serial_number().to_bn().and_then(|number| Ok(number.to_dec_str()?.to_string())).map_err(text)?;
    let algorithm = certificate.signature_algorithm().object().nid().long_name().unwrap_or("UNDEF").to_owned();
    Ok(Some(map! {
        "cert_path" => path,
        "issuer" => issuer,
        "issuer_dict" => issuer_map,
        "notAfter_raw" => end.raw,
        "notAfter" => end.shown,
        "notBefore_raw" => begin.raw,
        "notBefore" => begin.shown,
        "serial_number" => number(&serial),
        "signature_algorithm" => algorithm,
        "subject" => subject,
        "subject_dict" => subject_map,
        "version" => i64::from(certificate.version()),
        "extensions" => extensions(&certificate),
        // An expiry of a few minutes ago has no whole day but negative seconds.
        "has_expired" => left.days < 0 || left.secs < 0,
    }))
}

/// A number of any size.
fn number(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) => text.parse::<value::BigInt>().map_or_else(|_| text.into(), |number| Value::BigInt(number.into())),
    }
}

/// Returns the extensions that need no special parsing: the alternative names.
fn extensions(certificate: &X509) -> Vec<Value> {
    let names = certificate.subject_alt_names();
    let shown = |name: &openssl::x509::GeneralNameRef| {
        let dns = name.dnsname().map(|name| format!("DNS:{name}"));
        dns.or_else(|| name.email().map(|name| format!("email:{name}")))
            .or_else(|| name.uri().map(|name| format!("URI:{name}")))
    };
    let names: Vec<String> = names.iter().flatten().filter_map(shown).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![map! { "ext_name" => "subjectAltName", "ext_data" => names.join(", ") }.into()]
}

fn name(name: &X509NameRef) -> (String, Map) {
    let mut all = Map::new();
    // Kept beside the text, because a name may have the same field twice.
    let mut text = Vec::new();
    for entry in name.entries() {
        let nid: Nid = entry.object().nid();
        let key = nid.short_name().unwrap_or("UNDEF").to_owned();
        let value = entry.data().to_string().unwrap_or_default();
        text.push(format!("{key}=\"{value}\""));
        all.insert(key, value);
    }
    (text.join(","), all)
}

/// Formats a time as Salt does, twice.
struct Stamp {
    raw: String,
    shown: String,
}

impl Stamp {
    /// Parses `Feb 29 13:14:15 2024 GMT`.
    fn of(time: &Asn1TimeRef) -> Result<Stamp, String> {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let text = time.to_string();
        let parts: Vec<&str> = text.split_whitespace().collect();
        let bad = || format!("the time {text} is not understood");
        let [month, day, clock, year, ..] = parts.as_slice() else { return Err(bad()) };
        let month = MONTHS.iter().position(|name| name == month).ok_or_else(bad)? + 1;
        let day: u8 = day.parse().map_err(|_| bad())?;
        // The form of ASN.1, which Salt returns unchanged, and a readable one.
        let raw = format!("{year}{month:02}{day:02}{}Z", clock.replace(':', ""));
        Ok(Stamp { raw, shown: format!("{year}-{month:02}-{day:02} {clock}Z") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::asn1::Asn1Time;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::rsa::Rsa;
    use openssl::x509::X509NameBuilder;

    fn certificate(days: u32) -> Vec<u8> {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "web1").unwrap();
        let name = name.build();
        let mut builder = X509::builder().unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(&name).unwrap();
        builder.set_pubkey(&key).unwrap();
        builder.set_not_before(&Asn1Time::from_str("20240229131415Z").unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::days_from_now(days).unwrap()).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        builder.build().to_pem().unwrap()
    }

    #[test]
    fn an_expiring_certificate_is_reported() {
        let pem = certificate(30);
        assert_eq!(days_left("x", &pem, 10).unwrap(), None);
        let told = days_left("x", &pem, 45).unwrap().unwrap();
        assert_eq!(told.get_str("subject"), Some("CN=\"web1\""));
        assert_eq!(told.get_str("notBefore_raw"), Some("20240229131415Z"));
        assert_eq!(told.get_str("notBefore"), Some("2024-02-29 13:14:15Z"));
        assert_eq!(told.get_str("signature_algorithm"), Some("sha256WithRSAEncryption"));
        assert_eq!(told.get("has_expired"), Some(&false.into()));
        assert!(super::days_left("x", b"no", 1).is_err());
    }
}
