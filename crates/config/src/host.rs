//! The names and addresses of this machine.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use nix::libc;

use crate::machine::Machine;

/// The real machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Machine for Host {
    fn hostname(&self) -> String {
        hostname()
    }

    fn fqdn(&self, hostname: &str) -> String {
        fqdn_of(hostname)
    }

    fn file(&self, path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn addresses(&self) -> Vec<String> {
        ipv4_addresses()
    }

    fn keep(&self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, text)?;
        // Readable by all whatever the umask: the name is no secret, and other programs of the machine need it.
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
    }
}

/// Returns the kernel's host name.
pub fn hostname() -> String {
    // A name that is not UTF-8 could not become an id.
    nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
}

/// Returns the name of the user of this process, or its number if it has no name.
pub fn current_user() -> String {
    let uid = nix::unistd::geteuid();
    nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Returns the fully qualified name of this machine, or its host name, as Python's `socket.getfqdn()` does.
pub fn fqdn() -> String {
    fqdn_of(&hostname())
}

/// Returns the first name with a dot that the hosts file or the resolver has for the address of a host name.
pub fn fqdn_of(hostname: &str) -> String {
    let names = names_of(hostname);
    // Python prefers the first name with a dot, and else takes the first one.
    let full = names.iter().find(|name| name.contains('.')).or(names.first());
    full.cloned().unwrap_or_else(|| hostname.to_owned())
}

fn names_of(hostname: &str) -> Vec<String> {
    let Some(address) = (hostname, 0).to_socket_addrs().ok().and_then(|mut found| found.next()) else {
        return Vec::new();
    };
    // The resolver returns only one name per address. Python's `gethostbyaddr` also sees the aliases of the hosts file,
    // and one of these may be the full name.
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let listed = hosts_names(&hosts, address.ip());
    if listed.is_empty() { reverse(address.ip()).into_iter().collect() } else { listed }
}

/// Returns the names of an address in the text of a hosts file, from the first line that has it.
fn hosts_names(text: &str, address: IpAddr) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    for mut words in lines {
        if words.next().and_then(|word| word.parse::<IpAddr>().ok()) == Some(address) {
            return words.map(str::to_owned).collect();
        }
    }
    Vec::new()
}

/// Looks up the name of an address.
pub fn reverse(address: IpAddr) -> Option<String> {
    let socket = nix::sys::socket::SockaddrStorage::from(std::net::SocketAddr::new(address, 0));
    let mut name = [0u8; libc::NI_MAXHOST as usize];
    #[expect(unsafe_code, reason = "the standard library has no reverse lookup")]
    // SAFETY: the address is valid for its length, the buffer for its own; the result is zero-terminated on success.
    let status = unsafe {
        use nix::sys::socket::SockaddrLike as _;
        libc::getnameinfo(
            socket.as_ptr(),
            socket.len(),
            name.as_mut_ptr().cast(),
            name.len() as libc::socklen_t,
            std::ptr::null_mut(),
            0,
            // Without this flag an address without a name would be returned as a text of digits, and become the id.
            libc::NI_NAMEREQD,
        )
    };
    if status != 0 {
        return None;
    }
    CStr::from_bytes_until_nul(&name).ok()?.to_str().ok().map(str::to_owned)
}

fn ipv4_addresses() -> Vec<String> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()));
    addresses.filter(|address| !address.is_loopback()).map(|address| address.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_names_an_address() {
        let text = "# x\n127.0.0.1 localhost\n10.0.0.5 web1.example.com web1 # main\n";
        assert_eq!(hosts_names(text, "10.0.0.5".parse().unwrap()), ["web1.example.com", "web1"]);
        assert!(hosts_names(text, "10.0.0.6".parse().unwrap()).is_empty());
    }
}
