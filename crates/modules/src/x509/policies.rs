//! Extensions about policies and about the names an issuer may give.

use exec::{Error, Result};
use value::{Map, Value};

use super::build::pair;
use super::der::{self, field, fields, tag};
use super::extension::{mentions, words};
use super::general::{General, oid};
use super::oids;

type Built = Result<(Vec<u8>, bool)>;

/// The policies a certificate was issued under.
pub fn certificate_policies(value: &Value) -> Built {
    match value {
        Value::Str(text) => {
            let wrong =
                |_| Error::invocation("certificatePolicies defined as string must be a comma-separated list of OID.");
            let policies = text.split(',').map(str::trim).filter(|policy| *policy != "critical");
            let policy = |policy: &str| Ok(der::sequence(&[encoded(&oid(policy).map_err(wrong)?)]));
            Ok((der::sequence(&policies.map(policy).collect::<Result<Vec<_>>>()?), text.starts_with("critical")))
        }
        Value::Map(map) => {
            let policies = map.iter().filter(|(policy, _)| policy.as_str() != Some("critical"));
            let policies = policies.map(|(policy, qualifiers)| policy_information(&policy.to_string(), qualifiers));
            Ok((der::sequence(&policies.collect::<Result<Vec<_>>>()?), map.get("critical").is_some_and(Value::truthy)))
        }
        other => Err(Error::Other(format!("certificatePolicies must be a text or a map, not {other}"))),
    }
}

fn encoded(oid: &str) -> Vec<u8> {
    der::oid(oid).expect("it was checked")
}

fn policy_information(policy: &str, qualifiers: &Value) -> Result<Vec<u8>> {
    let listed = match qualifiers {
        Value::List(items) => items.clone(),
        Value::Null => Vec::new(),
        single => vec![single.clone()],
    };
    let mut parts = Vec::new();
    for qualifier in &listed {
        match qualifier {
            Value::Map(notice) => parts.extend(user_notice(notice)?),
            text => {
                let text = der::tlv(tag::IA5, text.to_string().as_bytes());
                parts.push(der::sequence(&[encoded(oids::PRACTICE_STATEMENT), text]));
            }
        }
    }
    let qualifiers = if parts.is_empty() { Vec::new() } else { der::sequence(&parts) };
    Ok(der::sequence(&[encoded(&oid(policy)?), qualifiers]))
}

/// A notice, if it has numbers.
fn user_notice(notice: &Map) -> Result<Option<Vec<u8>>> {
    let Some(numbers) = notice.get("noticeNumbers").filter(|numbers| numbers.truthy()) else { return Ok(None) };
    let organization = match notice.get("organization") {
        Some(Value::Str(text)) => text,
        other => {
            let other = other.cloned().unwrap_or_default();
            return Err(Error::Other(format!("'{other}' is not an instance of 'str'")));
        }
    };
    let wrong = || Error::execution("notice_numbers must be a list of integers");
    let number = |number: &Value| number.as_i64().and_then(|number| u64::try_from(number).ok()).map(der::integer);
    let numbers: Option<Vec<_>> = numbers.as_list().ok_or_else(wrong)?.iter().map(number).collect();
    let organization = der::tlv(tag::UTF8, organization.as_bytes());
    let reference = der::sequence(&[organization, der::sequence(&numbers.ok_or_else(wrong)?)]);
    let text = notice.get("text").filter(|text| !text.is_null());
    let text = text.map(|text| der::tlv(tag::UTF8, text.to_string().as_bytes())).unwrap_or_default();
    Ok(Some(der::sequence(&[encoded(oids::USER_NOTICE), der::sequence(&[reference, text])])))
}

