//! The logged in users.

use std::path::Path;

use exec::{Context, Error, Result, function};
use value::{Map, Value, map};

/// The file of the logins (utmp(5)).
const NOTES: &str = "/var/run/utmp";

/// Returns the users who are logged in.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' ps.get_users
#[function]
fn get_users(ctx: &Context) -> Result<Vec<Map>> {
    let read = || match std::fs::read(NOTES) {
        Ok(bytes) => Ok(logins(&bytes)),
        Err(_) if !Path::new(NOTES).exists() => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", NOTES, &error)),
    };
    ctx.blocking(read)
}

/// The size of a record, and where the time of the login is in it. glibc has 64-bit fields on newer architectures.
const LAYOUT: (usize, usize) =
    if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) { (400, 344) } else { (384, 340) };
/// The kind of record that is a login.
const USER_PROCESS: u16 = 7;

fn logins(notes: &[u8]) -> Vec<Map> {
    notes.chunks_exact(LAYOUT.0).filter_map(login).collect()
}

fn login(record: &[u8]) -> Option<Map> {
    let number = |place: usize| Some(u32::from_ne_bytes(record.get(place..place + 4)?.try_into().ok()?));
    let text = |place: usize, size: usize| {
        let bytes = record.get(place..place + size)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(size);
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    if u16::from_ne_bytes(record.get(..2)?.try_into().ok()?) != USER_PROCESS {
        return None;
    }
    let (terminal, host) = (text(8, 32)?, text(76, 256)?);
    let shown = |text: String| if text.is_empty() { Value::Null } else { text.into() };
    Some(map! {
        "name" => text(44, 32)?,
        "terminal" => shown(terminal),
        // Users at the machine's own screen.
        "host" => if host == ":0" || host == ":0.0" { "localhost".into() } else { Value::from(host) },
        "started" => f64::from(number(LAYOUT.1)?),
        "pid" => number(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logins_count() {
        let mut record = vec![0; LAYOUT.0];
        record[..2].copy_from_slice(&USER_PROCESS.to_ne_bytes());
        record[4..8].copy_from_slice(&77u32.to_ne_bytes());
        record[8..13].copy_from_slice(b"pts/0");
        record[44..47].copy_from_slice(b"ann");
        record[76..78].copy_from_slice(b":0");
        record[LAYOUT.1..LAYOUT.1 + 4].copy_from_slice(&1_700_000_000u32.to_ne_bytes());
        let mut boot = vec![0; LAYOUT.0];
        boot[0] = 2;
        let found = logins(&[boot, record, vec![7; 9]].concat());
        let expected = map! {
            "name" => "ann", "terminal" => "pts/0", "host" => "localhost", "started" => 1_700_000_000.0, "pid" => 77,
        };
        assert_eq!(found, [expected]);
    }
}
