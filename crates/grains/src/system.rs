//! Calls into the C library that neither the standard library nor nix offers: names of addresses, and local time.

use std::ffi::{CStr, CString};
use std::net::IpAddr;

use nix::libc;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};

/// Returns the canonical name the resolver has for a host name.
pub fn canonical_name(host: &str) -> Option<String> {
    let host = CString::new(host).ok()?;
    let mut answer: *mut libc::addrinfo = std::ptr::null_mut();
    // Attributes cannot follow the comment that clippy wants next to the block.
    #[expect(unsafe_code, reason = "getaddrinfo has no safe wrapper that tells the canonical name")]
    // SAFETY: the hints are plain data with null pointers, the name ends with NUL, and the list is read only before
    // it is given back.
    unsafe {
        let mut hints: libc::addrinfo = std::mem::zeroed();
        hints.ai_flags = libc::AI_CANONNAME;
        hints.ai_socktype = libc::SOCK_STREAM;
        hints.ai_protocol = libc::IPPROTO_TCP;
        if libc::getaddrinfo(host.as_ptr(), std::ptr::null(), &hints, &mut answer) != 0 || answer.is_null() {
            return None;
        }
        let name = (*answer).ai_canonname;
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned());
        libc::freeaddrinfo(answer);
        name.filter(|name| !name.is_empty())
    }
}

/// Returns the name the resolver has for an address.
pub fn name_of(address: IpAddr) -> Option<String> {
    let socket = SockaddrStorage::from(std::net::SocketAddr::new(address, 0));
    let mut name = [0 as libc::c_char; libc::NI_MAXHOST as usize];
    #[expect(unsafe_code, reason = "getnameinfo has no safe wrapper")]
    // SAFETY: the address is valid for its length, and the buffer for the given length; it ends with NUL on success.
    unsafe {
        let length = name.len() as libc::socklen_t;
        let none = std::ptr::null_mut();
        let failed =
            libc::getnameinfo(socket.as_ptr(), socket.len(), name.as_mut_ptr(), length, none, 0, libc::NI_NAMEREQD);
        (failed == 0).then(|| CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Returns the short name of the current local time zone (`CET`, `CEST`).
pub fn zone_name() -> Option<String> {
    local_time(None).map(|time| time.zone)
}

/// A point in time in the local zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Full year.
    pub year: i32,
    /// Month, from one.
    pub month: i32,
    /// Day of the month, from one.
    pub day: i32,
    /// Hour, from zero.
    pub hour: i32,
    /// Minute, from zero.
    pub minute: i32,
    /// Second, from zero; 60 at a leap second.
    pub second: i32,
    /// Day of the week, Sunday is zero.
    pub weekday: i32,
    /// Seconds east of Greenwich.
    pub offset: i64,
    /// The short name of the zone.
    pub zone: String,
}

/// Returns seconds since 1970 (now, if not given) as local time.
pub fn local_time(seconds: Option<i64>) -> Option<LocalTime> {
    #[expect(unsafe_code, reason = "the local zone is known to the C library alone")]
    // SAFETY: both structures are owned here; the zone's name points into static data of the C library.
    unsafe {
        let now: libc::time_t = seconds.unwrap_or_else(|| libc::time(std::ptr::null_mut()));
        let mut local: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut local).is_null() {
            return None;
        }
        let zone = if local.tm_zone.is_null() { "" } else { CStr::from_ptr(local.tm_zone).to_str().unwrap_or("") };
        Some(LocalTime {
            year: local.tm_year + 1900,
            month: local.tm_mon + 1,
            day: local.tm_mday,
            hour: local.tm_hour,
            minute: local.tm_min,
            second: local.tm_sec,
            weekday: local.tm_wday,
            offset: local.tm_gmtoff,
            zone: zone.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_host_has_a_name() {
        assert!(canonical_name("localhost").is_some_and(|name| name.starts_with("local")));
        assert_eq!(canonical_name("no such\0host"), None);
    }

    #[test]
    fn local_time_agrees_with_its_offset() {
        let time = local_time(Some(86_400 * 365)).unwrap();
        assert!(time.year == 1971 || (time.year == 1970 && time.offset < 0), "{time:?}");
        assert!(!time.zone.is_empty());
    }
}
