//! The name of the machine, and the buffers of its cards.

use std::path::Path;

use exec::{Call, Context, Error, KwArgs, Result, VarArgs, function};
use value::{Map, Value, map};

use crate::util;

const ETHTOOL: &str = "/sbin/ethtool";

fn run(ctx: &Context, words: &[&str]) -> Result<Map> {
    let words: Value = words.iter().copied().collect();
    let call = Call { args: vec![words], kwargs: map! { "python_shell" => false } };
    Ok(ctx.call_with("cmd.run_all", call)?.into_map().unwrap_or_default())
}

fn text(said: &Map, name: &str) -> String {
    said.get(name).map(Value::to_string).unwrap_or_default()
}

/// Returns the sizes of the buffers of a card.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.get_bufsize eth0
#[function]
pub fn get_bufsize(ctx: &Context, iface: String) -> Result<Map> {
    if !Path::new(ETHTOOL).exists() {
        return Ok(Map::new());
    }
    let said = run(ctx, &[ETHTOOL, "-g", &iface])?;
    let said = text(&said, "stdout") + &text(&said, "stderr");
    Ok(buffers(&said))
}

fn buffers(said: &str) -> Map {
    let mut found = map! { "result" => false };
    // Salt's suffix before the first heading, where no number is expected.
    let mut suffix = "max-";
    for line in said.lines() {
        let number = line.split_once(':').and_then(|(name, value)| Some((name, value.trim().parse::<i64>().ok()?)));
        match number {
            Some((name, number)) => {
                found.insert(format!("{}{suffix}", name.to_lowercase().replace(' ', "-")), number);
                found.insert("result", true);
            }
            None if line.ends_with("maximums:") => suffix = "-max",
            None if line.ends_with("settings:") => suffix = "",
            None => {}
        }
    }
    // Nothing was read, so the output is an error message.
    if found.len() == 1 {
        found.insert("comment", said.trim());
    }
    found
}

/// Sets the sizes of the buffers of a card.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.mod_bufsize tx=<val> rx=<val> rx-mini=<val> rx-jumbo=<val>
#[function]
pub fn mod_bufsize(ctx: &Context, iface: String, args: VarArgs, kwargs: KwArgs) -> Result<Value> {
    if !Path::new(ETHTOOL).exists() {
        return Ok(false.into());
    }
    let told = |result: bool, comment: String| Ok(Value::from(map! { "result" => result, "comment" => comment }));
    if !args.0.is_empty() {
        let names: Vec<String> = args.0.iter().map(Value::to_string).collect();
        return told(false, format!("Unknown arguments: {}", names.join(" ")));
    }
    let mut words = Vec::new();
    for name in ["rx", "tx", "rx-mini", "rx-jumbo"] {
        if let Some(value) = kwargs.0.get(name).filter(|value| !value.is_null()) {
            words.extend([name.to_owned(), value.to_string()]);
        }
    }
    if words.is_empty() {
        return told(false, "Requires rx=<val> tx==<val> rx-mini=<val> and/or rx-jumbo=<val>".into());
    }
    let all: Vec<&str> = [ETHTOOL, "-G", &iface].into_iter().chain(words.iter().map(String::as_str)).collect();
    let said = run(ctx, &all)?;
    let said = text(&said, "stdout") + &text(&said, "stderr");
    if said.is_empty() { told(true, words.join(" ")) } else { told(false, said) }
}

