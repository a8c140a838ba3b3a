//! Filters for addresses and networks, as Python's `ipaddress` sees them.

use jinja::value::BigInt;
use jinja::{CallArgs, Error, Value};

use super::{class, python_str};
use python::ip::{Address, Interface, address, interface, network};

/// The largest network whose hosts are listed.
const MAX_HOSTS: u128 = 1 << 20;

/// Returns the canonical text of an address, or of an address with a network, if it has the version and the options
/// accept
/// it.
fn checked(value: &Value, version: u8, options: Option<&str>) -> Option<String> {
    let found = match value {
        // Python's `ip_address()` takes numbers and packed bytes, too.
        Value::Int(number) => Interface::plain(Address::of_number(*number)?),
        Value::Bytes(bytes) => Interface::plain(Address::of_bytes(bytes)?),
        other => {
            let text = other.as_str()?;
            match address(text) {
                Ok(address) => Interface::plain(address),
                Err(_) => interface(text).ok()?,
            }
        }
    };
    (found.address.version() == version && matches_options(&found, options.unwrap_or_default()))
        .then(|| found.to_string())
}

fn matches_options(found: &Interface, options: &str) -> bool {
    let address = &found.address;
    options.split(',').map(str::trim).all(|option| match option {
        "global" | "public" => !address.is_private(),
        "link-local" | "linklocal" | "ll" | "link_local" => address.is_link_local(),
        "loopback" | "lo" => address.is_loopback(),
        "multicast" => address.is_multicast(),
        "private" => address.is_private(),
        "reserved" => address.is_reserved(),
        "site-local" | "sl" | "site_local" => address.is_site_local(),
        "unspecified" => address.is_unspecified(),
        // Salt ignores options that it does not know.
        _ => true,
    })
}

fn options_of(value: &Value) -> Result<Option<&str>, Error> {
    match value {
        Value::None => Ok(None),
        Value::Undefined(undefined) => Err(undefined.fail()),
        other => other.as_str().map(Some).ok_or_else(|| {
            Error::new(jinja::ErrorKind::Attribute, format!("'{}' object has no attribute 'split'", other.type_name()))
        }),
    }
}

/// Returns the address, or those of a list, that are of the version and pass the options; `None` for anything else.
fn of_version(value: &Value, version: u8, options: Option<&str>) -> Result<Value, Error> {
    let list = |items: &[Value]| {
        Value::list(items.iter().filter_map(|item| checked(item, version, options)).map(Value::from).collect())
    };
    Ok(match value {
        Value::List(items) => list(&items.to_vec()),
        Value::Tuple(items) => list(items),
        Value::Str(_) | Value::Markup(_) | Value::Bytes(_) => {
            checked(value, version, options).map_or(Value::None, Value::from)
        }
        Value::Undefined(undefined) => return Err(undefined.fail()),
        _ => Value::None,
    })
}

fn either(value: &Value, options: Option<&str>) -> Result<Value, Error> {
    let (four, six) = (of_version(value, 4, options)?, of_version(value, 6, options)?);
    Ok(match (four, six) {
        // Addresses of version 4 first, whatever their order in the list: Salt runs the filters one after the other.
        (Value::List(four), Value::List(six)) => Value::list([four.to_vec(), six.to_vec()].concat()),
        (Value::None, six) => six,
        (four, _) => four,
    })
}

