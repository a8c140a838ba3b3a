//! Trying to reach others.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use exec::{Context, Error, KwArgs, Result, function};
use value::{Map, Value, map};

use crate::{subprocess, util};

/// Keeps only those characters that a host name may contain, so that it is never taken for a flag or two words.
pub fn sanitized(host: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || ".-%:_".contains(*c);
    // The result is safe as an argument and in a shell. A leading dash would be an option.
    host.chars().filter(allowed).collect::<String>().trim_start_matches('-').to_owned()
}

/// Tries to connect to a port. ``proto`` is ``tcp`` or ``udp``, ``family`` ``ipv4`` or ``ipv6``, ``timeout`` in seconds.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.connect archlinux.org 80
#[function]
pub fn connect(ctx: &Context, host: Value, port: Option<u64>, kwargs: KwArgs) -> Result<Map> {
    let answer = |result: bool, comment: String| map! { "result" => result, "comment" => comment };
    let Some(host) = Some(host).filter(Value::truthy).map(|host| host.to_string()) else {
        return Ok(answer(false, "Required argument, host, is missing.".into()));
    };
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0) else {
        return Ok(answer(false, "Required argument, port, is missing.".into()));
    };
    let proto = if kwargs.0.get_str("proto") == Some("udp") { "udp" } else { "tcp" };
    let family = kwargs.0.get_str("family").unwrap_or_default().to_owned();
    // Bounded, since an infinite or negative number would panic in `Duration`.
    let seconds = kwargs.0.get("timeout").and_then(Value::as_f64).unwrap_or(5.0).clamp(0.0, 3600.0);
    let fits = move |ip: &IpAddr| match family.as_str() {
        "ipv4" => ip.is_ipv4(),
        "ipv6" => ip.is_ipv6(),
        _ => true,
    };
    let found = ctx.blocking(|| (sanitized(&host), port).to_socket_addrs()).ok();
    let Some(address) = found.and_then(|mut all| all.find(|address| fits(&address.ip()))) else {
        return Ok(answer(false, format!("Unable to resolve host {host} on {proto} port {port}")));
    };
    let limit = Duration::from_secs_f64(seconds);
    let reached = ctx.blocking(|| match proto {
        // UDP has no connection. Only an answer proves that a service listens, and most services do not answer rubbish.
        "udp" => udp_answers(address, limit),
        _ => !limit.is_zero() && TcpStream::connect_timeout(&address, limit).is_ok(),
    });
    let words = if reached { "Successfully connected to" } else { "Unable to connect to" };
    Ok(answer(reached, format!("{words} {host} ({}) on {proto} port {port}", address.ip())))
}

/// Returns whether anything comes back from a port.
fn udp_answers(address: SocketAddr, limit: Duration) -> bool {
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let asked = UdpSocket::bind(any).and_then(|socket| {
        socket.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        socket.send_to(b"saltern", address)?;
        socket.recv_from(&mut [0; 255])
    });
    asked.is_ok()
}

/// Queries a name server with the program ``dig``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.dig archlinux.org
#[function]
pub fn dig(ctx: &Context, host: String) -> Result<String> {
    util::needs(ctx, "dig")?;
    Ok(subprocess::quiet(ctx, &["dig", &sanitized(&host)])?.stdout.trim_end().to_owned())
}

/// Sends four echo requests to a host and returns the output of ``ping``, or whether it was reached.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.ping archlinux.org timeout=3 return_boolean=True
#[function]
pub fn ping(
    ctx: &Context,
    host: String,
    #[default(false)] timeout: Value,
    #[default(false)] return_boolean: bool,
) -> Result<Value> {
    let wait = if timeout.truthy() { format!("-W {timeout} ") } else { String::new() };
    let line = Value::from(format!("ping {wait}-c 4 {}", sanitized(&host)));
    if !return_boolean {
        return ctx.call("cmd.run", vec![line]);
    }
    let said = ctx.call("cmd.run_all", vec![line])?;
    Ok((said.get("retcode") == Some(&0.into())).into())
}

/// Traces the route to a host with the program ``traceroute``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.traceroute archlinux.org
#[function]
pub fn traceroute(ctx: &Context, host: String) -> Result<Value> {
    // traceroute waits for every hop that does not answer.
    let limit = Some(Duration::from_secs(120));
    util::needs(ctx, "traceroute")?;
    let said = subprocess::quiet_for(ctx, &["traceroute", &sanitized(&host)], limit)?;
    // The first line is a heading.
    Ok(said.stdout.lines().skip(1).filter(|line| line.contains(' ')).map(hop).collect())
}

