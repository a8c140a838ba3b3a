//! `locale` — the system's locale, and locales that exist.

use std::path::Path;

use exec::{Context, Error, KwArgs, Module, Result, function};
use value::Value;

use crate::subprocess;
use crate::util;

/// Registers the functions of `locale`.
pub static MODULE: Module = Module::new(
    "locale",
    "Functions that look at the system's locale, and make locales.",
    &[&AVAIL, &GEN_LOCALE, &GET_LOCALE, &LIST_AVAIL, &SET_LOCALE],
);

/// A name such as `de_DE.UTF-8@euro UTF-8`, in parts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    language: String,
    territory: String,
    codeset: String,
    modifier: String,
    charmap: String,
}

impl Parts {
    fn of(name: &str) -> Parts {
        let cut = |text: &str, sign: char| match text.split_once(sign) {
            Some((before, behind)) => (before.to_owned(), behind.to_owned()),
            None => (text.to_owned(), String::new()),
        };
        let (name, charmap) = cut(name.trim(), ' ');
        let (name, modifier) = cut(&name, '@');
        let (name, codeset) = cut(&name, '.');
        let (language, territory) = cut(&name, '_');
        Parts { language, territory, codeset, modifier, charmap }
    }

    fn joined(&self) -> String {
        let mut text = self.language.clone();
        let parts = [('_', &self.territory), ('.', &self.codeset), ('@', &self.modifier), (' ', &self.charmap)];
        for (sign, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            text.push(sign);
            text.push_str(part);
        }
        text
    }

    /// Returns the name in the form used for comparison.
    fn normal(mut self) -> String {
        // `locale -a` prints `utf8` where people write `UTF-8`.
        self.codeset = self.codeset.to_lowercase().replace('-', "");
        self.charmap.clear();
        self.joined()
    }
}

fn list(ctx: &Context) -> Result<Vec<String>> {
    let said = subprocess::quiet(ctx, &["locale", "-a"])?;
    Ok(said.stdout.trim_end().lines().map(str::to_owned).collect())
}

/// Returns the locales that exist.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' locale.list_avail
#[function]
fn list_avail(ctx: &Context) -> Result<Value> {
    Ok(list(ctx)?.into())
}

/// Returns whether a locale exists.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' locale.avail 'en_US.UTF-8'
#[function]
fn avail(ctx: &Context, locale: String) -> Result<bool> {
    let wanted = Parts::of(&locale).normal();
    Ok(list(ctx)?.iter().any(|known| Parts::of(known).normal() == wanted))
}

/// Returns the file of the system's locale on systems without systemd, and its variable.
fn file(ctx: &Context) -> Result<(&'static str, &'static str)> {
    Ok(match ctx.grains.get_str("os_family").unwrap_or_default() {
        "Suse" => ("/etc/sysconfig/language", "RC_LANG"),
        "RedHat" => ("/etc/sysconfig/i18n", "LANG"),
        "Debian" => ("/etc/default/locale", "LANG"),
        "Arch" | "Alpine" => ("/etc/locale.conf", "LANG"),
        _ => return Err(Error::execution("Error: Unsupported platform!")),
    })
}

