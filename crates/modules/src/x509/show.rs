//! Shows extensions as maps.

use value::{Map, Value, map};

use super::build::{KEY_USAGES, TLS_FEATURES};
use super::der::{Item, Reader, field, fields, tag};
use super::extension::{Extension, find};
use super::general::General;
use super::names::Step;
use super::points::REASONS;
use super::{decimal_to_hex, oids, pretty_hex};

/// The extensions that have names in a table, by these names.
pub fn extensions(extensions: &[Extension], table: &[(&str, &str)]) -> Map {
    let known =
        table.iter().filter_map(|(name, oid)| Some((*name, find(extensions, oid).filter(|_| !oid.is_empty())?)));
    known.map(|(name, extension)| (Value::from(name), Value::from(extension_map(name, extension)))).collect()
}

/// Returns the fields of an extension in readable form. An invalid one is shown unchanged.
fn extension_map(name: &str, extension: &Extension) -> Map {
    let mut shown = map! { "critical" => extension.critical };
    let content = Reader::new(&extension.value).next().and_then(|item| content(name, item));
    shown.update(content.unwrap_or_else(|| map! { "value" => hex::encode(&extension.value) }));
    shown
}

fn content(name: &str, item: Item) -> Option<Map> {
    Some(match name {
        "basicConstraints" => {
            let mut inside = item.inside();
            let ca = inside.optional(tag::BOOLEAN).is_some_and(|ca| ca.truth());
            let length = inside.optional(tag::INTEGER).and_then(|length| length.small());
            map! { "ca" => ca, "pathlen" => length.map(|length| length as i64) }
        }
        "keyUsage" => key_usage(item),
        "extendedKeyUsage" => {
            let usages = item.inside().all()?.into_iter().map(|usage| Some(oids::shown_or_dotted(&usage.oid()?)));
            map! { "value" => usages.collect::<Option<Vec<_>>>()? }
        }
        "subjectKeyIdentifier" => map! { "value" => pretty_hex(item.body) },
        "authorityKeyIdentifier" => authority_key_id(item)?,
        "issuerAltName" | "certificateIssuer" | "subjectAltName" => map! { "value" => names(item.inside())? },
        "authorityInfoAccess" => map! { "value" => info_access(item)? },
        "crlDistributionPoints" | "freshestCRL" => {
            let points = item.inside().all()?.into_iter().map(distribution_point);
            map! { "value" => points.collect::<Option<Vec<_>>>()? }
        }
        "issuingDistributionPoint" => issuing_point(item)?,
        "certificatePolicies" => {
            let policies = item.inside().all()?.into_iter().map(policy);
            map! { "value" => policies.collect::<Option<Vec<_>>>()? }
        }
        "policyConstraints" => {
            let mut inside = item.inside();
            let explicit = inside.optional(field(0)).and_then(|number| number.small());
            let mapping = inside.optional(field(1)).and_then(|number| number.small());
            let number = |number: Option<u64>| number.map(|number| number as i64);
            map! { "inhibitPolicyMapping" => number(mapping), "requireExplicitPolicy" => number(explicit) }
        }
        "inhibitAnyPolicy" | "cRLNumber" | "deltaCRLIndicator" => map! { "value" => number(item) },
        "nameConstraints" => {
            let mut inside = item.inside();
            let permitted = subtrees(inside.optional(fields(0)))?;
            let excluded = subtrees(inside.optional(fields(1)))?;
            map! { "excluded" => excluded, "permitted" => permitted }
        }
        "noCheck" => map! { "value" => true },
        "tlsfeature" => map! { "value" => features(item)? },
        "CRLReason" => {
            let number = *item.body.first()?;
            map! { "value" => REASONS.iter().find(|(_, known, _)| *known == number)?.0 }
        }
        "invalidityDate" => map! { "value" => super::times::read(item)?.strftime(super::times::FORMAT).to_string() },
        _ => return None,
    })
}

/// A number, also a long one.
fn number(item: Item) -> Value {
    match item.small() {
        Some(number) if number <= i64::MAX as u64 => Value::Int(number as i64),
        _ => Value::BigInt(std::sync::Arc::new(value::BigInt::from_signed_bytes_be(item.body))),
    }
}

fn key_usage(item: Item) -> Map {
    let mut usages: Vec<(&str, bool)> =
        KEY_USAGES.iter().enumerate().map(|(bit, usage)| (*usage, item.bit(bit))).collect();
    let agreement = item.bit(4);
    usages[7].1 &= agreement;
    usages[8].1 &= agreement;
    usages.sort_by_key(|(usage, _)| usage.to_lowercase());
    usages.into_iter().map(|(usage, set)| (Value::from(usage), Value::from(set))).collect()
}

fn names(names: Reader) -> Option<Vec<String>> {
    Some(General::read_all(names)?.iter().map(General::to_text).collect())
}

