//! `dig` — what name servers say, asked through the program of that name.

use std::net::IpAddr;

use exec::{Call, Context, Function, Module, Result, function};
use value::{Map, Value, list, map};

/// Registers the functions of `dig`.
pub static MODULE: Module = Module::new(
    "dig",
    "Functions that ask name servers.",
    &[
        &A,
        &AAAA,
        &CNAME,
        &MX,
        &NS,
        &PTR,
        &SPF,
        &TXT,
        &LOWER_A,
        &LOWER_AAAA,
        &CHECK_IP,
        &LOWER_CNAME,
        &LOWER_MX,
        &LOWER_NS,
        &LOWER_PTR,
        &LOWER_SPF,
    ],
)
.only_if(|_| match crate::util::which("dig") {
    Some(_) => Ok(()),
    None => Err("The dig execution module cannot be loaded: the dig binary is not in the path.".into()),
});

/// The maximum number of SPF records that are followed for one question.
const SENDERS: usize = 50;

/// Runs `dig +short` and returns its output; `None` when it fails.
fn dig_short(ctx: &Context, words: &[&str], nameserver: Option<&str>) -> Result<Option<String>> {
    let server = nameserver.map(|name| format!("@{name}"));
    let command: Value =
        ["dig", "+short"].iter().copied().chain(words.iter().copied()).chain(server.as_deref()).collect();
    let call = Call { args: vec![command], kwargs: map! { "python_shell" => false } };
    let outcome: Map = ctx.call_with("cmd.run_all", call)?.into_map().unwrap_or_default();
    let code = outcome.get("retcode").and_then(Value::as_i64).unwrap_or(1);
    if code != 0 {
        // A server that does not answer is not an error in Salt: callers get an empty list.
        tracing::warn!("dig returned exit code '{code}'. Returning empty list as fallback.");
        return Ok(None);
    }
    Ok(Some(outcome.get("stdout").map(Value::to_string).unwrap_or_default()))
}

/// Runs `dig +short` and returns the lines of its output.
fn lines(ctx: &Context, words: &[&str], nameserver: Option<&str>) -> Result<Vec<String>> {
    let said = dig_short(ctx, words, nameserver)?;
    // An empty answer gives a list with one empty text, as `str.split` does.
    Ok(said.map(|text| text.split('\n').map(str::to_owned).collect()).unwrap_or_default())
}

/// Returns whether a text is an address, or a network with a plausible prefix length.
fn is_address(text: &str) -> bool {
    let (ip, length) = match text.rsplit_once('/') {
        Some((ip, length)) => (ip, Some(length.trim().parse::<u8>())),
        None => (text, None),
    };
    match (ip.parse::<IpAddr>(), length) {
        (Err(_), _) | (_, Some(Err(_))) => false,
        (Ok(_), None) => true,
        (Ok(IpAddr::V4(_)), Some(Ok(length))) => (1..=32).contains(&length),
        // Networks shorter than /8 count as mistakes in Salt.
        (Ok(IpAddr::V6(_)), Some(Ok(length))) => (8..=128).contains(&length),
    }
}

/// The addresses among the lines of an answer.
fn addresses(ctx: &Context, host: &str, kind: &str, nameserver: Option<&str>) -> Result<Vec<String>> {
    let mut found = lines(ctx, &[host, kind], nameserver)?;
    // `dig +short` prints the aliases on the way too.
    found.retain(|line| is_address(line));
    Ok(found)
}

fn name_servers(ctx: &Context, domain: &str, resolve: bool, nameserver: Option<&str>) -> Result<Value> {
    let names = lines(ctx, &[domain, "NS"], nameserver)?;
    if !resolve {
        return Ok(names.into());
    }
    let mut found = Vec::new();
    for name in names {
        found.extend(addresses(ctx, &name, "A", nameserver)?);
    }
    Ok(found.into())
}

