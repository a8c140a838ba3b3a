//! `hosts` — the file of host names.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Module, Result, function};
use value::{Map, Value, list, map};

use crate::util;

/// Registers the functions of `hosts`.
pub static MODULE: Module = Module::new(
    "hosts",
    "Functions that look at the file of host names and change it.",
    &[&ADD_HOST, &GET_ALIAS, &GET_IP, &HAS_PAIR, &LIST_HOSTS, &RM_HOST, &SET_COMMENT, &SET_HOST],
);

fn path(ctx: &Context) -> PathBuf {
    PathBuf::from(ctx.opt_str("hosts.file").unwrap_or("/etc/hosts"))
}

fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        // Salt creates the file when it is missing; here it appears with the first entry.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        done => done.map_err(|error| Error::io("read", path, &error)),
    }
}

fn store(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mode = std::fs::metadata(path).map_or(0o644, |meta| meta.mode() & 0o7777);
    // Some containers mount the file itself, so that it cannot be replaced.
    let done = util::replace_file(path, text.as_bytes(), mode).or_else(|_| std::fs::write(path, text));
    done.map_err(|error| Error::io("write", path, &error))
}

/// Splits a line into address, names and comment.
fn entry(line: &str) -> Option<(&str, Vec<&str>, Option<&str>)> {
    let line = line.trim();
    let (names, remark) =
        line.split_once('#').map_or((line, None), |(names, remark)| (names, Some(remark.trim_start())));
    let mut words = names.split_whitespace();
    Some((words.next()?, words.collect(), remark.filter(|remark| !remark.is_empty())))
}

/// Reads all entries by address. Whole-line comments get numbered keys.
fn parse(text: &str) -> Map {
    let mut hosts = Map::new();
    let mut remarks = 0;
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') {
            // Comments share the map with the addresses, so that the order of the file is kept when it is written.
            hosts.insert(format!("comment-{remarks}"), list![line]);
            remarks += 1;
            continue;
        }
        let Some((ip, names, remark)) = entry(line) else { continue };
        // An address on several lines is one entry with all names.
        let host = hosts.entry_or_insert_with(ip, || Value::Map(map! { "aliases" => list![] }));
        let Some(host) = host.as_map_mut() else { continue };
        if let Some(Value::List(aliases)) = host.get_mut("aliases") {
            aliases.extend(names.into_iter().map(Value::from));
        }
        host.extend(remark.map(|remark| ("comment", remark)));
    }
    hosts
}

fn aliases<'a>(hosts: &'a Map, ip: &str) -> &'a [Value] {
    hosts.get(ip).and_then(|host| host.get("aliases")?.as_list()).unwrap_or_default()
}

fn has(hosts: &Map, ip: &str, alias: &Value) -> bool {
    let known = aliases(hosts, ip);
    match alias {
        // An address without names has nothing, not even an empty list of names.
        Value::List(wanted) => !known.is_empty() && wanted.iter().all(|name| known.contains(name)),
        name => known.contains(name),
    }
}

fn write_out(hosts: &Map) -> String {
    let mut out = String::new();
    for (ip, host) in hosts.iter() {
        let line = match host {
            Value::List(remark) => remark.iter().map(Value::to_string).collect::<String>(),
            host => {
                let names: Vec<String> = host
                    .get("aliases")
                    .and_then(Value::as_list)
                    .unwrap_or_default()
                    .iter()
                    .map(Value::to_string)
                    .collect();
                let remark = host.get("comment").map_or_else(String::new, |remark| format!("\t\t# {remark}"));
                format!("{ip}\t\t{}{remark}", names.join(" "))
            }
        };
        out.push_str(&format!("{}\n", line.trim()));
    }
    out
}

fn hosts(ctx: &Context) -> Result<Map> {
    let path = path(ctx);
    ctx.blocking(move || read(&path).map(|text| parse(&text)))
}

/// Adds a name to an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.add_host <ip> <alias>
#[function]
fn add_host(ctx: &Context, ip: String, alias: String) -> Result<bool> {
    let path = path(ctx);
    ctx.blocking(move || {
        let mut hosts = parse(&read(&path)?);
        if has(&hosts, &ip, &alias.as_str().into()) {
            return Ok(true);
        }
        let host = hosts.entry_or_insert_with(ip, || Value::Map(map! { "aliases" => list![] }));
        if let Some(Value::List(names)) = host.as_map_mut().and_then(|host| host.get_mut("aliases")) {
            names.push(alias.into());
        }
        store(&path, &write_out(&hosts)).map(|()| true)
    })
}

/// Returns the names of an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.get_alias <ip addr>
#[function]
fn get_alias(ctx: &Context, ip: String) -> Result<Value> {
    Ok(Value::List(aliases(&hosts(ctx)?, &ip).to_vec()))
}

/// Returns the address of a name.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.get_ip <hostname>
#[function]
fn get_ip(ctx: &Context, host: String) -> Result<Value> {
    let hosts = hosts(ctx)?;
    let name = Value::from(host);
    let found = hosts.text_keys().find(|ip| aliases(&hosts, ip).contains(&name));
    Ok(Value::from(found.unwrap_or_default()))
}

