//! Services that still use files of packages which were replaced.

use std::collections::BTreeSet;

use exec::{Context, Error, KwArgs, Result, function};

use super::program_output;
use crate::util;

/// Returns the services that use files which a package manager has replaced, and may have to be restarted, in order.
/// Needs `checkrestart` of the package debian-goodies.
///
/// CLI Example:
///
/// .. code-block:: bash
///
///     salt '*' pkg.services_need_restart
#[function]
fn services_need_restart(ctx: &Context, kwargs: KwArgs) -> Result<Vec<String>> {
    let _ = kwargs;
    if util::which("checkrestart").is_none() {
        let text = "'checkrestart' is needed. It is part of the 'debian-goodies' package which can be installed from \
                    official repositories.";
        return Err(Error::CommandNotFound(text.into()));
    }
    Ok(services(&program_output(ctx, &["checkrestart", "--machine", "--package"])?))
}

/// Reads lines such as `SERVICE:cron,1234,/usr/sbin/cron`.
fn services(text: &str) -> Vec<String> {
    let named = text.lines().filter_map(|line| Some(line.strip_prefix("SERVICE:")?.split(',').next()?.to_owned()));
    // A set: one service has many processes.
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn services_are_told_once() {
        let text = "PROCESSES: 2\nSERVICE:ssh,12,/usr/sbin/sshd\nSERVICE:cron,3,/usr/sbin/cron\nSERVICE:ssh,13,/usr/sbin/sshd\n";
        assert_eq!(super::services(text), ["cron", "ssh"]);
    }
}
