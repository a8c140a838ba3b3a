//! Distinguished names: from arguments and DER, to DER and the text of RFC 4514.

use exec::{Error, Result};
use openssl::hash::{MessageDigest, hash};
use value::{Map, Value};

use super::der::{self, Reader, tag};
use super::oids;
use super::pretty_hex;

/// A part of a name.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The kind of attribute.
    pub oid: String,
    /// Its text.
    pub value: String,
    tag: u8,
}

// The encoding of the text makes no difference.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        self.oid == other.oid && self.value == other.value
    }
}

/// The attributes that are one step of a name.
#[derive(Clone, Debug)]
pub struct Step(pub Vec<Attribute>);

// The order within a step makes no difference.
impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|attribute| other.0.contains(attribute))
    }
}

/// A distinguished name, the highest step first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Name(pub Vec<Step>);

impl Attribute {
    fn new(oid: &str, value: &str) -> std::result::Result<Self, String> {
        // The limits that `cryptography` checks. Other attributes have none there.
        let limits = match oid {
            oids::COUNTRY | oids::JURISDICTION_COUNTRY => Some((2, 2)),
            oids::COMMON_NAME => Some((1, 64)),
            _ => None,
        };
        if let Some((least, most)) = limits
            && !(least..=most).contains(&value.len())
        {
            let length = value.len();
            return Err(format!("Attribute's length must be >= {least} and <= {most}, but it was {length}"));
        }
        // RFC 5280 demands these types of text. Everything else is UTF-8.
        let tag = match oid {
            oids::EMAIL | oids::DOMAIN_COMPONENT => tag::IA5,
            oid if oids::PRINTABLE.contains(&oid) => tag::PRINTABLE,
            _ => tag::UTF8,
        };
        if tag == tag::PRINTABLE && !value.chars().all(is_printable) {
            return Err(format!("{value} has characters that this attribute of a name must not have"));
        }
        Ok(Attribute { oid: oid.to_owned(), value: value.to_owned(), tag })
    }

    fn to_der(&self) -> Vec<u8> {
        let value = match self.tag {
            tag::BMP => self.value.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            tag::UNIVERSAL => self.value.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            tag::T61 => self.value.chars().map(|c| c as u8).collect(),
            tag::BIT_STRING => hex::decode(self.value.trim_start_matches('#')).unwrap_or_default(),
            _ => self.value.as_bytes().to_vec(),
        };
        let oid = der::oid(&self.oid).expect("names hold identifiers that were read");
        der::sequence(&[oid, der::tlv(self.tag, &value)])
    }

    fn read(item: der::Item) -> Option<Self> {
        let mut inside = item.inside();
        let oid = inside.expect(tag::OID)?.oid()?;
        let text = inside.next()?;
        let value = match text.tag {
            tag::BMP => {
                let units: Vec<u16> =
                    text.body.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
                String::from_utf16(&units).ok()?
            }
            tag::UNIVERSAL => {
                let letter = |four: &[u8]| char::from_u32(u32::from_be_bytes(four.try_into().ok()?));
                text.body.chunks_exact(4).map(letter).collect::<Option<String>>()?
            }
            // T.61 is read as Latin-1, as everybody does.
            tag::T61 => text.body.iter().map(|byte| char::from(*byte)).collect(),
            // Only `x500UniqueIdentifier` is not text. RFC 4514 shows its bytes behind `#`.
            tag::BIT_STRING => format!("#{}", hex::encode(text.body)),
            _ => std::str::from_utf8(text.body).ok()?.to_owned(),
        };
        Some(Attribute { oid, value, tag: text.tag })
    }

    fn text(&self) -> String {
        let name = oids::ATTRIBUTES_IN_TEXT.iter().find(|(_, oid)| *oid == self.oid).map(|(name, _)| *name);
        let value = if self.tag == tag::BIT_STRING { self.value.clone() } else { escaped(&self.value) };
        format!("{}={value}", name.unwrap_or(&self.oid))
    }
}

fn is_printable(c: char) -> bool {
    c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c)
}