/// Reads a line such as " 1  gw (192.0.2.1)  0.5 ms  0.4 ms  0.3 ms".
fn hop(line: &str) -> Map {
    // Two blanks separate the columns; a single one occurs inside them.
    let parts: Vec<&str> = line.trim().split("  ").collect();
    let count = parts[0].trim().parse::<i64>().unwrap_or(0);
    let time = |place: usize| parts.get(place)?.split_whitespace().next()?.parse::<f64>().ok();
    match (parts.get(1), time(2), time(3), time(4)) {
        (Some(&"* * *"), ..) => map! { "count" => count, "hostname" => "*" },
        (Some(host), Some(ms1), Some(ms2), Some(ms3)) => {
            let mut words = host.split_whitespace();
            let name = words.next().unwrap_or_default();
            let ip = words.next().unwrap_or_default().trim_matches(['(', ')']);
            map! { "count" => count, "hostname" => name, "ip" => ip, "ms1" => ms1, "ms2" => ms2, "ms3" => ms3 }
        }
        _ => Map::new(),
    }
}

/// Wakes up a machine through the network (Wake-on-LAN).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' network.wol 08-00-27-13-69-77
#[function]
pub fn wol(
    ctx: &Context,
    mac: String,
    #[default("255.255.255.255")] bcast: String,
    #[default(9)] destport: u64,
) -> Result<bool> {
    let packet = magic_packet(&mac).ok_or_else(|| Error::Other("Invalid MAC address".into()))?;
    let port = u16::try_from(destport).map_err(|_| Error::invocation(format!("{destport} is not a port")))?;
    ctx.blocking(move || {
        let sent = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.set_broadcast(true)?;
            socket.send_to(&packet, (bcast.as_str(), port))
        });
        sent.map(|_| true).map_err(|error| Error::Other(format!("failed to send to {bcast}: {error}")))
    })
}

/// Returns the packet of Wake-on-LAN: six times 0xff, then the address sixteen times.
fn magic_packet(mac: &str) -> Option<Vec<u8>> {
    let digits: String = mac.chars().filter(|c| !":-.".contains(*c)).collect();
    let address = hex::decode(digits).ok().filter(|address| address.len() == 6)?;
    Some([vec![0xff; 6], address.repeat(16)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_cannot_become_flags() {
        assert_eq!(sanitized("-c 9; rm x"), "c9rmx");
        assert_eq!(sanitized("fe80::1%eth0"), "fe80::1%eth0");
    }

    #[test]
    fn hops_are_read() {
        let expected =
            map! { "count" => 1, "hostname" => "gw", "ip" => "192.0.2.1", "ms1" => 0.5, "ms2" => 0.4, "ms3" => 0.3 };
        assert_eq!(hop(" 1  gw (192.0.2.1)  0.5 ms  0.4 ms  0.3 ms"), expected);
        assert_eq!(hop(" 2  * * *"), map! { "count" => 2, "hostname" => "*" });
        assert!(hop("garbage").is_empty());
    }

    #[test]
    fn machines_are_woken_by_their_address() {
        let packet = magic_packet("08-00-27-13-69-77").unwrap();
        assert_eq!(packet.len(), 102);
        assert_eq!(packet[6..12], [8, 0, 0x27, 0x13, 0x69, 0x77]);
        assert_eq!(magic_packet("08:00"), None);
    }

    #[test]
    fn connecting_tells_what_happened() {
        let (ctx, _) = exec::testing::context(&[&super::super::MODULE], map! {}, map! {}, map! {});
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = u64::from(listener.local_addr().unwrap().port());
        let found = connect(&ctx, "127.0.0.1".into(), Some(port), KwArgs::default()).unwrap();
        let text = format!("Successfully connected to 127.0.0.1 (127.0.0.1) on tcp port {port}");
        assert_eq!(found, map! { "result" => true, "comment" => text });
        drop(listener);
        let found = connect(&ctx, "127.0.0.1".into(), Some(port), KwArgs::default()).unwrap();
        assert_eq!(found.get("result"), Some(&Value::Bool(false)));
    }
}
