//! General names: what alternative names, constraints and points of distribution are made of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use exec::{Error, Result};
use value::{Value, python};

use super::der::{self, Item, Reader, field, fields, tag};
use super::domains;
use super::names::Name;
use super::oids;

/// A general name.
#[derive(Clone, Debug, PartialEq)]
pub enum General {
    /// An address for mail.
    Email(String),
    /// A name of a machine.
    Dns(String),
    /// An address of a resource.
    Uri(String),
    /// A distinguished name.
    Directory(Name),
    /// An address, or an address and a mask: 4, 8, 16 or 32 bytes.
    Ip(Vec<u8>),
    /// A registered identifier.
    Registered(String),
    /// Another kind, which can be shown but not made.
    Other(Vec<u8>),
}

impl General {
    /// Makes a name of a kind from an argument.
    ///
    /// # Errors
    /// The value is invalid for the kind of name.
    pub fn new(kind: &str, value: &Value) -> Result<Self> {
        let kind = kind.to_lowercase();
        let text = || match value {
            Value::Str(text) => Ok(text.as_str()),
            other => {
                let kind = python_type(other);
                Err(Error::invocation(format!("Expected string value, got {kind}: `{other}`")))
            }
        };
        match kind.as_str() {
            "email" => email(text()?),
            "dns" => Ok(General::Dns(domains::encode(text()?, domains::Allow { dot: true, wildcard: true })?)),
            "uri" => Ok(General::Uri(uri(text()?)?)),
            "dirname" => Name::from_value(value).map(General::Directory),
            "ip" => ip(&value.to_string()).map(General::Ip),
            "rid" => oid(&value.to_string()).map(General::Registered),
            // Salt has not implemented it either, and the text is Salt's.
            "othername" => Err(Error::invocation("otherName is currently not implemented")),
            _ => Err(Error::execution(format!("GeneralName type {kind} is invalid"))),
        }
    }

    /// Makes a name from its kind and value with a colon between.
    ///
    /// # Errors
    /// The text is not a name of this kind.
    pub fn from_text(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some((kind, value)) => General::new(kind, &value.into()),
            None => Err(Error::Other("not enough values to unpack (expected 2, got 1)".into())),
        }
    }

    /// The name as DER.
    pub fn to_der(&self) -> Vec<u8> {
        match self {
            General::Email(text) => der::tlv(field(1), text.as_bytes()),
            General::Dns(text) => der::tlv(field(2), text.as_bytes()),
            General::Uri(text) => der::tlv(field(6), text.as_bytes()),
            // A name is a choice itself, so its tag is explicit and the sequence stays.
            General::Directory(name) => der::tlv(fields(4), &name.to_der()),
            General::Ip(bytes) => der::tlv(field(7), bytes),
            General::Registered(oid) => {
                let whole = der::oid(oid).expect("it was checked when the name was made");
                // The tag of the choice replaces the one of the identifier ("implicit" tagging).
                der::tlv(field(8), Reader::new(&whole).next().map_or(&[], |item| item.body))
            }
            General::Other(whole) => whole.clone(),
        }
    }

    /// Reads a name.
    pub fn read(item: Item) -> Option<Self> {
        let text = || std::str::from_utf8(item.body).ok().map(str::to_owned);
        Some(match item.tag {
            0x81 => General::Email(text()?),
            0x82 => General::Dns(text()?),
            0x86 => General::Uri(text()?),
            0xa4 => General::Directory(Name::read(item.inside().inside(tag::SEQUENCE)?)?),
            // Four and sixteen bytes are addresses, twice as many are networks with their masks.
            0x87 if [4, 8, 16, 32].contains(&item.body.len()) => General::Ip(item.body.to_vec()),
            0x88 => General::Registered(item.oid()?),
            _ => General::Other(item.whole.to_vec()),
        })
    }

    /// Reads several names.
    pub fn read_all(names: Reader) -> Option<Vec<Self>> {
        names.all()?.into_iter().map(General::read).collect()
    }

    /// Kind and value, as Salt shows them.
    pub fn to_text(&self) -> String {
        match self {
            General::Email(text) => format!("mail:{text}"),
            General::Dns(text) => format!("DNS:{text}"),
            General::Uri(text) => format!("URI:{text}"),
            General::Directory(name) => format!("dirName:{}", name.text()),
            General::Ip(bytes) => format!("IP:{}", address(bytes, true)),
            General::Registered(oid) => format!("RID:{oid}"),
            General::Other(whole) => other(whole),
        }
    }

    /// Returns the value alone, as Salt shows it where it drops the kind.
    pub fn plain(&self) -> String {
        match self {
            General::Email(text) | General::Dns(text) | General::Uri(text) => text.clone(),
            General::Directory(name) => format!("<Name({})>", name.text()),
            General::Ip(bytes) => address(bytes, false),
            General::Registered(oid) => identifier(oid),
            General::Other(whole) => other(whole),
        }
    }
}

fn identifier(oid: &str) -> String {
    format!("<ObjectIdentifier(oid={oid}, name={})>", oids::display_name(oid).unwrap_or("Unknown OID"))
}

/// A name of another kind: its type and its bytes.
fn other(whole: &[u8]) -> String {
    let read = || {
        let item = Reader::new(whole).next()?;
        let mut inside = item.inside();
        let oid = inside.expect(tag::OID)?.oid()?;
        let value = inside.next()?;
        Some(format!(
            "<OtherName(type_id={}, value={})>",
            identifier(&oid),
            python::repr(&Value::bytes(value.body.to_vec()))
        ))
    };
    read().unwrap_or_else(|| hex::encode(whole))
}

fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::BigInt(_) => "int",
        Value::Float(_) => "float",
        Value::List(_) => "list",
        Value::Map(_) => "dict",
        other => other.type_name(),
    }
}

/// An object identifier that was given as an argument.
///
/// # Errors
/// The text is not an identifier.
pub fn oid(text: &str) -> Result<String> {
    match der::oid(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(Error::execution(format!("Invalid oid: {text}"))),
    }
}

fn email(text: &str) -> Result<General> {
    // Only the domain can be encoded. A text without `@` is a host or a domain in a name
    // constraint.
    let none = domains::Allow { dot: false, wildcard: false };
    Ok(General::Email(match text.rsplit_once('@') {
        Some((user, domain)) => format!("{user}@{}", domains::encode(domain, none)?),
        None => domains::encode(text, domains::Allow { dot: true, wildcard: false })?,
    }))
}

/// Takes an address of a resource apart, encodes its host and puts it together again.
fn uri(text: &str) -> Result<String> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    // A URI without a host, such as a URN, is left alone.
    let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(text.to_owned());
    };
    let Some(rest) = rest.strip_prefix("//") else { return Ok(text.to_owned()) };
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if host.is_empty() {
        return Ok(text.to_owned());
    }
    let host = domains::encode(host, domains::Allow { dot: false, wildcard: false })?;
    // Python's `urlunsplit` drops an empty fragment and an empty query.
    let path = path.strip_suffix('#').unwrap_or(path);
    let path = if path.contains('#') { path } else { path.strip_suffix('?').unwrap_or(path) };
    Ok(format!("{}://{host}{path}", scheme.to_lowercase()))
}

/// Reads an address, or a network as address and mask.
fn ip(text: &str) -> Result<Vec<u8>> {
    let wrong =
        || Error::execution(format!("Provided value {text} does not seem to be an IP address or network range."));
    let Some((address, mask)) = text.split_once('/') else {
        return Ok(bytes(text.parse().map_err(|_| wrong())?));
    };
    let address = bytes(address.parse().map_err(|_| wrong())?);
    let width = address.len() as u32 * 8;
    let prefix = match mask.parse::<u32>() {
        // Python's `ip_network` also takes masks and, for IPv4, inverted masks as Cisco writes
        // them.
        Ok(prefix) if prefix <= width => prefix,
        _ => prefix_of(mask).filter(|_| width == 32).ok_or_else(wrong)?,
    };
    let mask: Vec<u8> =
        (0..width / 8).map(|place| (0xff00_u16 >> prefix.saturating_sub(place * 8).min(8)) as u8).collect();
    // `ip_network` is strict: bits of hosts are an error.
    if address.iter().zip(&mask).any(|(byte, mask)| byte & !mask != 0) {
        return Err(wrong());
    }
    Ok([address, mask].concat())
}

/// The length of a prefix that is written as a mask, or as its opposite.
fn prefix_of(mask: &str) -> Option<u32> {
    let bits = u32::from(mask.parse::<Ipv4Addr>().ok()?);
    [bits, !bits].into_iter().find(|bits| bits.leading_ones() == bits.count_ones()).map(u32::leading_ones)
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address(bytes: &[u8], exploded: bool) -> String {
    let (address, mask) =
        if matches!(bytes.len(), 8 | 32) { bytes.split_at(bytes.len() / 2) } else { (bytes, &[][..]) };
    let text = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(four), _) => Ipv4Addr::from(four).to_string(),
        // Salt shows IPv6 addresses in full in lists of names and short elsewhere.
        (_, Ok(sixteen)) if exploded => {
            let groups: Vec<String> =
                Ipv6Addr::from(sixteen).segments().iter().map(|group| format!("{group:04x}")).collect();
            groups.join(":")
        }
        (_, Ok(sixteen)) => Ipv6Addr::from(sixteen).to_string(),
        _ => hex::encode(address),
    };
    if mask.is_empty() {
        return text;
    }
    let prefix: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    format!("{text}/{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_were_read() {
        let cases = [
            ("DNS:*.foo.bar", "DNS:*.foo.bar"),
            ("ip:10.0.0.0/255.0.0.0", "IP:10.0.0.0/8"),
            ("IP:10.0.0.0/0.255.255.255", "IP:10.0.0.0/8"),
            ("IP:fe80::/10", "IP:fe80:0000:0000:0000:0000:0000:0000:0000/10"),
            ("email:a@bücher.de", "mail:a@xn--bcher-kva.de"),
            ("email:.example.com", "mail:.example.com"),
            ("URI:HTTP://Foo.bar/x?#", "URI:http://Foo.bar/x"),
            ("RID:1.2.3", "RID:1.2.3"),
            ("dirName:CN=x,O=y", "dirName:CN=x,O=y"),
        ];
        for (text, shown) in cases {
            let name = General::from_text(text).unwrap();
            let der = name.to_der();
            assert_eq!(General::read(Reader::new(&der).next().unwrap()).unwrap(), name);
            assert_eq!(name.to_text(), shown);
        }
    }

    #[test]
    fn wrong_names_are_refused() {
        for text in [
            "IP:10.0.0.1/8",
            "IP:1.2.3",
            "IP:10.0.0.0/33",
            "IP:1.2.3.0/1.2.3.4",
            "RID:x",
            "foo:x",
            "x",
            "URI:http://a:80/",
        ] {
            assert!(General::from_text(text).is_err(), "{text}");
        }
    }
}