impl Step {
    /// The text of RFC 4514.
    pub fn text(&self) -> String {
        self.0.iter().map(Attribute::text).collect::<Vec<_>>().join("+")
    }

    /// Returns the attributes as the content of a SET, without its tag.
    pub fn body(&self) -> Vec<u8> {
        let mut parts: Vec<_> = self.0.iter().map(Attribute::to_der).collect();
        parts.sort();
        parts.concat()
    }

    /// Reads the body of a set of attributes.
    pub fn read(body: Reader) -> Option<Self> {
        body.all()?.into_iter().map(Attribute::read).collect::<Option<Vec<_>>>().map(Step)
    }

    /// Reads the text of a single step.
    ///
    /// # Errors
    /// The text is none, or several.
    pub fn from_text(text: &str) -> Result<Self> {
        let name = parse(text).map_err(|_| Error::execution(format!("Failed parsing rdn string: {text}")))?;
        let mut steps = name.0;
        match (steps.pop(), steps.is_empty()) {
            (Some(step), true) => Ok(step),
            (None, _) => Err(Error::Other("list index out of range".into())),
            _ => Err(Error::invocation(
                "Specified string is not a Relative Distinguished Name, but a Distinguished Name.",
            )),
        }
    }
}

impl Name {
    /// Reads an argument: the text of RFC 4514, a list of such texts, or a map of attributes.
    ///
    /// # Errors
    /// The value is not a name.
    pub fn from_value(value: &Value) -> Result<Self> {
        match value {
            Value::Str(text) => parse(text).map_err(|_| Error::execution("Failed parsing rfc4514 dirName string")),
            Value::List(items) => {
                items.iter().map(|item| Step::from_text(&item.to_string())).collect::<Result<_>>().map(Name)
            }
            Value::Map(map) => Name::from_map(map),
            _ => Err(Error::invocation("Need string, list or dict to parse distinguished names")),
        }
    }

    /// Extracts the attributes from the arguments of a function.
    ///
    /// # Errors
    /// An attribute is not allowed to have this value.
    pub fn from_map(map: &Map) -> Result<Self> {
        let mut steps = Vec::new();
        for (name, oid) in oids::ATTRIBUTES {
            let Some(value) = map.get(name) else { continue };
            let text = value.as_str().ok_or_else(|| Error::Other("value argument must be a str".into()))?;
            steps.push(Step(vec![Attribute::new(oid, text).map_err(Error::Other)?]));
        }
        Ok(Name(steps))
    }

    /// Reads the body of a name.
    pub fn read(body: Reader) -> Option<Self> {
        let steps = body.all()?.into_iter();
        let step = |item: der::Item| if item.tag == tag::SET { Step::read(item.inside()) } else { None };
        steps.map(step).collect::<Option<Vec<_>>>().map(Name)
    }

    /// The name as DER.
    pub fn to_der(&self) -> Vec<u8> {
        der::sequence(&self.0.iter().map(|step| der::tlv(tag::SET, &step.body())).collect::<Vec<_>>())
    }

    /// The text of RFC 4514, the highest step last.
    pub fn text(&self) -> String {
        self.0.iter().rev().map(Step::text).collect::<Vec<_>>().join(",")
    }

    /// The first value of an attribute.
    pub fn first(&self, oid: &str) -> Option<&str> {
        self.0.iter().flat_map(|step| &step.0).find(|attribute| attribute.oid == oid).map(|found| found.value.as_str())
    }

    /// The attributes that have short names.
    pub fn to_map(&self) -> Map {
        let known = oids::ATTRIBUTES.iter();
        known.filter_map(|(name, oid)| Some((Value::from(*name), Value::from(self.first(oid)?)))).collect()
    }

    /// The first four bytes of the digest of the name, the last of them first.
    pub fn short_hash(&self) -> String {
        let digest = hash(MessageDigest::sha1(), &self.to_der()).expect("SHA-1 is there");
        let bytes: Vec<u8> = digest[..4].iter().rev().copied().collect();
        pretty_hex(&bytes)
    }
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for (place, c) in value.char_indices() {
        let last = place + c.len_utf8() == value.len();
        match c {
            '\\' | '"' | '+' | ',' | ';' | '<' | '>' => text.extend(['\\', c]),
            '\0' => text.push_str("\\00"),
            '#' if place == 0 => text.push_str("\\#"),
            ' ' if (place == 0 && value.len() > 1) || last => text.push_str("\\ "),
            c => text.push(c),
        }
    }
    text
}

