//! The versions of this program and its parts.

use exec::{Context, Result, function};
use value::{Map, Value, map};

/// Returns the version: the Salt release this minion behaves like, a plus sign, and its own.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.version
#[function]
pub(super) fn version() -> Result<String> {
    Ok(version_text())
}

/// The version in a form that tools made for Salt can parse.
pub fn version_text() -> String {
    // Tools compare this with versions of Salt, and "+" begins a local part that they ignore.
    format!("{}+saltern.{}", exec::SALT_LINE, exec::VERSION)
}

/// Returns the versions of this program, of its libraries, and of the system.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions_information
#[function]
pub(super) fn versions_information(ctx: &Context) -> Result<Map> {
    Ok(information(&ctx.grains))
}

pub(super) fn information(grains: &Map) -> Map {
    let grain = |name: &str| grains.get(name).map(Value::to_string).unwrap_or_default();
    let join = |names: &[&str]| {
        let parts: Vec<String> = names.iter().map(|name| grain(name)).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    map! {
        "Salt Version" => map! { "Salt" => version_text(), "Saltern" => exec::VERSION },
        "Python Version" => map! { "Python" => () },
        "Dependency Versions" => map! { "OpenSSL" => openssl::version::version() },
        "System Versions" => map! {
            "system" => grain("kernel"),
            "dist" => join(&["osfullname", "osrelease", "oscodename"]).to_lowercase(),
            "release" => grain("kernelrelease"),
            "machine" => grain("cpuarch"),
            "version" => join(&["osfullname", "osrelease", "oscodename"]),
            "locale" => "utf-8",
        },
        "Salt Package Information" => map! { "Package Type" => () },
    }
}

/// Returns the versions of this program, of its libraries, and of the system, as a text.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions_report
#[function]
pub(super) fn versions_report(ctx: &Context) -> Result<String> {
    Ok(report(&information(&ctx.grains)))
}

/// The same as ``test.versions_report``.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' test.versions
#[function]
pub(super) fn versions(ctx: &Context) -> Result<String> {
    Ok(report(&information(&ctx.grains)))
}

/// Lays versions out as `salt --versions-report` does: names right-aligned to the longest of all.
pub(super) fn report(information: &Map) -> String {
    let order =
        ["Salt Version", "Python Version", "Dependency Versions", "Salt Package Information", "System Versions"];
    let sections =
        || order.iter().filter_map(|name| information.get(name).and_then(Value::as_map).map(|map| (name, map)));
    let width = sections().flat_map(|(_, section)| section.text_keys()).map(str::len).max().unwrap_or_default();
    let mut lines = Vec::new();
    for (name, section) in sections() {
        lines.push(format!("{name}:"));
        let mut entries: Vec<(&Value, &Value)> = section.iter().collect();
        // Salt sorts without regard to case.
        entries.sort_by_key(|(name, _)| name.to_string().to_lowercase());
        for (name, version) in entries {
            let shown = if version.is_null() { "Not Installed".to_owned() } else { version.to_string() };
            lines.push(format!("{:>1$}: {shown}", name.to_string(), width + 2));
        }
        lines.push(" ".into());
    }
    lines.pop();
    lines.join("\n")
}
