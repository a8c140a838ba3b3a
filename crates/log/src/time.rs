//! Local time as `strftime` writes it.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::libc;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns how long the log has been open.
pub(crate) fn since_start() -> Duration {
    START.elapsed()
}

/// Returns the time of day: seconds and nanoseconds since 1970.
pub(crate) fn now() -> (i64, u32) {
    // A clock before 1970 must not end the program.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() as i64, since.subsec_nanos())
}

/// Writes a time in the zone of the machine; a format that gives nothing, or too much, gives an empty text.
#[expect(unsafe_code, reason = "the time zone of the machine is known to the C library alone")]
pub fn local(format: &str, seconds: i64) -> String {
    let Ok(format) = std::ffi::CString::new(format) else { return String::new() };
    let mut buffer = [0u8; 256];
    // SAFETY: a zeroed `tm` is valid, both calls write only into what they are given, within its size.
    let written = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut parts).is_null() {
            return String::new();
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    String::from_utf8_lossy(&buffer[..written]).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_written() {
        assert_eq!(super::local("%Y", 1_700_000_000), "2023");
        assert_eq!(super::local("%Y-%m-%d %H:%M:%S", 1_700_000_000).len(), 19);
        assert_eq!(super::local("", 0), "");
    }
}
