//! `dnsutil` — names of machines: in the hosts file, and by asking for them.

use std::net::{IpAddr, ToSocketAddrs};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, map};

/// Registers the functions of `dnsutil`.
pub static MODULE: Module = Module::new(
    "dnsutil",
    "Functions about names of machines.",
    &[&A, &AAAA, &MX, &NS, &SPF, &CHECK_IP, &HOSTS_APPEND, &HOSTS_REMOVE, &PARSE_HOSTS, &PARSE_ZONE, &SERIAL],
);

const NO_DIG: &str = "This function requires dig, which is not currently available";

fn has_dig() -> bool {
    crate::util::which("dig").is_some()
}

/// Calls a function of the module `dig`.
fn ask(ctx: &Context, name: &str, args: Vec<Value>) -> Result<Value> {
    // The text is the answer, not an error: Salt returns it so.
    if !has_dig() {
        return Ok(NO_DIG.into());
    }
    ctx.call(&format!("dig.{name}"), args)
}

fn addresses(
    ctx: &Context,
    host: String,
    nameserver: Option<String>,
    kind: &str,
    fits: fn(&IpAddr) -> bool,
) -> Result<Value> {
    if has_dig() {
        return ask(ctx, kind, vec![host.into(), nameserver.into()]);
    }
    // The resolver of the C library always asks the servers of this machine.
    if nameserver.is_some() {
        return Ok(NO_DIG.into());
    }
    let name = host.clone();
    let found = ctx.blocking(move || (name.as_str(), 0).to_socket_addrs().map(Iterator::collect::<Vec<_>>));
    let found: Vec<String> =
        found.unwrap_or_default().iter().map(|place| place.ip()).filter(fits).map(|ip| ip.to_string()).collect();
    if found.is_empty() { Ok(format!("Unable to resolve {host}").into()) } else { Ok(found.into()) }
}

/// Returns the IPv4 addresses of a machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.A www.google.com
#[function(name = "A")]
fn a(ctx: &Context, host: String, nameserver: Option<String>) -> Result<Value> {
    addresses(ctx, host, nameserver, "A", IpAddr::is_ipv4)
}

/// Returns the IPv6 addresses of a machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.AAAA www.google.com
#[function(name = "AAAA")]
fn aaaa(ctx: &Context, host: String, nameserver: Option<String>) -> Result<Value> {
    addresses(ctx, host, nameserver, "AAAA", IpAddr::is_ipv6)
}

/// Returns the name servers of a domain, or their addresses.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.NS google.com
#[function(name = "NS")]
fn ns(ctx: &Context, domain: String, #[default(true)] resolve: bool, nameserver: Option<String>) -> Result<Value> {
    ask(ctx, "NS", vec![domain.into(), resolve.into(), nameserver.into()])
}

/// Returns the mail servers of a domain with their preference; with ``resolve=True`` their addresses.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.MX google.com
#[function(name = "MX")]
fn mx(ctx: &Context, domain: String, #[default(false)] resolve: bool, nameserver: Option<String>) -> Result<Value> {
    ask(ctx, "MX", vec![domain.into(), resolve.into(), nameserver.into()])
}

/// Returns the addresses that may send mail for a domain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.SPF google.com
#[function(name = "SPF")]
fn spf(ctx: &Context, domain: String, #[default("SPF")] record: String, nameserver: Option<String>) -> Result<Value> {
    ask(ctx, "SPF", vec![domain.into(), record.into(), nameserver.into()])
}

/// Returns whether a text is an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.check_ip 127.0.0.1
#[function]
fn check_ip(ctx: &Context, ip_addr: Value) -> Result<Value> {
    ask(ctx, "check_ip", vec![ip_addr])
}

fn hosts_of(text: &str) -> Map {
    let mut found = Map::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(ip) = words.next() else { continue };
        if let Value::List(names) = found.entry_or_insert_with(ip, || Value::List(Vec::new())) {
            names.extend(words.map(Value::from));
        }
    }
    found
}

/// Returns the addresses of a hosts file, or of its text, with their names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' dnsutil.parse_hosts
#[function]
fn parse_hosts(#[default("/etc/hosts")] hostsfile: String, hosts: Option<String>) -> Result<Value> {
    let text = match hosts.filter(|hosts| !hosts.is_empty()) {
        Some(text) => text,
        None => match std::fs::read_to_string(&hostsfile) {
            Ok(text) => text,
            Err(_) => return Ok("Error: hosts data was not found".into()),
        },
    };
    Ok(hosts_of(&text).into())
}

