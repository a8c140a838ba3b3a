//! The mode SELinux works in, now and after the next start.

use std::path::{Path, PathBuf};

use exec::{Context, Error, Result, function};
use regex::Regex;

const CONFIG: &str = "/etc/selinux/config";

fn control() -> Option<PathBuf> {
    // Very old kernels mount it at the root.
    ["/sys/fs/selinux", "/selinux"]
        .iter()
        .map(Path::new)
        .find(|path| path.join("enforce").is_file())
        .map(Path::to_owned)
}

fn running() -> &'static str {
    let mode = control().and_then(|path| std::fs::read_to_string(path.join("enforce")).ok());
    match mode.as_deref().map(|mode| mode.lines().next().unwrap_or_default().trim()) {
        None => "Disabled",
        Some("0") => "Permissive",
        Some(_) => "Enforcing",
    }
}

/// The mode a configuration sets, with a capital letter.
fn configured(text: &str) -> Option<String> {
    let mode = text.lines().find_map(|line| line.trim().strip_prefix("SELINUX="))?;
    let mut letters = mode.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    Some(format!("{first}{}", letters.as_str().to_lowercase()).trim_start().to_owned())
}

/// The configuration with another mode.
fn with_mode(text: &str, mode: &str) -> String {
    // Salt's pattern: it leaves `SELINUXTYPE` alone, and also a setting in the first line.
    let pattern = Regex::new(r"\nSELINUX=.*\n").expect("the pattern is constant");
    pattern.replace_all(text, format!("\nSELINUX={mode}\n")).into_owned()
}

/// Returns the directory that controls SELinux; None without SELinux.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.selinux_fs_path
#[function]
fn selinux_fs_path() -> Result<Option<String>> {
    Ok(control().map(|path| path.to_string_lossy().into_owned()))
}

/// Returns the mode: Enforcing, Permissive or Disabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.getenforce
#[function]
fn getenforce() -> Result<String> {
    Ok(running().into())
}

/// Returns the mode after the next reboot, as the configuration sets it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.getconfig
#[function]
fn getconfig() -> Result<Option<String>> {
    Ok(std::fs::read_to_string(CONFIG).ok().and_then(|text| configured(&text)))
}

/// Sets the mode, now and permanently, and returns it.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' selinux.setenforce enforcing
#[function]
fn setenforce(ctx: &Context, mode: String) -> Result<String> {
    let (number, word) = match mode.to_lowercase().as_str() {
        "enforcing" => ("1", "enforcing"),
        "permissive" => ("0", "permissive"),
        // SELinux cannot be disabled before the next reboot. Until then permissive is closest.
        "disabled" => ("0", "disabled"),
        _ => return Err(Error::invocation(format!("Invalid mode {mode}"))),
    };
    ctx.blocking(move || {
        if let Some(path) = control().filter(|_| running() != "Disabled") {
            let refused = |error| Error::execution(format!("Could not write SELinux enforce file: {error}"));
            std::fs::write(path.join("enforce"), number).map_err(refused)?;
        }
        let unread = |error| Error::execution(format!("Could not read SELinux config file: {error}"));
        let text = std::fs::read_to_string(CONFIG).map_err(unread)?;
        // Written in place, so that the file keeps its label.
        let unwritten = |error| Error::execution(format!("Could not write SELinux config file: {error}"));
        std::fs::write(CONFIG, with_mode(&text, word)).map_err(unwritten)?;
        Ok(running().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_read_and_changed() {
        let text = "# SELINUX= can take\n SELINUX=enforcing\nSELINUXTYPE=targeted\n";
        assert_eq!(configured(text).as_deref(), Some("Enforcing"));
        assert_eq!(configured("SELINUXTYPE=x\n"), None);
        let text = "# mode\nSELINUX=enforcing\nSELINUXTYPE=targeted\n";
        assert_eq!(with_mode(text, "disabled"), "# mode\nSELINUX=disabled\nSELINUXTYPE=targeted\n");
    }
}