fn mail_servers(ctx: &Context, domain: &str, resolve: bool, nameserver: Option<&str>) -> Result<Value> {
    let mut found = Vec::new();
    for line in lines(ctx, &[domain, "MX"], nameserver)? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [preference, name, ..] if resolve => {
                // Salt keeps the first address only.
                let address = addresses(ctx, name, "A", nameserver)?.into_iter().next();
                found.push(list![preference, address.unwrap_or_default()]);
            }
            _ => found.push(words.into()),
        }
    }
    Ok(Value::List(found))
}

/// Returns an SPF record without quotes. For a domain without a record of type SPF, the TXT records are queried.
fn sender_record(ctx: &Context, domain: &str, record: &str, server: Option<&str>) -> Result<Option<String>> {
    let own = dig_short(ctx, &[domain, record], server)?;
    let text = match own {
        // The record type SPF was given up in RFC 7208; nearly all domains have a TXT record instead.
        Some(text) if text.is_empty() && record == "SPF" => dig_short(ctx, &[domain, "TXT"], server)?,
        other => other,
    };
    Ok(text.map(|text| text.replace('"', "")))
}

/// Follows the SPF records of a domain and of those it includes, in the order they are named.
fn senders(ctx: &Context, domain: &str, record: &str, server: Option<&str>) -> Result<Value> {
    let mut found = Vec::new();
    // The records left to query; the last one is the next.
    let mut waiting = vec![Sender::Domain(domain.to_owned(), record.to_owned())];
    let mut asked = 0;
    while let Some(next) = waiting.pop() {
        let (domain, record) = match next {
            Sender::Address(address) => {
                found.push(address);
                continue;
            }
            Sender::Domain(domain, record) => (domain, record),
        };
        asked += 1;
        // Records can include each other in a circle, and their owners decide that.
        if asked > SENDERS {
            tracing::warn!("the records of senders of {domain} include more than {SENDERS} others, which are left out");
            break;
        }
        if let Some(text) = sender_record(ctx, &domain, &record, server)? {
            waiting.extend(named_by(&text).into_iter().rev());
        }
    }
    Ok(found.into())
}

/// A sender that a record names.
#[derive(Debug, PartialEq)]
enum Sender {
    Address(String),
    /// A domain, and the type of record to ask it for.
    Domain(String, String),
}

fn named_by(text: &str) -> Vec<Sender> {
    let sections: Vec<&str> = text.split_whitespace().collect();
    // A domain may have TXT records for other purposes; without the version the text is not a sender record.
    let ["v=spf1", first, ..] = sections[..] else { return Vec::new() };
    let domain = |name: &str| Sender::Domain(name.to_owned(), "SPF".to_owned());
    // Salt looks for it in this place only, where most domains write it.
    if let Some(other) = first.strip_prefix("redirect=") {
        return vec![domain(other)];
    }
    let read = |section: &&str| {
        // Salt's pattern knows these two prefixes only; a section with `-` or `?` does not match it.
        let section = section.strip_prefix(['+', '~']).unwrap_or(section);
        match section.split_once(':')? {
            ("include", name) if !name.is_empty() => Some(domain(name)),
            ("ip4" | "ip6", address) if is_address(address) => Some(Sender::Address(address.to_owned())),
            _ => None,
        }
    };
    sections[1..].iter().filter_map(read).collect()
}

/// Returns whether a text is an address or a network.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.check_ip 127.0.0.1
///     salt ns1 dig.check_ip 1111:2222:3333:4444:5555:6666:7777:8888
#[function]
fn check_ip(addr: Value) -> Result<bool> {
    Ok(addr.as_str().is_some_and(is_address))
}

/// Returns the IPv4 addresses of a machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.A www.google.com
#[function(name = "A")]
fn a(ctx: &Context, host: Value, nameserver: Option<String>) -> Result<Value> {
    Ok(addresses(ctx, &host.to_string(), "A", nameserver.as_deref())?.into())
}

/// Returns the IPv6 addresses of a machine.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.AAAA www.google.com
#[function(name = "AAAA")]
fn aaaa(ctx: &Context, host: Value, nameserver: Option<String>) -> Result<Value> {
    Ok(addresses(ctx, &host.to_string(), "AAAA", nameserver.as_deref())?.into())
}