/// Changes the host name, also in ``/etc/hosts``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.mod_hostname master.saltstack.com
#[function]
pub fn mod_hostname(ctx: &Context, hostname: Value) -> Result<bool> {
    if hostname.is_null() {
        return Ok(false);
    }
    let hostname = hostname.to_string();
    // The name goes to a program and into files that the system reads at boot.
    if hostname.is_empty() || super::probes::sanitized(&hostname) != hostname {
        return Err(Error::execution(format!("{hostname:?} is not the name of a machine")));
    }
    let old = match util::which("hostnamectl") {
        Some(_) => {
            // The static name is what /etc/hosts has; the kernel's may come from DHCP.
            let said = run(ctx, &["hostnamectl", "status"])?;
            let named =
                said.get("retcode").is_some_and(|code| !code.truthy()).then(|| static_name(&text(&said, "stdout")));
            let set = run(ctx, &["hostnamectl", "set-hostname", &hostname])?;
            if set.get("retcode").is_none_or(Value::truthy) {
                return Ok(false);
            }
            named.flatten().unwrap_or_else(super::hostname)
        }
        None => {
            let old = super::hostname();
            run(ctx, &["hostname", &hostname])?;
            old
        }
    };
    let hosts = Path::new("/etc/hosts");
    let before = std::fs::read_to_string(hosts).map_err(|error| Error::io("read", hosts, &error))?;
    // Without a line in /etc/hosts the machine could not resolve its own new name.
    let after = renamed(&before, &old, &hostname);
    replace(hosts, &after)?;
    remember(ctx.grains.get_str("os_family"), &hostname)?;
    Ok(true)
}

fn replace(path: &Path, text: &str) -> Result<()> {
    util::replace_file(path, text.as_bytes(), 0o644).map_err(|error| Error::io("write", path, &error))
}

/// Writes the name where the family of the machine looks for it when it starts.
fn remember(family: Option<&str>, hostname: &str) -> Result<()> {
    match family {
        Some("Debian") => replace(Path::new("/etc/hostname"), &format!("{hostname}\n")),
        Some("RedHat") => {
            let path = Path::new("/etc/sysconfig/network");
            if !path.is_file() {
                return Ok(());
            }
            let before = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
            replace(path, &with_name(&before, hostname))
        }
        _ => Ok(()),
    }
}

/// Settings with another name of the machine, in the quotes it had.
fn with_name(settings: &str, hostname: &str) -> String {
    let line = |line: &str| match line.strip_prefix("HOSTNAME").and_then(|rest| rest.split_once('=')) {
        Some((_, old)) => {
            // Quotes stay as the administrator wrote them.
            let first = old.get(..1).filter(|quote| matches!(*quote, "'" | "\"")).unwrap_or_default();
            let quote = if old.len() > 1 && old.trim_end().ends_with(first) { first } else { "" };
            format!("HOSTNAME={quote}{hostname}{quote}\n")
        }
        None => format!("{line}\n"),
    };
    settings.lines().map(line).collect()
}

fn static_name(status: &str) -> Option<String> {
    let line = status.lines().find(|line| line.contains("Static hostname"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

/// Puts a new name in the place of the old one; lines without it stay as they are.
fn renamed(hosts: &str, old: &str, new: &str) -> String {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.iter().position(|word| *word == old).filter(|_| !line.trim_start().starts_with('#')) {
            Some(place) => {
                let mut words = words.clone();
                words[place] = new;
                words.join("\t") + "\n"
            }
            None => format!("{line}\n"),
        }
    };
    hosts.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_takes_the_place_of_the_old_one() {
        let hosts = "# old\n127.0.0.1 localhost\n127.0.1.1  old.example old\n";
        assert_eq!(renamed(hosts, "old", "new"), "# old\n127.0.0.1 localhost\n127.0.1.1\told.example\tnew\n");
        assert_eq!(static_name("   Static hostname: a.b\n   Icon name: x\n").as_deref(), Some("a.b"));
    }

    #[test]
    fn the_settings_of_red_hat_keep_their_quotes() {
        assert_eq!(with_name("A=b\nHOSTNAME=\"old\"\n", "new"), "A=b\nHOSTNAME=\"new\"\n");
        assert_eq!(with_name("HOSTNAME=old\nA=b\n", "new.x"), "HOSTNAME=new.x\nA=b\n");
    }

    #[test]
    fn buffers_are_read() {
        let said = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\t0\nCurrent hardware settings:\nTX:\t256\n";
        let expected = map! { "result" => true, "rx-max" => 4096, "rx-mini-max" => 0, "tx" => 256 };
        assert_eq!(buffers(said), expected);
        assert_eq!(buffers("no device\n"), map! { "result" => false, "comment" => "no device" });
    }
}
