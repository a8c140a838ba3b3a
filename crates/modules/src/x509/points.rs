//! The distribution points of lists of revoked certificates.

use exec::{Error, Result};
use value::{Value, python};

use super::build::pair;
use super::der::{self, field, fields, tag};
use super::extension::{mentions, words};
use super::general::General;
use super::names::Step;

/// Reasons to revoke a certificate: the name, the number in an entry, the bit at a point of distribution.
pub const REASONS: &[(&str, u8, Option<usize>)] = &[
    // `None` marks reasons that exist for entries but not as bits of a set.
    ("unspecified", 0, None),
    ("keyCompromise", 1, Some(1)),
    ("cACompromise", 2, Some(2)),
    ("affiliationChanged", 3, Some(3)),
    ("superseded", 4, Some(4)),
    ("cessationOfOperation", 5, Some(5)),
    ("certificateHold", 6, Some(6)),
    ("removeFromCRL", 8, None),
    ("privilegeWithdrawn", 9, Some(7)),
    ("aACompromise", 10, Some(8)),
];

/// Several points of distribution.
pub fn distribution_points(value: &Value) -> Result<(Vec<u8>, bool)> {
    let (points, critical) = match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            // In a text every name becomes a separate point.
            let full = words.iter().map(|(kind, name)| full_name(&[General::new(kind, &name.as_str().into())?]));
            (full.collect::<Result<Vec<_>>>()?, critical)
        }
        Value::List(items) => {
            let wanted = items.iter().filter(|item| item.as_str() != Some("critical"));
            (wanted.map(listed).collect::<Result<_>>()?, mentions(value, "critical"))
        }
        _ => return Err(Error::Other("too many values to unpack (expected 2)".into())),
    };
    Ok((der::sequence(&points), critical))
}

fn listed(item: &Value) -> Result<Vec<u8>> {
    let Value::Map(point) = item else {
        let (kind, name) = pair(&item.to_string())
            .ok_or_else(|| Error::Other("not enough values to unpack (expected 2, got 1)".into()))?;
        return full_name(&[General::new(&kind, &name)?]);
    };
    let part = |name: &str| point.get(name).filter(|part| part.truthy());
    let place = place(part("fullname"), part("relativename"))?;
    let issuer = part("crlissuer").map(several).transpose()?;
    let reasons = part("reasons").map(|given| reasons(given, "DistributionPoint")).transpose()?;
    // A point with reasons only would lead nowhere (RFC 5280, 4.2.1.13).
    if place.is_none() && issuer.is_none() {
        return Err(Error::invocation("Either full_name, relative_name or crl_issuer must be provided."));
    }
    let issuer = issuer.map(|names| der::tlv(fields(2), &encoded(&names)));
    let reasons = reasons.map(|bits| der::tlv(field(1), &bits));
    Ok(der::sequence(&[place.unwrap_or_default(), reasons.unwrap_or_default(), issuer.unwrap_or_default()]))
}

/// A point that is named in full.
fn full_name(names: &[General]) -> Result<Vec<u8>> {
    Ok(der::sequence(&[der::tlv(fields(0), &der::tlv(fields(0), &encoded(names)))]))
}

fn encoded(names: &[General]) -> Vec<u8> {
    names.iter().flat_map(General::to_der).collect()
}

fn several(value: &Value) -> Result<Vec<General>> {
    match value {
        Value::List(items) => items.iter().map(|item| General::from_text(&item.to_string())).collect(),
        single => Ok(vec![General::from_text(&single.to_string())?]),
    }
}

/// The name of a point: in full, or below its issuer.
fn place(full: Option<&Value>, relative: Option<&Value>) -> Result<Option<Vec<u8>>> {
    match (full, relative) {
        (Some(_), Some(_)) => {
            Err(Error::invocation("You cannot provide both full_name and relative_name, at least one must be None."))
        }
        (Some(full), None) => Ok(Some(der::tlv(fields(0), &der::tlv(fields(0), &encoded(&several(full)?))))),
        (None, Some(relative)) => {
            let step = Step::from_text(&relative.to_string())?;
            Ok(Some(der::tlv(fields(0), &der::tlv(fields(1), &step.body()))))
        }
        (None, None) => Ok(None),
    }
}

fn reasons(given: &Value, of: &str) -> Result<Vec<u8>> {
    let mut bits = [false; 9];
    let given = given.as_list().map(<[Value]>::to_vec).unwrap_or_else(|| vec![given.clone()]);
    let mut misplaced = false;
    for reason in &given {
        let name = reason.to_string();
        let known = REASONS.iter().find(|(known, ..)| *known == name);
        let wrong = || Error::invocation(format!("{} is not a valid ReasonFlags", python::repr_str(&name)));
        match known.ok_or_else(wrong)?.2 {
            Some(bit) => bits[bit] = true,
            None => misplaced = true,
        }
    }
    if misplaced {
        return Err(Error::invocation(format!(
            "unspecified and remove_from_crl are not valid reasons in {}",
            of_what(of)
        )));
    }
    Ok(der::named_bits(&bits))
}

fn of_what(of: &str) -> String {
    // The texts are `cryptography`'s.
    let article = if of.starts_with('I') { "an" } else { "a" };
    format!("{article} {of}")
}

/// The point a list is distributed at, and what it covers.
pub fn issuing_point(value: &Value) -> Result<(Vec<u8>, bool)> {
    let Value::Map(given) = value else {
        return Err(Error::invocation("issuingDistributionPoint must be a dictionary"));
    };
    let part = |name: &str| given.get(name).filter(|part| part.truthy());
    let flags = ["onlyuser", "onlyCA", "indirectCRL", "onlyAA"].map(|name| part(name).is_some());
    let place = place(part("fullname"), part("relativename"))?;
    let some = part("onlysomereasons").map(|given| reasons(given, "IssuingDistributionPoint")).transpose()?;
    // The list would be about nothing at all.
    if flags.iter().filter(|flag| **flag).count() > 1 {
        return Err(Error::invocation(
            "Only one of the following can be set to True: only_contains_user_certs, only_contains_ca_certs, \
             indirect_crl, only_contains_attribute_certs",
        ));
    }
    if flags == [false; 4] && place.is_none() && some.is_none() {
        return Err(Error::invocation(
            "Cannot create empty extension: if only_contains_user_certs, only_contains_ca_certs, indirect_crl, and \
             only_contains_attribute_certs are all False, then either full_name, relative_name, or only_some_reasons \
             must have a value.",
        ));
    }
    let flag = |number: u8, set: bool| if set { der::tlv(field(number), &[0xff]) } else { Vec::new() };
    let [user, ca, indirect, attributes] = flags;
    let parts = [
        place.unwrap_or_default(),
        flag(1, user),
        flag(2, ca),
        some.map(|bits| der::tlv(field(3), &bits)).unwrap_or_default(),
        flag(4, indirect),
        flag(5, attributes),
    ];
    Ok((der::constructed(tag::SEQUENCE, &parts), given.get("critical").is_some_and(Value::truthy)))
}