/// Returns the names of an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.PTR 1.2.3.4
#[function(name = "PTR")]
fn ptr(ctx: &Context, host: Value, nameserver: Option<String>) -> Result<Value> {
    Ok(lines(ctx, &["-x", &host.to_string()], nameserver.as_deref())?.into())
}

/// Returns the canonical name of an alias (CNAME), as text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.CNAME mail.google.com
#[function(name = "CNAME")]
fn cname(ctx: &Context, host: Value, nameserver: Option<String>) -> Result<Value> {
    let found = dig_short(ctx, &[&host.to_string(), "CNAME"], nameserver.as_deref())?;
    Ok(found.map_or_else(|| list![], Value::from))
}

/// Returns the addresses of the name servers of a domain; with ``resolve=False`` their names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.NS google.com
#[function(name = "NS")]
fn ns(ctx: &Context, domain: Value, #[default(true)] resolve: bool, nameserver: Option<String>) -> Result<Value> {
    name_servers(ctx, &domain.to_string(), resolve, nameserver.as_deref())
}

/// Returns the mail servers of a domain with their preference; with ``resolve=True`` one address of each.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.MX google.com
#[function(name = "MX")]
fn mx(ctx: &Context, domain: Value, #[default(false)] resolve: bool, nameserver: Option<String>) -> Result<Value> {
    mail_servers(ctx, &domain.to_string(), resolve, nameserver.as_deref())
}

/// Returns the addresses that may send mail for a domain. Without an ``SPF`` record, the TXT records are queried.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.SPF google.com
#[function(name = "SPF")]
fn spf(ctx: &Context, domain: Value, #[default("SPF")] record: String, nameserver: Option<String>) -> Result<Value> {
    senders(ctx, &domain.to_string(), &record, nameserver.as_deref())
}

/// Returns the TXT records of a domain.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt ns1 dig.TXT google.com
#[function(name = "TXT")]
fn txt(ctx: &Context, host: Value, nameserver: Option<String>) -> Result<Value> {
    Ok(lines(ctx, &[&host.to_string(), "TXT"], nameserver.as_deref())?.into())
}

/// Defines aliases of functions with lower-case names.
macro_rules! in_small_letters {
    ($($small:ident $name:literal $of:ident $asked:literal;)*) => {$(
        static $small: Function = Function {
            name: $name,
            doc: concat!(
                "Does what ``dig.", stringify!($of), "`` does.\n\nCLI Example:\n\n.. code-block:: bash\n\n    salt ns1 dig.",
                $name, " ", $asked
            ),
            ..$of
        };
    )*};
}

in_small_letters! {
    LOWER_A "a" A "www.google.com";
    LOWER_AAAA "aaaa" AAAA "www.google.com";
    LOWER_PTR "ptr" PTR "1.2.3.4";
    LOWER_CNAME "cname" CNAME "mail.google.com";
    LOWER_NS "ns" NS "google.com";
    LOWER_MX "mx" MX "google.com";
    LOWER_SPF "spf" SPF "google.com";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_known() {
        for good in ["127.0.0.1", "10.0.0.0/8", "::1", "fe80::/10"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "a", "10.0.0.0/0", "10.0.0.0/33", "::/7", "::1/129", "1.2.3.4/x", "/8", "1.2.3"] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn records_of_senders_name_others() {
        let domain = |name: &str| Sender::Domain(name.into(), "SPF".into());
        let address = |text: &str| Sender::Address(text.into());
        let read = "v=spf1 ip4:1.2.3.0/24 +include:a.org a mx ~ip6:fe80::1 -ip4:9.9.9.9 ip4:x -all";
        assert_eq!(named_by(read), [address("1.2.3.0/24"), domain("a.org"), address("fe80::1")]);
        assert_eq!(named_by("v=spf1 redirect=b.org ip4:1.2.3.4"), [domain("b.org")]);
        assert_eq!(named_by("some text"), []);
        assert_eq!(named_by("v=spf1"), []);
    }
}