// === the text of RFC 4514 ===

/// The text is not a name.
struct NoName;

fn parse(text: &str) -> std::result::Result<Name, NoName> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if !steps.is_empty() {
            rest = rest.strip_prefix(',').ok_or(NoName)?;
        }
        let mut step = Vec::new();
        loop {
            let (attribute, after) = parse_attribute(rest)?;
            if step.contains(&attribute) {
                return Err(NoName);
            }
            step.push(attribute);
            rest = after;
            match rest.strip_prefix('+') {
                Some(after) => rest = after,
                None => break,
            }
        }
        steps.push(Step(step));
    }
    steps.reverse();
    Ok(Name(steps))
}

fn parse_attribute(text: &str) -> std::result::Result<(Attribute, &str), NoName> {
    let (name, rest) = text.split_once('=').ok_or(NoName)?;
    let oid = match oids::named(oids::ATTRIBUTES_IN_TEXT, name) {
        Some(oid) => oid.to_owned(),
        None => der::oid(name).map(|_| name.to_owned()).ok_or(NoName)?,
    };
    let (value, rest) = match rest.strip_prefix('#') {
        Some(digits) => parse_hex(digits)?,
        None => parse_text(rest)?,
    };
    Ok((Attribute::new(&oid, &value).map_err(|_| NoName)?, rest))
}

fn parse_hex(text: &str) -> std::result::Result<(String, &str), NoName> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    let bytes = hex::decode(&text[..end]).map_err(|_| NoName)?;
    let value = String::from_utf8(bytes).ok().filter(|value| !value.is_empty()).ok_or(NoName)?;
    Ok((value, &text[end..]))
}

/// Reads a value up to the next separator and undoes what was escaped.
fn parse_text(text: &str) -> std::result::Result<(String, &str), NoName> {
    let mut bytes = Vec::new();
    let mut rest = text;
    let mut plain_space_last = false;
    while let Some(c) = rest.chars().next() {
        match c {
            ',' | '+' => break,
            '"' | ';' | '<' | '>' | '\0' => return Err(NoName),
            ' ' if bytes.is_empty() => return Err(NoName),
            '\\' => {
                let (byte, after) = parse_escape(&rest[1..])?;
                bytes.push(byte);
                rest = after;
                plain_space_last = false;
                continue;
            }
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        plain_space_last = c == ' ';
        rest = &rest[c.len_utf8()..];
    }
    if plain_space_last {
        return Err(NoName);
    }
    Ok((String::from_utf8(bytes).map_err(|_| NoName)?, rest))
}

fn parse_escape(text: &str) -> std::result::Result<(u8, &str), NoName> {
    let first = *text.as_bytes().first().ok_or(NoName)?;
    if b"\\ #=\"+,;<>".contains(&first) {
        return Ok((first, &text[1..]));
    }
    let digits = text.get(..2).ok_or(NoName)?;
    let byte = u8::from_str_radix(digits, 16).map_err(|_| NoName)?;
    Ok((byte, &text[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_there_and_back() {
        for text in
            ["CN=a\\,b,O=x+OU=y,C=DE", "CN=\\ a\\ ,2.5.4.4=\\#1", "UID=ü,DC=x", "", "CN=\\\\\\\"\\+\\;\\<\\>\\00"]
        {
            let Ok(name) = parse(text) else { panic!("{text} is a name") };
            assert_eq!(name.text(), text);
            let der = name.to_der();
            let read = Name::read(Reader::new(&der).inside(tag::SEQUENCE).unwrap()).unwrap();
            assert_eq!(read, name);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "foo=bar",
            "CN",
            "CN=a,",
            "CN=a;b",
            "CN=a ,O=b",
            "C=USA",
            "CN=\\",
            "CN=\\ü",
            "CN=#4",
            "CN=a+CN=a",
            "1.2=\\ff",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
