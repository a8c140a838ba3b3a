//! The installed shells and interpreters.

use std::path::Path;
use std::time::Duration;

use exec::{Context, Error, Result};
use value::{Map, map};

use crate::subprocess::process::{self, Ended, Launch};
use crate::util;

/// The time limit for asking an interpreter for its version.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads the shells a file like `/etc/shells` names.
pub fn listed(path: &Path) -> Vec<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let lines = text.lines().map(str::trim);
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
        }
        Err(error) => {
            tracing::error!("failed to read {}: {error}", path.display());
            Vec::new()
        }
    }
}

/// A program, the command that prints its version, and the pattern that finds it.
struct ShellProbe {
    name: &'static str,
    pattern: &'static str,
    words: &'static [&'static str],
}

const KNOWN: [ShellProbe; 8] = [
    ShellProbe { name: "bash", pattern: r"(?i)version (\d\S*)", words: &["bash", "--version"] },
    ShellProbe { name: "perl", pattern: r"(?im)^(\d\S*)", words: &["perl", "-e", "printf \"%vd\\n\", $^V;"] },
    ShellProbe { name: "php", pattern: r"(?im)^PHP (\d\S*)", words: &["php", "-v"] },
    ShellProbe {
        name: "powershell",
        pattern: r"(?i)PSVersion\s+(\d\S*)",
        words: &["powershell", "-NonInteractive", "$PSVersionTable"],
    },
    ShellProbe { name: "python", pattern: r"(?im)^Python (\d\S*)", words: &["python", "-V"] },
    ShellProbe { name: "ruby", pattern: r"(?im)^ruby (\d\S*)", words: &["ruby", "-v"] },
    ShellProbe { name: "tcsh", pattern: r"(?im)^tcsh (\d\S*)", words: &["tcsh", "--version"] },
    ShellProbe { name: "zsh", pattern: r"(?im)^zsh (\d\S*)", words: &["zsh", "--version"] },
];

/// Asks a shell or interpreter for its version.
pub fn info(ctx: &Context, shell: &str) -> Result<Map> {
    let Some(known) = KNOWN.iter().find(|known| known.name == shell) else {
        let error = format!("Salt does not know how to get the version number for {shell}");
        return Ok(map! { "error" => error, "installed" => () });
    };
    let unable = |reason: &str| {
        let error = format!("Unable to run command '{}' Reason: {reason}", known.words.join(" "));
        map! { "error" => error, "installed" => false }
    };
    let words = known.words.iter().map(|word| (*word).to_owned()).collect();
    // Some interpreters print their version to stderr, Python 2 among them.
    let launch = Launch { words, cwd: "/".into(), env: std::env::vars().collect(), merge: true, ..Launch::default() };
    match process::run(ctx, &launch, Some(LIMIT)) {
        Ok(Ended::Exited { out, .. }) => shell_info(known, &String::from_utf8_lossy(&out)),
        Ok(Ended::TimedOut { .. }) => Ok(unable("Timed out.")),
        Err(failure) => Ok(unable(&failure.to_string())),
    }
}

fn shell_info(known: &ShellProbe, out: &str) -> Result<Map> {
    let path = util::which(known.words[0]).map(|path| path.to_string_lossy().into_owned());
    let pattern = regex::Regex::new(known.pattern).map_err(|error| Error::Other(error.to_string()))?;
    let raw = pattern.captures(out).map(|found| found[1].to_owned());
    let Some(raw) = raw else {
        let error = format!("The version regex pattern for shell {}, could not find the version string", known.name);
        tracing::error!("{error}");
        return Ok(map! { "installed" => (), "path" => path, "error" => error, "stdout" => out });
    };
    let digits = raw.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next().unwrap_or_default();
    // States compare the version with others, so it has at least two numbers and no suffix.
    let mut parts: Vec<&str> = digits.split('.').take(3).collect();
    if parts.len() == 1 {
        parts.push("0");
    }
    Ok(map! { "installed" => true, "path" => path, "version_raw" => &raw, "version" => parts.join(".") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_shells() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# valid\n\n/bin/sh\n /bin/bash \n").unwrap();
        assert_eq!(listed(file.path()), ["/bin/sh", "/bin/bash"]);
    }

    #[test]
    fn versions_are_cut_out_of_what_programs_say() {
        let version = |name: &str, out: &str| {
            let known = KNOWN.iter().find(|known| known.name == name).unwrap();
            shell_info(known, out).unwrap().get_str("version").map(str::to_owned)
        };
        assert_eq!(version("bash", "GNU bash, version 5.2.15(1)-release").as_deref(), Some("5.2.15"));
        assert_eq!(version("python", "Python 3.11.7").as_deref(), Some("3.11.7"));
        assert_eq!(version("zsh", "nothing of the kind"), None);
    }
}
