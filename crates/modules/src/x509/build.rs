//! Extensions from arguments: the short ones.

use exec::{Error, Result};
use value::{Map, Value, python};

use super::der::{self, field, fields, tag};
use super::extension::{Around, Extension, find, mentions, words};
use super::general::{General, oid};
use super::keys::key_id;
use super::{oids, points, policies};

/// Makes the extension of this name.
///
/// # Errors
/// The value is invalid for the extension.
pub fn build(name: &str, value: &Value, around: Around<'_>) -> Result<Extension> {
    let (body, critical) = match name {
        "basicConstraints" => basic_constraints(value),
        "keyUsage" => key_usage(value),
        "extendedKeyUsage" => extended_key_usage(value),
        "subjectKeyIdentifier" => subject_key_id(value, around).map(|body| (body, false)),
        "authorityKeyIdentifier" => authority_key_id(value, around).map(|body| (body, false)),
        "issuerAltName" | "certificateIssuer" => issuer_names(value, around),
        "authorityInfoAccess" => info_access(value).map(|body| (body, false)),
        "subjectAltName" => {
            let (names, critical) = named(value)?;
            Ok((general_names(&names)?, critical))
        }
        "crlDistributionPoints" => points::distribution_points(value),
        "freshestCRL" => points::distribution_points(value).map(|(body, _)| (body, false)),
        "issuingDistributionPoint" => points::issuing_point(value),
        "certificatePolicies" => policies::certificate_policies(value),
        "policyConstraints" => policies::policy_constraints(value),
        "inhibitAnyPolicy" => policies::inhibit_any_policy(value),
        "nameConstraints" => policies::name_constraints(value),
        // The content of this extension is always NULL (RFC 6960, 4.2.2.2.1). Only whether it is
        // critical can be chosen.
        "noCheck" => Ok((der::tlv(tag::NULL, &[]), value.to_string().contains("critical"))),
        "tlsfeature" => tls_features(value),
        "cRLNumber" => crl_number(value).map(|body| (body, false)),
        "deltaCRLIndicator" => delta_indicator(value),
        "CRLReason" => crl_reason(value),
        "invalidityDate" => invalidity_date(value),
        // Netscape's old extensions. Salt refuses them in these words since it builds on
        // `cryptography`.
        "nsComment" | "nsCertType" => Err(Error::invocation(format!("{name} is currently not implemented."))),
        _ => Err(Error::execution(format!("Unknown extension {name}"))),
    }?;
    let known = oids::named(oids::EXTENSIONS, name).or_else(|| oids::named(oids::ENTRY_EXTENSIONS, name));
    Ok(Extension::new(known.expect("it was made above"), critical, body))
}

type Built = Result<(Vec<u8>, bool)>;

fn refused(text: impl Into<String>) -> Error {
    Error::invocation(text)
}

fn map_of(words: Vec<(String, String)>) -> Map {
    words.into_iter().map(|(name, value)| (Value::from(name), Value::from(value))).collect()
}

fn basic_constraints(value: &Value) -> Built {
    let (given, critical) = match value {
        Value::Str(text) => {
            // Text is the style of OpenSSL's configuration, `CA:TRUE, pathlen:0`, so case does not
            // count here.
            let (words, critical) = words(&text.to_lowercase());
            let mut given = map_of(words);
            let wrong = |what: String| refused(format!("Invalid configuration for basicContraints: {what}"));
            let ca = given.get_str("ca").ok_or_else(|| wrong("'ca'".into()))? == "true";
            given.insert("ca", ca);
            if let Some(length) = given.get("pathlen").map(Value::to_string) {
                let number = length.parse::<i64>();
                let invalid =
                    |_| wrong(format!("invalid literal for int() with base 10: {}", python::repr_str(&length)));
                given.insert("pathlen", number.map_err(invalid)?);
            }
            (given, critical)
        }
        Value::Map(given) => (given.clone(), given.get("critical").is_some_and(Value::truthy)),
        _ => return Err(refused("list indices must be integers or slices, not str")),
    };
    let ca = given.get("ca").ok_or_else(|| refused("Undefined required key for basicConstraints: 'ca'"))?;
    let Value::Bool(ca) = *ca else { return Err(refused("ca must be a boolean value")) };
    let length = match given.get("pathlen") {
        None | Some(Value::Null) => None,
        // The checks below are those of `cryptography`'s `BasicConstraints`, whose texts users
        // know.
        Some(_) if !ca => return Err(refused("path_length must be None when ca is False")),
        Some(Value::Int(length)) if *length >= 0 => Some(*length as u64),
        Some(_) => return Err(refused("path_length must be a non-negative integer or None")),
    };
    // DER leaves defaults out, and FALSE is the default of `cA`.
    let ca = if ca { der::tlv(tag::BOOLEAN, &[0xff]) } else { Vec::new() };
    Ok((der::sequence(&[ca, length.map(der::integer).unwrap_or_default()]), critical))
}

