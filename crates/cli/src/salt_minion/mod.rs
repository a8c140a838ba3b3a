//! `salt-minion`: the minion daemon.

use std::process::ExitCode;

use daemon::Directories;
use rt::Rt;

use crate::args::{Parsed, Program};
use crate::catalogue::CATALOGUE;
use crate::daemons::{self, Ended, Plan};
use crate::prepare::{self, OnMinion};

/// The number of threads for connections and short functions; blocking ones have their own.
const THREADS: usize = 2;

/// Runs the program.
pub fn main(parsed: Parsed) -> ExitCode {
    let OnMinion { config, options, .. } = match prepare::on_minion(Program::SaltMinion, parsed) {
        Ok(prepared) => prepared,
        Err(code) => return code,
    };
    let (log, user, paths) = (config.log.clone(), config.user.clone(), config.paths.clone());
    let mut warnings = config.warnings.clone();
    warnings.extend(config.ineffective());
    warnings.extend(exec::python::warnings(&config.raw, &exec::python::Kind::OF_MINION));
    let directories = paths.verify_env.then(|| Directories {
        all: vec![
            paths.pki_dir.clone(),
            paths.cachedir.clone(),
            paths.cachedir.join("proc"),
            paths.sock_dir.clone(),
            // Modules from the master are written there, and Salt creates it at the start, too.
            paths.extension_modules.clone(),
        ],
        keys: vec![paths.pki_dir.clone()],
        user: user.clone(),
        permissive: paths.permissive_pki_access,
    });
    let plan = Plan {
        program: Program::SaltMinion,
        word: "Minion",
        options: &options,
        conf_file: &paths.conf_file,
        log: &log,
        warnings: &warnings,
        user: &user,
        pidfile: &paths.pidfile,
        directories,
        open_files: None,
        threads: THREADS,
        before_switch: None,
    };
    daemons::run(&plan, |stop, ready| async move {
        Ok(match minion::run(config, CATALOGUE, Rt::real(), stop, ready).await? {
            minion::Ended::Stopped => Ended::Stopped,
            minion::Ended::Restart => Ended::Restart,
        })
    })
}