fn authority_key_id(item: Item) -> Option<Map> {
    let mut inside = item.inside();
    let id = inside.optional(field(0)).map(|id| pretty_hex(id.body));
    let issuer = inside.optional(fields(1)).map(|issuer| names(issuer.inside()));
    let issuer = issuer.map_or(Some(Value::Null), |names| names.map(Value::from))?;
    let serial = inside.optional(field(2)).map(|serial| decimal_to_hex(serial.body));
    Some(map! { "keyid" => id, "issuer" => issuer, "issuer_sn" => serial })
}

fn info_access(item: Item) -> Option<Vec<Map>> {
    let description = |description: Item| {
        let mut inside = description.inside();
        let method = oids::shown_or_dotted(&inside.expect(tag::OID)?.oid()?);
        Some(map! { method => General::read(inside.next()?)?.plain() })
    };
    item.inside().all()?.into_iter().map(description).collect()
}

/// The name of a point: in full, and below its issuer.
fn place(item: Option<Item>) -> Option<(Vec<String>, Option<String>)> {
    let Some(item) = item else { return Some((Vec::new(), None)) };
    let mut inside = item.inside();
    let full = inside.optional(fields(0)).map(|full| names(full.inside()));
    let relative = inside.optional(fields(1)).map(|step| Step::read(step.inside()).map(|step| step.text()));
    Some((full.map_or(Some(Vec::new()), |full| full)?, relative.map_or(Some(None), |text| text.map(Some))?))
}

fn reasons(item: Option<Item>) -> Vec<String> {
    let Some(item) = item else { return Vec::new() };
    let set = REASONS.iter().filter(|(_, _, bit)| bit.is_some_and(|bit| item.bit(bit)));
    let mut names: Vec<String> = set.map(|(name, ..)| (*name).to_owned()).collect();
    names.sort();
    names
}

fn distribution_point(item: Item) -> Option<Map> {
    let mut inside = item.inside();
    let (full, relative) = place(inside.optional(fields(0)))?;
    let reasons = reasons(inside.optional(field(1)));
    let issuer = inside.optional(fields(2)).map(|issuer| names(issuer.inside()));
    let issuer = issuer.map_or(Some(Vec::new()), |issuer| issuer)?;
    Some(map! { "crlissuer" => issuer, "fullname" => full, "reasons" => reasons, "relativename" => relative })
}

fn issuing_point(item: Item) -> Option<Map> {
    let mut inside = item.inside();
    let (full, relative) = place(inside.optional(fields(0)))?;
    let user = inside.optional(field(1)).is_some_and(|flag| flag.truth());
    let ca = inside.optional(field(2)).is_some_and(|flag| flag.truth());
    let reasons = reasons(inside.optional(field(3)));
    let indirect = inside.optional(field(4)).is_some_and(|flag| flag.truth());
    let attributes = inside.optional(field(5)).is_some_and(|flag| flag.truth());
    // The misspelt key is Salt's.
    Some(map! {
        "fullname" => full, "onysomereasons" => reasons, "relativename" => relative, "onlyuser" => user,
        "onlyCA" => ca, "onlyAA" => attributes, "indirectCRL" => indirect,
    })
}

fn policy(item: Item) -> Option<Map> {
    let mut inside = item.inside();
    let policy = oids::shown_or_dotted(&inside.expect(tag::OID)?.oid()?);
    let qualifiers = match inside.optional(tag::SEQUENCE) {
        Some(qualifiers) => qualifiers.inside().all()?.into_iter().map(qualifier).collect::<Option<Vec<_>>>()?,
        None => Vec::new(),
    };
    Some(map! { policy => qualifiers })
}

fn qualifier(item: Item) -> Option<Map> {
    let mut inside = item.inside();
    let kind = inside.expect(tag::OID)?.oid()?;
    let content = inside.next()?;
    if kind == oids::PRACTICE_STATEMENT {
        return Some(map! { "practice_statement" => text(content)? });
    }
    let mut notice = content.inside();
    let (mut organization, mut numbers) = (Value::Null, Value::Null);
    if let Some(reference) = notice.optional(tag::SEQUENCE) {
        let mut inside = reference.inside();
        organization = text(inside.next()?)?.into();
        numbers = inside.inside(tag::SEQUENCE)?.all()?.into_iter().map(number).collect();
    }
    let explicit = if notice.is_empty() { Value::Null } else { text(notice.next()?)?.into() };
    // The misspelt key is Salt's.
    Some(map! { "organizataion" => organization, "notice_numbers" => numbers, "explicit_text" => explicit })
}

fn text(item: Item) -> Option<String> {
    match item.tag {
        tag::BMP => {
            let units: Vec<u16> =
                item.body.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => std::str::from_utf8(item.body).ok().map(str::to_owned),
    }
}

fn subtrees(item: Option<Item>) -> Option<Vec<String>> {
    let Some(item) = item else { return Some(Vec::new()) };
    let subtree = |subtree: Item| Some(General::read(subtree.inside().next()?)?.to_text());
    item.inside().all()?.into_iter().map(subtree).collect()
}

fn features(item: Item) -> Option<Vec<String>> {
    let name = |feature: Item| {
        let number = feature.small()?;
        let known = TLS_FEATURES.iter().find(|(_, known)| *known == number);
        Some(known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned()))
    };
    item.inside().all()?.into_iter().map(name).collect()
}