/// The usages of keys, in the order of their bits.
pub const KEY_USAGES: [&str; 9] = [
    "digitalSignature",
    "nonRepudiation",
    "keyEncipherment",
    "dataEncipherment",
    "keyAgreement",
    "keyCertSign",
    "cRLSign",
    "encipherOnly",
    "decipherOnly",
];

fn key_usage(value: &Value) -> Built {
    if !matches!(value, Value::Str(_) | Value::List(_) | Value::Map(_)) {
        return Err(Error::Other(format!("keyUsage must be a text, a list or a map, not {value}")));
    }
    let bits = KEY_USAGES.map(|usage| mentions(value, usage));
    // RFC 5280 leaves these two undefined without `keyAgreement`.
    if (bits[7] || bits[8]) && !bits[4] {
        return Err(refused("encipher_only and decipher_only can only be true when key_agreement is true"));
    }
    Ok((der::tlv(tag::BIT_STRING, &der::named_bits(&bits)), mentions(value, "critical")))
}

fn extended_key_usage(value: &Value) -> Built {
    let (usages, critical) = match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            (words.into_iter().map(|(word, _)| word).collect(), critical)
        }
        Value::List(items) => (items.iter().map(Value::to_string).collect(), mentions(value, "critical")),
        single => (vec![single.to_string()], mentions(value, "critical")),
    };
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for usage in usages.iter().filter(|usage| *usage != "critical") {
        // A usage without a name may be given by its dotted identifier.
        let known = oids::named(oids::USAGES, usage).map(str::to_owned);
        let oid = known.map_or_else(|| oid(usage), Ok)?;
        parts.push(der::oid(&oid).expect("it was checked"));
    }
    Ok((der::sequence(&parts), critical))
}

fn subject_key_id(value: &Value, around: Around<'_>) -> Result<Vec<u8>> {
    // RFC 5280, 4.2.1.2: conforming authorities must mark it as non-critical.
    if mentions(value, "critical") {
        return Err(refused("subjectKeyIdentifier must be marked as non-critical"));
    }
    let id = match value {
        Value::Str(text) if text == "hash" => {
            let missing = || Error::Other("Cannot calculate digest for subjectKeyIdentifier: missing pubkey".into());
            key_id(around.subject_key.ok_or_else(missing)?)
        }
        Value::Str(text) => {
            hex::decode(text.replace(':', "")).map_err(|_| refused("Value must be precomputed hash"))?
        }
        Value::Bytes(bytes) => bytes.to_vec(),
        _ => return Err(refused("Value must be a (hex-)digest or pubkey")),
    };
    Ok(der::tlv(tag::OCTET_STRING, &id))
}

