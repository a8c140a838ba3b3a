//! The functions of Debian's package: sites, modules and configurations are enabled by links.

use std::path::Path;

use exec::{Context, Module, Result, function};
use value::Map;

use super::switch::{What, turn};
use crate::util;

/// Registers the functions of `apache`.
pub static MODULE: Module = Module::new(
    "apache",
    "Functions that turn sites, modules and configurations of Apache on and off.",
    &[
        &A2DISCONF,
        &A2DISMOD,
        &A2DISSITE,
        &A2ENCONF,
        &A2ENMOD,
        &A2ENSITE,
        &CHECK_CONF_ENABLED,
        &CHECK_MOD_ENABLED,
        &CHECK_SITE_ENABLED,
    ],
)
.only_if(|grains| match grains.get_str("os_family") == Some("Debian") && util::is_installed("apache2ctl") {
    true => Ok(()),
    false => Err("apache execution module not loaded: apache not installed.".into()),
})
.provided_by("deb_apache");

/// Returns whether a link of this name exists below /etc/apache2.
fn is_linked(ctx: &Context, folder: &str, name: &str) -> bool {
    let root = ctx.opts.get_str("__root").unwrap_or_default();
    Path::new(&format!("{root}/etc/apache2/{folder}/{name}")).is_symlink()
}

fn with_ending(name: &str) -> String {
    if name.ends_with(".conf") { name.to_owned() } else { format!("{name}.conf") }
}

/// Returns whether a site is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.check_site_enabled example.com
///     salt '*' apache.check_site_enabled example.com.conf
#[function]
fn check_site_enabled(ctx: &Context, site: String) -> Result<bool> {
    let file = with_ending(&site);
    let is = |name: &str| is_linked(ctx, "sites-enabled", name);
    // Debian's package puts 000- before its default site, so that it is read first.
    Ok(is(&file) || (site == "default" && is(&format!("000-{file}"))))
}

/// Enables a site.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2ensite example.com
#[function]
fn a2ensite(ctx: &Context, site: String) -> Result<Map> {
    turn(ctx, What::Site, true, &site)
}

/// Disables a site.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2dissite example.com
#[function]
fn a2dissite(ctx: &Context, site: String) -> Result<Map> {
    turn(ctx, What::Site, false, &site)
}

/// Returns whether a module is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.check_mod_enabled status
///     salt '*' apache.check_mod_enabled status.load
///     salt '*' apache.check_mod_enabled status.conf
#[function]
fn check_mod_enabled(ctx: &Context, r#mod: String) -> Result<bool> {
    let whole = r#mod.ends_with(".load") || r#mod.ends_with(".conf");
    let file = if whole { r#mod } else { format!("{}.load", r#mod) };
    Ok(is_linked(ctx, "mods-enabled", &file))
}

/// Enables a module.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2enmod vhost_alias
#[function]
pub(super) fn a2enmod(ctx: &Context, r#mod: String) -> Result<Map> {
    turn(ctx, What::Mod, true, &r#mod)
}

/// Disables a module.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2dismod vhost_alias
#[function]
pub(super) fn a2dismod(ctx: &Context, r#mod: String) -> Result<Map> {
    turn(ctx, What::Mod, false, &r#mod)
}

/// Returns whether a configuration is enabled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.check_conf_enabled security
///     salt '*' apache.check_conf_enabled security.conf
#[function]
fn check_conf_enabled(ctx: &Context, conf: String) -> Result<bool> {
    Ok(is_linked(ctx, "conf-enabled", &with_ending(&conf)))
}

/// Enables a configuration.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2enconf security
#[function]
fn a2enconf(ctx: &Context, conf: String) -> Result<Map> {
    // Releases before Apache 2.4 have no such program; those for sites and modules are always there.
    util::needs(ctx, "a2enconf")?;
    turn(ctx, What::Conf, true, &conf)
}

/// Disables a configuration.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.a2disconf security
#[function]
fn a2disconf(ctx: &Context, conf: String) -> Result<Map> {
    util::needs(ctx, "a2disconf")?;
    turn(ctx, What::Conf, false, &conf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::{Value, map};

    #[test]
    fn links_tell_what_is_on() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join("etc/apache2").join(path);
        for folder in ["sites-enabled", "mods-enabled", "conf-enabled"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for link in
            ["sites-enabled/000-default.conf", "sites-enabled/a.conf", "mods-enabled/mime.load", "conf-enabled/c.conf"]
        {
            std::os::unix::fs::symlink("/nowhere", at(link)).unwrap();
        }
        // A file that is not a link does not count: Salt looks only at links.
        std::fs::write(at("sites-enabled/file.conf"), "").unwrap();
        static ALWAYS: Module =
            Module::new("apache", "", &[&CHECK_CONF_ENABLED, &CHECK_MOD_ENABLED, &CHECK_SITE_ENABLED]);
        let opts = map! { "__root" => root.path().to_str().unwrap() };
        let (ctx, _agent) = exec::testing::context(&[&ALWAYS], opts, map! {}, map! {});
        for (kind, name, on) in [
            ("site", "default", true),
            ("site", "000-default", true),
            ("site", "a", true),
            ("site", "a.conf", true),
            ("site", "file", false),
            ("site", "b", false),
            ("mod", "mime", true),
            ("mod", "mime.load", true),
            ("mod", "mime.conf", false),
            ("conf", "c", true),
            ("conf", "c.conf", true),
            ("conf", "default", false),
        ] {
            let found = ctx.call(&format!("apache.check_{kind}_enabled"), vec![name.into()]).unwrap();
            assert_eq!(found, Value::from(on), "{kind} {name}");
        }
    }
}
