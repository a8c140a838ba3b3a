//! `--version` and `--versions-report`.

use crate::args::Program;

/// The release of Salt that Saltern behaves like. Tools compare it with their requirements.
pub const SALT: &str = "3008.5";

/// The version of Saltern.
pub const SALTERN: &str = env!("CARGO_PKG_VERSION");

/// Returns the line of `--version`.
///
/// It has the form of Salt's line, `salt 3008.5 (Argon)`. The second word is the release for tools to rely on; the
/// program's own name is in the place of the release's name.
pub fn line(program: Program) -> String {
    format!("{} {SALT} (Saltern {SALTERN})", program.name())
}

/// Returns the text of `--versions-report`, in the layout of Salt's.
pub fn report() -> String {
    let sections = [
        ("Salt Version", vec![("Salt", format!("{SALT} (Saltern {SALTERN})"))]),
        ("Saltern Version", vec![("Saltern", SALTERN.to_owned())]),
        ("System Versions", system()),
    ];
    let texts = sections.map(|(title, entries)| {
        let lines: Vec<String> = entries.iter().map(|(name, value)| format!("{name:>14}: {value}\n")).collect();
        format!("{title}:\n{}", lines.concat())
    });
    texts.join(" \n") + " "
}

fn system() -> Vec<(&'static str, String)> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let field = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let mut entries = vec![("dist", format!("{} {} {}", field("ID"), field("VERSION_ID"), field("VERSION_CODENAME")))];
    if let Ok(name) = nix::sys::utsname::uname() {
        entries.push(("machine", name.machine().to_string_lossy().into_owned()));
        entries.push(("release", name.release().to_string_lossy().into_owned()));
        entries.push(("system", name.sysname().to_string_lossy().into_owned()));
    }
    entries.push(("version", field("PRETTY_NAME")));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_is_a_release_of_salt() {
        assert_eq!(line(Program::SaltKey).split(' ').nth(1), Some("3008.5"));
        assert!(report().starts_with("Salt Version:\n          Salt: 3008.5"));
    }
}