fn authority_key_id(value: &Value, around: Around<'_>) -> Result<Vec<u8>> {
    if mentions(value, "critical") {
        return Err(refused("authorityKeyIdentifier must be marked as non-critical"));
    }
    let wanted = match value {
        Value::Str(text) => map_of(words(text).0),
        Value::Map(map) => map.clone(),
        _ => return Err(Error::Other("list indices must be integers or slices, not str".into())),
    };
    // As in OpenSSL, `keyid` without `always` means "if it is known".
    let always = |what: &str| wanted.get_str(what) == Some("always");
    let of_issuer = || match around.issuer {
        Some(issuer) => {
            let named = find(&issuer.extensions, oids::SUBJECT_KEY_ID);
            let named = named.and_then(|id| Some(der::Reader::new(&id.value).expect(tag::OCTET_STRING)?.body.to_vec()));
            // An issuer without an identifier in its certificate gets the one that would have been
            // computed for it.
            Some(named.unwrap_or_else(|| key_id(&issuer.key)))
        }
        None => around.issuer_key.map(key_id),
    };
    let id = if wanted.contains_key("keyid") { of_issuer() } else { None };
    if id.is_none() && always("keyid") {
        return Err(Error::execution("Could not retrieve authorityKeyIdentifier keyid, but it was set to always"));
    }
    // `issuer` alone is only a fallback for a missing key identifier.
    let with_issuer = always("issuer") || (wanted.contains_key("issuer") && id.is_none());
    let issuer = around.issuer.filter(|_| with_issuer);
    if issuer.is_none() && always("issuer") {
        return Err(Error::execution(
            "Could not add authority_cert_issuer and authority_cert_serial_number, but was set to always.",
        ));
    }
    let id = id.map(|id| der::tlv(field(0), &id)).unwrap_or_default();
    let name = issuer.map(|issuer| der::tlv(fields(1), &General::Directory(issuer.issuer.clone()).to_der()));
    // The two stand together or not at all (RFC 5280, 4.2.1.1), hence both come from `issuer`.
    let serial = issuer.map(|issuer| der::tlv(field(2), &der::unsigned(&issuer.serial)));
    Ok(der::sequence(&[id, name.unwrap_or_default(), serial.unwrap_or_default()]))
}

/// General names as DER.
pub fn general_names(names: &[(String, Value)]) -> Result<Vec<u8>> {
    let names = names.iter().map(|(kind, value)| General::new(kind, value).map(|name| name.to_der()));
    Ok(der::sequence(&names.collect::<Result<Vec<_>>>()?))
}

/// Reads names with their kinds, from a text with commas or a list of texts and maps.
fn named(value: &Value) -> Result<(Vec<(String, Value)>, bool)> {
    match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            Ok((words.into_iter().map(|(kind, name)| (kind, Value::from(name))).collect(), critical))
        }
        Value::List(items) => {
            let names = items.iter().flat_map(|item| match item {
                Value::Str(text) => pair(text).into_iter().collect(),
                Value::Map(map) => map.iter().map(|(kind, name)| (kind.to_string(), name.clone())).collect(),
                _ => Vec::new(),
            });
            Ok((names.collect(), mentions(value, "critical")))
        }
        // Iterating a dict yields its keys, which Salt then fails to unpack. The text is Python's.
        Value::Map(_) => Err(Error::Other("too many values to unpack (expected 2)".into())),
        other => Err(Error::Other(format!("names must be a text or a list, not {other}"))),
    }
}

/// A kind and a name with a colon between.
pub fn pair(text: &str) -> Option<(String, Value)> {
    text.split_once(':').map(|(kind, name)| (kind.trim().to_owned(), name.trim().into()))
}

fn issuer_names(value: &Value, around: Around<'_>) -> Built {
    let (mut names, critical) = named(value)?;
    let mut copied = Vec::new();
    // `issuer:copy` is OpenSSL's word for taking over the alternative names of the issuer.
    if names.iter().any(|(kind, name)| kind == "issuer" && name.as_str() == Some("copy")) {
        let missing = || Error::Other("Need CA certificate to copy to issuerAltName".into());
        let issuer = around.issuer.ok_or_else(missing)?;
        let theirs = find(&issuer.extensions, oids::SUBJECT_ALT_NAME);
        let read = theirs.and_then(|theirs| General::read_all(der::Reader::new(&theirs.value).inside(tag::SEQUENCE)?));
        let missing = || Error::execution("The certificate of the issuer has no subjectAltName to copy");
        copied = read.ok_or_else(missing)?;
        names.retain(|(kind, _)| kind != "issuer");
    }
    for (kind, name) in names {
        copied.push(General::new(&kind, &name)?);
    }
    Ok((der::sequence(&copied.iter().map(General::to_der).collect::<Vec<_>>()), critical))
}