/// Builds `policyConstraints`, the depths from which policies must be explicit or unmapped.
pub fn policy_constraints(value: &Value) -> Built {
    let (given, critical) = match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            (words.into_iter().map(|(name, value)| (Value::from(name), Value::from(value))).collect(), critical)
        }
        Value::Map(map) => (map.clone(), map.contains_key("critical")),
        other => return Err(Error::Other(format!("policyConstraints must be a text or a map, not {other}"))),
    };
    let number = |name: &str| match given.get(name).map(Value::to_string) {
        None => Ok(None),
        Some(text) => text.trim().parse::<u64>().map(Some).map_err(|_| {
            Error::Other(format!("{name} must be a number, zero or more, not {}", value::python::repr_str(&text)))
        }),
    };
    let (explicit, mapping) = (number("requireExplicitPolicy")?, number("inhibitPolicyMapping")?);
    if explicit.is_none() && mapping.is_none() {
        return Err(Error::invocation(
            "At least one of require_explicit_policy and inhibit_policy_mapping must not be None",
        ));
    }
    let part = |place: u8, number: Option<u64>| {
        number.map(|number| der::tlv(field(place), &der::unsigned(&number.to_be_bytes()))).unwrap_or_default()
    };
    Ok((der::sequence(&[part(0, explicit), part(1, mapping)]), critical))
}

/// Builds `inhibitAnyPolicy`, the depth from which `anyPolicy` no longer counts.
pub fn inhibit_any_policy(value: &Value) -> Built {
    let (number, critical) = match value {
        Value::Str(text) => {
            let (words, critical) = words(text);
            let number = words.first().map(|(word, _)| word.clone()).unwrap_or_default();
            let wrong = |_| {
                let shown = value::python::repr_str(&number);
                Error::Other(format!("invalid literal for int() with base 10: {shown}"))
            };
            (Value::Int(number.parse().map_err(wrong)?), critical)
        }
        Value::Map(map) => {
            let missing = || Error::invocation("Undefined required key for inhibitAnyPolicy: 'value'");
            (map.get("value").cloned().ok_or_else(missing)?, map.contains_key("critical"))
        }
        other => (other.clone(), false),
    };
    match number {
        Value::Int(number) if number >= 0 => Ok((der::integer(number as u64), critical)),
        Value::Int(_) => Err(Error::invocation("skip_certs must be a non-negative integer")),
        _ => Err(Error::invocation("skip_certs must be an integer")),
    }
}

/// The names an issuer may give, and those it may not.
pub fn name_constraints(value: &Value) -> Built {
    let critical = mentions(value, "critical");
    let scopes = ["permitted", "excluded"];
    let [permitted, excluded] = match value {
        Value::Map(map) => scopes.map(|scope| map.get(scope).map(listed)),
        Value::Str(text) => scopes.map(|scope| {
            let items = text.split(',').filter_map(|item| item.trim().split_once(';'));
            let names: Vec<_> = items.filter(|(of, _)| *of == scope).filter_map(|(_, name)| pair(name)).collect();
            (!names.is_empty()).then_some(names)
        }),
        other => return Err(Error::Other(format!("nameConstraints must be a text or a map, not {other}"))),
    };
    let part = |place: u8, names: Option<Vec<(String, Value)>>| match names {
        Some(names) if !names.is_empty() => Ok(Some(der::tlv(fields(place), &subtrees(&names)?))),
        _ => Ok::<_, Error>(None),
    };
    let (permitted, excluded) = (part(0, permitted)?, part(1, excluded)?);
    if permitted.is_none() && excluded.is_none() {
        return Err(Error::invocation("nameConstraints needs at least one definition"));
    }
    Ok((der::sequence(&[permitted.unwrap_or_default(), excluded.unwrap_or_default()]), critical))
}

fn listed(names: &Value) -> Vec<(String, Value)> {
    let names = names.as_list().map(<[Value]>::to_vec).unwrap_or_else(|| vec![names.clone()]);
    let name = |name: &Value| match name {
        Value::Map(map) => map.iter().next().map(|(kind, name)| (kind.to_string(), name.clone())),
        text => pair(&text.to_string()),
    };
    names.iter().filter_map(name).collect()
}

fn subtrees(names: &[(String, Value)]) -> Result<Vec<u8>> {
    let subtree = |(kind, name): &(String, Value)| match General::new(kind, name)? {
        General::Ip(bytes) if bytes.len() < 8 || bytes.len() == 16 => {
            Err(Error::Other("IPAddress name constraints must be an IPv4Network or IPv6Network object".into()))
        }
        name => Ok(der::sequence(&[name.to_der()])),
    };
    Ok(names.iter().map(subtree).collect::<Result<Vec<_>>>()?.concat())
}
