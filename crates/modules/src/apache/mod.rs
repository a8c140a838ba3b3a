//! `apache` — the web server: its modules, its virtual hosts, its configuration.
//!
//! The functions for all systems are here; [`debian`] and [`suse`] add the programs with which their packages enable
//! and disable sites, modules and configurations.

mod config;
pub mod debian;
mod report;
mod status;
pub mod suse;
mod switch;

use exec::{Call, Context, Module, Result, function};
use value::{Map, Value};

use crate::util;

/// Registers the functions of `apache`.
pub static MODULE: Module = Module::new(
    "apache",
    "Functions that look at the web server Apache and write its configuration.",
    &[
        &config::CONFIG,
        &DIRECTIVES,
        &FULLVERSION,
        &MODULES,
        &status::SERVER_STATUS,
        &SERVERMODS,
        &SIGNAL,
        &USERADD,
        &USERDEL,
        &VERSION,
        &VHOSTS,
    ],
)
.only_if(|grains| match util::is_installed(program(grains)) {
    true => Ok(()),
    false => Err("The apache execution module cannot be loaded: apache is not installed.".into()),
});

/// The program that controls the server. Packages give it different names.
pub fn program(grains: &Map) -> &'static str {
    match grains.get_str("os_family") {
        Some("Debian" | "Suse") => "apache2ctl",
        _ => "apachectl",
    }
}

/// Runs the program with a flag, and returns what it printed.
fn ask(ctx: &Context, flag: &str) -> Result<String> {
    let line = format!("{} {flag}", program(&ctx.grains));
    Ok(ctx.call("cmd.run", vec![line.into()])?.to_string())
}

/// Returns the version of the server.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.version
#[function]
fn version(ctx: &Context) -> Result<String> {
    report::version(&ask(ctx, "-v")?)
}

/// Returns the version of the server and how it was compiled.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.fullversion
#[function]
fn fullversion(ctx: &Context) -> Result<Map> {
    Ok(report::full_version(&ask(ctx, "-V")?))
}

/// Returns the modules of the server, both built-in and loaded ones.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.modules
#[function]
fn modules(ctx: &Context) -> Result<Map> {
    Ok(report::modules(&ask(ctx, "-M")?))
}

/// Returns the modules that are compiled into the server.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.servermods
#[function]
fn servermods(ctx: &Context) -> Result<Vec<String>> {
    Ok(report::compiled_in(&ask(ctx, "-l")?))
}

/// Returns the directives of the server, each with its arguments and the places where it is allowed.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.directives
#[function]
fn directives(ctx: &Context) -> Result<Map> {
    Ok(report::directives(&ask(ctx, "-L")?))
}

/// Returns the virtual hosts of the configuration.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt -t 10 '*' apache.vhosts
#[function]
fn vhosts(ctx: &Context) -> Result<Map> {
    report::virtual_hosts(&ask(ctx, "-S")?)
}

/// The words the control program takes behind `-k`, and those it takes without.
const SIGNALS: [&str; 5] = ["start", "stop", "restart", "graceful", "graceful-stop"];
const REQUESTS: [&str; 3] = ["configtest", "status", "fullstatus"];

/// Starts, stops or restarts the server, or queries it: start, stop, restart, graceful, graceful-stop, configtest,
/// status, fullstatus. Returns the output of the program.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.signal restart
#[function]
fn signal(ctx: &Context, signal: Option<String>) -> Result<Option<String>> {
    let flag = match signal.as_deref() {
        Some(signal) if SIGNALS.contains(&signal) => format!("-k {signal}"),
        Some(request) if REQUESTS.contains(&request) => request.to_owned(),
        _ => return Ok(None),
    };
    let line = format!("{} {flag}", program(&ctx.grains));
    let said = ctx.call("cmd.run_all", vec![line.as_str().into()])?;
    let text = |name: &str| said.get(name).map(Value::to_string).filter(|text| !text.is_empty());
    // A successful test of the configuration also reports on stderr.
    let told = text("stderr").or_else(|| text("stdout")).map(|text| text.trim().to_owned());
    Ok(Some(told.unwrap_or_else(|| format!("Command: \"{line}\" completed successfully!"))))
}

/// Adds a user to a password file, or changes its password. ``opts`` are letters for ``htpasswd``: n (show, do not
/// write), m (MD5), d (crypt), p (plain text), s (SHA1).
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.useradd /etc/httpd/htpasswd larry badpassword
///     salt '*' apache.useradd /etc/httpd/htpasswd larry badpass opts=ns
#[function]
fn useradd(
    ctx: &Context,
    pwfile: String,
    user: String,
    password: String,
    #[default("")] opts: String,
) -> Result<Value> {
    let args = [pwfile, user, password, opts].into_iter().map(Value::from).collect();
    ctx.call_with("webutil.useradd", Call { args, kwargs: Map::new() })
}

/// Removes a user from a password file.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' apache.userdel /etc/httpd/htpasswd larry
#[function]
fn userdel(ctx: &Context, pwfile: String, user: String) -> Result<Value> {
    ctx.call("webutil.userdel", vec![pwfile.into(), user.into()])
}