fn filtered(
    call: &mut CallArgs,
    name: &str,
    of: fn(&Value, Option<&str>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let [value, options] = call.bind(name, [("value", None), ("options", Some(Value::None))])?;
    of(&value, options_of(&options)?)
}

pub fn ipaddr(call: &mut CallArgs) -> Result<Value, Error> {
    filtered(call, "ipaddr", either)
}

pub fn ipv4(call: &mut CallArgs) -> Result<Value, Error> {
    filtered(call, "ipv4", |value, options| of_version(value, 4, options))
}

pub fn ipv6(call: &mut CallArgs) -> Result<Value, Error> {
    filtered(call, "ipv6", |value, options| of_version(value, 6, options))
}

fn is_version(call: &mut CallArgs, name: &str, versions: &[u8]) -> Result<Value, Error> {
    let [value, options] = call.bind(name, [("ip_addr", None), ("options", Some(Value::None))])?;
    let options = options_of(&options)?;
    Ok(Value::Bool(versions.iter().any(|version| checked(&value, *version, options).is_some())))
}

pub fn is_ip(call: &mut CallArgs) -> Result<Value, Error> {
    is_version(call, "is_ip_filter", &[4, 6])
}

pub fn is_ipv4(call: &mut CallArgs) -> Result<Value, Error> {
    is_version(call, "is_ipv4_filter", &[4])
}

pub fn is_ipv6(call: &mut CallArgs) -> Result<Value, Error> {
    is_version(call, "is_ipv6_filter", &[6])
}

/// Puts brackets around addresses of version 6.
pub fn ipwrap(call: &mut CallArgs) -> Result<Value, Error> {
    let [data] = call.bind("ipwrap", [("data", None)])?;
    let wrapped = |value: &Value| match (checked(value, 6, None), value.as_str()) {
        (Some(_), Some(text)) => Value::from(bracketed(text)),
        _ => value.clone(),
    };
    Ok(match &data {
        Value::List(items) => Value::list(items.to_vec().iter().map(wrapped).collect()),
        Value::Tuple(items) => Value::list(items.iter().map(wrapped).collect()),
        single => wrapped(single),
    })
}

fn bracketed(text: &str) -> String {
    let bare = text.strip_prefix('[').unwrap_or(text);
    format!("[{}]", bare.strip_suffix(']').unwrap_or(bare))
}

/// Applies `make` to each address that passes; `None` when none does.
fn each(call: &mut CallArgs, name: &str, make: fn(&str) -> Result<Value, Error>) -> Result<Value, Error> {
    let params = [("value", None), ("options", Some(Value::None)), ("version", Some(Value::None))];
    let [value, options, version] = call.bind(name, params)?;
    let options = options_of(&options)?;
    let found = match version.as_i64() {
        Some(4) => of_version(&value, 4, options)?,
        Some(6) => of_version(&value, 6, options)?,
        Some(0) | None => either(&value, options)?,
        Some(_) => Value::None,
    };
    let texts: Vec<String> = match &found {
        Value::List(items) => items.to_vec().iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        single => single.as_str().map(str::to_owned).into_iter().collect(),
    };
    let Some(first) = texts.first() else { return Ok(Value::None) };
    if !matches!(value, Value::List(_) | Value::Tuple(_)) {
        return make(first);
    }
    texts.iter().map(|text| make(text)).collect::<Result<Vec<_>, _>>().map(Value::list)
}

pub fn ip_host(call: &mut CallArgs) -> Result<Value, Error> {
    each(call, "ip_host", |text| {
        let found = interface(text).map_err(Error::value_error)?;
        Ok(Value::from(format!("{}/{}", found.address, found.prefix)))
    })
}

pub fn network_size(call: &mut CallArgs) -> Result<Value, Error> {
    each(call, "network_size", |text| {
        let network = network(text, false).map_err(Error::value_error)?;
        Ok(Value::int(BigInt::from(1) << (network.address.bits() - network.prefix)))
    })
}

pub fn network_hosts(call: &mut CallArgs) -> Result<Value, Error> {
    each(call, "network_hosts", |text| {
        let network = network(text, false).map_err(Error::value_error)?;
        let (first, last) = network.hosts();
        // A network of version 6 has more hosts than memory.
        if last - first >= MAX_HOSTS {
            return Err(super::too_many());
        }
        Ok(Value::list((first..=last).map(|number| Value::from(network.address.with(number).to_string())).collect()))
    })
}

pub fn filter_by_networks(call: &mut CallArgs) -> Result<Value, Error> {
    let [values, networks] = call.bind("filter_by_networks", [("values", None), ("networks", None)])?;
    if networks.is_none() {
        return Ok(values);
    }
    let mut known = Vec::new();
    for text in jinja::python::to_vec(call.state, &networks)? {
        let text = python_str(call.state, &text)?;
        known.push(network(&text, true).map_err(Error::value_error)?);
    }
    let inside = |call: &mut CallArgs, list: &Value| -> Result<Value, Error> {
        let mut found = Vec::new();
        for item in jinja::python::to_vec(call.state, list)? {
            let text = python_str(call.state, &item)?;
            let address = address(&text).map_err(Error::value_error)?;
            // An address in two of the networks is listed twice, as in Salt.
            let hits = known.iter().filter(|network| network.contains(&address)).count();
            found.extend(std::iter::repeat_n(item, hits));
        }
        Ok(Value::list(found))
    };
    match &values {
        Value::Dict(dict) => {
            let kept = jinja::Dict::new();
            for (name, list) in dict.entries() {
                kept.insert(jinja::Key::new(name)?, inside(call, &list)?);
            }
            Ok(Value::Dict(kept))
        }
        Value::List(_) | Value::Tuple(_) | Value::Str(_) | Value::Markup(_) => inside(call, &values),
        Value::Undefined(undefined) => Err(undefined.fail()),
        other => Err(Error::value_error(format!("Do not know how to filter a {}", class(other)))),
    }
}