fn info_access(value: &Value) -> Result<Vec<u8>> {
    let unpacked = |count: usize| Error::Other(format!("not enough values to unpack (expected 2, got {count})"));
    let pairs: Vec<(String, String)> = match value {
        Value::Str(text) => {
            // OpenSSL's style again: `OCSP;URI:http://…`. The semicolon parts the method from the
            // name.
            let items = text.split(',').map(str::trim).filter(|item| *item != "critical");
            let pair = |item: &str| match item.split(';').collect::<Vec<_>>()[..] {
                [access, name] => Ok((access.to_owned(), name.to_owned())),
                [_] => Err(unpacked(1)),
                _ => Err(Error::Other("too many values to unpack (expected 2)".into())),
            };
            items.map(pair).collect::<Result<_>>()?
        }
        Value::Map(map) => access_pairs(map),
        Value::List(items) => items.iter().filter_map(Value::as_map).flat_map(access_pairs).collect(),
        _ => return Err(Error::Other(format!("authorityInfoAccess must be a text, a list or a map, not {value}"))),
    };
    let mut parts = Vec::new();
    for (access, name) in pairs {
        let known = oids::named(oids::ACCESS, &access).map(str::to_owned);
        let unknown = |_| Error::execution(format!("Unknown access OID: {access}"));
        let oid = known.map_or_else(|| oid(&access), Ok).map_err(unknown)?;
        parts.push(der::sequence(&[der::oid(&oid).expect("it was checked"), General::from_text(&name)?.to_der()]));
    }
    Ok(der::sequence(&parts))
}

fn access_pairs(map: &Map) -> Vec<(String, String)> {
    let pairs = map.iter().map(|(access, name)| (access.to_string(), name.to_string()));
    pairs.filter(|(access, _)| access != "critical").collect()
}

/// Features of TLS (RFC 7633), by the numbers of the TLS extensions (RFC 6066 and RFC 6961).
pub const TLS_FEATURES: &[(&str, u64)] = &[("status_request", 5), ("status_request_v2", 17)];

fn tls_features(value: &Value) -> Built {
    let wanted: Vec<String> = match value {
        Value::Str(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
        Value::List(items) => items.iter().map(Value::to_string).collect(),
        Value::Map(map) => map.keys().map(Value::to_string).collect(),
        other => return Err(Error::Other(format!("tlsfeature must be a text or a list, not {other}"))),
    };
    let number = |name: &String| {
        let known = TLS_FEATURES.iter().find(|(known, _)| known == name);
        known.map(|(_, number)| der::integer(*number)).ok_or_else(|| Error::Other(name.clone()))
    };
    let features = wanted.iter().filter(|name| *name != "critical").map(number).collect::<Result<Vec<_>>>()?;
    Ok((der::sequence(&features), wanted.iter().any(|name| name == "critical")))
}

fn crl_number(value: &Value) -> Result<Vec<u8>> {
    let wrong = || refused("cRLNumber must be an integer and must be marked as non-critical");
    value.to_string().trim().parse().map(der::integer).map_err(|_| wrong())
}

fn delta_indicator(value: &Value) -> Built {
    let text = value.to_string();
    // Salt searches the text for digits, so `critical, 4` works, and two numbers are refused.
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let number = numbers.next().and_then(|digits| digits.parse().ok()).filter(|_| numbers.next().is_none());
    let wrong = || refused("deltaCRLIndicator must contain a single integer pointing to a cRLNumber");
    Ok((der::integer(number.ok_or_else(wrong)?), text.contains("critical")))
}

fn crl_reason(value: &Value) -> Built {
    let (reasons, critical) = match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            (words.into_iter().map(|(word, _)| word).collect::<Vec<_>>(), critical)
        }
        Value::List(items) => (items.iter().map(Value::to_string).collect(), mentions(value, "critical")),
        Value::Map(map) => (map.keys().map(Value::to_string).collect(), mentions(value, "critical")),
        other => return Err(Error::Other(format!("CRLReason must be a text or a list, not {other}"))),
    };
    let reason = reasons.iter().find(|reason| *reason != "critical");
    let reason = reason.ok_or_else(|| refused("CRLReason must name a reason"))?;
    let known = points::REASONS.iter().find(|(name, ..)| name == reason);
    let wrong = || refused(format!("{} is not a valid ReasonFlags", python::repr_str(reason)));
    // An entry holds one reason as a number, while distribution points hold a set of bits.
    let (_, number, _) = known.ok_or_else(wrong)?;
    Ok((der::tlv(tag::ENUMERATED, &[*number]), critical))
}

fn invalidity_date(value: &Value) -> Built {
    let text = value.as_str().ok_or_else(|| refused("invalidityDate must be a string"))?;
    let critical = text.starts_with("critical");
    let text = if critical { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
    let time = super::times::parse(text).map_err(|error| refused(error.to_string()))?;
    Ok((der::tlv(tag::GENERALIZED_TIME, time.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()), critical))
}