/// Returns whether an address has a name, or all of several.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.has_pair <ip> <alias>
#[function]
fn has_pair(ctx: &Context, ip: String, alias: Value) -> Result<bool> {
    Ok(has(&hosts(ctx)?, &ip, &alias))
}

/// Returns all addresses with their names.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.list_hosts
#[function]
fn list_hosts(ctx: &Context) -> Result<Map> {
    hosts(ctx)
}

/// Removes a name from an address; an address without a name is removed, too.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.rm_host <ip> <alias>
#[function]
fn rm_host(ctx: &Context, ip: String, alias: String) -> Result<bool> {
    let path = path(ctx);
    ctx.blocking(move || {
        let text = read(&path)?;
        if !has(&parse(&text), &ip, &alias.as_str().into()) {
            return Ok(true);
        }
        let kept: String = text.lines().filter_map(|line| without(line, &ip, &alias)).map(|line| line + "\n").collect();
        store(&path, &kept).map(|()| true)
    })
}

/// Removes a name from a line; `None` if no name is left.
fn without(line: &str, ip: &str, alias: &str) -> Option<String> {
    // Other lines are copied to the letter: only the line of this address is written in Salt's form.
    let Some((address, names, remark)) = entry(line).filter(|(address, ..)| *address == ip) else {
        return Some(line.to_owned());
    };
    let names: Vec<&str> = names.into_iter().filter(|name| *name != alias).collect();
    let remark = remark.map_or_else(String::new, |remark| format!("# {remark}"));
    (!names.is_empty()).then(|| format!("{address}\t\t{} {remark}", names.join(" ")))
}

/// Sets the comment of an address.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.set_comment <ip> <comment>
#[function]
fn set_comment(ctx: &Context, ip: String, comment: String) -> Result<bool> {
    let path = path(ctx);
    ctx.blocking(move || {
        let mut hosts = parse(&read(&path)?);
        let Some(host) = hosts.get_mut(&ip).and_then(Value::as_map_mut) else { return Ok(false) };
        if host.insert("comment", comment.as_str()) == Some(comment.into()) {
            return Ok(true);
        }
        store(&path, &write_out(&hosts)).map(|()| true)
    })
}

/// Replaces the names of an address; without a name the address is removed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' hosts.set_host <ip> <alias>
#[function]
fn set_host(ctx: &Context, ip: String, alias: String, comment: Option<String>) -> Result<bool> {
    let path = path(ctx);
    ctx.blocking(move || {
        let remark = comment.filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!("\t\t# {text}"));
        // No name removes the address, which is the only way to do so.
        let line = if alias.trim().is_empty() { None } else { Some(format!("{ip}\t\t{alias}{remark}\n")) };
        let text = read(&path)?;
        store(&path, &with_host(&text, &ip, line)).map(|()| true)
    })
}

/// Replaces the first line of an address, and drops its others.
fn with_host(text: &str, ip: &str, mut line: Option<String>) -> String {
    let mut out = String::new();
    for old in text.lines() {
        match entry(old).filter(|(address, ..)| *address == ip) {
            // The first line of the address takes the new text; `take` leaves nothing for the others, which vanish.
            Some(_) => out.push_str(&line.take().unwrap_or_default()),
            None => out.push_str(&format!("{old}\n")),
        }
    }
    out + &line.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# top\n127.0.0.1 localhost lo # own\n\n127.0.0.1 vm\n::1 localhost\n";

    #[test]
    fn hosts_are_read_and_written() {
        let hosts = parse(TEXT);
        assert_eq!(hosts.get("comment-0"), Some(&list!["# top"]));
        assert_eq!(aliases(&hosts, "127.0.0.1"), list!["localhost", "lo", "vm"].as_list().unwrap());
        assert!(has(&hosts, "127.0.0.1", &list!["lo", "vm"]) && !has(&hosts, "::1", &"vm".into()));
        // The two lines of the address become one.
        assert_eq!(write_out(&hosts), "# top\n127.0.0.1\t\tlocalhost lo vm\t\t# own\n::1\t\tlocalhost\n");
    }

    #[test]
    fn lines_are_changed_in_place() {
        assert_eq!(without("127.0.0.1 a b # c", "127.0.0.1", "a").as_deref(), Some("127.0.0.1\t\tb # c"));
        // With its last name the line goes, too.
        assert_eq!(without("127.0.0.1 a", "127.0.0.1", "a"), None);
        assert_eq!(without("::1 a", "127.0.0.1", "a").as_deref(), Some("::1 a"));
        let changed = with_host(TEXT, "127.0.0.1", Some("127.0.0.1\t\tx\n".into()));
        assert_eq!(changed, "# top\n127.0.0.1\t\tx\n\n::1 localhost\n");
        assert!(
            with_host(TEXT, "10.0.0.1", Some("10.0.0.1\t\tx\n".into())).ends_with("::1 localhost\n10.0.0.1\t\tx\n")
        );
    }
}