fn with_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// The value of a variable in a file.
fn value_in(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Sets a variable in a file.
fn with_value(text: &str, name: &str, value: &str) -> String {
    let own = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
    let new = format!("{name}=\"{value}\"");
    let mut lines: Vec<&str> = text.lines().map(|line| if own(line) { new.as_str() } else { line }).collect();
    if !lines.contains(&new.as_str()) {
        lines.push(&new);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Reads "System Locale: LANG=C" and the lines behind it.
fn localectl_lang(text: &str) -> Option<String> {
    // The first variable is on the line of the label, the others below it.
    let words = text.lines().flat_map(|line| line.split(": ")).map(str::trim);
    words.into_iter().find_map(|word| word.strip_prefix("LANG=")).map(|value| value.trim_matches('"').to_owned())
}

/// Returns the system's locale.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' locale.get_locale
#[function]
fn get_locale(ctx: &Context) -> Result<String> {
    if with_systemd() {
        if util::which("localectl").is_none() {
            return Err(Error::execution("Unable to find \"localectl\""));
        }
        let said = subprocess::quiet(ctx, &["localectl", "status"])?;
        // In a container systemd may be running without D-Bus; an empty answer would look like a system without a
        // locale.
        if said.stderr.contains("Failed to connect to bus") {
            return Err(Error::execution("Command \"localectl\" is in a degraded state."));
        }
        return Ok(localectl_lang(&said.stdout).unwrap_or_default());
    }
    let (path, name) = file(ctx)?;
    let text = ctx.blocking(move || std::fs::read_to_string(path).unwrap_or_default());
    Ok(value_in(&text, name).unwrap_or_default())
}

/// Sets the system's locale.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' locale.set_locale 'en_US.UTF-8'
#[function]
fn set_locale(ctx: &Context, locale: String) -> Result<bool> {
    // From Debian 13 on localectl refuses, and update-locale must be used.
    let new_debian = ctx.grains.get_str("os_family") == Some("Debian")
        && ctx.grains.get("osmajorrelease").and_then(Value::as_i64).is_some_and(|release| release >= 13);
    if with_systemd() && !new_debian && util::which("localectl").is_some() {
        let said = subprocess::quiet(ctx, &["localectl", "set-locale", &format!("LANG={locale}")])?;
        if said.retcode == Some(0) {
            return Ok(true);
        }
        return write(ctx, "/etc/locale.conf", "LANG", locale);
    }
    let (path, name) = file(ctx)?;
    if path == "/etc/default/locale" {
        if util::which("update-locale").is_none() {
            return Err(Error::execution("Cannot set locale: \"update-locale\" was not found."));
        }
        // Without arguments the program creates the file if it is missing.
        subprocess::quiet(ctx, &["update-locale"])?;
    }
    write(ctx, path, name, locale)
}

fn write(ctx: &Context, path: &'static str, name: &'static str, locale: String) -> Result<bool> {
    ctx.blocking(move || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let text = with_value(&text, name, &locale);
        util::replace_file(Path::new(path), text.as_bytes(), 0o644).map_err(|error| Error::io("write", path, &error))
    })?;
    Ok(true)
}

/// Makes a locale; returns whether it worked.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' locale.gen_locale 'en_IE.UTF-8 UTF-8'
#[function]
fn gen_locale(ctx: &Context, locale: String, kwargs: KwArgs) -> Result<Value> {
    let os = ctx.grains.get_str("os").unwrap_or_default().to_owned();
    let mut parts = Parts::of(&locale);
    // /etc/locale.gen names the character set a second time, behind a blank.
    if parts.charmap.is_empty() && os != "Ubuntu" {
        parts.charmap = parts.codeset.clone();
    }
    let (full, base) = (parts.joined(), format!("{}_{}", parts.language, parts.territory));
    let known = match os.as_str() {
        "Debian" | "Gentoo" => {
            let text = std::fs::read_to_string("/usr/share/i18n/SUPPORTED").unwrap_or_default();
            text.lines().any(|line| line.trim() == full)
        }
        // Only Debian and Gentoo have a list; elsewhere there is a file for each language.
        _ => Path::new("/usr/share/i18n/locales").join(&base).exists(),
    };
    if !known {
        tracing::error!("The provided locale \"{full}\" is not available");
        return Ok(Value::Bool(false));
    }
    let list = Path::new("/etc/locale.gen");
    if let Ok(text) = std::fs::read_to_string(list) {
        util::replace_file(list, asked_for(&text, &full).as_bytes(), 0o644)
            .map_err(|error| Error::io("write", list, &error))?;
    }
    let said = if util::which("locale-gen").is_some() {
        // Ubuntu's locale-gen takes the short form on its command line.
        let name = if os == "Ubuntu" { Parts::of(&full).normal() } else { full };
        subprocess::quiet(ctx, &["locale-gen", &name])?
    } else if util::which("localedef").is_some() {
        let name = format!("{base}.{}", parts.codeset);
        let words = ["localedef", "--force", "-i", &base, "-f", &parts.codeset, &name, "--quiet"];
        subprocess::quiet(ctx, &words)?
    } else {
        return Err(Error::execution("Command \"locale-gen\" or \"localedef\" was not found on this system."));
    };
    if kwargs.0.get("verbose").is_some_and(Value::truthy) {
        return Ok(said.into_map().into());
    }
    Ok(Value::Bool(said.retcode == Some(0)))
}

/// Uncomments a locale in the list of those to generate, or adds it.
fn asked_for(text: &str, locale: &str) -> String {
    let off = |line: &str| line.trim().strip_prefix('#').is_some_and(|line| line.trim() == locale);
    let mut lines: Vec<&str> = text.lines().map(|line| if off(line) { locale } else { line }).collect();
    if !lines.iter().any(|line| line.trim() == locale) {
        lines.push(locale);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        let parts = Parts::of("de_DE.UTF-8@euro UTF-8");
        assert_eq!(parts.joined(), "de_DE.UTF-8@euro UTF-8");
        assert_eq!(parts.normal(), "de_DE.utf8@euro");
        assert_eq!(Parts::of("C").normal(), "C");
    }

    #[test]
    fn settings_are_read_and_written() {
        assert_eq!(value_in("# x\nLANG=\"de_DE\"\n", "LANG").as_deref(), Some("de_DE"));
        assert_eq!(with_value("A=1\nLANG=x\n", "LANG", "y"), "A=1\nLANG=\"y\"\n");
        assert_eq!(with_value("", "LANG", "y"), "LANG=\"y\"\n");
        assert_eq!(localectl_lang("   System Locale: LANG=C.UTF-8\n    VC Keymap: n/a\n").as_deref(), Some("C.UTF-8"));
        assert_eq!(asked_for("# de_DE UTF-8\nx\n", "de_DE UTF-8"), "de_DE UTF-8\nx\n");
        assert_eq!(asked_for("x\n", "de_DE UTF-8"), "x\nde_DE UTF-8\n");
    }
}