/// Adds a line with an address and those of the names, separated by commas, that it does not have yet.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' dnsutil.hosts_append /etc/hosts 127.0.0.1 ad1.yuk.co,ad2.yuk.co
#[function]
fn hosts_append(
    #[default("/etc/hosts")] hostsfile: String,
    ip_addr: Option<String>,
    entries: Option<String>,
) -> Result<String> {
    use std::io::Write;
    let entries = entries.ok_or_else(|| Error::Other("no names are given".into()))?;
    // Salt writes the word when no address is given.
    let ip = ip_addr.unwrap_or_else(|| "None".into());
    let known = hosts_of(&std::fs::read_to_string(&hostsfile).unwrap_or_default());
    let has = |name: &str| {
        known
            .get(&ip)
            .and_then(Value::as_list)
            .is_some_and(|names| names.iter().any(|known| known.as_str() == Some(name)))
    };
    let new: Vec<&str> = entries.split(',').filter(|name| !has(name)).collect();
    if new.is_empty() {
        return Ok(format!("No additional hosts were added to {hostsfile}"));
    }
    // The break stands first because the file may not end with one.
    let line = format!("\n{ip} {}", new.join(" "));
    let failed = |error: std::io::Error| Error::io("write to", &hostsfile, &error);
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&hostsfile).map_err(failed)?;
    file.write_all(line.as_bytes()).map_err(failed)?;
    Ok(format!("The following line was added to {hostsfile}:{line}"))
}

/// Removes names, separated by commas, from a hosts file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' dnsutil.hosts_remove /etc/hosts ad1.yuk.co
#[function]
fn hosts_remove(#[default("/etc/hosts")] hostsfile: String, entries: Option<String>) -> Result<()> {
    let entries = entries.ok_or_else(|| Error::Other("no names are given".into()))?;
    let gone: Vec<&str> = entries.split(',').collect();
    let text = std::fs::read_to_string(&hostsfile).map_err(|error| Error::io("read", &hostsfile, &error))?;
    let mut out = String::new();
    for line in text.lines() {
        // Comments stay where they are; a line with names is written again with single blanks.
        if line.is_empty() || line.trim().starts_with('#') {
            out.push_str(&format!("{line}\n"));
            continue;
        }
        let mut words = line.split_whitespace();
        let ip = words.next().unwrap_or_default();
        let names: Vec<&str> = words.filter(|name| !gone.contains(name)).collect();
        // An address without a name would be an error for the resolver.
        if !names.is_empty() {
            out.push_str(&format!("{ip} {}\n", names.join(" ")));
        }
    }
    std::fs::write(&hostsfile, out).map_err(|error| Error::io("write", &hostsfile, &error))
}

/// Refused: zone files are for name servers.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.parse_zone /var/lib/named/example.com.zone
#[function]
fn parse_zone(zonefile: Option<String>, zone: Option<String>) -> Result<Value> {
    let read = zonefile.and_then(|path| std::fs::read_to_string(path).ok());
    match read.or(zone).filter(|text| !text.is_empty()) {
        None => Ok("Error: Zone data was not found".into()),
        Some(_) => Err(Error::execution("not supported: dnsutil.parse_zone")),
    }
}

/// Returns the serial number of a zone, made of the date; ``update=True`` increments it and stores it as a grain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dnsutil.serial example.com
#[function]
fn serial(ctx: &Context, #[default("")] zone: String, #[default(false)] update: bool) -> Result<Value> {
    let key = if zone.is_empty() { "dnsserial".to_owned() } else { format!("dnsserial_{zone}") };
    let stored = ctx.call("grains.get", vec![key.as_str().into()])?.to_string();
    // RFC 1912 advises the date and a counter of two digits for serial numbers.
    let today = ctx.call("status.time", vec!["%Y%m%d01".into()])?.to_string();
    if !update {
        return Ok(if stored.is_empty() { today.into() } else { stored.into() });
    }
    let next = match stored.parse::<u64>() {
        // Texts of ten digits compare as numbers would. A serial number must never go down.
        Ok(number) if stored >= today => (number + 1).to_string(),
        _ => today,
    };
    let call = exec::Call { args: Vec::new(), kwargs: map! { "key" => key, "val" => next.clone() } };
    ctx.call_with("grains.setval", call)?;
    Ok(next.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::list;

    #[test]
    fn the_hosts_file_is_read_and_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts").to_string_lossy().into_owned();
        std::fs::write(&path, "# hosts\n127.0.0.1 localhost me\n::1 localhost\n").unwrap();
        let added = hosts_append(path.clone(), Some("127.0.0.1".into()), Some("me,you".into())).unwrap();
        assert_eq!(added, format!("The following line was added to {path}:\n127.0.0.1 you"));
        let known = parse_hosts(path.clone(), None).unwrap();
        assert_eq!(known.get("127.0.0.1"), Some(&list!["localhost", "me", "you"]));
        hosts_remove(path.clone(), Some("localhost,you".into())).unwrap();
        // The line of an address that has no names left stays behind, empty.
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# hosts\n127.0.0.1 me\n\n");
    }
}
